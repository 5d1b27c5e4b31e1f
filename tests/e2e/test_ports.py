"""`ports`: this machine reaches a server on a node while the launch runs."""
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import threading
import urllib.request

import pytest

from harness import check_schema, wait_for

# Prints how many bytes it got, and their digest; sends as many as requested.
SERVER = """
import hashlib, os, socket, sys, threading
def serve(c):
    f = c.makefile("rb")
    word, size = f.readline().split()
    if word == b"put":
        digest, n = hashlib.sha256(), int(size)
        while n > 0:
            data = f.read(min(n, 65536))
            if not data:
                break
            n -= len(data)
            digest.update(data)
        c.sendall(digest.hexdigest().encode() + b"\\n")
    elif word == b"get":
        c.sendall(hashlib.shake_128(b"seed").digest(int(size)))
    elif word == b"say":
        c.sendall(os.environ["WHO"].encode() + b" " + size + b"\\n")
        f.read()  # until the other end is done
    c.close()
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen(100)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""
ENTRY = "[ ! -e $HOME/late ] || until [ -e $HOME/go ]; do sleep 0.05; done; python3 server.py %d & until [ -e $HOME/stop ]; do sleep 0.05; done; kill $!; wait $! || :"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def spec_of(box, job, f, port, ports=None, **more):
    (box.work / "server.py").write_text(SERVER)
    return job({"name": "j", "workdir": ".", "cluster": f.explicit_cluster(), "env": {"WHO": "${{ node.rank }}"},
                "ports": ports or [port], "entrypoint": {"run": ENTRY % port}, **more})


def address_of(running, port):
    return int(running.wait_text(rf"port {port} of [^\n]*: 127\.0\.0\.1:(\d+)").group(1))


def dial(local):
    return socket.create_connection(("127.0.0.1", local), timeout=30)


def say(local, what="x"):
    """The server's answer; "" if the connection is closed without an answer."""
    try:
        with dial(local) as c:
            c.sendall(f"say {what}\n".encode())
            c.shutdown(socket.SHUT_WR)
            return c.makefile("rb").read().decode()
    except OSError:
        return ""


def stop(f, i=1):
    (f.home(i) / "stop").touch()


@pytest.fixture
def served(box, job, fleet, request):
    options = getattr(request, "param", "")
    f = fleet(1, options=options)
    port, local = free_port(), free_port()
    # libssh2 1.10 itself loses 51 bytes with each exchange of keys.
    env = {"ASAN_OPTIONS": box.env["ASAN_OPTIONS"] + ":detect_leaks=0"} if "RekeyLimit" in options else None
    running = box.start(spec_of(box, job, f, port, [{"port": port, "local": local, "name": "served"}]), env=env)
    assert address_of(running, port) == local
    wait_for(lambda: say(local) == "0 x\n")
    yield f, running, port, local
    if running.alive:
        stop(f)
        running.wait()


@pytest.mark.parametrize("served", ["", "RekeyLimit 1M"], indirect=True, ids=["plain", "new keys all the time"])
def test_many_bytes_both_ways(served):
    f, running, _, local = served
    data = hashlib.shake_128(b"mine").digest(50_000_000)
    with dial(local) as c:
        c.sendall(f"put {len(data)}\n".encode())
        c.sendall(data)
        assert c.makefile("rb").readline().decode().strip() == hashlib.sha256(data).hexdigest()
    with dial(local) as c:
        c.sendall(b"get 50000000\n")
        got = c.makefile("rb").read()
    assert got == hashlib.shake_128(b"seed").digest(50_000_000)
    stop(f)
    running.wait().ok()
    with pytest.raises(ConnectionRefusedError):
        dial(local)


