# Activates an existing conda environment for later steps: this shell's environment is kept.
# RHRUN_CONDA: its name or path; RHRUN_NODE: this node's name in messages; RHRUN_LINK: becomes a link to it.
__fail() {
    printf 'rhrun: %s\n' "$@" >&2
    exit 1
}
__prefix=
case $RHRUN_CONDA in
*/*)
    case $RHRUN_CONDA in "~/"*) __prefix=$HOME/${RHRUN_CONDA#"~/"} ;; *) __prefix=$RHRUN_CONDA ;; esac
    [ -d "$__prefix/conda-meta" ] || __fail "$RHRUN_CONDA is no conda environment on node $RHRUN_NODE"
    __prefix=$(cd "$__prefix" && pwd)
    ;;
*)
    __tool=
    for __t in "$(command -v conda || :)" "$(command -v mamba || :)" "$(command -v micromamba || :)" "${CONDA_EXE-}" \
        "${MAMBA_EXE-}" ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/mambaforge/bin/conda ~/anaconda3/bin/conda \
        /opt/conda/bin/conda /opt/miniconda3/bin/conda /opt/miniforge3/bin/conda; do
        case $__t in /*) [ -x "$__t" ] && { __tool=$__t; break; } || : ;; esac
    done
    [ -n "$__tool" ] || __fail "there is no conda, mamba or micromamba on node $RHRUN_NODE (PATH=$PATH)"
    __list=$("$__tool" env list)
    while IFS= read -r __line; do
        case $__line in '#'*) continue ;; *' /'*) ;; *) continue ;; esac
        read -r __name __t <<__END
$__line
__END
        [ "$__name" != "$RHRUN_CONDA" ] || __prefix=/${__line#*/}
    done <<__END
$__list
__END
    [ -n "$__prefix" ] ||
        __fail "conda environment \"$RHRUN_CONDA\" is not on node $RHRUN_NODE; \"$__tool env list\" there shows those that are"
    ;;
esac
[ -x "$__prefix/bin/python" ] || __fail "conda environment $__prefix has no python: conda install -p $__prefix python"
export PATH="$__prefix/bin:$PATH" CONDA_PREFIX="$__prefix" CONDA_DEFAULT_ENV="$RHRUN_CONDA"
unset PYTHONHOME
set +e
for __t in "$__prefix"/etc/conda/activate.d/*.sh; do
    [ ! -r "$__t" ] || . "$__t"
done
set -e
mkdir -p "${RHRUN_LINK%/*}" && ln -sfn "$__prefix" "$RHRUN_LINK" || : # two machines with one home: either link will do
echo "$__prefix: $(python --version 2>&1)"
