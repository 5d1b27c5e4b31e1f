"""Outputs with `nodes: first` if torch numbers the nodes: they come from the node of rank 0. With a stand-in for torch that obeys
the test, and with torch itself."""
import shutil

import pytest

import torches
from harness import processes_of, wait_for
from torches import SAY

# ROUNDS in the environment: of each rendezvous, the number of the node that is the first in it.
AGENT = '''
class Group:
    group_rank = None
class SimpleElasticAgent:
    def _rendezvous(self, worker_group):
        worker_group.group_rank = self.rank
'''
RUN = '''
import os, subprocess, sys
from torch.distributed.elastic.agent.server import api
def main():
    agent, group = api.SimpleElasticAgent(), api.Group()
    for first in os.environ["ROUNDS"].split():
        agent.rank = int(first != os.environ["RHRUN_NODE_RANK"])
        getattr(agent, "_rendezvous", getattr(agent, "_meet", None))(group)
    print("main is", __name__, len(sys.argv))
    program = sys.argv[sys.argv.index("--") + 1:]
    env = {**os.environ, "RANK": str(group.group_rank)}
    assert "RHRUN_RANK0" not in env or "UNMARKED" in env, env
    sys.exit(subprocess.run(program, env=env).returncode)
if __name__ == "__main__":
    main()
'''
WRITE = "mkdir -p out; if [ $RANK = 0 ]; then echo $RHRUN_NODE_RANK >out/model; fi; "


@pytest.fixture
def job(box, fleet):
    """job(text, rounds, ...): a spec of two nodes, each with folders of its own, on which the stand-in runs the text."""
    f = fleet(2)
    agent = box.dir / "lib/torch/distributed/elastic/agent/server/api.py"
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    for folder in [p for p in agent.parents if box.dir / "lib" in p.parents]:
        (folder / "__init__.py").touch()
    (box.dir / "lib/torch/distributed/run.py").write_text(RUN)

    def write(text=WRITE, rounds="1", backend="c10d", outputs=("out/",), **more):
        (box.work / "here").touch()
        return box.spec({"name": "t", "cluster": f.cluster(), "workdir": {"path": ".", "include": ["here"]}, "outputs": list(outputs),
                         "distributed": {"launcher": "torchrun", "rdzv_backend": backend, "nproc_per_node": 1, "preflight": "off",
                                         **({"rdzv_endpoint": "10.0.0.1:2379"} if backend == "etcd" else {}),
                                         **more.pop("distributed", {})},
                         "env": {"PYTHONPATH": str(box.dir / "lib"), "ROUNDS": rounds, **more.pop("env", {})},
                         "entrypoint": {"run": text}, **more})
    write.fleet, write.agent = f, agent
    return write


def model(box):
    return (box.work / "out/model").read_text().strip()


@pytest.mark.parametrize("backend", ["c10d", "etcd"])
def test_first_is_where_rank_0_is(box, rhrun, job, backend):
    result = rhrun(job(backend=backend)).ok()
    assert model(box) == "1" and "node2: rank 0 was here: outputs come from this node" in result.err, result
    assert "were not fetched" not in result.err and "main is __main__" in result.text, result
    assert "nothing to do" in rhrun("job.yaml").ok().err
    assert "from where rank 0 is" in rhrun("plan", "job.yaml").out


def test_first_is_the_first_where_it_has_rank_0(box, rhrun, job):
    result = rhrun(job(rounds="0", outputs=[{"from": "out/model", "to": "out/"}])).ok()
    assert model(box) == "0" and "rank 0" not in result.err, result


def test_rank_0_moves(box, rhrun, job):
    """The last rendezvous counts: the node that was first before removes its mark."""
    rhrun(job(rounds="1 0 1 0")).ok()
    assert model(box) == "0"
    assert not [p for p in job.fleet.home(2).rglob("rank0.*")]
    rhrun("--again", job(rounds="0 1")).ok()
    assert model(box) == "1"


def test_files_of_other_nodes_are_told(box, rhrun, job):
    text = WRITE + "echo $RANK >out/$RHRUN_NODE_RANK; echo $RANK >out/more"
    result = rhrun(job(text)).ok()
    assert 'outputs-1: files of "out/" are also on "node1" (2), and were not fetched: `nodes: all`' in result.err, result
    assert sorted(p.name for p in (box.work / "out").iterdir()) == ["1", "model", "more"]
    rhrun(job(text, outputs=[{"from": "out/", "nodes": "all"}])).ok()
    assert (box.work / "out/node1/0").exists() and (box.work / "out/node2/model").exists()


def test_a_file_that_only_another_node_has(box, rhrun, job):
    """It is named, and the job has failed; once the spec is right it is fetched, and nothing launched."""
    result = rhrun(job("if [ $RANK = 1 ]; then echo x >out; fi; echo launched >>$HOME/lines", outputs=[{"from": "out", "to": "got/"}])).expect(1)
    assert 'step "outputs-1": no file is there: "out"' in result.err, result
    assert 'files of "out" are on "node1" (1), and were not fetched' in result.err, result
    result = rhrun(job("if [ $RANK = 1 ]; then echo x >out; fi; echo launched >>$HOME/lines",
                       outputs=[{"from": "out", "to": "got/", "nodes": "all"}])).ok()
    assert (box.work / "got/node1/out").exists() and job.fleet.all_lines() == [["launched"]] * 2, result


def test_a_shared_folder_has_no_others(box, rhrun, job):
    (box.dir / "shared").mkdir()
    folder = box.dir / "shared"
    result = rhrun(job(f"if [ $RANK = 0 ]; then echo 1 >{folder}/model; fi", outputs=[{"from": f"{folder}/", "to": "out/"}])).ok()
    assert model(box) == "1" and "were not fetched" not in result.err, result


