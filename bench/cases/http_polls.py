"""200 polls at once over TLS with module http, on one thread; `curl --parallel` for the same; memory over 50 rounds."""
import pathlib
import socket
import subprocess
import time

from lib import ROOT, Skip, row

COUNT, ROUNDS, LIMIT_BYTES = 200, 50, 1 << 20


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "poll.key", "-out", folder / "poll.pem"],
                   check=True, capture_output=True)


def start(bench, folder):
    """An HTTP/2 server of a poll's answer, and its URL."""
    (folder / "docs").mkdir()
    (folder / "docs/poll").write_text('{"status": "active"}' * 50)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([bench.need("nghttpd", "nghttp2-server"), "-a", "127.0.0.1", "-d", folder / "docs", str(port),
                               folder / "poll.key", folder / "poll.pem"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, f"https://localhost:{port}/poll"
        except OSError:
            time.sleep(0.05)
    server.kill()
    raise Skip("nghttpd does not start")


def rows(bench):
    build = pathlib.Path(bench.rhrun).parent
    archives = [build / f"librhrun_{name}.a" for name in ("http", "loop", "base")]
    if not all(a.exists() for a in archives):
        raise Skip("the rhrun to measure does not lie in its build folder")
    bench.need("curl", "curl")
    folder = bench.dir / "http_polls"
    folder.mkdir()
    polls = folder / "http_polls"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I", ROOT / "include", "-o", polls, ROOT / "bench/http_polls.c", *archives, "-lcurl",
                    "-luv", "-lcrypto", "-lpcre2-8"], check=True)
    certificate(folder)
    server, url = start(bench, folder)
    try:
        for rounds in (1, 10):
            config = folder / f"config{rounds}"
            config.write_text(f'url = "{url}"\noutput = "/dev/null"\n' * COUNT * rounds)
            ours = [polls, url, folder / "poll.pem", COUNT, rounds]
            theirs = ["curl", "-sS", "--parallel", "--parallel-immediate", "--parallel-max", COUNT, "--cacert", folder / "poll.pem", "-K", config]
            yield row(f"{COUNT} polls at once over HTTP/2, {rounds} times", "curl --parallel --parallel-immediate",
                      bench.ab(lambda: bench.seconds(ours), lambda: bench.seconds(theirs)), None)
        bench.seconds([polls, url, folder / "poll.pem", COUNT, ROUNDS])
        sizes = [int(line.split()[1]) for line in bench.output().splitlines()]
        grown = max(sizes[ROUNDS // 2:]) - max(sizes[:ROUNDS // 2])
        yield {"work": f"{COUNT} polls at once, {ROUNDS} times: memory, and the second half's beyond the first's", "against": "",
               "value": f"{sizes[-1] / (1 << 20):.1f} MB, {grown / 1024:+.0f} KB", "wanted": "< 1 MB more", "met": grown < LIMIT_BYTES}
    finally:
        server.terminate()
        server.wait()
