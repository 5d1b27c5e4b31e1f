# Makes the job's venv anew. RHRUN_VENV: its folder; RHRUN_PYTHON: the interpreter; RHRUN_SYSTEM: 1 if it sees the system's
# packages; RHRUN_NODE: this node's name in messages; RHRUN_KEEP: 1 for a folder that the spec names: a venv there that
# rhrun did not make is used as it is. A venv cannot be moved, so it is made in place; RHRUN_VENV/.rhrun/venv exists once
# it is complete.
fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
ours= # .rhrun alone is no proof: notes on installed packages are there too
if [ "$RHRUN_KEEP" != 1 ] || [ -e "$RHRUN_VENV/.rhrun/venv" ] || [ -e "$RHRUN_VENV/.rhrun/unfinished" ]; then
    ours=1
fi
if [ -z "$ours" ] && [ -x "$RHRUN_VENV/bin/python" ]; then
    echo "$RHRUN_VENV is there: $("$RHRUN_VENV/bin/python" --version 2>&1)"
    exit 0
fi
if [ -z "$ours" ] && [ -e "$RHRUN_VENV" ] && ! rmdir -- "$RHRUN_VENV" 2>/dev/null; then
    fail "$RHRUN_VENV is there and is no venv"
fi
python=$(command -v -- "$RHRUN_PYTHON") ||
    fail "interpreter \"$RHRUN_PYTHON\" is not on node $RHRUN_NODE (PATH=$PATH)"
