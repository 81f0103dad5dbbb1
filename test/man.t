#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages say what the programs say: every command with its usage, every option, every key with its default, and nothing else.
set -u
BUILD=${BUILD:-build}
limpet=$BUILD/limpet
limpetctl=$BUILD/limpetctl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/empty.ini"
n=0 bad=0

ok() { # name status
    n=$((n + 1))
    [ "$2" -eq 0 ] && echo "ok $n - $1" && return
    echo "not ok $n - $1"
    bad=$((bad + 1))
}
same() { # name program's-file page's-file
    [ -s "$2" ] && diff "$2" "$3" >"$work/diff"
    rc=$?
    ok "$1" $rc
    [ $rc -eq 0 ] || sed 's/^/# /' "$work/diff"
}

# A page as plain text: continued lines joined, fonts and macros taken away.
plain() {
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$1" | sed -e 's/\\f[BRIP]//g' -e 's/\\-/-/g' -e 's/^\.[BIR]\{1,2\} //' -e 's/"//g'
}

# The tagged paragraphs of a section: its headings.
tags() { # page section
    plain "$1" | awk -v section=".SH $2" '/^\.SH/ { inside = $0 == section } inside && tag { print; tag = 0 } inside && /^\.TP/ { tag = 1 }'
}

usages_of_limpet() {
    for c in $("$limpet" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
        "$limpet" help "$c" | sed -n '1s/^usage: limpet //p' | sed 's/ *$//'
    done
}
limpetctl_commands() { "$limpetctl" --help | sed -n 's/^  \([a-z]*\( [a-z]*\)*\)  .*/\1/p'; }
usages_of_limpetctl() {
    limpetctl_commands | while read -r c; do
        # shellcheck disable=SC2086  # two words
        "$limpetctl" $c --help | sed -n '1s/^usage: limpetctl //p'
    done
}
usages_of_limpet >"$work/want"
tags docs/limpet.8 COMMANDS >"$work/have"
same 'limpet(8) has each command as limpet help has it' "$work/want" "$work/have"
usages_of_limpetctl >"$work/want"
tags docs/limpetctl.8 COMMANDS >"$work/have"
same 'limpetctl(8) has each command as limpetctl --help has it' "$work/want" "$work/have"

options() { grep -oE '(^|[^a-zA-Z0-9-])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z][a-z-]*' | sort -u; }
{
    "$limpet" help
    for c in $("$limpet" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do "$limpet" help "$c"; done
} | options | grep -vx -e -- >"$work/want"
plain docs/limpet.8 | options >"$work/page"
grep -Fx -f "$work/want" "$work/page" >"$work/have"
same 'limpet(8) has each option' "$work/want" "$work/have"
limpetctl_commands | while read -r c; do
    # shellcheck disable=SC2086
    "$limpetctl" $c --help
done | options >"$work/want"
plain docs/limpetctl.8 | options >"$work/page"
grep -Fx -f "$work/want" "$work/page" >"$work/have"
same 'limpetctl(8) has each option' "$work/want" "$work/have"

# Keys as "section.key", in the order of the program's own list.
printed() { env -i "$limpet" --config "$work/empty.ini" "$@" check-config --print; }
printed | awk '/^\[/ { s = substr($0, 2, length($0) - 2) } /^[a-zA-Z]+ =/ { print s "." $1 }' >"$work/want"
page_keys() {
    plain docs/limpet.ini.5 | awk '
        /^\.SS \[/ { s = substr($2, 2, length($2) - 2) }
        /^\.SH/ { s = "" }
        s && tag { print "key " s "." $1; key = s "." $1; tag = 0 }
        s && /^\.TP/ { tag = 1 }
        s && /^Default: / { sub(/^Default: /, ""); print "default " key "=" $0 }'
}
page_keys | sed -n 's/^key //p' >"$work/have"
same 'limpet.ini(5) has each key' "$work/want" "$work/have"

# A default that is set by hand changes nothing; and each key that has one in the program has one in the page.
printed >"$work/want"
set --
page_keys | sed -n 's/^default //p' >"$work/defaults"
while IFS= read -r d; do
    set -- "$@" --set "$d"
done <"$work/defaults"
printed "$@" >"$work/have"
same 'limpet.ini(5) has the default of each key' "$work/want" "$work/have"
awk '/^\[/ { s = substr($0, 2, length($0) - 2) } /^[a-zA-Z]+ = ./ { print s "." $1 }' "$work/want" >"$work/want.keys"
sed 's/=.*//' "$work/defaults" >"$work/have.keys"
same 'and only of those that have one' "$work/want.keys" "$work/have.keys"

# The bounds that the page names are accepted (alone, they may contradict another key; that is no matter of bounds).
is_in_range() {
    env -i "$limpet" --config "$work/empty.ini" --set "$1" check-config >"$work/said" 2>&1
    case $? in
    0 | 78) ! grep 'out of range' "$work/said" | sed 's/^/# /' | grep . ;;
    *) return 1 ;;
    esac
}
page_bounds() {
    plain docs/limpet.ini.5 | awk '
        /^\.SS \[/ { s = substr($2, 2, length($2) - 2) }
        s && tag { key = s "." $1; tag = 0 }
        s && /^\.TP/ { tag = 1 }
        match($0, /[0-9a-zA-Z]+ to [0-9a-zA-Z]+\.$/) { split(substr($0, RSTART, RLENGTH - 1), b, " to "); print key "=" b[1]; print key "=" b[2] }'
}
page_bounds >"$work/bounds"
rc=0
while read -r b; do
    is_in_range "$b" || rc=1
done <"$work/bounds"
[ -s "$work/bounds" ] || rc=1
ok 'limpet.ini(5) names bounds that are accepted' $rc

if command -v groff >/dev/null; then
    for p in docs/*.[1-8]; do
        groff -man -Tascii -ww "$p" 2>&1 >"$work/page" | sed 's/^/# /' >"$work/warnings"
        cat "$work/warnings"
        [ -s "$work/page" ] && [ ! -s "$work/warnings" ]
        ok "$p is laid out without a warning" $?
    done
fi
echo "1..$n"
[ $bad -eq 0 ]
