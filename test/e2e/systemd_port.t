#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runtime systemd in a real systemd: the whole conformance suite of ports, for units that die with the boot and for such that start at
# boot; then apps of a real API server that outlive the agent, its death, its upgrade and a reboot without it.
# timeout: 900
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"
# shellcheck source=machine.sh
. "$here/machine.sh"

node=pump

machine_needs
cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'

# ------------------------------------------------------------------------------------------------------- words of this test

# suite PORT: every case of it; what failed is shown.
suite() {
	M env RIG_SYSTEMD=1 TMPDIR=/tmp /conformance_test '' "$1" >"$work/suite.$1" 2>&1
	ok "the conformance suite for $1" equals 0 echo $?
	grep -A 3 '^not ok' "$work/suite.$1" | sed 's/^/# /'
	like "$(tail -n 1 "$work/suite.$1")" '^1\.\.[2-9][0-9][0-9]$' 'all of it'
}
units() { M sh -c 'ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants /run/systemd/system' | grep '^limpet-'; }
no_units() { [[ -z $(units) ]]; }
loaded() { M systemctl list-units --all --plain --no-legend 'limpet-*'; }
unit_of() { M systemctl list-units --all --plain --no-legend "limpet-$1-*" | awk '{ print $1 }'; }
main_pid() { M systemctl show --property=MainPID --value "limpet-$1-*"; }
has_main_pid() { [[ $(main_pid "$1") =~ ^[1-9][0-9]*$ ]]; }
has_other_pid() { [[ $(main_pid "$1") =~ ^[1-9][0-9]*$ && $(main_pid "$1") != "$2" ]]; }
property() { M systemctl show --property="$2" --value "$(unit_of "$1")"; }
app_status() { M limpet get edgeapp "$1" -o json | jq -r "$2"; }
pid_of() { app_status "$1" '[.status.instances[]? | select(.pid > 0) | .pid] | join(" ")'; }
service() { M systemctl show limpet --property="$1" --value; }
restarted_from() { [[ $(service ActiveState) == active && $(service MainPID) != "$1" ]]; }
is_online() { M limpet status >/dev/null; }
says() { [[ $(M limpet logs "$1") == *"$2"* ]]; }

command_yaml() { # NAME SHELL-TEXT [YAML-LINE...]
	local name=$1 text=$2
	shift 2
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n  command: ["/bin/sh", "-c", %s]\n' \
		"$name" "$(jq -Rn --arg t "$text" '$t')"
	printf '  %s\n' 'terminationGracePeriodSeconds: 1' "$@"
}

# ------------------------------------------------------------------------------------------------------------- the suite

machine_make
cp "$top/build/test/port/conformance_test" "$machine_root/" || bail_out 'make port builds it'
make_install() { make -C "$top" install DESTDIR="$machine_root" PREFIX=/usr; }
make_install >"$work/said" 2>&1 || bail_out "make install: $(tail -n 20 "$work/said")"
machine_boot || bail_out "the machine does not boot: $(tail -n 5 "$work/console.log")"
suite systemd
suite systemd-boot
ok 'no unit, no link is left' no_units
M systemctl daemon-reload
is "$(loaded)" '' 'nor anything in the memory of systemd, also of what failed'

# ---------------------------------------------------------------------------------------------------------------- an app

(umask 077 && "$limpetctl" node add $node --server "$(server_url)" --force >"$work/join.sh") 2>"$work/said" || bail_out "node add: $(<"$work/said")"
M sh <"$work/join.sh" >"$work/said" 2>&1 || bail_out "join: $(<"$work/said")"
ok 'the agent starts' M systemctl enable --quiet --now limpet
eventually 30 'it is online' is_online

# shellcheck disable=SC2016  # for the shell of the app
command_yaml web 'echo "web says $WORD"; exec sleep 100000' 'runtime: systemd' 'env: [{name: WORD, value: open-sesame-4711}]' \
	'resources: {limits: {memory: 64Mi, cpu: 500m, pids: 50}}' 'rlimits: [{name: nofile, soft: 512, hard: 1024}]' | put
eventually 60 'an EdgeApp with runtime systemd is Ready' ready eapp web
web=$(main_pid web)
unit=$(unit_of web)
is "$(pid_of web)" "$web" 'its process is the main one of a unit'
is "$(property web MemoryMax) $(property web CPUQuotaPerSecUSec) $(property web TasksMax)" '67108864 500ms 50' 'with the limits of the spec'
is "$(property web LimitNOFILESoft) $(property web LimitNOFILE)" '512 1024' 'and the rlimits'
is "$(property web UnitFileState)" enabled 'it starts at boot'
is "$(M sh -c 'stat -c "%a %U" /var/lib/limpet/units/*.env')" '600 root' 'its environment is in a file that only root reads'
is "$(M sh -c 'grep -l open-sesame-4711 /etc/systemd/system/limpet-* /run/systemd/system/* 2>/dev/null')" '' 'and not in the unit'
eventually 30 'its output is in the journal, where limpet logs finds it' says web 'web says open-sesame-4711'
ok 'systemd finds nothing wrong with the unit' M systemd-analyze verify --man=no "/etc/systemd/system/$unit"
command_yaml plain 'exec sleep 100000' 'resources: {limits: {memory: 64Mi}}' | put
eventually 30 'an app of the default runtime that wants limits says that they are not held' matches 'not limited' message eapp plain Ready
k delete eapp plain -n "$(ns_of $node)" >/dev/null

