"""Files to the nodes and back: the tests compare the tree on the node, file by file, with the files that git lists.

`job` of a test is a folder of sources in the box, with the spec beside it; a node's copy is below ~/.rhrun/work.
"""
import hashlib
import json
import os
import random
import shutil
import stat
import subprocess

import pytest

from harness import ROOT, agent_processes, wait_for

SEED = int(os.environ.get("RHRUN_TEST_SEED", random.randrange(1 << 30)))
CRASHES = int(os.environ.get("RHRUN_TEST_SYNC_CRASHES", 8))


def entry(path):
    """Trees are compared by this: kind, x bit, content."""
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        return "link", os.readlink(path)
    with open(path, "rb") as f:
        return "x" if st.st_mode & 0o100 else "-", hashlib.sha256(f.read()).hexdigest()


def files_below(folder):
    """{relative path: entry} of all files and links; folders count only by what is in them."""
    folder, found = os.fsencode(folder), {}
    for base, dirs, names in os.walk(folder):
        for name in [*names, *(d for d in dirs if os.path.islink(os.path.join(base, d)))]:
            path = os.path.join(base, name)
            found[os.path.relpath(path, folder)] = entry(path)
    return found


def git(folder, *args, home=None):
    env = {**os.environ, "HOME": str(home or folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a",
           "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}
    env.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True, timeout=60).stdout


def git_sees(folder, home):
    """{path: entry} of what git tracks, or would show as untracked and not ignored."""
    names = git(folder, "ls-files", "-z", "-c", "-o", "--exclude-standard", home=home).split(b"\0")
    root = os.fsencode(folder)
    return {n: entry(os.path.join(root, n)) for n in names if n and os.path.lexists(os.path.join(root, n))}


def put(folder, name, data=""):
    path = os.path.join(os.fsencode(folder), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def working_dirs(home):
    return sorted(p for p in (home / ".rhrun/work").glob("*/*") if p.is_dir())


def working_dir(home):
    found = working_dirs(home)
    assert len(found) == 1, found
    return found[0]


def started(result):
    """[(step, node)] of all attempts that a `run --json` started, in order."""
    return [(a["step"], a["node"]) for e in result.events() if e["type"] == "started" for a in e["attempts"]]


@pytest.fixture
def src(box):
    folder = box.work / "src"
    folder.mkdir()
    return folder


def spec_of(box, f=None, **more):
    text = {"workdir": "src", "entrypoint": {"run": "true"}, **more}
    if f:
        text["cluster"] = f.cluster()
    return box.spec(text)


def many(folder, count, size, seed):
    source = random.Random(seed)
    for i in range(count):
        put(folder, f"d{i % 7}/e{i % 3}/f{i}.bin", source.randbytes(source.randrange(size)))


# ---- contents of a tree ----

def hard_tree(src, home):
    """A repository with everything that affects what git sees."""
    git(src, "init", "-q", home=home)
    put(src, ".gitignore", "*.log\n!keep.log\n/build/\n*.tmp\ntracked-but-ignored\n")
    put(src, "a/.gitignore", "!special.tmp\n/only-here\n")
    put(src, "a/b/.gitignore", "*\n!.gitignore\n!kept\n")
    for name in ["x.log", "keep.log", "build/out", "a/build/in", "y.tmp", "a/special.tmp", "a/other.tmp", "a/only-here", "a/b/only-here",
                 "a/b/kept", "a/b/gone", "excluded-by-info", "excluded-by-user", "tracked-but-ignored"]:
        put(src, name, f"content of {name}\n")
    put(src, ".git/info/exclude", "excluded-by-info\n")
    put(home, ".config/git/ignore", "excluded-by-user\n")
    git(src, "add", "-f", "tracked-but-ignored", home=home)
    put(src, "empty")
    put(src, "with space/and\nnewline", "odd")
    put(src, "-n", "dash")
    put(src, "quote'\"$(touch x)\\", "quotes")
    put(src, "grüße/日本", "utf-8")
    put(src, b"not-utf8-\xff\xfe", "bytes")
    put(src, "deep/" + "/".join("d" * 30 for _ in range(20)) + "/f", "deep")
    os.chmod(put(src, "run.sh", "#!/bin/sh\necho ran\n"), 0o755)
    os.symlink("run.sh", src / "link")
    os.symlink("a/b", src / "link-to-folder")
    os.symlink("/nowhere/at/all", src / "dangling")
    (src / "empty-folder").mkdir()
    os.mkfifo(src / "fifo")


@pytest.mark.parametrize("where", ["here", "ssh"])
def test_exactly_what_git_sees(box, rhrun, fleet, src, where):
    hard_tree(src, box.home)
    f = fleet(1) if where == "ssh" else None
    rhrun(spec_of(box, f)).ok()
    wanted = git_sees(src, box.home)
    wanted.pop(b"fifo", None)
    assert {b"keep.log", b"a/special.tmp", b"a/b/kept", b"tracked-but-ignored", b"not-utf8-\xff\xfe"} <= set(wanted)
    assert files_below(working_dir(f.home(1) if f else box.home)) == wanted


def test_every_file_where_there_is_no_repository(box, rhrun, src):
    put(src, ".gitignore", "*.tmp\n")
    put(src, "a.tmp", "1")
    put(src, "b/c", "2")
    rhrun(spec_of(box)).ok()
    assert files_below(working_dir(box.home)) == files_below(src)


def test_exclude_and_include(box, rhrun, src):
    git(src, "init", "-q")
    put(src, ".gitignore", "data/\n")
    for name in ["train.py", "notes.md", "data/vocab", "data/big", "doc/a.md"]:
        put(src, name, name)
    rhrun(spec_of(box, workdir={"path": "src", "exclude": ["*.md"], "include": ["/data/vocab", "/doc/a.md"]})).ok()
    assert set(files_below(working_dir(box.home))) == {b".gitignore", b"train.py", b"data/vocab", b"doc/a.md"}


def test_the_spec_and_what_comes_home_are_no_part_of_it(box, rhrun, src):
    spec = box.spec({"workdir": ".", "entrypoint": {"run": "mkdir -p out; date +%N >out/now"},
                     "outputs": [{"from": "out/", "to": "results/"}]}, "src/job.yaml")
    put(src, "job.lock.yaml", "a lock\n")
    put(src, "main.py", "")
    rhrun(spec).ok()
    assert set(files_below(working_dir(box.home))) == {b"main.py", b"out/now"}
    assert (src / "results/now").exists()
    assert "nothing to do" in rhrun(spec).ok().err
    rhrun("--again", spec).ok()
    assert "nothing to do" in rhrun(spec).ok().err
    assert not any(p.startswith(b"results") for p in files_below(working_dir(box.home)))


def test_a_folder_that_is_reached_through_links(box, rhrun, src):
    """The spec is in a linked folder, outputs go to another one: it still counts as the job's own."""
    os.symlink("src", box.work / "link")
    (box.dir / "disk").mkdir()
    os.symlink(box.dir / "disk", src / "results")
    box.spec({"workdir": ".", "entrypoint": {"run": "mkdir -p out; date +%N >out/now"},
              "outputs": [{"from": "out/", "to": "./results"}, {"from": "out/", "to": "more/../other/"}]}, "src/job.yaml")
    spec = box.work / "link/job.yaml"
    rhrun(spec).ok()
    assert (box.dir / "disk/now").exists() and (src / "other/now").exists()
    assert set(files_below(working_dir(box.home))) == {b"out/now"}
    assert "nothing to do" in rhrun(spec).ok().err


def test_outputs_into_the_workdir_are_warned_of(box, rhrun):
    spec = box.spec({"workdir": ".", "entrypoint": {"run": "true"}, "outputs": [{"from": "out/", "to": "."}]})
    assert "outputs-1" in rhrun("plan", "--offline", spec).ok().err


def test_a_commit_of_a_repository(box, rhrun, fleet):
    repo = box.work / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    put(repo, "v", "one")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "one")
    git(repo, "tag", "v1")
    put(repo, "v", "two")
    put(repo, "new", "")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "two")
    put(repo, "v", "not committed")
    f = fleet(1)
    rhrun(spec_of(box, f, workdir={"git": str(repo), "ref": "v1"})).ok()
    assert (working_dir(f.home(1)) / "v").read_text() == "one"
    spec = spec_of(box, f, workdir={"git": str(repo)})
    rhrun(spec).ok()
    assert (working_dir(f.home(1)) / "v").read_text() == "two"
    assert set(files_below(working_dir(f.home(1)))) == {b"v", b"new"}
    r = rhrun(spec_of(box, f, workdir={"git": str(repo), "ref": "mian"})).expect(2)
    assert "mian" in r.err and "main" in r.err.replace("mian", "")


