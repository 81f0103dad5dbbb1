#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Each file of examples/ does what its comment says: the commands in it are run as they stand there, on a real API server, with an agent
# whose /etc and /var/backups are its own. Then it is deleted, and nothing of it is left.
# timeout: 600
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=mu
ns=edge-mu
wait_limit=60s


# commands FILE: the lines of its first comment that are to be typed.
commands() { sed -n '/^[^#]/q; s/^#   \(kubectl\|limpet\) /\1 /p' "$1" | sed "s/edge-NODE/$ns/g; s/edgenode\/NODE/edgenode\/$node/g; s/  *#.*//"; }

# typed COMMAND...: one of those lines.
typed() {
	case $1 in
	kubectl)
		shift
		[[ $1 != wait ]] || set -- "$@" --timeout=$wait_limit
		k "$@"
		;;
	limpet)
		shift
		L $node "$@"
		;;
	esac
}

# objects FILE: KIND/NAME of each.
objects() { k apply --dry-run=client -o 'jsonpath={.kind}/{.metadata.name}' -f "$1" | tr '[:upper:]' '[:lower:]'; }
namespace_of() { commands "$1" | sed -n 's/.*apply -n \([^ ]*\) .*/\1/p'; }
knows_not() { # KIND/NAME: the agent has forgotten it
	! L $node get "${1%/*}" "${1#*/}" >/dev/null 2>&1
}

# at_night: the window by day of edgepolicy-halls.yaml lies hours ahead, whenever this runs: while it is open the node would ask only each five minutes.
at_night() { sed "s/\"06:00-20:00\"/\"$(TZ=Europe/Berlin date -d '3 hours' +%H:%M)-$(TZ=Europe/Berlin date -d '4 hours' +%H:%M)\"/"; }

try() { # FILE
	local name copy object words
	name=$(basename "$1")
	copy=$work/examples/$name
	sed "s/8080/$port/g" "$1" | at_night >"$copy"
	cd "$work" || return
	while read -ra words; do
		ok "$name: ${words[*]}" typed "${words[@]}"
	done < <(commands "$copy")
	[[ $name != *halls* ]] || eventually 30 "$name: the policy is in force" matches 'metered.*EdgePolicy edge-system/halls|halls' L $node policy
	object=$(objects "$copy")
	ok "$name: it is deleted" k delete -n "$(namespace_of "$copy")" -f "$copy"
	eventually 60 "$name: the node has forgotten it" knows_not "$object"
}

(($(id -u) == 0)) || skip_all 'the examples write below /etc: only root gives an agent one of its own'
cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node clock.trust=always
sed -i 's/^paths = .*files$/paths = \/etc/' "$work/$node/limpet.ini"
agent_join $node || bail_out "no join"
mkdir -p "$work/examples" "$work/backups"
cp -a /etc "$work/etc"
# shellcheck disable=SC2016  # for the shell in there
agent_under=(unshare --mount --propagation private /bin/sh -c
	'mount --bind "$0/etc" /etc && mkdir -p /var/backups && mount --bind "$0/backups" /var/backups && exec "$@"' "$work")
agent_start $node
eventually 30 'the agent is online' online $node
port=$(free_port) # in the place of the one that everybody has
motd=$(cat /etc/motd 2>/dev/null)
for file in "$top"/examples/*.yaml; do
	try "$file"
done
is "$(cat /etc/motd 2>/dev/null)" "$motd" 'the machine has its own /etc still'
is "$(cat "$work/etc/motd" 2>/dev/null)" "$motd" 'and what was in the way is back in the other one'
not_ok 'nothing is left of what was to be deleted' test -e "$work/etc/thermostat/thermostat.conf"
is "$(L $node get | awk 'NR > 1 { print $1 }')" EdgeNode 'the node has nothing but itself'
agent_stop $node
done_testing
