"""Full disks, odd homes, processes and hosts that die at the wrong time: each with its message, and the way back.

test_survive.py has the plain case of each fault; this file has the worse cases: before the first contact, during output, twice,
on several nodes, everything at once.
"""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import agent_processes, is_agent, processes_of, wait_for, workers_of

LIVENESS = {"RHRUN_LIVENESS_MS": "1500"}
TIMES = int(os.environ.get("RHRUN_TEST_FAULT_TIMES", "3"))


def waiting_job(cluster=None, stop="/nonexistent", launch=None, **distributed):
    launch = launch or "echo ready; while [ ! -e $STOP ]; do sleep 0.05; done; echo done >>$HOME/lines"
    spec = {"setup": [{"name": "one", "run": "echo one >>$HOME/lines"}], "env": {"STOP": str(stop)},
            "distributed": {"nproc_per_node": 1, **distributed}, "entrypoint": {"run": launch}}
    if cluster:
        spec["cluster"] = cluster
    return spec


def kill(found, number=signal.SIGKILL):
    for p in found:
        try:
            os.kill(p.pid, number)
        except ProcessLookupError:
            pass


def agents_on(home):
    """Serving agents of one node: those that have its HOME."""
    return [p for p in processes_of(home) if is_agent(p) and not p.comm.startswith("rhrun-supervis")
            and p.environ.get(b"HOME") == str(home).encode()]


def ballast(folder, leave):
    """Fills a file system except for `leave` bytes; returns the file to remove."""
    path = folder / "ballast"
    free = os.statvfs(folder)
    with open(path, "wb") as f:
        f.write(b"x" * max(0, free.f_bavail * free.f_frsize - leave))
    return path


# ---- disks that are full ----

def test_full_before_the_first_contact(box, fleet, rhrun, mounted):
    f = fleet(2)
    mounted(f.home(2), "size=256k,mode=755")
    full = ballast(f.home(2), 0)
    spec = box.spec(waiting_job(f.cluster(), launch="echo done >>$HOME/lines"))
    r = rhrun(spec).expect(3)
    assert "node2" in r.err and re.search(r"[Nn]o space", r.err), r
    full.unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(f.home(2))], check=True)
    rhrun(spec).ok()
    assert f.all_lines() == [["one", "done"]] * 2


def test_full_while_a_launch_writes(box, fleet, rhrun, mounted):
    """Output that fits nowhere is counted and marked in the log; the worker goes on and its status is kept."""
    f = fleet(1)
    mounted(f.home(1), "size=3m,mode=755")
    stop = box.dir / "stop"
    launch = ("echo first; while [ ! -e $STOP ]; do sleep 0.02; done; head -c 3000000 /dev/zero | tr '\\0' a | fold -w 100; "
              "echo; echo last; exit 7")
    spec = box.spec(waiting_job(f.cluster(), stop=stop, launch=launch))
    r = box.start("--no-prefix", spec)
    r.wait_text("first")
    full = ballast(f.home(1), 0)
    stop.touch()
    done = r.wait(60).expect(1)
    assert "exit status 7" in done.err and "node1" in done.err, done
    log = rhrun("logs", "--no-prefix", "--step", "launch", spec).ok()
    dropped = [int(n) for n in re.findall(r"(\d+) bytes of output dropped here \(disk full\)", log.text)]
    assert dropped, log
    written = log.out.count("a") - log.text.count("dropped here")
    assert abs(written + sum(dropped) - 3_000_000) < 40_000, f"{written} bytes are there, {dropped} were dropped"
    said = f"launch on node1: {sum(dropped) / 1e6:.1f} MB of its output were dropped (the node's disk was full)"
    assert f"rhrun: warning: {said}" in done.err and said in rhrun("status", spec).ok().out, done
    full.unlink()
    assert rhrun(spec).rc == 1


