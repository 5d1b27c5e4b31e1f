"""The base of the benchmark cases: timed runs, interleaved A/B pairs, a fleet, a delay, peers on demand.

Times of one machine drift by half within minutes, so A and B run in turn inside one loop. The result is the
median of the ratios A/B, with the medians of both beside it.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMEOUT = 300


class Skip(Exception):
    """The case cannot be measured here; the text says what is missing."""


def log(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """One benchmark run: where rhrun is, how many pairs, a scratch folder."""

    def __init__(self, rhrun, pairs, folder, install, alone=False):
        self.rhrun, self.pairs, self.install, self.alone = str(rhrun), pairs, install, alone
        self.dir = pathlib.Path(folder)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RHRUN_", "SSH_", "XDG_"))}
        self.env.update(LC_ALL="C.UTF-8", HOME=str(self.dir / "home"), RHRUN_HOME=str(self.dir / "state"))
        (self.dir / "home").mkdir()
        self.fleets = []

    # -- commands --

    def seconds(self, command, env=None, cwd=None, expect=0):
        """Wall time of a command (list, or text for sh). Its output goes to a file; a failure ends the case."""
        with open(self.dir / "output", "w+b") as output:
            argv = ["sh", "-c", command] if isinstance(command, str) else [str(a) for a in command]
            began = time.monotonic()
            p = subprocess.Popen(argv, env={**self.env, **(env or {})}, cwd=cwd or self.dir, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=subprocess.STDOUT)
            # Popen.wait(timeout) looks now and then, at last every 50 ms: what it measures comes in such portions.
            limit = threading.Timer(TIMEOUT, p.kill)
            limit.start()
            status = p.wait()
            took = time.monotonic() - began
            limit.cancel()
            if status != expect:
                output.seek(0)
                text = output.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"{argv}: exit status {status}\n{text}")
        return took

    def output(self):
        return (self.dir / "output").read_text(errors="replace")

    def peak_bytes(self, command, env=None):
        """Peak resident memory of a command."""
        argv = [str(a) for a in command]
        with open(os.devnull, "wb") as null:
            p = subprocess.Popen(argv, env={**self.env, **(env or {})}, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=null, stderr=null)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode != 0:
            raise RuntimeError(f"{argv}: exit status {p.returncode}")
        return usage.ru_maxrss * 1024

    def ab(self, a, b, pairs=None):
        """a() and b() give seconds. One of each unmeasured, then pairs in turn; {a, b, ratio} as medians, and the ratio's
        lowest and highest. Alone: a()."""
        if self.alone:
            a()
            return {"a": statistics.median(a() for _ in range(pairs or self.pairs))}
        a(), b()
        times = []
        for i in range(pairs or self.pairs):
            # The order alternates too, so that neither always finds the caches that the other left.
            first, second = (a, b) if i % 2 == 0 else (b, a)
            x, y = first(), second()
            times.append((x, y) if i % 2 == 0 else (y, x))
        ratios = [t[0] / t[1] for t in times]
        return {
            "a": statistics.median(t[0] for t in times),
            "b": statistics.median(t[1] for t in times),
            "ratio": statistics.median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
            "pairs": len(times),
        }

    def fastest(self, candidates):
        """name -> function giving seconds; the name of the fastest by the median of three, and all medians."""
        if self.alone:
            return next(iter(candidates)), {}
        medians = {}
        for name, fn in candidates.items():
            fn()
            medians[name] = statistics.median(fn() for _ in range(3))
            log(f"    {name}: {medians[name]:.3f} s")
        return min(medians, key=medians.get), medians

    # -- specs --

    def check_launch(self, spec, nodes, workers):
        """One unmeasured run that is looked at: each node's launch ended well, with as many workers as asked for."""
        with_json = subprocess.run([self.rhrun, "--json", str(spec)], env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, timeout=TIMEOUT)
        events = [json.loads(line) for line in with_json.stdout.splitlines() if line.startswith("{")]
        ended = {e["node"] for e in events if e.get("type") == "finished" and e.get("step") == "launch" and e.get("outcome") == "ok"}
        if with_json.returncode != 0 or len(ended) != nodes:
            raise RuntimeError(f"the launch ended well on {len(ended)} of {nodes} nodes: {with_json.stderr[-500:]}")
        plan = json.loads(subprocess.run([self.rhrun, "plan", "--json", "--offline", str(spec)], env=self.env, cwd=self.dir,
                                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout)
        if plan.get("world_size") != workers:
            raise RuntimeError(f"{plan.get('world_size')} workers are planned, not {workers}")

    def spec(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def forget(self):
        """rhrun's state here is gone, as for a first run."""
        shutil.rmtree(self.dir / "state", ignore_errors=True)
        shutil.rmtree(self.dir / "home" / ".rhrun", ignore_errors=True)

    # -- peers --

    def need(self, program, package=None, pip=None):
        """A program of a peer; installed with --install, else the case is skipped."""
        found = shutil.which(program)
        if found or self.alone:
            return found or program
        if self.install and package:
            log(f"    apt-get install {package}")
            subprocess.run(["apt-get", "-q", "install", "-y", "--no-install-recommends", package],
                           env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=900, check=False)
        if not shutil.which(program) and self.install and pip:
            venv = ROOT / "build/bench-venv"
            if not (venv / "bin" / program).exists():
                log(f"    pip install {pip}")
                subprocess.run([sys.executable, "-m", "venv", venv], check=True)
                subprocess.run([venv / "bin/pip", "-q", "install", *pip.split()], check=True, timeout=1800)
            return str(venv / "bin" / program)
        found = shutil.which(program)
        if not found:
            raise Skip(f"{program} is not here (run.py --install installs {package or pip})")
        return found

    # -- hosts --

    def fleet(self, count):
        for f in self.fleets:
            if f.count >= count:
                return f
        f = Fleet(self, count)
        self.fleets.append(f)
        return f

    @contextlib.contextmanager
    def engine(self):
        """A Docker Engine of the tests' kind, and the name of its image; rhrun and docker use it."""
        if os.geteuid() != 0:
            raise Skip("a Docker Engine is started as root only")
        sys.path.append(str(ROOT / "tests/e2e"))
        try:
            from engine import IMAGE, Engine
            engine = Engine()
        except ImportError as e:
            raise Skip(f"{e.name} is not installed") from e
        self.env.update({k: engine.env[k] for k in ("DOCKER_HOST", "DOCKER_CONFIG")})
        try:
            yield engine, IMAGE
        finally:
            engine.end()

    @contextlib.contextmanager
    def delay(self, fleet, milliseconds):
        """The fleet's hosts behind a round trip of so many milliseconds: gives a view of the fleet."""
        program = self.dir / "delay"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "bench/delay.c"], check=True)
        base = free_base(fleet.count)
        p = subprocess.Popen([program, str(milliseconds), str(base), str(fleet.base), str(fleet.count)], stdout=subprocess.PIPE)
        try:
            if p.stdout.readline() != b"ready\n":
                raise RuntimeError("the delay did not start")
            yield fleet.moved(base)
        finally:
            p.kill()
            p.wait()

    def end(self):
        for f in self.fleets:
            f.down()


