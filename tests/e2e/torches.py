"""A Python that has torch, for tests of launchers: the one that RHRUN_TEST_TORCH_PYTHON names, python3 itself, or a venv that
is made once (build/torch-venv) if RHRUN_TEST_REQUIRE=all or RHRUN_TEST_HF=1 asks for an installation of torch, or if pip finds
torch on this machine."""
import contextlib
import fcntl
import functools
import os
import pathlib
import re
import subprocess
import tempfile
import zipfile

import pytest

from harness import REQUIRE_ALL, ROOT, missing
from test_hf_example import INSTALL, TORCH, pip_settings, wheel_is_here

VENV = ROOT / "build/torch-venv"
PARSERS = ROOT / "build/torch-parsers"
# The smallest wheels of each version: only their platform-independent Python is run.
SMALL = {"1.13.1": ("3.10", "macosx_11_0_arm64"), "2.15.0": ("3.12", "macosx_14_0_arm64")}
NEEDED = "torch.distributed.run, accelerate"

# Each round it sums 1 over all ranks. A file in HOME says whether the last rank fails in it, once or always. Workers of a node
# share one pipe: a line is one write.
SAY = "import os\ndef say(text):\n    os.write(1, (text + chr(10)).encode())\n"
TRAIN = SAY + '''
import os, sys, torch, torch.distributed as dist
rank = os.environ["RANK"]
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
say(f"rank {rank} sum {int(one)} args {sys.argv[1:]} addr {os.environ['MASTER_ADDR']} id {os.environ.get('TORCHELASTIC_RUN_ID')}")
fail = os.path.expanduser("~/fail")
dist.barrier()  # a failure takes nobody's line away
if rank == str(dist.get_world_size() - 1) and os.path.exists(fail):
    if open(fail).read() == "once":
        os.remove(fail)
    os._exit(7)
dist.barrier()
say(f"rank {rank} done")
dist.destroy_process_group()
'''


def sums(result):
    return sorted(re.findall(r"^default@\S+: rank (\d+) sum (\d+)", result.out, re.M))


TWO = [("0", "2"), ("1", "2")]
FOUR = [("0", "4"), ("1", "4"), ("2", "4"), ("3", "4")]


def can_import(python, modules):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        return subprocess.run([str(python), "-c", f"import {modules}"], env=env, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def has_torch(python):
    return can_import(python, NEEDED)


@contextlib.contextmanager
def venv_lock():
    """Against two runs of the tests at once, or two workers of one."""
    VENV.parent.mkdir(exist_ok=True)
    with open(VENV.parent / "torch-venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# A third of the time to import torch is garbage collection, during the import and once more at the end. No launcher needs it, so
# the venv's python leaves it out.
QUICK = "import atexit, gc; gc.disable(); atexit.register(gc.freeze)\n"


def install(*packages):
    # NO_COMPILE=0 is pip's way to say no-compile: only imported modules are compiled, a small part of the installed ones.
    env = {**os.environ, **pip_settings(), "DS_BUILD_OPS": "0", "PIP_NO_COMPILE": "0"}
    return subprocess.run([str(VENV / "bin/python"), "-m", "pip", "-q", "install", *packages], env=env, capture_output=True,
                          text=True, timeout=INSTALL)


def make_venv():
    with venv_lock():
        if not has_torch(VENV / "bin/python"):
            subprocess.run(["python3", "-m", "venv", "--clear", str(VENV)], check=True, timeout=120)
            done = install(TORCH, "accelerate", "python-etcd")
            assert done.returncode == 0, done.stdout + done.stderr
            assert has_torch(VENV / "bin/python")  # this compiles the modules that the tests import


def use_venv():
    """Its python, which starts fast because its modules are compiled."""
    for folder in VENV.glob("lib/python3*/site-packages"):
        if not (folder / "rhrun-tests.pth").exists():
            (folder / "rhrun-tests.pth").write_text(QUICK)
    return str(VENV / "bin/python")


@functools.cache
def find():
    named = os.environ.get("RHRUN_TEST_TORCH_PYTHON")
    if named:
        assert has_torch(named), f"{named} has no torch or no accelerate"
        return named
    for python in (VENV / "bin/python", "python3"):
        if has_torch(python):
            return use_venv() if python == VENV / "bin/python" else python
    if not (REQUIRE_ALL or os.environ.get("RHRUN_TEST_HF") or wheel_is_here(pip_settings())):
        pytest.skip("it installs torch: RHRUN_TEST_HF=1 runs it, RHRUN_TEST_TORCH_PYTHON names a python that has it")
    make_venv()
    return use_venv()


def find_deepspeed():
    """A python that has deepspeed too; only its sources are installed, into the venv."""
    python = find()
    if can_import(python, "deepspeed.launcher.launch"):
        return python
    done = None
    if python == str(VENV / "bin/python") and (REQUIRE_ALL or os.environ.get("RHRUN_TEST_HF")):
        with venv_lock():
            done = install("deepspeed==0.19.8")
    if not can_import(python, "deepspeed.launcher.launch"):
        missing("deepspeed", f"{python} -m pip install deepspeed\n" + (done.stdout + done.stderr if done else ""))
    return python


def parser_files(version):
    """A folder with the modules of a torch that make up its command line's parser."""
    folder = PARSERS / version
    if folder.exists():
        return folder
    if not (REQUIRE_ALL or os.environ.get("RHRUN_TEST_HF")):
        pytest.skip("it loads wheels of torch: RHRUN_TEST_HF=1 runs it")
    python, platform = SMALL[version]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        done = subprocess.run(["python3", "-m", "pip", "-q", "download", "--no-deps", "--only-binary=:all:", "--platform", platform,
                               "--python-version", python, "--dest", f"{made}/wheel", f"torch=={version}"], capture_output=True,
                              text=True, timeout=INSTALL,
                              env={**os.environ, "PIP_CONSTRAINT": os.devnull})  # limits of this machine's pip do not matter here
        assert done.returncode == 0, done.stdout + done.stderr
        os.mkdir(f"{made}/{version}")
        with zipfile.ZipFile(next(pathlib.Path(made, "wheel").iterdir())) as wheel:
            for module in ("torch.distributed.run", "torch.distributed.argparse_util", "torch.numa.binding"):
                with contextlib.suppress(KeyError):
                    pathlib.Path(made, version, module).write_bytes(wheel.read(module.replace(".", "/") + ".py"))
        with contextlib.suppress(OSError):  # another process was first
            os.rename(f"{made}/{version}", folder)
    return folder
