"""The commands around a run: their output, their exit status and their JSON."""
import getpass
import json
import os
import re
import shlex
import signal
import subprocess

import pytest

from harness import RHRUN, ROOT, check_schema, processes_of, require, wait_for

SPEC = """
name: job-of-tests
params: {p: {type: string, default: a}}
setup: [{name: one, run: 'echo step-one-says; echo one >>$HOME/lines'}]
distributed: {nnodes: 2, nproc_per_node: 2}
entrypoint: {run: 'echo out-of-rank $RANK; echo err-of-rank $RANK >&2'}
"""
COMMANDS = ["run", "validate", "plan", "show", "runs", "status", "logs", "attach", "cancel", "result", "metrics", "report", "doctor", "prices", "up", "down", "clusters", "gc", "ssh", "exec", "schema",
            "completion"]


def test_start_loads_no_library_that_few_need(rhrun):
    """libcurl and libxml2 bring a dozen other libraries; only commands that ask a provider load them."""
    loaded = subprocess.run([RHRUN, "--help"], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True, check=True).stdout
    assert "libuv" in loaded
    assert not re.search(r"curl|libxml2|libicu|libssl|nghttp2", loaded), loaded


def test_version_and_help(rhrun):
    lines = rhrun("--version").ok().out.splitlines()
    assert re.fullmatch(r"rhrun \d+\.\d+\.\d+ \(([0-9a-f]{7,40}(-dirty)?, )?[a-z]+\)", lines[0])
    libraries = " ".join(lines[1:])
    for name in ("libuv", "libssh2", "OpenSSL", "SQLite", "libgit2", "libyaml", "PCRE2", "Jansson", "zlib", "libcurl"):
        assert re.search(rf"\b{name} \d+\.\d+", libraries), name
    assert re.search(r"agents: .*(x86_64|aarch64)", libraries)
    text = rhrun("--help").ok().out
    for name in COMMANDS:
        assert name in text, f"no {name} in the help"
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(rhrun, command):
    text = rhrun(command, "--help").ok().out
    assert command in text and "--" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("args, words", [
    ([], ["usage"]),
    (["--no-such-option"], ["--no-such-option"]),
    (["validat", "x.yaml"], ["validat", "validate"]),
    (["validate"], ["usage"]),
    (["run"], ["usage"]),
    (["no-such-file.yaml"], ["no-such-file.yaml"]),
    (["status", "no-such-run"], ["no-such-run"]),
    (["completion", "tcsh"], ["tcsh"]),
    (["-p", "x", "job.yaml"], ["x"]),
], ids=lambda a: "-".join(a) if a else "nothing")
def test_usage_errors(rhrun, args, words):
    r = rhrun(*args).expect(2)
    for word in words:
        assert word in r.err, r
    assert not r.out


def test_errors_are_one_line_each(rhrun):
    r = rhrun("no-such-file.yaml").expect(2)
    first = r.err.splitlines()[0]
    assert first.startswith("rhrun: ") and not first.endswith(".")


@pytest.fixture
def done(box, rhrun):
    spec = box.spec(SPEC)
    rhrun(spec).ok()
    return spec


def test_plan(box, rhrun):
    spec = box.spec(SPEC)
    r = rhrun("plan", spec).ok()
    assert re.search(r"one\b.*\brun\b|\brun\b.*one\b", r.out) and "launch" in r.out
    assert max(map(len, r.out.splitlines())) <= 80
    assert box.lines() == []
    rhrun("plan", "--exit-code", spec).expect(10)
    rhrun(spec).ok()
    kept = rhrun("plan", "--exit-code", spec).ok()
    assert "keep" in kept.out or "nothing to do" in kept.text
    assert box.lines() in (["one", "one"], ["one"])


def test_plan_says_which_input_changed(box, rhrun):
    spec = box.spec(SPEC.replace("entrypoint:", "env: {A: one}\nentrypoint:"))
    rhrun(spec).ok()
    box.spec(SPEC.replace("entrypoint:", "env: {A: two}\nentrypoint:"))
    r = rhrun("plan", spec).ok()
    assert "run again" in r.out and re.search(r"env A\b.*changed|changed.*env A\b", r.out), r


def test_plan_json(box, rhrun):
    spec = box.spec(SPEC)
    check_schema(rhrun("plan", "--json", spec).ok().json(), "plan.schema.json")
    rhrun(spec).ok()
    plan = rhrun("plan", "--json", spec).ok().json()
    check_schema(plan, "plan.schema.json")
    assert {s["name"] for s in plan["steps"]} >= {"one", "launch"}


