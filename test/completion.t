#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the shell offers: every command, every option, the words that an option takes; names come from the agent.
set -u
BUILD=${BUILD:-build}
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0

# Without an agent: what it would say is said by a file. All else is the program's.
mkdir "$work/bin"
BUILD=$(cd "$BUILD" && pwd)
cat >"$work/bin/limpet" <<EOF
#!/bin/sh
if [ "\$1" = get ] && [ "\${2:-}" != --help ]; then
    exec awk -v kind="\${2:-}" 'NR == 1 || kind == "" || tolower(\$1) == kind' "$work/objects"
fi
exec "$BUILD/limpet" "\$@"
EOF
cat >"$work/bin/limpetctl" <<EOF
#!/bin/sh
[ "\$1 \$2 \${3:-}" = "node list -o" ] && printf 'pump-3\nvalve-1\n' && exit
exec "$BUILD/limpetctl" "\$@"
EOF
chmod 755 "$work/bin/limpet" "$work/bin/limpetctl"
PATH=$work/bin:$PATH
printf 'KIND NAME\nEdgeApp web\nEdgeApp worker\nEdgeConfig motd\nEdgeJob backup\n' >"$work/objects"
# shellcheck source=../config/completion/limpet.bash
. config/completion/limpet.bash

by_bash() { # WORD...: the last one is under the cursor
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _limpet
    printf '%s\n' "${COMPREPLY[@]}"
}
# Its own completion system wants a terminal, so the two builtins that it ends in are ours.
by_zsh() {
    zsh -f -c 'compadd() { shift; print -l -- ${(M)@:#$words[CURRENT]*} }
        _files() { print -l -- $words[CURRENT]*(N) }
        words=("${@:2}") CURRENT=$#words
        source $1' zsh "$top/config/completion/_limpet" "$@"
}
by_fish() {
    HOME=$work fish --no-config -c 'source $argv[1]; complete -C "$argv[2]"' -- "$top/config/completion/limpet.fish" "$*" | cut -f 1
}
offers() { "by_$shell" "$@" | sort -u | tr '\n' ' '; }
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
touch "$work/ca.pem"
for shell in bash zsh fish; do
    if ! command -v "$shell" >/dev/null; then
        n=$((n + 1)) && echo "ok $n # skip $shell is not installed (deps/tools.sh test)"
        continue
    fi
    is "$(offers limpet '')" "$( (echo --help && echo "$commands") | sort | tr '\n' ' ')" "$shell: every command of limpet"
    is "$(offers limpet sta)" 'status ' "$shell: that begins so"
    is "$(offers limpet --config x sta)" 'status ' "$shell: after the options of limpet, too"
    is "$(offers limpetctl '')" '--help install node version ' "$shell: first words of limpetctl"
    is "$(offers limpetctl node '')" '--help add approve list requests rm ' "$shell: and second ones"
    for command in $commands; do
        is "$(offers limpet "$command" -)" \
            "$( (echo --help && "$BUILD/limpet" help "$command" | sed -n 1p | grep -oE -- '--?[a-z][a-z-]*') | sort -u | tr '\n' ' ')" \
            "$shell: every option of limpet $command"
    done
    is "$(offers limpetctl node add --)" '--credential --force --help --replace --server ' "$shell: options of a command of two words"
    is "$(offers limpet get -o '')" 'diff json ' "$shell: what -o takes"
    is "$(offers limpetctl node list -o j)" 'json ' "$shell: as limpetctl has it"
    is "$(offers limpet get '')" 'edgeapp edgeconfig edgejob ' "$shell: kinds that this node has"
    is "$(offers limpet get edgeapp '')" 'web worker ' "$shell: names of one kind"
    is "$(offers limpet get edgeapp we)" 'web ' "$shell: that begin so"
    is "$(offers limpet logs '')" 'backup web worker ' "$shell: names of what has a log"
    is "$(offers limpet help res)" 'resync ' "$shell: commands after help"
    is "$(offers limpetctl node rm '')" 'pump-3 valve-1 ' "$shell: nodes"
    is "$(cd "$work" && offers limpet join --ca-file c)" 'ca.pem ' "$shell: files"
done
echo "1..$n"
((bad == 0))
