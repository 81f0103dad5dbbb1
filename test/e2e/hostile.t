#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Hostile on purpose: specs that no schema has seen, landscapes made to lead a writer astray, programs that do not behave, kill -9 at
# random moments, a full disk, a damaged store, a rude peer on the control socket. Nothing crashes, nothing changes outside, what is
# wrong says so, and everything else goes on.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=hostile
ns=edge-hostile
files=$work/$node/files
mine=$$ # in the arguments of what we start, so that another run on this machine is not taken for ours
seed=${SEED:-$RANDOM}
RANDOM=$seed
diag "SEED=$seed"

cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
agent_new $node
mkdir -p "$work/$node/state"
mount -t tmpfs -o size=3m,mode=700 limpet-test "$work/$node/state" || bail_out "a small disk cannot be mounted"
at_exit umount -l "$work/$node/state"
agent_join $node >/dev/null || bail_out "join"
agent_start $node
first_pid=${agent_pid[$node]}

# app NAME LINE... and cfg NAME LINE...: objects with the given lines of spec.
object() {
	local kind=$1 name=$2
	shift 2
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec:\n' "$kind" "$name"
	printf '  %s\n' "$@"
	echo ---
}
app() { object EdgeApp "$@" 'terminationGracePeriodSeconds: 1'; }
cfg() { object EdgeConfig "$@"; }
shell() { printf 'command: ["/bin/sh", "-c", "%s"]' "$1"; }
accepted_is() { equals "$3" cond "$1" "$2" Accepted; }
says() { matches "$4" message "$1" "$2" "$3"; }

app_yaml web | put
file_yaml motd "$files/motd" hello | put
eventually 30 'a well-behaved app is Ready' ready eapp web
eventually 30 'and a file' ready ecfg motd
web_pid=$(pids $node web)
well() { kill -0 "$web_pid" && kill -0 "$first_pid" && file_is "$files/motd" hello; }

# --- a landscape that leads astray
outside=$work/outside
mkdir -p "$outside/dir" "$files/dir"
echo victim >"$outside/victim"
echo victim >"$outside/dir/f"
chmod 600 "$outside/dir/f"
before=$(cd "$outside" && stat -c '%n %a %u %i %Y %h' victim dir/f && cat victim dir/f)
ln -s "$outside/dir" "$files/linkdir"
ln -s "$outside/victim" "$files/link"
ln -s /proc/self/root "$files/magic"
ln -s loop "$files/loop"
mkfifo "$files/fifo"
mknod "$files/null" c 1 3
{
	cfg linkdir "files: [{path: $files/linkdir/f, content: x}]"
	cfg link "files: [{path: $files/link, content: x}]"
	cfg magic "files: [{path: $files/magic$outside/victim, content: x}]"
	cfg loop "files: [{path: $files/loop/x, content: x}]"
	cfg out "files: [{path: $outside/victim, content: x}]"
	cfg own "files: [{path: $work/$node/state/identity.json, content: x}]"
	cfg fifo "files: [{path: $files/fifo, content: x}]"
	cfg dev "files: [{path: $files/null, content: x}]"
	cfg dir "files: [{path: $files/dir, content: x}]"
	cfg under "files: [{path: $files/fifo/x, content: x}]"
	cfg nouser "files: [{path: $files/nouser, content: x, owner: nosuchuser}]"
	cfg printf "files: [{path: \"$files/%s%n%x\", content: \"%s%n\"}]"
	cfg rival "files: [{path: $files/motd, content: rival}]"
	cfg hang "files: [{path: $files/hang, content: x}]" "validate: {command: [\"/bin/sleep\", \"100000.$mine\"], timeoutSeconds: 1}"
	cfg flood "files: [{path: $files/flood, content: x}]" 'validate: {command: ["/usr/bin/yes"], timeoutSeconds: 1}'
	cfg escape "files: [{path: $files/escape, content: x}]" "validate: {command: [/bin/sh, -c, 'printf \"a\\\\033[2Jb\\\\nc\"; exit 1']}"
	cfg never "files: [{path: $files/never, content: x}]" 'onChange: {command: ["/bin/false"]}'
} | put
refused() { # NAME REGEX
	eventually 60 "$1 is not accepted" accepted_is ecfg "$1" False
	ok "... and why: $2" says ecfg "$1" Accepted "$2"
}
failed() { # KIND NAME REASON REGEX
	eventually 60 "$2 is not Ready: $3" equals "$3" reason "$1" "$2" Ready
	ok "... and why: $4" says "$1" "$2" Ready "$4"
}
for name in linkdir link magic loop; do
	refused $name 'symbolic link'
