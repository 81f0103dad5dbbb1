#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# timeout: 600
# A node that shows a client certificate: asked for, approved, signed by the cluster's own controller, tried, used, renewed; and each way in
# which that goes wrong. What the machine runs goes on through all of it.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=$(ns_of $node)
csr=limpet-$ns
state=$work/$node/state
identity=$state/identity.json
log=$work/$node/agent.log
umask 077

said() { L $node status -o json | jq -r "$1"; }
request_of() { k get csr "$csr" -o 'jsonpath={.spec.request}' 2>/dev/null; }
asked() { [[ -n $(request_of) ]]; }
asked_anew() { asked && [[ $(request_of) != "$before" ]]; }
kind() { said .credential.kind; }
certificate() { jq -r '.clientCertificate // ""' "$identity"; }
certified() { [[ $(kind) == certificate ]]; }
condition() { k get enode $node -n "$ns" -o json | jq -r '.status.conditions[] | select(.type == "CertificateIssued") | .status + " " + .reason'; }
# as_node VERB...: kubectl with what the identity holds, as the machine would show it.
as_node() {
	certificate >"$work/node.crt"
	jq -r .clientKey "$identity" >"$work/node.key"
	"$CLUSTER_DIR/bin/kubectl" --kubeconfig=/dev/null --server "$(server_url)" --certificate-authority "$CLUSTER_DIR/pki/server-ca.crt" \
		--client-certificate "$work/node.crt" --client-key "$work/node.key" "$@"
}
# join_as CREDENTIAL [OPTION...]
join_as() {
	local kind=$1
	shift
	"$limpetctl" node add $node --credential "$kind" --force --server "$(server_url)" "$@" 2>"$work/add.err" |
		sed "s#limpet join#\"$limpet\" --config \"$work/$node/limpet.ini\" join#" >"$work/join.sh" && bash "$work/join.sh" >/dev/null
}

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
metrics=$(free_port)
agent_new $node "metrics.listen=127.0.0.1:$metrics"
join_as certificate || bail_out "join: $(<"$work/add.err")"
user=$(jq -r .certificateUser "$identity")
like "$user" "^limpet:node:$node:[0-9a-f]{8}\$" 'the join command names the user'
agent_start $node
app_yaml web | put
eventually 60 'an EdgeApp is Ready' ready eapp web
pid=$(pids $node web)

# ------------------------------------------------------------------------------------------------------------------ never approved

eventually 60 'the node asks for a certificate' asked
is "$(stat -c %a "$state/certificate.json")" 600 'its key lies in a private file'
key=$(jq -r .key "$state/certificate.json")
eventually 60 'nobody approves: the EdgeNode says so' equals 'False WaitingForApproval' condition
is "$(kind)" token 'the node works with its token'
ok 'and is online' online $node
request_of | base64 -d | openssl req -noout -subject -verify >"$work/req" 2>&1
like "$(<"$work/req")" "O *= *limpet:nodes, CN *= *$user" 'openssl reads the request: its name'
like "$(<"$work/req")" 'verify OK' 'and its signature'
like "$("$limpetctl" node requests)" "$node.*as it should be" 'limpetctl node requests lists it'
before=$(request_of)
agent_kill $node
agent_start $node
eventually 60 'killed while it waits: it waits again' equals WaitingForApproval said .credential.request
is "$(request_of)" "$before" 'for the same request'
not_ok 'another request is not touched by the node' k auth can-i delete csr/other --as "system:serviceaccount:$ns:limpet" -q
ok 'its own is' k auth can-i delete "csr/$csr" --as "system:serviceaccount:$ns:limpet" -q

# ---------------------------------------------------------------------------------------------------------------------- approved