def test_files_go_elsewhere(box, rhrun, fleet, src):
    f = fleet(1)
    put(src, "main.py", "")
    put(box.work, "one", "1")
    os.chmod(box.work / "one", 0o755)
    put(box.work, "folder/a/b", "2")
    spec = spec_of(box, f, files=[{"from": "one", "to": "~/conf/renamed"}, {"from": "one", "to": "~/into/"},
                                  {"from": "folder", "to": "data"}, {"from": "folder/", "to": f"{box.dir}/absolute"}])
    rhrun(spec).ok()
    home, work = f.home(1), working_dir(f.home(1))
    assert entry(home / "conf/renamed") == entry(home / "into/one") == entry(box.work / "one")
    assert files_below(work / "data") == files_below(box.dir / "absolute") == files_below(box.work / "folder")
    put(box.work, "one", "3")
    assert ("sync", 0) not in started(rhrun("--json", spec).ok())
    assert (home / "conf/renamed").read_text() == (home / "into/one").read_text() == "3"


# ---- sent files ----

def test_one_changed_file(box, rhrun, fleet, src):
    f = fleet(1)
    many(src, 60, 3000, 1)
    spec = spec_of(box, f)
    rhrun(spec).ok()
    work = working_dir(f.home(1))
    before = {p: os.lstat(work / os.fsdecode(p)).st_ino for p in files_below(work)}
    put(src, "d0/e0/f0.bin", "changed")
    rhrun(spec).ok()
    after = {p: os.lstat(work / os.fsdecode(p)).st_ino for p in files_below(work)}
    assert {p for p in before if before[p] != after[p]} == {b"d0/e0/f0.bin"}
    assert files_below(work) == files_below(src)


