"""Specs from strangers: commands that only look never show text of files that are not the spec's, and never wait for such a file."""
import os
import socket
import subprocess

import pytest

from harness import require
from wants_password import wants_password

SECRET = "hunter2-0123456789"


def no_secret(r):
    assert SECRET not in r.out + r.err, r


@pytest.mark.parametrize("text", [
    f"root:{SECRET}:19000:0:99999:7:::\n", f"{SECRET} {SECRET}\n", f"key={SECRET}\n", f"a\n{SECRET}:x:0:\n",
    f"{SECRET}!\n{SECRET}!\n",
], ids=["shadow", "two words", "assignment", "group", "twice"])
@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["text", "json"])
def test_a_hostfile_is_never_quoted(rhrun, job, box, text, json_):
    private = box.dir / "private"
    private.write_text(text)
    for path in (str(private), "../home/x"):
        (box.home / "x").write_text(text)
        r = rhrun("validate", *json_, job({"cluster": {"hostfile": path}, "entrypoint": {"run": "x"}})).expect(2)
        no_secret(r)
        assert "not a host" in r.out + r.err
        for command in (["plan", "--offline"], ["plan"], ["show"], ["doctor"]):
            no_secret(rhrun(*command, *json_, "job.yaml").expect(2))


def test_a_hostfile_names_its_line(rhrun, job, box):
    (box.work / "hosts").write_text("a\n\n# none\nb slots=8\na\n")
    r = rhrun("validate", job("cluster: {hostfile: hosts}\nentrypoint: {run: x}\n")).expect(2)
    assert "hosts:4: error: the line is not a host" in r.err
    assert "hosts:5: error: the host is listed twice" in r.err and "hosts:1: note: it is here too" in r.err
    assert "slots" not in r.err


@pytest.mark.parametrize("text", [
    f"{SECRET}\n", f"{SECRET}: [\n", f"hosts: [{SECRET}!]\n", f"{SECRET}: 1\n{SECRET}: 2\n", f"hosts: *{SECRET}\n",
    f"hosts: {SECRET}\n", f"hosts: [a]\nport: {SECRET}\n", f"user: '{SECRET} x'\nhosts: [{{host: a}}]\n", f"!{SECRET} x\n",
    f"hosts: ['${{{{ {SECRET} }}}}']\n", f"hosts: [${{{{ {SECRET} }}}}]\n", f"{SECRET}: yes\nhosts: [a]\n",
    f"transport: {SECRET}\nhosts: [a]\n", f"hosts: [a]\nidentity_file: ${{{{ params.{SECRET} }}}}\n",
], ids=["text", "list", "host", "twice", "alias", "type", "port", "user", "tag", "expression", "flow", "key", "word", "name"])
@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["text", "json"])
def test_a_linked_cluster_or_spec_is_never_quoted(rhrun, job, box, text, json_):
    private = box.dir / "private.yaml"
    private.write_text(text)
    (box.work / "clusters").mkdir()
    (box.work / "clusters/prod.yaml").symlink_to(private)
    r = rhrun("validate", *json_, job("cluster: prod\nentrypoint: {run: x}\n")).expect(2)
    no_secret(r)
    assert "prod.yaml" in r.out + r.err
    (box.work / "linked.yaml").symlink_to(private)
    r = rhrun("validate", *json_, "linked.yaml").expect(2)
    no_secret(r)
    assert "linked.yaml" in r.out + r.err
    schema = box.work / "schema.json"
    schema.write_text('{"type": "object", "properties": {"hosts": {"type": "integer"}}, "additionalProperties": false}')
    no_secret(rhrun("validate", *json_, "--schema", schema, "linked.yaml").expect(2))


def test_yaml_of_the_spec_s_own_repository_is_quoted(rhrun, job, box):
    """A link within the repository is the repository's own text."""
    repo = box.work / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / "jobs/clusters").mkdir(parents=True)
    (repo / "prod.yaml").write_text("hosts: [a]\nprot: 22\n")
    (repo / "jobs/clusters/prod.yaml").symlink_to(repo / "prod.yaml")
    (repo / "jobs/job.yaml").write_text("cluster: prod\nentrypoint: {run: x}\n")
    r = rhrun("validate", repo / "jobs/job.yaml").expect(2)
    assert "prod.yaml:2:1: error:" in r.err and "prot: 22" in r.err
    (repo / ".git").rmdir()
    r = rhrun("validate", repo / "jobs/job.yaml").expect(2)
    assert "prod.yaml:2: error:" in r.err and "prot" not in r.err
    assert "no text of this file is shown" in r.err