agent_kill $node
run_is 0 'approved while the agent is away' "$limpetctl" node approve $node --yes
run_is 1 'once' "$limpetctl" node approve $node --yes
like "$err" 'decided already' 'with the reason'
agent_start $node
eventually 60 'the certificate is in use' certified
is "$(jq -r .clientKey "$identity")" "$key" 'with the key from before the kill'
not_ok 'which lies nowhere else' test -e "$state/certificate.json"
is "$(jq -r '.token // ""' "$identity")" '' 'the token is put aside'
like "$(jq -r .spareToken "$identity")" '^ey' 'and kept'
is "$(as_node auth whoami -o 'jsonpath={.status.userInfo.username} {.status.userInfo.groups[0]}')" "$user limpet:nodes" 'the server knows its user'
eventually 60 'it is online' online $node
eventually 60 'the EdgeNode says so' equals 'True Issued' condition
k patch eapp web -n "$ns" --type merge -p '{"metadata":{"labels":{"seen":"yes"}}}' >/dev/null
app_yaml more | put
eventually 60 'it follows and reports with it' ready eapp more
wrote() { k get lease $node -n "$ns" -o 'jsonpath={.spec.renewTime}'; }
last=$(wrote)
renewed_lease() { [[ $(wrote) != "$last" ]]; }
k delete rolebinding limpet -n "$ns" >/dev/null # the ServiceAccount's: what goes on now is the certificate's
eventually 90 'without any right of the token' renewed_lease
like "$(L $node check -o json | jq -r '.checks[] | select(.name == "credential-expiry") | .status + " " + .seen')" '^ok the client certificate expires' 'limpet check names its end'
is "$(pids $node web)" "$pid" 'the workload is the same'

# ----------------------------------------------------------------------------------------------------------------------- renewal

# aged SECONDS LIFE: the node's certificate as the signer would have made it so long ago for so long.
aged() {
	local ca=$work/ca
	rm -rf "$ca" && mkdir "$ca" && : >"$ca/index" && openssl rand -hex 8 >"$ca/serial"
	printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nserial=%s/serial\nnew_certs_dir=%s\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n[p]\norganizationName=supplied\ncommonName=supplied\n[e]\nextendedKeyUsage=clientAuth\n[req]\ndistinguished_name=n\n[n]\n' \
		"$ca" "$ca" "$ca" >"$ca/cnf"
	jq -r .clientKey "$identity" >"$ca/key"
	openssl req -new -config "$ca/cnf" -key "$ca/key" -subj "/O=limpet:nodes/CN=$user" -out "$ca/req" &&
		openssl ca -batch -config "$ca/cnf" -cert "$CLUSTER_DIR/pki/client-ca.crt" -keyfile "$CLUSTER_DIR/pki/client-ca.key" -in "$ca/req" \
			-startdate "$(date -u -d "-$1 seconds" +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "$(($2 - $1)) seconds" +%Y%m%d%H%M%SZ)" \
			-notext -out "$ca/crt" 2>"$ca/err" || bail_out 'no certificate'
	jq --rawfile c "$ca/crt" '.clientCertificate = $c | del(.receivedBoot, .receivedBootMs)' "$identity" >"$work/identity" &&
		cp "$work/identity" "$identity"
}
agent_stop $node
before=$(request_of)
aged 560 600
old=$(certificate)
agent_start $node
eventually 60 'at 93 % of its life another is asked for, with a new key' asked_anew
is "$(k get csr "$csr" -o 'jsonpath={.spec.username}')" "$user" 'by the certificate itself'
eventually 60 'which the EdgeNode says' equals 'True WaitingForApproval' condition
run_is 0 'approved' "$limpetctl" node approve $node --yes
renewed() { [[ $(certificate) != "$old" ]]; }
eventually 60 'it is taken' renewed
is "$(jq -r .clientCertificate "$identity.prev")" "$old" 'the one before is kept'
eventually 60 'it is online' online $node
is "$(pids $node web)" "$pid" 'the workload is the same'
like "$(curl -s "http://127.0.0.1:$metrics/metrics")" 'limpet_credential_renewals_total 1' 'one renewal is counted'

# ------------------------------------------------------------------------------------------------------------------ expired, refused

