#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deps/build.sh — builds the libraries of deps/lock, static, into one directory.
#
#   CC=... AR=... DEPS_CFLAGS=... OPTS=... deps/build.sh OUT      makes OUT/include and OUT/lib/*.a
#
# Does nothing when OUT was built from the same lock, script, configuration, compiler and flags (OUT/stamp says from which),
# and only one at a time builds into an OUT. Every library is built with every feature switched off that limpet does not use; what
# is left and what it costs is in deps/README.md.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
out=${1:?usage: CC=... deps/build.sh OUT}
: "${CC:?}" "${AR:=ar}" "${DEPS_CFLAGS:=-Os}" "${HOST:=}" "${OPTS:=}"
jobs=$(nproc 2>/dev/null || echo 1)

mkdir -p "$out"
out=$(cd "$out" && pwd)

say() { echo "deps: $*" >&2; }

# The value of an option: as config/options.h says, unless OPTS says otherwise.
option() {
    # shellcheck disable=SC2086  # CC and OPTS are words
    printf '#include "config/options.h"\nvalue %s\n' "$1" | $CC -E -P -I"$top" $OPTS - | sed -n 's/^value //p'
}
http2=$(option OPT_HTTP2)
curl_text=$(option OPT_CURL_TEXT)

# The lock file also keeps two `make` in one tree from building the same thing at once.
exec 9>"$out/.lock"
if ! flock -n 9; then
    say "another build of $out is running, waiting for it"
    flock 9
fi

want=$({
    echo "$CC|$AR|$DEPS_CFLAGS|$HOST|$http2|$curl_text"
    $CC --version 2>/dev/null | head -n 1
    awk '!/^#/ { print $1, $2, $4 }' "$here/lock"
    cat "$here/build.sh" "$top/config/mbedtls_config.h"
} | sha256sum | cut -c 1-64)
if [ -f "$out/stamp" ] && [ "$(cat "$out/stamp")" = "$want" ]; then
    exit 0
fi
cache=$("$here/fetch.sh")
work=$out/work
new=$work/new
# Asserts name their file: the same on every machine.
DEPS_CFLAGS="$DEPS_CFLAGS -ffile-prefix-map=$work/="
rm -rf "$work"
mkdir -p "$new/include" "$new/lib"

unpack() { # name -> $src
    src=$work/$1
    mkdir "$src"
    tar xf "$cache/$(awk -v n="$1" '$1 == n { print $3 }' "$here/lock")" -C "$src" --strip-components 1
}

version_of() { awk -v n="$1" '$1 == n { print $2 }' "$here/lock"; }

