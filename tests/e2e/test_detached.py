"""No launch is wasted: a job outlives its caller, attach shows the output that was missed, cancel leaves no process."""
import os
import re
import signal

import pytest

from harness import processes_of, wait_for, workers_of

COUNT = """
name: d
distributed: {nnodes: 2, nproc_per_node: 2}
entrypoint:
  run: |
    i=0
    while [ ! -e $HOME/stop ]; do echo "line $i"; i=$((i+1)); echo $i >$HOME/count.$RANK; sleep 0.02; done
    echo "end $i"
"""


def counted(box):
    files = [box.home / f"count.{i}" for i in range(4)]
    return min(int(p.read_text().strip() or 0) if p.exists() else 0 for p in files)


def shown_lines(texts, rank):
    """The lines of a rank that people have seen, without the terminal's additions."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "\n".join(texts)).replace("\r", "")
    return re.findall(rf"^default\[{rank}\]@\S+ (\w+ \d+)$", plain, re.M)


def each_line_once(texts):
    for rank in range(4):
        lines = shown_lines(texts, rank)
        last = int(lines[-1].split()[1])
        assert lines == [f"line {i}" for i in range(last)] + [f"end {last}"]


def no_line_skipped(texts):
    """Each line at least once; lines before a seam may come again after it, in order."""
    for rank in range(4):
        lines = shown_lines(texts, rank)
        last = int(lines[-1].split()[1])
        assert list(dict.fromkeys(lines)) == [f"line {i}" for i in range(last)] + [f"end {last}"]


def more_lines(box, what):
    before = counted(box)
    wait_for(lambda: counted(box) > before + 5, what=what)


def test_the_terminal_is_gone(box, job):
    """SIGHUP: the controller continues; a later attach shows the rest."""
    spec = job(COUNT)
    r = box.start(spec)
    r.wait_text(r"line \d+")
    r.signal(signal.SIGHUP)
    more_lines(box, "output that nobody sees")
    a = box.start("attach", spec)
    a.wait_text(r"line \d+")
    (box.home / "stop").touch()
    done = a.wait().ok()
    each_line_once([r.wait().ok().out, done.out])
    assert re.search(r"\d+ lines?, until .+, (was|were) shown before; --from-start", done.err), done
    each_line_once([box.run("attach", "--from-start", spec).ok().out])
    assert not box.run("attach", spec).ok().out
    each_line_once(["\n".join(f"default[{e['rank']}]@x: {e['text']}" for e in box.run("attach", "--json", spec).ok().events()
                              if e["type"] == "output")])


def leave(how, box, t, spec):
    """Ends the command that shows the run, but not the run; returns the shown text."""
    if how == "d":
        t.send(b"d")
        t.pump()
    elif how == "SIGHUP":
        os.kill(t.pid, signal.SIGHUP)
        t.pump(until=lambda shown: list(box.state.rglob("controller.log")))
    elif how == "SIGKILL":
        os.kill(t.pid, signal.SIGKILL)
        t.pump()
    else:
        os.close(t.fd)
        wait_for(lambda: list(box.state.rglob("controller.log")), what="the controller to notice")
    return t.raw.decode()


@pytest.mark.parametrize("how", ["d", "SIGHUP", "SIGKILL", "closed"])
def test_what_was_missed_is_shown_once(box, job, terminal, how):
    """Four workers print numbered lines without a pause. A terminal shows them, then one attach, which is interrupted, then
    another one to the end: together each line once, in order. A kill, or a terminal that has gone, may repeat some."""
    spec = job(COUNT)
    t = terminal(spec)
    t.pump(until=lambda shown: "line 20" in shown and "d lets it go on" in shown)
    texts = [leave(how, box, t, spec)]
    more_lines(box, "output that nobody sees")
    a = box.start("attach", spec)
    a.wait_text(r"(?s)line \d+.*line \d+")
    if how == "SIGKILL":
        a.wait_text("no controller any more; a new one continues it now")
        before = len(a.text)
        wait_for(lambda: len(a.text) > before, what="lines by the new controller")
    a.signal(signal.SIGINT)
    done = a.wait().ok()
    assert "detached" in done.err and (how == "SIGKILL" or "no controller" not in done.err)
    texts.append(done.out)
    more_lines(box, "output that nobody sees again")
    b = box.start("attach", spec)
    b.wait_text(r"line \d+")
    (box.home / "stop").touch()
    texts.append(b.wait().ok().out)
    (each_line_once if how in ("d", "SIGHUP") else no_line_skipped)(texts)
    each_line_once([box.run("logs", "last").ok().out])
    if how == "closed":
        _, status = os.waitpid(t.pid, 0)
        t.rc = os.waitstatus_to_exitcode(status)


PARTS = """
name: parts
distributed: {nproc_per_node: 2, max_restarts: 1}
entrypoint:
  run: |
    if [ -e $HOME/failed ]; then echo "second time $RANK"; printf 'last %s' $RANK; exit 0; fi
    printf 'begun %s' $RANK; echo "and whole $RANK" >&2
    while [ ! -e $HOME/go ]; do sleep 0.02; done
    echo " and ended $RANK"; printf 'no end %s' $RANK
    touch $HOME/up.$RANK
    while [ $(ls $HOME | grep -c up) -lt 2 ]; do sleep 0.02; done
    touch $HOME/failed
    exit 3
