"""Every way to install, and where the files are then: cmake --install, the Debian package, the script that builds a static program, the wheel, the GitHub Action."""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from harness import RHRUN, ROOT, require

BUILD = RHRUN.parent


def run(*args, **more):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def installed(tmp_path):
    """A prefix with the files of `cmake --install`."""
    require("cmake")
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip("RHRUN_BIN is in no build folder")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "prefix")
    return tmp_path / "prefix"


def test_cmake_install(installed):
    files = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    assert files >= {"bin/rhrun", "share/man/man1/rhrun.1", "share/bash-completion/completions/rhrun", "share/zsh/site-functions/_rhrun",
                     "share/fish/vendor_completions.d/rhrun.fish", "share/rhrun/schema/job.schema.json", "share/doc/rhrun/LICENSE",
                     "share/doc/rhrun/NOTICES", "share/doc/rhrun/CHANGELOG.md"}
    program = installed / "bin/rhrun"
    assert run(program, "--version") == run(RHRUN, "--version")
    for shell, path in (("bash", "share/bash-completion/completions/rhrun"), ("zsh", "share/zsh/site-functions/_rhrun"), ("fish", "share/fish/vendor_completions.d/rhrun.fish")):
        assert (installed / path).read_text() == run(RHRUN, "completion", shell)
    notices = (installed / "share/doc/rhrun/NOTICES").read_text()
    assert "Leon Sorokin" in notices and "Rich Felker" in notices


def test_bash_completes_after_install(installed):
    script = f"PATH={installed}/bin:$PATH; source {installed}/share/bash-completion/completions/rhrun; COMP_WORDS=(rhrun val); COMP_CWORD=1; _rhrun rhrun val rhrun; echo \"${{COMPREPLY[@]}}\""
    assert "validate" in run("bash", "-c", script).split()


def test_version_in_changelog():
    version = re.match(r"rhrun (\S+)", run(RHRUN, "--version")).group(1)
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_commit_of_a_build(tmp_path):
    """The commit that --version names: of a clone, with -dirty; of an archive, which has no .git; of neither."""
    require("cmake")
    require("git")

    def commit_of(source):
        run("cmake", f"-DSOURCE={source}", f"-DOUT={tmp_path}/commit.c", "-P", ROOT / "cmake/commit.cmake")
        return re.search(r'= "(.*)";', (tmp_path / "commit.c").read_text()).group(1)

    source = tmp_path / "source"
    (source / "cmake").mkdir(parents=True)
    for name in ("cmake/commit.txt", ".gitattributes"):
        shutil.copy(ROOT / name, source / name)
    assert commit_of(source) == ""
    git = ["git", "-C", source, "-c", "user.name=t", "-c", "user.email=t@localhost"]
    run("git", "init", "-q", source)
    run(*git, "add", ".")
    run(*git, "commit", "-qm", "one")
    head = run(*git, "rev-parse", "HEAD")[:12]
    assert commit_of(source) == head
    (source / "untracked").write_text("x")
    assert commit_of(source) == head
    (source / "cmake/commit.txt").write_text("changed")
    assert commit_of(source) == head + "-dirty"
    archive = tmp_path / "archive"
    archive.mkdir()
    run("sh", "-c", f"git -C '{source}' archive HEAD | tar -x -C '{archive}'")
    assert commit_of(archive) == head


def test_sources_of_the_static_program_are_pinned():
    rows = [line.split() for line in (ROOT / "packaging/sources").read_text().splitlines() if not line.startswith("#")]
    script = (ROOT / "scripts/static").read_text()
    assert len(rows) == len({name for name, *_ in rows}) > 10
    for name, version, digests, url in rows:
        assert re.fullmatch(r"[0-9a-f]{64}(,[0-9a-f]{64})*", digests), name
        assert re.match(r"(/|pypi:)", url) and re.fullmatch(r"[0-9.]+", version), name
        assert f"build_{name}()" in script or name == "ziglang", name
    run("bash", "-n", ROOT / "scripts/static")


# ---- the wheel ----

SAYS = "#include <stdio.h>\nint main(void) { return puts(\"rhrun of a wheel\") < 0; }\n"


def wheel_of(stage, folder, arch):
    done = subprocess.run([sys.executable, ROOT / "scripts/wheel", "--folder", folder, f"{stage}={arch}"], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr, sorted(folder.glob("*.whl"))


@pytest.fixture
def stage(tmp_path):
    """The files of `cmake --install`, with a static program that only prints its name."""
    require("musl-gcc")
    stage = tmp_path / "stage"
    for path, text in (("share/man/man1/rhrun.1", ".Dd"), ("share/doc/rhrun/LICENSE", "L"), ("share/doc/rhrun/NOTICES", "N"), ("bin/rhrun.c", SAYS)):
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        (stage / path).write_text(text)
    run("musl-gcc", "-static", "-o", stage / "bin/rhrun", stage / "bin/rhrun.c")
    return stage



def test_wheel(stage, tmp_path):
    arch = os.uname().machine
    rc, err, wheels = wheel_of(stage, tmp_path / "one", arch)
    assert rc == 0 and len(wheels) == 1, err
    version = re.match(r"rhrun (\S+)", run(RHRUN, "--version")).group(1)
    assert wheels[0].name == f"rhrun-{version}-py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}.whl"
    assert wheel_of(stage, tmp_path / "two", arch)[2][0].read_bytes() == wheels[0].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        record = archive.read(f"rhrun-{version}.dist-info/RECORD").decode().splitlines()
        assert [row.split(",")[0] for row in record] == names
        for row in record[:-1]:
            name, digest, size = row.split(",")
            text = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode() and int(size) == len(text)
        program = archive.getinfo(f"rhrun-{version}.data/scripts/rhrun")
        assert program.external_attr >> 16 & 0o777 == 0o755
        assert f"rhrun-{version}.data/data/share/man/man1/rhrun.1" in names
        assert {f"rhrun-{version}.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICES")} <= set(names)


