#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test/lint.sh — what the compiler does not check: that the walls between the rooms stand, that nothing passes a seam, and the style.
#
# Each rule prints the lines that break it. Exit: the number of broken rules, 0 = clean. Needs only a POSIX shell and awk;
# clang-format and shellcheck are used where they are installed (CI has both) and named as missing where not.
set -u
cd "$(dirname "$0")/.." || exit 1

work=$(mktemp -d)
: >"$work/broken"
trap 'rm -rf "$work"' EXIT

# Reads the lines that break a rule.
rule() { # what is wrong
    sort -u >"$work/hits"
    [ -s "$work/hits" ] || return 0
    echo "lint: $1" | tee -a "$work/broken"
    sed 's/^/    /' "$work/hits"
}

# Only what git tracks or would track: a build directory inside the tree is nobody's source.
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }

files 'agent/*.c' 'agent/*.h' 'port/*.c' 'port/*.h' 'ctl/*.c' 'ctl/*.h' >"$work/sources"
files '*.c' '*.h' >"$work/all-c"
[ -s "$work/sources" ] || { echo "lint: no sources found" && exit 1; }

# --- The order of the rooms (DESIGN.md, "Rooms") ---------------------------------------------------------------------------------
# A folder includes itself and the ones before it. The exceptions are contracts without code, and pure byte work.
order='base wire config data expr flow kinds local'

