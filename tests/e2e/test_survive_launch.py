"""What a launch over several nodes must survive: workers that do not end, rank 0's node and the caller's connection lost
around a restart; and specs that are refused before anything starts."""
import os
import re
import signal
import socket
import time

import pytest

from harness import is_agent, processes_of, wait_for, workers_of

HOOKS = {"RHRUN_LIVENESS_MS": "1500"}
AWAY_S = int(os.environ.get("RHRUN_TEST_AWAY_S", "0"))  # scripts/soak: so long a cut lasts, with rhrun's own times
# It and the daemon that it leaves both ignore TERM; neither keeps the launcher's pipes.
STUBBORN = ("trap '' TERM; echo worker $RANK >>$HOME/lines\n"
            "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &\n")
STAY = "while :; do sleep 0.05; done\n"


def spec_of(f, run, each=2, **distributed):
    return {"name": "s", "cluster": f.cluster(), "distributed": {"nproc_per_node": each, **distributed}, "entrypoint": {"run": run}}


# ---- workers that refuse to end ----

def test_stubborn_workers_and_daemons_are_gone_before_the_restart(box, fleet):
    """TERM ignored by all, a daemon of each in a session of its own: none of the first start sees the second."""
    f = fleet(2)
    marks = box.dir / "marks"
    marks.mkdir()
    # Processes of the first start, as any worker of this machine, which is all nodes, sees them.
    look = ("look() {\n  for p in /proc/[0-9]*/environ; do\n"
            "    n=$({ tr '\\0' '\\n' <$p | grep -c -x -e MARKS=$MARKS -e TORCHELASTIC_RESTART_COUNT=0; } 2>/dev/null) || true\n"
            "    if [ \"$n\" = 2 ]; then echo $p; fi\n  done\n}\n")
    run = look + 'if [ -e $MARKS/failed ]; then look >$MARKS/left.$RANK; exit 0; fi\n' + STUBBORN + (
        "touch $MARKS/up.$RANK\nif [ $RANK = 3 ]; then\n  while [ $(ls $MARKS | grep -c up) -lt 4 ]; do sleep 0.02; done\n"
        "  look >$MARKS/seen; touch $MARKS/failed\n  exit 5\nfi\n") + STAY
    spec = spec_of(f, run, max_restarts=1, shutdown_timeout=1)
    spec["env"] = {"MARKS": str(marks)}
    r = box.run(box.spec(spec)).ok()
    assert "restart 1 of 1" in r.err and "exit status 5" in r.err, r
    assert len((marks / "seen").read_text().split()) >= 8, "four workers, four daemons"
    assert {p.name: p.read_text() for p in marks.glob("left.*")} == {f"left.{i}": "" for i in range(4)}
    assert not workers_of(box.dir)


def test_other_nodes_do_not_wait_for_a_slow_end_on_the_one_that_failed(box, fleet):
    """Rank 1 fails, rank 0 beside it takes its time to stop until rank 2, on the other node, has been told to."""
    f = fleet(2)
    run = ("trap 'touch $MARKS/told.$RANK; if [ $RANK = 0 ]; then while [ ! -e $MARKS/told.2 ]; do sleep 0.02; done; fi; exit 1' TERM\n"
           "touch $MARKS/up.$RANK\n"
           "if [ $RANK = 1 ]; then while [ $(ls $MARKS | grep -c up) -lt 4 ]; do sleep 0.02; done; exit 5; fi\n" + STAY)
    spec = spec_of(f, run, shutdown_timeout=60)
    marks = box.dir / "marks"
    marks.mkdir()
    spec["env"] = {"MARKS": str(marks)}
    r = box.run(box.spec(spec), timeout=45).expect(1)
    assert "rank 1" in r.err and "exit status 5" in r.err, r
    assert {p.name for p in marks.glob("told.*")} == {"told.0", "told.2", "told.3"}


