#!/usr/bin/env python3
"""run.py: measures rhrun against its peers and prints a table in Markdown.

  bench/run.py [--pairs N] [--only CASE,...] [--rhrun FILE] [--install] [--out FILE] [--check]

A case is one file in bench/cases with a docstring and rows(bench), a generator of rows. --install brings in peers that
are missing (apt-get as root, pip into build/bench-venv). --check: exit status 1 when a wanted ratio is missed.
"""
import argparse
import importlib.util
import os
import pathlib
import platform
import shutil
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
    return f"| {r['work']} | {r['against']} | {seconds(r['a'])} | {seconds(r['b'])} | {r['ratio']:.3f} | {wanted} | {verdict(r)} |"


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


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--rhrun", default=HERE.parent / "build/release/rhrun", type=pathlib.Path)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not os.access(options.rhrun, os.X_OK):
        parser.error(f"no rhrun at {options.rhrun}: cmake --preset release && cmake --build --preset release")
    cases = sorted((HERE / "cases").glob("*.py"))
    only = [name for name in options.only.split(",") if name]
    unknown = set(only) - {c.stem for c in cases}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(c.stem for c in cases)}")
    lines = [f"Measured on {machine()}, {options.pairs} pairs each.", "",
             "| work | compared with | rhrun | peer | ratio (median) | wanted | met |", "|---|---|---|---|---|---|---|"]
    notes, missed = [], 0
    for path in cases:
        if only and path.stem not in only:
            continue
        case = load(path)
        lib.log(f"{path.stem}: {case.__doc__.splitlines()[0]}")
        # The folder's name goes into unix socket paths: short.
        folder = tempfile.mkdtemp(prefix="rb-", dir="/tmp")
        bench = lib.Bench(options.rhrun.resolve(), options.pairs, folder, options.install)
        began = time.monotonic()
        try:
            for r in case.rows(bench):
                lines.append(text_of(r))
                lib.log("  " + lines[-1])
                missed += verdict(r) == "**no**"
        except lib.Skip as e:
            notes.append(f"- {path.stem}: not measured: {e}")
            lib.log(f"  skipped: {e}")
        except (RuntimeError, subprocess.SubprocessError) as e:
            notes.append(f"- {path.stem}: failed: {str(e).splitlines()[0]}")
            lib.log(f"  failed: {e}")
            missed += 1
        finally:
            bench.end()
            shutil.rmtree(folder, ignore_errors=True)
        lib.log(f"  {time.monotonic() - began:.0f} s")
    text = "\n".join(lines + ([""] + notes if notes else [])) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
