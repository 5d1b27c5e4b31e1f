"""rhrun exec: one command on a node, with the environment of a step of set-up."""
import json
import signal

import pytest

from harness import processes, wait_for

ODD = "a 'b' \"c\" $HOME `id` \\n é\n.\nlast"
JOB = {
    "name": "j",
    "activate": "export FROM_ACTIVATE=\"two\nlines\" TAIL='ends\n\n'; f() { echo in f; }; export -f f 2>/dev/null || :; unset GONE",
    "python": {"venv": True},
    "env": {"ODD": ODD, "GIVEN": ""},
    "secrets": ["TOKEN"],
    "setup": [{"name": "s", "run": "echo made >made; env -0 >seen"}],
    "entrypoint": {"run": "true", "env": {"ONLY_LAUNCH": "1"}},
}
ENV = {"GIVEN": "of the caller", "TOKEN": "s3cret with ' quote"}
NOT_ALIKE = ("_", "SHLVL", "PWD", "OLDPWD", "RHRUN_ATTEMPT", "SSH_CLIENT", "SSH_CONNECTION", "XDG_SESSION_ID")


def variables(data):
    return dict(item.split("=", 1) for item in data.split("\0") if item and item.split("=", 1)[0] not in NOT_ALIKE)


def spec_of(job, f=None, **more):
    return job({**JOB, **({"cluster": f.explicit_cluster()} if f else {}), **more})


@pytest.mark.parametrize("where", ["here", "ssh", "openssh"])
def test_it_finds_what_set_up_finds(box, job, rhrun, fleet, where):
    f = fleet(2) if where != "here" else None
    spec = job({**JOB, "workdir": {"path": "."}, **({"cluster": f.explicit_cluster(transport=where)} if f else {})})
    rhrun(spec, env=ENV).ok()
    assert rhrun("exec", spec, "--", "cat", "made", env=ENV).ok().out == "made\n"
    seen = variables(rhrun("exec", spec, "--", "cat", "seen", env=ENV).ok().out)
    assert seen["ODD"] == ODD and seen["FROM_ACTIVATE"] == "two\nlines" and seen["TOKEN"] == ENV["TOKEN"]
    assert any(name.startswith("BASH_FUNC_f") for name in seen)  # no name for a shell: it comes through, too
    assert variables(rhrun("exec", spec, "--", "env", "-0", env=ENV).ok().out) == seen
    assert "ONLY_LAUNCH" not in seen and "RANK" not in seen
    python = rhrun("exec", spec, "--", "python -c 'import sys; print(sys.prefix)'", env=ENV).ok().out.strip()
    assert python == seen["VIRTUAL_ENV"]
    # Its exit status is its own, and so are its streams.
    r = rhrun("exec", spec, "--", "cat; echo no >&2; exit 7", env=ENV, input=b"x" * 300_000).expect(7)
    assert r.out == "x" * 300_000 and r.err == "no\n"
    assert rhrun("exec", spec, "--", "printf", "%s|", "a b", "$HOME", "it's", env=ENV).ok().out == "a b|$HOME|it's|"
    assert rhrun("exec", spec, "--", "nosuchprogram", "x", env=ENV).expect(127).err
    if f:
        assert rhrun("exec", spec, "1", "--", "pwd; echo $RHRUN_NODE_RANK", env=ENV).ok().out.splitlines()[1] == "1"


def test_no_value_is_in_argv(box, job, rhrun, fleet):
    f = fleet(1)
    spec = spec_of(job, f)
    rhrun(spec, env=ENV).ok()
    r = box.start("exec", spec, "--", "touch here; until [ -e stop ]; do sleep 0.05; done", env=ENV)
    (place,) = wait_for(lambda: list(f.home(1).glob(".rhrun/work/*/*/here")))
    for p in processes():
        try:
            words = open(f"/proc/{p.pid}/cmdline", "rb").read()
        except OSError:
            continue
        assert b"s3cret" not in words and b"of the caller" not in words, words
    place.with_name("stop").touch()
    r.wait().ok()