def test_the_node_follows_the_source(box, rhrun, fleet, src):
    """Removed, renamed, a file where a folder was and the other way round, another mode, a link."""
    f = fleet(1)
    for name in ["gone/only", "stays", "file-to-folder", "folder-to-file/a", "script", "to-link"]:
        put(src, name, name)
    spec = spec_of(box, f)
    rhrun(spec).ok()
    work = working_dir(f.home(1))
    shutil.rmtree(src / "gone")
    os.unlink(src / "file-to-folder")
    put(src, "file-to-folder/x", "1")
    shutil.rmtree(src / "folder-to-file")
    put(src, "folder-to-file", "2")
    os.chmod(src / "script", 0o755)
    os.unlink(src / "to-link")
    os.symlink("stays", src / "to-link")
    rhrun(spec).ok()
    assert files_below(work) == files_below(src)
    assert not (work / "gone").exists()


def test_what_changed_on_the_node_is_restored(box, rhrun, fleet, src):
    f = fleet(2)
    many(src, 20, 3000, 2)
    spec = spec_of(box, f)
    rhrun(spec).ok()
    work = working_dir(f.home(2))
    put(work, "d1/e1/f1.bin", "changed there")
    os.unlink(work / "d2/e2/f2.bin")
    os.chmod(work / "d3/e0/f3.bin", 0o755)
    rhrun("--again", spec).ok()
    assert files_below(work) == files_below(src) == files_below(working_dir(f.home(1)))


def test_files_that_the_job_made_stay(box, rhrun, fleet, src):
    f = fleet(1)
    put(src, "data/a", "1")
    put(src, "b", "1")
    spec = spec_of(box, f, entrypoint={"run": "echo made >data/made; mkdir -p out; echo made >out/made"})
    rhrun(spec).ok()
    shutil.rmtree(src / "data")
    put(src, "b", "2")
    rhrun(spec).ok()
    assert set(files_below(working_dir(f.home(1)))) == {b"data/made", b"out/made", b"b"}


