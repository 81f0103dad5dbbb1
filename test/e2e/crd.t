#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The manifests of crd/ on a real API server: what it accepts and refuses, what `kubectl explain` teaches, and exactly what
# a node may do. The checks are in crd/*.pl and print the TAP; this starts a cluster for them.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"

cluster_up

# Plain HTTP for the checks, so that they need no TLS library: the proxy adds the administrator's token.
"$CLUSTER_DIR/bin/kubectl" proxy --port=0 >"$CLUSTER_DIR/log/proxy" 2>&1 &
proxy=$!
at_exit kill "$proxy"
wait_for 60 "kubectl proxy serves" grep -q '^Starting to serve on ' "$CLUSTER_DIR/log/proxy" || bail_out "no proxy"
url=$(sed -n 's/^Starting to serve on /http:\/\//p' "$CLUSTER_DIR/log/proxy")

KUBECTL=$CLUSTER_DIR/bin/kubectl perl "$here/crd/check.pl" "$here/../.." "$url" || tap_failures=1
((tap_failures == 0))
