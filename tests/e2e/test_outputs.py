"""Outputs of a launch that is over: those that the spec names later, and those that are missing."""
import shutil

import pytest


def spec_of(box, f, outputs, **more):
    return box.spec({"name": "job", "cluster": f.cluster(), "outputs": outputs, "setup": [{"name": "s", "run": "echo setup >>$HOME/lines"}],
                     "entrypoint": {"run": "mkdir -p out more; echo $RANK >out/rank; echo $RANK >more/rank; echo x >one.txt; "
                                           "echo launch >>$HOME/lines", "epilog": "echo epilog >>$HOME/lines"},
                     "distributed": {"nproc_per_node": 1}, **more})


def verdicts(r):
    """{step: verdicts} of a plan; a step that runs again has a reason."""
    found = {}
    for step in r.json()["steps"]:
        for v in step["verdicts"]:
            found.setdefault(step["name"], set()).add(v["verdict"])
            assert v["verdict"] != "run again" or v.get("reason"), (step["name"], v)
    return found


DONE = ["setup", "launch", "epilog"]


def test_outputs_that_are_added_are_fetched(box, rhrun, fleet):
    f = fleet(2)
    rhrun(spec_of(box, f, [{"from": "out/", "to": "results/"}])).ok()
    assert f.all_lines() == [DONE] * 2
    spec = spec_of(box, f, [{"from": "more/", "to": "more/", "nodes": "all"}, {"from": "out/", "to": "results/"}])
    plan = rhrun("plan", "--json", spec).ok()
    assert verdicts(plan) == {"s": {"keep"}, "launch": {"keep"}, "epilog": {"not needed"}, "outputs-1": {"run again", "run"},
                              "outputs-2": {"run"}}, plan
    assert "`from`, `to` and `nodes` changed" in plan.text and rhrun("plan", "--exit-code", spec).rc == 10
    r = rhrun(spec).ok()
    assert "the launch of this run is kept; to fetch: outputs-1, outputs-2" in r.err, r
    assert [(box.work / f"more/node{i + 1}/rank").read_text() for i in range(2)] == ["0\n", "1\n"]
    assert f.all_lines() == [DONE] * 2, r
    assert "nothing to do" in rhrun(spec).ok().err
    assert len(rhrun("runs", "--json").ok().out.splitlines()) >= 1
    assert "launch" in rhrun("logs", "--step", "launch", spec).ok().args
    rhrun("--again", spec).ok()
    assert f.all_lines() == [["setup", "launch", "epilog", "launch", "epilog"]] * 2


def test_outputs_of_one_node_and_then_of_all(box, rhrun, fleet):
    """The same `to`, but each node has a folder in it now: the first node's files come into its own, too."""
    f = fleet(2)
    rhrun(spec_of(box, f, [{"from": "out/", "to": "results/"}])).ok()
    spec = spec_of(box, f, [{"from": "out/", "to": "results/", "nodes": "all"}])
    assert "`nodes` is new" in rhrun("plan", "--json", spec).ok().out
    rhrun(spec).ok()
    assert [(box.work / f"results/node{i + 1}/rank").read_text() for i in range(2)] == ["0\n", "1\n"]
    assert f.all_lines() == [DONE] * 2


def test_a_node_that_nothing_comes_from_is_not_asked(box, rhrun, fleet):
    f = fleet(2)
    rhrun(spec_of(box, f, [])).ok()
    f.stop(2)
    rhrun(spec_of(box, f, ["out/"])).ok()
    assert (box.work / "out/rank").read_text() == "0\n" and f.lines(1) == DONE
    f.start(2)


