"""A python that has torch, for tests of launchers: the one that RHRUN_TEST_TORCH_PYTHON names, python3 itself, or a venv that
is made once (build/torch-venv) where installing torch was asked for (RHRUN_TEST_REQUIRE=all, RHRUN_TEST_HF=1) or pip finds
torch on this machine."""
import fcntl
import os
import subprocess

import pytest

from harness import REQUIRE_ALL, ROOT
from test_hf_example import INSTALL, TORCH, pip_settings, wheel_is_here

VENV = ROOT / "build/torch-venv"
NEEDED = "import torch.distributed.run, accelerate"


def has_torch(python):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        return subprocess.run([str(python), "-c", NEEDED], env=env, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def make_venv():
    VENV.parent.mkdir(exist_ok=True)
    with open(VENV.parent / "torch-venv.lock", "w") as lock:  # two runs of the tests at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not has_torch(VENV / "bin/python"):
            subprocess.run(["python3", "-m", "venv", "--clear", str(VENV)], check=True, timeout=120)
            done = subprocess.run([str(VENV / "bin/python"), "-m", "pip", "-q", "install", TORCH, "accelerate", "python-etcd"],
                                  env={**os.environ, **pip_settings()}, capture_output=True, text=True, timeout=INSTALL)
            assert done.returncode == 0, done.stdout + done.stderr


def find():
    named = os.environ.get("RHRUN_TEST_TORCH_PYTHON")
    if named:
        assert has_torch(named), f"{named} has no torch or no accelerate"
        return named
    for python in (VENV / "bin/python", "python3"):
        if has_torch(python):
            return str(python)
    if not (REQUIRE_ALL or os.environ.get("RHRUN_TEST_HF") or wheel_is_here(pip_settings())):
        pytest.skip("it installs torch: RHRUN_TEST_HF=1 runs it, RHRUN_TEST_TORCH_PYTHON names a python that has it")
    make_venv()
    return str(VENV / "bin/python")
