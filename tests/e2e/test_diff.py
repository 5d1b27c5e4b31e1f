"""rhrun diff: the differences between two runs or locks."""
import json
import os
import shutil
import subprocess

import pytest

from harness import require
from wheels import offline, quick_python, wheel

SPEC = """params: {lr: 1e-3, text: hi}
workdir: .
env: {FROM: }
entrypoint: {command: [./train.sh], args: ["${{ params.lr }}", --steps, 10]}
metrics: [{name: loss, pattern: 'loss (?<value>\\S+)'}]
"""


def train(box, text, mode=0o755):
    path = box.work / "train.sh"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)


@pytest.fixture
def two(box, rhrun):
    """Ids of two runs that differ in a param, the spec, the code, a value of env, and the results."""
    box.env["FROM"] = "one"
    box.spec(SPEC)
    train(box, "echo loss 0.5\n")
    ids = []
    rhrun("job.yaml").ok()
    ids.append(rhrun("runs", "--json").ok().json()[0]["run"])
    box.env["FROM"] = "two"
    box.spec(SPEC.replace("--steps, 10", "--steps, 20, --fast"))
    train(box, "echo loss 0.25\necho done\n")
    (box.work / "new.txt").write_text("x\n")
    rhrun("job.yaml", "-p", "lr=2").ok()
    ids.append(rhrun("runs", "--json").ok().json()[0]["run"])
    return ids


def paths(diff, section):
    return {r["path"]: (r.get("a"), r.get("b")) for r in diff[section]}


def test_diff_of_two_runs(box, rhrun, two):
    """Each change is reported once, in its section, and nothing else; the files as in git diff."""
    done = rhrun("diff", *two, "--json")
    assert done.rc == 1, done.err
    diff = done.json()
    assert not diff["same"] and [diff["a"]["run"], diff["b"]["run"]] == two
    assert paths(diff, "params") == {"lr": ("1e-3", "2")}
    assert paths(diff, "spec") == {"entrypoint.args[2]": ("10", "20"), "entrypoint.args[3]": (None, "--fast")}
    assert set(paths(diff, "env")) == {"FROM"} and "two" not in done.out
    assert paths(diff, "metrics") == {"loss[0]": (0.5, 0.25)}
    for section in ("git", "packages", "hosts", "programs", "outcome", "results"):
        assert diff[section] == [], section
    (tree,) = diff["code"]
    files = {f["path"]: f for f in tree["files"]}
    assert tree["tree"] == "workdir" and {n: f["change"] for n, f in files.items()} == {"new.txt": "added", "train.sh": "changed"}
    assert {d["step"] for d in diff["durations"]} >= {"run", "launch"}

    text = rhrun("diff", *two)
    assert text.rc == 1
    for line in ("  lr: 1e-3 -> 2", "  FROM: another value", "  loss[0]: 0.5 -> 0.25 (-50 %)", "+ entrypoint.args[3]: --fast",
                 "diff --git a/train.sh b/train.sh", "-echo loss 0.5", "+echo loss 0.25", "durations"):
        assert line in text.out.splitlines(), line
    assert rhrun("diff", *two, "-q").out == "" and "\x1b" not in text.out

    # the patch of all files makes the first tree the second
    folder = box.dir / "first"
    folder.mkdir()
    (folder / "train.sh").write_text("#!/bin/sh\necho loss 0.5\n")
    (folder / "train.sh").chmod(0o755)
    subprocess.run(["git", "apply", "-"], cwd=folder, input="".join(f["diff"] for f in tree["files"]), text=True, check=True)
    assert (folder / "train.sh").read_text() == (box.work / "train.sh").read_text() and (folder / "new.txt").exists()


def test_diff_of_what_is_the_same(rhrun, two):
    """Nothing, and status 0; also for a repeated run with other times."""
    done = rhrun("diff", two[1], two[1])
    assert (done.rc, done.out) == (0, "")
    rhrun("job.yaml", "-p", "lr=2", "--again").ok()
    again = rhrun("runs", "--json").ok().json()[0]["run"]
    assert again not in two
    assert rhrun("diff", two[1], "last").rc == 0
    shown = rhrun("diff", two[1], "last", "-v")
    assert shown.rc == 0 and "durations" in shown.out
    assert rhrun("diff", two[1], "last", "--json").json()["same"]


def test_diff_of_locks(box, rhrun, two):
    """A lock's file stands for its run as far as it goes; of a job that is not here the files cannot be shown."""
    for name, run in zip("ab", two):
        (box.work / f"{name}.lock.yaml").write_text(rhrun("show", run, "--lock").ok().out)
    assert rhrun("diff", "a.lock.yaml", two[0]).rc == 0
    both = rhrun("diff", "a.lock.yaml", "b.lock.yaml", "--json")
    assert both.rc == 1 and paths(both.json(), "params") == {"lr": ("1e-3", "2")}
    assert "metrics" not in both.json() and len(both.json()["code"][0]["files"]) == 2

    elsewhere = rhrun("diff", "a.lock.yaml", "b.lock.yaml", env={"RHRUN_HOME": str(box.dir / "elsewhere")})
    assert elsewhere.rc == 1 and "the snapshots are not here" in elsewhere.out
    assert not (box.dir / "elsewhere" / "jobs").exists() or not os.listdir(box.dir / "elsewhere" / "jobs")

    lock = rhrun("show", two[0], "--lock", "--json").ok().json()
    lock["points"][0]["params"]["text"] = "a\x1b[31m\nb"
    lock["hosts"][0]["hostname"] = "evil\x1b]0;x\x07"
    (box.work / "evil.json").write_text(json.dumps(lock))
    evil = rhrun("diff", two[0], "evil.json")
    assert evil.rc == 1 and "\x1b" not in evil.out and "\x07" not in evil.out and "hosts[0].hostname" in evil.out


