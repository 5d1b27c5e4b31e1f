"""Findings of an audit of the promises: each test guards a promise that was broken."""
import json


def starts(events, step):
    return [e for e in events if e["type"] == "started" and e["attempts"][0]["step"] == step]


def test_a_prolog_on_several_nodes_begins_one_generation(rhrun, job):
    spec = job({"distributed": {"nnodes": 4}, "entrypoint": {"run": "true", "prolog": "true"}})
    for _ in range(5):
        events = rhrun("--json", "--again", spec).ok().events()
        assert len(starts(events, "launch")) == 1
    rhrun("status", "--json", spec).ok()


def test_a_missing_gpu_is_told_before_set_up(box, rhrun, job):
    spec = job({"setup": [{"run": "touch started"}], "distributed": {"nproc_per_node": "gpu"}, "entrypoint": {"run": "true"}})
    r = rhrun(spec, env={"PATH": "/usr/bin:/bin"})
    if r.rc == 0:
        return  # a machine with a GPU
    assert "no GPU was found" in r.err
    assert not box.path("started").exists()


def test_secrets_of_the_caller_do_not_reach_what_activate_leaves(box, rhrun, job):
    spec = job({"secrets": ["TOK", {"name": "OLD", "to": "NEW"}], "activate": "export FOO=bar",
                "entrypoint": {"run": 'test "${#TOK} ${#NEW} $FOO" = "11 11 bar"'}})
    rhrun(spec, env={"TOK": "one-sec-ret", "OLD": "another-one"}).ok()
    for root in (box.home, box.state):
        for path in root.rglob("*"):
            if path.is_file():
                assert b"one-sec-ret" not in path.read_bytes() and b"another-one" not in path.read_bytes(), path


def test_a_spec_as_run_needs_nothing_of_the_environment(rhrun, job):
    spec = job({"params": {"p": {"type": "string"}}, "entrypoint": {"run": "echo hi", "env": {"CODE": ""}}})
    spec.write_text(spec.read_text().replace('"CODE": ""', '"CODE": null'))
    rhrun(spec, "-p", "p=1", env={"CODE": "1"}).ok()
    assert rhrun("logs", "--rank", "0", spec).ok().out == "hi\n"
    assert "done" in rhrun("status", spec).ok().out
    spec.write_text("name: job\nentrypoint: {nonsense: 1}\n")
    assert "done" in rhrun("status", spec).ok().out


def test_cancel_from_another_folder_without_a_controller(box, rhrun, job):
    spec = job({"entrypoint": {"run": "echo ready; sleep 60"}})
    r = box.start(spec.name)
    r.wait_text("ready")
    r.kill9()
    (box.dir / "other").mkdir()
    done = rhrun("cancel", "last", cwd=box.dir / "other").ok()
    assert "cancelled" in done.err
    assert rhrun("status", "--json", "last").ok().json()["status"] == "cancelled"


def test_a_node_that_the_spec_dropped_is_not_forgotten(box, rhrun, job):
    spec = job({"name": "n", "distributed": {"nnodes": 2}, "setup": [{"name": "s", "on": [1], "run": "echo ready >&2; sleep 60"}],
                "entrypoint": {"run": "echo hi"}})
    r = box.start("-v", spec)
    r.wait_text("ready")
    r.kill9()
    held = rhrun(spec, "--set", "distributed.nnodes=1", "--set", "setup=[]").expect(4)
    assert "local-1" in held.err and "cancel" in held.err
    rhrun("cancel", spec).ok()
    rhrun(spec, "--set", "distributed.nnodes=1", "--set", "setup=[]").ok()


def test_exit_4_says_what_differs(box, rhrun, job):
    spec = job({"entrypoint": {"run": "echo ready; sleep 60"}})
    r = box.start(spec)
    r.wait_text("ready")
    r.kill9()
    assert "run changed" in rhrun(spec, "--set", "entrypoint.run=echo hi").expect(4).err
    rhrun("cancel", spec).ok()


