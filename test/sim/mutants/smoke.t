#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A few of the mutants of `make sim-mutants`, those that are found soon: does the simulator still see what it should?
#
# timeout: 300
set -u
here=$(dirname "$0")
n=0
for file in $(grep -l "^smoke: " "$here"/*.mutant); do
    name=$(basename "$file" .mutant)
    n=$((n + 1))
    if said=$("$BUILD/mutants/$name" "$(sed -n "s/^says: //p" "$file")" 40); then
        echo "ok $n - $name is found: seed $(echo "$said" | cut -f 1)"
    else
        echo "not ok $n - $name is not found in 40 seeds"
        echo "#   $said"
    fi
done
echo "1..$n"
