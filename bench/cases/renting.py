"""Four nodes rented from the provider docker: until a command has run on all of them, and given back; against docker by hand."""
import json

from lib import row

NODES = 4


def rows(bench):
    with bench.engine() as (engine, image):
        yield from measured(bench, engine, image)


def measured(bench, engine, image):
    spec = bench.spec("rented.yaml", json.dumps({
        "name": "rented", "cluster": {"provider": "docker", "image": image, "down": "never", "max_hours": 1},
        "distributed": {"nnodes": NODES, "nproc_per_node": 1}, "entrypoint": {"command": ["true"]}}))

    def in_parallel(command):
        return " & ".join(f"({command.format(i=i)}) >o{i}" for i in range(NODES)) + " & wait"

    def up():
        took = bench.seconds([bench.rhrun, "--quiet", spec])
        bench.seconds([bench.rhrun, "--quiet", "down", spec])
        bench.forget()
        return took

    def by_hand():
        return bench.seconds("docker network create n >o && " + in_parallel(
            f"docker run -d --name c{{i}} --network n --init {image} sleep 1000 && docker exec c{{i}} true"))

    def down_by_hand():
        return bench.seconds(in_parallel("docker rm -f c{i}") + "; docker network rm n >o")

    def up_by_hand():
        took = by_hand()
        down_by_hand()
        return took

    def down():
        bench.seconds([bench.rhrun, "--quiet", "up", spec])
        took = bench.seconds([bench.rhrun, "--quiet", "down", spec])
        bench.forget()
        return took

    def down_of_hand():
        by_hand()
        return down_by_hand()

    yield row(f"one command on {NODES} rented containers, rented for it", f"docker network create, docker run and docker exec × {NODES}, in parallel",
              bench.ab(up, up_by_hand), 1.3)
    yield row(f"down of {NODES} rented containers, right after up", f"docker rm -f × {NODES}, in parallel, docker network rm",
              bench.ab(down, down_of_hand), 1.3)