def free_base(count):
    for _ in range(200):
        base = random.randrange(20000, 31000)
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
    raise RuntimeError("no free ports")


class Fleet:
    """Real sshd on loopback (tests/fleet). config(kex) is an ssh_config for the peers."""

    def __init__(self, bench, count):
        self.dir, self.count = bench.dir / f"fleet{count}", count
        self.base = free_base(count)
        subprocess.run([ROOT / "tests/fleet", "up", str(count), self.dir, str(self.base)], check=True, stdout=subprocess.DEVNULL)
        self._write(self.dir, self.base)

    def _write(self, folder, base):
        """ssh_config for this view: plain, and with the key exchange that rhrun uses. No ControlMaster in either."""
        self.folder, self.view_base = folder, base
        hosts = "".join(f"Host node{i}\n  HostName 127.0.0.1\n  Port {base + i}\n  HostKeyAlias node{i}\n" for i in range(1, self.count + 1))
        keys = (self.dir / "known_hosts").read_text().splitlines()
        (folder / "known").write_text("".join(f"node{i} {k.split(' ', 1)[1]}\n" for i, k in enumerate(keys, 1)))
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        tail = (f"Host *\n  User {user}\n  IdentityFile {self.dir}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known\n"
                "  StrictHostKeyChecking yes\n  LogLevel ERROR\n  BatchMode yes\n")
        (folder / "default").write_text(hosts + tail)
        (folder / "same").write_text(hosts + tail + "  KexAlgorithms curve25519-sha256\n")

    def moved(self, base):
        """The same hosts on other ports."""
        view = object.__new__(Fleet)
        view.dir, view.count, view.base = self.dir, self.count, self.base
        folder = self.dir / f"view{base}"
        folder.mkdir(exist_ok=True)
        view._write(folder, base)
        return view

    def config(self, kex):
        return str(self.folder / kex)

    def names(self, count):
        return [f"node{i}" for i in range(1, count + 1)]

    def cluster(self, count):
        return "{hosts: [%s], ssh_config: %s}" % (", ".join(self.names(count)), self.config("default"))

    def wipe(self, aside=False):
        """Homes as new. aside: what was there is put aside, not deleted: for minutes after many files were deleted, ext4
        goes past each of their inodes for every file that is made (fs/ext4/ialloc.c, recently_deleted)."""
        for home in (self.dir / "home").iterdir():
            to = pathlib.Path(tempfile.mkdtemp(dir=self.dir)) if aside else None
            for p in home.iterdir():
                if aside:
                    p.rename(to / p.name)
                else:
                    shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()

    def down(self):
        subprocess.run([ROOT / "tests/fleet", "down", self.dir], check=False, timeout=60)


def row(work, against, measured, wanted):
    """One line of the table. wanted: the ratio at most, or None where none is set."""
    return {"work": work, "against": against, "wanted": wanted, **measured}
