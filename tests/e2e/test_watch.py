"""rhrun watch: a branch's commits applied one after the other."""
import json
import os
import signal
import subprocess

import harness
import pytest

from test_apply import commit, git, push, repository

FAST = ("--every", "100ms")


def note(bare, of):
    done = subprocess.run(["git", "-C", str(bare), "notes", "--ref=rhrun", "show", of], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def status(box):
    for p in box.state.glob("watches/*/status.json"):
        return json.loads(p.read_text())


def edit(top, bare, text):
    (top / "code").write_text(text + "\n")
    of = commit(top)
    push(top, bare)
    return of


def stop(w, signum=signal.SIGTERM):
    w.signal(signum)
    return w.wait().expect(128 + signum)


def test_each_commit_once(box):
    top, bare = repository(box)
    w = box.start("watch", *FAST, "--branch", "main", bare)
    first = git(top, "rev-parse", "HEAD")
    harness.wait_for(lambda: note(bare, first))
    assert box.lines() == ["one", "one"]
    r = box.run("watch", *FAST, "--branch", "main", bare).expect(4)
    assert "is watched already, by process" in r.err
    second = edit(top, bare, "two")
    harness.check_schema(harness.wait_for(lambda: note(bare, second)), "apply.schema.json")
    assert note(bare, second)["commit"] == second and box.lines()[2:] == ["two", "two"]
    stop(w)
    s = status(box)
    assert (s["commit"], s["state"], s["exit_status"], s["branch"]) == (second, "done", 0, "main")
    # A new one knows the applied commit, and applies the commits since.
    w = box.start("watch", *FAST, "--branch", "main", bare)
    w.wait_text("watching main")
    third = edit(top, bare, "three")
    harness.wait_for(lambda: note(bare, third))
    stop(w, signal.SIGINT)
    assert box.lines() == ["one"] * 2 + ["two"] * 2 + ["three"] * 2 and "commit " + second[:12] not in w.text


def test_a_fetch_that_fails_is_tried_again(box):
    top, bare = repository(box)
    os.rename(bare, f"{bare}.away")
    os.mkdir(bare)
    assert "in no git repository" in box.run("watch", *FAST, bare).expect(2).err
    os.rmdir(bare)
    os.rename(f"{bare}.away", bare)
    w = box.start("watch", *FAST, bare)
    harness.wait_for(lambda: note(bare, "main"))  # the last that it writes there
    os.rename(bare, f"{bare}.away")
    w.wait_text("tried again")
    os.rename(f"{bare}.away", bare)
    of = edit(top, bare, "two")
    harness.wait_for(lambda: note(bare, of))
    stop(w)


def test_failed_commits(box):
    """A commit with a failing job is tried again; one without a valid set of specs is not."""
    top, bare = repository(box)
    bad = "name: bad\nentrypoint: {run: 'test -e $HOME/good'}\n"
    box.spec(bad, "work/jobs/bad.yaml")
    of = commit(top)
    push(top, bare)
    w = box.start("watch", *FAST, bare / "jobs")
    w.wait_text(r"exit status 1; it is tried again(.|\n)*exit status 1; it is tried again")
    assert note(bare, of)["exit_status"] == 1
    (box.home / "good").write_text("")
    harness.wait_for(lambda: note(bare, of)["exit_status"] == 0)
    box.spec("name: [", "work/jobs/bad.yaml")
    of = commit(top)
    push(top, bare)
    w.wait_text("waiting for the next one")
    assert note(bare, of)["exit_status"] == 2
    next_one = edit(top, bare, "two")
    harness.wait_for(lambda: note(bare, next_one))
    assert w.text.count(f"commit {of[:12]} cannot be applied") == 1, w.text
    stop(w)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_while_a_job_runs(box, how):
    top, bare = repository(box)
    box.spec("name: long\nentrypoint: {run: 'echo on >> $HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.02; done'}\n",
             "work/jobs/long.yaml")
    of = commit(top)
    push(top, bare)
    w = box.start("watch", *FAST, bare)
    harness.wait_for(lambda: "on" in box.lines())
    w.signal(how)
    assert w.wait().rc == (-9 if how == signal.SIGKILL else 128 + how) and status(box)["state"] == "applying"
    assert bool(harness.workers_of(box.dir)) == (how != signal.SIGINT)
    w = box.start("watch", *FAST, bare)
    if how == signal.SIGINT:  # it was stopped: it runs anew
        harness.wait_for(lambda: box.lines().count("on") == 2)
    (box.home / "go").write_text("")
    harness.wait_for(lambda: note(bare, of))
    assert box.lines().count("on") == (2 if how == signal.SIGINT else 1)
    stop(w)
