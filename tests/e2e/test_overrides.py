"""The journal has the options with which a run was started: attach and cancel work without --on and --set, and a user who leaves
them out of `rhrun SPEC` is told what to type."""
import getpass
import json
import os
import re
import shlex
import signal
import sqlite3

import pytest

from harness import RHRUN, wait_for, workers_of

WORD = "it's \"two\" $words"
WHERE = f"{getpass.getuser()}@node2"
STAY = "while [ ! -e $HOME/go ]; do sleep 0.02; done"


def spec_of(f, run=STAY):
    """On node1 alone by default."""
    return {"name": "o", "params": {"p": "a", "q": "b"}, "cluster": f.cluster(hosts=["node1"]), "env": {"WORD": "none"},
            "entrypoint": {"run": f'echo "$WORD ${{{{ params.p }}}} $*" >>$HOME/lines; {run}'}}


def started(box, f, spec):
    """A run on node2, started with all kinds of options, its controller killed. The words that it leaves on node2."""
    r = box.start("--on", WHERE, "--set", f"env.WORD={WORD}", spec, "-p", "p=x y", "--", "an arg", "-z")
    wait_for(lambda: f.lines(2), what="the worker")
    r.kill9()
    return [f"{WORD} x y an arg -z"]


def on_both(f):
    return [f.lines(1), f.lines(2)]


@pytest.mark.parametrize("word", ["last", "spec"])
def test_attach_goes_on_with_it(box, fleet, job, word):
    f = fleet(2)
    spec = job(spec_of(f))
    lines = started(box, f, spec)
    a = box.start("attach", "last" if word == "last" else spec, cwd=box.home)
    a.wait_text("no controller any more; a new one continues it now")
    (f.home(2) / "go").touch()
    a.wait().ok()
    assert on_both(f) == [[], lines]


