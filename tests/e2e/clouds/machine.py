"""A machine of a test cloud: namespaces of its own, a real sshd, and the user data that the create request carried.

It listens on an address of this machine's loopback network (127.64.0.0 to 127.127.255.255), on port 22 as a rented machine does.
It ends with the process that started it, however that process ends, and leaves neither mounts nor files: everything is in namespaces and
in memory. machine_init.py has the inside.
"""
import base64
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading

import pytest

import harness

INIT = pathlib.Path(__file__).with_name("machine_init.py")
# A process asks to be killed with its parent, and the kernel takes the thread that started it for the parent: so this one starts all.
starter = concurrent.futures.ThreadPoolExecutor(max_workers=1)
taken = set()


def require():
    """What a machine needs; skips or fails the test."""
    if os.geteuid() != 0:
        pytest.skip("machines of a test cloud are made as root only")
    harness.require("sshd")
    for program in ("unshare", "setpriv", "ssh-keygen"):
        harness.require(program)
    harness.require("mount")
    if not free("127.64.0.1", 22):
        pytest.skip("port 22 of all addresses is taken by this machine's own sshd")


def free(address, port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((address, port))
        except OSError:
            return False
    return True


def new_address(port=22):
    """An address that no other machine has, of this process or of another one."""
    for _ in range(1000):
        address = f"127.{random.randrange(64, 128)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        if address not in taken and free(address, port):
            taken.add(address)
            return address
    raise RuntimeError("no free address")


class Machine:
    """state: "booting", "up" (sshd listens), "ended"; how: "poweroff", "reboot", "killed", or why it did not come up.
    ready: the exit status of the user data, None until it has ended."""

    def __init__(self, user, keys=(), user_data=b"", address=None, port=22, hostname="machine", minute_s=60, env=None):
        self.address = address or new_address(port)
        self.port = port
        self.user = user
        self.user_data = user_data
        self.state, self.how, self.ready = "booting", None, None
        self.changed = threading.Condition()
        config = {"user": user, "keys": list(keys), "user_data": base64.b64encode(user_data).decode(), "address": self.address, "port": port,
                  "hostname": hostname, "minute_s": minute_s, "env": env or {}}
        self.process = starter.submit(self._start, json.dumps(config)).result()
        threading.Thread(target=self._listen, daemon=True).start()

    def _start(self, config):
        # Its environment says whose it is to nobody: the processes of a rented machine are not those of the test's box.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL",
             "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable, "-IS", str(INIT)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        process.stdin.write(config.encode() + b"\n")
        process.stdin.close()
        return process

    def _listen(self):
        for line in self.process.stdout:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            with self.changed:
                if word == "up":
                    self.state = "up"
                elif word == "ready":
                    self.ready = int(rest) if rest.lstrip("-").isdigit() else rest
                elif word == "ended":
                    self.how = rest
                self.changed.notify_all()
        self.process.wait()
        with self.changed:
            self.state, self.how = "ended", self.how or "killed"
            self.changed.notify_all()
        taken.discard(self.address)

    def wait(self, condition, timeout=harness.TIMEOUT, what="it"):
        with self.changed:
            if not self.changed.wait_for(condition, timeout):
                pytest.fail(f"waited {timeout} s for {what} of {self.address}: {self.state} {self.how} {self.ready}")

    def wait_up(self):
        self.wait(lambda: self.state != "booting", what="the sshd")
        assert self.state == "up", self.how

    def wait_ready(self):
        self.wait(lambda: self.ready is not None or self.state == "ended", what="the user data's end")
        return self.ready

    def wait_ended(self):
        self.wait(lambda: self.state == "ended", what="the end")
        return self.how

    @property
    def init(self):
        """The number, here, of the machine's first process."""
        for p in harness.processes():
            if p.ppid == self.process.pid:
                return p.pid
        raise ProcessLookupError(self.address)

    def path(self, name):
        """A path of the machine, as seen from here; while it runs."""
        return pathlib.Path(f"/proc/{self.init}/root") / str(name).lstrip("/")

    def read(self, name):
        return self.path(name).read_text(errors="replace")

    def run(self, *argv, check=True, input=None):
        """A command inside, as root."""
        done = subprocess.run(["nsenter", "--all", "--target", str(self.init), "--", *map(str, argv)], input=input, capture_output=True,
                              timeout=harness.TIMEOUT, env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        if check and done.returncode != 0:
            pytest.fail(f"{argv} on {self.address}: {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="replace")

    def host_key(self):
        return " ".join(self.read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2])

    def kill(self):
        """As a power cut; also when it has ended."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)  # its init, too, and not by way of unshare's death alone
            except ProcessLookupError:
                pass
            self.process.kill()
        self.wait_ended()
