"""A job in a container on each of two nodes of this machine: against the same job without one, and against docker by hand."""
import json

from lib import row

NODES, WORK_S = 2, 5
JOB = {
    "setup": [{"name": f"step-{i}", "run": "sleep 0.2"} for i in range(3)],
    "distributed": {"nnodes": NODES, "nproc_per_node": 2},
    "entrypoint": {"run": f"sleep {WORK_S}"},
}


def rows(bench):
    with bench.engine() as (engine, image):
        yield from measured(bench, engine, image)


def measured(bench, engine, image):
    inside = bench.spec("inside.yaml", json.dumps({"name": "inside", "cluster": {"container": image}, **JOB}))
    outside = bench.spec("outside.yaml", json.dumps({"name": "outside", **JOB}))
    short = bench.spec("short.yaml", json.dumps({"name": "short", "cluster": {"container": image}, **JOB,
                                                 "setup": [], "entrypoint": {"command": ["true"]}}))

    def fresh(spec):
        bench.forget()
        engine.clear()
        return bench.seconds([bench.rhrun, "--quiet", spec])

    def by_hand():
        engine.clear()
        return bench.seconds(" & ".join(
            f"(docker run -d --name c{i} --network host --ipc host {image} sleep 1000 >o{i} && docker exec c{i} true)"
            for i in range(NODES)) + " & wait")

    def down():
        bench.forget()
        engine.clear()
        bench.seconds([bench.rhrun, "--quiet", short])
        return bench.seconds([bench.rhrun, "--quiet", "down", short])

    def down_by_hand():
        by_hand()
        return bench.seconds(" & ".join(f"docker rm -f c{i} >o{i}" for i in range(NODES)) + " & wait")

    work = f"3 set-up steps and {WORK_S} s of launch on {NODES} nodes of this machine, in containers that are made for it"
    yield row(work, "the same without containers", bench.ab(lambda: fresh(inside), lambda: fresh(outside), pairs=3), 1.1)
    yield row(f"one command in {NODES} containers that are made for it", f"docker run and docker exec × {NODES}, in parallel",
              bench.ab(lambda: fresh(short), by_hand), 1.3)
    yield row(f"down of {NODES} containers", f"docker rm -f × {NODES}, in parallel", bench.ab(down, down_by_hand), 1.3)
