"""A role's own set-up: a venv, packages, files and outputs that the other roles do not have, also on the same node."""
import os
import re
import signal

import pytest

from harness import agent_processes, wait_for, workers_of
from wheels import offline, quick_python, started, wheel

LOOK = """import importlib.util, os, sys
have = {n: getattr(__import__(n), "version") for n in ("alpha", "beta") if importlib.util.find_spec(n)}
print(os.path.basename(sys.prefix), have, os.environ.get("VIRTUAL_ENV") == sys.prefix, os.environ["RANK"] + "/" + os.environ["WORLD_SIZE"])
"""


@pytest.fixture
def wheels(box):
    folder = box.dir / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        wheel(folder, "alpha", version)
        wheel(folder, "beta", version)
    box.env.update(offline(folder), LINES=str(box.home / "lines"))
    (box.work / "src").mkdir()
    (box.work / "src/look.py").write_text(LOOK)
    return folder


def spec_of(box, roles, **more):
    spec = {"name": "roles", "workdir": "src", "python": {"interpreter": quick_python(box)}, "roles": roles,
            "entrypoint": {"script": "look.py"}, **more}
    return box.spec(spec)


def seen(result):
    """role -> its worker's report on its Python."""
    return dict(re.findall(r"^(\w+)\[0\]@\S+: (.*)$", result.out, re.M))


def folders(box, result):
    return {role: re.sub(r"^[0-9a-f]{16}", "JOB", text) for role, text in seen(result).items()}


def test_each_role_has_its_python_on_one_node(box, wheels):
    spec = spec_of(box, {"old": {"packages": ["alpha<2"]}, "new": {"packages": ["alpha>=2"], "python": {"system_site_packages": False}},
                         "plain": {}, "bare": {"python": {"venv": False}, "packages": [], "entrypoint": {"run": 'echo "${VIRTUAL_ENV-none} $RANK/$WORLD_SIZE"'}}},
                   packages=["beta<2"])
    first = box.run(spec).ok()
    assert folders(box, first) == {"old": "JOB.old {'alpha': '1.0'} True 0/4", "new": "JOB.new {'alpha': '2.0'} True 1/4",
                                   "plain": "JOB {'beta': '1.0'} True 2/4", "bare": "none 3/4"}
    assert "nothing to do" in box.run(spec).ok().err


def test_an_edit_of_one_roles_set_up(box, wheels):
    roles = {"a": {"packages": ["alpha"], "setup": [{"name": "make", "run": "echo a $NAME >>$LINES"}], "env": {"NAME": "of-a"}},
             "b": {"packages": ["alpha<2"], "setup": [{"name": "make", "run": "echo b >>$LINES"}]}, "c": {}}
    setup = [{"name": "make", "run": "echo job >>$LINES"}]
    first = box.run("--json", spec_of(box, roles, setup=setup)).ok()
    assert started(first) == ["sync", "python", "a:python", "b:python", "make", "a:pip:alpha", "a:make", "b:pip:alpha", "b:make",
                              "launch", "launch:a", "launch:b"]
    assert box.lines() == ["job", "a of-a", "b"]
    roles["a"]["packages"] = ["alpha==1.0"]
    spec = spec_of(box, roles, setup=setup)
    plan = {s["name"]: s for s in box.run("plan", spec, "--json").ok().json()["steps"]}
    assert [n for n, s in plan.items() if s["verdicts"][0]["verdict"] != "keep"] == ["a:pip:alpha", "a:make", "launch", "launch:a", "launch:b"]
    assert plan["a:make"]["role"] == "a" and "role" not in plan["make"]
    assert plan["a:make"]["verdicts"][0]["reason"] == "after a:pip:alpha (which runs again)"
    again = box.run("--json", spec).ok()
    assert started(again) == ["a:pip:alpha", "a:make", "launch", "launch:a", "launch:b"]
    assert box.lines() == ["job", "a of-a", "b", "a of-a"]
    # of the job's: a and b follow it, since it is on their node too
    again = box.run("--json", spec_of(box, roles, setup=[{"name": "make", "run": "echo JOB >>$LINES"}])).ok()
    assert started(again) == ["make", "a:make", "b:make", "launch", "launch:a", "launch:b"]
    again = box.run("--json", "--from", "a:make", box.work / "job.yaml").ok()
    assert started(again) == ["a:make", "launch", "launch:a", "launch:b"]


