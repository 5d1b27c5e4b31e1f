"""Output of 8 nodes x 8 workers at 1 MB/s each with failure rules and metrics; the peak rate; `ssh node cat`."""
import json
import os
import shutil
import subprocess
import time

from lib import ROOT, TIMEOUT

NODES, WORKERS, RATE, SECONDS = 8, 8, 1_000_000, 30
PEAK_BYTES = 128 << 20  # of each node
RULES = """
metrics:
  - {name: loss, pattern: 'loss[=:]\\s*(?<value>[-+.\\deE]+)'}
  - {name: speed, pattern: 'speed=(?<value>[.\\d]+)'}
  - {name: step, pattern: 'step=(?<value>\\d+)', rank: 0}
failure_rules:
  - {match: {pattern: 'CUDA error|CUBLAS_STATUS_\\w+'}, action: restart, times: 3, backoff: 10s}
  - {match: {pattern: '(?i)out of memory'}, action: fail}
  - {match: {pattern: 'NCCL (WARN|ERROR)', stream: stderr}, action: restart, times: 3}
  - {match: {pattern: 'uncorrectable ECC error on \\S+'}, action: fail}
  - {match: {exit_status: 3, pattern: '^Traceback'}, action: fail}
"""


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


def machine_cpu():
    """CPU seconds of the whole machine."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def run_watched(argv, env, cwd, stdout):
    """(exit status, CPU seconds of the process, its memory second by second)."""
    p = subprocess.Popen([str(a) for a in argv], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
                         stderr=subprocess.PIPE)
    sizes, end = [], time.monotonic() + TIMEOUT
    while True:
        pid, status, usage = os.wait4(p.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            p.kill()
        try:
            sizes.append(rss(p.pid))
        except (OSError, StopIteration):
            pass
        time.sleep(0.25)
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, usage.ru_utime + usage.ru_stime, sizes, p.stderr.read().decode(errors="replace")


def steady(bench, fleet, program, marks):
    spec = bench.spec("logstream.yaml", f"name: logstream\ncluster: {fleet.cluster(NODES)}\n"
                      f"distributed: {{nproc_per_node: {WORKERS}}}\n{RULES}"
                      f"entrypoint:\n  always: true\n  run: exec {program} write $RANK {RATE} {SECONDS} {marks}/$RANK\n")
    reader = subprocess.Popen([program, "read", marks], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    before = machine_cpu()
    rc, cpu, sizes, err = run_watched([bench.rhrun, "--quiet", spec], bench.env, bench.dir, reader.stdin)
    reader.stdin.close()
    found = json.loads(reader.stdout.read())
    reader.wait()
    if rc != 0 or found["ranks"] != NODES * WORKERS:
        raise RuntimeError(f"exit status {rc}, {found}: {err[-500:]}")
    gb = found["bytes"] / 1e9
    third = max(1, len(sizes) // 3)
    grown = max(sizes[-third:]) - max(sizes[third:2 * third])
    return found, cpu / gb, (machine_cpu() - before) / gb, max(sizes), grown


def peak(bench, fleet, program, marks):
    """rhrun and ssh in turn: seconds for PEAK_BYTES of each node."""
    text = bench.dir / "peak.txt"
    with open(text, "wb") as f:
        subprocess.run([program, "write", "0", "0", str(PEAK_BYTES / 1e6), marks / "peak"], stdout=f, check=True)
    spec = bench.spec("peak.yaml", f"name: peak\ncluster: {fleet.cluster(NODES)}\ndistributed: {{nproc_per_node: 1}}\n{RULES}"
                      f"entrypoint: {{command: [cat, {text}], always: true}}\n")
    ssh = f"for i in $(seq {NODES}); do ssh -n -F {fleet.config('default')} node$i cat {text} >/dev/null & done; wait"

    def rhrun():
        with open(os.devnull, "wb") as null:
            rc, cpu, _, err = run_watched([bench.rhrun, "--quiet", spec], bench.env, bench.dir, null)
        if rc != 0:
            raise RuntimeError(err[-500:])
        return cpu

    def peer():
        before = os.times()
        bench.seconds(ssh)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    rates = {}
    for name, fn in (("rhrun", rhrun), ("ssh", peer)):
        fn()
        seen = []
        for _ in range(3):
            shutil.rmtree(bench.dir / "state", ignore_errors=True)
            began, before = time.monotonic(), machine_cpu()
            cpu = fn()
            gb = NODES * os.path.getsize(text) / 1e9
            seen.append((gb * 1000 / (time.monotonic() - began), cpu / gb, (machine_cpu() - before) / gb))
        rates[name] = sorted(seen)[1]
    return rates


def rows(bench):
    fleet = bench.fleet(NODES)
    program, marks = bench.dir / "logstream", bench.dir / "marks"
    marks.mkdir()
    subprocess.run(["cc", "-O2", "-o", program, ROOT / "bench/logstream.c"], check=True)
    found, cpu, machine, most, grown = steady(bench, fleet, program, marks)
    work = f"output of {NODES} nodes × {WORKERS} workers, 1 MB/s each, {SECONDS} s, 5 rules, 3 metrics"
    sent = NODES * WORKERS * RATE * SECONDS
    yield {"work": work + ": bytes that are not home, torn lines", "against": "", "wanted": "0, 0",
           "value": f"{found['wrong']} ranks, {found['torn']} of {found['bytes'] / 1e6:.0f} MB",
           "met": found["wrong"] == 0 and found["torn"] == 0 and found["bytes"] >= sent}
    yield {"work": work + ": lag, the longest (99 %, median)", "against": "", "wanted": "< 1 s",
           "value": f"{found['lag_ms']} ms ({found['lag_99_ms']}, {found['lag_50_ms']})", "met": found["lag_ms"] < 1000}
    yield {"work": work + ": memory, grown in the last third", "against": "", "wanted": "≤ 1 MB",
           "value": f"{most / 1e6:.1f} MB, {grown / 1e6:.1f} MB", "met": grown <= 1e6}
    yield {"work": work + ": CPU of rhrun, of the whole machine", "against": "", "wanted": None,
           "value": f"{cpu:.2f} s/GB, {machine:.2f} s/GB"}
    rates = peak(bench, fleet, program, marks)
    for name, words in (("rhrun", "rhrun, rules and metrics on"), ("ssh", f"{NODES} parallel ssh node cat")):
        rate, own, whole = rates[name]
        yield {"work": f"{NODES} × {PEAK_BYTES >> 20} MiB as fast as it goes: {words}", "against": "", "wanted": None,
               "value": f"{rate:.0f} MB/s; {own:.2f} s/GB of its own, {whole:.2f} s/GB of the machine"}
