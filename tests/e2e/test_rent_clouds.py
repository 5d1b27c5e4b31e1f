"""Whole jobs on machines that are rented from the test clouds: two nodes, set-up, launch, outputs, all given back; and the faults on
the way. Whatever happens, the cloud lists nothing of the run at the end."""
import json
import signal
import time

import pytest

from clouds import NAMES
from clouds.machine import free
from harness import wait_for

moto = pytest.mark.xdist_group("moto")
each = pytest.mark.parametrize("name", [pytest.param(n, marks=moto) if n == "aws" else n for n in NAMES])


def some(*cases):
    """Cases (name, ...): those marked by True at their end run always, the others in scripts/soak."""
    marks = {"aws": [moto]}
    return [pytest.param(*case[:-1], marks=marks.get(case[0], []) + ([] if case[-1] else [pytest.mark.soak])) for case in cases]


def nodes_of(name):
    return 1 if name == "runpod" else 2  # pods reach each other only in clusters of RunPod's own


# The events on a machine go home under this name. It is one file, so that no two workers of a machine race to write a copy.
KEEP = "mkdir -p out; ln $HOME/lines out/lines 2>/dev/null || [ out/lines -ef $HOME/lines ]"


def spec_of(box, cloud, nnodes=None, cluster=None, **more):
    n = nnodes or nodes_of(cloud.name)
    return box.spec({
        "name": "rented", "cluster": {k: v for k, v in {"instance": cloud.offers[0][2], "provider": cloud.name, "max_price": 20, "max_hours": 1,
                                                        **(cluster or {})}.items() if v is not None},
        "setup": [{"name": "s", "run": "echo setup >>$HOME/lines; hostname"}],
        "entrypoint": {"run": f"echo launch >>$HOME/lines; {KEEP}; echo rank $RANK of $WORLD_SIZE"},
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


# Faults that must not matter: afterwards the job is done, and no machine is left.
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


@pytest.mark.parametrize("how", some(("kill", True), ("vanish", False)))
def test_a_machine_that_is_gone_ends_the_job(box, clouds, how):
    cloud = clouds.start("hetzner")
    run = box.start(spec_of(box, cloud, entrypoint={"run": "echo begun; sleep 1000"}))
    run.wait_text("begun(.|\\n)*begun")
    getattr(cloud, how)(cloud.machines()[1])
    r = run.wait()
    assert r.rc == 3 and "is gone" in r.err, r
    nothing_left(cloud)


@pytest.mark.parametrize("name,how", some(("hetzner", "kill", True), ("hetzner", "vanish", False), ("lambda", "kill", False), ("aws", "kill", True)))
def test_a_rule_replaces_a_machine_that_was_terminated(box, clouds, name, how):
    """Its node is lost at once, and the provider is asked at once."""
    cloud = clouds.start(name)
    rule = {"match": {"event": "node_lost"}, "action": "replace_node", "times": 1}
    wait = "echo launch >>$HOME/lines; [ $TORCHELASTIC_RESTART_COUNT != 0 ] || { echo begun; sleep 1000; }; " + KEEP
    run = box.start(spec_of(box, cloud, entrypoint={"run": wait}, failure_rules=[rule]))
    run.wait_text("begun(.|\\n)*begun")
    getattr(cloud, how)(cloud.machines()[1])
    r = run.wait()
    assert r.rc == 0 and "replace_node, since node" in r.err and "renting another machine" in r.err, r
    assert sorted(results(box)) == [["setup", "launch"], ["setup", "launch", "launch"]]
    assert len(cloud.instances) == 3
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
    """Its answer never comes; or it is carried out only after the next start has listed once, and found nothing."""
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
    """The disk with the ledgers is lost; the machines carry their owner and deadline."""
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
    r = rhrun(spec_of(box, cloud, cluster={"max_price": 0.001}))
    assert r.rc == 2 and "max_price" in r.err and cloud.log == [], r
    spec = spec_of(box, cloud)
    r = rhrun(spec, env={"HCLOUD_TOKEN": "wrong"})
    assert r.rc == 2 and "unable to authenticate" in r.err, r
    before = len(cloud.log)
    r = rhrun(spec, env={"HCLOUD_TOKEN": None})
    assert r.rc == 2 and "HCLOUD_TOKEN" in r.err and len(cloud.log) == before, r
    nothing_left(cloud, 0)


def test_idle_machines_are_given_back(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    rhrun(spec_of(box, cloud, cluster={"down": {"idle": "1s"}})).ok()
    assert len(cloud.machines()) == 2
    wait_for(lambda: rhrun("gc", "--yes").ok() and not cloud.machines(), what="the end of idle machines")
    nothing_left(cloud, 2)


@moto
def test_the_deadline_ends_machines_of_a_dead_controller(box, clouds):
    """At a provider where a shutdown from inside ends the bill."""
    cloud = clouds.start("aws")
    cloud.minute_s = 0.3  # they shut down 15 minutes after their deadline, which is the second of two ways
    run = box.start(spec_of(box, cloud, cluster={"max_hours": 0.001}, entrypoint={"run": "sleep 1000"}))
    wait_for(lambda: len(cloud.machines()) == 2 and all(i.machine.ready is not None for i in cloud.machines()), what="two machines")
    run.kill9()
    wait_for(lambda: not cloud.machines(), what="the machines' own end")


# ---- any_of ----

ANY_OF = [{"instance": "cx32", "nnodes": 3}, {"instance": "cx22", "nnodes": 2, "nproc_per_node": 2}]


def any_of(box, cloud, **cluster):
    with open(box.home / ".config/rhrun/catalog.csv", "a", encoding="utf-8") as rows:
        rows.write(f"{cloud.name},fsn1,,cx32,,0,4,8,0.01,,test,2026-01-01\n")
    return spec_of(box, cloud, nnodes=1, cluster={"instance": None, "any_of": ANY_OF, **cluster})


def types(cloud):
    return [i.facts["type"] for i in cloud.instances]


def test_the_first_alternative_that_can_be_had_is_taken(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = any_of(box, cloud)
    shown = rhrun("plan", "--offline", spec).ok().out
    assert "3 × cx32" in shown and "2 × cx22" in shown and "plan is for alternative 1" in shown, shown
    r = rhrun(spec).ok()
    assert types(cloud) == ["cx32"] * 3 and all(f"rank {i} of 3" in r.out for i in range(3)) and "planned for it" not in r.err, r
    nothing_left(cloud, 3)


def test_another_alternative_has_its_own_counts(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = any_of(box, cloud)
    cloud.fault("create", "capacity", after=1)  # of three nodes the second one
    r = rhrun(spec).ok()
    assert types(cloud).count("cx22") == 2 and all(f"rank {i} of 4" in r.out for i in range(4)), r
    assert "could not rent 3 × cx32" in r.err and "alternative 2 of any_of is rented" in r.err, r
    assert len(results(box)) == 2 and all(r[0] == "setup" and r.count("launch") == 2 for r in results(box))
    nothing_left(cloud)
    made = len(cloud.instances)
    again = rhrun(spec).ok()  # it is done, though today the first one could be had
    assert "nothing to do" in again.err and len(cloud.instances) == made, again
    assert "plan is for alternative 2" not in rhrun("plan", "--offline", spec).ok().out  # nothing is rented
    assert json.loads(rhrun("plan", "--offline", "--json", spec).ok().out)["rent"]["alternative"] == 2


# wanted, held, three intents, created, retreat, returning, gone, two intents, ...: the machines that were kept are of the second.
@pytest.mark.parametrize("at", [4, 9, 12, 15, 17])
def test_a_kill_does_not_change_the_alternative(box, rhrun, clouds, at):
    cloud = clouds.start("hetzner")
    spec = any_of(box, cloud, down="never")
    cloud.fault("create", "capacity", after=1)
    first = rhrun(spec, env={"RHRUN_TEST_RENT_KILL": str(at)})
    assert first.rc == -signal.SIGKILL, first
    r = rhrun(spec).ok()
    assert all(f"rank {i} of 4" in first.out + r.out for i in range(4)), r
    assert [i.facts["type"] for i in cloud.machines()] == ["cx22"] * 2
    assert sorted(rhrun("ssh", spec, n, "--", "hostname").ok().out.strip() for n in "01") == sorted(i.name for i in cloud.machines())
    assert "nothing to do" in rhrun(spec).ok().err and "rank 3 of 4" in rhrun("--again", spec).ok().out
    rhrun("down", spec).ok()
    nothing_left(cloud)


def test_up_of_an_alternative_is_used_by_the_run(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = any_of(box, cloud, down="never")
    cloud.fault("create", "capacity")
    assert "renting 2 × cx22" in rhrun("up", spec).ok().err
    made = len(cloud.instances)
    r = rhrun(spec).ok()
    assert "rank 3 of 4" in r.out and len(cloud.instances) == made and "renting" not in r.err, r
    other = any_of(box, cloud, any_of=ANY_OF[::-1])
    assert "a cluster of another kind" in rhrun("--again", other).expect(2).err
    rhrun("down", spec).ok()
    nothing_left(cloud)


def test_no_alternative_can_be_had(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    cloud.fault("create", "capacity", times=100)
    r = rhrun(any_of(box, cloud)).expect(3)
    assert "could not rent 3 × cx32" in r.err and "could not rent 2 × cx22" in r.err, r
    nothing_left(cloud)


def test_an_sshd_that_starts_anew_is_awaited(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    spec = spec_of(box, cloud, nnodes=1, cluster={"down": "never"})
    rhrun(spec).ok()
    (machine,) = [i.machine for i in cloud.machines()]

    def listen(port):
        machine.run("sh", "-c", f"sed -i 's/^ListenAddress .*/ListenAddress {machine.address}:{port}/' /etc/ssh/sshd_config; "
                    "kill -HUP $(cat /run/sshd.pid)")
        wait_for(lambda: free(machine.address, 22) == (port != 22), what="sshd to listen elsewhere")

    listen(2222)
    run = box.start("--again", spec)
    time.sleep(2)
    assert run.alive, run.wait()
    listen(22)
    run.wait().ok()
    rhrun("down", spec).ok()


# ---- costs ----

def usd(rhrun, *args):
    return [row["usd"] for row in rhrun("runs", "--json", *args).ok().json()]


def test_a_run_says_what_it_has_cost(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    plain = box.spec({"name": "plain", "entrypoint": {"run": "true"}}, name="plain.yaml")
    rhrun(plain).ok()
    assert usd(rhrun) == [None] and "COST" not in rhrun("runs").ok().out
    spec = spec_of(box, cloud)
    rhrun(spec).ok()
    (cost,) = usd(rhrun, spec)
    (over,) = json.loads(rhrun("clusters", "--all", "--json").ok().out)
    assert cost == over["usd_so_far"] > 0  # all of it, from the first machine to the last that was gone
    table = rhrun("runs").ok().out.splitlines()
    assert table[0].split()[-3:] == ["COST", "PARAMS,", "OPTIONS"] and "$0.01" in table[1] and "$" not in table[2] and " -" in table[2], table


def test_runs_of_a_kept_cluster_share_its_cost(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    with open(box.home / ".config/rhrun/catalog.csv", "a", encoding="utf-8") as rows:
        rows.write("hetzner,nbg1,,cx22,,0,2,4,360,,dear,2026-01-01\n")
    spec = spec_of(box, cloud, cluster={"down": {"idle": "30m"}, "regions": "nbg1", "max_price": 900})
    first = rhrun(spec).ok()
    id = json.loads(rhrun("clusters", "--json").ok().out)[0]["id"]
    assert "the machines stay rented for 30 m 00 s, until 20" in first.err and "at $720.00 an hour" in first.err, first
    assert f"rhrun down {id} gives them back" in first.err and "rhrun gc --yes" in first.err and "max_hours end at 20" in first.err, first
    rhrun("--again", spec).ok()
    costs = usd(rhrun, spec)
    assert len(costs) == 2 and all(c > 0 for c in costs)
    rhrun("down", spec).ok()
    assert usd(rhrun, spec) == costs  # what was kept between runs and after them is the cluster's
    assert sum(costs) < json.loads(rhrun("clusters", "--all", "--json").ok().out)[0]["usd_so_far"]
    assert "stay rented" not in rhrun("--again", spec, "--set", "cluster.down=always").ok().err


# ---- cluster: NAME ----

def borrows(box, nnodes=2, cluster="rented", run="echo borrowed $RANK of $WORLD_SIZE on $(hostname)", name="guest"):
    return box.spec({"name": name, "cluster": cluster, "setup": [{"name": "s", "run": "echo guest >>$HOME/lines"}], "entrypoint": {"run": run},
                     "distributed": {"nnodes": nnodes}}, name=f"{name}.yaml")


def held_by(rhrun):
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    return c["held_by"]


def test_a_job_on_another_jobs_cluster(box, rhrun, clouds):
    cloud, own = up(box, rhrun, clouds)
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    guest = borrows(box)
    rhrun("validate", guest).ok()
    r = rhrun(guest).ok()
    assert all(f"borrowed {i} of 2 on {m.name}" in r.out for i, m in enumerate(sorted(cloud.machines(), key=lambda m: m.name))), r
    assert f"rhrun down {c['id']} gives them back" in r.err and held_by(rhrun) is None
    assert "borrowed" in rhrun("--again", borrows(box, 1, cluster=c["id"], name="other")).ok().out
    assert rhrun("ssh", guest, "1", "--", "hostname").ok().out.strip() in [m.name for m in cloud.machines()]
    assert "rank 1 of 2" in rhrun(own).ok().out  # its own job, too
    assert len(cloud.of("create")) == 2 and len(cloud.machines()) == 2
    assert f"rhrun down rented" in rhrun("down", guest).expect(2).err and len(cloud.machines()) == 2
    assert "rents no machines" in rhrun("up", guest).expect(2).err
    r = rhrun("--again", borrows(box, 3)).expect(2)
    assert "3 nodes" in r.err and "2 machines" in r.err, r
    rhrun("down", own).ok()
    nothing_left(cloud, 2)
    assert "nothing to do" in rhrun(borrows(box)).ok().err  # what is done needs no cluster
    r = rhrun("--again", borrows(box)).expect(2)
    assert 'there is no cluster "rented"' in r.err and "rhrun up" in r.err and len(cloud.of("create")) == 2, r


def test_no_such_cluster(box, rhrun, clouds):
    cloud, own = up(box, rhrun, clouds)
    r = rhrun(borrows(box, cluster="rentd")).expect(2)
    assert 'there is no cluster "rentd"' in r.err and "there are rented (" in r.err, r
    assert 'warning: there is no cluster "rentd"' in rhrun("plan", "--offline", borrows(box, cluster="rentd")).ok().err
    assert not rhrun("plan", "--offline", borrows(box)).ok().err
    (box.work / "clusters").mkdir()
    (box.work / "clusters/rente.yaml").write_text("hosts: [nowhere]\n")
    assert "did you mean rente?" in rhrun("validate", borrows(box, cluster="rentd")).expect(2).err
    assert "borrowed 1 of 2" in rhrun(borrows(box)).ok().out  # its name is near to the file's, and it is there
    r = rhrun("--again", borrows(box), "--set", 'failure_rules=[{match: {event: node_lost}, action: replace_node}]').expect(2)
    assert "replace_node" in r.err, r
    rhrun("down", own).ok()
    nothing_left(cloud, 2)


def test_a_cluster_is_used_by_one_job_at_a_time(box, rhrun, clouds):
    cloud, own = up(box, rhrun, clouds, down={"idle": "1s"})
    first = box.start(borrows(box, run="echo begun; sleep 1000"))
    first.wait_text("begun(.|\\n)*begun")
    for spec in (borrows(box, name="second"), own):
        r = rhrun(spec).expect(4)
        assert "job guest: " in r.err or "held" in r.err or "in use" in r.err, r
    assert "job guest: " in rhrun(borrows(box, name="second")).expect(4).err
    rhrun("gc", "--yes").ok()
    assert len(cloud.machines()) == 2
    first.signal(signal.SIGINT)
    assert first.wait().rc == 130 and len(cloud.machines()) == 2  # an interrupt of a guest gives nothing back
    wait_for(lambda: rhrun("gc", "--yes").ok() and not cloud.machines(), what="the end of idle machines")
    nothing_left(cloud, 2)


def test_a_guest_that_was_killed(box, rhrun, clouds):
    cloud, own = up(box, rhrun, clouds)
    spec = borrows(box, run="echo begun; while [ ! -e $HOME/go ]; do sleep 0.1; done; echo ended")
    first = box.start(spec)
    first.wait_text("begun(.|\\n)*begun")
    first.kill9()
    for other in (borrows(box, name="second"), own):  # its workers go on
        r = rhrun(other).expect(4)
        assert "job guest: " in r.err and "rhrun gc --yes" in r.err, r
    again = box.start(spec)
    for m in cloud.machines():
        m.machine.run("touch", "/root/go")
    r = again.wait()
    assert r.rc == 0 and r.out.count("ended") == 2, r
    assert held_by(rhrun) is None and len(cloud.machines()) == 2
    second = box.start(borrows(box, name="second", run="echo begun; sleep 1000"))
    second.wait_text("begun(.|\\n)*begun")
    second.kill9()
    rhrun("gc", "--yes").ok()
    assert held_by(rhrun) is None and len(cloud.machines()) == 2  # it is freed, and kept
    rhrun("down", own).ok()
    nothing_left(cloud, 2)
