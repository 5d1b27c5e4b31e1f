"""rhrun import torchrun."""
import json
import os
import shlex
import subprocess

import pytest

import torches
from harness import require
from test_torchrun import FROM_FILES, recorder
from torches import FOUR, TRAIN, sums

# As they stand in scripts and manuals; words before the flags are what import has to pass over.
LINES = r"""
torchrun train.py
train.py --lr 1e-3
--nproc_per_node=2 train.py
torchrun --standalone --nnodes=1 --nproc-per-node=4 train.py --arg1 --arg2
torchrun --nproc_per_node=2 -m pkg.mod --x "a b"
torchrun --nnodes=1:4 --nproc-per-node=2 --max-restarts=3 --rdzv-id=123 --rdzv-backend=c10d --rdzv-endpoint=host:29500 train.py
python -m torch.distributed.run --nproc_per_node 2 --master_port 1234 train.py
python3 -u -m torch.distributed.run --nproc_per_node 2 --master-addr=10.0.0.1 --nnodes 2 --node-rank 0 train.py
python3.11 -m torch.distributed.run --standalone --nproc-per-node 2 -m a.b.c -v
/opt/conda/bin/torchrun --nproc_per_node=2 train.py
PET_NPROC_PER_NODE=4 PET_NNODES=2 torchrun --nproc-per-node 3 t.py
PET_STANDALONE=1 torchrun --max-restarts 2 t.py
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py
env OMP_NUM_THREADS=4 torchrun --nproc_per_node=2 train.py
torchrun -r 3 -t 1 train.py
torchrun -r3 -t1 train.py
torchrun -r=3 -t=0:1 train.py
torchrun --redirects 0:1,1:2 --tee 3 --nproc_per_node 2 train.py
torchrun --no-python ./prog a
torchrun --no_python bash -c 'echo $RANK; false || true'
torchrun --rdzv_conf=join_timeout=5,read_timeout=9 --rdzv_backend c10d train.py
torchrun --rdzv-conf 'is_host=true,last_call_timeout=3' --rdzv-backend c10d --nnodes 1 train.py
torchrun --rdzv-backend=static --rdzv-conf timeout=60 --nnodes=2 train.py
torchrun --rdzv-backend etcd-v2 --rdzv-endpoint e:2379 --nnodes 2 train.py
torchrun --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py
torchrun --nnodes 2:2 --nproc_per_node 2 --nproc_per_node 4 train.py
torchrun --nproc_per_node=auto train.py --lr 1e-3 --name 007 --flag yes --count 1_000 --at 12:30:00 --empty ''
torchrun --nproc_per_node=2 src/train.py config/a.yaml '${{ x }}' '${HOME}' "it's" '#no' 'a: b' null ~
torchrun --nproc-per-node 2 -- train.py -- x
torchrun --run-path --start-method=fork train.py
torchrun --log-dir d --local-ranks-filter 0,1 --nproc-per-node 2 train.py
torchrun --tee 3 --log-dir ./logs --duplicate-stdout-filters "a,b" --duplicate-stderr-filters "loss,,x,b" train.py
torchrun --log_line_prefix_template='[${role_name}${rank}]:' --tee 3 train.py
torchrun --max_restarts=3 --monitor_interval=0.5 --rdzv_backend=c10d train.py
torchrun --monitor-interval 5 --standalone --max-restarts 3 train.py
torchrun --signals-to-handle SIGTERM,SIGINT --virtual-local-rank --shutdown-timeout 9 train.py
nohup srun -N 2 --export=ALL,X=1 env PET_NNODES=2 torchrun --nproc_per_node=2 train.py
time python3 -X faulthandler -W error -m torch.distributed.run --nproc_per_node 2 train.py
torchrun --numa-binding=node --role "my role" --event-log-handler console --logs-specs x train.py
"""


