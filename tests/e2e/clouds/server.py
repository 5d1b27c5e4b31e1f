"""The common part of all test clouds: HTTP on this machine's loopback, faults by a script, instances with their machines.

A cloud answers one request at a time, in the order of arrival. It counts requests instead of using a clock where it can: an
instance is "coming", or hidden, for a number of requests, so a test gives the same result each time.
"""
import collections
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse

from . import machine


class Drop(Exception):
    """The connection ends without an answer."""


class Request:
    def __init__(self, method, target, headers, body):
        parts = urllib.parse.urlsplit(target)
        self.method, self.target, self.path, self.headers, self.body = method, target, parts.path, headers, body
        self.query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))

    def __repr__(self):
        return f"{self.method} {self.target} {self.body.decode(errors='replace')[:2000]}"


class Reply:
    def __init__(self, status, body=None, headers=None):
        self.status = status
        self.headers = dict(headers or {})
        self.json = None if isinstance(body, bytes) else body
        self.body = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if self.body:
            self.headers.setdefault("Content-Type", "application/json")


class Wrong(Exception):
    """What the provider answers to a request that it refuses; a violation where a correct client never gets there."""

    def __init__(self, status, code, message, violation=False, headers=None):
        super().__init__(message)
        self.status, self.code, self.message, self.violation, self.headers = status, code, message, violation, headers


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            reply = self.server.cloud.serve(Request(self.command, self.path, self.headers, body))
        except Drop:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": len(reply.body)}.items():
            if not (reply.status == 204 and name == "Content-Length"):
                self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class Fault:
    """What happens to requests of one kind: see Cloud.fault."""

    def __init__(self, kind, what, times, after, **options):
        self.kind, self.what, self.times, self.after, self.options = kind, what, times, after, options

    def __repr__(self):
        return f"{self.kind}: {self.what} {self.options}"


# Of a fault: it strikes before the request is carried out, after it, or lets it make instances that are not as they should be.
BEFORE = ("late", "drop_before", "500_before", "429", "capacity", "quota", "auth")
AFTER = ("hang", "drop_after", "500_after", "garbage")
OTHER = ("hide", "stuck", "half", "dead", "no_user_data", "other_key")


class Instance:
    """One that was created. state: "coming", "running", "stopped" (it is there and ended by itself), "going", "gone"."""

    def __init__(self, cloud, id, name, run, **facts):
        self.cloud, self.id, self.name, self.run = cloud, id, name, run
        self.facts = facts
        self.machine = None
        self.coming, self.going, self.hidden = cloud.coming_looks + 1, cloud.going_looks and cloud.going_looks + 1, 0
        self.stuck = self.dead = False
        self.deleted = self.vanished = False
        self.notices = 0
        self.ends_at = None

    def look(self):
        """Counts a look at it; false: it is not shown."""
        if self.hidden > 0:
            self.hidden -= 1
            return False
        if self.deleted:
            self.going = max(0, self.going - 1)
        else:
            self.coming = max(0, self.coming - 1)
        return not self.vanished

    @property
    def state(self):
        if self.vanished or (self.deleted and self.going == 0):
            return "gone"
        if self.deleted:
            return "going"
        if self.ends_at and time.time() > self.ends_at:
            self.end()
            return "gone"
        if self.dead or (self.machine and self.machine.state == "ended"):
            return "stopped"
        return "coming" if self.coming > 0 or self.stuck else "running"

    @property
    def address(self):
        return self.machine.address if self.machine else None

    @property
    def private_address(self):
        """Another one of the same machine: what begins with 127 is all this machine's."""
        first, second, rest = self.address.split(".", 2)
        return f"{first}.{int(second) - 64}.{rest}"

    def end(self):
        self.deleted = True
        if self.machine and self.machine.state != "ended":
            self.machine.kill()

    def __repr__(self):
        return f"<{self.cloud.name} {self.id} {self.name} run {self.run}: {self.state}, {self.address}>"


