"""launcher: native compared with the real torchrun: the same spec gives workers the same environment and the same log files."""
import json
import re

import pytest

import torches

SAY = '''
import json, os, sys
name, folder = sys.argv[1:]
with open(f"{folder}/{name}.{os.environ['RANK']}.json", "w") as f:
    json.dump(dict(os.environ), f)
os.write(1, ("out " + os.environ["RANK"] + chr(10)).encode())
os.write(2, ("err " + os.environ["RANK"] + chr(10)).encode())
'''
# Of another run, of another attempt: what is in them is compared apart.
OTHERS = {"MASTER_PORT", "RHRUN_RUN_ID", "RHRUN_ATTEMPT", "RHRUN_HOSTFILE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
# Its own settings that torchrun leaves in its workers' environment; its workers meet at its store, ours at rank 0's.
TORCHRUNS = {"PET_LOCAL_ADDR", "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
             "TORCHELASTIC_USE_AGENT_STORE", "LC_CTYPE", "KINETO_LOG_LEVEL"}


@pytest.fixture(scope="module")
def torch_python():
    return torches.find()


@pytest.fixture
def run(box, torch_python):
    """run(launcher, more, nodes, each): the result, the environment by rank."""
    def go(launcher, more=None, nodes=2, each=2):
        (box.work / "say.py").write_text(SAY)
        spec = box.spec({"name": launcher, "python": {"interpreter": torch_python, "venv": False},
                         "distributed": {"launcher": launcher, "nnodes": nodes, "nproc_per_node": each, **(more or {})},
                         "entrypoint": {"script": "say.py", "args": [launcher, str(box.dir)]}}, f"{launcher}.yaml")
        result = box.run(spec).ok()
        return result, {r: json.loads((box.dir / f"{launcher}.{r}.json").read_text()) for r in range(nodes * each)}
    return go


@pytest.mark.parametrize("nodes, each, more", [
    (2, 2, {}), pytest.param(1, 1, {}, marks=pytest.mark.soak), (2, 1, {"virtual_local_rank": True, "devices": [0, 3]})])
def test_the_environment(run, nodes, each, more):
    _, native = run("native", more, nodes, each)
    _, torchrun = run("torchrun", {"rdzv_backend": "c10d", "max_restarts": 0, **more}, nodes, each)
    by_place = {(e["RHRUN_NODE_RANK"], e["LOCAL_RANK"], e.get("CUDA_VISIBLE_DEVICES")): e for e in torchrun.values()}
    for ours in native.values():
        # torch gives ranks to nodes in the order in which they come
        theirs = dict(by_place[ours["RHRUN_NODE_RANK"], ours["LOCAL_RANK"], ours.get("CUDA_VISIBLE_DEVICES")])
        if theirs["GROUP_RANK"] != ours["GROUP_RANK"]:
            theirs.update({k: ours[k] for k in ("RANK", "ROLE_RANK", "GROUP_RANK")})
        names = (set(ours) | set(theirs)) - OTHERS - TORCHRUNS - {"RHRUN_JOB_ID", "PWD", "OLDPWD"}
        for e in (ours, theirs):  # what brings the interpreter is of the job
            e["PATH"] = re.sub(r"/python/[0-9a-f]+-[0-9a-f]+:", "/PYTHON:", e["PATH"])
        assert {k: ours.get(k) for k in names} == {k: theirs.get(k) for k in names}
        for e in (ours, theirs):
            assert e["TORCHELASTIC_RUN_ID"] == e["RHRUN_RUN_ID"] + "-1" and int(e["MASTER_PORT"]) > 0
            assert e["TORCHELASTIC_ERROR_FILE"].endswith(".json") and e["RHRUN_HOSTFILE"]


def test_files_and_what_is_shown(run, box):
    """A stream of each kind: to its file only, to both, neither; shown are those of local rank 1."""
    seen = {}
    for launcher in ("native", "torchrun"):
        result, _ = run(launcher, {"log_dir": str(box.dir / launcher), "redirects": "0:1", "tee": "1:2", "local_ranks_filter": [1]})
        files = {(p.name, p.read_text()) for p in (box.dir / launcher).rglob("std*.log")}
        folders = {len(p.relative_to(box.dir / launcher).parts) for p in (box.dir / launcher).rglob("std*.log")}
        assert folders == {4}  # RUN/attempt_N/WORKER/stdout.log
        assert all(p.parent.parent.name == "attempt_0" for p in (box.dir / launcher).rglob("std*.log"))
        shown = {re.search(r"(out|err) \d$", line).group() for line in result.text.splitlines() if re.search(r": .*(out|err) \d$", line)}
        seen[launcher] = files, shown
    assert seen["native"] == seen["torchrun"]
    assert seen["native"] == ({("stdout.log", "out 0\n"), ("stdout.log", "out 2\n"), ("stderr.log", "err 1\n"), ("stderr.log", "err 3\n")},
                              {"out 1", "out 3", "err 1", "err 3"})
