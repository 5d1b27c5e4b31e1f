"""A Docker Engine only for the tests: its daemon, data and socket are in one folder. Its only image is busybox, made from this machine's busybox."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from harness import missing, require

IMAGE = "rhrun-busybox"


class Engine:
    def __init__(self):
        if os.geteuid() != 0:
            pytest.skip("a Docker Engine is started as root only")
        require("dockerd")
        require("docker")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rhrun-docker-"))
        self.socket = self.folder / "socket"
        self.env = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": str(self.folder / "config")}
        with open(self.folder / "log", "wb") as log:
            self.daemon = subprocess.Popen(
                ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec", "--pidfile",
                 self.folder / "pid", "-H", f"unix://{self.socket}", "--bridge=none", "--iptables=false"],
                stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 60
        while subprocess.run(["docker", "version"], env=self.env, capture_output=True).returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text(errors="replace")[-2000:]
                self.end()
                missing("a Docker Engine", f"dockerd does not start: {said}")
            time.sleep(0.1)
        self.make_image()

    def make_image(self):
        root = self.folder / "root"
        for name in ("bin", "etc", "tmp", "root", "proc", "dev"):
            (root / name).mkdir(parents=True)
        busybox = shutil.which("busybox")
        if not busybox or subprocess.run(["ldd", busybox], capture_output=True).returncode == 0:
            self.end()
            missing("a static busybox", "apt-get install busybox-static")
        shutil.copy(busybox, root / "bin/busybox")
        for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if name != "busybox":
                (root / "bin" / name).symlink_to("busybox")
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
        subprocess.run(["docker", "import", "-", IMAGE], env=self.env, input=tar, capture_output=True, check=True)

    def docker(self, *args, check=True):
        done = subprocess.run(["docker", *map(str, args)], env=self.env, capture_output=True, text=True)
        if check and done.returncode != 0:
            pytest.fail(f"docker {args}: {done.stderr}")
        return done.stdout.strip()

    def start(self, name):
        """A container that does nothing but sleep, on this machine's network."""
        self.docker("run", "-d", "--name", name, "--network", "host", "--init", IMAGE, "sleep", "100000")
        return {"name": name, "exec": ["docker", "exec", "-i", name, "sh"], "address": "127.0.0.1"}

    def clear(self):
        for name in self.docker("ps", "-aq").split():
            self.docker("rm", "-f", name, check=False)

    def end(self):
        if self.socket.exists():
            self.clear()
        self.daemon.terminate()
        self.daemon.wait(30)
        # Mounts that dockerd leaves (a container with the host's network) would keep the folder.
        subprocess.run(["umount", "-l", self.folder / "exec/netns/default"], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def dockerd():
    e = Engine()
    yield e
    e.end()


@pytest.fixture
def engine(dockerd, request):
    """The engine, set in the test's box; its containers are removed when the test has ended."""
    if "box" in request.fixturenames:
        box = request.getfixturevalue("box")
        box.env.update({key: dockerd.env[key] for key in ("DOCKER_HOST", "DOCKER_CONFIG")})
    yield dockerd
    dockerd.clear()
