"""One command on 32 hosts, cold connections; then the same through a round trip of 20 ms."""
from lib import row

HOSTS = 32
SPEC = """
name: fanout
cluster: %s
distributed: {nproc_per_node: 1}
entrypoint: {command: ["true"], always: true}
"""


def peers(bench, fleet, kex):
    """name -> one command on all hosts, as each tool does it best."""
    config = fleet.config(kex)
    hosts = fleet.names(HOSTS)
    listing = bench.dir / "hosts"
    listing.write_text("\n".join(hosts) + "\n")
    commands = {"xargs -P32 ssh": f"xargs -P32 -I@ ssh -n -F {config} @ true <{listing}"}
    for name, program, package, command in (
            ("pdsh -f 64", "pdsh", "pdsh", f"PDSH_SSH_ARGS_APPEND='-F {config}' pdsh -R ssh -f 64 -w {','.join(hosts)} true"),
            ("clush -f 64", "clush", "clustershell", f"clush -q -f 64 -o '-F {config}' -w node[1-{HOSTS}] true")):
        bench.need(program, package)
        commands[name] = command
    return {name: (lambda c=c: bench.seconds(c)) for name, c in commands.items()}


def against(bench, fleet, work, limits):
    spec = bench.spec("fanout.yaml", SPEC % fleet.cluster(HOSTS))
    bench.check_launch(spec, HOSTS, HOSTS)
    for kex, limit in limits.items():
        candidates = peers(bench, fleet, kex)
        name, _ = bench.fastest(candidates)
        words = "its default key exchange" if kex == "default" else "the same key exchange"
        yield row(work, f"{name}, {words}", bench.ab(lambda: bench.seconds([bench.rhrun, "--quiet", spec]), candidates[name]), limit)


def rows(bench):
    fleet = bench.fleet(HOSTS)
    yield from against(bench, fleet, "one command on 32 hosts, cold", {"default": 0.35, "same": 1.1})
    with bench.delay(fleet, 20) as far:
        yield from against(bench, far, "the same, 20 ms round trip", {"same": 1.0})
