"""rhrun metrics: every number that the workers printed, from the logs of a run, however the run ended."""
import csv
import io
import json
import re
import signal

import pytest

from harness import wait_for

LOSS = r"metrics: [{name: loss, pattern: 'step (?<step>\d+) loss=(?<value>\S+)'}, {name: speed, pattern: 'speed=(?<value>\S+)', rank: 0}]" "\n"
PRINTS = """entrypoint:
  run: |
    i=0
    while [ $i -lt 5 ]; do
        i=$((i + 1))
        echo "step $((i * 10)) loss=0.$((9 - i))$RANK speed=$i"
    done
"""


def points(rhrun, *args):
    return [json.loads(line) for line in rhrun("metrics", *args, "--json").ok().out.splitlines()]


def test_all_values_of_all_ranks(rhrun, job):
    rhrun(job("name: m\ndistributed: {nnodes: 2, nproc_per_node: 2}\n" + LOSS + PRINTS)).ok()
    every = points(rhrun, "last")
    loss = {r: [(p["step"], p["value"]) for p in every if p["metric"] == "loss" and p["rank"] == r] for r in range(4)}
    assert loss == {r: [(10 * i, round(0.1 * (9 - i) + 0.01 * r, 2)) for i in range(1, 6)] for r in range(4)}
    speed = [p for p in every if p["metric"] == "speed"]
    assert [(p["rank"], p["step"], p["value"]) for p in speed] == [(0, i, i) for i in range(1, 6)] # counted: the pattern has no step
    assert {(p["generation"], p["role"]) for p in every} == {(1, "default")}
    assert {p["node"] for p in every if p["rank"] in (2, 3)} == {1}
    rows = list(csv.DictReader(io.StringIO(rhrun("metrics", "last", "loss", "--csv", "--rank", "3").ok().out)))
    assert [(r["metric"], r["rank"], int(r["step"]), float(r["value"])) for r in rows] == [("loss", "3", s, v) for s, v in loss[3]]
    assert all(int(r["time_ms"]) > 1600000000000 for r in rows)
    table = rhrun("metrics").ok().out.splitlines()
    assert table[0].split() == ["METRIC", "RANK", "VALUES", "STEPS", "FIRST", "LAST", "LOWEST", "HIGHEST"]
    assert table[1].split() == ["loss", "0", "5", "10-50", "0.8", "0.4", "0.4", "0.8"]
    assert len(table) == 6 and max(map(len, table)) <= 100


def test_names_and_runs_that_have_none(rhrun, job):
    spec = job("name: m\n" + LOSS + "entrypoint: {run: 'echo loss=none'}\n")
    rhrun(spec).ok()
    assert 'has no metric "los"' in (r := rhrun("metrics", spec, "los").expect(2)).err and "did you mean loss?" in r.err
    assert "has printed a line with a metric" in (r := rhrun("metrics", spec).ok()).err and r.out == ""
    rhrun("metrics", "--csv", "--json").expect(2)
    rhrun(job("name: n\nentrypoint: {run: 'true'}\n")).ok()
    assert "has no metrics" in rhrun("metrics").expect(2).err


def test_each_generation_is_told_apart(rhrun, job):
    rhrun(job("name: g\ndistributed: {nproc_per_node: 1, max_restarts: 1}\n" + LOSS + """entrypoint:
  run: 'echo "step $TORCHELASTIC_RESTART_COUNT loss=$TORCHELASTIC_RESTART_COUNT"; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'
""")).ok()
    assert [(p["generation"], p["step"], p["value"]) for p in points(rhrun, "last")] == [(1, 0, 0), (2, 1, 1)]
    assert "GEN" in rhrun("metrics").ok().out


def test_numbers_that_are_none(rhrun, job):
    rhrun(job("name: n\n" + LOSS + "entrypoint: {run: 'echo step 1 loss=nan; echo step 2 loss=-inf; echo step 3 loss=2; echo step 4 loss=0x10'}\n")).ok()
    assert [(p["step"], p["value"]) for p in points(rhrun, "last")] == [(1, "nan"), (2, "-inf"), (3, 2)]
    assert rhrun("metrics").ok().out.splitlines()[1].split() == ["loss", "0", "3", "1-3", "nan", "2", "-inf", "2"]


