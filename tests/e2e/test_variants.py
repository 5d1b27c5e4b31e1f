"""-p, --set and the words after -- choose one of a spec's runs, with every command that takes a run."""
import pytest

from harness import wait_for

MODULE = "def f(lr, seed, *rest):\n    print(\"lr is\", lr)\n    return [lr, seed, *rest]\n"


@pytest.fixture
def runs(box, job, rhrun):
    """The ids of runs with lr=0.2, then lr=0.3, then lr=0.3 and an environment of its own, by these words."""
    (box.work / "src").mkdir()
    (box.work / "src" / "m.py").write_text(MODULE)
    spec = job({"name": "v", "params": {"lr": 0.1, "seed": 1}, "workdir": "src", "env": {"A": "0"},
                "entrypoint": {"function": "m:f", "args": ["${{ params.lr }}", "${{ params.seed }}"]}}, "fn.yaml")
    ids = {}
    for words in (("-p", "lr=0.2"), ("-p", "lr=0.3"), ("-p", "lr=0.3", "--set", "env.A=1")):
        rhrun(spec, *words).ok()
        ids[" ".join(words)] = rhrun("status", "--json", "last").ok().json()["run"]
    assert len(set(ids.values())) == 3
    return ids


def test_result_is_the_variants(runs, rhrun):
    assert rhrun("result", "fn.yaml", "-p", "lr=0.2").ok().json() == [0.2, 1]
    assert rhrun("result", "fn.yaml", "-p", "lr=0.3").ok().json() == [0.3, 1]
    assert rhrun("result", "fn.yaml", "-p", "lr=0.2", "-p", "seed=1").ok().json() == [0.2, 1]
    assert rhrun("result", "fn.yaml").ok().json() == [0.3, 1]  # without options: the latest


def test_each_command_takes_the_variants_run(runs, rhrun):
    ids = list(runs.values())
    for words, run in zip((("-p", "lr=0.2"), ("-p", "lr=0.3", "--set", "env.A=1"), ("--set", "env.A=1")), (ids[0], ids[2], ids[2])):
        assert rhrun("status", "--json", "fn.yaml", *words).ok().json()["run"] == run
        assert f"run {run} has ended already" in rhrun("cancel", "fn.yaml", *words).ok().err
        assert f"run {run}: done" in rhrun("attach", "fn.yaml", *words).ok().err
        assert {e["run"] for e in rhrun("show", "fn.yaml", "--events", *words).ok().events()} == {run}
        assert f"lr is {words[1].removeprefix('lr=') if words[0] == '-p' else 0.3}\n" in rhrun("logs", "fn.yaml", *words).ok().out
    assert [r["run"] for r in rhrun("runs", "--json", "fn.yaml", "-p", "lr=0.3").ok().json()] == ids[:0:-1]
    assert [r["run"] for r in rhrun("runs", "--json", "fn.yaml").ok().json()] == ids[::-1]
    listed = rhrun("runs").ok().out
    assert "  lr=0.2 seed=1\n" in listed and "  lr=0.3 seed=1  --set env.A=1\n" in listed


@pytest.mark.parametrize("command", ["result", "status", "logs", "attach", "cancel", "show --events", "runs", "metrics", "report"])
def test_a_variant_that_never_ran(runs, rhrun, command):
    for words in (("-p", "lr=0.7"), ("--set", "env.A=2"), ("-p", "lr=0.2", "--", "x"), ("--", "x")):
        r = rhrun(*command.split(), "fn.yaml", *words).expect(2)
        assert not r.out
        assert '"fn.yaml" was never run with ' + " ".join(words) in r.err, r
        for word, run in zip(("-p lr=0.2 -p seed=1", "-p lr=0.3 -p seed=1", "--set env.A=1 -p lr=0.3 -p seed=1"), runs.values()):
            assert f"run {run} (done): {word}\n" in r.err, r


def test_arguments_are_part_of_it(box, job, rhrun):
    spec = job({"name": "v", "entrypoint": {"run": "echo got-$*"}})
    rhrun(spec, "--", "a", "b c").ok()
    rhrun(spec).ok()
    assert "got-a b c" in rhrun("logs", spec, "--", "a", "b c").ok().out
    assert "got-\n" in rhrun("logs", spec).ok().out
    assert rhrun("status", "--json", spec, "--").ok().json()["command"].endswith("job.yaml")
    assert "-- a 'b c'\n" in rhrun("logs", spec, "--", "b").expect(2).err


def test_a_run_that_is_named_needs_none(runs, rhrun):
    """With one run there is nothing to choose, and an option without effect is refused."""
    run = runs["-p lr=0.2"]
    for command in ("result", "status", "logs", "show"):
        for word in ([run], ["last"], []):
            if command == "show" and not word:
                continue
            r = rhrun(command, *word, "-p", "lr=0.3").expect(2)
            assert "-p, --set and words after -- choose among the runs of a spec" in r.err and not r.out, r
    assert "choose among the runs of a spec" in rhrun("runs", "-p", "lr=0.3").expect(2).err


def test_the_open_run_of_another_variant_is_left_alone(box, job, rhrun):
    """cancel with the params of a run that has ended does not stop the active one."""
    spec = job({"name": "v", "params": {"n": 1},
                "entrypoint": {"run": "touch $HOME/began-${{ params.n }}; while [ ! -e $HOME/go-${{ params.n }} ]; do sleep 0.02; done"}})
    (box.home / "go-1").touch()
    rhrun(spec).ok()
    r = box.start(spec, "-p", "n=2")
    wait_for((box.home / "began-2").exists, what="the worker")
    assert "has ended already (done)" in rhrun("cancel", spec, "-p", "n=1").ok().err
    assert rhrun("status", "--json", spec, "-p", "n=2").ok().json()["status"] == "running"
    rhrun("cancel", spec, "-p", "n=2").ok()
    r.wait().expect(143)


def test_a_param_that_the_spec_has_not(runs, rhrun):
    r = rhrun("result", "fn.yaml", "-p", "rl=0.2").expect(2)
    assert 'no param "rl"' in r.err
    r = rhrun("result", "fn.yaml", "-p", "lr=fast").expect(2)
    assert 'param "lr" is "fast", not a number' in r.err


def test_no_node_and_no_variable_is_needed(box, job, rhrun):
    """Choosing a run does not check the spec: a required variable of the caller, a faulty key."""
    spec = job({"name": "v", "params": {"n": {"type": "integer"}}, "env": {"WANTED": None}, "entrypoint": {"run": "echo n-${{ params.n }}"}})
    rhrun(spec, "-p", "n=1", env={"WANTED": "x"}).ok()
    rhrun(spec, "-p", "n=2", env={"WANTED": "x"}).ok()
    assert "n-1" in rhrun("logs", spec, "-p", "n=1").ok().out
