#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# limpet describe and limpet events beside kubectl's: the same object, the same story, laid out alike; what only the node knows besides; and offline.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=$(ns_of $node)
files=$work/$node/files

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node lease.duration=4s lease.renew=1s # an outage is told when it lasts as long as a Lease
agent_join $node >/dev/null || bail_out 'join'
agent_start $node
app_yaml web | put
file_yaml motd "$files/motd" hello | put
put <<-YAML
	apiVersion: edge.limpet.dev/v1alpha1
	kind: EdgeJob
	metadata:
	  name: once
	  labels: {tier: back, app: report}
	  annotations: {note: "two\nlines", short: "one line"}
	spec: {command: ["/bin/sh", "-c", "echo done"]}
YAML
eventually 30 'an app is Ready' ready eapp web
eventually 30 'a file is there' file_is "$files/motd" hello
done_once() { [[ $(k get ejob once -n "$ns" -o 'jsonpath={.status.conditions[?(@.type=="Complete")].status}{.status.state}') =~ True|Succeeded|Complete ]]; }
eventually 30 'a job is done' done_once
eventually 60 'everything was reported' matches '^nothing' L $node outbox

# object TEXT: the part above the events, without what changes with a write of the same and what kubectl does not have.
object() { sed -n '/^Events:/q; /^Reported: /d; /^Differences: /d; /^  Resource Version: /d; p'; }
# Widths are those of the widest label below each other: the two lines that kubectl lacks stand after the status.
for what in 'edgeapp web' 'edgeconfig motd' 'edgejob once' "edgenode $node"; do
	# shellcheck disable=SC2086 # two words
	k describe $what -n "$ns" >"$work/theirs"
	# shellcheck disable=SC2086
	L $node describe $what >"$work/ours"
	object <"$work/theirs" >"$work/theirs.object"
	object <"$work/ours" >"$work/ours.object"
	ok "$what: as kubectl describe has it" diff -u "$work/theirs.object" "$work/ours.object"
done

# Events: type, reason, and message of each, in order.
rows() { sed -n '/^Events:/,$p' | sed -n 's/^  \(Normal\|Warning\) *\([A-Za-z]*\) .* edge.limpet.dev\/limpet  *\(.*\)$/\1 \2 \3/p'; }
k describe edgeapp web -n "$ns" | rows >"$work/theirs"
L $node describe edgeapp web | rows >"$work/ours"
ok 'there are events' test -s "$work/ours"
ok 'the same events' diff -u "$work/theirs" "$work/ours"
L $node describe edgeapp web | sed -n '/^Events:/,$p' | head -n 3 | tr -s ' -' >"$work/ours"
k describe edgeapp web -n "$ns" | sed -n '/^Events:/,$p' | head -n 3 | tr -s ' -' >"$work/theirs"
is "$(<"$work/ours")" "$(<"$work/theirs")" 'under the same heading'

# The same story: type, reason, object and message of all events of the node.
told() { L $node events | sed -n '2,$p' | tr -s ' ' | cut -d ' ' -f 2- | sed 's/ ([0-9]* times)$//'; }
same_story() { # MESSAGE
	k get events -n "$ns" -o json | jq -r '.items[] | [.type, .reason, (.involvedObject.kind | ascii_downcase) + "/" + .involvedObject.name, (.message | split("\n") | .[0] + (if length > 1 then "..." else "" end))] | join(" ")' |
		sort >"$work/theirs"
	told | sort >"$work/ours"
	ok "$1" diff -u "$work/theirs" "$work/ours"
}
same_story 'limpet events tells what kubectl get events tells'
ok 'there are events of all that happened' test -s "$work/theirs"
is "$(L $node events | head -n 1 | tr -s ' ')" "$(k get events -n "$ns" | head -n 1 | tr -s ' ')" 'under the same heading'
is "$(L $node events ejob | sed 1d | awk '{ print $4 }' | sort -u)" edgejob/once 'of one kind'
is "$(L $node events eapp web | sed 1d | awk '{ print $3 }' | sort -u)" Started 'of one object'
is "$(L $node events eapp web -o json | jq -r .reason)" Started 'as JSON'
is "$(L $node events eapp nobody)" 'nothing has happened, as far as it is kept' 'of nobody'
L $node events nokind >/dev/null 2>"$work/err"
is $? 1 'of a kind that is none: exit status'

like "$(L $node describe eapp web)" $'\nReported: +yes\nDifferences: +<none>\n' 'the server has heard it, and nothing differs'
L $node describe eapp web -o json >"$work/json"
is "$(jq -r '[.object.metadata.name, .reported, (.differences | length), (.events | type)] | map(tostring) | join(" ")' "$work/json")" 'web true 0 array' 'as JSON'
L $node describe eapp nobody >"$work/out" 2>"$work/err"
is $? 1 'an object that is not there: exit status'
like "$(<"$work/err")" 'not found' 'and it says so'

# Offline: from the agent's own store, with what happened meanwhile.
cluster stop-apiserver --kill >/dev/null
eventually 30 'the server is killed: offline' offline $node
kill -KILL "$(pids $node web)"
killed() { L $node describe eapp web | grep -qE '^  (Normal|Warning) +Killed +[0-9]+s +edge.limpet.dev/limpet +instance 0 was ended by signal 9 \(SIGKILL\) \[not sent yet\]$'; }
eventually 30 'offline: the event of a kill, not sent yet' killed
like "$(L $node events eapp web | tail -n 3)" 'Warning +Killed +edgeapp/web +instance 0 was ended by signal 9 .SIGKILL. .not sent yet.' 'limpet events has it, too'
exits() { L $node describe eapp web | grep -A6 'Last Exit:' | grep -qE '^ +Signal: +9$'; }
eventually 30 'and how the last process ended' exits
unheard() { L $node describe eapp web | grep -qE '^Reported: +no: '; }
eventually 30 'the status was not heard' unheard
like "$(L $node describe edgeconfig motd)" 'Content: +hello' 'a spec from the cache'

# The outage is an event of the node, with the moments at which it began and ended, sent after it.
begun() { L $node events enode | grep -qE 'Warning +Offline +edgenode/alpha +no contact with the server: .*not sent yet'; }
eventually 60 'an outage as long as a Lease lasts is told' begun
cluster start-apiserver >/dev/null
eventually 60 'the agent is online again' online $node
eventually 60 'and everything was reported' matches '^nothing' L $node outbox
same_story 'after the outage both tell the same story again'
like "$(L $node events enode | tail -n 1)" 'Normal +Online +edgenode/alpha +in contact with the server again after [0-9]+ s$' 'which ends with Online'
k get events.events.k8s.io -n "$ns" -o json |
	jq '[.items[] | {(.reason): {at: (.eventTime | sub("\\.[0-9]+"; "") | fromdate), sent: (.metadata.creationTimestamp | fromdate)}}] | add' >"$work/times"
is "$(jq '.Offline.at <= .Killed.at and .Killed.at <= .Online.at' "$work/times")" true 'each has its own time'
is "$(jq '.Offline.sent >= .Online.at and .Online.at - .Offline.at >= 4' "$work/times")" true 'whenever it was sent'
is "$(k get events -n "$ns" -o json | jq '[.items[] | select(.reason == "Offline" or .reason == "Online")] | length')" 2 'one pair for an outage'
agent_stop $node
L $node describe eapp web >/dev/null 2>"$work/err"
is $? 3 'without an agent: exit status'
like "$(<"$work/err")" 'no agent runs here' 'and it says so'
done_testing
