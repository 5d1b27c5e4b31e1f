"""pi as a sum over ranks: 4 * sum((-1)^k / (2k + 1)), each rank every WORLD_SIZE-th term.

Needs nothing but Python's standard library and torchrun's environment variables.
"""
import argparse
import math
import os
import socket
import sys
import time

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
parser = argparse.ArgumentParser()
parser.add_argument("--terms", type=int, default=400000)
terms = parser.parse_args().terms


def share():
    """This rank's part of the sum."""
    return 4 * math.fsum((-1) ** k / (2 * k + 1) for k in range(rank, terms, world_size))


def connect(deadline):
    """Rank 0 may not listen yet."""
    while True:
        try:
            return socket.create_connection(master, timeout=10)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def gather(mine):
    """On rank 0: the shares of all ranks."""
    shares = {0: mine}
    family = socket.AF_INET6 if ":" in master[0] else socket.AF_INET
    with socket.create_server(("", master[1]), family=family, backlog=world_size) as server:
        server.settimeout(30)
        while len(shares) < world_size:
            peer, _ = server.accept()
            with peer, peer.makefile() as lines:
                who, value = lines.readline().split()
                shares[int(who)] = float.fromhex(value)
    return shares


mine = share()
print(f"rank {rank} of {world_size}: {mine:+.9f}")
if rank == 0:
    total = math.fsum(gather(mine).values())
    error = abs(total - math.pi)
    print(f"pi = {total:.9f}, off by {error:.1e}")
    sys.exit(0 if error < 2 / terms else f"the sum is wrong: {total!r}")
with connect(time.monotonic() + 30) as peer:
    peer.sendall(f"{rank} {mine.hex()}\n".encode())
