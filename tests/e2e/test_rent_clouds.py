"""Whole jobs on machines that are rented from the test clouds: two nodes, set-up, launch, outputs, all given back; and what may go
wrong on the way. Whatever happens, the cloud lists nothing of the run at the end."""
import signal

import pytest

from clouds import NAMES
from harness import wait_for

moto = pytest.mark.xdist_group("moto")
each = pytest.mark.parametrize("name", [pytest.param(n, marks=moto) if n == "aws" else n for n in NAMES])


def some(*cases):
    """Cases (name, ...): those marked by True at their end run always, the others in scripts/soak."""
    marks = {"aws": [moto]}
    return [pytest.param(*case[:-1], marks=marks.get(case[0], []) + ([] if case[-1] else [pytest.mark.soak])) for case in cases]


def nodes_of(name):
    return 1 if name == "runpod" else 2  # pods reach each other only in clusters of RunPod's own


def spec_of(box, cloud, nnodes=None, cluster=None, **more):
    n = nnodes or nodes_of(cloud.name)
    return box.spec({
        "name": "rented", "cluster": {"instance": cloud.offers[0][2], "provider": cloud.name, "max_price": 20, "max_hours": 1, **(cluster or {})},
        "setup": [{"name": "s", "run": "echo setup >>$HOME/lines; hostname"}],
        "entrypoint": {"run": "echo launch >>$HOME/lines; mkdir -p out; cp $HOME/lines out/lines; echo rank $RANK of $WORLD_SIZE"},
        "distributed": {"nnodes": n, "nproc_per_node": 1}, "outputs": [{"from": "out/", "to": "results/", "nodes": "all"}], **more})


def results(box):
    return sorted(p.read_text().split() for p in (box.work / "results").rglob("lines"))


def nothing_left(cloud, creates=None):
    assert cloud.machines() == [], cloud.machines()
    assert not getattr(cloud, "keys", None), "a key is left at the provider"
    assert creates is None or len(cloud.of("create")) == creates, [request for request in cloud.of("create")]


@each
def test_a_job_on_rented_machines(box, rhrun, clouds, name):
    cloud = clouds.start(name)
    spec, n = spec_of(box, cloud), nodes_of(name)
    r = rhrun(spec, "-v").ok()
    assert all(f"rank {i} of {n}" in r.out for i in range(n)), r
    assert results(box) == [["setup", "launch"]] * n
    for where, data in {**box.logs(), "what it has said": r.text.encode()}.items():
        assert not any(secret.encode() in data for secret in cloud.secrets()), where
    nothing_left(cloud, 1 if name == "aws" else n)
    assert all(i.machine.user_data for i in cloud.instances) or name == "runpod"
    again = rhrun(spec).ok()
    assert "nothing to do" in again.err and len(cloud.instances) == n


# What must not matter: after it the job is done, and no machine is left.
FAULTS = (("create", "drop_before"), ("create", "drop_after"), ("create", "500_after"), ("create", "garbage"), ("create", "429"), ("create", "hide"),
          ("list", "500_before"), ("delete", "drop_after"), ("delete", "500_before"), ("key_create", "drop_after"), ("key_delete", "500_before"))
ALWAYS = {"hetzner": (("create", "drop_after"), ("create", "429"), ("create", "hide"), ("delete", "500_before"), ("key_create", "drop_after")),
          "lambda": (("create", "drop_after"),), "aws": (("create", "drop_after"),)}


@pytest.mark.parametrize("name,kind,what", some(*[(name, *fault, fault in ALWAYS[name]) for name in ALWAYS for fault in FAULTS]))
def test_a_fault_of_the_provider_is_lived_through(box, rhrun, clouds, name, kind, what):
    cloud = clouds.start(name)
    cloud.fault(kind, what)
    rhrun(spec_of(box, cloud)).ok()
    assert results(box) == [["setup", "launch"]] * 2
    assert not [f for f in cloud.faults if f.times], "the fault did not strike"
    nothing_left(cloud)
    assert name != "aws" or len(cloud.instances) == 2  # by its token no second machine is made


