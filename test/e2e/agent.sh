# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# agent.sh: agents for end-to-end tests, sourced after test/cluster/lib.sh. Each agent NAME lives in $work/NAME with its own state, run
# and log directories and may write below $work/NAME/files and nowhere else.

top=$(cd "$here/../.." && pwd)
limpet=${LIMPET:-$top/build/limpet}
limpetctl=${LIMPETCTL:-$top/build/limpetctl}
work=$(mktemp -d /tmp/limpet-e2e.XXXXXX)
declare -A agent_pid=()
agent_under=() # COMMAND... that an agent is started under; it must exec

e2e_cleanup() {
	local name
	for name in "${!agent_pid[@]}"; do
		agent_leave_machine "$name"
	done
	if ((tap_failures > 0)) || [[ -n ${KEEP_CLUSTER:-} ]]; then
		diag "state and logs of the agents: $work"
	else
		rm -rf "$work"
	fi
}
at_exit e2e_cleanup

# conf NAME: the options that make limpet use the agent's own directories.
conf() {
	printf '%s\n' --config "$work/$1/limpet.ini"
}

# agent_new NAME [INI-LINE...]: directories and configuration. Lines are "section.key=value".
agent_new() {
	local name=$1 line
	shift
	mkdir -p "$work/$name/files"
	{
		printf '[paths]\nstate = %s\nrun = %s\nlog = %s\n' "$work/$name/state" "$work/$name/run" "$work/$name/log"
		printf '[guard]\npaths = %s\n' "$work/$name/files"
		printf '[log]\nlevel = debug\nformat = json\n'
		for line in "$@"; do
			printf '[%s]\n%s = %s\n' "${line%%.*}" "$(key_of "$line")" "${line#*=}"
		done
	} >"$work/$name/limpet.ini"
}

