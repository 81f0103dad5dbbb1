#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What counts as deleted, on a real API server behind a door that lies: nothing is removed on doubt, everything on proof.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=beta
ns=edge-beta
files=$work/$node/files

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node server.metaServer=false sync.mode=watch sync.backoff=100ms sync.backoffCap=1s guard.restoreHold=1h
agent_join $node >/dev/null || bail_out "join"
agent_door $node

app_yaml web | put
file_yaml a "$files/a" A | put
file_yaml b "$files/b" B | put
agent_start $node
eventually 60 'the app is Ready' ready eapp web
eventually 30 'file a is there' file_is "$files/a" A
eventually 30 'file b is there' file_is "$files/b" B
pid=$(pids $node web)

everything_stands() {
	kill -0 "$pid" 2>/dev/null && file_is "$files/a" A && file_is "$files/b" B
}
# relisted N: at least N more first lists of each source were asked for since the mark.
mark() { : >"$work/$node/door/log"; }
requests() { grep -cE "$1" "$work/$node/door/log"; }
asked() { (($(requests "$1") >= ${2:-1})); }
relist() { L $node resync; }

# --- lists that lie
lie_then_relist() { # DESCRIPTION RULES
	rules $node "$2"
	mark
	relist
	wait_for 30 "the lie was told: $1" asked 'edgeapps.*(sendInitialEvents|limit)' 1
	wait_for 30 "twice or more" asked 'edgeapps.*(sendInitialEvents|limit)' 2 || true
	ok "$1: nothing is removed" everything_stands
	rules $node '[]'
	eventually 120 "$1: the agent recovers" online $node
	ok "$1: still nothing is removed" everything_stands
}

lie_then_relist 'field 18: a stream cut before its end' \
	'[{"match": "GET .*(edgeapps|edgeconfigs).*sendInitialEvents", "truncate": 300}]'
lie_then_relist 'field 18: an empty answer' \
	'[{"match": "GET .*(edgeapps|edgeconfigs).*(sendInitialEvents|limit=50)", "answer": {"status": 200, "body": ""}}]'
lie_then_relist 'a captive portal' \
	'[{"match": "GET ", "answer": {"status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html><body>Please log in</body></html>"}}]'
lie_then_relist 'a storm of 500s' \
	'[{"match": "GET .*(edgeapps|edgeconfigs|namespaces/)", "answer": {"status": 500, "body": "{\"kind\":\"Status\",\"code\":500,\"message\":\"boom\"}"}}]'
lie_then_relist 'another cluster behind the same address' \
	'[{"match": "GET .*/namespaces/kube-system", "answer": {"status": 200, "body": "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"kube-system\",\"uid\":\"11111111-2222-3333-4444-555555555555\",\"resourceVersion\":\"7\"}}"}}, {"match": "GET .*(edgeapps|edgeconfigs).*(sendInitialEvents|limit|watch)", "close": true}]'

