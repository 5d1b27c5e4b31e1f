"""A random small job, its changes from run to run, and the files that its steps must see.

Every file has a version in its text ("a-3"), every step has one among its words ("v2"): so a worker's report tells with which version
of everything the worker ran.
"""
import hashlib
import json

CODE = {"a.txt": "a", "b/c.txt": "c", "p.txt": "orig"}
ITEMS = ("one", "two", "patch", "shared", "use", "extra")
FAIL_STATUS, RESTART_STATUS, FATAL_STATUS, IGNORED_STATUS = 7, 5, 6, 9


def digest(*parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


class Job:
    def __init__(self, chance, room, cluster, nodes):
        """room: folder of the spec; cluster: its text in the spec, None for this machine."""
        self.folder, self.cluster, self.nodes, self.shared_home = room, cluster, nodes, False
        self.workdir = chance.random() < 0.75
        self.code = dict.fromkeys(CODE, 1) if self.workdir else {}
        self.vocab = 1 if chance.random() < 0.3 else 0
        self.extra = 1
        self.launch, self.prolog, self.epilog = 1, int(chance.random() < 0.4), int(chance.random() < 0.4)
        self.always = chance.random() < 0.05
        self.activate = chance.random() < 0.1
        allowed = [i for i in ITEMS if self.workdir or i != "patch"]
        self.items = {i: 1 for i in allowed if i != "use" and chance.random() < 0.35}
        if "shared" in self.items:
            self.items["use"] = 1
        self.items = {i: self.items[i] for i in ITEMS if i in self.items}
        self.retry, self.creates = chance.random() < 0.3, chance.random() < 0.2
        self.params = {"p": "0"} if chance.random() < 0.3 else {}
        self.shape(chance)
        self.rules = [r for r, share in ((RESTART_STATUS, 0.25), (IGNORED_STATUS, 0.25), (FATAL_STATUS, 0.15)) if chance.random() < share]
        self.outputs = self.random_outputs(chance)
        self.write()

    def shape(self, chance):
        """One plain process, ranked workers, or roles."""
        kind = chance.choice(["plain", "ranks", "ranks", "ranks", "roles"]) if self.nodes == 1 or self.cluster else chance.choice(["ranks", "ranks", "roles"])
        self.restarts = 0 if kind == "plain" else chance.choice([0, 0, 1, 2])
        self.per_node = chance.choice([1, 1, 2]) if kind == "ranks" else 0
        self.roles = {"first": chance.randint(1, 2), "second": chance.randint(1, 2)} if kind == "roles" else {}
        self.after = self.roles and chance.random() < 0.3
        self.world = sum(self.roles.values()) or self.per_node * self.nodes or 1

    @staticmethod
    def random_outputs(chance):
        if chance.random() < 0.35:
            return []
        often = {"every": "200ms"} if chance.random() < 0.15 else {}
        return [{"from": chance.choice(["out/", "out/*.txt"]), "to": "got", "nodes": chance.choice(["first", "all"]), **often}]

    # ---- the files ----

    def text_of(self, name):
        return f"{CODE[name]}-{self.code[name]}\n"

    def write(self):
        """Puts the spec and all that it names into its folder."""
        files = {f"src/{name}": self.text_of(name) for name in self.code}
        if self.vocab:
            files["data/vocab.txt"] = f"vocab-{self.vocab}\n"
        if "extra" in self.items:
            files["data/extra/e.txt"] = f"extra-{self.extra}\n"
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        path = self.folder / "job.yaml"
        path.write_text(json.dumps(self.spec(), indent=1))
        return path

    def step(self, name, version, *files):
        return " ".join(["sh", "$W/w", name, f"v{version}", *files])

    def item(self, name):
        version = self.items[name]
        every = [f for f in self.code if f != "p.txt"]
        if name == "extra":
            return {"name": name, "copy": "data/extra", "to": "extra"}
        run = {"name": name, "run": self.step(name, version, *every)}
        if name == "two" and self.workdir:
            run = {"name": name, "run": self.step(name, version, "a.txt"), "inputs": ["a.txt"]}
        elif name == "patch":
            run["run"] = f"sed -i s/^orig/patched/ p.txt; {self.step(name, version)}"
        elif name == "shared":
            run["on"] = "first"
        elif name == "use":
            run["run"] = self.step(name, version, "$W/shared")
        if self.creates and name == "one":
            run["creates"] = "made.one"
        if self.retry and name in ("one", "use"):
            run["retry"] = {"times": 1, "backoff": "100ms"}
        return run

    def spec(self):
        files = list(self.code) + (["vocab.txt"] if self.vocab else []) + (["extra/e.txt"] if "extra" in self.items else []) + \
            [f"made.{i}" for i in self.items if i != "extra"]
        entrypoint = {"run": self.step("launch", self.launch, *files)}
        if self.params:
            entrypoint["run"] = "export variant=${{ params.p }}; " + entrypoint["run"]
        for around in ("prolog", "epilog"):
            if getattr(self, around):
                entrypoint[around] = self.step(around, getattr(self, around))
        if self.always:
            entrypoint["always"] = True
        spec = {"name": "chaos", "cluster": self.cluster, "workdir": "src" if self.workdir else None, "params": self.params,
                "files": [{"from": "data/vocab.txt", "to": "vocab.txt"}] if self.vocab else None,
                "activate": "export CHAOS_ACTIVE=1" if self.activate else None,
                "env": {"W": str(self.shared_path().parent)}, "secrets": [{"name": "CHAOS_SECRET", "to": "TOKEN"}],
                "setup": [self.item(i) for i in self.items], "distributed": self.distributed(),
                "roles": {name: {"count": count, **({"after": {"first": "done"}} if self.after and name == "second" else {})}
                          for name, count in self.roles.items()},
                "failure_rules": [self.rule(r) for r in self.rules], "outputs": self.outputs, "entrypoint": entrypoint}
        return {k: v for k, v in spec.items() if v}

    def distributed(self):
        if not self.per_node and not self.roles:
            return None
        found = {"max_restarts": self.restarts}
        if self.per_node:
            found["nproc_per_node"] = self.per_node
        if not self.cluster:
            found["nnodes"] = self.nodes
        return found

    @staticmethod
    def rule(status):
        rule = {"match": {"exit_status": status}}
        return {**rule, "action": "restart", "times": 2} if status == RESTART_STATUS else \
            {**rule, "action": "ignore" if status == IGNORED_STATUS else "fail"}

    # ---- edits ----

    def edit(self, chance):
        """Changes something; returns what, for people."""
        kinds = ["code"] * 3 * bool(self.code) + ["launch", "item", "item", "drop", "vocab", "extra", "around", "outputs"]
        kind = chance.choice(kinds)
        runs = [i for i in self.items if i != "extra"]
        if kind == "code":
            names = [n for n in self.code]
            name = chance.choice(names)
            self.code[name] += 1
            kind = name
        elif kind == "item" and runs:
            name = chance.choice(runs)
            self.items[name] += 1
            kind = f"step {name}"
        elif kind == "drop" and runs:
            name = chance.choice([i for i in runs if i != "shared"] or ["two"])
            self.items.pop(name, None)
            kind = f"without step {name}"
        elif kind == "vocab" and self.vocab:
            self.vocab += 1
        elif kind == "extra" and "extra" in self.items:
            self.extra += 1
        elif kind == "around" and (self.prolog or self.epilog):
            self.prolog += bool(self.prolog)
            self.epilog += bool(self.epilog)
        elif kind == "outputs" and self.outputs:
            self.outputs = [{"from": "out/", "to": chance.choice(["got", "other"]), "nodes": chance.choice(["first", "all"])}]
        else:
            self.launch += 1
            kind = "launch"
        self.write()
        return kind

    # ---- what must hold ----

    def everything(self):
        """All that the launch depends on."""
        spec = self.spec()
        for free in ("outputs", "failure_rules"):
            spec.pop(free, None)
        return digest(spec, self.code, self.vocab, self.extra)

    def depends(self, name):
        """All that may make this step of set-up run again."""
        if self.shared_home and "patch" in self.items:
            # All nodes patch one file, and what runs on another one meanwhile cannot be told from who changed it: it may
            # count as that, too, and is done again with the patch.
            return digest([self.item(i) for i in self.items], self.code, self.vocab, self.extra, self.activate)
        if name == "two" and self.workdir:
            return digest(self.item(name), self.code["a.txt"], self.activate)
        return self.everything_before(name)

    def everything_before(self, name):
        before = []
        for i in self.items:
            before.append(self.item(i))
            if i == name:
                break
        return digest(before, self.code, self.vocab, self.extra, self.activate)

    def content(self, name):
        text = self.text_of(name).strip()
        return text.replace("orig", "patched") if name == "p.txt" and "patch" in self.items else text

    def made(self, name):
        """What a step of set-up leaves in its file."""
        seen = [f for f in self.code if f != "p.txt"]
        if name == "two":
            seen = seen[:1]
        elif name == "patch":
            seen = []
        elif name == "use":
            return f"v{self.items[name]}:{self.shared_path()}=v{self.items['shared']},"
        text = "".join(f"{f}={self.content(f)}," for f in seen)
        return f"v{self.items[name]}:{text}"

    def shared_path(self):
        return self.folder.parent / "w" / "shared"

    def launch_sees(self):
        """What a worker of the launch sees: file -> its first line; None: it is not known."""
        seen = {f: self.content(f) for f in self.code}
        if self.vocab:
            seen["vocab.txt"] = f"vocab-{self.vocab}"
        if "extra" in self.items:
            seen["extra/e.txt"] = f"extra-{self.extra}"
        seen.update({f"made.{i}": self.made(i) for i in self.items if i != "extra"})
        return seen

    def snapshot(self, variant):
        """All of it as it is now: what a command starts with."""
        return Snapshot(self, variant)


class Snapshot:
    def __init__(self, job, variant):
        self.variant, self.sees, self.everything = variant, job.launch_sees(), digest(job.everything(), variant)
        self.steps = {i: (f"v{job.items[i]}", job.depends(i)) for i in job.items if i != "extra"}
        self.versions = {"launch": f"v{job.launch}", "prolog": f"v{job.prolog}", "epilog": f"v{job.epilog}"}
        self.versions.update({name: version for name, (version, _) in self.steps.items()})
        self.world, self.nodes = job.world, job.nodes
        self.prolog, self.epilog, self.always = job.prolog, job.epilog, job.always
        self.ignores = IGNORED_STATUS in job.rules
        self.outputs = [dict(o) for o in job.outputs]
        self.shared = f"v{job.items['shared']}" if "shared" in job.items else None
