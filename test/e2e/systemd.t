#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# limpet as a service of a real systemd: `make install`, join, and then all that an init system does to a service, with workloads that
# must not notice. A machine that reboots without a server starts what it ran before.
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

unit() { M systemctl show limpet --property="$1" --value; }
app_status() { M limpet get edgeapp "$1" -o json | jq -r "$2"; }
pid_of() { app_status "$1" '[.status.instances[]? | select(.pid > 0) | .pid] | join(" ")'; }
runs() { [[ $(pid_of "$1") =~ ^[0-9]+$ ]]; }
is_alive() { M test -d "/proc/$1"; }
is_dead() { ! is_alive "$1"; }
answers() { M limpet status >/dev/null || (($? == 1)); }
is_online() { M limpet status >/dev/null; }
is_offline() { M limpet status >/dev/null; (($? == 1)); }
restarted_from() { # MAIN-PID: there is another one, and it is ready
	[[ $(unit ActiveState) == active && $(unit MainPID) != "$1" ]]
}
all_reported() { [[ $(M limpet outbox) == nothing* ]]; }
# ticks_whole: the log of app tick holds the numbers from 1 without a gap.
ticks_whole() { M limpet logs tick | awk '$1 != "tick" || $2 != NR { exit 1 } END { exit NR == 0 }'; }
ticks() { M limpet logs tick | wc -l; }
ticks_beyond() { (($(ticks) > $1)); }
journal() { M journalctl --quiet --no-pager --unit=limpet "$@"; }

# command NAME SHELL-TEXT [YAML-LINE...]: an EdgeApp
command_yaml() {
	local name=$1 text=$2
	shift 2
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n  command: ["/bin/sh", "-c", %s]\n' \
		"$name" "$(jq -Rn --arg t "$text" '$t')"
	printf '  %s\n' 'terminationGracePeriodSeconds: 1' "$@"
}

# -------------------------------------------------------------------------------------------------------- install and join

machine_make
make_install() { make -C "$top" install DESTDIR="$machine_root" PREFIX=/usr; }
make_install >"$work/said" 2>&1 || bail_out "make install: $(tail -n 20 "$work/said")"
pass 'make install'
ok 'with the manual pages' test -s "$machine_root/usr/share/man/man8/limpet.8" -a -s "$machine_root/usr/share/man/man8/limpetctl.8" -a \
	-s "$machine_root/usr/share/man/man5/limpet.ini.5"
machine_boot || bail_out "the machine does not boot: $(tail -n 5 "$work/console.log")"
pass 'a machine with systemd boots'
ok 'systemd finds nothing wrong with limpet.service' M systemd-analyze verify --man=no limpet.service
M limpet status >/dev/null 2>"$work/said"
is $? 3 'limpet status without an agent says so'

(umask 077 && "$limpetctl" node add $node --server "$(server_url)" --force >"$work/join.sh") 2>"$work/said" || bail_out "node add: $(<"$work/said")"
M sh <"$work/join.sh" >"$work/said" 2>&1 || bail_out "join: $(<"$work/said")"
pass 'the printed join command, piped to a shell there'
ok 'enabled and started' M systemctl enable --quiet --now limpet
is "$(unit ActiveState) $(unit SubState) $(unit Type)" 'active running notify' 'the service is up, and said so itself'
ok 'once systemd calls it up, it answers' answers
eventually 30 'it is online' is_online

# ------------------------------------------------------------------------------------------------------------- workloads

# tick counts for ever, in a log that would show a gap or a second beginning. leave ends with a code when it is told.
# shellcheck disable=SC2016  # for the shell of the app
command_yaml tick 'i=0; while i=$((i + 1)); do echo tick $i; sleep 0.05; done' | put
command_yaml leave 'until [ -e /run/leave ]; do sleep 0.05; done; exit 7' 'restartPolicy: Never' | put
command_yaml crash 'until [ -e /run/crash ]; do sleep 0.05; done; exit 9' 'restartPolicy: Never' | put
eventually 30 'an EdgeApp is Ready' ready eapp tick
eventually 30 'and another' ready eapp leave
eventually 30 'and another' ready eapp crash
tick=$(pid_of tick)
leave=$(pid_of leave)
crash=$(pid_of crash)
ok 'it is a process of the machine' is_alive "$tick"

# --- restart
main=$(unit MainPID)
before=$(ticks)
ok 'systemctl restart' M systemctl restart limpet
ok 'starts another agent' restarted_from "$main"
eventually 30 'field 21: after systemctl restart the workload has the pid it had' equals "$tick" pid_of tick
eventually 30 'and its log goes on' ticks_beyond "$before"
ok 'without a gap' ticks_whole
is "$(field eapp tick '{.status.instances[0].restarts}')" 0 'no restart is counted'

# --- kill -9, and a workload that ends meanwhile
main=$(unit MainPID)
before=$(ticks)
M systemctl kill --kill-who=main --signal=KILL limpet
M touch /run/crash
eventually 30 'after kill -9 systemd starts another agent' restarted_from "$main"
eventually 30 'field 21: after kill -9 the workload has the pid it had' equals "$tick" pid_of tick
eventually 30 'and its log goes on' ticks_beyond "$before"
ok 'without a gap' ticks_whole
eventually 30 'what ended at that time is reported with its exit code' equals 9 field eapp crash '{.status.instances[0].lastExit.code}'
ok 'its process is gone' is_dead "$crash"