# --- healing
kill_web() { M sh -c "kill -9 $(main_pid web)"; }
kill_web
eventually 60 'killed, it is started again' has_other_pid web "$web"
eventually 30 'that is a restart' equals 1 field eapp web '{.status.instances[0].restarts}'
is "$(field eapp web '{.status.instances[0].lastExit.signal}')" 9 'by signal 9'
eventually 30 'it is Ready again' ready eapp web
web=$(main_pid web)
M systemctl stop "$(unit_of web)"
eventually 60 'stopped by hand, it is started again' has_other_pid web "$web"
eventually 30 'Ready' ready eapp web
web=$(main_pid web)

# --- back to the last good revision
command_yaml fragile 'exec sleep 100000' 'runtime: systemd' 'update: {minReadySeconds: 1, progressDeadlineSeconds: 10}' | put
eventually 30 'a revision runs' ready eapp fragile
good=$(field eapp fragile '{.status.revision}')
eventually 30 'for long enough to be kept' M sh -c 'limpet store dump | grep "/fragile\"" | grep -q good-spec'
command_yaml fragile 'exit 3' 'runtime: systemd' 'update: {minReadySeconds: 1, progressDeadlineSeconds: 10}' | put
eventually 60 'one that does not come up is given up' equals RolledBack reason eapp fragile Ready
eventually 30 'the good one is back' equals "$good Running" field eapp fragile '{.status.revision} {.status.state}'
like "$(property fragile ExecStart)" 'sleep 100000' 'and its unit, and that alone'
like "$(field eapp fragile '{.status.failedRevisions[0].message}')" 'exit code 3' 'the status says why'
k delete eapp fragile -n "$(ns_of $node)" >/dev/null
eventually 60 'deleted, its unit is gone' equals '' unit_of fragile

# --- the agent goes and comes
main=$(service MainPID)
M systemctl kill --kill-who=main --signal=KILL limpet
eventually 30 'after kill -9 another agent runs' restarted_from "$main"
eventually 30 'the app has the pid it had' equals "$web" pid_of web
ok 'make install over a running agent' make_install
main=$(service MainPID)
ok 'restart into the new program' M systemctl restart limpet
ok 'another agent runs' restarted_from "$main"
eventually 30 'an upgrade keeps the pid, too' equals "$web" pid_of web
is "$(main_pid web)" "$web" 'as systemd sees it'
eventually 30 'nothing was restarted' ready eapp web
restarts=$(field eapp web '{.status.instances[0].restarts}')
M systemctl stop limpet
kill_web
eventually 60 'without an agent systemd heals it' has_other_pid web "$web"
web=$(main_pid web)
M systemctl start limpet
eventually 30 'the next agent finds it running' equals "$web" pid_of web
eventually 30 'and counts that' equals $((restarts + 1)) field eapp web '{.status.instances[0].restarts}'
M systemctl restart limpet
eventually 30 'another agent has it' equals "$web" pid_of web
is "$(app_status web '.status.instances[0].restarts')" $((restarts + 1)) 'once'

# --- a reboot without an agent
M systemctl disable --quiet limpet
machine_off
machine_boot || bail_out 'the machine does not boot again'
is "$(service ActiveState)" inactive 'rebooted without the agent'
eventually 60 'the app runs' has_main_pid web
web=$(main_pid web)
M systemctl enable --quiet --now limpet
eventually 30 'an agent that comes later adopts it' equals "$web" pid_of web
eventually 30 'and says so' equals "$web" field eapp web '{.status.instances[0].pid}'
is "$(main_pid web)" "$web" 'with the pid it has'

# --- another runtime, and the end
k patch eapp web -n "$(ns_of $node)" --type=merge -p '{"spec":{"runtime":"exec","resources":null}}' >/dev/null
eventually 60 'moved to plain processes its unit is gone' no_units
eventually 30 'Ready' ready eapp web
k patch eapp web -n "$(ns_of $node)" --type=merge -p '{"spec":{"runtime":"systemd"}}' >/dev/null
eventually 60 'and back' has_main_pid web
eventually 30 'Ready' ready eapp web
k delete eapp web -n "$(ns_of $node)" >/dev/null
eventually 60 'deleted, its unit is gone' no_units
eventually 30 'from the memory of systemd, too' equals '' loaded
is "$(M sh -c 'ls /var/lib/limpet/units')" '' 'and its environment'
is "$(M journalctl --quiet --no-pager --output=cat --unit=limpet --unit='init.scope' | grep -c open-sesame-4711)" 0 'which is in no log'

done_testing
