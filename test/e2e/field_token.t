#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A token file that is rotated, as for pods: each minute it is read again, and at once when the server does not take the old one any more.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=theta
ns=edge-theta
files=$work/$node/files
door=$work/$node/door

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
# Polls: so there is a request each second that shows which token is in use.
agent_new $node sync.mode=poll sync.interval=1s sync.backoff=100ms
agent_join $node >/dev/null || bail_out "join"
agent_door $node
account=$(k get serviceaccounts -n $ns -o 'jsonpath={.items[?(@.metadata.name!="default")].metadata.name}')

# mark_of FILE: what the door writes down of a token.
mark_of() { printf 'Bearer %s' "$(tr -d '\n' <"$1")" | sha256sum | cut -c 1-8; }
# rotate: a new token in the place of the old one, in one step; `old` and `new` are their marks.
rotate() {
	old=$(mark_of "$door/token")
	(umask 077 && k create token "$account" -n $ns --duration=1h >"$door/token.new") || bail_out "no token"
	new=$(mark_of "$door/token.new")
	mv "$door/token.new" "$door/token"
}
used() { grep -q -- "-> 200 by $1\$" "$door/log"; }

file_yaml motd "$files/motd" one | put
agent_start $node
eventually 60 'it is online' online $node
eventually 30 'the file is written' file_is "$files/motd" one

rotate
ok 'the new token is another' test "$old" != "$new"
eventually 100 'field 9: a rotated token is read within its minute' used "$new"

# That minute has just begun, so what comes sooner than its end comes by the refusal.
rotate
rules $node "[{\"match\": \"\", \"bearer\": \"$old\", \"answer\": {\"status\": 401, \"body\": \"{\\\"kind\\\":\\\"Status\\\",\\\"code\\\":401,\\\"reason\\\":\\\"Unauthorized\\\",\\\"message\\\":\\\"Unauthorized\\\"}\"}}]"
eventually 30 'field 9: the old one is refused: the new one is read at once' used "$new"
eventually 30 'field 9: and the agent is online' online $node
file_yaml motd "$files/motd" two | put
eventually 30 'field 9: and takes what is new' file_is "$files/motd" two

# Refused, and nothing better in the file yet.
rules $node "[{\"match\": \"\", \"bearer\": \"$new\", \"answer\": {\"status\": 401, \"body\": \"{}\"}}]"
eventually 60 'field 9: refused without a new one: offline' not_online $node
echo drift >"$files/motd"
eventually 30 'field 9: what it has it keeps in order' file_is "$files/motd" two
rotate
eventually 90 'field 9: and comes back when there is a new one' online $node
ok 'field 9: with that' used "$new"

done_testing
