"""Installations on nodes: venv, pip, requirements, conda, apt, git, with real python and pip, and a folder as the only index.

The test makes the wheels, and a package with its own build backend, so nothing comes over the network.
"""
import hashlib
import http.server
import os
import shutil
import stat
import subprocess
import threading

import pytest

from harness import is_agent, missing, require, wait_for, workers_of
from wheels import offline, quick_python, real_python, started, wheel

BACKEND = '''
import os, zipfile
META = "Metadata-Version: 2.1\\nName: gamma\\nVersion: 0.1\\nRequires-Dist: beta\\n"
def _build(folder, files):
    if os.environ.get("BUILT"):
        with open(os.environ["BUILT"], "a") as f:
            f.write("gamma\\n")
    if os.environ.get("GATE"):
        open(os.environ["GATE"]).read()
    name, d = "gamma-0.1-py3-none-any.whl", "gamma-0.1.dist-info/"
    files[d + "METADATA"] = META
    files[d + "WHEEL"] = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[d + "RECORD"] = "".join(n + ",,\\n" for n in list(files) + [d + "RECORD"])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as z:
        for n, t in files.items():
            z.writestr(n, t)
    return name
def build_wheel(folder, config=None, metadata=None):
    return _build(folder, {"gamma.py": open("gamma.py").read()})
def build_editable(folder, config=None, metadata=None):
    return _build(folder, {"gamma.pth": os.getcwd() + "\\n"})
'''
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def wheels(box):
    folder = box.dir / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        wheel(folder, "alpha", version, ["beta>=1"])
        wheel(folder, "beta", version)
    wheel(folder, "delta", "1.0", ["beta<2"])
    box.env.update(offline(folder), LINES=str(box.home / "lines"))
    return folder


@pytest.fixture
def folder(box):
    """The working directory: a package, a requirements file."""
    src = box.work / "src"
    (src / "pkg").mkdir(parents=True)
    (src / "pkg/pyproject.toml").write_text(PYPROJECT)
    (src / "pkg/backend.py").write_text(BACKEND)
    (src / "pkg/gamma.py").write_text("value = 1\n")
    (src / "requirements.txt").write_text("alpha<2\n")
    return src


def spec_of(box, **more):
    spec = {"name": "packages", "workdir": "src", "python": {"interpreter": quick_python(box)},
            "entrypoint": {"run": "python -c 'import alpha; print(alpha.version)'"}}
    spec.update(more)
    return box.spec({k: v for k, v in spec.items() if v is not None})


def venv_of(box):
    found = sorted((box.home / ".rhrun/venv").glob("*"))
    assert len(found) == 1, found
    return found[0]


def output_of(box, step):
    return box.run("logs", "job.yaml", "--step", step).ok().text


# ---- the effects of an edit ----

def test_an_edit_redoes_what_it_must_and_no_more(box, wheels, folder):
    spec = spec_of(box, python={"interpreter": real_python("venv", "ensurepip")}, requirements=["requirements.txt"], setup=[
        {"name": "extra", "pip": ["delta"]}, {"name": "look", "run": "echo look >> $LINES", "inputs": ["pkg/**"]}])
    first = box.run("--json", spec).ok()
    assert started(first) == ["sync", "python", "requirements.txt", "extra", "look", "launch"]
    assert "nothing to do" in box.run(spec).ok().err

    (folder / "train.py").write_text("1\n")
    assert started(box.run("--json", spec).ok()) == ["sync", "launch"]

    (folder / "requirements.txt").write_text("alpha==2.0\n")
    plan = box.run("plan", spec).ok().out
    assert "content of requirements.txt changed" in plan
    assert "requirements.txt runs again, which may change what it installed" in plan
    again = box.run("--json", spec).ok()
    assert started(again) == ["sync", "requirements.txt", "extra", "launch"]
    assert "as installed: beta 1.0, delta 1.0" in output_of(box, "extra")
    assert "2.0" in box.run("logs", "job.yaml").ok().out


