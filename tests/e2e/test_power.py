"""Power cuts: of a node, of the controller's machine, and clocks that are wrong afterwards.

The disk is real: an ext4 on a loop device that writes nothing by itself for ten minutes. A cut kills all processes, takes
the image as the device has it at that moment, and mounts this image: data that were not synced are gone, whoever wrote them. A file
outside of the disk (`witness`) counts how often a step really ran.
"""
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from harness import agent_processes, missing, require, wait_for, workers_of

NEXT_BOOT = {"RHRUN_TEST_BOOT_ID": "the-boot-after-the-cut"}


def run_tool(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


class Disk:
    """A file system of its own whose power can be cut."""

    def __init__(self, box, path, name):
        self.box, self.path, self.name, self.serial = box, path, name, 0
        image = self._image()
        with open(image, "wb") as f:
            f.truncate(24 << 20)
        run_tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        self._mount()
        (self.path / "lost+found").rmdir()
        self.path.chmod(0o700)
        self.sync()

    def _image(self):
        return self.box.dir / f"{self.name}.{self.serial}.img"

    def _mount(self):
        self.path.mkdir(parents=True, exist_ok=True)
        run_tool("mount", "-o", "loop,commit=600", self._image(), self.path)

    def sync(self):
        run_tool("sync", "-f", self.path)

    def cut(self):
        before = self._image()
        self.serial += 1
        run_tool("cp", "--sparse=always", before, self._image())
        self.close()
        before.unlink()
        self._mount()

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)


@pytest.fixture
def disk(box):
    """disk(path): an ext4 there, until the test ends."""
    require("mount")
    if not shutil.which("mkfs.ext4"):
        missing("mkfs.ext4", "apt-get install e2fsprogs")
    opened = []

    def make(path, name="disk"):
        try:
            opened.append(Disk(box, path, name))
        except AssertionError as e:
            if "loop" in str(e):
                pytest.skip(f"no loop device here: {e}")
            raise
        return opened[-1]

    yield make
    for d in opened:
        d.close()


