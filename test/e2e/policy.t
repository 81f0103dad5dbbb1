#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# EdgePolicy on a real API server: what it sets is in force at once, who wins, what is refused, what is kept without a connection, who stops
# offline, what waits for a window.
# timeout: 900
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=pol
ns=edge-pol
files=$work/$node/files

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node sync.mode=watch sync.backoff=100ms sync.backoffCap=1s clock.trust=always lease.renew=5s lease.duration=20s

# policy NAMESPACE NAME SPEC-JSON
policy() {
	printf '{"apiVersion":"edge.limpet.dev/v1alpha1","kind":"EdgePolicy","metadata":{"name":"%s"},"spec":%s}' "$2" "$3" |
		k apply -n "$1" -f - >/dev/null || diag "policy $2"
}
no_policy() { k delete epol "$2" -n "$1" >/dev/null; }
in_force() { L $node policy -o json | jq -r --arg n "$1" '.values[] | select(.name == $n) | "\(.value) \(.source) \(.policy // "-")"'; }
source_state() { L $node status -o json | jq -r --arg s "edgepolicies@$1" '.link.sources[] | select(.source | endswith($s)) | .state'; }
source_error() { L $node status -o json | jq -r --arg s "edgepolicies@$1" '.link.sources[] | select(.source | endswith($s)) | .error // ""'; }
app_state() { local_field $node edgeapp "$1" .status.state; }
app_reason() { local_field $node edgeapp "$1" '.status.conditions[] | select(.type == "Ready") | .reason'; }
lease_seconds() { k get lease $node -n $ns -o 'jsonpath={.spec.leaseDurationSeconds}'; }

# --- without permission or namespace for what is shared, the node works all the same
agent_join $node >/dev/null || bail_out "join"
k delete rolebinding limpet-$ns -n edge-system >/dev/null
agent_start $node
eventually 60 'a node that may not read edge-system is online' online $node
is "$(source_state edge-system)" Backoff 'that source alone waits'
like "$(source_error edge-system)" 'forbidden' 'and status says why'
policy $ns own '{"sync":{"interval":"7s"}}'
eventually 30 'its own policies are in force' equals "7s policy $ns/own" in_force sync.interval
eventually 30 'and it says so on the server' ready epol own
is "$(field epol own '{.status.inForceGeneration}')" 1 'with the generation that is in force'
is "$(in_force lease.interval)" '5s limpet.ini -' 'what no policy sets is as limpet.ini has it'
is "$(in_force outbox.maxEvents)" '5000 default -' 'or as it is built in'
k create rolebinding limpet-$ns -n edge-system --role=limpet-node-shared --serviceaccount=$ns:limpet >/dev/null
eventually 90 'with the permission the source comes back by itself' equals Current source_state edge-system

# --- precedence
policy edge-system fleet '{"priority":5,"sync":{"interval":"9s"},"lease":{"interval":"4s","duration":"30s"},"outbox":{"maxEvents":50}}'
eventually 30 'a shared policy of a higher priority wins a field' equals '9s policy edge-system/fleet' in_force sync.interval
is "$(in_force outbox.maxEvents)" '50 policy edge-system/fleet' 'and sets others'
eventually 30 'the lease has the new duration on the server at once' equals 30 lease_seconds
is "$(k get epol fleet -n edge-system -o 'jsonpath={.status}')" '' 'nothing is written in edge-system'
policy $ns own '{"priority":6,"sync":{"interval":"7s"}}'
eventually 30 'a higher priority takes it back' equals "7s policy $ns/own" in_force sync.interval
is "$(in_force lease.interval)" '4s policy edge-system/fleet' 'field by field'
policy $ns fleet '{"priority":5,"lease":{"interval":"3s"}}'
eventually 30 'of one priority and name the own namespace wins' equals "3s policy $ns/fleet" in_force lease.interval
no_policy $ns fleet
eventually 30 'a policy that is deleted leaves its fields to others' equals '4s policy edge-system/fleet' in_force lease.interval

