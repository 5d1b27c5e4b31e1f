"""Memory of rhrun with 256 idle SSH sessions (reported, no limit)."""
import pathlib
import subprocess
import time

HOSTS = 256


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def rows(bench):
    fleet = bench.fleet(HOSTS)
    names, ssh_config = fleet.names(HOSTS), fleet.config("default")

    def measured(hosts):
        stop, up = bench.dir / "stop", bench.dir / "up"
        for p in (stop, up):
            p.unlink(missing_ok=True)
        # READ-only work is enough: one worker waits on the first node, the other sessions idle.
        spec = bench.spec(f"idle{len(hosts)}.yaml", f"name: idle{len(hosts)}\ncluster: {{hosts: [{', '.join(hosts)}], ssh_config: {ssh_config}}}\n"
                          "distributed: {nproc_per_node: 1}\n"
                          f"entrypoint: {{run: 'echo up >>{up}; while [ ! -e {stop} ]; do sleep 0.5; done', always: true}}\n")
        with open(bench.dir / "output", "wb") as output:
            p = subprocess.Popen([bench.rhrun, "--quiet", str(spec)], env=bench.env, cwd=bench.dir, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            end = time.monotonic() + 240
            while not up.exists() or len(up.read_text().splitlines()) < len(hosts):
                if p.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("the workers did not start: " + bench.output()[-500:])
                time.sleep(0.2)
            time.sleep(1)
            return resident(p.pid)
        finally:
            stop.touch()
            try:
                p.wait(120)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    few, many = measured(names[:8]), measured(names)
    each = (many - few) / (len(names) - 8) / 1024
    yield {"work": f"{len(names)} idle SSH sessions", "against": "", "wanted": None,
           "value": f"{many / (1 << 20):.1f} MB resident, {each:.0f} KB a session"}
