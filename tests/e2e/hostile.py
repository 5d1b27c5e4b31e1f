"""A node that lies: sshd's forced command. It starts the command that rhrun asked for, stands between the real agent and the
controller, and changes frames (include/rhrun/wire.h). The job itself runs as usual.

    ForceCommand /usr/bin/python3 hostile.py LIES.json

LIES.json: {"files": [{"glob", "path", "mode", "data" | "target", "size"}], "flood": {"after", "what", "count", "size"},
            "address": the address that HELLO_OK reports}
"""
import json
import os
import re
import struct
import subprocess
import sys
import threading

MAGIC = b"\nRHRUN-AGENT-1\n"
LIST, RUN, GLOB, GET = 2, 3, 17, 18
HELLO_OK, RECORD, LISTED, STARTED, OUTPUT, FAULT, ENTRIES, DATA = 64, 66, 67, 68, 70, 75, 78, 79


def frame(kind, payload):
    return struct.pack("<IHH", len(payload), kind, 0) + payload


def text(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<I", len(data)) + data


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def u64(self):
        self.at += 8
        return struct.unpack_from("<Q", self.data, self.at - 8)[0]

    def text(self):
        length = struct.unpack_from("<I", self.data, self.at)[0]
        self.at += 4 + length
        return self.data[self.at - length:self.at]


def entry(path, mode, size, target=""):
    return text(path) + struct.pack("<IQQQ", mode, size, 1, 1) + text(target)


def record(attempt, tail, variant="", sequence=0):
    return text(attempt) + text("setup:x") + text("0" * 64) + text(variant) + text("") * 2 + struct.pack("<BBBBB", 2, 1, 0, 0, 0) + \
        struct.pack("<8Q", sequence, *[0] * 7) + struct.pack("<BBIIQI", *[0] * 6) + text(tail) + text("") + struct.pack("<I", 0)


class Node:
    def __init__(self, lies):
        self.lies = lies
        self.globs, self.invented, self.attempts = {}, {}, []
        self.lock = threading.Lock()

    def say(self, data):
        with self.lock:
            give(1, data)

    # ---- messages of rhrun ----

    def from_controller(self, kind, payload):
        """True: it is passed on to the agent."""
        r = Reader(payload)
        if kind == GLOB:
            token = r.u64()
            self.globs[token] = r.text().decode()
        elif kind == RUN:
            self.attempts.append(r.text().decode())
        elif kind == GET:
            token, path = r.u64(), r.text().decode()
            for name, data in self.invented.items():
                if path.endswith("/" + name):
                    self.send_file(token, r.u64(), data)
                    return False
        return True

    def send_file(self, token, offset, data):
        while True:
            part = data[offset:offset + 65536]
            last = offset + len(part) >= len(data)
            self.say(frame(DATA, struct.pack("<QQB", token, offset, last) + text("") + text(part)))
            offset += len(part)
            if last:
                return

    # ---- messages of the agent ----

    def from_agent(self, kind, payload):
        flood = self.lies.get("flood", {})
        if kind == LISTED and flood.get("after") == "list":
            self.flood(flood)
        if kind == LISTED and "variant" in self.lies:
            self.say(frame(RECORD, record("a" * 32, "", self.lies["variant"], 1000)))
        if kind == HELLO_OK and "address" in self.lies:
            r = Reader(payload)
            r.at = 12
            for _ in range(18):
                r.text()
            before = payload[:r.at]
            r.text()
            payload = before + text(self.lies["address"]) + payload[r.at:]
        if kind == ENTRIES:
            payload = self.more_entries(payload, flood)
        self.say(frame(kind, payload))
        if kind == STARTED and flood.get("after") == "run":
            self.flood(flood)

    def more_entries(self, payload, flood):
        r = Reader(payload)
        token, error, prefix, last = r.u64(), r.text(), r.text(), payload[r.at]
        r.at += 1
        asked = self.globs.get(token, "")
        if not last:
            return payload
        extra = [f for f in self.lies.get("files", []) if f["glob"] in (asked, "@result") and
                 (f["glob"] == asked or asked.startswith("@base/result/"))]
        if flood.get("after") == "glob" and flood["glob"] == asked:
            for i in range(flood["count"]):
                many = b"".join(entry(f"{i}/{k}" + ("/" + "x" * 250) * (flood["size"] // 251), 0o100644, 1) for k in range(2000))
                self.say(frame(ENTRIES, struct.pack("<Q", token) + text("") + text(prefix) + b"\0" +
                               struct.pack("<I", 2000) + many))
        count = struct.unpack_from("<I", payload, r.at)[0] + len(extra)
        body = payload[r.at + 4:]
        for f in extra:
            data = f.get("data", "").encode()
            self.invented[f["path"]] = data
            body += entry(f["path"], f.get("mode", 0o100644), f.get("size", len(data)), f.get("target", ""))
        return struct.pack("<Q", token) + text("") + text(prefix if prefix else "/") + b"\1" + struct.pack("<I", count) + body

    def flood(self, flood):
        what, size = flood["what"], flood["size"]
        for i in range(flood["count"]):
            if what == "records":
                self.say(frame(RECORD, record(f"{i:032x}", "x" * size)))
            elif what == "faults":
                self.say(frame(FAULT, text("") + text("x" * size)))
            elif what == "gaps":
                self.say(frame(OUTPUT, text(self.attempts[-1]) + struct.pack("<Q", (i + 1) * 1_000_000) + text("x" * size)))
            elif what == "output":
                spool = struct.pack("<IIBBBBQ", size, 0, 1, 0, 0, 0, 1) + b"\n" * size
                self.say(frame(OUTPUT, text(self.attempts[-1]) + struct.pack("<Q", i * len(spool)) + text(spool)))


def give(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def exactly(read, count):
    data = b""
    while len(data) < count:
        more = read(count - len(data))
        if not more:
            return None
        data += more
    return data


def frames(read, handle):
    while (head := exactly(read, 8)) is not None:
        length, kind, _ = struct.unpack("<IHH", head)
        payload = exactly(read, length)
        if payload is None:
            return
        handle(kind, payload, head + payload)


def main():
    command = os.environ["SSH_ORIGINAL_COMMAND"]
    size = int(re.search(r"dd bs=(\d+) count=1 ", command).group(1))
    node = Node(json.load(open(sys.argv[1])))
    child = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def up():
        def handle(kind, payload, whole):
            if node.from_controller(kind, payload):
                give(child.stdin.fileno(), whole)
        try:
            give(child.stdin.fileno(), exactly(lambda n: os.read(0, n), size))
            frames(lambda n: os.read(0, n), handle)
            child.stdin.close()
        except (OSError, TypeError):
            pass

    threading.Thread(target=up, daemon=True).start()
    seen = b""
    while MAGIC not in seen:
        more = child.stdout.read(1)
        if not more:
            os.write(1, seen)
            return child.wait()
        seen += more
    node.say(seen)
    frames(child.stdout.read, lambda kind, payload, _: node.from_agent(kind, payload))
    return child.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError:  # rhrun has closed the connection
        sys.exit(0)
