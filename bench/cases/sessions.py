"""Memory of rhrun with 256 idle SSH sessions (reported, no limit)."""
import pathlib
import subprocess
import time

HOSTS, PER_HOST = 32, 8


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def rows(bench):
    fleet = bench.fleet(HOSTS)
    # The same 32 servers under 8 names each: a name is a session, the sshd cannot tell.
    config = (fleet.folder / "default").read_text()
    names, hosts = [], ""
    for i in range(1, HOSTS + 1):
        for k in range(PER_HOST):
            names.append(f"n{i}-{k}")
            hosts += f"Host n{i}-{k}\n  HostName 127.0.0.1\n  Port {fleet.view_base + i}\n  HostKeyAlias node{i}\n"
    ssh_config = bench.spec("many", hosts + config[config.index("Host *"):])

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

    few, many = measured(names[::PER_HOST][:8]), measured(names)
    each = (many - few) / (len(names) - 8) / 1024
    yield {"work": f"{len(names)} idle SSH sessions", "against": "", "wanted": None,
           "value": f"{many / (1 << 20):.1f} MB resident, {each:.0f} KB a session"}
