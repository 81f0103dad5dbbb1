#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What workloads do in the field: a supervisor that is killed, a program that is not there, a flood of output.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=kappa
ns=edge-kappa
files=$work/$node/files

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node sync.backoff=100ms
agent_join $node >/dev/null || bail_out "join"
agent_start $node
eventually 60 'it is online' online $node

# --- the supervisor of an instance is killed
app_yaml web | put
eventually 30 'an app runs' ready eapp web
pid=$(pids $node web)
shim=$(ps -o ppid= -p "$pid" | tr -d ' ')
like "$(tr '\0' ' ' <"/proc/$shim/cmdline")" 'shim' 'under its supervisor'
kill -KILL "$shim"
gone() { ! kill -0 "$pid" 2>/dev/null; }
eventually 30 'field 32: the supervisor is killed: what it left is ended' gone
another() { local now; now=$(pids $node web); [[ $now =~ ^[0-9]+$ && $now != "$pid" ]] && kill -0 "$now"; }
eventually 60 'field 32: and it is started again' another
eventually 30 'field 32: once' equals 1 field eapp web '{.status.instances[0].restarts}'
eventually 30 'field 32: and is Ready' ready eapp web

# --- a program that is not there, then is
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: late}\nspec: {command: ["%s/late"]}\n' "$files" | put
eventually 30 'field 28: what cannot be started is told' equals StartFailed reason eapp late Ready
like "$(message eapp late Ready)" 'No such file or directory' 'field 28: with the error'
like "$(message eapp late Ready)" 'install' 'field 28: and what to do'
printf '#!/bin/sh\nexec sleep 100000\n' >"$files/late.new"
chmod 755 "$files/late.new"
mv "$files/late.new" "$files/late"
eventually 120 'field 28: once it can be started it is' ready eapp late

# --- a flood
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: flood}\nspec:\n  command: ["/bin/sh", "-c", "yes flood | head -c 60000000; echo done >%s/done; exec sleep 100000"]\n' "$files" | put
eventually 90 'field 29: a workload that floods its log is not held up' file_is "$files/done" 'done'
logged() { du -cb "$work/$node/log"/*flood* | awk 'END { print $1 }'; }
ok "field 29: 60 MB of output leave $(logged) bytes" test "$(logged)" -lt 4000000
eventually 30 'field 29: what is missing is told' matches 'bytes of this log were dropped' L $node logs flood

done_testing
