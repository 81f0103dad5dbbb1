#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What must be true of the programs as they are shipped: they need nothing of the machine but its kernel.
set -u
BUILD=${BUILD:-build}
n=0 bad=0

check() { # name command...
    what=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        bad=$((bad + 1))
    fi
}

headers() { readelf --wide --file-header --program-headers "$1"; }
is_pie() { headers "$1" | grep -qE 'Type: +DYN'; }
has_no_interpreter() { ! headers "$1" | grep -q INTERP; }
needs_no_library() { ! readelf --wide --dynamic "$1" | grep -q NEEDED; }
binds_now() { headers "$1" | grep -q GNU_RELRO && readelf --wide --dynamic "$1" | grep -qE 'FLAGS.*NOW'; }
has_no_exec_stack() { headers "$1" | grep -E 'GNU_STACK' | grep -q 'RW '; }
is_stripped() { ! readelf --wide --sections "$1" | grep -qE '\.(symtab|debug_)'; }
# No file of the build machine and no symbol of a sanitizer is left in it.
names_no_source() { ! grep -qaF "$(pwd)/" "$1"; }
is_at_most() { [ "$(stat -c %s "$1")" -le "$2" ]; }
runs_anywhere() { "$1" "$2" >/dev/null; }

for p in limpet limpetctl; do
    f=$BUILD/$p
    [ -f "$f" ] || { echo "Bail out! $f was not built" && exit 1; }
    echo "# $p: $(stat -c %s "$f") bytes"
    check "$p is position independent" is_pie "$f"
    check "$p has no interpreter" has_no_interpreter "$f"
    check "$p needs no library" needs_no_library "$f"
    check "$p relocates read-only and binds at start" binds_now "$f"
    check "$p has no executable stack" has_no_exec_stack "$f"
    check "$p is stripped" is_stripped "$f"
    check "$p does not name where it was built" names_no_source "$f"
    check "$p is at most 2.5 MB" is_at_most "$f" 2500000
    check "$p runs" runs_anywhere "$f" version
done
echo "1..$n"
[ $bad -eq 0 ]
