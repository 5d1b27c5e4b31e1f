"""The order of set-up between nodes: an item with `on` holds back the later items of its list on the other nodes."""
import pytest

from harness import wait_for, workers_of

USE = "echo use ${{ node.rank }} >>$LINES; test -e $MARKS/shared"
NODES = 4


@pytest.fixture
def marks(box):
    folder = box.dir / "marks"
    folder.mkdir()
    return folder


def spec_of(box, marks, setup, nodes=NODES, **more):
    return box.spec({"name": "order", "setup": setup, "distributed": {"nnodes": nodes, "nproc_per_node": 1},
                     "env": {"MARKS": str(marks), "LINES": str(box.home / "lines")}, "entrypoint": {"run": "true"}, **more})


def made(then, on="first", name="make"):
    """An item that waits until the test lets it end."""
    return {"name": name, "on": on, "run": f"echo {name} ${{{{ node.rank }}}} >>$LINES; until test -e $MARKS/go; do sleep 0.02; done; {then}"}


def test_what_one_node_makes_is_there_for_the_others(box, marks):
    """The other nodes have reached their item long before, as what stands before it shows, and have not begun it."""
    setup = [{"name": "before", "run": "echo before ${{ node.rank }} >>$LINES"}, made("touch $MARKS/shared"), {"name": "use", "run": USE}]
    spec = spec_of(box, marks, setup)
    r = box.start(spec)
    r.wait_text(r'step "use" waits for "make" on node "')
    wait_for(lambda: len(box.lines()) >= NODES + 1, what="what stands before the item on every node")
    (marks / "go").touch()
    r.wait().ok()
    lines = box.lines()
    assert sorted(lines[:NODES]) == [f"before {n}" for n in range(NODES)] or "make 0" in lines[:NODES], lines
    assert lines.index("make 0") < min(lines.index(f"use {n}") for n in range(NODES)), lines
    assert sorted(lines[-NODES:]) == [f"use {n}" for n in range(NODES)], lines
    assert "nothing to do" in box.run(spec).ok().err
    assert box.lines() == lines


def test_what_a_node_waits_for_is_said(box, marks, terminal):
    """plan names it beforehand, the live view while it waits."""
    spec = spec_of(box, marks, [made("touch $MARKS/shared"), {"name": "use", "run": USE}])
    held = "after make on local-0"
    for command in (["plan"], ["plan", "--offline"]):
        shown = box.run(*command, spec).ok().out
        assert shown.index(" use ") < shown.index(held) < shown.index(" launch ") and shown.count("after make") == 1, shown
    t = terminal(spec)
    t.pump(lambda text: "waiting for make on local-0" in text)
    (marks / "go").touch()
    t.pump()
    assert t.rc == 0 and "waiting for" not in t.display()
    assert held not in box.run("plan", spec).ok().out


def test_over_ssh(box, marks, fleet):
    setup = [{"name": "make", "on": "first", "run": "sleep 1; touch $MARKS/shared"}, {"name": "use", "run": USE}]
    box.run(spec_of(box, marks, setup, 2, cluster=fleet(2).cluster())).ok()
    assert sorted(box.lines()) == ["use 0", "use 1"]


def test_it_fails(box, marks):
    (marks / "go").touch()
    spec = spec_of(box, marks, [made("exit 7"), {"name": "use", "run": USE}])
    r = box.run(spec).expect(1)
    assert 'step "make": exit status 7' in r.err, r
    assert box.lines() == ["make 0"]
    setup = [made("touch $MARKS/shared"), {"name": "use", "run": USE}]
    box.run(spec_of(box, marks, setup)).ok()
    assert sorted(box.lines()[2:]) == [f"use {n}" for n in range(NODES)]


def test_killed_in_the_wait(box, marks):
    """A rerun waits for the item that still runs, and nothing is done twice."""
    spec = spec_of(box, marks, [made("touch $MARKS/shared"), {"name": "use", "run": USE}])
    r = box.start(spec)
    r.wait_text(r'step "use" waits for "make" on node "')
    wait_for(lambda: "make 0" in box.lines(), what="the item")
    r.kill9()
    assert workers_of(box.dir), "the item goes on"
    r = box.start(spec)
    r.wait_text(r'step "use" waits for "make" on node "')
    assert box.lines() == ["make 0"]
    (marks / "go").touch()
    r.wait().ok()
    assert box.lines()[0] == "make 0" and sorted(box.lines()[1:]) == [f"use {n}" for n in range(NODES)]


@pytest.mark.parametrize("on", [[1], [1, 3], [0, 1, 2, 3]], ids=str)
def test_a_list(box, marks, on):
    setup = [made("touch $MARKS/made.${{ node.rank }}", on), {"name": "use", "run": "echo use ${{ node.rank }} >>$LINES; for n in %s; do test -e $MARKS/made.$n || exit 1; done"
                                                             % " ".join(map(str, on))}]
    spec = spec_of(box, marks, setup)
    r = box.start(spec)
    wait_for(lambda: len(box.lines()) >= len(on), what="the item on each of its nodes")
    (marks / "go").touch()
    r.wait().ok()
    lines = box.lines()
    assert sorted(lines[:len(on)]) == [f"make {n}" for n in on]
    assert sorted(lines[len(on):]) == [f"use {n}" for n in range(NODES)]


def test_the_first_of_a_home_does_it_for_the_second(box, marks, fleet):
    """Node 1 comes to the folder when node 0 has long brought it for both: nothing happens there, and still who waits goes on."""
    (box.work / "data").mkdir()
    (box.work / "data/shared").write_text("x")
    setup = [{"name": "slow", "run": "test ${{ node.rank }} != 1 || until test -e $MARKS/go; do sleep 0.02; done"},
             {"name": "data", "copy": "data", "to": "data", "on": [0, 1]}, {"name": "use", "run": "echo use ${{ node.rank }} >>$LINES"}]
    r = box.start(spec_of(box, marks, setup, 3, cluster=fleet(3, shared_home=True).cluster()), "--json")
    r.wait_text(r'"type": ?"finished".*"step": ?"data"')
    (marks / "go").touch()
    r.wait().ok()
    assert sorted(box.lines()) == [f"use {n}" for n in range(3)]
