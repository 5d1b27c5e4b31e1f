# The venv of the job, made anew. RHRUN_VENV: its folder; RHRUN_PYTHON: the interpreter; RHRUN_SYSTEM: 1 when it is to see
# the system's packages; RHRUN_NODE: what messages call this node; RHRUN_KEEP: 1 for a folder that the spec names: a venv
# there that rhrun did not make is used as it is. A venv cannot be moved, so it is made in place; RHRUN_VENV/.rhrun/venv is
# there once it is complete.
fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
ours= # .rhrun alone does not say it: what was installed is noted there too
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
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' || fail "$python is no Python 3.6 or later"

begin() {
    rm -rf -- "$RHRUN_VENV"
    mkdir -p -- "$RHRUN_VENV/.rhrun"
    : >"$RHRUN_VENV/.rhrun/unfinished"
}
system=
[ "$RHRUN_SYSTEM" != 1 ] || system=--system-site-packages
uv=$(command -v uv || :)
[ -n "$uv" ] || [ ! -x "$HOME/.local/bin/uv" ] || uv=$HOME/.local/bin/uv
messages=$(mktemp -d "${TMPDIR:-/tmp}/rhrun-venv.XXXXXX") # a folder: a second file beside one in /tmp could be anybody's
said=$messages/said
trap 'rm -rf -- "$messages"' EXIT

begin
made=
if "$python" -m venv $system "$RHRUN_VENV" >"$said" 2>&1; then
    made=1
elif [ -n "$uv" ] && begin && "$uv" venv --allow-existing --python "$python" $system "$RHRUN_VENV" >"$said.2" 2>&1; then
    made=1
elif begin && "$python" -m venv --without-pip $system "$RHRUN_VENV" >"$said.2" 2>&1 &&
    "$python" -m pip --python "$RHRUN_VENV/bin/python" --version >"$said.2" 2>&1; then # pip 22.3 or later
    made=1
elif begin && "$python" -m virtualenv $system "$RHRUN_VENV" >"$said.2" 2>&1; then
    made=1
fi
if [ -z "$made" ]; then
    tail -n 5 -- "$said" >&2
    fail "no venv can be made with $python on node $RHRUN_NODE: apt-get install python3-venv there, or python: {venv: false}"
fi
# Of an interpreter that is a venv's, "system" is what lies below that venv: its own packages are added. As if they were not
# known yet (set()): what pip isolates a build from is what is added when it looks at the .pth files once more.
if [ -n "$system" ]; then
    "$python" - "$("$RHRUN_VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" <<'END' || fail "$python cannot say where its packages are"
import os, sys, sysconfig
if sys.prefix != sys.base_prefix:
    with open(os.path.join(sys.argv[1], "rhrun-interpreter.pth"), "w") as to:
        for folder in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
            to.write("import site; site.addsitedir(%r, set())\n" % folder)
END
fi
mv -f -- "$RHRUN_VENV/.rhrun/unfinished" "$RHRUN_VENV/.rhrun/venv"
echo "$RHRUN_VENV: $("$RHRUN_VENV/bin/python" --version 2>&1)"
