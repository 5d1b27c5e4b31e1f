"""Launch over fleet nodes: torchrun on 4 of them against the same by hand, and 8 nodes x 8 workers, spec to all running."""
import launch_peers
from crowd import Crowd, by_ssh
from lib import Skip, free_base, row

NODES, EACH = 8, 8


def by_hand(bench, fleet, python):
    """torchrun on 4 nodes, start to end: through rhrun, and four ssh at once."""
    spec = bench.spec("torchrun4.yaml", f"name: torchrun4\ncluster: {fleet.cluster(4)}\npython: {{interpreter: {python}, venv: false}}\n"
                      "distributed: {launcher: torchrun, nproc_per_node: 1, rdzv_backend: static}\n"
                      "entrypoint: {command: [/bin/true], always: true}\n")

    def peer():
        return bench.seconds(by_ssh(fleet, 4, [python, "-m", "torch.distributed.run", "--nnodes=4", "--nproc-per-node=1", "--node-rank={i}",
                                               "--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={free_base(1) + 1}",
                                               "--no-python", "/bin/true"]))
    return bench.ab(lambda: bench.seconds([bench.rhrun, "--quiet", spec]), peer)


def rows(bench):
    fleet = bench.fleet(NODES)
    crowd = Crowd(bench, NODES * EACH)
    words = ", ".join(f'"{a}"' for a in crowd.argv())
    spec = bench.spec("native.yaml", f"name: native\ncluster: {fleet.cluster(NODES)}\ndistributed: {{nproc_per_node: {EACH}}}\n"
                      f"entrypoint: {{command: [{words}], always: true}}\n")
    work = f"launch of {NODES} nodes × {EACH} workers, spec to all running"

    def until_all_run(command):
        """command() gives a command line."""
        def measure():
            with crowd.started(command()):
                took = crowd.all("up") - crowd.began
                crowd.let_go("end")
                crowd.end()
            return took
        return measure

    native = until_all_run(lambda: [bench.rhrun, "--quiet", spec])
    missing = []
    try:
        mpirun = bench.need("mpirun", "openmpi-bin")
        hosts = ",".join(f"{name}:{EACH}" for name in fleet.names(NODES))
        command = [mpirun, "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", f"ssh -F {fleet.config('default')}",
                   "--host", hosts, "-np", NODES * EACH, *crowd.argv()]
        yield row(work, "mpirun over ssh", bench.ab(native, until_all_run(lambda: command)), 0.3)
    except Skip as e:
        missing.append(str(e))
    try:
        python = launch_peers.python(bench)
        torch = until_all_run(lambda: by_ssh(fleet, NODES, launch_peers.c10d(python, NODES, EACH) + crowd.argv()))
        yield row(work, "torch.distributed.run, c10d, by ssh", bench.ab(native, torch, pairs=3), 0.1)
        yield row("torchrun on 4 nodes, start to end", "the same four commands by ssh", by_hand(bench, fleet, python), 1.1)
    except Skip as e:
        missing.append(str(e))
    if missing:
        raise Skip("; ".join(missing))
