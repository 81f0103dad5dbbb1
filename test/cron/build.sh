#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh: compiles test/cron/robfig into build/cron/robfig, unless it is there. Seconds, once; its modules are pinned by go.sum.
set -eu -o pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
source=$top/test/cron/robfig
out=$top/build/cron

say() { printf 'cron: %s\n' "$*"; }
die() {
	say "$@" >&2
	exit 1
}
. "$top/test/go.sh"

stamp=$(cd "$source" && sha256sum go.mod go.sum ./*.go)
[[ -x $out/robfig && -f $out/stamp && $(<"$out/stamp") == "$stamp" ]] && exit
find_go "$source"
mkdir -p "$out"
say 'building what schedules are compared with'
(cd "$source" && CGO_ENABLED=0 GOWORK=off "$go" build -trimpath -o "$out/.robfig.new" .)
mv "$out/.robfig.new" "$out/robfig"
printf '%s\n' "$stamp" >"$out/stamp"