def test_a_second_run_sends_nothing(box, rhrun, fleet, src):
    f = fleet(2)
    many(src, 20, 3000, 3)
    spec = spec_of(box, f)
    first = started(rhrun("--json", spec).ok())
    assert {("sync", 0), ("sync", 1)} <= set(first)
    assert not [s for s in started(rhrun("--json", "--again", spec).ok()) if s[0] == "sync"]


def test_a_big_file(box, rhrun, fleet, src):
    f = fleet(1)
    data = bytearray(random.Random(4).randbytes(20 << 20))
    put(src, "big", bytes(data))
    put(src, "small", "s")
    spec = spec_of(box, f)
    rhrun(spec).ok()
    data[9 << 20] ^= 1
    put(src, "big", bytes(data))
    rhrun(spec).ok()
    assert files_below(working_dir(f.home(1))) == files_below(src)


def test_variants_have_their_own_folders(box, rhrun, fleet, src):
    f = fleet(1)
    put(src, "a", "1")
    spec = spec_of(box, f, params={"x": 1}, entrypoint={"run": "echo ${{ params.x }} >made"})
    rhrun(spec).ok()
    rhrun("-p", "x=2", spec).ok()
    assert sorted((p / "made").read_text() for p in working_dirs(f.home(1))) == ["1\n", "2\n"]


def test_nodes_that_share_a_home_get_it_once(box, rhrun, fleet, src):
    f = fleet(3, shared_home=True)
    shutil.copytree(ROOT / "specs/examples/hf", src, dirs_exist_ok=True)
    many(src, 20, 3000, 5)
    put(box.work, "one", "1")
    r = rhrun("--json", spec_of(box, f, files=[{"from": "one", "to": "extra/one"}], packages="./", distributed={"nproc_per_node": 1},
                                entrypoint={"run": "cat d0/e0/f0.bin extra/one >/dev/null; pip show tinylm"})).ok()
    for step in ("sync", "files-1", "python", "pip:./"):
        assert len([s for s in started(r) if s[0] == step]) == 1, started(r)
    there = {p: e for p, e in files_below(working_dir(f.home(1))).items() if b"__pycache__" not in p}
    assert there.pop(b"extra/one") and there == files_below(src)


def test_two_jobs_to_one_node(box, fleet):
    f = fleet(1)
    running = []
    for i in range(4):
        many(box.work / f"src{i}", 150, 20000, i)
        spec = box.spec({"name": f"job{i}", "workdir": f"src{i}", "cluster": f.cluster(), "entrypoint": {"run": f"echo {i} >made"}},
                        f"job{i}.yaml")
        running.append(box.start(spec))
    for r in running:
        r.wait().ok()
    for work in working_dirs(f.home(1)):
        files = files_below(work)
        assert files.pop(b"made")
        assert files == files_below(box.work / f"src{(work / 'made').read_text().strip()}")
    assert len(working_dirs(f.home(1))) == 4


# ---- before anything is sent ----

def test_plan_lists_the_files(box, rhrun, src):
    put(src, "a/large", b"x" * 5000)
    put(src, "b", "12")
    put(src, "odd\nname", "")
    put(box.work, "one", "1")
    spec = spec_of(box, cluster={"hosts": ["no-such-host.invalid"]}, files=[{"from": "one", "to": "~/one"}])
    r = rhrun("plan", "--files", spec).ok()
    assert "4 files, 5.0 kB" in r.out and "5.0 kB  a/large" in r.out and "2 bytes  b" in r.out and r'"odd\012name"' in r.out
    shown = rhrun("plan", "--files", "--json", spec).ok().json()
    assert shown["file_count"] == 4 and shown["bytes"] == 5003
    workdir = next(s for s in shown["sources"] if s["name"] == "workdir")
    assert [x["path"] for x in workdir["files"]] == ["a/large", "b", "odd\nname"] and workdir["largest"][0]["path"].startswith("a/")
    assert workdir["tree"] == git_tree_id(src)
    assert not working_dirs(box.home)


