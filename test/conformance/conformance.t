#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The simulator's API server answers as a real one does: script.py is played to both, and each answer is one check.
# The checks are printed by play.py; this starts a cluster for them.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"

cluster_up --no-controller-manager
for crd in "$here"/../../crd/edge*.yaml; do
	k apply -f "$crd" >/dev/null || bail_out "$crd"
done
for kind in edgeapps edgeconfigs edgenodes; do
	wait_for 60 "$kind is served" k get "$kind" -A || bail_out "$kind"
done
PYTHONDONTWRITEBYTECODE=1 python3 "$here/play.py" "$CLUSTER_DIR" "$cluster_program" "${BUILD:-$here/../../build}/test/conformance/model" || tap_failures=1
((tap_failures == 0))