# Compiles C files into lib/lib$1.a; `cflags` is for this library.
archive() { # name file...
    name=$1
    shift
    say "building lib$name"
    objs=$work/obj-$name
    mkdir "$objs"
    for f in "$@"; do
        echo "$f"
    done | CC="$CC" FLAGS="$DEPS_CFLAGS -w $cflags" OBJS=$objs xargs -P "$jobs" -I FILE sh -c \
        '$CC $FLAGS -c "$1" -o "$OBJS/$(basename "$1" .c).o" || exit 255' sh FILE
    $AR rcs "$new/lib/lib$name.a" "$objs"/*.o
}

build_mbedtls() {
    unpack mbedtls
    cflags="-I$src/include -I$src/library -DMBEDTLS_CONFIG_FILE=\"$top/config/mbedtls_config.h\""
    archive mbedtls "$src"/library/ssl_*.c
    archive mbedx509 "$src"/library/x509*.c
    rm "$src"/library/ssl_*.c "$src"/library/x509*.c
    archive mbedcrypto "$src"/library/*.c
    cp -R "$src/include/mbedtls" "$src/include/psa" "$new/include/"
    cp "$top/config/mbedtls_config.h" "$new/include/mbedtls/mbedtls_config.h"
}

# nghttp2 never puts `authorization` into the HPACK table, so that a password of little entropy cannot be guessed by someone who can
# add headers of his own to our requests. Nobody can, and a ServiceAccount token of 900 bytes is no such password; sent in full it
# is most of what an idle agent sends. So that one condition goes, as in other Kubernetes clients. The count makes sure that
# exactly this changed: a new nghttp2 where it reads differently fails here and not in silence.
index_authorization() {
    hd=$src/lib/nghttp2_hd.c
    cp "$hd" "$hd.orig"
    sed -i 's/^  indexing_mode = token == NGHTTP2_TOKEN_AUTHORIZATION ||$/  indexing_mode =/' "$hd"
    changed=$(diff "$hd.orig" "$hd" | grep -c '^[<>]') || true
    if [ "$changed" != 2 ] || [ "$(grep -c 'NGHTTP2_TOKEN_AUTHORIZATION ||' "$hd")" != 0 ]; then
        say "nghttp2_hd.c does not read as expected: the authorization header would not be compressed"
        exit 1
    fi
    rm "$hd.orig"
}

build_nghttp2() {
    unpack nghttp2
    index_authorization
    version=$(version_of nghttp2)
    number=$(echo "$version" | awk -F . '{ printf "0x%02x%02x%02x", $1, $2, $3 }')
    sed -e "s/@PACKAGE_VERSION@/$version/" -e "s/@PACKAGE_VERSION_NUM@/$number/" \
        "$src/lib/includes/nghttp2/nghttp2ver.h.in" >"$src/lib/includes/nghttp2/nghttp2ver.h"
    cflags="-I$src/lib/includes -I$src/lib -DNGHTTP2_STATICLIB -DHAVE_ARPA_INET_H -DHAVE_NETINET_IN_H -DHAVE_CLOCK_GETTIME"
    cflags="$cflags -DHAVE_DECL_CLOCK_MONOTONIC=1"
    archive nghttp2 "$src"/lib/*.c
    mkdir "$new/include/nghttp2"
    cp "$src"/lib/includes/nghttp2/*.h "$new/include/nghttp2/"
}

# HTTP and HTTPS over HTTP/1.1 and HTTP/2, through a proxy if need be, names resolved in a thread so that the loop never waits.
build_curl() {
    unpack curl
    say "building libcurl"
    # In the background only so that `set -e` holds inside: before `||` the shell would go on after a failure.
    (
        cd "$src"
        off=
        for f in dict docs dateparse doh file form-api ftp gopher hsts imap ipfs ldap ldaps libcurl-option manual mime mqtt netrc \
            pop3 rtsp smb smtp telnet tftp websockets alt-svc cookies ntlm tls-srp aws kerberos-auth negotiate-auth digest-auth \
            unix-sockets sspi get-easy-options headers-api progress-meter dnsshuffle sha512-256 versioned-symbols \
            dependency-tracking shared httpsrr ech ssls-export; do
            off="$off --disable-$f"
        done
        for f in zlib brotli zstd libpsl libidn2 libssh2 librtmp libgsasl ca-bundle ca-path ngtcp2 nghttp3; do
            off="$off --without-$f"
        done
        [ "$curl_text" = 1 ] || off="$off --disable-verbose"
        if [ "$http2" = 1 ]; then
            off="$off --with-nghttp2=$new"
        else
            off="$off --without-nghttp2"
        fi
        ./configure --quiet ${HOST:+--host="$HOST"} --prefix="$new" --with-mbedtls="$new" \
            --enable-threaded-resolver --enable-ipv6 --enable-proxy --enable-http-auth --enable-basic-auth --enable-static \
            --disable-symbol-hiding $off CC="$CC" AR="$AR" \
            CPPFLAGS="-I$new/include -DNGHTTP2_STATICLIB" CFLAGS="$DEPS_CFLAGS -w" LDFLAGS="-L$new/lib ${DEPS_LDFLAGS:-}" \
            LIBS="-lmbedtls -lmbedx509 -lmbedcrypto" PKG_CONFIG=false
        make -C lib -s -j"$jobs" libcurl.la
        cp lib/.libs/libcurl.a "$new/lib/"
        cp -R include/curl "$new/include/"
        rm -f "$new"/include/curl/Makefile*
    ) >"$work/curl.log" 2>&1 &
    wait $! || {
        tail -n 30 "$work/curl.log" >&2
        say "curl does not build; the whole log is $work/curl.log"
        return 1
    }
}

build_cjson() {
    unpack cjson
    cflags="-DCJSON_HIDE_SYMBOLS -DCJSON_NESTING_LIMIT=200"
    archive cjson "$src/cJSON.c"
    cp "$src/cJSON.h" "$new/include/"
}

# One line may hold a long value, never without end; whoever includes ini.h gets the same settings.
build_inih() {
    unpack libinih
    cat >"$new/include/ini.h" <<EOF
#define INI_HANDLER_LINENO 1
#define INI_USE_STACK 0
#define INI_MAX_LINE 4096
#define INI_ALLOW_REALLOC 0
#define INI_INITIAL_ALLOC 4096
#define INI_ALLOW_MULTILINE 0
#define INI_STOP_ON_FIRST_ERROR 0
EOF
    cat "$src/ini.h" >>"$new/include/ini.h"
    cp "$new/include/ini.h" "$src/ini.h"
    cflags=
    archive inih "$src/ini.c"
}

# Left out: what our SQL does not use, and the date functions, which would read the clock past its seam. Kept: WAL, foreign keys,
# triggers, ALTER TABLE (which goes with virtual tables), CAST (which goes with ANALYZE) and integrity checks. Memory statistics stay on, the heap limit needs them. Temporary tables live in
# memory: SQLite opens no file but the one it is given.
sqlite_omit="LOAD_EXTENSION DEPRECATED SHARED_CACHE DECLTYPE AUTHORIZATION TRACE PROGRESS_CALLBACK UTF16 COMPLETE GET_TABLE TCL_VARIABLE
    INTROSPECTION_PRAGMAS EXPLAIN JSON WINDOWFUNC DESERIALIZE DATETIME_FUNCS"
sqlite_set="THREADSAFE=0 DQS=0 DEFAULT_MEMSTATUS=1 LIKE_DOESNT_MATCH_BLOBS USE_ALLOCA UNTESTABLE TEMP_STORE=3 MAX_MMAP_SIZE=0
    DEFAULT_PAGE_SIZE=1024 DEFAULT_CACHE_SIZE=-256 MAX_WORKER_THREADS=0 DEFAULT_WAL_SYNCHRONOUS=2"

build_sqlite() {
    unpack sqlite3
    say "making SQLite's amalgamation"
    opts="-DHAVE_FDATASYNC=1 -DHAVE_USLEEP=1 -DHAVE_STRERROR_R=1 -DUSE_PREAD64=1"
    for o in $sqlite_omit; do
        opts="$opts -DSQLITE_OMIT_$o"
    done
    for o in $sqlite_set; do
        opts="$opts -DSQLITE_$o"
    done
    # The generated parser must leave out what the code leaves out, so the options go to the generator, too. It runs here: gcc.
    (cd "$src" && CC=gcc ./configure --disable-tcl --disable-shared && make -s sqlite3.c OPTS="$opts") >"$work/sqlite.log" 2>&1 || {
        tail -n 30 "$work/sqlite.log" >&2
        say "SQLite's amalgamation is not made; the whole log is $work/sqlite.log"
        return 1
    }
    cflags=$opts
    archive sqlite3 "$src/sqlite3.c"
    cp "$src/sqlite3.h" "$new/include/"
}

build_libyaml() {
    unpack libyaml
    cflags="-I$src/include -DYAML_DECLARE_STATIC -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=5"
    cflags="$cflags -DYAML_VERSION_STRING=\"0.2.5\""
    archive yaml "$src"/src/*.c
    cp "$src/include/yaml.h" "$new/include/"
}

# What unpacks artifacts, and nothing that packs.
build_zlib() {
    unpack zlib
    cflags="-I$src -DHAVE_UNISTD_H"
    archive z "$src/inflate.c" "$src/inftrees.c" "$src/inffast.c" "$src/zutil.c" "$src/crc32.c" "$src/adler32.c"
    cp "$src/zlib.h" "$src/zconf.h" "$new/include/"
}

# The smallest of its decoders: an artifact is unpacked once.
build_libzstd() {
    unpack libzstd
    cflags="-I$src/lib -DZSTD_DISABLE_ASM=1 -DZSTD_LEGACY_SUPPORT=0 -DZSTD_NO_INLINE=1 -DZSTD_STRIP_ERROR_STRINGS=1 -DDYNAMIC_BMI2=0"
    cflags="$cflags -DHUF_FORCE_DECOMPRESS_X1=1 -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT=1 -DZSTD_TRACE=0"
    archive zstd "$src"/lib/common/*.c "$src"/lib/decompress/*.c
    cp "$src/lib/zstd.h" "$src/lib/zstd_errors.h" "$new/include/"
}

# A server on the loop of whoever uses it: no threads, no TLS, no logins, no uploads.
build_libmicrohttpd() {
    unpack libmicrohttpd
    say "building libmicrohttpd"
    (
        cd "$src"
        off=
        for f in shared doc examples tools curl sendfile messages postprocessor https bauth dauth httpupgrade cookie thread-names \
            sha512-256 dependency-tracking poll nls; do
            off="$off --disable-$f"
        done
        # shellcheck disable=SC2086  # words
        ./configure --quiet ${HOST:+--host="$HOST"} --prefix="$new" --enable-static --enable-compact-code --enable-itc=eventfd --enable-epoll \
            $off CC="$CC" AR="$AR" CFLAGS="$DEPS_CFLAGS -w" LDFLAGS="${DEPS_LDFLAGS:-}" PKG_CONFIG=false
        make -C src/microhttpd -s -j"$jobs" libmicrohttpd.la
        cp src/microhttpd/.libs/libmicrohttpd.a "$new/lib/"
        cp src/include/microhttpd.h "$new/include/"
    ) >"$work/libmicrohttpd.log" 2>&1 &
    wait $! || {
        tail -n 30 "$work/libmicrohttpd.log" >&2
        say "libmicrohttpd does not build; the whole log is $work/libmicrohttpd.log"
        return 1
    }
}

started=$(date +%s)
build_cjson
build_inih
build_libyaml
build_mbedtls
build_nghttp2
build_curl
build_sqlite
build_zlib
build_libzstd
build_libmicrohttpd
# Only now, so that whoever compiles against OUT at the same time finds either the old or the new.
rm -rf "${out:?}/stamp" "${out:?}/include" "${out:?}/lib"
mv "$new/include" "$new/lib" "$out/"
rm -rf "$work"
echo "$want" >"$out/stamp"
say "built in $(($(date +%s) - started)) s: $out"
