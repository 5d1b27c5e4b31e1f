"""The rules that must hold, whatever the faults were, judged from outside by the reports of steps and workers in the witness file.

The witness file has a line for each beginning and each regular end, in the order of these events. `look` reads the new lines
after each command; the other checks follow once a command has said that the job is done.
"""
import re

STATUSES = {0, 1, 3, 4, 130, 143}


class Violation(Exception):
    pass


class Event:
    def __init__(self, number, line):
        self.number, self.line = number, line
        self.kind, rest = line.split(" ", 1)
        head, _, seen = rest.partition(" seen=")
        for word in head.split():
            key, _, value = word.partition("=")
            setattr(self, key, int(value) if key in ("node", "rank", "restart", "world", "status", "pid") else value)
        self.seen = dict(part.split("=", 1) for part in seen.split(";") if part)
        self.slot = (self.step, self.node, self.rank)

    def __repr__(self):
        return f"{self.number}: {self.line}"


class Oracle:
    def __init__(self, folder):
        self.folder = folder # of the witness
        self.path = folder / "witness"
        self.offset, self.events = 0, []
        self.variant_of = {} # run -> the variant that was asked for when its first launch was seen
        self.kept = {}      # variant -> what a launch depended on that was reported as done
        self.journal_only = set()  # variants of which a node's latest launch is another controller's: the journal alone has the one that is done
        self.believed = {}  # (variant, step, node) -> what that step depended on, when a run was reported as done
        self.asked_at = 0   # event behind which a launch must come: it was asked for
        self.foreign_to = 0 # before this event another controller may have launched, or a node lost what it had
        self.wiped_at = 0   # set-up of before this event may be gone, and is done again when there is something to launch
        self.blind_to = 0   # logs of what began before this event may be elsewhere, or lack something

    def read(self):
        """Events since the last time. A line without its end is taken the next time."""
        data = self.path.read_bytes() if self.path.exists() else b""
        end = data.rfind(b"\n") + 1
        fresh = []
        for line in data[self.offset:end].decode(errors="replace").splitlines():
            fresh.append(Event(len(self.events) + len(fresh), line))
        self.offset = end
        self.events += fresh
        return fresh

    # ---- while it goes on ----

    def look(self, snapshots):
        """Judges what is new; snapshots: those of the commands that may have started it, the latest last."""
        for e in self.read():
            if e.kind == "overlap":
                self.fail("two attempts of one slot live at the same time", e)
            if e.kind != "begin":
                continue
            self.once(e)
            matching = [s for s in snapshots if s.versions.get(e.step) == e.version]
            if not matching:
                self.fail(f"a step of a version that no command had: {[s.versions.get(e.step) for s in snapshots]}", e)
            if e.step == "launch":
                self.variant_of.setdefault(e.run, snapshots[-1].variant)
                self.launch(e, matching)
            elif e.step in matching[-1].steps:
                self.set_up(e, matching)

    def once(self, e):
        for other in self.events[:e.number]:
            if other.kind == "begin" and (other.attempt, other.slot) == (e.attempt, e.slot):
                self.fail("an attempt runs twice", other, e)

    def launch(self, e, snapshots):
        for s in reversed(snapshots):
            wrong = self.differs(e, s)
            if not wrong:
                break
        else:
            self.fail("a worker does not see the current code and set-up (saw, wanted): " + str(wrong), e)
        if self.kept.get(s.variant) == s.everything and not s.always:
            self.fail("a launch that was reported as done is launched again, and nothing that it depends on has changed", e)
        if self.kept.get(s.variant) != s.everything:
            self.kept.pop(s.variant, None)

    @staticmethod
    def differs(e, snapshot):
        """file -> what a worker saw and should have seen. What runs on the first node only leaves its file there."""
        return {name: (e.seen.get(name), want) for name, want in snapshot.sees.items()
                if want is not None and e.seen.get(name) != want and not (name == "made.shared" and e.node)}

    def set_up(self, e, snapshots):
        for s in reversed(snapshots):
            if e.step == "use":
                if e.seen.get(str(self.folder / "shared")) == s.shared:
                    break
            elif all(e.seen.get(f) == want for f, want in s.sees.items() if f in e.seen and not f.startswith("made.")):
                break
        else:
            self.fail("a step of set-up does not see the current files", e)
        place = (s.variant, e.step, e.node)
        if self.believed.get(place) == s.steps[e.step][1]:
            self.fail("a step of set-up that was done is done again, and nothing that it depends on has changed", e)
        self.believed.pop(place, None)

    def forget(self, launch=True, set_up=False):
        """Something was asked for, or something changed under way: what was done may be done again."""
        if launch:
            self.kept.clear()
        if set_up:
            self.believed.clear()

    def journal_lost(self):
        """Only the nodes know now what was done: of each job what came last."""
        for variant in self.journal_only:
            self.kept.pop(variant, None)
        self.journal_only.clear()

    # ---- once it is done ----

    def launches(self, snapshot):
        """Every launch, the newest first: rank -> (its beginning, its end or None)."""
        groups, ends = {}, {}
        for e in self.events:
            if e.step == "launch" and e.kind == "begin" and e.rank < snapshot.world:
                groups.setdefault((e.run, e.restart), {})[e.rank] = e
            elif e.step == "launch" and e.kind == "end":
                ends[(e.attempt, e.rank)] = e
        return [{rank: (b, ends.get((b.attempt, rank))) for rank, b in group.items()}
                for group in sorted(groups.values(), key=lambda g: -max(b.number for b in g.values()))]

    def done(self, snapshot):
        """A run says that the job is done: then all of it was really done, with what is current. Returns the launch, or None
        where another controller has launched since: its launch may have failed, or been of something else."""
        found = self.launches(snapshot)
        if not found:
            self.fail("done, and nothing was ever launched")
        for launch in found:
            wrong = self.is_wrong(launch, snapshot)
            anothers = self.may_be_anothers(launch)
            if not wrong and not (anothers and self.lacks_around(snapshot, launch)):
                break
            if not anothers:
                self.fail(f"done, and in its launch {wrong}", *[e for pair in launch.values() for e in pair])
        else:
            self.fail("done, and no launch of what is current ever ended well")
        first = min(b.number for b, _ in launch.values())
        if first < self.asked_at:
            self.fail("a launch was asked for, and none came", *[b for b, _ in launch.values()])
        self.set_up_done(snapshot, first, launch)
        lacks = self.lacks_around(snapshot, launch)
        if lacks:
            self.fail(lacks)
        self.kept[snapshot.variant] = snapshot.everything
        # Another controller may have launched in the middle of it: a node's latest part is of that one then.
        later = any(rank in other and other[rank][0].number > begin.number
                    for other in found if other is not launch for rank, (begin, _) in launch.items())
        (self.journal_only.add if later else self.journal_only.discard)(snapshot.variant)
        for name, (_, depends) in snapshot.steps.items():
            for node in range(snapshot.nodes):
                if any(e.number >= self.wiped_at for e in self.ended(name, snapshot.versions[name], node, None)):
                    self.believed[(snapshot.variant, name, node)] = depends
        return launch if launch is found[0] else None

    def is_wrong(self, launch, snapshot):
        """What keeps a launch from being one that is done; None: nothing."""
        if sorted(launch) != list(range(snapshot.world)):
            return f"of {snapshot.world} ranks only {sorted(launch)} began"
        for begin, end in launch.values():
            if end is None or (end.status != 0 and not (snapshot.ignores and end.status == 9)):
                return f"rank {begin.rank} has not ended well"
            wrong = self.differs(begin, snapshot)
            if wrong or begin.version != snapshot.versions["launch"]:
                return f"rank {begin.rank} is of something else (saw, wanted): {wrong}"
        return None

    def ended(self, step, version, node, before):
        return [e for e in self.events[:before] if e.kind == "end" and (e.step, e.version, e.node, e.status) == (step, version, node, 0)]

    def set_up_done(self, snapshot, first, last):
        for name, (version, _) in snapshot.steps.items():
            for node in range(snapshot.nodes) if name != "shared" else [0]:
                if not self.ended(name, version, node, first):
                    self.fail(f"step {name} {version} had not ended well on node {node} before the launch", *[b for b, _ in last.values()])

    def may_be_anothers(self, launch):
        """Then its controller may have been killed before the epilog, or before it fetched anything."""
        return max(begin.number for begin, _ in launch.values()) < self.foreign_to

    def lacks_around(self, snapshot, last):
        begin = min(b.number for b, _ in last.values())
        end = max(e.number for _, e in last.values())
        for node in {b.node for b, _ in last.values()}:
            if snapshot.prolog and not self.ended("prolog", snapshot.versions["prolog"], node, begin):
                return f"the prolog had not ended well on node {node} before the launch"
            if snapshot.epilog:
                behind = [e for e in self.ended("epilog", snapshot.versions["epilog"], node, None) if e.number > end]
                if not behind:
                    return f"done, and behind the launch no epilog ended well on node {node}"
        return None

    def fail(self, what, *events):
        raise Violation("\n".join([what] + [f"  {e}" for e in events if e is not None]))


def brief(result):
    """A result for people; of what workers print the end will do."""
    return f"$ rhrun {' '.join(map(str, result.args))}: exit status {result.rc}\n{result.out[-400:]}\n--- stderr\n{result.err[-2500:]}"


def judge_command(result, statuses=STATUSES):
    """What every command's end must be like."""
    # Killed; or TERM and INT before the program could take them: the shell calls that 143 and 130.
    if result.rc not in statuses and result.rc not in (-9, -15, -2):
        raise Violation(f"exit status {result.rc} is none that is documented for this\n{brief(result)}")
    bad = re.search(r"(?i)internal error|assert|sanitizer|runtime error:|stack smashing|corrupt|double free", result.err)
    if bad:
        raise Violation(f"{bad.group(0)!r} in what it says\n{brief(result)}")
