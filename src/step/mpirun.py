"""mpirun over several nodes, without ssh between them: `PYTHON -c TEXT COUNT ADDRESS PORT WORKER N MPIRUN-WORD... PROGRAM-WORD...`.

It runs on each of COUNT nodes; RHRUN_NODE_RANK says on which, RHRUN_MPI_TOKEN is a secret that they share. The others come to
ADDRESS:PORT of node 0 and say at which port they wait. Node 0 then starts the N words of mpirun, for which the others are
called node-1, node-2, ... Where mpirun would start `ssh node-1 COMMAND`, it starts this text as `agent.py node-1 COMMAND`, which
has the waiting node run it. So Open MPI's daemons have the job's environment, and are the job's to stop. What a worker starts,
shell text that ends with WORKER, is in a file of each node, since its folder and its Python may have another path there. The port is free again before the
workers start.

Each side of a connection sends a random line; each message then carries an HMAC over both lines, its number and itself, the
first of which only shows that the token is known.
"""
import hashlib
import hmac
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 300  # seconds until all nodes have come
ANSWER = 20  # seconds for what is said at once
LINE_MAX = 4 << 20
PROOF_MAX = 128  # bytes of one that has not shown yet that it knows the token
UNKNOWN_MAX = 256  # of those at a time
SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
STARTING = threading.Lock()  # a daemon of Open MPI is being started


def fail(text):
    print("rhrun: " + text, file=sys.stderr)
    sys.exit(1)


class Gone(OSError):
    """It hung up before it had said anything wrong: somebody who only looked whether the port is open, or a node that comes again."""


class Channel:
    """Values over a socket, to who knows the token: until that is shown, no more than PROOF_MAX bytes are read, for ANSWER seconds."""

    def __init__(self, sock, token, asks):
        self.sock, self.side, self.sent, self.heard, self.read = sock, "a" if asks else "b", 0, 0, b""
        self.end = time.monotonic() + ANSWER
        own = os.urandom(16).hex()
        self.put(own)
        other = self.line(PROOF_MAX)
        if other is None:
            raise Gone("it hung up")
        other = other.decode()
        if len(other) != 32:
            raise OSError("it speaks another language")
        self.key = hmac.new(token.encode(), (own + other if asks else other + own).encode(), hashlib.sha256).digest()
        self.say("token")
        if self.hear(PROOF_MAX) != "token":
            raise Gone("it hung up")

    def be_patient(self):
        self.end = None

    def wait(self):
        self.sock.settimeout(None if self.end is None else max(0.001, self.end - time.monotonic()))

    def put(self, text):
        self.wait()
        self.sock.sendall((text + "\n").encode())

    def line(self, most):  # None: it hung up
        while b"\n" not in self.read:
            if len(self.read) > most:
                raise OSError("it says too much")
            self.wait()
            more = self.sock.recv(65536 if most > 65536 else most)
            if not more:
                return None
            self.read += more
        line, _, self.read = self.read.partition(b"\n")
        return line

    def mac(self, side, number, text):
        return hmac.new(self.key, ("%s %d %s" % (side, number, text)).encode(), hashlib.sha256).hexdigest()

    def say(self, value):
        text = json.dumps(value)
        self.put("%s %s" % (self.mac(self.side, self.sent, text), text))
        self.sent += 1

    def hear(self, most=LINE_MAX):  # None: it hung up
        line = self.line(most)
        if line is None:
            return None
        mac, _, text = line.partition(b" ")
        text = text.decode()
        if not hmac.compare_digest(mac, self.mac("a" if self.side == "b" else "b", self.heard, text).encode()):
            raise OSError("it does not know the job's token")
        self.heard += 1
        return json.loads(text)

    def close(self):
        self.sock.close()


def connect(address, port, token):
    return Channel(socket.create_connection((address, port), ANSWER), token, True)


