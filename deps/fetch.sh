#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deps/fetch.sh — gets the source tarballs of deps/lock.
#
#   deps/fetch.sh [NAME...]     all, or only those named; prints the cache directory as its last line
#
# A tarball that is already in the cache with the right sha256 is left alone, so a second run needs no network. The checksum in
# the lock is the only thing trusted: it does not matter which way brought the file, nor who signed the list that led to it.
#
#   LIMPET_DEPS_CACHE   where the tarballs are kept (default: $XDG_CACHE_HOME/limpet, or ~/.cache/limpet)
#   LIMPET_DEPS_MIRROR  a URL of a directory that holds the files, tried first (for machines without a Debian mirror)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
lock=$here/lock
cache=${LIMPET_DEPS_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/limpet}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

say() { echo "deps: $*" >&2; }

is_good() { # file sha256
    [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status 2>/dev/null
}

# The archive that this machine installs Debian packages from, as its own apt configuration names it.
apt_mirror() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^Debian|Debian|//p' | head -n 1
}

# A machine that never ran `apt-get update` has no targets with an origin yet: its sources then say it.
apt_mirror_from_sources() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n -e 's/^deb\(-src\)\{0,1\}  *\(\[[^]]*\]  *\)\{0,1\}\([^ ]*\).*/\3/p' -e 's/^URIs: *\([^ ]*\).*/\1/p' |
        grep '/debian/*$' | head -n 1
}

# apt with its own sources, lists and cache, so the machine's are neither used nor changed; proxies and the like stay as configured.
private_apt() { # suite command...
    suite=$1
    shift
    root=$work/apt-$suite
    APT_CONFIG=$root/apt.conf "$@"
}

apt_prepare() { # suite
    root=$work/apt-$1
    [ ! -e "$root/failed" ] || return 1
    [ ! -e "$root/ready" ] || return 0
    mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial" "$root/sources"
    : >"$root/state/status"
    mirror=$(apt_mirror)
    [ -n "$mirror" ] || mirror=$(apt_mirror_from_sources)
    path=$1
    case $1 in
    *-security) mirror=$(echo "$mirror" | sed 's,/*$,-security,') ;;
    esac
    cat >"$root/sources/limpet.list" <<EOF
deb-src [trusted=yes] $mirror $path main
EOF
    cat >"$root/apt.conf" <<EOF
Dir::State "$root/state";
Dir::State::status "$root/state/status";
Dir::Cache "$root/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$root/sources";
APT::Sandbox::User "";
EOF
    if [ -z "$mirror" ] || ! private_apt "$1" apt-get update >"$root/log" 2>&1 ||
        ! ls "$root"/state/lists/*Sources* >/dev/null 2>&1; then
        touch "$root/failed"
        return 1
    fi
    touch "$root/ready"
}

# Of all versions in the suite, the first whose files include the tarball: its Debian revision does not matter.
apt_version_with() { # suite name file
    private_apt "$1" apt-cache showsrc "$2" 2>/dev/null |
        awk -v file="$3" '/^Version:/ { v = $2 } $3 == file { print v; exit }'
}

from_debian() { # suite name file
    command -v apt-get >/dev/null || return 1
    apt_prepare "$1" || return 1
    found=$(apt_version_with "$1" "$2" "$3")
    [ -n "$found" ] || return 1
    (cd "$work/in" && private_apt "$1" apt-get source --tar-only --download-only "$2=$found" >>"$work/apt-$1/log" 2>&1)
}

from_url() { # url file
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 10 --max-time 300 -o "$work/in/$2" "$1" 2>/dev/null
    elif command -v wget >/dev/null; then
        wget -q -T 30 -t 1 -O "$work/in/$2" "$1"
    else
        python3 -c 'import sys, urllib.request as u; u.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$work/in/$2" 2>/dev/null
    fi
}

take() { # way name file sha256
    case $1 in
    debian:*) from_debian "${1#debian:}" "$2" "$3" || return 1 ;;
    *://*) from_url "$1" "$3" || return 1 ;;
    *) say "lock: $2: unknown way '$1'" && return 1 ;;
    esac
    is_good "$work/in/$3" "$4" || { say "$3 from $1 has the wrong sha256, not used" && return 1; }
    # The cache may be on another file system: copy beside the final name, then rename, so it never holds half a file.
    cp "$work/in/$3" "$cache/.$3.$$"
    mv "$cache/.$3.$$" "$cache/$3"
}

fetch() { # name version file sha256 way...
    name=$1 version=$2 file=$3 sha=$4
    shift 4
    ! is_good "$cache/$file" "$sha" || return 0
    for way in ${LIMPET_DEPS_MIRROR:+"${LIMPET_DEPS_MIRROR%/}/$file"} "$@"; do
        say "$name $version from $way"
        ! take "$way" "$name" "$file" "$sha" || return 0
    done
    say "could not get $name $version. Tried:${LIMPET_DEPS_MIRROR:+ $LIMPET_DEPS_MIRROR} $*"
    say "remedy: put $file (sha256 $sha) into $cache"
    say "        or set LIMPET_DEPS_MIRROR to the URL of a directory that has it, then run this again"
    return 1
}

is_wanted() { # name wanted...
    n=$1
    shift
    [ $# -gt 0 ] || return 0
    for w in "$@"; do
        [ "$w" != "$n" ] || return 0
    done
    return 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/in"

missing=0
while read -r name version file sha ways; do
    case $name in '' | '#'*) continue ;; esac
    is_wanted "$name" "$@" || continue
    # shellcheck disable=SC2086  # the ways are words
    fetch "$name" "$version" "$file" "$sha" $ways </dev/null || missing=$((missing + 1))
done <"$lock"
[ $missing -eq 0 ] || exit 1
echo "$cache"
