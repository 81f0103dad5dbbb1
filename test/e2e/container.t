#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runtime container with a real podman, and images made here: the conformance suite of ports, then apps of a real API server.
# timeout: 600
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
secret=Kirschkern-5512

((EUID == 0)) || skip_all 'podman with the network of the machine needs root here'
[[ -n $(type -P podman) ]] || skip_all 'there is no podman: deps/tools.sh test'

# A podman of this test's own: nothing of the machine's is seen or changed. Volumes and limits serve the rig, no app.
mkdir -p "$work/podman"
cat >"$work/podman/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
volumes = ["/usr:/usr:ro", "/tmp:/tmp", "$top/build:$top/build:ro"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
EOF
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/root"\nrunroot = "%s/run"\n' "$work/podman" "$work/podman" >"$work/podman/storage.conf"
export CONTAINERS_CONF=$work/podman/containers.conf CONTAINERS_STORAGE_CONF=$work/podman/storage.conf
podman_cleanup() { podman rm --all --force --time 0 >/dev/null 2>&1; }
at_exit podman_cleanup

# The image has the machine's /usr by the volume above.
image() { # NAME
	podman load --quiet --input "$work/image.tar" >/dev/null && podman tag localhost/limpet-test:1 "$1"
}
mkdir -p "$work/image"/{usr,tmp,etc,proc,sys,dev,run}
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$work/image/$dir"; done
python3 "$here/image_tar.py" "$work/image.tar" localhost/limpet-test:1 "$work/image" /bin/sh -c || bail_out 'no image'
image localhost/limpet-test:2 || skip_all 'podman cannot load an image here'
podman run --rm --network host --pull never localhost/limpet-test:1 true >"$work/said" 2>&1 ||
	skip_all "podman cannot run anything here: $(tail -n 1 "$work/said")"

suite() { RIG_CONTAINER=localhost/limpet-test:1 TMPDIR=/tmp "$top/build/test/port/conformance_test" '' container >"$work/suite" 2>&1; }
ok 'the conformance suite for container' suite
grep -A 3 '^not ok' "$work/suite" | sed 's/^/# /'
like "$(tail -n 1 "$work/suite")" '^1\.\.[2-9][0-9][0-9]$' 'all of it'

# ------------------------------------------------------------------------------------------------------------------- apps

names() { podman ps --all --format '{{.Names}}' --filter "label=dev.limpet.dir=$work/$node/run/containers"; }
no_names() { [[ -z $(names) ]]; }
app() { # NAME IMAGE [YAML-LINE...]
	local name=$1 image=$2
	shift 2
	printf 'apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {name: %s}\nspec:\n  image: %s\n  terminationGracePeriodSeconds: 1\n' "$name" "$image"
	((! $#)) || printf '  %s\n' "$@"
}
restarted() { (($(field eapp "$1" '{.status.instances[0].restarts}') >= $2)); }

cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'
agent_new $node
agent_join $node >/dev/null || bail_out 'the join command'
agent_start $node
eventually 30 'it is online' online $node

app never localhost/limpet-none:1 'imagePullPolicy: Never' | put
eventually 60 'without its image an app waits' equals ErrImageNeverPull reason eapp never Ready
app web localhost/limpet-test:1 'env: [{name: PASSWORD, value: "'$secret'"}, {name: HOME, value: /home/'$secret'}]' \
	'readinessProbe: {periodSeconds: 1, timeoutSeconds: 30, exec: {command: [/bin/sh, -c, "test ${#PASSWORD} = '${#secret}'"]}}' | put
eventually 60 'with an image that is there, and no registry, it runs; its probe sees what it sees' ready eapp web
web=$(pids $node web)
is "$(podman logs "$(names | grep -- -web-)" 2>&1)" 'from the image' "the image's own command"
ok 'limpet logs shows it' equals 'from the image' L $node logs web
not_ok 'no value of a variable is in the words of any process' grep -aq "$secret" /proc/[0-9]*/cmdline
not_ok 'nor is one left in a file' grep -rqs "$secret" "$work/$node/run" "$work/$node/log"

image localhost/limpet-none:1
agent_kill $node
ok 'the agent is killed, the container is not' test -d "/proc/$web"
agent_start $node
eventually 60 'the next one is online' online $node
eventually 60 'and has the same process' equals "$web" pids $node web
eventually 60 'an image that was brought meanwhile is used' ready eapp never

app crash localhost/limpet-test:1 'command: [/bin/sh, -c, "exit 7"]' | put
eventually 90 'one that ends is started again' restarted crash 1
is "$(field eapp crash '{.status.instances[0].lastExit.code}')" 7 'its exit code is told'
app web localhost/limpet-gone:9 | put
eventually 60 'a new image that cannot be had' matches '^(Pulling|ErrImagePull|ImagePullBackOff)$' reason eapp web Ready
is "$(pids $node web)" "$web" 'takes nothing away'

podman run --detach --pull never --name limpet-web-mine localhost/limpet-test:1 'exec sleep 1000' >/dev/null
k delete eapp --all -n "$(ns_of $node)" >/dev/null
eventually 60 'deleted, all containers go' no_names
is "$(podman ps --format '{{.Names}}')" limpet-web-mine "somebody else's stays, whatever its name"
done_testing
