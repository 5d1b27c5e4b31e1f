"""Python packages only for the tests, and a pip that searches nowhere else."""
import fcntl
import os
import subprocess
import sys
import zipfile
import zlib

from harness import ROOT, missing


def wheel(folder, name, version, requires=(), body=""):
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n{body}",
        f"{info}/METADATA": meta,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{n},,\n" for n in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as z:
        for path, text in files.items():
            z.writestr(path, text)


def offline(folder):
    """The environment of a pip that finds packages in the folder alone."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def real_python(*modules):
    """The interpreter itself, not a shim; skipped without the modules."""
    done = subprocess.run([sys.executable, "-c", "import sys, " + ", ".join(modules or ("os",)) + "; print(sys.executable)"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        missing("python with " + ", ".join(modules), "apt-get install python3-venv python3-pip")
    return done.stdout.strip()


def venv_with_pip(python):
    """A venv that ensurepip has put pip into, made once by each interpreter (build/pip-venv-...)."""
    folder = ROOT / f"build/pip-venv-{zlib.crc32(f'{python} {sys.version}'.encode()):08x}"
    folder.parent.mkdir(exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            subprocess.run([python, "-m", "venv", "--clear", folder], check=True, timeout=90)
            (folder / "complete").touch()
    return folder


QUICK = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec '{python}' "$@"
'{python}' "$@" --without-pip || exit
for folder; do :; done
for to in "$folder"/lib/python3*/site-packages; do
    cp -a --reflink=auto '{ready}'/lib/python3*/site-packages/. "$to" || exit
done
for script in '{ready}'/bin/pip*; do
    sed "1s|.*|#!$folder/bin/python|" "$script" >"$folder/bin/${{script##*/}}" && chmod +x "$folder/bin/${{script##*/}}" || exit
done
"""


def quick_python(box, name="quick-python"):
    """real_python() for a test that is not about making venvs: ensurepip takes seconds to unpack and compile pip, so a venv of
    this interpreter gets a copy of a prepared pip."""
    python = real_python("venv", "ensurepip")
    program = box.dir / "quick" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(QUICK.format(python=python, ready=venv_with_pip(python)))
    program.chmod(0o755)
    return str(program)


def started(result):
    return [a["step"] for e in result.events() if e["type"] == "started" for a in e["attempts"]]
