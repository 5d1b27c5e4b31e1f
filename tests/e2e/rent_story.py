"""One round of the chaos test of renting: a job on rented containers, commands, kills and an unreliable engine; then
one command without faults, after which nothing is left. The test checks the rules from outside: in the engine itself, and by
the reports of workers to a witness that no rhrun touches. See test_rent_chaos.py.
"""
import json
import pathlib
import random
import re
import secrets
import signal
import socket
import socketserver
import subprocess
import threading
import time

from clouds.flaky import Flaky, ask, hasty_docker, split, talk
from engine import IMAGE
from harness import Box

FAIL_STATUS = 7
STATUSES = {0, 1, 3, 130}
LATE_S = 6      # how late a request may be done: as in the round's provider file
SETTLE_S = 1.0  # how long the list may hide a machine, if the round's provider file says so

WORKER = r"""
me="run=$RHRUN_RUN_ID attempt=$RHRUN_ATTEMPT restart=${TORCHELASTIC_RESTART_COUNT:-0} rank=$RANK at=$(hostname)"
tell() { [ "$(echo "%(seed)d $1" | nc $(ip route | awk '/^default/{print $3}') %(port)d)" = ok ] || exit 70; }
[ -s $HOME/lines ] || exit 71
[ ${#TOKEN} = 32 ] || exit 72
old=$(cat $HOME/lock.$RANK 2>/dev/null) && [ -d /proc/$old ] && tell "overlap $me"
echo $$ >$HOME/lock.$RANK
tell "begin $me"
echo $TOKEN
sleep %(nap)s
mkdir -p out && echo $RANK >out/$RANK || exit 73
status=0
[ $RANK != %(fails)d ] || status=%(fail_status)d
tell "end $me status=$status"
exit $status
"""
STEP = r"""
[ "$(echo "%(seed)d step attempt=$RHRUN_ATTEMPT at=$(hostname)" | nc $(ip route | awk '/^default/{print $3}') %(port)d)" = ok ] || exit 70
echo set up >>$HOME/lines
"""


class Violation(Exception):
    pass


class Event:
    def __init__(self, line):
        self.line = line
        self.kind, *words = line.split()
        self.facts = dict(word.split("=", 1) for word in words)

    def of(self, *keys):
        return tuple(self.facts.get(key) for key in keys)