def test_plan_offline_asks_no_node(box, rhrun):
    spec = box.spec("cluster: {hosts: [no-such-host.invalid]}\nsetup: [{name: s, run: a}]\nentrypoint: {run: echo}\n")
    r = rhrun("plan", "--offline", spec, timeout=15).ok()
    assert "s" in r.out


def test_runs(done, rhrun, box):
    rhrun("--again", done).ok()
    listed = rhrun("runs", "--json").ok().json()
    listed = listed if isinstance(listed, list) else listed["runs"]
    assert len(listed) == 2
    assert "job-of-tests" in rhrun("runs").ok().out


def test_runs_of_an_empty_state(rhrun):
    rhrun("runs").ok()
    listed = rhrun("runs", "--json").ok().json()
    assert not (listed if isinstance(listed, list) else listed["runs"])


@pytest.mark.parametrize("name", ["spec", "last", "id", "prefix"])
def test_status(done, rhrun, name):
    listed = rhrun("runs", "--json").ok().json()
    run = (listed if isinstance(listed, list) else listed["runs"])[0]
    ident = run.get("id") or run.get("run")
    which = {"spec": done, "last": "last", "id": ident, "prefix": ident[:8]}[name]
    r = rhrun("status", which).ok()
    assert "job-of-tests" in r.out and "done" in r.out
    assert "done" in json.dumps(rhrun("status", "--json", which).ok().json())


def test_status_tells_of_its_own_run(box):
    """Without steps of another variant; work of a later run of the variant is marked as such."""
    name = "a_role_with_a_long_name_indeed"
    box.spec({"params": {"x": 1}, "roles": {name: {"sidecar": False, "world": "own"}}, "entrypoint": {"run": "exit ${{ params.x - 1 }}"}})
    box.run("job.yaml").ok()
    first = box.run("status", "--json", "last").ok().json()["run"]
    box.run("job.yaml", "-p", "x=3").expect(1)
    mine = box.run("status", first).ok().out
    assert f" launch:{name} " in mine
    assert "failed" not in mine and "(" not in mine.split("command:")[1]
    assert [s["run"] for s in box.run("status", "--json", first).ok().json()["steps"]] == [first]
    box.run("job.yaml", "--again").ok()
    assert "(later run)" in box.run("status", first).ok().out


def test_status_groups_nodes(box, rhrun):
    """Nodes with the same state are counted, in the plan's order, not in the order of execution."""
    spec = {"name": "grouped", "setup": [{"name": "zulu", "run": "true"},
                                         {"name": "alpha", "run": "[ $RHRUN_NODE_RANK != 2 ] || while [ ! -e $HOME/go ]; do sleep 0.05; done"}],
            "distributed": {"nnodes": 5}, "entrypoint": {"run": "[ $RHRUN_NODE_RANK != 4 ] || exit 3; sleep 60"}}
    running = box.start(box.spec(spec))
    wait_for(lambda: re.search(r"^  alpha +ok 4 in \S+ \w+: 0-1,3-4; running 1: local-2 for \S+ \w+$", rhrun("status", "grouped").out, re.M),
             what="four of five nodes")
    watching = box.start("status", "--watch", "grouped")
    (box.home / "go").touch()
    running.wait().expect(1)
    told = watching.wait().ok().out
    assert told.count("run ") > 1 and ": failed" in told.splitlines()[-6]  # it ends with the run
    lines = rhrun("status", "grouped").ok().out.splitlines()[-3:]
    assert [x.split()[0] for x in lines] == ["zulu", "alpha", "launch"]
    assert re.fullmatch(r"  zulu +ok 5 in \S+ \w+", lines[0])
    assert re.search(r"stopped 4: local-0 to local-3 after .*; failed 1: local-4 after .*: exit status 3|"
                     r"failed 1: local-4 after .*: exit status 3; stopped 4: local-0 to local-3 after ", lines[2]), lines
    every = rhrun("status", "--all", "grouped").ok().out
    assert len(re.findall(r"^  alpha +local-\d +ok ", every, re.M)) == 5
    spec["setup"].insert(0, {"name": "new", "run": "true"})  # done last, first in the plan
    box.spec(spec)
    rhrun("job.yaml").expect(1)
    assert [x.split()[0] for x in rhrun("status", "grouped").ok().out.splitlines()[-4:]] == ["new", "zulu", "alpha", "launch"]