# --- stop, a workload that ends meanwhile, start
before=$(ticks)
ok 'systemctl stop' M systemctl stop limpet
is "$(unit ActiveState)" inactive 'the service is down'
ok 'its workloads are not' is_alive "$tick"
M touch /run/leave
ok 'one of them ends now' wait_for 30 'the process ends' is_dead "$leave"
ok 'systemctl start' M systemctl start limpet
eventually 30 'the workload is adopted' equals "$tick" pid_of tick
eventually 30 'its log goes on' ticks_beyond "$before"
ok 'without a gap' ticks_whole
eventually 30 'a workload that exited with 7 while no agent was there is reported with 7' equals 7 field eapp leave '{.status.instances[0].lastExit.code}'
eventually 30 'and as failed' equals Failed field eapp leave '{.status.state}'

# --- an upgrade: the program file is replaced under the running agent
ok 'make install over a running agent' make_install
command_yaml late 'exec sleep 100000' | put
eventually 30 'the old agent still starts workloads' ready eapp late
late=$(pid_of late)
main=$(unit MainPID)
ok 'restart into the new program' M systemctl restart limpet
ok 'another agent runs' restarted_from "$main"
eventually 30 'field 21: an upgrade keeps the workload' equals "$tick" pid_of tick
eventually 30 'and the one that the old agent started last' equals "$late" pid_of late

ok 'a configuration can be named from where one is' M sh -c 'cd /etc/limpet && limpet --config limpet.ini check-config'

# --- reload
main=$(unit MainPID)
ok 'systemctl reload' M systemctl reload limpet
is "$(unit MainPID)" "$main" 'keeps the agent'
ok 'which answers' answers

# --- a bad configuration
printf '[log]\nlevle = info\n' >"$machine_root/etc/limpet/conf.d/typo.ini"
not_ok 'with a mistake in its configuration it does not start' M systemctl restart limpet
is "$(unit ActiveState) $(unit ExecMainStatus) $(unit NRestarts)" 'failed 78 0' 'exit 78, and systemd does not try again'
said=$(journal --output=cat --lines=20)
like "$said" 'typo\.ini:2' 'the journal names file and line'
like "$said" 'level' 'and the nearest valid name'
ok 'workloads run on' is_alive "$tick"
rm "$machine_root/etc/limpet/conf.d/typo.ini"
ok 'put right, it starts' M systemctl start limpet
eventually 30 'and has its workloads' equals "$tick" pid_of tick

# --- a reboot without a server
eventually 30 'it is online again' is_online
eventually 30 'all is reported before the reboot' all_reported
cluster stop-apiserver --kill >/dev/null
machine_off
machine_boot || bail_out 'the machine does not boot again'
eventually 30 'field 1: rebooted without a server, the app runs again, from the cache' runs tick
ok 'the agent is offline' is_offline
is "$(app_status tick .status.state)" Running 'and knows it'
like "$(app_status leave .status.state)" '^Failed$' 'what had ended for good is not started again'
is "$(unit ActiveState)" active 'the service came up with the boot'
cluster start-apiserver >/dev/null
eventually 120 'the server is back, so is the agent' is_online
eventually 60 'all is reported' all_reported
eventually 30 'the app is Ready for the server too' ready eapp tick
is "$(field eapp tick '{.status.instances[0].pid}')" "$(pid_of tick)" 'with the pid it has since the reboot'

# ---------------------------------------------------------------------------------------------------------------- journal

journal --output=json --output-fields=PRIORITY,MESSAGE >"$work/journal"
is "$(jq -r 'select(.MESSAGE | type == "string" and test("^<[0-9]>")) | .MESSAGE' "$work/journal")" '' 'no message keeps its priority prefix'
like "$(jq -r .PRIORITY "$work/journal" | sort -u | tr '\n' ' ')" '4.*6' 'messages have priorities'
is "$(jq -r 'select(.MESSAGE | type == "string" and test("started version=")) | .PRIORITY' "$work/journal" | sort -u)" 6 'a start is information'

# Both tokens of this node: the one of the join command and its own.
(umask 077 && jq -r .token <(sed -n '/^limpet join/,/^EOF$/ { /^limpet join/d; /^EOF$/d; p; }' "$work/join.sh") "$machine_root/var/lib/limpet/identity.json" >"$work/tokens")
is "$(grep -cE '^[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+$' "$work/tokens")" 2 'two tokens to look for'
M journalctl --quiet --no-pager --output=export >"$work/journal"
is "$(grep -aFc -f "$work/tokens" "$work/journal")" 0 'no token is in the journal'
M sh -c 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ' 2>/dev/null | tr '\0' '\n' >"$work/processes"
ok 'the processes were looked at' grep -q '^run$' "$work/processes"
is "$(grep -aFc -f "$work/tokens" "$work/processes")" 0 'nor in the arguments or environment of a process'
is "$(find "$machine_root"/{etc,var/lib,var/log} -type f -perm /077 -exec grep -aFl -f "$work/tokens" {} +)" '' 'nor in a file that others may read'

done_testing