key_of() {
	local rest=${1#*.}
	printf '%s' "${rest%%=*}"
}

# L NAME ARGUMENT...: limpet's command line for that agent.
L() {
	local name=$1
	shift
	"$limpet" --config "$work/$name/limpet.ini" "$@"
}

# free_port: one that nobody has now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# server_url: of the test's cluster.
server_url() { k config view --minify --raw -o 'jsonpath={.clusters[0].cluster.server}'; }

# agent_join NAME: `limpetctl node add`, and what it prints, run as it is printed.
agent_join() {
	local name=$1 script=$work/$1/join.sh
	(umask 077 && "$limpetctl" node add "$name" --server "$(server_url)" --force >"$script") || return
	sed -i "s#limpet join#\"$limpet\" --config \"$work/$name/limpet.ini\" join#" "$script"
	bash "$script"
}

# agent_start NAME: in the background; ready when its control socket answers.
agent_start() {
	local name=$1
	"${agent_under[@]}" "$limpet" --config "$work/$name/limpet.ini" run >>"$work/$name/agent.log" 2>&1 </dev/null &
	agent_pid[$name]=$!
	wait_for 30 "agent $name answers on its control socket" agent_answers "$name"
}

agent_answers() { L "$1" status >/dev/null 2>&1 || (($? == 1)); }

# agent_stop NAME / agent_kill NAME: orderly, or as a crash would. Workloads stay.
agent_stop() { agent_end "$1" TERM; }
agent_kill() { agent_end "$1" KILL; }
agent_end() {
	local pid=${agent_pid[$1]:-}
	[[ -n $pid ]] || return 0
	kill -"$2" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	unset "agent_pid[$1]"
}

# agent_leave_machine NAME: ends the agent and every instance it started.
agent_leave_machine() {
	local name=$1 state pid
	agent_end "$name" TERM
	for state in "$work/$name"/run/i/*/; do
		[[ -d $state ]] || continue
		pid=$(shim_pid "$(basename "$state")")
		[[ -z $pid ]] || kill -TERM "$pid" 2>/dev/null
	done
	wait_for 20 "instances of $name are gone" no_instances "$name" || true
}

# shim_pid UID: of the supervisor of an instance.
shim_pid() { pgrep -f -x ".* shim $1" | head -n 1; }

no_instances() {
	local state
	for state in "$work/$1"/run/i/*/; do
		[[ ! -d $state ]] || [[ -z $(shim_pid "$(basename "$state")") ]] || return 1
	done
}

ns_of() { printf 'edge-%s' "${1//./-}"; }

# cond KIND NAME TYPE: status of a condition on the server, of the agent $node.
cond() { k get "$1" "$2" -n "$(ns_of "$node")" -o "jsonpath={.status.conditions[?(@.type=='$3')].status}"; }
reason() { k get "$1" "$2" -n "$(ns_of "$node")" -o "jsonpath={.status.conditions[?(@.type=='$3')].reason}"; }
message() { k get "$1" "$2" -n "$(ns_of "$node")" -o "jsonpath={.status.conditions[?(@.type=='$3')].message}"; }
field() { k get "$1" "$2" -n "$(ns_of "$node")" -o "jsonpath=$3"; }
equals() { # WANTED COMMAND...
	local wanted=$1
	shift
	[[ $("$@") == "$wanted" ]]
}
matches() { # REGEX COMMAND...
	local wanted=$1
	shift
	[[ $("$@") =~ $wanted ]]
}
# ready KIND NAME: Ready is True, for the generation that the object has now.
ready() {
	local got
	got=$(k get "$1" "$2" -n "$(ns_of "$node")" -o "jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=='Ready')].status}")
	local gen obs status
	read -r gen obs status <<<"$got"
	[[ $status == True && $gen == "$obs" ]]
}
# local_field NAME KIND OBJECT FILTER: what the agent itself says of an object, through jq.
local_field() { L "$1" get "$2" "$3" -o json | jq -r "$4"; }
# pids NAME APP: of the running instances, as the agent says.
pids() { local_field "$1" edgeapp "$2" '[.status.instances[]? | select(.pid > 0) | .pid] | join(" ")'; }
# put: kubectl apply of standard input in the node's namespace.
put() { k apply -n "$(ns_of "$node")" -f - >/dev/null; }
file_is() { [[ -e $1 && $(<"$1") == "$2" ]]; }
online() { L "$1" status >/dev/null 2>&1; }
offline() { [[ $(L "$1" status -o json | jq -r .link.state) == Offline ]]; }

# app NAME SECONDS [YAML-LINE...]: an EdgeApp that says its name and then sleeps.
app_yaml() {
	local name=$1
	shift
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n  command: ["/bin/sh", "-c", "echo started; exec sleep 100000"]\n  terminationGracePeriodSeconds: 1\n' "$name"
	((! $#)) || printf '  %s\n' "$@"
}
# file_yaml NAME PATH CONTENT [YAML-LINE...]
file_yaml() {
	local name=$1 path=$2 content=$3
	shift 3
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: %s}\nspec:\n  files: [{path: %s, content: "%s"}]\n' "$name" "$path" "$content"
	((! $#)) || printf '  %s\n' "$@"
}

# agent_door NAME: a door (tamper.py) between the agent and the cluster; the agent's configuration goes through it. After agent_join.
agent_door() {
	local name=$1 dir=$work/$1/door
	mkdir -p "$dir"
	: >"$dir/log"
	python3 "$here/tamper.py" "$KUBECONFIG" "$dir" >"$dir/err" 2>&1 &
	at_exit kill $!
	wait_for 20 "the door of $name is open" test -s "$dir/port" || bail_out "no door"
	(umask 077 && jq -r .token "$work/$name/state/identity.json" >"$dir/token") || bail_out "no token"
	{
		printf '[server]\nurl = http://127.0.0.1:%s\ntokenFile = %s\n' "$(<"$dir/port")" "$dir/token"
		printf '[node]\nname = %s\nnamespace = %s\n' "$name" "$(ns_of "$name")"
	} >>"$work/$name/limpet.ini"
}
# rules NAME JSON: what the door does from now on.
rules() {
	printf '%s' "$2" >"$work/$1/door/rules.new"
	mv "$work/$1/door/rules.new" "$work/$1/door/rules"
}
not_online() { ! L "$1" status >/dev/null 2>&1; }
