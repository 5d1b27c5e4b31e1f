# After rank0.py: python -m torch.distributed.run, in this process if there is a mark to make.
import runpy
import sys

if not wrapped:
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run"] + sys.argv[1:])
runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