def test_a_home_that_is_a_repository_is_not_the_spec_s(rhrun, job, box):
    """A user who keeps dotfiles in git has a .git above everything."""
    (box.home / ".git").mkdir()
    (box.home / "token.yaml").write_text(f"{SECRET}: x\n")
    jobs = box.home / "stranger"
    (jobs / "clusters").mkdir(parents=True)
    (jobs / "clusters/prod.yaml").symlink_to(box.home / "token.yaml")
    (jobs / "job.yaml").write_text("cluster: prod\nentrypoint: {run: x}\n")
    no_secret(rhrun("validate", jobs / "job.yaml").expect(2))


@pytest.mark.parametrize("command", [["plan"], ["doctor"], ["plan", "--trust"], ["doctor", "--trust"], ["run"]],
                         ids=" ".join)
@pytest.mark.parametrize("transport", ["auto", "openssh"])
def test_an_ssh_config_is_never_quoted(rhrun, job, box, command, transport):
    require("ssh")
    for text in (f"root:{SECRET}:0\n", f"Port {SECRET}\n", f"Host a\n  {SECRET}\n", f"Match {SECRET}\n"):
        private = box.dir / "private"
        private.write_text(text)
        spec = job({"cluster": {"hosts": ["a.invalid"], "ssh_config": str(private), "transport": transport},
                    "entrypoint": {"run": "x"}})
        r = rhrun(*command, spec, timeout=60)
        no_secret(r)
        assert "line " in r.out + r.err, r


KEYS = ["identity_file", "known_hosts", "ssh_config"]


@pytest.mark.parametrize("key", KEYS + ["hostfile", "cluster", "secret", "spec"])
@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a socket"])
def test_what_is_no_file_is_refused_at_once(rhrun, job, box, key, kind):
    """Neither waited for, nor opened."""
    path = box.work / "it"
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        s = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(box.work)
        s.bind("it")
        os.chdir(here)
    spec = {"cluster": {"hosts": ["a.invalid"]}, "entrypoint": {"run": "x"}}
    if key in KEYS:
        spec["cluster"][key] = "it"
    elif key == "hostfile":
        spec["cluster"] = {"hostfile": "it"}
    elif key == "secret":
        spec["secrets"] = [{"name": "T", "file": "it"}]
    elif key == "cluster":
        (box.work / "clusters").mkdir()
        (box.work / "clusters/it.yaml").symlink_to(path)
        spec["cluster"] = "it"
    made = path if key == "spec" else job(spec)
    for command in (["validate"], ["plan"], ["plan", "--offline"], ["doctor"], ["run"]):
        r = rhrun(*command, made, timeout=20).expect(2)
        assert f"is {kind}, not a file" in r.out + r.err, r


def test_dev_null_is_an_empty_ssh_configuration(rhrun, job):
    spec = {"cluster": {"hosts": ["a"], "ssh_config": "/dev/null", "known_hosts": "/dev/null"}, "entrypoint": {"run": "x"}}
    rhrun("validate", job(spec)).ok()