@pytest.mark.slow
def test_what_a_later_package_changed_is_done_again(box, wheels, folder):
    """beta 2 comes with the first item, the second wants beta<2; when the first is redone with beta 2, the second notices."""
    spec = spec_of(box, requirements=["requirements.txt"], setup=[{"name": "extra", "pip": ["delta"]}])
    (folder / "requirements.txt").write_text("alpha\nbeta==2.0\n")
    box.run(spec).ok()
    assert "1.0" in (venv_of(box) / ".rhrun/extra.json").read_text()
    (folder / "requirements.txt").write_text("alpha\nbeta==2.0 # still\n")
    assert started(box.run("--json", spec).ok()) == ["sync", "requirements.txt", "extra", "launch"]
    said = output_of(box, "extra")
    assert "as installed" not in said and "beta-1.0" in said


def test_a_venv_that_is_gone_is_made_anew_with_all_that_was_in_it(box, wheels, folder):
    spec = spec_of(box, requirements=["requirements.txt"], setup=[{"name": "own", "run": "touch $VIRTUAL_ENV/own"}])
    box.run(spec).ok()
    shutil.rmtree(venv_of(box))
    result = box.run("--json", "--again", spec).ok()
    assert started(result) == ["python", "requirements.txt", "own", "launch"]
    assert (venv_of(box) / "own").exists()


def test_activate_notices_the_file_that_it_names(box, wheels, folder):
    (folder / "env.sh").write_text("export KIND=one\n")
    spec = spec_of(box, activate="source ./env.sh", python={"venv": False}, setup=[
        {"name": "show", "run": "echo $KIND >> $LINES"}], entrypoint={"run": "echo launch $KIND >> $LINES"})
    box.run(spec).ok()
    (folder / "other.txt").write_text("x")
    assert "activate" not in started(box.run("--json", spec).ok())
    (folder / "env.sh").write_text("export KIND=two\n")
    assert "activate" in started(box.run("--json", spec).ok())
    assert box.lines()[-2:] == ["two", "launch two"]


def test_editable_notices_its_build_files_only(box, wheels, folder):
    spec = spec_of(box, setup=[{"name": "own", "pip": ["./pkg"], "editable": True}],
                   entrypoint={"run": "python -c 'import gamma; print(gamma.value)'"})
    assert box.run(spec).ok().out == "1\n"
    (folder / "pkg/gamma.py").write_text("value = 22\n")
    result = box.run(spec).ok()
    assert result.out == "22\n" and "own: done" not in result.err
    (folder / "pkg/pyproject.toml").write_text(PYPROJECT + "# edited\n")
    assert "own" in started(box.run("--json", spec).ok())


def test_a_package_of_the_tree_is_its_files(box, wheels, folder):
    spec = spec_of(box, packages=["pip:./pkg"], entrypoint={"run": "python -c 'import gamma; print(gamma.value)'"})
    assert box.run(spec).ok().out == "1\n"
    (folder / "pkg/gamma.py").write_text("value = 22\n")
    assert box.run(spec).ok().out == "22\n"


# ---- neighbours: one resolution ----

# Whether the interpreter's pip is that of ensurepip's wheel.
SAME_PIP = "import pip, ensurepip; print(pip.__version__ == ensurepip.version())"
UV = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}


@pytest.fixture(params=["pip", "uv"])
def tool(request, box, wheels):
    """The installing tool: the environment that selects it, and its message for an installed package."""
    if request.param == "pip":
        return no_uv(box), "Successfully installed"
    require("uv")
    return {**UV, "UV_FIND_LINKS": str(wheels), "UV_CACHE_DIR": str(box.dir / "uv")}, " + "


