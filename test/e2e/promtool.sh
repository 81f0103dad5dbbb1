# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# promtool.sh: Prometheus' own checker, for the tests of /metrics. Where it is not installed it is unpacked from Debian's package, once, into
# build/tools: the package as such would start a server.

promtool_path() {
	local dir=$top/build/tools/prometheus
	command -v promtool && return
	if [[ ! -x $dir/usr/bin/promtool ]]; then
		mkdir -p "$dir" && (cd "$dir" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb . && rm -f prometheus_*.deb) >&2 || return
	fi
	printf '%s\n' "$dir/usr/bin/promtool"
}