def test_status_of_what_is_done_anew(box, rhrun):
    """A step that an earlier run did and this one repeats does not count for it."""
    spec = box.spec({"name": "anew", "setup": [{"name": "one", "run": "true"},
                                               {"name": "two", "run": "[ ! -e $HOME/hold ] || while [ ! -e $HOME/go ]; do sleep 0.05; done"},
                                               {"name": "three", "run": "true"}],
                     "distributed": {"nnodes": 2}, "entrypoint": {"run": "true"}})
    rhrun(spec).ok()
    (box.home / "hold").touch()
    running = box.start("--fresh", spec)
    wait_for(lambda: re.search(r"^  two +running 2 ", rhrun("status", "anew").out, re.M), what="the second step")
    told = rhrun("status", "anew").ok().out
    assert re.search(r"^  one +ok 2 in \S+ \w+$", told, re.M), told
    assert re.search(r"^  three +to do 2$", told, re.M) and re.search(r"^  launch +to do 2$", told, re.M), told
    assert len(re.findall(r"^  launch +local-\d +to do$", rhrun("status", "--all", "anew").ok().out, re.M)) == 2
    (box.home / "go").touch()
    running.wait().ok()
    assert re.search(r"^  launch +ok 2 in \S+ \w+$", rhrun("status", "anew").ok().out, re.M)


def test_status_watched_in_a_small_window(box, rhrun, terminal):
    spec = box.spec({"name": "small", "setup": [{"name": f"step-{i}", "run": "true"} for i in range(9)],
                     "entrypoint": {"run": "while [ ! -e $HOME/go ]; do sleep 0.05; done"}})
    running = box.start(spec)
    running.wait_text("launch|step-8: done")
    t = terminal("status", "--watch", "small", columns=60, rows=8)
    t.pump(until=lambda shown: re.search(r"^  launch +running for", shown, re.M))
    shown = t.display()
    assert re.match(r"run [0-9a-f]{16} of small: running", shown) and "step-8" in shown and "step-1" not in shown, shown
    (box.home / "go").touch()
    t.pump()
    assert t.rc == 0 and t.display().startswith("run "), t.display()
    running.wait().ok()


def test_a_job_is_named_where_a_run_is(box, rhrun):
    box.spec({"name": "named", "params": {"lr": 0.1}, "entrypoint": {"run": "echo lr is ${{ params.lr }}"}})
    (box.work / "named").mkdir()  # a folder with that name is no spec
    rhrun("job.yaml").ok()
    rhrun("job.yaml", "-p", "lr=0.2").ok()
    assert "lr is 0.2" in rhrun("logs", "named").ok().out
    assert "lr is 0.1" in rhrun("logs", "named", "-p", "lr=0.1").ok().out
    assert "-p lr=0.1" in rhrun("status", "named", "-p", "lr=0.1").ok().out
    assert "never run with" in rhrun("logs", "named", "-p", "lr=0.3").expect(2).err
    table = rhrun("runs", "named").ok().out.splitlines()
    assert [x.split()[-1] for x in table[1:]] == ["lr=0.2", "lr=0.1"]
    assert [r["params"] for r in rhrun("runs", "--json", "named").ok().json()] == [{"lr": "0.2"}, {"lr": "0.1"}]
    assert len(rhrun("runs", "named", "-p", "lr=0.1").ok().out.splitlines()) == 2
    assert 'no job "nimed"' in rhrun("status", "nimed").expect(2).err
    box.spec({"name": "named", "entrypoint": {"run": "true"}}, "other.yaml")
    rhrun("other.yaml").ok()
    both = rhrun("status", "named").expect(2).err
    assert '2 jobs have the name "named"' in both and "other.yaml" in both and "job.yaml" in both


def test_runs_tell_what_came_of_them(box, rhrun):
    spec = box.spec({"name": "told", "params": {"n": 3}, "metrics": [{"name": "loss", "pattern": r"loss=(?<value>\S+)"}],
                     "entrypoint": {"run": "echo loss=0.25; exit ${{ params.n - 3 }}"}})
    rhrun(spec).ok()
    rhrun(spec, "-p", "n=4").expect(1)
    failed, good = rhrun("runs").ok().out.splitlines()[1:]
    assert "loss 0.25" in good and good.endswith("n=3") and "exit status" in failed and failed.endswith("n=4")
    assert [r["result"] for r in rhrun("runs", "--json").ok().json()][1] == "loss 0.25"


