"""What a job must survive: frozen and dead hosts, killed agents and supervisors, full and odd file systems."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import RHRUN, agent_processes, require, wait_for, workers_of

# The bound within which a silent host is found, made short. (The default is 15 s.)
LIVENESS = {"RHRUN_LIVENESS_MS": "2000"}


def waiting_job(cluster=None, launch="echo ready; while [ ! -e $STOP ]; do sleep 0.05; done; echo done >>$HOME/lines", stop="/nonexistent"):
    spec = {"setup": [{"name": "one", "run": "echo one >>$HOME/lines"}], "env": {"STOP": str(stop)},
            "distributed": {"nproc_per_node": 1}, "entrypoint": {"run": launch}}
    if cluster:
        spec["cluster"] = cluster
    return spec


def kill_all(found):
    assert found
    for p in found:
        os.kill(p.pid, signal.SIGKILL)


# ---- hosts that disappear ----

def test_a_frozen_host_is_found_named_and_reattached(box, fleet):
    f = fleet(2)
    stop = box.dir / "stop"
    r = box.start(box.spec(waiting_job(f.cluster(), stop=stop)), env=LIVENESS)
    r.wait_text(r"(?s)ready.*ready")
    f.freeze(2)
    began = time.monotonic()
    # The agent is a child of sshd and frozen with it; the worker is not.
    r.wait_text(r"node2.*(lost|answer|silent|heard)", 30)
    assert time.monotonic() - began < 15
    f.thaw(2)
    r.wait_text(r"node2.*(back|again|reconnect)", 60)
    stop.touch()
    r.wait().ok()
    assert f.all_lines() == [["one", "done"]] * 2


def test_a_host_frozen_while_connecting(box, fleet, rhrun):
    f = fleet(2)
    f.freeze(2)
    r = rhrun(box.spec(waiting_job(f.cluster())), timeout=60).expect(3)
    assert "node2" in r.err
    f.thaw(2)


def test_sshd_dies_with_its_sessions(box, fleet):
    f = fleet(2)
    stop = box.dir / "stop"
    r = box.start(box.spec(waiting_job(f.cluster(), stop=stop)), env=LIVENESS)
    r.wait_text(r"(?s)ready.*ready")
    f.stop(1)
    r.wait_text(r"node1.*(lost|closed|ended|reset)", 30)
    stop.touch()
    f.start(1)
    r.wait().ok()
    assert f.all_lines() == [["one", "done"]] * 2


def test_the_network_is_cut_during_output(box, fleet):
    f = fleet(1)
    stop = box.dir / "stop"
    # 2 MB in pieces, the cut somewhere inside.
    launch = ("i=0; while [ $i -lt 40 ]; do seq $((i*1000)) $((i*1000+999)) | sed 's/^/the line of output number /'; "
              "i=$((i+1)); [ $i != 10 ] || while [ ! -e $STOP ]; do sleep 0.05; done; done")
    spec = box.spec(waiting_job(f.cluster(), launch=launch, stop=stop))
    r = box.start("--no-prefix", spec, env=LIVENESS)
    r.wait_text("number 3000\n")
    f.stop(1)
    stop.touch()
    wait_for(lambda: not workers_of(box.dir), 60, "the worker to write the rest on its own")
    f.start(1)
    done = r.wait().ok()
    wanted = "".join(f"the line of output number {i}\n" for i in range(40000))
    assert done.out == wanted
    assert box.run("logs", "--no-prefix", "--step", "launch", spec).ok().out == wanted


# ---- processes that are killed ----

@pytest.mark.parametrize("where", ["local", "ssh"])
def test_the_serving_agent_is_killed(box, fleet, where):
    f = fleet(1) if where == "ssh" else None
    stop = box.dir / "stop"
    r = box.start(box.spec(waiting_job(f and f.cluster(), stop=stop)), env=LIVENESS)
    r.wait_text("ready")
    serving, supervisors = agent_processes(box.dir)
    assert supervisors, "no supervisor was found"
    kill_all(serving)
    stop.touch()
    r.wait().ok()
    assert (f.lines(1) if f else box.lines()) == ["one", "done"]


@pytest.mark.parametrize("both", [False, True], ids=["supervisor", "supervisor-and-agent"])
def test_the_supervisor_is_killed(box, rhrun, both):
    """Its result is unknown: rhrun says so, ends its processes, and never takes it for success."""
    spec = box.spec(waiting_job(stop=box.dir / "stop"))
    r = box.start(spec)
    r.wait_text("ready")
    serving, supervisors = agent_processes(box.dir)
    kill_all(supervisors + (serving if both else []))
    done = r.wait()
    assert done.rc != 0, done
    assert re.search(r"unknown|lost", done.err), done
    wait_for(lambda: not workers_of(box.dir), 10, "its workers to be ended")
    (box.dir / "stop").touch()
    rhrun(spec).ok()
    assert box.lines() == ["one", "done"]


def test_a_setup_step_of_unknown_outcome_can_be_made_to_stop(box, rhrun):
    step = {"name": "s", "run": "echo s >>$HOME/lines; echo ready; [ -e $HOME/quick ] || sleep 600", "on_unknown": "fail"}
    spec = box.spec({"setup": [step], "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    r = box.start(spec)
    wait_for(lambda: box.lines() == ["s"], what="the step")
    kill_all(agent_processes(box.dir)[1])
    done = r.wait()
    assert done.rc != 0 and "unknown" in done.err, done
    assert "launch" not in box.lines()


def test_power_loss_between_start_and_end(box, rhrun):
    """A changed boot id: live work is unknown, settled work holds."""
    spec = box.spec({"setup": [{"name": "s", "run": "echo s >>$HOME/lines"}],
                     "entrypoint": {"run": "echo launch >>$HOME/lines; [ -e $HOME/quick ] || { echo ready; sleep 600; }"}})
    r = box.start(spec)
    r.wait_text("ready")
    r.kill9()
    kill_all(agent_processes(box.dir)[1] + workers_of(box.dir))
    (box.home / "quick").touch()
    rhrun(spec, env={"RHRUN_TEST_BOOT_ID": "another-boot"})
    assert box.lines().count("s") == 1
    rhrun(spec, env={"RHRUN_TEST_BOOT_ID": "another-boot"}).ok()
    assert box.lines().count("s") == 1


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_an_hour_off(box, rhrun, hours):
    spec = box.spec(waiting_job(launch="echo done >>$HOME/lines"))
    rhrun(spec, env={"RHRUN_TEST_CLOCK_OFFSET_MS": hours * 3600 * 1000}).ok()
    assert "nothing to do" in rhrun(spec).ok().err
    rhrun("--again", spec).ok()
    assert box.lines() == ["one", "done", "done"]


# ---- file systems ----

def test_the_nodes_disk_is_full(box, fleet, rhrun, mounted):
    f = fleet(1)
    mounted(f.home(1), "size=1500k,mode=755")
    spec = box.spec({"cluster": f.cluster(),
                     "setup": [{"name": "fill", "run": "echo fill >>$HOME/lines; head -c 9000000 /dev/zero >$HOME/fill 2>/dev/null || true"},
                               {"name": "next", "run": "echo next >>$HOME/lines2"}],
                     "entrypoint": {"run": "echo launch"}})
    r = rhrun(spec)
    # The step that filled the disk did end with 0, and its preallocated status file could not lose that.
    assert f.lines(1) == ["fill"]
    assert r.rc in (1, 3) and re.search(r"[Nn]o space|full", r.err) and "node1" in r.err, r
    (f.home(1) / "fill").unlink()
    rhrun(spec).ok()
    assert f.lines(1) == ["fill"] and f.lines(1, "lines2") == ["next"]


def test_the_state_directory_is_full(box, rhrun, mounted):
    mounted(box.state, "size=400k,mode=700")
    (box.state / "ballast").write_bytes(b"x" * 200_000)
    spec = box.spec({"setup": [{"name": f"s{i}", "run": f"echo s{i} >>$HOME/lines; head -c 30000 /dev/urandom | base64"} for i in range(8)],
                     "entrypoint": {"run": "echo launch >>$HOME/lines"}})
    r = rhrun(spec).expect(3)
    assert re.search(r"[Nn]o space|full", r.err), r
    (box.state / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(box.state)], check=True)
    rhrun(spec).ok()
    assert sorted(box.lines()) == sorted([f"s{i}" for i in range(8)] + ["launch"])


@pytest.mark.parametrize("options", ["ro", "noexec"])
def test_an_odd_home(box, fleet, rhrun, mounted, options):
    f = fleet(1)
    mounted(f.home(1), f"size=4m,mode=755,{options}")
    marks = box.dir / "marks"
    spec = box.spec({"cluster": f.cluster(), "setup": [{"name": "s", "run": f"echo s >>{marks}"}],
                     "entrypoint": {"run": f"echo launch >>{marks}"}})
    try:
        rhrun(spec).ok()
        assert "nothing to do" in rhrun(spec).ok().err
        assert marks.read_text().split() == ["s", "launch"]
    finally:
        for p in pathlib.Path("/tmp").glob(".rhrun*"):
            shutil.rmtree(p, ignore_errors=True)


def test_nodes_that_share_one_home(box, fleet, rhrun):
    f = fleet(3, shared_home=True)
    spec = box.spec({"cluster": f.cluster(), "setup": [{"name": "s", "run": "echo s >>$HOME/lines.$RHRUN_NODE_RANK"}],
                     "distributed": {"nproc_per_node": 1},
                     "entrypoint": {"run": "echo launch >>$HOME/lines.$RHRUN_NODE_RANK"}})
    rhrun(spec).ok()
    assert "nothing to do" in rhrun(spec).ok().err
    rhrun("--again", spec).ok()
    for node in range(3):
        assert f.lines(1, f"lines.{node}") == ["s", "launch", "launch"]


# ---- odd nodes ----

def test_a_node_without_bash(box):
    require("mount")
    real = os.path.realpath("/bin/bash")
    empty = box.dir / "empty"
    empty.touch(mode=0o644)
    spec = box.spec({"setup": [{"name": "s", "run": "echo s >>$HOME/lines; [ -z \"$BASH_VERSION\" ]"}],
                     "entrypoint": {"run": "false; echo not-reached"}})
    hide = ("unshare", "-m", "sh", "-c", f'mount --bind {empty} {real} && exec "$@"', "sh")
    r = box.run(spec, prefix=hide).expect(1)
    assert box.lines() == ["s"] and "not-reached" not in r.out


def test_a_chatty_login_file(box, fleet, rhrun):
    f = fleet(1)
    (f.home(1) / ".bashrc").write_text("echo welcome to this host; echo and to its stderr >&2; head -c 100000 /dev/zero | tr '\\0' z\n")
    spec = box.spec(waiting_job(f.cluster(), launch="echo done >>$HOME/lines; echo clean"))
    r = rhrun(spec).ok()
    assert f.lines(1) == ["one", "done"]
    assert "zzzz" not in r.out and "welcome" not in r.out


def test_a_login_file_that_ends_the_shell(box, fleet, rhrun):
    f = fleet(1)
    (f.home(1) / ".bashrc").write_text("echo maintenance; exit 1\n")
    r = rhrun(box.spec(waiting_job(f.cluster()))).expect(3)
    assert "node1" in r.err and "agent" in r.err


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", "C", "tr_TR.UTF-8"])
def test_another_locale(box, rhrun, locale):
    spec = box.spec(waiting_job(launch="echo done >>$HOME/lines"))
    rhrun(spec, env={"LC_ALL": locale, "LANG": locale, "LANGUAGE": "de"}).ok()
    assert box.lines() == ["one", "done"]
    assert "nothing to do" in rhrun(spec, env={"LC_ALL": "C"}).ok().err


def test_a_caller_with_almost_no_environment(box):
    spec = box.spec(waiting_job(launch="echo done >>$HOME/lines"))
    keep = {"HOME", "RHRUN_TEST_BOX", "RHRUN_HOME", "PATH"}
    box.run(spec, env={k: None for k in box.env if k not in keep}).ok()
    assert box.lines() == ["one", "done"]


@pytest.mark.leaves("a set-up step may start a service")
def test_a_daemon_that_holds_a_setup_steps_output(box, rhrun):
    spec = box.spec({"setup": [{"name": "service", "run": "sleep 300 & echo started"}], "entrypoint": {"run": "echo launch"}})
    r = rhrun(spec, timeout=40).ok()
    assert r.seconds < 30
    assert "launch" in r.out
    assert any("sleep" in p.comm for p in workers_of(box.dir)), "a set-up step's daemon lives on"


def test_a_worker_that_traps_term_and_exits_0(box, rhrun):
    """The other rank failed: this one was stopped, and its exit 0 is no success."""
    spec = box.spec({"distributed": {"nproc_per_node": 2}, "entrypoint": {
        "run": "trap 'exit 0' TERM; if [ $RANK = 1 ]; then sleep 0.3; exit 5; fi; while :; do sleep 0.05; done"}})
    r = rhrun(spec).expect(1)
    assert re.search(r"rank 1\b|\[1\]@", r.err) and "exit status 5" in r.err


def test_a_worker_that_ignores_term_and_daemonises(box, rhrun):
    spec = box.spec({"distributed": {"nproc_per_node": 2}, "entrypoint": {
        "run": "if [ $RANK = 1 ]; then sleep 0.5; exit 5; fi; trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & while :; do sleep 0.1; done"}})
    rhrun(spec, timeout=60).expect(1)
    wait_for(lambda: not workers_of(box.dir), 5, "all of the tree to be ended")


def test_output_beyond_any_limit_of_a_pipe(box, rhrun):
    spec = box.spec({"entrypoint": {"run": "head -c 30000000 /dev/zero | tr '\\0' 'a' | fold -w 100"}})
    r = rhrun("--no-prefix", spec).ok()
    assert r.raw_out.count(b"a") == 30_000_000


def test_the_journal_is_broken(box, rhrun):
    spec = box.spec({"entrypoint": {"run": "echo x >>$HOME/lines"}})
    rhrun(spec).ok()
    db = next(box.state.glob("jobs/*/journal.db"))
    for extra in db.parent.glob("journal.db-*"):
        extra.unlink()
    db.write_bytes(b"this is no database" * 100)
    r = rhrun(spec).expect(3)
    assert str(db) in r.err
    assert db.read_bytes().startswith(b"this is no database"), "it was replaced"
