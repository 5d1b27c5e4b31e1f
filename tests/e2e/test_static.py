"""The static program of scripts/static, in a root that has only busybox; for the other architecture with qemu-user."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import ROOT, missing, require
from wants_password import wants_password

pytestmark = pytest.mark.soak
BUILT = {arch: ROOT / f"build/static/rhrun-linux-{arch}" for arch in ("x86_64", "aarch64")}


@pytest.fixture(params=sorted(BUILT))
def root(request, tmp_path):
    """(folder, how the program is called in it, whether it is of this machine's kind)"""
    program = BUILT[request.param]
    if not program.exists():
        missing(f"the static program for {request.param}", f"scripts/static {request.param}")
    require("mount")
    require("busybox")
    for name in ("bin", "proc", "dev", "tmp", "root", "etc"):
        (tmp_path / name).mkdir()
    shutil.copy(program, tmp_path / "bin/rhrun")
    shutil.copy(os.path.realpath(shutil.which("busybox")), tmp_path / "bin/busybox")
    for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
        if not (tmp_path / "bin" / name).exists():
            (tmp_path / "bin" / name).symlink_to("busybox")
    shutil.copytree(ROOT / "specs/examples", tmp_path / "root/examples")
    native = request.param == os.uname().machine
    if native:
        return tmp_path, "rhrun", True
    emulator = shutil.which(f"qemu-{request.param}-static")
    if not emulator:
        missing(f"qemu-{request.param}-static", "apt-get install qemu-user-static")
    shutil.copy(emulator, tmp_path / "bin/qemu")
    return tmp_path, "qemu /bin/rhrun", False


def inside(folder, text):
    """text, by busybox' shell, in processes and mounts of its own."""
    script = ('mount -t proc proc "$0/proc" && : >"$0/dev/null" && mount --bind /dev/null "$0/dev/null" && '
              'exec chroot "$0" /bin/busybox env -i PATH=/bin HOME=/root /bin/sh -c "cd /root && $1"')
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, str(folder), text], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    return done.returncode, done.stdout + done.stderr


def is_static(path):
    head = pathlib.Path(path).read_bytes()
    at, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    kinds = {int.from_bytes(head[at + i * size:at + i * size + 4], "little") for i in range(count)}
    return head[:4] == b"\x7fELF" and 3 not in kinds  # PT_INTERP


def test_runs_where_nothing_is(root):
    folder, rhrun, native = root
    assert is_static(folder / "bin/rhrun")
    rc, out = inside(folder, f"{rhrun} --version")
    assert rc == 0 and re.search(r"^libcurl \d.*libxml2 \d", out, re.M) and "agents: x86_64, aarch64" in out, out
    rc, out = inside(folder, f"{rhrun} validate examples/hello.yaml examples/two-nodes-local.yaml")
    assert rc == 0, out
    if not native:
        return  # its agent would need the kernel's help to start
    rc, out = inside(folder, f"{rhrun} examples/two-nodes-local.yaml && {rhrun} examples/two-nodes-local.yaml")
    assert rc == 0 and out.count("nothing to do") == 1, out


@pytest.fixture
def server(tmp_path):
    """An https server whose name nobody but /etc/hosts knows, whose certificate nobody but its own CA signed: its port, what
    it was asked. Who asks is to give a password."""
    require("openssl")
    certs = tmp_path / "certs"
    certs.mkdir()

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=certs, timeout=60)
    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl("req", "-x509", *new, "-subj", "/CN=an authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *new, "-subj", "/CN=x", "-keyout", "own.key", "-out", "own.csr")
    (certs / "names").write_text("subjectAltName=DNS:forge.rhrun.test\n")
    openssl("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "own.pem")
    with wants_password(certs / "own.pem", certs / "own.key") as (port, asked):
        yield port, certs / "ca.pem", asked


@pytest.mark.parametrize("by", ["git", "prices"])
def test_names_and_certificates_where_nothing_is(root, server, by):
    """By libgit2 and by libcurl: the name is that of /etc/hosts, and the server is believed where its CA is named, or is where
    a distribution has it; else it is asked nothing."""
    folder, rhrun, _ = root
    port, ca, asked = server
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.0.1 forge.rhrun.test\n")
    (folder / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    (folder / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
    shutil.copy(ca, folder / "root/ca.pem")
    command, path = f"{rhrun} plan job.yaml", "/x/info/refs"
    if by == "git":
        (folder / "root/job.yaml").write_text(f"workdir: {{git: 'https://forge.rhrun.test:{port}/x'}}\nentrypoint: {{run: 'true'}}\n")
    else:
        command, path = f"VULTR_API_KEY=k {rhrun} prices --refresh --provider vultr", "/v2/"
        (folder / "root/.config/rhrun/providers").mkdir(parents=True)
        text = (ROOT / "tests/e2e/clouds/vultr.yaml").read_text().replace("https://api.vultr.com/v2", f"https://forge.rhrun.test:{port}/v2")
        (folder / "root/.config/rhrun/providers/vultr.yaml").write_text(text)
    rc, out = inside(folder, command)
    assert rc != 0 and "certificate" in out.lower() and not asked, out
    for env in ("SSL_CERT_FILE=/root/ca.pem", "GIT_SSL_CAINFO=/root/ca.pem" if by == "git" else "RHRUN_CA_FILE=/root/ca.pem"):
        asked.clear()
        rc, out = inside(folder, f"{env} {command}")
        assert rc != 0 and asked and asked[0].startswith(path) and "certificate" not in out.lower(), out
    (folder / "etc/ssl/certs").mkdir(parents=True)
    shutil.copy(ca, folder / "etc/ssl/certs/ca-certificates.crt")
    asked.clear()
    rc, out = inside(folder, command)
    assert asked and asked[0].startswith(path), out
