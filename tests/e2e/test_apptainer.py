"""cluster.container with a real apptainer, in a Debian (sid) of its own, because this machine's release may have none. Needs root and network: soak."""
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time

import pytest

from harness import missing, require, wait_for

pytestmark = pytest.mark.soak

# A root that is a mount in its own namespace: apptainer refuses to work below a mere chroot.
ROOT_OF_ITS_OWN = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
for d in proc sys dev; do mount --rbind /$d "$1/$d"; done
cd "$1"; mkdir -p old; pivot_root . old; umount -l /old
exec chroot . /bin/sh -c 'echo there; exec sleep 100000'
"""


def docker_archive(layer, to):
    """An archive as `docker save` writes it, with one layer."""
    data = layer.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    name = hashlib.sha256(config).hexdigest()
    with tarfile.open(to, "w") as tar:
        for path, content in ((f"{name}.json", config), (f"{digest}/layer.tar", data),
                              ("manifest.json", json.dumps([{"Config": f"{name}.json", "RepoTags": ["box:1"], "Layers": [f"{digest}/layer.tar"]}]).encode())):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


class Host:
    def __init__(self):
        if os.geteuid() != 0:
            pytest.skip("as root only")
        require("debootstrap")
        busybox = require("busybox")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rhrun-sid-"))
        self.dir.chmod(0o755)  # its users are others
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=apptainer,procps", "sid", self.dir], capture_output=True, text=True)
        if made.returncode != 0:
            shutil.rmtree(self.dir, ignore_errors=True)
            missing("a Debian with apptainer", made.stdout[-500:])
        root = self.dir / "box"
        for name in ("bin", "etc", "tmp", "proc", "dev", "sys", "root"):
            (root / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or busybox, root / "bin/busybox")
        for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
            if name != "busybox":
                (root / "bin" / name).symlink_to("busybox")
        for name in ("group", "hosts", "resolv.conf", "localtime", "machine-id"):
            (root / "etc" / name).touch()
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        for name in ("hosts", "resolv.conf", "localtime"):
            (self.dir / "etc" / name).touch()
        subprocess.run(["tar", "-C", root, "--owner=0", "--group=0", "-cf", self.dir / "layer.tar", "."], check=True)
        docker_archive(self.dir / "layer.tar", self.dir / "box.tar")
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", ROOT_OF_ITS_OWN, "sh", self.dir], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "there\n"
        self.sh("useradd -m joe; cd /root; apptainer build /box.sif docker-archive:/box.tar; chmod 644 /box.sif")

    def argv(self, user="joe"):
        enter = ["nsenter", "-t", str(self.process.pid), "-m"]
        return enter + (["su", user, "-s", "/bin/sh", "-c", "cd; exec sh"] if user != "root" else ["/bin/sh"])

    def sh(self, text, user="root"):
        return subprocess.run(self.argv(user), input=text, capture_output=True, text=True, timeout=120)

    def instances(self):
        return [i["instance"] for i in json.loads(self.sh("apptainer instance list -j", "joe").stdout)["instances"]]

    def lines(self):
        return self.sh("cat ~/lines", "joe").stdout.split("\n")[:-1]

    def clear(self):
        self.sh("apptainer instance stop --all; rm -rf ~/lines ~/go ~/.rhrun", "joe")

    def end(self):
        self.clear()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        time.sleep(0.2)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def host_of_all():
    h = Host()
    yield h
    h.end()


@pytest.fixture
def host(host_of_all):
    host_of_all.clear()
    return host_of_all


def spec(host, run, **container):
    return json.dumps({
        "name": "boxed",
        "cluster": {"hosts": [{"exec": host.argv(), "name": "sid", "address": "127.0.0.1"}],
                    "container": {"image": "/box.sif", "runtime": "apptainer", **container}},
        "setup": [{"name": "one", "run": "echo one >>~/lines"}],
        "distributed": {"nproc_per_node": 2},
        "entrypoint": {"run": run}})


SAYS = "echo launch >>~/lines; echo rank $RANK of $WORLD_SIZE; [ -e /bin/busybox ]; [ -z \"$LEAKS\" ]; id -un"
WAITS = "echo launch >>~/lines; while [ ! -e ~/go ]; do sleep 0.1; done; echo rank $RANK of $WORLD_SIZE"


def test_set_up_and_launch_are_inside(host, job, rhrun):
    file = job(spec(host, SAYS))
    r = rhrun(file, env={"LEAKS": "1"}).ok()
    assert "rank 0 of 2" in r.out and "rank 1 of 2" in r.out and "joe" in r.out
    assert len(before := host.instances()) == 1 and host.lines() == ["one", "launch", "launch"]
    assert "nothing to do" in rhrun(file).ok().err
    rhrun(file, "--again").ok()
    assert host.instances() == before and host.lines().count("one") == 1
    assert "one" in rhrun("ssh", file, "--", "cat ~/lines; ls /bin/busybox").ok().out
    assert rhrun("down", file).ok().err == "rhrun: 1 container removed\n"
    assert host.instances() == []
    assert rhrun("down", file).ok().err == "rhrun: 0 containers removed\n"
    assert 'step "one" runs again: its container is another one now' in rhrun(file, "--again").ok().err


def test_an_image_that_moved(host, job, rhrun):
    file = job(spec(host, SAYS))
    rhrun(file).ok()
    before = host.instances()
    host.sh("touch /box.sif")
    assert "its container is another one now" in rhrun(file, "--again").ok().err
    assert len(host.instances()) == 1 and host.instances() != before


def test_other_options_make_another_instance(host, job, rhrun):
    rhrun(job(spec(host, SAYS))).ok()
    rhrun(job(spec(host, SAYS, options=["--writable-tmpfs"], mounts=["/etc:/outside:ro"]))).ok()
    assert len(host.instances()) == 1
    assert rhrun("ssh", job(spec(host, SAYS, options=["--writable-tmpfs"], mounts=["/etc:/outside:ro"])), "--", "cat /outside/debian_version").ok().out


def test_killed_and_gone_on_with(host, box, job, rhrun):
    file = job(spec(host, WAITS))
    run = box.start(file)
    wait_for(lambda: host.lines().count("launch") == 2, what="the launch")
    run.kill9()
    before = host.instances()
    host.sh("touch /box.sif") # while it runs the instance stays
    run = box.start(file)
    time.sleep(2)
    host.sh("touch ~/go", "joe")
    r = run.wait()
    r.ok()
    assert "rank 0 of 2" in r.out and host.lines().count("launch") == 2 and host.instances() == before


def test_images_that_are_not_there(host, job, rhrun):
    assert "image /nope.sif is not there" in rhrun(job(spec(host, SAYS, image="/nope.sif"))).expect(3).err
    assert "is not a file there, and pull is never" in rhrun(job(spec(host, SAYS, image="box:1", pull="never"))).expect(3).err
    assert "docker://box:1" in rhrun(job(spec(host, SAYS, image="box:1"))).expect(3).err


def test_down_always(host, job, rhrun):
    rhrun(job(spec(host, SAYS, down="always"))).ok()
    assert host.instances() == []