class Witness:
    """Receives the reports of workers, and answers each line once it is kept. A line begins with the seed of its round."""

    def __init__(self):
        kept = self.kept = {}

        class Handler(socketserver.StreamRequestHandler):
            timeout = 30

            def handle(self):
                line = self.rfile.readline(4096).decode(errors="replace")
                seed, _, rest = line.strip().partition(" ")
                if line.endswith("\n") and rest:
                    kept.setdefault(int(seed), []).append(Event(rest))
                    self.wfile.write(b"ok\n")

        class Server(socketserver.ThreadingTCPServer):
            address_family = socket.AF_INET
            daemon_threads = allow_reuse_address = True
            request_queue_size = 100

        self.server = Server(("0.0.0.0", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, seed):
        return list(self.kept.get(seed, ()))

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class Story:
    def __init__(self, seed, folder, engine, witness):
        self.seed, self.engine, self.witness = seed, engine, witness
        self.chance = random.Random(seed)
        self.began, self.lines = time.monotonic(), []
        self.box = Box(folder)
        self.secret = secrets.token_hex(16)
        self.flaky = Flaky(engine.socket, self.box.dir / "flaky")
        self.box.env.update(DOCKER_HOST=f"unix://{self.flaky.path}", DOCKER_CONFIG=engine.env["DOCKER_CONFIG"], CHAOS_SECRET=self.secret)
        self.late_lists = self.chance.random() < 0.3
        self.nodes, self.per_node = self.chance.choice([1, 1, 2, 2, 3, 4]), self.chance.choice([1, 1, 2])
        self.down = self.chance.choice(["always", "always", "always", "never", {"idle": "1s"}])
        self.fails = self.chance.random() < 0.2
        self.kept_up = False  # a command asked for machines that stay
        self.write()

    def say(self, text):
        self.lines.append(f"{time.monotonic() - self.began:6.2f} {text}")

    def fail(self, text, *more):
        raise Violation("\n".join([text, *map(repr, more)]))

    def write(self):
        words = {"seed": self.seed, "port": self.witness.port, "nap": round(self.chance.choice([0, 0, 0.2, 0.8]), 1),
                 "fails": 0 if self.fails else -1, "fail_status": FAIL_STATUS}
        self.spec = self.box.spec({
            "name": f"round-{self.seed}", "cluster": {"provider": "docker", "image": IMAGE, "max_hours": 1, "down": self.down},
            "secrets": [{"name": "CHAOS_SECRET", "to": "TOKEN"}], "setup": [{"name": "one", "run": STEP % words}],
            "distributed": {"nnodes": self.nodes, "nproc_per_node": self.per_node}, "entrypoint": {"run": WORKER % words},
            "outputs": [{"from": "out/", "to": "results/", "nodes": "all"}]})
        lags = [("settle: 0", f"settle: {int(SETTLE_S * 1500)}ms")] if self.late_lists else []
        hasty_docker(self.box, ("late: 20s", f"late: {LATE_S}s"), *lags)
        self.say(f"{self.nodes} nodes × {self.per_node}, down {self.down}{', fails' if self.fails else ''}{', lists lag' if self.late_lists else ''}")

    # ---- the engine, as it is ----

    def clusters(self):
        folder = self.box.state / "clusters"
        return {p.name for p in folder.iterdir() if p.is_dir()} if folder.is_dir() else set()

    def machines(self):
        """(container, cluster) of this round's clusters."""
        ours, filters = self.clusters(), "%7B%22label%22%3A%5B%22rhrun-run%22%5D%7D"
        return [(c["Names"][0] if c["Names"] else c["Id"], c["Labels"]["rhrun-run"]) for c in ask(self.engine.socket, f"/containers/json?all=true&filters={filters}")
                if c["Labels"]["rhrun-run"] in ours]

    def networks(self):
        return [n["Name"] for n in ask(self.engine.socket, "/networks") if n["Labels"].get("rhrun-run") in self.clusters()]

    # ---- commands ----

    def command(self, *args, env=None):
        self.say("$ rhrun " + " ".join(map(str, args)))
        return self.box.start(*args, env=env)

    def done(self, running):
        r = running.wait()
        self.say(f"exit status {r.rc} after {r.seconds:.2f} s: {' | '.join(r.err.splitlines()[-6:])}")
        return r

    def spoil(self):
        """Faults for the next requests."""
        for _ in range(self.chance.choice([0, 1, 1, 2, 3])):
            kind = self.chance.choice(["create", "create", "create", "start", "list", "delete", "net_create", "net_delete"])
            whats = ["drop_before", "drop_after", "500_before", "500_after", "429", "cut", "late", "late_drop"]
            if kind == "create":
                whats += ["capacity"] + ["hide"] * (4 if self.late_lists else 0)
            what, times = self.chance.choice(whats), self.chance.choice([1, 1, 2])
            after = self.chance.randrange(self.nodes) if kind in ("create", "start", "delete") else 0
            delay = SETTLE_S if what == "hide" else round(self.chance.uniform(0.1, 3), 1)
            self.say(f"fault: {kind} {what} × {times}, after {after}, {delay} s")
            self.flaky.fault(kind, what, times, after, delay)

    def take_one(self):
        """A machine ends without any rhrun."""
        there = self.machines()
        if there:
            name, _ = self.chance.choice(there)
            self.say(f"gone: {name}")
            split(talk(self.engine.socket, f"DELETE /v1.41/containers/{name.strip('/')}?force=true HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n".encode()))

    def one(self):
        words = self.chance.choice([["run"], ["run"], ["run"], ["again"], ["up"], ["up"], ["down"], ["gc"]])[0]
        how = self.chance.choice(["end", "end", "kill", "kill", "event", "event", "interrupt"])
        args = {"run": [self.spec], "again": [self.spec, "--again"], "up": ["up", self.spec], "down": ["down", self.spec], "gc": ["gc", "--yes"]}[words]
        self.kept_up = self.kept_up or words == "up"
        at = self.chance.randint(1, 6 + 5 * self.nodes)
        running = self.command(*args, env={"RHRUN_TEST_RENT_KILL": str(at)} if how == "event" else None)
        if how in ("kill", "interrupt"):
            pause = round(self.chance.choice([0.05, 0.3, 1, 3]) * self.chance.random(), 3)
            self.say(f"{how} after {pause} s")
            time.sleep(pause)
            if running.alive:
                running.signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
        r = self.done(running)
        if r.rc == -signal.SIGKILL and how != "interrupt":
            return
        if r.rc not in STATUSES and not (r.rc == -signal.SIGINT and how == "interrupt"):
            self.fail(f"exit status {r.rc}", r)
        self.agrees(words, r)

    def agrees(self, words, r):
        """Checks that the messages are true."""
        machines = self.machines()
        for cluster in re.findall(r"cluster (\S+): all of its machines are gone", r.err):
            if any(c == cluster for _, c in machines):
                self.fail(f"told that nothing is left of {cluster}: {machines}", r)
        if "may still be there" in r.err and r.rc not in (3, 130):
            self.fail("told that something is left, with another exit status", r)
        if words == "down" and r.rc == 0 and machines:
            self.fail(f"down left machines: {machines}", r)
        if words in ("run", "again") and r.rc == 0:
            self.job_is_done(r)
        if words in ("run", "again") and r.rc == 1 and not self.fails:
            self.fail("a job that does not fail has failed", r)

    def not_over(self):
        done = self.box.run("clusters", "--json")
        if done.rc != 0:
            self.fail("no list of clusters", done)
        return json.loads(done.out)

    def nothing_is_forgotten(self):
        known = {c["id"] for c in self.not_over()}
        for machine, cluster in self.machines():
            if cluster not in known:
                self.fail(f"machine {machine} is there, and its cluster {cluster} is over")

    # ---- the workers ----

    def job_is_done(self, r):
        if self.fails:
            self.fail("a job that fails is told as done", r)
        world, ended = self.nodes * self.per_node, {}
        for e in self.witness.of(self.seed):
            if e.kind == "end" and e.facts["status"] == "0":
                ended.setdefault(e.facts["run"], set()).add(e.facts["rank"])
        if not any(len(ranks) == world for ranks in ended.values()):
            self.fail(f"told as done, and {world} workers of no run have ended well: {ended}", r)
        got = sorted(p.read_text().strip() for p in (self.box.work / "results").rglob("[0-9]*") if p.is_file())
        if not set(map(str, range(world))) <= set(got):
            self.fail(f"outputs of {world} workers were to come home: {got}", r)

    def effects_are_single(self):
        seen = {}
        for e in self.witness.of(self.seed):
            if e.kind == "overlap":
                self.fail(f"two workers of one rank live at the same time: {e.line}")
            keys = {"begin": ("run", "attempt", "restart", "rank"), "step": ("attempt", "at")}.get(e.kind)
            if keys and seen.setdefault((e.kind, e.of(*keys)), e) is not e:
                self.fail("it was done twice", seen[e.kind, e.of(*keys)].line, e.line)

    def secret_is_kept(self):
        found = subprocess.run(["grep", "-rlF", "--devices=skip", self.secret, self.box.dir], capture_output=True, text=True).stdout.split()
        if found:
            self.fail(f"the secret is in files: {found}")
        for kind, method, target, body, _ in self.flaky.log:
            if self.secret in target or self.secret.encode() in body:
                self.fail(f"the secret was told to the engine: {method} {target}")

    # ---- the round ----

    def play(self):
        for _ in range(self.chance.randint(1, 3)):
            self.flaky.calm()
            if self.chance.random() < 0.25:
                self.take_one()
            self.spoil()
            self.one()
            self.nothing_is_forgotten()
            self.effects_are_single()
        self.flaky.calm()
        last = self.chance.choice(["run", "run", "gc"])
        r = self.done(self.command(*([self.spec] if last == "run" else ["gc", "--yes"])))
        if r.rc != (FAIL_RC if last == "run" and self.fails else 0):
            self.fail("the last command, without faults, does not end well", r)
        self.agrees(last, r)
        self.stays()
        if not self.flaky.drained():
            self.fail("a late request does not end")
        if self.machines() or self.networks():
            self.fail(f"left in the engine: {self.machines()} {self.networks()}")
        if self.not_over():
            self.fail(f"told as rented still: {self.not_over()}")
        self.effects_are_single()
        self.secret_is_kept()

    def stays(self):
        """Machines that the spec or `up` keeps are there until a command gives them back."""
        stays = self.not_over()
        if not stays:
            return
        if self.down == "always" and not self.kept_up:
            self.fail(f"left, though nobody wants it: {stays}")
        if any(c["stage"] != "complete" or c["held_by"] for c in stays):
            self.fail(f"left, and not in order: {stays}")
        r = self.done(self.command("down", self.spec))
        if r.rc != 0:
            self.fail("down does not end well", r)

    def close(self):
        self.say(f"the engine's slowest: { {k: round(v, 2) for k, v in self.flaky.slowest.items() if k} }")
        left = self.box.end()
        self.flaky.end()
        return left


FAIL_RC = 1


def play(seed, folder, engine, witness):
    """(None or the violated rule, the events)"""
    story = None
    try:
        story = Story(seed, pathlib.Path(folder), engine, witness)
        story.play()
        left = story.close()
        return (f"processes outlived the round: {left}" if left else None), story.lines
    except Violation as e:
        fault = str(e)
    except BaseException as e:  # pytest.fail raises no Exception
        import traceback
        fault = f"{e}\n{traceback.format_exc()}"
    if story:
        story.lines += [f"       engine: {k} {m} {t[:80]} {w or ''}" for k, m, t, _, w in story.flaky.log if k]
        story.lines += [f"       the engine refused: {k} {text}" for k, text in story.flaky.said]
        story.close()
    return fault, story.lines if story else []
