#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The manifests of crd/ on a real API server: what it accepts and refuses, what `kubectl explain` teaches, and exactly what
# a node may do. The checks are in crd/*.pl; this starts a cluster for them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cluster=$top/test/cluster/cluster
dir=$(mktemp -d "${TMPDIR:-/tmp}/limpet-crd.XXXXXX") || exit 1
proxy=

finish() {
	[ -z "$proxy" ] || kill "$proxy" 2>/dev/null
	"$cluster" wipe "$dir/cluster" >&2
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

kubectl() { "$cluster" kubectl "$dir/cluster" "$@"; }

"$cluster" up "$dir/cluster" --owner $$ >&2 || exit 1
: >"$dir/proxy.log"

# Plain HTTP for the checks, so that they need no TLS library: the proxy adds the administrator's token.
"$dir/cluster/bin/kubectl" --kubeconfig="$("$cluster" kubeconfig "$dir/cluster")" proxy --port=0 >"$dir/proxy.log" 2>&1 &
proxy=$!
until url=$(sed -n 's/^Starting to serve on /http:\/\//p' "$dir/proxy.log") && [ -n "$url" ]; do
	kill -0 "$proxy" || { cat "$dir/proxy.log" >&2; exit 1; }
	sleep 0.1
done

KUBECTL="$cluster kubectl $dir/cluster" perl "$here/crd/check.pl" "$top" "$url"