"""


def test_lines_and_restarts_at_the_seam(box, job, rhrun):
    """A line without an end when one stops watching is shown whole by the next attach; so are unseen restarts."""
    spec = job(PARTS)
    rhrun("--detach", spec).ok()
    a = box.start("attach", spec)
    a.wait_text(r"(?s)whole \d.*whole \d")
    a.signal(signal.SIGINT)
    first = a.wait().ok()
    assert "begun" not in first.text
    (box.home / "go").touch()
    wait_for(lambda: "done" in rhrun("status", spec).ok().out, what="the run's end")
    second = rhrun("attach", spec).ok()
    assert "whole" not in second.text
    for rank in (0, 1):
        for line in (f"begun {rank} and ended {rank}", f"no end {rank}", f"second time {rank}", f"last {rank}"):
            assert len(re.findall(rf"^default\[{rank}\]@\S+ {line}$", second.out, re.M)) == 1, (line, second)
    assert "---- launch generation 2: restarted" in second.err
    third = rhrun("attach", spec).ok()
    assert not third.out and "generation" not in third.err


def test_what_is_kept_of_it_may_be_damaged(box, job, rhrun):
    spec = job({"entrypoint": {"run": "echo said"}})
    rhrun(spec).ok()
    (shown,) = box.state.rglob("shown")
    assert shown.stat().st_mode & 0o777 == 0o600
    assert "said" not in rhrun("attach", spec).ok().out
    shown.write_bytes(shown.read_bytes().replace(b"lines 1", b"lines 2"))
    assert "said" in rhrun("attach", spec).ok().out
    shown.unlink()
    assert "said" in rhrun("attach", spec).ok().out
    assert "said" not in rhrun("attach", spec).ok().out


def test_what_goes_to_nobody_was_not_shown(box, job, rhrun):
    spec = job({"entrypoint": {"run": "echo said"}})
    rhrun(spec, prefix=("sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh")).ok()
    assert "said" in rhrun("attach", spec).ok().out
    rhrun("--again", "--json", spec).ok()
    assert "said" in rhrun("attach", spec).ok().out


def test_a_killed_controllers_successor_goes_on_where_it_stopped(box, job, rhrun):
    spec = job(COUNT)
    r = box.start(spec)
    r.wait_text(r"line \d+")
    r.kill9()
    more_lines(box, "output that nobody sees")
    (box.home / "stop").touch()
    no_line_skipped([r.text, rhrun(spec).ok().out])
    each_line_once([rhrun("logs", "last").ok().out])


def test_what_a_killed_background_controller_collected_is_shown_by_its_successor(box, job, rhrun):
    """It ran without a terminal, so nobody has seen its notes."""
    spec = job(COUNT)
    pid = rhrun("--detach", "--json", spec).ok().json()["pid"]
    a = box.start("attach", spec)
    a.wait_text(r"line \d+")
    a.signal(signal.SIGINT)
    seen = a.wait().ok().out
    more_lines(box, "output that nobody sees")
    os.kill(pid, signal.SIGKILL)
    more_lines(box, "output that nobody collects")
    (box.home / "stop").touch()
    each_line_once([seen, rhrun(spec).ok().out])


def test_attach_takes_up_a_run_whose_controller_was_killed(box, job, rhrun):
    """With its former params and arguments, from another folder; failures are restarted again."""
    spec = job({"name": "t", "params": {"p": "a"}, "distributed": {"nproc_per_node": 2, "max_restarts": 1},
                "entrypoint": {"run": "echo $RANK got ${{ params.p }} \"$@\" >>$HOME/lines; echo up; [ -e $HOME/failed ] && exit 0; "
                                      "while [ ! -e $HOME/go ]; do sleep 0.02; done; [ $RANK = 0 ] || exec sleep 600; "
                                      "touch $HOME/failed; exit 3"}})
    r = box.start("-p", "p=it's b", spec, "--", "one arg", "-x")
    wait_for(lambda: len(box.lines()) == 2, what="the workers")
    r.kill9()
    a = box.start("attach", "last", cwd=box.home)
    a.wait_text("no controller any more; a new one continues it now")
    (box.home / "go").touch()
    assert "run " in a.wait().ok().err
    assert sorted(box.lines()) == sorted(2 * [f"{i} got it's b one arg -x" for i in range(2)])


def test_attach_takes_a_run_up_once(box, job, rhrun):
    """The new controller is killed too: attach says so and does not try forever."""
    spec = job({"entrypoint": {"run": "echo up; exec sleep 600"}})
    r = box.start(spec)
    r.wait_text("up")
    r.kill9()
    a = box.start("attach", spec)
    pid = a.wait_text(r"a new one continues it now \(pid (\d+)\)").group(1)
    os.kill(int(pid), signal.SIGKILL)
    assert "has ended, but the run has not" in a.wait().expect(3).err
    assert len(workers_of(box.dir)) == 1
    rhrun("cancel", spec).ok()


def test_attach_does_not_take_up_what_has_changed(box, job, rhrun):
    spec = job({"entrypoint": {"run": "echo up; exec sleep 600"}})
    r = box.start(spec)
    r.wait_text("up")
    r.kill9()
    text = spec.read_text()
    spec.write_text(text.replace("echo up", "echo changed"))
    a = rhrun("attach", "last").expect(2)
    assert "has changed since run" in a.err and "rhrun plan" in a.err and "rhrun cancel" in a.err and "changed" not in a.out
    assert len(workers_of(box.dir)) == 1
    spec.unlink()
    a = rhrun("attach", "last").expect(2)
    assert "job.yaml" in a.err and "no new one could continue it" in a.err
    assert len(workers_of(box.dir)) == 1
    spec.write_text(text)
    rhrun("cancel", "last").ok()
    assert not workers_of(box.dir)


def test_the_caller_is_gone(box, job, rhrun):
    """The shell that detached it, and all of its session, is killed."""
    spec = job(COUNT)
    rhrun("--detach", spec, prefix=("setsid", "-w")).ok()
    wait_for(lambda: counted(box) > 5, what="output")
    a = box.start("attach", spec)
    a.wait_text(r"line \d+")
    a.signal(signal.SIGINT) # lets go, no more
    assert a.wait().rc in (0, 130)
    before = counted(box)
    wait_for(lambda: counted(box) > before + 5, what="output after the interrupt")
    (box.home / "stop").touch()
    assert len(re.findall("end ", rhrun("attach", spec).ok().out)) <= 4
    assert "nothing to do" in rhrun(spec).ok().err
    assert len(re.findall(r"end \d", rhrun("logs", "last").ok().out)) == 4


def test_cancel_ends_what_a_launcher_started(box, fleet, job, rhrun):
    """A torchrun whose workers ignore TERM, leave its session and start others."""
    f = fleet(2)
    run = box.path("tree/torch/distributed/run.py")
    run.parent.mkdir(parents=True)
    (run.parent / "__init__.py").touch()
    (run.parent.parent / "__init__.py").touch()
    run.write_text("""
