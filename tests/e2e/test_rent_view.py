"""What a terminal shows while machines are rented and given back: a line for each node, drawn in place; messages stay above these lines."""
import re

import pytest

from harness import wait_for
from test_rent_clouds import nothing_left, results, spec_of


def rows(frame):
    """node -> the text after it; from the view, as a frame shows it."""
    return {int(n): rest.split() for n, rest in re.findall(r"(?m)^ . node (\d+) +(.*)$", frame)}


def states(frame):
    return [row[0] for _, row in sorted(rows(frame).items())]


@pytest.mark.parametrize("columns,lines", [(80, 24), (200, 50), (40, 12)])
def test_each_node_has_a_line(box, terminal, clouds, columns, lines):
    cloud = clouds.start("hetzner")
    cloud.coming_looks = cloud.going_looks = 12
    t = terminal(spec_of(box, cloud), columns=columns, rows=lines)
    t.pump()
    assert t.rc == 0, t.display()
    seen = [states(f) for f in t.frames]
    assert ["created", "created"] in seen, seen
    # Both may get ready at once, and then no read of ours ends with that.
    assert b"ready     " in t.raw and any("deleted" in s for s in seen), seen
    full = [f for f in t.frames if states(f) == ["created", "created"]][-1]
    assert "renting 2 x" in full or "renting 2 ×" in full
    assert "Ctrl-C gives the machines back" in full
    if columns >= 80:
        assert all(row[1] in {str(i.id) for i in cloud.instances} for row in rows(full).values()), full
    # Messages stay, and nothing of the view does.
    assert t.raw.count(b"\x1b[?1049h") == 0 and b"\x1b[2J" not in t.raw
    shown = t.raw.decode()
    assert all(int(up) < lines for up in re.findall(r"\x1b\[(\d+)A", shown))
    if lines >= 24:
        assert re.search(r"node 1 is hetzner", t.display()) and not rows(t.display()), t.display()
    assert results(box) == [["setup", "launch"]] * 2
    nothing_left(cloud, 2)


def test_more_nodes_than_lines(box, terminal, clouds):
    """The view shows nodes that are not ready yet; the rest is a number."""
    cloud = clouds.start("hetzner")
    cloud.fault("create", "stuck", times=4, after=8)
    spec = spec_of(box, cloud, nnodes=12)
    t = terminal("up", spec, rows=12)
    t.pump(until=lambda shown: "8 of 12 ready" in shown and "created" in states(shown) and re.search(r"and \d+ more", shown))
    assert not re.search(r"(?m)^ . node (\d+) .*\n(.*\n)*^ . node \1 ", t.display()), t.display()
    t.send(b"\x03")
    t.pump(timeout=60)
    assert t.rc == 130, t.display()
    assert "interrupted: the machines are given back" in t.raw.decode()
    assert any("Ctrl-C again lets go of the machines" in f for f in t.frames)
    nothing_left(cloud)


@pytest.mark.parametrize("how", ("--quiet", "--json", "dumb"))
def test_no_view_where_lines_are_asked_for(box, terminal, clouds, how):
    cloud = clouds.start("hetzner")
    cloud.coming_looks = 12
    t = terminal(*([] if how == "dumb" else [how]), spec_of(box, cloud), env={"TERM": "dumb"} if how == "dumb" else None)
    t.pump()
    assert t.rc == 0 and b"\x1b[?2026h" not in t.raw and not rows(t.display()), t.display()
    nothing_left(cloud, 2)


def test_a_machine_that_is_lost(box, terminal, clouds, rhrun):
    """Between two runs: another one is rented, and shown so."""
    cloud = clouds.start("hetzner")
    spec = spec_of(box, cloud, cluster={"down": "never"})
    rhrun("up", spec).ok()
    cloud.vanish(cloud.machines()[1])
    cloud.coming_looks = 20
    t = terminal(spec)
    t.pump(until=lambda shown: sorted(states(shown)) == ["created", "ready"])
    assert "looking for" in t.display(), t.display()
    t.pump()
    assert t.rc == 0, t.display()
    wait_for(lambda: len(cloud.machines()) == 2, what="both machines")
    rhrun("down", spec).ok()
    nothing_left(cloud, 3)
