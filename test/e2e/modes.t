#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Watch, poll and list mode: the same promises in each. One node a mode on one real API server.
# timeout: 600
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"

# many FIRST LAST: EdgeConfigs that write one file each, in one request.
many() {
	local i
	for ((i = $1; i <= $2; i++)); do
		printf -- '---\n'
		file_yaml "f$i" "$files/f$i" "content $i"
	done
}
count_files() { find "$files" -name 'f*' -type f | wc -l; }

for mode in watch poll list; do
	node=n-$mode
	files=$work/$node/files
	agent_new "$node" "sync.mode=$mode" sync.interval=1s sync.pageSize=50 sync.backoff=100ms
	agent_join "$node" >/dev/null || bail_out "join"
	many 1 120 | put
	agent_start "$node"
	eventually 60 "$mode: 120 objects, three pages where pages are used" equals 120 count_files
	eventually 60 "$mode: online" online "$node"
	eventually 120 "$mode: all is reported" matches nothing L "$node" outbox

	file_yaml f1 "$files/f1" changed | put
	eventually 30 "$mode: a change arrives" file_is "$files/f1" changed
	k delete ecfg f2 -n "$(ns_of "$node")" >/dev/null
	eventually 30 "$mode: a delete arrives" test ! -e "$files/f2"
	file_yaml g1 "$files/g1" new | put
	eventually 30 "$mode: a new object arrives" file_is "$files/g1" new

	cluster stop-apiserver --kill >/dev/null
	eventually 60 "$mode: offline is noticed" offline "$node"
	echo x >"$files/f3"
	eventually 30 "$mode: drift is repaired offline" file_is "$files/f3" 'content 3'
	cluster start-apiserver >/dev/null
	k delete ecfg f4 -n "$(ns_of "$node")" >/dev/null
	file_yaml f5 "$files/f5" while-away | put
	eventually 90 "$mode: back online by itself" online "$node"
	eventually 60 "$mode: a delete made meanwhile" test ! -e "$files/f4"
	eventually 60 "$mode: a change made meanwhile" file_is "$files/f5" while-away
	eventually 60 "$mode: the repair is reported" equals 1 field ecfg f3 '{.status.driftRepairs}'

	# a server that hangs (packets go nowhere) is noticed and does not hold up healing
	cluster pause >/dev/null
	echo y >"$files/f3"
	eventually 30 "$mode: drift is repaired while the server hangs" file_is "$files/f3" 'content 3'
	eventually 120 "$mode: a hanging server is offline" offline "$node"
	cluster resume >/dev/null
	eventually 120 "$mode: and online again" online "$node"
	eventually 60 "$mode: with everything reported" equals 2 field ecfg f3 '{.status.driftRepairs}'
	agent_stop "$node"
done

done_testing
