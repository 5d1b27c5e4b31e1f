"""The checks before a launch: the port, and whether the nodes agree; and the same checks by `rhrun doctor`."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from test_examples import no_python  # noqa: F401: a fixture


@pytest.fixture
def hosts(fleet):
    """hosts(count, address): a spec's text with a fleet, whose first node the others are to reach at address."""
    def up(count, address="127.0.0.1"):
        f = fleet(count)
        cluster = f.explicit_cluster()
        for i, h in enumerate(cluster["hosts"]):
            h["address"] = address
            h["name"] = f"n{i}"
        return f, "name: p\ncluster: " + json.dumps(cluster) + "\n"
    return up


def test_nodes_that_do_not_reach_the_first(rhrun, job, hosts):
    """203.0.113.0/24 is nobody's: what is sent there is refused or lost."""
    f, head = hosts(2, "203.0.113.1")
    text = head + "distributed: {%s}\nentrypoint: {run: echo ran}\n"
    r = rhrun(job(text % "master_port: 0")).expect(3)
    assert 'nodes "n0" and "n1" cannot reach port' in r.err and "at 203.0.113.1" in r.err
    assert "address: ADDRESS" in r.err and "ran" not in r.out
    rhrun(job(text % "preflight: off")).ok()
    rhrun(job(text % "preflight: {ports: false}")).ok()
    r = rhrun("doctor", job(text % "master_port: 0")).expect(3)
    assert 'error    ports: nodes "n0" and "n1" cannot reach port' in r.out and "hint: open the ports" in r.out