case $python in /*) ;; *) python=$PWD/$python ;; esac

begin() {
    rm -rf -- "$RHRUN_VENV"
    mkdir -p -- "$RHRUN_VENV/.rhrun"
    : >"$RHRUN_VENV/.rhrun/unfinished"
}
system=
[ "$RHRUN_SYSTEM" != 1 ] || system=--system-site-packages
uv=$(command -v uv || :)
[ -n "$uv" ] || [ ! -x "$HOME/.local/bin/uv" ] || uv=$HOME/.local/bin/uv

# With "venv", makes the venv as `python -m venv --without-pip` does. Then unpacks the wheels that ensurepip would install: pip
# and, for an old Python, setuptools. ensurepip runs pip for that, which takes many times as long; `uv venv` starts another
# python first, and its venv has no pip. A venv that sees the system's pip needs no pip of its own, only `pip` in its bin.
# Without "venv", there is a venv already, which has what it needs to install packages.
seed() {
    "$python" - "$RHRUN_VENV" "$RHRUN_SYSTEM" "$uv" "$1" <<'END'
import glob, importlib.util, os, re, site, subprocess, sys, sysconfig

to, system, uv, make = sys.argv[1:]
if make:
    import venv
    venv.EnvBuilder(system_site_packages=system == "1", symlinks=True).create(to)
python = os.path.join(to, "bin", "python")
lib = os.path.join(to, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
if not os.path.isdir(lib):
    lib = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).decode().rstrip("\n")

# If the interpreter belongs to a venv, "system" means the Python below that venv, so the venv's own packages are added here.
# set() makes them count as new: pip isolates a build from the folders that are added when it reads the .pth files again.
if system == "1" and sys.prefix != sys.base_prefix:
    with open(os.path.join(lib, "rhrun-interpreter.pth"), "w") as pth:
        for folder in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
            pth.write("import site; site.addsitedir(%r, set())\n" % folder)
if not make:
    sys.exit()

names = ["pip"] + (["setuptools"] if sys.version_info < (3, 12) else [])
folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(sysconfig.get_path("stdlib"), "ensurepip", "_bundled"),
           "/usr/share/python-wheels"]
wheels = {}
for folder in filter(None, folders):
    for name in names:
        found = glob.glob(os.path.join(glob.escape(folder), name + "-*.whl"))
        if len(found) == 1:  # with several it is unknown which one ensurepip takes
            wheels.setdefault(name, found[0])
def numbers(version):
    return [int(n) for n in re.findall(r"\d+", version.split("-")[0])]

def is_outside(name):
    """Whether the venv sees the interpreter's own package, and that is no older."""
    if system != "1" or sys.prefix != sys.base_prefix:
        return False
    try:
        folder = os.path.dirname(os.path.dirname(importlib.util.find_spec(name).origin))
        there = [f for f in os.listdir(folder) if re.match(name + r"-\d.*\.(dist|egg)-info$", f)]
        version, wheel = (f[len(name) + 1:] for f in (there[0], os.path.basename(wheels.get(name, name + "-0"))))
        return len(there) == 1 and folder in site.getsitepackages() and numbers(version) >= numbers(wheel)
    except (OSError, AttributeError, TypeError, IndexError):
        return False

names = [name for name in names if not is_outside(name)]
if not set(names) <= set(wheels):
    sys.exit("no wheels of " + " and ".join(names))

line = "#!" + python
if len(line) > 120 or " " in python:  # the form that pip writes then
    line = "#!/bin/sh\n'''exec' \"" + python + "\" \"$0\" \"$@\"\n' '''"
scripts = ["pip", "pip3", "pip%d.%d" % sys.version_info[:2]]
main = ("pip._internal.cli.main", "main")
for name in names:
    import zipfile
    with zipfile.ZipFile(wheels[name]) as wheel:
        wheel.extractall(lib)
        record = next(n for n in wheel.namelist() if n.endswith(".dist-info/RECORD"))
        if name == "pip":
            main = re.search(r"(?m)^pip *= *([\w.]+):(\w+)", wheel.read(record[:-6] + "entry_points.txt").decode()).groups()
    with open(os.path.join(lib, os.path.dirname(record), "INSTALLER"), "w") as f:
        f.write("pip\n")
    with open(os.path.join(lib, record), "a") as f:  # so that an upgrade removes all of it
        f.write(os.path.dirname(record) + "/INSTALLER,,\n")
        for script in scripts if name == "pip" else []:
            f.write(os.path.relpath(os.path.join(to, "bin", script), lib) + ",,\n")
for script in scripts:
    path = os.path.join(to, "bin", script)
    with open(path, "w") as f:
        f.write("%s\nimport sys\nfrom %s import %s\nif __name__ == '__main__':\n    sys.exit(%s())\n" % (line, main[0], main[1], main[1]))
    os.chmod(path, 0o755)

# The first start of a pip without bytecode takes longer than its work (with uv, rhrun starts no pip). If a file equals that of
# the interpreter's own pip, that bytecode is taken over; it is valid for a source of the same time and size.
def take_bytecode(source, own):
    code, mine = importlib.util.cache_from_source(source), importlib.util.cache_from_source(own)
    with open(source, "rb") as a, open(own, "rb") as b:
        if a.read() != b.read():
            return
        times = os.fstat(a.fileno())
    with open(code, "rb") as a:
        data = a.read()
    os.makedirs(os.path.dirname(mine), exist_ok=True)
    with open(mine, "wb") as b:
        b.write(data)
    os.utime(own, ns=(times.st_atime_ns, times.st_mtime_ns))

spec = importlib.util.find_spec("pip") if not uv else None
for folder, _, files in os.walk(os.path.join(lib, "pip")) if spec and spec.origin else []:
    for name in files if not folder.endswith("__pycache__") else []:
        source = os.path.join(os.path.dirname(spec.origin), os.path.relpath(os.path.join(folder, name), os.path.join(lib, "pip")))
        try:
            if name.endswith(".py"):
                take_bytecode(source, os.path.join(folder, name))
        except (OSError, NotImplementedError):
            pass  # it is compiled when it is needed
END
}

by_seed() { seed venv && "$RHRUN_VENV/bin/python" -S -c 'import sys; print("Python", sys.version.split()[0])'; }
by_venv() { "$python" -m venv $system "$RHRUN_VENV"; }
# UV_NO_CONFIG: a project's uv.toml is for that project's own venv.
by_uv() { UV_NO_CONFIG=1 "$uv" venv --no-project --allow-existing --python "$python" $system "$RHRUN_VENV"; }
by_pip_outside() { # pip 22.3 or later
    "$python" -m venv --without-pip $system "$RHRUN_VENV" && "$python" -m pip --python "$RHRUN_VENV/bin/python" --version
}
by_virtualenv() { "$python" -m virtualenv $system "$RHRUN_VENV"; }

# Uses the first of these ways that succeeds. said: its output.
try() {
    for way; do
        begin
        said=$("by_$way" 2>&1) && return
    done
    return 1
}

if ! try seed; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' || fail "$python is no Python 3.6 or later"
    if ! try venv; then
        why=$said
        if ! try ${uv:+uv} pip_outside virtualenv; then
            printf '%s\n' "$why" | tail -n 5 >&2
            fail "no venv can be made with $python on node $RHRUN_NODE: apt-get install python3-venv there, or python: {venv: false}"
        fi
    fi
    seed '' || fail "$python cannot say where its packages are"
    said=$("$RHRUN_VENV/bin/python" --version 2>&1)
fi
newline="
"
mv -f -- "$RHRUN_VENV/.rhrun/unfinished" "$RHRUN_VENV/.rhrun/venv"
echo "$RHRUN_VENV: ${said##*"$newline"}"
