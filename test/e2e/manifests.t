#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The manifest directory: a node without any server, `limpet apply`, `delete` and `diff`, editors, mistakes, a directory that is not mounted;
# then a server whose object of the same name waits in the shadow.
# timeout: 400
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=nu
ns=edge-nu
files=$work/$node/files
dir=$work/$node/manifests
agent_new $node "manifests.dir=$dir" sync.backoff=100ms sync.backoffCap=1s

config() { # NAME CONTENT
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata:\n  name: %s\nspec:\n  files:\n  - path: %s/%s\n    content: %s\n' \
		"$1" "$files" "$1" "$2"
}
text() { cat "$files/$1" 2>/dev/null; }
there() { [[ -e $files/$1 ]]; }
gone() { ! there "$1"; }
status_says() { [[ $(L $node status) == *"$1"* ]]; }
problem() { L $node status -o json | jq -r '.manifests.problem // ""'; }
jq_outbox() { L $node status -o json | jq '.outbox.statusPending + .outbox.eventsPending'; }

# --- without a server, and without an agent
config a one >"$work/a.yaml"
is "$(L $node diff -f "$work/a.yaml" | grep -c '^+ *content: one$')" 1 'diff shows what apply would add'
L $node diff -f "$work/a.yaml" >/dev/null
is $? 1 'and says by its exit code that there is something'
is "$(L $node apply -f "$work/a.yaml")" 'edgeconfig.edge.limpet.dev/a created' 'apply creates'
is "$(L $node apply -f - <"$work/a.yaml")" 'edgeconfig.edge.limpet.dev/a unchanged' 'once'
ok 'diff finds nothing any more' L $node diff -f "$work/a.yaml"
is "$(stat -c %a "$dir/edgeconfig-a.yaml")" 600 'what is in it is for root alone'
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: w}\nspec: {}\n' >"$work/bad.yaml"
out=$(L $node apply -f "$work/a.yaml" -f "$work/bad.yaml" 2>&1)
is $? 1 'what is no app is refused'
like "$out" 'bad.yaml: line 4: EdgeApp w: spec.command' "with file, line and field: $out"
L $node diff -f "$work/bad.yaml" >/dev/null 2>&1
is $? 2 'diff has a code of its own for that'

{ config a one && printf '  deletionPolcy: Keep\n'; } >"$work/typo.yaml"
out=$(L $node apply -f "$work/typo.yaml" 2>&1)
is $? 1 'a typo is refused'
like "$out" 'typo.yaml: line 9: EdgeConfig a: unknown field spec.deletionPolcy$' "with its line: $out"

agent_start $node
eventually 30 'an agent that never saw a server makes it true' equals one text a
eventually 30 'and reports it here' equals True local_field $node edgeconfig a '.status.conditions[] | select(.type == "Ready") | .status'
like "$(L $node status)" 'namespace edge-local' 'in a namespace of its own'
is "$(L $node outbox)" 'nothing: the server has heard everything' 'nothing waits for a server'

# --- what people do with files
config a two >"$work/a.yaml"
is "$(L $node apply -f "$work/a.yaml")" 'edgeconfig.edge.limpet.dev/a configured' 'apply changes'
eventually 30 'and the running agent follows' equals two text a
{ config b one && printf -- '---\n' && config c one; } >"$dir/.more.yaml.swp"
mv "$dir/.more.yaml.swp" "$dir/more.yaml"
eventually 30 'a file that is moved into the directory counts' there c
L $node delete edgeconfig c >"$work/out" 2>&1
like "$(cat "$work/out")" 'more.yaml together with other objects' 'what stands among others is left to its owner'
mv "$dir/more.yaml" "$dir/more.yaml~"
sleep 0.3
{ config b two && printf -- '---\n' && config c two; } >"$dir/more.yaml"
rm "$dir/more.yaml~"
eventually 30 'an editor that keeps a copy, and writes anew' equals two text b
ok 'removes nothing by that' [ "$(grep -c '"event":"gone"' "$work/$node/agent.log")" = 0 ]
printf '%s\n' "$(head -c 150 "$dir/more.yaml")" '   half: [' >"$dir/more.yaml"
eventually 30 'half a file is named with its line' matches '^more.yaml: line [0-9]+, column' problem
is "$(text b) $(text c)" 'two two' 'and left alone'
config b three >"$dir/more.yaml"
eventually 30 'right again it counts' equals three text b
eventually 30 'and an object that is in it no more is undone' gone c
is "$(problem)" '' 'all is well'
config b elsewhere >"$dir/aaa.yaml"
eventually 30 'of two files with one object the first by name has it' equals elsewhere text b
like "$(problem)" 'more.yaml: line 1: EdgeConfig b is defined by aaa.yaml' 'the other is named'
rm "$dir/aaa.yaml"
eventually 30 'until that one is gone' equals three text b

