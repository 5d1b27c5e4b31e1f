"""specs/examples: those that need no more than this machine has. scripts/fresh-root runs them on a machine with next to nothing."""
import json
import os
import pathlib
import shutil
import signal
import socket
import urllib.request

import pytest

from harness import ROOT, wait_for

IN_SHELL = ["hello", "two-nodes-local", "setup-and-resume", "params", "sweep"]


@pytest.fixture
def examples(box):
    """A copy: the files that an example leaves stay out of the tree."""
    return shutil.copytree(ROOT / "specs/examples", box.work / "examples")


@pytest.fixture
def no_python(box):
    """A PATH with every program of this machine but Python."""
    folder = box.dir / "bin"
    folder.mkdir()
    for place in box.env["PATH"].split(":"):
        for program in pathlib.Path(place).glob("*") if os.path.isabs(place) else ():
            link = folder / program.name
            if not program.name.startswith("python") and not link.is_symlink():
                link.symlink_to(program)
    assert not shutil.which("python3", path=str(folder)) and shutil.which("sh", path=str(folder))
    return {"PATH": str(folder)}


@pytest.mark.parametrize("name", [*IN_SHELL, "any-shell", "gather", "function"])
def test_examples_run(rhrun, examples, name):
    spec = examples / f"{name}.yaml"
    rhrun(spec).ok()
    if "always:" not in spec.read_text():
        assert "nothing to do" in rhrun(spec).ok().err


@pytest.mark.parametrize("name", IN_SHELL)
def test_a_job_in_shell_needs_no_python(rhrun, examples, no_python, name):
    spec = examples / f"{name}.yaml"
    rhrun("doctor", spec, env=no_python).ok()
    r = rhrun(spec, env=no_python).ok()
    assert "python" not in r.text.lower(), r
    rhrun("plan", spec, env=no_python).ok()


def test_the_sum_of_two_nodes_is_pi(rhrun, examples):
    r = rhrun(examples / "two-nodes-local.yaml").ok()
    assert "pi = +3.14159" in r.out
    assert not list(examples.glob("pi.*.*")), "the shares are still there"


def test_the_sweep_finds_the_deeper_valley(rhrun, examples):
    spec = examples / "sweep.yaml"
    rhrun(spec).ok()
    assert "best: rate=0.05,start=-2" in rhrun("status", spec).ok().out
    assert len(list((examples / "sweep-results").rglob("curve.txt"))) == 6
    rhrun(spec, "-p", "rate=0.03").ok()
    assert len(rhrun("status", spec, "-p", "rate=0.03", "--json").ok().json()["points"]) == 1


def test_a_job_in_python_says_that_it_needs_one(rhrun, examples, no_python):
    r = rhrun(examples / "function.yaml", env=no_python)
    assert r.rc == 1 and 'cannot run "python3"' in r.err, r


@pytest.mark.parametrize("where", ["here", "ssh"])
def test_what_a_job_serves_is_read_here(box, examples, fleet, where):
    spec = examples / "served.yaml"
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    text = spec.read_text().replace("8000", str(port))
    if where == "ssh":
        text += f"cluster: {json.dumps(fleet(1).explicit_cluster())}\n"
    spec.write_text(text)
    running = box.start(spec, "-p", "seconds=1000")
    address = running.wait_text(rf"port {port} of \S+ \(page\): (127\.0\.0\.1:\d+)").group(1)
    assert (address == f"127.0.0.1:{port}") == (where == "here")

    def page():
        try:
            return urllib.request.urlopen(f"http://{address}/", timeout=10).read()
        except OSError:
            return b""

    wait_for(lambda: page() == b"served by a job\n")
    running.signal(signal.SIGINT)
    running.wait().expect(130)


def test_the_failing_example_fails(rhrun, examples):
    r = rhrun(examples / "failing-worker.yaml").expect(1)
    assert "exit status" in r.err