def test_a_killed_run_and_a_spec_that_has_changed_since(rhrun, job, box):
    """The logs and the spec of that day are what counts; the values of a launch that is kept are those of the run that did it."""
    text = "name: k\n" + LOSS + "entrypoint: {run: 'echo step 1 loss=1; while [ ! -e %s/go ]; do sleep 0.05; done; echo step 2 loss=2'}\n" % box.dir
    spec = job(text)
    run = box.start(spec)
    wait_for(lambda: points(rhrun, spec) if rhrun("runs").out else None, 30, "the first value")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    assert [p["value"] for p in points(rhrun, spec)] == [1]
    (box.dir / "go").touch()
    rhrun(spec).ok()
    assert [p["value"] for p in points(rhrun, spec)] == [1, 2]
    spec.write_text(text.replace("name: loss", "name: error"))
    assert {p["metric"] for p in points(rhrun, "last")} == {"loss"}


def test_what_set_changed_counts(rhrun, job):
    spec = job("name: s\n" + LOSS + "entrypoint: {run: 'echo acc=3'}\n")
    rhrun(spec, "--set", "metrics=[{name: acc, pattern: 'acc=(?<value>.)'}]").ok()
    assert [(p["metric"], p["value"]) for p in points(rhrun, "last")] == [("acc", 3)]


def test_roles(rhrun, job):
    rhrun(job("""name: r
metrics: [{name: loss, pattern: 'x=(?<value>.)', role: trainer}]
roles: {trainer: {count: 1}, server: {count: 1}}
entrypoint: {run: 'echo x=$RANK'}
""")).ok()
    assert [(p["role"], p["value"]) for p in points(rhrun, "last")] == [("trainer", 0)]


@pytest.mark.parametrize("columns", [80, 40])
def test_the_view_shows_the_last_values_and_cuts_no_number(box, terminal, columns):
    names = ["loss", "lr", "tokens_per_second", "a_metric_with_a_name_that_is_long_" + "x" * 40, "accuracy", "grad_norm", "epoch"]
    values = ["0.123456", "0.0003", "1.23457e+08", "-1.23457e-05", "0.987654", "12345.6", "17"]
    spec = box.spec({"name": "v", "metrics": [{"name": n, "pattern": f"m{i}=(?<value>\\S+)"} for i, n in enumerate(names)],
                     "entrypoint": {"run": "echo m0=9; echo " + " ".join(f"m{i}={v}" for i, v in enumerate(values)) +
                                           f"; while [ ! -e {box.dir}/go ]; do sleep 0.05; done"}})
    t = terminal(spec, columns=columns, rows=24)
    t.pump(lambda _: re.search(r"(?m)^   loss 0\.123456", t.display()))  # not only in the worker's line
    shown = t.display()
    (box.dir / "go").touch()
    t.pump()
    assert t.rc == 0
    lines = [line for line in shown.splitlines() if line.startswith("   ") and not line.startswith("    ")]
    assert 1 <= len(lines) <= 2 and max(map(len, lines)) < columns
    left = [f"{n} {v}" for n, v in zip(names, values)]
    said = " ".join(lines)
    for i, (name, value) in enumerate(zip(names, values)):
        found = re.search(rf"(?<!\S){re.escape(name[:4])}\S* (\S+)", said)
        assert found is None or found.group(1) == value, said
    assert left[0] in said and (columns == 40 or left[1] in said and left[2] in said)
    hidden = len(names) - len([v for v in values if re.search(rf" {re.escape(v)}(?!\S)", said)])
    assert (f"+{hidden} more" in said) if hidden else ("more" not in said), (hidden, shown)


def test_the_view_names_the_rank_where_it_is_not_the_first(box, terminal):
    spec = box.spec("name: v\ndistributed: {nproc_per_node: 3}\nmetrics: [{name: loss, pattern: 'loss=(?<value>\\S+)', rank: 2}]\n"
                    "entrypoint: {run: 'echo loss=$RANK.5; while [ ! -e %s/go ]; do sleep 0.05; done'}\n" % box.dir)
    t = terminal(spec)
    t.pump(lambda text: "loss 2.5 (rank 2)" in text)
    (box.dir / "go").touch()
    t.pump()
    assert t.rc == 0
