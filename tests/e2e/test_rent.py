"""Machines that are rented for a job, from the provider docker: containers of a real Docker Engine."""
import json
import os
import shutil
import signal
import time

import pytest

from clouds.flaky import Flaky, hasty_docker, split, talk
from engine import IMAGE
from harness import ROOT, check_schema, processes_of, wait_for

pytestmark = pytest.mark.xdist_group("renting") # beside the other tests of an engine, which have one of their own

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
    """A failed test leaves no network for the next one."""
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
    assert "renting 2 × container at docker local" in r.err and "all of its machines are gone" in r.err
    assert there(engine) == []
    r = rhrun(spec).ok()  # a finished job rents nothing
    assert "nothing to do" in r.err and "renting" not in r.err and "warning" not in r.err
    assert there(engine) == []
    assert json.loads(rhrun("clusters", "--json").ok().out) == []
    assert [c["stage"] for c in json.loads(rhrun("clusters", "--json", "--all").ok().out)] == ["over"]


def test_rerun_rents_again(engine, box, job, rhrun):
    """The machines are unknown beforehand: --strict refuses, and rents nothing. Otherwise they are like those of the lock."""
    spec = job(JOB % (cluster(), SAYS) + "workdir: .\n")
    first = rhrun(spec).ok()
    lock = json.loads(rhrun("show", "last", "--lock", "--json").ok().out)
    assert (lock["rented"]["provider"], lock["rented"]["nodes"]) == ("docker", 2)
    r = rhrun("rerun", "--strict", "last").expect(2)
    assert "its machines will be rented again" in r.err and "renting" not in r.err and there(engine) == []
    again = rhrun("rerun", "last").ok()
    assert sorted(l for l in again.out.splitlines() if "set up" in l) == sorted(l for l in first.out.splitlines() if "set up" in l)
    later = json.loads(rhrun("show", "last", "--lock", "--json").ok().out)
    assert later["run"]["rerun_of"] == lock["run"]["id"] and later["rented"]["type"] == lock["rented"]["type"]
    assert there(engine) == []


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
    assert "has ended already" in rhrun("down", c["id"]).ok().err


def test_apply_prune_gives_back_what_a_removed_spec_rented(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), SAYS), "set/job.yaml")
    job("name: stays\nentrypoint: {run: 'true'}\n", "set/stays.yaml")
    assert "2 ran" in rhrun("apply", "set").ok().out and len(there(engine)) == 3
    assert rhrun("apply", "--prune", "--json", "set").ok().json()["removed"] == []
    spec.unlink()
    (c,) = rhrun("apply", "--prune", "--dry-run", "--json", "set").ok().json()["removed"]
    assert c["what"].endswith("would be given back") and len(there(engine)) == 3
    r = rhrun("apply", "--prune", "set").ok()
    assert "was given back" in r.out and "1 removed" in r.out and there(engine) == []


@pytest.mark.parametrize("then, events", [("gc", (1, 3, 5, 8, 11, 13, 15, 16)), ("run", (4, 10, 14))])
def test_killed_at_any_event_of_the_ledger_nothing_is_left(then, events, engine, box, job, rhrun):
    hasty_docker(box, ("late: 20s", "late: 5s"))
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


def test_the_same_command_takes_away_what_a_killed_end_left(engine, box, job, rhrun):
    spec = job(JOB % (cluster(), SAYS))
    rhrun("up", spec).ok()
    assert rhrun("down", spec, env={"RHRUN_TEST_RENT_KILL": "6"}).rc == -signal.SIGKILL  # it is over; its network is there
    assert len(there(engine)) == 1
    rhrun(spec).ok()
    assert there(engine) == []


def test_what_is_given_back_is_not_started(engine, box, job, rhrun):
    """A create that an earlier process left half done: its container exists, but does not run."""
    hasty_docker(box, ("late: 20s", "late: 2s"))
    rhrun("up", job(JOB % (cluster(), SAYS)), env={"RHRUN_TEST_RENT_KILL": "2"})
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    labels = [word for label in (f"rhrun-run={c['id']}", "rhrun-node=0", "rhrun-owner=tester", "rhrun-expires=4102444800") for word in ("--label", label)]
    engine.docker("create", "--name", f"rhrun-{c['id']}-1", *labels, "--network", "none", IMAGE, "sleep", "1000")
    rhrun("down", c["id"]).ok()
    assert there(engine) == []
    assert engine.docker("events", "--since", "1h", "--until", "0s", "--filter", "event=start", "--filter", f"label=rhrun-run={c['id']}") == ""


