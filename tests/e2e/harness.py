"""The base of the end-to-end tests: a box for one test (HOME, state, processes), a fleet of sshd, a terminal.

Every wait has a limit. Every process of a test carries the box's folder in its environment, so a process that
outlives the test is found and named.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RHRUN = pathlib.Path(os.environ.get("RHRUN_BIN") or ROOT / "build/release/rhrun").resolve()
REQUIRE_ALL = os.environ.get("RHRUN_TEST_REQUIRE") == "all"
# A sanitized binary is slow, and a busy machine slower: limits are generous, and only end tests that hang.
TIMEOUT = 90


def missing(what, how):
    """Skips the test, or fails it if everything is required."""
    text = f"{what} is not here: {how}"
    if REQUIRE_ALL:
        pytest.fail(text)
    pytest.skip(text)


def require(what):
    """require("sshd"), require("mount"), require("pyte"), ...: skips or fails the test when it is not here."""
    if what == "sshd":
        if not (shutil.which("sshd") or os.access("/usr/sbin/sshd", os.X_OK)):
            missing("sshd", "apt-get install openssh-server")
    elif what == "mount":
        done = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True)
        if done.returncode != 0:
            # No package provides this: a container without the right to mount cannot have it.
            pytest.skip("mounting is not allowed here (needs root with CAP_SYS_ADMIN)")
    elif what == "hostname":
        if subprocess.run(["unshare", "-u", "hostname", "x"], capture_output=True).returncode != 0:
            pytest.skip("a host name of one's own is not allowed here (needs root with CAP_SYS_ADMIN)")
    elif what in ("pyte", "jsonschema", "yaml"):
        try:
            return __import__(what)
        except ImportError:
            missing(what, f"apt-get install python3-{what}")
    elif not shutil.which(what):
        missing(what, f"install {what}")
    return None


# ---- processes ----

def _read(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _is_below(pid, folder):
    try:
        return (os.readlink(f"/proc/{pid}/cwd".encode()) + b"/").startswith(folder + b"/")
    except OSError:
        return False


class Process:
    """A process as /proc shows it at this moment."""

    def __init__(self, pid):
        self.pid = pid
        self.environ = dict(e.split(b"=", 1) for e in _read(pid, "environ").split(b"\0") if b"=" in e)
        self.argv = [a.decode(errors="replace") for a in _read(pid, "cmdline").split(b"\0")[:-1]]
        stat = _read(pid, "stat").decode(errors="replace")
        self.comm = stat[stat.find("(") + 1:stat.rfind(")")]
        fields = stat[stat.rfind(")") + 2:].split()
        self.state = fields[0] if fields else "X"
        self.ppid = int(fields[1]) if fields else 0
        self.session = int(fields[3]) if fields else 0
        try:
            self.exe = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            self.exe = ""
        try:
            self.cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            self.cwd = ""

    @property
    def attempt(self):
        value = self.environ.get(b"RHRUN_ATTEMPT")
        return value.decode() if value else None

    def __repr__(self):
        return f"<{self.pid} ({self.comm}) parent {self.ppid}: {' '.join(self.argv)[:100]}>"


def processes():
    found = [Process(int(p)) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
    return [p for p in found if p.state not in "ZX"]


def processes_of(folder):
    """The processes of a folder: it is in their environment, arguments or working directory."""
    needle, hit = str(folder).encode(), []
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        # Only these are read in full: there are hundreds of others, and this is called again and again.
        if needle in _read(pid, "environ") or needle in _read(pid, "cmdline") or _is_below(pid, needle):
            hit.append(Process(int(pid)))
    return [p for p in hit if p.state not in "ZX"]


def workers_of(folder):
    """Processes of steps and workers: they carry RHRUN_ATTEMPT."""
    return [p for p in processes_of(folder) if p.attempt]


def agent_processes(folder):
    """(serving agents, supervisors). Both run the agent's program; a supervisor has given itself a name."""
    mine = [p for p in processes_of(folder) if is_agent(p)]
    supervisors = [p for p in mine if p.comm.startswith("rhrun-supervis")]
    return [p for p in mine if p not in supervisors], supervisors


def is_agent(p):
    """Started from a memory file on this machine, from an uploaded and removed file on others."""
    return p.argv[:1] == ["rhrun-agent"] or "rhrun-agent" in p.exe or p.comm.startswith("rhrun-supervis") or \
        any("rhrun" in a and "agent" in a for a in p.argv[:1])


def wait_for(condition, timeout=TIMEOUT, what="the condition"):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited {timeout} s for {what}")
        time.sleep(0.02)


# ---- schemas ----

