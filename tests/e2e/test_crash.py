"""kill -9 at any instant, then run again: each line is there exactly once, and the final state is the same.

RHRUN_TEST_KILL_AFTER_EVENT=N is the journal's own hook: SIGKILL as soon as N events of the process are durable.
RHRUN_TEST_CRASHES: the number of random instants (40).
"""
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import agent_processes, wait_for, workers_of

CRASHES = int(os.environ.get("RHRUN_TEST_CRASHES", "40"))
WANTED = ["one", "two", "launch"]


def spec_of(cluster, nodes):
    """Each step appends a line on each node, and takes long enough to be hit in the middle."""
    return json.dumps({
        "name": "crash",
        "cluster": cluster,
        "setup": [{"name": n, "run": "sleep 0.02; echo %s >>$LINES_DIR/lines.${{ node.rank }}; sleep 0.02" % n} for n in ("one", "two")],
        "distributed": {"nnodes": nodes, "nproc_per_node": 1},
        "entrypoint": {"run": "sleep 0.02; echo launch >>$LINES_DIR/lines.${{ node.rank }}; sleep 0.02"},
        "env": {"LINES_DIR": "${{ params.lines }}"},
        "params": {"lines": {"type": "string", "default": "/nonexistent"}},
    })


class World:
    """A cluster, a spec, and the file that each node's steps write to; reset() makes all of it anew."""

    def __init__(self, box, fleet, nodes, where):
        self.box, self.nodes = box, nodes
        self.fleet = fleet(nodes) if where == "ssh" else None
        self.folder = box.dir / "marks"
        cluster = self.fleet.cluster() if self.fleet else "local"
        spec = json.loads(spec_of(cluster, nodes))
        spec["params"]["lines"]["default"] = str(self.folder)
        if not self.fleet:
            del spec["cluster"]
        self.spec = box.spec(spec)
        self.reset()

    def reset(self):
        wait_for(lambda: not workers_of(self.box.dir), 20, "the workers of the round before to end")
        for p in (self.folder, self.box.state, self.box.home / ".rhrun"):
            shutil.rmtree(p, ignore_errors=True)
        if self.fleet:
            self.fleet.wipe()
        self.folder.mkdir()

    def lines(self):
        files = [self.folder / f"lines.{i}" for i in range(self.nodes)]
        return [p.read_text().split() if p.exists() else [] for p in files]

    def recover(self, **options):
        """Runs again until no live process holds it back; the last result."""
        def attempt():
            r = self.box.run(self.spec, **options)
            return r if r.rc != 4 else None
        return wait_for(attempt, 60, "the job to be free")

    def check(self, story):
        assert self.lines() == [WANTED] * self.nodes, f"{story}: {self.lines()}"
        final = self.box.run(self.spec)
        assert final.rc == 0 and "nothing to do" in final.err, f"{story}\n{final}"
        assert self.lines() == [WANTED] * self.nodes, story
        runs = self.box.run("status", "--json", self.spec).ok().json()
        assert "unknown" not in json.dumps(runs), f"{story}: {runs}"


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.slow)])
def world(request, box, fleet):
    return World(box, fleet, 2 if request.param == "local" else 4, request.param)


