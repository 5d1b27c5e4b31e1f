"""accelerate and deepspeed with real torch and gloo, mpirun over several nodes; shell text and functions with every launcher."""
import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

import torches
from harness import ROOT, missing, processes_of, require, wait_for
from torches import FOUR, SAY, TRAIN, sums

MODULE = SAY + '''
def f(*args, **kwargs):
    say(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, local {os.environ['LOCAL_RANK']}")
    return [int(os.environ["RANK"]), args, kwargs, "RHRUN_CALL" in os.environ]
'''
QUOTED = "it's; $HOME `x` \\" + '"'


@pytest.fixture
def job(box):
    """job(launcher, python, entrypoint, ...): a spec of two nodes with two workers each."""
    (box.work / "train.py").write_text(TRAIN)
    (box.work / "mine.py").write_text(MODULE)

    def write(launcher, python, entrypoint, distributed=None, **more):
        more = {"python": {"interpreter": python, "venv": False}, **more} if python else more
        layout = {"launcher": launcher, "nnodes": 2, "nproc_per_node": 2, **(distributed or {})}
        return box.spec({"name": "t", "params": {"p": {"default": QUOTED}}, "distributed": layout, "entrypoint": entrypoint, **more})
    return write


def check_function(box, job, launcher, python):
    """Each rank is called, and each return value is kept; the value of an expression is data, with its type."""
    entry = {"function": "mine:f", "args": [1], "kwargs": {"p": "${{ params.p }}", "x": [1.5, None]}}
    box.run(job(launcher, python, entry)).ok()
    for rank in range(4):
        got = json.loads(box.run("result", "job.yaml", "--rank", rank).ok().out)
        assert got == [rank, [1], {"p": QUOTED, "x": [1.5, None]}, False]
    assert "nothing to do" in box.run("job.yaml").ok().err


def check_shell_text(box, job, launcher, python):
    """The shell is strict as rhrun's own is, values stay data, arguments are "$1", ..."""
    text = 'false | true && echo loose\n[ -n "$BASH_VERSION" ]\necho "rank $RANK/$WORLD_SIZE:" ${{ params.p }} "$0" "$#" "$2"\n'
    result = box.run(job(launcher, python, {"run": text, "args": ["--n", "a  b", "--"]})).ok()
    assert "loose" not in result.out
    lines = sorted(re.findall(r"^default@\S+: rank (\d)/4: (.*)$", result.out, re.M))
    assert lines == [(str(r), QUOTED + " rhrun 3 a  b") for r in range(4)], result
    result = box.run(job(launcher, python, {"run": 'false\necho "went on"'})).expect(1)
    assert "went on" not in result.out


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [pytest.param("torchrun", marks=pytest.mark.soak), "accelerate"])
def test_functions_and_shell_text(box, job, launcher):
    python = torches.find()
    check_function(box, job, launcher, python)
    check_shell_text(box, job, launcher, python)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["static", pytest.param("c10d", marks=pytest.mark.soak)])
def test_accelerate(box, job, backend):
    settings = box.home / ".cache/huggingface/accelerate/default_config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"
                        "num_machines: 7\nnum_processes: 7\nmachine_rank: 3\nuse_cpu: false\ndebug: false\n")
    (box.work / "accelerated.py").write_text(
        SAY + "from accelerate import Accelerator\nimport torch\na = Accelerator()\n"
        "total = a.reduce(torch.ones(1), 'sum')\n"
        "say(f'rank {a.process_index} sum {int(total)} {a.mixed_precision} {a.device.type}')\n"
        "a.wait_for_everyone()\ntorch.distributed.destroy_process_group()\n")
    layout = {"rdzv_backend": backend, "max_restarts": 1}
    result = box.run(job("accelerate", torches.find(), {"script": "accelerated.py"}, layout)).ok()
    assert sums(result) == FOUR, result
    assert result.out.count(" no cpu") == 4


@pytest.mark.slow
@pytest.mark.soak
def test_deepspeed(box, job):
    python = torches.find_deepspeed()
    result = box.run(job("deepspeed", python, {"script": "train.py", "args": ["--", "--n", "a b"]}, {"launcher_args": ["--no_local_rank"]}))
    assert sums(result.ok()) == FOUR, result
    assert set(re.findall(r"args (.*) addr", result.out)) == {"['--', '--n', 'a b']"}
    check_function(box, job, "deepspeed", python)


# ---- what plan shows ----

