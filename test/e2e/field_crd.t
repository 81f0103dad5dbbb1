#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A kind that the server does not know yet, or not any more: the agent says so, waits, and goes on by itself; the others do not wait.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=iota
files=$work/$node/files
crd=edgeapps.edge.limpet.dev

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node sync.backoff=100ms
agent_join $node >/dev/null || bail_out "join"
k delete crd $crd --wait >/dev/null

source_of() { L $node status -o json | jq -r ".link.sources[] | select(.source | contains(\"$1\")) | .state"; }

agent_start $node
eventually 60 'field 31: without the CRD of EdgeApp the agent is online for the others' online $node
is "$(source_of edgeapps)" Backoff 'field 31: the status says which kind waits'
like "$(L $node status)" 'edgeapps@[^ ]*: Backoff: .*404' 'field 31: and why'
file_yaml motd "$files/motd" hello | put
eventually 30 'field 31: another kind works meanwhile' ready ecfg motd

"$limpetctl" install >/dev/null || bail_out "limpetctl install"
app_yaml web | put
eventually 120 'field 31: the CRD is installed: the agent goes on by itself' ready eapp web
is "$(source_of edgeapps)" Current 'field 31: and says so'
pid=$(pids $node web)

# The node's own credential is fine, so this is a deletion: of the CRD, and with it of every object.
k delete crd $crd --wait >/dev/null
gone() { ! kill -0 "$pid" 2>/dev/null; }
eventually 90 'a CRD that is deleted takes its objects with it' gone
ok 'and no others' file_is "$files/motd" hello
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
app_yaml web | put
eventually 120 'field 31: installed once more, the app runs once more' ready eapp web

done_testing
