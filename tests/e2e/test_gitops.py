"""The pipelines of docs/gitops.md, with their steps run by a shell in a bare clone; the pre-commit hooks."""
import re
import shlex
import subprocess

import harness
import pytest

from test_apply import commit, git, push, repository

DOC = harness.ROOT / "docs/gitops.md"


def block(name):
    yaml = harness.require("yaml")
    return yaml.safe_load(re.search(rf"<!-- file: {re.escape(name)} -->\n```yaml\n(.*?)^```$", DOC.read_text(), re.M | re.S).group(1))


def shell(box, folder, text, **env):
    """As a runner does it: bash -e, in the folder of the clone, with rhrun in PATH."""
    tools = box.dir / "bin"
    tools.mkdir(exist_ok=True)
    if not (tools / "rhrun").exists():
        (tools / "rhrun").symlink_to(harness.RHRUN)
    return subprocess.run(["bash", "-eo", "pipefail", "-c", text], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=harness.TIMEOUT, env={**box.env, **env, "PATH": f"{tools}:{box.env['PATH']}"})


def github(box, bare, job, sha):
    """The run steps of a job in order, until one fails; `always()` all the same. Its exit status, and the summary."""
    summary, rc = box.dir / "summary", 0
    summary.write_text("")
    for step in block("github-actions.yml")["jobs"][job]["steps"]:
        if "run" in step and (rc == 0 or step.get("if") == "always()"):
            assert "${{" not in step["run"]  # nothing of a commit gets into the text of a script
            done = shell(box, bare, step["run"], GITHUB_SHA=sha, GITHUB_STEP_SUMMARY=str(summary))
            rc = rc or done.returncode
    return rc, summary.read_text()


def gitlab(box, bare, job, sha):
    spec = block("gitlab-ci.yml")[job]
    done = shell(box, bare, "\n".join(spec["script"]), CI_COMMIT_SHA=sha)
    allowed = spec.get("allow_failure", {}).get("exit_codes", [])
    return (0 if done.returncode in allowed else done.returncode), done.stdout + done.stderr


@pytest.mark.parametrize("runner", [github, gitlab])
def test_pipeline(runner, box):
    top, bare = repository(box)
    first = git(top, "rev-parse", "HEAD")
    rc, text = runner(box, bare, "check", first)
    assert rc == 0 and "it was never run" in text and not box.lines()
    assert runner(box, bare, "apply", first)[0] == 0 and box.lines() == ["one", "one"]
    rc, text = runner(box, bare, "check", first)
    assert rc == 0 and "2 up to date" in text
    assert runner(box, bare, "apply", first)[0] == 0 and len(box.lines()) == 2
    # A merge of two specs with one name is refused before and after; of a job that fails, after.
    box.spec("name: a\nentrypoint: {run: 'true'}\n", "work/jobs/other.yaml")
    double = commit(top)
    push(top, bare)
    assert runner(box, bare, "check", double)[0] in (1, 2) and runner(box, bare, "apply", double)[0] == 2
    box.spec("name: fails\nentrypoint: {run: 'exit 7'}\n", "work/jobs/other.yaml")
    fails = commit(top)
    push(top, bare)
    assert runner(box, bare, "check", fails)[0] == 0
    assert runner(box, bare, "apply", fails)[0] == 1 and len(box.lines()) == 2


def test_pre_commit_hooks(box):
    yaml = harness.require("yaml")
    top, _ = repository(box)
    hooks = {h["id"]: h for h in yaml.safe_load((harness.ROOT / ".pre-commit-hooks.yaml").read_text())}
    used = yaml.safe_load(re.search(r"```yaml\n(repos:.*?)^```$", DOC.read_text(), re.M | re.S).group(1))
    assert {h["id"] for r in used["repos"] for h in r["hooks"]} == set(hooks)

    def run(name, files):
        hook = hooks[name]
        files = [f for f in files if re.search(hook["files"], f)] if hook.get("pass_filenames", True) else []
        return shell(box, top, shlex.join([*hook["entry"].split(), *hook.get("args", []), *files])).returncode

    assert run("rhrun-validate", ["jobs/a.yaml", "jobs/b.yaml", "other/compose.yaml"]) == 0 and run("rhrun-set", []) == 0
    box.spec("name: a\nentrypoint: {run: 'true'}\n", "work/jobs/b.yaml")
    assert run("rhrun-validate", ["jobs/b.yaml"]) == 0 and run("rhrun-set", []) == 2
    box.spec("name: b\nentrypoint: {rum: 'true'}\n", "work/jobs/b.yaml")
    assert run("rhrun-validate", ["jobs/b.yaml"]) == 2
