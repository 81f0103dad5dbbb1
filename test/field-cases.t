#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs/FIELD-CASES.md and the tests say the same: each check named there is in the file named before it, and no test claims a case that is
# not there.
set -u
page=docs/FIELD-CASES.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0

ok() { # name status
    n=$((n + 1))
    [ "$2" -eq 0 ] && echo "ok $n - $1" && return
    echo "not ok $n - $1"
    bad=$((bad + 1))
}

# One line a named check: number, file, name. In a row a name in quotes belongs to the file in backquotes before it.
awk -F '|' '/^\| [0-9]+ \|/ {
    number = $2 + 0
    row = $5
    while (match(row, /`[^`]*`|"[^"]*"/)) {
        what = substr(row, RSTART + 1, RLENGTH - 2)
        if (substr(row, RSTART, 1) == "`") file = what
        else print number "\t" file "\t" what
        row = substr(row, RSTART + RLENGTH)
    }
}' "$page" >"$work/named"
tab=$(printf '\t')
while IFS=$tab read -r number file name; do
    grep -qF -- "$name" "$file" 2>/dev/null
    ok "$number: $file has \"$name\"" $?
done <"$work/named"

awk -F '|' '/^\| [0-9]+ \|/ { print $2 + 0 }' "$page" | sort -n >"$work/rows"
cut -f 1 "$work/named" | sort -nu >"$work/guarded"
sort -u -n "$work/rows" | cmp -s - "$work/rows"
ok 'each case has one row' $?
cmp -s "$work/rows" "$work/guarded"
ok 'each row names a check' $?
[ "$(awk -F '|' '/^\| [0-9]+ \|/ && ($6 ~ /^ *$/ || NF != 7)' "$page" | wc -l)" -eq 0 ]
ok 'each row says what was taken out' $?

grep -rhoE --include='*.c' --include='*.t' 'field [0-9]+[:"]' test | grep -oE '[0-9]+' | sort -nu >"$work/claimed"
cmp -s "$work/rows" "$work/claimed"
ok 'the tests claim the cases of the page and no others' $?
diff "$work/rows" "$work/claimed" | sed 's/^/# /'

echo "1..$n"
[ "$bad" -eq 0 ]
