#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deps/tools.sh — installs the tools that building and testing limpet needs and this machine lacks.
#
#   deps/tools.sh build|test|demo|bench|ci      each needs what `build` needs; default: build
#   deps/tools.sh --list WHAT                   only prints what is missing
#
# Uses the system's package manager (apt on Debian and Ubuntu), says what it is about to install before it does, and installs
# nothing where all is there. Elsewhere it prints what is missing and exits 1.
set -eu

list_only=
if [ "${1:-}" = --list ]; then
    list_only=1
    shift
fi
what=${1:-build}
case $what in
build | test | demo | bench | ci) ;;
*) echo "usage: deps/tools.sh [--list] build|test|demo|bench|ci" >&2 && exit 64 ;;
esac

# What is needed: "command package" a line, or "/path package" for a file. Debian's names; what others call it is easy to guess.
build_tools() {
    cat <<'EOF'
gcc gcc
musl-gcc musl-tools
/usr/include/linux/rtnetlink.h linux-libc-dev
/usr/include/stdlib.h libc6-dev
make make
tclsh tcl
perl perl
flock util-linux
xz xz-utils
bzip2 bzip2
git git
/etc/ssl/certs/ca-certificates.crt ca-certificates
EOF
}
# The API server for tests is compiled here; systemd as PID 1 runs in a container; links are cut in network namespaces.
cluster_tools() {
    [ -n "${KUBEBUILDER_ASSETS:-}" ] || echo 'go GO'
    cat <<'EOF'
python3 python3
openssl openssl
jq jq
curl curl
ip iproute2
pgrep procps
iptables iptables
EOF
}
system_tools() {
    cat <<'EOF'
systemd-nspawn systemd-container
debootstrap debootstrap
qemu-system-x86_64 qemu-system-x86
mkfs.ext4 e2fsprogs
podman podman
runc runc
EOF
}
# Schedules are held against the Go library that Kubernetes uses, in the zones of this machine.
cron_tools() {
    cat <<'EOF'
go GO
/usr/share/zoneinfo/Europe/Berlin tzdata
EOF
}
# The store's bytes are counted on a file system of its own.
bench_tools() {
    cat <<'EOF'
mkfs.ext4 e2fsprogs
mount mount
losetup mount
EOF
}
# What the shells make of config/completion.
shells() {
    cat <<'EOF'
zsh zsh
fish fish
EOF
}
# Without these `make lint` checks less and says so. Another version of clang-format lays code out differently.
lint_tools() {
    cat <<'EOF'
clang-format-14 clang-format-14
shellcheck shellcheck
EOF
}
needs() {
    build_tools
    case $what in
    demo) cluster_tools ;;
    test) cluster_tools && system_tools && cron_tools && shells ;;
    bench) cluster_tools && bench_tools ;;
    ci) cluster_tools && system_tools && cron_tools && shells ;;
    esac
}

has() {
    case $1 in
    /*) [ -e "$1" ] ;;
    go) has_go ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
    esac
}

# Go 1.21 and later fetch the version that a module asks for by themselves.
has_go() {
    for go in go /usr/local/go/bin/go /usr/lib/go/bin/go; do
        v=$($go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
        [ "${v:-0}" -lt 21 ] || return 0
    done
    return 1
}

missing_of() {
    while read -r tool package; do
        has "$tool" || echo "$package"
    done | sort -u | tr '\n' ' '
}
missing=$(needs | missing_of)
wanted=
[ "$what" != ci ] || wanted=$(lint_tools | missing_of)

if [ -z "$missing$wanted" ]; then
    echo "tools: everything for '$what' is installed"
    exit 0
fi
if [ -n "$list_only" ]; then
    echo "$missing$wanted"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "tools: these are missing, and only apt can be used from here; please install (Debian's names): $missing" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
    command -v sudo >/dev/null || { echo "tools: please install as root: apt-get install $missing" >&2 && exit 1; }
fi

apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }

has_new_go() { # is Debian's golang-go, as apt would install it now, 1.21 or later?
    v=$(apt-cache policy golang-go 2>/dev/null | sed -n "s/^  Candidate: *\([0-9]*:\)\{0,1\}1\.\([0-9]*\).*/\2/p")
    [ "${v:-0}" -ge 21 ]
}

# Debian 12 itself has Go 1.19; its backports have a newer one. Only that package is taken from there.
enable_backports() {
    . /etc/os-release
    [ "${ID:-}" = debian ] && [ -n "${VERSION_CODENAME:-}" ] || return 1
    mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian|Debian|//p' | head -n 1)
    [ -n "$mirror" ] || return 1
    list=/etc/apt/sources.list.d/limpet-backports.list
    echo "tools: adding $VERSION_CODENAME-backports as $list, for Go; nothing else is upgraded from there"
    echo "deb $mirror $VERSION_CODENAME-backports main" | $as_root tee $list >/dev/null
    apt update -qq
}

# Debian's Go is told never to fetch another one; test/cluster/cluster lifts that for its own builds.
install_go() {
    if has_new_go; then
        apt install -y -qq --no-install-recommends golang-go
    else
        enable_backports && apt install -y -qq --no-install-recommends -t "$VERSION_CODENAME-backports" golang-go
    fi
}

echo "tools: installing with apt-get, for '$what': $missing$wanted"
apt update -qq || echo "tools: apt-get update failed, trying with the lists that are there" >&2
packages=$(echo "$missing" | tr ' ' '\n' | grep -v '^GO$' | tr '\n' ' ')
if [ -n "${packages% }" ]; then
    # shellcheck disable=SC2086  # a list of packages
    apt install -y -qq --no-install-recommends $packages
fi
case " $missing" in
*' GO '*) install_go || {
    echo "tools: no Go 1.21 or later in this system's packages; please install one, or set KUBEBUILDER_ASSETS" >&2
    exit 1
} ;;
esac
for p in $wanted; do
    apt install -y -qq --no-install-recommends "$p" || echo "tools: $p is not to be had here, going on without it" >&2
done
echo "tools: done"