def test_set_up_files_and_outputs_on_the_roles_nodes(box, wheels, fleet):
    nodes = fleet(3)
    (box.work / "model").write_text("weights\n")
    (box.work / "data").write_text("rows\n")
    write = {"run": "ls given 2>/dev/null; mkdir -p out; echo $ROLE_NAME $ROLE_RANK > out/$ROLE_NAME-$ROLE_RANK"}
    spec = spec_of(box, {
        "server": {"nnodes": 2, "nodes": [0, 1], "packages": ["alpha"], "files": [{"from": "model", "to": "given/"}],
                   "setup": [{"name": "mark", "run": "touch ~/server-mark"}, {"name": "once", "run": "touch ~/once", "on": "first"}],
                   "outputs": [{"from": "out/", "to": "of-${{ role }}/", "nodes": "all"}]},
        "trainer": {"nodes": [2]}}, cluster=nodes.cluster(), env=offline(wheels), packages=["beta"],
        files=[{"from": "data", "to": "given/"}], setup=[{"name": "mark", "run": "touch ~/job-mark"}],
        entrypoint=write)
    text = box.run("plan", spec).ok().out
    assert re.search(r"^ *run +server:mark +0-1 ", text, re.M) and re.search(r"^ *run +mark +node3 ", text, re.M), text
    result = box.run(spec).ok()
    given = dict(re.findall(r"^(\w+\[\d\])@\S+: (\w+)$", result.out, re.M))
    assert given == {"server[0]": "model", "server[1]": "model", "trainer[0]": "data"}
    marks = [sorted(p.name for p in nodes.home(i).glob("*mark")) for i in (1, 2, 3)]
    assert marks == [["server-mark"], ["server-mark"], ["job-mark"]]
    assert [(nodes.home(i) / "once").exists() for i in (1, 2, 3)] == [True, False, False]
    venvs = [[p.name[16:] for p in (nodes.home(i) / ".rhrun/venv").iterdir()] for i in (1, 2, 3)]
    assert venvs == [[".server"], [".server"], [""]]
    home = sorted(str(p.relative_to(box.work)) for p in (box.work / "of-server").rglob("*") if p.is_file())
    assert home == ["of-server/node1/server-0", "of-server/node2/server-1"]
    assert "nothing to do" in box.run(spec).ok().err
    (box.work / "model").write_text("other weights\n")
    assert sorted(set(started(box.run("--json", spec).ok()))) == ["launch", "launch:server", "server:files-1", "server:mark", "server:once",
                                                                 "server:outputs-1"]


def test_files_of_several_in_one_folder(box, job):
    (box.work / "src").mkdir()
    for name in "abc":
        (box.work / name).write_text(name)
    spec = job({"workdir": "src", "files": [{"from": "a", "to": "given/"}, {"from": "b", "to": "given/"}],
                "roles": {"x": {"files": [{"from": "c", "to": "given/"}]}, "y": {}}, "entrypoint": {"run": "echo $(cat given/*)"}})
    assert seen(box.run(spec).ok()) == {"x": "abc", "y": "abc"}
    again = box.run(spec).ok()
    assert "nothing to do" in again.err and "warning" not in again.err
    (box.work / "c").write_text("C")
    result = box.run("--json", spec).ok()
    assert started(result) == ["x:files-1", "launch"]
    assert "abC" in box.run("logs", "last").ok().out


def test_killed_in_the_middle_of_a_roles_set_up(box, wheels):
    wait = "echo begin >>$LINES; while [ ! -e $LINES.go ]; do sleep 0.02; done; echo end >>$LINES"
    spec = spec_of(box, {"a": {"packages": ["alpha"], "setup": [{"name": "slow", "run": wait}]}, "b": {"packages": ["beta"]}})
    running = box.start(spec)
    wait_for(lambda: box.lines() == ["begin"], what="the step")
    running.kill9()
    assert workers_of(box.dir), "it runs on without a controller"
    plan = {s["name"]: s["verdicts"][0] for s in box.run("plan", spec, "--json").ok().json()["steps"]}
    assert plan["a:slow"]["reason"] == "it is running now"
    assert plan["a:pip:alpha"]["verdict"] == "keep" and plan["b:pip:beta"]["verdict"] == "run"
    running = box.start("--json", spec)
    (box.home / "lines.go").touch()
    result = running.wait().ok()
    assert "a:slow" not in started(result) and "b:pip:beta" in started(result)
    assert box.lines() == ["begin", "end"]


@pytest.mark.soak
def test_a_supervisor_that_dies_in_a_roles_set_up(box, wheels):
    """Unknown is no success: it is done again, in the venv that is there, and the other role's steps are kept."""
    wait = 'echo "begin $(basename $VIRTUAL_ENV)" >>$LINES; [ ! -e $LINES.first ] || exit 0; touch $LINES.first; while :; do sleep 0.02; done'
    spec = spec_of(box, {"a": {"packages": ["alpha"]}, "b": {"packages": ["beta"], "setup": [{"name": "slow", "run": wait}]}})
    running = box.start(spec)
    wait_for(lambda: len(box.lines()) == 1, what="the step")
    running.kill9()
    for supervisor in agent_processes(box.dir)[1]:
        os.kill(supervisor.pid, signal.SIGKILL)
    result = box.run("--json", spec).ok()
    assert "b:slow" in started(result) and "a:pip:alpha" not in started(result) and "b:python" not in started(result)
    assert [line[-2:] for line in box.lines()] == [".b", ".b"]
