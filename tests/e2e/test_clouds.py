"""The test clouds themselves: their machines, and their answers to the requests of the provider files."""
import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

import harness
from asking import Provider
from clouds import NAMES, gcp, machine, moto

AT = {
    "aws": {"region": "us-east-1", "type": "t3.micro", "image": "ami-12c6146b"},
    "digitalocean": {"region": "nyc3", "type": "gpu-h100x1-80gb", "image": "gpu-h100x1-base"},
    "gcp": {"project": gcp.PROJECT, "region": "us-central1", "zone": "us-central1-a", "type": "e2-small", "image": "projects/x/global/images/family/y"},
    "hetzner": {"region": "fsn1", "type": "cx22", "image": "ubuntu-24.04"},
    "lambda": {"region": "us-east-1", "type": "gpu_1x_a10"},
    "runpod": {"region": "EU-RO-1", "type": "NVIDIA A40", "gpu": "A40", "gpu_count": 1, "image": "runpod/pytorch:2.1.0"},
}
each = pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.xdist_group("moto")) if n == "aws" else n for n in NAMES])


@pytest.fixture
def key(box):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", box.path("key")], check=True)
    return box.path("key")


def public(key):
    return key.with_suffix(".pub").read_text().strip()


def ssh(key, i, *command, user=None, check=True, port=None, address=None, options=()):
    done = subprocess.run(["ssh", "-F", "none", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                           "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", *options, "-p", str(port or i.port), f"{user or i.user}@{address or i.address}",
                           *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.TIMEOUT)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done


@pytest.fixture
def boot():
    """boot(...): a machine, as clouds make them."""
    machine.require()
    booted = []

    def start(user, key, script="", **options):
        booted.append(machine.Machine(user, [public(key)], script.encode(), **options))
        return booted[-1]

    yield start
    for m in booted:
        m.kill()


# ---- machines ----

@pytest.mark.parametrize("user", ("root", "ubuntu", "admin"))
def test_a_machine_is_met_by_ssh(boot, key, user):
    m = boot(user, key, hostname="one")
    m.wait_up()
    home = "/root" if user == "root" else f"/home/{user}"
    assert ssh(key, m, "id -un; pwd; hostname; touch mine; stat -c %U mine; cat /proc/1/comm").splitlines() == [user, home, "one", user, "python3"]
    assert "sudo" not in os.listdir("/usr/bin") or ssh(key, m, "sudo -n id -u" if user != "root" else "id -u") == "0\n"
    assert m.wait_ready() == 0 and m.path(f"{home}/mine").exists() and not os.path.exists(f"{home}/mine")


def test_user_data_is_root_on_its_machine_alone(boot, key):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key.with_name("host")], check=True)
    m = boot("ubuntu", key, f"""#!/bin/sh
set -e
id -u >/run/who
umask 077
cat >/etc/ssh/ssh_host_ed25519_key <<'END'
{key.with_name("host").read_text()}END
echo '{public(key.with_name("host"))}' >/etc/ssh/ssh_host_ed25519_key.pub
rm -f /etc/ssh/ssh_host_ecdsa_key*
systemctl restart ssh
touch /usr/rhrun-test 2>/dev/null && exit 9
echo o >/proc/sysrq-trigger 2>/dev/null && exit 9
echo 1 >/proc/sys/kernel/sysrq 2>/dev/null && exit 9
mkdir -p /root/.ssh /var/lib/x; touch /tmp/rhrun-x /home/rhrun-x /etc/rhrun-x /dev/shm/rhrun-x
exit 3
""")
    assert m.wait_ready() == 3, m.read("/var/log/cloud-init-output.log")
    assert m.read("/run/who") == "0\n"
    known = key.with_name("known")
    known.write_text(f"{m.address} {' '.join(public(key.with_name('host')).split()[:2])}\n")
    harness.wait_for(lambda: ssh(key, m, "true", check=False, options=("-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes")).returncode == 0)
    assert not any(os.path.exists(p) for p in ("/run/who", "/home/rhrun-x", "/etc/rhrun-x", "/tmp/rhrun-x", "/dev/shm/rhrun-x", "/usr/rhrun-test"))


@pytest.mark.parametrize("script", ("shutdown -h +1", "shutdown -P now", "poweroff", "systemctl poweroff", "systemd-run --on-active=2s poweroff",
                                    "nohup sh -c 'sleep 0.1; shutdown -h now' >/dev/null 2>&1 &", "shutdown +1000; shutdown -c; shutdown now"))
def test_a_machine_ends_itself(boot, key, script):
    m = boot("root", key, f"#!/bin/sh\n{script}\n", minute_s=0.2)
    assert m.wait_ended() == "poweroff"
    assert not [p for p in harness.processes() if p.ppid == m.process.pid]


def test_a_shutdown_is_called_off(boot, key):
    m = boot("ubuntu", key, "#!/bin/sh\nshutdown -h +1\nshutdown -c\nshutdown -h +1000\n", minute_s=0.05)
    m.wait_ready()
    assert ssh(key, m, "/usr/local/sbin/shutdown now", check=False).returncode == 1  # not allowed for everybody
    assert m.read("/run/machine/scheduled") and m.state == "up"


