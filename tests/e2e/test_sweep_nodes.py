"""Points that take several nodes each (distributed.nnodes with sweep): all nodes of a point begin and end together, whatever happens to
a node or to rhrun, and no point runs twice or in part."""
import json
import random
import re
import shutil
import subprocess
import time

import pytest

from harness import wait_for, workers_of

# A worker prints its id, waits until the others of its point have done so too, then prints that it is done.
MEET = """
me=$ALL/${{ params.i }}
mkdir -p $me
echo $RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $RHRUN_NODE_RANK >>$me/begun
until [ $(cut -d' ' -f1 $me/begun | sort -u | wc -l) = $WORLD_SIZE ]; do sleep 0.02; done
"""
DONE = MEET + "echo $RANK >>$me/done\n"


def sweep(box, run=DONE, points=4, nnodes=2, cluster=None, nproc=1, name="job.yaml", **more):
    keys = {k: more.pop(k) for k in ("per_node", "nodes", "max_parallel", "best") if k in more}
    all_of = box.dir / "all"
    all_of.mkdir(exist_ok=True)
    spec = {"name": "parts", "params": {"i": 0}, "sweep": {"matrix": {"i": list(range(points))}, **keys}, "env": {"ALL": str(all_of)},
            "distributed": {"nnodes": nnodes, "nproc_per_node": nproc, **more.pop("distributed", {})}, "entrypoint": {"run": run}, **more}
    if cluster:
        spec["cluster"] = cluster
    return box.spec(spec, name=name)


def lines(box, i, name):
    path = box.dir / "all" / str(i) / name
    return path.read_text().splitlines() if path.exists() else []


def done(box, i):
    return sorted(int(n) for n in lines(box, i, "done"))


def test_each_point_is_one_launch_over_its_nodes(box, rhrun, fleet):
    f = fleet(4)
    loss = "echo loss=$((${{ params.i }} * 10 + RANK)) | tee r${{ params.i }}.$RANK\n"
    spec = sweep(box, DONE + loss, points=5, cluster=f.cluster(), nproc=2, metrics=[{"name": "loss", "pattern": "loss=(?<value>\\d+)"}],
                 best={"metric": "loss", "goal": "max"}, outputs=[{"from": "r${{ params.i }}.*", "nodes": "all", "to": "results/${{ params.i }}/${{ node.rank }}"}])
    r = rhrun(spec).ok()
    for i in range(5):
        begun = [line.split() for line in lines(box, i, "begun")]
        assert sorted(int(w[0]) for w in begun) == done(box, i) == [0, 1, 2, 3], r
        assert len({(w[1], w[2], w[3]) for w in begun}) == 1 and begun[0][1] == "4", begun
        assert {(w[0], w[4]) for w in begun} == {("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")}
        got = sorted(str(p.relative_to(box.work / "results" / str(i))) for p in (box.work / "results" / str(i)).rglob("r*"))
        assert got == [f"0/r{i}.0", f"0/r{i}.1", f"1/r{i}.2", f"1/r{i}.3"], got
    assert "nothing to do" in rhrun(spec).ok().err
    points = json.loads(rhrun("runs", "--points", "--json", spec).ok().out)
    assert all(p["state"] == "done" and len(p["hosts"]) == 2 and p["metrics"]["loss"] == 10 * k for k, p in enumerate(points)), points
    status = rhrun("status", spec).ok().out
    assert "5 of 5 points done" in status and "best: i=4" in status and re.search(r"i=0 .*node\d,node\d", status), status
    assert re.search(r" 4 +5/5", rhrun("runs", spec).ok().out)
    log = rhrun("logs", "last", "--point", "i=3", "--rank", "2").ok()
    assert log.out.split() == ["loss=32"], log
    values = [json.loads(line) for line in rhrun("metrics", "last", "--json").ok().out.splitlines()]
    assert sorted(v["value"] for v in values) == sorted(10 * i + rank for i in range(5) for rank in range(4))
    assert {v["generation"] for v in values} == {1}, values


def test_a_worker_that_fails_ends_all_of_its_point(box, rhrun, fleet):
    f = fleet(2)
    fails = "[ ${{ params.i }} != 1 ] || [ -e $ALL/good ] || { [ $RANK = 1 ] && { echo oh no; exit 3; }; sleep 100; }\necho $RANK >>$me/done\n"
    spec = sweep(box, MEET + fails, points=3, cluster=f.cluster(), distributed={"max_restarts": 1})
    r = rhrun(spec).expect(1)
    assert "point i=1: exit status 3 (rank 1 on node node2); attempt 2 of 2" in r.err, r
    assert "point i=1 failed: exit status 3 (rank 1 on node node2)" in r.err and "1 of 3 points failed: i=1" in r.err, r
    assert done(box, 0) == done(box, 2) == [0, 1] and done(box, 1) == [] and len(lines(box, 1, "begun")) == 4, r
    assert re.search(r"i=1 +failed .*exit status 3", rhrun("status", spec).ok().out)
    (box.dir / "all" / "good").touch()
    rhrun(spec).ok()
    assert done(box, 0) == done(box, 1) == done(box, 2) == [0, 1]