@pytest.mark.parametrize("name", some(*[(name, name in ("hetzner", "aws")) for name in NAMES]))
def test_where_none_can_be_had_the_next_offer_is_tried(box, rhrun, clouds, name):
    cloud = clouds.start(name)
    cloud.fault("create", "capacity", after=0 if name in ("aws", "runpod") else 1)  # of two nodes the second one
    r = rhrun(spec_of(box, cloud)).ok()
    assert "could not rent" in r.err and cloud.offers[1][0] in r.err, r
    assert results(box) == [["setup", "launch"]] * nodes_of(name)
    nothing_left(cloud)


@pytest.mark.parametrize("what", ("auth", "quota"))
def test_an_end_without_machines_says_why(box, rhrun, clouds, what):
    cloud = clouds.start("hetzner")
    cloud.fault("create", what, times=100)
    r = rhrun(spec_of(box, cloud))
    assert r.rc != 0 and ("unable to authenticate" if what == "auth" else "server limit reached") in r.err, r
    nothing_left(cloud)


@moto
def test_half_of_a_gang_is_given_back(box, rhrun, clouds):
    cloud = clouds.start("aws")
    cloud.fault("create", "half")
    rhrun(spec_of(box, cloud)).ok()
    nothing_left(cloud)


@pytest.mark.parametrize("what", some(("stuck", False), ("dead", False), ("no_user_data", True)))
def test_a_machine_that_is_never_met_is_given_back(box, rhrun, clouds, what):
    cloud = clouds.start("hetzner", within="4s")
    cloud.fault("create", what)
    r = rhrun(spec_of(box, cloud)).ok()
    assert "could not rent" in r.err, r
    nothing_left(cloud)


def up(box, rhrun, clouds, name="hetzner", **cluster):
    cloud = clouds.start(name)
    spec = spec_of(box, cloud, cluster={"down": "never", **cluster})
    rhrun("up", spec).ok()
    assert len(cloud.machines()) == 2
    return cloud, spec


def test_a_cluster_that_is_up_is_used_again(box, rhrun, clouds):
    cloud, spec = up(box, rhrun, clouds)
    rhrun(spec).ok()
    rhrun("--again", spec).ok()
    assert len(cloud.of("create")) == 2 and len(cloud.machines()) == 2
    assert results(box) == [["setup", "launch", "launch"]] * 2  # the set-up is kept
    shown = rhrun("clusters").ok()
    assert "hetzner" in shown.out, shown
    assert sorted(rhrun("ssh", spec, n, "--", "hostname").ok().out.strip() for n in "01") == sorted(i.name for i in cloud.machines())
    rhrun("down", spec).ok()
    nothing_left(cloud, 2)


def test_another_machine_at_its_address_is_refused(box, rhrun, clouds):
    cloud, spec = up(box, rhrun, clouds)
    cloud.usurp(cloud.machines()[0])
    r = rhrun(spec)
    assert r.rc != 0 and ("another machine answers" in r.err or "host key" in r.err), r
    assert "lines" not in [p.name for p in cloud.machines()[0].machine.path("/root").iterdir()]
    rhrun("down", spec).ok()
    nothing_left(cloud)


@pytest.mark.soak  # what is ready is looked at once a minute
@pytest.mark.parametrize("how", ("kill", "vanish"))
def test_a_machine_that_is_gone_ends_the_job(box, clouds, how):
    cloud = clouds.start("hetzner")
    run = box.start(spec_of(box, cloud, entrypoint={"run": "echo begun; sleep 1000"}))
    run.wait_text("begun(.|\\n)*begun")
    getattr(cloud, how)(cloud.machines()[1])
    r = run.wait()
    assert r.rc == 3 and "is gone" in r.err, r
    nothing_left(cloud)


# The ledger's events: wanted, held, intents, created, ready, complete, freed, returning, gone, over.
KILLED = ("hetzner", "lambda", "digitalocean", "aws", "gcp")


@pytest.mark.parametrize("name,at", some(*[(name, at, (name, at) in (("hetzner", 4), ("lambda", 6)))
                                           for name in KILLED for at in range(1, 12)]))
def test_a_kill_leaves_nothing_after_the_next_start(box, rhrun, clouds, name, at):
    cloud = clouds.start(name)
    spec = spec_of(box, cloud)
    assert rhrun(spec, env={"RHRUN_TEST_RENT_KILL": str(at)}).rc == -signal.SIGKILL
    r = rhrun("gc", "--yes").ok()
    assert cloud.machines() == [], r
    rhrun(spec).ok()
    nothing_left(cloud)
    assert results(box) == [["setup", "launch"]] * 2


