"""Locks: the exact inputs of a run, and reruns from them."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import pytest

from harness import ROOT, check_schema, require
from wheels import offline, quick_python, wheel


def git(folder, *args):
    done = subprocess.run(["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *args],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def shop(box):
    """A committed job with a package in two versions that are on this disk."""
    folder = box.dir / "wheels"
    folder.mkdir()
    for version in ("1.0", "1.1"):
        wheel(folder, "few", version)
    box.env.update(offline(folder))
    box.env.pop("WHO", None)
    (box.work / "say.py").write_text("import few, sys\nprint('few', few.version, *sys.argv[1:])\n")
    (box.work / "requirements.txt").write_text("few<1.1\n")
    python = quick_python(box)
    box.spec(f"params: {{lr: 1e-3, text: hi}}\nworkdir: .\npython: {{interpreter: {python}}}\n"
             "requirements: [requirements.txt]\nentrypoint: {script: say.py, args: ['${{ params.lr }}', '${{ params.text }}']}\n")
    git(box.work, "init", "-q", "-b", "main")
    git(box.work, "add", "-A")
    git(box.work, "commit", "-q", "-m", "first")
    return box


def lock_of(rhrun, run="last"):
    lock = rhrun("show", run, "--lock", "--json").ok().json()
    check_schema(lock, "lock.schema.json")
    return lock


def package(lock, name="few"):
    return next(p for p in lock["installs"][0]["packages"] if p["name"] == name)


HARD = "'\"\n${{ x }} $(touch /tmp/never)\t\u00e9" + "x" * 10000


def test_lock_says_what_the_run_ran_from(shop, rhrun):
    """Commit, tree, packages, params as written; the file is YAML that says the same; a change of the tree is seen."""
    yaml = require("yaml")
    rhrun("job.yaml", "-p", "text=" + HARD, "--set", "env.A=1", "--", "two words").ok()
    lock = lock_of(rhrun)
    assert lock["git"] == {"commit": git(shop.work, "rev-parse", "HEAD"), "branch": "main", "dirty": False}
    assert lock["points"] == [{"params": {"lr": "1e-3", "text": HARD}, "args": ["two words"]}]
    assert lock["spec"]["sets"] == ["env.A=1"] and lock["spec"]["text"] == (shop.work / "job.yaml").read_text()
    assert package(lock)["version"] == "1.0" and "system" not in package(lock)
    assert [h["node"] for h in lock["hosts"]] == [0] and lock["hosts"][0]["kernel"]
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    assert not model or lock["hosts"][0]["cpu"].split() == model.group(1).split()
    index = {"GIT_INDEX_FILE": str(shop.dir / "index"), "PATH": shop.env["PATH"]}
    subprocess.run(["git", "-C", shop.work, "add", "say.py", "requirements.txt"], env=index, check=True)
    tree = subprocess.run(["git", "-C", shop.work, "write-tree"], env=index, check=True, capture_output=True, text=True)
    assert [(t["name"], t["id"]) for t in lock["trees"]] == [("workdir", tree.stdout.strip())]

    text = rhrun("show", "job.yaml", "--lock").ok().out
    again = yaml.safe_load(text)
    assert {k: v for k, v in again.items() if k != "spec"} == {k: v for k, v in lock.items() if k != "spec"}
    assert again["spec"]["text"] == lock["spec"]["text"]

    (shop.work / "say.py").write_text("print('new')\n")
    rhrun("job.yaml").ok()
    later = lock_of(rhrun)
    assert later["git"]["dirty"] and later["trees"][0]["id"] != lock["trees"][0]["id"]
    assert "\n-import few, sys\n" in later["git"]["diff"] and "diff_truncated" not in later["git"]
    assert package(later) == package(lock)
    assert lock_of(rhrun, lock["run"]["id"]) == lock, "a later run changed the lock of an earlier one"


def test_lock_has_what_was_installed_though_rhrun_was_killed(shop, rhrun):
    """kill -9 as soon as the package is installed, and when it is known: whoever goes on has it."""
    events = [json.loads(line) for line in rhrun("run", "job.yaml", "--json").ok().out.splitlines()]
    at = next(e["seq"] for e in events if e["type"] == "installed")
    for after in (at - 1, at):
        rhrun("run", "job.yaml", "--fresh", env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
        rhrun("run", "job.yaml").ok()
        lock = lock_of(rhrun)
        assert package(lock)["version"] == "1.0", after


def test_lock_of_nodes(box, rhrun, job):
    """Two nodes: packages once where they are equal, ranks by node."""
    folder = box.dir / "wheels"
    folder.mkdir()
    wheel(folder, "few", "1.0")
    box.env.update(offline(folder))
    job(f"python: {{interpreter: {quick_python(box)}}}\nworkdir: .\npackages: ['pip:few']\n"
        "distributed: {nnodes: 2, nproc_per_node: 2}\nentrypoint: {run: 'echo $RANK'}\n")
    rhrun("job.yaml").ok()
    lock = lock_of(rhrun)
    assert [i["nodes"] for i in lock["installs"]] == [[0, 1]]
    assert [(r["node"], r["first"], r["count"]) for r in lock["ranks"]] == [(0, 0, 2), (1, 2, 2)]


def test_what_was_not_committed_is_in_the_lock(box, rhrun, job):
    """The diff makes the commit what was sent; what is not a text, or too long, is left out and marked; a rerun has the same."""
    job("workdir: .\nentrypoint: {run: 'cat text'}\n")
    work = box.work
    for name, text in {"text": "one\n", "gone": "x\n", "same": "same\n", ".gitignore": "ignored\n"}.items():
        (work / name).write_text(text)
    (work / "gone").chmod(0o755)
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    (work / "text").write_text("two \u00e9 \x1b[31m \u2028 'quoted'\\\ttab\rno end")
    (work / "new name").write_text("new\n")
    (work / "ignored").write_text("never\n")
    (work / "gone").unlink()
    rhrun("job.yaml").ok()
    lock = lock_of(rhrun)
    assert lock["git"]["dirty"] and "diff_truncated" not in lock["git"] and "never" not in lock["git"]["diff"]
    yaml = require("yaml")
    assert yaml.safe_load(rhrun("show", "last", "--lock").ok().out)["git"] == lock["git"]
    git(box.dir, "clone", "-q", work, "clone")
    subprocess.run(["git", "-C", box.dir / "clone", "apply", "-"], input=lock["git"]["diff"].encode(), check=True)
    for name in ("text", "same", "new name"):
        assert (box.dir / "clone" / name).read_bytes() == (work / name).read_bytes()
    assert not (box.dir / "clone/gone").exists()
    rhrun("rerun", "last").ok()
    assert lock_of(rhrun)["git"] == lock["git"]

    (work / "long").write_text("".join(f"{i}\n" for i in range(100000)))
    (work / "latin").write_bytes(b"caf\xe9\n")
    (work / "zzz").write_text("last\n")
    rhrun("job.yaml").ok()
    later = lock_of(rhrun)["git"]
    assert later["diff_truncated"] and "+++ b/zzz" in later["diff"] and "b/long" not in later["diff"]
    assert "b/latin" not in later["diff"] and later["diff"].startswith(lock["git"]["diff"][:50])
    same = rhrun("diff", lock["run"]["id"], "last", "--json").expect(1).json()
    assert not [row for row in same.get("git", []) if "diff" in str(row)], same


SLOW = """import os, select, subprocess, sys, time
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
ways, waiting = {0: p.stdin.fileno(), p.stdout.fileno(): 1}, []
while ways or waiting:
    ready = select.select(list(ways), [], [], 0.01)[0]
    for fd in ready:
        data = os.read(fd, 65536)
        waiting.append((time.monotonic() + float(sys.argv[1]), ways[fd], data))
        if not data:
            del ways[fd]
    while waiting and waiting[0][0] <= time.monotonic():
        _, to, data = waiting.pop(0)
        if data:
            os.write(to, data)
        else:
            os.close(to)
