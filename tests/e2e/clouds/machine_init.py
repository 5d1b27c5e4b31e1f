"""The first process of a test cloud's machine: makes its file system, runs sshd and the user data, and reaps processes.

    unshare --mount --pid --uts --ipc --fork --kill-child python3 -IS machine_init.py < CONFIG

CONFIG is one line of JSON (machine.py writes it). The machine's writable folders are in its own memory: /etc, /root, /home, /run,
/tmp, /var, /dev; programs are the host's, read-only. `shutdown`, `poweroff` and the like end this process, and with it all other processes
here. It reports on standard output, one line each: "up" (sshd listens), "ready STATUS" (the user data ended), "ended WORD".
"""
import base64
import ctypes
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

RDONLY, NOSUID, NODEV, REMOUNT, BIND, MOVE, REC, PRIVATE = 1, 2, 4, 32, 4096, 8192, 16384, 1 << 18
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROOT = "/mnt"
libc = ctypes.CDLL(None, use_errno=True)

# Stand-ins for the programs of an init system, first on root's PATH. $0 tells which; `end WORD` ends the machine.
STAND_IN = r"""#!/bin/sh
end() {
    [ "$(id -u)" = 0 ] || { echo "${0##*/}: must be root" >&2; exit 1; }
    case $1 in reboot) kill -HUP 1 ;; *) kill -USR1 1 ;; esac
}
later() { # SECONDS WORD
    rm -f /run/machine/scheduled
    [ "$(id -u)" = 0 ] || { echo "${0##*/}: must be root" >&2; exit 1; }
    echo $$ "$@" >/run/machine/scheduled
    setsid sh -c 'sleep "$1"; [ "$(cat /run/machine/scheduled 2>/dev/null)" = "$2" ] && kill -USR1 1' sh "$1" "$$ $*" </dev/null >/dev/null 2>&1 &
}
shut() {
    word=poweroff when=
    while [ $# -gt 0 ]; do
        case $1 in
        -c) rm -f /run/machine/scheduled; exit 0 ;;
        -r) word=reboot ;;
        -*) ;;
        *) [ -n "$when" ] || when=$1 ;;
        esac
        shift
    done
    case ${when:-+1} in
    now | +0) end "$word" ;;
    +*[!0-9]* | +) echo "shutdown: not understood: $when" >&2; exit 1 ;;
    +*) later "$(awk -v n="${when#+}" -v m="$(cat /run/machine/minute)" 'BEGIN { print n * m }' </dev/null)" "$word" ;;
    *) echo "shutdown: only now and +N are known here: $when" >&2; exit 1 ;;
    esac
}
ssh_again() {
    case $1 in
    ssh | sshd | ssh.service | sshd.service) kill -HUP "$(cat /run/sshd.pid)" ;;
    esac
}
control() {
    while :; do case ${1:-} in -*) shift ;; *) break ;; esac; done
    case ${1:-} in
    poweroff | halt | reboot) end "$1" ;;
    restart | reload | reload-or-restart | try-restart | try-reload-or-restart | condrestart) ssh_again "${2:-}" ;;
    is-system-running) echo running ;;
    esac
}
run() {
    wait_s=0
    while [ $# -gt 0 ]; do
        case $1 in
        --on-active=* | --on-boot=*)
            wait_s=$(printf '%s' "${1#*=}" | awk -v m="$(cat /run/machine/minute)" '
                /^[0-9.]+(s|sec)?$/ { print ($0 + 0) * m / 60; next } /^[0-9.]+(m|min)$/ { print ($0 + 0) * m; next }
                /^[0-9.]+(h|hr)$/ { print ($0 + 0) * 60 * m; next } { print "x" }')
            [ "$wait_s" != x ] || { echo "systemd-run: not understood: $1" >&2; exit 1; } ;;
        --unit | --description | --property | -p | -u | --slice | --setenv | -E) shift ;;
        --) shift; break ;;
        -*) ;;
        *) break ;;
        esac
        shift
    done
    setsid sh -c 'sleep "$1"; shift; exec "$@"' sh "$wait_s" "$@" </dev/null >/dev/null 2>&1 &
}
case ${0##*/} in
shutdown) shut "$@" ;;
poweroff | halt) end poweroff ;;
reboot) end reboot ;;
systemctl) control "$@" ;;
service) ssh_again "$1" ;;
systemd-run) run "$@" ;;
esac
"""
STAND_INS = ("shutdown", "poweroff", "halt", "reboot", "systemctl", "service", "systemd-run")


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def mount(source, target, kind, flags=0, data=""):
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} at {target}: {os.strerror(ctypes.get_errno())}")