def test_more_output_than_log_limit(box, fleet, rhrun):
    """Nobody takes it: the controller is killed. What the limit drops is told by the next one, in the event, and by status."""
    f = fleet(1)
    go, done = box.dir / "go", box.dir / "done"
    launch = f"echo first; until [ -e {go} ]; do sleep 0.02; done; head -c 3000000 /dev/zero | tr '\\0' a | fold -w 100; touch {done}"
    spec = box.spec({"cluster": f.cluster(), "log_limit": "1MB", "entrypoint": {"run": launch}})
    r = box.start("--no-prefix", spec)
    r.wait_text("first")
    r.kill9()
    go.touch()
    wait_for(done.exists, what="the end of the output")
    result = rhrun("--no-prefix", spec).ok()
    dropped = int(re.search(r"(\d+) bytes of output dropped here \(log limit\)", result.text)[1])
    said = f"launch on node1: {dropped / 1e6:.1f} MB of its output were dropped (more than `log_limit` waited to be fetched)"
    assert f"rhrun: warning: {said}" in result.err, result
    assert said in rhrun("status", spec).ok().out
    step = next(s for s in rhrun("status", "--json", spec).ok().json()["steps"] if s["step"] == "launch")
    assert step["dropped_by"] == "limit" and step["dropped_bytes"] == dropped and 1_900_000 < dropped < 2_200_000
    assert "can be 1MB at least" in rhrun("validate", "--set", "log_limit=0MB", spec).expect(2).err


def test_full_in_the_middle_of_setup_on_one_of_two(box, fleet, rhrun, mounted):
    f = fleet(2)
    mounted(f.home(1), "size=2m,mode=755")
    fill = "[ ! -e $HOME/tight ] || { head -c 9000000 /dev/zero >$HOME/fill 2>/dev/null || true; }"
    spec = box.spec({"cluster": f.cluster(), "distributed": {"nproc_per_node": 1},
                     "setup": [{"name": "a", "run": f"echo a >>$HOME/lines; {fill}"}, {"name": "b", "run": "echo b >>$HOME/lines"}],
                     "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    (f.home(1) / "tight").touch()
    r = rhrun(spec)
    assert r.rc in (1, 3) and "node1" in r.err and re.search(r"[Nn]o space", r.err), r
    (f.home(1) / "fill").unlink()
    (f.home(1) / "tight").unlink()
    rhrun(spec).ok()
    assert f.all_lines() == [["a", "b", "launch"]] * 2


def test_state_directory_full_while_output_flows(box, rhrun, mounted):
    """The controller cannot keep any more: exit 3, and the next run still has the whole log."""
    mounted(box.state, "size=2m,mode=700")
    stop = box.dir / "stop"
    lines = 60000
    spec = box.spec(waiting_job(stop=stop, launch=f"echo ready; while [ ! -e $STOP ]; do sleep 0.02; done; seq 1 {lines}; echo end >>$HOME/lines"))
    r = box.start("--no-prefix", spec)
    r.wait_text("ready")
    full = ballast(box.state, 100_000)
    stop.touch()
    done = r.wait(60).expect(3)
    assert re.search(r"[Nn]o space|full", done.err), done
    full.unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(box.state)], check=True)
    wait_for(lambda: not workers_of(box.dir), 30, "the worker's end")
    again = rhrun("--no-prefix", spec)
    assert again.rc in (0, 1), again
    if again.rc == 1: # it was stopped: that is said, and it is launched anew
        rhrun("--no-prefix", spec).ok()
    log = rhrun("logs", "--no-prefix", "--step", "launch", spec).ok().out.split()
    assert log[-1] == str(lines) and "ready" in log
    assert box.lines()[0] == "one" and box.lines().count("one") == 1


# ---- homes ----

def test_a_home_that_becomes_read_only(box, fleet, rhrun, mounted):
    """An existing ledger is not replaced by another one elsewhere: finished work would be done again."""
    f = fleet(1)
    mounted(f.home(1), "size=8m,mode=755")
    marks = box.dir / "marks"
    spec = box.spec({"cluster": f.cluster(), "setup": [{"name": "s", "run": f"echo s >>{marks}"}],
                     "entrypoint": {"run": f"echo launch >>{marks}"}})
    rhrun(spec).ok()
    subprocess.run(["mount", "-o", "remount,ro", str(f.home(1))], check=True)
    try:
        r = rhrun("--again", spec)
        assert r.rc == 3 and "node1" in r.err and re.search(r"[Rr]ead-only", r.err), r
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(f.home(1))], check=True)
    rhrun("--again", spec).ok()
    assert marks.read_text().split() == ["s", "launch", "launch"]


