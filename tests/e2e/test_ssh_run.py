"""Jobs on hosts over SSH: a fleet of real sshd. Each step runs once per node, and each way to fail at the login has one clear line."""
import os
import re
import subprocess

import pytest

from harness import free_base, require

STEPS = """
cluster: %s
setup:
  - {name: one, run: 'echo one >>$HOME/lines'}
  - {name: two, run: 'echo two >>$HOME/lines'}
distributed: {nproc_per_node: 1}
entrypoint: {run: 'echo launch >>$HOME/lines; echo rank $RANK of $WORLD_SIZE'}
"""
WANTED = ["one", "two", "launch"]


def spec_text(cluster):
    import json
    return STEPS % json.dumps(cluster)


@pytest.mark.parametrize("transport", ["ssh", "openssh"])
def test_four_nodes_exactly_once(box, fleet, job, rhrun, transport):
    require("ssh")
    f = fleet(4)
    spec = job(spec_text(f.cluster(transport=transport)))
    r = rhrun(spec).ok()
    assert f.all_lines() == [WANTED] * 4
    for rank in range(4):
        assert f"rank {rank} of 4" in r.out
        assert re.search(rf"\[{rank}\]@node{rank + 1}\b", r.out), r
    again = rhrun(spec).ok()
    assert "nothing to do" in again.err
    assert f.all_lines() == [WANTED] * 4


def test_keys_in_the_spec_without_an_ssh_config(fleet, job, rhrun):
    f = fleet(2)
    rhrun(job(spec_text(f.explicit_cluster()))).ok()
    assert f.all_lines() == [WANTED] * 2


def test_the_home_folder_of_a_node_is_private(fleet, job, rhrun):
    f = fleet(1)
    rhrun(job(spec_text(f.cluster()))).ok()
    base = f.home(1) / ".rhrun"
    assert base.is_dir() and base.stat().st_mode & 0o077 == 0


def test_nothing_but_the_ledger_stays_on_the_node(fleet, job, rhrun):
    f = fleet(1)
    rhrun(job(spec_text(f.cluster()))).ok()
    assert sorted(p.name for p in f.home(1).iterdir()) == [".rhrun", "lines"]


def test_on_replaces_the_cluster(fleet, job, rhrun, box):
    f = fleet(1)
    spec = job(spec_text(f.cluster()))
    rhrun("--on", "local", spec).ok()
    assert f.lines(1) == [] and box.lines() == WANTED


def test_a_host_was_replaced_by_another_machine(fleet, job, rhrun):
    """A new disk has no ledger: the journal's records are not true there."""
    f = fleet(2)
    spec = job(spec_text(f.cluster()))
    rhrun(spec).ok()
    for p in f.home(2).iterdir():
        subprocess.run(["rm", "-rf", p], check=True)
    rhrun("--again", spec).ok()
    assert f.lines(1) == ["one", "two", "launch", "launch"]
    assert f.lines(2) == ["one", "two", "launch"]


def test_a_failing_rank_names_its_node(fleet, job, rhrun):
    f = fleet(3)
    import json
    spec = job("cluster: %s\ndistributed: {nproc_per_node: 1}\n"
               "entrypoint: {run: '[ $RANK = 1 ] && exit 9; sleep 600'}\n" % json.dumps(f.cluster()))
    r = rhrun(spec).expect(1)
    assert "node2" in r.err and "exit status 9" in r.err


def test_a_worker_sees_the_other_nodes(fleet, job, rhrun):
    f = fleet(2)
    import json
    spec = job("cluster: %s\ndistributed: {nproc_per_node: 1}\n"
               "entrypoint: {run: 'echo addrs $RHRUN_NODE_ADDRS master $MASTER_ADDR me $RHRUN_NODE_RANK'}\n" % json.dumps(f.cluster()))
    r = rhrun(spec).ok()
    assert re.search(r"addrs \S+ master \S+ me 0", r.out) and re.search(r"master \S+ me 1", r.out), r


def test_one_unreachable_host_is_named(fleet, job, rhrun):
    f = fleet(2)
    f.stop(2)
    r = rhrun(job(spec_text(f.cluster()))).expect(3)
    assert "node2" in r.err and "refused" in r.err.lower()
    assert "launch" not in f.lines(1)


def one_clear_line(result, *words):
    """The failure is said in one line that holds all words."""
    result.expect(3)
    hits = [line for line in result.err.splitlines() if all(w.lower() in line.lower() for w in words)]
    assert hits, f"no line with {words}\n{result}"


