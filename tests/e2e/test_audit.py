"""What an audit of the promises found: each test guards one that had failed."""
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
