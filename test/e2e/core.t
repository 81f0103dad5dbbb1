#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The main job on a real API server: enrol, apply, run, heal, go offline, boot from the cache, replay.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
files=$work/$node/files

cluster_up
ok 'limpetctl installs the CRDs' "$limpetctl" install
agent_new $node
ok 'the printed join command works' agent_join $node
agent_start $node
eventually 30 'it is online' online $node

# --- apply
app_yaml web | put
file_yaml motd "$files/motd" hello | put
eventually 30 'the EdgeApp is Ready' ready eapp web
eventually 30 'the EdgeConfig is Ready' ready ecfg motd
ok 'the file has the content' file_is "$files/motd" hello
is "$(stat -c %a "$files/motd")" 644 'and the default mode'
eventually 10 'a process runs' matches '^[0-9]+$' pids $node web
pid=$(pids $node web)
ok 'it is alive' kill -0 "$pid"
eventually 30 'its output is in the log' matches started L $node logs web
eventually 30 'an event says so' matches Started k get events.events.k8s.io -n edge-alpha -o 'jsonpath={.items[*].reason}'
eventually 30 'the lease makes the node READY' matches 'alpha +edge-alpha +True' "$limpetctl" node list
eventually 30 'the inventory is there' matches . field enode alpha '{.status.nodeInfo.kernelVersion}'

# --- drift and death are healed
kill -KILL "$pid"
another_pid() { local now; now=$(pids $node web); [[ -n $now && $now != "$pid" ]] && kill -0 "$now"; }
eventually 30 'a killed process is started again' another_pid
eventually 30 'and the restart is counted' equals 1 field eapp web '{.status.instances[0].restarts}'
echo tampered >"$files/motd"
eventually 30 'an edited file is put right' file_is "$files/motd" hello
rm "$files/motd"
eventually 30 'a deleted file comes back' file_is "$files/motd" hello
chmod 600 "$files/motd"
eventually 30 'a changed mode is put right' equals 644 stat -c %a "$files/motd"

# --- agent restarts keep workloads (field 21)
pid=$(pids $node web)
agent_stop $node
ok 'field 21: the workload outlives an orderly stop of the agent' kill -0 "$pid"
agent_start $node
eventually 30 'field 21: the next agent adopts it' equals "$pid" pids $node web
agent_kill $node
agent_start $node
eventually 30 'field 21: and after kill -9 of the agent' equals "$pid" pids $node web
agent_kill $node
(
	flock 9
	touch "$work/locked"
	sleep 1 # what this is about: a supervisor in its first moment holds the lock of the agent that was killed
) 9>>"$work/$node/run/agent.lock" &
wait_for 10 'somebody has the lock' test -e "$work/locked"
agent_start $node
eventually 30 'an agent waits for a lock that is about to be let go' online $node

# --- changes
file_yaml motd "$files/motd" changed | put
eventually 30 'a changed spec reaches the file' file_is "$files/motd" changed
app_yaml web 'env: [{name: COLOUR, value: green}]' | put
eventually 30 'a changed environment restarts the app' another_pid
eventually 30 'and it is Ready again' ready eapp web
app_yaml web 'env: [{name: COLOUR, value: green}]' 'replicas: 3' | put
eventually 30 'three replicas run' matches '^[0-9]+ [0-9]+ [0-9]+$' pids $node web

# --- away
eventually 30 'everything is reported before the cut' matches 'nothing' L $node outbox
cluster stop-apiserver --kill >/dev/null
eventually 60 'the agent notices' offline $node
pid=$(pids $node web)
kill -KILL "${pid%% *}"
three_pids() { [[ $(pids $node web | wc -w) == 3 && $(pids $node web) != "$pid" ]]; }
eventually 60 'field 2: an exited workload is restarted while offline' three_pids
rm "$files/motd"
eventually 30 'a deleted file comes back while offline' file_is "$files/motd" changed
like "$(L $node outbox)" 'Exited|Killed|Restart|Started' 'what happened waits in the outbox'

# --- boot from the cache, no server (field 1)
agent_leave_machine $node
rm -rf "$work/$node/run"
rm "$files/motd"
ok 'the machine is empty' test ! -e "$files/motd"
agent_start $node
eventually 30 'field 1: after a reboot without a server the app starts from the cache' matches '^[0-9]+ [0-9]+ [0-9]+$' pids $node web
eventually 30 'field 1: and the file is written from the cache' file_is "$files/motd" changed

# --- back
cluster start-apiserver >/dev/null
eventually 120 'the agent comes back by itself' online $node
eventually 60 'field 5: the outbox empties' matches nothing L $node outbox
eventually 30 'the server knows the truth' ready eapp web
eventually 30 'and the file too' ready ecfg motd

# --- a deletion made while away (field 6)
read -r pid _ < <(pids $node web)
agent_stop $node
k delete ecfg motd -n edge-alpha >/dev/null
k delete eapp web -n edge-alpha >/dev/null
ok 'while the agent is away nothing changes' test -e "$files/motd"
agent_start $node
eventually 60 'field 6: a deletion made while away is noticed: the file goes' test ! -e "$files/motd"
gone() { ! kill -0 "$pid" 2>/dev/null; }
eventually 60 'field 6: and the app stops' gone

# --- a mistake that reached the cache changes nothing
app_yaml pinned 'nodeName: another-node' | put
eventually 30 'an object for another node is not accepted' equals False cond eapp pinned Accepted
like "$(message eapp pinned Accepted)" 'nodeName' 'and the message names the field'
is "$(pids $node pinned)" '' 'nothing was started'

done_testing
