"""The static program of scripts/static, in a root that has busybox and nothing else; for the other architecture by qemu-user."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import ROOT, require

pytestmark = pytest.mark.soak
BUILT = {arch: ROOT / f"build/static/rhrun-linux-{arch}" for arch in ("x86_64", "aarch64")}


@pytest.fixture(params=sorted(BUILT))
def root(request, tmp_path):
    """(folder, how the program is called in it, whether it is of this machine's kind)"""
    program = BUILT[request.param]
    if not program.exists():
        pytest.skip("scripts/static has not built it")
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
        pytest.skip(f"no qemu-{request.param}-static")
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