def kill_node(box):
    """All processes on the node, at once: the controller is not one of them."""
    serving, supervisors = agent_processes(box.dir)
    workers = workers_of(box.dir)
    for p in supervisors + serving + workers:
        try:
            os.kill(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    attempts = {p.attempt for p in workers}  # a living controller starts others at once
    wait_for(lambda: not [p for p in workers_of(box.dir) if p.attempt in attempts], 10, "the node's processes to end")


def marks(box, name, wait=None):
    """A shell line that records on the node's disk and outside that the step ran, then waits for a file."""
    line = f"echo {name} >>$HOME/lines; echo {name} >>{box.dir}/witness"
    return line + (f"; while [ ! -e {box.dir}/{wait} ]; do sleep 0.02; done" if wait else "")


def witness(box):
    path = box.dir / "witness"
    return path.read_text().split() if path.exists() else []


def job_of(box, wait_two=None, wait_launch=None, restarts=0, **two):
    return box.spec({
        "setup": [{"name": "one", "run": marks(box, "one")}, {"name": "two", "run": marks(box, "two", wait_two), **two}],
        "distributed": {"nproc_per_node": 1, "max_restarts": restarts},
        "entrypoint": {"run": marks(box, "launch", wait_launch)},
    })


def start_until(box, spec, seen):
    r = box.start(spec)
    wait_for(lambda: witness(box)[-1:] == [seen] or not r.alive, what=f"step {seen}")
    assert r.alive, r.text
    return r


def epoch(box):
    return max((int(p.read_text() or 0) for p in box.home.glob(".rhrun/m/*/jobs/*/epoch")), default=0)


# ---- the node's power ----

@pytest.mark.parametrize("survives", [False, True], ids=["unsynced-is-lost", "unsynced-survives"])
def test_cut_during_setup(box, disk, survives):
    d = disk(box.home)
    r = start_until(box, job_of(box, wait_two="go"), "two")
    before = epoch(box)
    r.kill9()
    kill_node(box)
    if survives:
        d.sync()
    d.cut()
    assert epoch(box) >= before > 0, "HELLO was answered before its epoch was on the disk"
    assert box.lines() == (["one", "two"] if survives else []), "the disk's model is wrong"
    (box.dir / "go").touch()
    done = box.run("job.yaml", env=NEXT_BOOT).ok()
    # Neither had been settled, so neither is believed: both are done again, and that is said.
    assert witness(box) == ["one", "two"] * 2 + ["launch"]
    assert done.text.count("unknown") >= 2, done
    assert box.lines() == (["one", "two"] if survives else []) + ["one", "two", "launch"]
    assert "nothing to do" in box.run("job.yaml", env=NEXT_BOOT).ok().err


def test_cut_during_setup_that_must_not_be_repeated(box, disk):
    d = disk(box.home)
    spec = job_of(box, wait_two="go", on_unknown="fail")
    start_until(box, spec, "two").kill9()
    kill_node(box)
    d.cut()
    (box.dir / "go").touch()
    for _ in range(2):
        r = box.run(spec, env=NEXT_BOOT).expect(1)
        assert "two" in r.err and "unknown" in r.err and "--from two" in r.err, r
        assert witness(box).count("two") == 1 and "launch" not in witness(box)
    box.run("--from", "two", spec, env=NEXT_BOOT).ok()
    assert witness(box) == ["one", "two", "one", "two", "launch"]


@pytest.mark.parametrize("survives", [False, True], ids=["unsynced-is-lost", "unsynced-survives"])
@pytest.mark.parametrize("restarts", [0, 1])
def test_cut_during_launch(box, disk, survives, restarts):
    d = disk(box.home)
    spec = job_of(box, wait_launch="go", restarts=restarts)
    start_until(box, spec, "launch").kill9()
    kill_node(box)
    if survives:
        d.sync()
    d.cut()
    # Set-up was settled before the launch began.
    assert box.lines()[:2] == ["one", "two"]
    (box.dir / "go").touch()
    if restarts == 0:
        r = box.run(spec, env=NEXT_BOOT).expect(1)
        assert "unknown" in r.err and "launch" in r.err, r
        assert box.run("status", "--json", spec).ok().out.count("unknown") > 0
    box.run(spec, env=NEXT_BOOT).ok()
    assert witness(box) == ["one", "two", "launch", "launch"]
    assert "nothing to do" in box.run(spec, env=NEXT_BOOT).ok().err


@pytest.mark.parametrize("survives", [False, True], ids=["unsynced-is-lost", "unsynced-survives"])
def test_cut_after_an_end_that_nobody_saw(box, disk, survives):
    """The worker ended with 0 while no controller was there; then the power went."""
    d = disk(box.home)
    spec = job_of(box, wait_launch="go")
    start_until(box, spec, "launch").kill9()
    (box.dir / "go").touch()
    wait_for(lambda: not workers_of(box.dir) and not agent_processes(box.dir)[1], what="the worker's end")
    if survives:
        d.sync()
    kill_node(box)
    d.cut()
    r = box.run(spec, env=NEXT_BOOT).expect(1)
    assert "unknown" in r.err, r
    box.run(spec, env=NEXT_BOOT).ok()
    assert witness(box) == ["one", "two", "launch", "launch"]


@pytest.mark.parametrize("survives", [False, True], ids=["unsynced-is-lost", "unsynced-survives"])
def test_cut_and_the_state_directory_lost(box, disk, survives):
    """It is unknown what was settled: nothing is adopted across a reboot."""
    d = disk(box.home)
    spec = job_of(box)
    box.run(spec).ok()
    if survives:
        d.sync()
    d.cut()
    shutil.rmtree(box.state)
    box.run(spec, env=NEXT_BOOT).ok()
    assert witness(box) == ["one", "two", "launch"] * 2


def test_settled_holds_over_many_cuts(box, disk):
    d = disk(box.home)
    spec = job_of(box)
    box.run(spec).ok()
    for i in range(3):
        d.cut()
        r = box.run("--again", spec, env={"RHRUN_TEST_BOOT_ID": f"boot-{i}"}).ok()
        assert witness(box).count("one") == witness(box).count("two") == 1, r
    assert witness(box).count("launch") == 4


# ---- the node restarts under a living controller ----

def fake_boot(box):
    """(prefix of the command, function that changes the boot id): a file mounted over the kernel's, for rhrun alone."""
    require("mount")
    path = box.dir / "boot_id"
    path.write_text("11111111-1111-1111-1111-111111111111\n")
    prefix = ("unshare", "-m", "sh", "-c", f'mount --bind {path} /proc/sys/kernel/random/boot_id && exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        pytest.skip("the kernel's boot id cannot be covered here")
    return prefix, lambda: path.write_text("22222222-2222-2222-2222-222222222222\n")


@pytest.mark.parametrize("step", ["two", "launch"])
def test_restart_under_a_living_controller(box, step):
    prefix, reboot = fake_boot(box)
    spec = job_of(box, wait_two="go" if step == "two" else None, wait_launch="go" if step == "launch" else None, restarts=1)
    r = box.start(spec, prefix=prefix, env={"RHRUN_LIVENESS_MS": "1500"})
    wait_for(lambda: witness(box)[-1:] == [step], what=step)
    reboot()
    kill_node(box)
    (box.dir / "go").touch()
    done = r.wait().ok()
    assert "unknown" in done.text, done
    assert witness(box) == (["one", "two"] * 2 + ["launch"] if step == "two" else ["one", "two", "launch", "launch"])


# ---- the controller's power ----

def free(box, spec):
    """The result of a run, None while the agents of the dead controller still hold the job."""
    r = box.run(spec)
    return r if r.rc != 4 else None


def test_the_controllers_machine_loses_power(box, disk):
    """The nodes go on; the journal is what was synced. Nothing is done twice, for every RUN was durable before it left."""
    d = disk(box.state, "state")
    spec = box.spec({"distributed": {"nnodes": 2, "nproc_per_node": 1},
                     "setup": [{"name": n, "run": f"sleep 0.02; echo {n} >>{box.dir}/witness.${{{{ node.rank }}}}; sleep 0.02"} for n in ("one", "two")],
                     "entrypoint": {"run": "sleep 0.02; echo launch >>%s/witness.${{ node.rank }}; sleep 0.02" % box.dir}})
    seed = int(os.environ.get("RHRUN_TEST_SEED") or random.randrange(1 << 30))
    chance = random.Random(seed)
    rounds = int(os.environ.get("RHRUN_TEST_POWER_CUTS", "6"))
    for i in range(rounds):
        for p in [*box.dir.glob("witness.*"), box.home / ".rhrun", box.state / "jobs"]:
            shutil.rmtree(p) if p.is_dir() else p.unlink(missing_ok=True)
        d.sync()
        r = box.start(spec)
        time.sleep(chance.uniform(0, 0.6))
        r.kill9()
        d.cut()
        done = wait_for(lambda: free(box, spec), what="the job to be free").ok()
        for n in range(2):
            lines = (box.dir / f"witness.{n}").read_text().split()
            assert lines == ["one", "two", "launch"], f"seed {seed}, round {i}, node {n}: {lines}\n{done}"
        assert "nothing to do" in box.run(spec).ok().err


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6, 8, 10, 12])
def test_an_older_state_directory_comes_back(box, after):
    """The state directory of an earlier event, the nodes far ahead: the records of their ledgers are adopted."""
    spec = box.spec({"distributed": {"nnodes": 2, "nproc_per_node": 1},
                     "setup": [{"name": n, "run": f"echo {n} >>{box.dir}/witness.${{{{ node.rank }}}}"} for n in ("one", "two")],
                     "entrypoint": {"run": "echo launch >>%s/witness.${{ node.rank }}" % box.dir}})
    box.run(spec, env={"RHRUN_TEST_KILL_AFTER_EVENT": after})
    old = box.dir / "older"
    shutil.copytree(box.state, old)
    wait_for(lambda: free(box, spec), what="the job to be free").ok()
    shutil.rmtree(box.state)
    old.rename(box.state)
    r = box.run(spec).ok()
    for n in range(2):
        assert (box.dir / f"witness.{n}").read_text().split() == ["one", "two", "launch"], r
    assert "nothing to do" in box.run(spec).ok().err


