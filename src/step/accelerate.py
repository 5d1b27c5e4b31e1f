"""`accelerate launch` without a default config that `accelerate config` left on the node; --config_file still works.

Without an accelerator the workers must be told so, or each acts as the only one.
"""
import os

import accelerate.commands.launch as launch
import accelerate.utils
import torch


def has_device():
    if torch.cuda.is_available():
        return True
    kinds = ("npu", "mlu", "musa", "xpu", "sdaa", "hpu", "neuron", "torch_xla", "mps")
    tests = [getattr(accelerate.utils, "is_%s_available" % kind, None) for kind in kinds]
    return any(test() for test in tests if test)


if not has_device():
    os.environ.setdefault("ACCELERATE_USE_CPU", "true")
launch.default_config_file = ""
launch.main()
