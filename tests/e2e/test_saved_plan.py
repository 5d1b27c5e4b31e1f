"""rhrun plan -o FILE, rhrun apply FILE: rhrun does exactly that plan, or says what has changed."""
import json
import os

import harness
import pytest

SPEC = """
name: planned
params: {word: hello}
workdir: code
env: {TOKEN: }
setup: [{name: prep, run: 'echo prep >> $HOME/lines'}]
entrypoint: {run: 'cat f >> $HOME/lines; echo ${{ params.word }} >> $HOME/lines'}
"""


@pytest.fixture
def saved(box):
    (box.work / "code").mkdir()
    (box.work / "code/f").write_text("one\n")
    box.env["TOKEN"] = "very-secret"
    spec, file = box.spec(SPEC), box.work / "the.plan"
    r = box.run("plan", "-o", file, "-p", "word=it's", spec).ok()
    assert "launch" in r.out and "very-secret" not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    return file


def test_exactly_that(box, saved):
    assert "the plan still holds" in box.run("apply", "--dry-run", saved).ok().err and not box.lines()
    box.run("apply", saved, cwd="/").ok()
    assert box.lines() == ["prep", "one", "it's"]
    # A kept step was to be run: that changed.
    r = box.run("apply", saved).expect(2)
    assert "step prep on node 0: keep, was: run" in r.err and len(box.lines()) == 3


@pytest.mark.parametrize("what", ["spec", "files", "node", "default", "code"])
def test_what_moved(what, box, saved):
    spec = box.work / "job.yaml"
    if what == "spec":
        spec.write_text(SPEC.replace("echo prep", "echo prepared"))
        said = ["the spec changed", "step prep has other inputs now"]
    elif what == "files":
        (box.work / "code/f").write_text("two\n")
        said = ["the files of workdir changed: tree "]
    elif what == "node":
        spec.write_text(SPEC + "cluster: {hosts: [{host: 127.0.0.1, port: 1, user: someone, known_hosts: /dev/null}]}\n")
        said = ["node 0: someone@127.0.0.1:1, was: ", "the spec changed"]
    elif what == "default":
        spec.write_text(SPEC.replace("params: {word: hello}", "params: {word: hello, more: 3}"))
        said = ["param more: 3, was: none"]
    else:
        spec.unlink()
        said = ["job.yaml"]
    r = box.run("apply", saved).expect(2)
    for text in said:
        assert text in r.err, r
    assert not box.lines()


def test_hostile_files(box, saved):
    text = saved.read_text()
    whole = json.loads(text)
    bad = box.work / "bad.plan"
    for broken in (text[:200], text.replace('"rhrun_plan":1', '"rhrun_plan":2', 1), '{"rhrun_plan":1}', '{"rhrun_plan":',
                   json.dumps({**whole, "is": {"steps": {"prep": 3}}}, separators=(",", ":")),
                   json.dumps({**whole, "asked": {**whole["asked"], "set": "x"}}, separators=(",", ":")),
                   '{"rhrun_plan":1,"x":"' + "y" * (5 << 20) + '"}', '{"rhrun_plan":' + "[" * 100000):
        bad.write_text(broken)
        r = box.run("apply", bad)
        assert r.rc in (2, 3) and "error: " in r.err and len(r.err) < 2000 and not box.lines(), r
    bad.write_text(json.dumps({**whole, "is": {}, "asked": {**whole["asked"], "param": ["no form"]}}, separators=(",", ":")))
    box.run("apply", bad).expect(2)
    os.mkfifo(box.work / "fifo.plan")
    box.run("apply", "fifo.plan").expect(2)
    assert "--prune is for folders" in box.run("apply", "--prune", saved).expect(2).err
    assert "/nowhere/x" in box.run("plan", "-o", "/nowhere/x", "job.yaml").expect(3).err


def test_again_of_a_node(box, fleet):
    """The state of the nodes is part of the plan: with --again, and if a node has lost its state."""
    f = fleet(1)
    spec = box.spec({"name": "far", "cluster": f.cluster(), "setup": [{"name": "prep", "run": "echo p >> $HOME/lines"}],
                     "entrypoint": {"run": "echo far >> $HOME/lines"}})
    box.run(spec).ok()
    box.run("plan", "--again", "--trust", "-o", "a.plan", spec).ok()
    box.run("apply", "a.plan").ok()
    assert f.lines(1) == ["p", "far", "far"]
    box.run("plan", "--again", "--trust", "-o", "a.plan", spec).ok()
    harness.subprocess.run(["rm", "-rf", f.home(1) / ".rhrun"], check=True)
    r = box.run("apply", "a.plan").expect(2)
    assert "step prep on node 0: run again, was: keep" in r.err and f.lines(1) == ["p", "far", "far"]