def listen(address, port, like):
    sock = socket.socket(socket.AF_INET6 if ":" in like else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen(socket.SOMAXCONN)
    return sock


def welcome(sock, token, take):
    """Until the socket is shut down: whoever comes and knows the token is taken, each in a thread of its own."""
    room = threading.Semaphore(UNKNOWN_MAX)

    def meet(client):
        who = "a stranger at the port of mpirun's nodes"
        try:
            try:
                channel = Channel(client, token, False)
            finally:
                room.release()
            who = "one of mpirun's nodes"
            take(channel)
        except (ConnectionError, Gone):  # of a node it is told there, or it comes again
            pass
        except (OSError, ValueError, TypeError) as e:
            print("rhrun: %s: %s" % (who, e), file=sys.stderr)
        client.close()

    while sock.fileno() >= 0:
        room.acquire()
        try:
            client = sock.accept()[0]
        except OSError:  # one that is gone again, or no descriptor is free; or the end
            room.release()
            time.sleep(0.05)
            continue
        threading.Thread(target=meet, args=(client,), daemon=True).start()


def welcome_all(sock, token, take):
    threading.Thread(target=welcome, args=(sock, token, take), daemon=True).start()


def folder():
    made = tempfile.mkdtemp(prefix="rhrun-mpi-")
    if any(c in made for c in " :,"):  # mpirun's agent is a list of words
        os.rmdir(made)
        made = tempfile.mkdtemp(prefix="rhrun-mpi-", dir="/tmp")
    return made


def own_tmpdir(made):
    """Open MPI's daemons have their folders in ours: those of nodes that are one machine, or share TMPDIR, take away each other's
    else, and then one is gone without a word. What gives a worker the job's TMPDIR again."""
    given, os.environ["TMPDIR"] = os.environ.get("TMPDIR"), made
    return "unset TMPDIR" if given is None else "export TMPDIR=%s" % shlex.quote(given)


def daemons(made):
    """Open MPI's processes of this node, by their TMPDIR (a worker has the job's): only they write to our folder."""
    entry, found = ("TMPDIR=" + made).encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if entry in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:  # it has ended, or is another user's
            pass
    return found


def end_daemons(made):
    """Without mpirun they end by themselves. One that has just begun does not know yet that mpirun is gone.

    Where a worker has failed, what is left of a node after 3 s is killed, this program too."""
    STARTING.acquire()  # for good: no more of them are started
    began, told = time.monotonic(), set()
    while time.monotonic() < began + 2.5:
        after, left = time.monotonic() - began, daemons(made)
        if not left:
            break
        for pid in left:
            try:
                if after > 2:
                    os.kill(pid, signal.SIGKILL)
                elif after > 0.5 and pid not in told:
                    told.add(pid)
                    os.kill(pid, signal.SIGTERM)
            except OSError:
                pass
        time.sleep(0.02)


def remove(made):
    end_daemons(made)  # one that lives makes the folder anew
    for _ in range(100):
        shutil.rmtree(made, ignore_errors=True)
        if not os.path.lexists(made):
            break
        time.sleep(0.05)


def write(path, text):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(text)


def login_shell():  # for which mpirun writes its commands
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    return "/bin/sh" if os.path.basename(shell) in ("", "nologin", "false") else shell


# ---- node 0 ----

def gather(sock, count, token):
    """Where the others wait: rank -> (address, port)."""
    places, complete = {}, threading.Event()

    def take(channel):
        rank, port = channel.hear()
        channel.say("here")
        channel.hear()  # the other side ends it first: the port has no connections in TIME_WAIT then
        places[rank] = channel.sock.getpeername()[0], port
        if len(places) == count - 1:
            complete.set()

    welcome_all(sock, token, take)
    if not complete.wait(PATIENCE):
        rest = [str(i) for i in range(1, count) if i not in places]
        fail("after %d s mpirun still has to wait for node %s" % (PATIENCE, ", ".join(rest)))
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    return places


def start_mpirun(made, words, places, token):
    text = open("/proc/self/cmdline").read().split("\0")
    write(made + "/agent.py", text[text.index("-c") + 1])
    write(made + "/nodes", json.dumps({"token": token, "places": {"node-%d" % rank: at for rank, at in places.items()}}))
    os.symlink(sys.executable, made + "/python")
    agent = "%s/python -IS %s/agent.py" % (made, made)
    for prefix, name in ("OMPI_MCA_", "rsh"), ("PRTE_MCA_", "ssh"):
        os.environ[prefix + "plm"] = name
        os.environ["%splm_%s_agent" % (prefix, name)] = agent
        os.environ["%splm_%s_no_tree_spawn" % (prefix, name)] = "1"
    be_deaf()  # mpirun hears it too, and ends
    try:
        return subprocess.Popen(words)
    except FileNotFoundError:
        fail("%s is not on this node's PATH: install Open MPI on all nodes, or activate: module load ..." % words[0])


def lead(made, count, address, port, words, token):
    places = gather(listen("", port, address), count, token)
    lives = [connect(host, at, token) for host, at in places.values()]  # as long as mpirun lives
    for channel in lives:
        channel.say("live")
    status = start_mpirun(made, words, places, token).wait()
    return status if status >= 0 else 128 - status


# ---- the others ----

def serve(channel, done):
    """A command that mpirun sends, or the connection whose end is mpirun's."""
    command = channel.hear()
    channel.be_patient()
    if command == "live":
        channel.hear()
        done.set()
    elif command:
        with STARTING:
            daemon = subprocess.Popen([login_shell(), "-c", command], stdin=subprocess.DEVNULL)
        status = daemon.wait()
        if status == 127:
            print("rhrun: Open MPI is to be on PATH on every node", file=sys.stderr)
        channel.say(status if status >= 0 else 128 - status)


def follow(rank, address, port, token):
    sock, done, end = listen("", 0, address), threading.Event(), time.monotonic() + PATIENCE
    welcome_all(sock, token, lambda channel: serve(channel, done))
    while True:
        try:
            channel = connect(address, port, token)
            channel.say([rank, sock.getsockname()[1]])
            if channel.hear() == "here":
                break
        except (OSError, ValueError) as e:
            if time.monotonic() > end:
                fail("cannot reach mpirun's node at %s:%d: %s" % (address, port, e))
        time.sleep(0.1)
    channel.close()
    done.wait()
    return 0


# ---- all ----

def be_deaf():
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)


