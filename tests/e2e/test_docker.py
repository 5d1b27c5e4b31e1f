"""Containers of a real Docker Engine as hosts: `exec: [docker, exec, -i, NAME, sh]`."""
import json
import time

import pytest

from harness import wait_for

pytestmark = pytest.mark.xdist_group("docker")

STEPS = """
cluster: %s
setup:
  - {name: one, run: 'echo one >>/root/lines'}
  - {name: two, run: 'echo two >>/root/lines'}
distributed: {nproc_per_node: 2}
entrypoint: {run: '%s'}
"""
SET_UP = ["one", "two"]
WAITS = "echo launch >>/root/lines; while [ ! -e /root/go ]; do sleep 0.1; done; echo rank $RANK of $WORLD_SIZE"


def spec_of(hosts, run):
    return STEPS % (json.dumps({"hosts": hosts}), run)


def lines(engine, name):
    return engine.docker("exec", name, "sh", "-c", "cat /root/lines 2>/dev/null || :").split()


def test_two_containers_are_two_nodes(engine, job, rhrun):
    spec = job(spec_of([engine.start("t0"), engine.start("t1")], "echo rank $RANK of $WORLD_SIZE beside $(cat /proc/1/comm)"))
    r = rhrun(spec).ok()
    for rank in range(4):
        assert f"rank {rank} of 4 beside docker-init" in r.out
    assert lines(engine, "t0") == lines(engine, "t1") == SET_UP
    assert "nothing to do" in rhrun(spec).ok().err
    engine.docker("rm", "-f", "t1")
    engine.start("t1")
    assert "the node is another machine now" in rhrun(spec).ok().err
    rhrun(spec, "--again").ok()
    assert lines(engine, "t0") == lines(engine, "t1") == SET_UP


def test_killed_half_way_and_run_again(engine, job, rhrun, box):
    spec = job(spec_of([engine.start("t0"), engine.start("t1")], WAITS))
    run = box.start(spec)
    wait_for(lambda: all(lines(engine, n) == [*SET_UP, "launch", "launch"] for n in ("t0", "t1")), what="the launch")
    run.kill9()
    for name in ("t0", "t1"):
        engine.docker("exec", name, "touch", "/root/go")
    r = rhrun(spec).ok()
    assert "rank 3 of 4" in r.out
    assert all(lines(engine, n) == [*SET_UP, "launch", "launch"] for n in ("t0", "t1"))


def test_a_container_is_paused_for_a_while(engine, job, box):
    spec = job(spec_of([engine.start("t0"), engine.start("t1")], WAITS))
    run = box.start(spec)
    wait_for(lambda: all(len(lines(engine, n)) == 4 for n in ("t0", "t1")), what="the launch")
    engine.docker("pause", "t1")
    time.sleep(2)
    engine.docker("unpause", "t1")
    for name in ("t0", "t1"):
        engine.docker("exec", name, "touch", "/root/go")
    run.wait().ok()
    assert all(lines(engine, n) == [*SET_UP, "launch", "launch"] for n in ("t0", "t1"))


def test_a_container_that_is_started_again_has_lost_its_workers(engine, job, box, rhrun):
    spec = job(spec_of([engine.start("t0"), engine.start("t1")], WAITS))
    run = box.start(spec)
    wait_for(lambda: all(len(lines(engine, n)) == 4 for n in ("t0", "t1")), what="the launch")
    engine.docker("restart", "-t", "0", "t1")
    r = run.wait().expect(1)
    assert 't1' in r.err
    for name in ("t0", "t1"):
        engine.docker("exec", name, "touch", "/root/go")
    rhrun(spec).ok()
    for name in ("t0", "t1"):
        assert lines(engine, name) == [*SET_UP, "launch", "launch", "launch", "launch"]


def test_nothing_is_left_in_a_container_after_a_cancel(engine, job, box, rhrun):
    spec = job(spec_of([engine.start("t0")], WAITS))
    run = box.start(spec)
    wait_for(lambda: len(lines(engine, "t0")) == 4, what="the launch")
    rhrun("cancel", "last").ok()
    run.wait().expect(143)
    wait_for(lambda: engine.docker("exec", "t0", "ps", "-o", "comm").split() == ["COMMAND", "docker-init", "sleep", "ps"],
             what="an empty container")


def test_no_such_container(engine, job, rhrun):
    hosts = [{"name": "t9", "exec": ["docker", "exec", "-i", "t9", "sh"]}]
    err = rhrun(job(spec_of(hosts, "true"))).expect(3).err
    assert 'host "t9": connect: docker ended with status 1: Error' in err and "No such container: t9" in err
    assert "try it by hand: docker exec -i t9 sh" in err
