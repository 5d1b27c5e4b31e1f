"""The faults that strike while a command runs: signals, freezes, cut connections, other controllers, full disks.

A fault is a list of actions (seconds after the command's start, a message, a function). If an action takes something away, a later action gives
it back, even when the command has ended meanwhile.
"""
import contextlib
import os
import signal

from harness import RHRUN, agent_processes, is_agent, processes, processes_of


class Action:
    def __init__(self, at, what, do, undoes=None):
        self.at, self.what, self.act, self.undoes, self.done = at, what, do, undoes, False

    def due(self, now, alive):
        """Whether to do it now; without the command only what was taken away is given back."""
        return (self.at <= now or not alive) and (self.undoes.done if self.undoes else alive)

    def do(self):
        self.done = True
        self.act()


def pair(at, what, do, after, back, undo):
    first = Action(at, what, do)
    return [first, Action(at + after, back, undo, first)]


def send(found, number):
    """Signals to processes that may end meanwhile; who got one."""
    hit = []
    for p in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(p.pid, number)
            hit.append(p)
    return hit


class Faults:
    def __init__(self, story):
        self.story = story
        self.killed_sessions = 0

    # ---- who is there ----

    def all(self):
        return processes() if self.story.in_room else processes_of(self.story.folder)

    def controllers(self):
        return [p for p in self.all() if p.exe == str(RHRUN) and not is_agent(p)]

    def agents(self):
        return agent_processes(self.story.folder)[0]

    def supervisors(self):
        return agent_processes(self.story.folder)[1]

    def workers(self):
        return [p for p in self.all() if p.attempt and not is_agent(p) and p.exe != str(RHRUN)]

    def sessions(self):
        """Processes of sshd that serve one connection: those that no pid file names."""
        fleet = self.story.fleet
        if not fleet:
            return []
        daemons = {p.read_text().strip() for p in fleet.dir.glob("*/pid")}
        return [p for p in self.all() if p.comm.startswith("sshd") and str(p.pid) not in daemons]

    def served(self, i):
        """Whether sshd i is there: another fault may have ended or started it."""
        return (self.story.fleet.dir / str(i) / "pid").exists()

    # ---- one fault ----

    def draw(self, chance, span):
        """(environment of the command, actions): 0 to 3 faults within `span` seconds."""
        env, actions = {}, []
        for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3])):
            kinds = ["controller", "controller", "event", "agent", "supervisor", "worker", "stopped", "second", "cancel", "attach", "edit"]
            kinds += ["session", "session", "sshd", "freeze", "node"] * bool(self.story.fleet) + ["disk", "disk"] * bool(self.story.disks)
            kind = chance.choice(kinds)
            if kind == "event":
                env["RHRUN_TEST_KILL_AFTER_EVENT"] = chance.randint(1, 24)
                self.story.tell(f"  is to be killed after event {env['RHRUN_TEST_KILL_AFTER_EVENT']}")
            else:
                actions += getattr(self, kind)(chance, chance.uniform(0, span))
        return env, sorted(actions, key=lambda a: a.at)

    def controller(self, chance, at):
        number = chance.choice([signal.SIGKILL] * 3 + [signal.SIGTERM, signal.SIGINT])
        return [Action(at, f"{number.name} to the controller", lambda: send([self.story.main], number))]

    def some(self, chance, find, number):
        """Signals one of those there are at that moment, or all of them."""
        every, pick = chance.random() < 0.3, chance.random()

        def do():
            found = sorted(find(), key=lambda p: p.pid)
            if found and not every:
                found = [found[int(pick * len(found))]]
            return send(found, number)
        return do

    def agent(self, chance, at):
        self.killed_sessions += 8
        return [Action(at, "KILL to agents", self.some(chance, self.agents, signal.SIGKILL))]

    def supervisor(self, chance, at):
        return [Action(at, "KILL to supervisors", self.some(chance, self.supervisors, signal.SIGKILL))]

    def worker(self, chance, at):
        number = chance.choice([signal.SIGKILL, signal.SIGTERM])
        return [Action(at, f"{number.name} to workers", self.some(chance, self.workers, number))]

    def stopped(self, chance, at):
        """The controller, an agent or a supervisor stands still for a while."""
        find = chance.choice([lambda: [self.story.main], self.agents, self.supervisors])
        stop = self.some(chance, find, signal.SIGSTOP)
        stopped = []
        return pair(at, "SIGSTOP", lambda: stopped.extend(stop()), chance.choice([0.2, 0.5, 2.5]), "SIGCONT", lambda: send(stopped, signal.SIGCONT))

    def session(self, chance, at):
        self.killed_sessions += 8
        return [Action(at, "KILL to ssh sessions", self.some(chance, self.sessions, signal.SIGKILL))]

    def sshd(self, chance, at):
        self.killed_sessions += 8
        fleet, i = self.story.fleet, chance.randint(1, self.story.fleet.count)
        return pair(at, f"sshd {i} is killed with its sessions", lambda: self.served(i) and fleet.stop(i),
                    chance.choice([0, 0.5, 1.5]), f"sshd {i} is there again", lambda: self.served(i) or fleet.start(i))

    def node(self, chance, at):
        """Everything on one host, at once: sshd, agents, supervisors, what they started. Its disk and its boot stay."""
        self.killed_sessions += 8
        fleet, i = self.story.fleet, chance.randint(1, self.story.fleet.count)
        home = str(fleet.home(i)).encode()

        def strike():
            if self.served(i):
                fleet.stop(i)
            send([p for p in self.all() if p.environ.get(b"HOME") == home and p.exe != str(RHRUN)], signal.SIGKILL)
        return pair(at, f"everything on host {i} is killed", strike, chance.choice([0, 0.5]), f"sshd {i} is there again",
                    lambda: self.served(i) or fleet.start(i))

    def freeze(self, chance, at):
        fleet, i = self.story.fleet, chance.randint(1, self.story.fleet.count)
        return pair(at, f"host {i} is frozen", lambda: self.served(i) and fleet.freeze(i),
                    chance.choice([0.3, 0.3, 1, 3.5]), f"host {i} goes on", lambda: self.thaw(i))

    def thaw(self, i):
        """Also what lost its parent while it was frozen."""
        if self.served(i):
            self.story.fleet.thaw(i)
        home = str(self.story.fleet.home(i)).encode()
        send([p for p in self.all() if p.state == "T" and p.environ.get(b"HOME") == home], signal.SIGCONT)

    def second(self, chance, at):
        """Another controller with a state directory of its own."""
        words = ["--take-over"] if chance.random() < 0.5 else []
        return [Action(at, f"another controller {words}", lambda: self.story.aside(*words, self.story.spec, state=self.story.other_state))]

    def cancel(self, chance, at):
        del chance
        return [Action(at, "cancel", lambda: self.story.aside("cancel", self.story.spec))]

    def attach(self, chance, at):
        del chance
        return [Action(at, "attach", lambda: self.story.aside("attach", self.story.spec))]

    def edit(self, chance, at):
        return [Action(at, "edit", lambda: self.story.edit_under_way(chance))]

    def disk(self, chance, at):
        """A file system is filled but for a few kB."""
        folder, leave = chance.choice(self.story.disks), chance.choice([0, 4096, 60000])
        ballast = folder / "ballast"

        def fill():
            self.story.blind = True
            free = os.statvfs(folder)
            with contextlib.suppress(OSError), open(ballast, "wb") as f:
                f.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))
        return pair(at, f"{folder.name}: only {leave} bytes are free", fill,
                    chance.choice([0.3, 1]), f"{folder.name}: room again", lambda: ballast.unlink(missing_ok=True))