@pytest.fixture
def flaky(engine, box):
    proxy = Flaky(engine.socket, box.dir / "flaky")
    box.env["DOCKER_HOST"] = f"unix://{proxy.path}"
    yield proxy
    assert proxy.drained()
    proxy.end()


def test_a_create_that_is_done_late_is_found(engine, box, job, rhrun, flaky):
    hasty_docker(box, ("late: 20s", "late: 10s"))
    flaky.fault("create", "late_drop", delay=7)
    up = box.start("up", job(JOB % (cluster(), SAYS)))
    wait_for(lambda: flaky.late)
    up.kill9()
    rhrun("gc", "--yes").ok()
    assert flaky.drained() and there(engine) == []


def test_a_run_that_comes_when_the_idle_time_is_over_rents_anew(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down={"idle": "1s"}), SAYS))
    rhrun(spec).ok()
    (first,) = json.loads(rhrun("clusters", "--json").ok().out)
    time.sleep(1.5)  # which is over then, whatever the machine does
    rhrun(spec, "--again").ok()
    assert [c["id"] for c in json.loads(rhrun("clusters", "--json").ok().out)] != [first["id"]]
    rhrun("down", spec).ok()
    assert there(engine) == []


def test_two_networks_of_one_name_are_taken_away(engine, box, job, rhrun):
    """An engine that gets requests of two processes at the same time makes both."""
    spec = job(JOB % (cluster(down="never"), SAYS))
    rhrun("up", spec).ok()
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    body = json.dumps({"Name": f"rhrun-{c['id']}", "Labels": {"rhrun-run": c["id"]}})
    made = talk(engine.socket, f"POST /v1.41/networks/create HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    assert split(made)[0] == 201 and len(there(engine)) == 4, made
    rhrun("down", spec).ok()
    assert there(engine) == []


def networks(engine):
    """The network of each container of rhrun."""
    return {engine.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.NetworkID}} {{end}}", c).strip() for c in engine.docker("ps", "-q").split()}


def two_networks(engine, box, spec, flaky):
    """The first request for a network is carried out while the containers in the second one are started."""
    flaky.fault("net_create", "late_drop", delay=1.5)
    up = box.start("up", spec)
    wait_for(lambda: flaky.late)
    up.kill9()
    flaky.fault("start", "late", times=2, delay=3)
    return box.run("up", spec)


@pytest.mark.soak
def test_a_network_that_comes_late_ends_no_start(engine, box, job, rhrun, flaky):
    spec = job(JOB % (cluster(down="never"), SAYS))
    two_networks(engine, box, spec, flaky).ok()
    assert len(there(engine)) == 4 and len(networks(engine)) == 1
    rhrun(spec).ok()
    rhrun("down", spec).ok()
    assert there(engine) == []


def test_a_lost_machine_comes_back_into_the_network_of_the_others(engine, box, job, rhrun, flaky):
    spec = job(JOB % (cluster(down="never"), SAYS))
    two_networks(engine, box, spec, flaky).ok()
    first = networks(engine)
    engine.docker("rm", "-f", engine.docker("ps", "-q").split()[0])
    rhrun(spec).ok()
    assert len(engine.docker("ps", "-q").split()) == 2 and networks(engine) == first
    rhrun("down", spec).ok()
    assert there(engine) == []


def test_a_machine_that_is_lost_while_its_cluster_is_rented(engine, box, job, rhrun, flaky):
    """Nobody watches when it ends, and there is no other offer."""
    spec = job(JOB % (cluster(), SAYS))
    flaky.fault("start", "late_drop", times=2, delay=2)
    up = box.start("up", spec)
    wait_for(lambda: flaky.late == 2)
    up.kill9()
    assert flaky.drained()
    engine.docker("rm", "-f", engine.docker("ps", "-q").split()[0])
    r = rhrun(spec).ok()
    assert "could not rent 2 × container" in r.err and "rank 3 of 4" in r.out, r
    assert there(engine) == []