def requires(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return [f"{name}.txt" for name in files]


def markers_of(box):
    return sorted(p.name for p in (venv_of(box) / ".rhrun").glob("*.json"))


def test_neighbours_are_installed_by_one_command(box, wheels, folder, tool):
    """One after the other, alpha would bring beta 2, and delta would replace it with beta 1."""
    env, brings = tool
    spec = spec_of(box, packages=["beta"], requirements=requires(folder, one="alpha\n", two="delta\n"))
    assert started(box.run("--json", spec, env=env).ok()) == ["sync", "python", "pip:beta", "one.txt", "two.txt", "launch"]
    first, rest = output_of(box, "pip:beta"), output_of(box, "one.txt") + output_of(box, "two.txt")
    assert brings in first and brings not in rest and "ninstall" not in first + rest
    assert "as installed: alpha 2.0, beta 1.0" in rest and "as installed: beta 1.0, delta 1.0" in rest
    assert "nothing to do" in box.run(spec, env=env).ok().err


def test_neighbours_that_cannot_be_together(box, wheels, folder, tool):
    spec = spec_of(box, requirements=requires(folder, one="alpha\nbeta>=2\n", two="delta\n"))
    result = box.run(spec, env=tool[0]).expect(1)
    assert "one.txt" in result.err and "delta" in result.err and not markers_of(box), result


def test_an_edit_of_one_neighbour_redoes_that_one(box, wheels, folder, tool):
    env, brings = tool
    built = box.home / "built"
    files = requires(folder, one="beta<2\n", two="alpha<2\n", three="alpha\n")
    spec = spec_of(box, packages=["pip:./pkg"], requirements=files, env={"BUILT": str(built)})
    assert box.run(spec, env=env).ok().out == "1.0\n"
    two, once = (venv_of(box) / ".rhrun/two.txt.json").read_text(), built.read_text()
    requires(folder, two="alpha>=2\n")
    again = box.run("--json", spec, env=env).ok()
    assert started(again) == ["sync", "two.txt", "three.txt", "launch"]  # three is looked at, for two may have changed it
    assert brings in output_of(box, "two.txt") and "as installed: alpha 2.0, beta 1.0" in output_of(box, "three.txt")
    assert built.read_text() == once  # what lies in a folder is not built again for a neighbour
    assert "alpha" not in (venv_of(box) / ".rhrun/one.txt.json").read_text() != two
    requires(folder, two="alpha\nbeta>=2\n")  # one.txt is as it was, and holds
    result = box.run(spec, env=env).expect(1)
    assert "two.txt" in result.err and "beta<2" in result.err.replace(" ", ""), result


def test_upgrade_of_one_neighbour_is_not_that_of_another(box, wheels, folder):
    spec = {"packages": [{"name": "a", "pip": ["alpha"], "upgrade": True}, {"name": "b", "pip": ["beta"], "upgrade": True}]}
    hidden = [p.rename(p.with_suffix(".hidden")) for p in sorted(wheels.glob("*-2.0-*"))]
    box.run(spec_of(box, **spec)).ok()
    assert "Successfully installed" not in output_of(box, "b")
    for path in hidden:
        path.rename(path.with_suffix(".whl"))
    spec["packages"][1]["pip"] = ["beta>=1"]
    box.run(spec_of(box, **spec)).ok()
    assert "beta-2.0" in output_of(box, "b") and '"alpha": "1.0"' in (venv_of(box) / ".rhrun/a.json").read_text()


@pytest.mark.parametrize("line", ["--pre", "--prefer-binary", "-c limits.txt", "beta==1.0 --hash=sha256:{hash}"])
def test_a_file_with_options_is_installed_by_itself(box, wheels, folder, line):
    digest = hashlib.sha256(next(wheels.glob("beta-1.0-*")).read_bytes()).hexdigest()
    files = requires(folder, one=line.format(hash=digest) + "\n" + ("" if "--hash" in line else "beta\n"), two="alpha<2\n", limits="beta<2\n")
    box.run(spec_of(box, requirements=files[:2])).ok()
    assert "Successfully installed beta" in output_of(box, "one.txt") and "Successfully installed alpha" in output_of(box, "two.txt")


def test_what_stands_in_setup_is_installed_one_after_the_other(box, wheels, folder):
    spec = spec_of(box, setup=[{"name": "a", "pip": "alpha"}, {"name": "d", "pip": "delta"}])
    box.run(spec).ok()
    assert "beta-2.0" in output_of(box, "a") and "Uninstalling beta-2.0" in output_of(box, "d")


def test_neighbours_that_differ_are_installed_one_after_the_other(box, wheels, folder):
    for more in ({"timeout": "100s"}, {"retry": 1}, {"options": "--no-color"}, {"find_links": [str(wheels)]}, {"upgrade": True}):
        spec = spec_of(box, packages=[{"name": "a", "pip": "beta"}, {"name": "b", "pip": "delta", **more}],
                       entrypoint={"run": "true"})
        box.run("--fresh", spec).ok()
        assert "beta-2.0" in output_of(box, "a") and "delta" in output_of(box, "b").split("Successfully installed")[1], more


def test_everything_is_killed_while_neighbours_are_installed(box, wheels, folder):
    """No marker says that unfinished work is finished; the next run does all of it."""
    gate, built = box.dir / "gate", box.home / "built"
    os.mkfifo(gate)
    spec = spec_of(box, env={"BUILT": str(built), "GATE": str(gate)}, packages=["alpha<2", {"name": "own", "pip": ["./pkg"]}],
                   requirements=requires(folder, one="delta\n"))
    running = box.start(spec)
    wait_for(lambda: built.exists() and built.read_text() == "gamma\n", what="the build")
    running.kill9()
    for p in sorted(box.leftovers(), key=lambda p: not is_agent(p)):
        try:
            os.kill(p.pid, 9)
        except ProcessLookupError:
            pass
    wait_for(lambda: not workers_of(box.dir), what="the end of all")
    assert markers_of(box) == []
    again = box.start(spec)
    wait_for(lambda: built.read_text() == "gamma\ngamma\n", what="the second build")
    with open(gate, "w"):
        pass
    assert again.wait().ok().out == "1.0\n"
    assert built.read_text() == "gamma\ngamma\n"
    assert len(markers_of(box)) == 3


# ---- faults: one clear error each ----

def test_a_broken_requirements_file(box, wheels, folder):
    (folder / "requirements.txt").write_text("alpha ==== nonsense\n")
    result = box.run(spec_of(box, requirements=["requirements.txt"])).expect(1)
    assert "requirements.txt" in result.err and "Invalid requirement" in result.err, result


def test_a_requirements_file_that_is_not_there(box, wheels, folder):
    result = box.run(spec_of(box, requirements=["missing.txt"])).expect(2)
    assert "job.yaml:" in result.err and "missing.txt" in result.err, result


def test_a_missing_interpreter(box, wheels, folder):
    result = box.run(spec_of(box, requirements=["requirements.txt"], python={"interpreter": "python3.99"})).expect(1)
    assert 'interpreter "python3.99" is not on node local (PATH=' in result.err, result


def test_an_index_that_cannot_be_reached(box, wheels, folder):
    spec = spec_of(box, setup=[{"name": "away", "pip": ["nonesuch"], "index_url": "http://127.0.0.1:9/simple"}])
    result = box.run(spec, env={"PIP_NO_INDEX": None, "PIP_RETRIES": "0"}).expect(1)
    assert "away" in result.err and "nonesuch" in result.err, result
    assert "the package index http://127.0.0.1:9 cannot be reached from this node" in result.err, result


# ---- an index that must be asked twice, and with a password ----

class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("Authorization")))
        parts = self.path.strip("/").split("/")
        if len(server.asked) <= server.refuse:
            self.send_error(503)
        elif server.password and self.headers.get("Authorization") != server.password:
            self.send_error(401)
        elif parts[0] == "simple":
            names = [p.name for p in server.folder.glob(f"{parts[1]}-*.whl")]
            self.answer("".join(f'<a href="/files/{n}">{n}</a>' for n in names).encode(), "text/html")
        else:
            self.answer((server.folder / parts[1]).read_bytes(), "application/octet-stream")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def index(wheels):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    server.folder, server.asked, server.refuse, server.password = wheels, [], 0, None
    server.url = f"127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_retry(box, wheels, folder, index):
    index.refuse = 2
    spec = spec_of(box, setup=[{"name": "twice", "pip": ["alpha"], "index_url": f"http://{index.url}",
                                "retry": {"times": 3, "backoff": "10ms"}}])
    env = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}
    result = box.run("--json", spec, env=env).ok()
    assert started(result).count("twice") == (2 if shutil.which("uv") else 3)  # uv looks before it installs


