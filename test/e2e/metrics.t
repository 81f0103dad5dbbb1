#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# /metrics, /healthz and /readyz of an agent on a real API server: what Prometheus' own checker says of the text, that the numbers are those of
# what happened, and that nobody who asks can keep the agent from its work.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"
# shellcheck source=promtool.sh
. "$here/promtool.sh"

node=nu
ns=edge-nu

get() { curl -s -g --max-time 10 "http://127.0.0.1:$port$1"; }
code() { curl -s -g --max-time 10 -o /dev/null -w '%{http_code}' "${@:2}" "http://127.0.0.1:$port$1"; }
# value NAME: of a sample, labels and all.
value() { get /metrics | awk -v name="$1" '$1 == name { print $2 }'; }
above() { # N NAME
	local v
	v=$(value "$2")
	[[ -n $v ]] && awk -v v="$v" -v n="$1" 'BEGIN { exit !(v > n) }'
}
clean() { get /metrics | "$promtool" check metrics; }

promtool=$(promtool_path) || bail_out "no promtool: install Debian's prometheus, or give this machine a mirror of it"
cluster_up
"$limpetctl" install >/dev/null || bail_out "limpetctl install"
port=$(free_port)
agent_new $node clock.trust=always "metrics.listen=127.0.0.1:$port" "manifests.dir=$work/$node/manifests"
mkdir "$work/$node/manifests"
printf 'half: [\n' >"$work/$node/manifests/a.yaml"
agent_join $node || bail_out "no join"
agent_start $node
eventually 30 'the agent is online' online $node

# --- What it says

is "$(code /metrics)" 200 '/metrics'
is "$(curl -s -o /dev/null -w '%{content_type}' "http://127.0.0.1:$port/metrics")" 'text/plain; version=0.0.4; charset=utf-8' 'in the text format'
ok 'promtool finds nothing in it' clean
app_yaml web | put
file_yaml motd "$work/$node/files/motd" hello | put
eventually 30 'an app runs' ready eapp web
eventually 30 'a file is there' ready ecfg motd
eventually 30 'passes are counted by kind and result' above 0 'controller_runtime_reconcile_total{controller="edgeapp",result="success"}'
ok 'how long they took, too' above 0 'controller_runtime_reconcile_time_seconds_count{controller="edgeconfig"}'
ok 'and in seconds' above 0 'controller_runtime_reconcile_time_seconds_sum{controller="edgeconfig"}'
is "$(value 'controller_runtime_max_concurrent_reconciles{controller="edgeapp"}')" 8 'workers of a kind'
ok 'keys came into the queue' above 3 'workqueue_adds_total{controller="limpet",name="limpet"}'
host=$(server_url)
host=${host#https://}
ok 'requests are counted by method and status' above 0 "rest_client_requests_total{code=\"200\",host=\"$host\",method=\"PATCH\"}"
is "$(value limpet_objects)" 3 'the app, the file, and the node itself'
is "$(value 'limpet_link_state{state="Online"}') $(value 'limpet_link_state{state="Offline"}')" '1 0' 'the link is online'
is "$(value limpet_sync_sources)" "$(value limpet_sync_sources_current)" 'every source is current'
eventually 30 'the Lease is ours' equals 1 value limpet_lease_held
ok 'transactions' above 0 limpet_store_commits_total
ok 'and how long each took' above 0 limpet_store_commit_seconds_count
ok 'memory' above 1000000 process_resident_memory_bytes
is "$(value "limpet_build_info{version=\"$("$limpet" version | awk 'NR == 1 { print $2 }')\"}")" 1 'the version'
is "$(value 'limpet_manifest_errors{reason="invalid"}') $(value 'limpet_manifest_errors{reason="unknown_field"}')" '1 0' 'a manifest that is left alone'
is "$(get /metrics | grep -c token)" 0 'no secret is near it'
ok 'promtool finds nothing after all this' clean
errors=$(value 'controller_runtime_reconcile_errors_total{controller="edgeapp"}')
app_yaml broken 'replicas: 1' | sed 's/\/bin\/sh/\/nowhere/; s/nodeName.*//' | put
k patch eapp broken -n $ns --type=merge -p '{"spec":{"nodeName":"somebody-else"}}' >/dev/null
eventually 30 'what is refused is an error' above "$errors" 'controller_runtime_reconcile_errors_total{controller="edgeapp"}'

# --- Health

is "$(get /healthz)" ok '/healthz'
is "$(get /readyz)" ok '/readyz'
like "$(get '/readyz?verbose')" '\[\+\]store ok.*readyz check passed' 'and what it looked at'
is "$(code /nothing) $(code /metrics -X POST -d abc)" '404 405' 'nothing else is here, and nothing can be changed'
is "$(code /metrics -I)" 200 'HEAD'

# --- Offline

cluster down
eventually 60 'the link is offline' equals 1 value 'limpet_link_state{state="Offline"}'
sed -i 's/hello/goodbye/' "$work/$node/files/motd"
eventually 30 'what the server has not heard is pending' above 0 'limpet_outbox_pending{type="event"}'
is "$(code /readyz)" 200 'an agent without a server is ready all the same'
ok 'promtool finds nothing while offline' clean

# --- Who asks and does not listen

python3 - "$port" <<'END' &
import socket, sys, time
held = []
for i in range(40):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 100)
    held.append(s)
print("held", flush=True)
time.sleep(600)
END
holder=$!
at_exit kill $holder
ok 'with forty connections that say half a sentence the agent answers on its socket' L $node get eapp web
eventually 60 'they are closed after a while, and others are heard' equals 200 code /metrics
kill $holder
wait $holder 2>/dev/null
is "$(code "/metrics?$(printf 'a%.0s' {1..20000})")" 414 'a request over the bound is refused'
eventually 10 'and hurts nobody' equals 200 code /metrics

# --- An address that somebody has

agent_stop $node
python3 -c 'import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(600)' "$port" &
holder=$!
at_exit kill $holder
wait_for 10 'somebody has the address' code / >/dev/null 2>&1 || true
agent_start $node
ok 'an agent whose address is taken runs' L $node get eapp web
like "$(tail -n 60 "$work/$node/agent.log" | tr '\n' ' ')" 'no-metrics.*somebody else listens.*each minute' 'and says so'
agent_stop $node
kill $holder
wait $holder 2>/dev/null
sed -i 's/^listen = .*/listen = localhost/' "$work/$node/limpet.ini"
not_ok 'one that is none is a mistake' timeout 30 "$limpet" --config "$work/$node/limpet.ini" run
like "$("$limpet" --config "$work/$node/limpet.ini" run 2>&1)" 'metrics.*listen.*localhost.*ADDRESS:PORT' 'that is named'
sed -i "s/^listen = .*/listen = [::1]:$port/" "$work/$node/limpet.ini"
if [[ -e /proc/net/if_inet6 ]] && grep -q '^0\{31\}1' /proc/net/if_inet6; then
	agent_start $node
	is "$(curl -s -g "http://[::1]:$port/healthz")" ok 'IPv6'
	agent_stop $node
else
	skip 1 'no IPv6 here'
fi
done_testing
