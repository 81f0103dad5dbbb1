#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# How an EdgeApp is kept well and replaced, on real processes: startup, liveness and readiness probes, one instance at a time when the
# revision changes, rollback, suspend; with the server away and the agent killed in between.
# timeout: 600
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=lambda
ns=edge-lambda
files=$work/$node/files

# Each instance says that it runs by the file N.up, which it makes when it has come up, and that it is ready by N.ready.
app() { # NAME COMMAND [YAML-LINE...]
	local name=$1 command=$2
	shift 2
	{
		printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n' "$name"
		printf '  command: ["/bin/sh", "-c", %s]\n' "$(jq -n --arg s "$command" '$s')"
		((! $#)) || printf '  %s\n' "$@"
	} | put
}
probe() { # FIELD FILE THRESHOLD: a probe that asks for a file, each second
	printf '%s: {periodSeconds: 1, failureThreshold: %s, exec: {command: [test, -e, "%s"]}}' "$1" "$3" "$2"
}
counted() { # REASON NAME: how often the server was told of it
	k get events.events.k8s.io -n $ns -o json |
		jq -r --arg r "$1" --arg n "$2" '[.items[] | select(.reason == $r and .regarding.name == $n) | .series.count // 1] | add // 0'
}
local_ready() { [[ $(local_field $node edgeapp "$1" '.status.conditions[] | select(.type == "Ready") | .status') == True ]]; }
pid_of() { local_field $node edgeapp "$1" ".status.instances[]? | select(.index == ${2:-0}) | .pid // 0"; }
differs() { # FROM COMMAND...: it says something, and not that
	local from=$1 now
	shift
	now=$("$@")
	[[ -n $now && $now != 0 && $now != "$from" ]]
}

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node clock.trust=always
agent_join $node || bail_out "no join"
agent_start $node
mkdir -p "$files"
eventually 30 'the agent is online' online $node

# --- Liveness

touch "$files/alive"
app live 'exec sleep 1000' "$(probe livenessProbe "$files/alive" 2)"
eventually 30 'it lives, and is ready' ready eapp live
first=$(pid_of live)
rm "$files/alive"
eventually 30 'its probe fails twice: it is started again' differs "$first" pid_of live
touch "$files/alive"
eventually 30 'an event tells which probe' equals 1 counted ProbeFailed live
eventually 30 'another one how it ended' equals 1 counted Killed live
eventually 60 'it is ready again' ready eapp live
is "$(field eapp live '{.status.instances[0].lastExit.reason}')" Unhealthy 'the status says why it ended'

cluster down
eventually 30 'the agent is offline' offline $node
first=$(pid_of live)
rm "$files/alive"
eventually 60 'offline it is started again as online' differs "$first" pid_of live
touch "$files/alive"
eventually 60 'and is ready' local_ready live
cluster up
eventually 60 'the agent is online again' online $node
eventually 30 'the server learns of it' equals 2 field eapp live '{.status.instances[0].restarts}'

# --- Startup

app slow "exec sleep 1000" "$(probe startupProbe "$files/started" 60)" "$(probe livenessProbe "$files/slow-alive" 1)" \
	"$(probe readinessProbe "$files/slow-ready" 1)"
eventually 30 'it runs and has not started' equals false field eapp slow '{.status.instances[0].started}'
first=$(pid_of slow)
touch "$files/slow-alive" "$files/slow-ready"
not_ok 'it is not ready, whatever the other probes would say' ready eapp slow
touch "$files/started"
eventually 30 'it has started, and is ready' ready eapp slow
is "$(pid_of slow)" "$first" 'no liveness probe ended it before'
agent_kill $node
rm "$files/started"
agent_start $node
eventually 30 'an agent that was killed is back' online $node
rm "$files/slow-ready"
eventually 30 'it knows that the app had started: readiness is what fails' equals ProbeFailed reason eapp slow Ready
is "$(pid_of slow)" "$first" 'which ends nothing'
k delete eapp slow -n $ns >/dev/null

# --- One at a time

ready_file() { printf '%s/$LIMPET_INSTANCE.%s' "$files" "$1"; }
rolled() { # VERSION COMES-UP
	local script
	script="echo $1 >$files/\$LIMPET_INSTANCE.version; "
	script+="[ $2 = no ] || touch $(ready_file $1.ready); exec sleep 1000"
	app web "$script" 'replicas: 3' \
		'update: {minReadySeconds: 1}' \
		'readinessProbe: {periodSeconds: 1, failureThreshold: 1, exec: {command: [sh, -c, "test -e '"$files"'/$LIMPET_INSTANCE.'"$1"'.ready"]}}'
}
versions() { cat "$files"/[0-2].version | sort | tr '\n' ' '; }
rolled one yes
eventually 60 'three are ready' ready eapp web
rolled two no
eventually 30 'one of the new revision runs' equals 'one one two ' versions
eventually 30 'and is not ready' equals 2 field eapp web '{.status.readyReplicas}'
like "$(L $node get eapp web -o diff)" 'instances\[2\].*revision' 'what waits for its turn is a difference'
agent_kill $node
agent_start $node
eventually 30 'an agent that was killed is back' online $node
is "$(versions)" 'one one two ' 'the others stay: what does not come up takes one with it'
is "$(field eapp web '{.status.updatedReplicas}')" 1 'one is updated'
rolled three yes
eventually 60 'a revision that comes up goes through' equals 'three three three ' versions
eventually 60 'and is ready' equals 3 field eapp web '{.status.readyReplicas}'

# --- Back to the last good revision

fragile() { # SCRIPT
	app fragile "$1" 'update: {minReadySeconds: 2, progressDeadlineSeconds: 15}'
}
went_back() { [[ $(local_field $node edgeapp fragile '.status.conditions[] | select(.type == "Ready") | .reason') == RolledBack ]]; }
fragile "echo good >>$files/fragile; exec sleep 1000"
eventually 30 'a revision runs' ready eapp fragile
good=$(field eapp fragile '{.status.revision}')
has_kept() { L $node store dump | grep '/fragile"' | grep -q 'good-spec'; }
eventually 30 'and when it did for long enough, its spec is kept' has_kept
fragile "echo bad >>$files/fragile; sleep 0.2; exit 3"
eventually 30 'a new one, which does not come up, is tried' grep -q bad "$files/fragile"
cluster down
agent_kill $node
agent_start $node
eventually 90 'offline, by another agent than the one that began it: it is given up' went_back
is "$(tail -n 1 "$files/fragile")" good 'the good one runs again'
is "$(local_field $node edgeapp fragile .status.revision)" "$good" 'the status names it'
agent_kill $node
agent_start $node
tries=$(grep -c bad "$files/fragile")
cluster up
eventually 60 'the agent is online again' online $node
eventually 30 'the server learns of it' equals RolledBack reason eapp fragile Ready
eventually 30 'an event, too' equals 1 counted RolledBack fragile
like "$(field eapp fragile '{.status.failedRevisions[0].message}')" 'exit code 3' 'and why'
is "$(grep -c bad "$files/fragile")" "$tries" 'it is not tried again'
fragile "echo better >>$files/fragile; exec sleep 1000"
eventually 60 'another revision is' ready eapp fragile
is "$(tail -n 1 "$files/fragile")" better 'and runs'
k delete eapp fragile -n $ns >/dev/null

# --- Suspend

k patch eapp web -n $ns --type=merge -p '{"spec":{"suspend":true}}' >/dev/null
eventually 30 'suspended: nothing runs' equals Stopped field eapp web '{.status.state}'
is "$(reason eapp web Ready)" Suspended 'and the status says why'
is "$(pids $node web)" '' 'no process is left'
k patch eapp web -n $ns --type=merge -p '{"spec":{"suspend":false}}' >/dev/null
eventually 60 'resumed: it is ready' ready eapp web
agent_stop $node
done_testing
