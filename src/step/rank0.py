"""Marks the node where torch's rank 0 is: makes the file RHRUN_RANK0 after each rendezvous in which this node has group rank
0, else removes it. If this torch has its rendezvous elsewhere, there is no mark, and wrapped is False.
"""
import os


def wrap(path):
    from torch.distributed.elastic.agent.server.api import SimpleElasticAgent

    rendezvous = SimpleElasticAgent._rendezvous

    def mark(here):
        if not here:
            if os.path.lexists(path):
                os.remove(path)
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = "%s.%d" % (path, os.getpid())
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)

    def marked(self, worker_group, *args, **kwargs):
        result = rendezvous(self, worker_group, *args, **kwargs)
        try:
            mark(worker_group.group_rank == 0)
        except Exception:  # a full disk, another torch: the job is more important than the mark
            pass
        return result

    SimpleElasticAgent._rendezvous = marked


wrapped = False
try:
    rank0 = os.environ.pop("RHRUN_RANK0", None)
    if rank0:
        wrap(rank0)
        wrapped = True
except Exception:  # no torch, or another one: the program that starts it next reports that
    pass