def read_only(source, target):
    os.makedirs(target, exist_ok=True)
    mount(source, target, "", BIND | REC)
    mount("none", target, "", REMOUNT | BIND | RDONLY)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    os.chmod(path, mode)


def make_root():
    """A root of its own at ROOT, and then at /."""
    mount("none", "/", "", REC | PRIVATE)
    mount("root", ROOT, "tmpfs", NOSUID | NODEV, "mode=755")
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{ROOT}/{name}")
        elif os.path.isdir(f"/{name}"):
            read_only(f"/{name}", f"{ROOT}/{name}")
    for name, mode in (("root", 0o700), ("home", 0o755), ("run", 0o755), ("var", 0o755), ("tmp", 0o1777), ("mnt", 0o755), ("proc", 0o755),
                       ("sys", 0o755), ("dev", 0o755), ("srv", 0o755), ("var/lib", 0o755), ("var/log", 0o755), ("var/tmp", 0o1777),
                       ("var/cache", 0o755), ("run/sshd", 0o755), ("run/machine", 0o755), ("run/systemd", 0o755),
                       ("run/systemd/system", 0o755), ("run/lock", 0o1777)):
        os.mkdir(f"{ROOT}/{name}")
        os.chmod(f"{ROOT}/{name}", mode)
    os.symlink("/run", f"{ROOT}/var/run")
    # A host's key is nobody else's.
    shutil.copytree("/etc", f"{ROOT}/etc", symlinks=True, ignore=lambda folder, names: [
        n for n in names if folder == "/etc/ssh" or (folder == "/etc" and n in ("shadow-", "gshadow-", "machine-id"))])
    make_devices()
    mount("proc", f"{ROOT}/proc", "proc", NOSUID | NODEV)
    for name in ("sysrq-trigger", "sys"):  # the host's own: a machine that writes here must not reach it
        if not os.path.exists(f"{ROOT}/proc/{name}"):
            continue
        mount(f"{ROOT}/proc/{name}", f"{ROOT}/proc/{name}", "", BIND)
        mount("none", f"{ROOT}/proc/{name}", "", REMOUNT | BIND | RDONLY)
    mount("sysfs", f"{ROOT}/sys", "sysfs", RDONLY | NOSUID | NODEV)
    mount("tmpfs", f"{ROOT}/usr/local/sbin", "tmpfs", NODEV, "mode=755")
    os.chdir(ROOT)
    mount(ROOT, "/", "", MOVE)
    os.chroot(".")
    os.chdir("/")


