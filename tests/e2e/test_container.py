"""cluster.container on a real Docker Engine: set-up and launch in containers that rhrun makes, finds again and removes."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from engine import IMAGE
from harness import ROOT, wait_for, workers_of

pytestmark = pytest.mark.xdist_group("docker")

JOB = """
cluster: %s
setup:
  - {name: one, run: 'echo one >>$HOME/lines; echo in >/etc/inside'}
distributed: {%s nproc_per_node: 2}
entrypoint: {run: '%s'}
"""
SAYS = "echo launch >>$HOME/lines; echo rank $RANK of $WORLD_SIZE, $(cat /etc/inside)"
WAITS = "echo launch >>$HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.1; done; echo rank $RANK of $WORLD_SIZE, $(cat /etc/inside)"


def here(run=SAYS, container=IMAGE, nodes=2):
    return JOB % (json.dumps({"container": container}), f"nnodes: {nodes},", run)


def names(engine):
    return sorted(engine.docker("ps", "-a", "--format", "{{.Names}}").split())


def ids(engine):
    return {name: engine.docker("inspect", "-f", "{{.Id}}", name) for name in names(engine)}


def test_a_container_per_node(engine, box, job, rhrun):
    spec = job(here())
    r = rhrun(spec).ok()
    for rank in range(4):
        assert f"rank {rank} of 4, in" in r.out
    made = ids(engine)
    assert len(made) == 2 and [name[-4:] for name in made] == ["-0-0", "-1-0"]
    assert box.lines() == ["one"] * 2 + ["launch"] * 4
    assert "nothing to do" in rhrun(spec).ok().err
    rhrun(spec, "--again").ok()
    assert ids(engine) == made and box.lines().count("one") == 2
    assert rhrun("down", spec).ok().err == "rhrun: 2 containers removed\n"
    assert names(engine) == []
    assert rhrun("down", spec).ok().err == "rhrun: 0 containers removed\n"


def test_a_container_that_is_gone_voids_what_was_in_it_and_nothing_else(engine, box, job, rhrun):
    spec = job(here())
    rhrun(spec).ok()
    gone = names(engine)[1]
    engine.docker("rm", "-f", gone)
    r = rhrun(spec).ok()  # the launch is finished: set-up is not needed
    assert "nothing to do" in r.err and "its container is another one now" in r.err
    assert names(engine) == names(engine)[:1], "who only looks makes none"
    assert "run again   one     local-1" in rhrun("plan", "--again", spec).ok().out
    r = rhrun(spec, "--again").ok()
    assert 'local-1: step "one" runs again: its container is another one now' in r.err
    assert box.lines().count("one") == 3 and r.out.count(", in") == 4
    # The ledger is on the host: it tells the same to a user without the state directory.
    r = rhrun(spec, env={"RHRUN_HOME": str(box.dir / "other")}).ok()
    assert box.lines().count("one") == 3
    engine.docker("rm", "-f", gone)
    rhrun(spec, "--again", env={"RHRUN_HOME": str(box.dir / "third")}).ok()
    assert box.lines().count("one") == 4


def test_a_stopped_container_has_all_that_was_in_it(engine, box, job, rhrun):
    spec = job(here())
    rhrun(spec).ok()
    made = ids(engine)
    engine.docker("stop", "-t", "1", *made)
    r = rhrun(spec, "--again").ok()
    assert ids(engine) == made and box.lines().count("one") == 2 and r.out.count(", in") == 4


def test_an_image_that_moved_makes_set_up_stale(engine, box, job, rhrun):
    engine.docker("tag", IMAGE, "moves:1")
    spec = job(here(container="moves:1", nodes=1))
    rhrun(spec).ok()
    before = ids(engine)
    engine.docker("run", "--name", "xx", "--network", "none", IMAGE, "sh", "-c", "echo new >/new")
    engine.docker("commit", "xx", "moves:1")
    engine.docker("rm", "-f", "xx")
    r = rhrun(spec, "--again").ok()
    assert 'step "one" runs again: its container is another one now' in r.err and ids(engine) != before
    engine.docker("rmi", "-f", "moves:1")


def test_a_rerun_tells_that_the_image_is_another_one(engine, box, job, rhrun):
    engine.docker("tag", IMAGE, "moves:3")
    spec = job(here(container="moves:3", nodes=1))
    rhrun(spec).ok()
    lock = rhrun("show", "last", "--lock", "--json").ok().json()
    assert lock["hosts"][0]["image_id"] == engine.docker("image", "inspect", "-f", "{{.Id}}", IMAGE)
    told = [line for line in rhrun("rerun", lock["run"]["id"]).ok().err.splitlines() if "not as it was" in line]
    assert len(told) == 1 and "works in place" in told[0]
    engine.docker("run", "--name", "xx", "--network", "none", IMAGE, "sh", "-c", "echo new >/new")
    moved = engine.docker("commit", "xx", "moves:3")
    assert len(ids(engine)) == 3, "the job's, the rerun's, and xx"
    other = f"image moves:3 is {moved} now, it was {lock['hosts'][0]['image_id']}"
    assert other in rhrun("rerun", "--strict", "--again", lock["run"]["id"]).expect(2).err, "the rerun's container stands, with the old image"
    engine.docker("rm", "-f", *ids(engine))
    assert other in rhrun("rerun", "--again", lock["run"]["id"]).ok().err
    told = [line for line in rhrun("rerun", "--again", lock["run"]["id"]).ok().err.splitlines() if "image moves:3" in line]
    assert len(told) == 1 and other in told[0], told
    engine.docker("rm", "-f", *ids(engine))
    engine.docker("rmi", "-f", "moves:3")
    r = rhrun("rerun", "--again", lock["run"]["id"])
    assert "image moves:3 is not there yet" in r.err, r


def test_an_image_that_moved_ends_no_launch(engine, box, job, rhrun):
    engine.docker("tag", IMAGE, "moves:2")
    spec = job(here(WAITS, container="moves:2", nodes=1))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 2, what="the launch")
    run.kill9()
    before = ids(engine)
    engine.docker("run", "--name", "xx", "--network", "none", IMAGE, "sh", "-c", "echo new >/new")
    engine.docker("commit", "xx", "moves:2")
    engine.docker("rm", "-f", "xx")
    run = box.start(spec)
    wait_for(lambda: "rhrun-agent" in engine.docker("exec", names(engine)[0], "ps", "-o", "comm").split(), what="an agent")
    assert ids(engine) == before
    (box.home / "go").touch()
    r = run.wait()
    assert ids(engine) == before
    r.ok()
    assert box.lines().count("launch") == 2
    engine.docker("rmi", "-f", "moves:2")


def test_other_options_make_another_container(engine, box, job, rhrun):
    rhrun(job(here(nodes=1))).ok()
    before = ids(engine)
    r = rhrun(job(here(container={"image": IMAGE, "options": ["--env=COLOUR=it's blue"]}, nodes=1,
                       run="echo colour $COLOUR"))).ok()
    assert "colour it" in r.out and "blue" in r.out
    assert names(engine) == sorted(before) and ids(engine) != before


def test_what_runs_in_a_container_of_another_spec_is_left_alone(engine, box, job, rhrun):
    spec = job(here(WAITS, nodes=1))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 2, what="the launch")
    run.kill9()
    before = ids(engine)
    spec = job(here(WAITS, container={"image": IMAGE, "options": ["--env=A=b"]}, nodes=1))
    err = rhrun(spec).expect(3).err
    assert "an earlier run, with another image, options or mounts, still works in rhrun-" in err, err
    assert ids(engine) == before and len(workers_of(box.dir)) >= 2
    rhrun("cancel", "last").ok()
    assert not workers_of(box.dir) and ids(engine) == before
    (box.home / "go").touch()
    rhrun(spec).ok()
    assert ids(engine) != before and box.lines() == ["one", *["launch"] * 2, "one", *["launch"] * 2]


def test_mounts_and_what_is_quoted(engine, box, job, rhrun):
    odd = box.dir / "it's; $(touch x) `touch y`"
    odd.mkdir()
    (odd / "file").write_text("found\n")
    (box.home / "cache").mkdir()
    spec = job(here(container={"image": IMAGE, "mounts": [f"{odd}:/odd:ro", "~/cache:/cache"]}, nodes=1,
                    run="cat /odd/file; echo kept >/cache/$RANK; touch /odd/no || echo closed"))
    r = rhrun(spec).ok()
    assert r.out.count("found") == 2 and r.out.count("closed") == 2
    assert sorted(p.name for p in (box.home / "cache").iterdir()) == ["0", "1"]
    assert not [p for p in box.dir.rglob("[xy]") if p.name in "xy"]


def test_killed_half_way_and_run_again(engine, box, job, rhrun):
    spec = job(here(WAITS))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 4, what="the launch")
    run.kill9()
    (box.home / "go").touch()
    r = rhrun(spec).ok()
    assert "rank 3 of 4, in" in r.out
    assert box.lines() == ["one"] * 2 + ["launch"] * 4


def test_a_container_that_ends_takes_its_workers_along(engine, box, job, rhrun):
    spec = job(here(WAITS))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 4, what="the launch")
    engine.docker("rm", "-f", names(engine)[1])
    r = run.wait()
    assert r.rc not in (0, 130) and "local-1" in r.err, r
    assert not workers_of(box.dir)
    (box.home / "go").touch()
    r = rhrun(spec).ok()
    assert "rank 3 of 4, in" in r.out and box.lines().count("one") == 3 and box.lines().count("launch") == 8


def test_cancel_and_ctrl_c_leave_no_process(engine, box, job, rhrun):
    spec = job(here(WAITS))
    for end in ("cancel", "ctrl-c"):
        (box.home / "lines").unlink(missing_ok=True)
        run = box.start(spec)
        wait_for(lambda: box.lines().count("launch") == 4, what="the launch")
        if end == "cancel":
            rhrun("cancel", "last").ok()
        else:
            run.signal(signal.SIGINT)
        assert run.wait().rc in (130, 143)
        wait_for(lambda: all(engine.docker("exec", n, "ps", "-o", "comm").split() == ["COMMAND", "sh", "sleep", "ps"]
                             for n in names(engine)), what="containers in which nothing runs")


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_it_ends_with_the_run_where_the_spec_says_so(engine, box, job, rhrun, end):
    what = {"done": SAYS, "failed": "exit 3", "cancelled": WAITS}[end]
    run = box.start(job(here(what, container={"image": IMAGE, "down": "always"})))
    if end == "cancelled":
        wait_for(lambda: box.lines().count("launch") == 4, what="the launch")
        run.signal(signal.SIGINT)
    assert run.wait().rc == {"done": 0, "failed": 1, "cancelled": 130}[end]
    assert names(engine) == []


def test_down_is_refused_while_a_run_is_at_work(engine, box, job, rhrun):
    spec = job(here(WAITS, nodes=1))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 2, what="the launch")
    assert "goes on in the containers" in rhrun("down", spec).expect(4).err
    (box.home / "go").touch()
    run.wait().ok()
    rhrun("down", spec).ok()


def test_who_only_looks_makes_nothing(engine, job, rhrun):
    spec = job(here())
    rhrun("plan", spec).ok()
    rhrun("doctor", spec).ok()
    assert names(engine) == []


def test_the_example(engine, rhrun):
    spec = ROOT / "specs/examples/container.yaml"
    r = rhrun(spec, "-p", f"image={IMAGE}").ok()
    assert "rank 3 of 4, from inside" in r.out
    assert "nothing to do" in rhrun(spec, "-p", f"image={IMAGE}").ok().err
    assert "2 containers removed" in rhrun("down", spec, "-p", f"image={IMAGE}").ok().err


def test_hosts_that_share_an_engine(engine, box, job, rhrun, fleet):
    f = fleet(2)
    for i in (1, 2):
        config = ["docker", "--config", f.home(i) / ".docker", "context"]
        plain = {k: v for k, v in engine.env.items() if not k.startswith("DOCKER_")}
        subprocess.run([*config, "create", "tests", "--docker", f"host={engine.env['DOCKER_HOST']}"], env=plain, check=True)
        subprocess.run([*config, "use", "tests"], env=plain, check=True)
    cluster = f.cluster(container=IMAGE)
    spec = job(JOB % (json.dumps(cluster), "", SAYS))
    r = rhrun(spec).ok()
    for rank in range(4):
        assert f"rank {rank} of 4, in" in r.out
    assert len(names(engine)) == 2
    assert "nothing to do" in rhrun(spec).ok().err
    assert rhrun("down", spec).ok().err == "rhrun: 2 containers removed\n"
    assert names(engine) == []


@pytest.mark.parametrize("container, words", [
    ("nosuch:1", "container: image nosuch:1: "),
    ({"image": "nosuch:1", "pull": "never"}, "image nosuch:1 is not there, and pull is never"),
    ({"image": IMAGE, "mounts": ["/nosuch:/x"]}, "container: /nosuch, a mount, is not there"),
    ({"image": IMAGE, "options": ["--bogus"]}, "container: unknown flag: --bogus"),
])
def test_what_cannot_be_had_is_told(engine, job, rhrun, container, words):
    assert words in rhrun(job(here(container=container))).expect(3).err
    assert names(engine) == []


@pytest.mark.parametrize("runtime, words", [("auto", "none of docker, podman and apptainer is"), ("podman", "podman is not")])
def test_no_runtime(box, job, rhrun, runtime, words):
    (box.dir / "bin").mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in pathlib.Path(place).glob("*") if os.path.isabs(place) else ():
            link = box.dir / "bin" / program.name
            if program.name not in ("docker", "podman") and not link.is_symlink():
                link.symlink_to(program)
    box.env["PATH"] = str(box.dir / "bin")
    assert f"container: {words} installed there" in rhrun(job(here(container={"image": IMAGE, "runtime": runtime}))).expect(3).err


def test_a_long_pull_is_waited_for(engine, box, job, rhrun):
    """Longer than a phase may take. There is no registry: what stands in front of the real docker has a name for the image then."""
    (box.dir / "bin").mkdir()
    slow = box.dir / "bin/docker"
    real = shutil.which("docker")
    slow.write_text(f'#!/bin/sh\ncase $1 in pull) echo "$*" >>{box.dir}/pulled; sleep 13; exec {real} tag {IMAGE} slow:1;; esac\n'
                    f'exec {real} "$@"\n')
    slow.chmod(0o755)
    box.env["PATH"] = f"{box.dir}/bin:{os.environ['PATH']}"
    r = rhrun(job(here(container="slow:1", nodes=1))).ok()
    assert "rank 1 of 2, in" in r.out and (box.dir / "pulled").read_text() == "pull -q slow:1\n"
    engine.docker("rmi", "slow:1", check=False)


def test_no_engine_answers(engine, box, job, rhrun):
    box.env["DOCKER_HOST"] = "unix:///nosuch/socket"
    err = rhrun(job(here())).expect(3).err
    assert "container: image" in err and "/nosuch/socket" in err


@pytest.mark.parametrize("container, words", [
    ({}, "image"),
    ("-v", '"-v" is not an image'),
    ("two words", "is not an image"),
    ({"image": "a", "options": ["--name=x"]}, "a spec cannot have the option --name"),
    ({"image": "a", "mounts": ["here:/there"]}, '"here:/there" is not a mount'),
    ({"image": "a", "runtime": "lxc"}, "expected one of auto, docker, podman"),
    ({"image": "a", "imgae": "b"}, "imgae"),
])
def test_specs_that_are_wrong(box, job, rhrun, container, words):
    assert words in rhrun("validate", job(here(container=container))).expect(2).err


def test_ssh_goes_inside(engine, box, job, rhrun):
    spec = job(here())
    err = rhrun("ssh", spec, "--", "true").expect(1).err
    assert "does not run there: the job makes it when it is run" in err
    rhrun(spec).ok()
    assert rhrun("ssh", spec, "local-1", "--", "cat /etc/inside; pwd").ok().out == f"in\n{box.work}\n"
    assert rhrun("ssh", spec, "--", "printf", "%s|", "a b", "$HOME", "it's").ok().out == "a b|$HOME|it's|"
    assert rhrun("exec", spec, "local-1", "--", "cat /etc/inside; pwd; echo $RHRUN_NODE_RANK").ok().out == f"in\n{box.work}\n1\n"


def test_a_launch_that_finished_unseen_counts_though_its_container_is_gone(engine, box, job, rhrun):
    spec = job(here(WAITS))
    run = box.start(spec)
    wait_for(lambda: box.lines().count("launch") == 4, what="the launch")
    run.kill9()
    (box.home / "go").touch()
    wait_for(lambda: not workers_of(box.dir), what="the end of the workers")
    engine.docker("rm", "-f", *names(engine))
    r = rhrun(spec).ok()
    assert r.out.count(", in") == 4 and box.lines() == ["one"] * 2 + ["launch"] * 4
