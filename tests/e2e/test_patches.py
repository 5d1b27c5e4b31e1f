"""The changes that a set-up step makes to files that were sent are its result: they are there while the step is kept, and are made again
from the source if the source changed. The steps of these tests append to files, so a step that ran twice on a file, or not at all, shows.

Each step writes a line to `ran.STEP` in the home folder, which is in no tree.
"""
import contextlib
import os
import random
import re
import shutil
import signal
import time

import pytest

from harness import processes_of, wait_for, workers_of

SEED = int(os.environ.get("RHRUN_TEST_SEED", random.randrange(1 << 30)))
ROUNDS = int(os.environ.get("RHRUN_TEST_PATCH_ROUNDS", 6))


@pytest.fixture(params=["here", "ssh"])
def place(request, box, fleet):
    """(the cluster's key, the home folder of the one node)"""
    if request.param == "here":
        return {}, box.home
    f = fleet(1)
    return {"cluster": f.cluster()}, f.home(1)


@pytest.fixture
def src(box):
    folder = box.work / "src"
    folder.mkdir()
    for name in "abcd":
        (folder / name).write_text(name + "\n")
    (folder / "other").write_text("1\n")
    return folder


def item(name, script, narrow=True, **more):
    """A step that is not chained to the tree: `inputs` names a file that no step changes."""
    return {"name": name, "run": f"{script}\necho {name} >>~/ran.{name}", **({"inputs": ["narrow"]} if narrow else {}), **more}


def spec_of(box, place, setup, **more):
    (box.work / "src/narrow").write_text("")
    return box.spec({"workdir": "src", "setup": setup, "entrypoint": {"run": "cat a b c d 2>&1", "always": True}, **place[0], **more})


def ran(place, name):
    path = place[1] / f"ran.{name}"
    return len(path.read_text().splitlines()) if path.exists() else 0


def shown(result):
    return [re.sub(r"^default\[\d\]@[^:]*: ", "", line) for line in result.ok().out.splitlines()]


def folder_of(place):
    found = sorted(p for p in (place[1] / ".rhrun/work").glob("*/*") if p.is_dir())
    assert len(found) == 1, found
    return found[0]


def test_patched_code_runs_again_and_again(box, rhrun, src, place):
    (src / "a.sh").write_text("echo original\n")
    spec = box.spec({"workdir": "src", "setup": [{"run": "sed -i s/original/patched/ a.sh"}],
                     "entrypoint": {"run": "sh a.sh", "always": True}, **place[0]})
    for _ in range(3):
        assert "patched" in rhrun(spec).ok().out
    assert "keep        run-1" in rhrun("plan", spec).ok().out
    (src / "a.sh").write_text("echo the original of today\n")
    assert "the patched of today" in rhrun(spec).ok().out