done
refused out 'spec.files\[0\].path.*guard'
refused own 'own directory'
refused rival 'belongs to edgeconfigs/.*/motd'
for name in fifo dev dir; do
	failed ecfg $name NotAFile 'no regular file'
done
failed ecfg under NotAFile 'Not a directory'
failed ecfg nouser OwnerUnknown 'nosuchuser'
failed ecfg hang ValidationFailed 'no end within 1 s'
failed ecfg flood ValidationFailed 'no end within 1 s'
failed ecfg escape ValidationFailed 'exit code 1: a'
not_ok 'what a program prints reaches no terminal as a control character' grep -q $'[\x01-\x09\x0b-\x1f]' <(L $node get)
failed ecfg never OnChangeFailed 'exit code 1'
eventually 30 'a path with conversions is a path' file_is "$files/%s%n%x" %s%n
is "$(cd "$outside" && stat -c '%n %a %u %i %Y %h' victim dir/f && cat victim dir/f)" "$before" 'nothing outside was touched'
ok 'what stood in the way still stands' test -p "$files/fifo" -a -c "$files/null" -a -d "$files/dir" -a -L "$files/link"
ok 'the others are well' well

# --- programs that do not behave
printf 'echo hi\n' >"$work/noshebang"
printf '#!/no/such/interpreter\n' >"$work/badshebang"
chmod +x "$work/noshebang" "$work/badshebang"
: >"$work/notexec"
{
	app gone 'command: ["/no/such/program"]'
	app notexec "command: [\"$work/notexec\"]"
	app noshebang "command: [\"$work/noshebang\"]"
	app badshebang "command: [\"$work/badshebang\"]"
	app nouser "command: [/bin/sleep, '100001.$mine']" 'user: nosuchuser'
	app nodir "command: [/bin/sleep, '100001.$mine']" 'workingDir: /no/such/dir'
	app daemon "$(shell "setsid sleep 100002.$mine & exec sleep 100003.$mine")"
	app deaf "$(shell "trap '' TERM HUP INT; while :; do sleep 100004.$mine; done")"
	app shut "$(shell "exec <&- >&- 2>&-; exec sleep 100005.$mine")"
	app flooder "$(shell "exec yes flooding.$mine")" 'logs: {maxSize: 64Ki, maxFiles: 2}'
	# shellcheck disable=SC2016 # the inner shell expands it
	app many "$(shell 'i=0; while [ $i -lt 100 ]; do sleep 100006.'$mine' & i=$((i+1)); done; wait')"
} | put
failed eapp gone StartFailed 'No such file or directory; install'
failed eapp notexec StartFailed 'Permission denied; make it executable'
failed eapp noshebang StartFailed 'Exec format error'
failed eapp badshebang StartFailed 'No such file or directory'
failed eapp nouser StartFailed 'nosuchuser: no such user; add it'
failed eapp nodir StartFailed '/no/such/dir: No such file or directory; make that directory'
for name in daemon deaf shut flooder many; do
	eventually 30 "$name runs" ready eapp $name
done
log_bytes() { cat "$work/$node/log/${ns}_flooder_0".log* | wc -c; }
rolled() { [[ -e $work/$node/log/${ns}_flooder_0.log.1 ]]; }
eventually 30 'a flooded log rolls' rolled
ok 'and stays within its bound' test "$(log_bytes)" -le $((2 * 65536 + 4096))