# --- a field that this version does not know
{ config b four && printf '  deletionPolcy: Keep\n'; } >"$dir/more.yaml"
eventually 30 'it counts without the field' equals four text b
eventually 30 'which is named' equals 'more.yaml: line 9: EdgeConfig b: unknown field spec.deletionPolcy' problem
of_check() { L $node check -o json 2>/dev/null | jq -r ".checks[] | select(.name == \"manifests\") | .$1"; }
is "$(of_check status)" warn 'limpet check warns'
like "$(of_check seen)" 'unknown field spec.deletionPolcy' 'and says where'
config b three >"$dir/more.yaml"
eventually 30 'without it' equals three text b
is "$(problem)$(of_check status)" ok 'all is well'

# --- the directory is not there
agent_kill $node
mv "$dir" "$dir.away"
mkdir "$dir"
agent_start $node
eventually 30 'an empty directory in its place is doubted' status_says 'not mounted'
is "$(text a) $(text b)" 'two three' 'and nothing is removed'
rmdir "$dir"
mv "$dir.away" "$dir"
config a four >"$work/a.yaml"
L $node apply -f "$work/a.yaml" >/dev/null
L $node resync >/dev/null
eventually 30 'back in its place it counts' equals four text a
is "$(L $node delete edgeconfig a)" 'edgeconfig.edge.limpet.dev "a" deleted' 'delete removes'
eventually 30 'and the machine follows' gone a
is "$(L $node delete edgeconfig a 2>&1)" "limpet: edgeconfigs \"a\" not found in $dir" 'a second time there is nothing'

# --- the example
sed "s#/etc/limpet-clock.conf#$files/clock.conf#" "$top/examples/manifests/clock.yaml" >"$work/clock.yaml"
is "$(L $node apply -f "$work/clock.yaml" | wc -l)" 2 'the example'
eventually 30 'runs' equals True local_field $node edgeapp clock '.status.conditions[] | select(.type == "Ready") | .status'
is "$(L $node delete -f "$work/clock.yaml" | wc -l)" 2 'and is taken away'
eventually 60 'whole' gone clock.conf

# --- with a server
printf 'half: [\n' >"$dir/zz.yaml"
cluster_up --no-controller-manager
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_stop $node
agent_join $node >/dev/null || bail_out join
agent_start $node
eventually 60 'the node joins' online $node
eventually 60 'and tells of the bad file' equals InvalidManifest reason enode $node ManifestsAccepted
like "$(message enode $node ManifestsAccepted)" 'zz.yaml: line 2' 'by name and line'
rm "$dir/zz.yaml"
eventually 60 'until it is gone' equals True cond enode $node ManifestsAccepted
config s server | k apply -n $ns -f - >/dev/null
eventually 30 'the server has an object' equals server text s
config s file | L $node apply -f - >/dev/null
eventually 30 'a file wins over it' equals file text s
eventually 30 'the server hears why' equals ShadowedByFile reason ecfg s Accepted
is "$(cond ecfg s Accepted)" False 'and that it is not accepted'
like "$(message ecfg s Accepted)" 'edgeconfig-s.yaml' 'and by which file'
config s server2 | k apply -n $ns -f - >/dev/null
eventually 30 'a change on the server is seen' equals 2 field ecfg s '{.status.observedGeneration}'
is "$(text s)" file 'and not made true'
agent_kill $node
agent_start $node
eventually 60 'online again' online $node
is "$(text s)" file 'nor by the next agent'
L $node delete edgeconfig s >/dev/null
eventually 30 'without the file the server takes over' equals server2 text s
eventually 30 'and hears that' ready ecfg s
is "$(cond ecfg s Accepted)" True 'accepted'
config s file | L $node apply -f - >/dev/null
eventually 30 'a file again' equals file text s
k delete ecfg s -n $ns >/dev/null
eventually 30 'its deletion on the server' grep -q '"event":"deleted".*edgeconfigs/edge-nu/s' "$work/$node/agent.log"
is "$(text s)" file 'does not reach the file'
L $node delete edgeconfig s >/dev/null
eventually 30 'which goes by itself' gone s
eventually 30 'nothing is left to say' equals 0 jq_outbox
done_testing