# ---- clocks ----

HOUR = 3600 * 1000


@pytest.mark.parametrize("offsets", [(HOUR, 0, -HOUR), (0, -HOUR, HOUR), (-HOUR, HOUR, 0)], ids=["back", "back-and-on", "on-and-back"])
def test_the_clock_jumps_between_attempts(box, offsets):
    """The latest attempt of a step is the one that was claimed last, whatever the clock said."""
    spec = box.spec({"setup": [{"name": "one", "run": marks(box, "one") + "; [ -e $HOME/good ]"}],
                     "entrypoint": {"run": marks(box, "launch") + "; [ -e $HOME/better ]"}})
    clock = [{"RHRUN_TEST_CLOCK_OFFSET_MS": str(o)} for o in offsets]
    box.run(spec, env=clock[0]).expect(1)
    (box.home / "good").touch()
    box.run(spec, env=clock[1]).expect(1)
    assert witness(box) == ["one", "one", "launch"]
    (box.home / "better").touch()
    r = box.run(spec, env=clock[2]).ok()
    assert witness(box) == ["one", "one", "launch", "launch"], r
    assert "verified" in box.run(spec, env=clock[0]).ok().err


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_jumps_while_a_launch_lives(box, hours):
    spec = job_of(box, wait_launch="go")
    start_until(box, spec, "launch").kill9()
    r = box.start(spec, env={"RHRUN_TEST_CLOCK_OFFSET_MS": str(hours * HOUR)})
    r.wait_text("resuming")
    (box.dir / "go").touch()
    r.wait().ok()
    assert witness(box) == ["one", "two", "launch"]
    status = box.run("status", "--json", spec).ok()
    assert '"duration_ms":36' not in status.out.replace(" ", ""), status
