#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh: the whole story on one machine, told by the real programs; run by `make demo`. It is a test as well: a promise that is not
# kept ends it with an exit code other than 0.
#
#   KEEP=1 make demo            leaves everything running to look around in
#   test/demo/demo.sh stop      ends what KEEP=1 left
#
# Everything is in build/demo. The node reaches the API server through relay.py, so that its network can be cut while kubectl still works.
set -u -o pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
limpet=$top/build/limpet
limpetctl=$top/build/limpetctl
demo=$top/build/demo
node=edge-1
ns=edge-edge-1
cd "$top" || exit

# ----------------------------------------------------------------------------------------------------------------- words

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
else
	bold='' dim='' green='' red='' plain=''
fi

chapter() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '  %s\n' "$*"; }
kept() { printf '  %s✓%s %s\n' "$green" "$plain" "$*"; }
broken() { # PROMISE [DETAIL]
	printf '  %s✗ %s%s\n' "$red" "$1" "$plain"
	(($# < 2)) || printf '%s\n' "${@:2}" | sed 's/^/      /'
	printf '\nThe demo ends here: a promise was not kept. The agent said last (%s):\n' "${demo#"$top"/}/agent.log"
	tail -n 8 "$demo/agent.log" 2>/dev/null | cut -c 1-300 | sed 's/^/      /'
	exit 1
}

# show COMMAND...: the command as one would type it, then what it prints. It must succeed.
show() {
	local shown="$*" status
	shown=${shown//"$limpetctl"/limpetctl}
	shown=${shown//"$top/"/}
	printf '  %s$ %s%s\n' "$dim" "$shown" "$plain"
	"$@" 2>&1 | sed 's/^/  | /'
	status=${PIPESTATUS[0]}
	((status == 0)) || broken "$shown" "exit status $status"
}

utc() { date -u +%FT%T.%6NZ; } # as eventTime; text that sorts
now_ms() { printf '%d' "$((${EPOCHREALTIME/./} / 1000))"; }
seconds() { printf '%d.%03d s' $(($1 / 1000)) $(($1 % 1000)); } # MILLISECONDS

# within SECONDS PROMISE COMMAND...: polls; tells how long it took since mark().
mark() { began=$(now_ms); }
within() {
	local limit=$1 promise=$2 output
	shift 2
	until output=$("$@" 2>&1); do
		(($(now_ms) - began < limit * 1000)) || broken "$promise" "not within $limit s: $*" "$output"
		sleep 0.01
	done
	kept "$promise, after $(seconds $(($(now_ms) - began)))"
}
holds() { # PROMISE COMMAND...
	local promise=$1 output
	shift
	output=$("$@" 2>&1) || broken "$promise" "$*" "$output"
	kept "$promise"
}

# -------------------------------------------------------------------------------------------------------------- processes

# Each is known by pid and start time, so that a pid which belongs to somebody else by now is never touched.
start_time() { local s; { read -r s <"/proc/$1/stat"; } 2>/dev/null && s=${s##*) } && awk '$1 != "Z" { print $20 }' <<<"$s"; }
is_process() { [[ $1 =~ ^[0-9]+$ && -n $2 && $(start_time "$1") == "$2" ]]; }

launch() { # NAME COMMAND...
	local name=$1
	shift
	setsid -- "$@" </dev/null >>"$demo/$name.log" 2>&1 &
	printf '%s %s\n' $! "$(start_time $!)" >"$demo/$name.pid"
	disown
}

# end PID START SIGNAL: returns when the process is gone.
end() {
	local deadline
	is_process "$1" "$2" || return 0
	kill -s "$3" "$1"
	deadline=$(($(now_ms) + 15000))
	while is_process "$1" "$2"; do
		(($(now_ms) < deadline)) || kill -s KILL "$1"
		sleep 0.02
	done
}
finish() { # NAME SIGNAL
	local pid='' start=''
	{ read -r pid start <"$demo/$1.pid"; } 2>/dev/null
	rm -f "$demo/$1.pid"
	end "$pid" "$start" "$2"
}

# Workloads outlive the agent by design, so a demo that ends must ask for their end: by `limpet leave`, else one by one when there is no
# agent any more that would start them again.
stop_node() {
	local state pid start
	L leave --yes >/dev/null 2>&1
	finish agent TERM
	for state in "$demo"/node/run/i/*/state; do
		[[ -f $state ]] || continue
		read -r _ pid start <<<"$(grep '^shim ' "$state")"
		end "$pid" "$start" TERM
	done
}

stop_all() {
	[[ -d $demo ]] || return 0
	stop_node
	finish relay TERM
	[[ ! -d $demo/cluster ]] || test/cluster/cluster wipe "$demo/cluster" >/dev/null 2>&1
}

leave() {
	local status=$?
	trap - EXIT
	if [[ -n ${KEEP:-} ]]; then
		look_around
		exit $status
	fi
	stop_all
	((status == 0)) && printf '\n%sEverything was stopped and removed. KEEP=1 make demo leaves it running to look around in.%s\n' "$dim" "$plain"
	exit $status
}

look_around() {
	chapter 'Look around'
	cat <<-END
		  export KUBECONFIG=$demo/cluster/kubeconfig PATH=$demo/cluster/bin:$top/build:\$PATH LIMPET_CONFIG=$demo/node/limpet.ini
		  kubectl get edge -n $ns                 what the server knows
		  kubectl explain edgeapp.spec                    what can be written
		  kubectl edit edgeconfig page -n $ns     change something, then: curl http://127.0.0.1:$port_of_server/
		  limpet status; limpet get; limpet logs web -f; limpet outbox --all
		  test/demo/demo.sh stop                          ends all of it
	END
}

# ----------------------------------------------------------------------------------------------------------- node, objects

k() { "$demo/cluster/bin/kubectl" -n $ns "$@"; }
kubectl() { k "$@"; } # what `show` prints is what one types; the namespace is set in the kubeconfig's place
L() { "$limpet" --config "$demo/node/limpet.ini" "$@"; }
limpet() { L "$@"; }

# free_port: below the ports that the kernel gives to clients.
free_port() {
	local port
	while port=$((20000 + RANDOM % 12000)); connects "$port"; do :; done
	printf '%d' "$port"
}

write_objects() {
	cat >"$demo/web.yaml" <<-END
		apiVersion: edge.limpet.dev/v1alpha1
		kind: EdgeApp
		metadata:
		  name: web
		spec:
		  command: [python3, -m, http.server, --bind, 127.0.0.1, --directory, $demo/node/files, \$(PORT)]
		  env:
		  - name: PORT
		    value: "$port_old"
		  terminationGracePeriodSeconds: 2
		  readinessProbe:
		    httpGet: {port: $port_old}
		    periodSeconds: 1
	END
	cat >"$demo/page.yaml" <<-END
		---
		apiVersion: edge.limpet.dev/v1alpha1
		kind: EdgeConfig
		metadata:
		  name: page
		spec:
		  files:
		  - path: $demo/node/files/index.html
		    content: |
		      Hello from the edge.
	END
	sed "s/$port_old/$port_new/" "$demo/web.yaml" >"$demo/web-2.yaml"
	sed 's/Hello from the edge/Hello again, changed while you were away/' "$demo/page.yaml" >"$demo/page-2.yaml"
}

write_config() {
	mkdir -p "$demo/node/files"
	cat >"$demo/node/limpet.ini" <<-END
		[paths]
		state = $demo/node/state
		run = $demo/node/run
		log = $demo/node/log
		[guard]
		paths = $demo/node/files
	END
}

page() { # PORT: what the web server answers
	local line='' text=''
	exec 3<>"/dev/tcp/127.0.0.1/$1" || return
	printf 'GET / HTTP/1.0\r\n\r\n' >&3
	while IFS= read -r line <&3; do text=$line; done
	exec 3>&-
	printf '%s' "$text"
} 2>/dev/null
page_says() { [[ $(page "$1") == *"$2"* ]]; } # PORT TEXT
file_says() { [[ $(<"$demo/node/files/index.html") == *"$1"* ]] 2>/dev/null; }
pid_of_web() { L get edgeapp web -o json | jq -r '[.status.instances[]? | select(.pid > 0) | .pid][0] // empty'; }
new_pid() { local now; now=$(pid_of_web) && [[ -n $now && $now != "$1" ]]; }
same_pid() { [[ $(pid_of_web) == "$1" ]]; }
is_ready() { # KIND NAME: for the generation that it has now
	[[ $(k get "$1" "$2" -o 'jsonpath={.metadata.generation}={.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status}') =~ ^([0-9]+)=([0-9]+)\ True$ ]] &&
		[[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]]
}
is_online() { L status >/dev/null; }
is_offline() { [[ $(L status -o json | jq -r .link.state) == Offline ]]; }
node_is() { "$limpetctl" node list | grep -q "^$node .* $1 "; }
has_reported() { [[ $(L outbox) == nothing* ]]; }
answers() { L status >/dev/null 2>&1 || (($? == 1)); }
# connects PORT
connects() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
start_relay() {
	local i
	launch relay python3 test/demo/relay.py "$port_relay" "$port_api"
	for ((i = 0; i < 1500; i++)); do
		! connects "$port_relay" || return 0
		sleep 0.02
	done
	broken 'the cable carries' "$(<"$demo/relay.log")"
}
start_agent() { launch agent "$limpet" --config "$demo/node/limpet.ini" run; }

# --------------------------------------------------------------------------------------------------------------- the story

begin() {
	chapter '1. A real Kubernetes API server, and a node'
	local how=()
	[[ -n ${KEEP:-} ]] || how=(--owner $$)
	mark
	test/cluster/cluster up "$demo/cluster" "${how[@]}" >"$demo/cluster.log" 2>&1 || broken 'the cluster starts' "$(tail -n 5 "$demo/cluster.log")"
	export KUBECONFIG=$demo/cluster/kubeconfig KUBECACHEDIR=$demo/cluster/cache KUBERC=off
	port_api=$(<"$demo/cluster/port")
	kept "kube-apiserver $(k version -o json | jq -r .serverVersion.gitVersion) is up, after $(seconds $(($(now_ms) - began)))"
	say 'The cluster learns the kinds EdgeApp, EdgeConfig and EdgeNode:'
	show "$limpetctl" install
	say "A namespace and an account for the node; the join command that this prints is piped to the node:"
	write_config
	start_relay
	printf '  %s$ limpetctl node add %s --server https://127.0.0.1:%d --force | sh%s\n' "$dim" $node "$port_relay" "$plain"
	"$limpetctl" node add $node --server "https://127.0.0.1:$port_relay" --force 2>"$demo/add.log" |
		LIMPET_CONFIG=$demo/node/limpet.ini PATH=$top/build:$PATH sh 2>&1 | sed 's/^/  | /'
	[[ ${PIPESTATUS[*]} == '0 0 0' ]] || broken 'the node joins' "$(<"$demo/add.log")"
	say 'The agent starts:'
	start_agent
	mark
	within 30 'it is online' is_online
	within 60 'and the server sees the node as READY' node_is True
	show "$limpetctl" node list
}

apply() {
	chapter '2. kubectl apply: a web server (EdgeApp) and the page it serves (EdgeConfig)'
	show cat "$demo/web.yaml" "$demo/page.yaml"
	mark
	k apply -f "$demo/web.yaml" -f "$demo/page.yaml" >/dev/null || broken 'kubectl apply'
	within 30 'the page is served' page_says "$port_old" 'Hello from the edge'
	within 30 'the EdgeApp is Ready' is_ready edgeapp web
	within 30 'the EdgeConfig is Ready' is_ready edgeconfig page
	show kubectl get edge
	show limpet get
}

heal() {
	local pid
	chapter '3. What breaks on the machine is repaired by the machine'
	pid=$(pid_of_web)
	say "Somebody kills the web server: kill -9 $pid"
	mark
	kill -9 "$pid"
	within 30 'a new process runs' new_pid "$pid"
	within 30 'and serves the page again' page_says "$port_old" 'Hello from the edge'
	say 'Somebody edits the file: echo defaced >index.html'
	echo defaced >"$demo/node/files/index.html"
	mark
	within 30 'the file is as it should be' file_says 'Hello from the edge'
	mark
	within 30 'and all of this is reported' has_reported
}

go_away() {
	chapter '4. The network goes away'
	printf '  %sThe cable between node and server is pulled; the server itself is up, kubectl reaches it.%s\n' "$dim" "$plain"
	cut_at=$(utc)
	mark
	finish relay TERM
	within 60 'the agent has noticed' is_offline
	say 'Meanwhile, on the server, both specs are changed: another port, another page.'
	show kubectl apply -f "$demo/web-2.yaml" -f "$demo/page-2.yaml"
	say 'The node cannot know. It goes on with what it knows, and looks after it as before:'
	holds 'the old page is served, on the old port' page_says "$port_old" 'Hello from the edge'
}

offline() {
	local pid again
	pid=$(pid_of_web)
	say "The web server crashes: kill -SEGV $pid. A second crash within ten minutes waits 10 s, as in Kubernetes."
	mark
	kill -SEGV "$pid"
	within 60 'it was started again' new_pid "$pid"
	within 30 'and serves' page_says "$port_old" 'Hello from the edge'
	say 'The file is deleted:'
	mark
	rm "$demo/node/files/index.html"
	within 30 'it was written again' file_says 'Hello from the edge'
	again=$(pid_of_web)
	say 'Even the agent dies (kill -9) and starts again, without a server:'
	finish agent KILL
	holds "the web server did not notice: pid $again serves" page_says "$port_old" 'Hello from the edge'
	start_agent
	mark
	within 30 'a new agent is there' answers
	within 30 "it has adopted pid $again, with the spec that it last knew" same_pid "$again"
	holds 'and it still is offline' is_offline
	say 'What the server will have to hear, oldest first:'
	show limpet outbox
	say 'What was acknowledged shortly before the agent died is told once more; the server knows it by its name.'
	holds 'the server does not know it yet' no_event_since_cut
}

# Everything that the server holds was sent before the cut. Its own times are whole seconds.
events_json() { k get events.events.k8s.io -o json; }
no_event_since_cut() {
	events_json | jq -e --arg cut "$cut_at" '[.items[] | select(.metadata.creationTimestamp[:19] > $cut[:19])] == []' >/dev/null
}

restore() {
	chapter '5. The network is back'
	back_at=$(utc)
	mark
	start_relay
	within 120 'the agent is online by itself' is_online
	within 60 'the page that was changed meanwhile is served, on the port that was changed meanwhile' page_says "$port_new" 'changed while you were away'
	within 60 'the EdgeApp is Ready' is_ready edgeapp web
	within 60 'the EdgeConfig is Ready' is_ready edgeconfig page
	within 60 'everything was reported' has_reported
	show kubectl get edge
}

timeline() {
	chapter '6. The timeline: what happened, when it happened, when the server heard of it'
	say "The cable was out from ${cut_at:11:8} to ${back_at:11:8}. What is marked » happened then, and was reported afterwards:"
	local columns=HAPPENED:.eventTime,REPORTED:.metadata.creationTimestamp,OBJECT:.regarding.name,REASON:.reason,NOTE:.note
	printf '  %s$ kubectl get events.events.k8s.io --sort-by=.eventTime -o custom-columns=%s%s\n' "$dim" "$columns" "$plain"
	k get events.events.k8s.io --sort-by=.eventTime -o "custom-columns=$columns" | cut -c 1-150 |
		awk -v cut="$cut_at" -v back="$back_at" '{ print ($1 > cut && $1 < back && $2 >= substr(back, 1, 19) ? "  » " : "  | ") $0 }'
	holds 'the crash and the repairs made while away carry the time when they happened' reported_late
	holds 'and nothing is there twice' no_twins
	say 'The conditions carry it as well:'
	k get edgeapp,edgeconfig -o json | jq -r '.items[] | "\(.kind)/\(.metadata.name)" as $o | .status.conditions[] |
		[$o, .type, .status, .lastTransitionTime, .reason] | @tsv' | awk -F '\t' '{ printf "  | %-18s %-12s %-6s since %s  %s\n", $1, $2, $3, $4, $5 }'
}

no_twins() {
	events_json | jq -e '[.items[] | [.regarding.name, .reason, .eventTime]] | length == (unique | length)' >/dev/null
}

# One event of the app and one of the file happened while away and were created on the server after the return.
reported_late() {
	events_json | jq -e --arg cut "$cut_at" --arg back "$back_at" '
		[.items[] | select(.eventTime > $cut and .eventTime < $back and .metadata.creationTimestamp[:19] >= $back[:19]) | .regarding.kind] |
		index("EdgeApp") != null and index("EdgeConfig") != null' >/dev/null
}

main() {
	[[ -x $limpet && -x $limpetctl ]] || { echo 'demo: build the programs first (make)' >&2; exit 2; }
	stop_all
	rm -rf "$demo"
	mkdir -p "$demo" || exit
	port_old=$(free_port) port_new=$(free_port) port_relay=$(free_port)
	port_of_server=$port_new
	trap leave EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	write_objects
	begin
	apply
	heal
	go_away
	offline
	restore
	timeline
	chapter 'Every promise was kept.'
}

case ${1:-} in
'') main ;;
stop) stop_all ;;
*) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