@pytest.mark.parametrize("name", ["index", "config", "commondir", "packed-refs", "an include"])
def test_a_fifo_in_a_repository_is_refused_at_once(rhrun, job, box, name):
    """libgit2 would wait for it."""
    require("git")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(box.work)]
    subprocess.run([*git, "init", "-q"], check=True)
    (box.work / ".gitignore").write_text("*.log\n")
    (box.work / "x.log").write_text("tracked, and ignored\n")
    subprocess.run([*git, "add", "-f", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    if name == "an include":
        with open(box.work / ".git/config", "a") as config:
            config.write("[include]\n path = ../it\n")
        os.mkfifo(box.work / "it")
    else:
        (box.work / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(box.work / ".git" / name)
    spec = job({"workdir": ".", "cluster": {"hosts": ["a.invalid"]}, "entrypoint": {"run": "x"}})
    r = rhrun("plan", "--offline", spec, timeout=20).expect(2)
    assert "is not a file" in r.err, r
    spec = job({"workdir": {"git": str(box.work)}, "cluster": {"hosts": ["a.invalid"]}, "entrypoint": {"run": "x"}}, "b.yaml")
    r = rhrun("plan", "--files", spec, timeout=20).expect(2)
    assert "is not a file" in r.err, r


# ---- commands that only look run nothing that the spec names ----

LOOKS = [["validate"], ["show"], ["plan", "--offline"], ["plan"], ["doctor"], ["plan", "--files"]]


def ran(box):
    return (box.dir / "ran").exists()


def commands(box):
    """Lines of an ssh_config that make ssh run `touch`, as ssh takes them; %L is the file that is in the folder ssh."""
    touch = f"touch {box.dir}/ran"
    (box.work / "more").write_text(f"Match exec \"{touch}\"\n  User x\n")
    script = box.work / "touch.sh"
    script.write_text(f"#!/bin/sh\n{touch}\n")
    script.chmod(0o755)
    return {
        "Match exec": f'Match exec "{touch}"\n  User x\n',
        "match !EXEC": f'match !EXEC "{touch}"\n  User x\n',
        "Match host exec": f'Match host * exec "{touch}"\n  User x\n',
        "ProxyCommand": f"ProxyCommand {touch}\n",
        "PROXYCOMMAND=": f"  PROXYCOMMAND={touch}\n",
        "quotes": f'"ProxyCommand" {touch}\n',
        "inner quotes": f'Proxy"Command" {touch}\n',
        "KnownHostsCommand": f"KnownHostsCommand {script}\n",
        "LocalCommand": f"PermitLocalCommand yes\nLocalCommand {touch}\n",
        "Include": f"Include {box.work}/mor?\n",
        "PKCS11Provider": f"PKCS11Provider {script}\n",
        "IdentityAgent": f"IdentityAgent {box.work}/agent\n",
        "SendEnv": "SendEnv *\n",
        "unknown": "IgnoreUnknown Later*\nLaterCommand x\n",
    }


@pytest.mark.parametrize("transport", ["auto", "openssh"])
@pytest.mark.parametrize("which", ["Match exec", "match !EXEC", "Match host exec", "ProxyCommand", "PROXYCOMMAND=", "quotes",
                                   "inner quotes", "KnownHostsCommand", "LocalCommand", "Include", "PKCS11Provider",
                                   "IdentityAgent", "SendEnv", "unknown"])
def test_looking_runs_no_command_of_an_ssh_config(rhrun, job, box, fleet, which, transport):
    """And names the line, and how to continue."""
    require("ssh")
    f = fleet(1)
    config = box.work / "ssh_config"
    config.write_text("# a comment\n\n" + commands(box)[which] + (f.dir / "ssh_config").read_text())
    spec = job({"cluster": {"hosts": ["node1"], "ssh_config": "ssh_config", "transport": transport},
                "entrypoint": {"run": "true"}})
    for command in LOOKS:
        r = rhrun(*command, spec)
        assert not ran(box), r
        if command in (["plan"], ["doctor"]):
            assert r.rc == (2 if command == ["plan"] else 3), r
            line = 'more", line 1:' if which == "Include" else f'ssh_config", line {4 if which in ("LocalCommand", "unknown") else 3}:'
            assert line in r.out + r.err and "--trust" in r.out + r.err, r
            assert ("--offline" in r.err) == (command == ["plan"])
            assert "touch " not in r.out + r.err
        else:
            r.ok()
    assert f.lines(1) == []


@pytest.mark.parametrize("which", ["Match exec", "match !EXEC", "Match host exec", "ProxyCommand", "quotes", "Include"])
def test_trust_and_run_let_them(rhrun, job, box, fleet, which):
    """So the commands of the test above are ones that ssh runs."""
    require("ssh")
    f = fleet(1)
    config = box.work / "ssh_config"
    config.write_text(commands(box)[which] + (f.dir / "ssh_config").read_text())
    spec = job({"cluster": {"hosts": ["node1"], "ssh_config": "ssh_config"}, "entrypoint": {"run": "true"}})
    for command in (["plan", "--trust"], ["doctor", "--trust"], ["run"]):
        rhrun(*command, spec)
        assert ran(box)
        (box.dir / "ran").unlink()


def test_an_ssh_config_without_commands_needs_no_trust(rhrun, job, box, fleet):
    f = fleet(1)
    (box.work / "more").write_text("Host other\n  HostName 192.0.2.1\n")
    config = box.work / "ssh_config"
    config.write_text(f"Include {box.work}/more\nSendEnv LANG LC_*\nMatch host other\n  Port 3\nHost *\n  ProxyCommand none\n"
                      "  IdentityAgent none\n  ServerAliveInterval 30\n" + (f.dir / "ssh_config").read_text())
    spec = job({"cluster": {"hosts": ["node1"], "ssh_config": "ssh_config"}, "entrypoint": {"run": "true"}})
    rhrun("plan", spec).ok()
    rhrun("doctor", spec).ok()


def test_the_user_s_own_configuration_is_trusted(rhrun, job, box, fleet):
    require("ssh")
    f = fleet(1)
    own = box.home / ".ssh"
    own.mkdir(mode=0o700)
    (own / "mine").write_text(commands(box)["Match exec"])
    (own / "config").write_text(f"Include {own}/mine\n" + (f.dir / "ssh_config").read_text())
    for path in ("~/.ssh/config", "ssh_config"):
        (box.work / "ssh_config").write_text(f"Include {own}/config\n")
        spec = job({"cluster": {"hosts": ["node1"], "ssh_config": path}, "entrypoint": {"run": "true"}})
        rhrun("plan", spec).ok()
        assert ran(box)
        (box.dir / "ran").unlink()


def test_looking_runs_no_command_of_a_secret(rhrun, job, box):
    spec = job({"secrets": [{"name": "T", "command": ["touch", str(box.dir / "ran")]}], "entrypoint": {"run": "true"}})
    for command in LOOKS + [["plan", "--trust"], ["doctor", "--trust"]]:
        rhrun(*command, spec)
        assert not ran(box)
    rhrun("run", spec).ok()
    assert ran(box)


def test_looking_runs_nothing_that_git_s_configuration_names(rhrun, job, box):
    """The index is one that libgit2 cannot read, so git is asked; all that its configuration could make it run is in it."""
    require("git")
    touch = box.work / "touch.sh"
    touch.write_text(f"#!/bin/sh\ntouch {box.dir}/ran\ncat\n")
    touch.chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(box.work)]
    spec = job({"workdir": ".", "entrypoint": {"run": "true"}})
    (box.work / ".gitattributes").write_text("* filter=x diff=x\n")
    (box.work / ".gitignore").write_text("*.log\n")
    (box.work / "x.log").write_text("tracked, and ignored\n")
    for args in (["init", "-q"], ["add", "-f", "."], ["commit", "-qm", "x"], ["update-index", "--split-index"]):
        subprocess.run([*git, *args], check=True)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "credential.helper",
                "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "uploadpack.packObjectsHook",
                "core.alternateRefsCommand", "alias.ls-files", "remote.origin.uploadpack", "remote.origin.vcs"):
        subprocess.run([*git, "config", key, f"!{touch}" if key[:5] in ("alias", "crede") else str(touch)], check=True)
    subprocess.run([*git, "config", "remote.origin.url", f"ext::{touch}"], check=True)
    subprocess.run([*git, "config", "core.hooksPath", str(box.work / "hooks")], check=True)
    (box.work / "hooks").mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        (box.work / "hooks" / hook).symlink_to(touch)
    for command in LOOKS:
        r = rhrun(*command, spec)
        assert not ran(box), r
    assert "x.log" in rhrun("plan", "--files", spec).ok().out
    other = job({"workdir": {"git": str(box.work)}, "entrypoint": {"run": "true"}}, "b.yaml")
    ext = job({"workdir": {"git": f"ext::{touch}"}, "entrypoint": {"run": "true"}}, "c.yaml")
    for command in LOOKS:
        rhrun(*command, other)
        rhrun(*command, ext)
        assert not ran(box), command


@pytest.fixture
def forge(box):
    """An https server that requires a password: its port, its certificate and the requests."""
    require("openssl")
    key, cert = box.dir / "key.pem", box.dir / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    with wants_password(cert, key) as (port, asked):
        yield port, cert, asked


def test_git_s_credential_helper_of_the_folder_is_not_asked(rhrun, job, box, forge):
    """`git credential fill` reads the configuration of the repository that it is called in; the user's own is asked."""
    require("git")
    port, cert, asked = forge
    subprocess.run(["git", "-C", str(box.work), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(box.work), "config", "credential.helper", f"!touch {box.dir}/ran; true"], check=True)
    (box.home / ".gitconfig").write_text(f"[credential]\n\thelper = !touch {box.dir}/own; true\n")
    spec = job({"workdir": {"git": f"https://localhost:{port}/x"}, "entrypoint": {"run": "true"}})
    rhrun("plan", spec, env={"GIT_SSL_CAINFO": str(cert)}).expect(3)
    assert asked and (box.dir / "own").exists() and not ran(box)
