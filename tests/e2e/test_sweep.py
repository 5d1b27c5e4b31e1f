"""Sweeps: each point is a launch with its own params and a checkpoint, on any node that has room; whatever happens in between,
each point is done once."""
import hashlib
import json
import random
import re
import shlex
import shutil
import signal
import time

import pytest

from harness import wait_for

APPEND = "echo ${{ params.i }} >>$HOME/lines"


def sweep(box, run=APPEND, matrix=None, cluster=None, name="job.yaml", **more):
    keys = {"per_node": more.pop("per_node", 4)}
    keys.update({k: more.pop(k) for k in ("max_parallel", "on_failure", "nodes", "best") if k in more})
    values = matrix if matrix is not None else {"i": list(range(6))}
    params = more.pop("params", {k: 0 if isinstance(v[0], int) else "" for k, v in values.items()})
    spec = {"name": "sweep", "params": params, "sweep": {"matrix": values, **keys}, "entrypoint": {"run": run}, **more}
    if cluster:
        spec["cluster"] = cluster
    return box.spec(spec, name=name)


def numbers(lines):
    return sorted(int(n) for n in lines)


def here(box):
    path = box.home / "lines"
    return numbers(path.read_text().split()) if path.exists() else []


def test_every_point_once_with_its_own_files(box, rhrun):
    spec = sweep(box, APPEND + "; mkdir -p out/${{ point.id }}; echo $RHRUN_POINT >out/${{ point.id }}/name",
                 {"lr": ["0.1", "1e-3"], "i": [0, 1, 2]},
                 outputs=[{"from": "out/${{ point.id }}/", "to": "results/${{ point }}/"}])
    r = rhrun(spec).ok()
    assert here(box) == [0, 0, 1, 1, 2, 2]
    got = {p.parent.name: p.read_text().strip() for p in (box.work / "results").rglob("name")}
    assert len(got) == 6 and all(k == v for k, v in got.items()) and "lr=1e-3,i=2" in got, got
    assert "nothing to do" in rhrun(spec).ok().err
    assert here(box) == [0, 0, 1, 1, 2, 2], r


def test_a_new_value_runs_alone(box, rhrun):
    spec = sweep(box)
    rhrun(spec).ok()
    sweep(box, matrix={"i": [7, 0, 1, 2, 3, 4, 5]})
    assert "1 of 7 points" in rhrun("plan", spec).ok().out
    rhrun(spec).ok()
    assert here(box) == [0, 1, 2, 3, 4, 5, 7]
    sweep(box, matrix={"i": [0, 5]})  # fewer of them: nothing is left to do
    assert "nothing to do" in rhrun(spec).ok().err


def test_params_choose_points(box, rhrun):
    spec = sweep(box)
    rhrun(spec, "-p", "i=3").ok()
    assert here(box) == [3]
    assert "nothing to do" in rhrun(spec, "-p", "i=3").ok().err
    rhrun(spec).ok()
    assert here(box) == list(range(6))
    rhrun(spec, "--again", "-p", "i=2").ok()
    rhrun(spec, "-p", "i=99").ok()  # a point of its own
    assert here(box) == [0, 1, 2, 2, 3, 4, 5, 99]
    assert "nothing to do" in rhrun(spec).ok().err


def test_a_point_that_fails_stops_no_other_and_is_tried_again_alone(box, rhrun):
    spec = sweep(box, APPEND + "; [ ${{ params.i }} != 2 ] || [ -e $HOME/good ] || { echo oh no; exit 3; }")
    r = rhrun(spec).expect(1)
    assert "1 of 6 points failed: i=2" in r.err and "point i=2 failed: exit status 3" in r.err and "oh no" in r.text, r
    assert here(box) == list(range(6))
    (box.home / "good").touch()
    rhrun(spec).ok()
    assert here(box) == [0, 1, 2, 2, 3, 4, 5]


