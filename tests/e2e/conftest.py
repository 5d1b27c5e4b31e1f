"""Fixtures of the end-to-end tests; harness.py has their parts."""
import os
import shutil
import subprocess
import tempfile
import zlib

import pytest

import harness

pytest_plugins = ["limit", "engine", "clouds.plugin"]


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long; left out by scripts/test --quick and under sanitizers")
    config.addinivalue_line("markers", "soak: says much of what another test says; left to scripts/soak")
    config.addinivalue_line("markers", "leaves(reason): processes may outlive the test on purpose")


# A worker of pytest-xdist takes one test at a time, in this order: the longest first, so that none runs alone at the end.
LONGEST = ("test_hf_example.py", "test_torchrun.py", "test_crash.py", "test_launchers.py", "test_power.py")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    part = os.environ.get("RHRUN_TEST_PART")  # "K/N": the K-th of N parts, the same tests each time
    if part:
        k, n = map(int, part.split("/"))
        left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % n != k - 1]
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % n == k - 1]
        config.hook.pytest_deselected(items=left_out)


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not os.access(harness.RHRUN, os.X_OK):
        raise pytest.UsageError(f"no rhrun at {harness.RHRUN}: build it, or set RHRUN_BIN")


@pytest.fixture
def box(request):
    """The test's world. A process of the job that is still there at the end fails the test."""
    # Short: unix sockets have 108 bytes for their path.
    folder = tempfile.mkdtemp(prefix="rhrun-", dir=os.environ.get("TMPDIR", "/tmp"))
    world = harness.Box(folder)
    yield world
    left = world.end()
    failed = getattr(request.node, "failed", False)
    if failed and os.environ.get("RHRUN_TEST_KEEP"):
        print(f"kept: {folder}")
    else:
        subprocess.run(["chmod", "-R", "u+rwX", folder], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    if left and not failed and not request.node.get_closest_marker("leaves"):
        pytest.fail("processes outlived the test:\n" + "\n".join(left))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.failed = True


@pytest.fixture
def rhrun(box):
    """rhrun(*args, ...): runs the command in the test's box and returns rc, out, err."""
    return box.run


@pytest.fixture
def job(box):
    """job(text_or_dict, name="job.yaml"): writes a spec and returns its path."""
    return box.spec


@pytest.fixture
def fleet(box):
    """fleet(n, shared_home=False, options="", hostnames=False): real sshd on loopback."""
    harness.require("sshd")
    fleets = []

    def up(count, **options):
        f = harness.Fleet(box.dir / f"f{len(fleets)}", count, **options)
        fleets.append(f)
        return f

    yield up
    for f in fleets:
        f.down()


@pytest.fixture
def terminal(box):
    """terminal(*args, columns=80): rhrun on a pseudo-terminal."""
    opened = []

    def start(*args, **options):
        t = harness.Terminal(box, args, **options)
        opened.append(t)
        return t

    yield start
    for t in opened:
        t.kill()


@pytest.fixture
def mounted():
    """mounted(path, "size=1m,noexec"): a tmpfs there until the test ends."""
    harness.require("mount")
    points = []

    def mount(path, options):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
        points.append(path)
        return path

    yield mount
    for path in reversed(points):
        subprocess.run(["umount", "-l", str(path)], check=False)
