"""Workers on many nodes that report that they run, and stay until they are let go. They report by files in a folder, and wait
for a lock that this process holds, so waiting costs the machine nothing."""
import contextlib
import fcntl
import os
import shlex
import subprocess
import time

from lib import TIMEOUT

# $1 of the script is the folder. Whoever finds its mark there already is of the second start. Rank $2 (none: nobody) fails in the
# first start when the lock of that name is let go, and in all starts with $3.
SCRIPT = """#!/bin/sh
marks=$1 fails=$2 always=$3
rank=${OMPI_COMM_WORLD_RANK:-$RANK}
if [ -e "$marks/up.$rank" ]; then now=again; else now=up; fi
: >"$marks/$now.$rank"
if [ "$rank" = "$fails" ] && { [ $now = up ] || [ -n "$always" ]; }; then
    flock -s "$marks/lock.$now" true
    : >"$marks/failed.$now"
    exit 1
fi
exec flock -s "$marks/lock.end" true
"""


class Crowd:
    def __init__(self, bench, workers):
        self.bench, self.workers = bench, workers
        self.marks = bench.dir / "crowd"
        self.script = bench.spec("crowd.sh", SCRIPT)
        self.script.chmod(0o755)

    def argv(self, *more):
        """The worker's command line."""
        return [str(self.script), str(self.marks), *map(str, more)]

    @contextlib.contextmanager
    def started(self, argv):
        """Runs a launcher (list, or text for sh) over an empty folder; it is ended and its exit status looked at by the caller."""
        self.marks.mkdir(exist_ok=True)
        for p in self.marks.iterdir():
            p.unlink()
        self.locks = {name: open(self.marks / f"lock.{name}", "w", encoding="ascii") for name in ("up", "again", "end")}
        for f in self.locks.values():
            fcntl.flock(f, fcntl.LOCK_EX)
        argv = ["sh", "-c", argv] if isinstance(argv, str) else [str(a) for a in argv]
        with open(self.bench.dir / "output", "wb") as output:
            self.began = time.time()
            p = subprocess.Popen(argv, env=self.bench.env, cwd=self.bench.dir, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT)
        self.process = p
        try:
            yield
        finally:
            for f in self.locks.values():
                f.close()
            if p.poll() is None:
                p.kill()
                p.wait()

    def all(self, word):
        """When the last worker left that mark, in seconds since 1970."""
        end = time.monotonic() + TIMEOUT
        while sum(e.name.startswith(word + ".") for e in os.scandir(self.marks)) < self.workers:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"not all workers came {word}: {self.bench.output()[-2000:]}")
            time.sleep(0.01)
        return max(p.stat().st_mtime for p in self.marks.glob(word + ".*"))

    def let_go(self, name):
        self.locks[name].close()

    def end(self, expect=0):
        rc = self.process.wait(TIMEOUT)
        if (rc == 0) != (expect == 0):
            raise RuntimeError(f"exit status {rc}: {self.bench.output()[-2000:]}")

    def left(self):
        """Processes of this machine, and so of all nodes, that have the folder in their command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read()
                if str(self.marks).encode() in argv and int(pid) != self.process.pid:
                    found.append(argv.replace(b"\0", b" ").decode(errors="replace"))
        return found


def by_ssh(fleet, count, command):
    """Text for sh: a command (list; {i} is the node, from 0) on each node by ssh, all at once. It fails when one of them does."""
    each = " ".join(shlex.quote(str(a)) for a in command).replace("{i}", "$i")
    config = fleet.config("default")
    return (f'pids=; i=0; while [ $i -lt {count} ]; do ssh -n -F {config} node$((i + 1)) "{each}" & pids="$pids $!"; i=$((i + 1)); done; '
            "rc=0; for p in $pids; do wait $p || rc=1; done; exit $rc")
