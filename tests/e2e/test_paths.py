"""Paths of the entrypoint on its node: ~/ is the home directory there, and rhrun does not make a missing folder."""
import os
import re
import sys

import pytest


def there(box, fleet, remote):
    """The cluster, and the home directory of its node."""
    if not remote:
        return {}, box.home
    f = fleet(1)
    return {"cluster": f.cluster()}, f.home(1)


@pytest.mark.parametrize("remote", [False, True], ids=["local", "ssh"])
def test_home(box, fleet, job, rhrun, remote):
    cluster, home = there(box, fleet, remote)
    (home / "tools").mkdir()
    (home / "tools" / "where").write_text("#!/bin/sh\npwd; printf '<%s>' \"$@\"; echo\n")
    (home / "tools" / "where").chmod(0o755)
    (home / "tools" / "t.py").write_text("import os, sys\nprint(os.getcwd(), sys.argv)\n")
    tools = os.path.realpath(home / "tools")
    r = rhrun(job({**cluster, "entrypoint": {"command": ["~/tools/where", "~/tools", "x"], "cwd": "~/tools"}})).ok()
    assert f"{tools}\n" in r.out and "<~/tools><x>\n" in r.out, r
    r = rhrun(job({**cluster, "entrypoint": {"script": "~/tools/t.py", "cwd": "~"}})).ok()
    assert os.path.realpath(home) in r.out and "/tools/t.py']" in r.out, r
    r = rhrun(job({**cluster, "distributed": {"nproc_per_node": 2}, "entrypoint": {"script": "~/tools/t.py", "cwd": "~/tools"}})).ok()
    assert r.out.count(tools + " [") == 2, r
    assert not (box.work / "~").exists()


@pytest.mark.parametrize("entry", [{"cwd": "~other/x", "run": "pwd"}, {"script": "~other/x.py"}, {"command": ["~other/x", "~other/y"]}])
def test_another_users_home_is_refused(box, job, rhrun, entry):
    r = rhrun("validate", job({"entrypoint": entry})).expect(2)
    assert 'cannot be "~other/x' in r.err and r.err.count("error:") == 1, r


@pytest.mark.parametrize("remote", [False, True], ids=["local", "ssh"])
@pytest.mark.parametrize("cwd", ["no/such", "/no/such", "~/no/such"])
def test_a_missing_cwd(box, fleet, job, rhrun, remote, cwd):
    cluster, home = there(box, fleet, remote)
    spec = {"name": "c", **cluster, "entrypoint": {"run": "echo began >$HOME/began", "cwd": cwd}}
    if cwd == "no/such":  # below the spec's folder, or sent from there: seen before anything starts
        r = rhrun(job(spec)).expect(2)
        assert ('the folder "no/such" of cwd is not on the hosts' if remote else 'there is no folder "no/such"') in r.err, r
    else:
        r = rhrun(job(spec)).expect(1)
        shown = cwd.replace("~", str(home))
        assert f'"{shown}": No such file or directory' in r.err and f'"{"node1" if remote else "local"}"' in r.err, r
    assert not (home / "began").exists() and not list(box.dir.rglob("such"))
    if cwd == "no/such":  # what a step before the launch makes is there
        for key in ({"setup": [{"run": "mkdir -p no/such"}]}, {"entrypoint": {**spec["entrypoint"], "prolog": "mkdir -p no/such"}}):
            (home / "began").unlink(missing_ok=True)
            rhrun(job({**spec, **key, "name": "c2"})).ok()
            assert (home / "began").exists()


def test_the_interpreter_goes_by_its_usual_names(box, job, rhrun):
    """venv: false with a path: `python` of run items and workers is that one. Then comes its folder."""
    folder = box.home / "own" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\necho "own {name}" >>$HOME/lines\nexec {sys.executable} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "tool").write_text("#!/bin/sh\necho tool >>$HOME/lines\n")
    (folder / "tool").chmod(0o755)
    (box.work / "t.py").write_text("import subprocess\nsubprocess.run(['python', '-c', '0'], check=True)\n")
    for interpreter in (str(folder / "python3"), "~/own/bin/python3"):
        spec = {"python": {"interpreter": interpreter, "venv": False}, "setup": [{"run": "python -c 0; python3 -c 0; tool"}], "entrypoint": {"script": "t.py"}}
        rhrun(job(spec), "--fresh").ok()
        assert box.lines() == ["own python3", "own python3", "tool", "own python3", "own python3"], interpreter
        (box.home / "lines").unlink()