@pytest.fixture
def no_network():
    """A shell command for a session that has no network of its own, but for a loopback that is down."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode != 0:
        pytest.skip("a network of one's own is not allowed here (needs root with CAP_SYS_ADMIN)")
    return 'exec unshare -n /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"'


def test_one_of_three_is_cut_off(rhrun, job, hosts, no_network):
    """As behind a firewall: it can be logged in to, and reaches nobody."""
    f, head = hosts(3)
    f.stop(2)
    config = f.dir / "2/sshd_config"
    config.write_text(f'ForceCommand {no_network}\n' + config.read_text())
    f.start(2)
    text = head + "distributed: {}\nentrypoint: {run: echo ran}\n"
    r = rhrun(job(text)).expect(3)
    assert 'error: node "n1" cannot reach port' in r.err and "Network is unreachable" in r.err and "ran" not in r.out
    found = [x for x in rhrun("doctor", "--json", job(text)).expect(3).json() if x["state"] == "error"]
    assert [x["what"] for x in found] == ["ports"] and found[0]["nodes"] == ["n1"] and "cure" in found[0]
    config.write_text(config.read_text().split("\n", 1)[1])
    f.stop(2)
    f.start(2)
    assert rhrun(job(text)).ok().out.count("ran") == 3


def test_an_address_that_is_a_name(rhrun, job, hosts):
    """It is tried from here. The nodes may resolve it differently, so it prevents no launch."""
    f, head = hosts(2, "localhost")
    text = "distributed: {}\nentrypoint: {run: echo ran}\n"
    r = rhrun(job(head + text)).ok()
    assert "not known here" not in r.err and "cannot reach" not in r.err
    f, head = hosts(2, "nobody.invalid")
    r = rhrun(job(head + text, "other.yaml")).ok()
    assert 'the address "nobody.invalid" of node "n0" is not known here: rhrun did not try whether the nodes reach it' in r.err


@pytest.fixture
def strange_name():
    """The name of this process looks like commands for a terminal."""
    comm = pathlib.Path("/proc/self/comm")
    before = comm.read_text()
    comm.write_text("\033]0;a\a\033[2Jb")
    yield "?]0;a??[2Jb"
    comm.write_text(before)


def test_a_port_that_somebody_has(rhrun, job, hosts, strange_name):
    f, head = hosts(2)
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        port = s.getsockname()[1]
        text = head + f"distributed: {{master_port: {port}}}\nentrypoint: {{run: 'echo ran on $MASTER_PORT'}}\n"
        r = rhrun(job(text)).expect(3)
        assert f'port {port} on node "n0", where the workers are to meet, is not available: Address already in use' in r.err
        assert f"by process {os.getpid()} ({strange_name})" in r.err and "master_port: 0" in r.err and "ran" not in r.out
        assert f"by process {os.getpid()} ({strange_name})" in rhrun("doctor", job(text)).expect(3).out
        alone = f"name: alone\ndistributed: {{master_port: {port}}}\nentrypoint: {{run: echo ran}}\n"
        r = rhrun(job(alone, "alone.yaml")).expect(3)
        assert f'port {port} on node "local"' in r.err and "ran" not in r.out
    r = rhrun(job(text)).ok()
    assert r.out.count(f"ran on {port}") == 2


def put_torch(f, i, version):
    lib = f.home(i + 1) / ".local"
    shutil.rmtree(lib, ignore_errors=True)
    if version:
        for python in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"):
            d = lib / f"lib/python{python}/site-packages/torch-{version}.dist-info"
            d.mkdir(parents=True)
            (d / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


def test_a_flag_that_torch_does_not_have(rhrun, job, hosts):
    f, head = hosts(2)
    put_torch(f, 0, "2.12.0+cpu")
    put_torch(f, 1, "2.5.1+cpu")
    text = head + "distributed: {launcher: torchrun, shutdown_timeout: 5, local_ranks_filter: [0], nproc_per_node: 1}\n"
    r = rhrun(job(text + "entrypoint: {module: this}\n")).expect(1)
    assert 'node "n1": torch 2.5.1+cpu does not have --shutdown_timeout; it came with 2.12' in r.err
    assert "torch>=2.12" in r.err and "default@" not in r.out
    put_torch(f, 1, "2.9.0")
    text = head + "distributed: {launcher: torchrun, nproc_per_node: xpu}\n"
    r = rhrun(job(text + "entrypoint: {module: this}\n")).expect(1)
    assert 'node "n1": torch 2.9.0 does not have --nproc_per_node=xpu; it came with 2.10' in r.err


def test_a_flag_on_one_node(rhrun, job, hosts):
    """No node to agree with, and still no launch that can only fail. Without the check, the launcher says the same."""
    f, head = hosts(1)
    put_torch(f, 0, "2.5.1+cpu")
    text = head + "distributed: {launcher: torchrun, shutdown_timeout: 5%s}\nentrypoint: {module: this}\n"
    r = rhrun(job(text % "")).expect(1)
    assert 'node "n0": torch 2.5.1+cpu does not have --shutdown_timeout; it came with 2.12' in r.err and "default@" not in r.text
    r = rhrun(job(text % ", preflight: off")).expect(1)
    assert "torch 2.5.1+cpu does not have --shutdown_timeout; it came with 2.12" in r.text and "default@" in r.text


def test_a_flag_with_conda(rhrun, job, hosts):
    f, head = hosts(2)
    for i, version in enumerate(["2.13.0", "2.5.1"]):
        env = f.home(i + 1) / "env"
        (env / "conda-meta").mkdir(parents=True)
        (env / "bin").mkdir()
        os.symlink("/usr/bin/env", env / "bin/python3.11")
        (env / "bin/python").write_text("#!/bin/sh\necho Python 3.11\n")
        (env / "bin/python").chmod(0o755)
        meta = env / f"lib/python3.11/site-packages/torch-{version}.dist-info"
        meta.mkdir(parents=True)
        (meta / "METADATA").write_text("Name: torch\n")
    put_torch(f, 0, "2.0.0")  # of another Python: not what counts
    text = head + "python: {conda: ~/env}\ndistributed: {launcher: torchrun, shutdown_timeout: 5}\nentrypoint: {module: this}\n"
    r = rhrun(job(text)).expect(1)
    assert 'node "n1": torch 2.5.1 does not have --shutdown_timeout; it came with 2.12' in r.err and 'node "n0": torch' not in r.err
    r = rhrun(job(text.replace(", shutdown_timeout: 5", ""))).expect(1)
    assert 'torch is 2.13.0 on node "n0" and 2.5.1 on node "n1"' in r.err


def test_torch_of_something_that_activate_chooses(rhrun, job, hosts):
    """It is unknown which python3 that is: the packages of another one prevent no launch."""
    f, head = hosts(2)
    put_torch(f, 0, "2.1.0")
    put_torch(f, 1, "2.10.0")
    text = head + "activate: export PATH=/opt/modules/bin:$PATH\ndistributed: {}\nentrypoint: {module: this}\n"
    r = rhrun(job(text)).ok()
    assert "torch is" not in r.err and r.out.count("Zen") == 2


def test_bounds(rhrun, job, hosts):
    f, head = hosts(2)
    text = head + "distributed: {preflight: {%s}}\nentrypoint: {run: echo ran}\n"
    r = rhrun(job(text % "disk: 900000TB")).expect(3)
    assert 'on nodes "n0" and "n1"' in r.err and "GB are free" in r.err and "ran" not in r.out
    assert "preflight.disk asks for 900000000 GB" in r.err
    assert "in quotes" not in rhrun("validate", job(text % "disk: 5")).expect(2).err, "that would not do either"
    rhrun(job(text % "disk: false, clocks: 1s, timeout: 10s")).ok()
    r = rhrun("validate", job(text % "disk: lots, clock: 1s, timeout: 11s")).expect(2)
    assert "a size such as 500MB or 10GB" in r.err and "did you mean clocks" in r.err
    assert "timeout can be 10s at most" in rhrun("validate", job(text % "timeout: 11s")).expect(2).err


def test_doctor_without_gpus(rhrun, job, hosts):
    f, head = hosts(2)
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there are GPUs here")
    r = rhrun("doctor", job(head + "distributed: {nproc_per_node: gpu}\nentrypoint: {run: echo ran}\n")).expect(3)
    for name in ("n0", "n1"):
        assert f'error    gpus: node "{name}": nproc_per_node is gpu, and no GPU was found there' in r.out


def test_doctor_leaves_nothing(rhrun, job, hosts, box):
    f, head = hosts(2)
    text = head + "setup: [{run: echo set up >>~/lines}]\ndistributed: {}\nentrypoint: {module: this}\n"
    put_torch(f, 0, "2.1.0")
    put_torch(f, 1, "2.10.0")
    r = rhrun("doctor", job(text)).ok()  # the set-up may change it
    assert "ok       ports: the workers can meet" in r.out
    assert f.all_lines() == [[], []] and "was never run" in rhrun("status", job(text)).expect(2).err
    rhrun(job(text)).expect(1)
    assert "torch is 2.1.0" in rhrun("doctor", job(text)).expect(3).out


def test_torch_that_differs(rhrun, job, hosts):
    f, head = hosts(3)

    text = head + "distributed: {}\nentrypoint: {module: this}\n"
    for i, version in enumerate(["2.1.0", "2.1.2+cu121", "2.10.0"]):
        put_torch(f, i, version)
    r = rhrun(job(text)).expect(1)
    assert 'torch is 2.1.0 on node "n0" and 2.10.0 on node "n2"' in r.err and "torch==2.1.*" in r.err
    assert "Zen" not in r.out
    put_torch(f, 2, None)
    r = rhrun(job(text)).ok()
    assert 'torch is 2.1.0 on node "n0" and 2.1.2+cu121 on node "n1"' in r.err
    assert 'torch was not found on node "n2", and on node "n0" it is 2.1.0' in r.err
    assert r.out.count("Zen") == 3


def test_an_interpreter_that_is_not_there(rhrun, job, hosts):
    """Reported before the launch, and by doctor; for a bare word only if rhrun knows PATH."""
    f, head = hosts(2)
    text = head + "python: %s\ndistributed: {}\nentrypoint: {module: this}\n"
    path = os.path.join(f.dir, "python-of-one-node")
    for word, where in (("/nope/python", "on"), ("python9.9", "in PATH on")):
        for command in ("run", "doctor"):
            r = rhrun(command, job(text % word)).expect(1 if command == "run" else 3)
            assert f'the Python "{word}" is not {where} nodes "n0" and "n1"' in r.err + r.out
            assert "names one that exists" in r.err + r.out and "cannot run" not in r.err + r.out
    r = rhrun(job("activate: 'true'\n" + text % "python9.9")).expect(1)
    assert "is not in PATH" not in r.err and 'cannot run "python9.9"' in r.err
    os.symlink(sys.executable, path)
    assert rhrun(job(text % path)).ok().out.count("Zen") == 2
    r = rhrun(job((text % "/nope/python").replace("this}", "this, prolog: 'true'}"))).expect(1)  # which may bring it
    assert '/nope/python" is not on nodes "n0" and "n1"; ' in r.err and 'cannot run "/nope/python"' in r.err


def test_doctor_before_the_first_run(rhrun, job, box):
    """There is no journal yet, but the workers' Python is asked for."""
    (box.work / "t.py").touch()
    for python in ("", "python: {venv: false}\n", "python: {interpreter: python3}\n"):
        r = rhrun("doctor", job(python + "distributed: {nproc_per_node: 2}\nentrypoint: {script: t.py}\n")).ok()
        assert "ok       ports: " in r.out, r