def test_machines_end_with_who_started_them(tmp_path):
    machine.require()
    code = f"""import sys; sys.path.insert(0, {str(harness.ROOT / 'tests/e2e')!r})
from clouds import machine
m = machine.Machine("root", [], b"#!/bin/sh\\nsleep 10000 &\\n"); m.wait_up(); m.wait_ready(); print(m.init, m.address, flush=True)
import time; time.sleep(1000)"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    init, address = process.stdout.readline().split()
    assert os.path.exists(f"/proc/{init}") and not machine.free(address, 22)
    process.send_signal(signal.SIGKILL)
    process.wait()
    harness.wait_for(lambda: not os.path.exists(f"/proc/{init}"))
    harness.wait_for(lambda: machine.free(address, 22))


# ---- clouds ----

def sign_jwt(cloud, folder, key=None):
    """A token as Google gives it, asked for with a JWT that openssl has signed."""
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    now = int(time.time())
    claims = {"iss": gcp.EMAIL, "scope": gcp.SCOPE, "aud": f"{cloud.base}/token", "iat": now, "exp": now + 3600}
    text = part(b'{"alg":"RS256","typ":"JWT","kid":"key-1"}') + "." + part(json.dumps(claims).encode())
    (folder / "rsa").write_text(key or gcp.private_key())
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", folder / "rsa"], input=text.encode(), capture_output=True, check=True).stdout
    form = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": f"{text}.{part(signature)}"})
    with urllib.request.urlopen(f"{cloud.base}/token", form.encode()) as reply:
        return json.load(reply)["access_token"]


def asker(cloud, box):
    """Sends rhrun's requests to a cloud, with its credentials."""
    env = {**cloud.env, "HOME": str(box.home)}
    env.pop("GOOGLE_APPLICATION_CREDENTIALS", None)
    if cloud.name == "aws":
        return Provider("aws", lambda host, path, body: moto.signed(host, path, body, cloud.access_key, cloud.secret_key), **env)
    token = sign_jwt(cloud, box.work) if cloud.name == "gcp" else next(v for k, v in cloud.env.items() if not k.startswith("RHRUN_"))
    return Provider(cloud.name, lambda host, path, body: {"Authorization": f"Bearer {token}"}, **env)


def prepared(ask, cloud, key):
    """Inputs of all requests of a run: its names, the key, the results of prepare."""
    known = {"run": "0123abcd", "owner": "tests", "key_name": "rhrun-0123abcd", "public_key": public(key), "user": cloud.user, **AT[cloud.name]}
    if cloud.name not in ("gcp", "runpod"):
        assert "key" not in ask.ask("key_list", **known)["values"]
        known.update(ask.ask("key_create", **known)["values"])
        known.update(ask.ask("key_list", **known)["values"])
        assert known["key"]
    return ask.all("prepare", 3, **known) if cloud.name == "aws" else known


def node(known, n, **more):
    return {**known, "node": n, "count": 1, "name": f"rhrun-0123abcd-{n}", "expires": int(time.time()) + 3600, "max_seconds": 3600, "spot": False,
            "token": str(uuid.uuid4()), **more}


def listed(ask, known):
    """The result of a list, all of its steps together."""
    steps = range(2 if ask.name == "digitalocean" else 1)
    return {m["id"]: m for step in steps for m in ask.ask("list", step, **known)["machines"]}


@each
def test_a_cloud_as_the_provider_files_ask(box, clouds, key, name):
    cloud = clouds.start(name)
    ask = asker(cloud, box)
    known = prepared(ask, cloud, key)
    assert listed(ask, known) == {}
    data = {} if name == "runpod" else {"user_data": "#!/bin/sh\ntouch /run/user-data\n"}
    for n in (0, 1):
        one = node(known, n, **data)
        made = ask.poll(ask.ask("create", **one), **one)
        assert made["outcome"] == "done", made
    shown = harness.wait_for(lambda: len(found := listed(ask, known)) == 2 and all(m["state"] == "ready" for m in found.values()) and found)
    assert {m["node"] for m in shown.values()} == {"0", "1"} and {m["run"] for m in shown.values()} == {"0123abcd"}
    assert all(m["owner"] == "tests" and int(m["expires"]) > time.time() for m in shown.values())
    assert len(cloud.machines()) == 2 and {i.run for i in cloud.machines()} == {"0123abcd"}
    for id, m in shown.items():
        one, = ask.ask("get", **known, id=id)["machines"]
        assert one["public_ip"] == m["public_ip"] and one["state"] == "ready"
        i = next(i for i in cloud.machines() if str(i.id) == id)
        i.machine.wait_up()
        assert ssh(key, i.machine, "id -un", user=cloud.user, address=m["public_ip"], port=m.get("port")) == f"{cloud.user}\n"
        i.machine.wait_ready()
        assert name == "runpod" or i.machine.path("/run/user-data").exists()
    for id in shown:
        gone = ask.ask("delete", **known, id=id)
        assert ask.poll(gone, **known)["outcome"] == "done", gone
    harness.wait_for(lambda: all(m["state"] == "gone" for m in listed(ask, known).values()))
    assert cloud.machines() == []
    again = ask.ask("delete", **known, id=id)
    assert again["outcome"] == "done", again
    if "key" in known:
        ask.all("key_delete", 2 if name == "lambda" else 1, **known)
        assert "key" not in ask.ask("key_list", **known)["values"]
    if name == "aws":
        ask.all("cleanup", 1, **known)