def test_a_signal_ends_it_while_nobody_reads(box, job, rhrun):
    spec = spec_of(job)
    rhrun(spec, env=ENV).ok()
    r = box.start("exec", spec, "--", "echo $$ >pid; exec sleep 1000", env=ENV, cwd=box.work, prefix=("sh", "-c", 'exec "$@" </dev/zero', "x"))
    wait_for(lambda: (box.work / "pid").exists())
    r.signal(signal.SIGTERM)
    assert r.wait().rc == 128 + signal.SIGTERM


def test_by_run_and_by_params(box, job, rhrun, fleet):
    f = fleet(1)
    spec = job({"name": "j", "params": {"p": "a"}, "cluster": f.explicit_cluster(), "env": {"P": "${{ params.p }}"},
                "setup": [{"name": "s", "run": "echo $P >made"}], "entrypoint": {"run": "true"}})
    rhrun(spec).ok()
    first = json.loads(rhrun("status", spec, "--json").ok().out)["run"]
    rhrun(spec, "-p", "p=b").ok()
    assert rhrun("exec", spec, "--", "cat made; echo $P").ok().out == "b\nb\n"
    assert rhrun("exec", first, "--", "cat made; echo $P").ok().out == "a\na\n"
    assert rhrun("exec", "last", "0", "--", "cat made").ok().out == "b\n"
    assert rhrun("exec", spec, "-p", "p=a", "--", "cat made; echo $P").ok().out == "a\na\n"
    assert "never run with" in rhrun("exec", spec, "-p", "p=c", "--", "true").expect(2).err
    assert rhrun("ssh", first, "--", "pwd").ok().out


def test_what_is_said_where_it_cannot(box, job, rhrun, fleet):
    f = fleet(2)
    spec = spec_of(job, f)
    r = rhrun("exec", spec, "--", "true", env=ENV).expect(2)
    assert "was never run" in r.err and "hint: rhrun " in r.err and " first" in r.err
    assert "no command was given" in rhrun("exec", spec, env=ENV).expect(2).err
    one = job({**JOB, "cluster": f.explicit_cluster(hosts=[{"host": "127.0.0.1", "port": f.port(1), "name": "one"}])}, "one.yaml")
    rhrun(one, env=ENV).ok()
    err = rhrun("exec", one, "nosuch", "--", "true", env=ENV).expect(2).err
    assert 'the job has no node "nosuch"' in err and "one" in err
    two = {**JOB, "cluster": f.explicit_cluster(hosts=[{"host": "127.0.0.1", "port": f.port(i), "name": n} for i, n in ((1, "one"), (2, "two"))])}
    job(two, "one.yaml")
    err = rhrun("exec", one, "two", "--", "true", env=ENV).expect(2).err
    assert 'the job was never set up on node "two"' in err and "first" in err
    assert rhrun("exec", one, "one", "--", "true", env=ENV).ok()
    assert "TOKEN" in rhrun("exec", one, "--", "true", env={"GIVEN": "x"}).expect(2).err
    f.wipe()
    assert "not there any more" in rhrun("exec", one, "--", "true", env=ENV).expect(3).err


def test_a_script_that_is_cut_is_not_done(box, job, rhrun):
    """The words that read the script run nothing of one without an end."""
    program = box.path("leads")
    program.write_text(f'#!/bin/sh\n[ -e {box.dir}/cut ] || exec sh "$@"\nhead -c "$(cat {box.dir}/cut)" | sh "$@"\n')
    program.chmod(0o755)
    spec = job({"name": "j", "cluster": {"hosts": [{"name": "one", "exec": [str(program)], "address": "127.0.0.1"}]},
                "env": {"LONG": "echo >>done\n" * 100}, "entrypoint": {"run": "true"}})
    rhrun(spec).ok()
    run = lambda: rhrun("exec", spec, "--", "touch done")
    for size in (1, 100, 1000, 1500):
        (box.dir / "cut").write_text(str(size))
        run().expect(255)
    assert not list(box.dir.glob("**/done"))
    (box.dir / "cut").write_text("100000")
    run().ok()
    assert list(box.dir.glob("**/done"))
