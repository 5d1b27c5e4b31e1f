"""8 nodes x 8 workers: from one worker's failure to all restarted, and what is left when no restart is."""
import launch_peers
from crowd import Crowd, by_ssh
from lib import row

NODES, EACH, FAILS = 8, 8, 42


def rows(bench):
    fleet = bench.fleet(NODES)
    crowd = Crowd(bench, NODES * EACH)

    def spec(name, *more):
        words = ", ".join(f'"{a}"' for a in crowd.argv(FAILS, *more))
        return bench.spec(f"{name}.yaml", f"name: {name}\ncluster: {fleet.cluster(NODES)}\n"
                          f"distributed: {{nproc_per_node: {EACH}, max_restarts: 1}}\nentrypoint: {{command: [{words}], always: true}}\n")

    with crowd.started([bench.rhrun, "--quiet", spec("spent", "always")]):
        for word in ("up", "again"):
            crowd.all(word)
            crowd.let_go(word)
        crowd.end(expect=1)
        left = len(crowd.left())
    yield {"work": f"{NODES} nodes × {EACH} workers stopped when restarts are spent: processes left", "against": "", "wanted": "0",
           "value": str(left), "met": left == 0}

    def measure(command):
        """From the moment before the exit to the last start."""
        with crowd.started(command()):
            crowd.all("up")
            crowd.let_go("up")
            started = crowd.all("again")
            failed = (crowd.marks / "failed.up").stat().st_mtime
            crowd.let_go("end")
            crowd.end()
        return started - failed

    python = launch_peers.python(bench)
    again = spec("again")

    def torch():
        return by_ssh(fleet, NODES, launch_peers.c10d(python, NODES, EACH, 1) + crowd.argv(FAILS))

    yield row(f"a failure on one of {NODES} nodes to all {NODES * EACH} workers restarted",
              "torch.distributed.run, c10d, monitor_interval 0.1",
              bench.ab(lambda: measure(lambda: [bench.rhrun, "--quiet", again]), lambda: measure(torch), pairs=3), 0.1)
