"""A provider that is not built in: one file of the user's, written from docs/adding-a-provider.md, and its prices."""
import json
import pathlib

import clouds as package
from test_rent_clouds import nothing_left, results, spec_of

FILE = pathlib.Path(package.__file__).parent / "vultr.yaml"


def test_its_file_is_checked(rhrun):
    rhrun("validate", "--schema", "provider", FILE).ok()


def test_a_whole_job(box, rhrun, clouds):
    cloud = clouds.start("vultr")
    spec = spec_of(box, cloud)
    plan = rhrun("plan", spec).ok()
    assert "vultr vc2-2c-4gb" in plan.out and "if this machine dies, vultr: the instance bills until it is deleted" in plan.out, plan
    r = rhrun(spec).ok()
    assert all(f"rank {i} of 2" in r.out for i in range(2)), r
    assert results(box) == [["setup", "launch"]] * 2
    nothing_left(cloud, 2)
    assert "nothing to do" in rhrun(spec).ok().err and len(cloud.instances) == 2
    for where, data in {**box.logs(), "what it has said": r.text.encode()}.items():
        assert not any(secret.encode() in data for secret in cloud.secrets()), where


def test_where_none_can_be_had_the_next_region_is_tried(box, rhrun, clouds):
    cloud = clouds.start("vultr")
    cloud.fault("create", "capacity", after=1)
    r = rhrun(spec_of(box, cloud)).ok()
    assert "could not rent" in r.err and "ams" in r.err, r
    nothing_left(cloud)


def test_killed_while_it_rents_gc_gives_back(box, rhrun, clouds):
    cloud = clouds.start("vultr")
    cloud.fault("create", "drop_after")
    rhrun("up", spec_of(box, cloud), env={"RHRUN_TEST_RENT_KILL": "5"})
    rhrun("gc", "--yes").ok()
    nothing_left(cloud)


def test_gc_finds_its_machines_without_a_ledger(box, rhrun, clouds):
    cloud = clouds.start("vultr")
    rhrun("up", spec_of(box, cloud, cluster={"down": "never"})).ok()
    (box.state / "clusters").rename(box.dir / "lost")
    r = rhrun("gc", "--provider", "vultr", "--region", "ewr", "--all", "--yes").ok()
    assert cloud.machines() == [], r


def test_its_prices(box, rhrun, clouds):
    clouds.start("vultr")
    rhrun("prices", "--refresh", "--provider", "vultr").ok()
    rows = json.loads(rhrun("prices", "cpu:1+", "--provider", "vultr", "--json").ok().out)
    assert {(r["region"], r["instance_type"], r["vcpus"], r["memory_gib"]) for r in rows} >= {("ams", "vc2-1c-1gb", 1, 1), ("ewr", "vc2-1c-1gb", 1, 1)}, rows
    assert {round(r["price_usd_hour"], 4) for r in rows if r["instance_type"] == "vc2-1c-1gb"} == {0.0074}, rows
