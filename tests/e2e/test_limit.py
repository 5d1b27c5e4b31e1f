"""A session of tests that is cut, by its limit or by a kill, has reported which tests ran, failed and were cut (limit.py, scripts/lib.sh)."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from harness import ROOT

SESSION = """
import os, signal, time
import pytest
import limit

def test_good():
    pass

def test_bad():
    assert False

def test_skipped():
    pytest.skip("not here")

def test_that_takes_too_long():
    {end}
    while True:
        time.sleep(0.01)

def test_behind_it():
    pass

def test_behind_it_too():
    pass
"""
# The clock is set forward, and fires.
OVER = "before = time.monotonic; limit.time.monotonic = lambda: before() + 7200; signal.setitimer(signal.ITIMER_REAL, 0.01)"
# With pytest-xdist the process that has the results is the worker's parent: it hears of the tests before a little later.
KILLED = ("[time.sleep(0.01) for _ in iter(lambda: 'skipped' + chr(9) in open(os.environ['RHRUN_TEST_RESULTS']).read(), True)]; "
          "os.kill({victim}, signal.SIGKILL); os._exit(0)")


def counts(path):
    """The summary of scripts/test."""
    script = f". '{ROOT}/scripts/lib.sh'; results_counts '{path}'"
    done = subprocess.run(["bash", "-c", script, str(ROOT / "scripts/test")], capture_output=True, text=True, timeout=60)
    first, *names = done.stdout.splitlines()
    return first, names


def session(folder, end, workers):
    """pytest over SESSION with a limit of an hour: its exit status, and what it wrote."""
    if workers:
        pytest.importorskip("xdist")
    shutil.copy(pathlib.Path(__file__).with_name("limit.py"), folder)
    (folder / "conftest.py").write_text('pytest_plugins = ["limit"]\n')
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(SESSION.format(end=end))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "_RHRUN"))}
    env.update(RHRUN_TEST_LIMIT_S="3600", RHRUN_TEST_RESULTS=str(folder / "results"))
    split = ["-n", "1", "--dist", "loadfile"] if workers else []
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", folder / "junit.xml", *split, folder],
                          env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    return done


@pytest.mark.parametrize("workers", [False, True], ids=["alone", "xdist"])
def test_a_session_that_reaches_its_limit(tmp_path, workers):
    done = session(tmp_path, OVER, workers)
    assert done.returncode == 1, done.stdout
    assert counts(tmp_path / "results") == ("1 1 1 3", [
        "failed test_it.py::test_bad", "cut test_it.py::test_that_takes_too_long", "cut test_it.py::test_behind_it",
        "cut test_it.py::test_behind_it_too"])
    assert "cut: it was running when the limit of 3600 s was reached" in done.stdout
    assert done.stdout.count("cut: it had not begun when the limit of 3600 s was reached") >= 2
    assert "KeyError" not in done.stdout and "INTERNAL" not in done.stdout + done.stderr
    assert "test_behind_it_too" in (tmp_path / "junit.xml").read_text()


@pytest.mark.parametrize("workers, victim", [(False, "os.getpid()"), (True, "os.getppid()")], ids=["alone", "xdist"])
def test_a_session_that_is_killed(tmp_path, workers, victim):
    done = session(tmp_path, KILLED.format(victim=victim), workers)
    assert done.returncode == -9
    assert counts(tmp_path / "results") == ("1 1 1 3", [
        "failed test_it.py::test_bad", "cut test_it.py::test_that_takes_too_long", "cut test_it.py::test_behind_it",
        "cut test_it.py::test_behind_it_too"])
    assert not (tmp_path / "junit.xml").exists()
