"""validate: every fault at once, with its place; exit status 0 or 2; nothing is touched."""
import json
import shutil

import pytest

from harness import ROOT

EXAMPLES = sorted((ROOT / "specs/examples").glob("*.yaml"))


def test_a_good_spec(rhrun, job):
    spec = job("name: a\nentrypoint: {run: echo hi}\n")
    rhrun("validate", spec).ok()


def test_there_are_examples():
    names = {p.stem for p in EXAMPLES}
    assert {"hello", "two-nodes-local", "ssh-hosts", "setup-and-resume", "failing-worker", "params", "hf-text-generation",
            "workdir-outputs", "function", "roles-clusters", "gather"} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_every_example_is_valid(rhrun, path):
    rhrun("validate", path).ok()


def test_faults_have_place_source_and_carets(rhrun, job):
    spec = job("name: a\ndistributed:\n  nproc_per_nod: 2\nentrypoint: {run: true}\n")
    r = rhrun("validate", spec).expect(2)
    assert "job.yaml:3:3: error:" in r.err
    assert "  nproc_per_nod: 2" in r.err
    assert "^" in r.err
    assert "nproc_per_node" in r.err.replace("nproc_per_nod:", "")


def test_all_faults_at_once(rhrun, job):
    spec = job("name: [1]\nparams: {p: {type: strin}}\nentrypoint:\n  run: x\n  scrip: y\nfoo: 1\n")
    r = rhrun("validate", spec).expect(2)
    for place in ("job.yaml:1:", "job.yaml:2:", "job.yaml:5:", "job.yaml:6:"):
        assert place in r.err, r


def test_several_files(rhrun, job):
    good = job("entrypoint: {run: echo}\n", "good.yaml")
    bad = job("entrypoint: {rum: echo}\n", "bad.yaml")
    worse = job("a: [\n", "worse.yaml")
    r = rhrun("validate", good, bad, worse).expect(2)
    assert "bad.yaml:1:" in r.err and "worse.yaml:" in r.err and "good.yaml:1" not in r.err


def test_json(rhrun, job):
    spec = job("name: a\nentrypoint: {rum: echo}\n")
    r = rhrun("validate", "--json", spec).expect(2)
    faults = r.json()
    faults = faults if isinstance(faults, list) else faults["diagnostics"]
    assert any(f["line"] == 2 and f["severity"] == "error" and f["file"].endswith("job.yaml") for f in faults), r
    assert all(key in faults[0] for key in ("line", "column", "end_line", "end_column", "message", "path"))


def test_json_of_a_good_spec(rhrun, job):
    r = rhrun("validate", "--json", job("entrypoint: {run: echo}\n")).ok()
    faults = r.json()
    assert not (faults if isinstance(faults, list) else faults["diagnostics"])


@pytest.mark.parametrize("text, words", [
    ("entrypoint: {run: a, command: [b]}\n", ["entrypoint"]),
    ("entrypoint: {args: [b]}\n", ["script", "module", "command", "run"]),
    ("distributed: {nnodes: 3}\ncluster: {hosts: [a, b]}\nentrypoint: {run: echo}\n", ["nnodes", "3", "2"]),
    ("entrypoint: {run: 'echo ${{ params.nope }}'}\n", ["nope"]),
    ("params: {color: {type: string, default: x}}\nentrypoint: {run: 'echo ${{ params.colour }}'}\n", ["color"]),
    ("cluster: {hosts: [a]}\nentrypoint: {script: train.py}\n", ["train.py"]),
    ("a: 1\na: 2\n", ["a"]),
    ("entrypoint: {command: [echo, ${{ params.x }}]}\n", ["${{"]),
    ("setup: [{name: x, run: a}, {name: x, run: b}]\nentrypoint: {run: echo}\n", ["x"]),
    ("secrets: [TOKEN]\nentrypoint: {run: 'echo ${{ secrets.TOKEN }}'}\n", ["secrets"]),
], ids=["two-kinds", "no-kind", "nnodes", "unknown-param", "near-param", "relative-script", "duplicate-key", "unquoted",
        "step-name", "secret-in-text"])
def test_refused(rhrun, job, text, words):
    r = rhrun("validate", job(text)).expect(2)
    assert "job.yaml:" in r.err
    for word in words:
        assert word in r.err, r


def test_two_forms_of_cluster_show_both_places(rhrun, job):
    r = rhrun("validate", job("cluster:\n  hosts: [a]\n  instance: V100:1\nentrypoint: {run: echo}\n")).expect(2)
    assert "job.yaml:2:" in r.err or "job.yaml:3:" in r.err


def test_yaml_core_scalars(rhrun, job):
    # `no` is a string in YAML 1.2, so this env value is the text.
    spec = job("env: {ANSWER: no, NUMBER: 1e-3}\nentrypoint: {run: 'echo $ANSWER $NUMBER'}\n")
    assert "no 1e-3" in rhrun(spec).ok().out


