"""Machines that are rented for a job, from the provider docker: containers of a real Docker Engine."""
import json
import os
import shutil
import signal

import pytest

from engine import IMAGE
from harness import ROOT, check_schema, processes_of, wait_for

pytestmark = pytest.mark.xdist_group("docker")

JOB = """
name: rented
cluster: %s
setup:
  - {name: one, run: 'echo set up >>$HOME/lines'}
distributed: {nnodes: 2, nproc_per_node: 2}
entrypoint: {run: '%s'}
outputs: [{from: 'out-*', to: results/, nodes: all}]
"""
SAYS = "echo rank $RANK of $WORLD_SIZE: $(cat $HOME/lines); echo $RANK >out-$RANK"


def cluster(**more):
    return json.dumps({"provider": "docker", "image": IMAGE, "max_hours": 1, **more})


def there(engine):
    """Containers and networks of rhrun."""
    return engine.docker("ps", "-aq").split() + engine.docker("network", "ls", "-q", "--filter", "label=rhrun-run").split()


@pytest.fixture(autouse=True)
def nothing_else(engine):
    """A test that fails leaves no network to the next one."""
    yield
    engine.clear()
    for network in engine.docker("network", "ls", "-q", "--filter", "label=rhrun-run").split():
        engine.docker("network", "rm", network, check=False)


def test_a_whole_job(engine, box, job, rhrun):
    spec = job(JOB % (cluster(), SAYS))
    r = rhrun(spec).ok()
    for rank in range(4):
        assert f"rank {rank} of 4: set up" in r.out
        assert next((box.work / "results").rglob(f"out-{rank}")).read_text() == f"{rank}\n"
    assert "renting 2 × container at docker local" in r.err and "nothing is left of it" in r.err
    assert there(engine) == []
    r = rhrun(spec).ok()  # what is done rents nothing
    assert "nothing to do" in r.err and "renting" not in r.err and "warning" not in r.err
    assert there(engine) == []
    assert json.loads(rhrun("clusters", "--json").ok().out) == []
    assert [c["stage"] for c in json.loads(rhrun("clusters", "--json", "--all").ok().out)] == ["over"]


def test_up_ssh_run_down(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), SAYS))
    assert "is up" in rhrun("up", spec).ok().err
    machines = engine.docker("ps", "-q")
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    assert (c["name"], c["stage"], c["held_by"], [m["state"] for m in c["machines"]]) == ("rented", "complete", None, ["ready"] * 2)
    assert "is up" in rhrun("up", spec).ok().err and engine.docker("ps", "-q") == machines
    names = [rhrun("ssh", spec, node, "--", "hostname").ok().out for node in ("0", "node-1")]
    assert names == [f"{m['name']}\n" for m in sorted(c["machines"], key=lambda m: m["node"])]
    assert rhrun("ssh", c["id"], "1", "--", "hostname").ok().out == names[1]
    assert "no node \"7\"" in rhrun("ssh", "rented", "7", "--", "true").expect(2).err
    rhrun(spec).ok()
    assert engine.docker("ps", "-q") == machines
    rhrun(spec, "--again").ok()  # the set-up is still there
    assert rhrun("ssh", spec, "--", "cat ~/lines").ok().out == "set up\n"
    assert "nothing to give back" in rhrun("gc", "--yes").ok().err
    rhrun("down", "rented").ok()
    assert there(engine) == []
    assert "no machines are rented for the job" in rhrun("down", spec).ok().err
    assert "is over" in rhrun("down", c["id"]).ok().err


@pytest.mark.parametrize("then, events", [("gc", (1, 3, 5, 8, 11, 13, 15, 16)), ("run", (4, 10, 14))])
def test_killed_at_any_event_of_the_ledger_nothing_is_left(then, events, engine, box, job, rhrun):
    killed = 0
    for event in events:
        spec = job(JOB % (cluster(), SAYS), f"job-{event}.yaml")
        first = rhrun(spec, env={"RHRUN_TEST_RENT_KILL": str(event)})
        assert first.rc == -signal.SIGKILL
        killed += 1
        if then == "gc":
            rhrun("gc", "--yes").ok()
        else:
            assert "rank 3 of 4" in first.out + rhrun(spec).ok().out
        assert there(engine) == [], event
        assert json.loads(rhrun("clusters", "--json").ok().out) == []
    assert killed == len(events)


def test_an_interrupt_gives_back_what_was_begun(engine, box, job, rhrun):
    spec = job(JOB % (cluster(), "sleep 600"))
    run = box.start(spec)
    wait_for(lambda: len(engine.docker("ps", "-q").split()) == 2 and "launch" in run.text)
    run.signal(signal.SIGINT)
    assert run.wait().rc == 130
    assert there(engine) == []


