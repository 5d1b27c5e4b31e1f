"""A room for one round: namespaces of its own for mounts, processes and the network, where this machine allows them.

In a room /tmp is empty at the beginning, /proc shows only the round's processes, no port is taken, and whatever the round
leaves behind ends with it. Without the right to make a room (no root) a round runs without one, and checks that need a room are left out.
"""
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

PREFIX = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")
OWN = ("/tmp", "/var/tmp", "/dev/shm")


def allowed():
    return shutil.which("unshare") is not None and \
        subprocess.run([*PREFIX, "sh", "-c", "mount -t tmpfs none /tmp"], capture_output=True).returncode == 0


def _loopback_up():
    with socket.socket() as s:
        request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(s, 0x8914, request + bytes(24 - len(request)))  # SIOCSIFFLAGS


def _mount(*args):
    subprocess.run(["mount", *args], check=True)


def enter(visible):
    """Makes the folders of temporary files this room's own; the paths in `visible` stay what they are."""
    kept = [(p, os.open(p, os.O_PATH)) for p in {str(pathlib.Path(v).resolve()) for v in visible}
            if any(str(p).startswith(own + "/") for own in OWN)]
    for folder in OWN:
        if os.path.isdir(folder):
            _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
    for path, fd in kept:
        os.makedirs(path, exist_ok=True)
        _mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{fd}", path)
        os.close(fd)
    _loopback_up()


def first_process(work):
    """Runs work() in a child and buries whatever else ends: the first process of a room is everybody's parent."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def left_in_temporary_folders(mine):
    """What lies in the folders of temporary files, but for the round's own folder and the mounts of enter()."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        points = [line.split()[1] for line in mounts]
    return [str(p) for folder in OWN for p in pathlib.Path(folder).glob("*")
            if p != mine and not any(point == str(p) or point.startswith(f"{p}/") for point in points)]


def folder_for(seed):
    """Where the round lies: short, for unix sockets have 108 bytes for their path."""
    return pathlib.Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-", dir="/tmp"))
