"""The files of a tree are those that git sees, and its id is git's: random work trees with random ignore
files, compared with `git ls-files` and `git write-tree`. RHRUN_TEST_SEEDS: the number of trees (default 240; scripts/test plays the first half)."""
import hashlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile

import pytest

import harness

LIST = harness.RHRUN.parent / "tests/unit/tree_list"
SEEDS = int(os.environ.get("RHRUN_TEST_SEEDS", "240"))
CHUNK = 30
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def _need():
    if not shutil.which("git"):
        harness.missing("git", "apt-get install git")
    if not os.access(LIST, os.X_OK):
        harness.missing(LIST, "it is built with the unit tests")


class World:
    """A work tree to scan, a home for git and a store."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.root = self.folder / "tree"
        self.home = self.folder / "home"
        self.store = self.folder / "store"
        self.root.mkdir()
        self.home.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "abort_on_error=1"),
                    "GIT_CEILING_DIRECTORIES": str(self.folder)}

    def git(self, *args, cwd=None, data=None, env=None, check=True):
        done = subprocess.run(["git", *args], cwd=cwd or self.root, input=data, env={**self.env, **(env or {})},
                              capture_output=True, timeout=60)
        assert not check or done.returncode == 0, (args, done.stderr)
        return done

    def scan(self, path=None, *options):
        done = subprocess.run([LIST, *options, self.store, path or self.root], env=self.env, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        tree_id, *files = done.stdout.split(b"\0")[:-1]
        found = {}
        for line in files:
            head, name = line.split(b"\t", 1)
            mode, oid, size = head.decode().split()
            found[name] = (mode, oid, int(size))
        assert list(found) == sorted(found)
        self.notes = done.stderr.decode(errors="replace")
        return tree_id.decode(), found


@pytest.fixture
def world():
    _need()
    with tempfile.TemporaryDirectory(prefix="rhrun-tree-") as folder:
        yield World(folder)
        subprocess.run(["chmod", "-R", "u+rwX", folder], capture_output=True)


def init(folder, config=b""):
    """The files of `git init`, without a process."""
    git = folder / ".git"
    for name in ("objects", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    (git / "config").write_bytes(b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n" + config)


def put(path, data=b"", mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def is_repo(path):
    return os.path.lexists(path / ".git")


def seen_by_git(world, root):
    """Paths of files as git lists them, of nested repositories too, without those that are deleted."""
    found = set()
    for name in world.git("ls-files", "-coz", "--exclude-standard", cwd=root).stdout.split(b"\0"):
        path = pathlib.Path(os.fsdecode(os.fsencode(root) + b"/" + name.rstrip(b"/")))
        if not name or not os.path.lexists(path):
            continue
        if path.is_dir() and not path.is_symlink():
            if is_repo(path):
                found |= {name.rstrip(b"/") + b"/" + below for below in seen_by_git(world, path)}
        elif any(p.is_symlink() for p in path.parents if p != root and root in p.parents):
            continue  # git calls it deleted
        else:
            found.add(name)
    return found


def expected(root, names):
    found = {}
    for name in names:
        path = os.fsencode(root) + b"/" + name
        if os.path.islink(path):
            mode, data = "120000", os.readlink(path)
        else:
            mode = "100755" if os.stat(path).st_mode & 0o100 else "100644"
            with open(path, "rb") as file:
                data = file.read()
        found[name] = (mode, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(), len(data))
    return found


def id_by_git(world, files):
    if not files:
        return EMPTY
    scratch = world.folder / "scratch"
    if not scratch.exists():
        scratch.mkdir()
        init(scratch)
    index = {"GIT_INDEX_FILE": str(world.folder / "scratch-index")}
    lines = b"".join(b"%s %s\t%s\0" % (mode.encode(), oid.encode(), name) for name, (mode, oid, _) in files.items())
    world.git("-c", "core.protectNTFS=false", "update-index", "-z", "--index-info", cwd=scratch, data=lines, env=index)
    tree = world.git("write-tree", "--missing-ok", cwd=scratch, env=index).stdout.decode().strip()
    os.unlink(index["GIT_INDEX_FILE"])
    return tree


def compare(world, root, names, *options):
    want = expected(root, names)
    tree_id, got = world.scan(root, *options)
    assert got == want, f"missing: {sorted(want.keys() - got.keys())}, too many: {sorted(got.keys() - want.keys())}"
    assert tree_id == id_by_git(world, want)


NAMES = [b"a", b"b", b"c", b"ab", b"abc", b"a.o", b"b.o", b"foo", b"Foo", b"x y", b"-d", b"[a]", b"a\\b", b"\xc3\xa4", b"\xff",
         b"!x", b"#x", b"e ", b".h", b"a*", b"z\tz", b"n\nn", b"build", b"a-b", b"a.b", b"B"]
FOLDERS = [b"a", b"b", b"d", b"build", b"x y", b"D", b"a.d", b"[b]", b"\xff\xfe"]
SHAPES = ["{n}", "/{n}", "{f}/", "/{f}/", "{f}/{n}", "**/{n}", "{f}/**", "{f}/**/{n}", "*.o", "*{n}", "{n}*", "?", "[ab]", "[!a]*",
          "[a-c]?", "[[:alpha:]]*", "\\{n}", "{n} ", "{n}\\ ", "#{n}", "***", "{f}**", "{f}/{n}**", "**/", "/**", "/*", "*/", "*",
          "[", "[a", "[]a]", "[a\\-c]", "[^a]", "\\", "{n}\\", "*/{n}", "{f}/*", "{f}/*/{n}", "/**/{n}", "{f}/**/", "**/{f}/**",
          "[[:upper:]]", "[[:foo:]]", "*/*", "/*/*", "*.*", "{f}", "{f}/{f}/", "**{n}", "{f}**/{n}", "{n}/", ".*", "!*/", "[A-Z]oo",
          "{n}\r", "  ", "/", "//", "!", "{f}/\\*", "[*]", "a[]b]", "a[^/]b", "?/?", "*?", "[[:space:]]*", "[a-]*", "[--0]*"]


def pattern(rng):
    if rng.random() < 0.3:
        text = "".join(rng.choice("aabbo/*?[]!\\-^ .:d*") for _ in range(rng.randint(1, 8))).encode()
    else:
        shape = rng.choice(SHAPES).encode()
        text = shape.replace(b"{n}", rng.choice(NAMES)).replace(b"{f}", rng.choice(FOLDERS))
    if rng.random() < 0.25:
        text = b"!" + text
    return text.replace(b"\n", b"?")


def ignore_text(rng):
    end = rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
    text = end.join(pattern(rng) for _ in range(rng.randint(1, 5)))
    return (b"\xef\xbb\xbf" if rng.random() < 0.05 else b"") + text + (end if rng.random() < 0.8 else b"")


def grow(rng, world, root, fold):
    """Files below a work tree; returns the folders. fold: no names that differ in case only."""
    folders = [root]
    taken = set()
    for _ in range(rng.randint(1, 7)):
        folder = pathlib.Path(os.fsdecode(os.fsencode(rng.choice(folders)) + b"/" + rng.choice(FOLDERS)))
        if not os.path.lexists(folder) and not (fold and str(folder).lower() in taken):
            taken.add(str(folder).lower())
            folder.mkdir()
            folders.append(folder)
    for _ in range(rng.randint(3, 25)):
        path = pathlib.Path(os.fsdecode(os.fsencode(rng.choice(folders)) + b"/" + rng.choice(NAMES)))
        if os.path.lexists(path) or fold and str(path).lower() in taken:
            continue
        taken.add(str(path).lower())
        kind = rng.random()
        if kind < 0.08:
            path.symlink_to(rng.choice(["nowhere", "a", ".", "../b"]))
        else:
            put(path, rng.choice([b"", b"x", b"text\r\n", rng.randbytes(50)]), 0o755 if kind < 0.2 else 0o644)
    for folder in rng.sample(folders, min(len(folders), rng.randint(0, 3))):
        put(folder / ".gitignore", ignore_text(rng))
    return folders


def track(rng, world, root):
    """Some files get tracked, ignored ones among them; some of those vanish."""
    names = [os.fsencode(os.path.relpath(os.path.join(d, f), root)) for d, below, files in os.walk(root)
             if ".git" not in d.split("/") for f in files if f != ".git"]
    names = rng.sample(names, min(len(names), rng.randint(0, 6)))
    # A file of a nested repository cannot be added to the outer one.
    names = [n for n in names if not any(is_repo(p) for p in (root / os.fsdecode(n)).parents if root in p.parents)]
    if names:
        world.git("--literal-pathspecs", "add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", cwd=root,
                  data=b"\0".join(names))
        if rng.random() < 0.3:
            os.unlink(os.fsencode(root) + b"/" + names[0])


def build(rng, world):
    fold = rng.random() < 0.2
    if rng.random() < 0.3:
        put(world.home / ".config/git/ignore", ignore_text(rng))
    if rng.random() < 0.2:
        put(world.home / "excl", ignore_text(rng))
        put(world.home / ".gitconfig", b"[core]\n\texcludesFile = ~/excl\n")
    init(world.root, b"\tignorecase = true\n" if fold else b"")
    if rng.random() < 0.3:
        put(world.root / ".git/info/exclude", ignore_text(rng))
    folders = grow(rng, world, world.root, fold)
    nested = []
    if rng.random() < 0.3:
        nested = [f for f in rng.sample(folders[1:], min(len(folders) - 1, 2))]
        for folder in nested:
            if not is_repo(folder):
                init(folder)
    for folder in nested:
        track(rng, world, folder)
    track(rng, world, world.root)
    return folders, fold


def change(rng, world, folders, fold):
    """A change that a table of the last scan must not hide."""
    for _ in range(rng.randint(1, 4)):
        what = rng.random()
        folder = rng.choice(folders)
        path = pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/" + rng.choice(NAMES)))
        if what < 0.25:
            put(folder / ".gitignore", ignore_text(rng))
        elif what < 0.4 and path.is_file() and not path.is_symlink():
            path.write_bytes(bytes(b ^ 1 for b in path.read_bytes()))
        elif what < 0.5 and path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        elif what < 0.65 and os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            path.unlink()
        elif what < 0.85 and not fold and not os.path.lexists(path):
            put(path, rng.randbytes(9))
        else:
            track(rng, world, world.root)


@pytest.mark.parametrize("first", [pytest.param(n, marks=pytest.mark.soak if n >= SEEDS / 2 else ()) for n in range(0, SEEDS, CHUNK)])
def test_random_trees(first):
    _need()
    for seed in range(first, min(first + CHUNK, SEEDS)):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory(prefix="rhrun-tree-") as folder:
            world = World(folder)
            try:
                folders, fold = build(rng, world)
                compare(world, world.root, seen_by_git(world, world.root), *(["-s"] if rng.random() < 0.5 else []))
                change(rng, world, folders, fold)
                compare(world, world.root, seen_by_git(world, world.root), *(["-s"] if rng.random() < 0.5 else []))
                below = rng.choice(folders)
                if below != world.root and not any(is_repo(p) for p in [below, *below.parents] if world.root in p.parents):
                    compare_folder(world, below)
            except AssertionError as e:
                raise AssertionError(f"seed {seed}: {e}") from None


def compare_folder(world, folder):
    """A folder inside a repository. If the folder itself is ignored, the repository is not considered."""
    name = os.fsencode(os.path.relpath(folder, world.root))
    ignored = world.git("check-ignore", "--no-index", "-q", "--", os.fsdecode(name), check=False).returncode == 0
    if ignored:
        world.scan(folder)
        assert "ignore files do not count" in world.notes
        return
    compare(world, folder, {n[len(name) + 1:] for n in seen_by_git(world, world.root) if n.startswith(name + b"/")})


def test_id_is_what_git_add_gives(world):
    world.git("init", "-q")
    world.git("config", "core.autocrlf", "false")
    put(world.root / "a-b/x", b"1")
    put(world.root / "a/x", b"dos\r\n")
    put(world.root / "a.b", b"", 0o755)
    put(world.root / "ab/c/d/e", b"deep")
    (world.root / "link").symlink_to("a/../nowhere")
    (world.root / "empty").mkdir()
    put(world.root / ".gitattributes", b"* text=auto\n")
    world.git("-c", "core.attributesFile=/dev/null", "add", "-A")
    put(world.root / ".git/info/attributes", b"* -text\n")
    world.git("add", "--renormalize", "-A")
    tree_id, _ = world.scan()
    assert tree_id == world.git("write-tree").stdout.decode().strip()


def test_submodule_and_worktree(world):
    """Files of a submodule are part of it, by its own rules; a linked work tree has the exclude file of its repository."""
    ident = ["-c", "user.name=n", "-c", "user.email=e@example", "-c", "protocol.file.allow=always"]
    sub = world.folder / "sub"
    sub.mkdir()
    world.git("init", "-q", cwd=sub)
    put(sub / "s", b"s")
    put(sub / ".gitignore", b"*.log\n")
    world.git("add", "-A", cwd=sub)
    world.git(*ident, "commit", "-qm", "s", cwd=sub)
    main = world.folder / "main"
    main.mkdir()
    world.git("init", "-q", cwd=main)
    put(main / "m", b"m")
    world.git(*ident, "submodule", "--quiet", "add", str(sub), "vendor/sub", cwd=main)
    world.git("add", "-A", cwd=main)
    world.git(*ident, "commit", "-qm", "m", cwd=main)
    put(main / ".git/info/exclude", b"secret\n")
    put(main / "vendor/sub/x.log")
    put(main / "vendor/sub/y.txt")
    _, files = world.scan(main)
    assert set(files) == {b".gitmodules", b"m", b"vendor/sub/.gitignore", b"vendor/sub/s", b"vendor/sub/y.txt"}
    # Ignored by the outer rules, yet tracked.
    put(main / ".gitignore", b"/vendor/\n")
    put(main / "vendor/other")
    _, files = world.scan(main)
    assert set(files) == {b".gitignore", b".gitmodules", b"m", b"vendor/sub/.gitignore", b"vendor/sub/s", b"vendor/sub/y.txt"}
    assert world.scan(main)[1] == files
    linked = world.folder / "linked"
    world.git("worktree", "add", "-q", str(linked), cwd=main)
    put(linked / "secret")
    put(linked / "open")
    _, files = world.scan(linked)
    assert set(files) == {b".gitmodules", b"m", b"open"}


def test_configuration_is_followed(world):
    """A changed setting counts at once, whatever the table of the last scan says."""
    init(world.root)
    for name in ("a", "b", "c"):
        put(world.root / name)
    put(world.folder / "one", b"a\n")
    put(world.folder / "two", b"b\n")
    assert set(world.scan()[1]) == {b"a", b"b", b"c"}
    world.git("config", "core.excludesFile", str(world.folder / "one"))
    assert set(world.scan()[1]) == {b"b", b"c"}
    put(world.home / "more", b"[core]\n\texcludesFile = %s\n" % os.fsencode(world.folder / "two"))
    world.git("config", "--unset", "core.excludesFile")
    put(world.home / ".gitconfig", b"[include]\n\tpath = more\n")
    assert set(world.scan()[1]) == {b"a", b"c"}
    put(world.home / "more", b"[core]\n\texcludesFile = %s\n" % os.fsencode(world.folder / "one"))
    assert set(world.scan()[1]) == {b"b", b"c"}
    put(world.folder / "one", b"c\n")
    assert set(world.scan()[1]) == {b"a", b"b"}


def test_special_files_are_named(world):
    put(world.root / "a")
    os.mkfifo(world.root / "pipe")
    with socket.socket(socket.AF_UNIX) as s:
        here = os.open(world.root, os.O_RDONLY)
        s.bind(f"/proc/self/fd/{here}/sock")
        os.close(here)
        assert set(world.scan()[1]) == {b"a"}
    assert 'pipe" is a FIFO: left out' in world.notes and 'sock" is a socket: left out' in world.notes


def test_patterns_on_top(world):
    init(world.root)
    put(world.root / ".gitignore", b"build/\n*.log\n")
    for name in ("build/lib.so", "build/x/y.so", "build/other", "keep.log", "drop.log", "data/a", "data/b", "src/m.py"):
        put(world.root / name)
    world.git("add", "-f", "data/a", "build/other")
    everything = {b".gitignore", b"data/a", b"data/b", b"src/m.py", b"build/other"}
    assert set(world.scan()[1]) == everything
    assert set(world.scan(None, "-x", "data")[1]) == everything - {b"data/a", b"data/b"}
    assert set(world.scan(None, "-x", "other")[1]) == everything - {b"build/other"}
    assert set(world.scan(None, "-i", "*.so")[1]) == everything | {b"build/lib.so", b"build/x/y.so"}
    assert set(world.scan(None, "-i", "build/*.so")[1]) == everything | {b"build/lib.so"}
    assert set(world.scan(None, "-i", "build", "-i", "!build/x")[1]) == everything | {b"build/lib.so"}
    assert set(world.scan(None, "-x", "*", "-i", "keep.log")[1]) == {b"keep.log"}
    assert set(world.scan(None, "-x", "!keep.log")[1]) == everything | {b"keep.log"}
    assert set(world.scan(None, "-l", str(world.root / "data"), "-l", str(world.root / "build/other"))[1]) == \
        {b".gitignore", b"src/m.py"}


@pytest.mark.parametrize("setting", ["core.splitIndex", "index.sparse"])
def test_an_index_that_only_git_reads(world, setting):
    world.git("init", "-q")
    put(world.root / ".gitignore", b"*.log\n")
    put(world.root / "a/kept.log")
    put(world.root / "a/other.log")
    put(world.root / "b/c/x")
    world.git("add", "-Af")
    world.git("rm", "-q", "--cached", "a/other.log")
    world.git("-c", "user.name=n", "-c", "user.email=e@example", "commit", "-qm", "x")
    if setting == "index.sparse":
        world.git("sparse-checkout", "set", "--cone", "--sparse-index", "a")
        assert not (world.root / "b").exists()
    else:
        world.git("update-index", "--split-index")
    assert set(world.scan()[1]) == {b".gitignore", b"a/kept.log"} | ({b"b/c/x"} if setting == "core.splitIndex" else set())