@pytest.mark.parametrize("transport", ["ssh", "openssh"])
class TestCannotGetIn:
    def cluster(self, f, transport, **more):
        return f.explicit_cluster(transport=transport, **more)

    def test_wrong_key(self, fleet, job, rhrun, box, transport):
        f = fleet(1)
        key = box.dir / "other"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        r = rhrun(job(spec_text(self.cluster(f, transport, identity_file=str(key)))))
        one_clear_line(r, "127.0.0.1", "auth" if transport == "ssh" else "denied")

    def test_missing_key(self, fleet, job, rhrun, box, transport):
        f = fleet(1)
        r = rhrun(job(spec_text(self.cluster(f, transport, identity_file=str(box.dir / "nowhere")))))
        assert r.rc in (2, 3) and "nowhere" in r.err, r

    def test_wrong_user(self, fleet, job, rhrun, transport):
        f = fleet(1)
        r = rhrun(job(spec_text(self.cluster(f, transport, user="nobody-of-that-name"))))
        one_clear_line(r, "127.0.0.1")
        assert "nobody-of-that-name" in r.err

    def test_closed_port(self, fleet, job, rhrun, transport):
        f = fleet(1)
        cluster = self.cluster(f, transport)
        cluster["hosts"][0]["port"] = free_base(1) + 1
        one_clear_line(rhrun(job(spec_text(cluster))), "127.0.0.1", "refused")

    def test_unresolvable_name(self, fleet, job, rhrun, transport):
        f = fleet(1)
        cluster = self.cluster(f, transport, hosts=["no-such-host.invalid"])
        one_clear_line(rhrun(job(spec_text(cluster))), "no-such-host.invalid")

    def test_unknown_host_key(self, fleet, job, rhrun, box, transport):
        f = fleet(1)
        empty = box.spec("", "empty_known_hosts")
        r = rhrun(job(spec_text(self.cluster(f, transport, known_hosts=str(empty)))))
        one_clear_line(r, "host key")

    def test_changed_host_key(self, fleet, job, rhrun, box, transport):
        f = fleet(1)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", box.dir / "fake"], check=True)
        fake = " ".join((box.dir / "fake.pub").read_text().split()[:2])
        known = box.spec(f"# a comment\n[127.0.0.1]:{f.port(1)} {fake}\n", "changed_known_hosts")
        r = rhrun(job(spec_text(self.cluster(f, transport, known_hosts=str(known))))).expect(3)
        assert "host key" in r.err.lower() and f"{known}:2" in r.err.replace(" line ", ":"), r
        assert f.lines(1) == []


def test_revoked_host_key_is_refused(fleet, job, rhrun, box):
    f = fleet(1)
    good = (f.dir / "known_hosts").read_text().split("\n")[0]
    known = box.spec(f"{good}\n@revoked {good}\n", "revoked")
    r = rhrun(job(spec_text(f.explicit_cluster(known_hosts=str(known))))).expect(3)
    assert "revoked" in r.err


@pytest.mark.parametrize("transport", [None, "ssh", "openssh"])
def test_revoked_host_keys_file(fleet, job, rhrun, box, transport):
    nodes = fleet(1)
    revoked = box.dir / "revoked"
    revoked.write_text((nodes.dir / "1/host_key.pub").read_text())
    config = box.dir / "config"
    config.write_text(f"RevokedHostKeys {revoked}\n" + (nodes.dir / "ssh_config").read_text())
    spec = job({"cluster": nodes.cluster(ssh_config=str(config), transport=transport), "entrypoint": {"run": "echo >>$HOME/ran"}})
    r = rhrun(spec).expect(3)
    assert not (nodes.home(1) / "ran").exists()
    assert "revokedhostkeys" in r.err if transport == "ssh" else "revoked" in r.err, r


@pytest.mark.parametrize("line", ["Ciphers aes256-gcm@openssh.com", "MACs hmac-sha2-512-etm@openssh.com", "KexAlgorithms ecdh-sha2-nistp384",
                                  "HostKeyAlgorithms ssh-ed25519", "RekeyLimit 1G"])
def test_what_the_own_client_does_not_do_is_left_to_openssh(fleet, job, rhrun, box, line):
    nodes = fleet(1, options="LogLevel DEBUG1")
    config = box.dir / "config"
    config.write_text(line + "\n" + (nodes.dir / "ssh_config").read_text())
    spec = job({"cluster": nodes.cluster(ssh_config=str(config)), "entrypoint": {"run": "true"}})
    rhrun(spec).ok()
    log = (nodes.dir / "1/log").read_text()
    assert "remote software version OpenSSH" in log and "libssh2" not in log, log[-3000:]


def test_hashed_known_hosts(fleet, job, rhrun, box):
    f = fleet(1)
    known = box.spec((f.dir / "known_hosts").read_text(), "hashed")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "|1|" in known.read_text()
    rhrun(job(spec_text(f.explicit_cluster(known_hosts=str(known))))).ok()


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_other_kinds_of_keys(fleet, job, rhrun, box, kind):
    f = fleet(1)
    key = box.dir / "k"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", key], check=True)
    with open(f.dir / "key.pub", "a", encoding="utf-8") as keys:
        keys.write(key.with_suffix(".pub").read_text())
    rhrun(job(spec_text(f.explicit_cluster(identity_file=str(key))))).ok()
    assert f.lines(1) == WANTED


def test_a_proxy_jump(fleet, job, rhrun, box):
    f = fleet(2)
    config = box.spec(f"Host inner\n  HostName 127.0.0.1\n  Port {f.port(2)}\n  ProxyJump node1\n"
                      + (f.dir / "ssh_config").read_text(), "jump_config")
    rhrun(job(spec_text({"hosts": ["inner"], "ssh_config": str(config)}))).ok()
    assert f.all_lines() == [[], WANTED]


def test_etm_only_servers_are_reached_through_openssh(fleet, job, rhrun):
    f = fleet(1, options="MACs hmac-sha2-256-etm@openssh.com\nCiphers aes128-ctr")
    rhrun(job(spec_text(f.cluster()))).ok()
    assert f.lines(1) == WANTED


@pytest.mark.slow
def test_32_nodes(fleet, job, rhrun):
    f = fleet(32)
    rhrun(job(spec_text(f.cluster())), timeout=200).ok()
    assert f.all_lines() == [WANTED] * 32
