"""What is looked at before a launch over several hosts: the port, and whether the nodes agree."""
import json
import shutil
import socket

import pytest


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
    assert 'nodes "n0", "n1" cannot reach port' in r.err and "at 203.0.113.1" in r.err
    assert "address: ADDRESS" in r.err and "ran" not in r.out
    rhrun(job(text % "preflight: off")).ok()


def test_a_port_that_somebody_has(rhrun, job, hosts):
    f, head = hosts(2)
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        port = s.getsockname()[1]
        text = head + f"distributed: {{master_port: {port}}}\nentrypoint: {{run: 'echo ran on $MASTER_PORT'}}\n"
        r = rhrun(job(text)).expect(3)
        assert f'port {port} on node "n0", where the workers are to meet, cannot be had: Address already in use' in r.err
        assert "ss -ltnp" in r.err and "ran" not in r.out
    r = rhrun(job(text)).ok()
    assert r.out.count(f"ran on {port}") == 2


def put_torch(f, i, version):
    lib = f.home(i + 1) / ".local"
    shutil.rmtree(lib, ignore_errors=True)
    if version:
        for python in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"):
            d = lib / f"lib/python{python}/site-packages/torch-{version}.dist-info"
            d.mkdir(parents=True)
            (d / "METADATA").write_text("Name: torch\n")


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
    assert 'torch is 2.1.2+cu121 here and 2.1.0 on node "n0"' in r.err
    assert 'torch was not found here, and on node "n0" it is 2.1.0' in r.err
    assert r.out.count("Zen") == 3
