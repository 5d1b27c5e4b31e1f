"""Failure rules and metrics with real workers: their output, their ends, and the state after a kill -9."""
import json
import shutil
import signal

import pytest

from harness import ROOT, wait_for, workers_of

GRID = "distributed: {nnodes: 2, nproc_per_node: 2, max_restarts: %d}\n"


def events(rhrun, kind):
    out = rhrun("show", "--events", "last").ok().out
    return [e for e in map(json.loads, out.splitlines()) if e["type"] == kind]


def status(rhrun):
    return json.loads(rhrun("status", "--json").ok().out)


def test_the_example(rhrun, box):
    r = rhrun(ROOT / "specs/examples/failure-rules.yaml").ok()
    assert 'rule 2 (pattern "device is busy"): restart, since rank 2 on node "local-1" printed "the device is busy" (1 time left)' in r.err
    assert 'rule 3 (exit_status 3): ignore, since rank 1 on node "local-0": exit status 3' in r.err
    assert "restart in" in r.err and "rhrun: loss 0.8\n" in r.err
    s = status(rhrun)
    assert s["restarts"] == 1
    rules = {x["rule"]: (x["action"], x["times"]) for x in s["rules"]}
    assert rules[2] == ("restart", 1) and rules[3] in (("ignore", 1), ("ignore", 2)) # the first may be stopped before it ends
    assert {(m["name"], m["rank"], m["value"]) for m in s["metrics"]} == {("loss", i, (80 + i) / 100) for i in range(4)}
    assert "loss: 0.8 (rank 0), 0.8 to 0.83 over 4 ranks" in rhrun("status").ok().out


def test_a_status_that_is_not_tried_again(rhrun, job):
    r = rhrun(job("name: f\n" + GRID % 3 + """
failure_rules: [{match: {exit_status: [4, 5]}, action: fail}]
entrypoint: {run: 'if [ "$RANK" = 3 ]; then exit 5; fi; exec sleep 60'}
""")).expect(1)
    assert 'rank 3 on node "local-1": exit status 5 (rule 1 (exit_status 4 or 5): fail)' in r.err
    assert "restart" not in r.err.replace("max_restarts", "")


def test_a_line_fails_the_job_while_all_run(rhrun, job, box):
    r = rhrun(job("name: f\n" + GRID % 3 + """
failure_rules: [{match: {pattern: '^bad \\w+$', stream: stdout}, action: fail}]
entrypoint: {run: 'echo "bad config" >&2; if [ "$RANK" = 3 ]; then echo "bad config"; fi; exec sleep 60'}
""")).expect(1)
    assert 'rank 3 on node "local-1" printed "bad config" (rule 1 (pattern "^bad \\w+$"): fail)' in r.err
    assert not workers_of(box.dir)


def test_the_last_words_of_a_worker_count_before_its_end(rhrun, job):
    """No line end, and the status would have restarted it."""
    r = rhrun(job("name: f\n" + GRID % 3 + """
failure_rules: [{match: {pattern: 'no such file'}, action: fail}]
entrypoint: {run: 'if [ "$RANK" = 0 ]; then printf "no such file" >&2; exit 1; fi; exec sleep 60'}
""")).expect(1)
    assert 'printed "no such file"' in r.err


@pytest.mark.parametrize("how", ["exit 3", "kill -KILL $$"])
def test_ignored_workers_do_not_stop_the_others(rhrun, job, how):
    r = rhrun(job("name: i\n" + GRID % 0 + f"""
failure_rules:
  - {{match: {{exit_status: 3}}, action: ignore}}
  - {{match: {{signal: SIGKILL}}, action: ignore}}
entrypoint:
  run: |
    if [ "$RANK" = 1 ]; then touch $HOME/gone; {how}; fi
    while [ ! -e $HOME/gone ]; do sleep 0.05; done
    echo "rank $RANK goes on"
""")).ok()
    for rank in (0, 2, 3):
        assert f"rank {rank} goes on" in r.out
    assert "ignore, since rank 1" in r.err


def test_what_was_ignored_is_known_on_the_nodes(job, box):
    """The state directory is lost, at any time: a launch that ended well by the rules is not done again."""
    spec = job("name: l\n" + GRID % 0 + """
failure_rules: [{match: {exit_status: 3}, action: ignore}]
entrypoint: {run: 'echo "$RANK" >>$HOME/lines; if [ "$RANK" = 1 ]; then exit 3; fi', epilog: 'echo epilog >>$HOME/lines'}
""")
    box.run(spec).ok()
    done = sorted(box.lines())
    assert done == sorted(["0", "1", "2", "3"] + ["epilog"] * (len(box.lines()) - 4))
    for n in range(1, 60):
        shutil.rmtree(box.state)
        killed = box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": n})
        again = box.run(spec).ok()
        assert sorted(box.lines()) == done, f"killed after event {n}\n{again}"
        if killed.rc == 0:
            break
    assert killed.rc == 0 and n > 4
    box.run("--again", spec).ok()
    assert len(box.lines()) == 2 * len(done)