# A supervisor is killed: what it left, a daemon of its own session included, goes before the next one starts.
old=$(pgrep -f -x "sleep 100002.$mine")
kill -KILL "$(ps -o ppid= -p "$(pids $node daemon)")"
one_other() { local now; now=$(pgrep -f -x "sleep 100002.$mine"); [[ $now =~ ^[0-9]+$ && $now != "$old" ]]; }
eventually 30 'field 32: after kill -9 of a supervisor there is one daemon, the new one' one_other
k delete eapp gone notexec noshebang badshebang nouser nodir daemon deaf shut flooder many -n $ns >/dev/null
none_of_them() { ! pgrep -f -x "(sleep 10000[1-6]|yes flooding)[.]$mine" >/dev/null; }
eventually 60 'deleted, the deaf, the daemons and the many are gone' none_of_them
k delete ecfg --all -n $ns >/dev/null
file_yaml motd "$files/motd" hello | put
eventually 30 'the file is back' ready ecfg motd
ok 'the others are well' well

# --- kill -9 of agent and supervisors at random moments, while specs change
objects() { # ROUND
	app_yaml one "replicas: $(($1 % 4))" "env: [{name: ROUND, value: \"$(($1 / 3))\"}]"
	echo ---
	app crash "$(shell 'sleep 0.3; exit 3')" 'replicas: 2'
	cfg a "files: [{path: $files/a, content: \"a $1\"}, {path: $files/b, content: \"b $1\"}]" \
		"validate: {command: [/bin/sh, -c, 'sleep 0.02']}" "onChange: {command: [/bin/sh, -c, 'echo $1 >>$work/changes']}"
	(($1 % 3 != 0)) || cfg c "files: [{path: $files/c, content: \"c $1\"}]"
}
shims() { local uid; for uid in "$work/$node/run/i"/*/; do shim_pid "$(basename "$uid")"; done; }
strike() {
	local pid
	if ((RANDOM % 2)); then
		kill -KILL "${agent_pid[$node]}"
		wait "${agent_pid[$node]}" 2>/dev/null
		"$limpet" --config "$work/$node/limpet.ini" run >>"$work/$node/agent.log" 2>&1 </dev/null &
		agent_pid[$node]=$!
	else
		for pid in $(shims); do
			((RANDOM % 3)) || kill -KILL "$pid" 2>/dev/null
		done
	fi
}
rounds=${ROUNDS:-15}
for ((round = 1; round <= rounds; round++)); do
	objects $round | k apply --server-side --force-conflicts -n $ns -f - >/dev/null || fail "round $round"
	((round % 3 == 0)) || k delete ecfg c -n $ns --ignore-not-found >/dev/null
	for strikes in 1 2 3; do
		sleep 0.$((RANDOM % 90 + 10)) # moments, not waiting
		strike
	done
done
k delete ecfg c -n $ns --ignore-not-found >/dev/null
objects 7 | k apply --server-side --force-conflicts -n $ns -f - >/dev/null
wait_for 30 'the agent answers' agent_answers $node
eventually 90 'after the kills the app is Ready' ready eapp one
eventually 60 'and the files' ready ecfg a
ok 'with the content' file_is "$files/a" 'a 7'
ok 'both of them' file_is "$files/b" 'b 7'
eventually 30 'what was deleted is gone' test ! -e "$files/c"
is "$(tail -n 1 "$work/changes")" 7 'the last onChange was run'
sleepers() { # the instances of `one` that run, by their numbers
	local pid
	for pid in $(pgrep -f -x 'sleep 100000'); do
		grep -zq "=$work/$node/run/i/" "/proc/$pid/environ" && grep -zqx 'ROUND=2' "/proc/$pid/environ" &&
			grep -zx 'LIMPET_INSTANCE=[0-9]*' "/proc/$pid/environ" | tr '\0' '\n'
	done | sort | tr '\n' ' '
}
is "$(sleepers)" 'LIMPET_INSTANCE=0 LIMPET_INSTANCE=1 LIMPET_INSTANCE=2 ' 'one process a replica, no second one'
k delete eapp crash -n $ns >/dev/null
dirs() { [[ $(find "$work/$node/run/i" -mindepth 1 -maxdepth 1 | wc -l) == 4 ]]; }
eventually 30 'one directory an instance, none is left over' dirs
is "$(find "$work/$node" "$files" -name '*.limpet-tmp')" '' 'no temporary file is left'
is "$(ps -o stat= --ppid "${agent_pid[$node]}" | grep -c Z)" 0 'no zombie'
eventually 30 'everything is reported' matches nothing L $node outbox
first_pid=${agent_pid[$node]}
k delete eapp one -n $ns >/dev/null
k delete ecfg a -n $ns >/dev/null
app_yaml web 'env: [{name: AFTER, value: kills}]' | put # another revision: the long waits that the kills have brought are over
eventually 30 'web is Ready' ready eapp web
web_pid=$(pids $node web)

# --- a full disk (field 12)
dd if=/dev/zero of="$work/$node/state/fill" bs=1k 2>/dev/null
echo drift >"$files/motd"
eventually 30 'field 12: on a full disk a file is put right' file_is "$files/motd" hello
old=$web_pid
kill -KILL "$web_pid"
another() { web_pid=$(pids $node web); [[ $web_pid =~ ^[0-9]+$ && $web_pid != "$old" ]]; }
eventually 30 'field 12: and a process started again' another
web_pid=$(pids $node web)
for name in x1 x2 x3; do
	file_yaml $name "$files/$name" "$(head -c 30000 /dev/zero | tr '\0' x)" | put
done
agent_kill $node
agent_start $node
first_pid=${agent_pid[$node]}
ok 'field 12: the agent starts on it' well
echo drift >"$files/motd"
eventually 30 'field 12: and works' well
rm "$work/$node/state/fill"
for name in x1 x2 x3; do
	eventually 90 "field 12: freed, it goes on by itself: $name" ready ecfg $name
done
eventually 60 'field 12: everything is reported' matches nothing L $node outbox
k delete ecfg x1 x2 x3 -n $ns >/dev/null

# --- a damaged store, and no server
damage() { # DESCRIPTION COMMAND
	agent_stop $node
	cluster stop-apiserver --kill >/dev/null
	(cd "$work/$node/state" && rm -rf -- *.corrupt-* && eval "$2")
	agent_start $node
	first_pid=${agent_pid[$node]}
	ok "field 4: $1: nothing is stopped" well
	like "$(L $node status)" 'salvaged' "field 4: $1: it says so"
	cluster start-apiserver >/dev/null
	eventually 120 "$1: and comes back" online $node
	eventually 30 "$1: to what it was" ready eapp web
	ok "$1: with the same process" well
}
damage 'garbage' 'head -c 50000 /dev/urandom >limpet.db'
damage 'a truncated store' 'truncate -s 7000 limpet.db'
damage 'a directory' 'rm limpet.db* && mkdir limpet.db && touch limpet.db/x'
damage 'a FIFO' 'rm limpet.db* && mkfifo limpet.db'
eventually 60 'the node says that its store was salvaged' equals True cond enode $node StoreSalvaged

# --- the credential stays where it is
secret=$work/secret
(umask 077 && jq -r '.token[200:260]' "$work/$node/state/identity.json" >"$secret")
ok 'the marker is part of a token' test "$(wc -c <"$secret")" -gt 40
tells() { grep -lraF -f "$secret" "$@"; }
is "$(tells "$work/$node")" "$work/$node/state/identity.json" 'the token is in one file'
is "$(stat -c %a "$work/$node/state/identity.json")" 600 'which only its owner may read'
for pid in "$first_pid" "$web_pid" $(shims); do
	not_ok "it is in no argument nor environment ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-40))" \
		tells "/proc/$pid/cmdline" "/proc/$pid/environ"
done
for words in 'status -o json' 'get -o json' outbox 'check-config --print' version; do
	# shellcheck disable=SC2086
	not_ok "limpet $words does not show it" grep -qaF -f "$secret" <(L $node $words 2>&1)
done

# --- a rude peer
python3 - "$work/$node/run/control.sock" <<'PY'
import os, socket, sys
def say(data, wait):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(sys.argv[1])
    try:
        s.sendall(data)
        while wait and s.recv(65536):
            pass
    except OSError:
        pass
    return s
for data in (b"\n", b"\0\n", b"{}\n", b"[" * 70000, b"x" * 300000, os.urandom(5000), b'{"op":"logs","name":"../../etc/passwd","kind":"x"}\n'):
    say(data, True)
held = []
try:
    for _ in range(50):
        held.append(say(b"{", False))
except OSError:
    pass
PY
eventually 30 'after garbage and fifty silent clients the socket answers' online $node
nobody() { setpriv --reuid nobody --regid nogroup --clear-groups "$limpet" --config "$work/$node/limpet.ini" "$@"; }
chmod 755 "$work" "$work/$node" "$work/$node/run"
not_ok 'nobody may not even ask' nobody status
chmod 666 "$work/$node/run/control.sock"
not_ok 'and where the socket is open to all, only root changes: leave' nobody leave --yes
not_ok 'resync' nobody resync
ok 'the others are well' well

# --- what no schema has seen: the CRDs let everything pass
mount -o remount,size=64m "$work/$node/state" || bail_out "the disk does not grow"
agent_rss() { awk '/^VmHWM/ { print $2 }' "/proc/$first_pid/status"; }
for plural in edgeapps edgeconfigs; do
	k get crd $plural.edge.limpet.dev -o json | jq 'del(.status, .metadata.managedFields, .metadata.uid, .metadata.resourceVersion)
		| .spec.versions[] |= (del(.selectableFields, .additionalPrinterColumns) | .subresources = {status: {}}
			| .schema.openAPIV3Schema = {type: "object", properties: {spec: {"x-kubernetes-preserve-unknown-fields": true},
				status: {type: "object", "x-kubernetes-preserve-unknown-fields": true}}})' | k replace -f - >/dev/null
done
python3 - "$work/wild" "$mine" <<'PY'
import json, os, sys
os.mkdir(sys.argv[1])
nap = "100007." + sys.argv[2]
good = {"command": ["/bin/sleep", nap]}
nest = lambda n: '{"a":' * n + "1" + "}" * n
wild = {
    "nul": {"command": ["/bin/sleep", nap + "\0"]}, "types": {"command": {"a": 1}}, "huge": {**good, "replicas": 10**30},
    "negative": {**good, "replicas": -1}, "fraction": {**good, "replicas": 1.5}, "truth": {**good, "replicas": True},
    "lists": {"command": [[["/bin/sleep"]]]}, "nothing": {"command": []}, "env": {**good, "env": [{"name": "A", "value": 5}]},
    "bigenv": {**good, "env": [{"name": f"V{i}", "value": "x" * 31000} for i in range(34)] + [{"name": "W", "value": "x" * 33000}]},
    # A watch that the server opened under the old schema may tell this object without its pad: still nothing to start.
    "big": {**good, "replicas": 0, "pad": "x" * 2_000_000},
}
def write(name, spec):
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        f.write('{"apiVersion":"edge.limpet.dev/v1alpha1","kind":"EdgeApp","metadata":{"name":"%s"},"spec":%s}' % (name, spec))
for name, spec in wild.items():
    write(name, json.dumps(spec))
for n in (70, 900, 5000):
    write(f"deep{n}", '{"command":["/bin/sleep","%s"],"x":%s}' % (nap, nest(n)))
PY
for file in "$work/wild"/*.json; do
	ok "the server takes $(basename "$file" .json)" k create --validate=false -n $ns -f "$file"
done
wild() { eventually 90 "$1 is not accepted" accepted_is eapp "$1" False; ok "... and why: $2" says eapp "$1" Accepted "$2"; }
wild nul u0000
wild types 'spec.command: must be a list'
wild lists 'spec.command\[0\]'
wild nothing 'spec.command'
for name in huge negative fraction truth; do
	wild $name 'spec.replicas'
done
wild env 'spec.env\[0\].value'
wild bigenv 'spec.env\[34\].value'
wild deep70 'nested too deeply'
wild deep900 'nested too deeply'
wild deep5000 'nested too deeply'
wild big 'at most 2000000'
not_ok 'nothing of it was started' pgrep -f "sleep 100007.$mine"
file_yaml motd "$files/motd" again | put
eventually 30 'and the others go on' file_is "$files/motd" again
ok 'the agent is the same' kill -0 "$first_pid"
diag "high-water mark of the agent: $(agent_rss) KiB"
ok 'and its memory stayed below 24 MiB' test "$(agent_rss)" -lt 24576

done_testing
