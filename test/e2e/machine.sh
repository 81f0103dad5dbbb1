# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# machine.sh: one more machine, with systemd as PID 1, for end-to-end tests; sourced after agent.sh. It is a container of systemd-nspawn with the
# Debian of this machine in it. It shares our network, so an API server on 127.0.0.1 is reached; processes, files, /run, boot id and
# journal are its own. What it needs goes with it: processes, mounts (in its own namespace) and control groups.

machine_root=$work/machine
machine_cache=$top/build/machine

# machine_needs: ends the test where there can be no such machine; says how to get the tools where they are only missing.
machine_needs() {
	local tool
	((EUID == 0)) || skip_all 'a container with systemd needs root'
	[[ -n $(type -P apt-get) ]] || skip_all 'the container is made from Debian packages, and this is no Debian'
	for tool in systemd-nspawn debootstrap nsenter; do
		[[ -n $(type -P $tool) ]] || bail_out "$tool is missing: deps/tools.sh test installs it"
	done
}

# ------------------------------------------------------------------------------------------------------------ its files

os_release() { # KEY
	(. /etc/os-release && printf '%s' "${!1:-}")
}

# machine_mirror SUITE: where this machine itself takes its packages from.
machine_mirror() {
	local uri
	# shellcheck disable=SC2016  # fields of apt, not of the shell
	uri=$(apt-get indextargets --format '$(RELEASE)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
		awk -F '|' -v suite="$1" '$1 == suite || $2 == suite { print $3; exit }')
	case $uri in
	mirror+file:*) sed -n '/^[a-z]*:/ { s/[[:blank:]].*//; p; q; }' "${uri#mirror+file:}" ;;
	*) printf '%s' "$uri" ;;
	esac
}

# machine_base: makes the files that all such machines begin with, once; sets base.
machine_base() {
	local suite mirror lock proxy=''
	suite=$(os_release VERSION_CODENAME)
	mirror=$(machine_mirror "$suite")
	base=$machine_cache/$suite-$(dpkg --print-architecture)
	mkdir -p "$machine_cache"
	exec {lock}>"$machine_cache/lock"
	flock "$lock"
	if [[ ! -d $base ]]; then
		[[ -n $mirror ]] || bail_out "apt names no mirror for $suite"
		diag "making a $suite from $mirror, once (log: $base.log)"
		eval "$(apt-config shell proxy Acquire::http::Proxy)"
		rm -rf --one-file-system "$base.new"
		${proxy:+env http_proxy="$proxy"} debootstrap --variant=minbase --include=systemd,dbus "$suite" "$base.new" "$mirror" \
			>"$base.log" 2>&1 </dev/null || bail_out "debootstrap failed: $(tail -n 3 "$base.log")"
		machine_strip "$base.new"
		mv "$base.new" "$base"
	fi
	exec {lock}>&-
}

# What nobody here reads, and what would ask for a console or the network.
machine_strip() { # DIRECTORY
	local unit
	rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/usr/share/{doc,man,locale,i18n,info} "$1"/etc/resolv.conf
	for unit in systemd-firstboot.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
		ln -sf /dev/null "$1/etc/systemd/system/$unit"
	done
	mkdir -p "$1/var/log/journal"
}

# machine_make: a fresh copy, in machine_root.
machine_make() {
	local base
	machine_base
	mkdir -p "$machine_root" && cp -a --reflink=auto "$base/." "$machine_root/" || bail_out 'no copy of the base'
	tr -d - </proc/sys/kernel/random/uuid >"$machine_root/etc/machine-id"
	echo machine >"$machine_root/etc/hostname"
}

# ---------------------------------------------------------------------------------------------------------- its control

machine_groups=()
machine_pid=''

# machine_own_group: a control group of this test, in each hierarchy that systemd uses, so that machines side by side do not meet. Where
# systemd is in charge of this machine it makes one itself.
machine_own_group() {
	local hierarchy path
	for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
		[[ -f $hierarchy/cgroup.procs ]] || continue
		path=$hierarchy/limpet-machine-$$
		mkdir "$path" && machine_groups+=("$path")
	done
}

# machine_boot: power on. The container dies with the test even when that is killed.
machine_boot() {
	local how=()
	if [[ ! -d /run/systemd/system ]]; then
		machine_own_group
		how=(--keep-unit)
	fi
	(
		for group in "${machine_groups[@]}"; do
			echo $BASHPID >"$group/cgroup.procs"
		done
		exec setpriv --pdeathsig KILL systemd-nspawn --quiet --boot --register=no "${how[@]}" --link-journal=no --console=pipe \
			--machine="limpet-test-$$" --directory="$machine_root" </dev/null >>"$work/console.log" 2>&1
	) &
	machine_pid=$!
	wait_for 120 'the machine is up' machine_is_up
}
at_exit machine_off

# init_pid: of the machine's PID 1, as we see it.
init_pid() { pgrep -P "$machine_pid" -x systemd | head -n 1; }

# M COMMAND...: runs it in the machine.
M() {
	local init
	init=$(init_pid)
	[[ -n $init ]] || return 255
	nsenter --target "$init" --all -- "$@"
}

machine_is_up() { [[ $(M systemctl is-system-running) =~ ^(running|degraded)$ ]]; }

# machine_off: an orderly power off. Nothing of it is left but its files.
machine_off() {
	local group
	[[ -n $machine_pid ]] || return 0
	kill -TERM "$machine_pid" 2>/dev/null
	wait_for 120 'the machine is off' machine_is_off || kill -KILL "$machine_pid"
	wait "$machine_pid" 2>/dev/null
	machine_pid=''
	for group in "${machine_groups[@]}"; do
		wait_for 10 "$group is empty" rmdir_tree "$group"
	done
	machine_groups=()
}
machine_is_off() { ! kill -0 "$machine_pid" 2>/dev/null; }
rmdir_tree() { find "$1" -depth -type d -exec rmdir {} +; }