def test_a_start_that_is_refused_is_told_at_once(engine, box, job, rhrun, flaky):
    flaky.fault("start", "capacity")
    r = rhrun(job(JOB % (cluster(), SAYS))).expect(3)
    assert "the machines could not be rented: write /x: no space left on device" in r.err and r.seconds < 30
    assert there(engine) == []


def test_a_network_that_is_made_late_is_taken_away(engine, box, job, rhrun, flaky):
    hasty_docker(box, ("late: 20s", "late: 5s"))
    for kill in (False, True):
        flaky.fault("net_create", "late_drop", delay=3)
        up = box.start("up", job(JOB % (cluster(), SAYS)))
        wait_for(lambda: flaky.late)
        up.signal(signal.SIGINT)
        if kill:
            wait_for(lambda: "interrupted" in up.text)
            up.kill9()
            rhrun("gc", "--yes").ok()
        else:
            assert up.wait().rc == 130
        assert flaky.drained() and there(engine) == []


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
    assert "it is in no ledger here; its time is not over: --all deletes it, too" in r.err and "nothing to give back" in r.err
    rhrun("gc", "--provider", "docker", "--yes").ok()
    assert len(engine.docker("ps", "-q").split()) == 2
    other = engine.docker("run", "-d", "--label", f"rhrun-run={c['id']}", "--label", "rhrun-owner=somebody", "--init", "--network", "none", IMAGE,
                          "sleep", "1000")
    r = rhrun("gc", "--provider", "docker", "--all", "--yes").ok()
    assert "it belongs to another owner" in r.err
    assert engine.docker("ps", "-q", "--no-trunc").split() == [other]


def test_a_machine_that_ends_by_itself_ends_the_run_and_leaves_nothing(engine, box, job, rhrun):
    box.env.update(RHRUN_RECONNECT_MS="1000")
    spec = job(JOB % (cluster(), "sleep 600"))
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text)
    engine.docker("rm", "-f", engine.docker("ps", "-q").split()[0])
    done = run.wait()
    assert done.rc != 0 and there(engine) == [], done


def machine_of(rhrun, node):
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    return next(m["machine"] for m in c["machines"] if m["node"] == node and m["state"] == "ready")


def lines(rhrun, spec, node):
    return rhrun("ssh", spec, node, "--", "cat ~/lines").out.split()


WAITS = "echo launch >>$HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.1; done; " + SAYS


def let_go(engine):
    for machine in engine.docker("ps", "-q").split():
        engine.docker("exec", machine, "touch", "/root/go")


@pytest.mark.parametrize("node", (0, 1))
def test_a_machine_that_was_lost_before_the_run_is_replaced(node, engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), SAYS))
    rhrun("up", spec).ok()
    kept = machine_of(rhrun, 1 - node)
    engine.docker("rm", "-f", machine_of(rhrun, node))
    r = rhrun(spec).ok()
    assert f"the machine of node {node} is gone" in r.err and f"renting another machine for node {node}" in r.err
    assert all(f"rank {rank} of 4: set up\n" in r.out for rank in range(4)), r
    assert machine_of(rhrun, 1 - node) == kept
    engine.docker("rm", "-f", machine_of(rhrun, node))
    r = rhrun(spec).ok()  # a finished job rents nothing
    assert "nothing to do" in r.err and "renting" not in r.err and engine.docker("ps", "-q", "--no-trunc").split() == [kept]
    assert "is up" in rhrun("up", spec).ok().err and len(engine.docker("ps", "-q").split()) == 2
    rhrun(spec, "--again").ok()
    assert lines(rhrun, spec, 0) == lines(rhrun, spec, 1) == ["set", "up"]
    rhrun("down", spec).ok()
    assert there(engine) == []


