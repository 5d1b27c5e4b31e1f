"""After a run with a secret: no byte of it in argv of any process, in state, in logs, on the node's disk."""
import json
import os
import pathlib
import threading

import pytest

SECRET = "s3cr3t-Wq8Zt5vN2rLx7Kd4"


class Watcher:
    """Samples every process's arguments until stopped; keeps those that hold the secret."""

    def __init__(self):
        self.hits = set()
        self.samples = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self.over.is_set():
            for pid in os.listdir("/proc"):
                if pid.isdigit():
                    try:
                        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    except OSError:
                        continue
                    if SECRET.encode() in argv:
                        self.hits.add(argv)
            self.samples += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def files_with_the_secret(folder):
    hits = []
    for p in pathlib.Path(folder).rglob("*"):
        if p.is_file() and not p.is_symlink() and SECRET.encode() in p.read_bytes():
            hits.append(str(p))
    return hits


RUN = "sleep 0.3; test ${#TOKEN} = %d && echo the length is right; echo leaking $TOKEN; echo leaking $TOKEN >&2" % len(SECRET)


@pytest.mark.parametrize("where", ["local", "ssh", "openssh"])
def test_a_secret_leaves_no_trace(box, fleet, rhrun, where):
    spec = {"name": "s", "secrets": ["TOKEN"], "distributed": {"nproc_per_node": 2}, "entrypoint": {"run": RUN},
            "setup": [{"name": "one", "run": RUN}]}
    f = None
    if where != "local":
        f = fleet(2)
        spec["cluster"] = f.cluster(transport=where)
    path = box.spec(spec)
    with Watcher() as watcher:
        r = rhrun(path, env={"TOKEN": SECRET}).ok()
    assert watcher.samples > 3
    assert not watcher.hits
    assert "the length is right" in r.out
    assert "leaking" in r.out and SECRET not in r.text
    assert not files_with_the_secret(box.state)
    assert not files_with_the_secret(box.home)
    if f:
        assert not files_with_the_secret(f.dir)
    for command in (["logs", path], ["show", path], ["status", "--json", path], ["runs", "--json"], ["plan", "--json", path]):
        assert SECRET not in rhrun(*command, env={"TOKEN": SECRET}).text, command


def test_a_secret_split_over_writes_is_masked(box, rhrun):
    half = len(SECRET) // 2
    spec = box.spec({"secrets": ["TOKEN"], "entrypoint": {
        "run": f"printf %s \"${{TOKEN:0:{half}}}\"; sleep 0.3; printf '%s\\n' \"${{TOKEN:{half}}}\""}})
    r = rhrun(spec, env={"TOKEN": SECRET}).ok()
    assert SECRET not in r.text and SECRET not in rhrun("logs", "--no-prefix", spec).text
    assert not files_with_the_secret(box.dir)


def test_a_secret_from_a_file_and_from_a_command(box, rhrun):
    box.spec(SECRET + "\n", "token")
    spec = box.spec({"secrets": [{"name": "A", "file": "token"}, {"name": "B", "command": ["cat", "token"]}],
                     "entrypoint": {"run": f"test ${{#A}} = {len(SECRET)} && test \"$A\" = \"$B\""}})
    rhrun(spec).ok()
    assert not files_with_the_secret(box.state) and not files_with_the_secret(box.home)


def test_a_missing_secret_is_named(box, rhrun):
    r = rhrun(box.spec({"secrets": ["TOKEN"], "entrypoint": {"run": "echo ran"}})).expect(2)
    assert "TOKEN" in r.err and "ran" not in r.out


def test_an_optional_secret(box, rhrun):
    spec = box.spec({"secrets": [{"name": "TOKEN", "optional": True}], "entrypoint": {"run": "echo [${TOKEN-unset}]"}})
    assert "[unset]" in rhrun(spec).ok().out


def test_changing_a_secret_makes_nothing_stale(box, rhrun):
    spec = box.spec({"secrets": ["TOKEN"], "entrypoint": {"run": "echo ran"}})
    rhrun(spec, env={"TOKEN": "first-value"}).ok()
    assert "nothing to do" in rhrun(spec, env={"TOKEN": "second-value"}).ok().err