def test_the_last_lines_of_a_point_have_its_name(box, rhrun):
    """If much was printed since it failed, its lines are printed again."""
    spec = sweep(box, "if [ ${{ params.i }} = 1 ]; then echo oh no; exit 3; elif [ ${{ params.i }} = 2 ]; then seq 1 300; fi", per_node=1)
    r = rhrun(spec).expect(1)
    assert re.search(r"^rhrun: last lines of i=1 on local:\noh no$", r.err, re.M), r


def test_on_failure_stop(box, rhrun):
    spec = sweep(box, APPEND + "; [ ${{ params.i }} != 1 ] || { while ! grep -qx 0 $HOME/lines; do sleep 0.05; done; exit 3; }; sleep 60",
                 per_node=2, on_failure="stop")
    r = rhrun(spec).expect(1)
    assert "point i=1: exit status 3" in r.err and r.seconds < 30, r
    assert here(box) == [0, 1]


def test_max_parallel_and_restarts(box, rhrun):
    spec = sweep(box, APPEND + "; mkdir $HOME/only || exit 9; sleep 0.1; rmdir $HOME/only;"
                 " [ ${{ params.i }} != 1 ] || [ $TORCHELASTIC_RESTART_COUNT = 1 ]",
                 {"i": [0, 1, 2]}, max_parallel=1, distributed={"nproc_per_node": 1, "max_restarts": 1})
    r = rhrun(spec).ok()
    assert here(box) == [0, 1, 1, 2] and "attempt 2 of 2" in r.err, r


def test_workers_of_a_point_meet(box, rhrun):
    spec = sweep(box, "echo $MASTER_ADDR $MASTER_PORT $RANK $WORLD_SIZE >$HOME/${{ params.i }}.$RANK; sleep 0.2", {"i": [0, 1, 2]},
                 distributed={"nproc_per_node": 2})
    rhrun(spec).ok()
    ports = set()
    for i in range(3):
        a, b = ((box.home / f"{i}.{rank}").read_text().split() for rank in (0, 1))
        assert a[0] == b[0] == "127.0.0.1" and a[1] == b[1] and (a[2], b[2]) == ("0", "1") and a[3] == b[3] == "2"
        ports.add(a[1])
    assert len(ports) == 3


def test_plan_says_why_a_point_runs(box, rhrun):
    """A new point without a reason; one that failed, was stopped, or now reads something else, with it."""
    text = ("name: s\nparams: {x: 0.5}\nsweep: {matrix: {x: [VALUES]}}\n"
            "entrypoint: {run: 'x=${{ params.x }}; [ $x != 3 ] || exit 5; [ $x != 4 ] || { touch $HOME/on; sleep 60; }'}\n")
    spec = box.spec(text.replace("VALUES", "0.001, 2, 3, 4"))
    run = box.start(spec)
    wait_for(lambda: (box.home / "on").exists(), what="the last point")
    run.signal(signal.SIGINT)
    run.wait().expect(130)
    box.spec(text.replace("VALUES", "1e-3, 2, 3, 4, 7"))
    out = rhrun("plan", spec).ok().out
    when = r" \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)$"
    for line in (r"x=1e-3: `run` changed$", "x=3: failed: exit status 5" + when, "x=4: was stopped" + when, "x=7$"):
        assert re.search(line, out, re.MULTILINE), (line, out)
    assert "x=2" not in out
    points = {p["name"]: (p["verdict"], p.get("reason", "")) for p in rhrun("plan", "--json", spec).ok().json()["points"]}
    assert points["x=2"] == ("keep", "") and points["x=7"] == ("run", "") and points["x=1e-3"] == ("run", "`run` changed"), points


def test_log_files_of_points_stand_apart(box, rhrun):
    """Three points of one node at a time, each tried again: no file of one is another's."""
    text = "echo ${{ params.i }} $TORCHELASTIC_RESTART_COUNT; sleep 0.2; [ $TORCHELASTIC_RESTART_COUNT = 1 ]"
    spec = sweep(box, text, {"i": [0, 1, 2]}, distributed={"nproc_per_node": 1, "tee": 3, "log_dir": str(box.home / "logs"), "max_restarts": 1})
    rhrun(spec).ok()
    ids = {p["params"]["i"]: p["id"] for p in rhrun("status", spec, "--json").ok().json()["points"]}
    (run,) = (box.home / "logs").iterdir()
    got = {str(p.relative_to(run)): p.read_text() for p in run.rglob("stdout.log")}
    assert got == {f"{ids[i]}/attempt_{n}/0/stdout.log": f"{i} {n}\n" for i in range(3) for n in (0, 1)}