def test_cancel_does_not_call_cancelled_what_it_cannot_reach(box, fleet, rhrun, job):
    f = fleet(2)
    text = {"cluster": f.cluster(hosts=["node2"]), "entrypoint": {"run": "echo ready; sleep 60"}}
    spec = job(text)
    r = box.start(spec)
    r.wait_text("ready")
    r.kill9()
    job({**text, "cluster": f.cluster(hosts=["node1"])})
    assert "node2" in rhrun(spec).expect(4).err
    left = rhrun("cancel", "last").expect(2)
    assert "node2" in left.err and "--on" in left.err
    rhrun("cancel", "last", "--on", "node2,").ok()
    assert not box.leftovers() or not [p for p in box.leftovers() if p.attempt]


def test_cancel_again_once_the_node_is_back(box, fleet, rhrun, job):
    """Cancelled, except on a node that was down: it is named, the status is not 0; the same command does the rest."""
    f = fleet(2)
    spec = job({"cluster": f.cluster(), "distributed": {}, "entrypoint": {"run": "echo ready; exec sleep 600"}})
    r = box.start(spec)
    r.wait_text("ready(.|\n)*ready")
    f.stop(2)
    left = rhrun("cancel", "last").expect(3)
    assert "not reached: node2" in left.err and "rhrun cancel" in left.err
    f.start(2)
    assert len([p for p in box.leftovers() if p.attempt]) == 1
    assert "not reached" not in rhrun("cancel", "last").ok().err
    assert not [p for p in box.leftovers() if p.attempt]
    told = rhrun("status", "last").ok().out
    assert "cancelled" in told and "not reached" not in told and "running" not in told
    assert "ended already" in rhrun("cancel", "last").ok().err


def test_cancel_of_another_variant_than_the_spec_gives_now(box, rhrun, job):
    spec = job({"params": {"p": 1}, "entrypoint": {"run": "echo ready; sleep 60"}})
    r = box.start(spec)
    r.wait_text("ready")
    r.kill9()
    job({"params": {"p": 1, "q": 2}, "entrypoint": {"run": "echo ready; sleep 61"}})
    assert "cancelled" in rhrun("cancel", "last").ok().err
    assert rhrun("status", "--json", "last").json()["status"] == "cancelled"


def test_plan_of_hosts_ends_cleanly(fleet, rhrun, job):
    f = fleet(1)
    spec = job({"cluster": f.cluster(), "setup": [{"run": "true 1"}], "entrypoint": {"run": "echo hi"}})
    rhrun(spec).ok()
    assert "nothing to do" in rhrun("plan", spec).ok().out


def test_a_script_is_no_option_of_python(box, rhrun, job):
    box.path("-c.py").write_text("import sys; print(sys.argv[0])\n")
    assert rhrun(job({"entrypoint": {"script": "-c.py"}})).ok().out == "./-c.py\n"


def test_an_unreadable_journal_is_told_where_runs_are_looked_for(box, rhrun, job):
    rhrun(job({"entrypoint": {"run": "true;"}})).ok()
    next(box.state.rglob("journal.db")).write_bytes(b"no database" * 1000)
    assert "not a database" in rhrun("logs", "last").expect(2).err


def test_closed_standard_streams(box, rhrun, job):
    spec = job({"entrypoint": {"run": "echo hi"}})
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        r = rhrun("--again", spec, prefix=("sh", "-c", f'exec "$@" {closed}', "sh"))
        assert r.rc == 0, (closed, r)
    assert rhrun("logs", "--rank", "0", "last").ok().out == "hi\n"


def test_replace_stops_a_live_controller(box, rhrun, job):
    spec = job({"entrypoint": {"run": "echo ready; sleep 60"}})
    first = box.start(spec)
    first.wait_text("ready")
    rhrun(spec, "--replace").expect(4)  # the same spec: nothing to replace
    spec = job({"entrypoint": {"run": "echo second"}})
    held = rhrun(spec).expect(4)
    assert str(first.process.pid) in held.err
    assert rhrun(spec, "--replace").ok().out == "second\n"
    first.wait().expect(143)