def test_shared_home_survives_crashes(box, fleet):
    f = fleet(3, shared_home=True)
    mark = "echo %s >>$HOME/lines.${{ node.rank }}"
    spec = box.spec({"cluster": f.cluster(), "setup": [{"name": "s", "run": mark % "s"}],
                     "distributed": {"nproc_per_node": 1}, "entrypoint": {"run": mark % "launch"}})
    for after in (3, 6, 9):
        box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
    wait_for(lambda: box.run(spec).rc == 0, what="the job to be free")
    assert [f.lines(1, f"lines.{n}") for n in range(3)] == [["s", "launch"]] * 3


# ---- processes that are killed ----

@pytest.mark.parametrize("where", ["local", "ssh"])
def test_agents_killed_again_and_again(box, fleet, where):
    f = fleet(1) if where == "ssh" else None
    home = f.home(1) if f else box.home
    stop = box.dir / "stop"
    r = box.start(box.spec(waiting_job(f and f.cluster(), stop=stop)), env=LIVENESS)
    r.wait_text("ready")
    for _ in range(TIMES):
        found = wait_for(lambda: agents_on(home), 30, "a serving agent")
        kill(found)
        old = {p.pid for p in found}
        wait_for(lambda: any(p.pid not in old for p in agents_on(home)), 30, "the next one")
    stop.touch()
    r.wait().ok()
    assert (f.lines(1) if f else box.lines()) == ["one", "done"]


@pytest.mark.parametrize("with_workers", [False, True], ids=["supervisor", "all-of-the-node"])
def test_everything_on_one_node_is_killed(box, fleet, with_workers):
    """The launch of one node is unknown: it is named, the others are stopped, and it is done again if allowed."""
    f = fleet(2)
    stop = box.dir / "stop"
    spec = box.spec(waiting_job(f.cluster(), stop=stop, max_restarts=0))
    r = box.start(spec, env=LIVENESS)
    r.wait_text(r"(?s)ready.*ready")
    home = str(f.home(2)).encode()
    of_node = [p for p in processes_of(f.home(2)) if p.environ.get(b"HOME") == home]
    supervisors = [p for p in of_node if p.comm.startswith("rhrun-supervis")]
    assert supervisors
    kill(supervisors)
    if with_workers:
        kill([p for p in of_node if p.attempt or is_agent(p)])
    done = r.wait().expect(1)
    assert "node2" in done.err and re.search(r"unknown|lost", done.err), done
    wait_for(lambda: not workers_of(box.dir), 15, "the workers of both nodes to be ended")
    stop.touch()
    box.run(spec).ok()
    assert f.all_lines() == [["one", "done"]] * 2


def test_a_restart_after_a_killed_supervisor(box):
    stop = box.dir / "stop"
    spec = box.spec(waiting_job(stop=stop, max_restarts=1))
    r = box.start(spec)
    r.wait_text("ready")
    kill(agent_processes(box.dir)[1])
    r.wait_text(r"(?s)ready.*ready")
    stop.touch()
    r.wait().ok()
    assert box.lines() == ["one", "done"]


