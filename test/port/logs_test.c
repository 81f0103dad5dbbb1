// SPDX-License-Identifier: Apache-2.0
// Logs of instances as port_ops.log_read gives them: written by real shims, read while they are written.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "rig.h"
#include "tap.h"

enum { MAX = 1 << 20 };

static int start(struct rig *r, const char *uid, const char *log, int64_t max, int files, const char *script)
{
    static char where[256];
    snprintf(where, sizeof(where), "RIG=%s", r->dir);
    const char *argv[] = { "/bin/sh", "-c", script, NULL };
    const char *env[] = { "PATH=/usr/bin:/bin", where, NULL };
    struct inst_spec s = {
        .uid = uid, .owner = "edgeapps/ns/log", .exec = { .argv = argv, .env = env }, .log_name = log, .log_max = max, .log_files = files
    };
    struct err e = ERR_INIT;
    int rc = rig_start_spec(r, &s, &e);
    if (rc != 0)
        diag("%s", e.msg);
    return rc;
}

static int read_log(struct rig *r, const char *log, int64_t *offset, size_t max, struct buf *out)
{
    struct err e = ERR_INIT;
    return r->port->ops->log_read(r->port, log, offset, max, out, &e);
}

static bool ends(struct rig *r, const char *uid)
{
    struct inst i;
    return rig_until_exited(r, uid, &i) && i.exit.known && i.exit.code == 0;
}

