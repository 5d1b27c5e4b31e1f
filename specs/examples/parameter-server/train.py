"""Linear regression with parameter servers over torch RPC: each trainer sends the gradients of its own data to its server, which
steps once it has those of all its trainers and answers with the new weights. The master waits for all and looks at the loss."""
import argparse
import os
import sys
import threading

import torch
import torch.distributed.rpc as rpc

FEATURES, ROWS, RATE = 8, 256, 0.1
ROLE, RANK, WORLD = os.environ["ROLE_NAME"], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def ranks_of(role):
    first, _, last = os.environ.get(f"RHRUN_ROLE_{role.upper()}_RANKS", "").partition("-")
    return range(int(first), int(last or first) + 1) if first else range(0)


def device_of(role):
    return torch.device("cuda", int(os.environ["LOCAL_RANK"])) if role.startswith("cuda_") else torch.device("cpu")


def data_of(seed):
    """Rows of one and the same line, with noise."""
    line = torch.linspace(-1, 1, FEATURES)
    rows = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(seed))
    return rows, rows @ line + 0.01 * torch.randn(ROWS, generator=torch.Generator().manual_seed(seed + 1))


class Server:
    """The weights, and the trainers that wait for the next step."""

    def __init__(self, device):
        self.lock = threading.Lock()
        self.weights = torch.zeros(FEATURES, device=device)
        self.sum = torch.zeros(FEATURES, device=device)
        self.waiting = []
        self.steps = 0

    def add(self, gradient, trainers):
        answer = torch.futures.Future()
        with self.lock:
            self.sum += gradient.to(self.sum.device)
            self.waiting.append(answer)
            if len(self.waiting) < trainers:
                return answer
            self.weights = self.weights - RATE * self.sum / trainers
            self.sum.zero_()
            self.steps += 1
            ready, self.waiting = self.waiting, []
        for other in ready:
            other.set_result(self.weights.cpu())
        return answer


server = Server(device_of(ROLE)) if ROLE.endswith("server") else None


@rpc.functions.async_execution
def add_gradient(gradient, trainers):
    return server.add(gradient, trainers)


def weights_of_server():
    return server.weights.cpu(), server.steps


def train(steps):
    """In a trainer: its server's rank and the last loss."""
    peer, device = int(os.environ["RHRUN_PEER_RANK"]), device_of(ROLE)
    servers = ranks_of("cuda_server" if ROLE == "cuda_trainer" else "server")
    group = len(ranks_of(ROLE)) // len(servers)
    rows, wanted = (t.to(device) for t in data_of(RANK))
    weights = torch.zeros(FEATURES, device=device, requires_grad=True)
    for _ in range(steps):
        loss = ((rows @ weights - wanted) ** 2).mean()
        loss.backward()
        answer = rpc.rpc_sync(f"rank{peer}", add_gradient, args=(weights.grad.cpu(), group))
        weights = answer.to(device).requires_grad_()
    return RANK, peer, loss.item()


def master(steps):
    trainers = [*ranks_of("trainer"), *ranks_of("cuda_trainer")]
    servers = [*ranks_of("server"), *ranks_of("cuda_server")]
    futures = [rpc.rpc_async(f"rank{r}", train, args=(steps,)) for r in trainers]
    for rank, peer, loss in torch.futures.wait_all(futures):
        print(f"trainer {rank} used server {peer}, loss {loss:.4f}")
    rows, wanted = data_of(1000)
    worst = 0.0
    for rank in servers:
        weights, done = rpc.rpc_sync(f"rank{rank}", weights_of_server)
        loss = ((rows @ weights - wanted) ** 2).mean().item()
        print(f"server {rank} made {done} steps, loss {loss:.4f} on new data")
        worst = max(worst, loss)
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=120)
    rpc.init_rpc(f"rank{RANK}", rank=RANK, world_size=WORLD, rpc_backend_options=options)
    worst = master(args.steps) if ROLE == "master" else 0.0
    rpc.shutdown()
    if worst > 0.05:
        sys.exit(f"loss {worst:.4f}: nothing was learnt")


main()
