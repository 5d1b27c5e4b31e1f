"""The keys of a spec for renting: every refusal, and the plan as text and JSON. No provider is asked."""
import json
import re
import socket

import pytest

from harness import ROOT, check_schema

HEADER = "provider,region,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"
ROWS = ("aws,us-east-1,q1,Q9,8,96,1152,20,,mine,2026-07-20\n"
        "gcp,us-central1,q2,Q9,8,96,680,30,15.5,theirs,2026-08-03\n"
        "lambda,us-south-1,q3,Q9,8,96,680,18,,mine,2026-08-03\n")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret-of-nobody", "LAMBDA_API_KEY": "another-secret",
               "GOOGLE_APPLICATION_CREDENTIALS": "/dev/null"}
ENTRY = "setup: [{run: make}]\nentrypoint: {run: train}\n"


@pytest.fixture
def rented(box, rhrun):
    """plan (or another command) of a spec with this cluster, with prices of the test's own."""
    path = box.home / ".config/rhrun/catalog.csv"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + ROWS)

    def call(cluster, *args, command="plan", more=ENTRY, env=None):
        return rhrun(command, box.spec(f"cluster: {cluster}\n{more}"), *args, env=env or {})
    return call


# ---- refusals ----

@pytest.mark.parametrize("cluster, words", [
    ("{instance: 'Q9:8', hosts: [a]}", ["cluster has both hosts and instance", "instance is here", ":1:29: error", ":1:11: note"]),
    ("{provider: aws, hostfile: x}", ["cluster has both hostfile and provider", "provider is here"]),
    ("{instance: 'Q9:8', identity_file: k}", ["identity_file beside instance", "rhrun makes the key", "instance is here"]),
    ("{hosts: [a], max_price: 3}", ["max_price is a key of rented machines", "hosts is here"]),
    ("{max_hours: 3}", ["max_hours is a key of rented machines, but this cluster names no machine to rent"]),
    ("{instance: 'Q9:8', provider: awss}", ['there is no provider "awss"', "did you mean aws?", ":1:39: error"]),
    ("{instance: 'Q99:8'}", ['there is no accelerator "Q99"', "did you mean Q9?", ":1:21: error"]),
    ("{instance: 'Q9:3'}", ["the catalog has no machine with Q9:3", "there are Q9:8"]),
    ("{instance: 'Q9:8', provider: lambda, use_spot: true}", ["Lambda Cloud has no spot machines", "use_spot: prefer", "provider is here"]),
    ("{instance: 'Q9:8', regions: us-west-9}", ["no price of Q9:8 in us-west-9", "did you mean us-east-1?", "instance is here"]),
    ("{instance: 'Q9:8', max_price: 17}", ["within max_price 17.00 USD per hour", "the cheapest costs 18.00"]),
    ("{instance: 'Q9:8', max_price: 0}", ['"max_price" cannot be 0', "USD per hour above 0"]),
    ("{instance: 'Q9:8', max_hours: -1}", ['"max_hours" cannot be -1', "a number of hours above 0, or none"]),
    ("{instance: 'Q9:8', use_spot: maybe}", ['use_spot cannot be "maybe"', "true, false or prefer"]),
    ("{instance: 'Q9:8', down: soon}", ['down cannot be "soon"', "{idle: 30m}"]),
    ("{provider: aws}", ["provider without instance", 'instance: "A100:8"']),
    ("{provider: docker, instance: 'Q9:8'}", ["Docker Engine has no Q9:8", "leave instance out"]),
    ("{any_of: []}", ["any_of"]),
    ("{any_of: [{instance: 'Q9:8'}, {instance: 'Q99:8'}]}", ['there is no accelerator "Q99"', "did you mean Q9?", ":1:51: error"]),
    ("{any_of: [{instance: 'Q9:8'}, {instance: 'Q9:8', regions: us-west-9}]}", ["no price of Q9:8 in us-west-9", ":1:68: error"]),
    ("{any_of: [{instance: 'Q9:8', nnodes: 2}]}", ["nnodes without distributed"]),
], ids=lambda v: v if isinstance(v, str) else "")
def test_refused(rented, cluster, words):
    for command in ("plan", "validate"):
        r = rented(cluster, command=command).expect(2)
        assert "job.yaml:1:" in r.err
        for word in words:
            assert word in r.err, r


def test_a_role_does_not_rent(rented):
    r = rented("local", more="roles: {a: {count: 1, cluster: {instance: 'Q9:8'}, entrypoint: {run: x}}}\n").expect(2)
    assert 'role "a" has a rented cluster of its own, which this version of rhrun cannot do' in r.err


def test_faults_are_json_too(rented):
    faults = rented("{instance: 'Q99:8'}", "--json", command="validate").expect(2).json()
    assert faults[0]["line"] == 1 and faults[0]["column"] == 21 and "Q9" in faults[0]["hint"]


