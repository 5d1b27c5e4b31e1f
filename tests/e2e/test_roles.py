"""Several kinds of worker in one launch: ranks and peers, the order of starts, failures, and controllers that die in between."""
import json
import pathlib
import re
import shutil
import socket

import pytest

import torches
from harness import ROOT, wait_for, workers_of

SHOW = """echo "$ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE ${RANK-none}/${WORLD_SIZE-none} ${LOCAL_RANK-none}/${LOCAL_WORLD_SIZE-none} \
peer ${RHRUN_PEER_RANK-none}@${RHRUN_PEER_ADDR-none} master ${MASTER_ADDR-none}:${MASTER_PORT-none}" """


def spec(roles, nnodes=2, **more):
    return {"distributed": {"nnodes": nnodes, **more.pop("distributed", {})}, "roles": roles, **more}


def seen(result):
    """(prefix, node) -> the worker's line."""
    return {m[1]: m[3] for m in re.finditer(r"^(\w+\[\d+\])@(\S+): (.*)$", result.out, re.M)}


def runs(text, **more):
    return {"entrypoint": {"run": text}, **more}


def mark(word):
    return f'echo "{word}" >>$HOME/lines\n'


def wait_file(name):
    return f"while [ ! -e $HOME/{name} ]; do sleep 0.02; done\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- ranks and peers ----

def test_ranks_and_peers(box, job):
    path = job(spec({"trainer": {"count": 4, "peer": "server"}, "cuda_trainer": {"count": 0, "peer": "server"},
                     "server": {"count": 2}, "eval": {"count": 2, "world": "own", "peer": {"role": "trainer", "by": "stride"}},
                     "helper": {"world": "none"}, "master": {}},
                    entrypoint={"run": SHOW}, env={"RANKS": "x"}))
    result = box.run(path, env={"RANK": "7", "WORLD_SIZE": "9", "MASTER_ADDR": "inherited", "LOCAL_RANK": "3"}).ok()
    lines = seen(result)
    port = re.search(r"master 127.0.0.1:(\d+)", lines["trainer[0]"])[1]
    own = re.search(r"master 127.0.0.1:(\d+)", lines["eval[0]"])[1]
    assert own != port
    on = {m[1]: m[2] for m in re.finditer(r"^(\w+\[\d+\])@(\S+):", result.out, re.M)}
    assert len(on) == 10 and set(on.values()) == {"local-0", "local-1"}
    job_world = ["trainer[0]", "trainer[1]", "trainer[2]", "trainer[3]", "server[0]", "server[1]", "master[0]"]
    for rank, name in enumerate(job_world):
        local = sum(on[other] == on[name] for other in job_world[:rank])
        locals_ = sum(on[other] == on[name] for other in job_world)
        role, index = re.match(r"(\w+)\[(\d+)\]", name).groups()
        peer = f"{int(index) // 2 + 4}@127.0.0.1" if role == "trainer" else "none@none"
        total = {"trainer": 4, "server": 2, "master": 1}[role]
        assert lines[name] == (f"{role} {index}/{total} {rank}/7 {local}/{locals_} peer {peer} master 127.0.0.1:{port}"), name
    for index in range(2):
        assert re.fullmatch(rf"eval {index}/2 {index}/2 \d/\d peer {index}@127.0.0.1 master 127.0.0.1:{own}", lines[f"eval[{index}]"])
    assert lines["helper[0]"] == "helper 0/1 none/none none/none peer none@none master none:none"


def test_expressions_env_and_arguments(box, job):
    path = job(spec({"a": {"count": 2, "env": {"MINE": "${{ role }}-${{ role_rank }}", "BOTH": "role"}, "peer": "b"},
                     "b": {"entrypoint": {"command": ["sh", "-c", "echo b ${{ roles.a.count }} $BOTH $0", "${{ args }}"]}}},
                    env={"BOTH": "top"},
                    entrypoint={"run": 'echo "$MINE $BOTH ${{ peer.rank }} ${{ peer.address }} ${{ roles.b.nodes[0].address }} '
                                       '${{ rank }}/${{ world_size }} ${{ role_world_size }} $RHRUN_ROLE_A_RANKS $RHRUN_ROLE_A_COUNT '
                                       '$RHRUN_ROLE_B_RANKS $RHRUN_ROLE_B_ADDRS"'}))
    lines = seen(box.run(path, "--", "x y").ok())
    assert lines["a[1]"] == "a-1 role 2 127.0.0.1 127.0.0.1 1/3 2 0-1 2 2 127.0.0.1"
    assert lines["b[0]"] == "b 2 top x y"


