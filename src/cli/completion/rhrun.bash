# bash completion of rhrun. rhrun itself gives the candidates, so this file stays current.
_rhrun() {
    local IFS=$' \t\n' i word glue='' line value prefix='' how='' program=${COMP_WORDS[0]/#\~/$HOME}
    local -a words=()
    COMPREPLY=()
    # bash splits words at the = and : of COMP_WORDBREAKS; this joins them again.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]//[\\\"\']/}
        if ((${#words[@]})) && [[ -n $glue || $word == [=:]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        glue=
        [[ $word == *[=:] && $COMP_WORDBREAKS == *"${word: -1}"* ]] && glue=1
    done
    local cur=
    ((${#words[@]})) && cur=${words[${#words[@]} - 1]}
    [[ $COMP_WORDBREAKS == *[=:]* ]] && prefix=${cur%"${cur##*[=:]}"}
    while IFS= read -r line; do
        if [[ $line == :* ]]; then
            how=${line#:}
            continue
        fi
        value=${line%%$'\t'*}
        value=${value#"$prefix"}
        [[ $value == *[!A-Za-z0-9_@%+=:,./~^-]* ]] && printf -v value %q "$value"
        COMPREPLY+=("$value")
    done < <("$program" completion candidates -- "${words[@]}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2>/dev/null
    compopt -o nosort 2>/dev/null
    [[ -z $how ]] && return
    compopt -o filenames 2>/dev/null
    cur=${cur#"$prefix"}
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(
        case $how in
        specs) compgen -f -X '!*.y*ml' -- "$cur"; compgen -f -X '!*.json' -- "$cur" ;;
        files) compgen -f -- "$cur" ;;
        esac
        [[ $how == files ]] || compgen -d -- "$cur"
    )
}
complete -F _rhrun rhrun
