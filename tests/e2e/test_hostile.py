"""Nodes that lie (hostile.py): no file is written here that was not asked for, and no such node takes the room of the others."""
import json
import re
import shutil
import subprocess
import sys

import pytest

from harness import ROOT

EVIL = "[core]\n\tfsmonitor = touch /tmp/owned\n"


@pytest.fixture
def lying(box, fleet):
    """lying(lies, count=1): a fleet whose first node lies so."""
    def up(lies, count=1):
        f = fleet(count)
        f.stop(1)
        (f.dir / "lies.json").write_text(json.dumps(lies))
        config = f.dir / "1/sshd_config"
        config.write_text(f"ForceCommand {sys.executable} {ROOT}/tests/e2e/hostile.py {f.dir}/lies.json\n" + config.read_text())
        f.start(1)
        return f
    return up


def spec_of(box, f, **more):
    return box.spec({"name": "job", "cluster": f.cluster(), "entrypoint": {"run": "mkdir -p out; echo fine >good.log; echo x >out/x"}, **more})


def everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() or p.is_symlink())


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/post-checkout", ".envrc", "clusters/x.yaml", "job.yaml", "sub/other.log",
                                  "good.log/../../x"])
def test_a_file_that_was_not_asked_for(box, rhrun, lying, path):
    f = lying({"files": [{"glob": "*.log", "path": path, "mode": 0o100755, "data": EVIL}]})
    spec = spec_of(box, f, outputs=[{"from": "*.log", "to": "."}])
    (box.work / ".git").mkdir()
    before = spec.read_text()
    r = rhrun(spec).expect(3)
    if "malformed frame" not in r.err:
        assert f'the node names a file "{path}", which "*.log" does not ask for' in r.err, r
    assert spec.read_text() == before
    assert everything(box.work) == ["job.yaml"], r


def test_a_link_that_was_not_asked_for(box, rhrun, lying):
    f = lying({"files": [{"glob": "*.log", "path": "clusters", "mode": 0o120777, "target": "elsewhere"}]})
    r = rhrun(spec_of(box, f, outputs=[{"from": "*.log", "to": "."}])).expect(3)
    assert 'the node names a file "clusters"' in r.err and everything(box.work) == ["job.yaml"], r


def test_what_is_never_written_whatever_the_pattern(box, rhrun, lying):
    """The pattern asks for all of it, and a job may have a .git of its own there: the rest comes home."""
    paths = [".git/config", "deep/.gIt/hooks/pre-commit", "clusters/x.yaml", "job.yaml", "JOB.yaml", "job.lock.yaml", "key", "hosts.txt",
             "token.sh", ".rhrun-0000000000000000/x"]
    f = lying({"files": [{"glob": "**", "path": p, "mode": 0o100755, "data": EVIL} for p in paths] +
               [{"glob": "**", "path": "fine", "data": "fine"}]})
    shutil.copy(f.dir / "key", box.work / "key")
    (box.work / "key").chmod(0o600)
    (box.work / "token.sh").write_text("#!/bin/sh\necho secret\n")
    (box.work / "token.sh").chmod(0o755)
    spec = spec_of(box, f, outputs=[{"from": "**", "to": "."}], secrets=[{"name": "TOKEN", "command": ["./token.sh"]}])
    document = json.loads(spec.read_text())
    document["cluster"]["identity_file"] = "key"
    spec.write_text(json.dumps(document))
    before = {p: (box.work / p).read_bytes() for p in everything(box.work)}
    r = rhrun(spec).ok()
    for path, data in before.items():
        assert (box.work / path).read_bytes() == data, path
    assert set(everything(box.work)) - set(before) == {"fine", "good.log", "out/x", "hosts.txt"}, r
    assert '".git/config" is left out' in r.err and "git reads what lies in a folder .git" in r.err, r


def test_state_and_results_of_others(box, rhrun, lying):
    """Only the return values of existing ranks go into rhrun's own folder."""
    (box.work / "src").mkdir()
    (box.work / "src/mine.py").write_text("def f():\n    return 'true'\n")
    for path in ("1.json", "x/journal.db", "0.json/x", "999.json"):
        f = lying({}, count=2)
        lies = {"files": [{"glob": "@result", "path": path, "data": '"forged"'}]}
        spec = box.spec({"name": "job", "cluster": f.cluster(), "workdir": "src", "distributed": {"nproc_per_node": 1},
                         "entrypoint": {"function": "mine:f"}})
        (f.dir / "lies.json").write_text(json.dumps(lies))
        r = rhrun(spec).expect(3)
        assert f'the node names a file "{path}"' in r.err, r
        shutil.rmtree(box.state)
        f.down()


def test_an_address_is_no_way_out(box, rhrun, lying):
    f = lying({"address": "../../outside"})
    rhrun(spec_of(box, f, outputs=[{"from": "out/", "to": "results/${{ node.address }}"}])).ok()
    assert everything(box.dir / "work") == ["job.yaml", "results/node1/x"] and not (box.dir / "outside").exists()


# ---- room ----

def two(box, f, tmp_output="results/", **more):
    """A launch on both nodes; the second node's output must come home, whatever the first does."""
    return box.spec({"name": "job", "cluster": f.cluster(), "distributed": {"nproc_per_node": 1, "preflight": "off"},
                     "entrypoint": {"run": "mkdir -p out; echo $RANK >out/rank; echo out $RANK"},
                     "outputs": [{"from": "out/", "to": tmp_output, "nodes": "all", **more.pop("output", {})}], **more})


