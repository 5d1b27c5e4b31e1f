"""Limits of the shell and of the spec: rhrun refuses input beyond them with a message and a place, and never ends by a signal."""
import os
import shutil

import pytest

HELLO = {"entrypoint": {"run": "echo hello"}}


def no_leaks(box):
    """What looks for leaks under a sanitizer starts a thread at the program's end, and ends the program where it gets none."""
    return {"ASAN_OPTIONS": box.env["ASAN_OPTIONS"] + ":detect_leaks=0"}


def limited(*options):
    """Words that run a command under ulimit: limited("-n 5")."""
    return ["bash", "-c", "".join(f"ulimit {o}; " for o in options) + 'exec "$@"', "bash"]


@pytest.mark.parametrize("command", [[], ["plan"], ["doctor"], ["--detach"]])
@pytest.mark.parametrize("files", [4, 5, 7, 9, 12, 16])
def test_open_files(box, job, rhrun, command, files):
    spec = job(HELLO)
    r = rhrun(*command, spec, prefix=limited(f"-n {files}")).expect(3)
    assert "more files, and rhrun needs" in r.err or command == ["--detach"] and "in the background: Too many open files" in r.err, r
    assert "hint: raise the limit" in r.err, r
    assert "no descriptors" not in r.err


def test_a_few_open_files_are_enough(box, job, rhrun):
    """From the first accepted number on it works, or says which limit was too low."""
    spec = job(HELLO)
    seen = set()
    for files in range(16, 40):
        r = rhrun(spec, "--again", prefix=limited(f"-n {files}"))
        assert r.rc in (0, 3) and (r.rc == 0) == ("hello" in r.out), r
        assert r.rc == 0 or "files" in r.err and "hint: raise the limit" in r.err, r
        seen.add(r.rc)
    assert seen == {0, 3} and r.rc == 0


@pytest.mark.parametrize("kib", [1, 4, 20, 64])
@pytest.mark.parametrize("workdir", [False, True])
def test_file_size(box, job, rhrun, kib, workdir):
    (box.work / "src").mkdir()
    (box.work / "src" / "file").write_text("x")
    r = rhrun(job({**HELLO, **({"workdir": "src"} if workdir else {})}), prefix=limited(f"-f {kib}")).expect(3)
    assert "rhrun: error: " in r.err and "ulimit -f" in r.err, r
    rhrun("job.yaml").ok()


def test_a_log_that_may_not_grow(box, job, rhrun):
    """The limit on file sizes stops the log on the node, or the one here: rhrun says so, and nothing is killed."""
    spec = job({"entrypoint": {"run": "ulimit -f; head -c 5000000 /dev/zero | tr '\\0' x | fold -w 99; echo the end"}})
    for kib in (600, 2000, 4000):
        r = rhrun(spec, "--fresh", prefix=limited(f"-f {kib}"))
        assert r.rc in (0, 3) and "Resource temporarily" not in r.err, r
        assert r.rc == 0 and "bytes of output dropped" in r.err or r.rc == 3 and "File too large" in r.err, r


def test_workers_get_the_signal(box, job, rhrun):
    """A signal that rhrun ignores for itself is not ignored in its children."""
    r = rhrun(job({"entrypoint": {"run": "ulimit -f 1; head -c 9000 /dev/zero >$HOME/big"}})).expect(1)
    assert "153" in r.err or "File size limit" in r.err, r
    assert (box.home / "big").stat().st_size <= 1024


@pytest.mark.skipif(bool(os.environ.get("RHRUN_TEST_SANITIZED")) or "asan" in os.environ.get("RHRUN_BIN", ""), reason="a sanitizer takes terabytes of addresses")
def test_memory(box, job, rhrun):
    spec = job(HELLO)
    seen = set()
    for kib in (14000, 16000, 18000, 20000, 24000, 32000, 48000, 64000, 96000, 400000):
        r = rhrun(spec, "--again", prefix=limited(f"-v {kib}"))
        assert r.rc in (0, 3, 127), (kib, r)  # 127: the loader had no room for the libraries
        assert r.rc != 3 or "out of memory" in r.err or "threads, and rhrun needs" in r.err or "could not" in r.err, (kib, r)
        seen.add(r.rc)
    assert r.rc == 0 and 3 in seen


def test_processes(box, job, rhrun):
    """Root has no limit of processes: as another user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    spec = job(HELLO)
    box.dir.chmod(0o777)
    for d in (box.home, box.work):
        d.chmod(0o777)
    user = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
    if rhrun("--version", prefix=user).rc != 0:
        pytest.skip("another user cannot run the program where it lies")
    for processes in (1, 3, 6):
        r = rhrun(spec, prefix=[*user, *limited(f"-u {processes}")], env=no_leaks(box)).expect(3)
        assert "threads, and rhrun needs" in r.err and "ulimit -u" in r.err, r
    rhrun(spec, prefix=user).ok()


# ---- of the spec ----

def items(count):
    return "".join(f"  - run: echo {i}\n" for i in range(count))


def test_ten_thousand_items(box, job, rhrun):
    spec = job("setup:\n" + items(10000) + "entrypoint: {run: 'true'}\n")
    assert "valid" in rhrun("validate", spec).ok().err
    assert "run-10000" in rhrun("plan", "--offline", spec).ok().out


@pytest.mark.parametrize("text,place", [
    ("setup:\n" + items(10001) + "entrypoint: {run: 'true'}\n", "job.yaml:1:"),
    ("packages: [a, b]\nsetup:\n" + items(9999) + "entrypoint: {run: 'true'}\n", "job.yaml:10001:5"),
    ("setup:\n" + items(9990) + "roles:\n  a:\n    setup:\n" + items(20).replace("  - ", "    - ") + "    entrypoint: {run: 'true'}\n",
     "job.yaml:10005:7"),
], ids=["one list", "two lists", "a role"])
def test_more_have_a_place(box, job, rhrun, text, place):
    r = rhrun("validate", job(text)).expect(2)
    assert place in r.err and ("10000" in r.err or "10,000" in r.err), r


@pytest.mark.slow
@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.soak)])
def test_thousands_of_items_are_done(box, job, rhrun, count):
    spec = job("setup:\n" + items(count) + "entrypoint: {run: echo the launch}\n")
    assert "the launch" in rhrun(spec, timeout=900).ok().out
    assert "nothing to do" in rhrun(spec, timeout=300).ok().err