SAID = 'error    versions: the Python "{}" is not in PATH on node "{}"'
HINT = "hint: install it there, or python: {interpreter: PATH}"


@pytest.mark.parametrize("keys", [
    {"entrypoint": {"script": "t.py"}}, {"entrypoint": {"function": "t:f"}}, {"packages": ["six"]}, {"requirements": "r.txt"},
    {"venv": False, "packages": ["six"]}, {"venv": "~/env", "packages": ["six"]}, {"distributed": {"launcher": "torchrun"}},
    {"distributed": {"nproc_per_node": 2}, "packages": ["six"], "entrypoint": {"script": "t.py"}},
    {"setup": [{"pip": "six"}, {"run": "echo too late"}]}], ids=str)
def test_doctor_finds_that_the_interpreter_is_missing(rhrun, job, box, keys):
    """For every starter, set-up or workers, with `distributed` or without."""
    (box.work / "t.py").write_text("def f(): pass\n")
    (box.work / "r.txt").write_text("six\n")
    keys = {"entrypoint": {"run": "true"}, **keys}
    python = {"interpreter": "python9.9", **({"venv": keys.pop("venv")} if "venv" in keys else {})}
    r = rhrun("doctor", job({**keys, "python": python}), timeout=30).expect(3)
    assert SAID.format("python9.9", "local") in r.out and HINT in r.out and r.out.count("error ") == 1, r
    python["interpreter"] = sys.executable
    rhrun("doctor", job({**keys, "python": python}), timeout=30).ok()
    assert not box.state.exists() or not list(box.state.rglob("venv"))


