"""rhrun apply: runs every spec of a tree until it is done, once per content; two runners at once; commits of bare clones."""
import json
import os
import random
import signal
import subprocess
import time

import harness
import pytest


def mark(name, more=""):
    """A spec that leaves a line in HOME: one for each time that it was launched."""
    return f"name: {name}\n{more}entrypoint: {{run: 'echo {name} >> $HOME/lines'}}\n"


def jobs(result):
    return {j["job"]: j for j in result.json()["jobs"]}


def test_once_per_content(box):
    for i in range(3):
        box.spec(mark(f"j{i}"), f"set/{'deep/' if i else ''}j{i}.yaml")
    box.spec("services: {web: {image: x}}\n", "set/compose.yaml")  # no spec
    box.spec("name: [", "set/.hidden/broken.yaml")
    dry = box.run("apply", "--dry-run", "--json", "--exit-code", "set").expect(10)
    harness.check_schema(dry.json(), "apply.schema.json")
    assert {j["result"] for j in dry.json()["jobs"]} == {"to do"} and not box.lines()
    done = box.run("apply", "--json", "set").ok()
    harness.check_schema(done.json(), "apply.schema.json")
    assert [j["spec"] for j in done.json()["jobs"]] == ["set/deep/j1.yaml", "set/deep/j2.yaml", "set/j0.yaml"]
    assert {j["result"] for j in done.json()["jobs"]} == {"ran"} and sorted(box.lines()) == ["j0", "j1", "j2"]
    again = box.run("apply", "--json", "set").ok().json()
    assert {j["result"] for j in again["jobs"]} == {"up to date"} and len(box.lines()) == 3
    assert {j["run"] for j in again["jobs"]} == {j["run"] for j in done.json()["jobs"]}
    box.spec(mark("j1", "env: {A: b}\n"), "set/deep/j1.yaml")
    table = box.run("apply", "set").ok().out
    assert "j1 " in table and "3 specs: 2 up to date, 1 ran" in table, table
    assert sorted(box.lines()) == ["j0", "j1", "j1", "j2"]
    # A pattern, as rhrun reads it and as a shell does; what one names must be there.
    assert len(box.run("apply", "--json", "set/deep/*.yaml").ok().json()["jobs"]) == 2
    assert len(box.run("apply", "--json", "set/deep/j1.yaml", "set/deep/j2.yaml", "set/deep").ok().json()["jobs"]) == 2
    assert 'there is no "nothing/*.yaml"' in box.run("apply", "nothing/*.yaml").expect(2).err


def test_a_sweep_in_the_set(box):
    """A sweep is done when each of its points is; a new value, or a point that failed, runs alone."""
    sweep = "name: many\nparams: {{i: 0}}\nsweep: {{matrix: {{i: {0}}}}}\nentrypoint: {{run: 'echo p${{{{ params.i }}}} >>$HOME/lines{1}'}}\n"
    box.spec(sweep.format("[1, 2]", ""), "set/many.yaml")
    box.spec(mark("one"), "set/one.yaml")
    dry = jobs(box.run("apply", "--dry-run", "--json", "set").ok())
    assert {j["result"] for j in dry.values()} == {"to do"}
    done = jobs(box.run("apply", "--json", "set").ok())
    assert sorted(box.lines()) == ["one", "p1", "p2"] and done["many"]["result"] == "ran"
    assert {j["result"] for j in jobs(box.run("apply", "--json", "set").ok()).values()} == {"up to date"}
    box.spec(sweep.format("[1, 3, 2]", ""), "set/many.yaml")
    again = jobs(box.run("apply", "--json", "set").ok())
    assert (again["many"]["result"], again["one"]["result"]) == ("ran", "up to date")
    assert sorted(box.lines()) == ["one", "p1", "p2", "p3"]
    box.spec(sweep.format("[1, 2]", "; test ${{ params.i }} = 1 || test -e $HOME/good"), "set/many.yaml")
    r = jobs(box.run("apply", "--json", "set").expect(1))
    assert r["many"]["result"] == "failed" and "1 of 2 points failed" in r["many"]["why"], r
    (box.home / "good").write_text("")
    box.run("apply", "set").ok()
    assert sorted(box.lines()) == ["one", "p1", "p1", "p2", "p2", "p2", "p3"]