def test_billion_laughs_is_refused_at_once(rhrun, job):
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 12):
        text += f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]\n"
    r = rhrun("validate", job(text), timeout=10).expect(2)
    assert "job.yaml" in r.err


def test_no_such_file(rhrun):
    r = rhrun("validate", "nope.yaml").expect(2)
    assert "nope.yaml" in r.err


def test_not_utf8(rhrun, box):
    path = box.path("bin.yaml")
    path.write_bytes(b"name: \xff\xfe\n")
    rhrun("validate", path).expect(2)


def test_nothing_is_touched(rhrun, job, box):
    rhrun(job("entrypoint: {rum: touch x}\n")).expect(2)
    assert not list(box.work.glob("x")) and not box.state.exists()
    assert not (box.home / ".rhrun").exists()


def test_any_schema(rhrun, box):
    schema = box.spec('{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}', "s.json")
    good = box.spec("a: 1\n", "good.yaml")
    bad = box.spec('{"a": "x"}', "bad.json")
    rhrun("validate", "--schema", schema, good).ok()
    r = rhrun("validate", "--schema", schema, good, bad).expect(2)
    assert "bad.json:1:" in r.err and "integer" in r.err


@pytest.mark.parametrize("path", sorted((ROOT / "providers").glob("*.yaml")), ids=lambda p: p.stem)
def test_a_file_of_a_provider(rhrun, box, path):
    from harness import require
    yaml, jsonschema = require("yaml"), require("jsonschema")
    rhrun("validate", "--schema", "provider", path).ok()
    printed = json.loads(rhrun("schema", "provider").ok().out)
    assert printed == json.loads((ROOT / "schema/provider.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(printed)
    jsonschema.Draft202012Validator(printed).validate(yaml.safe_load(path.read_text()))
    bad = box.spec(path.read_text().replace("$id", "$idd").replace("deadline:", "deadlin:"), "bad.yaml")
    r = rhrun("validate", "--schema", "provider", bad).expect(2)
    assert "bad.yaml:" in r.err and "did you mean deadline?" in r.err
    bad = box.spec(path.read_text().replace("$id", "$idd"), "bad.yaml")
    r = rhrun("validate", "--schema", "provider", bad).expect(2)
    assert "bad.yaml:" in r.err and 'has no input "idd"' in r.err


def test_the_published_schema_is_the_enforced_one(rhrun):
    printed = json.loads(rhrun("schema").ok().out)
    assert printed == json.loads((ROOT / "schema/job.schema.json").read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_the_schema_means_the_same_to_another_validator(path):
    from harness import require
    yaml, jsonschema = require("yaml"), require("jsonschema")
    schema = json.loads((ROOT / "schema/job.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(path.read_text()))


def test_what_only_this_machine_can_tell(rhrun, box, job):
    """Warnings where another machine may do better, faults where bash cannot read shell text."""
    r = rhrun("validate", job("cluster: {hosts: [a], identity_file: ./nokey}\nworkdir: .\nenv: {A: ~/a}\n"
                              "entrypoint: {command: [ls, ~/b], args: [\"~/c\", \"x~/d\"]}\n")).ok()
    assert 'job.yaml:1:38: warning: there is no key "./nokey" on this machine' in r.err
    for text in ('"~/a" in env', '"~/b" in command', '"~/c" in args'):
        assert f"warning: nothing expands the ~ of {text}" in r.err, r
    assert r.err.count("warning:") == 4
    assert "warning" not in rhrun("validate", job("outputs: [{from: out/, to: ~/x/}]\nentrypoint: {run: ls ~/x}\n")).ok().err
    if not shutil.which("bash"):
        return
    r = rhrun("validate", job("setup:\n  - run: |\n      echo a\n      fi\nactivate: |\n  shopt -s extglob\n  ls @(a|b)\n"
                              "params: {p: {default: 'a (b'}}\nentrypoint: {run: 'if true; then echo ${{ params.p }}', "
                              "epilog: 'echo ${{ params.p }} ${{ node.rank }}'}\n")).expect(2)
    assert "job.yaml:4:7: error: bash cannot read this: syntax error near unexpected token `fi'" in r.err
    assert "unexpected end of file" in r.err and "2 faults" in r.err, r


def test_a_file_that_cannot_be_read_is_a_fault(rhrun, box):
    (box.work / "folder.yaml").mkdir()
    r = rhrun("validate", "nope.yaml", "folder.yaml").expect(2)
    assert 'error: cannot read "nope.yaml": No such file' in r.err and "not valid: 2 faults" in r.err
    assert "nope.yaml" in rhrun("validate", "--json", "nope.yaml").expect(2).json()[0]["message"]
    assert "nope.yaml" in rhrun("plan", "--json", "nope.yaml").expect(2).json()[0]["message"]


@pytest.mark.parametrize("text", ["import os\nprint(os.getcwd())\n", "- a\n- b\n"], ids=["a program", "a list"])
def test_what_is_no_spec_at_all(rhrun, job, text):
    r = rhrun(job(text)).expect(2)
    assert "hint: a spec is YAML of keys and values" in r.err and "rhrun init" in r.err, r
