#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The file system of the state directory went read-only, as a worn flash does: the agent starts all the same, the machine is looked after, and
# what was learned goes home when the directory takes files again.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=worn
state=$work/$node/state

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node
mkdir -p "$state"
mount -t tmpfs -o size=16m,mode=700 limpet-test "$state" || bail_out "a file system for the state cannot be mounted"
at_exit umount -l "$state"
agent_join $node >/dev/null || bail_out "join"
agent_start $node
app_yaml web | put
file_yaml motd "$work/$node/files/motd" hello | put
eventually 30 'an app is Ready' ready eapp web
eventually 30 'a file is there' file_is "$work/$node/files/motd" hello
is "$(cond enode $node StoreVolatile)" False 'the store is durable'
first=$(pids $node web)

# The log of a store that was not closed holds most of it: it comes along.
agent_kill $node
ok 'there is a log' test -s "$state/limpet.db-wal"
before=$(cd "$state" && sha256sum limpet.db limpet.db-wal)
mount -o remount,ro "$state" || bail_out "it cannot be made read-only"

cluster stop-apiserver --kill >/dev/null
agent_start $node
eventually 30 'without a server and on a read-only disk the agent knows its app' equals "$first" pids $node web
kill -KILL "$first"
healed() { local now; now=$(pids $node web); [[ -n $now && $now != "$first" ]] && kill -0 "$now"; }
eventually 30 'heals it' healed
rm "$work/$node/files/motd"
eventually 30 'and its file' file_is "$work/$node/files/motd" hello
cluster start-apiserver >/dev/null
eventually 60 'it comes online' online $node
eventually 30 'says what is wrong' equals True cond enode $node StoreVolatile
app_yaml late | put
eventually 30 'takes new objects' ready eapp late
is "$(cd "$state" && sha256sum limpet.db limpet.db-wal)" "$before" 'the store on the disk is as it was'
is "$(stat -c %a "$work/$node/run/store")" 700 'the copy is nobody else'"'"'s to read'

agent_kill $node
agent_start $node
eventually 30 'a second start still knows what the first has learned' equals True local_field $node edgeapp late '.status.readyReplicas == 1 | if . then "True" else "False" end'
healed=$(pids $node web) late=$(pids $node late)

mount -o remount,rw "$state" || bail_out "it cannot be made writable"
store_is_home() { [[ ! -e $work/$node/run/store ]] && L $node status >/dev/null; }
eventually 150 'when the directory takes files again the copy goes home' store_is_home
ok 'it is the same process' kill -0 "${agent_pid[$node]}"
eventually 60 'the node says that the store is durable' equals False cond enode $node StoreVolatile
is "$(pids $node web)" "$healed" 'no workload noticed'
is "$(pids $node late)" "$late" 'not the late one either'
agent_stop $node
cluster stop-apiserver --kill >/dev/null
agent_start $node
eventually 30 'and the next boot without a server knows what was learned on the way' equals "$late" pids $node late
agent_leave_machine $node
done_testing