def test_cancel_ends_stubborn_workers_and_daemons_of_every_node(box, fleet):
    f = fleet(2)
    r = box.start(box.spec(spec_of(f, STUBBORN + "touch $HOME/up.$RANK\n" + STAY, shutdown_timeout=1)))
    wait_for(lambda: sum(len(list(f.home(i).glob("up.*"))) for i in (1, 2)) == 4, what="all workers")
    assert sum("trap" in " ".join(p.argv) and p.session == p.pid for p in workers_of(box.dir)) >= 4, "no daemon was there"
    box.run("cancel", "last").ok()
    r.wait().expect(143)
    assert not workers_of(box.dir)


# ---- nodes and connections ----

def test_rank_0s_node_is_lost_in_the_middle(box, fleet):
    """Its sshd, agents and workers die at once. When it is back, the others are stopped and all start again."""
    f = fleet(2)
    stop = box.dir / "stop"
    run = f"echo rank $RANK at $MASTER_ADDR:$MASTER_PORT >>$HOME/lines; echo ready $RANK; while [ ! -e {stop} ]; do sleep 0.05; done\n"
    r = box.start(box.spec(spec_of(f, run, each=1, max_restarts=1)), env=HOOKS)
    r.wait_text(r"(?s)ready.*ready")
    home = str(f.home(1)).encode()
    lost = [p for p in processes_of(f.home(1)) if p.environ.get(b"HOME") == home and (p.attempt or is_agent(p))]
    assert any(p.attempt for p in lost)
    f.stop(1)
    for p in lost:
        try:
            os.kill(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    r.wait_text(r"node1.*(lost|closed|ended|reset)", 30)
    f.start(1)
    r.wait_text(r"restart 1 of 1: .*node1")
    wait_for(lambda: [len(lines) for lines in f.all_lines()] == [2, 2], what="the second start")
    stop.touch()
    r.wait().ok()
    for rank, lines in enumerate(f.all_lines()):
        assert all(line.startswith(f"rank {rank} at ") for line in lines)
    firsts, seconds = zip(*f.all_lines())
    assert len({line.split()[-1] for line in firsts}) == len({line.split()[-1] for line in seconds}) == 1
    assert not workers_of(box.dir)


@pytest.mark.parametrize("slow", [(2,), (0, 1)], ids=["its-node-stops", "the-others-stop"])
def test_the_connections_are_lost_during_a_restart(box, fleet, slow):
    """All of them, after rank 3's failure, while workers of its node or of the other are being stopped: what ends meanwhile is
    learnt afterwards, none starts twice, none is forgotten."""
    f = fleet(2)
    marks = box.dir / "marks"
    marks.mkdir()
    run = (f"echo start $RANK >>$HOME/lines\nif [ -e {marks}/failed ]; then echo done $RANK >>$HOME/lines; exit 0; fi\n"
           f"case $RANK in {'|'.join(map(str, slow))})\n"
           f"  trap 'touch {marks}/term.$RANK; while [ ! -e {marks}/cut ]; do sleep 0.02; done; exit 1' TERM;;\nesac\n"
           f"touch {marks}/up.$RANK\nif [ $RANK = 3 ]; then\n  while [ $(ls {marks} | grep -c up) -lt 4 ]; do sleep 0.02; done\n"
           f"  touch {marks}/failed\n  exit 5\nfi\n" + STAY)
    r = box.start(box.spec(spec_of(f, run, max_restarts=1, shutdown_timeout=60)), env={} if AWAY_S else HOOKS)
    wait_for(lambda: len(list(marks.glob("term.*"))) == len(slow), what="the stop of the first start")
    for i in (1, 2):
        f.stop(i)
    back = time.monotonic() + AWAY_S
    r.wait_text(r"(?s)node1.*connection lost.*node2.*connection lost|node2.*connection lost.*node1.*connection lost", 60)
    (marks / "cut").touch()
    wait_for(lambda: not workers_of(f.home(slow[0] // 2 + 1)), 30, "the slow workers to end")
    wait_for(lambda: time.monotonic() >= back, AWAY_S + 1, "the cut's end")
    for i in (1, 2):
        f.start(i)
    done = r.wait().ok()
    assert done.err.count("restart 1 of 1") == 1, done
    for i in (1, 2):
        ranks = (2 * i - 2, 2 * i - 1)
        assert sorted(f.lines(i)) == sorted([f"start {k}" for k in ranks] * 2 + [f"done {k}" for k in ranks])


# ---- refused before anything starts ----

@pytest.mark.parametrize("layout", [{"rdzv_backend": "static"}, {"rdzv_backend": "c10d"}], ids=lambda v: v["rdzv_backend"])
def test_torchruns_port_is_taken(box, fleet, layout):
    f = fleet(2)
    cluster = f.explicit_cluster()
    for i, h in enumerate(cluster["hosts"], 1):
        h.update(address="127.0.0.1", name=f"n{i}")
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        port = s.getsockname()[1]
        spec = {"name": "s", "cluster": cluster,
                "distributed": {"launcher": "torchrun", "master_port": port, "nproc_per_node": 1, **layout}, "entrypoint": {"command": ["sh", "-c", "touch $HOME/started"]}}
        r = box.run(box.spec(spec)).expect(3)
    assert re.search(rf'port {port} on node "n1".*Address already in use', r.err) and "master_port: 0" in r.err, r
    assert not any((f.home(i) / "started").exists() for i in (1, 2))


@pytest.mark.parametrize("launcher", ["native", "torchrun"])
def test_gpus_on_nodes_that_have_none(box, fleet, launcher):
    if os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    f = fleet(2)
    spec = spec_of(f, "touch $HOME/started", each="gpu", launcher=launcher)
    spec["entrypoint"] = {"command": ["sh", "-c", "touch $HOME/started"]}
    spec["setup"] = [{"run": "touch $HOME/set-up"}]
    r = box.run(box.spec(spec)).expect(1)
    assert re.search(r'node "node[12]": nproc_per_node is gpu, and no GPU was found there', r.err), r
    assert not any((f.home(i) / name).exists() for i in (1, 2) for name in ("started", "set-up"))


def test_torch_of_a_venv_that_differs(box, fleet):
    """The packages of the job's own venv on each node count, not those of the node's python3."""
    f = fleet(2)
    for i, version in ((1, "2.4.1"), (2, "2.5.0")):
        python = f.home(i) / "venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\ncase "$*" in *train*) touch $HOME/started;; *) exec python3 "$@";; esac\n')
        python.chmod(0o755)
        (python.parent.parent / f"lib/python3.11/site-packages/torch-{version}.dist-info").mkdir(parents=True)
        (python.parent.parent / f"lib/python3.11/site-packages/torch-{version}.dist-info/METADATA").write_text("Name: torch\n")
    spec = spec_of(f, "")
    spec.update(python={"venv": "~/venv"}, entrypoint={"module": "train"})
    r = box.run(box.spec(spec)).expect(1)
    assert 'torch is 2.4.1 on node "node1" and 2.5.0 on node "node2"' in r.err, r
    assert not any((f.home(i) / "started").exists() for i in (1, 2))


def test_a_role_that_finds_no_place_once_the_nodes_are_known(box, fleet):
    """A count that is a number only after the first contact."""
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("this machine has one CPU")
    f = fleet(2)
    spec = spec_of(f, "touch $HOME/started", each=1)
    spec.update(roles={"t": {"nnodes": 2, "nproc_per_node": "cpu"}}, setup=[{"run": "touch $HOME/set-up"}])
    r = box.run(box.spec(spec)).expect(1)
    assert re.search(rf'node "node[12]": the roles place {cpus} workers there, but the node has room for 1', r.err), r
    assert not any((f.home(i) / name).exists() for i in (1, 2) for name in ("started", "set-up"))