def test_diff_says_what_is_wrong(box, rhrun, two):
    """An error is status 2; if a snapshot has lost an object, everything else is reported."""
    none = rhrun("diff", "last", "nope")
    assert none.rc == 2 and 'no run and no job "nope"' in none.err
    (box.work / "bad.yaml").write_text("lock: 1\nrun: {id: x}\n")
    bad = rhrun("diff", "bad.yaml", "last")
    assert bad.rc == 2 and "bad.yaml:" in bad.err
    assert rhrun("diff", "last").rc == 2

    (store,) = box.dir.glob("**/tree.git")
    diff = rhrun("diff", *two, "--json").json()
    blob = next(f for f in diff["code"][0]["files"] if f["path"] == "train.sh")["diff"].split("index ")[1][:7]
    objects = [p for p in (store / "objects" / blob[:2]).glob(blob[2:] + "*")]
    if not objects:
        pytest.skip("the object is in a pack")
    objects[0].unlink()
    done = rhrun("diff", *two)
    assert done.rc == 1 and "  lr: 1e-3 -> 2" in done.out.splitlines()
    assert "the snapshot of the first is not here, or not complete" in done.out
    shutil.rmtree(store)
    gone = rhrun("diff", *two)
    assert gone.rc == 1 and "the snapshots are not here, or not complete" in gone.out


def test_diff_of_sweeps(box, rhrun):
    """Points by name, and their metrics, also of those that the run kept; a run before knows nothing of what came after."""
    spec = ("params: {lr: 1}\nsweep: {matrix: {lr: [%s]}}\nentrypoint: {run: 'echo loss 0.${{ params.lr }}%s'}\n"
            "metrics: [{name: loss, pattern: 'loss (?<value>\\S+)'}]\n")
    ids = []
    for values, more in (("1, 2", ""), ("1, 2, 3", ""), ("2, 3", "5")):
        box.spec(spec % (values, more))
        rhrun("job.yaml").ok()
        ids.append(rhrun("runs", "--json").ok().json()[0]["run"])
    first = rhrun("diff", ids[0], ids[1], "--json").json()
    assert set(paths(first, "params")) == {"points[lr=3]"} and paths(first, "spec") == {"sweep.matrix.lr[2]": (None, 3)}
    assert paths(first, "metrics") == {'"lr=3"': (None, {"loss": 0.3})}
    second = rhrun("diff", ids[1], ids[2], "--json").json()
    assert paths(second, "metrics") == {'"lr=1"': ({"loss": 0.1}, None), '"lr=2".loss': (0.2, 0.25), '"lr=3".loss': (0.3, 0.35)}
    # one point with another, of the same run or of others
    points = rhrun("diff", f"{ids[1]}:lr=1", f"{ids[1]}:lr=2", "--json")
    assert points.rc == 1 and paths(points.json(), "params") == {"lr": ("1", "2")}, points
    assert paths(points.json(), "metrics") == {"loss": (0.1, 0.2)} and paths(points.json(), "spec") == {}
    assert rhrun("diff", "job.yaml:lr=3", "last:lr=3", "--json").rc == 0
    r = rhrun("diff", "last:lr=33", "last").expect(2)
    assert 'has no point "lr=33"' in r.err and "lr=3" in r.err


def test_diff_of_results_and_packages(box, rhrun):
    """The function's return value, by key; a package by its version, and no other installed package."""
    require("yaml")
    folder = box.dir / "wheels"
    folder.mkdir()
    for version in ("1.0", "1.1"):
        wheel(folder, "few", version)
    box.env.update(offline(folder))
    (box.work / "m.py").write_text("import few\ndef f(n):\n    return {'version': few.version, 'n': n, 'same': [1, 2]}\n")
    spec = ("workdir: .\npython: {interpreter: %s}\nsetup: [{pip: 'few==%s', name: few}]\n"
            "entrypoint: {function: 'm:f', kwargs: {n: %d}}\n")
    python = quick_python(box)
    ids = []
    for version, n in (("1.0", 1), ("1.1", 2)):
        box.spec(spec % (python, version, n))
        rhrun("job.yaml").ok()
        ids.append(rhrun("runs", "--json").ok().json()[0]["run"])
    diff = rhrun("diff", *ids, "--json").json()
    assert paths(diff, "results") == {"rank 0.version": ("1.0", "1.1"), "rank 0.n": (1, 2)}
    packages = paths(diff, "packages")
    assert set(packages) == {"few"} and packages["few"][0].startswith("1.0") and packages["few"][1].startswith("1.1")
    assert paths(diff, "spec") == {"setup[few].pip[0]": ("few==1.0", "few==1.1"), "entrypoint.kwargs.n": (1, 2)}
    assert diff["code"] == []