# --- who is meant
policy edge-system hall '{"priority":9,"nodeSelector":{"matchLabels":{"place":"hall"}},"sync":{"interval":"11s"}}'
policy edge-system named '{"priority":8,"nodeSelector":{"matchLabels":{"kubernetes.io/hostname":"pol"}},"outbox":{"shedFirst":"Normal"}}'
eventually 30 'a node is selected by its name' equals 'Normal policy edge-system/named' in_force outbox.shedFirst
is "$(in_force sync.interval)" "7s policy $ns/own" 'labels that the EdgeNode does not have do not match'
k label enode $node -n $ns place=hall >/dev/null
eventually 30 'labels that it gets do' equals '11s policy edge-system/hall' in_force sync.interval
k label enode $node -n $ns place- >/dev/null
eventually 30 'until they go' equals "7s policy $ns/own" in_force sync.interval

# --- mode
# Open watches on this node's EdgeConfigs, as the server counts them.
watches() { k get --raw /metrics | awk '/^apiserver_longrunning_requests\{.*resource="edgeconfigs",scope="namespace".*verb="WATCH"/ { n += $NF } END { print n + 0 }'; }
eventually 30 'watch mode: a watch is open' equals 1 watches
policy $ns own '{"priority":6,"sync":{"mode":"poll","interval":"600s"}}'
eventually 30 'poll mode: it is closed at once' equals 0 watches
file_yaml late "$files/late" one | put
policy $ns own '{"priority":6,"sync":{"mode":"watch"}}'
L $node resync
eventually 30 'a resync brings what is polled for' file_is "$files/late" one
eventually 30 'and the mode with it' equals "watch policy $ns/own" in_force sync.mode
eventually 30 'a watch is open again' equals 1 watches
file_yaml late "$files/late" two | put
eventually 30 'then changes come at once again' file_is "$files/late" two

# --- metered windows
all_day='[{"daily":"00:00-12:00"},{"daily":"12:00-00:00"}]'
policy $ns own "{\"priority\":6,\"sync\":{\"mode\":\"watch\",\"metered\":{\"mode\":\"poll\",\"interval\":\"600s\",\"windows\":$all_day}}}"
eventually 30 'a metered window is open: its mode counts' equals 0 watches
file_yaml late "$files/late" three | put
L $node resync
eventually 30 'and what comes is polled for' file_is "$files/late" three
policy $ns own '{"priority":6,"sync":{"mode":"watch","metered":{"mode":"poll","interval":"600s","windows":[{"schedule":"0 0 29 2 *","duration":"1m"}]}}}'
L $node resync
eventually 30 'outside of it the other one does' equals 1 watches
file_yaml late "$files/late" four | put
eventually 30 'and changes come at once' file_is "$files/late" four

# --- edge-system goes, is not there, and is made again
account="system:serviceaccount:$ns:limpet"
k create clusterrole policy-e2e --verb=get,list,watch --resource=edgepolicies.edge.limpet.dev,namespaces >/dev/null
k create clusterrolebinding policy-e2e --clusterrole=policy-e2e --user="$account" >/dev/null
eventually 30 'a shared policy is in force' equals '4s policy edge-system/fleet' in_force lease.interval
k delete namespace edge-system >/dev/null
L $node resync
eventually 60 'edge-system is not there: that source alone waits' matches 'namespace edge-system' source_error edge-system
like "$(source_error edge-system)" 'not found|being deleted' 'and status says why'
is "$(in_force lease.interval)" '4s policy edge-system/fleet' 'what it said stays in force'
eventually 60 'and the node is online' online $node
agent_kill $node
agent_start $node
eventually 60 'after a crash, too' online $node
is "$(in_force lease.interval)" '4s policy edge-system/fleet' 'it is in force'
"$limpetctl" install >/dev/null || diag install
k create rolebinding limpet-$ns -n edge-system --role=limpet-node-shared --serviceaccount=$ns:limpet >/dev/null
k delete clusterrolebinding policy-e2e >/dev/null
L $node resync
eventually 90 'made again it is another' matches 'made again' source_error edge-system
is "$(in_force lease.interval)" '4s policy edge-system/fleet' 'whose emptiness removes nothing'
L $node resync --accept
eventually 90 'until the owner says so' equals '5s limpet.ini -' in_force lease.interval
eventually 90 'then it is followed' equals Current source_state edge-system
policy edge-system fleet '{"priority":5,"sync":{"interval":"9s"},"lease":{"interval":"4s","duration":"30s"},"outbox":{"maxEvents":50}}'
policy edge-system hall '{"priority":9,"nodeSelector":{"matchLabels":{"place":"hall"}},"sync":{"interval":"11s"}}'
policy edge-system named '{"priority":8,"nodeSelector":{"matchLabels":{"kubernetes.io/hostname":"pol"}},"outbox":{"shedFirst":"Normal"}}'
eventually 30 'and obeyed' equals '4s policy edge-system/fleet' in_force lease.interval

