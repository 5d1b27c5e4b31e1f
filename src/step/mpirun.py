"""mpirun over several nodes, without ssh between them: `PYTHON -c TEXT COUNT ADDRESS PORT WORKER N MPIRUN-WORD... PROGRAM-WORD...`.

It runs on each of COUNT nodes; RHRUN_NODE_RANK is the node's rank, RHRUN_MPI_TOKEN a secret that the nodes share. The others
connect to ADDRESS:PORT of node 0 and tell it the port that they listen on. Node 0 then starts the N words of mpirun, which
knows the others as node-1, node-2, ... In place of `ssh node-1 COMMAND` mpirun starts this text as `agent.py node-1 COMMAND`,
which has that node run the command. So Open MPI's daemons have the job's environment, and end with the job. The shell text
that starts a worker (it ends with WORKER) is in a file on each node, as its folder and Python may have other paths there.
The port is free again before the workers start.

Each side of a connection sends a random line. Then each message carries an HMAC over both lines, its number and itself; the
first message only shows that its sender knows the token.
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
ANSWER = 20  # seconds for an immediate answer
LINE_MAX = 4 << 20
PROOF_MAX = 128  # bytes from a peer that has not yet shown that it knows the token
UNKNOWN_MAX = 256  # such peers at a time
SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
STARTING = threading.Lock()  # a daemon of Open MPI is being started


def fail(text):
    print("rhrun: " + text, file=sys.stderr)
    sys.exit(1)


class Gone(OSError):
    """The peer hung up before it sent anything wrong: a port scan, or a node that connects again."""


class Channel:
    """Values over a socket. Until the peer proves that it knows the token, at most PROOF_MAX bytes are read, for ANSWER seconds."""

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
    """Until the socket is shut down: accepts every peer that knows the token, each in a thread of its own."""
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
        except (ConnectionError, Gone):  # a node reports this itself, or connects again
            pass
        except (OSError, ValueError, TypeError) as e:
            print("rhrun: %s: %s" % (who, e), file=sys.stderr)
        client.close()

    while sock.fileno() >= 0:
        room.acquire()
        try:
            client = sock.accept()[0]
        except OSError:  # the peer is gone already, no descriptor is free, or the socket is shut down
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
    """Puts the folders of Open MPI's daemons into ours: otherwise daemons of nodes on one machine, or with a shared TMPDIR,
    remove each other's, and one dies without a message. Returns the shell text that gives a worker the job's TMPDIR again."""
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
    """Without mpirun they end by themselves, but one that has just started does not notice that mpirun is gone.

    After a worker has failed, rhrun kills the rest of a node's processes after 3 s, this program too."""
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
    end_daemons(made)  # a live one would make the folder again
    for _ in range(100):
        shutil.rmtree(made, ignore_errors=True)
        if not os.path.lexists(made):
            break
        time.sleep(0.05)


def write(path, text):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(text)


def login_shell():  # mpirun writes its commands for it
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    return "/bin/sh" if os.path.basename(shell) in ("", "nologin", "false") else shell


# ---- node 0 ----

def gather(sock, count, token):
    """Where the others listen: rank -> (address, port)."""
    places, complete = {}, threading.Event()

    def take(channel):
        rank, port = channel.hear()
        channel.say("here")
        channel.hear()  # the other side closes first, so the port has no connections in TIME_WAIT
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
    be_deaf()  # mpirun gets the signal too, and ends
    try:
        return subprocess.Popen(words)
    except FileNotFoundError:
        fail("%s is not on this node's PATH: install Open MPI on all nodes, or activate: module load ..." % words[0])


def lead(made, count, address, port, words, token):
    places = gather(listen("", port, address), count, token)
    lives = [connect(host, at, token) for host, at in places.values()]  # open as long as mpirun lives
    for channel in lives:
        channel.say("live")
    status = start_mpirun(made, words, places, token).wait()
    return status if status >= 0 else 128 - status


# ---- the others ----

def serve(channel, done):
    """Runs a command from mpirun; or waits on the connection that closes when mpirun ends."""
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
    be_deaf()  # once is enough: nothing may interrupt the clean-up
    sys.exit(143)


def main():
    count, address, port, worker, n = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    words, program = sys.argv[6:6 + n], sys.argv[6 + n:]
    rank, token = int(os.environ["RHRUN_NODE_RANK"]), os.environ.pop("RHRUN_MPI_TOKEN")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the folder made here is removed in every case
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
            be_deaf()  # blocking is not enough: another thread would get the signal
        finally:
            remove(made)


def agent():
    """Takes the place of ssh: `agent.py node-1 COMMAND`."""
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