def test_values_are_no_shell_text(box, rhrun):
    values = ["it's", 'a "b" $(touch /tmp/never) `x`', "two\nlines", "x" * 10000, "a/b,c=d%"]
    spec = sweep(box, "printf %s ${{ params.v }} | sha256sum >>$HOME/sums", {"v": values})
    rhrun(spec).ok()

    sums = {line.split()[0] for line in (box.home / "sums").read_text().splitlines()}
    assert sums == {hashlib.sha256(v.encode()).hexdigest() for v in values}
    assert "nothing to do" in rhrun(spec).ok().err


def test_over_hosts(box, rhrun, fleet):
    f = fleet(4)
    sweep_text = APPEND + "; sleep 0.1; echo ${{ params.i }} >r${{ params.i }}"
    spec = sweep(box, sweep_text, {"i": list(range(20))}, cluster=f.cluster(), per_node=2, setup=[{"name": "s", "run": "echo s >>$HOME/setup"}],
                 outputs=[{"from": "r${{ params.i }}", "to": "results/"}])
    rhrun(spec).ok()
    lines = f.all_lines()
    assert numbers(sum(lines, [])) == list(range(20)) and all(len(part) > 1 for part in lines), lines
    assert f.all_lines("setup") == [["s"]] * 4
    assert numbers(p.read_text() for p in (box.work / "results").iterdir()) == list(range(20))


def killed(box, rhrun, fleet, points, hosts, kills, seed):
    """Kills rhrun at random moments; in the end each point's effect is there once."""
    chance = random.Random(seed)
    f = fleet(hosts)
    spec = sweep(box, APPEND + "; sleep 0.05", {"i": list(range(points))}, cluster=f.cluster(), per_node=2, setup=[{"name": "s", "run": "echo s >>$HOME/setup"}])
    for _ in range(kills):
        run = box.start(spec)
        time.sleep(chance.uniform(0.05, 0.9))
        if not run.alive:
            break
        run.kill9()
    r = rhrun(spec).ok()
    assert numbers(sum(f.all_lines(), [])) == list(range(points)), (seed, f.all_lines())
    assert f.all_lines("setup") == [["s"]] * hosts, r