# --- a policy that is not valid: the last good one stays
policy $ns own '{"priority":6,"sync":{"interval":"13s"}}'
eventually 30 'good' equals "13s policy $ns/own" in_force sync.interval
policy $ns own '{"priority":6,"sync":{"interval":"14s"},"maintenance":{"windows":[{"schedule":"99 * * * *","duration":"1h"}]}}'
eventually 30 'refused where the node may write' equals False cond epol own Accepted
like "$(message epol own Accepted)" 'spec.maintenance.windows\[0\].schedule' 'naming the field'
is "$(in_force sync.interval)" "13s policy $ns/own" 'and the last good one is in force'
policy edge-system fleet '{"priority":5,"sync":{"interval":"9s"},"maintenance":{"windows":[{"daily":"02:00-03:00","timeZone":"Mars/Olympus"}]}}'
refusals() { k get events.events.k8s.io -n $ns -o json | jq '[.items[] | select(.reason == "PolicyRefused")] | length'; }
eventually 60 'where it may not, an event says so' equals 1 refusals
is "$(in_force outbox.maxEvents)" '50 policy edge-system/fleet' 'and the last good one is in force'

# --- in force from the start, without a network
cluster stop-apiserver --kill >/dev/null
agent_kill $node
agent_start $node
is "$(in_force sync.interval)" "13s policy $ns/own" 'at boot without a server: the last good own policy'
is "$(in_force lease.duration)" '30s policy edge-system/fleet' 'and the last good shared one'
cluster start-apiserver >/dev/null
eventually 60 'online' online $node
is "$(refusals)" 1 'the refusal is told once'
agent_stop $node
LIMPET_SYNC_INTERVAL=42s agent_start $node
is "$(in_force sync.interval)" '42s environment -' 'what the environment sets is above policies'
agent_stop $node
agent_start $node
no_policy edge-system fleet
no_policy edge-system hall
no_policy edge-system named
eventually 30 'shared policies that are deleted are gone' equals '20s limpet.ini -' in_force lease.duration

# --- offline
app_yaml plain | put
app_yaml vital | sed 's/metadata: {name: vital}/metadata: {name: vital, labels: {safe: "yes"}}/' | put
app_yaml other | put
eventually 60 'three apps run' ready eapp plain
eventually 60 'three apps run' ready eapp vital
eventually 60 'three apps run' ready eapp other
policy $ns own '{"offline":[{"behavior":"Keep","selector":{"names":["plain"]}},{"behavior":"RunOnly","selector":{"matchLabels":{"safe":"yes"}},"after":"10s"}]}'
eventually 30 'rules are in force' matches 'RunOnly' in_force offline
vital=$(pids $node vital) plain=$(pids $node plain)
cluster stop-apiserver --kill >/dev/null
eventually 60 'RunOnly: what is not in the safe set stops' equals Stopped app_state other
is "$(app_reason other)" StoppedOffline 'and says why'
is "$(pids $node vital) $(pids $node plain)" "$vital $plain" 'the safe set and what Keep names run on'
agent_kill $node
agent_start $node
is "$(app_state other)" Stopped 'after a restart of the agent it is still stopped'
is "$(pids $node vital)" "$vital" 'and the others still run'
cluster start-apiserver >/dev/null
eventually 60 'back online it starts' equals Running app_state other
eventually 60 'which the server hears' ready eapp other
policy $ns own '{"offline":[{"behavior":"Stop","selector":{"names":["other"]},"after":"10s"}]}'
eventually 30 'rules are in force' matches 'Stop' in_force offline
cluster stop-apiserver --kill >/dev/null
eventually 60 'Stop: what it names stops' equals Stopped app_state other
is "$(pids $node vital) $(pids $node plain)" "$vital $plain" 'all others run on'
cluster start-apiserver >/dev/null
eventually 60 'and starts when the node is back' equals Running app_state other
eventually 60 'which the server hears' ready eapp other
stops() { k get events.events.k8s.io -n $ns -o json | jq '[.items[] | select(.reason == "StoppedOffline")] | length'; }
eventually 60 'both stops are told' equals 2 stops