def test_require_and_room_are_told_before_anything_is_touched(box, job):
    path = job({"params": {"servers": 2}, "require": ["roles.t.count % roles.s.count == 0"],
                "roles": {"t": {"count": 4}, "s": {"count": "${{ params.servers }}"}}, "entrypoint": {"run": "true"}})
    box.run(path).ok()
    result = box.run(path, "-p", "servers=3").expect(2)
    assert "job.yaml:6:3: error: required: 4 % 3 == 0: roles.t.count is 4, roles.s.count is 3" in result.err
    result = box.run(path, "-p", "servers=0").expect(2)
    assert "4 % 0 == 0: division by zero; roles.t.count is 4, roles.s.count is 0" in result.err
    result = box.run(path, "--set", "distributed.nproc_per_node=5").expect(2)
    assert 'role "s" has 2 workers, but there is room for 1 on 1 node' in result.err


def test_plan_and_logs_name_roles(box, job):
    path = job(spec({"t": {"count": 3, "entrypoint": {"run": "echo out; echo err >&2"}}, "n": {"world": "none"}}, entrypoint={"run": "echo n"}))
    plan = box.run("plan", path, "--json").ok().json()
    assert plan["roles"] == [
        {"name": "t", "world": "job", "count": 3, "places": [{"node": 0, "count": 2, "first_rank": 0}, {"node": 1, "count": 1, "first_rank": 2}]},
        {"name": "n", "world": "none", "count": 1, "places": [{"node": 1, "count": 1}]}]
    text = box.run("plan", path).ok().out
    assert "  3 ranks, 1 worker outside of their world\n    t: rank 0-2\n      rank 0-1 on node 0 (local-0)\n" in text
    box.run(path).ok()
    logs = box.run("logs", "last").ok()
    assert sorted(logs.out.splitlines()) == ["n[0]@local-1: n", "t[0]@local-0: out", "t[1]@local-0: out", "t[2]@local-1: out"]
    assert "t[2]@local-1: err" in logs.err
    assert box.run("logs", "last", "--rank", "3").ok().out == "n\n"
    lines = [json.loads(x) for x in box.run("logs", "last", "--json").ok().out.splitlines()]
    assert {(x["role"], x["role_rank"], x["rank"]) for x in lines} == {("t", 0, 0), ("t", 1, 1), ("t", 2, 2), ("n", 0, 3)}


# ---- the order of starts ----

def ordered(port):
    listen = f"exec python3 -m http.server {port} --bind 127.0.0.1"
    return {"data": runs(wait_file("go") + mark("data"), world="none"),
            "cache": runs(mark("cache") + listen, world="none", sidecar=True, nodes=[1], ready={"port": port}),
            "server": runs(mark("server $ROLE_RANK") + "echo listening $ROLE_RANK\n" + wait_file("trained"), count=2,
                           ready={"log": r"^listening \d$"}),
            "late": runs(mark("late") + "touch $HOME/late", world="none", after={"probe": "ready"}),
            "probe": runs(wait_file("late"), world="none", ready={"command": "test -e $HOME/trained"}),
            "trainer": runs(mark("trainer") + "touch $HOME/trained", after={"data": "done", "cache": "ready", "server": "ready"})}


def test_order_and_sidecars(box, job):
    path = job(spec(ordered(free_port())))
    running = box.start(path)
    wait_for(lambda: len(box.lines()) == 3, what="cache and both servers")
    assert sorted(box.lines()) == ["cache", "server 0", "server 1"]
    (box.home / "go").touch()
    result = running.wait().ok()
    assert box.lines()[3:] == ["data", "trainer", "late"]
    assert "launch:trainer: 1 worker on 1 node" in result.err
    assert not workers_of(box.dir)
    assert "nothing to do" in box.run(path).ok().err
    assert {s["name"] for s in box.run("plan", path, "--json").ok().json()["steps"]} == {
        "launch:data", "launch:cache", "launch:server", "launch:late", "launch:probe", "launch:trainer", "ready:cache", "ready:server",
        "ready:probe"}


