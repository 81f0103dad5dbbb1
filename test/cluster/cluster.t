#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The rig tests itself: what the other tests rely on.

here=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=lib.sh
. "$here/lib.sh"

runs=$cluster_runs/cluster-test.$$
a=$runs/a b=$runs/b
mkdir -p "$runs"
at_exit rm -rf "$runs"
at_exit "$cluster_program" wipe "$a"
at_exit "$cluster_program" wipe "$b"

on() { # CLUSTER KUBECTL-ARGUMENT...
	local dir=$1
	shift
	"$cluster_program" kubectl "$dir" "$@"
}

# as_device CLUSTER KUBECTL-ARGUMENT...: as a ServiceAccount that may do little.
as_device() {
	KUBECACHEDIR=$runs/cache "$1/bin/kubectl" --kubeconfig "$runs/device.kubeconfig" "${@:2}"
}

# processes_in DIR: those that work there, by the kernel's word and not by our pid files.
processes_in() {
	local cwd
	for cwd in /proc/[0-9]*/cwd; do
		[[ $(readlink "$cwd" 2>/dev/null) != "$1" ]] || printf '%s ' "${cwd//[^0-9]/}"
	done
}

has_controller_manager() { [[ -x $a/bin/kube-controller-manager ]]; }

is_deserted() { [[ -z $(processes_in "$1") ]]; }

server_of() { sed -n 's/^ *server: //p' "$1/kubeconfig"; }

pid_of() { # CLUSTER NAME
	cut -d ' ' -f 1 "$1/run/$2"
}

# No pipe into grep -q: an early end of grep must not look like a failure.
contains() { # STRING COMMAND...
	local output
	output=$("${@:2}" 2>&1)
	[[ $output == *"$1"* ]]
}

widget_crd='
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.limpet.dev}
spec:
  group: test.limpet.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, properties: {size: {type: integer}}}
'

device_rbac='
apiVersion: v1
kind: ServiceAccount
metadata: {name: device, namespace: edge-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: device, namespace: edge-a}
rules:
- {apiGroups: [test.limpet.dev], resources: [widgets], verbs: [get, list, watch]}
- {apiGroups: [test.limpet.dev], resources: [widgets/status], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: device, namespace: edge-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: device}
subjects:
- {kind: ServiceAccount, name: device, namespace: edge-a}
'

test_side_by_side() {
	local up_b
	"$cluster_program" up "$b" --owner $$ --no-controller-manager >&2 &
	up_b=$!
	ok "up" "$cluster_program" up "$a" --owner $$
	wait "$up_b" # not inside ok: a subshell cannot wait for it
	is $? 0 "up of a second cluster at the same time"
	ok "status of the first" "$cluster_program" status "$a"
	ok "status of the second" "$cluster_program" status "$b"
	ok "each has an address of its own" test "$(server_of "$a")" != "$(server_of "$b")"
	is "$(stat -c %a "$a" "$a/kubeconfig" "$a/tokens.csv" "$a/pki/server.key" | tr '\n' ' ')" "700 600 600 600 " \
		"nobody else may read the secrets"
}

test_crud() {
	ok "a CRD is accepted" on "$a" apply -f - <<<"$widget_crd"
	ok "and established" on "$a" wait --for=condition=Established crd/widgets.test.limpet.dev --timeout=30s
	not_ok "the other cluster does not have it" on "$b" get crd widgets.test.limpet.dev
	ok "namespace" on "$a" create namespace edge-a
	eventually 30 "create" on "$a" apply -f - \
		<<<'{apiVersion: test.limpet.dev/v1, kind: Widget, metadata: {name: w, namespace: edge-a}, spec: {size: 1}}'
	ok "update" on "$a" -n edge-a patch widget w --type merge -p '{"spec":{"size":2}}'
	is "$(on "$a" -n edge-a get widget w -o jsonpath='{.spec.size} {.metadata.generation}')" "2 2" "read"
	ok "another" on "$a" apply -f - \
		<<<'{apiVersion: test.limpet.dev/v1, kind: Widget, metadata: {name: gone, namespace: edge-a}, spec: {size: 1}}'
	ok "delete" on "$a" -n edge-a delete widget gone
	is "$(on "$a" -n edge-a get widgets -o name)" widget.test.limpet.dev/w "list"
}

test_rbac_is_exact() {
	ok "a ServiceAccount with a Role" on "$a" apply -f - <<<"$device_rbac"
	# shellcheck disable=SC2034 # lib.sh's
	CLUSTER_DIR=$a
	ok "has a credential of its own" kubeconfig_for edge-a device "$runs/device.kubeconfig"
	is "$(stat -c %a "$runs/device.kubeconfig")" 600 "which nobody else may read"
	eventually 30 "it lists in its namespace" as_device "$a" -n edge-a get widgets
	ok "it may not list in another namespace" contains Forbidden as_device "$a" -n default get widgets
	ok "nor in all" contains Forbidden as_device "$a" get widgets --all-namespaces
	ok "nor change a spec" contains Forbidden \
		as_device "$a" -n edge-a patch widget w --type merge -p '{"spec":{"size":3}}'
	ok "it may change a status" \
		as_device "$a" -n edge-a patch widget w --subresource status --type merge -p '{"status":{"size":3}}'
	is "$(on "$a" -n edge-a get widget w -o jsonpath='{.spec.size} {.status.size}')" "2 3" "and only that has changed"
}