def check_schema(document, name):
    """Checks against the published schema/NAME, with another implementation than ours."""
    jsonschema = require("jsonschema")
    schema = json.loads((ROOT / "schema" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


# ---- the command ----

class Result:
    def __init__(self, args, rc, out, err, seconds):
        self.args, self.rc, self.seconds = args, rc, seconds
        self.raw_out, self.raw_err = out, err
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace")

    @property
    def text(self):
        return self.out + self.err

    def json(self):
        return json.loads(self.out)

    def events(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def ok(self):
        return self.expect(0)

    def expect(self, rc):
        assert self.rc == rc, f"exit status {self.rc}, expected {rc}\n{self}"
        return self

    def __repr__(self):
        return f"$ rhrun {' '.join(map(str, self.args))}\nexit status {self.rc} after {self.seconds:.2f} s\n" \
               f"--- stdout\n{self.out[-6000:]}\n--- stderr\n{self.err[-6000:]}"


class Running:
    """An rhrun in the background; its output goes to files."""

    def __init__(self, box, args, env, cwd, prefix=()):
        self.args = args
        box.serial += 1
        self.out_path = box.dir / f"out.{box.serial}"
        self.err_path = box.dir / f"err.{box.serial}"
        self.began = time.monotonic()
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen([*prefix, str(RHRUN), *map(str, args)], env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err)

    @property
    def text(self):
        return (self.out_path.read_bytes() + self.err_path.read_bytes()).decode(errors="replace")

    @property
    def alive(self):
        return self.process.poll() is None

    def wait(self, timeout=TIMEOUT):
        try:
            rc = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"rhrun {' '.join(map(str, self.args))} did not end within {timeout} s:\n{self.text[-4000:]}")
        return Result(self.args, rc, self.out_path.read_bytes(), self.err_path.read_bytes(),
                      time.monotonic() - self.began)

    def wait_text(self, pattern, timeout=TIMEOUT):
        def found():
            hit = re.search(pattern, self.text)
            assert hit or self.alive or re.search(pattern, self.text), \
                f"ended with {self.process.returncode} before it said {pattern!r}:\n{self.text[-4000:]}"
            return hit
        return wait_for(found, timeout, f"{pattern!r} in:\n{self.text[-2000:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill9(self):
        self.process.kill()
        self.process.wait()


class Box:
    """The world of one test: a HOME, a state directory, a folder for specs."""

    def __init__(self, folder):
        self.dir = pathlib.Path(folder)
        self.home = self.dir / "home"
        self.state = self.dir / "state"
        self.work = self.dir / "work"
        self.serial = 0
        self.running = []
        for d in (self.home, self.work):
            d.mkdir(parents=True)
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin",
            "HOME": str(self.home),
            "RHRUN_HOME": str(self.state),
            "RHRUN_TEST_BOX": str(self.dir),
            "USER": "tester",
            "LOGNAME": "tester",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "abort_on_error=1:detect_leaks=1"),
            "UBSAN_OPTIONS": os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1"),
        }

    def path(self, name):
        return self.work / name

    def spec(self, text, name="job.yaml"):
        """Writes a spec (text, or a dict as JSON, which is YAML) and returns its path."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
        return path

    def _env(self, env):
        merged = dict(self.env)
        for key, value in (env or {}).items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = str(value)
        return merged

    def run(self, *args, timeout=TIMEOUT, env=None, cwd=None, input=None, prefix=()):
        """Runs rhrun to its end. input: bytes for stdin (none: /dev/null)."""
        began = time.monotonic()
        feed = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        try:
            # Files, not pipes: a process that the job left behind must not keep the test waiting for the end of a pipe.
            with open(self.dir / "run.out", "w+b") as out, open(self.dir / "run.err", "w+b") as err:
                done = subprocess.run([*prefix, str(RHRUN), *map(str, args)], env=self._env(env), cwd=cwd or self.work,
                                      stdout=out, stderr=err, timeout=timeout, **feed)
                out.seek(0)
                err.seek(0)
                result = Result(args, done.returncode, out.read(), err.read(), time.monotonic() - began)
        except subprocess.TimeoutExpired:
            text = (self.dir / "run.out").read_text(errors="replace") + (self.dir / "run.err").read_text(errors="replace")
            pytest.fail(f"rhrun {' '.join(map(str, args))} did not end within {timeout} s:\n{text[-4000:]}")
        assert "Sanitizer" not in result.err and "runtime error:" not in result.err, result
        return result

    def start(self, *args, env=None, cwd=None, prefix=()):
        r = Running(self, args, self._env(env), cwd or self.work, prefix)
        self.running.append(r)
        return r

    def lines(self, name="lines"):
        """Lines of a file in HOME, where the tests' steps leave their marks."""
        path = self.home / name
        return path.read_text().splitlines() if path.exists() else []

    def logs(self):
        """The bytes of everything in the state directory: name -> bytes."""
        return {str(p): p.read_bytes() for p in self.state.rglob("*") if p.is_file()}

    def leftovers(self):
        return [p for p in processes_of(self.dir) if p.pid != os.getpid()]

    def end(self):
        """Ends all processes of this box; returns those that were still there after a moment's grace."""
        for r in self.running:
            if r.alive:
                r.kill9()
        end = time.monotonic() + 3
        while (left := self.leftovers()) and time.monotonic() < end:
            time.sleep(0.05)
        names = [repr(p) for p in left]
        while left:
            for p in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(p.pid, signal.SIGKILL)
            time.sleep(0.05)
            left = self.leftovers()
        return names


# ---- the fleet ----

def free_base(count):
    """A port below which count ports are free: BASE+1 ... BASE+count."""
    for _ in range(200):
        base = random.randrange(20000, 32000)
        held = []
        try:
            for i in range(1, count + 1):
                s = socket.socket()
                held.append(s)
                s.bind(("127.0.0.1", base + i))
            return base
        except OSError:
            continue
        finally:
            for s in held:
                s.close()
    pytest.fail("no free ports")


class Fleet:
    """N sshd on loopback, each with a HOME of its own (tests/fleet)."""

    def __init__(self, folder, count, shared_home=False, options="", hostnames=False):
        self.dir = pathlib.Path(folder)
        self.count = count
        self.shared_home = shared_home
        self.env = dict(os.environ)
        if shared_home:
            self.env["FLEET_SHARED_HOME"] = "1"
        if options:
            self.env["FLEET_SSHD"] = options
        if hostnames:
            self.env["FLEET_HOSTNAMES"] = "1"
        self.base = free_base(count)
        self._call("up", count, self.dir, self.base)

    def _call(self, *args):
        done = subprocess.run([str(ROOT / "tests/fleet"), *map(str, args)], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, done.stdout.decode(errors="replace")

    def port(self, i):
        return self.base + i

    def home(self, i):
        return self.dir / "home" / ("shared" if self.shared_home else str(i))

    def lines(self, i, name="lines"):
        path = self.home(i) / name
        return path.read_text().splitlines() if path.exists() else []

    def all_lines(self, name="lines"):
        return [self.lines(i, name) for i in range(1, self.count + 1)]

    def cluster(self, **more):
        """The `cluster` of a spec for this fleet."""
        cluster = {"hosts": [f"node{i}" for i in range(1, self.count + 1)], "ssh_config": str(self.dir / "ssh_config")}
        cluster.update(more)
        return {k: v for k, v in cluster.items() if v is not None}

    def explicit_cluster(self, **more):
        """The same without an ssh_config: every key in the spec."""
        cluster = {
            "hosts": [{"host": "127.0.0.1", "port": self.port(i)} for i in range(1, self.count + 1)],
            "user": subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip(),
            "identity_file": str(self.dir / "key"),
            "known_hosts": str(self.dir / "known_hosts"),
        }
        cluster.update(more)
        return cluster

    def stop(self, i):
        self._call("stop", self.dir, i)

    def start(self, i):
        self._call("start", self.dir, i)

    def freeze(self, i):
        self._call("freeze", self.dir, i)

    def thaw(self, i):
        self._call("thaw", self.dir, i)

    def down(self):
        self._call("down", self.dir)

    def wipe(self):
        """Nodes as new: every HOME empty."""
        for home in (self.dir / "home").iterdir():
            for p in home.iterdir():
                shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()


# ---- a terminal ----

class Terminal:
    """rhrun on a pseudo-terminal, its screen kept by pyte; frames are what the screen showed, one per read. out: the file
    that its stdout goes to instead."""

    def __init__(self, box, args, columns=80, rows=24, env=None, out=None):
        pyte = require("pyte")
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.frames = []
        environment = box._env({"TERM": "xterm-256color", "NO_COLOR": None, **(env or {})})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(box.work)
            if out:
                os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
            os.execve(str(RHRUN), [str(RHRUN), *map(str, args)], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.rc = None

    def display(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def pump(self, until=None, timeout=TIMEOUT):
        """Reads until the predicate over the shown text holds, or the program ends."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.1)
            if ready:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                if not data:
                    return self._reap()
                self.raw += data
                self.stream.feed(data)
                self.frames.append(self.display())
            if until and until(self.display()):
                return None
        self.kill()
        pytest.fail(f"the terminal did not get there within {timeout} s:\n{self.display()}")

    def _reap(self):
        if self.rc is None:
            _, status = os.waitpid(self.pid, 0)
            self.rc = os.waitstatus_to_exitcode(status)
            os.close(self.fd)
        return self.rc

    def send(self, data):
        os.write(self.fd, data)

    def kill(self):
        if self.rc is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._reap()
