#compdef rhrun
# zsh completion of rhrun. rhrun itself gives the candidates, so this file stays current.
_rhrun() {
    local line value text how program=${(Q)words[1]}
    local -a lines whole open
    program=${program/#\~/$HOME}
    lines=("${(@f)$("$program" completion candidates -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        if [[ $line == :* ]]; then
            how=${line#:}
            continue
        fi
        [[ -n $line ]] || continue
        value=${${line%%$'\t'*}//:/\\:}
        text=${line#*$'\t'}
        value+=${text:+:$text}
        if [[ ${line%%$'\t'*} == *[=.] ]]; then
            open+=("$value")
        else
            whole+=("$value")
        fi
    done
    (($#whole)) && _describe -V rhrun whole
    (($#open)) && _describe -V rhrun open -S ''
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $how in
    specs) _files -g '*.(yaml|yml|json)' ;;
    files) _files ;;
    dirs) _directories ;;
    esac
    return 0
}
# As a file of $fpath, zsh runs it when completion is needed; with source, it registers itself.
if [[ $funcstack[1] == _rhrun ]]; then
    _rhrun "$@"
else
    compdef _rhrun rhrun
fi