def test_thirty_at_once(served):
    _, _, _, local = served
    there = [dial(local) for _ in range(30)]
    for i, c in enumerate(there):
        c.sendall(f"say {i}\n".encode())
    for i, c in enumerate(there):
        assert c.makefile("rb").readline() == f"0 {i}\n".encode()
    answers = {}

    def put(i):
        data = bytes([i]) * 1_000_000
        with dial(local) as c:
            c.sendall(f"put {len(data)}\n".encode() + data)
            answers[i] = c.makefile("rb").readline().decode().strip() == hashlib.sha256(data).hexdigest()

    threads = [threading.Thread(target=put, args=(i,)) for i in range(30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert answers == {i: True for i in range(30)}
    for c in there:
        c.close()


def test_more_than_there_is_room_for_wait(served):
    _, _, _, local = served
    held = [dial(local) for _ in range(64)]
    for c in held:
        c.sendall(b"say held\n")
    for c in held:
        assert c.makefile("rb").readline() == b"0 held\n"
    with dial(local) as one_more:
        one_more.sendall(b"say more\n")
        one_more.settimeout(1)
        with pytest.raises(TimeoutError):
            one_more.recv(1)
        for c in held:
            c.close()
        one_more.settimeout(30)
        assert one_more.recv(100) == b"0 more\n"


def test_what_comes_and_goes_leaves_nothing(served):
    """Ended in order, cut in the middle of a transfer, or at once: descriptors and channels are given back."""
    f, running, _, local = served

    def sockets():
        count = 0
        for fd in pathlib.Path(f"/proc/{running.process.pid}/fd").iterdir():
            try:
                count += os.readlink(fd).startswith("socket:")
            except FileNotFoundError:
                pass
        return count

    wait_for(lambda: sockets() == 2)  # the node's connection, and what listens
    for i in range(300):
        c = dial(local)
        if i % 3 == 0:
            c.sendall(b"say x\n")
            assert c.makefile("rb").readline() == b"0 x\n"
        elif i % 3 == 1:
            c.sendall(b"get 3000000\n")
            c.recv(1000)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", i % 2, 0))
        c.close()
    wait_for(lambda: sockets() == 2)
    assert say(local) == "0 x\n"
    stop(f)
    running.wait().ok()


def test_one_that_reads_nothing_stops_no_other(served):
    """Neither another connection nor the job's own output waits for it, and its buffer is bounded."""
    f, running, _, local = served
    with dial(local) as still:
        still.sendall(b"get 200000000\n")
        assert say(local) == "0 x\n"
        with open(f"/proc/{running.process.pid}/status") as status:
            resident = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))
        assert resident < 150_000
        stop(f)
        running.wait().ok()


def test_a_controller_that_is_killed_forwards_again(box, served, rhrun):
    f, running, port, local = served
    spec = box.work / "job.yaml"
    with dial(local) as held:
        held.sendall(b"say held\n")
        assert held.makefile("rb").readline() == b"0 held\n"
        running.kill9()
        assert held.recv(1) == b""  # nothing of it is left
    with pytest.raises(ConnectionRefusedError):
        dial(local)
    assert "127.0.0.1" not in rhrun("status", spec).ok().out
    again = box.start(spec)
    assert address_of(again, port) == local
    wait_for(lambda: say(local) == "0 x\n")
    stop(f)
    again.wait().ok()


def test_a_connection_that_is_cut(served):
    f, _, _, local = served
    with dial(local) as held:
        held.sendall(b"say held\n")
        assert held.makefile("rb").readline() == b"0 held\n"
        f.stop(1)
        assert held.recv(1) == b""
    assert say(local) == ""  # while it is away
    f.start(1)
    wait_for(lambda: say(local) == "0 x\n")


def test_a_node_that_stands_still(served):
    f, _, _, local = served
    with dial(local) as held:
        f.freeze(1)
        held.sendall(b"say held\n")
        with dial(local) as other:
            other.sendall(b"say other\n")
            other.settimeout(0.3)
            with pytest.raises(TimeoutError):
                other.recv(1)
            f.thaw(1)
            other.settimeout(30)
            assert other.recv(100) == b"0 other\n"
        assert held.makefile("rb").readline() == b"0 held\n"


def test_output_and_forwards_share_a_connection(box, job, fleet):
    """Much output at the same time: neither loses a byte, nor stops the other."""
    f = fleet(1)
    port, local = free_port(), free_port()
    lines = 200_000
    spec = spec_of(box, job, f, port, [{"port": port, "local": local}],
                   entrypoint={"run": f"python3 server.py {port} & until [ -e $HOME/go ]; do sleep 0.05; done; seq {lines}; until [ -e $HOME/stop ]; do sleep 0.05; done; kill $!"})
    running = box.start(spec)
    wait_for(lambda: address_of(running, port) and say(local) == "0 x\n")
    (f.home(1) / "go").touch()
    for _ in range(4):
        with dial(local) as c:
            c.sendall(b"get 5000000\n")
            assert c.makefile("rb").read() == hashlib.shake_128(b"seed").digest(5_000_000)
    stop(f)
    assert running.wait().ok().out.split() == [str(i) for i in range(1, lines + 1)]


