"""validate of a 300-line spec; plan of 1,000 nodes × 20 steps; both against Python's two imports alone."""
import sys

from lib import Skip, row

LIMIT_BYTES = 64 << 20


def big_spec():
    """300 lines that use every part of the language."""
    lines = ["name: big", "params:"]
    lines += [f"  p{i}: {{type: string, default: value-{i}}}" for i in range(40)]
    lines += ["cluster:", "  hosts:"] + [f"    - {{host: host-{i}.example.org, port: {2200 + i}}}" for i in range(64)]
    lines += ["  user: ubuntu", "env:"] + [f"  VARIABLE_{i}: \"text ${{{{ params.p{i % 40} }}}}\"" for i in range(60)]
    lines += ["setup:"]
    while len(lines) < 285:
        n = len(lines)
        lines += [f"  - name: step-{n}", f"    run: make -C part-{n} all", f"    creates: part-{n}/out", "    retry: {times: 2, backoff: 5s}"]
    lines += ["distributed:", "  nnodes: 64", "  nproc_per_node: 8", "  launcher: native", "entrypoint:", "  command: [./train, --epochs, \"10\"]"]
    return "\n".join(lines) + "\n"


def wide_spec(nodes, steps):
    hosts = ", ".join(f"host-{i}" for i in range(nodes))
    setup = "".join(f"  - {{name: step-{i}, run: make part-{i}}}\n" for i in range(steps))
    return f"name: wide\ncluster: {{hosts: [{hosts}]}}\nsetup:\n{setup}distributed: {{nproc_per_node: 8}}\nentrypoint: {{command: [./train]}}\n"


def rows(bench):
    python = sys.executable
    imports = [python, "-c", "import yaml, jsonschema"]
    try:
        bench.seconds(imports)
    except RuntimeError as e:
        raise Skip("python3 with yaml and jsonschema is not here") from e
    spec = bench.spec("big.yaml", big_spec())
    wide = bench.spec("wide.yaml", wide_spec(1000, 20))
    wider = bench.spec("wider.yaml", wide_spec(10000, 20))
    works = {
        f"validate, {len(big_spec().splitlines())} lines": [bench.rhrun, "validate", spec],
        "plan, 1,000 nodes × 20 steps": [bench.rhrun, "plan", "--offline", wide],
    }
    for work, command in works.items():
        yield row(work, "python3 -c 'import yaml, jsonschema'", bench.ab(lambda: bench.seconds(command), lambda: bench.seconds(imports)), 1.0)
    for work, command in works.items():
        peak = bench.peak_bytes(command)
        yield {"work": f"{work}: peak memory", "against": "", "value": f"{peak / (1 << 20):.1f} MB", "wanted": "< 64 MB",
               "met": peak < LIMIT_BYTES}
    command = [bench.rhrun, "plan", "--offline", wider]
    yield {"work": "plan, 10,000 nodes × 20 steps", "against": "", "wanted": None,
           "value": f"{bench.seconds(command):.3f} s, {bench.peak_bytes(command) / (1 << 20):.1f} MB"}
