# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# go.sh: finds a Go compiler for what the tests need of other people's Go. Sourced; the caller has say() and die().

# find_go DIRECTORY...: sets go to one that builds the modules in these directories. Any Go since 1.21 will do, for it fetches the
# version that a module asks for; Debian's is told not to, and an older one may be first in PATH.
find_go() {
	local candidate have need
	need=$(sed -n 's/^go //p' "${@/%//go.mod}" | sort -V | tail -n 1)
	for candidate in go /usr/local/go/bin/go /usr/lib/go/bin/go /usr/lib/go-*/bin/go; do
		have=$(GOTOOLCHAIN=local "$candidate" env GOVERSION 2>/dev/null)
		have=${have#go}
		have=${have%% *}
		is_version_at_least "${have:-0}" 1.21 || continue
		go=$candidate
		export GOTOOLCHAIN=local
		is_version_at_least "$have" "$need" && return
		say "Go $have is installed; it fetches Go $need for this build"
		export GOTOOLCHAIN=go$need+auto
		return
	done
	die "this is compiled with Go, and no go command of 1.21 or later is here. Run deps/tools.sh test, which installs one."
}

is_version_at_least() { # HAVE NEED
	[[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}
