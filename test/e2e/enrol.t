#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# timeout: 600
# A node's own credential over its whole life: renewed in time, refused, expired while the node was away, given anew. What the machine runs
# goes on through all of it.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=$(ns_of $node)
identity=$work/$node/state/identity.json
log=$work/$node/agent.log
umask 077

# aged SECONDS LIFE: the token of the identity, as it would be had it been given so many seconds ago, for so long; signed as the cluster signs.
aged() {
	jq -r .token "$identity" >"$work/token"
	python3 - "$work/token" "$CLUSTER_DIR/pki/service-account.key" "$1" "$2" <<'PY' || bail_out 'no token'
import base64, json, subprocess, sys, time
def coded(b): return base64.urlsafe_b64encode(b).rstrip(b"=").decode()
def plain(s): return json.loads(base64.urlsafe_b64decode(s + "=" * (-len(s) % 4)))
head, claims, _ = open(sys.argv[1]).read().strip().split(".")
body = plain(claims)
body["iat"] = body["nbf"] = int(time.time()) - int(sys.argv[3])
body["exp"] = body["iat"] + int(sys.argv[4])
text = head + "." + coded(json.dumps(body).encode())
der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", sys.argv[2]], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
if plain(head)["alg"] == "ES256":
    r = der[4:4 + der[3]]
    s = der[6 + der[3]:]
    der = r[-32:].rjust(32, b"\0") + s[-32:].rjust(32, b"\0")
print(text + "." + coded(der))
PY
}
# give TOKEN-FILE [FILE]: into the identity, as if it had come in another boot.
give() {
	jq --rawfile t "$1" '.token = ($t | rtrimstr("\n")) | del(.receivedBoot, .receivedBootMs)' "$identity" >"$work/identity" &&
		cp "$work/identity" "${2:-$identity}"
}
token_in() { jq -r .token "$1"; }
lost() { [[ $(L $node status -o json | jq -r .link.state) == IdentityLost ]]; }
# status FILTER
said() { L $node status -o json | jq -r "$1"; }

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node
agent_join $node >/dev/null || bail_out 'join'
is "$(jq -r .cluster "$identity")" "$(k get namespace kube-system -o 'jsonpath={.metadata.uid}')" 'the identity knows its cluster'
agent_start $node
app_yaml web | put
eventually 60 'an EdgeApp is Ready' ready eapp web
pid=$(pids $node web)
like "$(said .credential.expires)" '^20[0-9-]+T' 'limpet status tells when the credential ends'

# ---------------------------------------------------------------------------------------------------------------- renewal

agent_stop $node
aged 560 600 >"$work/old"
give "$work/old"
agent_start $node
renewed() { [[ $(token_in "$identity") != "$(<"$work/old")" ]]; }
eventually 60 'a token at 93 % of its life is renewed' renewed
is "$(token_in "$identity.prev")" "$(<"$work/old")" 'and kept as the previous one'
is "$(stat -c %a "$identity") $(stat -c %a "$identity.prev")" '600 600' 'both are for the owner alone'
eventually 60 'it is online' online $node
like "$(said .credential.expired)" false 'nothing expired'

# ---------------------------------------------------------------------------------------------------------- refused, the previous one is good

agent_stop $node
cp "$identity" "$work/good"
cp "$work/good" "$identity.prev"
token_in "$identity" | sed 's/....$/AAAA/' >"$work/spoilt"
give "$work/spoilt"
agent_start $node
eventually 60 'refused: with the credential before it the node is online' online $node
ok 'which the log says' grep -q 'refused.*the credential before it' "$log"
repaired() { [[ $(token_in "$identity") != "$(<"$work/spoilt")" ]]; }
eventually 60 'and asks for a new one' repaired
is "$(pids $node web)" "$pid" 'the workload is the same'

# ------------------------------------------------------------------------------------------------------------- expired while away

