"""provider: the requests that provider files describe are sent to services that the project did not write, and their answers are judged.

docker: a real Docker Engine. aws: moto's server (tests/e2e/clouds/moto.py), which checks each signature.
"""
import subprocess
import time

import pytest

from asking import Provider, Refused
from clouds import moto
from engine import IMAGE

pytestmark = pytest.mark.xdist_group("docker")


@pytest.fixture
def docker(engine):
    return Provider("docker", DOCKER_HOST=f"unix://{engine.socket}")


def container(run, node=0, **more):
    return {"run": run, "owner": "tests", "node": node, "name": f"rhrun-{run}-{node}", "image": IMAGE, "expires": int(time.time()) + 600,
            "max_seconds": 600, **more}


def test_a_container_comes_and_goes(engine, docker):
    known = docker.all("prepare", 5, run="one", owner="tests", unique="a")
    again = docker.all("prepare", 5, run="one", owner="tests", unique="b")  # no second network
    assert known["network"] == again["network"] == "one-a"
    assert engine.docker("network", "ls", "-q", "--filter", "label=rhrun-run=one").count("\n") == 0
    try:
        made = docker.all("create", 2, **{**known, **container("one")})
        machine, = docker.ask("list", run="one")["machines"]
        assert machine["id"] == made["id"] and machine["state"] == "ready" and machine["node"] == "0" and machine["owner"] == "tests"
        machine, = docker.ask("get", id=made["id"])["machines"]
        assert machine["state"] == "ready" and machine["name"] == "rhrun-one-0" and machine["run"] == "one"
        assert docker.ask("list", run="on")["machines"] == []
        assert [m["run"] for m in docker.ask("sweep")["machines"]] == ["one"]
        again = docker.ask("create", **{**known, **container("one")})
        assert (again["outcome"], again["class"]) == ("failed", "exists")
        docker.ask("create", 1, **container("one", id=made["id"]))  # what was adopted is started again: it runs already
        engine.docker("network", "create", "--label", "rhrun-run=one", "rhrun-one-0")  # a younger one, whose name comes first
        assert docker.all("prepare", 5, run="one", owner="tests", unique="c")["network"] == "one-a"
        engine.docker("network", "rm", "rhrun-one-0")
        busy = docker.ask("cleanup", 1, run="one", **docker.ask("cleanup", run="one")["values"])
        assert (busy["outcome"], busy["class"]) == ("failed", "transient")
    finally:
        for m in docker.ask("sweep")["machines"]:
            gone = docker.ask("delete", id=m["id"])
            assert gone["outcome"] == "done" or gone["class"] == "transient"
    end = time.monotonic() + 20
    while docker.ask("list", run="one")["machines"] and time.monotonic() < end:
        time.sleep(0.1)
    assert docker.ask("list", run="one")["machines"] == []
    assert docker.ask("delete", id=made["id"])["machines"] == [{"id": made["id"], "state": "gone"}]
    assert docker.ask("get", id=made["id"])["class"] == "notfound"
    docker.all("cleanup", 5, run="one")
    docker.all("cleanup", 5, run="one")


def test_errors_of_an_engine(docker):
    known = docker.all("prepare", 5, run="two", owner="tests", unique="a")
    bad = docker.ask("create", **{**known, **container("two", image="rhrun-there-is-none:1")})
    assert (bad["class"], bad["scope"]) == ("invalid", "run"), bad
    assert docker.ask("get", id="0123456789ab")["class"] == "notfound"
    docker.all("cleanup", 5, run="two")
    lost = docker.ask("create", **{**known, **container("two")})
    if lost["outcome"] == "done":  # some engines look at the network at the start
        lost = docker.ask("create", 1, **container("two", **lost["values"]))
    assert lost["outcome"] == "failed" and lost["class"] == "notfound", lost
    for m in docker.ask("list", run="two")["machines"]:
        docker.ask("delete", id=m["id"])


@pytest.fixture
def aws():
    server = moto.server()
    access_key, secret_key = moto.fresh()
    return Provider("aws", lambda host, path, body: moto.signed(host, path, body, access_key, secret_key), RHRUN_AWS_ENDPOINT=f"http://{server}")


def instance(run, count, **more):
    return {"run": run, "owner": "tests", "region": "us-east-1", "count": count, "name": f"rhrun-{run}", "type": "p4d.24xlarge",
            "image": "ami-12c6146b", "expires": 1700003600, "token": f"token-{run}", "user_data": "#!/bin/sh\n", **more}


def test_instances_come_and_go(aws):
    key = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/dev/stdout"], input=b"y\n", capture_output=True)
    public = [line for line in key.stdout.decode(errors="replace").splitlines() if line.startswith("ssh-ed25519 ")]
    known = {"region": "us-east-1", "run": "three", "owner": "tests", "key_name": "rhrun-three"}
    assert "key" not in aws.ask("key_list", **known)["values"]
    if public:
        known.update(aws.ask("key_create", public_key=public[0], **known)["values"])
        assert aws.ask("key_list", **known)["values"]["key"] == "rhrun-three"
        assert aws.ask("key_create", public_key=public[0], **known)["class"] == "exists"
    known = aws.all("prepare", 3, **known)
    assert aws.all("prepare", 3, **known)["security_group"] == known["security_group"]
    for spot in (False, True):
        made = aws.ask("create", **{**known, **instance("three", 2, spot=spot, disk_gb=100)})
        assert made["outcome"] == "done" and len(made["machines"]) == 2, made
        assert {m["run"] for m in made["machines"]} == {"three"} and {m["expires"] for m in made["machines"]} == {"1700003600"}
    made = aws.ask("list", **known)["machines"]
    assert len(made) == 4 and {m["state"] for m in made} == {"ready"} and {m["type"] for m in made} == {"p4d.24xlarge"}
    assert all(m["public_ip"] and m["private_ip"] and m["zone"].startswith("us-east-1") for m in made)
    assert len(aws.ask("sweep", **known)["machines"]) == 4 and aws.ask("list", **{**known, "run": "thre"})["machines"] == []
    one, = aws.ask("get", **known, id=made[0]["id"])["machines"]
    assert one["id"] == made[0]["id"] and one["state"] == "ready"
    for m in made:
        gone, = aws.ask("delete", **known, id=m["id"])["machines"]
        assert gone["state"] in ("failed", "gone")
    assert {m["state"] for m in aws.ask("list", **known)["machines"]} <= {"gone"}
    if "key" in known:
        aws.all("key_delete", 1, **known)
    assert "key" not in aws.ask("key_list", **known)["values"]
    aws.all("cleanup", 1, **known)
    aws.all("cleanup", 1, **known)


def test_errors_of_ec2(aws):
    where = {"region": "us-east-1"}
    assert aws.ask("get", id="i-0123456789abcdef0", **where)["class"] == "notfound"
    assert aws.ask("delete", id="i-0123456789abcdef0", **where)["class"] == "notfound"
    bad = aws.ask("create", **instance("four", 1, security_group="sg-00000000"))
    assert bad["outcome"] == "failed" and bad["class"] in ("invalid", "notfound"), bad
    with pytest.raises(Refused, match="security_group"):
        aws.ask("create", **instance("four", 1))