def test_refused_before_anything_starts(box):
    box.spec(mark("good"), "set/good.yaml")
    box.spec("name: bad\nentrypoint: {run: 'true'}\nsetup: 3\n", "set/bad.yaml")
    r = box.run("apply", "--json", "set").expect(2)
    assert "set/bad.yaml:3" in r.err and "1 of 2 specs cannot be planned" in r.err
    assert [j["result"] for j in r.json()["jobs"]] == ["invalid", "to do"]
    harness.check_schema(r.json(), "apply.schema.json")
    box.spec(mark("good"), "set/bad.yaml")
    r = box.run("apply", "set").expect(2)
    assert 'set/bad.yaml and set/good.yaml are both named "good"' in r.err and not box.lines()
    assert "--parallel" in box.run("apply", "--parallel", "0", "set").expect(2).err


def test_exit_status(box):
    box.spec(mark("good"), "set/good.yaml")
    box.spec("name: fails\nentrypoint: {run: 'echo bad luck >&2; exit 3'}\n", "set/fails.yaml")
    box.spec("name: nowhere\ncluster: {hosts: [{host: 127.0.0.1, port: 1, known_hosts: /dev/null}]}\nworkdir: .\n"
             "entrypoint: {run: 'true'}\n", "set/nowhere.yaml")
    r = box.run("apply", "--json", "set").expect(1)
    found = jobs(r)
    assert found["fails"]["result"] == "failed" and found["fails"]["exit_status"] == 1 and "3" in found["fails"]["why"]
    assert found["nowhere"]["exit_status"] == 3 and found["nowhere"]["why"]
    assert found["good"]["result"] == "ran"
    box.spec("name: fails\nsecrets: [NOWHERE]\nentrypoint: {run: 'true'}\n", "set/fails.yaml")
    found_again = jobs(box.run("apply", "--json", "set").expect(1))  # not 2: something was started
    assert found_again["fails"]["exit_status"] == 2 and "NOWHERE" in found_again["fails"]["why"]
    (box.work / "set/fails.yaml").unlink()
    assert box.run("apply", "set").expect(3).out.count("failed") == 2
    box.run("logs", found["fails"]["run"]).ok()


def test_interrupted(box):
    box.spec("name: long\nentrypoint: {run: 'echo on >> $HOME/lines; exec sleep 1000'}\n", "set/long.yaml")
    box.spec(mark("next"), "set/next.yaml")
    r = box.start("apply", "--json", "--parallel", "1", "set")
    harness.wait_for(lambda: box.lines() == ["on"])
    r.signal(signal.SIGTERM)
    found = jobs(r.wait().expect(143))
    assert found["long"]["result"] == "stopped" and found["next"]["result"] == "to do"
    assert box.run("status", found["long"]["run"], "--json").json()["status"] == "cancelled"
    assert not harness.workers_of(box.dir)


def make_set(box, count, text="sleep 0.05"):
    for i in range(count):
        box.spec(f"name: j{i}\nentrypoint: {{run: 'echo j{i} >> $HOME/lines; {text}'}}\n", f"set/j{i}.yaml")


