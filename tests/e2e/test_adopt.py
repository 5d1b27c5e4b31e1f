"""run --adopt JOB SPEC: a spec that was renamed or moved keeps its history."""
import os
import random
import time

import harness

JOB = """name: {name}
{cluster}
params: {{lr: 1}}
workdir: {{path: {code}}}
setup: [{{name: prep, run: 'echo prep >> $HOME/lines'}}]
entrypoint: {{run: 'echo {what} >> $HOME/lines'}}
"""


def write(box, path, name, cluster="", what="ran"):
    (box.work / "code").mkdir(exist_ok=True)
    return box.spec(JOB.format(name=name, cluster=cluster, what=what, code=box.work / "code"), path)


def test_renamed_and_moved(box):
    old = write(box, "old.yaml", "first")
    box.run(old).ok()
    box.run(old, "-p", "lr=2").ok()
    assert box.lines() == ["prep", "ran"] * 2
    old.unlink()
    new = write(box, "jobs/new.yaml", "second")
    assert "never run" in box.run("status", new).expect(2).err
    r = box.run("run", "--adopt", "first", new).ok()
    assert 'continues the history of "first"' in r.err and "nothing to do" in r.err
    assert "nothing to do" in box.run("run", new, "-p", "lr=2").ok().err and len(box.lines()) == 4
    runs = box.run("runs", "--json").json()
    assert {x["job"] for x in runs} == {"second"} and len(box.run("runs", "--json", new).json()) == len(runs) == 2
    assert "nothing to do" in box.run("run", "--adopt", "first", new).ok().err  # the same command again
    assert "nothing to do" in box.run("run", "--adopt", "second", new).ok().err
    assert "up to date" in box.run("apply", "jobs").ok().out
    # Only the change is done. And again: then back to its first name.
    write(box, "jobs/new.yaml", "second", what="changed")
    box.run(new).ok()
    assert box.lines()[4:] == ["changed"]
    third = write(box, "third.yaml", "third", what="changed")
    assert "nothing to do" in box.run("run", "--adopt", "second", third).ok().err
    r = box.run("plan", new).expect(2)
    assert 'the history of job "second" was taken over by "third"' in r.err
    write(box, "old.yaml", "first", what="changed")
    assert 'taken over by "third"' in box.run("old.yaml").expect(2).err
    assert "nothing to do" in box.run("run", "--adopt", "third", "old.yaml").ok().err
    assert {x["job"] for x in box.run("runs", "--json").json()} == {"first"} and len(box.lines()) == 5


def test_refused(box):
    a, b = write(box, "a.yaml", "a"), write(box, "b.yaml", "b")
    box.run(a).ok()
    r = box.run("run", "--adopt", "aa", b).expect(2)
    assert 'there is no job "aa"' in r.err and "did you mean a?" in r.err
    box.run(b).ok()
    assert 'job "b"' in box.run("run", "--adopt", "a", b).expect(2).err and "1 run of its own" in box.run("run", "--adopt", "a", b).err
    write(box, "other/a.yaml", "a")
    box.run("other/a.yaml").ok()
    c = write(box, "c.yaml", "c")
    r = box.run("run", "--adopt", "a", c).expect(2)
    assert '2 jobs are named "a":' in r.err and str(a) in r.err
    job = [l.split()[0] for l in r.err.splitlines() if l.endswith(str(a))][0]
    assert "nothing to do" in box.run("run", "--adopt", job, c).ok().err
    (next(box.state.glob("jobs/*/adopts"))).write_bytes(b"x\0y")
    assert "is damaged" in box.run("plan", c).expect(2).err


def test_on_nodes(box, fleet):
    """The ledger, the working directory and what was installed there stay those of the old id; also for who comes again
    without a state directory, under the old name."""
    f = fleet(1)
    cluster = harness.json.dumps({"cluster": f.cluster()})[1:-1]
    old = write(box, "old.yaml", "first", cluster)
    box.run(old).ok()
    old.unlink()
    new = write(box, "new.yaml", "second", cluster, what="again")
    box.run("run", "--adopt", "first", new).ok()
    assert f.lines(1) == ["prep", "ran", "again"]
    assert len(list((f.home(1) / ".rhrun/work").iterdir())) == 1


def test_other_state_directory(box, fleet):
    """The history is in one state directory: another one refuses, and takes nothing from the nodes for it."""
    f = fleet(1)
    cluster = harness.json.dumps({"cluster": f.cluster()})[1:-1]
    old = write(box, "old.yaml", "first", cluster)
    box.run(old).ok()
    job = box.run("show", "last", "--lock", "--json").ok().json()["job"]["id"]
    old.unlink()
    new = write(box, "new.yaml", "second", cluster, what="again")
    other = {"RHRUN_HOME": box.dir / "other"}
    for word in ("first", job):
        r = box.run("run", "--adopt", word, new, env=other).expect(2)
        assert f'there is no job "{word}"' in r.err and "state directory" in r.err, r
    assert box.run("runs", "--json", env=other).json() == [] and f.lines(1) == ["prep", "ran"]
    assert "again" in box.run("run", "--adopt", job, new).ok().text or f.lines(1)[2:] == ["again"]
    assert f.lines(1) == ["prep", "ran", "again"]
    box.run("run", new, env=other).ok()  # it is a new job to that one
    assert f.lines(1) == ["prep", "ran", "again", "prep", "again"]


def test_killed_at_any_instant(box):
    old = write(box, "old.yaml", "first")
    box.run(old).ok()
    for i in range(12):
        new = write(box, f"new{i}.yaml", f"name-{i}")
        before = f"name-{i - 1}" if i else "first"
        r = box.start("run", "--adopt", before, new)
        time.sleep(random.uniform(0.001, 0.03))
        r.kill9()
        again = box.run("run", "--adopt", before, new).ok()
        assert "nothing to do" in again.err, again
    assert box.lines() == ["prep", "ran"] and {x["job"] for x in box.run("runs", "--json").json()} == {"name-11"}
