"""Roles on clusters of their own, over SSH: which role is on which host, what is set up there, which files are fetched."""
import re

from harness import wait_for, workers_of


def part(fleet, *nodes, **more):
    return {"hosts": [f"node{n}" for n in nodes], "ssh_config": str(fleet.dir / "ssh_config"), **more}


def mark(word):
    return {"name": "mark", "run": f"echo {word} >>~/lines"}


def where(result):
    """worker -> its output."""
    return dict(re.findall(r"^(\w+\[\d+\]@\S+): (.*)$", result.out, re.M))


SHOW = "echo ${RANK-none}/${WORLD_SIZE-none} ${MASTER_PORT-none} $KIND"


def test_two_clusters_and_a_node_of_both(box, fleet):
    """node2 is of both: it is one node, and each role's set-up is done there. The job has no node of its own."""
    f = fleet(3)
    spec = box.spec({
        "setup": [mark("job")], "env": {"KIND": "any"},
        "roles": {"a": {"cluster": part(f, 1, 2), "count": 2, "outputs": {"from": "out.txt", "to": "of-${{ role }}", "nodes": "all"}},
                  "b": {"cluster": part(f, 2, 3), "count": 2, "world": "own", "distributed": {"master_port": f.base + 9},
                        "setup": [mark("b-$KIND")], "env": {"KIND": "b"}, "outputs": [{"from": "b.txt", "to": "of-b"}]}},
        "entrypoint": {"run": f"{SHOW}; touch out.txt b.txt"}})
    first = box.run(spec).ok()
    said = where(first)
    assert {k: v.split()[0] for k, v in said.items()} == {"a[0]@node1": "0/2", "a[1]@node2": "1/2", "b[0]@node2": "0/2", "b[1]@node3": "1/2"}
    assert said["b[0]@node2"] == f"0/2 {f.base + 9} b" and said["a[0]@node1"].endswith(" any")
    assert f.lines(1) == ["job"] and sorted(f.lines(2)) == ["b-b", "job"] and f.lines(3) == ["b-b"]
    home = sorted(str(p.relative_to(box.work)) for p in box.work.glob("of-*/**/*") if p.is_file())
    assert home == ["of-a/node1/out.txt", "of-a/node2/out.txt", "of-b/b.txt"]
    assert "nothing to do" in box.run(spec).ok().err


def test_a_role_beside_the_jobs_cluster(box, fleet):
    """The job's nodes come first, then the role's; the role does not get the job's packages."""
    f = fleet(2)
    (box.work / "clusters").mkdir()
    box.spec(part(f, 2), "clusters/tools.yaml")
    text = {"cluster": part(f, 1), "setup": [mark("job")], "distributed": {"nproc_per_node": 2},
            "roles": {"w": {"nnodes": 1, "peer": "s", "after": {"s": "ready"}, "entrypoint": {"run": "echo ${{ peer.address }} ${{ nnodes }}"}},
                      "s": {"cluster": "tools", "world": "none", "setup": [mark("tools")], "ready": {"command": "test -e up"},
                            "sidecar": True, "entrypoint": {"run": "touch up; sleep 1000"}}}}
    spec = box.spec(text)
    plan = {s["name"]: [v["first_node"] for v in s["verdicts"]] for s in box.run("plan", "--offline", "--json", spec).ok().json()["steps"]}
    assert plan["mark"] == [0] and plan["s:mark"] == [1] and plan["launch:s"] == [1]
    said = where(box.run(spec).ok())
    assert said == {"w[0]@node1": "127.0.0.1 2", "w[1]@node1": "127.0.0.1 2"}
    assert f.lines(1) == ["job"] and f.lines(2) == ["tools"]
    local = where(box.run(spec, "--on", "local").ok())
    assert sorted(local) == ["w[0]@local", "w[1]@local"], "--on replaces the clusters of roles too"


def test_a_node_that_only_a_role_has_is_away(box, fleet):
    f = fleet(2)
    spec = box.spec({"cluster": part(f, 1), "roles": {"a": {}, "b": {"cluster": part(f, 2), "setup": [mark("b")]}},
                     "entrypoint": {"run": "echo ran"}})
    f.stop(2)
    lost = box.run(spec).expect(3)
    assert "node2" in lost.err and not where(lost)
    f.start(2)
    assert sorted(where(box.run(spec).ok())) == ["a[0]@node1", "b[0]@node2"]


def test_controller_killed_while_roles_run_on_two_clusters(box, fleet):
    f = fleet(2)
    wait = "echo $ROLE_NAME >>~/lines; while [ ! -e ~/go ]; do sleep 0.02; done; echo $ROLE_NAME done"
    spec = box.spec({"roles": {n: {"cluster": part(f, i), "setup": [mark("setup-" + n)], "entrypoint": {"run": wait}}
                               for i, n in ((1, "a"), (2, "b"))}})
    running = box.start(spec)
    wait_for(lambda: f.all_lines() == [["setup-a", "a"], ["setup-b", "b"]], what="both roles")
    running.kill9()
    assert workers_of(box.dir)
    running = box.start(spec)
    for i in (1, 2):
        (f.home(i) / "go").touch()
    assert sorted(where(running.wait().ok()).values()) == ["a done", "b done"]
    assert f.all_lines() == [["setup-a", "a"], ["setup-b", "b"]], "nothing ran twice"