def git_tree_id(folder):
    """Of the same files, by git itself."""
    git(folder, "init", "-q")
    git(folder, "add", "-A", "-f")
    tree = git(folder, "write-tree").decode().strip()
    shutil.rmtree(folder / ".git")
    return tree


def test_a_large_folder_is_warned_of(box, rhrun, src):
    with open(put(src, "runs/checkpoints/model.ckpt"), "r+b") as f:
        f.truncate(101 << 20)
    put(src, "a", "1")
    r = rhrun("plan", "--offline", spec_of(box)).ok()
    assert "105.9 MB" in r.err and "runs/checkpoints/" in r.err and "exclude" in r.err
    small = rhrun("plan", "--offline", spec_of(box, workdir={"path": "src", "exclude": ["runs/"]})).ok()
    assert "warning" not in small.err


def test_a_workdir_that_is_not_there(box, rhrun):
    r = rhrun(spec_of(box, workdir="nowhere")).expect(2)
    assert "job.yaml:" in r.err and "nowhere" in r.err


# ---- outputs ----

def test_outputs_come_back_as_they_are(box, rhrun, fleet, src):
    f = fleet(1)
    put(src, "make.sh", "mkdir -p out/deep/er empty; echo a >out/a; head -c 12000000 /dev/urandom >out/deep/big; printf x >out/deep/er/x;"
        "chmod +x out/deep/er/x; : >out/none; ln -s a out/link; echo log >one.log; echo log >two.log; echo no >three.txt\n")
    spec = spec_of(box, f, entrypoint={"run": "sh make.sh"},
                   outputs=[{"from": "out/", "to": "results/"}, {"from": "*.log", "to": "logs/"}, {"from": "one.log", "to": "single/"}])
    rhrun(spec).ok()
    work = working_dir(f.home(1))
    assert files_below(box.work / "results") == files_below(work / "out")
    assert set(files_below(box.work / "logs")) == {b"one.log", b"two.log"}
    assert set(files_below(box.work / "single")) == {b"one.log"}
    assert "nothing to do" in rhrun(spec).ok().err


def test_outputs_of_several_nodes(box, rhrun, fleet, src):
    f = fleet(2)
    put(src, "a", "")
    spec = spec_of(box, f, distributed={"nproc_per_node": 1}, entrypoint={"run": "mkdir -p out; echo $RANK >out/rank"},
                   outputs=[{"from": "out/", "to": "each/", "nodes": "all"}, {"from": "out/", "to": "first/"},
                            {"from": "out/", "to": "by/${{ node.rank }}", "nodes": "all"}])
    rhrun(spec).ok()
    assert [(box.work / f"each/node{i + 1}/rank").read_text() for i in range(2)] == ["0\n", "1\n"]
    assert (box.work / "first/rank").read_text() == "0\n"
    assert [(box.work / f"by/{i}/rank").read_text() for i in range(2)] == ["0\n", "1\n"]
    assert "nothing to do" in rhrun(spec).ok().err


@pytest.mark.parametrize("when, there", [("always", True), ("success", False)])
def test_outputs_of_a_failed_launch(box, rhrun, fleet, src, when, there):
    f = fleet(1)
    put(src, "a", "")
    rhrun(spec_of(box, f, entrypoint={"run": "mkdir out; echo x >out/x; exit 3"},
                  outputs=[{"from": "out/", "to": "results/", "when": when}])).expect(1)
    assert (box.work / "results/x").exists() == there


def test_nothing_is_written_outside_of_to(box, rhrun, fleet, src):
    """A link that leads out comes home, then a folder of that name with a file: it must not go through the link."""
    f = fleet(1)
    outside = box.dir / "outside"
    outside.mkdir()
    put(src, "step", "1")
    spec = spec_of(box, f, outputs=[{"from": "out/", "to": "results/"}], entrypoint={
        "run": f"rm -rf out; mkdir out; if [ $(cat step) = 1 ]; then ln -s {outside} out/evil; ln -s ../../../../outside out/up;"
               f"else mkdir out/evil out/up; echo x >out/evil/x; echo x >out/up/x; fi"})
    rhrun(spec).ok()
    put(src, "step", "2")
    r = rhrun(spec)
    assert not list(outside.iterdir()), r
    r.ok()
    assert (box.work / "results/evil/x").read_text() == "x\n" and not (box.work / "results/evil").is_symlink()