"$limpetctl" node add $node --credential token --force --server "$(server_url)" >/dev/null 2>&1 # refused: it exists
k apply -f - >/dev/null <<EOT
{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"limpet","namespace":"$ns"},
 "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"limpet"},"subjects":[{"kind":"ServiceAccount","name":"limpet","namespace":"$ns"}]}
EOT
agent_stop $node
before=$(request_of)
aged 7200 3600
agent_start $node
eventually 90 'expired while away: the spare token is used' equals token kind
eventually 90 'it is online' online $node
eventually 60 'and a certificate is asked for' asked_anew
is "$(pids $node web)" "$pid" 'the workload is the same'

# ---------------------------------------------------------------------------------------------------------------- denied, not as it should be

k certificate deny "$csr" >/dev/null
eventually 60 'denied: the EdgeNode says so' equals 'False Denied' condition
ok 'the node goes on with its token' online $node
agent_stop $node

# forge SUBJECT [EXTENSION]: a request in the node's place, by the administrator.
forge() {
	k delete csr "$csr" >/dev/null 2>&1
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/forged.key" -subj "$1" ${2:+-addext "$2"} -out "$work/forged" 2>/dev/null
	k create "${@:3}" -f - >/dev/null <<EOT
{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"$csr"},
 "spec":{"request":"$(base64 -w0 "$work/forged")","signerName":"kubernetes.io/kube-apiserver-client","usages":["digital signature","client auth"]}}
EOT
}
as_it=(--as "system:serviceaccount:$ns:limpet")
forge "/O=limpet:nodes/CN=$user"
run_is 1 'made by somebody else: not approved' "$limpetctl" node approve $node --yes
like "$err" 'made by admin' 'with the reason'
forge "/O=limpet:nodes/CN=limpet:node:beta:00000000" '' "${as_it[@]}"
run_is 1 'for another user: not approved' "$limpetctl" node approve $node --yes
like "$err" 'another name than' 'with the reason'
forge "/O=limpet:nodes/CN=$user" subjectAltName=DNS:api "${as_it[@]}"
run_is 1 'with another name beside it: not approved' "$limpetctl" node approve $node --yes
forge "/O=limpet:nodes/CN=$user" '' "${as_it[@]}"
before=$(request_of)
agent_start $node
eventually 60 'a request for a key that it does not have is replaced' asked_anew

# ------------------------------------------------------------------------------------------------------------------------ revoked

run_is 0 'approved' "$limpetctl" node approve $node --yes
eventually 60 'the certificate is in use' certified
eventually 60 'it is online' online $node
ok 'the certificate has its rights' as_node get ns "$ns"
cp "$work/node.crt" "$work/revoked.crt" && cp "$work/node.key" "$work/revoked.key"
join_as certificate --replace || bail_out "join anew: $(<"$work/add.err")"
not_ok 'after node add --replace the old one grants nothing' "$CLUSTER_DIR/bin/kubectl" --kubeconfig=/dev/null --server "$(server_url)" \
	--certificate-authority "$CLUSTER_DIR/pki/server-ca.crt" --client-certificate "$work/revoked.crt" --client-key "$work/revoked.key" get ns "$ns"
eventually 60 'the node took the new join' equals token kind
eventually 60 'it is online' online $node
isnt_user=$(jq -r .certificateUser "$identity")
ok 'under another user' test "$isnt_user" != "$user"
join_as token --replace || bail_out 'join with a token'
eventually 60 'with a token again' equals null kind
eventually 60 'which the EdgeNode says' equals 'False NotWanted' condition
not_ok 'and nothing is left of its rights' k get clusterrole "limpet-$ns-certificate"
is "$(pids $node web)" "$pid" 'the workload is the same'

printf '%s\n' "$key" | sed -n 2p >"$work/piece"
not_ok 'no key in the log' grep -qF -f "$work/piece" "$log"
not_ok 'nor a PEM' grep -q 'BEGIN' "$log"
done_testing