RECORDER = """#!/bin/sh
case $(basename "$0") in mpirun) ;; *) [ "$1" = -m ] || [ "$1" = -c ] || exec /usr/bin/python3 "$@" ;; esac
printf '%s\\0' "$@" >$HOME/argv.$$ && mv $HOME/argv.$$ $HOME/argv
"""


@pytest.mark.parametrize("launcher,keys,entry", [
    ("accelerate", {}, {"module": "m", "args": ["--x", "a b"]}),
    ("accelerate", {"rdzv_backend": "c10d", "max_restarts": 2, "role": "my role", "rdzv_conf": {"read_timeout": 9}}, {"script": "boot"}),
    ("accelerate", {"launcher_args": ["--use-deepspeed", "--mixed_precision", "no"], "master_port": 31997}, {"run": "echo 'a b'"}),
    ("deepspeed", {"launcher_args": ["--x"]}, {"module": "m", "args": ["--x", "a b"]}),
    ("deepspeed", {"nproc_per_node": 1}, {"command": ["echo", "a b"]}),
    ("mpirun", {"launcher_args": ["--bind-to", "none"]}, {"module": "m", "args": ["--x", "a b"]}),
    ("mpirun", {}, {"script": "boot"}), ("mpirun", {}, {"command": ["echo", "a b"]})], ids=str)
def test_plan_shows_the_line_that_starts(box, job, launcher, keys, entry):
    (box.work / "boot").write_text("")
    tools = box.dir / "tools"
    tools.mkdir()
    for name in ("python3", "mpirun"):
        (tools / name).write_text(RECORDER)
        (tools / name).chmod(0o755)
    path = job(launcher, str(tools / "python3"), entry, keys, env={"PATH": f"{tools}:/usr/bin:/bin"})
    shown = re.search(r"starts\n    (.*)\n", box.run("plan", path).ok().out)[1]
    box.run(path).ok()
    started = (box.home / "argv").read_text().split("\0")[:-1]
    typed = shlex.split(re.sub(r"<[^>]*>", lambda m: m[0].replace(" ", "_"), shown))
    typed = typed[2 if launcher == "accelerate" else 1:]
    started = started[2:] if launcher == "accelerate" else started
    if launcher != "mpirun":
        started.remove("--")
    if "run" in entry:  # the shell's own words stand between
        typed, started = typed[:typed.index("bash")], started[:started.index("--no_python") + 1]
    assert len(typed) == len(started), (typed, started)
    for a, b in zip(typed, started):
        assert re.fullmatch("(?s:.+)".join(re.escape(part) for part in re.split(r"<[^>]*>", a)), b), (a, b)


@pytest.mark.parametrize("launcher,says", [
    ("accelerate", "--num_machines=2 --num_processes=<number of all workers> "), ("deepspeed", "--world_info=<the workers of each node> "),
    ("mpirun", "mpirun -np <number of all workers> --host localhost:4,node-1:<workers of the node> ")])
def test_plan_where_a_node_says_how_many_workers(box, launcher, says):
    hosts = [{"host": "n1.example.org", "nproc_per_node": 4} if launcher == "mpirun" else "n1.example.org", "n2.example.org"]
    spec = {"cluster": {"hosts": hosts}, "entrypoint": {"module": "m"}, "distributed": {"launcher": launcher, "nproc_per_node": "gpu"}}
    assert says in box.run("plan", "--offline", box.spec(spec)).ok().out


# ---- mpirun ----

@pytest.fixture
def mpirun():
    if not shutil.which("mpirun"):
        missing("mpirun", "apt-get install openmpi-bin")


