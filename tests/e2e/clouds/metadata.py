"""The metadata service of a test cloud's machines: is this machine being taken back? In a real cloud its address is 169.254.169.254. All machines share
this machine's loopback, so the process at the other end of the connection tells which machine asks."""
import datetime
import http.server
import os
import re
import threading

TOKEN_PATH, ACTION_PATH = "/latest/api/token", "/latest/meta-data/spot/instance-action"
PREEMPTED_PATH = "/computeMetadata/v1/instance/preempted"


def asking_process(client, server):
    """The process whose socket goes from one port of 127.0.0.1 to the other."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    ends = [f"0100007F:{port:04X}" for port in (client, server)]
    inodes = [row[9] for row in rows if row[1:3] == ends]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
                if f.read() != "rhrun-notice\n":  # nobody waits for long, so only those are looked at
                    continue
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if any(f"socket:[{inode}]" in links for inode in inodes):
            return pid
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def answer(self):
        status, body = self.server.metadata.serve(self.command, self.path, self.headers, self.client_address[1])
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    do_GET = do_PUT = answer

    def log_message(self, *_):
        pass


class Metadata:
    """log: (instance, path) of each request."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.log = []
        self.tokens = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.metadata = self
        self.port = self.server.server_address[1]
        self.base = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def instance(self, port):
        pid = asking_process(port, self.port)
        space = pid and os.readlink(f"/proc/{pid}/ns/pid")
        for i in self.cloud.machines():
            try:
                if space == os.readlink(f"/proc/{i.machine.init}/ns/pid"):
                    return i
            except (OSError, ProcessLookupError):
                continue
        return None

    def serve(self, method, path, headers, port):
        try:
            instance = self.instance(port)
        except OSError:
            instance = None  # who asked has ended
        if instance is None:
            return 404, "who are you?"
        with self.cloud.lock:
            self.log.append((instance.id, path))
            try:
                return getattr(self, self.cloud.name)(method, path, headers, instance)
            except AssertionError as e:
                self.cloud.violations.append(f"{self.cloud.name}: {method} {path}: {e}")
                return 400, "Bad Request"

    def aws(self, method, path, headers, instance):
        """IMDSv2, and nothing without a token; one that is given out serves three requests."""
        if (method, path) == ("PUT", TOKEN_PATH):
            assert re.fullmatch(r"\d+", headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")), "no time to live"
            assert "X-Forwarded-For" not in headers
            self.tokens.append([f"AQAEA{len(self.tokens)}==", 3])
            return 200, self.tokens[-1][0]
        assert (method, path) == ("GET", ACTION_PATH), "there is no such thing"
        known = [t for t in self.tokens if t[0] == headers.get("X-aws-ec2-metadata-token")]
        assert known, "no token that was given out"
        known[0][1] -= 1
        if known[0][1] < 0:
            return 401, ""
        if not instance.notices:
            return 404, "<html><title>404 - Not Found</title></html>"
        instance.notices -= 1
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=2)
        return 200, f'{{"action": "terminate", "time": "{when:%Y-%m-%dT%H:%M:%SZ}"}}'

    def gcp(self, method, path, headers, instance):
        assert (method, path) == ("GET", PREEMPTED_PATH), "there is no such thing"
        assert headers.get("Metadata-Flavor") == "Google", "it may come from a browser"
        if not instance.notices:
            return 200, "FALSE"
        instance.notices -= 1
        return 200, "TRUE"
