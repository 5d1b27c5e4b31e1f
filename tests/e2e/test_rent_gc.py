"""How rhrun finds machines again, or gives them back, if ledgers are lost, damaged or were never complete."""
import json
import shutil
import signal
import time

import pytest

from harness import wait_for
from test_rent_clouds import moto, nothing_left, spec_of, up

LONG, ALIKE = "a-researcher-of-note", "a-researcher-of-nothing"


def swept(rhrun, name, home, user):
    return rhrun("gc", "--provider", name, "--all", "--yes", env={"RHRUN_HOME": home, "USER": user, "LOGNAME": user}).ok()


@pytest.mark.parametrize("name", ("lambda", "runpod"))
def test_an_owner_with_a_long_name_finds_what_is_theirs(box, rhrun, clouds, tmp_path, name):
    """Without tags the owner is in the machine's name, which has little room."""
    cloud = clouds.start(name)
    rhrun("up", spec_of(box, cloud, nnodes=1, cluster={"down": "never"}), env={"USER": LONG, "LOGNAME": LONG}).ok()
    r = swept(rhrun, name, tmp_path / "other", ALIKE)
    assert len(cloud.machines()) == 1 and "another owner" in r.err, r
    r = swept(rhrun, name, tmp_path / "other", LONG)
    assert cloud.machines() == [], r
    rhrun("gc", "--yes").ok()


@pytest.mark.parametrize("user", ("_www", "Größe", "日本", "a.b", "-"))
def test_an_owner_of_any_name_can_rent(box, rhrun, clouds, tmp_path, user):
    cloud = clouds.start("hetzner")
    rhrun("up", spec_of(box, cloud, nnodes=1, cluster={"down": "never"}), env={"USER": user, "LOGNAME": user}).ok()
    swept(rhrun, "hetzner", tmp_path / "other", user)
    assert cloud.machines() == []


def folder_of(box, rhrun):
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    return box.state / "clusters" / c["id"]


@pytest.mark.parametrize("ledger", (None, b""))
def test_a_ledger_that_was_never_begun_is_in_nobodys_way(box, rhrun, clouds, ledger):
    """Its rhrun was killed after it had made the folder, or the file, and before the first event."""
    cloud, spec = up(box, rhrun, clouds)
    half = folder_of(box, rhrun).parent / "0000half0000"
    half.mkdir(mode=0o700)
    if ledger is not None:
        (half / "ledger.db").write_bytes(ledger)
    assert len(json.loads(rhrun("clusters", "--json").ok().out)) == 1
    assert "nothing to give back" in rhrun("gc", "--yes").ok().err
    rhrun(spec).ok()
    rhrun("down", "rented").ok()
    nothing_left(cloud)
    rhrun("down", "--all").ok()


def test_a_damaged_ledger_is_told_and_its_machines_are_left_alone(box, rhrun, clouds):
    cloud, _ = up(box, rhrun, clouds)
    folder = folder_of(box, rhrun)
    kept = folder.parent / "kept"
    shutil.copytree(folder, kept)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        if (folder / name).exists():
            (folder / name).write_bytes(b"damage" * 100)
    r = rhrun("gc", "--provider", "hetzner", "--all", "--yes").expect(3)
    assert len(cloud.machines()) == 2, r
    assert "keep the file: machines of this cluster may still be rented" in r.err and "left alone" in r.err, r
    # It blocks no other cluster.
    other = spec_of(box, cloud, nnodes=1, name="other", cluster={"down": "never"})
    rhrun("up", other).expect(0)
    assert len(cloud.machines()) == 3
    rhrun("down", "other").ok()
    assert len(cloud.machines()) == 2
    shutil.rmtree(folder)
    kept.rename(folder)
    rhrun("down", "rented").ok()
    nothing_left(cloud)


@moto
def test_every_region_is_asked_whatever_another_answers(box, rhrun, clouds, tmp_path):
    cloud = clouds.start("hetzner")
    aws = clouds.start("aws")
    rhrun("up", spec_of(box, aws, nnodes=1, cluster={"down": "never"})).ok()
    region = aws.offers[0][0]
    lost = {"RHRUN_HOME": tmp_path / "other"}
    cloud.fault("sweep", "auth", times=100)
    r = rhrun("gc", "--provider", "hetzner", "--provider", "aws", "--region", region, "--all", "--yes", env=lost).expect(2)
    assert aws.machines() == [] and "unable to authenticate" in r.err, r
    r = rhrun("gc", "--provider", "aws", "--yes", env=lost)
    assert r.rc != 0 and "--region" in r.err, r
    rhrun("gc", "--yes").ok()


