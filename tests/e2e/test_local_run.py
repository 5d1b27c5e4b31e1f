"""Jobs on this machine: which steps run, which are kept, what a worker sees, how a worker fails."""
import json
import os
import re
import shutil
import signal
import time

import pytest

from harness import ROOT, wait_for, workers_of

PREFIX = re.compile(r"^(\w+)\[(\d+)\]@([^\s:]+): ?(.*)$", re.M)


def by_rank(result):
    """rank -> its lines of output, by the prefix role[rank]@node."""
    found = {}
    for _, rank, _, text in PREFIX.findall(result.out):
        found.setdefault(int(rank), []).append(text.strip())
    return found


TWO_BY_TWO = """
name: grid
distributed: {nnodes: 2, nproc_per_node: 2}
entrypoint:
  run: echo "rank=$RANK local=$LOCAL_RANK world=$WORLD_SIZE lworld=$LOCAL_WORLD_SIZE group=$GROUP_RANK addr=$MASTER_ADDR port=$MASTER_PORT"
"""


def test_hello(rhrun, job):
    r = rhrun(job("entrypoint: {run: echo hello}\n")).ok()
    assert "hello" in r.out and "hello" not in r.err.replace("echo hello", "")


def test_streams_stay_apart(rhrun, job):
    r = rhrun(job("entrypoint: {run: 'echo to-out; echo to-err >&2'}\n")).ok()
    assert "to-out" in r.out and "to-err" not in r.out
    assert any(line.rstrip().endswith("to-err") for line in r.err.splitlines())


def test_nothing_to_do_on_the_second_run(rhrun, job, box):
    spec = job("entrypoint: {run: 'echo x >>$HOME/lines'}\n")
    rhrun(spec).ok()
    r = rhrun(spec).ok()
    assert "nothing to do" in r.err
    assert "--again" in r.err
    assert box.lines() == ["x"]


