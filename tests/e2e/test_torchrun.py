"""launcher: torchrun with real torch and gloo; the words that reach torch's own parser, and the messages of an old torch."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import urllib.request

import pytest

import torches
from harness import ROOT, free_base, missing, processes_of, wait_for
from torches import FOUR, SAY, TRAIN, TWO, sums

WAIT = SAY + '''
import datetime, os, time, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
one = torch.ones(1)
dist.all_reduce(one)
say(f"world {int(one)} node {os.environ['RHRUN_NODE_RANK']} pid {os.getppid()}")
while not os.path.exists(os.path.expanduser("~/go")):
    dist.barrier()
    time.sleep(0.05)
dist.destroy_process_group()
'''


@pytest.fixture(scope="module")
def torch_python():
    return torches.find()


@pytest.fixture
def job(box, torch_python):
    """job(distributed, ...): writes train.py and a spec that starts it on two nodes with two workers each."""
    (box.work / "train.py").write_text(TRAIN)

    def write(distributed, program="train.py", **more):
        entry = {"script": program, "args": ["--x", "a b"]}
        return box.spec({"name": "t", "python": {"interpreter": torch_python, "venv": False}, "entrypoint": entry,
                         "distributed": {"launcher": "torchrun", "nnodes": 2, "nproc_per_node": 2, **distributed}, **more})
    return write


@pytest.mark.parametrize("backend", ["static", pytest.param("c10d", marks=pytest.mark.soak)])
def test_all_reduce_over_two_nodes(box, job, backend):
    inherited = {"PET_NNODES": "9", "PET_RDZV_BACKEND": "zeus", "RANK": "5", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "other"}
    result = box.run(job({"rdzv_backend": backend}), env=inherited).ok()
    assert sums(result) == FOUR, result
    assert set(re.findall(r"args (.*) addr (\S+) id (\w+)-1$", result.out, re.M)).pop()[:2] == ("['--x', 'a b']", "127.0.0.1")
    assert "nothing to do" in box.run("job.yaml").ok().err


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_over_ssh(box, job, fleet, backend):
    f = fleet(2)
    path = job({"rdzv_backend": backend}, cluster=f.cluster(), workdir=".")
    assert sums(box.run(path).ok()) == FOUR


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"rdzv_backend": "static"}, {"rdzv_backend": "c10d"}])
def test_a_failing_rank_and_its_restart(box, job, layout):
    (box.home / "fail").write_text("once")
    result = box.run(job({**layout, "max_restarts": 2})).ok()
    assert sums(result) == sorted(FOUR * 2), result
    assert len(re.findall(r"rank \d done", result.out)) == 4
    assert ("rhrun: restart 1 of 2" in result.err) == (layout["rdzv_backend"] == "static")


@pytest.mark.slow
@pytest.mark.soak
def test_standalone(box, job):
    (box.home / "fail").write_text("once")
    result = box.run(job({"nnodes": 1, "nproc_per_node": 2, "standalone": True, "max_restarts": 1})).ok()
    assert sums(result) == sorted(TWO * 2), result


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["static", pytest.param("c10d", marks=pytest.mark.soak)])
def test_restarts_that_are_spent(box, job, backend):
    (box.home / "fail").write_text("always")
    result = box.run(job({"rdzv_backend": backend, "nproc_per_node": 1, "max_restarts": 1})).expect(1)
    assert re.search(r"error: (after 1 restart: )?launch on node \"local-[01]\": exit status 1", result.err), result
    assert "exitcode  : 7" in result.text
    assert sums(result).count(TWO[1]) == 2, result  # two rounds; of the others' lines not every one comes
    assert not [p for p in processes_of(box.dir) if "train.py" in " ".join(p.argv)]


# ---- MIN:MAX ----

QUICK = {"last_call_timeout": 1, "join_timeout": 80}  # a torchrun that stalls for as long as keep_alive allows meets nobody any more


class Elastic:
    """A job that runs until it is let go, with a line from each worker for each world that it is in."""

    def __init__(self, box, job, nnodes, cluster=None, **more):
        (box.work / "wait.py").write_text(WAIT)
        layout = {"nnodes": nnodes, "nproc_per_node": 1, "rdzv_backend": "c10d", "max_restarts": 9, "rdzv_conf": QUICK, **more}
        self.home = box.home
        self.env = {"RHRUN_JOIN_MS": "500", "RHRUN_LIVENESS_MS": "1500", "RHRUN_RECONNECT_MS": "2000"}
        self.running = box.start(job(layout, "wait.py", **({"cluster": cluster, "workdir": "."} if cluster else {})), env=self.env)

    def worlds(self, size, node):
        """The torchruns on the node whose worker was in a world of that size, oldest first."""
        return re.findall(rf"world {size} node {node} pid (\d+)", self.running.text)

    def wait_world(self, size, *nodes, times=1):
        for node in nodes:
            wait_for(lambda: len(self.worlds(size, node)) >= times, what=f"world {size} on node {node} in {self.running.out_path}")
        return [int(self.worlds(size, node)[-1]) for node in nodes]

    def end(self, *homes):
        for home in homes or [self.home]:
            (home / "go").touch()
        return self.running.wait().ok()


@pytest.mark.slow
@pytest.mark.soak
def test_a_torchrun_that_is_killed_comes_again(box, job):
    e = Elastic(box, job, "1:2")
    e.wait_world(2, 0)
    os.kill(e.wait_world(2, 1)[0], signal.SIGKILL)  # the second node's: the first has the store
    e.wait_world(2, 0, 1, times=2)
    result = e.end()
    assert "local-1: its torchrun has left the others (killed by signal 9 (Killed)): 1 of 1:2 nodes are left" in result.err
    assert "local-1: it joins the launch: 2 of 1:2 nodes take part" in result.err
    assert "rhrun: restart" not in result.err


@pytest.mark.slow
@pytest.mark.soak
def test_a_torchrun_that_is_told_to_end_comes_again(box, job):
    e = Elastic(box, job, "1:2")
    e.wait_world(2, 0)
    os.kill(e.wait_world(2, 1)[0], signal.SIGTERM)  # torch ends with status 1 then, and leaves the rendezvous open
    e.wait_world(2, 0, 1, times=2)
    assert "its torchrun has left the others (exit status 1)" in e.end().err


@pytest.mark.slow
@pytest.mark.soak
def test_a_host_that_comes_late(box, job, fleet):
    f = fleet(3)
    f.stop(3)
    e = Elastic(box, job, "2:3", f.explicit_cluster())
    e.wait_world(2, 0, 1)
    f.start(3)
    e.wait_world(3, 0, 1, 2)
    result = e.end(*(f.home(i) for i in (1, 2, 3)))
    assert "it joins the launch: 3 of 2:3 nodes take part" in result.err
    assert "rhrun: restart" not in result.err
    assert "nothing to do" in box.run("job.yaml").ok().err


@pytest.mark.slow
@pytest.mark.soak
def test_the_controller_is_killed_while_a_host_comes(box, job, fleet):
    f = fleet(3)
    f.stop(3)
    e = Elastic(box, job, "2:3", f.explicit_cluster())
    e.wait_world(2, 0, 1)
    e.running.kill9()
    f.start(3)
    e.running = box.start("job.yaml", env=e.env)
    e.wait_world(3, 0, 1, 2)
    assert "rhrun: restart" not in e.end(*(f.home(i) for i in (1, 2, 3))).err
    assert "nothing to do" in box.run("job.yaml").ok().err


@pytest.mark.soak
def test_a_host_that_is_frozen_and_thawed(box, job, fleet):
    f = fleet(3)
    e = Elastic(box, job, "2:3", f.explicit_cluster())
    e.wait_world(3, 0, 1, 2)
    workers = [p.pid for p in processes_of(f.home(3)) if p.attempt]
    f.freeze(3)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    e.wait_world(2, 0, 1)
    e.running.wait_text("it is left out: 2 of 2:3 nodes are left")
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    f.thaw(3)
    e.running.wait_text("its torchrun went on meanwhile: it takes part again")
    e.wait_world(3, 0, 1, 2, times=2)
    result = e.end(*(f.home(i) for i in (1, 2, 3)))
    assert "joins the launch" not in result.err  # its torchrun has met the others again by itself


@pytest.mark.slow
@pytest.mark.soak
def test_a_worker_that_fails_too_often_ends_all(box, job):
    (box.home / "fail").write_text("always")
    result = box.run(job({"nnodes": "1:2", "nproc_per_node": 1, "rdzv_backend": "c10d", "max_restarts": 1, "rdzv_conf": QUICK})).expect(1)
    assert re.search(r"error: launch on node \"local-[01]\": exit status 1", result.err), result
    assert not [p for p in processes_of(box.dir) if "train.py" in " ".join(p.argv)]


@pytest.mark.slow
@pytest.mark.soak
def test_a_host_that_is_down_while_enough_are_left(box, job, fleet):
    f = fleet(3)
    cluster = f.explicit_cluster()
    f.stop(3)
    conf = {"last_call_timeout": 1}
    path = job({"nnodes": "2:3", "rdzv_backend": "c10d", "rdzv_conf": conf}, cluster=cluster, workdir=".")
    result = box.run(path).ok()
    assert sums(result) == FOUR, result
    assert "it is left out: 2 of 2:3 nodes are left" in result.err
    assert "launch: 4 workers on 2 nodes\n" in result.err
    path = job({"nnodes": 3, "rdzv_backend": "c10d"}, cluster=cluster, workdir=".")
    assert not sums(box.run(path).expect(3))


@pytest.fixture
def etcd(box, torch_python):
    """Where an etcd of the test's own answers; it speaks API v2."""
    if not shutil.which("etcd") or subprocess.run([torch_python, "-c", "import etcd"], capture_output=True).returncode:
        missing("etcd", "apt-get install etcd-server, pip install python-etcd")
    base = free_base(2)
    url, peer = f"http://127.0.0.1:{base + 1}", f"http://127.0.0.1:{base + 2}"
    with open(box.dir / "etcd.log", "wb") as log:
        server = subprocess.Popen(["etcd", "--data-dir", str(box.dir / "etcd"), "--enable-v2", "--listen-client-urls", url,
                                   "--advertise-client-urls", url, "--listen-peer-urls", peer], stdout=log, stderr=log)

    def answers():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(url + "/version", timeout=5).status == 200
    wait_for(answers, what="etcd")
    yield f"127.0.0.1:{base + 1}"
    server.kill()
    server.wait()


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("backend", ["etcd", "etcd-v2"])
def test_etcd(box, job, etcd, backend):
    (box.home / "fail").write_text("once")
    result = box.run(job({"rdzv_backend": backend, "nproc_per_node": 1, "rdzv_endpoint": etcd, "max_restarts": 2})).ok()
    assert sums(result) == sorted(TWO * 2), result


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["etcd", pytest.param("etcd-v2", marks=pytest.mark.soak)])
def test_etcd_goes_on_without_any_node(box, job, etcd, backend):
    e = Elastic(box, job, "1:2", rdzv_backend=backend, rdzv_endpoint=etcd, rdzv_conf={"last_call_timeout": 1})
    e.wait_world(2, 1)
    os.kill(e.wait_world(2, 0)[0], signal.SIGKILL)  # no node holds the store
    e.wait_world(2, 0, 1, times=2)
    result = e.end()
    assert "local-0: its torchrun has left the others (killed by signal 9 (Killed)): 1 of 1:2 nodes are left" in result.err
    assert "local-0: it joins the launch: 2 of 1:2 nodes take part" in result.err
    assert "rhrun: restart" not in result.err