import subprocess, sys
worker = "trap '' TERM; (setsid sleep 600 &); sleep 600 & echo up; wait; sleep 600"
for i in range(2):
    subprocess.Popen(["sh", "-c", worker], start_new_session=bool(i))
print("started", flush=True)
while True:
    subprocess.call(["sleep", "600"])
""")
    spec = job({"name": "t", "cluster": f.cluster(), "workdir": "tree",
                "distributed": {"launcher": "torchrun", "nproc_per_node": 2, "preflight": "off"},
                "entrypoint": {"module": "x"}})
    r = box.start(spec)
    wait_for(lambda: r.text.count("up") >= 4, what="the workers of both nodes")
    assert len(workers_of(box.dir)) >= 2 * (1 + 2 * 3)
    rhrun("cancel", spec, timeout=60).ok()
    assert r.wait(60).rc != 0
    assert not workers_of(box.dir)


STUBBORN = """
trap '' TERM
(setsid sh -c 'trap "" TERM HUP; sleep 600 & (trap "" TERM HUP; exec env -i sh -c "while :; do sleep 0.05; done # MARK") & wait' </dev/null >/dev/null 2>&1 &)
touch MARK/up.$RANK
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("controller", ["attached", "detached", "killed"])
def test_cancel_ends_every_process_of_every_rank_on_every_node(box, fleet, job, controller):
    """Workers that ignore TERM, with daemons: a session of their own, forked twice, and without a trace in the environment."""
    f = fleet(2)
    marks = box.dir / "marks"
    marks.mkdir()
    spec = job({"name": "c", "cluster": f.cluster(), "distributed": {"nproc_per_node": 2, "shutdown_timeout": 1},
                "entrypoint": {"run": STUBBORN.replace("MARK", str(marks))}})
    r = None if controller == "detached" else box.start(spec)
    if controller == "detached":
        box.run("--detach", spec).ok()
    wait_for(lambda: len(list(marks.iterdir())) == 4, what="all workers")
    wait_for(lambda: sum("sleep 0.05; done #" in " ".join(p.argv) and not p.attempt for p in processes_of(marks)) >= 4,
             what="the daemons")
    if controller == "killed":
        r.kill9()
    box.run("cancel", "last", timeout=60).ok()
    if controller == "attached":
        r.wait().expect(143)
    wait_for(lambda: not box.run("status", "last").out.count("controller: pid"), what="the controller's end")
    assert not workers_of(box.dir) and not processes_of(marks)
