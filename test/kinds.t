#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs/kinds says what the CRDs say: the pages are as `make kinds` would make them, and each kind and each example is in them.
set -u
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0

ok() { # name status
    n=$((n + 1))
    [ "$2" -eq 0 ] && echo "ok $n - $1" && return
    echo "not ok $n - $1"
    bad=$((bad + 1))
}

"$BUILD/limpetctl" install --print -o json | perl docs/kinds/generate.pl "$work"
ok 'the pages can be made' $?
[ "$("$BUILD/limpetctl" install --print | grep -c '^---$')" -eq "$("$BUILD/limpetctl" install --print -o json | grep -c '^{"apiVersion".*"metadata":{"name"')" ]
ok 'limpetctl install --print gives as many objects in YAML as in JSON' $?
"$BUILD/limpetctl" install --print -o xml >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q 'yaml and json' "$work/out"
ok 'another format is refused, and those that are there are named' $?
for crd in crd/edge*s.yaml; do
    kind=$(sed -n 's/^    kind: //p' "$crd" | tr '[:upper:]' '[:lower:]')
    diff "$work/$kind.md" "docs/kinds/$kind.md" >"$work/diff"
    rc=$?
    ok "docs/kinds/$kind.md is up to date (make kinds)" $rc
    [ $rc -eq 0 ] || sed -n '1,20s/^/# /p' "$work/diff"
done
cmp -s "$work/README.md" docs/kinds/README.md
ok 'docs/kinds/README.md is, too' $?
for page in docs/kinds/edge*.md; do
    [ -e "$work/${page##*/}" ]
    ok "$page speaks of a kind that is there" $?
done
for example in examples/*.yaml; do
    grep -qF "(../../$example)" docs/kinds/*.md
    ok "$example is on a page" $?
done
echo "1..$n"
[ "$bad" -eq 0 ]