def peak_memory(box, *args):
    """rhrun's own largest resident size, in MiB."""
    probe = box.dir / "peak.py"
    probe.write_text("import resource, subprocess, sys\nrc = subprocess.run(sys.argv[2:]).returncode\n"
                     "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024))\nsys.exit(rc)\n")
    r = box.run(*args, prefix=(sys.executable, str(probe), str(box.dir / "peak")))
    return r, int((box.dir / "peak").read_text())


def test_entries_without_end(box, lying):
    f = lying({"flood": {"after": "glob", "glob": "out/", "what": "entries", "count": 100, "size": 3900}}, count=2)
    r, peak = peak_memory(box, two(box, f))
    assert r.expect(3) and 'node "node1": step "outputs-1": it lists more than 256 MiB' in r.err, r
    assert peak < 800, (peak, r)
    assert (box.work / "results/node2/rank").read_text() == "1\n"


@pytest.mark.parametrize("what, after, size, said", [
    ("records", "list", 4000, 'node "node1" reports more attempts than a job can have|it lists more than 256 MiB'),
    ("faults", "list", 100, 'node "node1" reports one fault after another'),
    ("gaps", "run", 100, "it leaves out output again and again")])
def test_words_without_end(box, lying, what, after, size, said):
    f = lying({"flood": {"after": after, "what": what, "count": 150_000, "size": size}}, count=2)
    r, peak = peak_memory(box, two(box, f))
    assert r.expect(3) and re.search(said, r.err), r
    assert peak < 800, (peak, r)
    assert sum(p.stat().st_size for p in box.state.rglob("*") if p.is_file()) < 20_000_000


@pytest.mark.parametrize("name", ["/../../x", "AAAAAAAA", "", "0" * 100])
def test_a_working_directory_that_no_job_can_have(box, rhrun, lying, name):
    """Where the state directory is lost the nodes say which one the last --fresh made, and all of them are told."""
    f = lying({}, count=2)
    spec = spec_of(box, f)
    rhrun(spec).ok()
    opened = next(e for e in rhrun("show", "--events", spec).ok().events() if e["type"] == "run_opened")
    (f.dir / "lies.json").write_text(json.dumps({"variant": opened["variant"][:8] + name}))
    shutil.rmtree(box.state)
    rhrun(spec).ok()


def test_a_record_with_a_long_tail_is_none(box, rhrun, lying):
    f = lying({"flood": {"after": "list", "what": "records", "count": 1, "size": 5000}})
    assert "malformed frame" in rhrun(spec_of(box, f)).expect(3).err


def test_more_of_a_file_than_was_announced(box, rhrun, lying):
    f = lying({"files": [{"glob": "out/", "path": "more", "data": "x" * 100, "size": 10}]}, count=2)
    r = rhrun(two(box, f)).expect(3)
    assert 'the node sends other bytes of "more" than it was asked for' in r.err, r
    assert (box.work / "results/node2/rank").read_text() == "1\n" and not (box.work / "results/node1/more").exists()


def test_max_size(box, rhrun, lying):
    f = lying({"files": [{"glob": "out/", "path": "big", "size": 3_000_000_000_000}]}, count=2)
    spec = two(box, f, output={"max_size": "1TB"})
    r = rhrun(spec).expect(3)
    assert 'node "node1": step "outputs-1": "out/" has 3.0 TB there, and its max_size is 1.0 TB' in r.err, r
    assert (box.work / "results/node2/rank").read_text() == "1\n" and everything(box.work) == ["job.yaml", "results/node2/rank"]


def test_a_disk_here_that_is_nearly_full(box, rhrun, lying, mounted):
    """A file that does not fit is not begun: the other node's file comes, and the rest once there is space."""
    results = box.work / "results"
    mounted(results, "size=40m")
    f = lying({"files": [{"glob": "out/", "path": "big", "size": 41_500_000}]}, count=2)
    spec = two(box, f)
    r = rhrun(spec).expect(3)
    assert re.search(r'node "node1": step "outputs-1": "out/" has 41.5 MB to fetch: this machine\'s disk is nearly full: 4\d.\d MB of 4\d.\d MB '
                     r'are free at ".*/results/node1", and rhrun leaves 2.\d MB', r.err), r
    assert (results / "node2/rank").read_text() == "1\n"
    (f.dir / "lies.json").write_text("{}")
    rhrun(spec).ok()
    assert (results / "node1/rank").read_text() == "0\n"


def test_output_that_fills_this_disk(box, rhrun, lying, mounted):
    """The node that writes most is given up; no data is lost: the same command continues once there is space."""
    mounted(box.state, "size=60m,mode=700")
    f = lying({}, count=2)
    spec = box.spec({"name": "job", "cluster": f.cluster(), "distributed": {"nproc_per_node": 1, "preflight": "off"},
                     "entrypoint": {"run": "echo began; [ $RANK = 1 ] || yes $(printf %0999d 0) | head -n 80000 || true; echo end $RANK"}})
    r = rhrun("--quiet", spec).expect(3)
    assert re.search(r'node "node1" has sent \d+.\d MB: this machine\'s disk is nearly full: \d.\d MB of 6\d.\d MB are free', r.err), r
    subprocess.run(["mount", "-o", "remount,size=300m", str(box.state)], check=True)
    rhrun("--quiet", spec).ok()
    logs = rhrun("logs", "--no-prefix", spec).ok().out
    assert logs.count("\n") >= 80_000 and "end 0" in logs and "end 1" in logs
