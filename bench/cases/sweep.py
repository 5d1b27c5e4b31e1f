"""A sweep of 1,000 points of /bin/true, 8 at a time here, and of 400 over 8 hosts, each point durably recorded; against GNU parallel
with a job log, and xargs, which records nothing."""
import json

from lib import row

HERE, EACH, HOSTS, FAR = 1000, 8, 8, 400


def spec_of(count, cluster=None):
    return f"""
name: sweep
params: {{i: 0}}
sweep: {{matrix: {{i: {list(range(count))}}}, per_node: {1 if cluster else EACH}}}
entrypoint: {{command: [/bin/true], always: true}}
cluster: {cluster or "local"}
"""


def timed(bench, spec, count):
    def run():
        return bench.seconds([bench.rhrun, "--quiet", spec])

    run()
    bench.seconds([bench.rhrun, "plan", "--json", spec])
    said = json.loads(bench.output())
    if len(said["points"]) != count:
        raise RuntimeError(f"not {count} points: {said}")
    return run


def rows(bench):
    bench.need("parallel", "parallel")
    numbers = bench.dir / "numbers"
    numbers.write_text("".join(f"{i}\n" for i in range(HERE)))
    ours = timed(bench, bench.spec("sweep.yaml", spec_of(HERE)), HERE)
    log = bench.dir / "joblog"
    yield row(f"{HERE} points of /bin/true, {EACH} at a time, here", f"parallel -j{EACH} --joblog",
              bench.ab(ours, lambda: bench.seconds(f"rm -f {log}; parallel --will-cite -j{EACH} --joblog {log} /bin/true {{}} <{numbers}")), 0.5)
    yield row("the same", f"xargs -P{EACH}, which records nothing",
              bench.ab(ours, lambda: bench.seconds(f"xargs -P{EACH} -n1 /bin/true <{numbers}")), None)
    fleet = bench.fleet(HOSTS)
    far = timed(bench, bench.spec("sweep-far.yaml", spec_of(FAR, fleet.cluster(HOSTS))), FAR)
    logins = ",".join(f"1/{h}" for h in fleet.names(HOSTS))
    numbers.write_text("".join(f"{i}\n" for i in range(FAR)))
    yield row(f"{FAR} points of /bin/true over {HOSTS} hosts", "parallel --sshlogin --joblog, the same key exchange",
              bench.ab(far, lambda: bench.seconds(f"rm -f {log}; parallel --will-cite --ssh 'ssh -F {fleet.config('same')}' --sshlogin {logins} "
                                                  f"--joblog {log} /bin/true {{}} <{numbers}")), 0.5)