def test_logs_of_some_lines(box, rhrun, terminal):
    spec = box.spec({"name": "lines", "distributed": {"nnodes": 2},
                     "entrypoint": {"run": "for i in $(seq 1 40); do echo line $i of $RANK; done"}})
    rhrun(spec).ok()
    assert rhrun("logs", "--rank", "1", "--tail", "2", spec).ok().out == "line 39 of 1\nline 40 of 1\n"
    assert len(rhrun("logs", "--tail", "5", spec).ok().out.splitlines()) == 5
    assert sorted(rhrun("logs", "--grep", "line 1[0-1] of", spec).ok().out.splitlines()) == [
        f"default[{r}]@local-{r}: line {i} of {r}" for r in (0, 1) for i in (10, 11)]
    assert rhrun("logs", "--node", "local-1", "--tail", "1", spec).ok().out == "default[1]@local-1: line 40 of 1\n"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} line 40 of 0\n",
                        rhrun("logs", "--timestamps", "--rank", "0", "--tail", "1", spec).ok().out)
    assert len(rhrun("logs", "--since", "1h", spec).ok().out.splitlines()) == 80
    assert rhrun("logs", "--since", "2035-01-01", spec).ok().out == ""
    for args, words in ((["--rank", "7"], "there are ranks 0 to 1"), (["--node", "7"], "there are nodes 0 to 1: local-0, local-1"),
                        (["--grep", "("], "missing closing parenthesis"), (["--since", "noon"], "is not a time"), (["--tail", "0"], "is neither a number")):
        assert words in rhrun("logs", *args, spec).expect(2).err
    t = terminal("logs", "-f", spec)  # a user who follows on a terminal needs the new lines
    t.pump()
    assert t.rc == 0 and t.raw.count(b"\r\n") == 21 and b"the last 20 of 80 lines; --tail all prints every one" in t.raw


def test_logs(done, rhrun):
    text = rhrun("logs", done).ok().text
    for rank in range(4):
        assert f"out-of-rank {rank}" in text and f"err-of-rank {rank}" in text
    only = rhrun("logs", "--rank", "2", done).ok().text
    assert "out-of-rank 2" in only and "out-of-rank 1" not in only
    step = rhrun("logs", "--step", "one", done).ok().text
    assert "step-one-says" in step and "out-of-rank" not in step
    r = rhrun("logs", "--step", "onne", done).expect(2)
    assert "onne" in r.err and "one" in r.err


def test_logs_follow_ends_with_the_run(box, rhrun):
    spec = box.spec("entrypoint: {run: 'echo begin; while [ ! -e $HOME/stop ]; do sleep 0.05; done; echo the-end'}\n")
    r = box.start(spec)
    r.wait_text("begin")
    follower = box.start("logs", "-f", spec)
    follower.wait_text("begin")
    (box.home / "stop").touch()
    assert "the-end" in follower.wait().ok().out
    r.wait().ok()


def test_show_fills_in_defaults(box, rhrun):
    yaml = require("yaml")
    shown = rhrun("show", box.spec(SPEC)).ok().out
    document = yaml.safe_load(shown)
    assert document["name"] == "job-of-tests"
    assert document["distributed"]["launcher"] == "native"
    again = box.spec(shown, "shown.yaml")
    rhrun("validate", again).ok()


def test_schema_is_json_schema(rhrun):
    jsonschema = require("jsonschema")
    jsonschema.Draft202012Validator.check_schema(json.loads(rhrun("schema").ok().out))


def test_every_key_of_the_schema_is_described(rhrun):
    def walk(node, path):
        if isinstance(node, dict):
            for key, value in node.get("properties", {}).items():
                if isinstance(value, dict):
                    assert "description" in value or "$ref" in value, f"{path}/{key} has no description"
            for key, value in node.items():
                if key not in ("if", "else"):  # these say more about keys that are described elsewhere
                    walk(value, f"{path}/{key}")
        elif isinstance(node, list):
            for i, value in enumerate(node):
                walk(value, f"{path}/{i}")
    walk(json.loads(rhrun("schema").ok().out), "")


def test_doctor(rhrun, box):
    r = rhrun("doctor").ok()
    assert "rhrun" in r.text
    rhrun("doctor", "--json").ok().json()
    rhrun("doctor", box.spec(SPEC)).ok()


def test_doctor_names_the_host_that_fails(rhrun, box, fleet):
    f = fleet(2)
    f.stop(2)
    spec = box.spec({"cluster": f.cluster(), "distributed": {}, "entrypoint": {"run": "echo"}})
    r = rhrun("doctor", spec).expect(3)
    assert "node1" in r.text and "node2" in r.text and "refused" in r.text.lower()
    assert "as soon as every node can be reached" in r.text, "nothing is said to be in order that was not looked at"


