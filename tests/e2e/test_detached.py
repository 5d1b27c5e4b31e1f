"""Nothing is launched for nothing: what runs outlives its caller, attach shows what was missed, cancel leaves no process."""
import re
import signal

from harness import wait_for, workers_of

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


def each_line_once(texts):
    for rank in range(4):
        lines = [l.split(": ", 1)[1] for t in texts for l in t.splitlines() if l.startswith(f"default[{rank}]")]
        last = int(lines[-1].split()[1])
        assert lines == [f"line {i}" for i in range(last)] + [f"end {last}"]


def test_the_terminal_is_gone(box, job):
    """SIGHUP: the controller goes on; who attaches later sees all of it, each line once."""
    spec = job(COUNT)
    r = box.start(spec)
    r.wait_text(r"line \d+")
    r.signal(signal.SIGHUP)
    before = counted(box)
    wait_for(lambda: counted(box) > before + 5, what="output that nobody sees")
    a = box.start("attach", spec)
    a.wait_text(r"line \d+")
    (box.home / "stop").touch()
    each_line_once([a.wait().ok().out])
    r.wait().ok()


def test_a_killed_controllers_successor_goes_on_where_it_stopped(box, job, rhrun):
    spec = job(COUNT)
    r = box.start(spec)
    r.wait_text(r"line \d+")
    r.kill9()
    before = counted(box)
    wait_for(lambda: counted(box) > before + 5, what="output that nobody sees")
    (box.home / "stop").touch()
    shown = r.text + rhrun(spec).ok().out
    for rank in range(4):
        numbers = [int(n) for n in re.findall(rf"^default\[{rank}\].*?: line (\d+)$", shown, re.M)]
        assert numbers == sorted(set(numbers)) and shown.count("end ") == 4
    each_line_once(["".join(l + "\n" for l in rhrun("logs", "last").ok().out.splitlines())])


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
