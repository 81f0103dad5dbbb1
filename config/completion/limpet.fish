# SPDX-License-Identifier: Apache-2.0
#
# Completion of limpet and limpetctl for fish. Commands, options and what they take are read from the programs' own usage lines, names of
# objects from the agent: nothing here has to follow them.

# What is read of programs goes through these, which read nothing that is typed.
function __limpet_usage # PROGRAM WORD...
    $argv --help 2>/dev/null | string replace -rf '^usage: ' ''
end

# First words of its commands, or the second ones of a group's, each with what it does.
function __limpet_commands # PROGRAM [GROUP]
    for line in ($argv[1] --help 2>/dev/null | string match -r '^  [a-z][a-z -]*[a-z]  .*')
        set -l parts (string match -r '^  ([a-z][a-z -]*[a-z])  +(.*)' -- $line)
        set -l words (string split ' ' -- $parts[2])
        if test -z "$argv[2]"
            printf '%s\t%s\n' $words[1] $parts[3]
        else if test "$words[1]" = "$argv[2]"
            printf '%s\t%s\n' $words[2] $parts[3]
        end
    end
end

# What stands in a usage line after an option: words, FILE, nothing.
function __limpet_value # USAGE OPTION
    set -l found (string match -r '[ \[]'(string escape --style=regex -- $argv[2])' ([^] ]*)' -- $argv[1])
    string match -qr '^[-[|]' -- "$found[2]"; or echo "$found[2]"
end

function __limpet_operand # PROGRAM USAGE EARLIER...
    set -l earlier $argv[3..]
    set -l words (string replace -ra 'usage: |\[KIND/\]|--?[a-z-]* [A-Z|a-z-]*' '' -- $argv[2] | string match -ra '[A-Z]+')
    switch $argv[1]:$words[(math (count $earlier) + 1)]
        case limpet:KIND
            limpet get 2>/dev/null | awk 'NR > 1 { print tolower($1) }' | sort -u
        case limpet:NAME
            limpet get $earlier[1] 2>/dev/null | awk -v of="$earlier[1]" 'NR > 1 && (of != "" || /^Edge(App|Job) /) { print $2 }'
        case limpet:COMMAND
            __limpet_commands limpet
        case limpetctl:NAME
            limpetctl node list -o name 2>/dev/null
    end
end

function __limpet_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (path basename -- $words[1])
    set -l before $words[-1]
    set -l command
    set -l operands
    set -l skip
    for word in $words[2..]
        if test -n "$skip"
            set skip
        else if contains -- $word --config --set -o --server --tail --index
            set skip 1
        else if string match -q -- '-*' $word
        else if test (count $command) -eq 0; or test "$command" = node
            set -a command $word
        else
            set -a operands $word
        end
    end
    if test (count $command) -eq 0; or test "$command" = node
        test "$before" = --config; and __fish_complete_path $current; and return
        __limpet_commands $program $command
        printf '%s\n' --help
        return
    end
    set -l usage (__limpet_usage $program $command)[1]
    set -l value
    string match -q -- '-*' $before; and set value (__limpet_value "$usage" $before)
    if string match -q '*FILE*' -- "$value"
        __fish_complete_path $current
    else if test -n "$value"
        string split '|' -- $value | string match -r '^[a-z].*'
    else if string match -q -- '-*' $current
        string match -ra -- '--?[a-z][a-z-]*' $usage
        printf '%s\n' --help
    else
        __limpet_operand $program "$usage" $operands
    end
end

complete -c limpet -f -a '(__limpet_complete)'
complete -c limpetctl -f -a '(__limpet_complete)'