def test_awaits_another(box):
    """apply waits for a job that another rhrun runs, and takes its end, a failure too."""
    make_set(box, 1, "while [ ! -e $HOME/go ]; do sleep 0.02; done; exit $(cat $HOME/go)")
    for status in (0, 5):
        (box.home / "go").unlink(missing_ok=True)
        (box.home / "lines").unlink(missing_ok=True)
        make_set(box, 1, f"while [ ! -e $HOME/go ]; do sleep 0.02; done; exit $(cat $HOME/go) # {status}")
        first = box.start("apply", "--json", "set")
        harness.wait_for(lambda: box.lines() == ["j0"])
        second = box.start("apply", "--json", "set")
        second.wait_text("another rhrun works on it: waiting")
        (box.home / "going").write_text(str(status))
        (box.home / "going").rename(box.home / "go")
        a, b = first.wait(), second.wait()
        assert (a.rc, b.rc) == ((0, 0) if status == 0 else (1, 1)), (a, b)
        assert jobs(b)["j0"]["result"] == ("ran elsewhere" if status == 0 else "failed")
        assert jobs(a)["j0"]["run"] == jobs(b)["j0"]["run"] and box.lines() == ["j0"]


@pytest.mark.parametrize("victim", [0, 1])
def test_two_runners_one_killed(box, victim):
    """50 specs, two runners, kill -9 of either at a random moment: each job ran exactly once."""
    make_set(box, 50)
    pair = [box.start("apply", "--json", "--parallel", "3", "set") for _ in range(2)]
    wanted = random.randrange(2, 30)
    harness.wait_for(lambda: len(box.lines()) >= wanted)
    pair[victim].kill9()
    r = pair[1 - victim].wait().ok()
    assert {j["result"] for j in r.json()["jobs"]} <= {"ran", "ran elsewhere", "up to date"}
    assert sorted(box.lines()) == sorted(f"j{i}" for i in range(50))
    after = box.run("apply", "--json", "set").ok().json()
    assert {j["result"] for j in after["jobs"]} == {"up to date"}, after
    assert len(box.lines()) == 50


def test_other_state_directory(box, fleet):
    """A runner with its own state directory finds another runner's work on the nodes, or waits for it."""
    f = fleet(1)
    box.spec({"name": "far", "cluster": f.cluster(), "entrypoint": {
        "run": "echo far >> $HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.02; done"}}, "set/far.yaml")
    first = box.start("apply", "--json", "set")
    harness.wait_for(lambda: f.lines(1) == ["far"])
    second = box.start("apply", "--json", "set", env={"RHRUN_HOME": box.dir / "other"})
    second.wait_text("far: waiting: ")
    (f.home(1) / "go").write_text("")
    first.wait().ok()
    assert jobs(second.wait().ok())["far"]["exit_status"] == 0
    box.run("apply", "set", env={"RHRUN_HOME": box.dir / "third"}).ok()
    assert f.lines(1) == ["far"]


# ---- commits ----

def git(folder, *args):
    done = subprocess.run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(box, name="work"):
    """A repository with two specs, whose code is in it, and a bare clone."""
    top = box.work / name
    code = "name: {0}\nworkdir: {{path: .., exclude: [/jobs/]}}\nentrypoint: {{run: 'cat code >> $HOME/lines'}}\n"
    for job in "ab":
        box.spec(code.format(job), f"{name}/jobs/{job}.yaml")
    (top / "code").write_text("one\n")
    git(box.work, "init", "-q", "-b", "main", top)
    git(top, "remote", "add", "origin", "https://token@git.example.org/r.git")
    commit(top)
    git(box.work, "clone", "-q", "--bare", top, box.work / f"{name}.git")
    git(box.work / f"{name}.git", "remote", "set-url", "origin", "https://git.example.org/r.git")
    return top, box.work / f"{name}.git"


def commit(top, text="c"):
    git(top, "add", "-A")
    git(top, "commit", "-qm", text, "--allow-empty")
    return git(top, "rev-parse", "HEAD")


def push(top, bare):
    git(top, "push", "-q", bare, "main")