@pytest.mark.slow
def test_a_password_of_an_index_stays_a_secret(box, wheels, folder, index):
    index.password = "Basic dTpzZXNhbWUtb3Blbg=="  # u:sesame-open
    spec = spec_of(box, secrets=[{"name": "INDEX", "to": "PIP_INDEX_URL"}], setup=[{"name": "private", "pip": ["alpha"]}])
    env = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "PIP_RETRIES": "0", "INDEX": f"http://u:sesame-open@{index.url}"}
    box.run(spec, env=env).ok()
    assert any(auth for _, auth in index.asked)
    on_node = {str(p): p.read_bytes() for p in (box.home / ".rhrun").rglob("*") if p.is_file()}
    for name, data in {**box.logs(), **on_node}.items():
        assert b"sesame-open" not in data, name


# ---- killed in the middle ----

def test_killed_while_a_package_is_built(box, wheels, folder):
    gate = box.dir / "gate"
    os.mkfifo(gate)
    built = box.home / "built"
    spec = spec_of(box, env={"BUILT": str(built), "GATE": str(gate)}, setup=[{"name": "own", "pip": ["./pkg"]}],
                   entrypoint={"run": "python -c 'import gamma; print(gamma.value)'"})
    running = box.start(spec)
    wait_for(built.exists, what="the build")
    running.kill9()
    again = box.start(spec)
    with open(gate, "w"):
        pass
    result = again.wait().ok()
    assert result.out == "1\n"
    assert built.read_text() == "gamma\n"  # once: it was attached to, not done again