def test_on_replaces_what_is_rented(rented):
    assert '"rent"' not in rented("{instance: 'Q9:8'}", "--json", "--on", "local").ok().out
    r = rented("{instance: 'Q9:8', user: me}", "--json", "--offline", "--on", "me@gpu1").ok().json()
    assert "rent" not in r and r["nodes"][0]["name"] == "me@gpu1"


# ---- the plan ----

def normal(text):
    return re.sub(r" +\d+ d ", " AGE ", text)


def test_plan_as_text(rented):
    r = rented("{instance: 'Q9:8', provider: [aws, lambda], use_spot: prefer, max_hours: 12, down: {idle: 30m}}",
               more="distributed: {nnodes: 2, nproc_per_node: 8}\n" + ENTRY, env=CREDENTIALS).ok()
    top = normal(r.out).split("\n  16 ranks")[0]
    catalog = re.search(r"\((/\S*catalog.csv)\)", r.out).group(1)
    top = re.sub(r"\(\S*job.yaml\)", "(job.yaml)", top)
    assert top == f"""job (job.yaml): 3 steps on 2 nodes, 3 to do

  run         rent    2 nodes         aws q1, spot
  run         run-1   0-1             make
  run         launch  0-1             train

  rent tries in this order (prices are for all 2 nodes)
    PROVIDER  REGION      TYPE        USD/H   IN 12 H      AGE
    aws       us-east-1   q1, spot  <=40.00  <=480.00 AGE [1]
    lambda    us-south-1  q3          36.00    432.00 AGE [1]
    aws       us-east-1   q1          40.00    480.00 AGE [1]
    [1] mine ({catalog})
    worst case: 480.00 USD, the most expensive offer for all 12 h
    given back: once no run has used them for 30 min, after 12 h at the latest
    if this machine dies, aws: the machine shuts down at its deadline, and that terminates it
    if this machine dies, lambda: the machine bills until it is terminated; run rhrun gc from another machine
""", r.out


def test_plan_as_json(rented):
    plan = rented("{instance: 'Q9:8', max_price: 50, max_hours: 0.5}", "--json", env=CREDENTIALS).ok().json()
    check_schema(plan, "plan.schema.json")
    rent = plan["rent"]
    assert [(o["provider"], o["usd_hour"], o["usd_until_end"]) for o in rent["offers"]] == [("lambda", 18, 9), ("aws", 20, 10)]
    assert rent["verdict"] == "run" and rent["max_hours"] == 0.5 and rent["max_price"] == 50 and rent["worst_case_usd"] == 10
    assert rent["offers"][0]["as_of"] == "2026-08-03" and rent["offers"][0]["source"].startswith("mine (")
    assert [p["name"] for p in rent["providers"] if not p["left_out"]] == ["lambda", "aws"] and rent["missing"] is None
    assert "shuts down at its deadline" in rent["providers"][1]["risk"]
    again = rented("{instance: 'Q9:8', max_price: 50, max_hours: 0.5}", "--json", "--offline", env=CREDENTIALS).ok().json()
    assert again == plan


def test_alternatives_come_one_after_the_other(rented):
    cluster = "{provider: [aws, lambda], any_of: [{instance: 'Q9:8', nnodes: 2}, {instance: q2, provider: gcp}], max_hours: 1}"
    more = "distributed: {nnodes: 3, nproc_per_node: 8}\n" + ENTRY
    plan = rented(cluster, "--json", more=more, env=CREDENTIALS).ok().json()
    check_schema(plan, "plan.schema.json")
    offers = [(o["alternative"], o["provider"], o["nodes"], o["usd_hour"]) for o in plan["rent"]["offers"]]
    assert offers[:2] == [(1, "lambda", 2, 36), (1, "aws", 2, 40)] and {o[:4] for o in offers[2:]} == {(2, "gcp", 3, 90)}
    assert plan["rent"]["alternative"] == 1 and len(plan["nodes"]) == 2
    text = rented(cluster, more=more, env=CREDENTIALS).ok().out
    assert "\n     1  lambda    us-south-1     2 × q3  36.00   36.00 " in text and "\n     2  gcp       us-central1-a  3 × q2  90.00" in text, text
    # A named provider without credentials is an error, in every alternative.
    missing = rented(cluster, "--json", more=more, env={**CREDENTIALS, "GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent"}).ok().json()
    assert "/nonexistent" in missing["rent"]["missing"]


