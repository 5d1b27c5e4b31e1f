"""Python packages of the tests' own, and a pip that looks nowhere else."""
import os
import subprocess
import sys
import zipfile

from harness import missing


def wheel(folder, name, version, requires=()):
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n",
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


def started(result):
    return [a["step"] for e in result.events() if e["type"] == "started" for a in e["attempts"]]
