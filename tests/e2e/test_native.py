"""launcher native, besides starting its workers: devices, log files, error files, the time to stop."""
import json
import os
import re

from harness import workers_of

TWO = "name: n\ndistributed: {nnodes: 2, nproc_per_node: 2, %s}\n"


def test_the_first_cause_with_the_text_of_its_error_file(rhrun, job, box):
    """As torch's @record writes it; without redirects, with them, and as a plain string."""
    box.path("record.py").write_text("""
import json, os, sys, time
if os.environ["RANK"] == "3":
    text = "ValueError: no such \\u00e9poch"
    message = text if "plain" in sys.argv else {"message": text, "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1"}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
        json.dump({"message": message}, f)
    print("the last words", file=sys.stderr)
    sys.exit(1)
time.sleep(60)
""")
    for more, args in (("max_restarts: 0", ""), ("redirects: 3", "plain"), ("max_restarts: 1, log_dir: logs", "")):
        r = rhrun(job(TWO % more + f"entrypoint: {{script: record.py, args: [{args}]}}\n")).expect(1)
        assert 'rank 3 on node "local-1": exit status 1: ValueError: no such époch' in r.err
        assert "the last words" in rhrun("show", "--events", "last").ok().out and not workers_of(box.dir)
    assert r.err.count("ValueError") >= 2 # the restart's reason has it too
    written = sorted(str(p.relative_to(box.path("logs"))).split("/", 1)[1] for p in box.path("logs").rglob("error.json"))
    assert written == ["attempt_0/3/error.json", "attempt_1/3/error.json"]


def test_log_files_as_torchrun_has_them(rhrun, job, box):
    r = rhrun(job(TWO % "log_dir: logs, redirects: '0:1', tee: '1:3', local_ranks_filter: [1]" +
                  "secrets: [TOKEN]\nentrypoint: {run: 'echo \"out $RANK $TOKEN\"; echo \"err $RANK\" >&2'}\n"),
              env={"TOKEN": "s3cret-1"}).ok()
    assert sorted(l.split(" ", 1)[1] for l in r.out.splitlines()) == ["out 1 ***", "out 3 ***"]
    assert "err 0" not in r.err and "err 2" not in r.err and "err 1" in r.err and "err 3" in r.err
    logs = rhrun("logs", "last").ok().text
    assert "err 0" in logs and "out 0" not in logs
    (run,) = box.path("logs").iterdir()
    found = {str(p.relative_to(run)): p.read_text() for p in run.rglob("*.log")}
    assert found == {"attempt_0/0/stdout.log": "out 0 ***\n", "attempt_0/1/stdout.log": "out 1 ***\n",
                     "attempt_0/1/stderr.log": "err 1\n", "attempt_0/2/stdout.log": "out 2 ***\n",
                     "attempt_0/3/stdout.log": "out 3 ***\n", "attempt_0/3/stderr.log": "err 3\n"}
    assert run.stat().st_mode & 0o777 == 0o700


def test_devices(rhrun, job):
    say = "entrypoint: {run: 'echo \"$RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES\"'}\n"
    r = rhrun(job(TWO % "devices: [2, 5]" + say)).ok()
    assert sorted(l.split(" ", 1)[1] for l in r.out.splitlines()) == ["0 0 2,5", "1 1 2,5", "2 0 2,5", "3 1 2,5"]
    r = rhrun(job(TWO % "devices: [2, 5], virtual_local_rank: true" + say)).ok()
    assert sorted(l.split(" ", 1)[1] for l in r.out.splitlines()) == ["0 0 2", "1 0 5", "2 0 2", "3 0 5"]
    r = rhrun(job("name: n\ndistributed: {nproc_per_node: 2, devices: [2], virtual_local_rank: true}\n" + say)).expect(2)
    assert "2 workers and 1 device" in r.err


def test_a_worker_that_takes_its_time_gets_it(rhrun, job, box):
    """shutdown_timeout: TERM is forwarded, and KILL comes no sooner; with 0 there is no TERM."""
    text = """
entrypoint:
  run: |
    if [ "$RANK" = 3 ]; then while [ "$(ls ready.* 2>/dev/null | wc -l)" != 3 ]; do sleep 0.02; done; exit 4; fi
    trap 'sleep 4; echo "done with $RANK"; exit 0' TERM
    touch ready.$RANK
    while :; do sleep 0.05; done
"""
    r = rhrun(job(TWO % "shutdown_timeout: 60" + text)).expect(1)
    assert sorted(re.findall("done with .", r.out)) == ["done with 0", "done with 1", "done with 2"]
    for p in box.dir.rglob("ready.*"):
        p.unlink()
    r = rhrun(job(TWO % "shutdown_timeout: 0" + text)).expect(1)
    assert "done with" not in r.out and not workers_of(box.dir)


def test_blocks_of_cpus(rhrun, job):
    r = rhrun(job("name: n\ndistributed: {nproc_per_node: 2, cpu_affinity: block}\n"
                  "entrypoint: {command: [python3, -c, 'import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))']}\n"),
              "--no-prefix").ok()
    mine = sorted(os.sched_getaffinity(0))
    sets = [json.loads(line) for line in r.out.splitlines()]
    assert sorted(sum(sets, [])) == (mine if len(mine) >= 2 else 2 * mine)


def test_near_a_gpu_that_is_not_there(rhrun, job):
    """numa_binding without GPUs: every worker stays within what this process may use, and an own part of it where asked."""
    mine = sorted(os.sched_getaffinity(0))
    for mode in ("node", "socket", "exclusive", "core-complex"):
        r = rhrun(job("name: n\ndistributed: {nproc_per_node: 2, numa_binding: %s}\n" % mode +
                      "entrypoint: {command: [python3, -c, 'import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))']}\n"),
                  "--no-prefix").ok()
        sets = [json.loads(line) for line in r.out.splitlines()]
        assert len(sets) == 2 and all(s and set(s) <= set(mine) for s in sets), (mode, sets)
    r = rhrun(job("name: n\ndistributed: {launcher: accelerate, numa_binding: node}\nentrypoint: {script: x.py}\n")).expect(2)
    assert "launcher accelerate has no numa_binding" in r.err


def test_host_file(fleet, rhrun, job):
    """One line a node, beside the attempt on each node; for workers of a launcher too."""
    f = fleet(2)
    cluster = f.cluster()
    cluster["hosts"][1] = {"host": cluster["hosts"][1], "nproc_per_node": 3, "address": "10.9.8.7"}
    cluster["hosts"][0] = {"host": cluster["hosts"][0], "address": "10.9.8.6"}
    text = "cluster: %s\ndistributed: {preflight: off%s}\nentrypoint: {%s}\n"
    r = rhrun(job(text % (json.dumps(cluster), "", "run: 'cat $RHRUN_HOSTFILE'")), "--no-prefix").ok()
    assert r.out.splitlines().count("10.9.8.6 slots=1") == r.out.splitlines().count("10.9.8.7 slots=3") == 4, r
    r = rhrun(job("distributed: {nnodes: 2, nproc_per_node: 2}\nentrypoint: {run: 'cat $RHRUN_HOSTFILE'}\n"), "--no-prefix").ok()
    assert r.out.splitlines() == ["127.0.0.1 slots=4"] * 4