@pytest.mark.parametrize("world", ["local", pytest.param("ssh", marks=pytest.mark.soak)], indirect=True)
def test_after_every_event(world):
    killed = 0
    for n in range(1, 500):
        world.reset()
        r = world.box.run(world.spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": n})
        if r.rc == 0:
            break
        assert r.rc == -signal.SIGKILL, r
        killed += 1
        recovered = world.recover()
        assert recovered.rc == 0, f"killed after event {n}\n{recovered}"
        world.check(f"killed after event {n}")
    else:
        pytest.fail("500 events, and it still was killed")
    # run opened, nodes bound, started and finished of each step: a hook that never fires proves nothing.
    assert killed >= 8, f"killed only {killed} times"


# How many of the rounds: the first is the promise itself, the others make it harder.
@pytest.mark.parametrize("how, share", [("kept", 1), ("lost", 4), ("two-controllers", 4)], ids=["state-kept", "state-lost", "two-controllers"])
def test_at_random_instants(world, how, share):
    began = time.monotonic()
    world.box.run(world.spec).ok()
    whole = time.monotonic() - began
    seed = int(os.environ.get("RHRUN_TEST_SEED") or random.randrange(1 << 30))
    chance = random.Random(seed)
    other = world.box.dir / "state2"
    rounds = max(1, CRASHES // share)
    started = killed = 0
    for i in range(rounds):
        world.reset()
        shutil.rmtree(other, ignore_errors=True)
        story = f"seed {seed}, round {i}"
        # Sometimes the recovery is killed too.
        for _ in range(chance.choice([1, 1, 2, 3])):
            running = [world.box.start(world.spec)]
            if how == "two-controllers":
                time.sleep(chance.uniform(0, 0.02))
                running.append(world.box.start(world.spec, env={"RHRUN_HOME": str(other)}))
                chance.shuffle(running)
            for r in running:
                time.sleep(chance.uniform(0, whole * 1.1 / len(running)))
                killed += r.alive
                if not r.alive:  # the machine was busier when `whole` was taken
                    whole *= 0.9
                r.kill9()
            started += 1
            if how == "lost":
                shutil.rmtree(world.box.state, ignore_errors=True)
        recovered = world.recover()
        assert recovered.rc == 0, f"{story}\n{recovered}"
        world.check(story)
    assert killed >= started // 3, f"only {killed} of {started} were alive when killed"


def test_the_state_directory_is_lost(world):
    chance = random.Random(7)
    for n in sorted(chance.sample(range(2, 16), 5)):
        world.reset()
        world.box.run(world.spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": n})
        shutil.rmtree(world.box.state)
        r = world.recover()
        assert r.rc == 0, f"lost after event {n}\n{r}"
        world.check(f"lost after event {n}")


def test_the_state_directory_of_a_finished_job_is_lost(world):
    world.box.run(world.spec).ok()
    shutil.rmtree(world.box.state)
    world.box.run(world.spec).ok()
    world.check("lost when it was done")


@pytest.mark.parametrize("cancelled", [False, True], ids=["killed", "cancelled"])
def test_a_finished_job_is_not_done_again_whatever_is_lost(world, cancelled):
    """The nodes' ledgers are all that is left of it, and the controller that takes it over is killed at each of its events;
    what that one left open is cancelled."""
    mark = "echo %s >>$LINES_DIR/lines.${{ node.rank }}"
    spec = world.box.spec(json.loads(world.spec.read_text()) | {
        "entrypoint": {"prolog": mark % "prolog", "run": mark % "launch" + "; mkdir -p out; echo $$ >out/pid.${{ node.rank }}", "epilog": mark % "epilog"},
        "outputs": [{"from": "out/", "to": "results/"}],
    }, "around.json")
    wanted = [["one", "two", "prolog", "launch", "epilog"]] * world.nodes
    results = world.box.path("results")

    def fetched():
        return sorted((str(p.relative_to(results)), p.read_text()) for p in results.rglob("pid.0"))

    world.box.run(spec).ok()
    assert world.lines() == wanted
    made = fetched()
    assert len(made) == 1
    for n in range(1, 200, 3 if world.fleet and CRASHES < 100 else 1):  # over ssh, in a short run, every third
        shutil.rmtree(world.box.state)
        shutil.rmtree(results, ignore_errors=True)
        killed = world.box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": n})
        if cancelled and killed.rc != 0:
            assert world.box.run("cancel", spec).rc in (0, 1, 143)
        again = killed if killed.rc == 0 else world.box.run(spec)
        story = f"killed after event {n}\n{again}"
        assert again.rc == 0 and killed.rc in (0, -signal.SIGKILL), f"{killed}\n{story}"
        assert world.lines() == wanted, story
        assert fetched() == made, story
        final = world.box.run(spec)
        assert final.rc == 0 and "nothing to do" in final.err, f"{story}\n{final}"
        if killed.rc == 0:
            break
    assert killed.rc == 0 and n > 8


@pytest.mark.parametrize("same_state", [True, False], ids=["one-state-directory", "two-state-directories"])
def test_two_controllers_at_once(world, same_state):
    for round_ in range(3):
        world.reset()
        other = {} if same_state else {"RHRUN_HOME": str(world.box.dir / "state2")}
        shutil.rmtree(world.box.dir / "state2", ignore_errors=True)
        pair = [world.box.start(world.spec), world.box.start(world.spec, env=other)]
        results = [p.wait() for p in pair]
        assert {r.rc for r in results} <= {0, 4}, results
        # With two state directories each may hold one node against the other; with one, its lock decides.
        assert not same_state or 0 in {r.rc for r in results}, results
        r = world.recover()
        assert r.rc == 0, r
        world.check(f"round {round_}: {[r.rc for r in results]}")


@pytest.mark.parametrize("event, begun", [(3, "one"), (5, "two"), (8, "launch")], ids=["first-step", "second-step", "launch"])
def test_another_controller_does_what_was_only_decided(box, job, event, begun):
    """An attempt was committed and its RUN was never sent; another controller does the step. It is not done again."""
    spec = job("""
        setup: [{name: one, run: "echo one >>$HOME/lines"}, {name: two, run: "echo two >>$HOME/lines"}]
        entrypoint: {run: "echo launch >>$HOME/lines"}
        """)
    box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": event})
    assert begun not in box.lines()
    box.run(spec, env={"RHRUN_HOME": str(box.dir / "state2")}).ok()
    assert box.lines() == ["one", "two", "launch"]
    box.run(spec).ok()
    assert box.lines() == ["one", "two", "launch"]
    box.run("--again", spec).ok()
    assert box.lines() == ["one", "two", "launch", "launch"]


def test_what_another_controller_has_done_since_is_done(box, job):
    """Two people, or a laptop and a desktop, with a state directory each: who did the job before does not do it again for that."""
    text = "distributed: {nnodes: 2}\nentrypoint: {run: 'echo %s-$RHRUN_NODE_RANK >>$HOME/lines'}\n"
    other = {"RHRUN_HOME": str(box.dir / "state2")}
    box.run(job(text % "old")).ok()
    spec = job(text % "new")
    box.run(spec, env=other).ok()
    done = ["new-0", "new-1", "old-0", "old-1"]
    assert sorted(box.lines()) == done
    r = box.run(spec).ok()
    assert sorted(box.lines()) == done, r
    assert "nothing to do" in box.run(spec).ok().err
    # On request it is done again.
    (box.home / "lines").unlink()
    box.run("--again", spec, env=other).ok()
    box.run("--again", spec).ok()
    assert sorted(box.lines()) == ["new-0", "new-0", "new-1", "new-1"]


@pytest.mark.parametrize("event", range(3, 8))
def test_another_controller_does_a_launch_of_several_parts(box, job, event):
    """The parts of a launch belong to one controller, whatever others decided or did before."""
    spec = job("""
        distributed: {nnodes: 1}
        roles: {first: {count: 1}, second: {count: 1, after: {first: done}}}
        entrypoint: {run: "echo $RHRUN_RUN_ID $ROLE_NAME >>$HOME/lines", epilog: "echo $RHRUN_RUN_ID epilog >>$HOME/lines"}
        """)
    other = {"RHRUN_HOME": str(box.dir / "state2")}
    box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": event})
    box.run("--again", spec, env=other).ok()
    box.run(spec).ok()
    by_run = {}
    for line in box.lines():
        by_run.setdefault(line.split()[0], []).append(line.split()[1])
    assert ["first", "second", "epilog"] in by_run.values(), by_run
    for did in by_run.values():  # a controller that was stopped halfway has done the beginning
        assert did == ["first", "second", "epilog"][:len(did)], by_run
    assert "nothing to do" in box.run(spec).ok().err
    assert by_run and len(by_run) <= 2


@pytest.mark.parametrize("how", ["again", "wiped"])
def test_set_up_that_another_controller_has_done_since_is_done(box, job, how):
    """The journal has an older success of it: on the same node, or on one that was wiped since."""
    text = "setup: [{name: one, run: 'echo one >>$HOME/lines'}]\nentrypoint: {run: 'echo %s >>$HOME/lines'}\n"
    other = {"RHRUN_HOME": str(box.dir / "state2")}
    spec = job(text % "launch")
    box.run(spec).ok()
    if how == "wiped":
        wait_for(lambda: not agent_processes(box.dir)[1], what="the end of supervisors")
        shutil.rmtree(box.home / ".rhrun")
    box.run(*([] if how == "wiped" else ["--fresh"]), spec, env=other).ok()
    did = ["one", "launch"] * 2
    assert box.lines() == did
    r = box.run(spec).ok()
    assert box.lines() == did and "could not be verified" not in r.err, r
    job(text % "edited")
    plan = box.run("plan", spec).ok()
    assert re.search(r"^  keep +one ", plan.out, re.M), plan
    r = box.run(spec).ok()
    assert box.lines() == [*did, "edited"], r
    box.run("--from", "one", spec).ok()
    assert box.lines() == [*did, "edited", "one", "edited"]


def test_what_another_controller_started_is_not_forgotten(box, job):
    """A launch ends while its controller is dead; another controller does the job and cleans up; the first resumes."""
    spec = job("entrypoint: {always: true, run: 'echo $RHRUN_ATTEMPT >>$HOME/lines; while [ ! -e $HOME/go ]; do sleep 0.02; done'}\n")
    r = box.start(spec)
    wait_for(lambda: len(box.lines()) == 1, what="the launch")
    r.kill9()
    (box.home / "go").touch()
    wait_for(lambda: not workers_of(box.dir), what="its end")
    other = {"RHRUN_HOME": str(box.dir / "state2")}
    box.run(spec, env=other).ok()
    box.run(spec).ok()
    lines = box.lines()
    assert len(lines) == len(set(lines)) == 2, f"an attempt ran twice: {lines}"
    # Nobody asks for it after a week: then it goes.
    records = list(box.home.glob(f".rhrun/m/*/jobs/*/a/{lines[0]}"))
    assert records
    box.run(spec, env={**other, "RHRUN_TEST_CLOCK_OFFSET_MS": 8 * 24 * 3600 * 1000}).ok()
    assert not records[0].exists()


def test_killed_while_output_flows(box):
    """The log after the crash has the worker's output, byte for byte."""
    spec = box.spec("entrypoint:\n  run: |\n    i=0\n    while [ $i -lt 3000 ]; do echo \"line $i of the output\"; i=$((i+1)); done\n"
                    "    sleep 0.3\n    while [ $i -lt 6000 ]; do echo \"line $i of the output\"; i=$((i+1)); done\n")
    r = box.start(spec)
    r.wait_text(r"line 100 of")
    r.kill9()
    box.run(spec).ok()
    log = box.run("logs", "--no-prefix", spec).ok()
    assert log.out.splitlines() == [f"line {i} of the output" for i in range(6000)]


def test_an_edit_while_the_launch_lives(box, job):
    spec = job("entrypoint: {run: 'echo ready; while [ ! -e $HOME/stop ]; do sleep 0.05; done'}\n")
    r = box.start(spec)
    r.wait_text("ready")
    r.kill9()
    job("entrypoint: {run: 'echo other >>$HOME/lines'}\n")
    held = box.run(spec).expect(4)
    assert "run" in held.err and "--replace" in held.err
    assert workers_of(box.dir)
    box.run("--replace", spec).ok()
    assert box.lines() == ["other"] and not workers_of(box.dir)


def test_again_holds_for_who_resumes_it(box, job):
    """The nodes' ledgers have a launch; a run with --again that is killed before its own launch must not use it."""
    spec = job("entrypoint: {run: 'echo launch >>$HOME/lines'}")
    box.run(spec).ok()
    shutil.rmtree(box.state)
    assert box.run("--again", spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": 2}).rc == -signal.SIGKILL
    assert box.lines() == ["launch"]
    box.run(spec).ok()
    assert box.lines() == ["launch"] * 2


def test_flags_of_a_killed_run_are_resumed_first(box, job):
    spec = job("setup: [{name: s, run: 'echo s >>$HOME/lines'}]\nentrypoint: {run: 'echo launch >>$HOME/lines; test ! -e $HOME/wait || sleep 600'}\n")
    box.run(spec).ok()
    (box.home / "wait").touch()
    r = box.start("--again", spec)
    # The line comes before the shell has started sleep: a kill between both would end no worker.
    def asleep():
        return [p for p in workers_of(box.dir) if p.comm == "sleep"]
    wait_for(asleep, what="the second launch")
    r.kill9()
    for p in asleep():
        os.kill(p.pid, signal.SIGTERM)
    box.run(spec)
    assert box.lines().count("launch") == 2 and box.lines().count("s") == 1


def test_killed_while_the_journal_is_made(box, job, rhrun):
    """A journal that kill -9 left before its first commit is no run: every command treats it so, and a run can start."""
    spec = job({"name": "j", "entrypoint": {"run": "echo ran >>$HOME/lines"}})
    rhrun(spec).ok()
    journal = next(box.state.glob("jobs/*/journal.db"))
    whole = {suffix: journal.with_name("journal.db" + suffix).read_bytes() for suffix in ("", "-wal", "-shm")}
    fresh = sqlite3.connect(box.dir / "header.db")
    fresh.execute("PRAGMA journal_mode=WAL")
    fresh.close()
    header = (box.dir / "header.db").read_bytes()  # one page, no table
    assert len(header) == 4096
    frame = whole["-wal"][:32 + 24 + 4096]  # the first page of a transaction without its end
    left = [{"": b""}, {"": header}, {"": header, "-wal": b"", "-shm": b""}, {"": header, "-wal": frame},
            {"": header, "-wal": frame, "-shm": bytes(len(whole["-shm"]))}, {"": header, "-wal": frame[:3000]},
            {"": b"", "-journal": b""}, {"": b"", "-journal": bytes(512)}]
    for files in left:
        for command in (["plan", spec], ["cancel", spec], ["cancel"], ["runs"], ["status", spec], ["doctor", spec], ["--replace", spec]):
            for path in journal.parent.glob("journal.db*"):
                path.unlink()
            for suffix, data in files.items():
                journal.with_name("journal.db" + suffix).write_bytes(data)
            r = rhrun(*command)
            assert r.rc == (2 if command[0] in ("cancel", "status") else 0), (files.keys(), r)
            assert "journal.db" not in r.err and "unreadable" not in r.out, (files.keys(), r)
            if r.rc == 2:
                assert "was never run" in r.err or "nothing was run yet" in r.err, r
        assert len(box.lines()) == 1  # the node still knows that it was done
