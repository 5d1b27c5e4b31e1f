"""20 shell set-up steps on 8 hosts, each durably checkpointed; then the same again with everything up to date."""
import json

from lib import Skip, log, row

HOSTS, STEPS = 8, 20
COMMANDS = [f"echo step {i} >>$HOME/lines" for i in range(STEPS)]


def rows(bench):
    fleet = bench.fleet(HOSTS)
    spec = bench.spec("setup.yaml", json.dumps({
        "name": "setup",
        "cluster": {"hosts": fleet.names(HOSTS), "ssh_config": fleet.config("default")},
        "setup": [{"name": f"step-{i}", "run": c} for i, c in enumerate(COMMANDS)],
        "distributed": {"nproc_per_node": 1},
        "entrypoint": {"command": ["true"]},
    }))

    def fresh():
        bench.forget()
        fleet.wipe()
        took = bench.seconds([bench.rhrun, "--quiet", spec])
        for i in range(1, HOSTS + 1):
            count = len((fleet.dir / "home" / str(i) / "lines").read_text().splitlines())
            if count != STEPS:
                raise RuntimeError(f"host {i} has {count} lines, not {STEPS}")
        return took

    script = bench.spec("script", "set -e\n" + "\n".join(COMMANDS) + "\n")
    listing = bench.spec("hosts", "\n".join(fleet.names(HOSTS)) + "\n")

    def ssh_script(kex):
        return bench.seconds(f"xargs -P{HOSTS} -I@ sh -c 'ssh -F {fleet.config(kex)} @ sh -s <{script}' <{listing}")

    for kex, limit in (("default", 0.8), ("same", 1.2)):
        words = "default" if kex == "default" else "the same"
        yield row(f"{STEPS} set-up steps × {HOSTS} hosts", f"{HOSTS} parallel ssh with one script, {words} key exchange",
                  bench.ab(fresh, lambda k=kex: ssh_script(k)), limit)

    def again():
        took = bench.seconds([bench.rhrun, spec])
        if "nothing to do" not in bench.output():
            raise RuntimeError("it was not up to date")
        return took

    fresh()
    for kex, limit in (("default", 0.5), ("same", 1.1)):
        words = "default" if kex == "default" else "the same"
        yield row("the same again, up to date, verified on every node", f"{HOSTS} parallel ssh host true, {words} key exchange",
                  bench.ab(again, lambda k=kex: bench.seconds(f"xargs -P{HOSTS} -I@ ssh -n -F {fleet.config(k)} @ true <{listing}")), limit)

    try:
        yield ansible(bench, fleet, fresh)
    except Skip as e:
        log(f"    ansible: {e}")
        raise


def ansible(bench, fleet, fresh):
    program = bench.need("ansible-playbook", pip="ansible-core")
    play = bench.spec("play.yaml", json.dumps([{
        "hosts": "all", "gather_facts": False,
        "tasks": [{"name": f"step {i}", "ansible.builtin.shell": c} for i, c in enumerate(COMMANDS)],
    }]))
    inventory = bench.spec("inventory", "\n".join(fleet.names(HOSTS)) + "\n[all:vars]\nansible_python_interpreter=/usr/bin/python3\n")
    config = bench.spec("ansible.cfg", "[defaults]\nforks = 8\nhost_key_checking = True\n[ssh_connection]\npipelining = True\n"
                        f"ssh_args = -F {fleet.config('default')} -o ControlMaster=auto -o ControlPersist=60s -o ControlPath={bench.dir}/c-%C\n")

    def run():
        took = bench.seconds([program, "-i", inventory, play], env={"ANSIBLE_CONFIG": str(config)})
        # Its masters end after each run: a first run has none.
        bench.seconds(f"for s in {bench.dir}/c-*; do [ ! -S $s ] || ssh -o ControlPath=$s -O exit x 2>/dev/null || true; done")
        return took

    return row(f"{STEPS} set-up steps × {HOSTS} hosts", "ansible-playbook (pipelining, ControlPersist)", bench.ab(fresh, run, pairs=3), 0.05)