def test_nodes_that_fail_alike_are_told_of_once(box, rhrun):
    """By cause, with the command that tries one of them by hand."""
    key = box.dir / "no key"
    hosts = [{"host": f"127.0.0.{i}", "user": "root", "port": 9, "identity_file": str(key)} for i in range(1, 6)] + ["no-such-host.invalid"]
    spec = box.spec({"cluster": {"hosts": hosts}, "entrypoint": {"run": "true"}})
    r = rhrun(spec).expect(3)
    told = re.search(r"^rhrun: error: 5 of 6 nodes: connection refused: (.*)\n  1 of 6 nodes: resolve: .*: no-such-host\.invalid\n  hint: (.*)$", r.err, re.M)
    assert told and told[1].split(", ") == [f"root@127.0.0.{i}:9" for i in range(1, 6)], r.err
    assert f"ssh -i '{key}' -p 9 root@127.0.0.1" in told[2] and r.err.count("refused") == 1, r.err
    (result,) = [e for e in rhrun("--json", spec).expect(3).events() if e["type"] == "result"]
    assert result["code"] == "infra" and result["error"].startswith("5 of 6 nodes: connection refused: ") and "; 1 of 6" in result["error"]
    check_schema(result, "events.schema.json")
    assert rhrun("plan", spec).ok().err.count("5 of 6 nodes: connection refused: ") == 1
    bad = [f for f in rhrun("doctor", "--json", spec).expect(3).json() if f["what"] == "5 of 6 nodes"]
    assert len(bad) == 1 and len(bad[0]["nodes"]) == 5


def test_no_word_of_authorized_keys_where_no_key_was_offered(box, rhrun, fleet):
    f = fleet(1)
    spec = box.spec({"cluster": f.explicit_cluster(identity_file=str(box.dir / "none")), "entrypoint": {"run": "true"}})
    r = rhrun(spec, env={"SSH_AUTH_SOCK": None}).expect(3)
    assert "there is no key to offer" in r.err and "authorized_keys" not in r.err, r.err
    assert f"by hand: ssh -i {box.dir / 'none'} -p {f.port(1)} " in r.err and "@127.0.0.1" in r.err, r.err


def test_hosts_whose_keys_are_not_the_known_ones(box, rhrun, fleet):
    """Reported once for all; the commands of the hint are about the file that rhrun reads."""
    f = fleet(2)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", box.dir / "fake"], check=True)
    fake = " ".join((box.dir / "fake.pub").read_text().split()[:2])
    known = box.spec("".join(f"[127.0.0.1]:{f.port(i)} {fake}\n" for i in (1, 2)), "it's known hosts")
    spec = box.spec({"cluster": f.explicit_cluster(known_hosts=str(known)), "entrypoint": {"run": "true"}})
    r = rhrun(spec).expect(3)
    assert len(re.findall(rf"^rhrun: error: 2 of 2 nodes: host key: the host key has changed: {re.escape(str(known))} lists another key: ",
                          r.err, re.M)) == 1 and r.err.count("has changed") == 1, r.err
    remove, login = re.search(r"if the change is expected: (ssh-keygen .*), then (ssh .*)$", r.err, re.M).groups()
    for i in (1, 2):
        known.write_text(known.read_text().replace(f"[127.0.0.1]:{f.port(i)} ", f"[127.0.0.1]:{f.port(1)} "))
    subprocess.run(remove, shell=True, check=True, capture_output=True)
    assert known.read_text() == ""
    # As typed, but for the question that a person answers.
    subprocess.run(login.replace("ssh ", "ssh -o StrictHostKeyChecking=accept-new ", 1) + " true", shell=True, check=True,
                   capture_output=True, stdin=subprocess.DEVNULL)
    r = rhrun(spec).expect(3)
    assert r.err.count("the host is not in ") == 1 and f"-p {f.port(2)} " in r.err, r.err  # the first is known now


def test_an_ssh_config_that_is_not_there(box, rhrun):
    """The file may define the names of its hosts, so they are not looked up."""
    spec = box.spec("cluster: {hosts: [node1], ssh_config: ./nope}\nentrypoint: {run: 'true'}\n")
    assert 'job.yaml:1:39: warning: there is no ssh_config "./nope" on this machine' in rhrun("validate", spec).ok().err
    require("ssh")
    r = rhrun(spec).expect(3)
    assert "ssh -G failed" in r.err and "nope" in r.err and "resolve" not in r.err, r.err


@pytest.mark.parametrize("args, code", [
    (["status", "nope"], "usage"), (["result", "last"], "usage"), (["logs", "nope"], "usage"), (["runs", "--limit", "x"], "usage"),
    (["run", "nowhere.yaml"], "spec"), (["run", "faulty.yaml"], "spec"), (["diff", "nope", "nopes"], "usage")])
def test_json_says_what_went_wrong(box, rhrun, args, code):
    box.spec("entrypint: 1\n", "faulty.yaml")
    r = rhrun(*args, "--json").expect(2)
    last = json.loads(r.out.splitlines()[-1])
    assert last["error"] and last["code"] == code and last["error"] in r.err, r
    if "type" in last:
        assert last["exit_status"] == 2
        check_schema(last, "events.schema.json")


