"""The account of a cluster: credentials that expire, fail, or belong to another account."""
import hashlib
import json
import re
import signal
import time

import pytest

from clouds.hetzner import OTHER
from test_rent_clouds import nothing_left, spec_of, up

CONTEXT = 'active_context = "one"\n[[contexts]]\n  name = "one"\n  token = "%s"\n'


def told_by(box, how, token):
    """The token is no variable any more: a file has it, or a program tells it."""
    box.env.pop("HCLOUD_TOKEN", None)
    kept = box.home / ".config/hcloud/cli.toml"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(CONTEXT % token)
    if how == "program":
        kept = box.home / "token"
        kept.write_text(token)
        file = box.home / ".config/rhrun/providers/hetzner.yaml"
        text, count = re.subn(r"(?m)^credentials:\n(  .*\n)+", f"credentials:\n  - {{exec: [cat, {kept}], format: text, keys: {{token: ''}}}}\n",
                              file.read_text())
        assert count == 1
        file.write_text(text)


@pytest.mark.parametrize("how", ("file", "program"))
def test_credentials_that_run_out_are_asked_for_again(box, clouds, how):
    """A sign-on lasts an hour, the job days: its machines are given back all the same."""
    cloud = clouds.start("hetzner")
    told_by(box, how, cloud.token)
    run = box.start(spec_of(box, cloud, nnodes=1, entrypoint={"run": "echo begun; until [ -e $HOME/end ]; do sleep 0.1; done"},
                            outputs=[]))
    run.wait_text("begun")
    time.sleep(2)  # they are not looked for at each refusal
    cloud.token = "the-token-of-the-next-hour"
    told_by(box, how, cloud.token)
    (cloud.machines()[0].machine.path("/root") / "end").touch()
    r = run.wait()
    assert r.rc == 0, r
    assert any(status == 401 for _, _, status in cloud.log)
    nothing_left(cloud)


def test_a_program_that_tells_no_credentials(box, rhrun, clouds):
    cloud = clouds.start("hetzner")
    told_by(box, "program", cloud.token)
    (box.home / "token").unlink()
    r = rhrun("gc", "--provider", "hetzner", "--yes").expect(2)
    assert "the program that prints its credentials failed" in r.err and "No such file" in r.err, r
    r = rhrun(spec_of(box, cloud)).expect(2)
    assert "the program that prints its credentials failed" in r.err, r
    assert cloud.log == []


def let_go(run):
    """The first interrupt gives the machines back, the second lets go of them."""
    run.wait_text("does not prove that it is gone")
    run.signal(signal.SIGINT)
    run.wait_text("interrupted")
    run.signal(signal.SIGINT)
    assert run.wait().rc != 0


def test_another_account_proves_nothing(box, rhrun, clouds):
    """Its list is empty, and it knows none of the machines: in the other account they continue, and cost money."""
    cloud, spec = up(box, rhrun, clouds)
    creates, other = len(cloud.of("create")), {"HCLOUD_TOKEN": OTHER}
    let_go(box.start("down", spec, env=other))
    let_go(box.start("gc", "--yes", env=other))
    (c,) = json.loads(rhrun("clusters", "--json").ok().out)
    assert [m["state"] for m in c["machines"]] == ["returning"] * 2 and len(cloud.machines()) == 2
    assert len(cloud.of("create")) == creates
    rhrun("gc", "--yes").ok()
    nothing_left(cloud)


def test_a_new_token_of_the_same_account_is_believed_once_it_shows_a_machine(box, rhrun, clouds):
    cloud, spec = up(box, rhrun, clouds)
    cloud.token = box.env["HCLOUD_TOKEN"] = "the-token-of-the-next-year"
    rhrun(spec).ok()
    rhrun("down", spec).ok()
    nothing_left(cloud)


def test_where_nothing_is_shown_a_person_may_say_that_it_is_the_account(box, rhrun, clouds):
    cloud, spec = up(box, rhrun, clouds)
    for machine in cloud.machines():
        cloud.vanish(machine)
    cloud.token = box.env["HCLOUD_TOKEN"] = "the-token-of-the-next-year"
    let_go(box.start("down", spec))
    rhrun("down", spec, "--yes").ok()
    assert json.loads(rhrun("clusters", "--json").ok().out) == []
    nothing_left(cloud)


def test_what_is_kept_of_credentials_does_not_tell_them(box, rhrun, clouds):
    cloud, spec = up(box, rhrun, clouds)
    (kept,) = box.state.rglob("account-hetzner")
    assert kept.stat().st_mode & 0o777 == 0o600 and len(kept.read_text()) == 64
    for given in (cloud.token, f"hetzner{cloud.token}"):
        assert hashlib.sha256(given.encode()).hexdigest() != kept.read_text()
    rhrun("down", spec).ok()