def test_while_points_of_a_sweep_run(box, job, fleet):
    f = fleet(1)
    port, local = free_port(), free_port()
    spec = spec_of(box, job, f, port, [{"port": port, "local": local}], params={"p": 1}, sweep={"matrix": {"p": [1, 2]}, "per_node": 1},
                   entrypoint={"run": f"python3 server.py {port} & until [ -e $HOME/stop${{{{ params.p }}}} ]; do sleep 0.05; done; kill $!; wait $! || :"})
    running = box.start(spec)
    assert address_of(running, port) == local
    wait_for(lambda: say(local) == "0 x\n")
    (f.home(1) / "stop1").touch()
    wait_for(lambda: say(local) == "0 x\n")
    (f.home(1) / "stop2").touch()
    running.wait().ok()
    assert running.text.count(f"127.0.0.1:{local}") == 1
    with pytest.raises(ConnectionRefusedError):
        dial(local)


def test_it_is_in_the_live_view(box, job, fleet, terminal):
    f = fleet(1)
    port, local = free_port(), free_port()
    t = terminal(spec_of(box, job, f, port, [{"port": port, "local": local, "name": "served"}]))
    t.pump(lambda text: f"(served): 127.0.0.1:{local}" in text and "launch" in text)
    stop(f)
    assert t.pump() == 0
    with pytest.raises(ConnectionRefusedError):
        dial(local)


def test_the_background_controller_forwards(box, job, rhrun, fleet):
    f = fleet(1)
    port, local = free_port(), free_port()
    spec = spec_of(box, job, f, port, [{"port": port, "local": local}])
    rhrun(spec, "--detach").ok()
    wait_for(lambda: say(local) == "0 x\n" if f"127.0.0.1:{local}" in rhrun("status", spec).ok().out else False)
    attached = box.start("attach", spec)
    assert address_of(attached, port) == local
    stop(f)
    assert attached.wait().ok().err.count("port ") == 1
    with pytest.raises(ConnectionRefusedError):
        dial(local)


def test_nobody_listens_yet(box, job, fleet):
    f = fleet(1)
    port = free_port()
    (f.home(1) / "late").touch()
    running = box.start(spec_of(box, job, f, port))
    local = address_of(running, port)
    assert say(local) == ""
    (f.home(1) / "go").touch()
    wait_for(lambda: say(local) == "0 x\n")
    stop(f)
    running.wait().ok()


def test_a_port_that_is_taken_here(box, job, rhrun, fleet):
    f = fleet(1)
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        local = taken.getsockname()[1]
        spec = spec_of(box, job, f, port, [{"port": port, "local": local}])
        running = box.start(spec)
        got = address_of(running, port)
        assert got != local and f"as port {local} is taken here" in running.text
        wait_for(lambda: say(got) == "0 x\n")
        assert f"port {port} of 127.0.0.1" in rhrun("status", spec).ok().out
        told = json.loads(rhrun("status", spec, "--json").ok().out)["ports"]
        assert [(p["port"], p["address"], p["forwarded"]) for p in told] == [(port, f"127.0.0.1:{got}", True)]
        stop(f)
        running.wait().ok()
    assert "127.0.0.1:" not in rhrun("status", spec).ok().out


def test_by_role_node_and_key(box, job, rhrun, fleet):
    """Each goes to its own node; none of it changes a key."""
    f = fleet(2)
    one, two = free_port(), free_port()
    (box.work / "server.py").write_text(SERVER)
    roles = {"worker": {"count": 1, "nodes": [0], "entrypoint": {"run": ENTRY % one}},
             "router": {"count": 1, "nodes": [1], "entrypoint": {"run": ENTRY % two}}}
    base = {"name": "j", "workdir": ".", "cluster": f.explicit_cluster(hosts=[{"host": "127.0.0.1", "port": f.port(i), "name": n} for i, n in ((1, "a"), (2, "b"))]),
            "env": {"WHO": "${{ node.rank }}"}, "setup": [{"name": "s", "run": "echo s >>$HOME/lines"}], "roles": roles}
    stop(f, 1), stop(f, 2)
    spec = job(base)
    rhrun(spec).ok()
    (f.home(1) / "stop").unlink(), (f.home(2) / "stop").unlink()
    spec = job({**base, "ports": [{"port": one, "node": "a", "local": free_port()}, {"port": two, "role": "router", "local": free_port()}]})
    assert "nothing to do" in rhrun(spec).ok().err
    running = box.start("--json", "--again", spec)
    events = lambda: [json.loads(line) for line in running.text.splitlines() if line.startswith('{"type":"port"')]
    opened = wait_for(lambda: len(events()) == 2 and events())
    for e in opened:
        check_schema(e, "events.schema.json")
    assert [(e["host"], e["port"], e["role"]) for e in opened] == [("a", one, None), ("b", two, "router")]
    for e, who in zip(opened, "01"):
        local = int(e["address"].split(":")[1])
        wait_for(lambda: say(local) == f"{who} x\n")
    stop(f, 1), stop(f, 2)
    running.wait().ok()
    assert [e["address"] for e in events()[2:]] == [None, None]
    assert f.lines(1) == ["s"]