@pytest.mark.parametrize("killed", ["before data is done", "while a server is not ready", "while the trainer runs"])
def test_a_controller_that_dies_in_between(box, job, killed):
    roles = ordered(free_port())
    server = wait_file("serve") if killed == "while a server is not ready" else ""
    trainer = mark("trainer") + (wait_file("end") if killed == "while the trainer runs" else "") + "touch $HOME/trained"
    roles["server"]["entrypoint"]["run"] = server + roles["server"]["entrypoint"]["run"]
    roles["trainer"]["entrypoint"]["run"] = trainer
    path = job(spec(roles))
    if killed != "before data is done":
        (box.home / "go").touch()
    running = box.start(path)
    wanted = {"before data is done": ["cache", "server 0", "server 1"], "while a server is not ready": ["cache", "data"],
              "while the trainer runs": ["cache", "data", "server 0", "server 1", "trainer"]}[killed]
    wait_for(lambda: sorted(box.lines()) == wanted, what=f"{wanted}")
    if killed == "while the trainer runs":
        running.wait_text("launch:trainer")
    running.kill9()
    for name in ("go", "serve"):  # it goes on without a controller, which must find what was printed meanwhile
        (box.home / name).touch()
    wait_for(lambda: {"data", "server 0", "server 1"} <= set(box.lines()), what="data and servers")
    (box.home / "end").touch()
    box.run(path).ok()
    assert sorted(box.lines()) == ["cache", "data", "late", "server 0", "server 1", "trainer"], "each role was started once"
    assert not workers_of(box.dir)


def test_what_joins_a_launch_that_was_found_has_its_run_id(box, job):
    """The state directory is lost while the first role runs: another run starts the second role, of the same launch."""
    path = job(spec({"data": runs("echo data $RHRUN_RUN_ID >>$HOME/lines; echo begun; " + wait_file("go")),
                     "trainer": runs("echo trainer $RHRUN_RUN_ID >>$HOME/lines", after={"data": "done"})}))
    running = box.start(path)
    wait_for(box.lines, what="data")
    running.kill9()
    shutil.rmtree(box.state)
    again = box.start("--take-over", path)
    again.wait_text("begun")
    (box.home / "go").touch()
    again.wait().ok()
    (data, first), (trainer, second) = [line.split() for line in box.lines()]
    assert (data, trainer) == ("data", "trainer") and first == second


def test_a_run_that_is_resumed_and_another_one_behind_it(box, job):
    """One process does both by one plan: what the first has bound must not end with it."""
    path = job(spec({"data": runs(mark("data")), "trainer": runs(mark("trainer") + wait_file("go"), count=2)}, setup=[{"name": "one", "run": "true"}]))
    running = box.start(path)
    wait_for(lambda: sorted(box.lines()) == ["data", "trainer", "trainer"], what="both")
    running.kill9()
    (box.home / "go").touch()
    result = box.run("--json", "--from", "one", path, env={"MALLOC_PERTURB_": "165"}).ok()  # what is freed is overwritten
    started = [json.loads(e["bind_json"]) for e in result.events() if e["type"] == "started" and "bind_json" in e]
    assert started and all([r["name"] for r in bind["roles"]] == ["data", "trainer"] for bind in started), result
    assert sorted(box.lines()) == ["data"] * 2 + ["trainer"] * 4


# ---- failures ----

def test_a_failure_stops_and_restarts_all_roles(box, job):
    both = "while [ $(grep -c trainer $HOME/lines) -lt 2 ]; do sleep 0.02; done\n"
    fails = both + "if [ ! -e $HOME/failed ]; then touch $HOME/failed; exit 3; fi\n"
    path = job(spec({"data": runs(mark("data"), world="none"), "helper": runs(mark("helper") + "exec sleep 1000", world="none", sidecar=True),
                     "server": runs(mark("server") + wait_file("trained")),
                     "trainer": runs(mark("trainer") + fails + "touch $HOME/trained", count=2, nodes=[1], after={"data": "done"})},
                    distributed={"max_restarts": 1}))
    result = box.run(path).ok()
    assert re.search(r"restart 1 of 1: trainer\[[01]\] \(rank [12]\) on node \"local-1\": exit status 3", result.err), result
    assert sorted(box.lines()) == sorted(["data", "helper", "server"] * 2 + ["trainer"] * 4)
    assert not workers_of(box.dir)