def test_torch_without_the_rendezvous(box, rhrun, job):
    """No node leaves a mark: the first node is used, as before, with a message."""
    job.agent.write_text(AGENT.replace("_rendezvous", "_meet"))
    result = rhrun(job(env={"UNMARKED": "1"}, outputs=[{"from": "out/", "required": False}])).ok()
    assert "node1: outputs come from here: no node says that rank 0 was there" in result.err, result
    assert 'files of "out/" are also on' not in result.err and 'are on "node2" (1), and were not fetched' in result.err, result


def test_a_mark_that_cannot_be_made(box, rhrun, job):
    """The folder that it would be in is a file there: the job is worth more."""
    rhrun(job(outputs=[])).ok()
    for found in [p for i in (1, 2) for p in job.fleet.home(i).rglob("result")]:
        shutil.rmtree(found)
        found.touch()
    result = rhrun("--again", job(WRITE + "echo x >out/x")).ok()
    assert "node1: outputs come from here: no node says that rank 0 was there" in result.err, result


def test_an_output_that_is_added_later(box, rhrun, job):
    """The journal has it where the other one came from."""
    rhrun(job()).ok()
    result = rhrun(job(outputs=["out/", {"from": "out/model", "to": "more/"}])).ok()
    assert (box.work / "more/model").read_text() == "1\n" and "the launch of this run is kept" in result.err, result
    assert "nothing to do" in rhrun("job.yaml").ok().err


@pytest.mark.parametrize("after", range(1, 13))
def test_killed_after_the_launch(box, rhrun, job, after):
    """At each event after the launch, and with a lost state directory: the nodes tell the same."""
    path = job(WRITE + "echo $RANK >out/$RHRUN_NODE_RANK; echo launched >>$HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.05; done")
    running = box.start(path)
    wait_for(lambda: job.fleet.all_lines() == [["launched"]] * 2, what="the launch")
    running.kill9()
    for i in (1, 2):
        (job.fleet.home(i) / "go").touch()
    wait_for(lambda: not [p for p in processes_of(job.fleet.dir) if "RHRUN_NODE_RANK" in " ".join(p.argv)], what="its end")
    rhrun(path, env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
    result = rhrun(path).ok()
    assert model(box) == "1" and sorted(p.name for p in (box.work / "out").iterdir()) == ["1", "model"], result
    shutil.rmtree(box.work / "out")
    shutil.rmtree(box.state)
    rhrun(path, env={"RHRUN_TEST_KILL_AFTER_EVENT": after + 3})
    result = rhrun(path).ok()
    assert model(box) == "1" and sorted(p.name for p in (box.work / "out").iterdir()) == ["1", "model"], result
    assert job.fleet.all_lines() == [["launched"]] * 2


def test_lost_state_tells_all(box, rhrun, job):
    rhrun(job(WRITE + "touch out/x")).ok()
    shutil.rmtree(box.work / "out")
    shutil.rmtree(box.state)
    result = rhrun("job.yaml").ok()
    assert model(box) == "1" and 'are also on "node1" (1), and were not fetched' in result.err, result


def test_while_the_launch_runs(box, rhrun, job):
    path = job(WRITE + "while [ ! -e $HOME/go ]; do sleep 0.05; done", outputs=[{"from": "out/", "every": "1s"}])
    running = box.start(path)
    wait_for(lambda: (box.work / "out/model").exists(), what="the file of rank 0")
    assert model(box) == "1"
    for i in (1, 2):
        (job.fleet.home(i) / "go").touch()
    running.wait().ok()


def test_restored_to_all(box, rhrun, job):
    """Which node will have rank 0 is not known before the launch."""
    (box.work / "out").mkdir()
    (box.work / "out/old").write_text("1\n")
    rhrun(job("cat out/old >>$HOME/lines; " + WRITE, outputs=[{"from": "out/", "restore": True}])).ok()
    assert job.fleet.all_lines() == [["1"], ["1"]] and model(box) == "1"


# ---- torch itself ----

PROGRAM = SAY + '''
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    open("model", "w").write(os.environ["RHRUN_NODE_RANK"])
say(f"rank {dist.get_rank()} on {os.environ['RHRUN_NODE_RANK']} {'RHRUN_RANK0' in os.environ}")
dist.barrier()
dist.destroy_process_group()
'''


@pytest.mark.slow
@pytest.mark.parametrize("launcher, more", [("torchrun", {}),
                                            pytest.param("torchrun", {"run_path": True, "max_restarts": 1}, marks=pytest.mark.soak),
                                            pytest.param("torchrun", {"role": "x", "local_ranks_filter": [0]}, marks=pytest.mark.soak),
                                            ("accelerate", {})])
def test_torch(box, rhrun, fleet, launcher, more):
    """torch sorts the nodes by the text of their addresses: the second one comes first."""
    f = fleet(2)
    (box.work / "train.py").write_text(PROGRAM)
    hosts = [{"host": "node1", "address": "127.0.0.2"}, {"host": "node2", "address": "127.0.0.1"}]
    spec = {"name": "t", "cluster": f.cluster(hosts=hosts), "workdir": ".", "python": {"interpreter": torches.find(), "venv": False},
            "distributed": {"launcher": launcher, "rdzv_backend": "c10d", "nproc_per_node": 2, **more},
            "entrypoint": {"script": "train.py"}, "outputs": [{"from": "model", "to": "out/"}]}
    result = rhrun(box.spec(spec)).ok()
    assert "rank 0 on 1 False" in result.out and model(box) == "1", result
    assert "node2: rank 0 was here" in result.err