def test_mpirun(box, job, mpirun):
    check_function(box, job, "mpirun", None)
    check_shell_text(box, job, "mpirun", None)
    entry = {"command": ["sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE $A $1 $MASTER_ADDR"', "sh", "x  y"]}
    result = box.run(job("mpirun", None, entry, env={"A": "1 2"})).ok()
    lines = sorted(re.findall(r"^default@local-0: (\d of 4 1 2 x  y 127\.0\.0\.1)$", result.out, re.M))
    assert [line[0] for line in lines] == ["0", "1", "2", "3"], result


SHOW = 'echo "$RANK/$WORLD_SIZE ${RHRUN_NODE_RANK} $HOME $PWD ${{ node.name }} $A ${RHRUN_MPI_TOKEN-none} $TMPDIR"'


@pytest.fixture
def nodes(box, fleet, job, mpirun):
    """nodes(entrypoint, ...): three nodes with homes, and so working directories, of their own; no key from one to another."""
    f = fleet(3)
    hosts = ["node1", {"host": "node2", "nproc_per_node": 3}, "node3"]

    def write(entrypoint, distributed=None, env=None, **more):
        (box.dir / "tmp").mkdir(exist_ok=True)
        return job("mpirun", None, entrypoint, {"nnodes": 3, **(distributed or {})}, cluster=f.cluster(hosts=hosts), workdir=".",
                   env={"TMPDIR": str(box.dir / "tmp"), **(env or {})}, **more)
    write.fleet = f
    return write


def left(box):
    """Files that mpirun's nodes leave behind."""
    return [p for p in processes_of(box.dir) if p.comm in ("mpirun", "orted", "sleep")] + list((box.dir / "tmp").iterdir())


def test_mpirun_over_nodes(box, nodes):
    result = box.run(nodes({"run": SHOW}, env={"A": "1; 2"}, secrets=["S"]), env={"S": "hush-hush"}).ok()
    lines = sorted(re.findall(r"^default@node1: (.*)$", result.out, re.M))
    assert len(lines) == 7, result
    for rank, line in enumerate(lines):
        node = 0 if rank < 2 else 1 if rank < 5 else 2
        home = nodes.fleet.home(node + 1)
        assert re.fullmatch(rf"{rank}/7 {node} {home} {home}/\.rhrun/work/\S+ node{node + 1} 1; 2 none {box.dir}/tmp", line), line
    box.run(nodes({"function": "mine:f"})).ok()
    assert [json.loads(box.run("result", "job.yaml", "--rank", r).ok().out)[0] for r in range(7)] == list(range(7))
    assert not left(box)


@pytest.mark.slow
def test_mpirun_starts_again_and_is_stopped(box, nodes):
    fails = 'if [ "$RANK" = 5 ] && [ ! -e ~/failed ]; then touch ~/failed; exit 7; fi; echo "up $RANK"; exec sleep 600'
    running = box.start(nodes({"run": fails}, {"max_restarts": 1}))
    running.wait_text(r"restart 1 of 1")
    running.wait_text(r"up 5")
    wait_for(lambda: len([p for p in processes_of(box.dir) if p.comm == "sleep"]) == 7, what="seven workers")
    assert any(p.comm == "orted" for p in processes_of(box.dir))
    box.run("cancel", "job.yaml").ok()
    assert "cancelled" in running.wait().err
    wait_for(lambda: not left(box), what="the end of all")


def test_mpi_itself_over_nodes(box, fleet, job, mpirun):
    """Hosts with a name each, as Open MPI's library wants it; by ctypes, since nobody has to have its headers."""
    require("hostname")
    (box.work / "mpi.py").write_text(SAY + '''
import ctypes
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
at = lambda name: ctypes.addressof(ctypes.c_char.in_dll(mpi, name))
mpi.MPI_Init(None, None)
one, total, rank = ctypes.c_int(1), ctypes.c_int(0), ctypes.c_int(-1)
world, sum_, int_ = (ctypes.c_void_p(at(n)) for n in ("ompi_mpi_comm_world", "ompi_mpi_op_sum", "ompi_mpi_int"))
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, int_, sum_, world)
say(f"rank {rank.value} sum {total.value}")
mpi.MPI_Finalize()
''')
    f = fleet(2, hostnames=True)
    result = box.run(job("mpirun", None, {"script": "mpi.py"}, cluster=f.cluster(), workdir=".")).ok()
    assert sums(result) == FOUR, result


def test_without_open_mpi(box, nodes):
    tools = box.dir / "tools"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for name in os.listdir(folder):
            if name not in ("mpirun", "orted", "prted") and not os.path.lexists(tools / name):
                os.symlink(f"{folder}/{name}", tools / name)
    result = box.run(nodes({"command": ["true"]}, activate=f"export PATH={tools}")).expect(1)
    assert "mpirun is not on this node's PATH: install Open MPI on all nodes" in result.err, result
    result = box.run(nodes({"command": ["true"]}, activate=f"case $HOME in */3) export PATH={tools} ;; esac")).expect(1)
    assert re.search(r"default@node3: rhrun: Open MPI is to be on PATH on every node", result.err), result
    assert not left(box)


def test_a_daemon_that_is_slow_to_begin_leaves_nothing(box, nodes):
    """mpirun has ended, since node3's daemon fails, before node2's has made its folder; and that one does not hear TERM."""
    for node, text in (2, "trap '' TERM\n>$BEGAN\nsleep 1.5\nmkdir -p $TMPDIR/late\nsleep 600"), (3, "while [ ! -e $BEGAN ]; do sleep 0.05; done; exit 1"):
        folder = box.dir / f"tools/{node}"
        folder.mkdir(parents=True)
        (folder / "orted").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "orted").chmod(0o755)
    result = box.run(nodes({"command": ["true"]}, env={"BEGAN": str(box.dir / "began")},
                           activate=f"case $HOME in */[23]) export PATH={box.dir}/tools/${{HOME##*/}}:$PATH ;; esac")).expect(1)
    assert (box.dir / "began").exists(), result
    assert not left(box)


def test_ended_at_any_instant_it_leaves_nothing(tmp_path):
    program = (ROOT / "src/step/mpirun.py").read_text()
    env = {**os.environ, "TMPDIR": str(tmp_path), "RHRUN_NODE_RANK": "1", "RHRUN_MPI_TOKEN": "t"}
    for i in range(60):
        p = subprocess.Popen([sys.executable, "-c", program, "2", "127.0.0.1", "1", "true", "0"], env=env, stderr=subprocess.DEVNULL)
        end = time.monotonic() + i / 300
        while p.poll() is None and time.monotonic() < end and not os.listdir(tmp_path):
            pass
        p.terminate()
        if i % 2:
            p.terminate()
        p.wait(30)
        assert not os.listdir(tmp_path), i


@pytest.fixture
def module():
    spec = importlib.util.spec_from_file_location("mpirun", ROOT / "src/step/mpirun.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_strangers_are_told_nothing(module):
    def meet(one, other):
        """The first message that each side gets from the other."""
        a, b = socket.socketpair()
        heard = {}

        def side(sock, token, asks):
            try:
                channel = module.Channel(sock, token, asks)
                channel.say("hello")
                heard[asks] = channel.hear()
            except OSError as e:
                heard[asks] = e
        threads = [threading.Thread(target=side, args=each) for each in ((a, one, True), (b, other, False))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return heard
    assert meet("secret", "secret") == {True: "hello", False: "hello"}
    assert all(isinstance(e, OSError) for e in meet("secret", "guess").values())


def test_strangers_hold_nobody_up(module, monkeypatch, capfd):
    monkeypatch.setattr(module, "ANSWER", 10 ** 6)
    monkeypatch.setattr(module, "UNKNOWN_MAX", 3)
    door = module.listen("127.0.0.1", 0, "127.0.0.1")
    port = door.getsockname()[1]
    found = []
    gathering = threading.Thread(target=lambda: found.append(module.gather(door, 3, "secret")), daemon=True)
    gathering.start()
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as loud:
        loud.sendall(b"x" * 4 * module.PROOF_MAX)
        with pytest.raises(OSError):
            while loud.recv(4096):
                pass
            raise ConnectionResetError
        for rank in 1, 2:
            with pytest.raises(OSError):
                module.connect("127.0.0.1", port, "guess")
            channel = module.connect("127.0.0.1", port, "secret")
            channel.say([rank, 7000 + rank])
            assert channel.hear() == "here"
            channel.close()
        gathering.join(60)
        assert found == [{1: ("127.0.0.1", 7001), 2: ("127.0.0.1", 7002)}]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port))
    said = ""

    def told():  # of both, by threads that would else say so during the next test
        nonlocal said
        said += capfd.readouterr().err
        return said.count("does not know the job's token") == 2
    wait_for(told, what="a word of the two that guessed")


def test_who_only_knocks_at_the_port_of_mpiruns_nodes_is_no_stranger(capfd):
    source = importlib.util.spec_from_file_location("mpirun_py", ROOT / "src/step/mpirun.py")
    mpirun = importlib.util.module_from_spec(source)
    source.loader.exec_module(mpirun)
    taken = []
    sock = mpirun.listen("127.0.0.1", 0, "127.0.0.1")
    port = sock.getsockname()[1]
    mpirun.welcome_all(sock, "token", lambda channel: taken.append(channel.hear()))
    reset = struct.pack("ii", 1, 0)
    for said in (b"", b"0" * 32 + b"\n"):
        for abort in (False, True):
            knock = socket.create_connection(("127.0.0.1", port))
            knock.sendall(said)
            if said:
                knock.recv(1)  # it is under way there
            if abort:
                knock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            knock.close()
    with pytest.raises(OSError):
        mpirun.connect("127.0.0.1", port, "another token")
    mpirun.connect("127.0.0.1", port, "token").say("a node")
    wait_for(lambda: taken == ["a node"], what="the node that knows the token")
    said = ""

    def told():
        nonlocal said
        said += capfd.readouterr().err
        return "does not know the job's token" in said
    wait_for(told, what="a word of the stranger")
    assert said.count("\n") == 1, said
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
