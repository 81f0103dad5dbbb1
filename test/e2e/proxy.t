#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# timeout: 600
# A site whose only way out is an HTTP proxy: join and work through it, each thing that it can do wrong named by limpet check and by the link's
# reason, no password anywhere.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
# shellcheck source=agent.sh
. "$here/agent.sh"

node=alpha
umask 077
cluster_up
"$limpetctl" install >/dev/null || bail_out 'limpetctl install'

proxy=$work/proxy
mkdir -p "$proxy"
tr -dc a-z0-9 </dev/urandom | head -c 24 >"$proxy/password"
printf 'limpet:%s\n' "$(<"$proxy/password")" >"$work/auth"
mode() { printf '%s' "$1" >"$proxy/mode.new" && mv "$proxy/mode.new" "$proxy/mode"; }
mode auth
python3 "$here/proxy.py" "$proxy" >"$proxy/err" 2>&1 &
at_exit kill $!
wait_for 20 'the proxy is open' test -s "$proxy/port" || bail_out 'no proxy'
where=127.0.0.1:$(<"$proxy/port")

# The server is known by a name that only the proxy can reach; its certificate is for localhost.
port=$(server_url) && port=${port##*:}
server=https://api.site.invalid:$port

agent_new $node "server.proxy=http://$where" "server.proxyAuth=$work/auth" server.tlsServerName=localhost
"$limpetctl" node add $node --server "$server" >"$work/join.sh" 2>/dev/null || bail_out 'no join command'
sed -i "s#limpet join#\"$limpet\" --config \"$work/$node/limpet.ini\" join#" "$work/join.sh"
run_is 0 'field 23: join through the proxy' bash "$work/join.sh"
agent_start $node
eventually 60 'online through the proxy' online $node
app_yaml web | put
eventually 60 'an app is Ready' ready eapp web
pid=$(pids $node web)
like "$(<"$proxy/log")" "CONNECT api.site.invalid:$port" 'it was asked for the server'
not_ok 'and never saw the token' grep -q LEAK "$proxy/log"

check() { L $node check -o json >"$work/said" 2>&1; }
of() { jq -r --arg n "$1" --arg f "$2" '.checks[] | select(.name == $n) | .[$f] // ""' "$work/said"; }
fails() { jq -r '[.checks[] | select(.status == "fail") | .name] | join(" ")' "$work/said"; }
why() { L $node status -o json | jq -r .link.why; }
check
is "$(fails)" '' 'limpet check: nothing fails'
like "$(of server-proxy seen)" "^$where connects us" 'and names the proxy'

# broken DESCRIPTION SEEN CAUSE REMEDY: of the check server-proxy, and the link's reason.
broken() {
	check
	is "$(fails)" server-proxy "field 23: $1: limpet check names the proxy, and nothing else"
	like "$(of server-proxy seen)" "proxy $where.*$2" "$1: what was seen"
	like "$(of server-proxy cause)" "$3" "$1: the cause"
	like "$(of server-proxy remedy)" "$4" "$1: a remedy"
	is "$(of server-name needs) $(of server-tcp status)" 'server-proxy skip' "$1: what lies behind it is not judged"
}
agent_stop $node
mode refuse
agent_start $node
eventually 30 'a proxy that refuses: the reason names it' matches "proxy $where does not let us through to api.site.invalid:$port: it answers 403" why
broken 'a proxy that refuses' 'it answers 403' "does not allow, or does not reach, api.site.invalid:$port" 'allow CONNECT'
is "$(pids $node web)" "$pid" 'the workload goes on'
mode mute
broken 'a proxy that is mute' 'does not answer' 'takes the connection and says nothing' 'is the proxy up'
mode auth
printf 'limpet:wrong-password\n' >"$work/auth"
broken 'a wrong password' 'it wants another user and password' 'does not accept the user and password' 'proxyAuth'
sed -i '/^proxyAuth/d' "$work/$node/limpet.ini"
broken 'no password' 'it wants another user and password' 'wants a user and a password' 'proxyAuth'
chmod 644 "$work/auth"
printf '[server]\nproxyAuth = %s\n' "$work/auth" >>"$work/$node/limpet.ini"
check
is "$(fails)" credential 'a password that others may read is not used'
like "$(of credential seen)" 'chmod 600' 'and it says so'
chmod 600 "$work/auth"
sed -i "s#^proxy = .*#proxy = http://127.0.0.1:$(free_port)#" "$work/$node/limpet.ini"
where='127.0.0.1:[0-9]+'
broken 'a proxy that is dead' 'refused' 'the proxy is down' 'is the proxy up'

# Slow, and named by the environment as other programs have it.
mode slow
agent_stop $node
sed -i '/^proxy = /d' "$work/$node/limpet.ini"
printf 'limpet:%s\n' "$(<"$proxy/password")" >"$work/auth"
export HTTPS_PROXY=http://127.0.0.1:$(<"$proxy/port")
: >"$proxy/log"
agent_start $node
eventually 90 'a slow proxy, from the environment: online' online $node
ok 'through it' grep -q "CONNECT api.site.invalid:$port" "$proxy/log"
is "$(pids $node web)" "$pid" 'with the workload it had'
check
is "$(fails)" '' 'limpet check goes through it, too'
NO_PROXY=.site.invalid check
like "$(fails) $(of server-proxy seen)" '^server-name none for this server' 'NO_PROXY is obeyed'

# The same over TLS: join, work, and a proxy that is not the one it should be.
unset HTTPS_PROXY
agent_stop $node
authority() { # NAME: a certificate for 127.0.0.1 that issues itself
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" -subj "/CN=$1" -days 30 \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
}
authority site
authority stranger
guarded=$work/guarded
mkdir -p "$guarded"
cp "$proxy/password" "$guarded/password"
printf auth >"$guarded/mode"
python3 "$here/proxy.py" "$guarded" "$work/site.pem" "$work/site.key" >"$guarded/err" 2>&1 &
at_exit kill $!
wait_for 20 'the TLS proxy is open' test -s "$guarded/port" || bail_out 'no TLS proxy'
where=127.0.0.1:$(<"$guarded/port")
printf '[server]\nproxy = https://%s\n' "$where" >>"$work/$node/limpet.ini"
"$limpetctl" node add $node --replace --server "$server" >"$work/join.sh" 2>/dev/null
sed -i "s#limpet join#\"$limpet\" --config \"$work/$node/limpet.ini\" join#" "$work/join.sh"
refused() { ! bash "$work/join.sh" >"$work/why" 2>&1; }
ok 'no authority for a TLS proxy: join refuses' refused
like "$(<"$work/why")" "proxy $where.*\[server\] proxyCA" 'and says what is missing'
printf 'proxyCA = %s\n' "$work/stranger.pem" >>"$work/$node/limpet.ini"
ok 'another authority: join refuses' refused
like "$(<"$work/why")" "proxy $where does not prove who it is" 'and says who is not trusted'
not_ok 'no request came so far, no password either' test -e "$guarded/log"
sed -i "s#^proxyCA = .*#proxyCA = $work/site.pem#" "$work/$node/limpet.ini"
run_is 0 'join through a TLS proxy' bash "$work/join.sh"
agent_start $node
eventually 60 'a TLS proxy: online' online $node
like "$(<"$guarded/log")" "CONNECT api.site.invalid:$port" 'through it'
not_ok 'and it saw no token' grep -q LEAK "$guarded/log"
is "$(pids $node web)" "$pid" 'with the workload it had'
check
is "$(fails)" '' 'limpet check: nothing fails'
like "$(of server-proxy seen)" "^$where connects us" 'and it names the proxy'
sed -i "s#^proxyCA = .*#proxyCA = $work/stranger.pem#" "$work/$node/limpet.ini"
broken 'a stranger as TLS proxy' 'does not prove who it is' 'was issued by .*CN=site.*not trusted for a proxy' 'proxyCA'
agent_stop $node
agent_start $node
eventually 30 'the reason names it' matches "proxy $where does not prove who it is" why
sed -i "s#^proxy = https:.*#proxy = https://127.0.0.1:$(<"$proxy/port")#" "$work/$node/limpet.ini"
where='127.0.0.1:[0-9]+'
mode auth
broken 'a proxy that does not speak TLS' 'no TLS handshake' 'does not speak TLS' 'http://'
sed -i -e "s#^proxyCA = .*#proxyCA = $work/site.pem#" -e "s#^proxy = https:.*#proxy = https://127.0.0.1:$(<"$guarded/port")#" "$work/$node/limpet.ini"
agent_stop $node

# An authority that is trusted beside the server's, and a file of it that is none.
printf 'no certificate\n' >"$work/extra.pem"
printf '[server]\nextraCA = %s\n' "$work/extra.pem" >>"$work/$node/limpet.ini"
check
is "$(fails)" credential 'an extra authority that is none'
jq -r .ca "$work/$node/state/identity.json" >"$work/extra.pem"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/other.key" -out "$work/other.pem" -subj /CN=stranger -days 30 2>/dev/null
agent_stop $node
cp "$work/$node/state/identity.json" "$work/identity"
jq --rawfile ca "$work/other.pem" '.ca = $ca' "$work/identity" >"$work/$node/state/identity.json"
check
is "$(fails)" '' 'field 23: issued by the extra authority: accepted'
sed -i '/^extraCA/d' "$work/$node/limpet.ini"
check
is "$(fails)" server-tls 'and without it refused'

not_ok 'the password is nowhere' grep -qF -f "$proxy/password" "$work/$node/agent.log" "$work/said" "$work/$node/state/identity.json"
done_testing
