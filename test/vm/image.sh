#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# image.sh: what a virtual machine is started from, in build/vm: kernel, initrd, root.ext4 and state.ext4.
#
#   kernel     Debian's for clouds; initrd has the few modules that a virtio machine needs, and busybox
#   root.ext4  the Debian of machine.sh, with this limpet from `make install`, enabled; what only costs time at boot is masked
#   state.ext4 an empty file system of 48 MiB for /var/lib/limpet
#
# Kernel, busybox and base are fetched once, with apt's own checks; everything else is made again when what it is made from changed.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$here/../cluster/lib.sh"
top=$(cd "$here/../.." && pwd)
work=$(mktemp -d /tmp/limpet-image.XXXXXX)
at_exit rm -rf --one-file-system "$work"
# shellcheck source=../e2e/machine.sh
. "$here/../e2e/machine.sh"
out=$top/build/vm
# In the order in which they need each other.
modules=(virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_blk virtio_net virtio_console)

die() {
	printf 'vm image: %s\n' "$*" >&2
	exit 1
}

needs() {
	local tool
	((EUID == 0)) || die 'files of root are put into an image: this needs root'
	[[ $(uname -m) == x86_64 && -n $(type -P apt-get) ]] || die 'the machine is made from Debian packages for amd64'
	for tool in qemu-system-x86_64 mkfs.ext4 debootstrap; do
		[[ -n $(type -P $tool) ]] || die "$tool is missing: deps/tools.sh test installs it"
	done
}

# ------------------------------------------------------------------------------------------------------------ kernel

kernel_package() {
	apt-cache depends linux-image-cloud-amd64 | sed -n 's/^  Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

# Kernel and busybox as apt has them now, unpacked here only; what is here already is kept, so that a test run needs no network.
packages_unpack() {
	local package
	[[ ! -d $out/debian ]] || return 0
	[[ -n $(kernel_package) ]] || apt-get update -qq >&2
	mkdir "$work/packages" && chmod 777 "$work" "$work/packages"
	(cd "$work/packages" && apt-get download -qq "$(kernel_package)" busybox-static) >&2 ||
		die 'no kernel or no busybox-static to be had; apt-get update may help'
	for package in "$work"/packages/*.deb; do
		dpkg -x "$package" "$work/debian" || die "unpacking $package"
	done
	cp "$work"/debian/boot/vmlinuz-* "$out/kernel" && mv "$work/debian" "$out/debian" || exit
}

initrd_make() {
	local module
	mkdir -p "$work"/initrd/{bin,dev,proc,sys,root,modules}
	cp "$out/debian/bin/busybox" "$work/initrd/bin/busybox"
	ln -s busybox "$work/initrd/bin/sh"
	cp "$here/guest/init" "$work/initrd/init"
	for module in "${modules[@]}"; do
		cp "$(find "$out/debian/lib/modules" -name "$module.ko")" "$work/initrd/modules/" || die "the kernel has no module $module"
	done
	printf '%s\n' "${modules[@]}" >"$work/initrd/modules/order"
	(cd "$work/initrd" && find . | "$out/debian/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$out/initrd.new" || die 'initrd'
	mv "$out/initrd.new" "$out/initrd"
}

# ------------------------------------------------------------------------------------------------------------- disks

# Nobody logs in, no device comes or goes, and every service is a second of an emulated processor.
masked=(getty.target systemd-logind.service systemd-user-sessions.service systemd-pstore.service e2scrub_reap.service dev-hugepages.mount
	dev-mqueue.mount kmod-static-nodes.service proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount sys-kernel-config.mount
	sys-kernel-debug.mount sys-kernel-tracing.mount systemd-binfmt.service systemd-modules-load.service systemd-machine-id-commit.service
	systemd-pcrphase-sysinit.service systemd-pcrphase.service systemd-random-seed.service systemd-repart.service
	systemd-sysusers.service systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-ask-password-wall.path
	systemd-ask-password-console.path systemd-tmpfiles-clean.timer systemd-remount-fs.service systemd-tmpfiles-setup-dev.service)

root_settle() { # ROOT
	local unit units=$1/etc/systemd/system
	for unit in "${masked[@]}"; do
		ln -sf /dev/null "$units/$unit"
	done
	install -m 755 "$here"/guest/{door,at-boot} "$1/usr/local/sbin/"
	install -m 644 "$here"/guest/*.service "$units/"
	install -D -m 644 "$here/guest/limpet.conf" "$units/limpet.service.d/vm.conf"
	install -D -m 644 "$here/guest/journald.conf" "$1/etc/systemd/journald.conf.d/vm.conf"
	mkdir -p "$units/sysinit.target.wants" "$units/multi-user.target.wants" "$1/srv/vm" "$1/var/lib/limpet"
	ln -sf ../door.service "$units/sysinit.target.wants/"
	ln -sf ../at-boot.service "$units/multi-user.target.wants/"
	ln -sf /usr/lib/systemd/system/limpet.service "$units/multi-user.target.wants/"
	printf '127.0.0.1 localhost vm\n10.0.2.100 kubernetes.default.svc\n' >"$1/etc/hosts"
	printf 'vm\n' >"$1/etc/hostname"
	tr -d - </proc/sys/kernel/random/uuid >"$1/etc/machine-id"
	: >"$1/etc/fstab"
}

disks_make() {
	machine_make
	make -C "$top" install DESTDIR="$machine_root" PREFIX=/usr >"$work/said" 2>&1 || die "make install: $(tail -n 20 "$work/said")"
	root_settle "$machine_root"
	rm -f "$out"/{root,state}.ext4.new
	mkfs.ext4 -q -F -b 4096 -L root -d "$machine_root" "$out/root.ext4.new" 320M >&2 || die 'root.ext4'
	mkfs.ext4 -q -F -b 4096 -L state -m 0 "$out/state.ext4.new" 48M >&2 || die 'state.ext4'
	mv "$out/root.ext4.new" "$out/root.ext4" && mv "$out/state.ext4.new" "$out/state.ext4"
}

# ------------------------------------------------------------------------------------------------------------- stamp

fingerprint() {
	cat "$top"/build/limpet "$top"/config/limpet.* "$here"/image.sh "$here"/guest/* "$here/../e2e/machine.sh" | sha256sum
}

needs
mkdir -p "$out"
exec {lock}>"$out/lock"
flock "$lock"
packages_unpack
if [[ ! -f $out/state.ext4 || $(cat "$out/stamp" 2>/dev/null) != "$(fingerprint)" ]]; then
	initrd_make
	disks_make
	fingerprint >"$out/stamp"
fi