def test_cancel_ends_it(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job(spec_of(f, "exec sleep 600"))
    started(box, f, spec)
    assert workers_of(box.dir)
    assert "cancelled" in rhrun("cancel", "last", cwd=box.home).ok().err
    assert not workers_of(box.dir)
    assert rhrun("status", "--json", "last").ok().json()["status"] == "cancelled"


def test_a_background_controller_was_started_with_them(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job(spec_of(f))
    pid = rhrun("--detach", "--json", "--on", "node2,", "--set", f"env.WORD={WORD}", spec).ok().json()["pid"]
    wait_for(lambda: f.lines(2), what="the worker")
    os.kill(pid, signal.SIGKILL)
    a = box.start("attach", spec)
    second = int(a.wait_text(r"a new one continues it now \(pid (\d+)\)").group(1))
    os.kill(second, signal.SIGKILL)
    a.wait().expect(3)
    a = box.start("attach", spec)
    a.wait_text("a new one continues it now")
    (f.home(2) / "go").touch()
    a.wait().ok()
    assert on_both(f) == [[], [f"{WORD} a "]]


def command_in(text):
    return shlex.split(re.search(r"as it was started: (rhrun .*)$", text, re.M).group(1))[1:]


def test_without_them_the_way_is_named(box, fleet, job, rhrun):
    """The plan is the same on any node: without --on it is not resumed elsewhere, and what it says to type goes on with it."""
    f = fleet(2)
    spec = job(spec_of(f))
    r = box.start("--on", WHERE, spec)
    wait_for(lambda: f.lines(2), what="the worker")
    r.kill9()
    run = rhrun("status", "--json", "last").ok().json()["run"]
    held = rhrun(spec).expect(4)
    assert f'may still be at work on "{WHERE}", which the spec does not name here: it was started with --on {WHERE}' in held.err, held
    assert "resuming" not in held.err
    assert f"rhrun attach {run} " in held.err and f"rhrun cancel {run} " in held.err
    assert not workers_of(f.home(1)) and workers_of(f.home(2))
    again = box.start(*command_in(held.err))
    again.wait_text(f"resuming run {run}")
    (f.home(2) / "go").touch()
    again.wait().ok()
    assert on_both(f) == [[], ["none a "]]


def test_what_differs_is_named_with_every_option(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job(spec_of(f))
    lines = started(box, f, spec)
    held = rhrun(spec, "-p", "q=c", "--on", "node1,node2").expect(4)
    quoted = "'env.WORD=" + WORD.replace("'", "'\\''") + "'"
    assert f"it was started with --on {WHERE} --set {quoted} -p 'p=x y' -p q=b -- 'an arg' -z, not with --on node1,node2 -p q=c;" \
        in held.err, held
    told = command_in(held.err)
    for command in (told, shlex.split(rhrun("status", "last").ok().out.split("command: ")[1].splitlines()[0])[1:]):
        r = box.start(*command, cwd=box.work)
        r.wait_text("resuming run")
        r.kill9()
    assert "-p" in told and "q=b" in told
    (f.home(2) / "go").touch()
    rhrun(*told).ok()
    assert on_both(f) == [[], lines]


def test_the_same_nodes_in_another_order(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job({**spec_of(f), "distributed": {"nnodes": 2}})
    r = box.start(spec, "--on", "node1,node2")
    wait_for(lambda: all(on_both(f)), what="the workers")
    r.kill9()
    held = rhrun(spec, "--on", "node2,node1").expect(4)
    assert "(it was started with --on node1,node2, not with --on node2,node1); nothing was touched" in held.err
    for i in (1, 2):
        (f.home(i) / "go").touch()
    rhrun(*command_in(held.err)).ok()
    assert on_both(f) == [["none a "]] * 2


def test_replace_starts_another_run_elsewhere(box, fleet, job, rhrun):
    """The processes of the older run on a node that is not named are left alone."""
    f = fleet(2)
    spec = job(spec_of(f))
    started(box, f, spec)
    (f.home(1) / "go").touch()
    r = rhrun(spec, "--replace").ok()
    assert f"this one replaces it (it was started with --on {WHERE} " in r.err and "resuming" not in r.err
    assert len(on_both(f)[0]) == 1 and workers_of(f.home(2))
    (f.home(2) / "go").touch()
    assert [e["status"] for e in rhrun("runs", "--json", spec).ok().json()] == ["done", "superseded"]
    wait_for(lambda: not workers_of(box.dir), what="the end of the older one")


def test_another_set_on_the_same_node(box, job, rhrun):
    """Its launch lives: nothing is touched. Then it has ended, unseen: the next run takes its place, and says so."""
    spec = job({"entrypoint": {"run": "echo one >>$HOME/lines; " + STAY}})
    other = ("--set", "entrypoint.run=echo two >>$HOME/lines")
    r = box.start(spec, *other, "--set", f"entrypoint.run=echo three >>$HOME/lines; {STAY}")
    wait_for(box.lines, what="the worker")
    r.kill9()
    run = rhrun("status", "--json", "last").ok().json()["run"]
    held = rhrun(spec, *other).expect(4)
    assert f"run {run} of this job is live" in held.err and "run changed; it was started with --set 'entrypoint.run=echo three" in held.err
    assert box.lines() == ["three"]
    (box.home / "go").touch()
    wait_for(lambda: not workers_of(box.dir), what="the end")
    assert f"run {run} had not finished; this one replaces it (run changed; it was started with" in rhrun(spec, *other).ok().err
    assert box.lines() == ["three", "two"]
    assert [e["status"] for e in rhrun("runs", "--json", spec).ok().json()] == ["done", "superseded"]


def test_what_is_given_again_counts_more(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job(spec_of(f, "exec sleep 600"))
    started(box, f, spec)
    a = rhrun("attach", "last", "--set", "env.WORD=other").expect(2)
    assert "has changed since run" in a.err and "what changed: rhrun plan " in a.err and "node2" in a.err
    assert f'work on "{WHERE}"' in rhrun("cancel", "last", "--on", "node1,").expect(2).err
    assert workers_of(box.dir)
    rhrun("cancel", "last", "--on", WHERE).ok()
    assert not workers_of(box.dir)


def test_a_journal_of_before_they_were_recorded(box, fleet, job, rhrun):
    f = fleet(2)
    spec = job(spec_of(f, "exec sleep 600"))
    started(box, f, spec)
    (path,) = box.state.rglob("journal.db")
    with sqlite3.connect(path) as db:
        for seq, text in db.execute("SELECT seq, json FROM events").fetchall():
            event = json.loads(text)
            if event["type"] == "run_opened":
                assert event.pop("on") and event.pop("sets") and path.stat().st_mode & 0o777 == 0o600
                db.execute("UPDATE events SET json = ? WHERE seq = ?", (json.dumps(event), seq))
    db.close()
    left = rhrun("cancel", "last").expect(2)
    assert f'work on "{WHERE}"' in left.err and "--on HOST" in left.err
    assert f'work on "{WHERE}", which the spec does not name any more' in rhrun(spec).expect(4).err
    rhrun("cancel", "last", "--on", WHERE).ok()
    assert not workers_of(box.dir)
