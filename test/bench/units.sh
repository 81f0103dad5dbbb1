#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# units.sh COUNT SECONDS: an agent with COUNT apps of runtime systemd in a machine of its own (test/e2e/machine.sh), idle for SECONDS. The
# last line says what that cost:
#   units COUNT seconds SECONDS agent_ms A children_ms C systemd_ms S
# processor time of the agent itself, of what it ran and waited for (systemctl), and of the machine's PID 1 and message bus.
set -u
here=$(cd "$(dirname "$0")/../e2e" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=../e2e/agent.sh
. "$here/agent.sh"
# shellcheck source=../e2e/machine.sh
. "$here/machine.sh"

count=$1 seconds=$2
node=units

service() { M systemctl show limpet --property="$1" --value; }
all_run() { [[ $(M systemctl list-units --plain --no-legend --state=active 'limpet-*' | wc -l) == "$count" ]]; }
all_reported() { [[ $(M limpet outbox) == nothing* ]]; }
# cpu_ms FIELD FIELD PID...: of the fields of /proc/PID/stat behind the name, in ticks.
cpu_ms() {
	local user=$1 system=$2
	shift 2
	M cat "${@/%//stat}" | sed 's/^.*) //' | awk -v u=$((user - 2)) -v s=$((system - 2)) -v hz="$(getconf CLK_TCK)" '{ t += $u + $s } END { print t * 1000 / hz }'
}

machine_needs
cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
machine_make
make -C "$top" install DESTDIR="$machine_root" PREFIX=/usr >"$work/said" 2>&1 || bail_out "make install: $(tail -n 20 "$work/said")"
machine_boot || bail_out "the machine does not boot: $(tail -n 5 "$work/console.log")"
(umask 077 && "$limpetctl" node add $node --server "$(server_url)" --force >"$work/join.sh") 2>"$work/said" || bail_out "node add: $(<"$work/said")"
M sh <"$work/join.sh" >"$work/said" 2>&1 || bail_out "join: $(<"$work/said")"
M systemctl enable --quiet --now limpet
for ((i = 0; i < count; i++)); do
	printf -- '---\napiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: app-%d}\nspec: {runtime: systemd, command: ["/bin/sleep", "100000"]}\n' "$i"
done | put
wait_for 300 'all units run' all_run || bail_out "only some run: $(M systemctl list-units 'limpet-*' | tail -n 3)"
wait_for 120 'all is reported' all_reported
agent=/proc/$(service MainPID)
manager=(/proc/1 "/proc/$(M systemctl show dbus --property=MainPID --value)")
before=("$(cpu_ms 14 15 "$agent")" "$(cpu_ms 16 17 "$agent")" "$(cpu_ms 14 15 "${manager[@]}")")
sleep "$seconds"
after=("$(cpu_ms 14 15 "$agent")" "$(cpu_ms 16 17 "$agent")" "$(cpu_ms 14 15 "${manager[@]}")")
all_run || bail_out 'not all units run any more'
printf 'units %d seconds %d agent_ms %d children_ms %d systemd_ms %d\n' "$count" "$seconds" $((after[0] - before[0])) $((after[1] - before[1])) \
	$((after[2] - before[2]))
