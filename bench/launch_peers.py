"""Where torchrun is."""
import importlib.util
import shutil
import subprocess
import sys

from lib import ROOT, Skip, log

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