@pytest.mark.parametrize("node", (0, 1))
def test_a_machine_that_was_lost_under_a_run_whose_controller_was_killed(node, engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), WAITS))
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text and all(lines(rhrun, spec, n).count("launch") == 2 for n in (0, 1)))
    run.kill9()
    engine.docker("rm", "-f", machine_of(rhrun, node))
    run = box.start(spec)
    run.wait_text(f"renting another machine for node {node}")
    wait_for(lambda: len(engine.docker("ps", "-q").split()) == 2)
    run.wait_text(f'the machine of node "node-{node}" is gone, and its part')
    let_go(engine)
    done = run.wait()
    assert done.rc == 0 and all(f"rank {rank} of 4: set up" in done.out for rank in range(4)), done
    for rank in range(4):
        assert next((box.work / "results").rglob(f"out-{rank}")).read_text() == f"{rank}\n"
    assert lines(rhrun, spec, node) == ["set", "up"] + ["launch"] * 2
    assert lines(rhrun, spec, 1 - node) == ["set", "up"] + ["launch"] * 4  # its set-up was kept, what ran there has begun again
    rhrun("down", spec).ok()
    assert there(engine) == []


@pytest.mark.soak
@pytest.mark.parametrize("event", range(1, 7))
def test_killed_while_a_lost_machine_is_replaced(event, engine, box, job, rhrun):
    spec = job(JOB % (cluster(), WAITS))
    run = box.start(spec)
    run.wait_text("launch")
    run.kill9()
    engine.docker("rm", "-f", machine_of(rhrun, 1))
    # held, gone, replace, intent, created, ready
    assert rhrun(spec, env={"RHRUN_TEST_RENT_KILL": str(event)}).rc == -signal.SIGKILL
    run = box.start(spec)
    wait_for(lambda: len(engine.docker("ps", "-q").split()) == 2)
    run.wait_text("and its part of the launch with it")
    let_go(engine)
    done = run.wait()
    assert done.rc == 0 and all(f"rank {rank} of 4: set up" in done.out for rank in range(4)), done
    assert there(engine) == []


@pytest.mark.soak  # what the engine says of the network is tried again for a minute
@pytest.mark.parametrize("down", ("always", "never"))
def test_a_lost_machine_for_which_there_is_no_other(down, engine, box, job, rhrun):
    image = "127.0.0.1:1/own"  # whose registry answers nobody, at once
    engine.docker("tag", IMAGE, image)
    spec = job(JOB % (cluster(down=down, image=image), SAYS))
    rhrun("up", spec).ok()
    engine.docker("rm", "-f", machine_of(rhrun, 1))
    engine.docker("rmi", "-f", image)
    r = rhrun(spec).expect(3)
    assert "the machine of node 1 is gone, and no other could be rented for it" in r.err
    assert ("rents all machines again" in r.err) == (down == "always") and ("rhrun down" in r.err) == (down == "never"), r
    assert bool(there(engine)) == (down == "never")
    engine.docker("tag", IMAGE, image)
    assert "rank 3 of 4" in rhrun(spec).ok().out
    rhrun("down", "--all").ok()
    assert there(engine) == []


REPLACES = "failure_rules: [{match: {event: node_lost}, action: replace_node, times: %d}]\n"


@pytest.mark.parametrize("node", (0, 1))
def test_a_rule_replaces_a_machine_under_a_launch(node, engine, box, job, rhrun):
    spec = job(JOB % (cluster(), WAITS) + REPLACES % 1)
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text and all(lines(rhrun, spec, n).count("launch") == 2 for n in (0, 1)))
    engine.docker("rm", "-f", machine_of(rhrun, node))
    run.wait_text(rf'rule 1 \(node_lost\): replace_node, since node "node-{node}" is lost')
    run.wait_text(f"renting another machine for node {node}")
    # its set-up is done, that of the other is kept, and all workers have begun again
    wait_for(lambda: lines(rhrun, spec, node) == ["set", "up"] + ["launch"] * 2)
    assert lines(rhrun, spec, 1 - node) == ["set", "up"] + ["launch"] * 4
    let_go(engine)
    done = run.wait()
    assert done.rc == 0 and all(f"rank {rank} of 4: set up" in done.out for rank in range(4)), done
    for rank in range(4):
        assert next((box.work / "results").rglob(f"out-{rank}")).read_text() == f"{rank}\n"
    assert there(engine) == []