def test_doctor_of_a_node_without_python(rhrun, job, box, no_python):
    """The job decides whether it counts."""
    (box.work / "t.py").touch()
    r = rhrun("doctor", job({"entrypoint": {"run": "true"}}), env=no_python, timeout=30).ok()
    assert "the Python" not in r.out, r
    rhrun("doctor", job({"python": {"interpreter": "python9.9"}, "entrypoint": {"run": "true"}}), timeout=30).ok()
    r = rhrun("doctor", job({"entrypoint": {"script": "t.py"}}), env=no_python, timeout=30).expect(3)
    assert SAID.format("python3", "local") in r.out and HINT in r.out, r


def test_doctor_where_a_step_may_bring_the_interpreter(rhrun, job, box):
    """Before the step was done it is a warning; afterwards it is a fault."""
    (box.work / "t.py").touch()
    spec = {"python": {"interpreter": "python9.9"}, "setup": [{"name": "own", "run": "true"}], "entrypoint": {"script": "t.py"}}
    r = rhrun("doctor", job(spec), timeout=30).ok()
    assert 'warning  versions: the Python "python9.9" is not in PATH' in r.out and 'hint: step "own" may bring it; else install' in r.out, r
    rhrun(job(spec)).expect(1)
    assert SAID.format("python9.9", "local") in rhrun("doctor", job(spec), timeout=30).expect(3).out
    spec["entrypoint"]["prolog"] = "true"
    assert 'step "prolog" may bring it' in rhrun("doctor", job(spec), timeout=30).ok().out
    spec["python"]["interpreter"] = "~/made"  # with a venv, which is made before the item
    spec["packages"] = ["six"]
    r = rhrun("doctor", job(spec), timeout=30).expect(3)
    assert f'error    versions: the Python "{box.home}/made" is not on node "local"' in r.out, r
    (box.home / "made").symlink_to(sys.executable)
    rhrun("doctor", job(spec), timeout=30).ok()


def test_doctor_with_a_venv_that_is_there(rhrun, job, box):
    """It is used as it is, whatever `interpreter` names."""
    (box.home / "env/bin").mkdir(parents=True)
    (box.home / "env/bin/python").symlink_to(sys.executable)
    spec = {"python": {"interpreter": "python9.9", "venv": "~/env"}, "packages": ["six"], "entrypoint": {"run": "true"}}
    rhrun("doctor", job(spec), timeout=30).ok()


def test_doctor_names_the_nodes_and_the_role(rhrun, job, hosts):
    """Over ssh; each role with a python of its own, and a node that has what the others lack."""
    f, head = hosts(3)
    path = os.path.join(f.home(2), "python-of-n1")
    text = head + "python: {interpreter: ~/python-of-n1}\npackages: [six]\nentrypoint: {run: 'true'}\n"
    os.symlink(sys.executable, path)
    found = [x for x in rhrun("doctor", "--json", job(text), timeout=60).expect(3).json() if x["state"] == "error"]
    assert [(x["what"], x["nodes"]) for x in found] == [("versions", ["n0"]), ("versions", ["n2"])] and "install it there" in found[0]["cure"]
    roles = head + """distributed: {}
roles:
  a: {nodes: [0], entrypoint: {run: 'true'}}
  b: {count: 2, nodes: [1, 2], python: {interpreter: python9.9}, packages: [six], entrypoint: {run: 'true'}}
"""
    r = rhrun("doctor", job(roles, "roles.yaml"), timeout=60).expect(3)
    assert 'error    versions: the Python "python9.9" is not in PATH on nodes "n1" and "n2"' in r.out, r
    assert 'python: {interpreter: PATH} of role "b" names one' in r.out and r.out.count("error ") == 1, r
    f.stop(3)
    r = rhrun("doctor", job(text), timeout=60).expect(3)
    assert 'is not on node "n0"' in r.out and "error    node 2 (n2)" in r.out, r