# ---- the command line ----

RECORD = '''#!/usr/bin/python3
import json, os, sys
if sys.argv[1:2] == ["-c"]:
    sys.path.insert(0, os.environ["FAKE"])
    sys.executable, text, sys.argv = os.path.abspath(__file__), sys.argv[2], sys.argv[2:]
    exec(text, {"__name__": "__main__"})
with open(os.path.expanduser("~/argv"), "a") as f:
    f.write(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if k.startswith("PET_")}]) + "\\n")
'''
ALL = {
    "monitor_interval": 0.5, "start_method": "forkserver", "event_log_handler": "console", "role": "r", "run_path": True,
    "log_dir": "l", "redirects": "0:1", "tee": 3, "local_ranks_filter": [0], "duplicate_stdout_filters": ["a,b", "c"],
    "duplicate_stderr_filters": ["e"], "local_addr": "10.0.0.9", "logs_specs": "s", "numa_binding": "core-complex",
    "signals_to_handle": ["SIGTERM", "SIGUSR1"], "shutdown_timeout": 9, "virtual_local_rank": True,
    "rdzv_conf": {"timeout": 60}, "rdzv_id": "x", "master_addr": "10.0.0.1", "master_port": 4711, "max_restarts": 0,
}


def recorder(box, torch_version):
    """An interpreter that records its arguments, with a torch of that version."""
    program = box.dir / "python"
    program.write_text(RECORD)
    program.chmod(0o755)
    info = box.dir / f"fake/torch-{torch_version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch_version}\n")
    return {"interpreter": str(program), "venv": False}, {"FAKE": str(box.dir / "fake")}


