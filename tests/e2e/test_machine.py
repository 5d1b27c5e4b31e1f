"""A rented machine: the user data that it gets, and the first login, on the machines of the test clouds."""
import shutil
import subprocess
import time

import pytest

import harness
from clouds import machine

ASK = harness.RHRUN.parent / "tests/unit/rent_ask"
TOKEN = "5f0c1f2a-0000-4000-8000-000000000000"
SHELLS = {"sh": "/bin/sh", "mksh": "/bin/mksh", "busybox": "/bin/busybox sh", "bash": "/bin/bash"}


def ask(*args, check=True):
    done = subprocess.run([str(a) for a in (ASK, *args)], capture_output=True, text=True, timeout=harness.TIMEOUT)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else (done.stdout or done.stderr).strip()


class Rented:
    """A cluster of one machine; times of its user data are shortened, but the order of things stays."""

    def __init__(self, box):
        self.folder, self.booted = box.path("keys"), []

    def data(self, user="ubuntu", token=TOKEN, expires=0, idle=0, deadline="none", bills="fully", shell="sh", systemd=True, watch=True, first=""):
        text = ask("data", self.folder, "rhrun-x-0", user, token, expires, idle, deadline, bills)
        for was, now in (("/bin/sh", SHELLS[shell]), ("sleep 15", "echo >>/run/looks; sleep 0.05"), ("3600", "30")):
            assert was in text
            text = text.replace(was, now)
        if not systemd:
            text = text.replace("/run/systemd/system", "/run/none")
        if not watch:
            text = text.replace("\nwatch) watch ;;", "\nwatch) exit ;;")
        line, rest = text.split("\n", 1)
        return f"{line}\n{first}\n{rest}".encode()

    def boot(self, user="ubuntu", keys=(), minute_s=60, **how):
        self.booted.append(machine.Machine(user, keys, self.data(user, **how), minute_s=minute_s))
        return self.booted[-1]

    def meet(self, m, intent="rhrun-x-0", user=None, token=TOKEN):
        return ask("meet", self.folder, intent, user or m.user, token, "i-0", f"{m.address}:{m.port}", check=False)

    def met(self, m):
        """Waits until the machine answers: sshd reloads a moment after it was told to."""
        assert m.wait_ready() == 0, m.read("/var/log/cloud-init-output.log")
        harness.wait_for(lambda: self.meet(m) == f"ours {m.host_key()}", what="the machine to answer")


@pytest.fixture
def rented(box):
    machine.require()
    all_of_it = Rented(box)
    yield all_of_it
    for m in all_of_it.booted:
        m.kill()


def watched(m):
    return m.run("pgrep", "-f", "rhrun-machine watch", check=False) != ""


def looks(m, more=5):
    """Lets the watch look that many more times."""
    count = lambda: m.read("/run/looks").count("\n") if m.path("/run/looks").exists() else 0
    before = count()
    harness.wait_for(lambda: m.state == "ended" or count() >= before + more, what="looks of the watch")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_is_met(rented, shell):
    if not shutil.which(SHELLS[shell].split()[0]):
        pytest.skip(f"{shell} is not here")
    m = rented.boot(shell=shell, keys=["ssh-ed25519 AAAAofTheProvider x"], expires=int(time.time()) + 7200, deadline="shutdown", idle=7200)
    rented.met(m)
    assert m.run("sh", "-c", "ls /etc/ssh/ssh_host_*").split() == ["/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub"]
    assert m.run("stat", "-c", "%a %U", "/etc/ssh/ssh_host_ed25519_key", "/run/rhrun-token", "/home/ubuntu/.ssh/authorized_keys").split() \
        == ["600", "root", "644", "root", "600", "ubuntu"]
    assert m.read("/run/rhrun-token") == TOKEN + "\n"
    assert watched(m) and m.path("/run/machine/scheduled").exists()
    # A provider may run it at every boot.
    m.run("/var/lib/cloud/instance/scripts/part-001")
    keys = [k for k in m.read("/home/ubuntu/.ssh/authorized_keys").split("\n") if k]
    assert keys[0] == "ssh-ed25519 AAAAofTheProvider x" and len(keys) == 2 and keys[1].endswith(" rhrun")
    rented.met(m)
    looks(m)
    assert m.state == "up"
    assert m.read("/var/log/cloud-init-output.log") == ""


def test_another_machine_is_not_met(rented):
    m = rented.boot(user="root")
    rented.met(m)
    assert rented.meet(m, token="5f0c1f2a-0000-4000-8000-000000000001").startswith("other")
    assert "another machine answers there" in rented.meet(m, intent="rhrun-x-1") and rented.meet(m, intent="rhrun-x-1").startswith("host key: ")
    assert rented.meet(m, user="nobody").startswith("login: ")
    m.kill()
    assert "Connection refused" in rented.meet(m)


