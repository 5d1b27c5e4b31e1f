"""One bug on many ranks is shown once, and names the ranks that ended alike; no other error is hidden, and logs stay whole."""
import json
import re

import pytest


PROGRAM = '''
import os, sys, time
rank = int(os.environ["RANK"])
gen = os.environ["TORCHELASTIC_RESTART_COUNT"]
home = os.environ["HOME"]
def others():  # all have begun before one ends, as the first end stops the others
    open(f"{home}/up-{gen}-{rank}", "w").close()
    while not all(os.path.exists(f"{home}/up-{gen}-{r}") for r in range(4)):
        time.sleep(0.01)
def loss(x):
    return x / 0
def main():
    others()
    MODE
def said():
    sys.stderr.flush()
    open(f"{home}/said-{gen}-{rank}", "w").close()
    while not all(os.path.exists(f"{home}/said-{gen}-{r}") for r in range(4)):
        time.sleep(0.01)
hook = sys.excepthook
def all_say(*what):
    hook(*what)
    said()
sys.excepthook = all_say
main()
'''
HEAD = "Traceback (most recent call last):"
ZERO = "ZeroDivisionError: float division by zero"


@pytest.fixture
def program(box):
    """program(body, **more): a spec with four ranks that run it; none ends before all have printed."""
    def make(body, workdir=None, **more):
        (box.work / "t.py").write_text(PROGRAM.replace("MODE", body))
        spec = {"name": "tb", "distributed": {"nproc_per_node": 4, **more}, "entrypoint": {"script": "t.py"}}
        return box.spec({**spec, **({"workdir": workdir} if workdir else {})})
    return make


def alike(text):
    """For each traceback, the ranks that are reported to have ended alike."""
    return [sorted(re.findall(r"\[(\d)\]@local", names)) for names in re.findall(r"^rhrun: \d+ more ranks? ended alike: (.*)$", text, re.M)]


def test_once_in_full(box, rhrun, program):
    r = rhrun(program("loss(float(rank))")).expect(1)
    assert r.err.count(HEAD) == 1 and r.err.count(ZERO) == 1, r
    first = re.search(r"default\[(\d)\]@local: Traceback", r.err).group(1)
    assert alike(r.err) == [sorted(set("0123") - {first})], r
    assert re.search(r"^rhrun: 3 more ranks ended alike: ", r.err, re.M)
    assert "last lines of" not in r.err and r.err.index("ended alike") < r.err.index("rhrun: error:")
    for rank in range(4):
        assert ZERO in rhrun("logs", "--rank", rank).ok().err
    assert rhrun("logs").ok().err.count(HEAD) == 4


def test_the_folders_of_nodes_do_not_count(box, rhrun, program):
    r = rhrun(program("loss(1)", workdir=".", nnodes=2, nproc_per_node=2)).expect(1)
    assert r.err.count(HEAD) == 1 and re.search(r"^rhrun: 3 more ranks ended alike: ", r.err, re.M), r


def test_json_is_as_it_was(box, rhrun, program):
    events = rhrun("--json", program("loss(float(rank))")).expect(1).events()
    assert sum(e["type"] == "output" and e["text"].startswith(HEAD) for e in events) == 4
    assert "ended alike" not in json.dumps(events)


def test_quiet_is_all_of_the_workers_output(box, rhrun, program):
    r = rhrun("-q", program("loss(float(rank))")).expect(1)
    assert r.err.count(HEAD) == 4 and "ended alike" not in r.err


def test_the_live_view(box, program):
    from harness import Terminal
    t = Terminal(box, [program("loss(float(rank))")], columns=110, rows=40)
    t.pump()
    assert t.rc == 1
    assert t.raw.count(HEAD.encode()) == 1 and t.raw.count(ZERO.encode()) == 1, t.display()
    assert "3 more ranks ended alike: default[" in t.display()


def test_the_ranks_own_numbers_do_not_count(box, rhrun, program):
    r = rhrun(program('raise RuntimeError(f"rank {rank} on cuda:{rank}: object at {hex(id(main))} is gone")')).expect(1)
    assert r.err.count(HEAD) == 1 and r.err.count("is gone\n") == 1 and len(alike(r.err)[0]) == 3, r


def test_other_numbers_are_shown(box, rhrun, program):
    r = rhrun(program('raise IndexError(f"index {rank * 10 + 5} is out of range, says rank {rank}")')).expect(1)
    assert r.err.count(HEAD) == 1 and len(alike(r.err)[0]) == 3, r
    for rank in range(4):
        assert f"default[{rank}]@local: IndexError: index {rank * 10 + 5} is out of range, says rank {rank}\n" in r.err, r