WORDS = {"429": "throttled", "capacity": "capacity", "quota": "quota", "auth": "auth"}


@each
def test_what_may_go_wrong_with_a_create(box, clouds, key, name):
    cloud = clouds.start(name)
    ask = asker(cloud, box)
    known = prepared(ask, cloud, key)
    for what, word in WORDS.items():
        cloud.fault("create", what)
        failed = ask.ask("create", **node(known, 0))
        assert (failed["outcome"], failed["class"]) == ("failed", word), (what, failed)
    for what, made in (("drop_before", 0), ("500_before", 0), ("drop_after", 1), ("500_after", 2), ("garbage", 3)):
        cloud.fault("create", what)
        failed = ask.ask("create", **node(known, made))
        assert (failed["outcome"], failed["class"], failed["unsure"]) == ("failed", "transient", True), (what, failed)
        assert len(cloud.machines()) == made
    assert len(listed(ask, known)) == 3
    cloud.fault("create", "hide", looks=2)
    one = node(known, 4)
    ask.poll(ask.ask("create", **one), **one)
    assert [len(listed(ask, known)) for _ in range(3)] == ([3, 4, 4] if name == "digitalocean" else [3, 3, 4])
    cloud.fault("create", "stuck")
    one = node(known, 5)
    ask.poll(ask.ask("create", **one), **one)
    states = [[m["state"] for m in listed(ask, known).values()] for _ in range(4)][-1]
    assert sorted(states) == ["coming", *["ready"] * 4]
    if name != "gcp":
        cloud.kill(cloud.machines()[0])
        assert {m["state"] for m in listed(ask, known).values()} == {"coming", "ready", "gone" if name == "aws" else "failed"}
    assert [kind for kind, _, _ in cloud.log].count("create") == 11 and cloud.of("create")[0].method == "POST"


@pytest.mark.parametrize("name", (pytest.param("aws", marks=pytest.mark.xdist_group("moto")), "gcp"))
def test_a_token_makes_one_machine(box, clouds, key, name):
    cloud = clouds.start(name)
    ask = asker(cloud, box)
    one = node(prepared(ask, cloud, key), 0)
    cloud.fault("create", "drop_after")
    assert ask.ask("create", **one)["unsure"]
    again = ask.poll(ask.ask("create", **one), **one)
    assert again["outcome"] == "done" and len(cloud.machines()) == 1
    assert name == "gcp" or again["values"]["id"] == cloud.machines()[0].id


@pytest.mark.xdist_group("moto")
def test_half_of_a_gang(box, clouds, key):
    cloud = clouds.start("aws")
    ask = asker(cloud, box)
    known = prepared(ask, cloud, key)
    cloud.fault("create", "half")
    failed = ask.ask("create", **node(known, 0, count=4))
    assert failed["outcome"] == "failed" and failed["unsure"] and len(cloud.machines()) == 2
    assert len(listed(ask, known)) == 2
    busy = ask.ask("cleanup", **known)
    assert (busy["outcome"], busy["class"]) == ("failed", "transient")


@pytest.mark.parametrize("name", ("hetzner",))
def test_what_a_provider_does_not_know_is_told(box, clouds, key, name):
    cloud = clouds.start(name)
    ask = asker(cloud, box)
    known = prepared(ask, cloud, key)
    bad = ask.ask("create", **node({**known, "region": "moon"}, 0))
    assert bad["class"] == "invalid" and not cloud.violations
    ask.ask("create", **node({**known, "run": "a b"}, 0))
    assert cloud.violations
    cloud.violations.clear()


def test_gcp_refuses_a_token_that_another_key_has_signed(box, clouds):
    cloud = clouds.start("gcp")
    other = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], capture_output=True, text=True, check=True)
    with pytest.raises(urllib.error.HTTPError):
        sign_jwt(cloud, box.work, other.stdout)
    assert "Signature" in cloud.violations.pop()


@pytest.mark.parametrize("name", NAMES)
def test_a_box_knows_what_a_cloud_has(box, clouds, name):
    cloud = clouds.start(name)
    box.run("validate", "--schema", "provider", box.home / f".config/rhrun/providers/{name}.yaml").ok()
    shown = box.run("prices", "--provider", name, "--json", cloud.offers[0][2]).ok().out
    assert all(f'"{offer[0]}"' in shown for offer in cloud.offers), shown
