#!/usr/bin/env python3
"""Rented machines under random kills and faults: whatever happens, one more start leaves nothing behind.

    tests/e2e/test_rent_chaos.py [--rounds N] [--seed S] [--jobs J] [--show]     (RHRUN_BIN: the program)

A round is its seed (rent_story.py): a job on 1 to 4 containers of a real engine; commands that are killed at random instants and
at random events of the ledger, interrupted, or left to end, while a proxy drops answers, delays requests, hides machines, refuses.
Then the faults stop, and after one more command nothing carries the mark of the round's clusters. A round that breaks a rule
prints its seed and its events. As a test: RHRUN_TEST_RENT_ROUNDS rounds (10), from RHRUN_TEST_SEED or a random one.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rent_story  # noqa: E402

pytestmark = pytest.mark.xdist_group("docker")


def rounds(engine, count, first, jobs, show=False):
    """The seeds of the rounds that violated a rule."""
    witness, bad = rent_story.Witness(), []

    def one(seed):
        folder = tempfile.mkdtemp(prefix="rhrun-rent-", dir=os.environ.get("TMPDIR", "/tmp"))
        fault, lines = rent_story.play(seed, folder, engine, witness)
        if fault and os.environ.get("RHRUN_TEST_KEEP"):
            lines.append(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return seed, fault, lines

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for number, done in enumerate(concurrent.futures.as_completed([pool.submit(one, s) for s in range(first, first + count)]), 1):
            seed, fault, lines = done.result()
            if fault:
                bad.append(seed)
                print(f"seed {seed}: VIOLATION: {fault}\n--- what happened")
            if fault or show:
                print("\n".join(lines), flush=True)
            if number % 50 == 0:
                print(f"{number} of {count} rounds after {time.monotonic() - began:.0f} s", flush=True)
    witness.end()
    print(f"{count} rounds from seed {first} in {time.monotonic() - began:.0f} s, {len(bad)} with violations: {sorted(bad)}")
    return bad


def test_whatever_strikes_nothing_is_left(dockerd):
    # The same ones each time, so that a change is not blamed for what it did not do; scripts/soak takes new ones.
    first = int(os.environ.get("RHRUN_TEST_SEED") or 60000)
    bad = rounds(dockerd, int(os.environ.get("RHRUN_TEST_RENT_ROUNDS", 10)), first, jobs=5)
    assert not bad
    assert dockerd.docker("ps", "-aq") == "" and dockerd.docker("network", "ls", "-q", "--filter", "label=rhrun-run") == ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=300)
    p.add_argument("--seed", type=int, default=None, help="of the first round; random otherwise")
    p.add_argument("--jobs", type=int, default=5)
    p.add_argument("--show", action="store_true", help="tell what happened in good rounds too")
    o = p.parse_args()
    from engine import Engine
    engine = Engine()
    try:
        bad = rounds(engine, o.rounds, random.randrange(1 << 30) if o.seed is None else o.seed, o.jobs, o.show)
    finally:
        engine.end()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