agent_stop $node
k patch eapp web -n "$ns" --type merge -p '{"metadata":{"labels":{"seen":"no"}}}' >/dev/null
aged 7200 3600 >"$work/expired"
give "$work/expired"
give "$work/expired" "$identity.prev"
agent_start $node
eventually 90 'field 10: expired while away: the identity is lost' lost
is "$(pids $node web)" "$pid" 'field 10: the workload goes on'
kill "$pid"
restarted() { [[ $(pids $node web) =~ ^[0-9]+$ && $(pids $node web) != "$pid" ]]; }
eventually 60 'and is healed' restarted
pid=$(pids $node web)
is "$(said .credential.expired)" true 'limpet status says that it expired'
like "$(said .credential.expires)" "^$(date -u -d '-1 hour' +%F)|^$(date -u +%F)" 'and when'
command="limpetctl node add $node --replace --server $(server_url)"
like "$(said .credential.remedy)" "\`$command\`" 'field 10: and the command that makes a new one'
like "$(L $node status)" 'credential expired at 20' 'in its text, too'
eventually 90 'the log says so' grep -q "credential-expired.*$command" "$log"
L $node check -o json >"$work/check"
like "$(jq -r '.checks[] | select(.name == "credential-expiry") | .status + " " + .remedy' "$work/check")" "^fail .*$command" 'limpet check names the command'
condition() { L $node get edgenode $node -o json | jq -r '.status.conditions[] | select(.type == "IdentityLost") | .status + " " + .reason + " " + .message'; }
eventually 90 'the EdgeNode says so' matches "^True Expired .*20.*$command" condition
buffered=$(L $node outbox | wc -l)
ok 'what happened is kept' test "$buffered" -gt 2

# ------------------------------------------------------------------------------------------------------------------- join anew

join_command() { "$limpetctl" node add $node --replace --force --server "$(server_url)" 2>/dev/null | sed "s#limpet join#\"$limpet\" --config \"$work/$node/limpet.ini\" join#"; }
join_command >"$work/join.sh"
sed 's/--node alpha/--node beta/' "$work/join.sh" >"$work/other.sh"
run_is 1 'as another node: refused' bash "$work/other.sh"
like "$err" 'this machine is node alpha, not beta; `limpet leave` ends that, --force' 'with the reason'
sed 's/--namespace edge-alpha/--namespace edge-beta/' "$work/join.sh" >"$work/other.sh"
run_is 1 'in another namespace: refused' bash "$work/other.sh"
like "$err" 'namespace is edge-alpha, not edge-beta' 'with the reason'
cp "$identity" "$work/kept"
jq '.cluster = "11111111-2222-3333-4444-555555555555"' "$work/kept" >"$identity"
run_is 1 'in another cluster: refused' bash "$work/join.sh"
like "$err" 'another cluster, at https://.*the uid of kube-system differs' 'with the reason'
is "$(token_in "$identity")" "$(<"$work/expired")" 'and nothing was changed'
cp "$work/kept" "$identity"
store_before=$(L $node status -o json | jq .engine.objects)
run_is 0 'field 10: as the same node: joined' bash "$work/join.sh"
like "$out" 'the running agent takes the new identity' 'without a restart of the service'
eventually 60 'it is online' online $node
kill -0 "${agent_pid[$node]}" && pass 'the same process' || fail 'the same process'
is "$(pids $node web)" "$pid" 'with the workload it had'
is "$(said .engine.objects)" "$store_before" 'and the objects'
eventually 60 'all that was kept is told' matches '^nothing' L $node outbox
killed() { k get events.events.k8s.io -n "$ns" -o json | jq -e '[.items[] | select(.regarding.kind == "EdgeApp" and .reason == "Killed" or .reason == "Exited")] | length > 0' >/dev/null; }
eventually 60 'the end of the instance, too' killed
eventually 60 'the EdgeNode is itself again' equals False cond edgenode $node IdentityLost

# A new identity that somebody puts there by hand is found at the next refusal, without being told.
agent_stop $node
cp "$identity" "$work/good"
give "$work/expired"
give "$work/expired" "$identity.prev"
agent_start $node
eventually 90 'expired again' lost
cp "$work/good" "$identity.new" && mv "$identity.new" "$identity"
eventually 90 'the good one is found by itself' online $node
is "$(pids $node web)" "$pid" 'with the workload it had'

# No secret anywhere.
for secret in "$work/old" "$work/expired" "$work/spoilt"; do
	head -c 60 "$secret" >"$work/piece"
	tail -c 40 "$secret" | head -n 1 >>"$work/piece"
	not_ok "no piece of $(basename "$secret") in the log" grep -qF -f "$work/piece" "$log" "$work/check"
done
done_testing
