"""RHRUN_TEST_TRACE: only its owner can read the trace of a run, it has no secret, and a core alone decides the same from it."""
import stat
import subprocess

import harness
import pytest

SECRET = "s3cr3t-Tr4c3-Wq8Zt5vN"
PLAYER = harness.RHRUN.parent / "tests/unit/test_core_replay"


def play(path):
    if not PLAYER.exists():
        pytest.skip(f"{PLAYER} is not built")
    done = subprocess.run([PLAYER, path], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_trace_is_played(box):
    trace = box.dir / "trace"
    env = {"RHRUN_TEST_TRACE": trace, "TOKEN": SECRET}
    path = box.spec({"secrets": ["TOKEN"], "params": {"n": 3}, "setup": [{"name": "one", "run": "test -n \"$TOKEN\""}],
                     "distributed": {"nnodes": 2, "nproc_per_node": 1, "max_restarts": 1},
                     "entrypoint": {"run": "echo $TOKEN; test -e $HOME/again || { touch $HOME/again; exit ${{ params.n }}; }"}})
    box.run(path, "-p", "n=4", env=env).ok()
    box.run(path, "--again", env=env)
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600
    text = trace.read_text()
    assert text.count("\nend ") == 2 and SECRET not in text and SECRET.encode().hex() not in text
    assert play(trace)[0] == 0
    other = box.dir / "other"
    other.write_text("".join(line for line in text.splitlines(True) if not line.startswith("> send")))
    rc, said = play(other)
    assert rc == 1 and "came:   > send" in said


def test_what_comes_home_is_played(box):
    """Files: none while some may be missing, none while one must be; then all are there, and the launch is kept."""
    trace = box.dir / "trace"
    path = box.spec({"outputs": [{"from": "~/out/", "to": "a", "every": "100ms"}, {"from": "~/late", "to": "b"},
                                 {"from": "~/never", "to": "c", "required": False}],
                     "entrypoint": {"run": "mkdir -p ~/out; echo x >~/out/x; while [ ! -e ~/go ]; do sleep 0.02; done"}})
    env = {"RHRUN_TEST_TRACE": trace}
    first = box.start(path, env=env)
    harness.wait_for(lambda: trace.exists() and " fetched " in trace.read_text(), what="a fetch while the launch runs")
    (box.home / "go").touch()
    assert first.wait().rc == 1
    (box.home / "late").touch()
    box.run(path, env=env).ok()
    assert trace.read_text().count("\nend ") == 2
    rc, said = play(trace)
    assert rc == 0, said


def test_what_a_trace_does_not_have_is_named(box):
    trace = box.dir / "trace"
    (box.work / "file").write_text("x")
    path = box.spec({"cluster": "local", "workdir": ".", "distributed": {"nnodes": 2, "nproc_per_node": 1},
                     "entrypoint": {"run": "true"}})
    box.run(path, env={"RHRUN_TEST_TRACE": trace}).ok()
    rc, said = play(trace)
    assert rc == 1 and "wanted: untraced \"files that are brought\"" in said


def test_two_controllers_trace_into_files_of_their_own(box):
    trace = box.dir / "trace"
    path = box.spec({"entrypoint": {"run": "while [ ! -e $HOME/go ]; do sleep 0.02; done"}})
    env = {"RHRUN_TEST_TRACE": trace}
    first = box.start(path, env=env)
    harness.wait_for(lambda: trace.exists() and " started " in trace.read_text(), what="the launch")
    box.run(path, "--take-over", env={**env, "RHRUN_HOME": box.dir / "elsewhere"}, timeout=20, prefix=("timeout", "-s", "INT", "5"))
    (box.home / "go").touch()
    first.wait()
    traces = sorted(box.dir.glob("trace*"))
    assert len(traces) == 2 and [play(t)[0] for t in traces] == [0, 0]