def test_killed_before_the_nodes_knew_what_was_ignored(job, box):
    """The first run dies at each of its events, and then its state directory is kept or lost."""
    spec = job("name: l\n" + GRID % 0 + """
failure_rules: [{match: {exit_status: 3}, action: ignore}]
entrypoint: {run: 'echo "$RANK" >>$HOME/lines; if [ "$RANK" = 1 ]; then exit 3; fi'}
""")
    for n in range(1, 60):
        killed = box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": n})
        again = box.run(spec).ok()
        shutil.rmtree(box.state)
        box.run(spec).ok()
        assert sorted(box.lines()) == ["0", "1", "2", "3"], f"killed after event {n}\n{again}"
        (box.home / "lines").unlink()
        shutil.rmtree(box.state)
        shutil.rmtree(box.home / ".rhrun")
        if killed.rc == 0:
            break
    assert killed.rc == 0 and n > 6


def test_one_plain_process(rhrun, job, box):
    r = rhrun(job("""
name: p
failure_rules:
  - {match: {exit_status: 3}, action: restart, times: 1}
  - {match: {exit_status: 4}, action: ignore}
entrypoint: {run: 'echo x >> $HOME/lines; exit $((2 + $(wc -l < $HOME/lines)))'}
""")).ok()
    assert box.lines() == ["x"] * 2
    assert 'restart, since node "local": exit status 3' in r.err and 'ignore, since node "local": exit status 4' in r.err


def test_a_budget_then_the_next_rule(rhrun, job, box):
    r = rhrun(job("name: b\n" + GRID % 0 + """
failure_rules:
  - {match: {exit_status: 3}, action: restart, times: 2}
  - {match: {exit_status: 3}, action: fail}
entrypoint: {run: 'if [ "$RANK" = 2 ]; then echo x >> $HOME/lines; exit 3; fi; exec sleep 60'}
""")).expect(1)
    assert box.lines() == ["x"] * 3
    assert "after 2 restarts" in r.err and "(rule 2 (exit_status 3): fail)" in r.err
    assert [e["left"] for e in events(rhrun, "rule") if e["action"] == "restart"] == [1, 0]


def test_budgets_survive_kill_9(rhrun, job, box):
    """Killed right after the first restart: one is left, not two."""
    spec = job("name: k\n" + GRID % 0 + """
failure_rules: [{match: {pattern: device is busy}, action: restart, times: 2}]
entrypoint:
  run: |
    if [ "$RANK" = 0 ]; then echo x >> $HOME/lines; fi
    if [ "$RANK" = 3 ]; then
      touch $HOME/lines # rank 0 has counted this round before it is over
      while [ $(wc -l < $HOME/lines) -le "$TORCHELASTIC_RESTART_COUNT" ]; do sleep 0.05; done
      while [ -e $HOME/hold ] && [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; do sleep 0.05; done
      echo "the device is busy"
    fi
    exec sleep 60
""")
    (box.home / "hold").touch()
    p = box.start(spec)
    wait_for(lambda: len(box.lines()) == 2, what="the second generation")
    p.kill9()
    (box.home / "hold").unlink()
    p = box.start(spec)
    wait_for(lambda: len(box.lines()) == 3, what="the third generation")
    wait_for(lambda: len(events(rhrun, "rule")) == 2 and len(workers_of(box.dir)) > 0, what="both restarts recorded")
    p.signal(signal.SIGINT)
    p.wait()
    assert len(events(rhrun, "restart")) == 2


def test_a_line_that_nobody_looked_at_is_found_in_the_log(rhrun, job, box):
    """It was printed while no controller was there."""
    spec = job("name: k\n" + GRID % 0 + """
failure_rules: [{match: {pattern: device is busy}, action: restart, times: 1}]
entrypoint:
  run: |
    if [ "$RANK" = 0 ]; then echo x >> $HOME/lines; fi
    if [ "$RANK" = 3 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
      while [ -e $HOME/hold ]; do sleep 0.05; done
      echo "the device is busy"; touch $HOME/said
      exec sleep 60
    fi
    if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then exec sleep 60; fi
""")
    (box.home / "hold").touch()
    p = box.start(spec)
    wait_for(lambda: len(box.lines()) == 1, what="the launch")
    p.kill9()
    (box.home / "hold").unlink()
    wait_for(lambda: (box.home / "said").exists(), what="the line")
    r = rhrun(spec).ok()
    assert 'printed "the device is busy"' in r.err
    assert len(box.lines()) == 2


def test_a_catastrophic_pattern_stalls_nothing(rhrun, job):
    r = rhrun(job("""
name: c
failure_rules: [{match: {pattern: '^(([a-z])+.)+[A-Z]([a-z])+$'}, action: fail}]
entrypoint: {run: 'for i in $(seq 2000); do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done'}
""")).ok()
    assert r.err.count("takes too long over a line") == 1
    assert r.out.count("\n") == 2000


def test_a_pattern_that_cannot_be_read(rhrun, job):
    r = rhrun("validate", job("failure_rules: [{match: {pattern: 'a(b'}, action: fail}]\nentrypoint: {run: x}\n")).expect(2)
    assert "cannot be read at byte 3: missing closing parenthesis" in r.err
