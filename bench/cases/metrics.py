"""10 metrics over the log of a run, 1 GB: rhrun metrics, against `grep -P` with one of the patterns on the same text."""
import json
import random

from lib import row

BYTES = 1_000_000_000
PATTERNS = {"loss": r"step (?<step>\d+) loss=(?<value>\S+)", "lr": r"lr=(?<value>\S+)", "grad": r"grad_norm=(?<value>\S+)",
            "tokens": r"tokens/s=(?<value>\S+)", "eval": r"eval_loss[=:]\s*(?<value>\S+)", "acc": r"accuracy[=:]\s*(?<value>\S+)",
            "ppl": r"perplexity (?<value>\S+)", "f1": r"\bF1\s*=\s*(?<value>\S+)", "bleu": r"BLEU: (?<value>\S+)",
            "epoch": r"epoch \d+ took (?<value>\S+) s"}


def make_log(file):
    """As trainers log: each tenth line has numbers."""
    draw, done, i = random.Random(1), 0, 0
    with open(file, "w", encoding="ascii") as f:
        while done < BYTES:
            lines = []
            for _ in range(20000):
                i += 1
                at = f"2026-11-22 12:{i % 60:02}:00,123"
                lines.append(f"{at} INFO trainer: step {i} loss={draw.random():.4f} lr=1.00e-04 grad_norm={draw.random():.3f} tokens/s={i % 9973}\n"
                             if i % 10 == 0 else
                             f"{at} DEBUG dataloader worker {i % 8}: fetched batch {i} of shape (32, 2048) in {draw.random():.4f} s, queue {i % 13}\n")
            done += f.write("".join(lines))
    return i // 10


def rows(bench):
    text = bench.dir / "text"
    values = make_log(text)
    spec = bench.spec("metrics.yaml", json.dumps({
        "name": "metrics", "log_limit": "2GB", "metrics": [{"name": k, "pattern": v} for k, v in PATTERNS.items()],
        "entrypoint": {"command": ["cat", str(text)]}}))
    bench.seconds([bench.rhrun, "--quiet", spec])

    def ours():
        took = bench.seconds([bench.rhrun, "metrics", spec])
        if bench.output().split()[10] != str(values):
            raise RuntimeError(f"not {values} values: {bench.output()}")
        return took

    yield row("10 metrics of a log of 1 GB, 4 of them found on each tenth line", "grep -cP with one of the patterns",
              bench.ab(ours, lambda: bench.seconds(["grep", "-cP", r"step (\d+) loss=(\S+)", str(text)])), 2)