PARSE = ("from torch.distributed.run import get_args_parser\nimport json, sys\n"
         "print(json.dumps(vars(get_args_parser().parse_args(json.load(sys.stdin)))))\n")


def check_flags(box, version, parse):
    """All flags of that torch version, given in a spec, come out of its parser; parse: words before argv's JSON on stdin."""
    table = (ROOT / f"tests/fixtures/torchrun/{'.'.join(version.split('.')[:2])}.txt").read_text()
    has = {line.split()[0] for line in table.splitlines() if not line.startswith("#")}
    keys = {k: v for k, v in ALL.items() if k in has}
    python, env = recorder(box, version)
    (box.work / "boot").write_text("")
    spec = {"name": "t", "python": python, "entrypoint": {"script": "boot", "args": ["--", "--nnodes", "7", "--n"]},
            "distributed": {"launcher": "torchrun", "nproc_per_node": 1, **keys}}
    box.run(box.spec(spec), env=env).ok()
    argv, pet = json.loads(box.lines("argv")[0])
    assert argv[:2] == ["-m", "torch.distributed.run"], argv
    assert pet == {"PET_LOCAL_ADDR": keys.get("local_addr", "127.0.0.1")}
    done = subprocess.run(parse, input=json.dumps(argv[2:]), text=True, capture_output=True, timeout=120, env={**os.environ, **pet})
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["training_script"].endswith("/boot") and got["training_script"].startswith("/")
    assert got["training_script_args"] == ["--", "--nnodes", "7", "--n"]
    as_torch_has_it = {"local_ranks_filter": "0", "signals_to_handle": "SIGTERM,SIGUSR1", "rdzv_conf": "timeout=60", "tee": "3"}
    want = {k: as_torch_has_it.get(k, v) for k, v in keys.items()}
    want.update(nnodes="1", nproc_per_node="1", rdzv_backend="static", node_rank=0)
    assert {k: got[k] for k in want} == want