def test_killed_again_and_again(box, rhrun, fleet):
    killed(box, rhrun, fleet, 60, 4, 6, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_killed_at_forty_instants(box, rhrun, fleet, seed):
    killed(box, rhrun, fleet, 60, 4, 6, seed)


def test_points_of_a_lost_node_go_elsewhere(box, rhrun, fleet):
    f = fleet(2)
    spec = sweep(box, APPEND + "; [ -e $HOME/fast ] || sleep 1", {"i": list(range(6))}, cluster=f.cluster(), per_node=1)
    (f.home(1) / "fast").touch()
    box.env.update(RHRUN_RECONNECT_MS="1000", RHRUN_LIVENESS_MS="800")
    run = box.start(spec)
    wait_for(lambda: f.lines(2), what="a point on the second host")
    f.freeze(2)
    try:
        r = run.wait().ok()
    finally:
        f.thaw(2)
    on_two = numbers(f.lines(2))
    assert "its points go to other nodes" in r.err and sorted(set(numbers(sum(f.all_lines(), [])))) == list(range(6)), r
    assert set(numbers(f.lines(1))) >= set(range(6)) - set(on_two[:-1])
    assert "nothing to do" in rhrun(spec).ok().err


def test_interrupted_and_gone_on_with(box, rhrun):
    spec = sweep(box, APPEND + "; [ ${{ params.i }} -lt 2 ] || [ -e $HOME/fast ] || sleep 60", per_node=2)
    run = box.start(spec)
    wait_for(lambda: here(box) == [0, 1, 2, 3], what="two points that wait")
    run.signal(signal.SIGINT)
    run.wait().expect(130)
    (box.home / "fast").touch()
    rhrun(spec).ok()
    assert here(box) == [0, 1, 2, 2, 3, 3, 4, 5]


def test_a_lost_state_directory(box, rhrun):
    spec = sweep(box)
    rhrun(spec).ok()
    shutil.rmtree(box.state)
    rhrun(spec).ok()
    assert here(box) == list(range(6))


def test_places_are_gpus(box, rhrun):
    r = rhrun(sweep(box, per_node="gpu")).expect(1)
    assert "no node has 1 GPU for a point" in r.err and here(box) == [], r


def test_what_functions_return(box, rhrun):
    (box.work / "fit.py").write_text("def fit(i):\n    assert i != 2, 'two'\n    return {'square': i * i}\n")
    spec = box.spec({"name": "f", "params": {"i": 0}, "sweep": {"matrix": {"i": [1, 2, 3]}, "per_node": 2},
                     "entrypoint": {"function": "fit:fit", "kwargs": {"i": "${{ params.i }}"}}})
    rhrun(spec, "-p", "i=3").ok()
    rhrun(spec).expect(1)
    got = {p["point"]: (p["state"], p["params"]["i"], p["result"]) for p in rhrun("result", spec, "--json").ok().json()}
    assert got == {"i=1": ("done", 1, {"square": 1}), "i=2": ("failed", 2, None), "i=3": ("kept", 3, {"square": 9})}
    assert rhrun("result", spec, "-p", "i=3").ok().json() == {"square": 9}  # of an earlier run
    assert rhrun("result", "last", "--point", "i=1").ok().json() == {"square": 1}
    assert rhrun("result", "last", "--point", "i=1", "--all").ok().json() == {"0": {"square": 1}}
    assert "point i=2 has no result: it is failed" in rhrun("result", spec, "--point", "i=2").expect(1).err
    assert "no point" in rhrun("result", spec, "-p", "i=7").expect(2).err


@pytest.mark.parametrize("ended", [True, False])
def test_another_value_while_a_killed_run_goes_on(box, rhrun, ended):
    text = APPEND + "; while [ -e $HOME/slow ]; do sleep 0.1; done"
    spec = sweep(box, text, {"i": [1, 2, 3, 4]}, per_node=2)
    (box.home / "slow").touch()
    run = box.start(spec)
    wait_for(lambda: here(box) == [1, 2], what="two points")
    run.kill9()
    if ended:
        (box.home / "slow").unlink()
        wait_for(lambda: not box.leftovers(), what="both to end")
    sweep(box, text, {"i": [5, 1, 2, 3, 4]}, per_node=2)
    run = box.start(spec)
    time.sleep(0.5)
    (box.home / "slow").unlink(missing_ok=True)
    run.wait().ok()
    assert here(box) == [1, 2, 3, 4, 5]


def test_on_nodes_of_this_machine(box, rhrun):
    spec = sweep(box, APPEND + "; sleep 0.3; hostname >/dev/null; pwd >>$HOME/folders", per_node=1, nodes=3, workdir=".")
    rhrun(spec).ok()
    assert here(box) == list(range(6)) and len(set((box.home / "folders").read_text().split())) == 3


def test_on_rented_machines(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = sweep(box, "echo $(hostname) >host", {"i": list(range(6))}, nodes=2, per_node=1,
                 cluster={"instance": cloud.offers[0][2], "provider": cloud.name, "max_price": 20, "max_hours": 1},
                 outputs=[{"from": "host", "to": "results/${{ point }}/"}])
    rhrun(spec).ok()
    assert cloud.machines() == [] and len(cloud.instances) == 2
    assert len(list((box.work / "results").rglob("host"))) == 6
    assert "nothing to do" in rhrun(spec).ok().err and len(cloud.instances) == 2


def test_last_metrics_are_kept_with_the_end(box, rhrun):
    text = ("echo loss=9; echo loss=${{ params.i }}.5 acc=nan; [ ! -e $HOME/slow ] || { touch $HOME/said.${{ params.i }};"
            " while [ -e $HOME/slow ]; do sleep 0.1; done; }")
    spec = sweep(box, text, {"i": [1, 2]}, metrics=[{"name": "loss", "pattern": r"loss=(?<value>\S+)"}, {"name": "acc", "pattern": r"acc=(?<value>\S+)"}])
    (box.home / "slow").touch()
    run = box.start("--json", spec)
    wait_for(lambda: len(list(box.home.glob("said.*"))) == 2, what="both points to say it")
    time.sleep(0.2)
    run.kill9()  # what it has read by then is known to its log alone
    (box.home / "slow").unlink()
    ends = [e for e in rhrun("--json", spec).ok().events() if e["type"] == "finished"]
    assert sorted(json.loads(e["metrics"])["loss"] for e in ends) == [1.5, 2.5] and all(json.loads(e["metrics"])["acc"] == "nan" for e in ends), ends


# ---- the user's view ----

def hint(r):
    """The command that a failed run names, as words."""
    return shlex.split(re.search(r"output(?: of the first)?: rhrun (logs .*?)(?:;|$)", r.err, re.M)[1])


def test_one_point_again(box, rhrun):
    spec = sweep(box, APPEND + "; [ ${{ params.i }} != 2 ]")
    rhrun(spec, "--point", "i=4").ok()
    assert here(box) == [4]
    rhrun(spec).expect(1)
    rhrun(spec, "--again", "--point", "i=4").ok()
    assert here(box) == [0, 1, 2, 3, 4, 4, 5]
    r = rhrun(spec, "--point", "i=44").expect(2)
    assert "no point \"i=44\"" in r.err and "i=4" in r.err and here(box) == [0, 1, 2, 3, 4, 4, 5], r
    r = rhrun(box.spec({"entrypoint": {"run": "true"}}, "other.yaml"), "--point", "x").expect(2)
    assert "has no sweep" in r.err
    options = [run["options"] for run in rhrun("runs", spec, "--json").ok().json()]
    assert options == ["-p i=4", "", "-p i=4"], options  # no defaults of what is swept


def test_a_killed_controller_of_one_point_is_attached_to(box, rhrun):
    spec = sweep(box, APPEND + "; while [ ! -e $HOME/good ]; do sleep 0.05; done")
    run = box.start(spec, "--point", "i=3")
    wait_for(lambda: here(box) == [3], what="the point")
    run.kill9()
    (box.home / "good").touch()
    rhrun("attach", spec).ok()
    assert here(box) == [3]


def test_logs_of_points(box, rhrun):
    names = ["it's", 'a "b" $x', "two\nlines"]
    spec = sweep(box, "printf '%s\\n' out-${{ params.v }}; [ -e $HOME/good ] || exit 3", {"v": names})
    r = rhrun(spec).expect(1)
    first = rhrun(*hint(r)).ok()
    assert first.out == "v=it's@local: out-it's\n", first
    text = rhrun("logs", spec).ok().out
    assert {"v=it's@local: out-it's", "v=two%0Alines@local: out-two", "v=two%0Alines@local: lines"} < set(text.splitlines()), text
    ids = {e["text"]: e["step"].split(":")[1] for e in rhrun("logs", spec, "--json").ok().events()}
    assert rhrun("logs", "last", "--point", ids["out-it's"]).ok().out == first.out
    assert rhrun("logs", spec, "-p", "v=it's", "--no-prefix").ok().out == "out-it's\n"
    r = rhrun("logs", "last", "--point", "v=its").expect(2)
    assert "did you mean v=it's?" in r.err, r
    r = rhrun("logs", "last", "--point", "nothing").expect(2)
    assert "there are v=it's, " in r.err, r
    (box.home / "good").touch()
    rhrun(spec, "--point", "v=it's").ok()
    r = rhrun("logs", spec, "-p", "v=two\nlines", "--no-prefix").ok()  # another run did it than the latest
    assert r.out == "out-two\nlines\n", r


def test_logs_name_workers_of_points(box, rhrun):
    spec = sweep(box, "echo hello", {"i": [1, 2]}, distributed={"nproc_per_node": 2})
    rhrun(spec).ok()
    lines = rhrun("logs", spec).ok().out.splitlines()
    assert sorted(lines) == [f"i={i}[{rank}]@local: hello" for i in (1, 2) for rank in (0, 1)]
    assert rhrun("logs", spec, "--point", "i=2", "--rank", "1").ok().out == "hello\n"


def states(r):
    """point -> state of `status`, in the order of its table."""
    rows = r.out[r.out.index("\n  POINT"):].splitlines()[2:]
    return {row.split()[0]: row.split()[1] for row in rows if not row.startswith("  and ")}


def test_status_has_a_table_of_points(box, rhrun):
    text = "case ${{ params.i }} in 2) exit 3;; 4) echo loss=0.5;; esac"
    more = {"metrics": [{"name": "loss", "pattern": r"loss=(?<value>\S+)"}]}
    spec = sweep(box, text, {"i": [0, 1]}, **more)
    rhrun(spec).ok()
    spec = sweep(box, text, {"i": list(range(30))}, **more)
    rhrun(spec).expect(1)
    r = rhrun("status", spec).ok()
    assert "29 of 30 points done (2 kept), 1 failed" in r.out and "and 10 more (--all lists them)" in r.out, r
    some = states(r)
    assert list(some)[:3] == ["i=2", "i=0", "i=1"] and some["i=2"] == "failed" and some["i=0"] == "kept" and len(some) == 20
    assert re.search(r"i=2 .*exit status 3$", r.out, re.M) and re.search(r"i=4 .*loss 0.5$", r.out, re.M), r
    assert len(states(rhrun("status", spec, "--all").ok())) == 30
    assert states(rhrun("status", spec, "-p", "i=7").ok()) == {"i=7": "done"}
    points = rhrun("status", "last", "--json").ok().json()["points"]
    assert len(points) == 30 and points[0]["point"] == "i=2" and points[0]["cause"] == "exit status 3"
    assert [p["metrics"] for p in points if p["point"] == "i=4"] == [{"loss": 0.5}]
    sweep(box, text, {"i": list(range(31))}, **more)
    assert states(rhrun("status", spec, "--all").ok())["i=30"] == "waiting"  # only the file has it yet
    assert "30" in rhrun("status", "last").ok().out and "i=30" not in rhrun("status", "last", "--all").ok().out
    box.path("job.yaml").unlink()
    assert len(states(rhrun("status", "last", "--all").ok())) == 30  # by the journal alone


def test_points_while_they_run_and_after_an_edit(box, rhrun):
    spec = sweep(box, "true", {"i": [0, 1]})
    rhrun(spec).ok()
    sweep(box, APPEND + "; while [ ! -e $HOME/good ]; do sleep 0.05; done", {"i": [0, 1, 2]}, per_node=1)
    run = box.start(spec)
    wait_for(lambda: here(box) == [0], what="the first point")
    assert states(rhrun("status", spec).ok()) == {"i=0": "running", "i=1": "waiting", "i=2": "waiting"}  # nothing is kept
    (box.home / "good").touch()
    run.wait().ok()
    assert set(states(rhrun("status", spec).ok()).values()) == {"done"}


def test_runs_with_points(box, rhrun):
    rhrun(box.spec({"entrypoint": {"run": "true"}}, "plain.yaml")).ok()
    assert "POINTS" not in rhrun("runs").ok().out
    spec = sweep(box, "[ ${{ params.i }} != 2 ] || [ -e $HOME/good ]", {"i": [1, 2, 3]})
    rhrun(spec).expect(1)
    (box.home / "good").touch()
    rhrun(spec).ok()
    table = rhrun("runs").ok().out.splitlines()
    at = table[0].index("POINTS") + 6
    assert [row[:at].split()[-1] for row in table[1:]] == ["3/3", "2/3", "-"], table
    rows = [row.split() for row in rhrun("runs", "--points", spec).ok().out.splitlines()]
    ids = [run["run"] for run in rhrun("runs", spec, "--json").ok().json()]
    assert [row[:3] for row in rows[1:]] == [["i=1", "kept", ids[1]], ["i=2", "done", ids[0]], ["i=3", "kept", ids[1]]], rows
    assert rows[1][-1] == '{"i":1}'
    assert [p["state"] for p in rhrun("runs", "--points", ids[1], "--json").ok().json()] == ["done", "done", "done"]
    assert "no sweep" in rhrun("runs", "--points", "plain.yaml").expect(2).err

@pytest.mark.parametrize("inside", [False, True])
def test_each_point_has_a_folder_of_its_own(box, rhrun, fleet, inside):
    f = fleet(2, shared_home=True)
    text = "echo ${{ params.i }} >>$RHRUN_POINT_DIR/me" if not inside else "pwd; echo ${{ params.i }} >>me"
    spec = sweep(box, "%s; [ ${{ params.i }} != 1 ] || [ $(wc -l <${{ point.dir }}/me) = 2 ]" % text, {"i": [0, 1, 2, 3]}, cluster=f.cluster(), per_node=2,
                 distributed={"nproc_per_node": 1, "max_restarts": 1}, outputs=[{"from": "${{ point.dir }}/", "to": "results/${{ point }}/"}])
    if inside:
        spec.write_text(spec.read_text().replace('"entrypoint": {', '"entrypoint": {"cwd": "${{ point.dir }}", '))
        assert "point.dir" in spec.read_text()
    rhrun(spec).ok()
    got = {p.parent.name: p.read_text().split() for p in (box.work / "results").rglob("me")}
    assert got == {"i=0": ["0"], "i=1": ["1", "1"], "i=2": ["2"], "i=3": ["3"]}  # one that is tried again has what it left
    assert "point.dir is the folder of a point" in rhrun("validate", box.spec({"entrypoint": {"run": "echo ${{ point.dir }}"}}, name="b.yaml")).expect(2).err


def test_numbers_of_one_point_and_its_rerun(box, rhrun):
    (box.work / "v").write_text("7")
    spec = sweep(box, APPEND + "; echo v=$(cat v).${{ params.i }}", {"i": [1, 2, 3]}, workdir=".", metrics=[{"name": "v", "pattern": r"v=(?<value>\S+)"}])
    rhrun(spec).ok()
    (box.work / "v").write_text("8")
    values = [json.loads(line)["value"] for line in rhrun("metrics", "--json", "--point", "i=2", spec).ok().out.splitlines()]
    assert values == [7.2]
    assert "no point" in rhrun("metrics", "--point", "i=22", spec).expect(2).err
    r = rhrun("rerun", "last", "--point", "i=2").ok()
    assert "v=7.2" in r.text and here(box) == [1, 2, 2, 3], r
    assert 'no point "i=22"' in rhrun("rerun", "last", "--point", "i=22").expect(2).err


@pytest.mark.parametrize("goal, name", [("min", "i=2"), ("max", "i=1")])
def test_the_best_point(box, rhrun, goal, name):
    spec = sweep(box, "case ${{ params.i }} in 1) echo loss=0.5;; 2) echo loss=1e-3;; 3) echo loss=nan;; *) echo loss=-9; exit 1;; esac",
                 {"i": [1, 2, 3, 4]}, metrics=[{"name": "loss", "pattern": r"loss=(?<value>\S+)"}], best={"metric": "loss", "goal": goal})
    rhrun(spec).expect(1)
    assert f"best: {name}, loss " in rhrun("status", spec).ok().out
    points = rhrun("status", "--json", spec).ok().json()["points"]
    assert [p["point"] for p in points if p.get("best")] == [name], points


def test_other_outputs_launch_nothing(box, rhrun):
    text = APPEND + "; echo hi >${{ point.dir }}/a"
    spec = sweep(box, text)
    rhrun(spec).ok()
    sweep(box, text, outputs=[{"from": "${{ point.dir }}/a", "to": "results/${{ point }}/"}])
    assert "i=5: only its files are fetched" in rhrun("plan", spec).ok().out
    assert "6 of 6 points are done already" in rhrun(spec).ok().err
    assert here(box) == list(range(6)) and len(list((box.work / "results").rglob("a"))) == 6
    assert "nothing to do" in rhrun(spec).ok().err
