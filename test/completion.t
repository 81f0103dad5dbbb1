#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the shell offers: every command, every option, the words that an option takes; names come from the agent.
set -u
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0

# Without an agent: what it would say is said by a file. All else is the program's.
limpet() {
    if [[ $1 == get && ${2:-} != --help ]]; then
        awk -v kind="${2:-}" 'NR == 1 || kind == "" || tolower($1) == kind' "$work/objects"
    else
        "$BUILD/limpet" "$@"
    fi
}
limpetctl() {
    if [[ $1 == node && $2 == list && ${3:-} == -o ]]; then printf 'pump-3\nvalve-1\n'; else "$BUILD/limpetctl" "$@"; fi
}
printf 'KIND NAME\nEdgeApp web\nEdgeApp worker\nEdgeConfig motd\nEdgeJob backup\n' >"$work/objects"
# shellcheck source=../config/completion/limpet.bash
. config/completion/limpet.bash

offers() { # WORD...: the last one is under the cursor
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _limpet
    printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}
is() { # GOT WANTED NAME
    n=$((n + 1))
    if [[ $1 == "$2" ]]; then
        echo "ok $n - $3"
    else
        printf 'not ok %d - %s\n#   got : %s\n#   want: %s\n' $n "$3" "$1" "$2"
        bad=$((bad + 1))
    fi
}

commands=$("$BUILD/limpet" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p')
is "$(offers limpet '')" "$( (echo --help && echo "$commands") | sort | tr '\n' ' ')" 'every command of limpet'
is "$(offers limpet sta)" 'status ' 'that begins so'
is "$(offers limpet --config x sta)" 'status ' 'after the options of limpet, too'
is "$(offers limpetctl '')" '--help install node version ' 'first words of limpetctl'
is "$(offers limpetctl node '')" '--help add list rm ' 'and second ones'
for command in $commands; do
    is "$(offers limpet "$command" -)" \
        "$( (echo --help && "$BUILD/limpet" help "$command" | sed -n 1p | grep -oE -- '--?[a-z][a-z-]*') | sort -u | tr '\n' ' ')" \
        "every option of limpet $command"
done
is "$(offers limpetctl node add --)" '--force --help --replace --server ' 'options of a command of two words'
is "$(offers limpet get -o '')" 'diff json ' 'what -o takes'
is "$(offers limpetctl node list -o j)" 'json ' 'as limpetctl has it'
is "$(offers limpet get '')" 'edgeapp edgeconfig edgejob ' 'kinds that this node has'
is "$(offers limpet get edgeapp '')" 'web worker ' 'names of one kind'
is "$(offers limpet get edgeapp we)" 'web ' 'that begin so'
is "$(offers limpet logs '')" 'backup web worker ' 'names of what has a log'
is "$(offers limpet help res)" 'resync ' 'commands after help'
is "$(offers limpetctl node rm '')" 'pump-3 valve-1 ' 'nodes'
cd "$work" || exit 1
BUILD=$OLDPWD/$BUILD
[[ -x $BUILD/limpet ]] || BUILD=${BUILD#"$OLDPWD/"}
touch ca.pem
is "$(offers limpet join --ca-file c)" 'ca.pem ' 'files'
echo "1..$n"
((bad == 0))
