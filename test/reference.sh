#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# reference.sh AREA/PROGRAM: compiles test/AREA/PROGRAM, other people's Go that our answers are compared with, into build/AREA/PROGRAM,
# unless it is there. Seconds, once; its modules are pinned by go.sum.
set -eu -o pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
source=$top/test/$1
program=$top/build/$1

say() { printf 'reference: %s\n' "$*"; }
die() {
	say "$@" >&2
	exit 1
}
. "$top/test/go.sh"

stamp=$(cd "$source" && sha256sum go.mod go.sum ./*.go)
[[ -x $program && -f $program.stamp && $(<"$program.stamp") == "$stamp" ]] && exit
find_go "$source"
mkdir -p "${program%/*}"
say "building $1"
(cd "$source" && CGO_ENABLED=0 GOWORK=off "$go" build -trimpath -o "$program.new" .)
mv "$program.new" "$program"
printf '%s\n' "$stamp" >"$program.stamp"
