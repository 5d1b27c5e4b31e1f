# fish completion of rhrun. rhrun itself gives the candidates, so this file stays current.
function __rhrun_candidates
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    for line in ($program completion candidates -- $words[2..-1] "$cur" 2>/dev/null)
        switch $line
            case :specs
                __fish_complete_path "$cur" | string match -r '.*(?:/|\.ya?ml|\.json)(?:\t.*)?$'
            case :files
                __fish_complete_path "$cur"
            case :dirs
                __fish_complete_directories "$cur"
            case '*'
                echo $line
        end
    end
end
complete -c rhrun -k -f -a '(__rhrun_candidates)'