SAY = """import os, subprocess, sys
print(os.environ["WHOSE"], file=open(os.environ["HOME"] + "/lines", "a"))
"""


def interpreter(path, name, body='exec /usr/bin/python3 "$@"'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexport WHOSE={name}\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("remote", [False, True], ids=["local", "ssh"])
def test_another_python_is_first_in_path(box, fleet, job, rhrun, remote):
    """An interpreter with a name of its own, in a folder without `python`; kept, made again when it changes, or is lost."""
    cluster, home = there(box, fleet, remote)
    for name in ("python", "python3"):
        interpreter(home / "first" / name, "first")
    mine = [interpreter(home / f"it's $HOME {i}" / "python3.11", f"mine-{i}") for i in (1, 2)]
    (box.work / "say.py").write_text(SAY)
    (box.work / "t.py").write_text(SAY + "subprocess.run(['python', 'say.py'], check=True)\nsubprocess.run(['python3', 'say.py'], check=True)\n")
    spec = {**cluster, "workdir": ".", "env": {"PATH": f"{home}/first:/usr/bin:/bin"}, "python": {"interpreter": str(mine[0]), "venv": False},
            "setup": [{"run": "python say.py; python3 say.py; python - 'a  b' <<<'import sys; assert sys.argv[1:] == [\"a  b\"]'"}],
            "entrypoint": {"script": "t.py"}}
    lines = lambda: (home / "lines").read_text().split()  # noqa: E731
    rhrun(job(spec)).ok()
    assert lines() == ["mine-1"] * 5, "two of set-up, three of the launch"
    assert "nothing to do" in rhrun(job(spec)).ok().err
    spec["entrypoint"]["args"] = ["again"]
    assert re.search(r"keep +python .* python is ", rhrun("plan", job(spec)).ok().out)
    rhrun(job(spec)).ok()
    assert lines() == ["mine-1"] * 8, "set-up is kept"
    spec["python"]["interpreter"] = "~/" + mine[1].relative_to(home).as_posix()
    rhrun(job(spec)).ok()
    assert lines()[8:] == ["mine-2"] * 5, "another interpreter: set-up is done again"
    for made in home.rglob("python3"):
        if "/.rhrun/python/" in str(made):
            made.unlink()
    spec["entrypoint"] = {"run": "python say.py"}
    rhrun(job(spec)).ok()
    assert lines()[13:] == ["mine-2"], "what is lost is made again, and nothing else"


def test_an_interpreter_that_set_up_brings_goes_by_its_names_then(box, job, rhrun):
    """Until it exists, and for a script that starts python3 itself, the next one in PATH is used."""
    interpreter(box.work / "brought", "brought", 'exec python3 "$@"')
    (box.work / "bring.py").write_text("import os, shutil\nshutil.copy('brought', os.environ['HOME'] + '/p')\n")
    (box.work / "say.py").write_text(SAY)
    spec = {"python": {"interpreter": "~/p", "venv": False}, "setup": [{"run": "python3 bring.py"}, {"run": "python3 say.py"}],
            "entrypoint": {"run": "python3 say.py"}}
    rhrun(job(spec), timeout=60).ok()
    assert box.lines() == ["brought", "brought"]


def test_a_venv_of_an_interpreter_in_the_home_directory(box, job, rhrun):
    (box.home / "python-of-mine").symlink_to("/usr/bin/python3")
    spec = job({"python": {"interpreter": "~/python-of-mine", "venv": True}, "setup": [{"run": "python -c 0"}], "entrypoint": {"run": "true"}})
    rhrun(spec).ok()


def test_no_inputs_is_not_all_of_them(box, job, rhrun):
    (box.work / "src").mkdir()
    (box.work / "src" / "a").write_text("1")
    keys = {"none": {"inputs": []}, "one": {"inputs": ["a"]}, "all": {}}
    spec = job({"workdir": "src", "setup": [{"name": n, "run": f"echo {n} >>$HOME/lines", **k} for n, k in keys.items()],
                "entrypoint": {"run": "true"}})
    rhrun(spec).ok()
    (box.work / "src" / "b").write_text("2")
    rhrun(spec).ok()
    assert box.lines() == ["none", "one", "all", "all"]
    (box.work / "src" / "a").write_text("3")
    rhrun(spec).ok()
    assert box.lines()[4:] == ["one", "all"]
    shown = rhrun("show", "--json", spec).ok().json()["setup"]
    assert [i.get("inputs") for i in shown] == [[], ["a"], None]
