"""The view on a terminal: live, readable at 80 columns, gone when the run is over; plain lines elsewhere."""
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import termios
import threading

import pytest

from harness import ROOT, check_schema, require, wait_for, workers_of

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


# ---- the view under load, in small windows, on the way out ----

def check_events(result):
    jsonschema = require("jsonschema")
    schema = json.loads((ROOT / "schema/events.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    events = result.events()
    for event in events:
        validator.validate(event)
    return events


@pytest.mark.parametrize("columns, rows", [(80, 24), (40, 12), (120, 40)])
def test_64_nodes(box, terminal, columns, rows):
    spec = {"name": "wide", "setup": [{"name": "prepare", "run": "sleep 0.3"}], "distributed": {"nnodes": 64},
            "entrypoint": {"run": "sleep 0.3"}}
    t = terminal(box.spec(spec), columns=columns, rows=rows)
    t.pump()
    assert t.rc == 0, t.display()
    assert re.search(r"prepare +.*64/64", t.display()), t.display()
    # Lines of the view are rewritten in place: each text of the last frame is there once.
    assert len(re.findall(r"^ .*\bprepare\b", t.display(), re.M)) == 1, t.display()


def test_more_steps_than_rows(box, terminal):
    spec = {"name": "many", "setup": [{"name": f"step-{i}", "run": "sleep 0.05"} for i in range(30)], "entrypoint": {"run": "echo the-end"}}
    t = terminal(box.spec(spec), rows=12)
    t.pump()
    assert t.rc == 0, t.display()
    assert any("more steps" in f for f in t.frames) and any(re.search(r"\d+ steps done", f) for f in t.frames)
    shown = t.raw.decode()
    # Never drawn past the screen's top: no frame climbs further than the screen is high.
    assert all(int(up) < 12 for up in re.findall(r"\x1b\[(\d+)A", shown))
    assert shown.count("the-end") == 1


def test_a_burst_of_lines_is_not_a_frame_each(box, terminal):
    count = 10000
    t = terminal(box.spec({"entrypoint": {"run": f"seq 1 {count} | sed 's/^/line /'; sleep 0.3"}}))
    t.pump()
    shown = t.raw.decode()
    assert t.rc == 0
    assert re.findall(r"line (\d+)\r\n", shown) == [str(i) for i in range(1, count + 1)]
    assert shown.count("\x1b[?2026h") < count / 50


def test_a_frame_is_one_update(box, terminal):
    t = terminal(box.spec(SPEC))
    t.pump()
    assert t.raw.count(b"\x1b[?2026h") > 3
    for frame in t.raw.split(b"\x1b[?2026h")[1:]:
        assert frame.count(b"\x1b[?2026l") >= 1


def test_escape_sequences_of_workers_do_not_move_the_view(box, terminal):
    t = terminal(box.spec({"entrypoint": {"run": "printf 'a\\033[5Ab\\033]0;title\\007c\\033[31mred\\033[0m\\033[2Jd\\n'; sleep 0.3"}}))
    t.pump()
    assert t.rc == 0
    assert b"\x1b[5A" not in t.raw and b"title" not in t.raw and b"\x1b[2J" not in t.raw
    assert b"\x1b[31mred" in t.raw
    assert "abcredd" in t.display()


ODD = b"a\033[5Ab\033]0;title\007c\033[31mred\033[0m\033[2Jd\302\2335Ae\2335Af\033[>4;2mg\033[8mh\n"
ODD_RUN = r"printf 'a\033[5Ab\033]0;title\007c\033[31mred\033[0m\033[2Jd\302\2335Ae\2335Af\033[>4;2mg\033[8mh\n'"


@pytest.mark.parametrize("how", ["logs", "raw", "plain"])
def test_escape_sequences_of_workers_on_a_terminal(box, terminal, rhrun, how):
    spec = box.spec({"entrypoint": {"run": ODD_RUN}})
    if how != "plain":
        rhrun(spec).ok()
    args, env = {"logs": (["logs", spec], {}), "raw": (["logs", "--rank", "0", spec], {}), "plain": ([spec], {"TERM": "dumb"})}[how]
    t = terminal(*args, env=env)
    t.pump()
    assert t.rc == 0
    line = next(x for x in t.raw.splitlines() if b"red" in x)
    assert line.endswith(b"abc\x1b[31mred\x1b[0mde5Afg\x1b[8mh\x1b[0m"), line
    assert b"title" not in t.raw and b"\x9b" not in t.raw and b"\x1b[5A" not in t.raw and b"\x1b[2J" not in t.raw
    # To a pipe every byte, as it was.
    assert rhrun("logs", "--rank", "0", spec).ok().raw_out == ODD


def test_progress_bars_stay_in_place(box, terminal):
    bar = "for i in 1 2 3 4 5 6 7 8 9; do printf '\\r%s0%% of %s' $i $RANK; sleep 0.1; done; echo; echo over"
    t = terminal(box.spec({"distributed": {"nproc_per_node": 2}, "entrypoint": {"run": bar}}))
    t.pump()
    assert t.rc == 0
    final = t.display()
    for rank in (0, 1):
        assert any(f"0% of {rank}" in f and f"90% of {rank}" not in f for f in t.frames), "the bar was never seen moving"
        assert len(re.findall(rf"0% of {rank}", final)) == 1 and f"90% of {rank}" in final, final


def test_progress_bars_do_not_flood_plain_output(box, rhrun):
    bar = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '\\r%s of 3000' $i; done; echo"
    spec = box.spec({"entrypoint": {"run": bar}})
    r = rhrun(spec).ok()
    lines = re.findall(r"(\d+) of 3000", r.out)
    assert lines[-1] == "3000" and len(lines) < 300
    raw = rhrun("logs", "--rank", "0", spec).ok().raw_out
    assert raw == b"".join(b"\r%d of 3000" % i for i in range(1, 3001)) + b"\n"


def test_a_bar_that_goes_to_a_file_is_there_once(box, terminal):
    """The view is on the terminal, the workers' stdout in a file: a bar that was printed there is not printed again."""
    out = box.work / "out.txt"
    t = terminal(box.spec({"entrypoint": {"run": "printf 'all of it\\r\\r'; echo"}}), out=out)
    t.pump()
    assert t.rc == 0 and "launch" in t.raw.decode(errors="replace"), t.display()
    assert out.read_bytes() == b"all of it\n"


def test_the_window_is_resized(box, terminal):
    spec = {"name": "sized", "setup": [{"name": "prepare-the-data-set", "run": "while [ ! -e $HOME/go ]; do sleep 0.05; done"}],
            "distributed": {"nnodes": 4}, "entrypoint": {"run": "true"}}
    t = terminal(box.spec(spec), columns=120)
    t.pump(until=lambda shown: "0/4" in shown)
    t.screen.resize(24, 50)
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    seen = len(t.raw)
    t.pump(until=lambda shown: len(t.raw) > seen + 600)
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 0
    assert re.search(r"prepare-the-d.*4/4", t.display()), t.display()


TIOCGPTN = 0x80045430


def other_end(t):
    """The program's end of the terminal, held open here too."""
    number = struct.unpack("I", fcntl.ioctl(t.fd, TIOCGPTN, struct.pack("I", 0)))[0]
    return os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)


def modes(t):
    """Echo and canonical input of the terminal: what a shell would find when rhrun is gone."""
    flags = termios.tcgetattr(t.fd)[3]
    return bool(flags & termios.ECHO), bool(flags & termios.ICANON)


@pytest.mark.parametrize("end", ["done", "d", "ctrl-c", "SIGTERM", "SIGSEGV", "SIGABRT"])
def test_the_terminal_is_restored(box, terminal, end):
    spec = box.spec({"entrypoint": {"run": "echo ready; while [ ! -e $HOME/stop ]; do sleep 0.05; done"}})
    t = terminal(spec)
    held = other_end(t)  # the end of the program is not the end of the terminal
    t.pump(until=lambda shown: "ready" in shown and "Ctrl-C" in shown)
    assert modes(t) == (False, False)
    if end == "done":
        (box.home / "stop").touch()
    elif end in ("d", "ctrl-c"):
        t.send({"d": b"d", "ctrl-c": b"\x03"}[end])
    else:
        os.kill(t.pid, getattr(signal, end))
    t.pump(until=lambda shown: os.waitid(os.P_PID, t.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    assert modes(t) == (True, True)
    os.close(held)
    t.pump()
    assert t.raw.rfind(b"\x1b[?25h") > t.raw.rfind(b"\x1b[?25l") >= 0
    (box.home / "stop").touch()
    if end == "d":
        box.run("attach", spec).ok()
    elif end.startswith("SIG"):
        box.run(spec).ok()


def test_ctrl_c_says_what_happens_and_the_second_kills(box, terminal):
    t = terminal(box.spec({"entrypoint": {"run": "trap '' TERM; echo ready; while :; do sleep 0.1; done"}}))
    t.pump(until=lambda shown: "ready" in shown)
    t.send(b"\x03")
    t.pump(until=lambda shown: "Ctrl-C again kills" in shown)
    t.send(b"\x03")
    t.pump(timeout=40)
    assert t.rc == 130, t.display()
    assert not workers_of(box.dir)


def test_failed_nodes_are_named(box, terminal):
    spec = {"setup": [{"name": "odd", "run": "sleep 0.2; case $RHRUN_NODE_RANK in 2) exit 9;; esac"}], "distributed": {"nnodes": 4},
            "entrypoint": {"run": "true"}}
    t = terminal(box.spec(spec))
    t.pump()
    assert t.rc == 1
    assert re.search(r"odd .*failed on local-2", t.display()), t.display()
    assert "exit status 9" in t.display() and "not started" in t.display()


def test_lost_nodes_are_named(box, fleet, terminal):
    f = fleet(2)
    spec = {"cluster": f.cluster(), "distributed": {"nnodes": 2},
            "entrypoint": {"run": f"echo ready; while [ ! -e {box.dir}/stop ]; do sleep 0.05; done"}}
    t = terminal(box.spec(spec), env={"RHRUN_LIVENESS_MS": "1000"})
    t.pump(until=lambda shown: shown.count("ready") == 2)
    f.stop(2)
    t.pump(until=lambda shown: re.search(r"lost node2|1 of 2 nodes", shown) and "node2" in shown)
    f.start(2)
    t.pump(until=lambda shown: "  2 nodes  " in shown)
    (box.dir / "stop").touch()
    t.pump()
    assert t.rc == 0, t.display()


# ---- detach ----

COUNTING = "i=0; while [ $i -lt 400 ] || [ ! -e $HOME/stop ]; do i=$((i+1)); echo \"count $i\"; echo $i >>$HOME/lines.$RANK; sleep 0.01; done"


def check_counting(box, spec, ranks):
    for rank in range(ranks):
        written = box.lines(f"lines.{rank}")
        assert written == [str(i + 1) for i in range(len(written))], "a worker was restarted"
        log = box.run("logs", "--rank", str(rank), spec).ok().out.splitlines()
        assert log == [f"count {i}" for i in written]


def test_d_hands_the_run_over(box, terminal):
    spec = box.spec({"distributed": {"nnodes": 2}, "entrypoint": {"run": COUNTING}})
    t = terminal(spec)
    t.pump(until=lambda shown: "count 20" in shown and "d lets it go on" in shown)
    t.send(b"d")
    t.pump()
    assert t.rc == 0, t.display()
    assert "goes on without a terminal" in t.display() and "attach" in t.display()
    follower = box.start("attach", spec)
    follower.wait_text("count 100\n")
    (box.home / "stop").touch()
    done = follower.wait().ok()
    lines = re.findall(r"default\[0\]@\S+ count (\d+)", t.raw.decode() + done.out)
    assert lines == [str(i + 1) for i in range(len(lines))], "the view and attach show each line once"
    check_counting(box, spec, 2)


def test_the_terminal_goes_away(box, terminal):
    spec = box.spec({"distributed": {"nnodes": 2}, "entrypoint": {"run": COUNTING}})
    t = terminal(spec)
    t.pump(until=lambda shown: "count 20" in shown)
    os.close(t.fd)  # the terminal's end: SIGHUP
    (box.home / "stop").touch()
    _, status = os.waitpid(t.pid, 0)
    t.rc = os.waitstatus_to_exitcode(status)
    assert t.rc == 0
    check_counting(box, spec, 2)
    assert any(p.endswith("controller.log") and b"done" in text and b"count" not in text for p, text in box.logs().items())


def test_ctrl_c_in_attach_and_logs_only_detaches(box, rhrun):
    spec = box.spec({"entrypoint": {"run": "echo begin; while [ ! -e $HOME/stop ]; do sleep 0.05; done; echo the-end"}})
    rhrun("--detach", spec).ok()
    for args in (["attach"], ["logs", "-f"]):
        r = box.start(*args, spec)
        r.wait_text("begin")
        r.signal(signal.SIGINT)
        assert "the-end" not in r.wait().ok().text
    assert len(workers_of(box.dir)) > 0
    (box.home / "stop").touch()
    assert "the-end" in rhrun("attach", spec).ok().out


# ---- plain lines ----

def test_plain_lines_of_a_run(box, rhrun):
    spec = box.spec(dict(SPEC, entrypoint={"run": "echo says $RANK"}))
    r = rhrun(spec).ok()
    for pattern in (r"^rhrun: run [0-9a-f]{16} of view on 2 nodes$", r"^rhrun: prepare: done on 2 nodes in .+$",
                    r"^rhrun: compile-the-kernels: done on 2 nodes in .+$", r"^rhrun: launch: 4 workers on 2 nodes$", r"^rhrun: done in .+$"):
        assert len(re.findall(pattern, r.err, re.M)) == 1, f"{pattern}\n{r}"
    again = rhrun("--again", spec).ok()
    assert "rhrun: 2 steps kept: prepare, compile-the-kernels\n" in again.err
    assert "prepare: done" not in again.err


def test_a_failed_step_is_told_once_with_its_last_lines(box, rhrun):
    spec = box.spec({"setup": [{"name": "odd", "run": "echo quiet words; case $RHRUN_NODE_RANK in 1) echo loud words >&2; exit 9;; esac"}],
                     "distributed": {"nnodes": 2}, "entrypoint": {"run": "true"}})
    r = rhrun(spec).expect(1)
    assert r.err.count("loud words") == 1 and "odd: failed on local-1" in r.err
    assert r.err.count("exit status 9") == 1
    verbose = rhrun("--verbose", spec).expect(1)
    assert verbose.err.count("loud words") == 1 and "odd@local-1: loud words" in verbose.err


def test_the_last_lines_of_a_worker_are_not_repeated(box, rhrun):
    r = rhrun(box.spec({"entrypoint": {"run": "echo the only words >&2; exit 3"}})).expect(1)
    assert r.err.count("the only words") == 1
    # ... but they are when others have said much since
    many = {"distributed": {"nproc_per_node": 2},
            "entrypoint": {"run": "if [ $RANK = 1 ]; then while [ ! -e $HOME/up ]; do sleep 0.05; done; echo the only words >&2; exit 3; fi; "
                                   "trap 'seq 1 200; exit 1' TERM; touch $HOME/up; while :; do sleep 0.05; done"}}
    r = rhrun(box.spec(many)).expect(1)
    assert "last lines of launch, rank 1," in r.err and r.err.count("the only words") == 2


def test_restarts_are_told(box, rhrun):
    r = rhrun(box.spec({"distributed": {"nproc_per_node": 2, "max_restarts": 1}, "entrypoint": {"run": "[ $RANK = 1 ] && exit 3; sleep 60"}})).expect(1)
    assert len(re.findall(r"^rhrun: restart 1 of 1: rank 1 .*exit status 3$", r.err, re.M)) == 1
    assert len(re.findall(r"^rhrun: launch: ", r.err, re.M)) == 1


# ---- JSON ----

def test_json_lines_follow_the_schema(box, rhrun):
    spec = box.spec(dict(SPEC, entrypoint={"run": "echo out $RANK; echo err $RANK >&2; printf '\\377\\n'"}))
    first = rhrun("--json", spec).ok()
    events = check_events(first)
    kinds = [e["type"] for e in events]
    assert kinds[0] == "run_opened" and kinds[-1] == "result" and kinds.count("result") == 1
    assert {"run_opened", "node_bound", "started", "finished", "output", "progress", "settled", "run_closed", "result"} <= set(kinds)
    texts = {(e["stream"], e["text"]) for e in events if e["type"] == "output"}
    assert {("out", "out 3"), ("err", "err 0"), ("out", "\ufffd")} <= texts
    last = {e["step"]: e for e in events if e["type"] == "progress"}
    assert last["prepare"]["nodes_done"] == last["prepare"]["nodes_total"] == 2
    assert events[-1]["status"] == "done" and events[-1]["exit_status"] == 0
    again = check_events(rhrun("--json", spec).ok())
    assert [e["type"] for e in again] == ["nothing_to_do", "result"]
    for command in (["logs", "--json"], ["attach", "--json"]):
        told = check_events(rhrun(*command, spec).ok())
        assert ("out", "out 3") in {(e["stream"], e["text"]) for e in told if e["type"] == "output"}


def test_json_of_failures(box, rhrun):
    spec = box.spec({"distributed": {"nproc_per_node": 2}, "entrypoint": {"run": "[ $RANK = 1 ] && echo why >&2 && exit 3; sleep 60"}})
    r = rhrun("--json", spec).expect(1)
    result = check_events(r)[-1]
    assert result["status"] == "failed" and result["exit_status"] == 1 and "exit status 3" in result["error"]
    cause = result["cause"]
    assert (cause["step"], cause["rank"], cause["kind"], cause["value"]) == ("launch", 1, "exit", 3) and "why" in cause["tail"]
    bad = rhrun("--json", box.spec("entrypoint: {rum: x}\n", "bad.yaml")).expect(2)
    events = check_events(bad)
    assert [e["type"] for e in events] == ["diagnostics", "result"] and events[0]["items"] and events[1]["exit_status"] == 2
    detached = rhrun("--json", "--detach", "--again", box.spec({"entrypoint": {"run": "true"}}, "other.yaml")).ok()
    assert [e["type"] for e in check_events(detached)] == ["detached"]
    box.run("attach", box.work / "other.yaml").ok()


# ---- logs ----

def test_logs_of_all_generations_in_order(box, rhrun):
    spec = box.spec({"distributed": {"nnodes": 2, "max_restarts": 2}, "setup": [{"name": "one", "run": "echo of one"}],
                     "entrypoint": {"run": "g=$TORCHELASTIC_RESTART_COUNT; echo generation $g of $RANK; printf unended; "
                                           "[ $RANK = 1 ] || { touch $HOME/up$g; exec sleep 60; }; while [ ! -e $HOME/up$g ]; do sleep 0.05; done; exit 3"}})
    rhrun(spec).expect(1)
    r = rhrun("logs", spec).ok()
    generations = [int(n) for n in re.findall(r"generation (\d) of", r.out)]
    assert generations == [0, 0, 1, 1, 2, 2]
    assert len(re.findall(r"^rhrun: ---- launch generation [23]: .*----$", r.err, re.M)) == 2
    one = rhrun("logs", "--rank", "1", spec).ok()
    assert (one.out, one.err) == ("".join(f"generation {i} of 1\nunended" for i in range(3)), ""), "its bytes, and no others"
    assert "there are ranks 0 to 1" in rhrun("logs", "--rank", "9", spec).expect(2).err
    assert rhrun("logs", "--step", "one", "--node", "1", spec).ok().out == "of one\n"
    rhrun("--again", spec).expect(1)
    kept = rhrun("logs", "--step", "one", spec).ok()
    assert kept.out.count("of one") == 2 and "was kept" in kept.err


def test_what_set_up_says_stands_there_while_it_runs(box, terminal):
    spec = box.spec({"setup": [{"name": "install", "run": "echo Downloading a; echo Downloading b; "
                                                          "while [ ! -e $HOME/go ]; do sleep 0.05; done; echo Installed"}],
                     "entrypoint": {"run": "while [ ! -e $HOME/on ]; do sleep 0.05; done; echo launched"}})
    t = terminal(spec)
    t.pump(until=lambda shown: re.search(r"^ +local +\d+ s: Downloading b$", shown, re.M))
    assert "Downloading a" not in t.display()
    (box.home / "go").touch()
    t.pump(until=lambda shown: re.search(r"launch +running", shown) and "Downloading" not in shown)
    (box.home / "on").touch()
    t.pump()
    assert t.rc == 0 and "launched" in t.display() and "Installed" not in t.display(), t.display()


def hanging(nodes, who):
    """Set-up that ends on all nodes but some, and on those once the test says so."""
    return {"name": "hang", "setup": [{"name": "prepare", "run": "true"},
                                      {"name": "packages", "run": f"echo reading lists; case $RHRUN_NODE_RANK in {who}) ;; *) exit 0;; esac; "
                                       "echo waiting for lock 1234567890123456789012345678901234567890 /var/lib/dpkg/lock; "
                                       "while [ ! -e $HOME/go ]; do sleep 0.1; done"}],
            "distributed": {"nnodes": nodes}, "entrypoint": {"run": "true"}}


@pytest.mark.parametrize("nodes, columns, rows", [(5, 80, 24), (32, 200, 50), (32, 40, 24)])
def test_the_node_that_hangs_is_shown(box, terminal, nodes, columns, rows):
    t = terminal(box.spec(hanging(nodes, "3")), columns=columns, rows=rows)
    t.pump(until=lambda shown: re.search(rf"packages .*{nodes - 1}/{nodes}", shown) and re.search(r"local-3 +[2-9] s: ", shown))
    shown = t.display()
    assert re.findall(r"^ +(local-\d+) +\d+ s: waiting for lock", shown, re.M) == ["local-3"], shown  # what is over has no row
    if columns == 40:
        assert re.search(r"waiting for lock …$", shown, re.M), shown  # a part of a number would be another number
    else:
        assert "1234567890123456789012345678901234567890" in shown
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 0 and "local-3" not in t.display()


def test_more_nodes_hang_than_there_is_room_for(box, terminal):
    def told(shown):
        """How many nodes have a row, and how many are reported in all."""
        rows = re.findall(r"^ +local-\d+ +\d+ s: ", shown, re.M)
        others = re.search(r"also waiting for: ((?:local-\d+, )*local-\d+) \(and (\d+) more\)", shown)
        return len(rows), len(rows) + len(others[1].split(", ")) + int(others[2]) if others else 0

    t = terminal(box.spec(hanging(32, "*")), columns=80, rows=24)
    t.pump(until=lambda shown: told(shown)[1] == 32 and "0/32" in shown)
    assert told(t.display())[0] >= 3, t.display()
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 0


def test_no_room_for_names(box, terminal):
    t = terminal(box.spec(hanging(32, "*")), columns=30, rows=5)
    t.pump(until=lambda shown: re.search(r"^ +waiting for 32$", shown, re.M))
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 0


def test_how_far_files_are(box, terminal, fleet):
    f = fleet(1)
    (box.work / "src").mkdir()
    (box.work / "src/big").write_bytes(os.urandom(1 << 20) * 150)
    t = terminal(box.spec({"workdir": "src", "cluster": f.cluster(), "entrypoint": {"run": "true"}}), columns=100)
    t.pump(until=lambda shown: re.search(r"sync +[\d.]+ [kM]?B\w* of 157.3 MB", shown))
    t.pump()
    assert t.rc == 0, t.display()
    assert "157.3 MB sent" in t.raw.decode()


def test_how_long_files_take_at_80_columns(box, terminal, fleet):
    """The remaining time has priority over the speed if both do not fit."""
    f = fleet(2)
    (box.work / "src").mkdir()
    (box.work / "src/big").write_bytes(os.urandom(1 << 20) * 250)
    t = terminal(box.spec({"workdir": "src", "cluster": f.cluster(), "entrypoint": {"run": "true"}}))
    t.pump(until=lambda shown: re.search(r"sync +\S+ 0/2  [\d.]+ [kM]?B of [\d.]+ MB, about \d+ s left  [\d.]+ m?s$", shown, re.M))
    t.pump()
    assert t.rc == 0, t.display()


class SlowRoad:
    """A port before another one: what a client sends goes through 1 MB at a time, 20 times a second, until `free` is set."""

    def __init__(self, port):
        self.to, self.free = port, threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                threading.Thread(target=self.carry, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self.carry, args=(server, client, False), daemon=True).start()

    def carry(self, source, to, slowly):
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(data)
                passed += len(data)
                if slowly and passed >= 1 << 20:
                    passed = 0
                    self.free.wait(0.05)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)


def test_how_long_files_will_take(box, terminal, fleet):
    """The remaining time, by the shown speed."""
    f = fleet(1)
    road = SlowRoad(f.port(1))
    config = box.dir / "slow_config"
    host = f.dir / "known_hosts"
    (box.dir / "slow_known").write_text("slow " + host.read_text().split(" ", 1)[1])
    config.write_text(f"Host slow\n  HostName 127.0.0.1\n  Port {road.port}\n  HostKeyAlias slow\n  IdentityFile {f.dir}/key\n"
                      f"  IdentitiesOnly yes\n  UserKnownHostsFile {box.dir}/slow_known\n  StrictHostKeyChecking yes\n")
    (box.work / "src").mkdir()
    (box.work / "src/big").write_bytes(os.urandom(1 << 20) * 300)
    t = terminal(box.spec({"workdir": "src", "cluster": {"hosts": ["slow"], "ssh_config": str(config)}, "entrypoint": {"run": "true"}}), columns=100)
    line = r"sync +([\d.]+) MB of 314\.6 MB, ([\d.]+) MB/s, about (\d+) ([sm]) left"
    t.pump(until=lambda shown: re.search(line, shown))
    done, speed, left, unit = re.search(line, t.display()).groups()
    expected = (314.6 - float(done)) / float(speed) / (60 if unit == "m" else 1)
    assert expected * 0.97 - 0.1 <= int(left) <= expected * 1.03 + 1.1, t.display()
    road.free.set()
    t.pump()
    road.server.close()
    assert t.rc == 0 and "314.6 MB sent" in t.raw.decode(), t.display()
    assert "left" not in t.display()


def test_how_far_files_are_as_json(box, rhrun):
    (box.work / "src").mkdir()
    (box.work / "src/a").write_bytes(os.urandom(3000))
    events = rhrun("--json", box.spec({"workdir": "src", "entrypoint": {"run": "true"}})).ok().events()
    last = [e for e in events if e["type"] == "progress" and e["step"] == "sync"][-1]
    assert (last["files_done"], last["files_total"], last["bytes_done"], last["bytes_total"]) == (1, 1, 3000, 3000)
    assert last["nodes_done"] == 1
    for event in events:
        check_schema(event, "events.schema.json")


# ---- sweeps ----

def test_points_of_a_sweep(box, terminal):
    t = terminal(box.spec({"name": "s", "params": {"i": 0}, "sweep": {"matrix": {"i": list(range(60))}, "per_node": 8},
                           "metrics": [{"name": "loss", "pattern": r"loss=(?<value>\S+)"}],
                           "entrypoint": {"run": "i=${{ params.i }}; [ $i != 2 ] || exit 3; [ $i -lt 40 ] && exit 0; echo loss=0.$i; "
                                                 "while [ ! -e $HOME/go ]; do sleep 0.05; done"}}), columns=80)
    t.pump(until=lambda shown: re.search(r"points +\S+ 39/60  1 failed, 8 running, about \d+ [smh] left", shown)
           and "loss 0.4" in shown)
    shown = t.display()
    assert re.search(r"^ +i=4\d +local +\d+(\.\d)? s  loss 0\.4\d$", shown, re.M) and "failed: i=2" in shown, shown
    assert "i=7 " not in shown[shown.rindex("points "):], shown  # what is over has no row
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 1 and re.search(r"points +\S+ 59/60  1 failed\n +failed: i=2", t.display()), t.display()
