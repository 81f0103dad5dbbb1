#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# limpet's command line on a real agent and a real API server: what each command answers, refuses and leaves behind, and its exit codes.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=$(ns_of $node)
files=$work/$node/files
ini=$work/$node/limpet.ini
# says COMMAND... REGEX: for eventually, whatever the exit status.
says() { [[ $("${@:1:$#-1}" 2>&1) =~ ${!#} ]]; }
exits() { # STATUS COMMAND...
	local wanted=$1
	shift
	"$@" >/dev/null 2>&1
	(($? == wanted))
}
lines_are_json() { # FILE: not empty, one JSON value a line
	[[ -s $1 ]] && [[ $(jq -c . "$1" | wc -l) == "$(wc -l <"$1")" ]]
}

cat >"$work/bare.ini" <<-INI
	[paths]
	state = $work/bare/state
	run = $work/bare/run
	log = $work/bare/log
INI
bare() { "$limpet" --config "$work/bare.ini" "$@"; }

# ---------------------------------------------------------------------------------------------------- without an agent

run_is 0 'limpet --help' "$limpet" --help
commands=$(sed -n 's/^  \([a-z-]\+\) .*/\1/p' <<<"$out" | tr '\n' ' ')
is "$commands" 'run join leave status check get describe apply delete diff logs events outbox policy resync store check-config version help ' 'lists every command'
for command in $commands; do
	run_is 0 "limpet $command --help" "$limpet" "$command" --help
	like "$out" "^usage: limpet $command" 'shows its usage on standard output'
	run_is 0 "limpet help $command" "$limpet" help "$command"
done
run_is 0 'limpet version' "$limpet" version
like "$out" '^limpet [0-9]+\.[0-9]+\.[0-9]+ ' 'says which'
run_is 0 'limpet --version' "$limpet" --version

# bad_usage ARGUMENT...: refused with 2 and the usage, before anything is looked at.
bad_usage() {
	run_is 2 "limpet $*: refused" bare "$@"
	like "$err" 'usage: limpet ' "limpet $*: shows the usage"
}
bad_usage
bad_usage frobnicate
bad_usage --frobnicate
bad_usage --config
bad_usage --set
bad_usage run now
bad_usage join
bad_usage join --server
bad_usage join --server https://127.0.0.1:1 --node a --namespace b
bad_usage join --nonsense
bad_usage leave --no
bad_usage leave
bad_usage status now
bad_usage status -o yaml
bad_usage check now
bad_usage check -o yaml
bad_usage check -o
bad_usage describe
bad_usage describe eapp
bad_usage describe eapp a b
bad_usage describe eapp a -o yaml
bad_usage describe --all
bad_usage get -o yaml
bad_usage get -o
bad_usage get -o diff
bad_usage get edgeapps -o diff
bad_usage get eapp a b
bad_usage get --all
bad_usage logs
bad_usage logs a b
bad_usage logs a --tail
bad_usage logs a --tail many
bad_usage logs a --tail -5
bad_usage logs a --index first
bad_usage outbox everything
bad_usage outbox -o diff
bad_usage resync --force
bad_usage resync --accept now
bad_usage store
bad_usage store drop
bad_usage store dump all
bad_usage check-config --defaults
bad_usage check-config --print now
bad_usage version now
bad_usage help me
bad_usage help run now
for command in status get 'get eapp x' 'get eapp x -o diff' 'logs x' outbox resync; do
	# shellcheck disable=SC2086 # words
	run_is 3 "limpet $command without an agent: 3" bare $command
	like "$err" "^limpet: no agent runs here \\($work/bare/run/control.sock: " 'and it says so'
done
run_is 1 'limpet store dump without a store: 1' bare store dump
like "$err" "$work/bare/state" 'and it names what is missing'
ok 'and none is made' test ! -e "$work/bare/state"

# ------------------------------------------------------------------------------------------------------- configuration

run_is 0 'check-config of a good file' bare check-config
is "$out" "$work/bare.ini: ok" 'says ok'
cat >"$work/bad.ini" <<-INI
	[sync]
	intervall = 10s
	mode = sometimes
	[snyc]
	mode = poll
	[lease]
	duration = 10
	[paths]
	run = relative
INI
run_is 78 'check-config of a bad file: 78' "$limpet" --config "$work/bad.ini" check-config
like "$err" "$work/bad.ini:2: \\[sync\\] intervall: unknown key; did you mean \"interval\"\\?" 'an unknown key: file, line and the nearest'
like "$err" "$work/bad.ini:3: \\[sync\\] mode: " 'a bad word'
like "$err" "$work/bad.ini:5: .*unknown section; did you mean \"sync\"\\?" 'an unknown section'
like "$err" "$work/bad.ini:7: \\[lease\\] duration: " 'a duration without a unit'
like "$err" "$work/bad.ini:9: \\[paths\\] run: " 'a relative path'
like "$err" '5 problems in the configuration' 'all at once'
run_is 78 'limpet run with a bad file: 78' "$limpet" --config "$work/bad.ini" run
run_is 78 'limpet status with a bad file: 78' "$limpet" --config "$work/bad.ini" status
run_is 78 'a file that was named must be there' "$limpet" --config "$work/absent.ini" check-config
like "$err" "$work/absent.ini: no such file" 'it is named'

run_is 0 'check-config --print' bare check-config --print
printf '%s\n' "$out" >"$work/printed.ini"
run_is 0 'what it prints is a configuration' "$limpet" --config "$work/printed.ini" check-config --print
is "$out" "$(<"$work/printed.ini")" 'the same one'
bare --set server.proxy=http://user:hunter2@192.0.2.1:3128 check-config --print >"$work/printed.ini" 2>&1
not_ok 'it does not show the password of a proxy' grep -q hunter2 "$work/printed.ini"
run_is 0 'and stays readable' "$limpet" --config "$work/printed.ini" check-config
printed() { bare "$@" check-config --print | sed -n '/^\[sync\]/,/^\[lease\]/s/^interval = //p'; }
is "$(printed)" 10s 'a default'
mkdir "$work/conf.d"
printf '[sync]\ninterval = 11s\n' >"$work/conf.d/10-a.ini"
is "$(printed)" 11s 'conf.d beats the file'
printf '[sync]\ninterval = 12s\n' >"$work/conf.d/20-b.ini"
is "$(printed)" 12s 'a later name in conf.d beats an earlier one'
is "$(LIMPET_SYNC_INTERVAL=13s printed)" 13s 'LIMPET_SYNC_INTERVAL beats files'
is "$(LIMPET_SYNC_INTERVAL=13s printed --set sync.interval=14s)" 14s '--set beats the environment'
is "$(printed --set=sync.interval=15s)" 15s '--set=...'
rm -r "$work/conf.d"
is "$(LIMPET_CONFIG=$work/bare.ini "$limpet" check-config)" "$work/bare.ini: ok" 'LIMPET_CONFIG names the file'
LIMPET_SYNC_INTERVALL=1s run_is 78 'an unknown LIMPET_ variable: 78' bare check-config
like "$err" 'LIMPET_SYNC_INTERVALL' 'it is named'
run_is 78 'an unknown --set: 78' bare --set sync.intervall=1s check-config
like "$err" 'did you mean "interval"' 'with the nearest name'
run_is 78 'a --set without a value: 78' bare --set sync check-config
like "$err" 'section.key=value' 'it shows the form'

# ---------------------------------------------------------------------------------------------------------------- join

cluster_up
ok 'limpetctl installs the CRDs' "$limpetctl" install
agent_new $node
(umask 077 && "$limpetctl" node add $node --server "$(server_url)" --force >"$work/join.sh") || bail_out 'no join command'
hash=$(grep -o 'sha256:[0-9a-f]*' "$work/join.sh")
join_token() { (umask 077 && sed -n "/<<'EOF'/,/^EOF/p" "$work/join.sh" | sed '1d;$d' >"$work/token"); }
join_token
ok 'the join command carries a token' jq -e 'has("token")' "$work/token"
join() { L $node join --server "$(server_url)" --ca-hash "$hash" --node $node --namespace "$ns" "$@"; }

run_is 1 'join without a token' join
like "$err" '^limpet: join: no token: .*--token-file' 'it says how to give one'
run_is 1 'join with a token file that is not there' join --token-file "$work/absent"
like "$err" "$work/absent: No such file" 'it is named'
echo nonsense >"$work/nonsense"
run_is 1 'join with what is no token' join --token-file "$work/nonsense"
like "$err" 'limpetctl node add' 'the remedy is named'
run_is 1 'join with a wrong hash' join --ca-hash "sha256:$(printf '0%.0s' {1..64})" --token-file "$work/token"
like "$err" 'expected was sha256:0000' 'it says what was expected'
like "$err" 'another server|another cluster' 'and what that means'
run_is 1 'join with a hash that is none' join --ca-hash sha256:abc --token-file "$work/token"
like "$err" '64 hexadecimal digits' 'it shows the form'
run_is 1 'join into another namespace' join --namespace edge-beta --token-file "$work/token"
like "$err" "for namespace $ns, not for edge-beta" 'it says which the token is for'
run_is 1 'join over http' join --server http://127.0.0.1:1 --token-file "$work/token"
like "$err" 'https://' 'it says that the token is not sent so'
run_is 1 'join to a port where nobody listens' join --server https://127.0.0.1:1 --token-file "$work/token"
like "$err" '127\.0\.0\.1:1' 'it says which'
like "$err" 'nothing listens there, or a firewall' 'and what to look at'
(umask 077 && jq -c '.token |= (.[:-8] + "AAAAAAAA")' "$work/token" >"$work/forged")
run_is 1 'join with a token that the server does not know' join --token-file "$work/forged"
like "$err" 'expired.*limpetctl node add.*new join command' 'the remedy is named'
ok 'a join that failed leaves no identity' test ! -e "$work/$node/state/identity.json"
run_is 0 'join with a token file' join --token-file "$work/token"
like "$out" "joined https://.* as node $node, namespace $ns" 'it says as what'
like "$out" 'start the agent' 'and what to do next'
is "$(stat -c %a "$work/$node/state/identity.json")" 600 'the identity is ours alone'
node_token=$(jq -r .token "$work/$node/state/identity.json")

# -------------------------------------------------------------------------------------------------------------- status

agent_start $node
eventually 30 'status: 0 when online' online $node
run_is 0 'status' L $node status
like "$out" "node +$node \\(namespace $ns\\)" 'names the node'
like "$out" 'link +Online for [0-9]+s' 'the link'
like "$out" 'source +edge\.limpet\.dev/v1alpha1/edgeapps@edge-alpha: Current' 'the sources'
like "$out" 'lease +held' 'the lease'
run_is 0 'status -o json' L $node status -o json
is "$(jq -r '.link.state, .node' <<<"$out" | tr '\n' ' ')" "Online $node " 'is JSON'

run_is 1 'a second agent with the same run directory is refused' L $node run
like "$err" 'an agent runs already with run directory' 'it says so'
like "$err" 'limpet status' 'and where to look'
run_is 1 'a second agent with the same state directory is refused' L $node --set "paths.run=$work/$node/run2" run
like "$err" 'store .*(in use|another|locked)' 'it says why'
ok 'the first is not disturbed' L $node status
ok 'its store is not taken for a damaged one' equals null eval "L $node status -o json | jq -r .store.damagedFile"

# ----------------------------------------------------------------------------------------------------------------- get

run_is 0 'get on a node that has only itself' L $node get
like "$out" "EdgeNode +$node" 'shows it'
run_is 0 'get of a kind without objects' L $node get eapp
is "$out" 'no objects on this node' 'says so'

cat <<-YAML | put
	apiVersion: edge.limpet.dev/v1alpha1
	kind: EdgeApp
	metadata: {name: echo}
	spec:
	  command:
	  - /bin/sh
	  - -c
	  - echo started; while true; do [ ! -e $files/say ] || { cat $files/say; rm $files/say; }; sleep 0.1; done
	  terminationGracePeriodSeconds: 1
YAML
app_yaml quiet | sed 's/echo started; //' | put
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: crash}\nspec: {command: ["/bin/sh", "-c", "exit 4"]}\n' | put
file_yaml motd "$files/motd" hello | put
eventually 30 'the app is Ready' ready eapp echo
eventually 30 'the file is Ready' ready ecfg motd
run_is 0 'get' L $node get
like "$out" '^KIND +NAME +READY +STATE +REPORTED +REASON' 'has a header'
like "$out" 'EdgeApp +echo +True +Running' 'an app'
like "$out" 'EdgeConfig +motd +True' 'a configuration'
for kind in edgeapps edgeapp EdgeApp eapp; do
	run_is 0 "get $kind" L $node get $kind
	like "$out" 'EdgeApp +echo' 'shows the app'
	not_ok 'and only apps' grep -q motd "$work/out"
done
run_is 0 'get KIND NAME' L $node get eapp echo
is "$(wc -l <<<"$out")" 2 'shows one'
run_is 0 'get KIND NAME -o json' L $node get eapp echo -o json
is "$(jq -r '.kind, .metadata.name, .spec.terminationGracePeriodSeconds, .status.state' <<<"$out" | tr '\n' ' ')" 'EdgeApp echo 1 Running ' \
	'is JSON with spec and status'
run_is 0 'get -o json' L $node get -o json
ok 'one JSON value an object' lines_are_json "$work/out"
is "$(jq -r 'select(.spec == null) | .kind' "$work/out")" EdgeNode 'each with its spec, if it has one'
run_is 1 'get of an unknown kind' L $node get pods
like "$err" '^limpet: no kind "pods" here' 'says so'
run_is 1 'get of an unknown name' L $node get eapp nobody
like "$err" '^limpet: edgeapps "nobody" not found' 'says so'
run_is 1 'get -o diff of an unknown name' L $node get eapp nobody -o diff
like "$err" '^limpet: .*nobody' 'names it'
run_is 1 'get -o diff of an unknown kind' L $node get pods x -o diff
like "$err" '^limpet: no kind "pods" here' 'says so'

run_is 0 'get -o diff of what is as it should be' L $node get ecfg motd -o diff
is "$out" 'no difference' 'says so'
mkdir -p "$work/blocked/in-the-way" # a directory that is not empty: no file can be put there
block() { rm -f "$files/motd" && mv -T "$work/blocked" "$files/motd"; }
wait_for 30 'the directory is in the way' block
eventually 30 'get -o diff names what cannot be repaired' says L $node get ecfg motd -o diff "$files/motd existence"
like "$(L $node get ecfg motd -o diff)" 'want regular file.*have .*no regular file' 'and shows what is wanted and what is there'
rm -r "$files/motd"
eventually 30 'it heals when the way is free' file_is "$files/motd" hello
eventually 60 'get -o diff of an app that waits in backoff' says L $node get eapp crash -o diff 'instances\[0\] state.*want running.*have ended, starts again in'
like "$(L $node get eapp crash)" 'EdgeApp +crash +False' 'get shows that it is not ready'

# ---------------------------------------------------------------------------------------------------------------- logs

eventually 30 'logs' matches started L $node logs echo
run_is 1 'logs of an unknown app' L $node logs nobody
like "$err" '^limpet: .*nobody.*not found' 'says so'
run_is 1 'logs of an instance that is not there' L $node logs echo --index 7
like "$err" '^limpet: .*echo' 'says so'
say() { # FILE: the app prints it
	cp "$1" "$files/say.new" && mv "$files/say.new" "$files/say"
}
seq 100000 111000 | sed 's/$/ a line of some length: many pieces of an answer, below the rate of a log/' >"$work/long"
say "$work/long"
eventually 60 'a long log arrives' matches '111000 a line' L $node logs echo --tail 100
run_is 0 'logs of it' L $node logs echo
is "$(tail -n +2 "$work/out" | cmp - "$work/long" 2>&1)" '' 'is complete'
run_is 0 'logs --tail' L $node logs echo --tail 10
is "$out" ' of a log' 'shows the last bytes'
printf 'caf\xc3\xa9 \xff\xfe damaged\n' >"$work/odd"
say "$work/odd"
eventually 30 'logs with bytes that are no text do not break' matches 'damaged$' L $node logs echo --tail 100
like "$(L $node logs echo --tail 100)" 'café' 'and keep what is text'

env --default-signal=INT "$limpet" --config "$ini" logs echo -f --tail 20 >"$work/follow" 2>&1 </dev/null &
follower=$!
end_follower() { [[ -z $follower ]] || kill -KILL "$follower"; }
at_exit end_follower
eventually 30 'logs -f shows what is there' grep -q damaged "$work/follow"
echo later >"$work/later"
say "$work/later"
eventually 30 'a later line arrives' grep -q '^later$' "$work/follow"
kill -INT $follower
wait $follower
is $? 130 'it ends on SIGINT'
follower=''
ok 'the agent does not mind' L $node status

# -------------------------------------------------------------------------------------------------- control group

# The binary and the directories that lead to the socket are open to everybody; the socket is not.
install -m 755 "$limpet" "$work/limpet"
chmod 711 "$work" "$work/$node"
printf '[paths]\ncontrolGroup = daemon\nrun = %s\n' "$work/$node/run" >"$work/user.ini"
gid=$(getent group daemon | cut -d: -f3)
sed -i 's/^\[paths\]$/&\ncontrolGroup = daemon/' "$ini"
agent_stop $node
agent_start $node
is "$(stat -c '%a %g' "$work/$node/run/control.sock")" "660 $gid" 'the control socket belongs to the group'
as_user() { # GID ARGUMENT...
	local gid=$1
	shift
	setpriv --reuid=65534 --regid="$gid" --clear-groups "$work/limpet" --config "$work/user.ini" "$@"
}
eventually 30 'online again' online $node
run_is 1 'somebody outside the group is refused' as_user 65534 status
like "$err" 'permission denied; be root or in the group daemon' 'and hears what it takes'
run_is 0 'a member of the group may see the status' as_user "$gid" status
run_is 0 'and objects' as_user "$gid" get eapp echo
run_is 0 'and logs' as_user "$gid" logs echo --tail 10
run_is 0 'and the outbox' as_user "$gid" outbox
run_is 1 'but not resync' as_user "$gid" resync
like "$err" 'only root may' 'and hears why'
run_is 1 'nor dump the store' as_user "$gid" store dump
like "$err" 'only root may' 'and hears why'

# Readers that hold on to their places do not lock root out.
followers=()
for _ in 1 2 3 4 5 6 7 8; do
	(exec setpriv --reuid=65534 --regid="$gid" --clear-groups "$work/limpet" --config "$work/user.ini" logs echo -f) >/dev/null 2>&1 &
	followers+=($!)
done
crowded() { as_user "$gid" status 2>&1 | grep -q 'too many clients'; }
eventually 30 'members of the group fill the places they have' crowded
run_is 0 'and root is answered all the same' L $node status
kill "${followers[@]}" 2>/dev/null
wait "${followers[@]}" 2>/dev/null
eventually 30 'who hangs up leaves its place' as_user "$gid" status
run_is 1 'nor leave' as_user "$gid" leave --yes
like "$err" 'only root may' 'and hears why'
ok 'nothing was left' ready eapp echo

# --------------------------------------------------------------------------------------------------- outbox and resync

eventually 30 'the outbox empties' matches '^nothing: the server has heard everything$' L $node outbox
like "$(L $node outbox --all)" 'event +edgeapps/.*Started.*\[sent\]' 'outbox --all shows what was sent'
relists() { L $node status -o json | jq .link.relists; }
before=$(relists)
run_is 0 'resync' L $node resync
relisted() { (($(relists) > before)); }
eventually 30 'lists again' relisted
eventually 30 'and is online again' online $node
run_is 0 'resync --accept' L $node resync --accept

run_is 0 'store dump from the agent' L $node store dump
ok 'is JSON lines' lines_are_json "$work/out"
not_ok 'without the token' grep -qF "$node_token" "$work/out"
like "$out" 'edgeapps/edge-alpha/echo' 'with the objects'

cluster stop-apiserver --kill >/dev/null
eventually 60 'status: 1 when offline' exits 1 L $node status
like "$(L $node status)" 'link +Offline for .*: .+' 'with the reason'
rm "$files/motd"
eventually 30 'a file heals offline' file_is "$files/motd" hello
eventually 30 'the outbox has it' says L $node outbox 'event +edgeconfigs/edge-alpha/motd'
run_is 0 'outbox -o json' L $node outbox -o json
ok 'is JSON lines' lines_are_json "$work/out"
is "$(jq -r 'select(.type == "event") | .pending' "$work/out" | sort -u)" true 'of what waits'
run_is 0 'get works offline' L $node get eapp echo

agent_stop $node
run_is 3 'status: 3 when the agent is stopped' L $node status
run_is 0 'store dump without an agent' L $node store dump
ok 'is JSON lines' lines_are_json "$work/out"
not_ok 'without the token' grep -qF "$node_token" "$work/out"
like "$out" 'edgeapps/edge-alpha/echo' 'with the objects'
agent_start $node
cluster start-apiserver >/dev/null
eventually 120 'online again' online $node
eventually 60 'the outbox is heard' matches '^nothing' L $node outbox

# --------------------------------------------------------------------------------------------------------------- leave

pid=$(pids $node quiet)
ok 'an app runs' kill -0 "$pid"
run_is 2 'leave without --yes is refused' L $node leave
like "$err" 'stops every workload.*say --yes' 'it says what it would do'
ok 'and does nothing' kill -0 "$pid"
ok 'the identity is there' test -e "$work/$node/state/identity.json"
run_is 0 'leave --yes' L $node leave --yes
is "$out" 'left: the identity is forgotten' 'says what it did'
not_ok 'apps are stopped' kill -0 "$pid"
ok 'what was made here is gone' test ! -e "$files/motd"
is "$(find "$work/$node/state" -name 'identity*' -o -name holder)" '' 'the identity is forgotten'
enrolled() { L "$1" status -o json | jq -e '.link.state != "NotEnrolled"'; }
not_enrolled() { L "$1" status -o json | jq -e '.link.state == "NotEnrolled"'; }
eventually 30 'the agent goes on, not enrolled' not_enrolled $node
run_is 1 'status: 1 when not enrolled' L $node status
like "$out" 'not enrolled' 'it says so'
run_is 0 'get: nothing is left' L $node get
is "$out" 'no objects on this node' 'says so'
not_ok 'the token is in no file of the node any more' grep -rqF "$node_token" "$work/$node"
is "$(field eapp quiet '{.metadata.name}')" quiet 'the server keeps its objects'

(umask 077 && "$limpetctl" node add $node --server "$(server_url)" --replace --force >"$work/join.sh") || bail_out 'no join command'
join_token
run_is 0 'join beside a running agent' join --token-file "$work/token"
like "$out" 'the running agent takes the new identity' 'tells it'
eventually 60 'it is online' online $node
eventually 60 'and everything is there again' ready eapp quiet
agent_stop $node
run_is 0 'leave without an agent' L $node leave --yes
like "$err" 'no agent runs here: workloads, if any, are left as they are' 'says what it leaves'
ok 'and forgets the identity' test ! -e "$work/$node/state/identity.json"

done_testing