def test_a_machine_that_no_ledger_knows(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), SAYS))
    rhrun("up", spec).ok()
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    shutil.rmtree(box.state / "clusters")
    r = rhrun("gc", "--provider", "docker").ok()
    assert "no ledger here knows it; its time is not over: --all deletes it, too" in r.err and "nothing to give back" in r.err
    rhrun("gc", "--provider", "docker", "--yes").ok()
    assert len(engine.docker("ps", "-q").split()) == 2
    other = engine.docker("run", "-d", "--label", f"rhrun-run={c['id']}", "--label", "rhrun-owner=somebody", "--init", "--network", "none", IMAGE,
                          "sleep", "1000")
    r = rhrun("gc", "--provider", "docker", "--all", "--yes").ok()
    assert "it is another owner's" in r.err
    assert engine.docker("ps", "-q", "--no-trunc").split() == [other]


def test_a_machine_that_ends_by_itself_ends_the_run_and_leaves_nothing(engine, box, job, rhrun):
    box.env.update(RHRUN_RECONNECT_MS="1000")
    spec = job(JOB % (cluster(), "sleep 600"))
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text)
    engine.docker("rm", "-f", engine.docker("ps", "-q").split()[0])
    done = run.wait()
    assert done.rc != 0 and there(engine) == [], done


def test_machines_that_are_only_out_of_reach_stay_and_the_run_goes_on(engine, box, job, rhrun):
    box.env.update(RHRUN_RECONNECT_MS="1000", RHRUN_LIVENESS_MS="1000")
    spec = job(JOB % (cluster(), "while [ ! -e $HOME/go ]; do sleep 0.1; done; " + SAYS))
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text)
    machines = engine.docker("ps", "-q").split()
    # The engine shows it running still; whoever connects finds no shell.
    engine.docker("exec", machines[0], "mv", "/bin/sh", "/bin/sh.away")
    for p in processes_of(box.dir):
        if p.argv[:2] == ["docker", "exec"] and any(a.startswith(machines[0]) for a in p.argv):
            os.kill(p.pid, signal.SIGKILL)
    done = run.wait()
    assert done.rc != 0 and "the machines stay rented, at $0.00 an hour, until" in done.err, done
    assert engine.docker("ps", "-q").split() == machines
    r = rhrun(job(JOB.replace("name: rented", "name: other") % (cluster(), SAYS), "other.yaml")).ok()
    assert "is rented still, and no rhrun is at work with it" in r.err  # and what another job rented is not given back
    assert engine.docker("ps", "-q").split() == machines
    engine.docker("exec", machines[0], "mv", "/bin/sh.away", "/bin/sh")
    for machine in machines:
        engine.docker("exec", machine, "touch", "/root/go")
    assert "rank 3 of 4" in rhrun(spec).ok().out
    assert there(engine) == []


def test_without_an_engine_it_says_so_at_once(engine, box, job, rhrun):
    r = rhrun(job(JOB % (cluster(), SAYS)), env={"DOCKER_HOST": "unix:///nowhere"}).expect(2)
    assert 'could not connect to the socket "/nowhere"' in r.err
    assert json.loads(rhrun("clusters", "--json").ok().out) == []


def test_another_wish_is_told(engine, box, job, rhrun):
    rhrun("up", job(JOB % (cluster(down="never"), SAYS))).ok()
    r = rhrun("up", job(JOB.replace("nnodes: 2", "nnodes: 1") % (cluster(down="never"), SAYS))).expect(2)
    assert "the job has a cluster of another kind" in r.err and "rhrun down" in r.err
    rhrun("down", "--all").ok()
    assert there(engine) == []


def test_the_example(engine, box, rhrun):
    spec = ROOT / "specs/examples/rented.yaml"
    r = rhrun("plan", spec, "-p", f"image={IMAGE}").ok()
    assert "2 × container at docker" in r.out or "container" in r.out
    r = rhrun(spec, "-p", f"image={IMAGE}").ok()
    assert "rank 3 of 4, set up on rhrun-" in r.out
    assert there(engine) == []


def test_json_tells_what_becomes_of_the_machines(engine, box, job, rhrun):
    events = rhrun(job(JOB % (cluster(), SAYS)), "--json").ok().events()
    for event in events:
        check_schema(event, "events.schema.json")
    told = [e["what"] for e in events if e["type"] == "cluster"]
    assert told == ["trying", "ready", "ready", "complete"]
    kinds = [e["type"] for e in events]
    assert kinds.index("run_opened") == 4 and kinds[-1] == "result" and there(engine) == []


def test_max_hours_stop_the_run_in_time_to_bring_home_what_it_has(engine, box, job, rhrun):
    spec = job(JOB % (cluster(max_hours=0.004), "echo $RANK >out-$RANK; sleep 600"))
    r = rhrun(spec)
    assert r.rc != 0 and "max_hours are over: the run is stopped" in r.err and r.seconds < 60
    assert there(engine) == []


def test_status_shows_what_is_rented(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), SAYS))
    rhrun(spec).ok()
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    assert f"cluster {c['id']}: complete, $0.00 an hour, $0.00 so far" in rhrun("status", spec).ok().out
    rhrun("down", spec).ok()
    assert "cluster" not in rhrun("status", spec).ok().out
