"""entrypoint.function: its arguments, its return value, its exceptions."""
import json
import shutil

import pytest

MODULE = '''
import asyncio, os, sys

def add(a, b=2):
    return {"sum": a + b, "here": os.path.basename(os.getcwd()) != "", "argv": sys.argv}

def typed(*args, **kwargs):
    return [args, kwargs]

async def later():
    await asyncio.sleep(0)
    return "later"

def rank():
    return int(os.environ.get("RANK", "-1"))

class Thing:
    @staticmethod
    def made():
        return object()

def fail_on_one():
    if os.environ["RANK"] == "1":
        raise ValueError("no good")

def leave(status):
    sys.exit(status)

def call_clean():
    return ["RHRUN_CALL" in os.environ, sys.path[0] in ("", os.getcwd())]
'''


@pytest.fixture
def call(box):
    """call(function, ...): runs a job that calls it."""
    folder = box.work / "src"
    folder.mkdir()
    (folder / "mine.py").write_text(MODULE)

    def run(function, *args, more=None, options=(), **entrypoint):
        box.spec({"name": "call", "workdir": "src", "entrypoint": {"function": function, **entrypoint}, **(more or {})})
        return box.run("job.yaml", *options)
    return run


def result(box, *args):
    return json.loads(box.run("result", "job.yaml", *args).ok().out)


def test_what_it_returns_is_kept(box, call):
    call("mine:add", kwargs={"a": 40}).ok()
    assert result(box)["sum"] == 42
    assert result(box)["argv"] == ["mine"]
    assert "nothing to do" in box.run("job.yaml").ok().err
    call("mine:add", kwargs={"a": 41}).ok()  # other arguments are another launch
    assert result(box)["sum"] == 43


def test_arguments_keep_their_types(box, call):
    params = {"lr": {"type": "number", "default": 1e-3}, "tag": {"type": "string", "default": "007"}}
    kwargs = {"lr": "${{ params.lr }}", "tag": "${{ params.tag }}", "text": "x ${{ params.lr }}", "deep": [1, None, True, {"a": 1.5}]}
    call("mine:typed", kwargs=kwargs, more={"params": params}).ok()
    args, got = result(box)
    assert got == {"lr": 0.001, "tag": "007", "text": "x 0.001", "deep": [1, None, True, {"a": 1.5}]}


def test_coroutines_classes_and_what_is_no_json(box, call):
    call("mine:later").ok()
    assert result(box) == "later"
    done = call("mine:Thing.made").ok()
    assert "is kept as text" in done.err
    assert result(box).startswith("<object object")
    call("mine:call_clean").ok()
    assert result(box) == [False, True]


def test_a_result_per_rank(box, call):
    call("mine:rank", more={"distributed": {"nnodes": 2, "nproc_per_node": 2}}).ok()
    assert result(box) == 0
    for r in range(4):
        assert result(box, "--rank", r) == r


def test_nodes_that_share_a_home(box, call, fleet):
    """All results lie in one folder there; each node brings those of its own ranks."""
    f = fleet(2, shared_home=True)
    call("mine:rank", more={"cluster": f.cluster(), "distributed": {"nproc_per_node": 2}}).ok()
    for r in range(4):
        assert result(box, "--rank", r) == r


def test_an_exception_shows_its_own_traceback_and_the_rank(box, call):
    done = call("mine:fail_on_one", more={"distributed": {"nproc_per_node": 2}}).expect(1)
    assert "ValueError: no good" in done.err and "rank 1" in done.err
    assert 'mine.py", line' in done.err and '"<string>"' not in done.err
    assert box.run("result", "job.yaml").rc != 0


@pytest.mark.parametrize("status", [0, 3])
def test_exit_is_what_it_is(box, call, status):
    call("mine:leave", kwargs={"status": status}).expect(1 if status else 0)
    if status == 0:
        assert result(box) is None


def test_what_cannot_be_called(box, call):
    assert '"mine" has no function "nothing"' in call("mine:nothing").expect(1).err
    assert "No module named 'none_such'" in call("none_such:f").expect(1).err


def test_a_result_after_a_lost_state_directory(box, rhrun, fleet):
    """A function's return value is stored under the id of the run that called it."""
    f = fleet(2)
    (box.work / "mine.py").write_text("def f():\n    return 42\n")
    path = box.spec({"name": "t", "cluster": f.cluster(), "workdir": ".", "entrypoint": {"function": "mine:f"}, "distributed": {"nproc_per_node": 1}})
    rhrun(path).ok()
    shutil.rmtree(box.state)
    rhrun(path).ok()
    assert rhrun("result", path).ok().out.strip() == "42"