def parsed(asked):
    """The results of torch's own parser for [arguments, PET_ variables] each."""
    script = FROM_FILES.rpartition("print(")[0] + (
        "import os\nfor argv, env in json.load(sys.stdin):\n"
        "    os.environ.update(env)\n    print(json.dumps(vars(get_args_parser().parse_args(argv))))\n"
        "    [os.environ.pop(k) for k in env]\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PET_")}
    done = subprocess.run(["python3", "-c", script, str(torches.parser_files("2.15.0"))], input=json.dumps(asked), text=True,
                          capture_output=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def flags_of(words):
    """The words after the program's name, and the PET_ variables before it."""
    env = {}
    while words[0] in ("nohup", "srun", "-N", "2", "--export=ALL,X=1", "time", "env") or ("=" in words[0] and words[0][0] != "-"):
        name, _, value = words.pop(0).partition("=")
        env.update({name: value} if name.startswith("PET_") else {})
    if words[0].endswith("torchrun"):
        words.pop(0)
    elif words[0].startswith("python"):
        del words[:words.index("-m") + 2]
    return [words, env]


def as_imported(box, words):
    """The command that rhrun starts for the spec of a command line."""
    text = box.run("import", "torchrun", "--", *words).ok().out
    entry = require("yaml").safe_load(text)["entrypoint"]
    if "script" in entry:
        script = box.work / entry["script"]
        script.parent.mkdir(exist_ok=True)
        script.touch()
    (box.home / "argv").write_text("")
    python = ["--set", f"python.interpreter={box.dir / 'python'}", "--set", "python.venv=false"]
    box.run(box.spec(text), "--again", *python, env={"FAKE": str(box.dir / "fake")}).ok()
    argv, env = json.loads(box.lines("argv")[0])
    return [argv[argv.index("torch.distributed.run") + 1:], env]


# What rhrun says better, or in another form; with static its own restarts.
COMPUTED = {"rdzv_id", "rdzv_endpoint", "rdzv_conf", "master_addr", "master_port", "node_rank", "local_addr"}


@pytest.mark.slow
def test_the_spec_does_what_the_command_line_did(box):
    lines = LINES.strip().splitlines()
    torches.parser_files("2.15.0")
    recorder(box, "2.15.0")
    wanted = parsed([flags_of(shlex.split(line)) for line in lines])
    got = parsed([as_imported(box, shlex.split(line)) for line in lines])
    for line, a, b in zip(lines, wanted, got, strict=True):
        first, _, last = a["nnodes"].partition(":")
        a["nnodes"] = first if first == last else a["nnodes"]
        b["training_script"] = b["training_script"].rpartition("/")[2] if a["run_path"] else b["training_script"]
        conf = [kv for kv in a["rdzv_conf"].split(",") if kv and not kv.startswith("is_host=")]
        assert {k: b[k] for k in a if k not in COMPUTED} == {k: a[k] for k in a if k not in COMPUTED}, line
        assert [kv for kv in b["rdzv_conf"].split(",") if kv and not kv.startswith("is_host=")] == conf, line


def test_an_imported_command_line_runs(box):
    torch_python = torches.find()
    (box.work / "train.py").write_text(TRAIN)
    words = ["PET_NNODES=2", "MINE=1", f"{os.path.dirname(torch_python)}/torchrun", "--nproc-per-node", "2", "--rdzv-backend=c10d",
             "--rdzv_endpoint", "elsewhere:29400", "--node-rank=1", "--max-restarts=1", "train.py", "--x", "a b"]
    done = box.run("import", "torchrun", "--", *words).ok()
    assert "# --rdzv_endpoint=elsewhere:29400: left out" in done.out
    yaml = require("yaml")
    spec = yaml.safe_load(done.out)
    assert spec["distributed"] == {"launcher": "torchrun", "nnodes": 2, "nproc_per_node": 2, "rdzv_backend": "c10d", "max_restarts": 1}
    assert spec["entrypoint"] == {"script": "train.py", "args": ["--x", "a b"]} and spec["env"] == {"MINE": "1"}
    assert spec["workdir"] == "."
    assert sums(box.run(box.spec(done.out, "imported.yaml")).ok()) == FOUR


def test_what_cannot_be_imported_is_named(box):
    def says(text, *words):
        assert text in box.run("import", "torchrun", "--", *words).expect(2).err
    says("torchrun has no flag --nodes", "torchrun", "--nodes=2", "t.py")
    says("did you mean --nnodes?", "torchrun", "--nodes=2", "t.py")
    says("--rdzv may be --rdzv_backend or", "torchrun", "--rdzv", "x", "t.py")
    says("names no program", "torchrun", "--nnodes=2")
    says("--help starts no job", "torchrun", "--help")
    says("is not torchrun", "python3", "train.py")
    says("is not torchrun", "srun", "python3", "train.py", "torchrun")
    says("torchrun reads no variable PET_NODES", "PET_NODES=2", "torchrun", "t.py")


@pytest.fixture
def imported(box):
    """imported(line): (the printed text, the same as a mapping)."""
    yaml = require("yaml")

    def take(line):
        out = box.run("import", "torchrun", "--", *shlex.split(line)).ok().out
        return out, yaml.safe_load(out)
    return take


@pytest.mark.parametrize("line, sent", [
    ("torchrun train.py", True), ("torchrun src/train.py", True), ("torchrun ./train.py", True),
    ("torchrun --no-python ./prog", True), ("torchrun --no-python bash -c true", False), ("torchrun /opt/train.py", False),
    ("torchrun '~/train.py'", False), ("torchrun ../train.py", False), ("torchrun -m pkg.train", False)])
def test_the_folder_that_has_the_script_comes_along(imported, line, sent):
    out, spec = imported(line)
    assert spec.get("workdir") == ("." if sent else None), out
    assert "# ../train.py is outside of this folder: workdir: FOLDER" in out or ".." not in line
    assert "# workdir: . sends this folder" in out or " -m " not in line


@pytest.mark.slow
def test_an_imported_script_is_on_other_hosts(box, imported, fleet):
    f = fleet(2)
    (box.work / "src").mkdir()
    (box.work / "src" / "train.py").write_text("import mine\n")
    (box.work / "src" / "mine.py").write_text("import os\nprint('node', os.environ['RHRUN_NODE_RANK'])\n")
    torch_python = torches.find()
    _, spec = imported(f"srun -N 2 {os.path.dirname(torch_python)}/torchrun --nnodes 2 src/train.py")
    out = box.run(box.spec({**spec, "cluster": f.cluster()})).ok().out
    assert "node 0" in out and "node 1" in out


@pytest.mark.parametrize("flags, kept, dropped", [
    ("--rdzv_backend c10d --rdzv_conf timeout=30,read_timeout=9", {"read_timeout": 9}, "timeout=30: left out: torchrun ignores it with rdzv_backend c10d"),
    ("--rdzv_backend static --rdzv_conf=join_timeout=5,timeout=60", {"timeout": 60}, "join_timeout=5: left out: torchrun ignores it with rdzv_backend static"),
    ("--rdzv_conf=join_timeout=5", None, "join_timeout=5: left out: torchrun ignores it with rdzv_backend static"),
    ("--rdzv_backend etcd --rdzv_endpoint e:2379 --rdzv_conf=read_timeout=5,etcd_prefix=/x", {"etcd_prefix": "/x"}, "read_timeout=5: left out"),
    ("--rdzv_backend c10d --rdzv_conf join=3", None, "(did you mean join_timeout?)"),
    ("--standalone --rdzv_conf timeout=3", None, "timeout=3: left out"),
    ("--rdzv_backend c10d --rdzv_conf is_host=true", None, "is_host=true: left out: rhrun passes it to each node itself")])
def test_settings_that_do_nothing(imported, flags, kept, dropped):
    out, spec = imported(f"torchrun {flags} train.py")
    assert spec["distributed"].get("rdzv_conf") == kept, out
    assert dropped in out and out[:out.index(dropped)].rpartition("\n")[2].startswith("# "), out


@pytest.mark.parametrize("before, hint", [
    ("srun -N 2 --ntasks-per-node=1", "srun -N 2 --ntasks-per-node=1: left out: cluster.hosts says"),
    ("srun --export=ALL,X=1", "left out: cluster.hosts says"), ("nohup", "nohup: left out: a job goes on"),
    ("time", "time: left out: rhrun status"), ("timeout 2h", "timeout 2h: left out: entrypoint.timeout"),
    ("sudo -u me", "sudo -u me: left out: cluster.user"), ("/opt/bin/conda run -n e", "left out: python.conda"),
    ("uv run", "uv run: left out: python.venv"), ("numactl --cpunodebind=0", "left out: distributed.numa_binding"),
    ("env -i", "env -i: left out"), ("exec", ""), ("mine --flag", "mine --flag: left out: rhrun does not know it"),
    ("nohup time srun -N 2", "srun -N 2: left out: cluster.hosts")])
def test_what_stands_before_torchrun(imported, before, hint):
    for program in ("torchrun", "python3 -u -m torch.distributed.run", "python /opt/venv/bin/torchrun"):
        out, spec = imported(f"A=1 {before} {program} --nproc_per_node=2 train.py --x")
        assert spec["entrypoint"] == {"script": "train.py", "args": ["--x"]}, out
        assert spec["distributed"] == {"launcher": "torchrun", "nproc_per_node": 2} and spec["env"] == {"A": "1"}, out
        assert ("# " + hint if hint else "") in out.replace("/opt/bin/conda run -n e: ", "") or hint in out, out
        assert ("left out" in out) == bool(hint), out
    out, spec = imported(f"{before} env B=2 PET_NNODES=3 torchrun train.py")
    assert spec["env"] == {"B": "2"} and spec["distributed"]["nnodes"] == 3, out


def test_pythons_own_flags(imported):
    out, spec = imported("python3.11 -X faulthandler -W error -m torch.distributed.run train.py")
    assert spec["python"] == {"interpreter": "python3.11"} and "-W error: left out: env: {PYTHONWARNINGS" in out


def test_tune_run(imported):
    out, spec = imported("tune run --nproc_per_node 2 full_finetune_distributed --config llama3/8B_full batch_size=2")
    assert spec["entrypoint"] == {"script": "full_finetune_distributed.py", "args": ["--config", "llama3/8B_full", "batch_size=2"]}
    assert "`tune cp full_finetune_distributed ./full_finetune_distributed.py`" in out and spec["workdir"] == "."
    out, spec = imported("tune run --nproc_per_node 2 my/recipe.py --config mine.yaml")
    assert spec["entrypoint"]["script"] == "my/recipe.py" and "tune cp" not in out


def test_no_word_begins_a_line_of_the_spec(imported):
    for line in ("srun 'a\nname: evil' torchrun t.py", "torchrun --rdzv_id 'a\nname: evil' t.py", "torchrun --rdzv_conf 'x\nname: evil=1' t.py"):
        out, spec = imported(line)
        assert spec["name"] == "t" and "\nname: evil" not in out