def make_devices():
    dev = f"{ROOT}/dev"
    mount("dev", dev, "tmpfs", NOSUID, "mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        write(f"{dev}/{name}", "")
        mount(f"/dev/{name}", f"{dev}/{name}", "", BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    mount("devpts", f"{dev}/pts", "devpts", NOSUID, "newinstance,ptmxmode=0666,mode=620")
    mount("shm", f"{dev}/shm", "tmpfs", NOSUID | NODEV, "mode=1777")
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{dev}/{name}")


def add_user(name):
    """A user as the provider's image has it: may be root by sudo, has no password."""
    home = "/root" if name == "root" else f"/home/{name}"
    if name != "root":
        for file, entry in (("passwd", f"{name}:x:1000:1000::{home}:/bin/bash"), ("group", f"{name}:x:1000:"), ("shadow", f"{name}:*:19000:0:99999:7:::")):
            with open(f"/etc/{file}", encoding="utf-8") as f:
                known = [line.split(":") for line in f.read().splitlines()]
            # Without the people of the host: they have such a number, too.
            lines = [":".join(one) for one in known if one[0] != name and (file == "shadow" or not 1000 <= int(one[2]) < 60000)]
            write(f"/etc/{file}", "\n".join([*lines, entry]) + "\n", 0o640 if file == "shadow" else 0o644)
        write("/etc/sudoers.d/90-cloud-init-users", f"{name} ALL=(ALL) NOPASSWD:ALL\n", 0o440)
        os.mkdir(home, 0o755)
    return home, (0 if name == "root" else 1000)


def make_ssh(config):
    home, uid = add_user(config["user"])
    os.mkdir(f"{home}/.ssh", 0o700)
    write(f"{home}/.ssh/authorized_keys", "".join(k.strip() + "\n" for k in config["keys"]), 0o600)
    for path in (home, f"{home}/.ssh", f"{home}/.ssh/authorized_keys"):
        os.chown(path, uid, uid)
    os.makedirs("/etc/ssh/sshd_config.d")
    write("/etc/ssh/sshd_config", "\n".join([
        "Include /etc/ssh/sshd_config.d/*.conf", f"ListenAddress {config['address']}:{config['port']}", "UsePAM no", "PidFile /run/sshd.pid",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "MaxStartups 1000",
        "MaxSessions 200", "AcceptEnv LANG LC_*", "Subsystem sftp internal-sftp", ""]))
    # The keys that an image's first boot makes: those of user data are not there yet.
    for kind in ("ed25519", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", f"/etc/ssh/ssh_host_{kind}_key"], check=True, stdin=subprocess.DEVNULL)


def listens(address, port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex((address, port)) == 0


def start_sshd(config):
    # sshd has a working folder of its own and replaces itself at a reload, so it is named with its whole path.
    program = shutil.which("sshd", path=PATH)
    with open("/var/log/sshd.log", "ab") as log:
        sshd = subprocess.Popen([program, "-D", "-e"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                env={"PATH": PATH, "LANG": "C.UTF-8"})
    end = time.monotonic() + 20
    while not listens(config["address"], config["port"]):
        if sshd.poll() is not None or time.monotonic() > end:
            with open("/var/log/sshd.log", encoding="utf-8", errors="replace") as log:
                say("ended", "no-sshd", log.read()[-500:].replace("\n", " | "))
            os._exit(1)
        time.sleep(0.005)
    say("up")


def start_user_data(config):
    """As cloud-init: a script is run as root, late in the boot, with few variables; anything else is another's matter."""
    data = base64.b64decode(config["user_data"])
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    write("/var/lib/cloud/instance/user-data.txt", data, 0o600)
    if not data.startswith(b"#!"):
        say("ready", 0 if not data or data.startswith(b"#cloud-config") else "unknown")
        return None
    write("/var/lib/cloud/instance/scripts/part-001", data, 0o700)
    with open("/var/log/cloud-init-output.log", "ab") as log:
        return subprocess.Popen(["/var/lib/cloud/instance/scripts/part-001"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                env={"PATH": PATH, "LANG": "C.UTF-8", **config["env"]})


def ended(word):
    def handler(*_):
        say("ended", word)
        os._exit(0)
    return handler


def main():
    config = json.loads(sys.stdin.readline())
    os.umask(0o022)
    make_root()
    socket.sethostname(config["hostname"])
    write("/etc/hostname", config["hostname"] + "\n")
    write("/etc/hosts", f"127.0.0.1 localhost\n{config['address']} {config['hostname']}\n")
    write("/run/machine/minute", str(config["minute_s"]))
    for name in STAND_INS:
        write(f"/usr/local/sbin/{name}", STAND_IN, 0o755)
    for number, word in ((signal.SIGUSR1, "poweroff"), (signal.SIGINT, "poweroff"), (signal.SIGTERM, "poweroff"), (signal.SIGHUP, "reboot")):
        signal.signal(number, ended(word))
    make_ssh(config)
    start_sshd(config)
    script = start_user_data(config)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            say("ended", "no-sshd")
            os._exit(1)
        if script and pid == script.pid:
            say("ready", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    try:
        main()
    except Exception as e:  # the only way in which the other side hears of it
        say("ended", "failed", repr(e))
        raise
