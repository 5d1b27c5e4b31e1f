"""Sends the requests that provider files describe, step by step, to services on this machine (with tests/unit/provider_ask.c)."""
import http.client
import json
import os
import socket
import subprocess
import time
import urllib.parse

import harness

ASK = harness.RHRUN.parent / "tests/unit/provider_ask"


class Refused(Exception):
    pass


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


class Provider:
    """Sends one step after the other; values that a step extracts are inputs of later steps. sign(host, path, body) returns the
    headers that authenticate the request."""

    def __init__(self, name, sign=None, **env):
        self.name = name
        self.sign = sign
        self.env = {**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", **env}

    def call(self, *words, given=""):
        return subprocess.run([ASK, *map(str, words)], input=given, env=self.env, capture_output=True, timeout=20)

    def send(self, request):
        parts = urllib.parse.urlsplit(request["url"])
        if request.get("socket"):
            connection = UnixConnection(request["socket"], timeout=60)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        path = parts.path + ("?" + parts.query if parts.query else "")
        body = request.get("form") or (json.dumps(request["json"]) if "json" in request else None)
        headers = {**request["headers"], "host": parts.netloc or "localhost"}
        if self.sign:
            headers.update(self.sign(headers["host"], path, (body or "").encode()))
        try:
            connection.request(request["method"], path, body=body, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            return 0, b""
        finally:
            connection.close()

    def ask(self, operation, step=0, page=(), /, **inputs):
        done = self.call("request", self.name, operation, step, *page, given=json.dumps(inputs).encode())
        if done.returncode == 3:
            return None
        if done.returncode != 0:
            raise Refused(done.stderr.decode())
        status, body = self.send(json.loads(done.stdout))
        done = self.call("reply", self.name, operation, step, status, json.dumps(inputs), given=body)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def all(self, operation, steps, **inputs):
        for step in range(steps):
            result = self.ask(operation, step, **inputs)
            if result:
                assert result["outcome"] == "done", result
                inputs.update(result["values"])
        return inputs

    def poll(self, result, **inputs):
        """Waits for a pending result."""
        end = time.monotonic() + harness.TIMEOUT
        while result["outcome"] == "pending" and time.monotonic() < end:
            result = self.ask("poll", **{**inputs, **result["values"]})
        return result