@pytest.mark.parametrize("after", range(1, 5))
def test_killed_while_it_fetches_what_is_new(box, rhrun, fleet, after):
    f = fleet(1)
    rhrun(spec_of(box, f, ["out/"])).ok()
    spec = spec_of(box, f, ["out/", "more/", {"from": "one.txt", "to": "one/"}])
    rhrun(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
    rhrun(spec).ok()
    assert (box.work / "more/rank").exists() and (box.work / "one/one.txt").exists()
    assert f.lines(1) == DONE
    assert "nothing to do" in rhrun(spec).ok().err


def test_a_job_that_changed_is_launched(box, rhrun, fleet):
    f = fleet(1)
    rhrun(spec_of(box, f, ["out/"])).ok()
    rhrun(spec_of(box, f, ["more/"], env={"X": "1"})).ok()
    assert f.lines(1).count("launch") == 2


def test_results_and_logs_are_found_behind_it(box, rhrun, fleet):
    f = fleet(1)
    (box.work / "src").mkdir()
    (box.work / "src/mine.py").write_text("def f():\n    print('hello')\n    open('a.txt', 'w').write('a')\n    return [1]\n")
    job = {"name": "job", "cluster": f.cluster(), "workdir": "src", "entrypoint": {"function": "mine:f"}}
    rhrun(box.spec(job)).ok()
    spec = box.spec({**job, "outputs": [{"from": "a.txt", "to": "res"}]})
    rhrun(spec).ok()
    assert (box.work / "res/a.txt").read_text() == "a"
    assert rhrun("result", spec).ok().out == "[1]\n"
    assert "hello" in rhrun("logs", spec).ok().out
    assert rhrun("status", "--json", spec).ok().json()["status"] == "done"


@pytest.mark.parametrize("after", [None, 1, 2, 3, 4])
def test_a_required_output_that_is_missing(box, rhrun, fleet, after):
    """Status 1 names the output and the place; the launch is kept, also after a kill, and the next run only fetches."""
    f = fleet(2)
    rhrun(spec_of(box, f, [])).ok()
    spec = spec_of(box, f, [{"from": "late.txt", "to": "late/", "nodes": "all"}, {"from": "*.none", "to": "none/"}])
    if after:
        rhrun(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
    r = rhrun(spec).expect(1)
    assert 'step "outputs-1": no file is there: "late.txt"' in r.err and 'no file is there: "*.none"' in r.err, r
    work = next(p for p in (f.home(2) / ".rhrun/work").glob("*/*"))
    (work / "late.txt").write_text("late")
    rhrun(spec).ok()
    assert (box.work / "late/node2/late.txt").read_text() == "late"
    assert f.all_lines() == [DONE] * 2
    assert "nothing to do" in rhrun(spec).ok().err


def test_what_ran_before_runs_again_for_a_reason(box, rhrun, fleet):
    f = fleet(1)
    spec = spec_of(box, f, ["out/"])
    assert all(v == {"run"} for v in verdicts(rhrun("plan", "--json", spec).ok()).values())
    rhrun(spec).ok()
    assert verdicts(rhrun("plan", "--json", spec).ok()) == {"s": {"keep"}, "launch": {"keep"}, "epilog": {"not needed"},
                                                           "outputs-1": {"not needed"}}
    ways = [["--again"], ["--fresh"], ["--from", "launch"], ["--set", "env={X: 1}"], ["--set", "entrypoint.always=true"],
            ["--set", "entrypoint.epilog=echo"], ["--set", "setup=[{name: s, run: 'true'}]"]]
    for offline in ([], ["--offline"]):
        for way in ways:
            r = rhrun("plan", "--json", *offline, *way, spec).ok()
            assert verdicts(r)["launch"] == {"run again"} and verdicts(r)["epilog"] == {"run again"}, r
    rhrun("--set", "entrypoint.run=exit 3", spec).expect(1)
    r = rhrun("plan", "--json", "--set", "entrypoint.run=exit 3", spec).ok()
    assert verdicts(r)["launch"] == {"run again"}, r


def test_a_node_that_lost_what_the_launch_made(box, rhrun, fleet):
    """Nothing can bring it: the message names a way that works."""
    f = fleet(2)
    rhrun(spec_of(box, f, [])).ok()
    shutil.rmtree(f.home(1) / ".rhrun")
    spec = spec_of(box, f, [{"from": "out/", "to": "results/"}])
    r = rhrun(spec).expect(1)
    assert 'no file is there: "out/"' in r.err and "--again launches again" in r.err, r
    rhrun("--again", spec).ok()
    assert (box.work / "results/rank").read_text() == "0\n"
