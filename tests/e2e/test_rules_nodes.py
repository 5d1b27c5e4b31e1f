"""Failure rules about nodes, over real sshd: a node that is away for too long (node_lost), and a node that somebody other than
rhrun tells to end (preempted)."""
import json
import os
import signal

import pytest

from harness import agent_processes, is_agent, processes_of, wait_for, workers_of

HOOKS = {"RHRUN_LIVENESS_MS": "1500", "RHRUN_RECONNECT_MS": "1500"}
STAY = "while [ ! -e %s ]; do sleep 0.05; done\n"


@pytest.fixture
def pair(box, fleet):
    """Two nodes with a worker each, which runs until `stop` is there."""
    f = fleet(2)
    f.stop_file = box.dir / "stop"

    def spec(rules, **distributed):
        return box.spec({"name": "n", "cluster": f.cluster(), "failure_rules": rules,
                         "distributed": {"nproc_per_node": 1, "shutdown_timeout": 1, **distributed},
                         "entrypoint": {"run": "echo $RANK >>$HOME/lines; echo ready $RANK; " + STAY % f.stop_file}})

    f.job = spec
    return f


def events(rhrun, kind):
    out = rhrun("show", "--events", "last").ok().out
    return [e for e in map(json.loads, out.splitlines()) if e["type"] == kind]


def of_node(f, i):
    """The processes on node i: agents, supervisors, workers."""
    home = str(f.home(i)).encode()
    return [p for p in processes_of(f.home(i)) if p.environ.get(b"HOME") == home and (p.attempt or is_agent(p))]


def supervisor_of(f, i):
    return next(p for p in of_node(f, i) if p.comm == "rhrun-supervise")


def send(processes, number):
    for p in processes:
        try:
            os.kill(p.pid, number)
        except ProcessLookupError:
            pass


def go_down(f, i):
    """As a machine whose power is lost: sshd, agents, supervisors and workers at once."""
    there = of_node(f, i)
    f.stop(i)
    send(there, signal.SIGKILL)


def starts(f):
    return [len(lines) for lines in f.all_lines()]


# ---- lost ----

