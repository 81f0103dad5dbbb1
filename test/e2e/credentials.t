#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Credentials that cannot be used, at the start of the agent: the machine works from its cache, `limpet status` says why, and once they
# are put right the agent is online by itself.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
state=$work/$node/state

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node
agent_join $node >/dev/null || bail_out 'join'
agent_start $node
app_yaml web | put
eventually 30 'an EdgeApp is Ready' ready eapp web

why() { L $node status -o json | jq -r .link.why; }
is_damaged() { [[ $(why) == *identity.json* ]]; }

# A reboot, and an identity that the disk has spoilt.
agent_leave_machine $node
rm -rf "$work/$node/run" "$state/identity.json.prev"
cp -p "$state/identity.json" "$work/good"
head -c -2 "$work/good" >"$state/identity.json"
agent_start $node
eventually 30 'with a damaged identity the app starts from the cache' matches '^[0-9]+$' pids $node web
pid=$(pids $node web)
L $node status >"$work/said"
is $? 1 'limpet status: not online'
ok 'and it says why' is_damaged
is "$(L $node status -o json | jq -r '.node + " " + .namespace')" "$node $(ns_of $node)" 'it still knows who it is'
like "$(L $node logs web)" 'started' 'and finds the logs of its apps'
(umask 077 && jq -r '.token[:40]' "$work/good" >"$work/token")
ok 'there is a token in what was damaged' grep -qF -f "$work/token" "$state/identity.json"
not_ok 'and no piece of it in what was said' grep -qF -f "$work/token" "$work/said" "$work/$node/agent.log"

cp -p "$work/good" "$state/identity.json"
kill -HUP "${agent_pid[$node]}"
eventually 60 'put right, it goes online when told to look again' online $node
is "$(pids $node web)" "$pid" 'with the workload it had'
agent_stop $node

# The files of a configuration in limpet.ini may be missing for a while, as on a volume that is mounted late.
kubeconfig_for "$(ns_of $node)" limpet "$work/kubeconfig"
mv "$work/kubeconfig" "$work/later"
L $node leave --yes --keep-workloads >/dev/null
printf '[server]\nkubeconfig = %s\n[node]\nname = %s\nnamespace = %s\n' "$work/kubeconfig" $node "$(ns_of $node)" >>"$work/$node/limpet.ini"
agent_start $node
like "$(why)" 'kubeconfig' 'a missing kubeconfig: the reason names the file'
is "$(pids $node web)" "$pid" 'the workload is there'
mv "$work/later" "$work/kubeconfig"
eventually 120 'it is found within a minute, by itself' online $node
eventually 30 'and all is reported' ready eapp web
is "$(pids $node web)" "$pid" 'with the workload it had'

done_testing
