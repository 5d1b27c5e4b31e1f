# conda install: the first RHRUN_CHANNELS arguments are channels; packages and options follow.
fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
tool=
for t in "$(command -v mamba || :)" "$(command -v conda || :)" "$(command -v micromamba || :)" "${CONDA_EXE-}" \
    "${MAMBA_EXE-}" ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/mambaforge/bin/conda ~/anaconda3/bin/conda \
    /opt/conda/bin/conda /opt/miniconda3/bin/conda /opt/miniforge3/bin/conda; do
    case $t in /*) [ -x "$t" ] && { tool=$t; break; } || : ;; esac
done
[ -n "$tool" ] || fail "there is no conda, mamba or micromamba on node $RHRUN_NODE (PATH=$PATH)"
i=0 n=$#
while [ "$i" -lt "$RHRUN_CHANNELS" ]; do # channels go to the end, each after a -c
    set -- "$@" -c "$1"
    shift
    i=$((i + 1))
done
[ -z "${CONDA_PREFIX-}" ] || set -- -p "$CONDA_PREFIX" "$@"
exec "$tool" install -y "$@"
