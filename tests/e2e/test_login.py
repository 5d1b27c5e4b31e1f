"""rhrun ssh: a shell, or one command, on a node of the job."""
import pytest

JOB = {"name": "j", "setup": [{"name": "s", "run": "echo made >made"}], "entrypoint": {"run": "true"}}


def test_on_this_machine_it_is_in_the_spec_s_folder(box, job, rhrun):
    spec = job(JOB)
    assert rhrun("ssh", spec, "--", "pwd").ok().out == f"{box.work}\n"
    assert rhrun("ssh", spec, "--", "exit 7").expect(7)
    # Several words are a command line, one word is a text for the shell.
    assert rhrun("ssh", spec, "--", "printf", "%s|", "a b", "$HOME", "it's").ok().out == "a b|$HOME|it's|"
    assert rhrun("ssh", spec, "--", "echo a | tr a b").ok().out == "b\n"


@pytest.mark.parametrize("transport", ["ssh", "openssh"])
def test_over_ssh_it_is_in_the_job_s_folder(box, job, rhrun, fleet, transport):
    f = fleet(2)
    spec = job({**JOB, "cluster": f.explicit_cluster(transport=transport)})
    assert rhrun("ssh", spec, "1", "--", "echo $HOME").ok().out == f"{f.home(2)}\n"  # before there was a run
    rhrun(spec).ok()
    assert rhrun("ssh", spec, "--", "cat", "made").ok().out == "made\n"
    err = rhrun("ssh", spec, "nosuch", "--", "true").expect(2).err
    assert 'the job has no node "nosuch"' in err
    assert rhrun("ssh", spec, "1", "--", "echo $HOME; cat made").ok().out == f"{f.home(2)}\nmade\n"


def test_a_person_has_a_terminal_there(job, fleet, terminal):
    f = fleet(1)
    t = terminal("ssh", job({**JOB, "cluster": f.cluster()}))
    t.send(b"tty && echo $((6*7))\n")
    t.pump(lambda text: "\n42" in text and "/dev/pts/" in text)
    t.send(b"exit 5\n")
    assert t.pump() == 5


def test_a_host_with_exec(box, job, rhrun):
    spec = job({**JOB, "cluster": {"hosts": [{"name": "one", "exec": ["env", "WHO=me", "sh"], "address": "127.0.0.1"}]}})
    assert rhrun("ssh", spec, "one", "--", "echo $WHO").ok().out == "me\n"