"""


def test_a_run_ends_after_its_list_of_packages(box, rhrun, job):
    """A node that is far away, and a launch that is over at once: the list is in the journal before the launch's end; also
    for who has lost the state directory, and was killed."""
    folder = box.dir / "wheels"
    folder.mkdir()
    wheel(folder, "few", "1.0")
    box.env.update(offline(folder))
    (box.dir / "slow.py").write_text(SLOW)
    host = {"name": "far", "exec": [sys.executable, str(box.dir / "slow.py"), "0.15", "sh"]}
    job(f"cluster: {{hosts: [{json.dumps(host)}]}}\npython: {{interpreter: {quick_python(box)}}}\npackages: ['pip:few']\n"
        "entrypoint: {run: 'true'}\n")
    rhrun("job.yaml").ok()
    assert package(lock_of(rhrun))["version"] == "1.0"
    other = {"RHRUN_HOME": str(box.dir / "other")}
    events = rhrun("run", "job.yaml", "--again", "--json", env=other).ok().events()
    at = [e["seq"] for e in events if e["type"] == "installed"]
    end = [e["seq"] for e in events if e["type"] == "finished" and e["step"] == "launch"]
    assert len(at) == 1 and at < end, events
    third = {"RHRUN_HOME": str(box.dir / "third")}
    rhrun("run", "job.yaml", "--again", env={**third, "RHRUN_TEST_KILL_AFTER_EVENT": at[0] - 1})
    rhrun("run", "job.yaml", env=third).ok()
    lock = rhrun("show", "last", "--lock", "--json", env=third).ok().json()
    assert package(lock)["version"] == "1.0"


# ---- rerun ----

def metric(result):
    return re.search(r"loss (\S+)", result.out).group(1)


def test_fit_again_to_the_last_digit(box, rhrun):
    """The folder, a package and the spec are changed: the rerun has the same tree, packages, and final metric."""
    folder = box.dir / "wheels"
    folder.mkdir()
    wheel(folder, "tqdm", "4.66.0", body="def tqdm(what, **options):\n    return what\n")
    box.env.update(offline(folder))
    examples = box.work / "examples"
    shutil.copytree(ROOT / "specs/examples/fit", examples / "fit")
    spec = examples / "fit.yaml"
    text = (ROOT / "specs/examples/fit.yaml").read_text() + f"\npython: {{interpreter: {quick_python(box)}}}\n"
    spec.write_text(text)
    first = rhrun(spec, "-p", "seed=7", "--lock").ok()
    lock = lock_of(rhrun)
    assert json.loads(rhrun("show", "last", "--lock", "--json").ok().out) == lock
    assert (examples / "fit.lock.yaml").read_text() == rhrun("show", "last", "--lock").ok().out

    rhrun("run", "--locked", spec, "-p", "seed=7").ok()
    drifted = rhrun("run", "--locked", spec, "-p", "seed=8").expect(2)
    assert 'params.seed.default is 8, the lock has 7' in drifted.err, drifted.err
    changed = "import os\nos.makedirs('out', exist_ok=True)\nopen('out/new', 'w')\nprint('loss 0')\n"
    (examples / "fit/fit.py").write_text(changed)
    drifted = rhrun("run", "--locked", spec, "-p", "seed=7").expect(2)
    assert f"the lock has {lock['trees'][0]['id']}" in drifted.err, drifted.err
    spec.write_text(text.replace("steps: 200", "steps: 20"))
    drifted = rhrun("run", "--locked", spec, "-p", "seed=7").expect(2)
    assert "params.steps.default is 20, the lock has 200" in drifted.err, drifted.err

    wheel(folder, "tqdm", "4.67.0", body="def tqdm(what, **options):\n    return list(what)[:3]\n")
    (examples / "fit/requirements.txt").write_text("tqdm>=4.67\n")
    assert metric(rhrun(spec, "-p", "seed=7").ok()) == "0"
    # exactly what was changed is told, and the metric that came of it
    told = rhrun("diff", lock["run"]["id"], "last", "--json").expect(1).json()
    differs = {k: v for k, v in told.items() if isinstance(v, list) and v and k not in ("durations", "metrics")}
    assert differs.keys() == {"params", "packages", "code"}, differs
    assert differs["params"] == [{"path": "steps", "a": "200", "b": "20"}] and [p["path"] for p in differs["packages"]] == ["tqdm"], differs
    assert [[f["path"] for f in tree["files"]] for tree in differs["code"]] == [["fit.py", "requirements.txt"]], differs
    again = rhrun("rerun", lock["run"]["id"]).ok()
    assert metric(again) == metric(first)
    rhrun("diff", lock["run"]["id"], "last").ok()
    assert "the same packages as in run " + lock["run"]["id"] in again.err
    later = lock_of(rhrun)
    assert later["run"]["rerun_of"] == lock["run"]["id"]
    assert (later["trees"][0]["id"], package(later, "tqdm")) == (lock["trees"][0]["id"], package(lock, "tqdm"))
    assert "nothing to do" in rhrun("rerun", examples / "fit.lock.yaml").ok().err, "the same lock is the same job"
    assert metric(rhrun("rerun", examples / "fit.lock.yaml", "-p", "seed=8").ok()) != metric(first)
    results = examples / f"rerun-{lock['run']['id'][:8]}/fit-results"
    assert json.loads((results / "model.json").read_text()) and (examples / "fit-results/model.json").exists()

    # a store that lost an object: the folder has the files again, so that nothing is missing; then it has not
    tree = box.state / "jobs" / lock["job"]["id"] / "tree.git"
    shutil.rmtree(tree / "objects")
    (tree / "objects").mkdir()
    shutil.copytree(ROOT / "specs/examples/fit", examples / "fit", dirs_exist_ok=True)
    assert metric(rhrun("rerun", lock["run"]["id"], "-p", "seed=7", "--again").ok()) == metric(first)
    shutil.rmtree(box.state / "jobs" / later["job"]["id"] / "tree.git")
    (examples / "fit/fit.py").write_text(changed)
    lost = rhrun("rerun", lock["run"]["id"], "--again").expect(2)
    assert "cannot be restored" in lost.err and lock["trees"][0]["id"] in lost.err, lost.err


def test_rerun_with_hard_params_and_edited_locks(shop, rhrun):
    """10 KB of quotes and newlines come back unchanged; invalid parts of a lock are reported with their line."""
    run = rhrun("run", "--lock", "job.yaml", "-p", "text=" + HARD, "--", "two words", "'\"").ok()
    path = shop.work / "job.lock.yaml"
    text = path.read_text()
    again = rhrun("rerun", path).ok()
    assert again.out == run.out and HARD in run.out
    id = re.search(r"run ([0-9a-f]{16})", run.err).group(1)
    assert id in rhrun("status", "job").ok().out, "the name is the job's, though a rerun has it, too"

    def refused(old, new, *words):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        r = rhrun("rerun", path).expect(2)
        for word in words:
            assert word in r.err, r.err

    refused("lock: 1\n", "lock: 2\n", "job.lock.yaml:2", "this is a lock of version 2", "reads version 1")
    refused("- name: few\n", "- name: --index-url=http://x\n", "job.lock.yaml:")
    refused('version: "1.0"\n', 'version: "1.0 --pre"\n', "job.lock.yaml:")
    refused("installs:", "instals:", "did you mean installs")
    refused("  - name: workdir\n    id: ", "  - name: workdir\n    id: f", "job.lock.yaml:")
    tree = re.search(r"id: ([0-9a-f]{40})", text[text.index("trees:"):]).group(1)
    refused(tree, "f" + "0" * 39, "cannot be restored", "f" + "0" * 39)
    refused("python: {", "pyton: {", "did you mean python")
    path.write_text("lock: 1\nrun: [\n")
    assert "job.lock.yaml:" in rhrun("rerun", path).expect(2).err
    path.write_text(text.replace("version: \"1.0\"", "version: \"9.9\""))
    strict = rhrun("rerun", "--strict", path).expect(2)
    assert "the index does not have few 9.9 any more" in strict.err and "nothing was started" in strict.err, strict
    gone = rhrun("rerun", path).expect(1)
    assert "does not have few 9.9" in gone.err and "few==9.9" in gone.text, "a version that is gone is named"


class Index(http.server.ThreadingHTTPServer):
    """A package index of one package, each file with what a link says beside it."""

    def __init__(self, folder):
        self.files, self.folder = {}, folder
        super().__init__(("127.0.0.1", 0), Page)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://me:pass%2Bword@127.0.0.1:{self.server_port}/simple"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name, known = self.path.split("/")[-1], self.headers.get("Authorization", "").startswith("Basic ")
        found = known and (self.path == "/simple/few/" or name in self.server.files)
        body = "".join(f'<a href="{file}" {more}>{file}</a><br>' for file, more in self.server.files.items()).encode()
        if name in self.server.files:
            body = (self.server.folder / name).read_bytes()
        self.send_response(200 if found else 404 if known else 401)
        self.send_header("Content-Type", "application/octet-stream" if name else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_a_version_that_is_yanked_or_gone_is_told_before_anything_starts(shop, rhrun):
    """An index with a login: asked as pip does. If it cannot be asked, that is reported, and is no reason to refuse."""
    index = Index(shop.dir / "wheels")
    index.files = {f"few-{v}-py3-none-any.whl": "" for v in ("1.0", "1.1")}
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        shop.env.pop(name)
    spec = (shop.work / "job.yaml").read_text().replace(
        "requirements: [requirements.txt]", "packages: [pip:few<1.1]\nsecrets: [{name: INDEX_URL, to: PIP_INDEX_URL}]")
    shop.spec(spec)
    shop.env["INDEX_URL"] = index.url
    rhrun("job.yaml").ok()
    run = lock_of(rhrun)["run"]["id"]
    rhrun("rerun", "--strict", run).ok()

    def told(*words):
        r = rhrun("rerun", "--strict", run, "-p", "text=other").expect(2)
        for word in (*words, "--strict is given: nothing was started"):
            assert word in r.err, r
        assert "pass%2Bword" not in r.err
        assert len(rhrun("runs", "--json").ok().json()) == 2

    index.files["few-1.0-py3-none-any.whl"] = 'data-yanked="bad build"'
    told("yanked from the index: few 1.0 bad build")
    del index.files["few-1.0-py3-none-any.whl"]
    told("the index does not have few 1.0 any more")
    shop.env["INDEX_URL"] = index.url.replace("me:pass%2Bword@", "")
    assert "still has the packages: 401" in rhrun("rerun", "--strict", run).ok().err
    index.shutdown()
    index.server_close()
    r = rhrun("rerun", "--strict", run).ok()
    assert "cannot find out whether the index still has the packages" in r.err and "nothing to do" in r.err, r


def test_what_cannot_be_as_it_was_is_told_first(shop, rhrun):
    """Another machine, another value of env: told, and with --strict nothing starts."""
    shop.spec((shop.work / "job.yaml").read_text() + "env: {WHO: }\n")
    rhrun("run", "--lock", "job.yaml", env={"WHO": "a"}).ok()
    path = shop.work / "job.lock.yaml"
    text = path.read_text()
    kernel = re.search(r"kernel: (.*)", text).group(1)
    path.write_text(text.replace(f"kernel: {kernel}", "kernel: 1.2.3\n    gpu_driver: NVRM 550"))
    r = rhrun("rerun", "--strict", path, env={"WHO": "b"}).expect(2)
    for word in (f"its kernel is {kernel}, it was 1.2.3", "driver is not there, it was NVRM 550", "env WHO", "--strict"):
        assert word in r.err, r.err
    assert len(rhrun("runs", "--json").ok().json()) == 1
    assert "its kernel is" in rhrun("rerun", path, env={"WHO": "a"}).ok().err
    path.write_text(text)
    rhrun("rerun", "--strict", path, env={"WHO": "a"}).ok()


def test_rerun_of_roles(box, rhrun):
    """Roles with Pythons of their own, on two nodes: each gets its packages, params and workers as they were."""
    folder = box.dir / "wheels"
    folder.mkdir()
    for version in ("1.0", "1.1"):
        wheel(folder, "few", version)
    box.env.update(offline(folder))
    python = quick_python(box)
    say = "python -c 'import few; print(few.version)' | sed \"s/^/$ROLE_NAME $ROLE_RANK ${{ params.word }} /\""
    box.spec({"params": {"word": "a"}, "workdir": ".", "python": {"interpreter": python}, "packages": ["pip:few<1.1"],
              "distributed": {"nnodes": 2},
              "roles": {"left": {"count": 2, "entrypoint": {"run": say}},
                        "right": {"count": 1, "packages": ["pip:few"], "python": {"interpreter": python},
                                  "entrypoint": {"run": say}}}})
    first = rhrun("job.yaml", "-p", "word=b").ok()
    words = {w: sorted(re.findall(w + r" \d b \S+", first.out)) for w in ("left", "right")}
    assert words == {"left": ["left 0 b 1.0", "left 1 b 1.0"], "right": ["right 0 b 1.1"]}, first.out
    lock = lock_of(rhrun)
    assert {i.get("role") for i in lock["installs"]} == {None, "right"}
    wheel(folder, "few", "2.0")
    again = rhrun("rerun", "last").ok()
    assert {w: sorted(re.findall(w + r" \d b \S+", again.out)) for w in words} == words, again.out
    assert "the same packages" in again.err
    later = lock_of(rhrun)
    assert later["ranks"] == lock["ranks"] and later["points"] == lock["points"]


def test_bundle_on_another_machine(shop, rhrun):
    """Another state directory, no source folder, a big file: the bundle has it all, git reads it; a damaged one is refused."""
    (shop.work / "big.bin").write_bytes(b"big" * 3_000_000)
    (shop.work / "say.py").write_text("import few, os\nprint('few', few.version, os.path.getsize('big.bin'))\n"
                                      "os.makedirs('out', exist_ok=True)\nopen('out/x', 'w').write('x')\n")
    spec = shop.work / "job.yaml"
    spec.write_text(spec.read_text() + "outputs: [{from: out/, to: res/}]\n")
    first = rhrun(spec).ok()
    lock = lock_of(rhrun)
    bundle = shop.dir / "run.bundle"
    rhrun("show", "last", "--bundle", bundle).ok()
    git(shop.dir, "clone", "-q", bundle, "look")
    look = shop.dir / "look"
    assert (look / "lock.yaml").read_text() == rhrun("show", "last", "--lock").ok().out
    assert (look / "trees/0/big.bin").stat().st_size == 9_000_000
    assert any(first.out in p.read_text() for p in (look / "logs").iterdir())
    assert git(look, "rev-parse", "HEAD:trees/0") == lock["trees"][0]["id"]

    there = shop.dir / "there"
    there.mkdir()
    shutil.move(shop.work, shop.dir / "gone")
    env = {"RHRUN_HOME": str(shop.dir / "state2"), "HOME": str(there)}
    again = rhrun("rerun", bundle, env=env, cwd=there).ok()
    assert again.out == first.out
    assert (there / f"rerun-{lock['run']['id'][:8]}/res/x").read_text() == "x"
    assert "nothing to do" in rhrun("rerun", bundle, env=env, cwd=there).ok().err

    # its lock again, of a run that was a rerun itself
    second = shop.dir / "second.bundle"
    rhrun("show", "last", "--bundle", second, env=env, cwd=there).ok()
    data = bytearray(bundle.read_bytes())
    for at in (20, len(data) // 2, len(data) - 5):
        bad = shop.dir / "bad.bundle"
        broken = bytearray(data)
        broken[at] ^= 0x55
        bad.write_bytes(broken)
        r = rhrun("rerun", bad, env=env, cwd=there).expect(2)
        assert "bad.bundle" in r.err, r.err
    bad.write_bytes(data[:len(data) // 3])
    assert "is damaged" in rhrun("rerun", bad, env=env, cwd=there).expect(2).err