@pytest.mark.parametrize("anothers", [False, True], ids=["put-back", "another-controller"])
def test_a_launch_that_was_only_decided_finds_it_patched(box, rhrun, src, place, anothers):
    """The launch was committed and never began; meanwhile the file is as it was brought. It is patched before the launch begins."""
    (src / "a").write_text("original\n")
    spec = box.spec({"workdir": "src", "setup": [item("patch", "sed -i s/original/patched/ a", narrow=False)],
                     "entrypoint": {"run": "cat a >>~/seen"}, **place[0]})
    other = {"RHRUN_HOME": str(box.dir / "state2")}
    for event in range(6, 20):
        shutil.rmtree(place[1] / ".rhrun", ignore_errors=True)
        shutil.rmtree(box.state, ignore_errors=True)
        shutil.rmtree(box.dir / "state2", ignore_errors=True)
        (place[1] / "seen").unlink(missing_ok=True)
        killed = rhrun(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": event})
        wait_for(lambda: not workers_of(box.dir), what="the end of what runs on")
        found = sorted((place[1] / ".rhrun/work").glob("*/*/a"))
        if found and not (place[1] / "seen").exists():
            found[0].write_text("original\n")
        if anothers:
            rhrun(spec, env=other).ok()
        rhrun(spec).ok()
        assert (place[1] / "seen").read_text() == "patched\n", f"killed after event {event}"
        if killed.rc == 0:
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_taken_over_while_it_patches(box, rhrun, src, place, killed):
    """Another controller attaches to the step and brings the files again; what the step changed is put back. Who goes on
    with the launch that was decided meanwhile does the step again first."""
    home = place[1]
    (src / "a").write_text("original\n")
    slow = "if [ -e ~/slow ]; then touch ~/begun; while [ ! -e ~/go ]; do sleep 0.02; done; fi"
    spec = box.spec({"workdir": "src", "setup": [item("patch", f"sed -i s/original/patched/ a\n{slow}")],
                     "entrypoint": {"run": "cat a >>~/seen"}, **place[0]})
    rhrun(spec).ok()
    shutil.rmtree(box.state)
    (home / "slow").touch()
    first = box.start("--from", "patch", spec)
    wait_for(lambda: (home / "begun").exists(), what="the step")
    if killed:
        first.kill9()
    other = box.start("--take-over", spec, env={"RHRUN_HOME": str(box.dir / "state2")})
    time.sleep(0.5)  # it attaches
    (home / "go").touch()
    other.wait().ok()
    if not killed:
        first.wait().expect(4)
    rhrun(spec).ok()
    assert (home / "seen").read_text() == "patched\n" * 2


def test_the_source_of_a_changed_file_changes(box, rhrun, src, place):
    """Its `inputs` do not name the file."""
    spec = spec_of(box, place, [item("kernels", "echo patched >>a")])
    assert shown(rhrun(spec))[:2] == ["a", "patched"]
    (src / "other").write_text("2\n")
    assert shown(rhrun(spec))[:2] == ["a", "patched"]
    assert ran(place, "kernels") == 1
    (src / "a").write_text("new\n")
    plan = rhrun("plan", spec).ok().out
    assert "run again   kernels" in plan and "a, which it changes, is a different file now" in plan
    r = rhrun(spec)
    assert shown(r)[:3] == ["new", "patched", "b"]
    assert 'step "kernels" runs again: a, which it changes, is a different file now' in r.err
    assert ran(place, "kernels") == 2
    assert shown(rhrun(spec))[:3] == ["new", "patched", "b"]
    assert ran(place, "kernels") == 2
    os.unlink(src / "a")
    assert "kernels" in rhrun("plan", spec).ok().out
    assert shown(rhrun(spec))[0] == "patched"
    assert ran(place, "kernels") == 3


@pytest.mark.parametrize("script,check", [
    ("rm a", lambda p: not p.exists()),
    ("chmod 755 a", lambda p: p.stat().st_mode & 0o777 == 0o755),
    ("ln -sf b a", lambda p: p.is_symlink()),
    ("touch -d 2001-01-01 a", lambda p: p.stat().st_mtime < 1e9),
    ("mv a e && mkdir a && mv e a/", lambda p: (p / "e").exists()),
])
def test_every_kind_of_change(box, rhrun, src, place, script, check):
    spec = spec_of(box, place, [item("kernels", script)], entrypoint={"run": "true", "always": True})
    for _ in range(2):
        rhrun(spec).ok()
        assert check(folder_of(place) / "a")
    assert ran(place, "kernels") == 1
    shutil.rmtree(folder_of(place) / "a", ignore_errors=True)
    (src / "b").write_text("new\n")
    (src / "a").write_text("a again\n")
    if "mkdir" not in script:
        rhrun(spec).ok()
        assert check(folder_of(place) / "a") and ran(place, "kernels") == 2


def test_files_that_copy_and_files_bring(box, rhrun, src, place):
    (box.work / "one").write_text("one\n")
    (box.work / "two").mkdir()
    (box.work / "two/x").write_text("two\n")
    setup = [{"copy": "two", "to": "two"}, item("kernels", "echo patched >>extra/one; echo patched >>two/x")]
    spec = spec_of(box, place, setup, files=[{"from": "one", "to": "extra/one"}],
                   entrypoint={"run": "cat extra/one two/x", "always": True})
    for _ in range(2):
        assert shown(rhrun(spec)) == ["one", "patched", "two", "patched"]
    assert ran(place, "kernels") == 1
    (box.work / "two/x").write_text("new\n")
    assert shown(rhrun(spec)) == ["one", "patched", "new", "patched"]
    (box.work / "one").write_text("new\n")
    assert shown(rhrun(spec)) == ["new", "patched", "new", "patched"]
    assert ran(place, "kernels") == 3


def test_several_steps_that_change_one_file(box, rhrun, src, place):
    steps = [item("s1", "echo 1 >>a"), item("s2", "echo 2 >>a; echo 2 >>b"), item("s3", "echo 3 >>b"), item("s4", "echo 4 >>c")]
    want = ["a", "1", "2", "b", "2", "3", "c", "4", "d"]

    def counts():
        return [ran(place, f"s{i}") for i in (1, 2, 3, 4)]

    spec = spec_of(box, place, steps)
    for _ in range(2):
        assert shown(rhrun(spec)) == want
    assert counts() == [1, 1, 1, 1]
    (src / "b").write_text("new\n")  # s2 and s3 change it, so a is put back, so s1 runs, too
    want[3] = "new"
    assert shown(rhrun(spec)) == want
    assert counts() == [2, 2, 2, 1]
    assert shown(rhrun("--from", "s2", spec)) == want
    assert counts() == [3, 3, 3, 2]
    steps[2] = item("s3", "echo three >>b")
    want[5] = "three"
    assert shown(rhrun(spec_of(box, place, steps))) == want
    assert counts() == [4, 4, 4, 2]
    del steps[1]
    assert shown(rhrun(spec_of(box, place, steps))) == ["a", "1", "new", "three", "c", "4", "d"]
    assert counts() == [5, 4, 5, 2]
    assert shown(rhrun("--fresh", spec_of(box, place, steps))) == ["a", "1", "new", "three", "c", "4", "d"]


def test_what_follows_from_it_runs_again(box, rhrun, src, place):
    """s2 chains to s1 and to the venv's steps only by its place in the list."""
    setup = [item("s1", "echo patched >>a"), item("s2", "cp a copy-of-a", narrow=False)]
    spec = spec_of(box, place, setup, entrypoint={"run": "cat copy-of-a", "always": True})
    assert shown(rhrun(spec)) == ["a", "patched"]
    folder = folder_of(place)
    (folder / "a").write_text("changed there\n")
    r = rhrun(spec)
    assert shown(r) == ["a", "patched"] and (folder / "a").read_text() == "a\npatched\n"
    assert 'step "s1" runs again: a, which it changed, is not as the step left it' in r.err
    assert (ran(place, "s1"), ran(place, "s2")) == (2, 2)


def test_what_a_launch_changes_is_put_back(box, rhrun, src, place):
    spec = spec_of(box, place, [item("s1", "echo patched >>a")], entrypoint={"run": "echo launch >>a; echo launch >>b; cat a b", "always": True})
    for i in range(2):
        assert shown(rhrun(spec)) == ["a", "patched", "launch", "b", "launch"]
        assert ran(place, "s1") == i + 1


def test_a_step_that_fails_finds_the_source_again(box, rhrun, src, place):
    script = "echo patched >>a; [ -e ~/good ] || { touch ~/good; exit 3; }"
    spec = spec_of(box, place, [item("s0", "echo 0 >>a"), item("s1", script, retry={"times": 1, "backoff": "1ms"})])
    assert shown(rhrun(spec))[:4] == ["a", "0", "patched", "b"]
    assert (ran(place, "s0"), ran(place, "s1")) == (2, 1)
    os.unlink(place[1] / "good")
    spec = spec_of(box, place, [item("s0", "echo 0 >>a"), item("s1", script)])
    rhrun("--from", "s1", spec).expect(1)
    assert shown(rhrun(spec))[:4] == ["a", "0", "patched", "b"]


def test_the_state_directory_is_lost(box, rhrun, src, place):
    spec = spec_of(box, place, [item("s1", "echo patched >>a"), item("s2", "echo more >>a", narrow=False)])
    assert shown(rhrun(spec))[:4] == ["a", "patched", "more", "b"]
    shutil.rmtree(box.state)
    assert shown(rhrun(spec))[:4] == ["a", "patched", "more", "b"]
    assert (ran(place, "s1"), ran(place, "s2")) == (1, 1)
    shutil.rmtree(box.state)
    (src / "a").write_text("new\n")
    assert shown(rhrun(spec))[:4] == ["new", "patched", "more", "b"]


def test_the_index_is_lost(box, rhrun, src, place):
    spec = spec_of(box, place, [item("s1", "echo patched >>a")])
    rhrun(spec).ok()
    shutil.rmtree(place[1] / ".rhrun/t")
    for _ in range(2):
        assert shown(rhrun(spec))[:3] == ["a", "patched", "b"]
    assert ran(place, "s1") == 2


def test_nodes_that_share_a_home(box, rhrun, fleet, src):
    """Each does the step, one after the other, on the one file."""
    f = fleet(2, shared_home=True)
    place = {"cluster": f.cluster()}, f.home(1)
    lock = "until mkdir ~/lock 2>/dev/null; do sleep 0.02; done; {}; rmdir ~/lock"
    spec = spec_of(box, place, [item("s1", lock.format("grep -q patched a || echo patched >>a; touch a"))],
                   distributed={"nproc_per_node": 1})
    for _ in range(3):
        assert shown(rhrun(spec)).count("patched") == 2
    before = ran(place, "s1")
    assert shown(rhrun(spec)).count("patched") == 2 and ran(place, "s1") == before
    (src / "a").write_text("new\n")
    for _ in range(2):
        out = shown(rhrun(spec))
        assert out.count("patched") == 2 and out.count("new") == 2


def test_an_item_before_the_place_of_its_file(box, rhrun, src, place):
    """At first the item does not find the file that a later one brings; later it does."""
    (box.work / "late").write_text("late\n")
    steps = [item("s1", "[ ! -e x/late ] || echo patched >>x/late"), {"copy": "late", "to": "x/late"}]
    spec = spec_of(box, place, steps, entrypoint={"run": "cat x/late", "always": True})
    assert shown(rhrun(spec)) == ["late"]
    assert shown(rhrun("--from", "s1", spec)) in (["late"], ["late", "patched"])
    again = shown(rhrun(spec))
    count = ran(place, "s1")
    assert shown(rhrun(spec)) == again and ran(place, "s1") == count, "it comes to rest"


def fresh(src):
    a, b, c, d = ((src / n).read_text() for n in "abcd")
    return (a + "1\n2\n" + b + "2\n" + c + "3\n" + d).splitlines()


def three(box, place):
    return spec_of(box, place, [item("s1", "echo 1 >>a; sleep 0.02"), item("s2", "echo 2 >>a; sleep 0.02; echo 2 >>b", narrow=False),
                                item("s3", "echo 3 >>c")])


@pytest.mark.parametrize("event", range(1, 15))
def test_the_controller_is_killed_after_every_event(box, rhrun, src, event):
    place = {}, box.home
    spec = three(box, place)
    box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": event})
    assert shown(rhrun(spec))[-len(fresh(src)):] == fresh(src)
    (src / "a").write_text("new\n")
    box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": event})
    assert shown(rhrun(spec))[-len(fresh(src)):] == fresh(src)
    counts = [ran(place, s) for s in ("s1", "s2", "s3")]
    assert shown(rhrun(spec)) == fresh(src)
    assert counts == [ran(place, s) for s in ("s1", "s2", "s3")]


def test_everything_is_killed_at_random_instants(box, rhrun, fleet, src):
    """The controller, or all that runs on the node; then files change, or the state directory is lost."""
    source = random.Random(SEED)
    f = fleet(1)
    place = {"cluster": f.cluster()}, f.home(1)
    spec = three(box, place)
    took = rhrun(spec).ok().seconds
    for i in range(ROUNDS):
        for name in source.sample("abcd", source.randrange(3)):
            (src / name).write_text(f"{name} {i}\n")
        if source.random() < 0.3:
            shutil.rmtree(box.state)
        flags = source.choice([[], [], ["--from", "s2"], ["--from", "s3"]])
        r = box.start(*flags, spec)
        try:
            r.process.wait(source.uniform(0, took))
        except Exception:  # the time is over
            for p in processes_of(f.dir) if source.random() < 0.5 else []:
                if p.attempt or "rhrun-supervise" in repr(p):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(p.pid, signal.SIGKILL)
            r.kill9()
        out = shown(rhrun(spec))
        assert out[-len(fresh(src)):] == fresh(src), f"seed {SEED}, {i}"
        assert shown(rhrun(spec)) == fresh(src), f"seed {SEED}, {i}"
    wait_for(lambda: not [p for p in processes_of(f.dir) if p.attempt], what="the end of all attempts")
