"""Fits a line to points by gradient descent; out/model.json and out/loss.csv are what it leaves. With a seed the points are
noisy, and the same for the same seed."""
import argparse
import json
import pathlib
import random

from tqdm import tqdm

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--seed", type=int)
parser.add_argument("--rate", type=float, default=0.1)
args = parser.parse_args()

noise = random.Random(args.seed)
points = [(x / 10, 3 * x / 10 + 1 + (noise.gauss(0, 0.1) if args.seed is not None else 0)) for x in range(-10, 11)]
slope = offset = 0.0
losses = []
for _ in tqdm(range(args.steps), desc="fitting"):
    errors = [slope * x + offset - y for x, y in points]
    losses.append(sum(e * e for e in errors) / len(points))
    slope -= args.rate * sum(e * x for e, (x, _) in zip(errors, points)) / len(points)
    offset -= args.rate * sum(errors) / len(points)

out = pathlib.Path("out")
out.mkdir(exist_ok=True)
(out / "model.json").write_text(json.dumps({"slope": round(slope, 4), "offset": round(offset, 4)}) + "\n")
(out / "loss.csv").write_text("step,loss\n" + "".join(f"{i},{loss:.6f}\n" for i, loss in enumerate(losses)))
print(f"slope {slope:.2f}, offset {offset:.2f} after {args.steps} steps")
print(f"loss {losses[-1]!r}")
