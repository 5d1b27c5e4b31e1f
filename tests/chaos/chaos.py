#!/usr/bin/env python3
"""Random jobs brought to done while random faults strike, against the real binary and real sshd.

    tests/chaos/chaos.py [--rounds N] [--seed S] [--jobs J] [--keep DIR]

A seed determines a round; the next round has the next seed. The same seed gives the same job, commands and faults, but the instants at
which they meet depend on the machine. A round that breaks a rule prints its seed and its events, and its folder
is kept in DIR/SEED (build/chaos). RHRUN_BIN: the program.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import harness  # noqa: E402
import room  # noqa: E402

LIMIT_S = 300


def round_inside(seed, keep, in_room, show):
    """One round in this process; 0, or 1 where something did not hold."""
    from story import Story, Violation
    keep_fd = os.open(keep, os.O_RDONLY | os.O_DIRECTORY)
    if in_room:
        room.enter([harness.ROOT, harness.RHRUN.parent])
    folder = room.folder_for(seed)
    story, fault = None, None
    try:
        story = Story(seed, folder, in_room)
        story.play()
    except Violation as e:
        fault = str(e)
    except BaseException:  # pytest.fail is no Exception
        fault = traceback.format_exc()
    if fault:
        print(f"seed {seed}: VIOLATION: {fault}\n--- what happened")
        print("\n".join(story.lines) if story else "nothing")
        subprocess.run(["cp", "-a", f"{folder}/.", f"/proc/{os.getpid()}/fd/{keep_fd}/{seed}"], check=False, capture_output=True)
        print(f"--- kept: {keep}/{seed}; again: tests/chaos/chaos.py --rounds 1 --seed {seed}")
    elif show:
        print("\n".join(story.lines))
    if story:
        story.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if fault else 0


def run_round(seed, keep, in_room, show=False):
    """One round in processes of its own: (seed, exit status, what it printed)."""
    os.makedirs(keep, exist_ok=True)
    words = [*(room.PREFIX if in_room else ()), sys.executable, str(HERE / "chaos.py"), "--inside", "room" if in_room else "here",
             "--seed", str(seed), "--keep", str(keep),
             *(["--show"] if show else [])]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S)
        rc, text = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        rc, text = 124, f"seed {seed}: VIOLATION: the round did not end within {LIMIT_S} s\n{(e.stdout or b'').decode(errors='replace')}"
    return seed, rc, text


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--seed", type=int, default=None, help="of the first round; random otherwise")
    p.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    p.add_argument("--keep", default=str(harness.ROOT / "build/chaos"))
    p.add_argument("--show", action="store_true", help="tell what happened in good rounds too")
    p.add_argument("--inside", choices=["room", "here"], help=argparse.SUPPRESS)
    return p.parse_args()


def main():
    o = options()
    if o.inside == "room":
        return room.first_process(lambda: round_inside(o.seed, o.keep, True, o.show))
    if o.inside:
        return round_inside(o.seed, o.keep, False, o.show)
    first = random.randrange(1 << 30) if o.seed is None else o.seed
    in_room = room.allowed()
    print(f"chaos: {o.rounds} rounds from seed {first}, {o.jobs} at a time" + ("" if in_room else "; without rooms (they need root)"), flush=True)
    began, over, bad = time.monotonic(), 0, []
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        rounds = [pool.submit(run_round, s, o.keep, in_room, o.show) for s in range(first, first + o.rounds)]
        for done in concurrent.futures.as_completed(rounds):
            seed, rc, text = done.result()
            if rc:
                bad.append(seed)
            if text:
                print(text, flush=True)
            over += 1
            if over % 50 == 0:
                print(f"chaos: {over} of {o.rounds} rounds after {time.monotonic() - began:.0f} s", flush=True)
    print(f"chaos: {o.rounds} rounds in {time.monotonic() - began:.0f} s, {len(bad)} with violations{': seeds ' if bad else ''}{' '.join(map(str, sorted(bad)))}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