def test_no_end_is_said(rented):
    r = rented("{provider: docker, max_hours: none, down: never}").ok()
    assert "no end: the machines cost money until they are given back (max_hours is none)" in r.out
    assert "given back: only by rhrun down\n" in r.out
    assert "if this machine dies, docker: nothing ends the machines there" in r.out and "IN " not in r.out
    plan = rented("{provider: docker, max_hours: none}", "--json").ok().json()
    check_schema(plan, "plan.schema.json")
    assert plan["rent"]["max_hours"] is None and plan["rent"]["offers"][0]["usd_hour"] == 0


def test_there_is_an_end_without_max_hours(rented):
    assert "IN 24 H" in rented("{provider: docker}").ok().out


def test_those_without_credentials_are_left_out(rented):
    r = rented("{instance: 'Q9:8'}", env={"LAMBDA_API_KEY": "another-secret"}).ok()
    assert "without aws: there are no credentials for Amazon EC2 (aws): looked for AWS_ACCESS_KEY_ID" in r.out
    assert "without gcp: " in r.out and "if this machine dies, lambda" in r.out and "nothing can be rented" not in r.out
    assert not re.search(r"^    aws ", r.out, re.M) and "another-secret" not in r.text


def test_a_plan_without_any_credentials(rented):
    """It shows what there would be, and what is looked for."""
    r = rented("{instance: 'Q9:8', provider: aws}").ok()
    assert "nothing can be rented now:\n      there are no credentials for Amazon EC2 (aws): looked for AWS_ACCESS_KEY_ID" in r.out
    plan = rented("{instance: 'Q9:8', provider: aws}", "--json").ok().json()
    check_schema(plan, "plan.schema.json")
    assert "AWS_ACCESS_KEY_ID" in plan["rent"]["missing"]


def test_the_machine_is_in_no_key(rented):
    """Another provider, instance, region or price makes no step stale; another number of nodes does."""
    more = "distributed: {nnodes: 2, nproc_per_node: 8}\n" + ENTRY

    def keys(cluster, more=more):
        return [(s["name"], s["key"]) for s in rented(cluster, "--json", "--offline", more=more).ok().json()["steps"]]
    first = keys("{instance: 'Q9:8'}")
    for other in ("{instance: 'aws:q1', use_spot: prefer, max_hours: 3}", "{provider: docker}", "{provider: docker, user: me}",
                  "{hosts: [a, b]}"):
        assert keys(other) == first, other


def test_a_finished_job_rents_nothing(rented, rhrun, box):
    """Its launch is kept although its machines are gone."""
    rented("local", command="run", more="setup: [{run: 'true'}]\nentrypoint: {run: 'true'}\n").ok()
    r = rented("{provider: docker}", more="setup: [{run: 'true'}]\nentrypoint: {run: 'true'}\n")
    assert re.search(r"^  not needed  rent ", r.ok().out, re.M), r
    assert "rent tries" not in r.out and "nothing to do" in r.out
    plan = rented("{provider: docker}", "--json", "--exit-code", more="setup: [{run: 'true'}]\nentrypoint: {run: 'true'}\n").ok().json()
    assert plan["rent"]["verdict"] == "not needed"


def test_set_up_on_a_machine_that_is_gone_is_done_again(rented):
    more = "workdir: .\nsetup: [{run: 'true', inputs: []}]\nentrypoint: {run: 'true'}\n"
    rented("local", command="run", more=more).ok()
    r = rented("{provider: docker}", "--again", more=more).ok()
    assert "a new machine is rented for it" in r.out and re.search(r"^  run         rent ", r.out, re.M), r


def test_nobody_is_asked(rented, box):
    """Neither a provider, nor a placeholder of a node."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        env = dict(CREDENTIALS, RHRUN_AWS_ENDPOINT=f"http://127.0.0.1:{server.getsockname()[1]}")
        rented("{instance: 'Q9:8', provider: aws}", env=env).ok()
        with pytest.raises(TimeoutError):
            server.accept()


def test_who_reaches_out_finds_no_machine(rented):
    assert "no machine is rented for the job" in rented("{provider: docker}", command="doctor").ok().out
    assert "no machine is rented for node 0" in rented("{provider: docker}", command="ssh").expect(2).err


# ---- Runhouse's example ----

def test_the_example_from_runhouse(rhrun):
    spec = ROOT / "specs/examples/hf-text-generation.yaml"
    r = rhrun("plan", spec, "-p", "instance=V100:1", "-p", "provider=cheapest", "-p", "use_spot=true").ok()
    assert re.search(r"^  run         rent +1 node +aws p3.2xlarge, spot$", r.out, re.M), r
    assert "worst case: 73.44 USD" in r.out
    r = rhrun("plan", spec, "-p", "instance=V100:1", "-p", "host=gpu1").expect(2)
    assert "cluster has both hosts and instance" in r.err
    shown = json.loads(rhrun("show", "--json", spec).ok().out)
    assert shown["cluster"]["hosts"][0]["host"] == "localhost" and "instance" not in shown["cluster"]