@pytest.mark.slow
def test_everything_is_killed_while_a_package_is_built(box, wheels, folder):
    gate = box.dir / "gate"
    os.mkfifo(gate)
    built = box.home / "built"
    setup = [{"name": "own", "pip": ["./pkg"]}]
    spec = spec_of(box, env={"BUILT": str(built), "GATE": str(gate)}, setup=setup,
                   entrypoint={"run": "python -c 'import gamma; print(gamma.value)'"})
    running = box.start(spec)
    wait_for(lambda: built.exists() and built.read_text() == "gamma\n", what="the build")  # its line, not only its file
    running.kill9()
    for p in sorted(box.leftovers(), key=lambda p: not is_agent(p)):  # a supervisor that sees the end of pip records it
        try:
            os.kill(p.pid, 9)
        except ProcessLookupError:
            pass
    wait_for(lambda: not workers_of(box.dir), what="the end of all")
    assert not (venv_of(box) / ".rhrun/own.json").exists()
    again = box.start(spec)
    wait_for(lambda: built.read_text() == "gamma\ngamma\n", what="the second build")
    with open(gate, "w"):
        pass
    assert again.wait().ok().out == "1\n"


def test_what_an_installation_puts_at_odds_is_told(box, wheels, folder):
    """And only that: a package that was at odds before, or that has nothing to do with what came, is not."""
    spec = spec_of(box, packages=["delta"], entrypoint={"run": "true"},
                   setup=[{"run": "true"}, {"name": "newer", "pip": ["beta==2.0"]}, {"run": "true"}, {"name": "other", "pip": ["alpha"]}])
    box.run(spec, env=no_uv(box)).ok()
    told = output_of(box, "newer")
    assert "packages at odds: delta 1.0 has requirement beta<2, but you have beta 2.0" in told, told
    assert "at odds" not in output_of(box, "other")


# ---- making the venv ----

def broken_interpreter(box, *refused):
    """A python whose `-m venv` and others fail as they do on Debian without python3-venv, venv.sh's own program (`-`) too."""
    cases = "".join(f"    {r}) echo 'ensurepip is not available' >&2; exit 1;;\n" for r in ('"- "*" venv"', *refused))
    return program(box.dir / "bin/python3.x", f'#!/bin/sh\ncase "$*" in\n{cases}esac\nexec {real_python("venv", "pip")} "$@"\n')


def no_uv(box):
    """A PATH without uv."""
    folders = [p for p in box.env["PATH"].split(":") if not os.access(os.path.join(p, "uv"), os.X_OK)]
    return {"PATH": ":".join(folders)}