def test_every_flag_reaches_torchs_own_parser(box, torch_python):
    check_flags(box, "2.13.0", [torch_python, "-c", PARSE])


# The parser of a torch that is not installed: its few files out of a wheel, the rest of torch is anything.
FROM_FILES = '''
import importlib.abc, importlib.machinery, os, sys, unittest.mock
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torch" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        path = os.path.join(sys.argv[1], module.__name__)
        def anything(key):
            if key.startswith("__"):
                raise AttributeError(key)
            return unittest.mock.MagicMock()
        if os.path.exists(path):
            exec(compile(open(path).read(), path, "exec"), module.__dict__)
        else:
            module.__getattr__ = anything
sys.meta_path.insert(0, Finder())
''' + PARSE


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.13.1", "2.15.0"])
def test_the_oldest_and_the_newest_parser(box, version):
    check_flags(box, version, ["python3", "-c", FROM_FILES, str(torches.parser_files(version))])


def test_a_torch_that_is_too_old(box):
    python, env = recorder(box, "2.5.1+cpu")
    spec = {"name": "t", "python": python, "entrypoint": {"module": "m"},
            "distributed": {"launcher": "torchrun", "shutdown_timeout": 5, "local_ranks_filter": [0], "nproc_per_node": "xpu"}}
    result = box.run(box.spec(spec), env=env).expect(1)
    assert "torch 2.5.1+cpu does not have --shutdown_timeout; it came with 2.12" in result.err, result
    assert "does not have --nproc_per_node=xpu; it came with 2.10" in result.err
    assert "local_ranks_filter" not in result.err and not box.lines("argv")


