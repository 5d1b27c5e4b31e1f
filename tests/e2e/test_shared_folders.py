"""Other users of a node: they cannot take over files that rhrun makes in shared folders, and these files are gone afterwards."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

import harness
from harness import missing, wait_for

NOBODY = 65534
KINDS = ["fifo", "folder", "link", "rename", "link-to-file"]


class Island:
    """A machine within this one: own processes and own /tmp, /var/tmp and /dev/shm, with the test's box in them."""

    def __init__(self, box):
        script = 'mount --bind "$0" /mnt && for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o mode=1777 none $d || exit; done && ' \
            'mkdir -p "$0" && mount --move /mnt "$0" && chmod 755 "$0" && echo ready && exec sleep infinity'
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script,
             str(box.dir)], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.prefix = ["nsenter", "-m", "-p", "-t", children.split()[0], "--"]

    def call(self, *argv, **options):
        return subprocess.run([*self.prefix, *map(str, argv)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60,
                              check=True, text=True, **options).stdout

    def left(self, uid):
        """Files of that user's uploads in the shared folders."""
        return self.call("find", "/tmp", "/var/tmp", "/dev/shm", "-maxdepth", 1, "-name", ".rhrun-agent-*", "-user", uid).split()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def island(box, monkeypatch):
    harness.require("mount")
    harness.require("setpriv")
    # The programs there are in the box: this checkout may be in /tmp.
    shutil.copy(harness.RHRUN, box.dir / "rhrun")
    shutil.copy(harness.ROOT / "tests/fleet", box.dir / "fleet")
    monkeypatch.setattr(harness, "RHRUN", box.dir / "rhrun")
    made = Island(box)
    yield made
    made.end()


@pytest.fixture
def fleet_there(box, island, monkeypatch):
    """fleet_there(n): the fleet's sshd run on the island."""
    harness.require("sshd")
    call = subprocess.run
    monkeypatch.setattr(harness.Fleet, "_call", lambda self, *args: call(
        [*island.prefix, str(box.dir / "fleet"), *map(str, args)], env=self.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, timeout=60, check=True))
    return lambda count: harness.Fleet(box.dir / "f0", count)


@pytest.fixture
def attacker(box, island):
    """attacker(): another user plays his attacks from now on; his folder."""
    harness.require("cc")
    folder = box.dir / "attack"
    folder.mkdir()
    folder.chmod(0o777)
    program = folder / "attack"
    source = pathlib.Path(__file__).with_name("attack_upload.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)], check=True)
    (folder / "victim").write_text("of the uploader\n")
    played = []

    def start():
        # With a higher priority: he must see a name before it is used.
        played.append(subprocess.Popen(["nice", "-n", "-10", *island.prefix, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                                        str(program), str(folder)], stdout=subprocess.PIPE))
        assert played[0].stdout.readline() == b"ready\n"
        return folder

    yield start
    for p in played:
        p.kill()
        p.wait()
        p.stdout.close()


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_another_user_of_the_node_runs_nothing(box, island, rhrun, job, fleet_there, attacker, times):
    """Each of his attacks was played that many times."""
    nodes = fleet_there(1)
    spec = job({"cluster": nodes.cluster(), "entrypoint": {"run": "true", "always": True}})
    folder = attacker()
    played = []
    for _ in range(60):
        r = rhrun(spec, prefix=island.prefix, timeout=60)
        owned = (folder / "owned").read_text().split() if (folder / "owned").exists() else []
        assert str(os.geteuid()) not in owned, "another user's program ran as the login user"
        r.ok()  # he is in the way, no more
        played = (folder / "played").read_text().split() if (folder / "played").exists() else []
        if all(played.count(kind) >= times for kind in KINDS):
            break
    assert set(played) == set(KINDS), "he did not get to see the names"
    assert (folder / "victim").read_text() == "of the uploader\n"
    wait_for(lambda: not island.left(os.geteuid()), what="no file of the uploader's")


# ---- the uploader's script, in the shells that nodes have ----

SSH = """#!/bin/sh
for last; do :; done
printf '%s' "$last" >"$RHRUN_TEST_BOX/script"
"""


@pytest.fixture
def script(box, rhrun, job):
    """The text that rhrun has a node run, as sshd gets it."""
    (box.dir / "bin").mkdir()
    (box.dir / "bin/ssh").write_text(SSH)
    (box.dir / "bin/ssh").chmod(0o755)
    spec = job({"cluster": {"hosts": ["node"], "transport": "openssh", "ssh_config": "none"}, "entrypoint": {"run": "true"}})
    rhrun(spec, env={"PATH": f"{box.dir}/bin:{box.env['PATH']}"}).expect(3)
    return (box.dir / "script").read_text()


# Shells that are /bin/sh on some Linux.
SHELLS = [["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"], ["mksh"]]


def sizes(text):
    return {int(n) for n in re.findall(r"bs=(\d+)", text)}


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_an_upload_that_breaks_off_is_not_run(box, script, shell):
    if not shutil.which(shell[0]):
        missing(shell[0], f"apt-get install {shell[0]}")
    size, = sizes(script)
    assert "'" not in script.removeprefix("exec /bin/sh -c '").removesuffix("'") and "!" not in script and "\n" not in script
    env = {"PATH": box.env["PATH"], "HOME": str(box.home), "XDG_RUNTIME_DIR": str(box.dir / "runtime")}
    (box.dir / "runtime").mkdir(mode=0o700)
    text = script.removeprefix("exec /bin/sh -c '").removesuffix("'")
    proof = box.dir / "ran"
    program = f"#!/bin/sh\ntouch {proof}\n".encode()
    for given in (0, 1, len(program), size // 2, size - 1):
        r = subprocess.run([*shell, "-c", text], input=program.ljust(size, b"#")[:given], env=env, cwd=box.home, capture_output=True,
                           timeout=60)
        assert r.returncode == 1 and b"FAILED" in r.stdout and b"the upload broke off" in r.stdout, r
        assert not proof.exists() and not list((box.dir / "runtime").iterdir())
    # The connection's end, as sshd tells it, while the rest is still to come.
    p = subprocess.Popen([*shell, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=box.home,
                         start_new_session=True)
    p.stdin.write(program)
    p.stdin.flush()
    wait_for(lambda: list((box.dir / "runtime").glob(".rhrun-agent-*/rhrun-agent")), what="the upload's file")
    os.killpg(p.pid, signal.SIGHUP)
    p.communicate(timeout=60)
    assert not proof.exists() and not list((box.dir / "runtime").iterdir())
    # The first name is taken: others follow. What came whole is run.
    name = re.search(r"n=([0-9a-f]{32});", text).group(1)
    (box.dir / "runtime" / f".rhrun-agent-{name}").symlink_to(box.work)
    r = subprocess.run([*shell, "-c", text], input=program.ljust(size, b"#"), env=env, cwd=box.home, capture_output=True, timeout=60)
    assert r.returncode == 0 and proof.exists() and not list(box.work.glob("*agent*")), r


def test_a_connection_that_dies_in_the_upload_leaves_no_file(box, island, rhrun, job, fleet_there):
    """Between rhrun and sshd: passes that many bytes, and no more."""
    nodes = fleet_there(1)
    cut = box.dir / "cut.py"
    cut.write_text("""import os, select, socket, sys
port, left = int(sys.argv[1]), int(sys.argv[2])
s = socket.create_connection(("127.0.0.1", port))
while left > 0:
    for fd in select.select([0, s.fileno()], [], [])[0]:
        data = os.read(fd, min(left, 4096) if fd == 0 else 65536)
        if not data:
            sys.exit()
        if fd == 0:
            left -= len(data)
            s.sendall(data)
        else:
            os.write(1, data)
""")
    for left in range(6000, 106000, 20000):
        config = box.dir / "cut_config"
        config.write_text(f"Host node1\n  ProxyCommand {sys.executable} {cut} {nodes.port(1)} {left}\n  HostKeyAlias [127.0.0.1]:{nodes.port(1)}\n" +
                          (nodes.dir / "ssh_config").read_text())
        spec = job({"cluster": nodes.cluster(ssh_config=str(config)), "entrypoint": {"run": "true"}})
        rhrun(spec, prefix=island.prefix).expect(3)
        wait_for(lambda: not island.left(os.geteuid()), what="no file of the uploader's")
