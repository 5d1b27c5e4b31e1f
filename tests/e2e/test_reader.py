"""A reader of rhrun's output may stop reading; the job continues."""
import subprocess

from harness import RHRUN, TIMEOUT, wait_for

LINES = 6000
JOB = """
name: reader
distributed: {nnodes: 2}
entrypoint:
  run: |
    if [ $RANK = 0 ]; then
      trap 'echo stopped >$HOME/stopped; exit 1' TERM
      i=0; while [ $i -lt %d ]; do echo "line $i ................................................................"; i=$((i+1)); done
      echo all >$HOME/written
      while :; do sleep 0.05; done
    fi
    while [ ! -e $HOME/fail ]; do sleep 0.02; done
    exit 7
""" % LINES


def start(box, spec, *options):
    """rhrun with pipes that nobody reads yet; a pipe takes 64 KiB."""
    return subprocess.Popen([str(RHRUN), *options, str(spec)], env=box._env({}), cwd=box.work, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_reader_that_stands_still_stops_nothing(box, job):
    """A worker fails while nobody reads: the others are stopped all the same, and all their output is shown in the end."""
    p = start(box, job(JOB))
    wait_for((box.home / "written").exists, what="all that a worker writes")
    (box.home / "fail").touch()
    wait_for((box.home / "stopped").exists, what="the other worker's end")
    assert p.poll() is None, "it ended with output that nobody has read"
    out, err = p.communicate(timeout=TIMEOUT)
    assert p.returncode == 1, err
    shown = [l for l in out.decode().splitlines() if ": line " in l]
    assert [l.split(": ")[1].split()[1] for l in shown] == [str(i) for i in range(LINES)]
    assert "exit status 7" in err.decode()


def test_a_reader_that_is_gone_stops_nothing(box, job):
    p = start(box, job(JOB), "--quiet")
    p.stdout.close()
    wait_for((box.home / "written").exists, what="all that a worker writes")
    (box.home / "fail").touch()
    wait_for((box.home / "stopped").exists, what="the other worker's end")
    assert p.wait(TIMEOUT) == 1
    p.stderr.close()
    assert f"line {LINES - 1} " in box.run("logs", "last").ok().out