# --- jobs stop offline as well
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeJob\nmetadata: {name: long}\nspec: {command: [/bin/sleep, "88888"], terminationGracePeriodSeconds: 1}\n' | put
job_runs() { pgrep -f -x '/bin/sleep 88888' >/dev/null; }
job_ended() { ! job_runs; }
job_state() { local_field $node edgejob long .status.state; }
eventually 60 'a job runs' job_runs
policy $ns own '{"offline":[{"behavior":"Stop","selector":{"kinds":["EdgeJob"]},"after":"10s"}]}'
eventually 30 'rules are in force' matches 'EdgeJob' in_force offline
cluster stop-apiserver --kill >/dev/null
eventually 60 'Stop: the run ends' job_ended
eventually 30 'and no other begins' equals Suspended job_state
is "$(pids $node vital) $(pids $node plain)" "$vital $plain" 'apps are not selected'
cluster start-apiserver >/dev/null
eventually 120 'back online it is tried again' job_runs
k delete ejob long -n $ns >/dev/null
eventually 60 'deleted it ends' job_ended

# --- maintenance windows
closed='{"maintenance":{"windows":[{"schedule":"0 0 29 2 *","duration":"1m"}]}}'
open='{"maintenance":{"windows":[{"daily":"00:00-12:00"},{"daily":"12:00-00:00"}]}}'
file_yaml conf "$files/conf" one "onChange: {command: [\"/bin/sh\", \"-c\", \"echo x >>$files/changes\"]}" | put
eventually 30 'a config with an onChange' ready ecfg conf
policy $ns own "$closed"
eventually 30 'a window that is closed' matches 'schedule' in_force maintenance.windows
like "$(L $node policy)" 'changes that disturb wait until the maintenance window' 'limpet policy says so'
before=$(pids $node other)
k patch eapp other -n $ns --type=merge -p '{"spec":{"env":[{"name":"N","value":"2"}]}}' >/dev/null
eventually 30 'a new revision waits' equals True cond eapp other Waiting
is "$(cond eapp other Accepted) $(reason eapp other Waiting)" 'True MaintenanceWindow' 'accepted'
like "$(message eapp other Waiting)" "generation 2 waits: until the maintenance window of policy $ns/own opens at 20[0-9-]*-02-29T00:00:00Z" 'and says until when'
is "$(field eapp other '{.status.observedGeneration}')" 1 'the status speaks of what runs'
is "$(pids $node other)" "$before" 'which goes on'
kill -KILL "$before"
healed() { local now; now=$(pids $node other) && [[ -n $now && $now != "$before" ]]; }
eventually 60 'and is healed' healed
old=$(pids $node other)
ok 'with the old revision' bash -c "! tr '\\0' '\\n' </proc/$old/environ | grep -qx N=2"
k patch ecfg conf -n $ns --type=merge -p "{\"spec\":{\"files\":[{\"path\":\"$files/conf\",\"content\":\"two\"}]}}" >/dev/null
eventually 30 'a change with an onChange waits, too' equals True cond ecfg conf Waiting
echo drift >"$files/conf"
eventually 30 'and drift is put right meanwhile' file_is "$files/conf" one
k scale eapp plain -n $ns --replicas=2 >/dev/null
eventually 30 'scaling disturbs nobody' ready eapp plain
app_yaml newcomer | put
eventually 30 'nor does a new app' ready eapp newcomer
agent_kill $node
agent_start $node
eventually 30 'after a crash of the agent' online $node
is "$(pids $node other)" "$old" 'what waits still waits'
policy $ns own "$open"
eventually 30 'an open window lets it through' ready eapp other
ok 'the new revision runs' bash -c "tr '\\0' '\\n' </proc/$(pids $node other)/environ | grep -qx N=2"
eventually 30 'the config, too' ready ecfg conf
eventually 30 'with its content' file_is "$files/conf" two
is "$(cond eapp other Waiting)$(cond ecfg conf Waiting)" '' 'and nothing waits any more'
policy $ns own "$closed"
eventually 30 'closed again' matches 'schedule' in_force maintenance.windows
k patch eapp other -n $ns --type=merge -p '{"spec":{"env":[{"name":"N","value":"3"}]}}' >/dev/null
eventually 30 'the next revision waits' equals True cond eapp other Waiting
no_policy $ns own
eventually 30 'without a policy nothing waits' ready eapp other

done_testing
