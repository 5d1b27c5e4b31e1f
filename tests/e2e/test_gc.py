"""rhrun gc: which files it finds here and which it leaves alone; a later run does only what is missing."""
import json
import os
import signal

import pytest

from harness import wait_for

DAY = 24 * 3600 * 1000
LONG_AGO = {"RHRUN_TEST_CLOCK_OFFSET_MS": -60 * DAY}
SPEC = """
name: old
workdir: {path: ./tree}
params: {p: {type: string, default: a}}
setup: [{name: one, run: 'echo set-up-says; echo one >>$HOME/lines'}]
entrypoint: {run: 'echo run-says ${{ params.p }}; echo launch >>$HOME/lines'}
"""


def gc(rhrun, *args, **how):
    r = rhrun("gc", "--json", *args, **how).ok()
    found = r.json()
    return {i["kind"]: i for i in found["items"]}, found


def logs_of(box):
    return sorted(p for p in box.state.rglob("*.spool") if p.stat().st_size)


@pytest.fixture
def old(box, rhrun):
    """Three runs of long ago, each with another file of 9 MB, and one of today."""
    spec = box.spec(SPEC)
    (box.work / "tree").mkdir()
    for i, env in enumerate((LONG_AGO, LONG_AGO, LONG_AGO, {})):
        (box.work / "tree" / "large").write_bytes(os.urandom(9_000_000))
        (box.work / "tree" / "small").write_text(str(i))
        rhrun(spec, env=env).ok()
    return spec


def test_old_logs_and_snapshots_go(box, rhrun, old):
    before, runs = {p: p.stat().st_size for p in box.state.rglob("*") if p.is_file()}, json.loads(rhrun("runs", "--json").ok().out)
    items, found = gc(rhrun, "--dry-run")
    assert items["logs"]["count"] == 3 and items["snapshots"]["bytes"] > 26_000_000 and not found["removed"], found
    assert items["logs"]["job"] == "old" and 59 * DAY < json.loads(rhrun("gc", "--json").out)["items"][0]["used_ms"], found
    after = {p: p.stat().st_size for p in box.state.rglob("*") if p.is_file() and "journal.db" not in p.name}
    assert all(before.get(p) == size for p, size in after.items() if p.name not in ("lock", "rhrun-lock")), "a dry run changed something"
    r = rhrun("gc").ok()  # nobody to ask, so nothing is done
    assert "logs of 3 runs" in r.out and "rhrun gc --yes" in r.err and logs_of(box), r

    r = rhrun("gc", "--yes").ok()
    assert "freed" in r.err and len(list(box.state.rglob("big/*"))) == 1, r
    assert "nothing to remove" in rhrun("gc", "--yes").ok().err
    assert json.loads(rhrun("runs", "--json").ok().out) == runs
    assert "run-says" in rhrun("logs", "last").ok().out
    assert "removed" in rhrun("logs", sorted(runs, key=lambda r: r["opened_ms"])[0]["run"]).ok().text
    done = box.lines()
    assert "nothing to do" in rhrun(old).ok().text and box.lines() == done
    rhrun("rerun", "last", "--yes").ok()  # its files are there


def test_files_that_went_are_stored_again(box, rhrun, old):
    """The table of the stored contents went with them."""
    first = os.urandom(9_000_000)
    (box.work / "tree" / "large").write_bytes(first)
    rhrun(old, env=LONG_AGO).ok()
    (box.work / "tree" / "large").write_bytes(os.urandom(9_000_000))
    rhrun(old).ok()
    rhrun("gc", "--yes").ok()
    (box.work / "tree" / "large").write_bytes(first)
    rhrun(old).ok()
    (box.work / "tree" / "large").unlink()
    rhrun("rerun", "last", "--yes").ok()


def test_what_is_open_or_held_is_left_alone(box, rhrun):
    spec = box.spec(SPEC.replace("echo launch", "echo; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo launch"))
    (box.work / "tree").mkdir()
    (box.home / "go").touch()
    rhrun(spec, env=LONG_AGO).ok()
    rhrun(spec, "-p", "p=b", env=LONG_AGO).ok()
    (box.home / "go").unlink()
    run = box.start(spec, "-p", "p=c", env=LONG_AGO)
    wait_for(lambda: "run-says c" in run.text)
    assert gc(rhrun, "--older-than", "0s")[1]["items"] == []  # it lives
    run.kill9()
    items, _ = gc(rhrun, "--older-than", "0s", "--yes")
    assert items["logs"]["count"] == 1 and items["logs"]["state"] == "removed", items
    (box.home / "go").touch()
    r = rhrun(spec, "-p", "p=c").ok()
    assert box.lines().count("launch") == 3, r


def test_a_clock_that_was_ahead_makes_nothing_old(box, rhrun):
    spec = box.spec(SPEC)
    (box.work / "tree").mkdir()
    for p in "abc":
        rhrun(spec, "-p", f"p={p}", env={"RHRUN_TEST_CLOCK_OFFSET_MS": 400 * DAY}).ok()
    assert gc(rhrun, "--older-than", "0s")[1]["items"] == []


def test_no_link_is_followed_and_a_kill_leaves_all_else(box, rhrun, old, tmp_path):
    """Neither a run's folder that is a link, nor a log that is one, leads elsewhere."""
    others = tmp_path / "others"
    others.mkdir()
    (others / "x.spool").write_text("precious")
    runs = sorted((p for p in box.state.glob("jobs/*/runs/*")), key=lambda p: p.stat().st_mtime)
    runs[0].rename(runs[0].with_name("elsewhere"))
    runs[0].symlink_to(others)
    (runs[1] / "y.spool").symlink_to(others / "x.spool")
    killed = box.start("gc", "--yes")
    killed.signal(signal.SIGKILL)
    killed.wait()
    rhrun("gc", "--yes").ok()
    assert (others / "x.spool").read_text() == "precious" and sorted(os.listdir(others)) == ["x.spool"]
    assert "nothing to do" in rhrun(old).ok().text
    rhrun("rerun", "last", "--yes").ok()


def test_it_asks_on_a_terminal(box, old, terminal):
    for answer, left in ((b"n\n", 4), (b"y\n", 1)):
        t = terminal("gc")
        t.pump(lambda text: "[y/N]" in text)
        t.send(answer)
        t.pump()
        assert t.rc == 0 and len(list(box.state.rglob("big/*"))) == left, t.display()


@pytest.mark.parametrize("args, words", [
    (["--older-than", "old"], "is not a time"), (["--dry-run", "--yes"], "--dry-run changes nothing"), (["x.yaml"], "x.yaml")])
def test_wrong_words(rhrun, args, words):
    assert words in rhrun("gc", *args).expect(2).err


def test_bundles_go_and_are_taken_in_again(box, rhrun, old):
    bundle = box.work / "all.bundle"
    rhrun("show", "last", "--bundle", bundle).ok()
    rhrun("rerun", bundle, "--yes").ok()
    (store,) = box.state.glob("reruns/bundle-*.git")
    assert "bundle" not in gc(rhrun)[0]
    os.utime(str(store)[:-4] + ".lock.yaml", (1, 1))
    items, _ = gc(rhrun, "--yes")
    assert items["bundle"]["state"] == "removed" and items["bundle"]["bytes"] > 9_000_000 and not store.exists(), items
    rhrun("rerun", bundle, "--yes").ok()