def test_a_lost_node_frees_the_others_of_its_point(box, rhrun, fleet):
    f = fleet(3)
    spec = sweep(box, MEET + "[ ${{ params.i }} != 0 ] || ! mkdir $me/once.$RANK || until [ -e $ALL/go ]; do sleep 0.05; done\necho $RANK >>$me/done\n", points=3, cluster=f.cluster())
    box.env.update(RHRUN_RECONNECT_MS="1000", RHRUN_LIVENESS_MS="800")
    run = box.start(spec)
    wait_for(lambda: len(list((box.dir / "all" / "0").glob("once.*"))) == 2, what="the first point on two nodes")
    f.freeze(2)
    try:
        r = run.wait().ok()
    finally:
        f.thaw(2)
        (box.dir / "all" / "go").touch()  # what runs on the lost node ends
    wait_for(lambda: not workers_of(box.dir), what="the end of what was lost")
    assert "its points go to other nodes" in r.err and "point i=0: its outcome is unknown; it is done again" in r.err, r
    assert [sorted(set(done(box, i))) for i in range(3)] == [[0, 1]] * 3, r
    assert "nothing to do" in rhrun(spec).ok().err


def killed(box, rhrun, fleet, points, kills, seed):
    chance = random.Random(seed)
    f = fleet(5)
    spec = sweep(box, DONE + "sleep 0.05\n", points=points, cluster=f.cluster(), setup=[{"name": "s", "run": "echo s >>$HOME/setup"}])
    for _ in range(kills):
        run = box.start(spec)
        time.sleep(chance.uniform(0.1, 1.2))
        if not run.alive:
            break
        run.kill9()
    r = rhrun(spec).ok()
    assert [done(box, i) for i in range(points)] == [[0, 1]] * points, (seed, r)
    assert f.all_lines("setup") == [["s"]] * 5, r


def test_killed_again_and_again(box, rhrun, fleet):
    killed(box, rhrun, fleet, 12, 4, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_killed_at_forty_instants(box, rhrun, fleet, seed):
    killed(box, rhrun, fleet, 30, 4, seed)


def test_a_lost_state_directory(box, rhrun, fleet):
    """Work that is done on all nodes is found there, and a point that runs on all its nodes is attached to."""
    f = fleet(2)
    spec = sweep(box, MEET + "[ ${{ params.i }} != 1 ] || until [ -e $ALL/go ]; do sleep 0.05; done\necho $RANK >>$me/done\n", points=3,
                 cluster=f.cluster())
    run = box.start(spec)
    wait_for(lambda: len(lines(box, 1, "begun")) == 2, what="the second point on both nodes")
    run.kill9()
    shutil.rmtree(box.state)
    run = box.start(spec)
    wait_for(lambda: "stands" if box.state.exists() else None, what="the next controller")
    (box.dir / "all" / "go").touch()
    r = run.wait().ok()
    assert [done(box, i) for i in range(3)] == [[0, 1]] * 3 and all(len(lines(box, i, "begun")) == 2 for i in range(3)), r


def test_on_nodes_of_this_machine(box, rhrun):
    spec = sweep(box, points=3, nodes=4)
    rhrun(spec).ok()
    assert [done(box, i) for i in range(3)] == [[0, 1]] * 3
    assert "nothing to do" in rhrun(spec).ok().err
    r = rhrun("validate", "--set", "sweep.nodes=1", spec).expect(2)
    assert "a point takes 2 nodes, but sweep.nodes is 1" in r.err, r


# ---- disks that are full ----

def test_full_disks(box, rhrun, fleet, mounted):
    """The node's disk and that of the state directory fill up in the middle: nothing is called done that is not, and once there is room
    the next run does only what is missing."""
    f = fleet(1)
    mounted(f.home(1), "size=6m,mode=755")
    mounted(box.state, "size=6m,mode=700")
    body = ("echo ${{ params.i }} >>$ALL/begun; head -c 300000 /dev/urandom | base64 >r${{ params.i }} || exit 9; "
            "head -c 300000 /dev/zero | tr '\\0' a | fold -w 99; echo ${{ params.i }} >>$ALL/well")
    spec = sweep(box, body, points=16, nnodes=1, cluster=f.cluster(), outputs=[{"from": "r${{ params.i }}", "to": "results/"}])
    outcomes, done_before = [], {}
    for turn in range(12):
        r = rhrun(spec)
        outcomes.append(r.rc)
        assert r.rc in (0, 1, 3), r
        for path in (f.home(1), box.state):
            subprocess.run(["mount", "-o", f"remount,size={8 + 2 * turn}m", str(path)], check=True)
        begun = (box.dir / "all" / "begun").read_text().split()
        for p in json.loads(rhrun("runs", "--points", "--json", spec).ok().out):
            if p["state"] in ("done", "kept"):
                done_before.setdefault(p["point"], begun.count(p["point"][2:]))
                assert (box.work / "results" / f"r{p['point'][2:]}").stat().st_size > 400_000, (p, r)
        assert (r.rc == 0) == (len(done_before) == 16), (outcomes, done_before, r)
        if r.rc == 0:
            break
    assert outcomes[-1] == 0 and outcomes[0] != 0, outcomes
    assert sorted({int(n) for n in (box.dir / "all" / "well").read_text().split()}) == list(range(16)), outcomes
    assert all(begun.count(name[2:]) == times for name, times in done_before.items()), (outcomes, done_before, begun)
    assert "nothing to do" in rhrun(spec).ok().err
