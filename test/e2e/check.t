#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# timeout: 600
# limpet check: on a healthy machine every line is ok; on broken ones it names what is broken, says "skip" of what cannot be known then, and
# nothing else. It writes nothing and tells no secret.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=$(ns_of $node)
said=$work/said
torture=${limpet%/*}/torture/limpet

# check INI [PREFIX...]: limpet check with that configuration, as JSON into $said; sets status.
check() {
	local ini=$1
	shift
	"$@" "${checked_program:-$limpet}" --config "$ini" check -o json >"$said" 2>"$said.err" </dev/null
	status=$?
	cat "$said" "$said.err" >>"$work/all-said"
}
# names STATUS: the checks that have it.
names() { jq -r --arg s "$1" '[.checks[] | select(.status == $s) | .name] | join(" ")' "$said"; }
of() { jq -r --arg n "$1" --arg f "$2" '.checks[] | select(.name == $n) | .[$f] // ""' "$said"; }

# broken DESCRIPTION FAIL WARN NEEDED REGEX: these checks fail and these warn; what is skipped is skipped because of NEEDED; seen and cause of the
# first that fails match.
broken() {
	local description=$1 fail=$2 warn=$3 needed=$4 regex=$5
	is "$status" 1 "$description: exit status"
	is "$(names fail)" "$fail" "$description: fails" || diag "$(<"$said")"
	is "$(names warn)" "$warn" "$description: warns"
	is "$(jq -r '[.checks[] | select(.status == "skip") | .needs // "itself"] | unique | join(" ")' "$said")" "$needed" "$description: what is skipped names the cause"
	like "$(of "${fail%% *}" seen) / $(of "${fail%% *}" cause)" "$regex" "$description: says why"
	ok "$description: has a remedy" test -n "$(of "${fail%% *}" remedy)"
}

# ---------------------------------------------------------------------------------------------------------------- healthy

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node
agent_join $node >/dev/null || bail_out 'join'
agent_start $node
app_yaml web | put
eventually 30 'an app is Ready' ready eapp web
eventually 60 'everything was reported' matches '^nothing' L $node outbox
url=$(server_url)
port=${url##*:}
ini=$work/$node/limpet.ini

check "$ini"
is "$status" 0 'a healthy machine: exit status'
is "$(names fail)$(names warn)$(names skip)" '' 'every line is ok'
diag_unless_ok() { [[ $(jq -r .result "$said") == ok ]] || diag "$(jq -c '.checks[] | select(.status != "ok")' "$said")"; }
diag_unless_ok
is "$(jq -r '.node + " " + .namespace' "$said")" "$node $ns" 'it says of whom it speaks'
is "$(jq -r '[.checks[] | (.name | type) + (.group | type) + (.seen | type)] | unique | join(" ")' "$said")" stringstringstring 'each has name, group and what was seen'
is "$(jq -r '.counts | [.ok, .warn, .fail, .skip] | map(type) | unique | join(" ")' "$said")" number 'and they are counted'
sed -n 's/^\.BR\? \([a-z-]*\),\?$/\1/p; s/^\\fB\([a-z\\-]*\)\\fR$/\1/p' "$top/docs/limpet.8" | tr -d '\\' >"$work/documented"
for name in $(jq -r '.checks[].name' "$said"); do
	ok "limpet(8) names the check $name" grep -qFx -- "$name" "$work/documented"
done
L $node check >"$work/text" 2>&1
is $? 0 'as text: exit status'
ok 'a line for each' test "$(grep -c '^  ok ' "$work/text")" = "$(jq '.checks | length' "$said")"
like "$(tail -n 1 "$work/text")" ', 0 warn, 0 fail, 0 skipped$' 'and a last one that counts'

# As somebody who may see nothing: it says so, and what it can see is right.
chmod 711 "$work"
check "$ini" setpriv --reuid=65534 --regid=65534 --clear-groups
is "$status" 0 'as an unprivileged user: nothing is called broken'
is "$(names fail)$(names warn)" '' 'neither fail nor warn'
is "$(of agent status) $(of credential status)" 'skip skip' 'agent and credential are skipped'
like "$(of agent seen)" 'permission denied' 'for want of permission'
like "$(of credential seen)" 'ermission denied' 'for want of permission, too'
is "$(of server-name needs)" credential 'and what needs it names that'

# --------------------------------------------------------------------------------------------------- the machine, with agent

# An agent that hangs; and one whose control socket somebody removed.
kill -STOP "${agent_pid[$node]}"
check "$ini"
broken 'an agent that hangs' agent '' agent 'does not answer: the agent says nothing'
is "$(of store needs)" agent 'what it has open is left alone'
kill -CONT "${agent_pid[$node]}"
mv "$work/$node/run/control.sock" "$work/control.sock"
check "$ini"
broken 'an agent without its socket' agent '' agent 'holds the lock'
mv "$work/control.sock" "$work/$node/run/control.sock"
check "$ini"
is "$(names fail)$(names warn)$(names skip)" '' 'both put right: every line is ok'

# Another holder of the lease, while the agent runs and while it does not.
take_lease() {
	k patch lease $node -n "$ns" --type merge -p "{\"spec\":{\"holderIdentity\":\"somebody\",\"leaseDurationSeconds\":3600,\"renewTime\":\"$(date -u +%FT%T.000000Z)\"}}" >/dev/null
}
take_lease
standby() { [[ $(L $node status -o json | jq -r .link.state) == Standby ]]; }
eventually 60 'the agent stands by' standby
check "$ini"
broken 'another holder of the lease' lease agent-link '' 'somebody holds it'
agent_stop $node
take_lease
check "$ini"
broken 'the same without an agent' lease agent agent 'somebody holds it'
k patch lease $node -n "$ns" --type merge -p '{"spec":{"holderIdentity":"","renewTime":null}}' >/dev/null

# ------------------------------------------------------------------------------------------------- the machine, without agent

check "$ini"
is "$status" 0 'no agent runs: exit status'
is "$(names fail) $(names warn) $(names skip)" ' agent agent-link outbox manifests' 'only that is said'
like "$(of store seen)" '^[0-9]+ rows in [0-9]+ KiB' 'the store is looked at'
whole() { find "$work/$node" -printf '%p %T@ %s %m\n' | sort; }
before=$(whole)
check "$ini"
is "$(whole)" "$before" 'nothing was written'

cp -rp "$work/$node/state" "$work/whole-state"
damage() { # FILE FROM: sixteen bytes of 0xff in each of four pages
	local at
	for at in 0 1 2 3; do printf '\377%.0s' {1..16} | dd of="$1" bs=1 seek=$(($2 + at * 1024)) conv=notrunc status=none; done
}
damage "$work/$node/state/limpet.db" 6500
before=$(sha256sum "$work/$node/state/limpet.db")
check "$ini"
broken 'a damaged store' store agent agent 'store: .* / the disk, a power cut or'
is "$(sha256sum "$work/$node/state/limpet.db")" "$before" 'which is left as it is'
rm -rf "$work/$node/state"
cp -rp "$work/whole-state" "$work/$node/state"

# A store that was not closed: most of it is in its log.
agent_start $node
app_yaml late | put
eventually 60 'it takes the lease and works' ready eapp late
agent_kill $node
ok 'there is a log' test -s "$work/$node/state/limpet.db-wal"
before=$(cd "$work/$node/state" && sha256sum limpet.db limpet.db-wal)
check "$ini"
like "$(of store status) $(of store seen)" '^ok [0-9]+ rows' 'a store that was not closed is sound with its log'
is "$(cd "$work/$node/state" && sha256sum limpet.db limpet.db-wal)" "$before" 'and is left as it is'

mount -t tmpfs -o size=3m,mode=700 limpet-test "$work/$node/state" || bail_out 'a file system for the state cannot be mounted'
at_exit eval "! mountpoint -q '$work/$node/state' || umount -l '$work/$node/state'"
cp -rp "$work/whole-state/." "$work/$node/state"
dd if=/dev/zero of="$work/$node/state/full" bs=4096 status=none 2>/dev/null
check "$ini"
broken 'a full disk' state-dir agent agent 'its file system is full'
rm "$work/$node/state/full"
mount -o remount,ro "$work/$node/state"
check "$ini"
broken 'a read-only state directory' state-dir agent agent 'mounted read-only'
umount "$work/$node/state"

# --------------------------------------------------------------------------------------------------------- configuration

agent_start $node
eventually 60 'the agent is online' online $node
{
	cat "$ini"
	printf '[sync]\nintervall = 3s\n'
} >"$work/typo.ini"
check "$work/typo.ini"
broken 'a typo in the configuration' config '' config 'intervall: unknown key; did you mean "interval"'

mkdir -p "$work/bare"
printf '[paths]\nstate = %s/bare/state\nrun = %s/bare/run\nlog = %s/bare/log\n' "$work" "$work" "$work" >"$work/bare.ini"
check "$work/bare.ini"
broken 'not joined' credential agent 'agent credential' 'has not joined'
not_ok 'nothing was made' test -e "$work/bare/state"

# ---------------------------------------------------------------------------------------------------------------- server

# server_ini FILE [INI-LINE...]: a configuration with the credential of alpha in files, without an agent.
(umask 077 && jq -r .token "$work/$node/state/identity.json" >"$work/token")
jq -r .ca "$work/$node/state/identity.json" >"$work/ca.pem"
server_ini() {
	local file=$1 server=$2 ca=$3
	{
		cat "$work/bare.ini"
		printf '[server]\nurl = %s\nca = %s\ntokenFile = %s\n[node]\nname = %s\nnamespace = %s\n[lease]\nenabled = no\n' "$server" "$ca" "$work/token" $node "$ns"
	} >"$file"
}
server_ini "$work/files.ini" "$url" "$work/ca.pem"
check "$work/files.ini"
is "$(names fail) $(names warn)" ' agent' 'the same server by a configuration with files: sound'

server_ini "$work/name.ini" https://nowhere.invalid:6443 "$work/ca.pem"
check "$work/name.ini"
broken 'a name that does not resolve' server-name agent 'agent server-name' 'nowhere.invalid'

# A name server that says nothing.
python3 -c 'import socket,sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.83.0.1", 53)); print("up", flush=True); sys.stdin.read()' >"$work/mute-dns" < <(sleep 1000) &
at_exit kill $!
wait_for 20 'the mute name server is there' test -s "$work/mute-dns" || bail_out 'no name server'
printf 'nameserver 127.83.0.1\n' >"$work/resolv.conf"
# shellcheck disable=SC2016 # for the inner shell
check "$work/name.ini" unshare -m sh -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' "$work/resolv.conf"
broken 'a name server that is mute' server-name agent 'agent server-name' 'not resolved'

closed=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
server_ini "$work/refused.ini" "https://127.0.0.1:$closed" "$work/ca.pem"
check "$work/refused.ini"
broken 'nobody listens' server-tcp agent 'agent server-tcp' 'refused'

# In a network of its own, where nobody takes what is sent.
server_ini "$work/dropped.ini" https://10.83.0.9:6443 "$work/ca.pem"
# shellcheck disable=SC2016
check "$work/dropped.ini" unshare -n sh -c '
	ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up && ip addr add 10.83.0.1/24 dev v0 &&
		ip neigh add 10.83.0.9 lladdr 02:00:00:00:00:09 dev v0 nud permanent && exec "$@"' sh
broken 'packets are dropped' server-tcp agent 'agent server-tcp' 'dropped'

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/other.key" -out "$work/other.pem" -subj /CN=stranger \
	-days 30 -addext basicConstraints=critical,CA:TRUE 2>/dev/null
server_ini "$work/ca.ini" "$url" "$work/other.pem"
check "$work/ca.ini"
broken 'another CA' server-tls agent 'agent server-tls' 'not the authority'

# issue NAME SAN START END: a certificate of the cluster's CA. Times as YYYYMMDDHHMMSSZ.
issue() {
	local dir=$work/issue
	mkdir -p "$dir"
	: >"$dir/index"
	printf '[ca]\ndefault_ca=c\n[c]\ndatabase=%s/index\nnew_certs_dir=%s\nserial=%s/serial\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=%s\n' \
		"$dir" "$dir" "$dir" "$2" >"$dir/conf"
	openssl rand -hex 8 >"$dir/serial"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" -out "$work/$1.csr" -subj "/CN=$1" 2>/dev/null &&
		openssl ca -batch -config "$dir/conf" -extensions e -cert "$CLUSTER_DIR/pki/server-ca.crt" -keyfile "$CLUSTER_DIR/pki/server-ca.key" \
			-startdate "$3" -enddate "$4" -in "$work/$1.csr" -out "$work/$1.pem" -notext 2>"$work/issue.err" || bail_out "certificate $1: $(<"$work/issue.err")"
}
# door NAME [SECONDS]: something that answers with that certificate; sets door_port.
door() {
	python3 "$here/tls_door.py" "$work/$1.pem" "$work/$1.key" "${2:-0}" >"$work/$1.port" 2>"$work/$1.err" < <(sleep 1000) &
	at_exit kill $!
	wait_for 20 "the door $1 is open" test -s "$work/$1.port" || bail_out 'no door'
	door_port=$(<"$work/$1.port")
	server_ini "$work/$1.ini" "https://127.0.0.1:$door_port" "$work/ca.pem"
}
later=$(date -u -d '+300 days' +%Y%m%d%H%M%SZ)
issue elsewhere DNS:elsewhere.example 20240101000000Z "$later"
door elsewhere
check "$work/elsewhere.ini"
broken 'a certificate for another name' server-tls agent 'agent server-tls' 'elsewhere.example.* than 127.0.0.1'

issue expired IP:127.0.0.1 20240101000000Z 20250101000000Z
door expired
check "$work/expired.ini"
broken 'an expired certificate' server-certificate agent 'agent server-certificate' 'expired .*2025-01-01'

issue soon IP:127.0.0.1 20240101000000Z "$(date -u -d '+3 days' +%Y%m%d%H%M%SZ)"
door soon
check "$work/soon.ini"
is "$(names warn)" 'agent server-certificate' 'one that expires in days is a warning'
is "$(names fail)" login 'and the door, which lets nobody in, is refused entrance at'

# The clock: here years ahead and years behind, and on the server.
[[ -x $torture ]] || bail_out "$torture is not built"
export TORTURE_CLOCK=$work/offset
echo $((20 * 365 * 86400)) >"$TORTURE_CLOCK"
checked_program=$torture check "$work/files.ini"
broken 'a clock twenty years ahead' server-clock agent 'agent server-clock' 's ahead / the clock of one of the two is wrong; by the time here the server.s certificate is not valid'
echo $((-20 * 365 * 86400)) >"$TORTURE_CLOCK"
checked_program=$torture check "$work/files.ini"
broken 'a clock twenty years behind' server-clock agent 'agent server-clock' 's behind / the clock of one of the two'
is "$(of login status) $(of rbac status)" 'ok ok' 'which does not keep it from the server'
echo 0 >"$TORTURE_CLOCK"
issue late IP:127.0.0.1 20240101000000Z "$later"
door late $((-90 * 60))
check "$work/late.ini"
is "$(names fail)" server-clock 'a server whose clock is off by more than an hour'
like "$(of server-clock seen)" ' 5(39|40)[0-9] s ahead' 'by how much'

# ----------------------------------------------------------------------------------------------------------- the cluster

check "$work/files.ini"
is "$(names fail)" '' 'the cluster is sound'

# A token that expired an hour ago, signed as the cluster signs.
python3 - "$work/token" "$CLUSTER_DIR/pki/service-account.key" >"$work/old-token" <<'PY' || bail_out 'no token'
import base64, json, subprocess, sys, time
def coded(b): return base64.urlsafe_b64encode(b).rstrip(b"=").decode()
def plain(s): return json.loads(base64.urlsafe_b64decode(s + "=" * (-len(s) % 4)))
head, claims, _ = open(sys.argv[1]).read().strip().split(".")
body = plain(claims)
body["iat"] = body["nbf"] = int(time.time()) - 7200
body["exp"] = int(time.time()) - 3600
text = head + "." + coded(json.dumps(body).encode())
der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", sys.argv[2]], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
if plain(head)["alg"] == "ES256":
    r = der[4:4 + der[3]]
    s = der[6 + der[3]:]
    der = r[-32:].rjust(32, b"\0") + s[-32:].rjust(32, b"\0")
print(text + "." + coded(der))
PY
chmod 600 "$work/old-token"
sed "s#^tokenFile.*#tokenFile = $work/old-token#" "$work/files.ini" >"$work/old.ini"
check "$work/old.ini"
broken 'an expired token' 'credential-expiry login' agent 'agent login' 'expired 60 minutes ago'
like "$(of login cause)" 'expired' 'the refusal says so, too'

# rights JSON-PATCH: of the node's Role.
k get role limpet -n "$ns" -o json | jq 'del(.metadata.resourceVersion)' >"$work/role.json"
k patch role limpet -n "$ns" --type json -p '[{"op":"replace","path":"/rules/0/verbs","value":["get","list"]},{"op":"replace","path":"/rules/3/verbs","value":["get","create"]}]' >/dev/null
rights_are() {
	check "$1"
	[[ $(of rbac seen) =~ $2 ]]
}
eventually 30 'missing rights are seen' rights_are "$work/files.ini" '^6 of 43 rights'
check "$work/files.ini"
broken 'missing rights' rbac agent agent 'edgeapps in edge-alpha: watch; .*leases in edge-alpha: patch'
k delete clusterrolebinding system:basic-user >/dev/null
eventually 30 'where reviews are not allowed it is tried' rights_are "$work/files.ini" 'tried, as'
check "$work/files.ini"
broken 'missing rights, by trying' rbac agent agent 'edgeapps in edge-alpha: watch; .*leases in edge-alpha: patch'
k get edgeapps,leases,events -n "$ns" -o name >"$work/objects"
not_ok 'and nothing was made on the server' grep -q limpet-check "$work/objects"
k replace -f "$work/role.json" >/dev/null
sound() {
	check "$1"
	((status == 0)) && [[ $(names warn) == agent ]]
}
eventually 30 'with its rights back it is sound, by trying' sound "$work/files.ini"
check "$work/files.ini"
like "$(of rbac seen)" 'all 42 rights .*tried' 'all that are tried'

k delete crd edgejobs.edge.limpet.dev >/dev/null
crds_missing() {
	check "$1"
	[[ $(of crds status) == fail ]]
}
eventually 30 'a missing CRD is seen' crds_missing "$work/files.ini"
check "$work/files.ini"
broken 'a missing CRD' crds agent agent 'missing: edgejobs'
"$limpetctl" install >/dev/null
eventually 30 'installed again it is sound' sound "$work/files.ini"

# A namespace that is gone, seen by an account that may look: of another namespace.
k create serviceaccount watcher -n default >/dev/null
k create clusterrole watcher --verb=get --resource=namespaces >/dev/null
k create clusterrolebinding watcher --clusterrole=watcher --serviceaccount=default:watcher >/dev/null
kubeconfig_for default watcher "$work/watcher.kubeconfig"
{
	cat "$work/bare.ini"
	printf '[server]\nkubeconfig = %s\n[node]\nname = ghost\nnamespace = edge-ghost\n' "$work/watcher.kubeconfig"
} >"$work/ghost.ini"
check "$work/ghost.ini"
broken 'a namespace that is gone' namespace agent 'agent namespace' 'no namespace edge-ghost'

# And by the node's own account: it is gone with its namespace.
agent_new beta
agent_join beta >/dev/null || bail_out 'join beta'
check "$work/beta/limpet.ini"
is "$(names fail) $(names warn)" ' agent' 'a second node is sound'
k delete namespace "$(ns_of beta)" >/dev/null
gone() {
	check "$work/beta/limpet.ini"
	[[ $(of login status) == fail ]]
}
eventually 60 'its namespace is deleted, and with it the account' gone
check "$work/beta/limpet.ini"
broken 'an account that is gone' login agent 'agent login' 'namespace edge-beta.* was deleted'

# No secret anywhere.
for secret in "$work/token" "$work/old-token"; do
	(umask 077 && head -c 60 "$secret" >"$work/piece" && tail -c 40 "$secret" | head -n 1 >>"$work/piece")
	not_ok "no piece of $(basename "$secret") was said" grep -qF -f "$work/piece" "$work/all-said"
done
done_testing
