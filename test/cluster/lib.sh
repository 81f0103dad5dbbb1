# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib.sh: what an end-to-end test sources. Bash; the test writes TAP to its standard output and is run by `prove`.
#
#   . "$(dirname "$0")/../cluster/lib.sh"
#   cluster_up
#   k apply -f thing.yaml
#   eventually 30 "the thing is Ready" k wait --for=condition=Ready thing/a --timeout=0
#   done_testing
#
# A test never sleeps for an amount of time: it waits for what it is about, with a deadline that only a defect reaches.

set -u

cluster_program=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/cluster
cluster_runs=${cluster_program%/test/cluster/cluster}/build/cluster/run
readonly cluster_program cluster_runs

# ------------------------------------------------------------------------------------------------------------------ TAP

tap_count=0
tap_failures=0
tap_plan=''

# plan NUMBER: optional; done_testing prints the plan of a test that has none.
plan() {
	tap_plan=$1
	printf '1..%d\n' "$1"
}

skip_all() { # REASON
	printf '1..0 # SKIP %s\n' "$*"
	exit 0
}

bail_out() { # REASON
	printf 'Bail out!  %s\n' "$*"
	exit 255
}

# diag TEXT: for the reader of a failure.
diag() { printf '%s\n' "$*" | sed 's/^/# /' >&2; }

pass() { # DESCRIPTION
	printf 'ok %d - %s\n' $((tap_count += 1)) "$1"
}

fail() { # DESCRIPTION [DETAIL...]
	printf 'not ok %d - %s\n' $((tap_count += 1)) "$1"
	tap_failures=$((tap_failures + 1))
	diag "failed: $1"
	shift
	(($# == 0)) || diag "$@"
	return 0
}

skip() { # NUMBER REASON: in the place of NUMBER tests
	local i
	for ((i = 0; i < $1; i++)); do
		printf 'ok %d # SKIP %s\n' $((tap_count += 1)) "$2"
	done
}

# ok DESCRIPTION COMMAND...: the command succeeds. It runs in a subshell; its output is shown if it fails.
ok() {
	local description=$1 output
	shift
	if output=$("$@" 2>&1); then
		pass "$description"
	else
		fail "$description" "exit status $? of: $*"$'\n'"$output"
	fi
}

# not_ok DESCRIPTION COMMAND...: the command fails.
not_ok() {
	local description=$1 output
	shift
	if output=$("$@" 2>&1); then
		fail "$description" "succeeded, but should fail: $*"$'\n'"$output"
	else
		pass "$description"
	fi
}

is() { # GOT WANTED DESCRIPTION
	if [[ $1 == "$2" ]]; then
		pass "$3"
	else
		fail "$3" "got:    $1"$'\n'"wanted: $2"
	fi
}

# like GOT REGEX DESCRIPTION: an extended regular expression, found anywhere.
like() {
	if [[ $1 =~ $2 ]]; then
		pass "$3"
	else
		fail "$3" "got:     $1"$'\n'"wanted something that matches: $2"
	fi
}

# done_testing: the last line of a test. Its exit status is the test's.
# run COMMAND...: sets status, out and err; the two also lie in $work.
out='' err='' status=0
run() {
	"$@" >"$work/out" 2>"$work/err" </dev/null
	status=$?
	out=$(<"$work/out")
	err=$(<"$work/err")
}

# run_is STATUS DESCRIPTION COMMAND...
run_is() {
	local wanted=$1 description=$2
	shift 2
	run "$@"
	if ((status == wanted)); then
		pass "$description"
	else
		fail "$description" "exit status $status, wanted $wanted, of: $*"$'\n'"$out"$'\n'"$err"
	fi
}

done_testing() {
	[[ -n $tap_plan ]] || plan "$tap_count"
	((tap_failures == 0 && tap_count == tap_plan))
}

# -------------------------------------------------------------------------------------------------------------- waiting

# uptime_ms: a clock that setting the time does not move.
uptime_ms() {
	local up
	read -r up _ </proc/uptime
	printf '%d' $((10#${up/./} * 10))
}

# wait_for SECONDS DESCRIPTION COMMAND...: until the command succeeds. False at the deadline, after saying what was waited for.
wait_for() {
	local seconds=$1 description=$2 output status deadline
	shift 2
	deadline=$(($(uptime_ms) + seconds * 1000))
	while true; do
		output=$("$@" 2>&1)
		status=$?
		((status != 0)) || return 0
		(($(uptime_ms) < deadline)) || break
		sleep 0.1
	done
	diag "waited $seconds s in vain: $description"$'\n'"exit status $status of: $*"$'\n'"$output"
	return 1
}

# eventually SECONDS DESCRIPTION COMMAND...: wait_for as a test of its own.
eventually() {
	if wait_for "$@"; then
		pass "$2"
	else
		fail "$2"
	fi
}

# ------------------------------------------------------------------------------------------------------------- clean-up

exit_actions=()

# at_exit COMMAND...: run when the test ends, however it ends; the latest first.
at_exit() {
	exit_actions=("$(printf '%q ' "$@")" "${exit_actions[@]}")
}

run_exit_actions() {
	local status=$? action
	trap - EXIT
	for action in "${exit_actions[@]}"; do
		eval "$action"
	done
	exit "$status"
}
trap run_exit_actions EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# -------------------------------------------------------------------------------------------------------------- cluster

# cluster_up [OPTION...]: a fresh cluster of this test alone, in CLUSTER_DIR. It ends with the test.
cluster_up() {
	mkdir -p "$cluster_runs"
	CLUSTER_DIR=$(mktemp -d "$cluster_runs/$(basename "$0" .t).XXXXXX") || bail_out "no directory for the cluster"
	at_exit cluster_down
	"$cluster_program" up "$CLUSTER_DIR" --owner $$ "$@" >&2 || bail_out "the cluster did not start"
	export KUBECONFIG=$CLUSTER_DIR/kubeconfig KUBECACHEDIR=$CLUSTER_DIR/cache KUBERC=off
}

# cluster_down: a cluster that failed a test leaves its logs.
cluster_down() {
	if ((tap_failures > 0)) || [[ -n ${KEEP_CLUSTER:-} ]]; then
		cluster down
		diag "logs and data of the cluster: $CLUSTER_DIR"
	else
		cluster wipe
	fi
}

# cluster COMMAND [ARGUMENT...]: the cluster program on this test's cluster, as in `cluster stop-apiserver --kill`.
cluster() { "$cluster_program" "$1" "$CLUSTER_DIR" "${@:2}"; }

# k ARGUMENT...: kubectl as the administrator.
k() { cluster kubectl "$@"; }

# kubeconfig_for NAMESPACE SERVICEACCOUNT FILE: its own credential, as a kubeconfig that only we may read. Written by the
# shell itself, for the arguments of a program can be read by everybody.
kubeconfig_for() {
	local token line
	token=$(k create token --namespace "$1" "$2" --duration 1h) || return
	(umask 077 && : >"$3") || return
	while IFS= read -r line; do
		[[ $line != '    token: '* ]] || line="    token: $token"
		printf '%s\n' "$line"
	done <"$CLUSTER_DIR/kubeconfig" >"$3"
}
