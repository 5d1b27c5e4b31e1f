"""One round: a random job, random commands with random faults; then the job is brought to done and everything is judged."""
import contextlib
import os
import pathlib
import random
import re
import secrets
import shutil
import subprocess
import time

import harness
import room
from faults import Faults
from job import FAIL_STATUS, FATAL_STATUS, IGNORED_STATUS, ITEMS, RESTART_STATUS, Job
from oracle import STATUSES, Oracle, Violation, brief, judge_command

HERE = pathlib.Path(__file__).parent
LIMIT_S = 60
LIVENESS = {"RHRUN_LIVENESS_MS": "2000", "RHRUN_RECONNECT_MS": "8000"}


def common(whole, at, part):
    """How many bytes `part` and `whole` from `at` on have in common."""
    if whole[at:at + 64] != part[:64]:
        return len(os.path.commonprefix([whole[at:at + 64], part[:64]]))
    return len(os.path.commonprefix([whole[at:], part]))


def cut_texts(whole, parts):
    """Whether `whole` is the parts one behind the other, each of them cut somewhere: who wrote it was killed. Where one is cut
    is not known by the next alone, which may begin as the other would have gone on: all places are tried."""
    ends = [(0, 0)]  # where what is left of the parts so far may end: from, to
    for part in filter(None, parts):
        found = set(ends)
        for first, last in ends:
            at = whole.find(part[:1], first, last + 1)
            while at >= 0:
                found.add((at, at + common(whole, at, part)))
                at = whole.find(part[:1], at + 1, last + 1)
        ends = []
        for first, last in sorted(found):
            if ends and first <= ends[-1][1] + 1:
                ends[-1] = (ends[-1][0], max(last, ends[-1][1]))
            else:
                ends.append((first, last))
    return any(last >= len(whole) for _, last in ends)


class Main:
    """The controller of the command that runs now, for those who signal it."""

    def __init__(self, running):
        self.pid = running.process.pid


