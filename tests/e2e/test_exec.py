"""Hosts without SSH: `exec`, any program of this machine that ends in a shell on the host."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import agent_processes, require, wait_for

STEPS = """
cluster: %s
setup:
  - {name: one, run: 'echo one >>$HOME/lines'}
  - {name: two, run: 'echo two >>$HOME/lines'}
distributed: {nproc_per_node: 1}
entrypoint: {run: '%s'}
"""
WANTED = ["one", "two", "launch"]
LAUNCH = "echo launch >>$HOME/lines; echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR"


def spec_of(hosts, run=LAUNCH):
    return STEPS % (json.dumps({"hosts": hosts}), run)


def home(box, name):
    path = box.path(name)
    path.mkdir()
    return path


def lines(path):
    file = path / "lines"
    return file.read_text().split() if file.exists() else []


def test_every_kind_of_shell_is_a_node(box, job, rhrun, fleet):
    require("ssh")
    f = fleet(1)
    homes = [home(box, f"home{i}") for i in range(3)]
    plain = ["env", f"HOME={homes[0]}", "sh"]
    noisy = ["bash", "-c", f"echo Welcome!; export HOME={homes[1]}; exec sh -s"]
    nested = ["env", f"HOME={homes[2]}", "setsid", "-w", "bash", "--norc"]
    by_hand = ["ssh", "-F", str(f.dir / "ssh_config"), "node1", "sh"]
    spec = job(spec_of([{"name": f"n{i}", "exec": argv, "address": "127.0.0.1"}
                        for i, argv in enumerate([plain, noisy, nested, by_hand])]))
    r = rhrun(spec).ok()
    assert [lines(h) for h in homes] + f.all_lines() == [WANTED] * 4
    for rank in range(4):
        assert f"rank {rank} of 4 at 127.0.0.1" in r.out
    assert "nothing to do" in rhrun(spec).ok().err
    assert [lines(h) for h in homes] + f.all_lines() == [WANTED] * 4


@pytest.fixture
def namespace():
    """A network namespace, with its loopback up."""
    require("ip")
    name = f"rhrun{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may")
def test_as_root_may_change_the_user_the_root_or_the_network(box, job, rhrun, namespace):
    require("sudo")
    there = home(box, "nobody")
    shutil.chown(there, 65534, 65534)
    os.chmod(box.dir, 0o755)
    hosts = [{"name": "user", "exec": ["sudo", "-n", "-u", "nobody", "env", f"HOME={there}", "sh"]},
             {"name": "net", "exec": ["ip", "netns", "exec", namespace, "env", f"HOME={home(box, 'net')}", "sh"]},
             {"name": "root", "exec": ["chroot", "/", "env", f"HOME={home(box, 'chroot')}", "/bin/sh"]}]
    spec = spec_of(hosts, "echo launch >>$HOME/lines; id -u; grep -c : /proc/net/dev").replace(
        "nproc_per_node: 1", "nproc_per_node: 1, preflight: off")  # they cannot reach each other, and need not
    r = rhrun(job(spec)).ok()
    assert lines(there) == WANTED and (there / "lines").stat().st_uid == 65534
    out = r.out.splitlines()
    assert any("@user" in line and line.endswith(": 65534") for line in out), r
    assert any("@net" in line and line.endswith(": 1") for line in out), r  # its loopback, and nothing else


def test_a_connection_that_ends_is_made_again(box, job, rhrun):
    h = home(box, "home")
    spec = job(spec_of([{"name": "n1", "exec": ["env", f"HOME={h}", "sh"]}],
                       "echo launch >>$HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.1; done; echo went on"))
    run = box.start(spec)
    wait_for(lambda: lines(h) == WANTED, what="the launch")
    [agent], _ = agent_processes(h)
    os.kill(agent.pid, signal.SIGKILL)
    run.wait_text("the node is back")
    (h / "go").touch()
    r = run.wait().ok()
    assert "went on" in r.out and lines(h) == WANTED


def test_killed_half_way_and_run_again(box, job, rhrun):
    h = home(box, "home")
    spec = job(spec_of([{"name": "n1", "exec": ["env", f"HOME={h}", "sh"]}],
                       "echo launch >>$HOME/lines; sleep 1; echo done"))
    run = box.start(spec)
    wait_for(lambda: lines(h) == WANTED, what="the launch")
    run.kill9()
    r = rhrun(spec).ok()
    assert lines(h) == WANTED and "done" in r.out


def test_what_is_no_way_to_a_shell(box, job, rhrun):
    def said(argv, status=3):
        return rhrun(job(spec_of([{"name": "n1", "exec": argv}]))).expect(status).err

    err = said(["no-such-program", "exec", "-i"])
    assert 'cannot start "no-such-program": No such file or directory' in err
    err = said(["sh", "-c", "echo Error: No such container: n1 >&2; exit 1"])
    assert 'host "n1": connect: sh ended with status 1: Error: No such container: n1' in err
    assert "try it by hand: sh -c 'echo Error" in err
    err = said(["cat", "/dev/null"])
    assert "cat ended well, but no shell answered" in err
    began = time.monotonic()
    err = said(["sleep", "1000"])
    assert "no shell answered within 10 s" in err and time.monotonic() - began < 60
    err = said(["script", "-qc", "sh", "/dev/null"])
    assert "its shell is at a terminal" in err and "-t" in err


def test_looking_starts_nothing(box, job, rhrun):
    h = home(box, "home")
    spec = job(spec_of([{"name": "n1", "exec": ["sh", "-c", f"touch {h}/ran; HOME={h} exec sh"]}]))
    rhrun("validate", spec).ok()
    rhrun("plan", "--offline", spec).ok()
    err = rhrun("plan", spec).expect(2).err
    assert 'host "n1": its spec says to run sh -c ' in err and "--trust" in err
    assert not (h / "ran").exists()
    rhrun("plan", "--trust", spec).ok()
    assert (h / "ran").exists()