def test_on_this_machine_the_port_is_as_it_is(box, job):
    port = free_port()
    (box.work / "server.py").write_text(SERVER)
    running = box.start(job({"name": "j", "ports": [{"port": port, "name": "served"}], "env": {"WHO": "me"}, "entrypoint": {"run": ENTRY % port}}))
    assert address_of(running, port) == port
    assert "(served)" in running.text and "the node's own" in running.text
    wait_for(lambda: say(port) == "me x\n")
    running.signal(signal.SIGTERM)
    running.wait()


@pytest.mark.parametrize("how", ["openssh", "forbidden"])
def test_what_cannot_be_forwarded_is_said_before_anything_starts(box, job, rhrun, fleet, how):
    f = fleet(1, options="AllowTcpForwarding no" if how == "forbidden" else "")
    port = free_port()
    (f.home(1) / "stop").touch()
    spec = spec_of(box, job, f, port, cluster=f.explicit_cluster(transport="openssh" if how == "openssh" else "ssh"),
                   setup=[{"name": "s", "run": "sleep 0.5"}])
    err = rhrun(spec).ok().err
    assert f"port {port} of 127.0.0.1" in err and "cannot be reached from here" in err
    assert f"ssh -N -L {port}:localhost:{port} " in err
    assert err.index("cannot be reached") < err.index("rhrun: s")
    assert "AllowTcpForwarding" in err if how == "forbidden" else "program ssh" in err


def test_a_server_of_http(box, job, fleet):
    f = fleet(1)
    port = free_port()
    (box.work / "index.html").write_text("<p>hello</p>")
    spec = job({"name": "j", "workdir": ".", "cluster": f.explicit_cluster(), "ports": [port],
                "entrypoint": {"run": f"python3 -m http.server -b 127.0.0.1 {port} & until [ -e $HOME/stop ]; do sleep 0.05; done; kill $!"}})
    running = box.start(spec)
    local = address_of(running, port)

    def page():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10).read()
        except OSError:
            return b""

    wait_for(lambda: page() == b"<p>hello</p>")
    stop(f)
    running.wait()


@pytest.mark.parametrize("ports, words", [
    ([70000], ["a port, or a mapping with port"]),
    ([{"port": 80, "role": "x"}], ['the job has no role "x"']),
    ([{"port": 80, "node": 3}], ["no node 3"]),
    ([{"port": 80, "node": "gpu"}], ['the job has no node "gpu"']),
    ([80, {"port": 80}], ["is listed twice"]),
    ([{"port": 80, "local": 9}, {"port": 81, "local": 9}], ["two ports want port 9 here"]),
    ([{"node": 0}], ["port"]),
    (["8000:8000"], ["a port, or a mapping with port"]),
])
def test_specs_that_are_wrong(job, rhrun, ports, words):
    err = rhrun("validate", job({"name": "j", "ports": ports, "entrypoint": {"run": "true"}})).expect(2).err
    for word in words:
        assert word in err


def test_a_host_that_a_program_leads_to(box, job, rhrun):
    (box.work / "server.py").write_text(SERVER)
    port = free_port()
    host = {"name": "one", "exec": ["sh"]}
    spec = {"name": "j", "cluster": {"hosts": [host]}, "ports": [port], "entrypoint": {"run": "true"}}
    assert "carries no ports" in rhrun("validate", job(spec)).expect(2).err
    err = rhrun(job({**spec, "cluster": {"hosts": [{**host, "address": "127.0.0.1"}]}})).ok().err
    assert f"port {port} of one: 127.0.0.1:{port}, the node's own" in err

