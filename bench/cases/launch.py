"""Native launch of 2 and of 64 local workers (/bin/true), from the spec to the exit."""
import launch_peers
from lib import Skip, row

SPEC = "name: launch%d\ndistributed: {nproc_per_node: %d}\nentrypoint: {command: [/bin/true], always: true}\n"


def rows(bench):
    specs = {n: bench.spec(f"launch{n}.yaml", SPEC % (n, n)) for n in (2, 64)}

    for n, spec in specs.items():
        bench.check_launch(spec, 1, n)

    def ours(n):
        return lambda: bench.seconds([bench.rhrun, "--quiet", specs[n]])

    missing = []
    try:
        mpirun = bench.need("mpirun", "openmpi-bin")
        command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", "/bin/true"]
        yield row("launch of 2 local workers", "mpirun", bench.ab(ours(2), lambda: bench.seconds(command)), 1.0)
    except Skip as e:
        missing.append(str(e))
    try:
        torch = launch_peers.torchrun(bench)
        for n in (2, 64):
            command = [*torch, "--standalone", f"--nproc-per-node={n}", "--no-python", "/bin/true"]
            yield row(f"launch of {n} local workers", "torch.distributed.run",
                      bench.ab(ours(n), lambda: bench.seconds(command), pairs=3 if n == 64 else None), 0.05)
    except Skip as e:
        missing.append(str(e))
        for n in (2, 64):
            yield {"work": f"launch of {n} local workers", "against": "", "value": f"{min(ours(n)() for _ in range(5)):.3f} s", "wanted": None}
    if missing:
        raise Skip("; ".join(missing))
