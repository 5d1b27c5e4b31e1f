"""From a worker's failure to all 4 workers restarted: the time between the failure and the last start."""
import statistics

import launch_peers
from lib import row

WORKERS = 4
# Generation 1: worker 2 notes the time and fails. Generation 2: everyone notes its start.
SCRIPT = """#!/bin/sh
if [ "${TORCHELASTIC_RESTART_COUNT:-0}" = 0 ]; then
    touch "$MARKS/up.$RANK"
    if [ "$RANK" = 2 ]; then
        while [ ! -e "$MARKS/up.0" ] || [ ! -e "$MARKS/up.1" ] || [ ! -e "$MARKS/up.3" ]; do sleep 0.01; done
        sleep 0.3
        date +%s.%N >"$MARKS/failed"
        exit 1
    fi
    exec sleep 60
fi
date +%s.%N >"$MARKS/started.$RANK"
"""


def rows(bench):
    torch = launch_peers.torchrun(bench)
    marks = bench.dir / "marks"
    script = bench.spec("worker.sh", SCRIPT)
    script.chmod(0o755)
    spec = bench.spec("restart.yaml", f"name: restart\nenv: {{MARKS: {marks}}}\n"
                      f"distributed: {{nproc_per_node: {WORKERS}, max_restarts: 1}}\nentrypoint: {{command: [{script}], always: true}}\n")

    def measure(command):
        marks.mkdir(exist_ok=True)
        for p in marks.iterdir():
            p.unlink()
        bench.seconds(command, env={"MARKS": str(marks)})
        started = max(float((marks / f"started.{i}").read_text()) for i in range(WORKERS))
        return started - float((marks / "failed").read_text())

    yield row(f"a failure to all {WORKERS} workers restarted", "torch.distributed.run, monitor_interval 0.1",
              bench.ab(lambda: measure([bench.rhrun, "--quiet", spec]),
                       lambda: measure([*torch, "--standalone", f"--nproc-per-node={WORKERS}", "--max-restarts=1",
                                        "--monitor-interval=0.1", "--no-python", script])), 0.1)