def test_restore_puts_back_what_a_new_node_lacks(box, rhrun, fleet, src):
    f = fleet(2)
    put(src, "a", "")
    text = {"run": "mkdir -p ckpt; [ -e ckpt/n ] || echo 0 >ckpt/n; n=$(cat ckpt/n); echo $((n + 1)) >ckpt/n; echo was $n"}
    spec = spec_of(box, f, cluster=f.cluster(hosts=["node1"]), entrypoint=text, outputs=[{"from": "ckpt/", "to": "saved/", "restore": True}])
    assert "was 0" in rhrun(spec).ok().out
    assert "was 1" in rhrun("--again", spec).ok().out
    shutil.rmtree(f.home(1) / ".rhrun")
    assert "was 2" in rhrun("--again", spec).ok().out
    assert (box.work / "saved/n").read_text() == "3\n"


# ---- kills ----

def bytes_below(folder):
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
            except OSError:
                pass
    return total


def test_kill_9_at_random_points(box, rhrun, fleet, src):
    """Between the kills files change, and now and then the nodes are as new: each run has much to send."""
    f = fleet(2)
    source = random.Random(SEED)
    big = bytearray(source.randbytes(24 << 20))
    many(src, 300, 60000, SEED)
    put(src, "big", bytes(big))
    spec = spec_of(box, f)
    took = rhrun(spec).ok().seconds
    good = set(files_below(src).items())
    for i in range(CRASHES):
        for n in source.sample(range(300), 100):
            put(src, f"d{n % 7}/e{n % 3}/f{n}.bin", source.randbytes(source.randrange(60000)))
        big[source.randrange(len(big))] ^= 1
        put(src, "big", bytes(big))
        good |= set(files_below(src).items())
        if source.random() < 0.3:
            wait_for(lambda: not any(agent_processes(f.dir)), what="the end of the agents")
            f.wipe()
        r = box.start(spec)
        try:
            r.process.wait(source.uniform(0, took))
        except subprocess.TimeoutExpired:
            r.kill9()
        for home in (f.home(1), f.home(2)):
            for work in working_dirs(home):
                half = {p for p, e in files_below(work).items() if (p.endswith(b".bin") or p == b"big") and (p, e) not in good}
                assert not half, f"half of a file under its name: {half} (seed {SEED}, {i})"
    rhrun(spec).ok()
    for i in (1, 2):
        assert files_below(working_dir(f.home(i))) == files_below(src), f"seed {SEED}"


def test_a_frozen_host_in_the_middle(box, fleet, src):
    f = fleet(2)
    put(src, "big", random.Random(8).randbytes(60 << 20))
    r = box.start(spec_of(box, f), env={"RHRUN_LIVENESS_MS": 1500})
    wait_for(lambda: bytes_below(f.home(2)) > 1 << 20, what="the first bytes on node2")
    f.freeze(2)
    r.wait_text("node2.*nothing heard")
    f.thaw(2)
    r.wait().ok()
    for i in (1, 2):
        assert files_below(working_dir(f.home(i))) == files_below(src)


def test_a_full_disk_on_one_of_four_nodes(box, rhrun, fleet, src, mounted):
    f = fleet(4)
    mounted(f.home(3), "size=6m,mode=700")
    many(src, 400, 60000, 9)
    spec = spec_of(box, f)
    r = rhrun(spec)
    assert r.rc in (1, 3) and "node3" in r.err and "space" in r.err.lower(), r
    assert "node2" not in r.err, r
    for i in (1, 2, 4):
        assert files_below(working_dir(f.home(i))) == files_below(src)
    subprocess.run(["mount", "-o", "remount,size=100m", str(f.home(3))], check=True)
    again = rhrun("--json", spec).ok()
    assert [s for s in started(again) if s[0] == "sync"] == [("sync", 2)]
    assert files_below(working_dir(f.home(3))) == files_below(src)