def test_a_rule_replaces_the_machine_of_a_preempted_node(engine, box, job, rhrun):
    spec = job(JOB % (cluster(), WAITS) + REPLACES.replace("node_lost", "preempted") % 1)
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text and all(lines(rhrun, spec, n).count("launch") == 2 for n in (0, 1)))
    first, kept = machine_of(rhrun, 1), machine_of(rhrun, 0)
    engine.docker("exec", first, "sh", "-c", 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != rhrun-supervise ] || kill -TERM ${p#/proc/}; done', check=False)
    run.wait_text(r"rule 1 \(preempted\): replace_node")
    wait_for(lambda: lines(rhrun, spec, 1) == ["set", "up"] + ["launch"] * 2 and first not in engine.docker("ps", "-q", "--no-trunc"))
    assert lines(rhrun, spec, 0) == ["set", "up"] + ["launch"] * 4 and machine_of(rhrun, 0) == kept
    let_go(engine)
    done = run.wait()
    assert done.rc == 0 and all(f"rank {rank} of 4: set up" in done.out for rank in range(4)), done
    assert there(engine) == []


@pytest.mark.soak
def test_the_budget_of_a_rule_that_replaces(engine, box, job, rhrun):
    spec = job(JOB % (cluster(down="never"), WAITS) + REPLACES % 1)
    run = box.start(spec)
    run.wait_text("launch")
    engine.docker("rm", "-f", machine_of(rhrun, 1))
    wait_for(lambda: "renting another" in run.text and "launch" in lines(rhrun, spec, 1))
    engine.docker("rm", "-f", machine_of(rhrun, 1))
    done = run.wait()
    assert done.rc == 3 and "the same command continues the run, and rents another machine if one is gone" in done.err, done
    run = box.start(spec)  # and it does
    run.wait_text("and its part of the launch with it")
    let_go(engine)
    assert run.wait().rc == 0
    rhrun("down", spec).ok()
    assert there(engine) == []


LATER = ("rule 1", "another machine is rented", "ready after(.|\\n)*ready after(.|\\n)*ready after", "runs again")


@pytest.mark.parametrize("at", ["renting another"] + [pytest.param(text, marks=pytest.mark.soak) for text in LATER])
def test_killed_while_a_rule_replaces_a_machine(at, engine, box, job, rhrun):
    spec = job(JOB % (cluster(), WAITS) + REPLACES % 1)
    run = box.start(spec)
    run.wait_text("launch")
    engine.docker("rm", "-f", machine_of(rhrun, 1))
    run.wait_text(at)
    run.kill9()
    run = box.start(spec)
    wait_for(lambda: len(engine.docker("ps", "-q").split()) == 2 and "launch" in lines(rhrun, spec, 1))
    let_go(engine)
    done = run.wait()
    assert done.rc == 0 and all(f"rank {rank} of 4: set up" in done.out for rank in range(4)), done
    assert there(engine) == []


def test_machines_that_are_only_out_of_reach_stay_and_the_run_goes_on(engine, box, job, rhrun):
    box.env.update(RHRUN_RECONNECT_MS="1000", RHRUN_LIVENESS_MS="1000")
    spec = job(JOB % (cluster(), "while [ ! -e $HOME/go ]; do sleep 0.1; done; " + SAYS))
    run = box.start(spec)
    wait_for(lambda: "launch" in run.text)
    machines = engine.docker("ps", "-q").split()
    # The engine still shows it running; a connection finds no shell.
    engine.docker("exec", machines[0], "mv", "/bin/sh", "/bin/sh.away")
    for p in processes_of(box.dir):
        if p.argv[:2] == ["docker", "exec"] and any(a.startswith(machines[0]) for a in p.argv):
            os.kill(p.pid, signal.SIGKILL)
    done = run.wait()
    assert done.rc != 0 and "the machines stay rented, at $0.00 an hour, until" in done.err, done
    assert engine.docker("ps", "-q").split() == machines
    r = rhrun(job(JOB.replace("name: rented", "name: other") % (cluster(), SAYS), "other.yaml")).ok()
    assert "is still rented, and no rhrun works with it" in r.err  # and what another job rented is not given back
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
