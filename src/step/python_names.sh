# Makes a folder in which `python` and `python3` are the job's interpreter, if there is no venv. RHRUN_NAMES: the folder;
# RHRUN_PYTHON: the interpreter, quoted for the shell. No links: a venv's python finds its packages by its own path.
mkdir -p -- "$RHRUN_NAMES"
for name in python python3; do
    new=$RHRUN_NAMES/.$name.$$
    {
        printf '#!/bin/sh\ninterpreter=%s\n' "$RHRUN_PYTHON"
        cat <<'END'
# If the interpreter does not exist yet, or is a script that starts this one, the next one in PATH is used.
if [ -x "$interpreter" ] && [ "${RHRUN_PYTHON_OF-}" != "$$.$PPID" ]; then
    export RHRUN_PYTHON_OF="$$.$PPID"
    exec "$interpreter" "$@"
fi
folder=${0%/*} name=${0##*/}
set -f
IFS=:
for at in $PATH; do
    if [ "$at" != "$folder" ] && [ -f "$at/$name" ] && [ -x "$at/$name" ]; then
        exec "$at/$name" "$@"
    fi
done
printf '%s: %s is not there\n' "$name" "$interpreter" >&2
exit 127
END
    } >"$new"
    chmod 755 -- "$new"
    mv -f -- "$new" "$RHRUN_NAMES/$name"
done