def test_hints_are_commands_for_the_shell(box, rhrun):
    spec = box.spec("entrypoint: {run: 'true'}\n", "a job's spec.yaml")
    rhrun(spec).ok()
    said = re.search(r"to launch it again: (rhrun .*); to do everything", rhrun(spec).ok().err)[1]
    assert shlex.split(said) == ["rhrun", str(spec), "--again"]


def test_hints_launch_what_was_asked_for(box, rhrun):
    """With the options that were given: without them it would be another job."""
    spec = box.spec("params: {p: a}\nentrypoint: {run: 'echo ${{ params.p }} \"$@\"'}\n", "a job's spec.yaml")
    for given in (["-p", "p=it's b"], ["-p", "p=c", "--", "d e"]):
        rhrun(spec, *given).ok()
        said = shlex.split(re.search(r"to launch it again: (rhrun .*); to do everything", rhrun(spec, *given).ok().err)[1])
        assert "--again" in said and said[0] == "rhrun"
        assert rhrun(*said[1:]).ok().out == rhrun(spec, *given[:2], "--again", *given[2:]).ok().out


def test_names_of_files_in_hints(box, rhrun):
    """As a shell, or a spec, takes them."""
    spec = box.spec("entrypoint: {run: 'true'}\n")
    plan = box.work / "it's my plan.json"
    rhrun("plan", spec, "-o", plan).ok()
    plan.write_bytes(plan.read_bytes()[:-20])
    said = re.search(r"make it again: (rhrun .*) SPEC", rhrun("apply", plan).expect(2).err)[1]
    assert shlex.split(said) == ["rhrun", "plan", "-o", str(plan)]
    yaml = require("yaml")
    big = box.work / "src" / "big, it's #1: all" / "file"
    big.parent.mkdir(parents=True)
    big.touch()
    os.truncate(big, 210_000_000)  # of holes
    document = {"workdir": {"path": "src"}, "entrypoint": {"run": "true"}}
    said = re.search(r"leave out what the job does not need: (workdir: .*)$", rhrun("plan", box.spec(document)).ok().err, re.M)[1]
    document["workdir"].update(yaml.safe_load(said)["workdir"])
    assert "leave out" not in rhrun("plan", box.spec(document)).ok().err, said


def test_a_name_that_is_nearly_one(box, rhrun):
    rhrun(box.spec("name: train\nentrypoint: {run: 'true'}\n")).ok()
    assert "did you mean train?" in rhrun("status", "tarin").expect(2).err
    assert "did you mean" not in rhrun("status", "other").expect(2).err


def test_jobs_of_one_name_are_told_apart_by_what_a_shell_takes(box, rhrun):
    specs = [box.spec("name: same\nentrypoint: {run: 'true'}\n", f"{folder}/it's one.yaml") for folder in ("a b", "c")]
    for spec in specs:
        rhrun(spec).ok()
    r = rhrun("logs", "same").expect(2)
    named = shlex.split(re.search(r"name the spec file: (.*)$", r.err, re.M)[1].replace(", ", " "))
    assert sorted(named) == sorted(map(str, specs)), r.err


def test_events_follow_the_published_schema(box, rhrun):
    for event in rhrun("--json", box.spec(SPEC)).ok().events():
        check_schema(event, "events.schema.json")


def test_json_of_a_failing_job(box, rhrun):
    r = rhrun("--json", box.spec("entrypoint: {run: exit 3}\n")).expect(1)
    closed = [e for e in r.events() if e["type"] == "run_closed"]
    assert len(closed) == 1 and closed[0]["exit_status"] == 1


def test_quiet_and_verbose(box, rhrun):
    spec = box.spec("entrypoint: {run: echo out}\n")
    quiet = rhrun("--quiet", spec).ok()
    assert "out" in quiet.out and not quiet.err.strip()
    verbose = rhrun("--verbose", "--again", spec).ok()
    assert len(verbose.err) > len(quiet.err)


def test_no_colour_without_a_terminal(box, rhrun):
    r = rhrun(box.spec("entrypoint: {rum: x}\n"), env={"NO_COLOR": None, "TERM": "xterm-256color"}).expect(2)
    assert "\x1b" not in r.text


def test_users_read_of_steps_never_of_checkpoints(done, rhrun):
    for args in (["--help"], ["status", done], ["plan", done], ["runs"], [done]):
        assert "checkpoint" not in rhrun(*args).text.lower()