@pytest.mark.parametrize("system", [True, False])
def test_users_have_a_pip_in_the_venv(box, wheels, folder, system):
    """The interpreter's pip, if the venv sees it; else its own, compiled like the interpreter's."""
    python = real_python("venv", "ensurepip", "pip")
    (folder / "look.py").write_text("import delta, pip, sys; print(pip.__file__.startswith(sys.prefix))\n")
    spec = spec_of(box, packages=["beta"], python={"interpreter": python, "system_site_packages": system},
                   setup=[{"name": "own", "run": "pip install delta && pip3 --version"}], entrypoint={"script": "look.py"})
    same = subprocess.run([python, "-c", SAME_PIP], capture_output=True, text=True, check=True).stdout == "True\n"
    result = box.run(spec, env=no_uv(box)).ok()
    assert not same or result.out == f"{not system}\n", result
    assert "delta-1.0" in output_of(box, "own").split("Successfully installed")[1]
    look = "import pip._internal.cli.main as m; print(m.__cached__)"
    compiled = [open(subprocess.check_output([p, "-c", look], text=True, timeout=60).strip(), "rb").read() for p in (python, venv_of(box) / "bin/python")]
    assert not same or compiled[0] == compiled[1], "it was compiled by its first start"


@pytest.mark.slow
def test_without_ensurepip_the_pip_outside_serves(box, wheels, folder):
    python = broken_interpreter(box, '"-m venv --without-pip"*) ;;\n    "-m venv"*'.replace(") ;;", ") exec " + real_python() + ' "$@" ;;'))
    for system in (True, False):
        spec = spec_of(box, requirements=["requirements.txt"],
                       python={"interpreter": str(python), "system_site_packages": system})
        assert box.run(spec, env=no_uv(box)).ok().out == "1.0\n"
        shutil.rmtree(venv_of(box))


def test_no_venv_at_all(box, wheels, folder):
    python = broken_interpreter(box, '"-m venv"*', '"-m virtualenv"*', '"-m pip"*')
    spec = spec_of(box, requirements=["requirements.txt"], python={"interpreter": str(python)})
    result = box.run(spec, env=no_uv(box)).expect(1)
    assert "apt-get install python3-venv" in result.err and "python: {venv: false}" in result.err, result


def test_a_venv_of_ones_own(box, wheels, folder):
    """An existing one is used and never removed; a folder that is no venv is refused."""
    mine = box.dir / "mine"
    subprocess.run([quick_python(box), "-m", "venv", mine], check=True, timeout=90)
    (mine / "precious").write_text("x")
    spec = spec_of(box, requirements=["requirements.txt"], python={"venv": str(mine)},
                   entrypoint={"run": "echo $VIRTUAL_ENV; which python"})
    assert box.run(spec).ok().out == f"{mine}\n{mine}/bin/python\n"
    box.run("--fresh", spec).ok()
    assert (mine / "precious").exists()
    other = box.dir / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    result = box.run(spec_of(box, requirements=["requirements.txt"], python={"venv": str(other)})).expect(1)
    assert "is there and is no venv" in result.err and (other / "precious").exists()


def test_an_interpreter_of_a_venv(box, wheels, folder):
    """The job's venv sees what is installed there, links included, and has its own first."""
    mine = box.dir / "mine"
    subprocess.run([quick_python(box), "-m", "venv", mine], check=True, timeout=90)
    pip = [mine / "bin/pip", "install", "-q", "--no-index", "--find-links", wheels]
    subprocess.run([*pip, "alpha==1.0", "beta==1.0", "--no-deps"], check=True, timeout=90)
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", folder / "pkg"], check=True, timeout=90)
    look = "import importlib as i\nfor n in 'alpha', 'beta', 'gamma':\n  try: m = i.import_module(n); print(getattr(m, 'version', m.__name__))\n" \
           "  except ImportError: print('none')"
    (folder / "look.py").write_text(look)
    for system, expected in ((True, "1.0\n2.0\ngamma\n"), (False, "none\n2.0\nnone\n")):
        python = {"interpreter": str(mine / "bin/python"), "system_site_packages": system}
        assert box.run(spec_of(box, packages=["beta>=2"], python=python, entrypoint={"script": "look.py"})).ok().out == expected


