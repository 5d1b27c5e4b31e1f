"""The commands around a run: what they print, what they mean by their exit status, and their JSON."""
import json
import re
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
COMMANDS = ["run", "validate", "plan", "show", "runs", "status", "logs", "attach", "cancel", "result", "doctor", "prices", "up", "down", "clusters", "gc", "ssh", "schema",
            "completion"]


def test_start_loads_no_library_that_few_need(rhrun):
    """libcurl and libxml2 bring a dozen others; they are loaded by whoever asks a provider."""
    loaded = subprocess.run([RHRUN, "--version"], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True, check=True).stdout
    assert "libuv" in loaded
    assert not re.search(r"curl|libxml2|libicu|libssl|nghttp2", loaded), loaded


def test_version_and_help(rhrun):
    assert re.search(r"rhrun \d+\.\d+", rhrun("--version").ok().out)
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
    """Not of another variant's steps; and what a later run of the variant did is called so."""
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
                if key not in ("if", "else"):  # they say more of keys that are described where they belong
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
    assert "once every node can be reached" in r.text, "nothing is said to be in order that was not looked at"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(rhrun, box, shell):
    script = rhrun("completion", shell).ok().out
    for name in COMMANDS:
        assert name in script
    if shell == "bash":
        path = box.spec(script, "completion.bash")
        done = subprocess.run(["bash", "-c", f'. {path}; complete -p rhrun >/dev/null && COMP_WORDS=(rhrun val) COMP_CWORD=1; '
                               f'fn=$(complete -p rhrun | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $fn rhrun val rhrun; echo "${{COMPREPLY[@]}}"'],
                              capture_output=True, text=True, timeout=20)
        assert "validate" in done.stdout, done


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
    """It was asked to stop and is killed before it did: cancel goes to the nodes itself."""
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
    """The sources are gone; what is recorded is not."""
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