room_errors() {
    xargs awk -v order="$order" '
        function room(path) { return path ~ /^agent\/[^\/]*\// ? substr(path, 7, index(substr(path, 7), "/") - 1) : \
                                     path ~ /^agent\// ? "main" : substr(path, 1, index(path, "/") - 1) }
        BEGIN {
            n = split(order, o, " ")
            for (i = 1; i <= n; i++) for (j = 1; j <= i; j++) may[o[i], o[j]] = 1
            # Pure, though it stands in the middle.
            for (i = 1; i <= n; i++) delete may["expr", o[i]]
            may["expr", "expr"] = may["expr", "base"] = 1
            may["shim", "shim"] = may["shim", "base"] = 1
            may["unpack", "unpack"] = may["unpack", "base"] = 1
            may["port", "port"] = may["port", "base"] = 1
            # The shim runs from the same binary and shares its contract with the port that starts it.
            may["port", "shim"] = 1
            for (i = 1; i <= n; i++) { may["main", o[i]] = 1; may["ctl", o[i]] = 1 }
            may["main", "shim"] = may["main", "unpack"] = may["main", "port"] = may["ctl", "ctl"] = 1
            contract["flow", "port/port.h"] = contract["kinds", "port/port.h"] = contract["local", "port/port.h"] = contract["shim", "port/port.h"] = 1
            contract["flow", "kinds/kind.h"] = contract["flow", "kinds/registry.h"] = contract["flow", "kinds/edgenode.h"] = 1
            contract["wire", "data/json.h"] = contract["wire", "data/object.h"] = contract["port", "data/json.h"] = 1
            # Generated, or ours for all.
            common["version.h"] = common["config/options.h"] = common["config/mbedtls_config.h"] = 1
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split($0, q, "\"")
            inc = q[2]; from = room(FILENAME)
            if (inc in common) next
            if (inc !~ /\//) { to = from } else { to = substr(inc, 1, index(inc, "/") - 1) }
            if (!((from, to) in may) && !((from, inc) in contract))
                print FILENAME ":" FNR ": " from " must not include " inc
        }' <"$work/sources"
}
room_errors | rule 'a folder includes only folders above it in DESIGN.md'

# --- One module for each library -------------------------------------------------------------------------------------------------
only() { # who (regular expression of paths)   header (regular expression)   what
    xargs grep -nE "^[ 	]*#[ 	]*include[ 	]*[<\"]$2" /dev/null <"$work/sources" | grep -vE "^($1):" | rule "$3"
}
only 'agent/data/json\.c' 'cJSON' 'only data/json.c sees cJSON'
only 'agent/wire/http[a-z_]*\.[ch]' '(curl|mbedtls|psa|nghttp2)/' 'only wire/http*.c sees curl and mbedTLS'
only 'agent/wire/yaml(_where)?\.c' 'yaml\.h' 'only wire/yaml*.c see libyaml' # our own is "wire/yaml.h"
only 'agent/data/db[a-z_]*\.c' 'sqlite3' 'only data/db*.c sees SQLite'
only 'agent/local/web\.c' 'microhttpd' 'only local/web.c sees libmicrohttpd'
only 'agent/unpack/packed\.c' '(zlib|zstd)\.h' 'only unpack/packed.c sees zlib and zstd'
only 'agent/config/[a-z_]*\.c' 'ini\.h' 'only config/*.c sees inih'
# The simulator is SQLite's disk, too, and the store's own tests damage it.
grep '^test/' "$work/all-c" | xargs grep -lE 'include *[<"]sqlite3' /dev/null | grep -vE '^test/(sim/sim_vfs\.c|unit/(db[a-z_]*\.c|test_vfs\.h))$' |
    rule 'of the tests only sim/sim_vfs.c, unit/test_vfs.h and unit/db*.c see SQLite'

# --- The seams -------------------------------------------------------------------------------------------------------------------
# Code without comments and strings, so that a word in them is no call; file and line are kept.
strip_comments() {
    xargs awk '
        FNR == 1 { inside = 0 }
        {
            s = $0; out = ""
            while (length(s)) {
                if (inside) {
                    i = index(s, "*/")
                    if (!i) { s = ""; break }
                    s = substr(s, i + 2); inside = 0; continue
                }
                c = substr(s, 1, 1)
                two = substr(s, 1, 2)
                if (two == "//") break
                if (two == "/*") { inside = 1; s = substr(s, 3); continue }
                if (c == "\"" && match(s, /^"([^"\\]|\\.)*"/)) { out = out "\"\""; s = substr(s, RLENGTH + 1); continue }
                if (c == "\047" && match(s, /^\047([^\047\\]|\\.)*\047/)) { out = out "0"; s = substr(s, RLENGTH + 1); continue }
                out = out c; s = substr(s, 2)
            }
            print FILENAME ":" FNR ":" out
        }' <"$work/sources"
}
strip_comments >"$work/code"

# main.c makes the real seams; the command lines (ctl/, local/cli*.c) are programs of their own that run and end.
# A call: the name at a word's start and not a member (x->open(), ops.open()), not a pointer's declaration ((*open)(...)).
seam() { # names (a|b|c)   who may (regular expression of paths)   what
    grep -E ":[0-9]+:(.*[^a-zA-Z0-9_.>*])?($1)[ ]*\(" "$work/code" | grep -vE "^(agent/main\.c|agent/local/cli[a-z_]*\.c|ctl/[a-z_]*\.c|$2):" | rule "$3"
}
seam 'time|clock_gettime|gettimeofday|clock_nanosleep|nanosleep|usleep|sleep|localtime|localtime_r|adjtimex|ntp_adjtime' \
    'agent/base/clock[a-z_]*\.c|agent/shim/[a-z_]*\.c|port/[a-z_]*\.c' 'time passes the clock seam (base/clock.h)'
seam 'getrandom|getentropy|rand|srand|random|srandom|rand_r|drand48' 'agent/base/clock[a-z_]*\.c' 'randomness passes the clock seam (base/clock.h)'
seam 'open|openat|openat2|creat|fopen|freopen|mkstemp|mkostemp|opendir|unlink|unlinkat|rename|renameat|renameat2|mkdir|mkdirat|symlink|chmod|fchmodat|chown|lchown|inotify_init1' \
    'agent/base/fsio[a-z_]*\.c|agent/base/clock[a-z_]*\.c|agent/base/log\.c|agent/shim/[a-z_]*\.c|agent/local/control[a-z_]*\.c|agent/data/db[a-z_]*\.c|agent/unpack/[a-z_]*\.c|port/[a-z_]*\.c' \
    'the disk is reached through base/fsio.h'
seam 'fork|vfork|clone|clone3|posix_spawn|posix_spawnp|execve|execv|execvp|execvpe|execl|execlp|fexecve|system|popen' \
    'agent/base/loop[a-z_]*\.c|agent/base/child\.c|agent/shim/[a-z_]*\.c|port/[a-z_]*\.c' 'processes are started by the loop, the shim and the ports'
seam 'socket|socketpair|accept4|getaddrinfo|gethostbyname' \
    'agent/wire/http[a-z_]*\.c|agent/wire/link\.c|agent/local/control[a-z_]*\.c|agent/local/web\.c|agent/base/syslogd\.c|agent/base/loop[a-z_]*\.c|agent/shim/[a-z_]*\.c|port/[a-z_]*\.c' \
    'sockets are opened by the transport, rtnetlink, the control socket, the metrics server, the log and the ports'
seam 'epoll_create1|epoll_wait|epoll_pwait|poll|ppoll|select|pselect|timerfd_create|signalfd' \
    'agent/base/loop[a-z_]*\.c|agent/base/log\.c|agent/shim/[a-z_]*\.c' 'only the loop waits'
seam 'strcat|vsprintf|gets|strtok|alloca|atoi|atol|atof' 'none' 'this function has no bound, or no error'

# The simulator is the same world from the same seed, so it asks nobody outside of it. What plays many of them (sim_run.c) is no part of one.
grep '^test/sim/sim_' "$work/all-c" | grep -vx test/sim/sim_run.c |
    xargs grep -nE '(^|[^a-z_>.])(time|clock_gettime|gettimeofday|nanosleep|usleep|getrandom|rand|random|getenv|getpid|fopen|fork|socket|connect)\(' /dev/null |
    rule 'the simulator asks neither the clock nor the kernel of the machine it runs on'

# A mutant that no longer applies would hunt nothing.
files 'test/sim/mutants/*.mutant' | while read -r f; do
    test/sim/mutants/apply "$f" 2>&1 >/dev/null | head -n 1
done | rule 'a mutant changes lines that are not there (test/sim/mutants)'

# --- Style -----------------------------------------------------------------------------------------------------------------------
grep -vE '/corpus/' "$work/all-c" | while read -r f; do
    [ "$(head -n 1 "$f")" = '// SPDX-License-Identifier: Apache-2.0' ] || echo "$f"
done | rule 'a C file begins with "// SPDX-License-Identifier: Apache-2.0"'

files '*.sh' '*.t' 'deps/*' 'test/cluster/*' '.ci/*' >"$work/maybe-scripts"
while read -r f; do
    ! head -n 1 "$f" | grep -qE '^#!.*\b(ba)?sh$' || echo "$f"
done <"$work/maybe-scripts" | sort -u >"$work/scripts"
while read -r f; do
    head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f"
done <"$work/scripts" | rule 'a script names the licence in its first three lines'
while read -r f; do
    interpreter=$(head -n 1 "$f" | sed 's,.*[/ ],,')
    "$interpreter" -n "$f" 2>&1
done <"$work/scripts" | rule 'a script does not parse'
while read -r f; do
    [ -x "$f" ] || echo "$f"
done <"$work/scripts" | rule 'a script is executable'

files 'test/*_test.c' 'test/e2e/*.t' 'test/*.t' | while read -r f; do
    grep -qE 'done_testing|1\.\.|plan' "$f" || grep -qE '\.(pl|py|sh)\b' "$f" || echo "$f"
done | rule 'a test ends with its plan'

files | grep -vE '^test/lint\.sh$|/corpus/' | xargs grep -nIE '\b(TODO|FIXME|XXX)\b' /dev/null | grep -vE 'XXXXXX|mktemp' |
    rule 'what is left to do is not in the source'
xargs grep -nE '[ 	]+$' /dev/null <"$work/all-c" | rule 'no white space at the end of a line'
xargs grep -nP '\t' /dev/null <"$work/all-c" | rule 'C is indented with spaces'

# Another version lays code out differently, so it is 14 or none.
format=$(command -v clang-format-14 || command -v clang-format)
case $("${format:-false}" --version 2>/dev/null) in
*' 14.'*) ;;
*) format= ;;
esac
if [ -n "$format" ]; then
    while read -r f; do
        "$format" "$f" | diff -q - "$f" >/dev/null || echo "$f"
    done <"$work/all-c" | rule 'not in the style of .clang-format (make format)'
else
    echo 'lint: clang-format 14 is not installed, the layout of the code was not checked'
fi
# Not: variables that a sourced file sets or uses, and the exit code of $(...) in a declaration.
if command -v shellcheck >/dev/null; then
    xargs shellcheck --severity=warning --exclude=SC2034,SC2154,SC2155 --format=gcc <"$work/scripts" 2>&1 | rule 'shellcheck'
else
    echo 'lint: shellcheck is not installed, the scripts were only parsed'
fi

broken=$(wc -l <"$work/broken")
[ "$broken" -ne 0 ] || echo "lint: clean ($(wc -l <"$work/sources") sources, $(wc -l <"$work/scripts") scripts)"
exit "$broken"