def test_a_role_outside_of_the_world_fails(box, job):
    path = job(spec({"t": runs("exec sleep 1000"), "n": runs("exit 4", world="none", count=2, nodes=[1])}))
    result = box.run(path).expect(1)
    assert re.search(r"error: n\[[01]\] on node \"local-1\": exit status 4", result.err), result
    assert not workers_of(box.dir)


def test_a_sidecar_that_fails_is_a_failure(box, job):
    path = job(spec({"t": runs("exec sleep 1000"), "s": runs("exit 5", world="none", sidecar=True)}))
    assert re.search(r"error: s\[0\] on node \"local-\d\": exit status 5", box.run(path).expect(1).err)
    assert not workers_of(box.dir)


@pytest.mark.parametrize("ready", [{"port": 1}, {"log": "never"}, {"command": "false"}])
def test_not_ready_in_time(box, job, ready):
    path = job(spec({"s": runs("exec sleep 1000", ready={**ready, "timeout": "300ms"}), "t": runs("true", after={"s": "ready"})}))
    result = box.run(path).expect(1)
    assert re.search(r"error: ready:s on node \"local-\d\": timed out after 0.3 s", result.err), result
    assert "--step launch:s" in result.err, "what looks for it prints nothing"
    assert not workers_of(box.dir)


@pytest.mark.parametrize("ready", [{"port": 1}, {"log": "never"}, {"command": "false"}])
def test_ended_before_it_was_ready(box, job, ready):
    path = job(spec({"s": runs("true", ready=ready), "t": runs("true", after={"s": "ready"})}))
    result = box.run(path).expect(1)
    assert re.search(r"error: ready:s on node \"local-\d\": role \"s\" ended before it was ready", result.err), result


def test_cancel_ends_all_roles(box, job):
    roles = ordered(free_port())
    running = box.start(job(spec(roles)))
    wait_for(lambda: len(box.lines()) == 3, what="cache and both servers")
    box.run("cancel", "last").ok()
    running.wait().expect(143)
    assert not workers_of(box.dir)
    assert "trainer" not in box.lines()


def test_over_ssh(box, job, fleet):
    f = fleet(2)
    path = job({"cluster": f.cluster(), "roles": {"t": {"count": 2, "peer": "s"}, "s": {"count": 2, "world": "own"}},
                "entrypoint": {"run": SHOW}})
    lines = seen(box.run(path).ok())
    assert sorted(lines) == ["s[0]", "s[1]", "t[0]", "t[1]"]
    assert all(re.search(r"peer \d@127.0.0.1 ", lines[f"t[{i}]"]) for i in range(2))


# ---- with torch ----

def test_parameter_servers_train(box):
    python = torches.find()
    shutil.copytree(ROOT / "specs/examples/parameter-server", box.work / "parameter-server")
    path = pathlib.Path(shutil.copy(ROOT / "specs/examples/parameter-server.yaml", box.work))
    text = path.read_text().replace("workdir:", f"python: {{interpreter: {python}, venv: false}}\nworkdir:")
    path.write_text(text)
    result = box.run(path, timeout=240, env={"GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}).ok()
    said = seen(result)
    assert set(said) >= {"master[0]"}
    used = re.findall(r"^master\[0\]@local-1: trainer (\d) used server (\d), loss 0\.\d+$", result.out, re.M)
    assert used == [(str(r), str(r // 2 + 4)) for r in range(4)]
    losses = re.findall(r"server (\d) made 60 steps, loss (\d\.\d+) on new data", result.out)
    assert [s for s, _ in losses] == ["4", "5"] and all(float(loss) < 0.01 for _, loss in losses)
    result = box.run(path, "-p", "servers=0").expect(2)
    assert 'role "trainer" has "server" for a peer, which has no workers' in result.err