@pytest.mark.parametrize("name,what", some(("hetzner", "hang", False), ("hetzner", "late", True), ("lambda", "hang", False), ("lambda", "late", False),
                                           ("digitalocean", "late", False), ("aws", "hang", False), ("aws", "late", False), ("gcp", "late", False)))
def test_a_create_that_outlives_its_sender(box, rhrun, clouds, name, what):
    """Its answer never comes; or it is carried out only when the next start has already looked once, and has seen nothing."""
    cloud = clouds.start(name)
    cloud.fault("create", what)
    run = box.start(spec_of(box, cloud))
    wait_for(lambda: cloud.waiting, what="the create")
    run.kill9()
    looks = len(cloud.of("list"))
    gc = box.start("gc", "--yes")
    wait_for(lambda: len(cloud.of("list")) > looks, what="a look")
    cloud.release()
    assert gc.wait().rc == 0 and len(cloud.instances) >= 1
    nothing_left(cloud)


def test_what_no_ledger_knows_is_swept_up(box, rhrun, clouds, tmp_path):
    """The disk with the ledgers is lost; the machines carry whose they are and until when."""
    cloud, spec = up(box, rhrun, clouds)
    lost = {"RHRUN_HOME": tmp_path / "other"}
    r = rhrun("gc", "--provider", "hetzner", env=lost).ok()
    assert len(cloud.machines()) == 2, r  # it only tells
    told = rhrun("gc", "--provider", "hetzner", "--yes", env=lost).ok()
    assert len(cloud.machines()) == 2 and "its time is not over" in told.err, told
    rhrun("gc", "--provider", "hetzner", "--all", "--yes", env={**lost, "USER": "somebody", "LOGNAME": "somebody"}).ok()
    assert len(cloud.machines()) == 2, "machines of another owner"
    rhrun("gc", "--provider", "hetzner", "--all", "--yes", env=lost).ok()
    assert cloud.machines() == []
    rhrun("down", spec).ok()
    nothing_left(cloud)


def test_interrupted_while_renting(box, clouds):
    cloud = clouds.start("hetzner")
    cloud.fault("create", "stuck", after=1)
    run = box.start(spec_of(box, cloud))
    wait_for(lambda: len(cloud.machines()) == 2, what="two machines")
    run.signal(signal.SIGINT)
    assert run.wait().rc == 130
    nothing_left(cloud)


def test_credentials_that_are_wrong_or_missing(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = spec_of(box, cloud)
    r = rhrun(spec, env={"HCLOUD_TOKEN": "wrong"})
    assert r.rc == 2 and "unable to authenticate" in r.err, r
    before = len(cloud.log)
    r = rhrun(spec, env={"HCLOUD_TOKEN": None})
    assert r.rc == 2 and "HCLOUD_TOKEN" in r.err and len(cloud.log) == before, r
    r = rhrun(spec_of(box, cloud, cluster={"max_price": 0.001}))
    assert r.rc == 2 and "max_price" in r.err and len(cloud.log) == before, r
    nothing_left(cloud, 0)


def test_idle_machines_are_given_back(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    rhrun(spec_of(box, cloud, cluster={"down": {"idle": "1s"}})).ok()
    assert len(cloud.machines()) == 2
    wait_for(lambda: rhrun("gc", "--yes").ok() and not cloud.machines(), what="the end of idle machines")
    nothing_left(cloud, 2)


@moto
def test_the_deadline_ends_machines_of_a_dead_controller(box, clouds):
    """Of a provider where a shutdown inside ends the bill."""
    cloud = clouds.start("aws")
    cloud.minute_s = 0.3  # they shut down 15 minutes after their deadline, which is the second of two ways
    run = box.start(spec_of(box, cloud, cluster={"max_hours": 0.001}, entrypoint={"run": "sleep 1000"}))
    wait_for(lambda: len(cloud.machines()) == 2 and all(i.machine.ready is not None for i in cloud.machines()), what="two machines")
    run.kill9()
    wait_for(lambda: not cloud.machines(), what="the machines' own end")
