"""Requirements, packages, inputs and scripts in a folder that an earlier item of set-up brings: they are installed, and installed again when the folder changes."""
import os
import subprocess

import pytest

from harness import require
from test_packages import BACKEND, PYPROJECT
from wheels import offline, quick_python, started, wheel


@pytest.fixture
def repo(box):
    """A repository with a requirements file that includes another, and a package."""
    require("git")
    folder = box.dir / "wheels"
    folder.mkdir()
    wheel(folder, "alpha", "1.0")
    wheel(folder, "beta", "1.0")
    python = quick_python(box, "python3")  # not on a host, whose PATH is its own
    box.env.update(offline(folder), PATH=f"{os.path.dirname(python)}:{box.env['PATH']}")
    repo = box.dir / "apex"
    (repo / "pkg").mkdir(parents=True)
    (repo / "requirements.txt").write_text("-r more.txt\nalpha\n")
    (repo / "more.txt").write_text("beta\n")
    (repo / "pkg/pyproject.toml").write_text(PYPROJECT)
    (repo / "pkg/backend.py").write_text(BACKEND)
    (repo / "pkg/gamma.py").write_text("version = 1\n")
    (repo / "train.py").write_text("print('trained')\n")
    commit(repo, "init")
    return repo


def commit(repo, what):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(repo)]
    if what == "init":
        subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def bringing(kind, repo, ref=None):
    """Items of set-up that put the repository's files to dep/, and keys of the top level."""
    if kind == "git":
        return [{"name": "bring", "git": str(repo), "to": "dep", "ref": ref or "HEAD"}], {}
    if kind == "copy":
        return [{"name": "bring", "copy": str(repo), "to": "dep"}], {}
    if kind == "files":
        return [], {"files": [{"from": str(repo), "to": "dep"}]}
    return [{"name": "bring", "run": f"rm -rf dep; cp -r {repo} dep; : {ref or ''}", "creates": "dep"}], {}


CODE = "import alpha, beta, gamma; print('have', gamma.version)"


def spec_of(kind, repo, ref=None, **more):
    items, top = bringing(kind, repo, ref)
    return {**top, "python": {"venv": True},
            "setup": [*items, {"name": "reqs", "requirements": "dep/requirements.txt"}, {"name": "pkg", "pip": "./dep/pkg"}],
            "entrypoint": {"command": ["python", "-c", CODE]}, **more}


BRIEFLY = (("git", "host"), ("run", "in place"))  # the others: scripts/soak


@pytest.mark.slow
@pytest.mark.parametrize("kind, where", [pytest.param(k, w, marks=() if (k, w) in BRIEFLY else pytest.mark.soak)
                                         for k in ("git", "copy", "files", "run") for w in ("in place", "workdir", "host")])
def test_installed_from_what_an_item_brings(rhrun, job, box, fleet, repo, kind, where):
    more = {"workdir": {"workdir": "."}, "in place": {}}.get(where)
    if where == "host":
        f = fleet(1, options="")
        cluster = f.cluster()
        more = {"cluster": cluster, "env": offline(box.dir / "wheels")}
    ref = subprocess.run(["git", "-C", str(repo), "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    spec = job(spec_of(kind, repo, ref, **more))
    rhrun("validate", spec).ok()
    rhrun("plan", "--offline", spec).ok()
    assert "have 1" in rhrun(spec, timeout=300).ok().out
    assert "nothing to do" in rhrun(spec).ok().err
    rhrun("plan", "--exit-code", spec).ok()
    (repo / "pkg/gamma.py").write_text("version = 2\n")
    spec = job(spec_of(kind, repo, commit(repo, "again"), **more))
    r = rhrun("--json", spec).ok()
    assert {"reqs", "pkg", "launch"} <= set(started(r))
    assert "nothing to do" in rhrun(spec).ok().err


def test_a_workdir_or_host_needs_no_creates(rhrun, job, box, repo):
    """It is unknown which run item makes the file: all before it count."""
    spec = {"workdir": ".", "python": {"venv": True},
            "setup": [{"name": "make", "run": "echo alpha >made.txt"}, {"name": "reqs", "requirements": "made.txt"}],
            "entrypoint": {"command": ["python", "-c", "import alpha; print('have alpha')"]}}
    assert "have alpha" in rhrun(job(spec)).ok().out
    assert "nothing to do" in rhrun("job.yaml").ok().err
    spec["setup"][0]["run"] = "echo beta >made.txt; echo alpha >>made.txt"
    assert {"make", "reqs"} <= set(started(rhrun("--json", job(spec)).ok()))


def test_in_place_creates_is_asked_for(rhrun, job, repo):
    """Otherwise the file would look like a source the next time, and a finished job would start again."""
    spec = {"setup": [{"run": "echo alpha >made.txt"}, {"requirements": "made.txt"}], "entrypoint": {"run": "true"}}
    r = rhrun("validate", job(spec)).expect(2)
    assert 'there is no "made.txt"' in r.err and "creates: made.txt" in r.err
    rhrun("plan", "--offline", "job.yaml").expect(2)


@pytest.mark.parametrize("more", [{}, {"workdir": "."}, {"cluster": {"hosts": ["a.invalid"]}}], ids=["place", "workdir", "host"])
@pytest.mark.parametrize("item", [{"requirements": "dep/requirements.txt"}, {"pip": "./dep/pkg"}], ids=["requirements", "pip"])
def test_what_stands_behind_brings_nothing(rhrun, job, repo, item, more):
    spec = {"setup": [item, {"name": "bring", "git": str(repo), "to": "dep"}], "entrypoint": {"run": "true"}, **more}
    for command in (["validate"], ["plan", "--offline"], ["run"]):
        r = rhrun(*command, job(spec)).expect(2)
        assert '"bring", which may bring the file, comes later' in r.err, r


@pytest.mark.parametrize("where", ["in place", "workdir", "host"])
def test_inputs_among_the_files_of_a_git_item(rhrun, job, box, fleet, repo, where):
    more = {"workdir": {"workdir": "."}, "in place": {}}.get(where)
    if where == "host":
        more = {"cluster": fleet(1).cluster()}
    text = {"setup": [{"name": "bring", "git": str(repo), "to": "dep", "ref": commit_of(repo)},
                      {"name": "build", "run": "echo built >>out; cat dep/pkg/gamma.py", "inputs": ["dep/pkg/*.py"]}],
            "entrypoint": {"run": "cat out"}, **more}
    rhrun("validate", job(text)).ok()
    assert "built" in rhrun("job.yaml").ok().out
    assert "nothing to do" in rhrun("job.yaml").ok().err
    (repo / "pkg/gamma.py").write_text("version = 3\n")
    text["setup"][0]["ref"] = commit(repo, "again")
    assert {"bring", "build"} <= set(started(rhrun("--json", job(text)).ok()))


def commit_of(repo):
    return subprocess.run(["git", "-C", str(repo), "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_a_script_that_a_run_item_makes_on_a_host(rhrun, job, fleet):
    f = fleet(1)
    spec = {"cluster": f.cluster(), "setup": [{"run": "echo \"print('made')\" >made.py"}], "entrypoint": {"script": "made.py"}}
    assert "made" in rhrun(job(spec)).ok().out
    assert "nothing to do" in rhrun("job.yaml").ok().err
    del spec["setup"]
    assert "is not on the hosts" in rhrun("validate", job(spec)).expect(2).err