def test_a_build_is_isolated_from_the_interpreters_venv(box, wheels, folder):
    """The interpreter's venv has what the build requires, in another version, and a package as it lies in its folder."""
    own = box.home / "own"
    subprocess.run([quick_python(box), "-m", "venv", own], check=True, timeout=120)
    subprocess.run([own / "bin/pip", "install", "-q", "alpha==2.0"], check=True, timeout=120, env={**os.environ, **box.env})
    editable = box.home / "editable"
    editable.mkdir()
    (editable / "lies_there.py").write_text("value = 7\n")
    next((own / "lib").glob("python3*/site-packages")).joinpath("lies_there.pth").write_text(f"{editable}\n")
    (folder / "pkg/pyproject.toml").write_text(PYPROJECT.replace("[]", '["alpha==1.0"]', 1))
    (folder / "pkg/backend.py").write_text(BACKEND.replace('open("gamma.py").read()', '"built_with = %r" % __import__("alpha").version')
                                           .replace("Requires-Dist: beta\\n", ""))
    spec = spec_of(box, python={"interpreter": str(own / "bin/python")}, packages=["pip:./pkg"],
                   entrypoint={"run": "python -c 'import alpha, gamma, lies_there; print(alpha.version, gamma.built_with, lies_there.value)'"})
    assert "2.0 1.0 7" in box.run(spec).ok().out



def test_a_host_that_manages_its_python_itself(box, wheels, folder):
    """PEP 668, without a venv: the user's site, since that is the test's own."""
    look = "import sysconfig, os, pip; print(os.path.exists(sysconfig.get_path('stdlib') + '/EXTERNALLY-MANAGED'))"
    done = subprocess.run(["/usr/bin/python3", "-c", look], capture_output=True, text=True)
    if done.stdout.strip() != "True":
        missing("a /usr/bin/python3 with pip that PEP 668 protects", "Debian 12 or later, apt-get install python3-pip")
    spec = spec_of(box, python={"interpreter": "/usr/bin/python3", "venv": False},
                   setup=[{"name": "own", "pip": ["alpha<2"], "options": ["--user"]}],
                   entrypoint={"run": "/usr/bin/python3 -c 'import alpha; print(alpha.__file__)'"})
    assert box.run(spec).ok().out.startswith(str(box.home / ".local"))
    assert "nothing to do" in box.run(spec).ok().err


# ---- uv ----

def test_uv_is_used_where_it_means_the_same(box, wheels, folder):
    require("uv")
    spec = spec_of(box, python={"interpreter": real_python("venv", "ensurepip")}, requirements=["requirements.txt"])
    env = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1",
           "UV_CACHE_DIR": str(box.dir / "uv")}
    assert box.run(spec, env=env).ok().out == "1.0\n"
    assert "+ alpha==1.0" in output_of(box, "requirements.txt")
    # pip has been told of an index, uv has not: pip it is
    shutil.rmtree(venv_of(box))
    box.run("--again", spec).ok()
    assert "Successfully installed" in output_of(box, "requirements.txt")


# ---- conda, apt, git ----

def fake_conda(box):
    """A conda that knows one environment, a venv with a conda-meta."""
    prefix = box.dir / "envs/ml"
    subprocess.run([quick_python(box), "-m", "venv", prefix], check=True, timeout=90)
    (prefix / "conda-meta").mkdir()
    program(prefix / "etc/conda/activate.d/hook.sh", "export HOOKED=1\n")
    return prefix, program(box.dir / "bin/conda", '#!/bin/sh\ncase "$1" in\n'
                           f'env) printf "# conda environments:\\n#\\nbase   *  /nonexistent\\nml        {prefix}\\n";;\n'
                           'install) shift; echo "$*" >> $LINES;;\nesac\n')


