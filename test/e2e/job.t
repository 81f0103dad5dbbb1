#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# EdgeJob on a real API server: one-shots that succeed, fail and are tried again; an agent and a supervisor that are killed; a schedule,
# with and without the server; what is kept of the runs. A schedule of each minute is the fastest there is by the five fields; "@every"
# is used where the minute itself is not what is tested.
# timeout: 600
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=kappa
ns=edge-kappa
files=$work/$node/files

# job NAME SCRIPT [YAML-LINE...]. In the script $$$$ is $$, as the kind expands $$ to $.
job() {
	local name=$1 script=$2
	shift 2
	{
		printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeJob\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n' "$name"
		printf '  command: ["/bin/sh", "-c", %s]\n' "$(jq -n --arg s "$script" '$s')"
		((! $#)) || printf '  %s\n' "$@"
	} | put
}
run_of() { field ejob "$1" "{.status.runs[${3:-0}].$2}"; }
counted() { # REASON NAME: events of this reason about a job on the server
	k get events.events.k8s.io -n $ns -o json |
		jq -r --arg r "$1" --arg n "$2" '[.items[] | select(.reason == $r and .regarding.name == $n)] | length'
}
instances_of() { # NAME: directories of its attempts
	local state
	for state in "$work/$node"/run/i/*/; do
		[[ ! -d $state ]] || ! grep -qs "edgejobs/$ns/$1\$" "$state"/* || basename "$state"
	done
}
lines() { [[ -e $1 ]] && wc -l <"$1"; }
more_than() { # N COMMAND...
	local n=$1
	shift
	(($("$@") > n))
}

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
# Well known, so that nobody has to vouch for the clock of the machine that runs this.
agent_new $node clock.trust=always
agent_join $node || bail_out "no join"
agent_start $node
eventually 30 'the agent is online' online $node

# --- One-shots

job good "echo one; echo two; printf 'caf\303\251 \377\n'; echo \"\$LIMPET_RUN \$LIMPET_ATTEMPT\" >>$files/good"
eventually 30 'a one-shot completes' equals True cond ejob good Complete
eventually 30 'and is ready' ready ejob good
is "$(run_of good outcome)" Succeeded 'its outcome'
is "$(run_of good exitCode)" 0 'its exit code'
like "$(run_of good output)" '^one.*two.*café \?' 'the end of its output, as text'
is "$(cat "$files/good")" "$(run_of good name) 1" 'it knows its name and attempt'
eventually 30 'an event tells' equals 1 counted RunSucceeded good
like "$(L $node logs ejob/good)" '^one' 'limpet logs'
is "$(L $node logs good --run "$(run_of good name)" --tail 7 | head -c 4)" "$(L $node logs good --tail 7 | head -c 4)" 'of a run by its name'
like "$(L $node get ejob)" 'EdgeJob +good +True +Succeeded' 'limpet get'
like "$(k get ejob -n $ns good --no-headers)" '^good +Succeeded +1 +0 +Succeeded' 'its columns'
job good "echo one; echo two; printf 'caf\303\251 \377\n'; echo \"\$LIMPET_RUN \$LIMPET_ATTEMPT\" >>$files/good" 'backoffLimit: 1'
job good "echo again >>$files/good"
eventually 30 'a new revision runs once more' equals 2 field ejob good '{.status.succeeded}'
is "$(lines "$files/good")" 2 'and what was no new revision did not'

job bad "echo try >>$files/bad; exit 3" 'backoffLimit: 1'
job missing 'true' 'backoffLimit: 0' 'workingDir: /nowhere'
eventually 30 'what cannot be started has failed' equals True cond ejob missing Failed
like "$(message ejob missing Failed)" 'could not be started.*/nowhere.*workingDir' 'and says what to do'
eventually 30 'a failed attempt backs off' equals BackOff field ejob bad '{.status.state}'
eventually 60 'after 10 s it was tried again, and failed for good' equals BackoffLimitExceeded reason ejob bad Failed
is "$(lines "$files/bad") $(run_of bad attempts) $(run_of bad exitCode)" '2 2 3' 'two attempts, exit code 3'
eventually 30 'one event for the run' equals 1 counted RunFailed bad

k apply -n $ns -f - >"$work/refused" 2>&1 <<-'END'
	apiVersion: edge.limpet.dev/v1alpha1
	kind: EdgeJob
	metadata: {name: refused}
	spec: {command: ["true"], execution: AtMostOnce, backoffLimit: 1}
END
like "$(cat "$work/refused")" 'spec.backoffLimit.*must be 0 with execution AtMostOnce' 'the server refuses what cannot be'
job odd 'true' 'schedule: "61 * * * *"'
eventually 30 'a schedule that is none' equals False cond ejob odd Accepted
like "$(message ejob odd Accepted)" 'spec.schedule: ' 'names the field'

# --- Killed

job long "echo \$\$\$\$ >$files/long; trap 'exit 0' TERM; i=0; while [ ! -e $files/long.end ]; do sleep 0.2; done; echo done; exit 9" 'execution: AtMostOnce'
eventually 30 'a long run' test -s "$files/long"
pid=$(<"$files/long")
agent_kill $node
sleep 0.5
agent_start $node
eventually 30 'field 22: the agent is killed: the next one knows the run' equals Running field ejob long '{.status.state}'
ok "field 22: the same process runs" kill -0 "$pid"
agent_kill $node
: >"$files/long.end"
ended() { ! kill -0 "$1" 2>/dev/null; }
wait_for 30 'the run ends while no agent is there' ended "$pid"
ended_at=$(date +%s)
agent_start $node
eventually 30 'field 22: its exit is recorded' equals 9 run_of long exitCode
at=$(date -d "$(run_of long completionTime)" +%s)
about() { (($1 - $2 >= -3 && $1 - $2 <= 3)); }
ok 'with the time at which it ended' about "$at" "$ended_at"
is "$(run_of long attempts)" 1 'field 22: in one attempt'

job once "echo \$\$\$\$ >>$files/once; exec sleep 1000" 'execution: AtMostOnce'
job atleast "echo \$\$\$\$ >>$files/atleast; [ \$(wc -l <$files/atleast) -gt 1 ] || exec sleep 1000"
both() { [[ -s $files/once && -s $files/atleast ]]; }
eventually 30 'two more run' both
kill -KILL "$(shim_pid "$(instances_of once)")" "$(shim_pid "$(instances_of atleast)")"
eventually 30 'field 22: its supervisor is killed: Unknown' equals OutcomeUnknown reason ejob once Failed
eventually 60 'AtLeastOnce is tried again' equals True cond ejob atleast Complete
is "$(run_of atleast attempts)" 2 'in a second attempt'
is "$(lines "$files/once")" 1 'field 22: AtMostOnce is not'

# --- Suspended, deleted

job held "echo \$\$\$\$ >>$files/held; exec sleep 1000" 'suspend: true'
eventually 30 'suspended' equals True cond ejob held Suspended
ok 'nothing was started' test ! -e "$files/held"
k patch ejob held -n $ns --type=merge -p '{"spec":{"suspend":false}}' >/dev/null
eventually 30 'resumed, it runs' equals Running field ejob held '{.status.state}'
k patch ejob held -n $ns --type=merge -p '{"spec":{"suspend":true}}' >/dev/null
eventually 30 'suspended again' equals True cond ejob held Suspended
ok 'what runs goes on' kill -0 "$(<"$files/held")"
k delete ejob held -n $ns >/dev/null
eventually 30 'deleted: it is stopped' ended "$(<"$files/held")"
gone_logs() { ! compgen -G "$work/$node/log/${ns}_held.*" >/dev/null; }
eventually 30 'and its log removed' gone_logs

# --- By a schedule

job forbid "echo \$LIMPET_SCHEDULED >>$files/forbid; sleep 5" 'schedule: "@every 2s"' 'concurrencyPolicy: Forbid'
job replace "echo \$LIMPET_SCHEDULED >>$files/replace; exec sleep 1000" 'schedule: "@every 3s"' 'concurrencyPolicy: Replace'
job minute "echo \$LIMPET_SCHEDULED >>$files/minute" 'schedule: "* * * * *"' 'timeZone: Europe/Berlin'
job quick "echo \$LIMPET_SCHEDULED >>$files/quick" 'schedule: "@every 2s"' 'successfulJobsHistoryLimit: 2'
eventually 30 'Forbid leaves out what is due meanwhile' more_than 0 field ejob forbid '{.status.skipped}'
alone() { [[ $(instances_of "$1" | wc -l) -le 1 ]]; }
ok 'one runs at a time' alone forbid
eventually 30 'Replace stops the one before' equals Replaced run_of replace outcome
eventually 30 'runs follow each other' more_than 3 field ejob quick '{.status.succeeded}'
eventually 90 'at the full minute' more_than 0 field ejob minute '{.status.succeeded}'
like "$(run_of minute scheduledTime)" ':00Z$' 'its instant'
like "$(field ejob minute '{.status.nextScheduleTime}')" ':00Z$' 'and the next'
is "$(field ejob quick '{.status.runs[*].outcome}')" 'Succeeded Succeeded' 'as many are kept as asked for'
logs_of() { compgen -G "$work/$node/log/${ns}_$1.*.log" | wc -l; }
few_logs() { (($(logs_of quick) <= 3)); }
eventually 30 'with as many logs' few_logs
k delete ejob forbid replace -n $ns >/dev/null

cluster stop-apiserver --kill >/dev/null
wait_for 60 "the agent notices" offline $node
from=$(lines "$files/quick")
eventually 60 'without a server runs go on' more_than $((from + 4)) lines "$files/quick"
offline_at=$(sed -n "$((from + 2))p" "$files/quick")
agent_kill $node
agent_start $node
eventually 30 'also after the agent was killed' more_than $((from + 7)) lines "$files/quick"
cluster start-apiserver >/dev/null
eventually 120 'the server is back: it hears of it' online $node
all_told() { [[ $(counted RunSucceeded quick) == "$(field ejob quick '{.status.succeeded}')" ]]; }
k patch ejob quick -n $ns --type=merge -p '{"spec":{"suspend":true}}' >/dev/null
eventually 60 'an event for each run' all_told
is "$(sort "$files/quick" | uniq -d | wc -l)" 0 'no instant ran twice'
is "$(lines "$files/quick")" "$(field ejob quick '{.status.succeeded}')" 'and each is counted'
at_of() { # INSTANT: seconds from the instant to the eventTime of its run
	k get events.events.k8s.io -n $ns -o json | jq -r --arg i "$1" \
		'.items[] | select(.reason == "RunSucceeded" and (.note | contains("scheduled for " + $i))) | .eventTime' | head -n 1
}
late=$(($(date -d "$(at_of "$offline_at")" +%s) - $(date -d "$offline_at" +%s)))
ok "a run of that time has its own time ($late s after its instant)" about "$late" 2

done_testing