def test_what_costs_nothing_is_no_yes_to_what_costs(box, rhrun, clouds):
    """The first offer is free; if it is not available the next one is rented, for money."""
    cloud = clouds.start("hetzner")
    spec = spec_of(box, cloud, nnodes=1, cluster={"provider": ["docker", "hetzner"], "instance": "cpu:2", "max_price": None})
    text = spec.read_text().replace('"max_price": null,', "")
    spec.write_text(text)
    r = rhrun("up", spec, env={"DOCKER_HOST": "unix:///nowhere"}).expect(2)
    assert "nothing is rented without a yes" in r.err and "up to 1 × cx22 at hetzner nbg1, $0.007 an hour" in r.err, r
    assert cloud.of("create") == []


@pytest.mark.soak
def test_a_zone_that_does_not_answer_hides_its_machines(box, rhrun, clouds):
    """The list comes without them, and says so: they do not count as gone."""
    cloud, spec = up(box, rhrun, clouds, "gcp")
    cloud.unreachable = cloud.machines()[0].facts["zone"]
    down = box.start("down", spec)
    down.wait_text(f"zones/{cloud.unreachable}; it is tried again")
    wait_for(lambda: len(cloud.of("list")) > 4, what="looks")
    assert down.alive and len(cloud.machines()) == 2
    cloud.unreachable = None
    assert down.wait().rc == 0
    nothing_left(cloud)


@moto
def test_a_spot_machine_costs_no_more_than_its_part_of_max_price(box, rhrun, clouds):
    cloud = clouds.start("aws")
    rhrun("up", spec_of(box, cloud, cluster={"use_spot": True, "max_price": 0.5, "down": "never"})).ok()
    (form,) = [request.form for request in cloud.of("create")]
    assert form["InstanceMarketOptions.SpotOptions.MaxPrice"] == "0.250000", form
    rhrun("down", "rented").ok()
    nothing_left(cloud)


@pytest.mark.parametrize("command", ("up", "down", "gc"))
def test_the_terminals_end_leaves_nothing_half_done(box, rhrun, clouds, command):
    cloud = clouds.start("hetzner")
    spec = spec_of(box, cloud, cluster={"down": "never"})
    if command == "down":
        rhrun("up", spec).ok()
    if command == "gc":
        rhrun("up", spec, env={"RHRUN_TEST_RENT_KILL": "4"})
    cloud.fault("create" if command == "up" else "list", "hang")
    run = box.start(command, *(["--yes"] if command == "gc" else [spec]))
    wait_for(lambda: cloud.waiting, what="a request")
    run.signal(signal.SIGHUP)
    time.sleep(0.2)
    cloud.release()
    assert run.wait().rc == 0
    if command == "up":
        assert len(cloud.machines()) == 2
        rhrun("down", spec).ok()
    nothing_left(cloud)


@pytest.mark.parametrize("told", ("by the answer", "by the list"))
def test_what_the_provider_asks_is_held_to_max_price(box, rhrun, clouds, told):
    """The price list is older than the price."""
    cloud = clouds.start("digitalocean")
    cloud.sizes = {**cloud.sizes, "c-2": 0.07}
    if told == "by the list":
        cloud.fault("create", "drop_after")
    r = rhrun("up", spec_of(box, cloud, cluster={"max_price": 0.13})).expect(3)
    assert "the provider asks $0.07 an hour for" in r.err and "which is more than max_price allows" in r.err, r
    assert "could not rent 2 × c-2 at digitalocean ams3" in r.err, r
    assert not any(word in r.err for word in ("ready after", "warning: digitalocean asks")), r
    nothing_left(cloud)


def test_what_the_provider_asks_is_told_and_counted(box, rhrun, clouds):
    cloud = clouds.start("digitalocean")
    cloud.sizes = {**cloud.sizes, "c-2": 2.5}
    spec = spec_of(box, cloud, cluster={"down": "never"})
    r = rhrun("up", spec).ok()
    assert r.err.count("warning: digitalocean asks $2.50 an hour for") == 2 and "and the price list has $0.07 an hour" in r.err, r
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    assert c["usd_per_hour"] == 5.0, c
    assert "digitalocean asks" not in rhrun("up", spec).ok().err
    rhrun("down", "rented").ok()
    nothing_left(cloud)
