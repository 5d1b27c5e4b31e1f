"""The place of torchrun, and its command line for several nodes."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys

from lib import ROOT, Skip, free_base, log

VENV = ROOT / "build/bench-venv"


def torchrun(bench):
    if importlib.util.find_spec("torch"):
        return [sys.executable, "-m", "torch.distributed.run"]
    found = shutil.which("torchrun") or (str(VENV / "bin/torchrun") if (VENV / "bin/torchrun").exists() else None)
    if not found and bench.install:
        log("    pip install torch (large)")
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        if subprocess.run([VENV / "bin/pip", "-q", "install", "torch", "numpy"], timeout=1800).returncode == 0:
            found = str(VENV / "bin/torchrun")
    if not found:
        raise Skip("torch is not here (run.py --install brings it with pip)")
    return [found]


def python(bench):
    """The interpreter that torchrun has."""
    command = torchrun(bench)
    return command[0] if len(command) > 1 else str(pathlib.Path(command[0]).parent / "python")


def c10d(interpreter, nodes, each, max_restarts=0):
    """What each node is told, up to the workers' command; the port is a new one every time."""
    port = free_base(1) + 1
    return [interpreter, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={each}", "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id=bench{port}", f"--max-restarts={max_restarts}", "--monitor-interval=0.1",
            "--local-addr=127.0.0.1", "--no-python"]
