"""An unreliable Docker Engine: a proxy before its socket, which spoils requests as a test tells it.

    flaky = Flaky(engine.socket, box.dir / "flaky")
    flaky.fault("create", "drop_after")              # the next create is carried out, and its answer is lost
    flaky.fault("list", "500_before", times=3)
    flaky.calm()                                     # no faults from now on; late answers still come

The proxy spoils only rhrun's own requests; `docker exec`, which uses the same socket, passes.
"""
import collections
import json
import re
import socket
import threading
import time

import harness

KINDS = (("create", "POST", r"/containers/create"), ("start", "POST", r"/containers/[^/]+/start"), ("list", "GET", r"/containers/json"),
         ("delete", "DELETE", r"/containers/[^/]+"), ("net_create", "POST", r"/networks/create"), ("net_delete", "DELETE", r"/networks/[^/]+"))
REFUSALS = {"500_before": (500, "something went wrong"), "429": (429, "too many requests"), "capacity": (500, "write /x: no space left on device")}
FAULTS = ("drop_before", "drop_after", "500_before", "500_after", "429", "capacity", "cut", "late", "late_drop", "hide")


def talk(path, data, limit=60):
    """One request to a socket, which ends the connection after its reply; the reply's bytes."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(limit)
        s.connect(str(path))
        s.sendall(data)
        parts = []
        while part := s.recv(65536):
            parts.append(part)
    return b"".join(parts)


def split(reply):
    """(status, body) of a reply."""
    head, _, body = reply.partition(b"\r\n\r\n")
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        whole = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            n = int(size.split(b";")[0] or b"0", 16)
            if n == 0:
                break
            whole, body = whole + body[:n], body[n + 2:]
        body = whole
    return int(head.split()[1]), body


def joined(status, body):
    return b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


def ask(path, target):
    """What the engine itself says, without faults."""
    status, body = split(talk(path, f"GET /v1.41{target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n".encode()))
    assert status == 200, (target, status, body)
    return json.loads(body)


def hasty_docker(box, *changes):
    """The box gets a copy of the provider's file with these changes, (line, new line)."""
    text = (harness.ROOT / "providers/docker.yaml").read_text(encoding="utf-8")
    for line, new in changes:
        assert text.count(f"\n{line}\n") == 1, line
        text = text.replace(f"\n{line}\n", f"\n{new}\n")
    folder = box.home / ".config/rhrun/providers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "docker.yaml").write_text(text)


Fault = collections.namedtuple("Fault", "what delay")


class Flaky:
    def __init__(self, engine, path):
        self.engine, self.path = str(engine), str(path)
        self.lock = threading.Condition()
        self.faults = collections.defaultdict(list)  # kind -> those of the next requests, in order; None: none
        self.hidden = {}                             # container -> until when
        self.log, self.late = [], 0
        self.said = []                               # (kind, reply) where the engine itself refused
        self.slowest = {}                            # kind -> how long the engine took at the most
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(100)
        threading.Thread(target=self.accept, daemon=True).start()

    def fault(self, kind, what, times=1, after=0, delay=1.0):
        with self.lock:
            self.faults[kind] += [None] * after + [Fault(what, delay)] * times

    def calm(self):
        with self.lock:
            self.faults.clear()

    def drained(self, limit=30):
        """What was late is done."""
        with self.lock:
            return self.lock.wait_for(lambda: self.late == 0, limit)

    def end(self):
        self.socket.close()

    # ---- connections ----

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client:
                head, body = self.read(client)
                if re.search(rb"(?i)\r\nupgrade:", head):
                    self.hijack(client, head + body)
                elif head:
                    self.request(client, head, body)
        except OSError:
            pass

    @staticmethod
    def read(client):
        data = b""
        while b"\r\n\r\n" not in data:
            part = client.recv(65536)
            if not part:
                return b"", b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
        chunked = re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head)
        while (size and len(body) < int(size[1])) or (chunked and not body.endswith(b"0\r\n\r\n")):
            part = client.recv(65536)
            if not part:
                break
            body += part
        return head + b"\r\n\r\n", body

    def hijack(self, client, data):
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.engine)
            engine.sendall(data)
            back = threading.Thread(target=self.pump, args=(engine, client), daemon=True)
            back.start()
            self.pump(client, engine)
            back.join()

    @staticmethod
    def pump(source, to):
        try:
            while part := source.recv(65536):
                to.sendall(part)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            for s in (source, to):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    # ---- requests ----

    def request(self, client, head, body):
        method, target = head.split(b" ", 2)[:2]
        method, target = method.decode(), target.decode()
        ours = not re.search(rb"(?i)\r\nuser-agent: *docker", head)
        path = re.sub(r"^/v[0-9.]+", "", target.partition("?")[0])
        kind = next((k for k, m, pattern in KINDS if ours and m == method and re.fullmatch(pattern, path)), None)
        with self.lock:
            fault = self.faults[kind].pop(0) if kind and self.faults[kind] else None
            self.log.append((kind, method, target, body, fault.what if fault else None))
        data = re.sub(rb"(?i)\r\nconnection: *[^\r]*", b"", head[:-4]) + b"\r\nConnection: close\r\n\r\n" + body
        reply = self.spoiled(client, kind, fault, data) if fault else self.plain(kind, data)
        if reply is not None:
            client.sendall(reply)

    def plain(self, kind, data):
        began = time.monotonic()
        reply = talk(self.engine, data)
        if kind and not re.match(rb"HTTP/1.1 (2|304)", reply):
            self.said.append((kind, reply.partition(b"\r\n\r\n")[2].decode(errors="replace")[:300]))
        self.slowest[kind] = max(self.slowest.get(kind, 0), time.monotonic() - began)
        if kind != "list":
            return reply
        status, body = split(reply)
        if status == 200:
            now = time.monotonic()
            body = json.dumps([c for c in json.loads(body) if self.hidden.get(c["Id"], 0) < now]).encode()
        return joined(status, body)

    def spoiled(self, client, kind, fault, data):
        """The reply, or None: there is none."""
        what = fault.what
        if what == "drop_before":
            return None
        if what in REFUSALS:
            status, text = REFUSALS[what]
            return joined(status, json.dumps({"message": text}).encode())
        if what in ("late", "late_drop"):
            return self.afterwards(client, kind, fault, data)
        reply = self.plain(kind, data)
        if what == "500_after":
            return joined(500, b'{"message": "something went wrong"}')
        if what == "cut":
            client.sendall(reply[:len(reply) // 2])
            return None
        if what == "hide":
            status, body = split(reply)
            if status == 201:
                self.hidden[json.loads(body)["Id"]] = time.monotonic() + fault.delay
            return reply
        return None  # drop_after

    def afterwards(self, client, kind, fault, data):
        """It is carried out late, whether anybody waits for it or not."""
        with self.lock:
            self.late += 1
        try:
            if fault.what == "late_drop":
                client.shutdown(socket.SHUT_RDWR)
            time.sleep(fault.delay)
            # An engine that is asked twice at the same time makes both networks, whatever this says.
            reply = self.plain(kind, data.replace(b'"CheckDuplicate":true', b'"CheckDuplicate":null'))
            return reply if fault.what == "late" else None
        finally:
            with self.lock:
                self.late -= 1
                self.lock.notify_all()
