"""A session that takes too long still ends with a result: after RHRUN_TEST_LIMIT_S=SECONDS the running test is cut, and no other test starts.

A test that is cut fails and says so. Each line goes to RHRUN_TEST_RESULTS=FILE as soon as it is known, so a session that is killed
has reported what it did: "collected ID", "started ID", and for each test that ended "passed ID", "failed ID", "skipped ID" or
"cut ID", with a tab between the two words. scripts/test adds them up.
"""
import os
import signal
import threading
import time

import pytest

ENDS = "_RHRUN_TEST_ENDS"  # on the monotonic clock, which the workers of pytest-xdist share
RANK = ("passed", "skipped", "failed", "cut")


class Results:
    """For the process that has all reports: with pytest-xdist, the one that started the workers."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8", buffering=1)
        self.known = set()
        self.worst = {}

    def line(self, word, name):
        self.file.write(f"{word}\t{name}\n")

    def collected(self, names):
        for name in names:
            if name not in self.known:
                self.known.add(name)
                self.line("collected", name)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        self.collected(ids)

    def pytest_collection_finish(self, session):
        self.collected([item.nodeid for item in session.items])

    def pytest_collectreport(self, report):
        if report.failed:
            self.line("failed", report.nodeid or "collection")

    def pytest_runtest_logstart(self, nodeid):
        self.line("started", nodeid)

    def pytest_runtest_logreport(self, report):
        outcome = "cut" if ("cut", True) in map(tuple, report.user_properties) else report.outcome
        self.worst[report.nodeid] = max(outcome, self.worst.get(report.nodeid, "passed"), key=RANK.index)
        if report.when not in ("setup", "call"):  # after teardown, or of a worker that crashed
            self.line(self.worst.pop(report.nodeid), report.nodeid)


def pytest_configure(config):
    seconds = os.environ.get("RHRUN_TEST_LIMIT_S")
    if seconds and ENDS not in os.environ:
        os.environ[ENDS] = str(time.monotonic() + float(seconds))
    config.pluginmanager.register(Begins(), "rhrun-limit")
    path = os.environ.get("RHRUN_TEST_RESULTS")
    if path and not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Results(path), "rhrun-results")


def cut(item, when):
    item.user_properties.append(("cut", True))
    pytest.fail(f"cut: {when} when the limit of {os.environ.get('RHRUN_TEST_LIMIT_S')} s was reached", pytrace=False)


def left():
    return float(os.environ[ENDS]) - time.monotonic() if ENDS in os.environ else None


def bounded(item):
    """A phase of a test, ended by the clock."""
    seconds = left()
    if seconds is None or seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: cut(item, "it was running"))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Begins:
    """Inside pytest's own wrappers, because their second halves depend on the first."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        seconds = left()
        if seconds is not None and seconds <= 0:
            cut(item, "it had not begun")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    yield from bounded(item)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    yield from bounded(item)