def test_sshd_dies_during_setup(box, fleet):
    f = fleet(2)
    stop = box.dir / "stop"
    spec = box.spec({"cluster": f.cluster(), "env": {"STOP": str(stop)}, "distributed": {"nproc_per_node": 1},
                     "setup": [{"name": "slow", "run": "echo slow >>$HOME/lines; while [ ! -e $STOP ]; do sleep 0.05; done"}],
                     "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    r = box.start(spec, env=LIVENESS)
    wait_for(lambda: f.all_lines() == [["slow"]] * 2, what="the step on both nodes")
    f.stop(1)
    r.wait_text(r"node1.*(lost|closed|ended|reset|reconnect)", 30)
    stop.touch()
    f.start(1)
    r.wait().ok()
    assert f.all_lines() == [["slow", "launch"]] * 2


# ---- hosts and networks ----

def test_a_host_frozen_during_setup(box, fleet):
    f = fleet(2)
    stop = box.dir / "stop"
    spec = box.spec({"cluster": f.cluster(), "env": {"STOP": str(stop)}, "distributed": {"nproc_per_node": 1},
                     "setup": [{"name": "slow", "run": "echo slow >>$HOME/lines; while [ ! -e $STOP ]; do sleep 0.05; done"}],
                     "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    r = box.start(spec, env=LIVENESS)
    wait_for(lambda: f.all_lines() == [["slow"]] * 2, what="the step on both nodes")
    f.freeze(2)
    r.wait_text(r"node2.*nothing heard", 30)
    stop.touch()
    f.thaw(2)
    r.wait().ok()
    assert f.all_lines() == [["slow", "launch"]] * 2


def test_the_network_is_cut_again_and_again(box, fleet):
    f = fleet(1)
    spec = box.spec(waiting_job(f.cluster(), stop=box.dir / "stop", launch=(
        "for part in $(seq 0 %d); do seq $((part*5000)) $((part*5000+4999)); echo \"to stderr $part\" >&2; "
        "while [ ! -e $STOP.$part ]; do sleep 0.02; done; done" % TIMES)))
    r = box.start("--no-prefix", spec, env=LIVENESS)
    for part in range(TIMES):
        r.wait_text(rf"\n{part * 5000 + 2000}\n")
        f.stop(1)
        (box.dir / f"stop.{part}").touch()
        f.start(1)
        r.wait_text(rf"\n{(part + 1) * 5000}\n")
    (box.dir / f"stop.{TIMES}").touch()
    done = r.wait().ok()
    wanted = "".join(f"{i}\n" for i in range((TIMES + 1) * 5000))
    assert done.out == wanted
    assert box.run("logs", "--no-prefix", "--step", "launch", spec).ok().out == wanted


def test_all_hosts_are_cut_at_once(box, fleet):
    f = fleet(3)
    stop = box.dir / "stop"
    spec = box.spec(waiting_job(f.cluster(), stop=stop))
    r = box.start(spec, env=LIVENESS)
    r.wait_text(r"(?s)ready.*ready.*ready")
    for i in (1, 2, 3):
        f.stop(i)
    stop.touch()
    wait_for(lambda: not workers_of(box.dir), 30, "the workers to end on their own")
    for i in (1, 2, 3):
        f.start(i)
    r.wait().ok()
    assert f.all_lines() == [["one", "done"]] * 3


def test_a_host_that_does_not_come_back(box, fleet):
    """Unreachable for good: exit 3 and its name; its work is not given up, and is resumed when it is back."""
    f = fleet(2)
    stop = box.dir / "stop"
    spec = box.spec(waiting_job(f.cluster(), stop=stop))
    r = box.start(spec, env={**LIVENESS, "RHRUN_RECONNECT_MS": "2000"})
    r.wait_text(r"(?s)ready.*ready")
    f.stop(2)
    done = r.wait(60).expect(3)
    assert "node2" in done.err, done
    f.start(2)
    stop.touch()
    wait_for(lambda: box.run(spec).rc == 0, what="the job to be done")
    assert [lines.count("one") for lines in f.all_lines()] == [1, 1]


# ---- the ledger ----

def test_a_damaged_ledger_entry(box, rhrun):
    """A senseless record is named, never believed, and blocks nothing."""
    spec = box.spec({"setup": [{"name": "s", "run": "echo s >>$HOME/lines"}], "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    rhrun(spec).ok()
    records = sorted(box.home.glob(".rhrun/m/*/jobs/*/a/*/status"))
    assert len(records) == 2
    for path in records:
        path.write_bytes(os.urandom(path.stat().st_size))
    r = rhrun("--again", spec).ok()
    assert box.lines() == ["s", "launch", "s", "launch"], r
    assert json.dumps(rhrun("status", "--json", spec).ok().json())


def test_the_ledger_is_removed(box, rhrun):
    spec = box.spec({"setup": [{"name": "s", "run": "echo s >>$HOME/lines"}], "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    rhrun(spec).ok()
    shutil.rmtree(box.home / ".rhrun")
    r = rhrun(spec).ok()
    assert "nothing to do" in r.err and "warning" in r.err, r
    rhrun("--again", spec).ok()
    assert box.lines() == ["s", "launch", "s", "launch"]