def test_a_machine_without_user_data_is_met(rented, box):
    """The first machine that answers, and no other from then on."""
    rented.data()
    public = subprocess.run(["ssh-keygen", "-y", "-f", rented.folder / "id_ed25519"], check=True, capture_output=True, text=True).stdout
    m = machine.Machine("root", [public])
    rented.booted.append(m)
    m.wait_up()
    assert rented.meet(m, intent="-", token="-") == f"ours {m.host_key()}"
    assert rented.meet(m, intent="-", token="-") == f"ours {m.host_key()}"
    other = machine.Machine("root", [public], address=machine.new_address())
    rented.booted.append(other)
    other.wait_up()
    (rented.folder / "known_hosts-i-0").write_text(f"{other.address} {m.host_key()}\n")
    assert rented.meet(other, intent="-", token="-").startswith("host key: ")


@pytest.mark.parametrize("how", ["systemd", "alone", "killed"])
def test_the_deadline_comes(rented, how):
    """Without systemd too; and by the system's own timer if the watch is gone."""
    expires = int(time.time()) + (3600 if how == "killed" else 2)
    m = rented.boot(expires=expires, deadline="shutdown", systemd=how == "systemd", watch=how != "killed", minute_s=0.02)
    assert m.wait_ended() == "poweroff"


def test_process_1_is_ended(rented):
    m = rented.boot(user="root", expires=int(time.time()) + 1, deadline="kill_pid1")
    assert m.wait_ended() == "poweroff"


@pytest.mark.parametrize("deadline, bills", [("shutdown", "disk"), ("server", "disk")])
def test_nobody_comes(rented, deadline, bills):
    """While an agent or a supervisor lives it stays, whoever controls it."""
    agents = "cp /bin/sleep /run/rhrun-agent; cp /bin/sleep /run/rhrun-supervise; /run/rhrun-agent 600 & /run/rhrun-supervise 600 &"
    m = rented.boot(idle=45, deadline=deadline, bills=bills, expires=int(time.time()) + 7200, first=agents)
    assert m.wait_ready() == 0
    looks(m, 20)
    m.run("pkill", "-x", "rhrun-agent")
    looks(m, 20)
    assert m.state == "up"
    m.run("pkill", "-x", "rhrun-supervise")
    assert m.wait_ended() == "poweroff"


def test_nobody_ever_came(rented):
    m = rented.boot(idle=15, deadline="shutdown", expires=int(time.time()) + 7200)
    assert m.wait_ended() == "poweroff"


@pytest.mark.parametrize("deadline, bills", [("none", "fully"), ("server", "fully"), ("self_delete", "fully")])
def test_nothing_is_armed_where_it_would_not_end_the_bill(rented, deadline, bills):
    m = rented.boot(expires=int(time.time()) - 100, idle=15, deadline=deadline, bills=bills)
    rented.met(m)
    assert not watched(m) and not m.path("/run/machine/scheduled").exists()


def test_a_reboot_and_an_image(rented):
    """The deadline comes back with the machine, but does not follow an image of it."""
    m = rented.boot(expires=int(time.time()) + 7200, deadline="shutdown")
    assert m.wait_ready() == 0
    m.run("sh", "-c", "pkill -KILL -f '[r]hrun-machine watch'; rm -f /run/rhrun-token /run/machine/scheduled /run/looks")
    harness.wait_for(lambda: not watched(m), what="the watch's end")
    m.run("/var/lib/cloud/scripts/per-boot/rhrun")
    assert watched(m) and m.read("/run/rhrun-token") == TOKEN + "\n" and m.path("/run/machine/scheduled").exists()
    m.run("sh", "-c", "pkill -KILL -f '[r]hrun-machine watch'; rm -f /run/rhrun-token; mv /var/lib/cloud/instance /var/lib/cloud/was; mkdir /var/lib/cloud/instance")
    harness.wait_for(lambda: not watched(m), what="the watch's end")
    m.run("/var/lib/cloud/scripts/per-boot/rhrun")
    assert not watched(m) and not m.path("/run/rhrun-token").exists() and not m.path("/var/lib/cloud/scripts/per-boot/rhrun").exists()


def test_a_machine_that_would_not_end_is_not_met(rented):
    m = rented.boot(expires=int(time.time()) + 7200, deadline="shutdown", first="mkdir -p /var/lib/cloud/instance/rhrun-machine")
    assert m.wait_ready() == 1
    assert rented.meet(m).startswith("host key: ")
    assert not m.path("/run/rhrun-token").exists() and m.path("/etc/ssh/ssh_host_ecdsa_key").exists()


@pytest.mark.parametrize("file", ["sshd_config", "sshd_config.d/50-cloud.conf"])
def test_host_keys_that_are_named(rented, file):
    """An image whose sshd_config names its keys gets ours among them."""
    m = rented.boot(first=f"echo HostKey /etc/ssh/ssh_host_ecdsa_key >>/etc/ssh/{file}")
    rented.met(m)