def test_wheel_takes_static_programs_of_its_kind_only(stage, tmp_path):
    arch = os.uname().machine
    rc, err, wheels = wheel_of(stage, tmp_path / "out", "aarch64" if arch == "x86_64" else "x86_64")
    assert rc == 1 and f"is no program for {'aarch64' if arch == 'x86_64' else 'x86_64'}" in err and not wheels
    run("cc", "-o", stage / "bin/rhrun", stage / "bin/rhrun.c")
    rc, err, wheels = wheel_of(stage, tmp_path / "out", arch)
    assert rc == 1 and "is not static" in err and not wheels


# ---- the GitHub Action ----

def action(box, **inputs):
    """The steps of action.yml as a runner takes them: status of the last one, its output, and what was put into PATH."""
    spec = require("yaml").safe_load((ROOT / "action.yml").read_text())
    assert set(inputs) <= set(spec["inputs"]) and spec["runs"]["using"] == "composite"
    values = {f"inputs.{name}": inputs.get(name, row["default"]) for name, row in spec["inputs"].items()}
    values["github.action_path"] = str(box.dir / "source")
    files = {name: box.dir / name for name in ("GITHUB_PATH", "GITHUB_OUTPUT")}
    for path in files.values():
        path.write_text("")
    (box.dir / "runner").mkdir(exist_ok=True)
    rc, out = 0, ""
    for step in spec["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"]  # no input gets into the text of a script
        if step.get("if") == "inputs.command != ''" and not values["inputs.command"]:
            continue
        env = {name: re.sub(r"\$\{\{ (\S+) \}\}", lambda m: values[m.group(1)], text) for name, text in step["env"].items()}
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=box.work, capture_output=True, text=True, timeout=60,
                              env={**box.env, **{k: str(v) for k, v in files.items()}, "RUNNER_TEMP": str(box.dir / "runner"), **env})
        rc, out = done.returncode, out + done.stdout + done.stderr
        if rc:
            break
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}" if "id" in step else name] = value
    return rc, out, files["GITHUB_PATH"].read_text().split()


def test_action(box):
    box.spec("name: good\nentrypoint: {run: 'true'}\n", "good.yaml")
    box.spec("name: bad\nentrypoint: {rum: 'true'}\n", "with space; $(touch owned).yaml")
    rc, out, path = action(box, **{"from": str(RHRUN)}, args="good.yaml")
    assert rc == 0 and "rhrun" in out, out
    assert run(path[0] + "/rhrun", "--version") == run(RHRUN, "--version")
    rc, out, _ = action(box, **{"from": str(RHRUN)}, args="good.yaml\nwith space; $(touch owned).yaml\n")
    assert rc == 2 and "rum" in out and not (box.work / "owned").exists()
    rc, out, _ = action(box, **{"from": str(RHRUN)}, command="plan", args="--exit-code\ngood.yaml")
    assert rc == 10 and "true" in out
    rc, out, path = action(box, **{"from": str(RHRUN)}, command="")
    assert rc == 0 and len(path) == 1 and out == run(RHRUN, "--version")


def test_action_builds_what_it_is(box):
    """Without `from` and `version` it is the revision that the action itself has; no index is asked. The build is a stand-in."""
    script = box.dir / "source/scripts/quickstart"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n[ \"$*\" = --build ] || exit 9\ncd $(dirname $0)/..\nmkdir -p build/release\ncp {RHRUN} build/release/rhrun\n")
    script.chmod(0o755)
    assert "--build" in run(ROOT / "scripts/quickstart", "--help")
    rc, out, path = action(box, command="")
    assert rc == 0 and out == run(RHRUN, "--version"), out
    assert os.access(path[0] + "/rhrun", os.X_OK)


def test_action_is_documented():
    spec = require("yaml").safe_load((ROOT / "action.yml").read_text())
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/install.md").read_text().split("## GitHub Action")[1], re.M)
    assert set(rows) == set(spec["inputs"])


# ---- the Debian package ----

def test_debian_package(tmp_path):
    """Its files and fields; scripts/soak installs it into a Debian that has nothing."""
    for tool in ("cpack", "dpkg-shlibdeps", "dpkg-deb", "file"):
        require(tool)
    if not (BUILD / "CPackConfig.cmake").exists():
        pytest.skip("RHRUN_BIN is in no build folder")
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", tmp_path)
    package, = tmp_path.glob("rhrun_*.deb")
    fields = run("dpkg-deb", "--field", package)
    assert "Package: rhrun" in fields and "Section: utils" in fields and re.search(r"^Depends: .*libuv1.*libyaml-0-2", fields, re.M)
    assert re.search(r"^Recommends: libcurl4", fields, re.M)
    rows = [line.split() for line in run("dpkg-deb", "--contents", package).splitlines()]
    files = {row[5]: row[0] for row in rows}
    assert set(row[1] for row in rows) == {"root/root"}
    assert files["./usr/bin/rhrun"] == "-rwxr-xr-x"
    for path in ("man/man1/rhrun.1.gz", "doc/rhrun/copyright", "doc/rhrun/changelog.gz", "doc/rhrun/changelog.Debian.gz", "zsh/vendor-completions/_rhrun",
                 "bash-completion/completions/rhrun", "fish/vendor_completions.d/rhrun.fish", "rhrun/schema/job.schema.json"):
        assert files[f"./usr/share/{path}"] == "-rw-r--r--", path
    assert not any("LICENSE" in f or "site-functions" in f for f in files)