// Sum of the sizes of all files in the log directory; *most is the largest *.log*, without the offset file.
static int64_t on_disk(struct rig *r, int64_t *most)
{
    int64_t sum = 0;
    DIR *d = opendir(r->log_dir);
    *most = 0;
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;) {
        struct stat st;
        if (fstatat(dirfd(d), de->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
            continue;
        sum += st.st_size;
        *most = MAX(*most, st.st_size);
    }
    if (d != NULL)
        closedir(d);
    return sum;
}

static void read_and_tail(struct rig *r)
{
    struct buf b = BUF_INIT(MAX);
    int64_t at = 0;
    is_int(read_log(r, "web", &at, 100, &b), E_NOTFOUND, "no log yet");
    is_int(start(r, "a", "web", 0, 0, "echo one; echo two >&2; printf three"), 0, "an instance that prints");
    ok(ends(r, "a"), "ends");
    is_int(read_log(r, "web", &at, 100, &b), 0, "is read");
    is_str(buf_str(&b), "one\ntwo\nthree", "stdout and stderr, with an unfinished line");
    is_int(at, 13, "the offset moved");
    buf_reset(&b);
    is_int(read_log(r, "web", &at, 100, &b), 0, "at the end");
    is_int(b.len, 0, "is nothing more");
    at = -6;
    is_int(read_log(r, "web", &at, 100, &b), 0, "from behind");
    is_str(buf_str(&b), "\nthree", "the last 6 bytes");
    buf_reset(&b);
    at = -1000;
    is_int(read_log(r, "web", &at, 3, &b), 0, "from further behind than it is long");
    is_str(buf_str(&b), "one", "from its beginning, at most what was asked for");
    is_int(at, 3, "the offset moved by that");
    at = INT64_MIN;
    is_int(read_log(r, "web", &at, 3, &b), 0, "from as far behind as can be said");
    is_int(at, 3, "is from the beginning");
    at = 1000000;
    buf_reset(&b);
    is_int(read_log(r, "web", &at, 3, &b), 0, "beyond the end: it began anew");
    is_str(buf_str(&b), "one", "from its beginning");
    struct buf small = BUF_INIT(4);
    at = 0;
    is_int(read_log(r, "web", &at, 100, &small), E_TOOBIG, "a buffer that is too small");
    ok(at == 0 && small.len == 0, "changes nothing");
    is_int(read_log(r, "../web", &at, 3, &b), E_INVAL, "a name that leads out of the directory");
    buf_fini(&small);
    buf_fini(&b);
}

static void next_instance_goes_on(struct rig *r)
{
    struct buf b = BUF_INIT(MAX);
    int64_t at = 0;
    is_int(start(r, "a", "web", 0, 0, "echo first"), 0, "an instance");
    ok(ends(r, "a"), "ends");
    is_int(start(r, "b", "web", 0, 0, "echo second"), 0, "the next one");
    ok(ends(r, "b"), "ends");
    is_int(read_log(r, "web", &at, 100, &b), 0, "the log");
    is_str(buf_str(&b), "first\nsecond\n", "has both");
    buf_reset(&b);
    struct err e = ERR_INIT;
    is_int(r->port->ops->log_remove(r->port, "web", &e), 0, "is removed");
    is_int(r->port->ops->log_remove(r->port, "web", &e), 0, "twice");
    is_int(read_log(r, "web", &at, 100, &b), E_NOTFOUND, "is gone");
    int64_t most;
    is_int(on_disk(r, &most), 0, "with all its files");
    buf_fini(&b);
}

// --- following over rotations

struct follower {
    struct rig *rig;
    struct buf text;
    int64_t at;
    int errors;
};

static bool follow_to_end(struct rig *r, void *ctx)
{
    struct follower *f = ctx;
    f->errors += read_log(r, "web", &f->at, 65536, &f->text) != 0 && f->at > 0;
    return strstr(buf_str(&f->text), "\nlast\n") != NULL;
}

// 400 numbered lines through files of 1 KiB, slowly enough that a follower keeps up with what is kept.
static void follow(struct rig *r)
{
    struct follower f = { .rig = r, .text = BUF_INIT(MAX) };
    is_int(start(r, "a", "web", 1024, 4,
                 "i=0; while [ $i -lt 400 ]; do echo line-$i; i=$((i+1)); [ $((i%20)) = 0 ] && sleep 0.1; done; echo last"),
           0, "an instance that prints through many rotations");
    ok(rig_until(r, follow_to_end, &f), "is followed to its end");
    is_int(f.errors, 0, "without an error");
    char want[8192] = "";
    size_t n = 0;
    for (int k = 0; k < 400; k++)
        n += (size_t)snprintf(want + n, sizeof(want) - n, "line-%d\n", k);
    snprintf(want + n, sizeof(want) - n, "last\n");
    ok(strcmp(buf_str(&f.text), want) == 0, "each line was seen once, in order");
    is_int(f.at, (int64_t)strlen(want), "the offset counts all that was ever written");
    int64_t most;
    ok(on_disk(r, &most) <= 4 * 1024 + 64, "what is kept is bounded");
    ok(most <= 1024, "and so is each file");
    f.text.len = 0;
    f.at = 0;
    is_int(read_log(r, "web", &f.at, 65536, &f.text), 0, "from the beginning");
    has_str(want, buf_str(&f.text), "is from the oldest that is kept");
    ok(f.text.len > 2048 && f.text.len <= 4096 && strncmp(f.text.data, "line-", 5) == 0, "which begins with a whole line");
    is_int(f.at, (int64_t)strlen(want), "up to the end");
    buf_fini(&f.text);
    ok(ends(r, "a"), "ends");
}

// --- field 29: a workload floods its log

static void flood(struct rig *r)
{
    struct buf b = BUF_INIT(4 * MAX);
    int64_t at = 0, most;
    is_int(start(r, "a", "web", 256 * 1024, 3, "yes 'the same line again and again' | head -c 40000000; echo the very last"), 0,
           "an instance that floods");
    ok(ends(r, "a"), "field 29: is not held up: it ends");
    ok(on_disk(r, &most) <= 3 * 256 * 1024 + 64, "field 29: the disk is not filled");
    is_int(read_log(r, "web", &at, 2 * MAX, &b), 0, "the log is read");
    has_str(buf_str(&b), "bytes of this log were dropped (over 1 MiB a second)\n", "field 29: and says what is missing");
    const char *p = buf_str(&b);
    int torn = 0;
    for (const char *nl; (nl = strchr(p, '\n')) != NULL; p = nl + 1)
        torn += strncmp(p, "the same line again and again\n", 30) != 0 && strncmp(p, "limpet: ", 8) != 0 &&
                strncmp(p, "the very last\n", 14) != 0;
    ok(torn <= 1, "only whole lines are missing");
    buf_fini(&b);
}

static void stays_bounded_without_lines(struct rig *r)
{
    int64_t most;
    is_int(start(r, "a", "web", 10000, 2, "head -c 3000000 /dev/zero; sleep 1; head -c 30000 /dev/zero"), 0,
           "an instance that floods without a line");
    ok(ends(r, "a"), "field 29: is not held up: it ends");
    ok(on_disk(r, &most) <= 2 * 10000 + 64 && most <= 10000, "field 29: the bounds hold");
}

// --- the disk

static void log_directory_gone(struct rig *r)
{
    struct buf b = BUF_INIT(MAX);
    int64_t at = 0;
    ok(rmdir(r->log_dir) == 0, "the log directory is removed");
    is_int(start(r, "a", "web", 0, 0, "echo one"), 0, "an instance that prints");
    ok(ends(r, "a"), "ends");
    is_int(read_log(r, "web", &at, 100, &b), 0, "the directory was made again");
    is_str(buf_str(&b), "one\n", "and the log written");
    buf_fini(&b);
}

static void log_directory_impossible(struct rig *r)
{
    ok(rmdir(r->log_dir) == 0, "the log directory is removed");
    int fd = open(r->log_dir, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(fd >= 0, "and a file put in its place");
    close(fd);
    is_int(start(r, "a", "web", 0, 0, "head -c 300000 /dev/zero; echo done >>\"$RIG/done\""), 0, "an instance that prints");
    ok(ends(r, "a"), "is not held up: it ends");
    is_int(rig_lines(r, "done"), 1, "after all its work");
}

static void log_is_a_trap(struct rig *r)
{
    char path[512], target[512];
    snprintf(path, sizeof(path), "%s/web.log", r->log_dir);
    snprintf(target, sizeof(target), "%s/target", r->dir);
    ok(symlink(target, path) == 0, "a symlink where the log should be");
    is_int(start(r, "a", "web", 0, 0, "echo secret"), 0, "an instance that prints");
    ok(ends(r, "a"), "ends");
    is_str(rig_file(r, "target"), "", "the link was not followed");
    ok(unlink(path) == 0 && mkfifo(path, 0600) == 0, "a fifo");
    is_int(start(r, "b", "web", 0, 0, "echo secret"), 0, "an instance that prints");
    ok(ends(r, "b"), "is not held up: it ends");
    struct buf b = BUF_INIT(MAX);
    int64_t at = 0;
    ok(read_log(r, "web", &at, 100, &b) != 0, "nor does it hold up the reader");
    buf_fini(&b);
}

static void removed_meanwhile(struct rig *r)
{
    char path[512];
    struct buf b = BUF_INIT(MAX);
    int64_t at = 0;
    snprintf(path, sizeof(path), "%s/web.log", r->log_dir);
    is_int(start(r, "a", "web", 0, 0, "echo one; echo go >>\"$RIG/go\"; while [ ! -e \"$RIG/on\" ]; do sleep 0.05; done; echo two"), 0,
           "an instance");
    ok(rig_until_file(r, "go", 1), "prints");
    for (int i = 0; i < 500 && access(path, F_OK) != 0; i++)
        usleep(10 * 1000);
    usleep(100 * 1000);
    ok(unlink(path) == 0, "its log is removed by hand");
    snprintf(path, sizeof(path), "%s/on", r->dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ok(ends(r, "a"), "goes on and ends");
    at = 4;
    is_int(read_log(r, "web", &at, 100, &b), 0, "a new log is there");
    is_str(buf_str(&b), "two\n", "which continues the offsets");
    is_int(at, 8, "of the old one");
    buf_fini(&b);
}

// Its own mount namespace, so that nothing of it is seen outside or left behind.
static void disk_full(struct rig *r)
{
    char path[512];
    struct buf b = BUF_INIT(MAX);
    int64_t at = -300;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", r->log_dir, "tmpfs", 0, "size=64k") != 0) {
        skip("field 29: no mount namespace here: %s", strerror(errno));
        return;
    }
    snprintf(path, sizeof(path), "%s/filler", r->log_dir);
    is_int(start(r, "a", "web", 0, 0,
                 "i=0; while [ $i -lt 3000 ]; do echo a line that fills the disk; i=$((i+1)); done; echo full >>\"$RIG/full\";"
                 "while [ ! -e \"$RIG/on\" ]; do sleep 0.05; done; sleep 1.2; echo there is room again"),
           0, "an instance that fills the disk");
    ok(rig_until_file(r, "full", 1), "is not held up");
    char cut[512];
    snprintf(cut, sizeof(cut), "%s/web.log", r->log_dir);
    ok(truncate(cut, 0) == 0, "somebody makes room");
    snprintf(path, sizeof(path), "%s/on", r->dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ok(ends(r, "a"), "ends");
    is_int(read_log(r, "web", &at, 300, &b), 0, "the log is read");
    has_str(buf_str(&b), "bytes of this log were dropped (they could not be written)\nthere is room again\n",
            "says what is missing, and goes on");
    buf_fini(&b);
    umount2(r->log_dir, MNT_DETACH);
}

static const struct {
    const char *name;
    void (*fn)(struct rig *r);
} cases[] = {
    { "read and tail", read_and_tail },
    { "the next instance goes on", next_instance_goes_on },
    { "follow over rotations", follow },
    { "field 29: a flood is bounded by size and rate, and does not hold the workload", flood },
    { "field 29: a flood without lines", stays_bounded_without_lines },
    { "field 29: the log directory is gone", log_directory_gone },
    { "field 29: the log directory cannot be", log_directory_impossible },
    { "the log is a symlink, or a fifo", log_is_a_trap },
    { "the log is removed meanwhile", removed_meanwhile },
    { "field 29: the disk is full", disk_full },
};

int main(int argc, char **argv)
{
    RIG_MAIN(argc, argv);
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        struct rig r;
        if (argc > 1 && strcmp(argv[1], cases[c].name) != 0)
            continue;
        diag("%s", cases[c].name);
        if (!ok(rig_init(&r, "exec"), "exec: is made"))
            continue;
        cases[c].fn(&r);
        rig_fini(&r);
    }
    return done_testing();
}