test_outage() { # STOP-OPTION...
	local server uid
	server=$(server_of "$a")
	uid=$(on "$a" -n edge-a get widget w -o jsonpath='{.metadata.uid}')
	ok "stop-apiserver $*" "$cluster_program" stop-apiserver "$a" "$@"
	ok "the connection is refused" contains "refused" on "$a" get namespaces
	ok "status says stopped" contains "apiserver           stopped" "$cluster_program" status "$a"
	ok "start-apiserver" "$cluster_program" start-apiserver "$a"
	is "$(server_of "$a")" "$server" "the address is the same"
	is "$(on "$a" -n edge-a get widget w -o jsonpath='{.metadata.uid}')" "$uid" "the data are the same"
}

test_frozen_server() {
	ok "pause" "$cluster_program" pause "$a"
	ok "status says paused" contains "apiserver           paused" "$cluster_program" status "$a"
	not_ok "a frozen server answers nothing" on "$a" --request-timeout=1s get namespaces
	ok "resume" "$cluster_program" resume "$a"
	eventually 30 "it answers again" on "$a" --request-timeout=5s get namespaces
}

test_controllers_run() {
	if ! has_controller_manager; then
		skip 2 "there is no kube-controller-manager in KUBEBUILDER_ASSETS"
		return
	fi
	ok "a namespace with objects is deleted to the end" on "$a" delete namespace edge-a --timeout=60s
	not_ok "and is gone" on "$a" get namespace edge-a
}

test_no_secret_in_arguments() {
	local token
	token=$(cut -d , -f 1 "$a/tokens.csv" | head -n 1)
	is "${#token}" 48 "there is a token to look for"
	# The pattern comes from a file, or grep would find itself.
	is "$(grep -l -a -F -f <(printf '%s' "$token") /proc/[0-9]*/cmdline 2>/dev/null)" "" \
		"the administrator's token is in no process's arguments"
}

test_down_and_up_again() {
	local server uid processes=3
	server=$(server_of "$a")
	uid=$(on "$a" get namespace default -o jsonpath='{.metadata.uid}')
	has_controller_manager && processes=4
	is "$(processes_in "$a" | wc -w)" "$processes" "storage, API server, controller-manager and watchdog work in the directory"
	ok "down" "$cluster_program" down "$a"
	is "$(processes_in "$a")" "" "no process is left"
	ok "down of what is down" "$cluster_program" down "$a"
	not_ok "status fails then" "$cluster_program" status "$a"
	ok "up again" "$cluster_program" up "$a" --owner $$ --no-controller-manager
	is "$(on "$a" get namespace default -o jsonpath='{.metadata.uid}')" "$uid" "with the same data"
	is "$(server_of "$a")" "$server" "at the same address"
	is "$(processes_in "$a" | wc -w)" 3 "and without a controller-manager if so asked"
}

test_up_repairs() {
	local apiserver
	apiserver=$(pid_of "$a" apiserver)
	kill -KILL "$(pid_of "$a" storage)"
	eventually 30 "a dead storage shows in the status" contains "storage             stopped" "$cluster_program" status "$a"
	ok "up starts what is missing" "$cluster_program" up "$a" --owner $$ --no-controller-manager
	is "$(pid_of "$a" apiserver)" "$apiserver" "and leaves what runs alone"
	ok "it works" on "$a" get namespaces
}

test_reused_pid_is_left_alone() {
	local bystander real
	sleep 1000 &
	bystander=$!
	at_exit kill "$bystander"
	real=$(<"$b/run/apiserver")
	printf '%s %s\n' "$bystander" 12345 >"$b/run/apiserver"
	ok "down, when a pid now belongs to somebody else" "$cluster_program" down "$b"
	ok "does not touch that process" kill -0 "$bystander"
	kill -KILL "${real% *}" # the true one, which down could not know
	eventually 60 "everything else is gone" is_deserted "$b"
}

test_owner_dies() {
	local owner
	sleep 1000 &
	owner=$!
	ok "up for another owner" "$cluster_program" up "$b" --owner "$owner" --no-controller-manager
	ok "lives" "$cluster_program" status "$b"
	kill "$owner"
	eventually 60 "when the owner dies the cluster goes down by itself" is_deserted "$b"
}

test_wipe() {
	ok "wipe" "$cluster_program" wipe "$a"
	not_ok "the directory is gone" test -e "$a"
	is "$(processes_in "$a" | wc -w)" 0 "with its processes"
	mkdir "$runs/other"
	not_ok "wipe of a directory that is no cluster" "$cluster_program" wipe "$runs/other"
	ok "leaves it alone" test -d "$runs/other"
}

test_side_by_side
test_crud
test_rbac_is_exact
test_no_secret_in_arguments
test_outage
test_outage --kill
test_frozen_server
test_controllers_run
test_down_and_up_again
test_up_repairs
test_reused_pid_is_left_alone
test_owner_dies
test_wipe
done_testing