class Story:
    def __init__(self, seed, folder, in_room):
        self.seed, self.folder, self.in_room = seed, folder, in_room
        self.began, self.lines = time.monotonic(), []
        self.chance = random.Random(seed)
        # Not of the seed: it must not be in a file by itself.
        self.secret = secrets.token_hex(16)
        self.box = harness.Box(folder / "b")
        self.box.env.update(LIVENESS, CHAOS_SECRET=self.secret)
        self.state, self.other_state = folder / "s" / "one", folder / "s" / "two"
        self.witness = folder / "b" / "w"
        for name in ("locks", "said", "outs", "ctl"):
            (self.witness / name).mkdir(parents=True)
        shutil.copy(HERE / "witness.sh", self.witness / "w")
        self.oracle, self.faults = Oracle(self.witness), Faults(self)
        self.fleet, self.disks, self.main, self.asides, self.mounts = None, [], None, [], []
        self.snapshots, self.blind, self.damaged_at = [], False, 0
        self.last_is_anothers = False
        self.was_fresh = self.was_split = self.was_wiped = self.was_lost = self.foreign = False
        self.variant, self.span = None, 1.2
        self.job = self.make_job()
        self.spec = self.box.work / "job.yaml"

    def tell(self, text):
        self.lines.append(f"{time.monotonic() - self.began:7.2f}  {text}")

    def make_job(self):
        c = self.chance
        nodes = c.choice([1, 2, 2, 3, 4])
        if c.random() < 0.65:
            self.fleet = harness.Fleet(self.folder / "f", nodes, shared_home=nodes > 1 and c.random() < 0.1)
        if self.in_room and c.random() < 0.25:
            self.mount_disks(c)
        cluster = self.fleet.cluster(transport="openssh" if c.random() < 0.15 else None) if self.fleet else None
        job = Job(c, self.box.work, cluster, nodes)
        job.shared_home = bool(self.fleet and self.fleet.shared_home)
        self.tell(f"seed {self.seed}: {nodes} nodes, {cluster.get('transport', 'ssh') if cluster else 'local'}, world {job.world}, items {list(job.items)}, "
                  f"rules {job.rules}, outputs {job.outputs}, always {job.always}, disks {[str(d) for d in self.disks]}")
        return job

    def mount_disks(self, chance):
        folder = self.fleet.home(chance.randint(1, self.fleet.count)) if self.fleet and chance.random() < 0.5 else self.state.parent
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", str(folder)], check=True)
        self.disks.append(folder)

    # ---- commands ----

    def words(self):
        return ["-p", f"p={self.variant}"] if self.variant is not None and self.job.params else []

    def env(self, state=None, **more):
        return {"RHRUN_HOME": str(state or self.state), **more}

    def aside(self, *args, state=None):
        """A command beside the one that runs."""
        self.meet(state)
        self.asides.append(self.box.start(*args, *(self.words() if args[0] != "attach" else []), env=self.env(state)))

    def meet(self, state):
        """A second controller goes by what its own journal says of what it did before: only with a new one it must find all."""
        if state == self.other_state:
            self.blind = self.foreign = True
            if self.was_wiped:
                # What was done before the wipe only the first one's journal knows: nothing on the node tells it.
                self.oracle.forget(set_up=True)
            if state.exists():
                # It knows nothing of a --fresh since, and goes on in the directory that it knows: what is current is then for
                # each of the two the one that it made, and a third can only take the one that was used last.
                self.was_split = self.was_split or self.was_fresh
                self.oracle.forget(set_up=True)

    def edit_under_way(self, chance):
        self.tell(f"  edit under way: {self.job.edit(chance)}")
        self.snapshots.append(self.job.snapshot(self.variant))
        self.oracle.forget(set_up=True)

    def command(self, *args, actions=(), state=None, env=None, statuses=STATUSES):
        """A command and what strikes meanwhile; its result, after the witness was looked at."""
        state = state or self.state
        self.meet(state)
        # What was started by the command before may begin now; a controller in the background starts what was current then.
        self.oracle.look(self.snapshots)
        self.snapshots = self.snapshots[0 if self.faults.controllers() else -2:] + [self.job.snapshot(self.variant)]
        self.tell(f"$ rhrun {' '.join(map(str, args))}" + (f"   [{state.name}]" if state != self.state else ""))
        running = self.box.start(*args, env=self.env(state, **(env or {})))
        self.main = Main(running)
        self.attend(running, list(actions))
        result = running.wait(LIMIT_S)
        self.close_asides()
        last = (result.err.strip().splitlines() or [""])[-1]
        self.tell(f"  exit status {result.rc} after {result.seconds:.2f} s: {last[:150]}")
        judge_command(result, statuses)
        self.look()
        return result

    def look(self):
        self.oracle.look(self.snapshots)
        if self.blind:
            self.oracle.blind_to = len(self.oracle.events)
        if self.foreign:
            self.oracle.foreign_to = len(self.oracle.events)
            self.oracle.forget(set_up=True)
        self.blind = self.foreign = False

    def attend(self, running, actions):
        looked = 0
        while running.alive or any(a.undoes and a.undoes.done for a in actions):
            now = time.monotonic() - running.began
            for action in [a for a in actions if a.due(now, running.alive)]:
                actions.remove(action)
                self.tell(f"  {now:.2f} s: {action.what}")
                action.do()
            if now - looked > 0.05:
                looked = now
                self.no_secret_in_arguments()
            if now > LIMIT_S:
                break
            time.sleep(0.005)

    def close_asides(self):
        for r in self.asides:
            result = r.wait(LIMIT_S)
            last = (result.err.strip().splitlines() or [""])[-1]
            self.tell(f"  (rhrun {' '.join(map(str, r.args))}: exit status {result.rc}: {last[:120]})")
            judge_command(result, STATUSES | {2})
        self.asides = []

    # ---- how steps behave ----

    def behave(self, c):
        """Writes how long steps take and which of them fail once."""
        ctl = self.witness / "ctl"
        # Beyond 1 MiB the node's spool has several segments; a small disk has no room for it.
        bursts = [0, 0, 0, 0, 300, 300, 300, 4000, 4000, 300 if self.disks else 60000]
        for step, naps in (("launch", [0, 0.05, 0.2, 0.4]), *((i, [0, 0.02, 0.1]) for i in (*ITEMS, "prolog", "epilog"))):
            (ctl / step).write_text(f"nap={c.choice(naps)} lines={c.choice([0, 2, 30])} burst={c.choice(bursts)} bulk={c.choice([1, 50, 5000])}\n")
        if c.random() < 0.3:
            if c.random() < 0.7:
                status = c.choice([FAIL_STATUS, FAIL_STATUS, RESTART_STATUS, FATAL_STATUS, IGNORED_STATUS])
                name = f"fail.launch.{c.randrange(self.job.world)}"
            else:
                status, name = FAIL_STATUS, f"fail.{c.choice([*self.job.items, 'prolog'])}.{c.randrange(self.job.nodes)}"
            (ctl / name).write_text(f"{status}\n")
            self.tell(f"{name} with status {status}")

    # ---- the round ----

    def play(self):
        for i in range(self.chance.randint(2, 5)):
            c = random.Random(f"{self.seed}/{i}")
            if i:
                self.between(c)
            self.behave(c)
            self.strike(c)
            if c.random() < 0.4:
                self.settle()
        self.behave(self.chance)
        self.settle()
        for left in (self.witness / "ctl").glob("fail.*"):
            left.unlink()
        self.after()
        self.at_the_end()

    def between(self, c):
        for kind in c.choices(["edit", "lose", "lose other", "variant", "outputs", "wipe", "nothing"], [4, 2, 1, 2, 1, 1, 2], k=c.choice([1, 1, 2])):
            if kind == "edit":
                self.tell(f"edit: {self.job.edit(c)}")
            elif kind == "lose":
                self.lose_state()
            elif kind == "lose other":
                shutil.rmtree(self.other_state, ignore_errors=True)
            elif kind == "variant" and self.job.params:
                self.variant = c.choice([None, "1", "2"])
                self.tell(f"variant {self.variant}")
            elif kind == "wipe":
                self.wipe(c)
            elif kind == "outputs":
                self.damage_outputs(c)

    def wipe(self, c):
        """A node is as new: nothing that was done there is there, nor an agent that would still start what it was sent."""
        self.wait_quiet(agents=True)
        home = self.fleet.home(c.randint(1, self.fleet.count)) if self.fleet else self.box.home
        self.tell(f"{home} is wiped")
        self.blind = self.foreign = self.was_wiped = True
        self.look()
        self.oracle.wiped_at = len(self.oracle.events)
        self.oracle.forget(set_up=True)
        for path in home.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def lose_state(self):
        if not self.wait_quiet(controllers_only=True):
            return
        self.tell("the state directory is lost")
        shutil.rmtree(self.state, ignore_errors=True)
        self.blind = self.was_lost = True
        self.look()
        self.last_is_anothers = self.variant in self.oracle.journal_only
        self.oracle.journal_lost()
        if self.was_wiped:
            # The journal alone knew that it was done, and there was nothing on the node.
            self.oracle.forget(set_up=True)
        if self.was_split:
            self.oracle.forget(set_up=True)
            self.damaged_at = 1 << 60

    def damage_outputs(self, c):
        files = sorted(p for p in (self.box.work / "got").rglob("*") if p.is_file())
        if files:
            # What is changed here later is the user's: nothing is fetched for it.
            self.look()
            self.damaged_at = len(self.oracle.events)
            path = c.choice(files)
            self.tell(f"{path.name} of the outputs is {'removed' if c.random() < 0.5 else 'edited'} here")
            if "removed" in self.lines[-1]:
                path.unlink()
            else:
                path.write_text("edited\n")

    def strike(self, c):
        env, actions = self.faults.draw(c, self.span * 1.1)
        kind = c.choices(["run", "again", "from", "fresh", "replace", "detach", "attach", "cancel", "other"], [10, 2, 2, 0.5, 1, 1, 1, 1, 2])[0]
        words = [*self.words()]
        if kind in ("run", "detach", "other") and self.oracle.kept and c.random() < 0.85:
            # What is done gives faults nothing to strike.
            if c.random() < 0.5:
                self.tell(f"edit: {self.job.edit(c)}")
            else:
                words, kind = [*words, "--again"], kind if kind != "run" else "again"
                self.oracle.forget()
        if kind in ("again", "from", "fresh", "replace") and "--again" not in words:
            steps = [i for i in self.job.items]
            words += [f"--{kind}"] + ([c.choice(steps or ["launch"])] if kind == "from" else [])
            self.oracle.forget(set_up=kind in ("from", "fresh"))
            self.was_fresh = self.was_fresh or kind == "fresh"
        if kind == "other":
            words += ["--take-over"] if c.random() < 0.5 else []
            self.command(*words, self.spec, actions=actions, env=env, state=self.other_state)
        elif kind in ("attach", "cancel"):
            self.command(kind, self.spec, actions=actions, env=env, statuses=STATUSES | {2})
        else:
            before = len(self.oracle.events)
            result = self.command(*words, *(["--detach"] if kind == "detach" else []), self.spec, actions=actions, env=env)
            # One that was asked for before, and was cut off, is gone on with: its launch may have begun then.
            if result.rc == 0 and "--again" in words and kind != "detach" and "resuming run" not in result.err:
                self.oracle.asked_at = before
            if result.rc in (0, 1) and kind != "detach" and not self.faults.controllers():
                self.nobody_left(result)

    def wait_quiet(self, controllers_only=False, agents=False):
        """Waits until no controller is there, those in the background too; and nothing that runs on."""
        end = time.monotonic() + 30
        while self.faults.controllers() or (agents and self.faults.agents()) or (not controllers_only and self.faults.workers()):
            if time.monotonic() > end:
                raise Violation(f"still there after 30 s: {self.faults.controllers()} {self.faults.workers()} {self.faults.agents()}")
            time.sleep(0.02)
        return True

    def settle(self):
        """The same command until it says that the job is done."""
        more = []
        for _ in range(8):
            self.wait_quiet(controllers_only=True)
            result = self.command(*self.words(), *more, self.spec)
            # What a launch had made on a node that was wiped before it was fetched nobody can bring: it has to be asked for.
            # And a worker whose failure is ignored makes nothing: what is there otherwise is of a launch before it.
            gone = "--again launches again" in result.err or "no file is there" in result.err
            more = ["--again"] if (self.was_wiped or IGNORED_STATUS in self.job.rules) and gone else []
            if more:
                self.oracle.forget()
            if result.rc in (0, 1):
                self.nobody_left(result)
                self.agree(result)
            if result.rc == 0:
                self.span = max(0.5, min(3, result.seconds))
                self.is_done()
                return
            if result.rc == 4:
                self.wait_quiet()
        raise Violation(f"not brought to done by 8 commands\n{brief(result)}")

    # ---- what is looked at ----

    def nobody_left(self, result):
        left = self.faults.workers()
        if left and not ("nothing to do" in result.err and self.oracle.foreign_to): # another controller's: nobody asked it to end
            raise Violation(f"exit status {result.rc}, and there are processes of its steps: {left}\n{brief(result)}")

    def agree(self, result):
        """Exit status, plan and status say the same."""
        plan = self.box.run("plan", "--exit-code", *self.words(), self.spec, env=self.env())
        # Without -p it is the latest run, of whatever variant.
        variant = ["-p", f"p={self.variant or '0'}"] if self.job.params else []
        status = self.box.run("status", "--json", *variant, self.spec, env=self.env()).ok().json()
        for r in (plan,):
            judge_command(r, {0, 10})
        want = ("done", 0) if result.rc == 0 else ("failed", 10)
        if self.job.always and result.rc == 0:
            want = ("done", 10)
        if (status["status"], plan.rc) != want:
            raise Violation(f"exit status {result.rc}, but status says {status['status']}, plan {plan.rc} (wanted {want})\n{brief(result)}\n{brief(plan)}")

    def is_done(self):
        snapshot = self.snapshots[-1]
        launch = self.oracle.done(snapshot)
        self.oracle.asked_at = 0
        if launch:
            self.logs_are_equal(launch)
            # What another controller launched may not have been fetched: what is here is of the launch that this one knows then.
            # All variants fetch to one place, and without the journal what is fetched again is of the variant at hand.
            variants = {self.oracle.variant_of.get(begin.run) for begin, _ in launch.values()}
            if not self.oracle.may_be_anothers(launch) and variants == {self.variant}:
                self.outputs_are_equal(snapshot, launch)

    def logs_are_equal(self, launch):
        """rhrun logs --rank: byte for byte what that worker wrote, in all generations of its run."""
        for rank, (begin, _) in launch.items():
            if begin.number < self.oracle.blind_to:
                continue
            mine = [e for e in self.oracle.events if e.kind == "begin" and e.step == "launch" and (e.rank, e.run) == (rank, begin.run)]
            said = [(self.witness / "said" / f"{e.attempt}.{rank}").read_bytes() for e in mine]
            got = self.box.run("logs", "--rank", rank, begin.run, env=self.env()).ok().raw_out
            if not got.endswith(said[-1]) or (mine[0].number >= self.oracle.blind_to and not cut_texts(got[:-len(said[-1])], said[:-1])):
                raise Violation(f"logs of rank {rank} ({len(got)} bytes) are not what it wrote ({[len(s) for s in said]} bytes) in {mine}\n"
                                f"--- logs\n{got[-1500:]!r}\n--- written\n{b''.join(said)[-1500:]!r}")

    def outputs_are_equal(self, snapshot, launch):
        for rule in snapshot.outputs:
            several = rule["nodes"] == "all" and snapshot.nodes > 1
            for rank, (begin, end) in launch.items():
                if (rule["nodes"] == "first" and begin.node != 0) or end.status != 0 or begin.number < self.damaged_at:
                    continue
                name = f"node{begin.node + 1}" if self.fleet else f"local-{begin.node}"
                path = self.box.work / rule["to"] / (name if several else ".") / f"{rank}.txt"
                want = (self.witness / "outs" / f"{begin.attempt}.{rank}").read_bytes()
                if not path.exists() or path.read_bytes() != want:
                    what = path.read_bytes()[:200] if path.exists() else "not there"
                    raise Violation(f"{path} is not what rank {rank} wrote: {what!r}, wanted {want[:200]!r}")

    def after(self):
        """Done is done: again, and without the state directory."""
        self.wait_quiet()  # what another controller had begun, and was killed, holds the nodes until it ends
        self.look()
        for how in ["again"] + ["lost"] * (self.chance.random() < 0.4):
            if how == "lost":
                self.lose_state()
            before = len(self.oracle.events)
            result = self.command(*self.words(), self.spec)
            if result.rc != 0:
                raise Violation(f"it was done, and now the exit status is {result.rc}\n{brief(result)}")
            excused = self.was_split or self.was_wiped or self.last_is_anothers
            if not self.job.always and not (how == "lost" and excused):
                fresh = self.oracle.events[before:]
                if fresh:
                    raise Violation(f"it was done, and the same command ({how}) did something\n{fresh}\n{brief(result)}")
                if how == "again" and "nothing to do" not in result.err:
                    raise Violation(f"it was done, and the same command does not say so\n{brief(result)}")
            self.nobody_left(result)
            self.is_done()

    def no_secret_in_arguments(self):
        needle = self.secret.encode()
        for pid in os.listdir("/proc") if self.in_room else ():
            with contextlib.suppress(OSError):
                if pid.isdigit() and needle in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    raise Violation(f"the secret is an argument of process {pid}")

    def at_the_end(self):
        if self.in_room:
            end = time.monotonic() + 5
            while (serving := self.faults.agents()) and time.monotonic() < end:
                time.sleep(0.02)
            if serving:
                raise Violation(f"agents are left: {serving}")
            left = room.left_in_temporary_folders(self.folder)
            if len(left) > self.faults.killed_sessions:
                raise Violation(f"left in the nodes' /tmp: {left}")
        found = subprocess.run(["grep", "-rlF", "--devices=skip", self.secret, str(self.folder)], capture_output=True, text=True).stdout.split()
        if found:
            raise Violation(f"the secret is in files: {found}")

    def close(self):
        self.box.end()
        if self.fleet:
            self.fleet.down()
        for folder in self.disks:
            subprocess.run(["umount", "-l", str(folder)], check=False)