def test_a_broken_pipe_is_no_error_message(done, box):
    p = subprocess.run(["bash", "-c", f"{RHRUN} logs {done} | head -1"], env=box.env, capture_output=True, text=True, timeout=30)
    assert "rhrun:" not in p.stderr


def test_the_man_page_names_every_command():
    page = (ROOT / "docs/rhrun.1").read_text()
    for name in COMMANDS:
        assert name in page


def test_plan_says_which_node_could_not_be_asked(rhrun, job):
    spec = job("""
        cluster: {hosts: [{host: 127.0.0.1, port: 1}], ssh_config: none}
        setup: [{name: s, run: "true"}]
        entrypoint: {command: ["true"]}
        """)
    r = rhrun("plan", spec).ok()
    assert "depends " in r.out and "the node could not be asked" in r.out
    assert "127.0.0.1" in r.err and "refused" in r.err
    assert "depends" not in rhrun("plan", "--offline", spec).ok().out


def test_cancel_when_the_controller_dies_meanwhile(box, rhrun):
    """It was asked to stop, and is killed before it did: cancel goes to the nodes itself."""
    spec = box.spec("entrypoint: {run: 'echo up; exec sleep 600'}\n")
    r = box.start(spec)
    r.wait_text("up")
    r.signal(signal.SIGSTOP)
    cancel = box.start("cancel", spec)
    wait_for(lambda: any(p.argv[1:2] == ["cancel"] for p in processes_of(box.dir)), what="the request")
    r.kill9()
    cancel.wait().ok()
    assert "cancelled" in rhrun("status", spec).ok().out


FUNCTION = """
workdir: src
distributed: {nproc_per_node: 2}
entrypoint: {function: "mod:f", kwargs: {text: "é\\"x", n: 2}}
"""


def test_result(box, rhrun):
    (box.work / "src").mkdir()
    (box.work / "src/mod.py").write_text("import os\n\ndef f(text, n):\n    return {'text': text, 'n': n * int(os.environ['RANK'])}\n")
    spec = box.spec(FUNCTION)
    assert "was never run" in rhrun("result", spec).expect(2).err
    rhrun(spec).ok()
    assert rhrun("result", spec).ok().json() == {"text": "é\"x", "n": 0}
    assert rhrun("result", "--rank", "1").ok().json() == {"text": "é\"x", "n": 2}
    assert rhrun("result", "--all", "--json", "last").ok().json() == {"0": {"text": "é\"x", "n": 0}, "1": {"text": "é\"x", "n": 2}}
    assert "rank 0 to 1" in rhrun("result", "--rank", "2", spec).expect(2).err
    assert "--all" in rhrun("result", "--rank", "1", "--all", spec).expect(2).err


def test_result_of_what_has_none(box, rhrun):
    plain = box.spec("entrypoint: {run: echo}\n", "plain.yaml")
    rhrun(plain).ok()
    assert "called no function" in rhrun("result", plain).expect(2).err
    (box.work / "src").mkdir()
    (box.work / "src/mod.py").write_text("def f(text, n):\n    raise ValueError('no good')\n")
    spec = box.spec(FUNCTION)
    r = rhrun(spec).expect(1)
    assert "ValueError: no good" in r.err and "mod.py" in r.err, r
    failed = rhrun("result", spec).expect(1)
    assert "has no result" in failed.err and "failed" in failed.err and not failed.out


def test_what_only_asks_for_a_run_reads_no_files(box, rhrun):
    """The sources are gone; the records are not."""
    (box.work / "src").mkdir()
    spec = box.spec({"workdir": "src", "entrypoint": {"run": "echo said"}})
    rhrun(spec).ok()
    (box.work / "src").rmdir()
    assert "done" in rhrun("status", spec).ok().out
    assert "said" in rhrun("logs", spec).ok().out
    assert rhrun("runs", "--json", spec).ok().json()
    rhrun("attach", spec).ok()
    rhrun("cancel", spec).ok()
    assert "src" in rhrun(spec).expect(2).err


def test_what_pip_said_last_stands_with_the_error(box, rhrun):
    (box.work / "src").mkdir()
    (box.work / "src/requirements.txt").write_text("this-is-in-no-index==1\n")
    spec = box.spec({"workdir": "src", "requirements": "requirements.txt", "env": {"PIP_NO_INDEX": "1"}, "entrypoint": {"run": "true"}})
    r = rhrun(spec).expect(1)
    lines = r.err.splitlines()
    error = next(i for i, line in enumerate(lines) if line.startswith("rhrun: error:"))
    assert "requirements.txt" in lines[error] and any("this-is-in-no-index" in line for line in lines[error - 3:error]), r


