"""Machines that the provider takes back while a job runs on them: each machine learns of it by itself, its workers end in order, its
outputs are fetched, and the failure rules decide what follows."""
import re

import pytest

from harness import processes, wait_for
from test_rent_clouds import moto, nothing_left, results, spec_of

each = pytest.mark.parametrize("name", [pytest.param("aws", marks=moto), "gcp"])

# Saves when it is told to end; has enough after the second start.
TRAINS = """
trap 'echo saved >>$HOME/lines; mkdir -p out; cp $HOME/lines out/lines; exit 3' TERM
echo launch >>$HOME/lines
mkdir -p out
cp $HOME/lines out/lines
echo rank $RANK trains
while [ $(grep -c launch $HOME/lines) -lt 2 ]; do sleep 0.1 || :; done
"""
WORDS = "preempted: the provider takes the machine back"


def job(box, cloud, spot=True, **more):
    return spec_of(box, cloud, cluster={"use_spot": spot}, entrypoint={"run": TRAINS}, **more)


def begin(box, cloud, spec):
    """Both train, and both machines have asked."""
    run = box.start(spec)
    run.wait_text("(?s)(rank . trains.*){2}")
    wait_for(lambda: len({id for id, _ in cloud.metadata.log}) == 2, what="the machines to ask")
    return run


@each
def test_the_launch_goes_on_by_its_rule(box, clouds, name):
    cloud = clouds.start(name)
    run = begin(box, cloud, job(box, cloud, failure_rules=[{"match": {"event": "preempted"}, "action": "restart", "times": 1}]))
    cloud.take_back(cloud.machines()[1], times=1)
    r = run.wait().ok()
    assert "takes this machine back: " + ("{\"action\": \"terminate\", \"time\": " if name == "aws" else "TRUE") in r.text, r
    # Rented machines have no order: which node it was is not known here.
    assert re.search(r'rule 1 \(preempted\): restart, since node "node-[01]": ' + WORDS, r.err), r
    assert results(box) == [["setup", "launch", "saved", "launch"]] * 2
    nothing_left(cloud)


@each
def test_without_a_rule_the_job_ends_and_its_outputs_come_home(box, clouds, name):
    cloud = clouds.start(name)
    run = begin(box, cloud, job(box, cloud))
    cloud.take_back(cloud.machines()[0])
    r = run.wait().expect(3)
    assert WORDS in r.err and "told to end by signal" not in r.text, r
    assert results(box) == [["setup", "launch", "saved"]] * 2
    nothing_left(cloud)


def of_machine(instance, comm):
    space = instance.machine.path("/proc/1/ns/pid").readlink()
    found = []
    for p in processes():
        try:
            if p.comm == comm and space == type(space)(f"/proc/{p.pid}/ns/pid").readlink():
                found.append(p)
        except OSError:
            continue
    return found


def test_the_controller_was_killed_before(box, clouds):
    cloud = clouds.start("gcp")
    spec = job(box, cloud, failure_rules=[{"match": {"event": "preempted"}, "action": "restart", "times": 1}])
    run = begin(box, cloud, spec)
    run.kill9()
    taken = cloud.machines()[1]
    assert of_machine(taken, "rhrun-notice")
    cloud.take_back(taken, times=1)
    wait_for(lambda: not of_machine(taken, "rhrun-supervise") and not of_machine(taken, "rhrun-notice"), what="the workers' end")
    r = box.run(spec).ok()
    assert WORDS in r.text and "takes this machine back: TRUE" in r.text, r
    assert results(box) == [["setup", "launch", "saved", "launch"]] * 2
    nothing_left(cloud)


def test_nobody_asks_on_a_machine_that_is_paid_in_full(box, rhrun, clouds):
    cloud = clouds.start("gcp")
    rhrun(spec_of(box, cloud)).ok()
    assert cloud.metadata.log == [] and results(box) == [["setup", "launch"]] * 2
    nothing_left(cloud)


def test_the_next_run_has_another_machine(box, clouds):
    """The notice, the machine's end, and the same command: the cluster was kept, so one machine is rented."""
    cloud = clouds.start("gcp")
    spec = spec_of(box, cloud, cluster={"use_spot": True, "down": "never"},
                   entrypoint={"run": TRAINS.replace("[ $(grep -c launch $HOME/lines) -lt 2 ]", "[ ! -e $HOME/enough ]")})
    run = begin(box, cloud, spec)
    kept, taken = cloud.machines()
    cloud.take_back(taken)
    assert WORDS in run.wait().expect(3).err
    cloud.vanish(taken)
    run = box.start(spec)
    run.wait_text("(?s)(rank . trains.*){2}")
    for i in cloud.machines():
        i.machine.path("/home/ubuntu/enough").touch()
    run.wait().ok()
    assert len(cloud.of("create")) == 3 and kept in cloud.machines() and len(cloud.machines()) == 2
    assert results(box) == [["setup", "launch"], ["setup", "launch", "saved", "launch"]]
    box.run("down", spec).ok()
    nothing_left(cloud)


def test_another_machine_takes_its_place(box, clouds):
    """The notice stays, as a real one does. By the rule one machine is rented and set up, and asks for itself; the other one stays. What
    comes home now and then comes once more from the one that goes: what its workers saved at last is here."""
    cloud = clouds.start("gcp")
    spec = spec_of(box, cloud, cluster={"use_spot": True}, failure_rules=[{"match": {"event": "preempted"}, "action": "replace_node", "times": 1}],
                   entrypoint={"run": TRAINS.replace("[ $(grep -c launch $HOME/lines) -lt 2 ]", "[ ! -e $HOME/enough ]")},
                   outputs=[{"from": "out/", "to": "results/", "nodes": "all", "every": "10m"}])
    run = begin(box, cloud, spec)
    kept, taken = cloud.machines()
    cloud.take_back(taken)
    wait_for(lambda: len({id for id, _ in cloud.metadata.log}) == 3, what="the new machine to ask")
    assert results(box) == [["setup", "launch", "saved"]], run.text
    assert [i for i in cloud.instances if i.deleted] == [taken]
    for i in cloud.machines():
        if i is not taken:
            i.machine.path("/home/ubuntu/enough").touch()
    r = run.wait().ok()
    assert "rule 1 (preempted): replace_node" in r.err and WORDS in r.err, r
    assert len(cloud.of("create")) == 3
    assert results(box) == [["setup", "launch"], ["setup", "launch", "saved", "launch"]]
    nothing_left(cloud)