def test_commit_of_a_bare_clone(box):
    top, bare = repository(box)
    first = git(top, "rev-parse", "HEAD")
    r = box.run("apply", "--json", "--at", "main", bare).ok().json()
    harness.check_schema(r, "apply.schema.json")
    assert r["commit"] == first and [j["spec"] for j in r["jobs"]] == ["jobs/a.yaml", "jobs/b.yaml"]
    assert box.lines() == ["one", "one"]
    # The work tree's specs are the same jobs: nothing to do there until an edit. The commit stays as it is.
    assert {j["result"] for j in box.run("apply", "--json", top).ok().json()["jobs"]} == {"up to date"}
    (top / "code").write_text("two\n")
    second = commit(top)
    push(top, bare)
    assert {j["result"] for j in jobs(box.run("apply", "--json", "--at", first, bare).ok()).values()} == {"up to date"}
    r = box.run("apply", "--json", "--at", second[:10], f"{bare}/jobs/a*.yaml").ok().json()
    assert r["commit"] == second and [j["job"] for j in r["jobs"]] == ["a"] and box.lines()[2:] == ["two"]
    assert len(box.run("apply", "--json", "--at", "main", "jobs/b.yaml", cwd=top).ok().json()["jobs"]) == 1
    assert box.lines()[2:] == ["two", "two"]
    box.run("status", top / "jobs/a.yaml").ok()
    # Missing commits and folders
    assert 'there is no "nothing" in commit' in box.run("apply", "--at", "main", bare / "nothing").expect(2).err
    assert "mian" in box.run("apply", "--at", "mian", bare).expect(2).err
    assert "in no git repository" in box.run("apply", "--at", "main", box.home).expect(2).err


def test_killed_while_written_out(box):
    top, bare = repository(box)
    for i in range(200):
        (top / f"f{i}").write_text(str(i))
    commit(top)
    push(top, bare)
    for delay in (0.005, 0.01, 0.02, 0.03, 0.05):
        r = box.start("apply", "--dry-run", "--at", "main", bare)
        time.sleep(delay)
        r.kill9()
    box.run("apply", "--at", "main", bare).ok()
    assert box.lines() == ["one", "one"]
    files = next(box.state.glob("checkouts/*/*/tree"))
    assert sorted(p.name for p in files.iterdir()) == sorted(p.name for p in top.iterdir() if p.name != ".git")


def test_require_clean(box):
    top, _ = repository(box)
    (top / "code").write_text("two\n")
    r = box.run("apply", "--require-clean", top).expect(2)
    assert "  code\n" in r.err and "not committed" in r.err and not box.lines()
    git(top, "checkout", "-q", ".")
    box.run("apply", "--require-clean", top / "jobs").ok()
    assert "in no git repository" in box.run("apply", "--require-clean", box.home).expect(2).err


def test_prune(box):
    """A removed spec with an open run is reported, not touched; --prune needs the whole folder."""
    top, _ = repository(box)
    box.spec("name: long\nentrypoint: {run: 'echo on >> $HOME/lines; exec sleep 1000'}\n", "work/jobs/long.yaml")
    box.run("--detach", top / "jobs/long.yaml").ok()
    harness.wait_for(lambda: box.lines() == ["on"])
    assert box.run("apply", "--json", "--prune", "--dry-run", top).ok().json()["removed"] == []
    (top / "jobs/long.yaml").unlink()
    r = box.run("apply", "--json", "--prune", top / "jobs").ok()
    harness.check_schema(r.json(), "apply.schema.json")
    assert [x["job"] for x in r.json()["removed"]] == ["long"] and "goes on: rhrun cancel" in r.json()["removed"][0]["what"]
    run = box.run("runs", "--json").json()
    assert [x["status"] for x in run if x["job"] == "long"] == ["running"]
    assert "--prune needs folders" in box.run("apply", "--prune", top / "jobs/*.yaml").expect(2).err
    box.run("cancel", [x["run"] for x in run if x["job"] == "long"][0]).ok()
    assert box.run("apply", "--json", "--prune", top / "jobs").ok().json()["removed"] == []