@pytest.mark.parametrize("keys", [
    {}, {"master_port": 31999}, {"rdzv_backend": "c10d", "max_restarts": 2}, {"nnodes": "1:2", "rdzv_backend": "c10d", "rdzv_conf": {"read_timeout": 9}},
    {"nnodes": 1, "standalone": True}, {"rdzv_backend": "c10d", "rdzv_endpoint": ":31998", "rdzv_id": "mine", "role": "my role"},
    {"local_addr": "127.0.0.1", "tee": "3", "launcher_args": ["--run_path"]}])
def test_plan_shows_the_line_that_starts(box, keys):
    python, env = recorder(box, "2.13.0")
    (box.work / "boot").write_text("")
    path = box.spec({"name": "t", "python": python, "entrypoint": {"script": "boot", "args": ["--x", "a b"]},
                     "distributed": {"launcher": "torchrun", "nnodes": 2, "nproc_per_node": 2, **keys}})
    shown = re.search(r"^ +(torchrun .*)", box.run("plan", path).ok().out, re.M)[1]
    box.run(path, env=env).ok()
    argv, pet = json.loads(box.lines("argv")[0])
    typed = shlex.split(re.sub(r"<[^>]*>", lambda m: m[0].replace(" ", "_"), shown))[1:]
    local = [w for w in typed if w.startswith("--local_addr=")]
    assert bool(local) == ("PET_LOCAL_ADDR" in pet), shown
    typed = [w for w in typed if w not in local]
    started = argv[2:]
    started.remove("--")
    assert len(typed) == len(started), (typed, started)
    for a, b in zip(typed, started):
        assert re.fullmatch("[^ ]+".join(re.escape(part) for part in re.split(r"<[^>]*>", a)), b), (a, b)
    assert f"--nnodes={keys.get('nnodes', 2)} --nproc_per_node=2 " in shown
    assert ("endpoint=<address of the first node>" in shown) == ("rdzv_backend" in keys)


def test_plan_where_hosts_differ(box):
    hosts = [{"host": "n1.example.org", "nproc_per_node": 4}, "n2.example.org"]
    spec = {"name": "t", "cluster": {"hosts": hosts}, "entrypoint": {"module": "m"}, "distributed": {"launcher": "torchrun", "nproc_per_node": "gpu"}}
    shown = box.run("plan", "--offline", box.spec(spec)).ok().out
    assert "torchrun --nnodes=2 --nproc_per_node=<nproc_per_node of the node> --max_restarts=0 --rdzv_backend=static " in shown
    assert "--node_rank=<rank of the node> --master_addr=<address of the first node> --master_port=<a free port of the first node>" in shown
