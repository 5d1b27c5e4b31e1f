"""A first run on 4 hosts: a tree of 2,000 files, a venv, a wheel of the tree installed into it, one command; without uv and with it."""
import json
import pathlib
import random
import shutil
import sys

from lib import ROOT, Skip, log, row

sys.path.append(str(ROOT / "tests/e2e"))
from wheels import wheel  # noqa: E402

HOSTS, FILES, FOLDERS = 4, 2000, 80
WHEEL = "wheels/first-1.0-py3-none-any.whl"
CHECK = "import first; print(first.version)"


def make_tree(folder):
    """Source code as of a project of some years: 2,000 files, 14 MB."""
    draw = random.Random(1)
    for i in range(FILES):
        path = folder / f"part{i % FOLDERS % 9}" / f"module{i % FOLDERS}" / f"file{i}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"x{n} = {draw.randrange(10**9)}  # a line of a file\n" for n in range(draw.randrange(20, 400))))
    (folder / "wheels").mkdir()
    wheel(folder / "wheels", "first", "1.0")


def spec_of(bench, fleet, tree, uv):
    return bench.spec("uv.yaml" if uv else "pip.yaml", json.dumps({
        "name": "first-uv" if uv else "first", "workdir": str(tree),
        "cluster": {"hosts": fleet.names(HOSTS), "ssh_config": fleet.config("default")},
        # no index is asked by anybody, and settings of this machine's pip do not count
        "env": {"PIP_CONFIG_FILE": "/dev/null", **({"UV_OFFLINE": "1"} if uv else {"PIP_NO_INDEX": "1"})},
        "packages": [f"./{WHEEL}"], "distributed": {"nproc_per_node": 1}, "entrypoint": {"run": f"python -c '{CHECK}'"}}))


def rows(bench):
    tree = bench.dir / "tree"
    tree.mkdir()
    make_tree(tree)
    fleet = bench.fleet(HOSTS)
    homes = [fleet.dir / "home" / str(i) for i in range(1, HOSTS + 1)]
    uv = shutil.which("uv") or next((str(p) for p in [ROOT / "build/tools/bin/uv"] if p.exists()), None)

    def clean(with_uv):
        """Hosts as they were, with uv in ~/.local/bin, or none."""
        bench.forget()
        fleet.wipe(aside=True)
        for home in homes if with_uv else []:
            (home / ".local/bin").mkdir(parents=True)
            (home / ".local/bin/uv").symlink_to(pathlib.Path(uv).resolve())
        bench.seconds(["sync"])  # what one side left to be written must not be paid by the other

    def check(pattern, said_by_each="1.0\n"):
        said = bench.output().count(said_by_each)
        there = [len(list(home.glob(f"{pattern}/site-packages/first.py"))) for home in homes]
        if said != HOSTS or there != [1] * HOSTS:
            raise RuntimeError(f"{said} commands ran, venvs with the wheel: {there}\n{bench.output()[-1000:]}")

    def ours(spec, with_uv):
        clean(with_uv)
        took = bench.seconds([bench.rhrun, "--quiet", spec])
        check(".rhrun/venv/*/lib/python3*")
        return took

    work = f"first run on {HOSTS} hosts: tree of {FILES:,} files, venv, local wheel, a command"
    spec = spec_of(bench, fleet, tree, False)
    try:
        peer = ansible(bench, fleet, tree, clean, check)
        yield row(work, "ansible-playbook (unarchive, pip; pipelining, ControlPersist)",
                  bench.ab(lambda: ours(spec, False), peer, pairs=min(3, bench.pairs)), 0.15)
    except Skip as e:
        log(f"    ansible: {e}")
    if not uv:
        raise Skip("uv is not here (pip install uv)")
    with_uv = spec_of(bench, fleet, tree, True)
    by_hand = hand(bench, fleet, tree, clean, check)
    best, _ = bench.fastest(by_hand)
    yield row(f"{work}; uv is on the hosts", f"by hand, {HOSTS} in parallel: {best}, the same key exchange",
              bench.ab(lambda: ours(with_uv, True), by_hand[best]), 1.3)


def hand(bench, fleet, tree, clean, check):
    """name -> what somebody would type who knows what is to be done."""
    listing = bench.spec("hosts", "".join(f"{i}\n" for i in range(1, HOSTS + 1)))
    ssh = f"ssh -F {fleet.config('same')}"
    make = (f"export UV_OFFLINE=1; uv=~/.local/bin/uv; cd ~/work && $uv venv -q && $uv pip install -q ./{WHEEL} && "
            f".venv/bin/python -c \"{CHECK}\"")
    script = bench.spec("make.sh", make + "\n")
    unpack = bench.spec("unpack.sh", f"mkdir -p ~/work && tar -C ~/work -xf - && {make}\n")
    kinds = {"tar | ssh, uv venv, uv pip": f"tar -C {tree} -cf - . | {ssh} node@ \"$(cat {unpack})\"",
             "rsync, ssh, uv venv, uv pip": f"rsync -a -e '{ssh}' {tree}/ node@:{fleet.dir}/home/@/work/ && {ssh} -n node@ \"$(cat {script})\""}
    if not shutil.which("rsync"):
        del kinds["rsync, ssh, uv venv, uv pip"]

    def run(text):
        one = bench.spec("one.sh", text.replace("@", "$1") + "\n")
        clean(True)
        took = bench.seconds(f"xargs -P{HOSTS} -I@ sh -e {one} @ <{listing}")
        check("work/.venv/lib/python3*")
        return took

    return {name: lambda t=text: run(t) for name, text in kinds.items()}


def ansible(bench, fleet, tree, clean, check):
    program = bench.need("ansible-playbook", pip="ansible-core")
    home = "{{ ansible_env.HOME }}"
    play = bench.spec("play.yaml", json.dumps([{
        "hosts": "all", "gather_facts": True, "gather_subset": ["!all", "env"],
        "tasks": [
            {"name": "folder", "ansible.builtin.file": {"path": f"{home}/work", "state": "directory"}},
            {"name": "tree", "ansible.builtin.unarchive": {"src": str(bench.dir / "tree.tar"), "dest": f"{home}/work"}},
            {"name": "venv and wheel", "ansible.builtin.pip": {
                "name": f"{home}/work/{WHEEL}", "virtualenv": f"{home}/venv", "virtualenv_command": "/usr/bin/python3 -m venv",
                "virtualenv_site_packages": True},
             "environment": {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}},
            {"name": "command", "ansible.builtin.command": {"argv": [f"{home}/venv/bin/python", "-c", CHECK]}},
        ]}]))
    inventory = bench.spec("inventory", "\n".join(fleet.names(HOSTS)) + "\n[all:vars]\nansible_python_interpreter=/usr/bin/python3\n")
    config = bench.spec("ansible.cfg", f"[defaults]\nforks = {HOSTS}\nhost_key_checking = True\n[ssh_connection]\npipelining = True\n"
                        f"ssh_args = -F {fleet.config('default')} -o ControlMaster=auto -o ControlPersist=60s -o ControlPath={bench.dir}/c-%C\n")

    def run():
        clean(False)
        took = bench.seconds(f"tar -C {tree} -cf {bench.dir}/tree.tar . && {program} -i {inventory} {play}", env={"ANSIBLE_CONFIG": str(config)})
        check("venv/lib/python3*", "failed=0")
        # Its masters end after each run: a first run has none.
        bench.seconds(f"for s in {bench.dir}/c-*; do [ ! -S $s ] || ssh -o ControlPath=$s -O exit x 2>/dev/null || true; done")
        return took

    return run