def told_to_end(*_):
    be_deaf()  # once is enough: what follows is not to be broken off
    sys.exit(143)


def main():
    count, address, port, worker, n = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    words, program = sys.argv[6:6 + n], sys.argv[6 + n:]
    rank, token = int(os.environ["RHRUN_NODE_RANK"]), os.environ.pop("RHRUN_MPI_TOKEN")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until what is made here is removed whatever comes
    for number in SIGNALS:
        signal.signal(number, told_to_end)
    made = folder()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        here, program = shlex.quote(os.getcwd()), " ".join(map(shlex.quote, program))
        write(made + "/worker", "%s\ncd %s || exit\nset -- %s\n%s" % (own_tmpdir(made), here, program, worker))
        os.environ["RHRUN_MPI_WORKER"] = made + "/worker"
        if rank:
            return follow(rank, address, port, token)
        return lead(made, count, address, port, words + ["/bin/sh", "-c", '. "$RHRUN_MPI_WORKER"'], token)
    finally:
        try:
            be_deaf()  # a blocked signal would still be heard: by another thread
        finally:
            remove(made)


def agent():
    """In place of ssh: `agent.py node-1 COMMAND`."""
    with open(os.path.dirname(os.path.abspath(sys.argv[0])) + "/nodes") as f:
        known = json.load(f)
    words = sys.argv[1:]
    while words and words[0] not in known["places"]:
        words.pop(0)
    if not words:
        fail("mpirun speaks of a node that is none of the job's: %s" % " ".join(sys.argv[1:2]))
    channel = connect(*known["places"][words[0]], token=known["token"])
    channel.say(" ".join(words[1:]))
    channel.be_patient()
    status = channel.hear()
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main() if sys.argv[0] == "-c" else agent())
