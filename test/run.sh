#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test/run.sh — runs TAP programs one after the other and says what came out.
#
#   test/run.sh [-l LOGDIR] PROGRAM...        a program may carry arguments: "build/x --seeds 50"
#
# One line a program; of one that fails, its failed checks and where its whole output is. The last line is the sum of all:
#
#   N passed, N failed          (and ", N skipped" when there are any)
#
# A program that crashes, runs out of time, ends without a plan or with another number of checks than planned counts as one failed
# check more. Exit: 0 when nothing failed and something passed.
#
# A program gets 300 seconds, or what `timeout: N` in a comment of the first 15 lines of its source says. It finds in the environment
# TMPDIR, a directory of its own that is removed afterwards; SRC and BUILD, the source and build directories.
set -u

logs=build/log
if [ "${1:-}" = -l ]; then
    logs=$2
    shift 2
fi
SRC=$(pwd)
BUILD=${BUILD:-$SRC/build}
export SRC BUILD
passed=0 failed=0 skipped=0

# build/san/test/unit/x_test -> san/unit/x_test, test/e2e/y.t -> e2e/y.t
label_of() {
    echo "${1%% *}" | sed -e 's#^.*/build/##' -e 's#^build/##' -e 's#^\(san/\)*test/#\1#'
}

source_of() {
    case $1 in
    *.t) echo "$1" ;;
    *) echo "test/${1##*test/}.c" ;;
    esac
}

timeout_of() {
    t=$(sed -n '1,15s/^[#/ ]*timeout: *\([0-9][0-9]*\).*/\1/p' "$(source_of "${1%% *}")" 2>/dev/null | head -n 1)
    echo "${t:-300}"
}

# Reads a log; prints "passed failed skipped" and whether the TAP in it is whole.
count() {
    awk '
        /^ok .*# *[Ss][Kk][Ii][Pp]/ { skipped++; next }
        /^1\.\.0 *# *[Ss][Kk][Ii][Pp]/ { skipped++; plan = 0; planned = 1; next }
        /^ok( |$)/ { passed++ }
        /^not ok( |$)/ { failed++ }
        /^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; planned = 1 }
        /^Bail out!/ { bail = 1 }
        END {
            whole = "whole"
            if (bail) whole = "it bailed out"
            else if (!planned) whole = "it ended before its plan"
            else if (plan && plan != passed + failed + skipped) whole = "it planned " plan " checks"
            else if (!plan && !skipped) whole = "it checked nothing"
            print passed + 0, failed + 0, skipped + 0, whole
        }' "$1"
}

# Each failed check with the comments that belong to it.
show_failures() {
    awk '
        /^not ok/ { show = 1; if (++n > 20) exit; print "    " $0; next }
        /^#/ && show { print "    " $0; next }
        { show = 0 }' "$1"
}

run() { # program with arguments
    label=$(label_of "$1")
    log=$logs/$label.log
    limit=$(timeout_of "$1")
    mkdir -p "$(dirname "$log")"
    tmp=$(mktemp -d /tmp/limpet-test.XXXXXX)
    start=$(date +%s)
    # shellcheck disable=SC2086  # a program may carry arguments
    TMPDIR=$tmp timeout -k 10 "$limit" $1 >"$log" 2>&1 </dev/null
    rc=$?
    took=$(($(date +%s) - start))
    rm -rf "$tmp"

    read -r p f s whole <<EOF
$(count "$log")
EOF
    why=
    case $rc in
    0) ;;
    124 | 137) why="it ran out of its $limit seconds" ;;
    *) [ "$f" -gt 0 ] || why="exit code $rc" ;;
    esac
    if [ "$whole" != whole ]; then
        why="${why:+$why, }$whole"
    fi
    [ -z "$why" ] || f=$((f + 1))
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))

    if [ "$f" -eq 0 ]; then
        printf 'ok    %-44s %5d checks %4d s%s\n' "$label" "$p" "$took" "$([ "$s" -eq 0 ] || echo "  ($s skipped)")"
        return
    fi
    printf 'FAIL  %-44s %5d checks %4d s  %d failed%s\n' "$label" $((p + f)) "$took" "$f" "${why:+: $why}"
    show_failures "$log"
    if [ -n "$why" ]; then
        tail -n 25 "$log" | sed 's/^/    | /'
    fi
    echo "    whole output: $log"
}

for t in "$@"; do
    run "$t"
done

echo
if [ $skipped -gt 0 ]; then
    for t in "$@"; do
        grep -hi '# *skip' "$logs/$(label_of "$t").log" | sed -e 's/.*# *[Ss][Kk][Ii][Pp] */skipped: /' -e "s,\$,  [$(label_of "$t")],"
    done | sort | uniq
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ] && [ $passed -gt 0 ]
