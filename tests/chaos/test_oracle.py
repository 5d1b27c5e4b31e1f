"""The judge judged: each rule is broken once, in witness files made by hand."""
import random

import pytest

from job import Job
from oracle import Oracle, Violation
from story import cut_texts


class World:
    """A job of two ranks on two hosts with one step of set-up, and the file that its steps told."""

    def __init__(self, folder):
        (folder / "b" / "w").mkdir(parents=True)
        self.path = folder / "b" / "w" / "witness"
        self.job = Job(random.Random(1), folder / "b" / "work", {"hosts": ["a", "b"]}, 2)
        self.job.__dict__.update(workdir=True, code={"a.txt": 1, "b/c.txt": 1, "p.txt": 1}, vocab=0, items={"one": 1}, prolog=0, epilog=1,
                                 world=2, per_node=1, roles={}, rules=[], params={}, always=False)
        self.oracle, self.pid = Oracle(self.path.parent), 0

    def tell(self, kind, step, node, attempt, rank=0, run="r1", restart=0, version="v1", seen=None, status=0):
        self.pid += 1
        seen = {"a.txt": "a-1", "b/c.txt": "c-1", "p.txt": "orig-1", "made.one": "v1:a.txt=a-1,b/c.txt=c-1,"} if seen is None else seen
        end = " seen=" + "".join(f"{k}={v};" for k, v in seen.items()) if kind == "begin" else f" status={status}"
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(f"{kind} step={step} version={version} node={node} rank={rank} attempt={attempt} run={run} restart={restart} world=2 pid={self.pid}{end}\n")

    def whole(self, step, node, attempt, **more):
        self.tell("begin", step, node, attempt, **more)
        more.pop("seen", None)
        self.tell("end", step, node, attempt, **more)

    def set_up(self, nodes=(0, 1), tag="s"):
        for n in nodes:
            self.whole("one", n, f"{tag}{n}", seen={"a.txt": "a-1", "b/c.txt": "c-1"})

    def launch(self, tag="l", **more):
        for n in (0, 1):
            self.whole("launch", n, f"{tag}{n}", rank=n, **more)

    def epilog(self):
        for n in (0, 1):
            self.whole("epilog", n, f"e{n}", seen={})

    def look(self):
        self.oracle.look([self.job.snapshot(None)])

    def done(self):
        self.look()
        return self.oracle.done(self.job.snapshot(None))

    def all(self):
        self.set_up()
        self.launch()
        self.epilog()
        assert self.done()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def broken(world, words, call=None):
    with pytest.raises(Violation, match=words):
        (call or world.look)()


def test_what_is_right_is_no_violation(world):
    world.all()
    world.job.code["a.txt"] = 2
    now = {"a.txt": "a-2", "b/c.txt": "c-1", "p.txt": "orig-1"}
    for n in (0, 1):
        world.whole("one", n, f"t{n}", seen={"a.txt": "a-2", "b/c.txt": "c-1"})
    world.launch("m", run="r2", seen={**now, "made.one": "v1:a.txt=a-2,b/c.txt=c-1,"})
    for n in (0, 1):
        world.whole("epilog", n, f"f{n}", seen={})
    assert world.done()


def test_an_attempt_twice(world):
    world.all()
    world.tell("begin", "launch", 0, "l0")
    broken(world, "runs twice")


def test_two_at_a_time(world):
    world.set_up()
    world.tell("overlap", "launch", 0, "l0")
    broken(world, "live at the same time")


@pytest.mark.parametrize("seen", [{"a.txt": "a-0", "b/c.txt": "c-1", "p.txt": "orig-1", "made.one": "v1:a.txt=a-1,b/c.txt=c-1,"},
                                  {"a.txt": "a-1", "b/c.txt": "c-1", "p.txt": "orig-1", "made.one": "-"}], ids=["code", "set-up"])
def test_something_old(world, seen):
    world.set_up()
    world.launch(seen=seen)
    broken(world, "does not see the current code")


def test_a_patch_that_is_undone(world):
    world.job.items["patch"] = 1
    for n in (0, 1):
        world.whole("one", n, f"s{n}", seen={"a.txt": "a-1", "b/c.txt": "c-1"})
        world.whole("patch", n, f"p{n}", seen={})
    world.launch(seen={"a.txt": "a-1", "b/c.txt": "c-1", "p.txt": "orig-1", "made.one": "v1:a.txt=a-1,b/c.txt=c-1,", "made.patch": "v1:"})
    broken(world, "patched-1")