@pytest.mark.parametrize("how", ["down", "frozen"])
def test_a_lost_node_is_waited_for(rhrun, box, pair, how):
    f = pair
    r = box.start(f.job([{"match": {"event": "node_lost"}, "action": "restart", "times": 1}]), env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    if how == "down":
        go_down(f, 2)
    else:
        f.freeze(2)
    r.wait_text(r'rule 1 \(node_lost\): restart, since node "node2" is lost')
    wait_for(lambda: not any(p.attempt for p in of_node(f, 1)), what="the other node's worker to be stopped")
    assert starts(f) == [1, 1] and r.alive
    if how == "down":
        f.start(2)
    else:
        f.thaw(2)
    wait_for(lambda: starts(f) == [2, 2], what="the second start")
    f.stop_file.touch()
    r.wait().ok()
    assert len(events(rhrun, "rule")) == len(events(rhrun, "restart")) == 1
    assert not workers_of(box.dir)


def test_the_first_nodes_loss_is_no_other(rhrun, box, pair):
    """The others meet there, and the port is requested from it."""
    f = pair
    r = box.start(f.job([{"match": {"event": "node_lost"}, "action": "restart", "times": 1}]), env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    go_down(f, 1)
    r.wait_text('since node "node1" is lost')
    wait_for(lambda: not any(p.attempt for p in of_node(f, 2)), what="the other node's worker to be stopped")
    f.start(1)
    wait_for(lambda: starts(f) == [2, 2], what="the second start")
    f.stop_file.touch()
    r.wait().ok()


def test_a_lost_node_fails_the_job(rhrun, box, pair):
    """Its processes are stopped when it is reached again, and nothing of the failed launch counts as done."""
    f = pair
    spec = f.job([{"match": {"event": "node_lost"}, "action": "fail"}], max_restarts=3)
    r = box.start(spec, env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    f.freeze(2)
    done = r.wait(60).expect(3)
    assert 'node "node2" is lost (rule 1 (node_lost): fail)' in done.err
    assert not any(p.attempt for p in of_node(f, 1)) and any(p.attempt for p in of_node(f, 2))
    assert [e["status"] for e in events(rhrun, "run_closed")] == ["failed"]
    f.thaw(2)
    again = box.start(spec)
    wait_for(lambda: starts(f) == [2, 2], what="both nodes to start again")
    assert len([p for p in of_node(f, 2) if p.comm == "rhrun-supervise"]) == 1, "the old worker runs beside the new one"
    f.stop_file.touch()
    again.wait().ok()


# ---- preempted ----

def test_a_node_that_is_told_to_end(rhrun, box, pair):
    f = pair
    r = box.start(f.job([{"match": {"event": "preempted"}, "action": "restart", "times": 1, "backoff": "100ms"}]), env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    os.kill(supervisor_of(f, 2).pid, signal.SIGTERM)
    r.wait_text(r'rule 1 \(preempted\): restart, since node "node2": preempted: told to end by signal 15')
    wait_for(lambda: starts(f) == [2, 2], what="the second start")
    f.stop_file.touch()
    done = r.wait().ok()
    assert "rhrun: told to end by signal 15, not by rhrun" in done.text
    rule, = events(rhrun, "rule")
    assert (rule["rule"], rule["action"], rule["node"], rule["left"]) == (1, "restart", 1, 0)
    assert [e["cause"] for e in events(rhrun, "finished") if e["step"] == "launch" and e["node"] == 1] == [6, 0]


def test_all_of_a_node_is_told_workers_first(rhrun, box, pair):
    """As at a shutdown, but for sshd: the agent is gone too. The worker's death by TERM is not the cause; max_restarts are not used."""
    f = pair
    spec = f.job([{"match": {"signal": "TERM"}, "action": "restart", "times": 3}], max_restarts=3)
    r = box.start(spec, env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    there = of_node(f, 2)
    os.kill(supervisor_of(f, 2).pid, signal.SIGSTOP)
    send([p for p in there if p.attempt], signal.SIGTERM)
    send([p for p in there if not p.attempt], signal.SIGTERM)
    send(there, signal.SIGCONT)
    done = r.wait().expect(3)
    assert 'launch on node "node2": preempted: told to end by signal 15 (Terminated), not by rhrun' in done.err
    assert starts(f) == [1, 1] and not workers_of(box.dir)
    f.stop_file.touch()
    box.run(spec).ok()
    assert starts(f) == [2, 2]


def test_a_machine_that_goes_down_in_order(rhrun, box, pair):
    """The connection ends before the notice is sent. The node's record has it, once the node is back."""
    f = pair
    r = box.start(f.job([{"match": {"event": "preempted"}, "action": "restart", "times": 1}]),
                  env={**HOOKS, "RHRUN_RECONNECT_MS": "60000"})
    r.wait_text(r"(?s)ready.*ready")
    f.stop(2)
    _, (supervisor,) = agent_processes(f.home(2))
    os.kill(supervisor.pid, signal.SIGTERM)
    wait_for(lambda: not any(p.attempt for p in of_node(f, 2)), what="the end of what ran there")
    r.wait_text("node2.*trying to reconnect")
    f.start(2)
    r.wait_text(r"rule 1 \(preempted\): restart")
    wait_for(lambda: starts(f) == [2, 2], what="the second start")
    f.stop_file.touch()
    r.wait().ok()


def test_preempted_and_lost(rhrun, box, pair):
    """The next generation needs the node, which stays away: the other rule decides."""
    f = pair
    r = box.start(f.job([{"match": {"event": "preempted"}, "action": "restart", "times": 1, "backoff": "3s"},
                         {"match": {"event": "node_lost"}, "action": "fail"}]), env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    os.kill(supervisor_of(f, 2).pid, signal.SIGTERM)
    r.wait_text("restart in")
    go_down(f, 2)
    done = r.wait(60).expect(3)
    assert 'node "node2" is lost (rule 2 (node_lost): fail)' in done.err
    assert [e["rule"] for e in events(rhrun, "rule")] == [1, 2] and starts(f) == [1, 1]


def test_set_up_that_is_told_to_end(rhrun, job, box):
    r = box.start(job("setup: [{name: s, run: 'echo up; exec sleep 60'}]\nentrypoint: {run: x}\n"))
    wait_for(lambda: workers_of(box.dir), what="the step")
    _, (supervisor,) = agent_processes(box.dir)
    os.kill(supervisor.pid, signal.SIGTERM)
    done = r.wait().expect(3)
    assert 'step "s": preempted: told to end by signal 15' in done.err
