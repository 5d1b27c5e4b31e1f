"""rhrun import torchrun."""
import os

import torches
from harness import require
from torches import FOUR, TRAIN, sums


def test_an_imported_command_line_runs(box):
    torch_python = torches.find()
    (box.work / "train.py").write_text(TRAIN)
    words = ["PET_NNODES=2", "MINE=1", f"{os.path.dirname(torch_python)}/torchrun", "--nproc-per-node", "2", "--rdzv-backend=c10d",
             "--rdzv_endpoint", "elsewhere:29400", "--node-rank=1", "--max-restarts=1", "train.py", "--x", "a b"]
    done = box.run("import", "torchrun", "--", *words).ok()
    assert "# --rdzv_endpoint=elsewhere:29400: left out" in done.out
    yaml = require("yaml")
    spec = yaml.safe_load(done.out)
    assert spec["distributed"] == {"launcher": "torchrun", "nnodes": 2, "nproc_per_node": 2, "rdzv_backend": "c10d", "max_restarts": 1}
    assert spec["entrypoint"] == {"script": "train.py", "args": ["--x", "a b"]} and spec["env"] == {"MINE": "1"}
    assert sums(box.run(box.spec(done.out, "imported.yaml")).ok()) == FOUR


def test_what_cannot_be_imported_is_named(box):
    def says(text, *words):
        assert text in box.run("import", "torchrun", "--", *words).expect(2).err
    says("torchrun has no flag --nodes", "torchrun", "--nodes=2", "t.py")
    says("did you mean --nnodes?", "torchrun", "--nodes=2", "t.py")
    says("--rdzv may be --rdzv_backend or", "torchrun", "--rdzv", "x", "t.py")
    says("names no program", "torchrun", "--nnodes=2")
    says("is no torchrun", "python3", "train.py")
    says('has no setting "join"', "torchrun", "--rdzv_backend=c10d", "--rdzv_conf=join=3", "t.py")
    says("torchrun reads no variable PET_NODES", "PET_NODES=2", "torchrun", "t.py")