def test_done_and_launched_again(world):
    world.all()
    world.launch("m", run="r2")
    broken(world, "is launched again")


def test_set_up_again(world):
    world.all()
    world.set_up(tag="t")
    broken(world, "is done again")


def test_done_without_set_up_on_a_node(world):
    world.set_up(nodes=[0])
    world.launch()
    world.epilog()
    broken(world, "had not ended well on node 1", world.done)


def test_done_without_a_rank(world):
    world.set_up()
    world.whole("launch", 0, "l0")
    world.epilog()
    broken(world, "of 2 ranks only", world.done)


def test_done_with_a_failure(world):
    world.set_up()
    world.whole("launch", 0, "l0")
    world.whole("launch", 1, "l1", rank=1, status=7)
    world.epilog()
    broken(world, "rank 1 has not ended well", world.done)


def test_done_by_parts_of_two_generations(world):
    world.set_up()
    world.whole("launch", 0, "l0", restart=0)
    world.whole("launch", 1, "l1", rank=1, restart=1)
    world.epilog()
    broken(world, "of 2 ranks only", world.done)


def test_done_without_the_epilog(world):
    world.set_up()
    world.launch()
    broken(world, "no epilog", world.done)


def test_asked_for_and_not_launched(world):
    world.all()
    world.oracle.asked_at = len(world.oracle.events)
    broken(world, "none came", world.done)


def test_texts_that_are_cut():
    line = b"launch v1 begins\nlaunch 1\nlaunch 2\nlaunch 3\n"
    assert cut_texts(b"", [line]) and cut_texts(line[:20], [line]) and cut_texts(line[:20] + line, [line, line])
    # The second begins as the first would have gone on.
    assert cut_texts(b"launch v1 begins\nlaunch 1\n" + line, [line, line]) and cut_texts(line[:20] + line[:3] + line, [line] * 3)
    assert not cut_texts(line[:20] + b"?" + line, [line, line]) and not cut_texts(line + line, [line])
    assert not cut_texts(line[:20] + line[30:], [line])


def test_anothers_failure_is_what_came_last(world):
    """Once the journal is lost, nobody knows of the launch before."""
    world.all()
    world.oracle.foreign_to = 1000
    world.oracle.forget()
    world.launch(tag="x", run="r2", status=5)
    world.look()
    assert not world.oracle.done(world.job.snapshot(None))
    world.oracle.journal_lost()
    world.launch(tag="y", run="r3")
    world.look()


def test_anothers_launch_in_the_middle_of_ones_own(world):
    """A role of it was done before, the next one after: of the first the other one's came last."""
    world.set_up()
    world.whole("launch", 0, "l0", rank=0)
    world.launch(tag="x", run="r2")
    world.oracle.foreign_to = 1000
    world.whole("launch", 1, "l1", rank=1)
    world.epilog()
    world.look()
    world.oracle.forget()
    assert world.oracle.done(world.job.snapshot(None))
    world.oracle.journal_lost()
    world.launch(tag="y", run="r3")
    world.look()


def test_anothers_launch_without_its_epilog(world):
    """Its controller was killed before: what is done is the launch before it."""
    world.all()
    world.launch(tag="x", run="r2")
    world.oracle.forget()
    with pytest.raises(Violation, match="no epilog ended well"):
        world.done()
    world.oracle.foreign_to = 1000
    assert not world.oracle.done(world.job.snapshot(None))  # the newest is not it
    assert world.oracle.journal_only == {None}


def test_a_launch_is_of_the_variant_that_was_asked_for(world):
    world.all()
    world.launch(tag="x", run="r2")
    world.oracle.forget()
    world.oracle.look([world.job.snapshot(None), world.job.snapshot("2")])
    assert world.oracle.variant_of == {"r1": None, "r2": "2"}


def test_ones_own_launch_is_known_to_the_nodes(world):
    world.all()
    world.oracle.journal_lost()
    world.launch(tag="y", run="r3")
    with pytest.raises(Violation, match="is launched again"):
        world.look()