class Cloud:
    """A provider's API. What a provider is like is in the class of its own; this is what tests use of all of them.

    env: what rhrun needs to come here. log: (kind, request, status) of each request; status 0: it got no answer.
    violations: what a correct client does not ask; none must be there at the end of a test."""
    name = ""
    user = "root"
    port = 22
    coming_looks = 1   # so many looks an instance is on its way
    going_looks = 1    # and so many it is still shown when it is deleted
    offers = ()        # (region, zone, type, accelerator, USD per hour): what the box's catalog then has of it
    minute_s = 60      # of `shutdown +N` inside the machines

    def __init__(self, folder):
        self.folder = folder
        self.instances = []
        self.faults = []
        self.log = []
        self.violations = []
        self.lock = threading.RLock()
        self.metadata = None  # the endpoint that its machines ask, where the provider has one
        self.gate, self.waiting = threading.Event(), []
        self.numbers = collections.Counter()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.cloud = self
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.env = {f"RHRUN_{self.name.upper()}_ENDPOINT": self.base + self.prefix()}
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    # ---- what a test asks ----
    def machines(self):
        """Instances that are there, also those that no list shows: what would still be billed."""
        with self.lock:
            return [i for i in self.instances if i.state != "gone"]

    def of(self, kind):
        """The requests of one kind so far."""
        with self.lock:
            return [request for known, request, _ in self.log if known == kind]

    def secrets(self):
        """What nobody may be shown."""
        return [value for name, value in self.env.items() if re.search("TOKEN|SECRET|API_KEY", name)]

    def fault(self, kind, what, times=1, after=0, **options):
        """The next `times` requests of a kind (create, get, list, delete, key_create, key_list, key_delete, prepare, cleanup, poll,
        sweep; "*": any), but for the first `after` of them:
        drop_before, drop_after: the connection ends without an answer, before or after the request was carried out;
        late, hang: the request, or its answer, waits on its way until `release`; its sender may be gone by then;
        500_before, 500_after: an answer of 500 or 503, likewise; garbage: it was carried out, and the answer is not JSON or XML;
        429 (seconds=1): refused, with Retry-After; capacity, quota, auth: refused, in the provider's own words;
        hide (looks=3): what a create made is not shown by so many looks; half: only half of what was asked for is made;
        stuck: never gets running; dead: ends at once; no_user_data: the machine ignores it; other_key: takes another public key."""
        assert what in BEFORE + AFTER + OTHER, what
        with self.lock:
            self.faults.append(Fault(kind, what, times, after, **options))

    def release(self):
        """What is late, or hangs, goes on; their kinds are in `waiting`."""
        self.gate.set()

    def kill(self, instance):
        """The machine ends by itself: as after a power cut of a host, or a shutdown inside."""
        with self.lock:
            instance.machine.kill()

    def vanish(self, instance):
        """Somebody has deleted it: no look shows it any more."""
        with self.lock:
            instance.vanished = True
            instance.machine.kill()

    def take_back(self, instance, times=1000000):
        """The provider's notice: the machine hears it so often, when it asks."""
        with self.lock:
            instance.notices = times

    def usurp(self, instance):
        """Another machine answers at its address, which knows nobody: as when a provider gives the address away."""
        with self.lock:
            old, was = instance.machine, instance.machine.port
            old.kill()
            instance.machine = machine.Machine(instance.facts["user"], instance.facts["keys"], address=old.address, port=was, hostname="stranger")
            instance.machine.wait_up()

    def end(self):
        self.release()
        if self.metadata:
            self.metadata.end()
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for i in self.instances:
                if i.machine and i.machine.state != "ended":
                    i.machine.kill()

    # ---- what a provider's class has ----
    def prefix(self):
        """The path of its base."""
        return ""

    def kind(self, request):
        """Which kind of request it is; None: the API has none such."""
        raise NotImplementedError

    def answer(self, kind, request, making):
        """Carries it out. making: a fault of what is made by it, or None."""
        raise NotImplementedError

    def authorize(self, request):
        raise NotImplementedError

    def error(self, wrong):
        """A refusal in the provider's form."""
        raise NotImplementedError

    def check(self, kind, request, reply):
        """Holds both to the provider's document; raises Wrong, or adds to violations."""

    refusals = {}  # what of a fault -> arguments of Wrong

    # ---- what a provider's class uses ----
    def number(self, kind, first=1000):
        self.numbers[kind] += 1
        return first + self.numbers[kind]

    def violation(self, request, text):
        self.violations.append(f"{self.name}: {text}: {request}")

    def make(self, id, name, run, making, user=None, keys=(), user_data=b"", env=None, **facts):
        """An instance and its machine; the machine starts at once, its state is told by looks."""
        i = Instance(self, id, name, run, user=user or self.user, keys=list(keys), user_data=user_data, **facts)
        what = making.what if making else ""
        if what == "hide":
            i.hidden = making.options.get("looks", 3)
        i.stuck = what == "stuck"
        i.dead = what == "dead"
        i.machine = machine.Machine(i.facts["user"], [] if what == "other_key" else keys, b"" if what == "no_user_data" else user_data,
                                    port=self.port or machine_port(), hostname=str(name)[:63] or "machine", minute_s=self.minute_s, env=env)
        if i.dead:
            i.machine.kill()
        self.instances.append(i)
        return i

    def shown(self, look=True):
        """What a list shows; each is looked at."""
        return [i for i in self.instances if (not look or i.look()) and i.state != "gone"]

    def find(self, id, look=True):
        """The one of that id, where a look shows it; else None."""
        for i in self.instances:
            if str(i.id) == str(id) and (not look or i.look()) and i.state != "gone":
                return i
        return None

    # ---- how a request goes ----
    def take_fault(self, kind):
        for fault in self.faults:
            if fault.kind not in (kind, "*"):
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def strike(self, fault):
        """A fault that comes before."""
        if fault.what == "drop_before":
            raise Drop
        if fault.what == "500_before":
            raise Wrong(503, "unavailable", "the service is not available")
        status, code, message, *headers = self.refusals[fault.what]
        raise Wrong(status, code, message, headers={"Retry-After": fault.options.get("seconds", 1)} if fault.what == "429" else None)

    def carry_out(self, kind, request, fault):
        making = fault if fault and fault.what in OTHER else None
        try:
            if kind is None:
                raise Wrong(404, "not_found", "there is no such thing", violation=True)
            self.authorize(request)
            if fault and fault.what in BEFORE:
                self.strike(fault)
            reply = self.answer(kind, request, making)
        except Wrong as wrong:
            if wrong.violation:
                self.violation(request, wrong.message)
            reply = self.error(wrong)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
            self.violation(request, f"this test cloud could not read it: {e!r}")
            reply = self.error(Wrong(400, "invalid_input", "the request cannot be read"))
        self.check(kind, request, reply)
        return reply

    def serve(self, request):
        with self.lock:
            kind = self.kind(request)
            fault = self.take_fault(kind)
        if fault and fault.what == "late":
            self.waiting.append(kind)
            self.gate.wait()
            fault = None
        try:
            return self.serve_one(kind, request, fault)
        finally:
            if fault and fault.what == "hang":
                self.waiting.append(kind)
                self.gate.wait()

    def serve_one(self, kind, request, fault):
        with self.lock:
            status = 0
            try:
                reply = self.carry_out(kind, request, fault)
                if fault and fault.what == "drop_after":
                    raise Drop
                if fault and fault.what == "500_after":
                    reply = Reply(500, b"<html><body>Internal Server Error</body></html>", {"Content-Type": "text/html"})
                if fault and fault.what == "garbage":
                    reply = Reply(reply.status, b"{<garbage", reply.headers)
                status = reply.status
                return reply
            finally:
                self.log.append((kind, request, status))


def machine_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def bearer(request, token):
    given = request.headers.get("Authorization", "")
    if given != f"Bearer {token}":
        raise Wrong(401, "unauthorized", "unable to authenticate")


def no_others(given, known, where):
    """Each field is one that the provider knows."""
    for key in given:
        if key not in known:
            raise Wrong(400, "invalid_input", f"{where} has no field {key}", violation=True)
