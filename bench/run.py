#!/usr/bin/env python3
"""run.py: measures rhrun against its peers and prints a table in Markdown.

  bench/run.py [--pairs N] [--only CASE,...] [--rhrun FILE] [--install] [--out FILE] [--check]
  bench/run.py --before FILE [--rounds N] [--pairs N] [--only CASE,...] [--rhrun FILE] [--out FILE]

A case is one file in bench/cases with a docstring and rows(bench), a generator of rows. --install brings in peers that
are missing (apt-get as root, pip into build/bench-venv). --check: exit status 1 when a wanted ratio is missed.
--before: an older rhrun is the peer, of every row; each has hosts and a state directory of its own, and they take turns.
"""
import argparse
import importlib.util
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lib  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def load(path):
    module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location(path.stem, path))
    spec.loader.exec_module(module)
    return module


def seconds(value):
    return f"{value:.3f} s" if value >= 0.1 else f"{value * 1000:.1f} ms"


def text_of(r):
    if "value" in r:
        return f"| {r['work']} | {r['against']} | {r['value']} | | | {r['wanted'] or ''} | {verdict(r)} |"
    wanted = f"≤ {r['wanted']:g}" if r["wanted"] is not None else ""
    spread = f" ({r['lowest']:.2f}, {r['highest']:.2f})" if "lowest" in r else ""
    return f"| {r['work']} | {r['against']} | {seconds(r['a'])} | {seconds(r['b'])} | {r['ratio']:.3f}{spread} | {wanted} | {verdict(r)} |"


def verdict(r):
    if "met" in r:
        return "yes" if r["met"] else "**no**"
    if r["wanted"] is None or "ratio" not in r:
        return ""
    return "yes" if r["ratio"] <= r["wanted"] else "**no**"


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "unknown")
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr.strip()
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}, {ssh}; load at the start {os.getloadavg()[0]:.1f}"


def run_case(case, rhrun, options, take, alone=False):
    """take(row) for each of its rows; the reason why it, or the rest of it, was not measured, or None."""
    # The folder's name goes into unix socket paths: short.
    folder = tempfile.mkdtemp(prefix="rb-", dir=os.environ.get("RHRUN_BENCH_DIR", "/tmp"))
    bench = lib.Bench(rhrun.resolve(), options.pairs, folder, options.install, alone)
    began = time.monotonic()
    try:
        for r in case.rows(bench):
            take(r)
    except lib.Skip as e:
        return f"not measured: {e}"
    except (RuntimeError, subprocess.SubprocessError) as e:
        lib.log(f"  failed: {e}")
        return f"failed: {str(e).splitlines()[0]}"
    finally:
        bench.end()
        shutil.rmtree(folder, ignore_errors=True)
        lib.log(f"  {time.monotonic() - began:.0f} s")
    return None


def with_peers(paths, options):
    """Each case beside what people use today."""
    lines = [f"Measured on {machine()}, {options.pairs} pairs each.", "",
             "| work | compared with | rhrun | peer | ratio: median (lowest, highest) | wanted | met |", "|---|---|---|---|---|---|---|"]
    notes, missed = [], 0
    for path in paths:
        case = load(path)
        lib.log(f"{path.stem}: {case.__doc__.splitlines()[0]}")

        def take(r):
            nonlocal missed
            lines.append(text_of(r))
            lib.log("  " + lines[-1])
            missed += verdict(r) == "**no**"
        said = run_case(case, options.rhrun, options, take)
        if said:
            notes.append(f"- {path.stem}: {said}")
            lib.log(f"  {said}")
            missed += said.startswith("failed")
    return lines, notes, missed


def compare(paths, options):
    """Two builds of rhrun, in turn."""
    lines = [f"Measured on {machine()}, {options.rounds} rounds of {options.pairs} each.", "",
             "| work | now | before | ratio (median) | lowest, highest |", "|---|---|---|---|---|"]
    notes = []
    for path in paths:
        case, times = load(path), {}
        lib.log(f"{path.stem}: {case.__doc__.splitlines()[0]}")
        for number in range(options.rounds):
            both = [options.rhrun, options.before]
            for which in (both if number % 2 == 0 else both[::-1]):
                seen = {}  # several peers of one work: it is measured once for each, and counts once

                def take(r):
                    if "a" in r:
                        seen.setdefault(r["work"], r["a"])
                said = run_case(case, which, options, take, alone=True)
                for work, took in seen.items():
                    times.setdefault(work, {}).setdefault(which, []).append(took)
                if said and f"- {path.stem}: {said}" not in notes:
                    notes.append(f"- {path.stem}: {said}")
        for work, of in times.items():
            now, before = of.get(options.rhrun, []), of.get(options.before, [])
            ratios = [a / b for a, b in zip(now, before)]
            if ratios:
                lines.append(f"| {work} | {seconds(statistics.median(now))} | {seconds(statistics.median(before))} | "
                             f"{statistics.median(ratios):.3f} | {min(ratios):.2f}, {max(ratios):.2f} |")
                lib.log("  " + lines[-1])
    return lines, notes


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--rhrun", default=HERE.parent / "build/release/rhrun", type=pathlib.Path)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    for rhrun in filter(None, (options.rhrun, options.before)):
        if not os.access(rhrun, os.X_OK):
            parser.error(f"no rhrun at {rhrun}: cmake --preset release && cmake --build --preset release")
    cases = sorted((HERE / "cases").glob("*.py"))
    only = [name for name in options.only.split(",") if name]
    unknown = set(only) - {c.stem for c in cases}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(c.stem for c in cases)}")
    paths = [c for c in cases if not only or c.stem in only]
    lines, notes, missed = (*compare(paths, options), 0) if options.before else with_peers(paths, options)
    text = "\n".join(lines + ([""] + notes if notes else [])) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