# A list that is complete, from our cluster, and empty, while the namespace is gone: identity lost.
empty='{\"kind\":\"EdgeConfigList\",\"apiVersion\":\"edge.limpet.dev/v1alpha1\",\"metadata\":{\"resourceVersion\":\"99999999\"},\"items\":[]}'
for verdict in 401 403 404; do
	rules $node "[{\"match\": \"GET .*/(edgeconfigs|edgeapps).*sendInitialEvents\", \"answer\": {\"status\": 400, \"body\": \"{}\"}},
		{\"match\": \"GET .*/(edgeconfigs|edgeapps).*limit=50\", \"answer\": {\"status\": 200, \"body\": \"$empty\"}},
		{\"match\": \"GET .*/namespaces/$ns\$\", \"answer\": {\"status\": $verdict, \"body\": \"{}\"}}]"
	mark
	relist
	wait_for 30 "the namespace was asked for" asked "GET .*/namespaces/$ns " 1
	eventually 30 "field 17: $verdict for the own namespace is identity lost or offline" not_online $node
	ok "field 17: $verdict for the own namespace keeps everything" everything_stands
	rules $node '[]'
	L $node resync --accept
	eventually 90 "field 17: and the agent recovers when the server knows it again" online $node
	ok 'everything stands' everything_stands
done

# --- too old, in both forms (field 14)
rules $node '[{"match": "GET .*edgeconfigs.*watch=(1|true).*resourceVersion=[0-9]", "times": 1, "answer": {"status": 410, "body": "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}"}}]'
mark
cluster stop-apiserver --kill >/dev/null
cluster start-apiserver >/dev/null
eventually 60 'field 14: HTTP 410 leads to one complete relist' asked 'edgeconfigs.*sendInitialEvents.* -> 200' 1
eventually 30 'field 14: and the agent is online' online $node
is "$(requests 'edgeconfigs.*sendInitialEvents.* -> 200')" 1 'field 14: one, not many'
rules $node '[{"match": "GET .*edgeconfigs.*watch=(1|true).*resourceVersion=[0-9]", "times": 1, "answer": {"status": 200, "body": "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}\n"}}]'
mark
cluster stop-apiserver --kill >/dev/null
cluster start-apiserver >/dev/null
eventually 60 'field 14: 410 as an ERROR event leads to one complete relist' asked 'edgeconfigs.*sendInitialEvents.* -> 200' 1
eventually 30 'field 14: and the agent is online' online $node
is "$(requests 'edgeconfigs.*sendInitialEvents.* -> 200')" 1 'field 14: one, not many'
ok 'everything stands' everything_stands

# --- patience
rules $node '[{"match": "GET .*edgeconfigs", "times": 1, "answer": {"status": 429, "headers": {"Retry-After": "2", "Content-Type": "application/json"}, "body": "{}"}}]'
mark
relist
eventually 30 'Retry-After is obeyed and the list comes again' asked 'edgeconfigs.* -> 200' 1
is "$(requests 'edgeconfigs.* -> 429')" 1 'after one refusal'
rules $node '[]'

# --- a kind that is forbidden, or missing, does not stop the others (field 31)
rules $node '[{"match": "GET .*edgeapps", "answer": {"status": 403, "body": "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"no\"}"}}]'
relist
file_yaml b "$files/b" B2 | put
eventually 30 'a 403 on one kind does not stop the others' file_is "$files/b" B2
ok 'and stops nothing of that kind' kill -0 "$pid"
rules $node '[]'
file_yaml b "$files/b" B | put
eventually 90 'the forbidden kind comes back by itself' matches '"edge.limpet.dev/v1alpha1/edgeapps@edge-beta","state":"Current"' L $node status -o json
eventually 30 'file b is as before' file_is "$files/b" B

# --- real deletes
k delete ecfg b -n $ns >/dev/null
eventually 30 'one deleted object is removed' test ! -e "$files/b"
ok 'the others stand' file_is "$files/a" A
k delete ecfg a -n $ns >/dev/null
eventually 30 'the last of its kind too, after the namespace was asked' test ! -e "$files/a"
eventually 30 'the CRD is re-created: wait' ready eapp web

# --- the CRD vanishes: DELETED for each object; that is a real deletion of the objects only if the namespace is fine
file_yaml a "$files/a" A | put
file_yaml b "$files/b" B | put
eventually 30 'both files are back' everything_stands

# --- the namespace is deleted for real
k delete namespace $ns --wait=false >/dev/null
eventually 90 'field 17: the namespace is deleted on the server: identity lost' matches 'IdentityLost|Offline' L $node status -o json
ok 'field 17: everything stands' everything_stands
k wait --for=delete namespace/$ns --timeout=120s >/dev/null 2>&1
eventually 60 'field 17: and later too' matches 'IdentityLost|Offline' L $node status -o json
ok 'field 17: everything still stands' everything_stands
agent_stop $node
agent_start $node
ok 'field 17: after a restart too' everything_stands
ok 'limpet leave removes it' L $node leave --yes
eventually 30 'the app is gone' test ! -d "/proc/$pid"
eventually 30 'file a is gone' test ! -e "$files/a"

done_testing
