"""A working directory of 9,000+ files (90 MB, a git checkout) and one file of 1 GB, sent to one and to 8 hosts."""
import json
import os
import random
import subprocess

from lib import row

FILES, BYTES, HOSTS, BIG = 9000, 90 << 20, 8, 1 << 30


def make_tree(folder):
    """Like a checkout of a large project: many small text files, a few large ones, a .gitignore, a history."""
    draw = random.Random(1)
    folders = [folder / f"part{i % 20}" / f"module{i % 7}" / f"sub{i % 9}" for i in range(600)]
    for f in folders:
        f.mkdir(parents=True, exist_ok=True)
    weights = [draw.expovariate(1) for _ in range(FILES)]
    for i, w in enumerate(weights):
        line = b"line %d of a file that is like source code, x = %d\n" % (i, draw.randrange(10**9))
        (folders[i % 600] / f"file{i}.py").write_bytes(line * max(1, int(w / sum(weights) * BYTES / len(line))))
    (folder / ".gitignore").write_text("*.pyc\n__pycache__/\nbuild/\n/dist\n*.egg-info/\n.venv\n")
    for c in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *c], cwd=folder, check=True)


def rows(bench):
    bench.need("rsync", package="rsync")
    bench.need("git", package="git")
    tree, big = bench.dir / "tree", bench.dir / "big"
    tree.mkdir()
    make_tree(tree)
    fleet = bench.fleet(HOSTS)
    home = fleet.dir / "home"  # sshd logs in to the user's own: for rsync the folder is named in full

    def spec(name, hosts, workdir):
        return bench.spec(name, json.dumps({
            "name": name.split(".")[0], "workdir": str(workdir),
            "cluster": {"hosts": fleet.names(hosts), "ssh_config": fleet.config("default")},
            "distributed": {"nproc_per_node": 1}, "entrypoint": {"command": ["true"]}}))

    one, eight = spec("one.yaml", 1, tree), spec("eight.yaml", HOSTS, tree)
    rsync = f"rsync -a --delete --exclude .git -e 'ssh -F {fleet.config('same')}'"
    listing = bench.spec("hosts", "".join(f"{i}\n" for i in range(1, HOSTS + 1)))

    def settle():
        os.sync()  # what one side left to be written must not be paid by the other

    def check(node):
        folders = list((fleet.dir / "home" / str(node) / ".rhrun/work").glob("*/*"))
        count = sum(len(files) for f in folders for _, _, files in os.walk(f))
        if count != FILES + 1:
            raise RuntimeError(f"host {node} has {count} files, not {FILES + 1}")

    def first(file, hosts):
        bench.forget()
        fleet.wipe()
        settle()
        took = bench.seconds([bench.rhrun, "--quiet", file])
        for i in range(1, hosts + 1):
            check(i)
        return took

    def first_peer(hosts):
        fleet.wipe()
        settle()
        if hosts == 1:
            return bench.seconds(f"{rsync} {tree}/ node1:{home}/1/work/")
        return bench.seconds(f"xargs -P{hosts} -I@ {rsync} {tree}/ node@:{home}/@/work/ <{listing}")

    against = "rsync -a over ssh, the same key exchange"
    yield row("first sync of the tree to 1 host, snapshot and launch included", against,
              bench.ab(lambda: first(one, 1), lambda: first_peer(1)), 2)

    def again():
        return bench.seconds([bench.rhrun, "--quiet", "--again", one])

    def again_peer():
        return bench.seconds(f"{rsync} {tree}/ node1:{home}/1/work/")

    def edit():
        with open(tree / "part1/module1/sub1/file1.py", "ab") as f:
            f.write(b"x = 1\n")

    def edited(fn):
        edit()
        return fn()

    first_peer(1)
    bench.forget()
    bench.seconds([bench.rhrun, "--quiet", one])
    yield row("nothing changed: a whole run with its launch", against, bench.ab(again, again_peer), 0.5)
    yield row("one file changed: a whole run with its launch", against, bench.ab(lambda: edited(again), lambda: edited(again_peer)), 0.7)
    yield row(f"first sync to {HOSTS} hosts", f"{HOSTS} parallel rsync, the same key exchange",
              bench.ab(lambda: first(eight, HOSTS), lambda: first_peer(HOSTS), pairs=max(3, bench.pairs // 2)), 0.7)

    bench.forget()
    bench.seconds([bench.rhrun, "plan", "--offline", one])
    yield row("rhrun plan of the unchanged tree", "git status", bench.ab(
        lambda: bench.seconds([bench.rhrun, "plan", "--offline", one]), lambda: bench.seconds(["git", "status"], cwd=tree)), 1.5)
    yield from one_file(bench, fleet, spec, big, settle)


def one_file(bench, fleet, spec, big, settle):
    big.mkdir()
    with open(big / "weights.bin", "wb") as f:
        for _ in range(BIG >> 20):
            f.write(os.urandom(1 << 20))
    file = spec("big.yaml", 1, big)
    peaks = []

    def ours():
        bench.forget()
        fleet.wipe()
        settle()
        return bench.seconds([bench.rhrun, "--quiet", file])

    def peer():
        fleet.wipe()
        settle()
        return bench.seconds(f"rsync -a -e 'ssh -F {fleet.config('same')}' {big}/ node1:{fleet.dir}/home/1/work/")

    yield row("one file of 1 GB, snapshot and launch included", "rsync -a over ssh, the same key exchange",
              bench.ab(ours, peer, pairs=max(3, bench.pairs // 2)), 1.3)
    bench.forget()
    fleet.wipe()
    peaks.append(bench.peak_bytes([bench.rhrun, "--quiet", file]))
    yield {"work": "the controller's peak memory for it", "against": "64 MB", "value": f"{peaks[0] / 1e6:.0f} MB", "wanted": "≤ 64 MB",
           "met": peaks[0] <= 64e6}
