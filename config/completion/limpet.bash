# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of limpet and limpetctl for bash. Commands, options and what they take are read from the
# programs' own usage lines, names of objects from the agent: nothing here has to follow them.

# _limpet_usage PROGRAM WORD...: the usage line of a command.
_limpet_usage() { "$@" --help 2>/dev/null | sed -n '1s/^usage: //p'; }

# _limpet_commands PROGRAM [GROUP]: first words of its commands, or the second ones of a group's.
_limpet_commands() {
    "$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p' |
        if [[ -n ${2:-} ]]; then sed -n "s/^$2 //p"; else cut -d ' ' -f 1; fi | sort -u
}

# What stands in a usage line after an option: one of several words, FILE, nothing.
_limpet_value() { # USAGE OPTION
    local rest=${1#* "$2" }
    [[ $rest != "$1" ]] || rest=${1#*\["$2" }
    [[ $rest != "$1" ]] || return 0
    rest=${rest%%[] ]*}
    case $rest in
    -* | \[* | \|) ;;
    *) printf '%s\n' "$rest" ;;
    esac
}

# Names on this node: of a KIND, or of all that has a log. Without an agent there are none.
_limpet_kinds() {
    limpet get 2>/dev/null | awk 'NR > 1 { print tolower($1) }' | sort -u
}
_limpet_names() { # [KIND]
    limpet get ${1:+"$1"} 2>/dev/null | awk -v of="${1:-}" 'NR > 1 && (of != "" || /^Edge(App|Job) /) { print $2 }'
}
_limpet_nodes() { limpetctl node list -o name 2>/dev/null; }

_limpet_operand() { # PROGRAM USAGE PLACE EARLIER
    local words w
    words=$(sed 's/\[KIND\/\]//; s/--[a-z-]* [A-Z|a-z-]*//g; s/[^A-Z]/ /g' <<<"$2")
    # shellcheck disable=SC2086  # the words of it
    set -- "$1" "$3" "$4" $words
    w=${*:4+$2:1}
    case $1:$w in
    limpet:KIND) _limpet_kinds ;;
    limpet:NAME) _limpet_names "${3:-}" ;;
    limpet:COMMAND) _limpet_commands limpet ;;
    limpetctl:NAME) _limpet_nodes ;;
    esac
}

_limpet() {
    local program=${COMP_WORDS[0]##*/} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local i word usage value skip='' command=() operands=()
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $skip ]]; then
            skip=''
        elif [[ $word == --config || $word == --set || $word == -o || $word == --server || $word == --tail || $word == --index ]]; then
            skip=1
        elif [[ $word == -* ]]; then
            :
        elif ((${#command[@]} == 0)) || [[ ${command[*]} == node ]]; then
            command+=("$word")
        else
            operands+=("$word")
        fi
    done
    if ((${#command[@]} == 0)) || [[ ${command[*]} == node ]]; then
        [[ $prev != --config ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return; }
        mapfile -t COMPREPLY < <(compgen -W "$(_limpet_commands "$program" "${command[*]}") --help" -- "$cur")
        return
    fi
    usage=$(_limpet_usage "$program" "${command[@]}")
    value=''
    [[ $prev != -* ]] || value=$(_limpet_value "$usage" "$prev")
    case $cur:$value in
    *:*FILE*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    *:?*) mapfile -t COMPREPLY < <(compgen -W "$(tr '|' '\n' <<<"$value" | grep '^[a-z]')" -- "$cur") ;;
    -*) mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '--?[a-z][a-z-]*' <<<"$usage") --help" -- "$cur") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$(_limpet_operand "$program" "$usage" ${#operands[@]} "${operands[0]:-}")" -- "$cur") ;;
    esac
}
complete -F _limpet limpet limpetctl
