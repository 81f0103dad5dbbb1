#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The table that every kind on every port passes: edit by hand, delete a managed thing, spoil the status on the server, cut the
# link; each comes right by itself. A kind joins by a row and its functions.
# timeout: 900
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=gamma
ns=edge-gamma
files=$work/$node/files

# kind       port   functions
table='
edgeapp      exec   app
edgeconfig   exec   cfg
edgenode     exec   node
edgejob      exec   job
edgepolicy   exec   pol
edgeconfig   null   cfg
edgenode     null   node
edgepolicy   null   pol
'

# Each kind X: make_X VARIANT, edit_X and delete_X (do harm), right_X VARIANT (all is as it should be), object_X (KIND NAME on the server).

make_app() { app_yaml web "env: [{name: VARIANT, value: \"$1\"}]" 'replicas: 2' | put; }
app_pids() { pids $node web; }
right_app() {
	local all pid
	all=$(app_pids)
	[[ $(wc -w <<<"$all") == 2 ]] || return 1
	for pid in $all; do
		tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "VARIANT=$1" || return 1
		[[ ! -e $work/$node/harmed || $pid != "$(<"$work/$node/harmed")" ]] || return 1
	done
}
harm_one() { # SIGNAL
	local all
	all=$(app_pids)
	echo "${all%% *}" >"$work/$node/harmed"
	kill -"$1" "${all%% *}"
}
edit_app() { harm_one TERM; }
delete_app() { harm_one KILL; }
object_app() { echo eapp web; }

make_cfg() { file_yaml motd "$files/motd" "variant $1" 'deletionPolicy: Delete' | put; }
right_cfg() { file_is "$files/motd" "variant $1" && [[ $(stat -c %a "$files/motd") == 644 ]]; }
edit_cfg() { echo harmed >"$files/motd" && chmod 777 "$files/motd"; }
delete_cfg() { rm "$files/motd"; }
object_cfg() { echo ecfg motd; }

make_node() { k patch enode $node -n $ns --type=merge -p "{\"spec\":{\"description\":\"variant $1\"}}" >/dev/null; }
right_node() {
	[[ $(field enode $node '{.spec.description}') == "variant $1" && -n $(field enode $node '{.status.nodeInfo.bootID}') ]] &&
		k get lease $node -n $ns >/dev/null
}
edit_node() { k patch enode $node -n $ns --subresource=status --type=merge -p '{"status":{"nodeInfo":{"bootID":"harmed"}}}' >/dev/null; }
delete_node() { k delete lease $node -n $ns >/dev/null; }
object_node() { echo enode $node; }

# A run that goes on for ever: an attempt that is ended is one that failed, and the next one comes.
make_job() {
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeJob\nmetadata: {name: work}\nspec:\n' | cat - <(
		printf '  command: [/bin/sleep, "99999"]\n  env: [{name: VARIANT, value: "%s"}]\n  backoffLimit: 9\n  terminationGracePeriodSeconds: 1\n' "$1"
	) | put
}
job_pids() {
	local pid
	for pid in $(pgrep -f -x '/bin/sleep 99999'); do
		grep -zqs "=$work/$node/run/i/" "/proc/$pid/environ" && printf '%s\n' "$pid"
	done
	return 0
}
right_job() {
	local pid
	pid=$(job_pids)
	[[ $pid =~ ^[0-9]+$ ]] && grep -zqx "VARIANT=$1" "/proc/$pid/environ" &&
		[[ ! -e $work/$node/harmed || $pid != "$(<"$work/$node/harmed")" ]]
}
harm_job() { # SIGNAL
	job_pids >"$work/$node/harmed"
	kill -"$1" "$(<"$work/$node/harmed")"
}
edit_job() { harm_job TERM; }
delete_job() { harm_job KILL; }
object_job() { echo ejob work; }

# What it manages is in the agent and in the Lease.
make_pol() {
	printf '{"apiVersion":"edge.limpet.dev/v1alpha1","kind":"EdgePolicy","metadata":{"name":"times"},"spec":{"lease":{"duration":"4%ss"}}}' "$1" | put
}
right_pol() {
	[[ $(k get lease $node -n $ns -o 'jsonpath={.spec.leaseDurationSeconds}') == "4$1" ]] &&
		[[ $(field epol times '{.status.inForceGeneration}') == "$(field epol times '{.metadata.generation}')" ]]
}
edit_pol() { k patch epol times -n $ns --subresource=status --type=merge -p '{"status":{"inForceGeneration":99}}' >/dev/null; }
delete_pol() { k delete lease $node -n $ns >/dev/null; }
object_pol() { echo epol times; }

# Harm that is done on the server cannot be done while it is away.
on_server() { [[ $1 == node || $1 == pol ]]; }
reported() { # KIND NAME: the server's status speaks of the generation that is there now
	[[ $(field "$1" "$2" '{.metadata.generation}') == "$(field "$1" "$2" '{.status.observedGeneration}')" ]]
}
# On the null port nothing runs, but files and statuses are real.
row() { # KIND PORT FUNCTIONS
	local what="$1 on $2" f=$3 object
	read -ra object <<<"$(object_"$f")"
	rm -f "$work/$node/harmed"
	make_"$f" 1
	eventually 60 "$what: made" right_"$f" 1
	edit_"$f"
	eventually 60 "$what: edited by hand, comes right" right_"$f" 1
	delete_"$f"
	eventually 60 "$what: a managed thing deleted, comes back" right_"$f" 1
	k patch "${object[@]}" -n $ns --subresource=status --type=merge -p '{"status":{"conditions":null,"observedGeneration":null}}' >/dev/null
	eventually 60 "$what: the status wiped on the server, comes back" reported "${object[@]}"
	cluster stop-apiserver --kill >/dev/null
	eventually 60 "$what: cut off" offline $node
	on_server "$f" || edit_"$f"
	on_server "$f" || eventually 120 "$what: edited while cut off, comes right" right_"$f" 1
	cluster start-apiserver >/dev/null
	make_"$f" 2
	eventually 120 "$what: a change made around the cut arrives" right_"$f" 2
	eventually 60 "$what: and is reported" reported "${object[@]}"
}

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
port=''
while read -r kind on f; do
	[[ -n $kind ]] || continue
	if [[ $on != "$port" ]]; then
		[[ -z $port ]] || agent_leave_machine $node
		port=$on
		k delete namespace $ns --ignore-not-found >/dev/null
		rm -rf "${work:?}/$node"
		agent_new $node port.name="$on" sync.backoff=100ms
		"$limpetctl" node rm $node --yes >/dev/null 2>&1
		agent_join $node >/dev/null || bail_out "join"
		agent_start $node
		eventually 60 "port $on: online" online $node
	fi
	row "$kind" "$on" "$f" </dev/null
done <<<"$table"

done_testing