def test_two_nodes_of_two_workers(rhrun, job):
    r = rhrun(job(TWO_BY_TWO)).ok()
    ranks = by_rank(r)
    assert sorted(ranks) == [0, 1, 2, 3], r
    for rank, lines in ranks.items():
        line = next(x for x in lines if x.startswith("rank="))
        values = dict(p.split("=") for p in line.split())
        assert values["rank"] == str(rank) and values["world"] == "4" and values["lworld"] == "2"
        assert values["local"] == str(rank % 2) and values["group"] == str(rank // 2)
        assert values["addr"] and 0 < int(values["port"]) < 65536
    assert len({m.split("port=")[1] for lines in ranks.values() for m in lines}) == 1


def test_without_distributed_there_are_no_rank_variables(rhrun, job):
    r = rhrun(job("entrypoint: {run: 'env | grep -cE \"^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR)=\" || true'}\n")).ok()
    assert r.out.split()[-1] == "0"


def test_inherited_rank_variables_are_cleared(rhrun, job):
    spec = job("distributed: {nproc_per_node: 1}\nentrypoint: {run: 'echo [${PET_NNODES:-none}] [$RANK]'}\n")
    assert "[none] [0]" in rhrun(spec, env={"PET_NNODES": "7", "RANK": "5"}).ok().out


@pytest.mark.parametrize("status", [1, 2, 42, 255])
def test_a_failing_worker(rhrun, job, status):
    r = rhrun(job(f"name: f\nentrypoint: {{run: 'echo last words; exit {status}'}}\n")).expect(1)
    assert f"exit status {status}" in r.err
    assert "last words" in r.text


def test_a_failing_rank_is_named(rhrun, job):
    spec = job("distributed: {nnodes: 2, nproc_per_node: 2}\n"
               "entrypoint: {run: 'if [ $RANK = 2 ]; then echo bad luck >&2; exit 7; fi; sleep 600'}\n")
    r = rhrun(spec).expect(1)
    assert "exit status 7" in r.err and re.search(r"rank 2\b|\[2\]@", r.err)
    assert r.seconds < 60


def test_a_signal_is_named(rhrun, job):
    r = rhrun(job("entrypoint: {run: 'kill -SEGV $$'}\n")).expect(1)
    assert re.search(r"signal 11|SIGSEGV|[Ss]egmentation", r.err)


def test_a_missing_program(rhrun, job):
    r = rhrun(job("entrypoint: {command: [no-such-program-at-all]}\n")).expect(1)
    assert "no-such-program-at-all" in r.err


def test_failed_is_not_done(rhrun, job, box):
    spec = job("entrypoint: {run: 'echo x >>$HOME/lines; test -e $HOME/ok'}\n")
    rhrun(spec).expect(1)
    rhrun(spec).expect(1)
    (box.home / "ok").touch()
    rhrun(spec).ok()
    assert box.lines() == ["x"] * 3


SETUP = """
setup:
  - {name: one, run: echo one >>$HOME/lines}
  - {name: two, run: echo two >>$HOME/lines}
  - {name: three, run: echo three >>$HOME/lines}
entrypoint: {run: echo launch >>$HOME/lines}
"""


def test_setup_runs_in_order_and_once(rhrun, job, box):
    spec = job(SETUP)
    rhrun(spec).ok()
    rhrun(spec).ok()
    assert box.lines() == ["one", "two", "three", "launch"]


def test_again_keeps_setup(rhrun, job, box):
    spec = job(SETUP)
    rhrun(spec).ok()
    rhrun("--again", spec).ok()
    assert box.lines() == ["one", "two", "three", "launch", "launch"]


def test_fresh_does_everything_again(rhrun, job, box):
    spec = job(SETUP)
    rhrun(spec).ok()
    rhrun("--fresh", spec).ok()
    assert box.lines() == ["one", "two", "three", "launch"] * 2


def test_fresh_is_a_new_folder_each_time(rhrun, job, box):
    """Also after the state directory, which knew the previous one, is lost; runs without --fresh use the latest."""
    spec = job("""
        workdir: src
        entrypoint: {run: "test ! -e mark; echo launch >>$HOME/lines; touch mark"}
        """)
    (box.work / "src").mkdir()
    (box.work / "src" / "a").touch()
    rhrun(spec).ok()
    rhrun("--fresh", spec).ok()
    rhrun("--again", spec).expect(1)
    rhrun("--fresh", spec).ok()
    shutil.rmtree(box.state)
    rhrun("--fresh", spec).ok()
    assert box.lines() == ["launch"] * 4
    rhrun("--again", spec).expect(1)


@pytest.mark.parametrize("place", ["", "workdir: src"], ids=["in place", "workdir"])
def test_fresh_and_the_state_directory_is_lost(rhrun, job, box, place):
    """Steps done in the directory of --fresh stay done, and an edit continues there: each variant has its own."""
    text = f"""
        {place}
        params: {{lr: 1}}
        distributed: {{nnodes: 2}}
        setup: [{{name: one, run: 'echo one >>$HOME/lines; touch mark'}}]
        entrypoint: {{run: "test -e mark; echo ${{{{ params.lr }}}} >>$HOME/lines"}}
        """
    (box.work / "src").mkdir()
    (box.work / "src" / "a").touch()
    spec = job(text)
    for words in ([], ["-p", "lr=2"]):
        rhrun(*words, spec).ok()
    job(text.replace("echo one", "echo two"))
    for words in (["--fresh"], ["--fresh", "-p", "lr=2"]):
        rhrun(*words, spec).ok()
    before = box.lines()
    for words in ([], ["-p", "lr=2"]):
        shutil.rmtree(box.state)
        rhrun(*words, spec).ok()
    assert box.lines() == before
    shutil.rmtree(box.state)
    job(text.replace("echo one", "echo two").replace("echo ${{", "echo new ${{"))
    rhrun("-p", "lr=2", spec).ok()
    assert box.lines()[len(before):] == ["new 2"] * 2


def test_from_runs_a_step_and_what_depends_on_it(rhrun, job, box):
    spec = job(SETUP)
    rhrun(spec).ok()
    rhrun("--from", "two", spec).ok()
    assert box.lines() == ["one", "two", "three", "launch", "two", "three", "launch"]


def test_from_the_launch_of_all_roles(job, box):
    spec = job("""
        setup: [{name: one, run: "echo one >>$HOME/lines"}]
        roles: {a: {}, b: {}}
        entrypoint: {run: "echo launch >>$HOME/lines"}
        """)
    box.run(spec).ok()
    box.run("--from", "launch", spec).ok()
    assert box.lines() == ["one"] + ["launch"] * 4


def test_from_names_an_unknown_step(rhrun, job):
    r = rhrun("--from", "tow", job(SETUP)).expect(2)
    assert "tow" in r.err and "two" in r.err


def test_an_edit_runs_what_changed(rhrun, job, box):
    rhrun(job(SETUP)).ok()
    spec = job(SETUP.replace("echo two", "echo TWO"))
    plan = rhrun("plan", spec).ok()
    assert re.search(r"run again +two\b", plan.out) and re.search(r"keep +one\b", plan.out) and "`run` changed" in plan.out, plan
    rhrun(spec).ok()
    assert box.lines() == ["one", "two", "three", "launch", "TWO", "three", "launch"]


def test_setup_fails_before_the_launch_and_resumes(rhrun, job, box):
    spec = job(SETUP.replace("echo two >>$HOME/lines", "test -e $HOME/ok && echo two >>$HOME/lines"))
    r = rhrun(spec).expect(1)
    assert "two" in r.err and "exit status 1" in r.err
    (box.home / "ok").touch()
    rhrun(spec).ok()
    assert box.lines() == ["one", "two", "three", "launch"]


def test_retry(rhrun, job, box):
    spec = job("setup:\n  - {name: flaky, run: 'echo x >>$HOME/lines; test $(wc -l <$HOME/lines) -ge 3', "
               "retry: {times: 3, backoff: 10ms}}\nentrypoint: {run: echo done}\n")
    rhrun(spec).ok()
    assert len(box.lines()) == 3


def test_creates_must_exist_afterwards(rhrun, job):
    r = rhrun(job("setup: [{name: s, run: 'true', creates: thing}]\nentrypoint: {run: echo}\n")).expect(1)
    assert "thing" in r.err


def test_creates_that_vanished_runs_again(rhrun, job, box):
    spec = job("setup: [{name: s, run: 'echo x >>$HOME/lines; touch thing', creates: thing}]\nentrypoint: {run: test -e thing}\n")
    rhrun(spec).ok()
    (box.work / "thing").unlink()
    rhrun("--again", spec).ok()
    assert box.lines() == ["x", "x"]


def test_activate_reaches_steps_and_workers(rhrun, job):
    spec = job("activate: export COLOR=blue\nsetup: [{name: s, run: 'test $COLOR = blue'}]\nentrypoint: {run: 'echo is $COLOR'}\n")
    assert "is blue" in rhrun(spec).ok().out


def test_params(rhrun, job):
    spec = job("params: {who: {type: string, default: world}, n: {type: integer, default: 1}}\n"
               "entrypoint: {command: [echo, 'hello ${{ params.who }} ${{ params.n + 1 }}']}\n")
    assert "hello world 2" in rhrun(spec).ok().out
    assert "hello moon 5" in rhrun("-p", "who=moon", "-p", "n=4", spec).ok().out
    assert "nothing to do" in rhrun(spec).ok().err
    r = rhrun("-p", "n=abc", spec).expect(2)
    assert "abc" in r.err
    r = rhrun("-p", "whom=x", spec).expect(2)
    assert "whom" in r.err and "who" in r.err


@pytest.mark.parametrize("text", ["$(touch owned)", "`touch owned`", "'; touch owned; '", '"; touch owned; "', "a b  c", "*"])
def test_param_values_stay_data_in_shell(rhrun, job, box, text):
    spec = job("params: {p: {type: string, default: x}}\n"
               "entrypoint:\n  run: |\n    printf '<%s>\\n' ${{ params.p }}\n    printf '<%s>\\n' \"${{ params.p }}\"\n")
    r = rhrun("-p", f"p={text}", spec).ok()
    assert r.out.count(f"<{text}>") == 2, r
    assert not (box.work / "owned").exists()


def test_set(rhrun, job):
    spec = job("env: {A: one}\nentrypoint: {run: 'echo A is $A'}\n")
    assert "A is two" in rhrun("--set", "env.A=two", spec).ok().out
    r = rhrun("--set", "env.A.b.c=1", "--set", "entrypoint.rum=1", spec).expect(2)
    assert "rum" in r.err


def test_arguments_behind_the_dashes_are_never_resplit(rhrun, job):
    spec = job("entrypoint: {command: [printf, '<%s>\\n', first]}\n")
    r = rhrun(spec, "--", "a b", "", "$HOME", "*").ok()
    for text in ("<first>", "<a b>", "<>", "<$HOME>", "<*>"):
        assert text in r.out, r


def test_env_from_the_caller_is_required(rhrun, job):
    spec = job("env: {WANTED: }\nentrypoint: {run: 'echo got $WANTED'}\n")
    assert "got it" in rhrun(spec, env={"WANTED": "it"}).ok().out
    r = rhrun("--again", spec).expect(2)
    assert "WANTED" in r.err


def test_script_and_module(rhrun, box):
    box.spec("import sys\nprint('script', sys.argv[1:])\n", "s.py")
    box.spec("import sys\nprint('module', sys.argv[1:])\n", "pkg/mod.py")
    box.spec("", "pkg/__init__.py")
    assert "script ['1', 'b c']" in rhrun(box.spec("entrypoint: {script: s.py, args: [1, b c]}\n", "a.yaml")).ok().out
    assert "module ['x']" in rhrun(box.spec("entrypoint: {module: pkg.mod, args: [x]}\n", "b.yaml")).ok().out


def test_prolog_and_epilog(rhrun, job, box):
    spec = job("entrypoint: {run: 'echo main >>$HOME/lines', prolog: 'echo before >>$HOME/lines', epilog: 'echo after >>$HOME/lines'}\n")
    rhrun(spec).ok()
    assert box.lines() == ["before", "main", "after"]


def test_always_is_never_done(rhrun, job, box):
    spec = job("entrypoint: {run: 'echo x >>$HOME/lines', always: true}\n")
    rhrun(spec).ok()
    rhrun(spec).ok()
    assert box.lines() == ["x", "x"]


def test_timeout(rhrun, job, box):
    r = rhrun(job("entrypoint: {run: sleep 600, timeout: 1s}\n"), timeout=40).expect(1)
    assert "time" in r.err.lower()
    assert not workers_of(box.dir)


def test_max_restarts(rhrun, job, box):
    spec = job("distributed: {nproc_per_node: 2, max_restarts: 2}\n"
               "entrypoint: {run: 'echo $RANK >>$HOME/lines.$RANK; test $(wc -l <$HOME/lines.0) -ge 3 || [ $RANK = 1 ] || exit 3; [ $RANK = 0 ] || sleep 1'}\n")
    rhrun(spec).ok()
    assert len(box.lines("lines.0")) == 3


def test_restarts_run_out(rhrun, job, box):
    spec = job("distributed: {nproc_per_node: 1, max_restarts: 2}\nentrypoint: {run: 'echo x >>$HOME/lines; exit 3'}\n")
    r = rhrun(spec).expect(1)
    assert len(box.lines()) == 3 and "exit status 3" in r.err


def test_a_failure_stops_the_others_within_five_seconds(rhrun, job, box):
    spec = job("distributed: {nnodes: 2, nproc_per_node: 2}\n"
               "entrypoint: {run: 'if [ $RANK = 3 ]; then sleep 0.5; date +%s.%N >$HOME/failed; exit 1; fi; "
               "trap \"date +%s.%N >$HOME/stopped.$RANK; exit 0\" TERM; while :; do sleep 0.05; done'}\n")
    rhrun(spec).expect(1)
    failed = float((box.home / "failed").read_text())
    for rank in range(3):
        assert float((box.home / f"stopped.{rank}").read_text()) - failed < 5


def test_ctrl_c_stops_in_order(box, job):
    r = box.start(job("entrypoint: {run: 'trap \"echo bye >>$HOME/lines; exit 0\" TERM; echo ready; while :; do sleep 0.1; done'}\n"))
    r.wait_text("ready")
    r.signal(signal.SIGINT)
    done = r.wait(40)
    assert done.rc == 130, done
    assert box.lines() == ["bye"]
    assert not workers_of(box.dir)


def test_a_stopped_worker_that_exits_0_is_no_success(box, job, rhrun):
    spec = job("entrypoint: {run: 'echo x >>$HOME/lines; test -e $HOME/quick && exit 0; trap \"exit 0\" TERM; echo ready; while :; do sleep 0.1; done'}\n")
    r = box.start(spec)
    r.wait_text("ready")
    r.signal(signal.SIGTERM)
    assert r.wait(40).rc == 143
    (box.home / "quick").touch()
    assert "nothing to do" not in rhrun(spec).ok().err
    assert box.lines() == ["x", "x"]


def test_the_second_ctrl_c_kills_at_once(box, job):
    r = box.start(job("entrypoint: {run: 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'}\n"))
    r.wait_text("ready")
    r.signal(signal.SIGINT)
    r.wait_text("Ctrl-C again kills at once")  # two signals that wait are one
    r.signal(signal.SIGINT)
    began = time.monotonic()
    assert r.wait(40).rc == 130
    assert time.monotonic() - began < 8
    assert not workers_of(box.dir)


def test_a_second_controller_is_told_who_has_it(box, job, rhrun):
    spec = job("entrypoint: {run: 'echo ready; while [ ! -e $HOME/stop ]; do sleep 0.05; done'}\n")
    r = box.start(spec)
    r.wait_text("ready")
    other = rhrun(spec).expect(4)
    assert str(r.process.pid) in other.err or "tester" in other.err
    (box.home / "stop").touch()
    r.wait().ok()


def test_detach_and_attach(box, job, rhrun):
    spec = job("entrypoint: {run: 'echo begin; while [ ! -e $HOME/stop ]; do sleep 0.05; done; echo end'}\n")
    rhrun("--detach", spec).ok()
    wait_for(lambda: workers_of(box.dir), what="the worker")
    a = box.start("attach", spec)
    a.wait_text("begin")
    (box.home / "stop").touch()
    done = a.wait().ok()
    assert "end" in done.out
    assert "nothing to do" in rhrun(spec).ok().err


def test_cancel(box, job, rhrun):
    spec = job("entrypoint: {run: 'echo ready; sleep 600'}\n")
    r = box.start(spec)
    r.wait_text("ready")
    rhrun("cancel", spec).ok()
    assert r.wait(40).rc != 0
    assert not workers_of(box.dir)


def test_daemons_of_a_launch_are_ended(box, job, rhrun):
    rhrun(job("entrypoint: {run: '(setsid sleep 600 >/dev/null 2>&1 </dev/null &) ; echo ok'}\n"), timeout=40).ok()
    wait_for(lambda: not workers_of(box.dir), 5, "the daemon to be ended")


def test_two_variants_at_the_same_time(box, job):
    spec = job("params: {p: {type: string, default: a}}\n"
               "entrypoint: {run: 'echo ${{ params.p }} >>$HOME/lines'}\n")
    first = box.run("-p", "p=a", spec).ok()
    second = box.run("-p", "p=b", spec).ok()
    assert sorted(box.lines()) == ["a", "b"]
    assert "nothing to do" in box.run("-p", "p=a", spec).ok().err
    assert "nothing to do" not in first.err + second.err


def test_workers_read_no_stdin(rhrun, job):
    r = rhrun(job("entrypoint: {run: 'read x && echo got $x || echo no stdin'}\n"), input=b"secret\n").ok()
    assert "no stdin" in r.out


SHARED = """
name: shared
distributed: {nnodes: 4}
%s
files:
  - {from: data, to: "%s"}
setup:
  - {name: more, copy: data, to: "%s/more"}
  - {name: one, run: "true"}
entrypoint: {run: 'cat %s/1 %s/more/2 >/dev/null', always: true}
"""


@pytest.mark.parametrize("work, to", [("", "in"), ("", "~/in"), ("workdir: src", "~/in")], ids=["in place", "home", "workdir"])
def test_nodes_of_this_machine_bring_files_once(rhrun, job, box, work, to):
    """They have one folder: each would put aside what another one has just brought, and take it for what a step changed."""
    (box.work / "src").mkdir()
    (box.work / "src/a").write_text("a")
    (box.work / "data").mkdir()
    for i in range(20):
        (box.work / "data" / str(i)).write_text(f"{i}\n" * 1000)
    at = to.replace("~", "$HOME")
    spec = job(SHARED % (work, to, to, at, at))
    for expected in ({"files-1": 1, "more": 1, "one": 4, "launch": 4}, {"launch": 4}, {"launch": 4}):
        events = rhrun("--json", spec).ok().events()
        started = [a["step"] for e in events if e["type"] == "started" for a in e["attempts"] if a["step"] != "sync"]
        assert {step: started.count(step) for step in started} == expected


def test_output_without_prefix_is_byte_identical(rhrun, job):
    # Long lines, no newline at the end, bytes that are no UTF-8.
    spec = job("entrypoint: {run: 'printf \"a\\n\\377\\376b\\n\"; head -c 200000 /dev/zero | tr \"\\\\0\" x; printf \"\\nend\"'}\n")
    r = rhrun("--no-prefix", spec).ok()
    assert r.raw_out.rstrip(b"\n") == b"a\n\xff\xfeb\n" + b"x" * 200000 + b"\nend"


def test_events_as_json(rhrun, job):
    r = rhrun("--json", job(SETUP)).ok()
    events = r.events()
    assert events[0]["type"] == "run_opened"
    assert any(e["type"] == "run_closed" for e in events)
    finished = [e for e in events if e["type"] == "finished"]
    assert {e["step"] for e in finished} >= {"one", "two", "three", "launch"}
    seqs = [e["seq"] for e in events if "seq" in e]
    assert seqs == sorted(set(seqs))


@pytest.mark.slow
def test_64_workers(rhrun, job):
    r = rhrun(job("distributed: {nproc_per_node: 64}\nentrypoint: {run: echo $RANK of $WORLD_SIZE}\n")).ok()
    ranks = by_rank(r)
    assert sorted(ranks) == list(range(64))
    assert all(lines == [f"{rank} of 64"] for rank, lines in ranks.items())


def test_the_ledger_of_a_node_does_not_grow(box, rhrun, job):
    """What a later attempt has replaced is forgotten at the end of the run that finds it."""
    spec = job("setup: [{name: s, run: 'true'}]\ndistributed: {nproc_per_node: 1}\nentrypoint: {run: echo $RANK}\n")
    rhrun(spec).ok()
    for _ in range(4):
        rhrun("--again", spec).ok()
    kept = list(box.home.glob(".rhrun/m/*/jobs/*/a/*"))
    assert 2 <= len(kept) <= 3, kept  # set-up's, the last launch and the one before
