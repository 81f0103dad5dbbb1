#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# EdgeConfig beyond single files, on a real API server: several files as one change, directories, templates over labels of the node, an app
# that is told of a change, and a change that loses the server and is put back.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=theta
ns=edge-theta
files=$work/$node/files

# two NAME A B [YAML-LINE...]: two files of one object.
two() {
	local name=$1 a=$2 b=$3
	shift 3
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: %s}\nspec:\n  files: [{path: %s, content: "%s"}, {path: %s, content: "%s"}]\n' \
		"$name" "$files/$name.a" "$a" "$files/$name.b" "$b"
	((! $#)) || printf '  %s\n' "$@"
}
both_are() { file_is "$files/$1.a" "$2" && file_is "$files/$1.b" "$3"; }
# The agent's own word, for when the server is away.
says() { [[ $(local_field $node ecfg "$1" '.status.conditions[] | select(.type == "Ready") | .reason') == "$2" ]]; }
# Pids: all of them new, as many as there were.
all_new() { # APP PIDS-BEFORE
	local now pid
	now=$(pids $node "$1")
	[[ $(wc -w <<<"$now") == $(wc -w <<<"$2") ]] || return 1
	for pid in $now; do
		[[ " $2 " != *" $pid "* ]] || return 1
	done
}

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node sync.backoff=100ms
agent_join $node >/dev/null || bail_out "join"
# Nothing can be renamed over a file that is a mount point: the second file of a pair cannot be replaced.
printf theirs >"$files/pair.b"
printf theirs >"$files/pair.b.mounted"
mount --bind "$files/pair.b.mounted" "$files/pair.b" || bail_out "a file cannot be mounted over"
at_exit sh -c "umount -l '$files/pair.b' 2>/dev/null"
agent_start $node
eventually 30 'online' online $node

two pair one one | put
eventually 30 'the second file cannot be replaced' equals ApplyFailed reason ecfg pair Ready
ok 'so the first is not there either' test ! -e "$files/pair.a"
like "$(message ecfg pair Ready)" 'nothing was changed: .*pair\.b' 'which is said, with the path'
umount "$files/pair.b" || bail_out "umount"
eventually 120 'when it can be replaced both are' both_are pair one one
eventually 30 'and ready' ready ecfg pair

file_yaml label "$files/label" "\${node.name} in \${node.labels.hall}" | sed 's/content:/template: true, content:/' | put
eventually 30 'a template over a label that the node does not have is not accepted' equals FactUnknown reason ecfg label Accepted
like "$(message ecfg label Accepted)" 'files\[0\]\.content: line 1, column 17: .*node\.labels\.hall' 'with its place'
k label enode $node -n $ns hall=three >/dev/null
eventually 30 'the label is there: written' file_is "$files/label" 'theta in three'
k label enode $node -n $ns --overwrite hall=four >/dev/null
eventually 30 'another value: written anew' file_is "$files/label" 'theta in four'
eventually 30 'and ready' ready ecfg label

printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: tree}\nspec:
  directories: [{path: %s, mode: "2770"}]\n  files: [{path: %s, content: in}]\n' "$files/tree/d" "$files/tree/d/f" | put
eventually 30 'a file in a directory of the same object' file_is "$files/tree/d/f" in
is "$(stat -c %a "$files/tree/d")" 2770 'the directory with its mode'
rm -r "$files/tree/d"
eventually 30 'removed with all that is in it: made again' file_is "$files/tree/d/f" in
is "$(stat -c %a "$files/tree/d")" 2770 'with its mode'
like "$(k get ecfg tree -n $ns -o jsonpath='{.status.directories} {.status.files}')" '^1 1$' 'counted apart'
touch "$files/tree/d/theirs"
k delete ecfg tree -n $ns >/dev/null
eventually 30 'deleted: the file goes' test ! -e "$files/tree/d/f"
ok 'the directory does not, for something of somebody else is in it' test -e "$files/tree/d/theirs"
eventually 30 'which is told' matches 'tree/d is not empty' k get events.events.k8s.io -n $ns -o 'jsonpath={.items[*].note}'

trap_yaml() {
	app_yaml web 'replicas: 2' 'update: {minReadySeconds: 0}' |
		sed "s#echo started; exec sleep 100000#trap 'echo x >> $files/heard' USR1; while :; do sleep 0.1; done#"
}
trap_yaml | put
eventually 60 'an app of two' ready eapp web
before=$(pids $node web)
file_yaml told "$files/told" one 'onChange: {app: {name: web, signal: USR1}}' | put
heard() { [[ -e $files/heard && $(wc -l <"$files/heard") == 2 ]]; }
eventually 30 'both instances heard the signal' heard
is "$(pids $node web)" "$before" 'and run on'
eventually 30 'the config is ready' ready ecfg told
file_yaml told "$files/told" two 'onChange: {app: {name: web, restart: true}}' | put
eventually 60 'a restart: both instances are new' all_new web "$before"
eventually 30 'the config is ready' ready ecfg told
file_yaml lost "$files/lost" one 'onChange: {app: {name: nobody, restart: true}}' | put
eventually 30 'an app that is not there' equals AppNotFound reason ecfg lost Ready

two net good good 'confirmSeconds: 10' | put
eventually 30 'a change on trial that loses nothing: stays' ready ecfg net
ok 'both files' both_are net good good
# The change itself takes the server away, as one of the network would.
stop="[bash, $top/test/cluster/cluster, stop-apiserver, $CLUSTER_DIR, --kill]"
two net bad good 'confirmSeconds: 10' "onChange: {command: $stop}" | put
eventually 30 'one that loses the server: made' both_are net bad good
eventually 30 'and on trial' says net OnTrial
agent_kill $node
agent_start $node
eventually 60 'put back, also by an agent that came later' both_are net good good
eventually 30 'which is said' says net RolledBack
cluster start-apiserver >/dev/null
eventually 60 'the server is back: it hears of it' equals RolledBack reason ecfg net Ready
ok 'the change is not tried again' both_are net good good
two net better good 'confirmSeconds: 10' | put
eventually 60 'another spec is' both_are net better good
eventually 60 'and confirmed' ready ecfg net

done_testing
