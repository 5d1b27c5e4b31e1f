"""specs/examples/hf-text-generation.yaml as somebody who comes from Runhouse uses it, over SSH, with torch and transformers.

The test installs both from the package index, so it runs only if that was asked for (RHRUN_TEST_REQUIRE=all, RHRUN_TEST_HF=1) or
if pip finds torch on this machine. The test makes a tiny random model, and serves the extra index itself.
"""
import base64
import functools
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import zipfile

import pytest

from harness import REQUIRE_ALL, ROOT

SPEC = ROOT / "specs/examples/hf-text-generation.yaml"
SCRIPT = "examples/pytorch/text-generation/run_generation.py"
TORCH = "torch==2.13.0"
INSTALL = 900  # seconds that installing may take


def pip_settings():
    """The pip settings of the user who runs the tests, as the environment of the node: its HOME has none."""
    done = subprocess.run(["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60)
    settings = {}
    for name, value in re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", done.stdout, re.M):
        if name in ("index-url", "extra-index-url", "find-links", "cert", "trusted-host", "default-timeout"):
            settings["PIP_" + name.upper().replace("-", "_")] = value
    return settings


def wheel_is_here(settings):
    folders = [pathlib.Path(p.removeprefix("file://")) for p in settings.get("PIP_FIND_LINKS", "").split()]
    return any(p.is_dir() and list(p.glob("torch-*.whl")) for p in folders)


@pytest.fixture
def settings():
    found = pip_settings()
    if not (REQUIRE_ALL or os.environ.get("RHRUN_TEST_HF") or wheel_is_here(found)):
        pytest.skip("it installs torch: RHRUN_TEST_HF=1 runs it")
    return found


def make_wheel(folder, name, version, text, requires):
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                            + "".join(f"Requires-Dist: {r}\n" for r in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t.encode())}\n"
                     for n, t in files.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for n, t in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(n, t)
    return path


@pytest.fixture
def extra_index(box):
    """The URL of a package index (PEP 503) on this machine; it alone has rhrun-hf-extra, which wants torch."""
    root = box.dir / "index"
    package = root / "simple/rhrun-hf-extra"
    package.mkdir(parents=True)
    wheel = make_wheel(package, "rhrun_hf_extra", "1.0", "WHERE = 'the extra index'\n", [TORCH])
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (package / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}#sha256={digest}">{wheel.name}</a>\n')
    (root / "simple/index.html").write_text('<!DOCTYPE html><a href="rhrun-hf-extra/">rhrun-hf-extra</a>\n')
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, _, *args):
            requests.append(args[0])

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple/", requests
    server.shutdown()
    thread.join()
    server.server_close()


def started(result):
    return [a["step"] for e in result.events() if e["type"] == "started" for a in e["attempts"]]


def output_of(result):
    """The lines of stdout of the launch, of a run --json."""
    return [e["text"] for e in result.events() if e["type"] == "output" and e["step"] == "launch" and e["stream"] == "out"]


def argv_of(lines):
    return json.loads(next(line for line in lines if line.startswith("arguments: "))[11:])


def installed_at(home):
    """When each package of the job's environment was installed: it changes when one is installed again."""
    found = {p.parent.name: p.stat().st_mtime_ns for p in home.glob(".rhrun/**/site-packages/*.dist-info/RECORD")}
    return {re.sub(r"-.*", "", name).lower(): when for name, when in found.items()}


@pytest.mark.slow
@pytest.mark.soak
def test_the_example(box, rhrun, fleet, settings, extra_index):
    f = fleet(1)
    index, requests = extra_index
    src = box.work / "transformers"
    shutil.copytree(ROOT / "specs/examples/hf", src)
    cluster = f.explicit_cluster()
    common = ["--set", f"cluster.known_hosts={cluster['known_hosts']}", "--set", "cluster.ssh_config=none",
              "-p", f"host=127.0.0.1:{f.port(1)}", "-p", f"user={cluster['user']}", "-p", f"key_path={cluster['identity_file']}",
              "-p", f"workdir={src}", "-p", f"example={SCRIPT}", "-p", f"torch_index={index}", "-p", "torch=rhrun-hf-extra",
              "-p", "model=tiny", "-p", "prompt=Hello"]
    # PIP_NO_COMPILE=0 is pip's way to say no-compile: of thousands of modules few are imported, and compiled then.
    for name, value in {**settings, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PIP_NO_COMPILE": "0"}.items():
        common += ["--set", f"env.{name}={json.dumps(value)}"]
    script = src / SCRIPT
    script.write_text(script.read_text().replace("args = parser", 'parser.add_argument("--note", action="append")\nargs = parser')
                      + 'import rhrun_hf_extra\nprint("extra:", rhrun_hf_extra.WHERE)\n')
    extra = ["--length", "7", "--note", "a b", "--note", "it's \"quoted\"", "--note", "$HOME `id` $(id) *", "--note", "two\nlines",
             "--note", "", "--note", "-- x"]

    # 1. all of it, from nothing; the arguments arrive exactly
    first = rhrun("--json", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    lines = output_of(first)
    assert argv_of(lines) == ["--model_type", "gpt2", "--model_name_or_path", "tiny", "--prompt", "Hello", *extra]
    assert "extra: the extra index" in lines
    generated = json.loads(lines[lines.index("=== GENERATED SEQUENCE 1 ===") + 1])
    assert generated["text"].startswith("Hello") and generated["new_tokens"] == 7
    assert any(".whl" in r for r in requests)
    assert {"sync", "pip:./", "torch", "launch"} <= set(started(first))
    installed = installed_at(f.home(1))
    assert {"torch", "transformers", "rhrun_hf_extra"} <= set(installed)

    # 2. again: nothing
    asked = len(requests)
    again = rhrun(SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    assert "nothing to do" in again.err and len(requests) == asked

    # 3. the script is edited: sent and launched. "pip:./" reads the whole tree, so that package alone is installed again
    script.write_text(script.read_text() + 'print("EDITED")\n')
    edited = rhrun("--json", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    assert "EDITED" in output_of(edited) and {"sync", "launch"} <= set(started(edited))
    now = installed_at(f.home(1))
    assert {n: now[n] for n in now if n != "tinylm"} == {n: installed[n] for n in installed if n != "tinylm"}

    # 3b. editable, it reads its build files only: the script is sent and launched, no more
    common += ["--set", "packages=[{pip: ./, editable: true}]"]
    rhrun("--json", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    now = installed_at(f.home(1))
    script.write_text(script.read_text() + 'print("TWICE")\n')
    edited = rhrun("--json", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    assert "TWICE" in output_of(edited) and started(edited) == ["sync", "launch"]
    assert installed_at(f.home(1)) == now

    # 4. the requirements are edited: plan names them before anything is done; the item is redone, the rest verified
    wants = src / pathlib.Path(SCRIPT).parent / "requirements.txt"
    wants.write_text(wants.read_text() + "filelock>=3\n")
    plan = rhrun("plan", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    assert re.search(r"run again +\S*requirements.txt", plan.out) and "requirements.txt changed" in plan.out, plan
    assert re.search(r"verify +torch", plan.out), plan
    redone = rhrun("--json", SPEC, *common, "--", *extra, timeout=INSTALL).ok()
    assert any("requirements.txt" in s for s in started(redone)) and "torch" in started(redone)
    after = installed_at(f.home(1))
    assert {n: after[n] for n in after if n != "tinylm"} == {n: now[n] for n in now if n != "tinylm"}
