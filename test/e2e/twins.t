#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two agents with one name, as after a disk was copied: the second takes no new spec, sends nothing, says so, and takes over when the first
# is gone.
# timeout: 400
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=omega
ns=edge-omega
files=$work/$node/files

# mine NAME: the process of that agent's own instance of `web`.
mine() {
	local pid
	for pid in $(pgrep -f -x 'sleep 100000'); do
		grep -zqs "=$work/$1/run/i/" "/proc/$pid/environ" && printf '%s\n' "$pid"
	done
	return 0
}
# runs NAME VARIANT: it is there, one, and of this variant.
runs() {
	local pid
	pid=$(mine "$1") && [[ $pid =~ ^[0-9]+$ ]] && grep -zqx "VARIANT=$2" "/proc/$pid/environ"
}

cluster_up --no-controller-manager
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node lease.duration=6s lease.renew=2s
agent_join $node >/dev/null || bail_out join
file_yaml a "$files/a" first | put
agent_start $node
app_yaml web 'env: [{name: VARIANT, value: one}]' | put
eventually 60 'the first agent is at work' ready ecfg a
eventually 60 'and runs what is wanted' runs $node one
eventually 30 'and holds the lease' matches '"lease":"held"' L $node status -o json

# The copy has a machine of its own: other directories, the same credential.
cp -r "$work/$node" "$work/twin"
rm -rf "$work/twin/run" "$work/twin/state/holder" "$work/twin/state/limpet.db"* "$work/twin/files" "$work/twin/agent.log"
sed -i "s#$work/$node/#$work/twin/#; s#$work/$node\$#$work/twin#" "$work/twin/limpet.ini"
mkdir -p "$work/twin/files"
agent_start twin
eventually 60 'field 19: the second stands by' matches Standby L twin status -o json
like "$(L twin status)" 'another agent' 'field 19: and says why'
file_yaml a "$files/a" second | put
eventually 30 'field 19: the first goes on' file_is "$files/a" second
eventually 30 'field 19: and reports' ready ecfg a
is "$(L twin get -o json)" '' 'field 19: the second has taken no spec'
ok 'field 19: and still stands by' matches Standby L twin status -o json
agent_kill $node
eventually 120 'field 19: when the first is gone for a lease duration, the second takes over' online twin
agent_start $node
eventually 60 'field 19: the first comes back and is the second now' matches Standby L $node status -o json
ok 'field 19: it keeps what it has' file_is "$files/a" second
app_yaml web 'env: [{name: VARIANT, value: two}]' | put
eventually 30 'field 19: the holder takes a new spec' runs twin two
kill -KILL "$(mine $node)"
eventually 60 'field 19: the second heals what it has' runs $node one
agent_kill $node
kill -KILL "$(mine $node)"
agent_start $node
eventually 60 'field 19: and from its start on it runs what its cache says' runs $node one
eventually 60 'field 19: stands by' matches Standby L $node status -o json
ok 'field 19: and takes no new spec' runs $node one
agent_stop twin

done_testing