def test_names_that_people_try(done, rhrun):
    runs = rhrun("runs", "--json").ok().out
    for name in ("ps", "ls", "list"):
        assert rhrun(name, "--json").ok().out == runs
    assert "has ended already" in rhrun("stop").ok().err
    assert "Also: rhrun ps, rhrun ls, rhrun list." in rhrun("ps", "--help").ok().out
    version = rhrun("--version").ok().out
    assert version == rhrun("version").ok().out == rhrun("-V").ok().out


def test_dry_run_is_the_plan(box, rhrun):
    spec = box.spec("name: dry\nparams: {p: a}\nentrypoint: {command: [touch, 'made-${{ params.p }}']}\n")
    assert rhrun("run", "--dry-run", spec, "-p", "p=b").ok().out == rhrun("plan", spec, "-p", "p=b").ok().out
    assert "made-b" in rhrun(spec, "--dry-run", "-p", "p=b", "--again").ok().out
    assert not (box.work / "made-b").exists() and not (box.work / "made-a").exists()


@pytest.mark.parametrize("options, out", [
    ([], "hello from rank 1 of 2"),
    (["--torchrun"], "rank 1 of 2, which meet at"),
    (["--function"], None),
], ids=["plain", "torchrun", "function"])
def test_init(box, rhrun, options, out):
    path = box.work / "first.yaml"
    rhrun("init", path, *options).ok()
    text = path.read_text()
    schema = json.loads((ROOT / "schema/job.schema.json").read_text())
    assert text.startswith(f"# yaml-language-server: $schema={schema['$id']}\n")
    rhrun("validate", path).ok()
    r = rhrun(path).ok()
    assert out is None or out in r.out, r
    if options == ["--function"]:
        assert rhrun("result", path).ok().json() == {"sum": 6, "mean": 2.0}
    refused = rhrun("init", path, *options).expect(2)
    assert "there already" in refused.err and path.read_text() == text


def test_init_with_a_name_that_a_shell_would_cut(box, rhrun):
    path = box.work / "it's first.yaml"
    rhrun("init", "it's first.yaml").ok()
    for line in re.findall(r"# (rhrun .*?)  +|# (rhrun .* -p greeting=hi)$", path.read_text(), re.M):
        assert "it's first.yaml" in shlex.split(line[0] or line[1]), line


@pytest.mark.parametrize("options, out", [
    ([], "hello from rank 3 of 4"),
    (["--torchrun"], "rank 3 of 4, which meet at"),
    (["--function"], None),
], ids=["plain", "torchrun", "function"])
def test_init_on_hosts(box, rhrun, fleet, options, out):
    """As it is written, with the lines that say where this fleet's keys are: those of ~/.ssh are not the test's."""
    f = fleet(2)
    user = getpass.getuser()
    addresses = ",".join(f"{user}@127.0.0.1:{f.port(i)}" for i in (1, 2))
    own_key = "  # identity_file: ~/.ssh/id_ed25519\n"
    for name, hosts, more in (("first.yaml", "node1,node2", f"  ssh_config: {f.dir}/ssh_config\n"),
                              ("second.yaml", addresses, f"  identity_file: {f.dir}/key\n  known_hosts: {f.dir}/known_hosts\n")):
        path = box.work / name[:5] / name
        path.parent.mkdir()
        rhrun("init", path, "--hosts", hosts, *options).ok()
        assert rhrun(path).expect(3).out == ""
        text = path.read_text()
        assert own_key in text and (text.index("# names of") - text.index("  hosts: [") == 33 or len(hosts) > 20)
        path.write_text(text.replace(own_key, more))
        rhrun("validate", path).ok()
        r = rhrun(path).ok()
        assert out is None or out in r.out, r
        if options == ["--function"]:
            assert rhrun("result", path).ok().json() == {"sum": 6, "mean": 2.0}
        assert "nothing to do" in rhrun(path).ok().err
        assert all(list((f.home(i) / ".rhrun").glob("*")) for i in (1, 2))


def test_init_leaves_nothing_where_it_cannot(box, rhrun):
    path = box.work / "job.yaml"
    rhrun("init", path, "--hosts", "user@", "--torchrun").expect(2)
    assert "control" not in rhrun("init", path, "--torchrun", "--function").expect(2).err
    assert not list(box.work.iterdir())
    (box.work / "train.py").write_text("print('mine')\n")
    rhrun("init", path, "--hosts", "u@h1,h2:2222", "--torchrun").ok()
    assert "h2:2222" in path.read_text() and (box.work / "train.py").read_text() == "print('mine')\n"
    assert json.loads(rhrun("show", "--json", path).ok().out)["cluster"]["hosts"]