def test_a_conda_environment(box, wheels, folder):
    prefix, conda = fake_conda(box)
    env = {"PATH": f"{conda.parent}:{box.env['PATH']}"}
    spec = spec_of(box, python={"conda": "ml"}, requirements=["requirements.txt"],
                   setup=[{"name": "more", "conda": ["numpy>=1", "jq"], "channels": ["conda-forge"]}],
                   entrypoint={"run": "python -c 'import alpha, sys; print(sys.prefix)'; echo $CONDA_DEFAULT_ENV $HOOKED"})
    assert box.run(spec, env=env).ok().out == f"{prefix}\nml 1\n"
    assert box.lines() == [f"-y -p {prefix} numpy>=1 jq -c conda-forge"]
    result = box.run(spec_of(box, python={"conda": "none"}), env=env).expect(1)
    assert 'conda environment "none" is not on node local' in result.err


def test_apt(box, wheels, folder):
    program(box.dir / "bin/id", "#!/bin/sh\necho ${FAKE_UID:-0}\n")
    program(box.dir / "bin/sudo", "#!/bin/sh\nexit 1\n")
    program(box.dir / "bin/dpkg-query", '#!/bin/sh\nfor p; do :; done\ngrep -q "^$p " $HAVE || exit 1\n'
            'echo "installed $(sed -n "s/^$p //p" $HAVE)"\n')
    program(box.dir / "bin/apt-get", '#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> $LINES\n')
    have = box.dir / "have"
    have.write_text("git 2.39\n")
    env = {"PATH": f"{box.dir / 'bin'}:{box.env['PATH']}", "HAVE": str(have), "FAKE_UID": "0"}

    def spec(*packages):
        return spec_of(box, setup=[{"name": "tools", "apt": list(packages)}], entrypoint={"run": "true"})
    box.run(spec("git"), env=env).ok()
    assert box.lines() == []
    box.run(spec("git=2.40", "jq"), env=env).ok()
    assert box.lines()[-1].startswith("noninteractive ") and box.lines()[-1].endswith(" install git=2.40 jq")
    result = box.run(spec("jq"), env={**env, "FAKE_UID": "1000"}).expect(1)
    assert "takes root or sudo without a password" in result.err
    have.write_text("jq 1\n")
    box.run(spec("jq"), env={**env, "FAKE_UID": "1000"}).ok()


def test_git(box, wheels, folder):
    require("git")
    origin = box.dir / "origin"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@a", "-C", str(origin)]
    subprocess.run(["git", "init", "-q", "-b", "main", str(origin)], check=True)
    for n in ("one", "two"):
        (origin / "file").write_text(n)
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", n], check=True)
        subprocess.run([*git, "tag", n], check=True)
    first = subprocess.run([*git, "rev-parse", "one"], check=True, capture_output=True, text=True).stdout.strip()

    def run(**item):
        spec = spec_of(box, setup=[{"name": "tool", "git": f"file://{origin}", **item}], entrypoint={"run": "cat origin/file"})
        return box.run(spec)
    assert run().ok().out == "two"
    assert run(ref="one").ok().out == "one"
    assert first in output_of(box, "tool")
    assert run(ref=first[:12]).ok().out == "one"
    result = run(ref="three").expect(1)
    assert f'file://{origin} has no "three"' in result.err
    assert not list((box.home / ".rhrun").rglob("*.rhrun-part"))


# ---- nodes ----

def test_nodes_that_share_a_home_install_once(box, wheels, folder, fleet):
    nodes = fleet(3, shared_home=True)
    spec = spec_of(box, cluster=nodes.cluster(), requirements=["requirements.txt"],
                   env=offline(wheels),
                   distributed={"nnodes": 3}, entrypoint={"run": "python -c 'import alpha; print(alpha.version)'"})
    result = box.run("--json", spec).ok()
    assert started(result).count("requirements.txt") == 1 and started(result).count("sync") == 1
    assert box.run("logs", "job.yaml").ok().out.count("1.0") == 3


def test_each_node_installs_for_itself(box, wheels, folder, fleet):
    nodes = fleet(2)
    spec = spec_of(box, cluster=nodes.cluster(), requirements=["requirements.txt"],
                   env=offline(wheels),
                   distributed={"nnodes": 2}, entrypoint={"run": "python -c 'import alpha; print(alpha.version)'"})
    result = box.run("--json", spec).ok()
    assert started(result).count("requirements.txt") == 2
    assert "nothing to do" in box.run(spec).ok().err
