#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# Secrets and ConfigMaps that apps and jobs refer to, on a real API server: they come late, change, go, are forbidden, and serve a boot
# without a server; and their values are found nowhere but where they belong.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
ns=edge-alpha
seen=$work/$node/seen # what the app saw
first_value=Kirschkern-7401 second_value=Mirabelle-2210 nobodys=Quitte-9333

# Of what is nobody's business: as it is and in base64.
encoded() { printf %s "$1" | base64; }
secret() { # PASSWORD
	printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: %s, unused: %s}\n' "$1" "$nobodys" | put
}
app() { # NAME [YAML-LINE...]: writes what it sees
	local name=$1
	shift
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n' "$name"
	printf '  command: ["/bin/sh", "-c", "echo $PASSWORD $SITE_ZONE >%s.%s; exec sleep 100000", "$(PASSWORD)"]\n' "$seen" "$name"
	printf '  terminationGracePeriodSeconds: 1\n  env:\n  - name: PASSWORD\n    valueFrom: {secretKeyRef: {name: db, key: password}}\n'
	printf '  envFrom: [{prefix: SITE_, configMapRef: {name: site, optional: true}}]\n'
	((! $#)) || printf '  %s\n' "$@"
}

cluster_up
ok 'limpetctl installs the CRDs' "$limpetctl" install
agent_new $node
ok 'the join command works' agent_join $node
agent_start $node
eventually 30 'it is online' online $node
not_followed() { ! L $node status -o json | grep -q secrets@; }
ok 'nothing refers to a Secret, so none is asked for' not_followed

# --- created after the app
app web | put
eventually 60 'field 31: without its Secret the app waits' equals CreateContainerConfigError reason eapp web Ready
is "$(reason eapp web ResolvedRefs)" NotFound 'field 31: a condition says that it is not there'
like "$(message eapp web ResolvedRefs)" 'Secret db' 'field 31: and names it'
is "$(pids $node web)" '' 'field 31: nothing was started'
secret $first_value
eventually 60 'field 31: it goes on by itself when the Secret comes' ready eapp web
eventually 10 'the value is in its environment' file_is "$seen.web" $first_value
is "$(reason eapp web ResolvedRefs)" Resolved 'all is resolved'

# --- a job, and a ConfigMap
k create configmap site -n $ns --from-literal=ZONE=north --from-literal=not.a.name=x >/dev/null
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeJob\nmetadata: {name: once}\nspec:\n  command: ["/bin/sh", "-c", "echo $PASSWORD $ZONE >%s.once"]\n  env:\n  - name: PASSWORD\n    valueFrom: {secretKeyRef: {name: db, key: password}}\n  envFrom: [{configMapRef: {name: site}}]\n' "$seen" | put
eventually 60 'a job has its values, too' file_is "$seen.once" "$first_value north"
eventually 30 'a key that is no variable is told' matches InvalidEnvironmentVariableNames k get events.events.k8s.io -n $ns -o 'jsonpath={.items[*].reason}'

# --- a file
key=$work/$node/files/key
printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: key}\nspec:\n  files: [{path: %s, contentFrom: {secretKeyRef: {name: db, key: password}}}]\n' "$key" | put
eventually 60 'a file has the value' file_is "$key" $first_value
is "$(stat -c %a "$key")" 600 'and nobody else reads it'
echo tampered >"$key"
eventually 30 'an edited one is put right' file_is "$key" $first_value

# --- a changed value
app eager 'restartOnChange: true' | put
eventually 60 'an app that restarts on a change' ready eapp eager
pid=$(pids $node web) eager=$(pids $node eager)
secret $second_value
eventually 60 'a new value replaces the instance that asked for it' file_is "$seen.eager" "$second_value north"
eventually 30 'and is up again' ready eapp eager
not_ok 'the former one is gone' kill -0 "$eager"
is "$(pids $node web)" "$pid" 'the other one runs on'
ok 'with what it started with' file_is "$seen.web" $first_value
eventually 60 'and the file has the new one' file_is "$key" $second_value

# --- nobody else sees it
ps -eo args >"$work/args"
cat /proc/[0-9]*/cmdline >"$work/cmdlines" 2>/dev/null
L $node get eapp web -o json >"$work/get" 2>&1
L $node get eapp web -o diff >>"$work/get" 2>&1
L $node describe eapp web >>"$work/get" 2>&1
L $node store dump >"$work/dump"
L $node status -o json >"$work/status"
L $node get ecfg key -o diff >>"$work/get" 2>&1
k get eapp,ejob,ecfg,events -n $ns -o yaml >"$work/server"
L $node events >"$work/events" 2>&1
for value in $first_value $second_value; do
	for text in "$value" "$(encoded "$value")"; do
		is "$(grep -alF -e "$text" "$work"/{args,cmdlines,get,dump,status,server,events} "$work/$node"/*log* 2>/dev/null)" '' "in no list of arguments, answer, dump, status, event or log: ${text:0:4}..."
	done
done
like "$(grep '"secrets/' "$work/dump")" 'redacted' 'the dump has the row'
holds() { cat "$work/$node"/state/limpet.db* | grep -qaF "$(encoded "$1")"; }
ok 'the store has the value that is referred to' holds $second_value
not_ok 'and none that nobody refers to' holds $nobodys
is "$(find "$work/$node/state" -type f -perm /077)" '' 'and nobody else can read its files'
is "$(find "$work/$node/run" -type f -perm /044 -exec grep -laF $second_value {} +)" '' 'nor is it in a file of the run directory'

# --- forbidden
k get role limpet -n $ns -o json | jq 'del(.metadata.resourceVersion)' >"$work/role.json"
jq '.rules |= map(select(.resources != ["secrets", "configmaps"]))' "$work/role.json" | k replace -f - >/dev/null
agent_stop $node
agent_start $node
eventually 60 'rights that were taken away are told' equals Forbidden reason eapp web ResolvedRefs
ok 'the app goes on' ready eapp web
is "$(pids $node web)" "$pid" 'untouched'
app other 'suspend: true' | put
eventually 60 'the other kinds are followed as before' equals Suspended reason eapp other Ready
ok 'and the node is online' online $node
k replace -f "$work/role.json" >/dev/null
eventually 120 'given back, it goes on by itself' equals Resolved reason eapp web ResolvedRefs

# --- deleted, and a boot without a server
k delete secret db -n $ns >/dev/null
eventually 60 'a deleted Secret is told' equals Gone reason eapp web ResolvedRefs
is "$(pids $node web)" "$pid" 'nothing is stopped for it'
is "$(field eapp eager '{.status.readyReplicas}')" 1 'nor where a change restarts'
cluster stop-apiserver --kill >/dev/null
agent_leave_machine $node
rm -rf "$work/$node/run" "$seen".* "$key"
agent_start $node
eventually 60 'rebooted without a server, the app starts with the last value' file_is "$seen.web" "$second_value north"
eventually 30 'the other one, too' file_is "$seen.eager" "$second_value north"
eventually 30 'and the file is there' file_is "$key" $second_value
agent_leave_machine $node

done_testing
