"""Random jobs are brought to done while random faults strike: see chaos.py."""
import os

import pytest

import chaos
import harness
import room


@pytest.fixture(scope="session")
def in_room():
    harness.require("sshd")
    if not os.access(harness.RHRUN, os.X_OK):
        raise pytest.UsageError(f"no rhrun at {harness.RHRUN}: build it, or set RHRUN_BIN")
    return room.allowed()


def test_round(seed, in_room):
    _, rc, text = chaos.run_round(seed, str(harness.ROOT / "build/chaos"), in_room)
    if rc:
        pytest.fail(text, pytrace=False)