@pytest.mark.parametrize("body", ['raise KeyError("abcd"[rank])', '[lambda: loss(0.0), lambda: 1 + "a", lambda: {}["a"], lambda: [][0]][rank]()',
                                  'raise [OSError, ValueError, KeyError, IndexError][rank]("x")'])
def test_another_error_is_never_hidden(box, rhrun, program, body):
    r = rhrun(program(body)).expect(1)
    assert r.err.count(HEAD) == 4 and "ended alike" not in r.err, r


def test_another_error_among_those_that_are_alike(box, rhrun, program):
    r = rhrun(program('loss("a" if rank == 2 else 1.0)')).expect(1)
    assert r.err.count(HEAD) == 2 and r.err.count(ZERO) == 1 and "default[2]@local: TypeError" in r.err, r
    assert len(alike(r.err)) == 1 and "2" not in alike(r.err)[0]


def test_chains_and_what_stands_behind(box, rhrun, program):
    body = '''try:
        loss(1.0)
    except ZeroDivisionError as e:
        raise ValueError(f"first line\\nsecond line\\nthird of {'rank 1' if rank == 1 else 'the others'}") from e'''
    r = rhrun(program(body)).expect(1)
    assert r.err.count(HEAD) == 2 and r.err.count(ZERO) == 1 and r.err.count("the direct cause of") == 1, r
    assert r.err.count("third of the others") in (1, 3) and "default[1]@local: third of rank 1\n" in r.err, r
    assert len(alike(r.err)[0]) == 3


def test_what_a_rank_repeats_is_shown(box, rhrun, program):
    """Logged, not raised, and twice: each round is shown once."""
    body = '''import traceback
    for i in range(2):
        try:
            loss(1.0)
        except ZeroDivisionError:
            traceback.print_exc()
        while os.path.exists(f"{home}/wait-{i}"):
            time.sleep(0.01)
    said()'''
    (box.home / "wait-0").touch()
    r = box.start(program(body))
    r.wait_text(ZERO)
    (box.home / "wait-0").unlink()
    r = r.wait().ok()
    assert 2 <= r.err.count(ZERO) <= 4 and "alike" in r.err, r


def test_a_restart_shows_it_anew(box, rhrun, program):
    r = rhrun(program("loss(1.0)", max_restarts=1)).expect(1)
    assert r.err.count("default[") >= 2 and r.err.count(HEAD) == 2, r
    assert r.err.index(HEAD) < r.err.index("restart 1 of 1") < r.err.rindex(HEAD)
    assert len(alike(r.err)) == 2


def test_half_a_traceback_is_shown(box, rhrun, program):
    r = rhrun(program('''print("Traceback (most recent call last):\\n  File \\"x\\", line 1, in y", file=sys.stderr)
    said()
    os._exit(3)''')).expect(1)
    assert r.err.count(HEAD) == 4 and "ended alike" not in r.err, r


def test_many_ranks_in_one_stream(box, rhrun):
    """A launcher's stream, in which torch puts the rank before each line."""
    lines = [HEAD, '  File "t.py", line 1, in <module>', "    main()", "RuntimeError: no rank {r}"]
    text = "\n".join(f"[rank{r}]: {line.format(r=r)}" for line in lines for r in range(3))
    (box.work / "text").write_text(text + "\n")
    spec = box.spec({"distributed": {"nnodes": 2}, "entrypoint": {
        "run": "cat text >&2; touch $HOME/said-$RANK; while [ ! -e $HOME/said-0 ] || [ ! -e $HOME/said-1 ]; do sleep 0.02; done; exit 1"}})
    r = rhrun(spec).expect(1)
    assert r.err.count(HEAD) == 1, r
    names = re.search(r"^rhrun: 5 more ranks ended alike: (.*)$", r.err, re.M).group(1)
    assert "default[1]@local-1 rank 2" in names or "default[0]@local rank 2" in names


def test_the_last_lines_come_again_when_they_are_far_away(box, rhrun, program):
    r = box.start(program('''if rank == 1:
        sys.stderr.write("Traceback (most recent call last):\\n  File \\"x\\", line 1, in y\\nOSError: the only words\\n")
        sys.stderr.flush()
        while not os.path.exists(f"{home}/two"):
            time.sleep(0.01)
        os._exit(3)
    if rank == 0:
        while not os.path.exists(f"{home}/one"):
            time.sleep(0.01)
        for i in range(300):
            print("much", i, flush=True)
        open(f"{home}/two", "w").close()
    time.sleep(600)'''))
    r.wait_text("the only words")
    (box.home / "one").touch()
    r = r.wait().expect(1)
    assert "last lines of launch, rank 1," in r.err and r.err.count("the only words") == 2, r
