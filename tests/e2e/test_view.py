"""The view on a terminal: live, readable at 80 columns, gone when it is over; plain lines elsewhere."""
import json
import re

import pytest

SPEC = {
    "name": "view",
    "setup": [{"name": "prepare", "run": "sleep 0.4"}, {"name": "compile-the-kernels", "run": "sleep 0.4"}],
    "distributed": {"nnodes": 2, "nproc_per_node": 2},
    "entrypoint": {"run": "echo says $RANK; sleep 0.6"},
}


def test_steps_node_counts_and_time_are_shown(box, terminal):
    t = terminal(box.spec(SPEC))
    t.pump()
    assert t.rc == 0, t.display()
    assert any("prepare" in f and re.search(r"\b[012]/2\b", f) for f in t.frames), t.frames[-1]
    assert any("launch" in f for f in t.frames)
    shown = t.raw.decode(errors="replace")
    for rank in range(4):
        assert f"says {rank}" in shown
    assert len(t.frames) > 3


@pytest.mark.parametrize("columns", [80, 60])
def test_nothing_wraps(box, terminal, columns):
    spec = dict(SPEC, setup=[{"name": "a-very-long-name-of-a-step-" + "x" * 60, "run": "sleep 0.5"}])
    t = terminal(box.spec(spec), columns=columns)
    t.pump()
    assert t.rc == 0
    # A live line that wrapped would leave its tail behind when the view is redrawn: each step's line is there once.
    final = t.display()
    assert final.count("a-very-long-name") <= 1, final


def test_the_cursor_comes_back(box, terminal):
    t = terminal(box.spec(SPEC))
    t.pump()
    assert t.raw.count(b"\x1b[?25l") <= t.raw.count(b"\x1b[?25h")
    assert b"\x1b[?1049h" not in t.raw, "the alternate screen would swallow what the job said"


def test_redraws_do_not_flicker(box, terminal):
    """No frame clears the screen: lines are rewritten in place."""
    t = terminal(box.spec(SPEC))
    t.pump()
    assert b"\x1b[2J" not in t.raw


def test_ctrl_c_on_the_terminal(box, terminal):
    t = terminal(box.spec({"entrypoint": {"run": "echo ready; sleep 600"}}))
    t.pump(until=lambda shown: "ready" in shown)
    t.send(b"\x03")
    t.pump(timeout=40)
    assert t.rc == 130, t.display()


def test_d_detaches(box, terminal):
    t = terminal(box.spec({"entrypoint": {"run": "echo ready; while [ ! -e $HOME/stop ]; do sleep 0.05; done"}}))
    t.pump(until=lambda shown: "ready" in shown)
    t.send(b"d")
    t.pump(timeout=40)
    assert t.rc == 0, t.display()
    (box.home / "stop").touch()
    box.run("attach", box.work / "job.yaml").ok()


def test_a_failure_is_the_last_thing_on_the_screen(box, terminal):
    t = terminal(box.spec(dict(SPEC, entrypoint={"run": "[ $RANK = 1 ] && exit 4; sleep 60"})))
    t.pump()
    assert t.rc == 1
    assert "exit status 4" in t.display()


def test_no_colour(box, terminal):
    t = terminal("--no-color", box.spec(SPEC))
    t.pump()
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", t.raw)


def test_a_dumb_terminal_gets_plain_lines(box, terminal):
    t = terminal(box.spec(SPEC), env={"TERM": "dumb"})
    t.pump()
    assert t.rc == 0 and b"\x1b" not in t.raw


def test_plain_lines_without_a_terminal(box, rhrun):
    r = rhrun(box.spec(SPEC)).ok()
    assert "\x1b" not in r.text and "\r" not in r.text
    assert "prepare" in r.err
