#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# limpetctl on a real API server: install, node add, list and rm, what they print, refuse and leave behind.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"

limpetctl=${LIMPETCTL:-$here/../../build/limpetctl}
server=https://192.0.2.1:6443
work=$(mktemp -d)
# What install applies, and how many of it are kinds.
manifests=$(cat "$here"/../../crd/*.yaml | grep -c '^kind:')
established=$(cat "$here"/../../crd/*.yaml | grep '^kind: CustomResourceDefinition' | sed 's/.*/True/' | paste -sd' ')
at_exit rm -rf "$work"

# ctl_is STATUS DESCRIPTION ARGUMENT...
ctl_is() { run_is "$1" "$2" "$limpetctl" "${@:3}"; }

jsonpath() { # PATH KIND NAME [ARGUMENT...]
	local path=$1
	shift
	k get "$@" -o "jsonpath=$path"
}

# ---------------------------------------------------------------------------------------------------------- command line

test_usage() {
	ctl_is 2 'no command is a usage error'
	like "$err" 'node add' 'and the commands are listed'
	ctl_is 0 '--help is none' --help
	like "$out" 'node rm' 'and the commands are listed'
	for command in install 'node add' 'node list' 'node rm' version; do
		# shellcheck disable=SC2086
		ctl_is 0 "$command --help" $command --help
		like "$out" "^usage: limpetctl $command" "$command --help says how it is used"
		like "$out" 'Exit status' "$command --help tells the exit status"
	done
	ctl_is 0 'node --help' node --help
	ctl_is 0 'version' version
	like "$out" '^limpetctl [0-9]+\.[0-9]+\.[0-9]+' 'version prints the version'
	ctl_is 2 'an unknown command' frobnicate
	like "$err" 'frobnicate' 'is named'
	ctl_is 2 'an unknown option' install --frobnicate
	like "$err" 'frobnicate' 'is named'
	ctl_is 2 'an option without its value' node add x --server
	ctl_is 2 'a missing name' node add --server $server
	ctl_is 2 'a missing --server' node add x
	like "$err" '[-][-]server' 'is named'
	ctl_is 2 'a word too many' node add x y --server $server
	ctl_is 2 'an output format that is none' node list -o yaml
	like "$err" 'json' 'the formats are named'
}

test_bad_kubeconfig() {
	KUBECONFIG=$work/none ctl_is 1 'a kubeconfig that does not exist' node list
	like "$err" 'none' 'is named, or that none exists'
	ctl_is 1 'the same by option' node list --kubeconfig "$work/none"
	like "$err" "$work/none" 'is named'
	ctl_is 1 'an unknown context' node list --context nowhere
	like "$err" 'nowhere' 'is named'
	sed 's/server: .*/server: https:\/\/127.0.0.1:1/' "$KUBECONFIG" >"$work/unreachable"
	ctl_is 1 'a server that cannot be reached' node list --kubeconfig "$work/unreachable"
	like "$err" 'reachable' 'a remedy is given'
	KUBECONFIG=$work/none:$KUBECONFIG run "$limpetctl" node list
	like "$err" 'limpetctl install' 'of several files in KUBECONFIG the first that exists is used'
}

# --------------------------------------------------------------------------------------------------------------- install

versions() { k get crd,clusterrole,role,namespace -A -l app.kubernetes.io/part-of=limpet -o 'jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}'; }

test_install() {
	ctl_is 1 'node add before install' node add pump-3 --server $server
	like "$err" 'limpetctl install' 'says what to do first'
	ctl_is 0 'install --dry-run' install --dry-run
	like "$out" 'customresourcedefinition.apiextensions.k8s.io/edgeapps.edge.limpet.dev created \(server dry run\)' 'says what it would do'
	is "$(versions)" '' 'and stores nothing'

	ctl_is 0 'install' install
	like "$out" 'edgeapps.edge.limpet.dev created' 'says what it did'
	is "$(grep -c ' created$' "$work/out")" "$manifests" 'the definitions, a namespace, the roles'
	is "$(jsonpath '{.items[*].status.conditions[?(@.type=="Established")].status}' crd -l app.kubernetes.io/part-of=limpet)" "$established" \
		'all kinds are served when it returns'

	local before
	before=$(versions)
	ctl_is 0 'install again' install
	is "$(grep -c ' unchanged$' "$work/out")" "$manifests" 'says that nothing changed' || diag "$out"
	is "$(versions)" "$before" 'and changed nothing'
}

test_install_repairs() {
	local damage='[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]'
	k patch clusterrole limpet-view --type=json -p "$damage" >/dev/null
	ctl_is 0 'install --dry-run after a change by hand' install --dry-run
	like "$out" 'clusterrole.rbac.authorization.k8s.io/limpet-view configured \(server dry run\)' 'names what differs'
	is "$(grep -c ' unchanged (server dry run)$' "$work/out")" $((manifests - 1)) 'and nothing else'
	is "$(jsonpath '{.rules[0].verbs}' clusterrole limpet-view)" '["get"]' 'and leaves it'
	run "$limpetctl" install
	is "$(grep -v unchanged "$work/out")" 'clusterrole.rbac.authorization.k8s.io/limpet-view configured' 'install puts it right, and says so'
	is "$(jsonpath '{.rules[0].verbs}' clusterrole limpet-view)" '["get","list","watch"]' 'as it was'
}

# -------------------------------------------------------------------------------------------------------------- node add

# join_json FILE MEMBER: "token" or "ca" of what lies between the command and EOF.
join_json() { sed -e 1d -e '/^EOF$/d' "$1" | perl -MJSON::PP -e 'local $/; print decode_json(<STDIN>)->{$ARGV[0]}' "$2"; }
join_token() { join_json "$1" token; }

# as_node FILE URL_PATH: prints the HTTP status that the token of a join command gets. It reaches curl by its standard input.
as_node() {
	printf 'header = "Authorization: Bearer %s"\n' "$(join_token "$1")" |
		curl --silent --config - --cacert "$CLUSTER_DIR/pki/server-ca.crt" --output /dev/null --write-out '%{http_code}' \
			"$(sed -n 's/^ *server: //p' "$KUBECONFIG")$2"
}

ca_hash() {
	openssl x509 -in "$CLUSTER_DIR/pki/server-ca.crt" -noout -pubkey | openssl pkey -pubin -outform der | sha256sum | sed 's/ .*//'
}

token_lifetime() { # FILE: seconds from issue to expiry
	join_token "$1" | perl -MMIME::Base64=decode_base64url -MJSON::PP -ne '$t = decode_json(decode_base64url((split /\./)[1])); print $t->{exp} - $t->{iat}'
}

# What a shell makes of the command: a limpet that writes down its arguments and its standard input.
fake_limpet() {
	mkdir -p "$work/bin"
	cat >"$work/bin/limpet" <<-'EOF'
		#!/bin/sh
		printf '%s\n' "$@" >"$SEEN/args"
		cat >"$SEEN/stdin"
	EOF
	chmod +x "$work/bin/limpet"
	SEEN=$work PATH=$work/bin:$PATH sh "$1"
}

test_add() {
	ctl_is 0 'node add' node add pump-3 --server $server
	cp "$work/out" "$work/join"
	is "$(wc -l <"$work/join")" 4 'standard output is the join command alone'
	is "$(sed -n 1p "$work/join")" \
		"limpet join --server $server --ca-hash sha256:$(ca_hash) --node pump-3 --namespace edge-pump-3 --token-file - <<'EOF'" 'with all the node needs'
	is "$(sed -n 4p "$work/join")" EOF 'and the token in a here-document'
	is "$(join_json "$work/join" ca)" "$(<"$CLUSTER_DIR/pki/server-ca.crt")" 'beside the CA whose hash it is'
	like "$(join_token "$work/join")" '^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$' 'the token looks like one'
	[[ $err != *$(join_token "$work/join")* ]]
	is $? 0 'the token is nowhere in what is said besides'
	is "$(token_lifetime "$work/join")" 3600 'it is valid for an hour'

	fake_limpet "$work/join"
	is "$(tr '\n' ' ' <"$work/args")" "join --server $server --ca-hash sha256:$(ca_hash) --node pump-3 --namespace edge-pump-3 --token-file - " \
		'a shell runs it with these arguments'
	is "$(<"$work/stdin")" "$(sed -n 2,3p "$work/join")" 'and the token on standard input'

	is "$(as_node "$work/join" /apis/edge.limpet.dev/v1alpha1/namespaces/edge-pump-3/edgeapps)" 200 'the token reads the apps of its namespace'
	is "$(as_node "$work/join" /apis/edge.limpet.dev/v1alpha1/edgeapps)" 403 'and no others'
	is "$(as_node "$work/join" /apis/edge.limpet.dev/v1alpha1/namespaces/edge-system/edgepolicies)" 200 'those of edge-system that all nodes share'
	is "$(as_node "$work/join" /api/v1/namespaces/kube-system)" 200 'and recognises the cluster'
	ok 'the EdgeNode is there' k get edgenode pump-3 -n edge-pump-3
	is "$(jsonpath '{.spec.leaseDurationSeconds}' lease pump-3 -n edge-pump-3)" 40 'the Lease is there'
}

test_add_refusals() {
	local uid
	uid=$(jsonpath '{.metadata.uid}' serviceaccount limpet -n edge-pump-3)
	ctl_is 1 'a node that exists' node add pump-3 --server $server
	like "$err" '[-][-]replace' 'the way out is named'
	is "$out" '' 'no join command is printed'
	is "$(jsonpath '{.metadata.uid}' serviceaccount limpet -n edge-pump-3)" "$uid" 'and its account is the same'

	ctl_is 0 'a node with a dot' node add a.b --server $server
	ctl_is 1 'a name that maps to the same namespace' node add a-b --server $server
	like "$err" 'belongs to node a.b' 'whose it is, is said'
	ctl_is 1 'the same with --replace' node add a-b --server $server --replace
	is "$(jsonpath '{.metadata.annotations.edge\.limpet\.dev/node}' namespace edge-a-b)" a.b 'the namespace is still the first one'"'"'s'

	k create namespace edge-foreign >/dev/null
	ctl_is 1 'a namespace that is not a node'"'"'s' node add foreign --server $server --replace
	like "$err" 'kubectl annotate namespace edge-foreign edge.limpet.dev/node=foreign' 'how to hand it over is said'
	ok 'and has no account' test -z "$(k get serviceaccount limpet -n edge-foreign --ignore-not-found -o name)"

	local url
	for url in https://127.0.0.1:6443 https://localhost:6443 'https://[::1]:6443'; do
		ctl_is 2 "a loopback server, $url" node add loop --server "$url"
		like "$err" '[-][-]force' 'the way out is named'
	done
	ctl_is 0 'a loopback server with --force' node add loop --server https://127.0.0.1:6443 --force
	# shellcheck disable=SC2016
	for url in http://192.0.2.1 192.0.2.1 'https://x;reboot' 'https://$(reboot)' https://x/y; do
		ctl_is 2 "no server URL: $url" node add urls --server "$url"
	done
	for name in Pump pump_3 -x. ../x; do
		ctl_is 2 "no name: $name" node add --server $server -- "$name"
	done
	ok 'nothing was made for those' test -z "$(k get namespace edge-urls edge-pump edge-pump-3- --ignore-not-found -o name)"

	kubeconfig_for edge-pump-3 limpet "$work/node.kubeconfig"
	ctl_is 1 'somebody who is no administrator' node add other --server $server --kubeconfig "$work/node.kubeconfig"
	like "$err" 'administrator' 'is told so'
}

test_long_name() {
	local name=pump.very-long-name-of-a-hall-in-a-very-long-name-of-a-place.example.org namespace
	ctl_is 0 'a long name' node add $name --server $server
	namespace=$(sed -n 's/.* --namespace \([^ ]*\) .*/\1/p' "$work/out")
	is ${#namespace} 63 'gets a namespace of 63 characters'
	is "$namespace" "edge-pump-very-long-name-of-a-hall-in-a-very-long-na-$(printf '%s' $name | sha256sum | cut -c 1-10)" 'that ends in a hash'
	ok 'and its objects' k get "edgenode/$name" "lease/$name" -n "$namespace"
}

is_revoked() { [[ $(as_node "$1" /api/v1/namespaces/edge-pump-3) == 401 ]]; }

test_replace() {
	local lease
	k apply -f - >/dev/null <<-'EOF'
		apiVersion: edge.limpet.dev/v1alpha1
		kind: EdgeApp
		metadata: {name: kept, namespace: edge-pump-3}
		spec: {command: ["true"]}
	EOF
	k patch lease pump-3 -n edge-pump-3 --type=merge -p '{"spec":{"holderIdentity":"old"}}' >/dev/null
	lease=$(jsonpath '{.spec}' lease pump-3 -n edge-pump-3)
	ctl_is 0 'node add --replace' node add pump-3 --server $server --replace
	cp "$work/out" "$work/join2"
	is "$(as_node "$work/join2" /api/v1/namespaces/edge-pump-3)" 200 'the new token works'
	eventually 60 'the old token is refused' is_revoked "$work/join"
	is "$(as_node "$work/join2" /api/v1/namespaces/edge-pump-3)" 200 'the new one still works'
	ok 'the resources of the node stay' k get edgeapp kept -n edge-pump-3
	is "$(jsonpath '{.spec}' lease pump-3 -n edge-pump-3)" "$lease" 'and so does what the Lease says'
	ctl_is 0 '--replace for a node that does not exist yet' node add fresh --server $server --replace
}

# -------------------------------------------------------------------------------------------------------- node list and rm

renew() { # NODE SECONDS_AGO
	k patch lease "$1" -n "edge-$1" --type=merge -p "{\"spec\":{\"renewTime\":\"$(date -u -d "$2 seconds ago" +%Y-%m-%dT%H:%M:%S.000000Z)\"}}" >/dev/null
}

column() { awk -v name="$1" -v n="$2" '$1 == name { print $n }' "$work/out"; }

test_list() {
	renew pump-3 0
	renew loop 600
	renew fresh -7200
	k patch edgenode pump-3 -n edge-pump-3 --subresource=status --type=merge -p '{"status":{"nodeInfo":{"agentVersion":"0.9.9"}}}' >/dev/null
	ctl_is 0 'node list' node list
	like "$out" '^NAME +NAMESPACE +READY +AGE +LAST-SEEN +VERSION' 'a table with a head'
	is "$(column pump-3 2) $(column pump-3 3) $(column pump-3 6)" 'edge-pump-3 True 0.9.9' 'a Lease renewed now: True'
	is "$(column loop 3) $(column loop 5 | grep -c '^10m')" 'Unknown 1' 'a Lease renewed ten minutes ago: Unknown, and since when'
	is "$(column a.b 3) $(column a.b 5) $(column a.b 6)" 'Unknown <never> <none>' 'a node that never joined'
	is "$(column fresh 3) $(column fresh 5)" 'Unknown <clock' 'a node whose clock is ahead'
	k patch edgenode loop -n edge-loop --subresource=status --type=merge -p '{"status":{"nodeInfo":{"agentVersion":"\u001b[2Jx"}}}' >/dev/null
	run "$limpetctl" node list
	is "$(column loop 6)" '?[2Jx' 'what a node wrote reaches the terminal without control characters'
	run "$limpetctl" node list -o name
	is "$(grep -c pump-3 "$work/out") $(sort -c "$work/out" && echo sorted)" '1 sorted' '-o name: one name a line, in order'
	run "$limpetctl" node list -o json
	like "$out" '"name":"pump-3","namespace":"edge-pump-3","ready":"True","reason":"LeaseRenewed","lastSeen":"[0-9TZ:-]+","created":"[0-9TZ:-]+","version":"0.9.9"' \
		'-o json'
	is "$(printf '%s' "$out" | perl -MJSON::PP -e 'local $/; print scalar @{decode_json(<STDIN>)}')" "$(k get edgenode -A --no-headers | wc -l)" \
		'-o json holds every node'
}

test_rm() {
	ctl_is 1 'node rm of a node that is none' node rm nowhere --yes
	like "$err" 'nowhere' 'is named'
	ctl_is 1 'node rm of what is not that node'"'"'s' node rm a-b --yes
	ok 'whose namespace stays' k get namespace edge-a-b
	ctl_is 1 'node rm without an answer' node rm pump-3
	like "$err" '1 EdgeApps, 0 EdgeConfigs and 0 EdgeJobs' 'says what would go'
	ok 'and deletes nothing' k get edgeapp kept -n edge-pump-3
	echo fresh | "$limpetctl" node rm pump-3 >/dev/null 2>&1
	is $? 1 'the wrong name is no yes'
	is "$(jsonpath '{.metadata.deletionTimestamp}' namespace edge-pump-3)" '' 'and deletes nothing'
	echo pump-3 | "$limpetctl" node rm pump-3 >"$work/out" 2>"$work/err"
	is $? 0 'the right one is' || diag "$(<"$work/err")"
	ok 'the namespace is gone when it returns' test -z "$(k get namespace edge-pump-3 --ignore-not-found -o name)"
	ok 'and so is the binding in edge-system' test -z "$(k get rolebinding limpet-edge-pump-3 -n edge-system --ignore-not-found -o name)"
	ok 'and so is the binding in kube-system' test -z "$(k get rolebinding limpet-edge-pump-3 -n kube-system --ignore-not-found -o name)"
	ctl_is 0 'and the name can be used again' node add pump-3 --server $server
	ctl_is 0 'node rm --yes --no-wait' node rm pump-3 --yes --no-wait
	run "$limpetctl" node list -o name
	like "$out" 'loop' 'other nodes stay'
}

cluster_up
test_usage
test_bad_kubeconfig
test_install
test_install_repairs
test_add
test_add_refusals
test_long_name
test_replace
test_list
test_rm
done_testing
