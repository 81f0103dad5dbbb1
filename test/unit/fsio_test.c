// SPDX-License-Identifier: Apache-2.0
// Everything runs twice: with openat2, and on the walk for kernels that lack it.
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

// Each fsync is counted and may be made to fail; what a reader would see at that moment is looked at.
static unsigned syncs, failing_sync; // failing_sync: the how-manieth, 0 = none
static void (*at_sync)(void);

static int test_fsync(int fd)
{
    syncs++;
    if (at_sync != NULL)
        at_sync();
    if (syncs == failing_sync) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

#define fsync(fd) test_fsync(fd)
#include "base/fsio.c"
#include "base/fsio_file.c"
#include "base/fsio_real.c"
#include "base/fsio_resolve.c"
#include "base/fsio_tree.c"
#include "base/fsio_users.c"
#include "base/fsio_watch.c"
#undef fsync

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "tap.h"

static char base[64];      // this run's directory
static char root_dir[80];  // base/root: the disk's root
static struct disk *d;     // below root_dir
static struct disk *whole; // the machine's own root
static struct clock clk;
static struct loop *l;
static const char *how; // "openat2" or "walk"

// --- helpers: paths on the machine, behind the disk's back

static const char *in_root(const char *path)
{
    static char out[4][PATH_MAX];
    static unsigned at;
    char *p = out[at++ % 4];
    snprintf(p, PATH_MAX, "%s%s", root_dir, path);
    return p;
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) != 0)
        fail("%s: %s", path, strerror(errno));
    close(fd);
}

static const char *get_file(const char *path)
{
    static char out[4][256];
    static unsigned at;
    char *text = out[at++ % 4];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t n = read(fd, text, sizeof(out[0]) - 1);
    close(fd);
    text[MAX(n, 0)] = '\0';
    return text;
}

static void make_dir_(const char *path)
{
    if (mkdir(path, 0755) != 0)
        fail("mkdir %s: %s", path, strerror(errno));
}

static void make_link(const char *target, const char *path)
{
    if (symlink(target, path) != 0)
        fail("symlink %s: %s", path, strerror(errno));
}

static unsigned count_entries(const char *path)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *de; dir != NULL && (de = readdir(dir)) != NULL;)
        n += !is_dot(de->d_name);
    if (dir != NULL)
        closedir(dir);
    return n;
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int write_text(const char *path, const char *text, unsigned flags, struct err *e)
{
    return fs_write(d, path, text, strlen(text), 0644, flags, e);
}

static int read_text(const char *path, unsigned flags, struct buf *b, struct err *e)
{
    return fs_read(d, path, 1000, flags, b, e);
}

// The disk and a directory of its own for one test.
static void setup(void)
{
    struct err e = ERR_INIT;
    strcpy(base, "/tmp/limpet-fsio-XXXXXX");
    if (mkdtemp(base) == NULL)
        fail("mkdtemp: %s", strerror(errno));
    snprintf(root_dir, sizeof(root_dir), "%s/root", base);
    make_dir_(root_dir);
    struct loop_backend *b = NULL;
    clock_real_init(&clk);
    if (loop_backend_epoll(&b, &e) != 0 || loop_new(&l, &clk, b, &e) != 0 || disk_real_new(&d, l, root_dir, &e) != 0 ||
        disk_real_new(&whole, NULL, "", &e) != 0)
        fail("%s", e.msg);
    if (strcmp(how, "walk") == 0)
        fs_real(d)->has_openat2 = fs_real(whole)->has_openat2 = false;
}

static void teardown(void)
{
    struct err e = ERR_INIT;
    disk_free(d);
    is_int(whole->ops->rmtree(whole, base, &e), 0, "%s: cleaned up %s", how, e.msg);
    disk_free(whole);
    loop_free(l);
}

// --- paths

static void test_paths(void)
{
    static const char *const good[] = { "/", "/a", "/a/b", "/.a", "/..a", "/a..", "/...", "/a b\n" };
    static const char *const bad[] = { "",    "a",  "./a", "../a", "//",     "//a",   "/a//b",
                                       "/a/", "/.", "/..", "/a/.", "/a/./b", "/a/..", "/a/../b" };
    static char name[PATH_MAX + 10];
    struct err e = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        is_int(path_check(good[i], &e), 0, "path %s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        is_int(path_check(bad[i], &e), E_INVAL, "not \"%s\"", bad[i]);
    memset(name, 'a', sizeof(name) - 1);
    name[0] = '/';
    name[NAME_MAX + 1] = '\0';
    is_int(path_check(name, &e), 0, "the longest name");
    name[NAME_MAX + 1] = 'a';
    name[NAME_MAX + 2] = '\0';
    is_int(path_check(name, &e), E_INVAL, "one longer");
    for (size_t i = 0; i < sizeof(name) - 1; i++)
        name[i] = i % 2 ? 'a' : '/';
    is_int(path_check(name, &e), E_INVAL, "longer than a path may be");
    name[PATH_MAX] = '\0';
    is_int(path_check(name, &e), E_INVAL, "by one");
    name[PATH_MAX - 2] = '\0';
    is_int(path_check(name, &e), 0, "the longest path");

    ok(path_below("/a/b", "/a") && path_below("/a", "/a") && path_below("/a", "/") && path_below("/", "/"), "below");
    ok(!path_below("/ab", "/a") && !path_below("/a", "/a/b") && !path_below("/", "/a"), "not below");
}

// --- write and read

static void test_write_read(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(1000);
    struct fs_stat st;
    setup();
    is_int(write_text("/f", "one", 0, &e), 0, "%s: a new file %s", how, e.msg);
    is_str(get_file(in_root("/f")), "one", "has its text");
    is_int(fs_write(d, "/f", "two", 3, 04751, FS_GUARDED, &e), 0, "replaced");
    is_int(d->ops->stat(d, "/f", 0, &st, &e), 0, "looked at");
    ok(st.type == FS_FILE && st.mode == 04751 && st.size == 3, "type, mode and size are as written, whatever the umask");
    ok(st.mtime_us / 1000000 >= time(NULL) - 1000, "and the time is now");
    is_int(read_text("/f", FS_GUARDED, &b, &e), 0, "read");
    is_str(b.data, "two", "back");
    is_int(count_entries(root_dir), 1, "no temporary is left");
    is_int(fs_write(d, "/f", "", 0, 0600, 0, &e), 0, "emptied");
    is_int(read_text("/f", 0, &b, &e), 0, "read");
    is_str(b.data, "", "nothing");
    is_int(fs_write(d, "/f", "a\0b", 3, 0600, FS_NOSYNC, &e), 0, "bytes");
    is_int(read_text("/f", 0, &b, &e), 0, "read");
    ok(b.len == 3 && memcmp(b.data, "a\0b", 4) == 0, "are bytes");

    is_int(write_text("/f", "x", FS_EXCL, &e), E_EXISTS, "FS_EXCL: there is one");
    is_int(write_text("/g", "x", FS_EXCL, &e), 0, "there is none");
    is_int(write_text("/no/g", "x", 0, &e), E_NOTFOUND, "no directory");
    is_int(write_text("/f/g", "x", 0, &e), E_INVAL, "a file for a directory");
    is_int(write_text("g", "x", 0, &e), E_INVAL, "no path");
    is_int(write_text("/", "x", 0, &e), E_INVAL, "not the root");
    is_int(fs_write(d, "/f", "x", 1, 010000, 0, &e), E_INVAL, "no mode");
    make_dir_(in_root("/dir"));
    is_int(write_text("/dir", "x", 0, &e), E_INVAL, "a directory is not replaced");
    if (mkfifo(in_root("/fifo"), 0600) != 0)
        fail("mkfifo");
    is_int(write_text("/fifo", "x", 0, &e), E_INVAL, "nor a FIFO");
    is_int(read_text("/fifo", 0, &b, &e), E_INVAL, "which does not hold a reader");
    is_int(read_text("/dir", 0, &b, &e), E_INVAL, "a directory has no text");
    is_int(read_text("/no", 0, &b, &e), E_NOTFOUND, "nor has what is not there");
    is_int(read_text("/f/x", 0, &b, &e), E_INVAL, "a file below a file is wrong, not absent");
    is_int(count_entries(root_dir), 4, "after all these no temporary is left");
    teardown();
}

static void test_read_bounds(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(20);
    setup();
    put_file(in_root("/f"), "0123456789", 0644);
    is_int(buf_adds(&b, "before", &e), 0, "what was there");
    is_int(fs_read(d, "/f", 9, 0, &b, &e), E_TOOBIG, "%s: one byte too long", how);
    is_str(b.data, "before", "stays on error");
    is_int(fs_read(d, "/f", 10, 0, &b, &e), 0, "just right");
    is_str(b.data, "0123456789", "and is replaced on success");
    is_int(b.max, 20, "the buffer keeps its own bound");
    AUTO_BUF struct buf small = BUF_INIT(5);
    is_int(fs_read(d, "/f", 100, 0, &small, &e), E_TOOBIG, "which counts as well");
    is_int(fs_read(d, "/f", SIZE_MAX, 0, &b, &e), 0, "no bound");
    is_int(fs_read(d, "/f", 0, 0, &b, &e), E_TOOBIG, "a bound of nothing");
    // Files of /proc say that they are empty.
    AUTO_BUF struct buf proc = BUF_INIT(100000);
    is_int(fs_read(whole, "/proc/self/status", 100000, 0, &proc, &e), 0, "a file that does not know its length");
    has_str(buf_str(&proc), "VmPeak", "is read to its end");
    is_int(fs_read(whole, "/proc/self/status", 100, 0, &proc, &e), E_TOOBIG, "and bounded");
    teardown();
}

// The old file stands and nothing is left beside it, whatever fails.
static void test_write_fails(void)
{
    struct err e = ERR_INIT;
    static char big[100000];
    setup();
    put_file(in_root("/f"), "old", 0640);
    struct rlimit old, tight = { 4096, RLIM_INFINITY };
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tight);
    int r = fs_write(d, "/f", big, sizeof(big), 0644, 0, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, was);
    is_int(r, E_NOSPC, "%s: fails in the middle of the text", how);
    is_str(get_file(in_root("/f")), "old", "the old text stands");
    is_int(count_entries(root_dir), 1, "no temporary");

    put_file(in_root("/.f.limpet-tmp"), "left by a crash", 0600);
    is_int(write_text("/f", "new", 0, &e), 0, "what a crash left is no obstacle");
    is_int(count_entries(root_dir), 1, "and is gone");
    make_link("/etc/passwd", in_root("/.f.limpet-tmp"));
    is_int(write_text("/f", "newer", 0, &e), 0, "nor is a symlink in its place");
    is_str(get_file(in_root("/f")), "newer", "which is not followed");
    make_dir_(in_root("/.f.limpet-tmp"));
    ok(write_text("/f", "newest", 0, &e) < 0, "a directory is");
    is_str(get_file(in_root("/f")), "newer", "and nothing changes");

    char path[NAME_MAX + 2] = "/";
    memset(path + 1, 'n', NAME_MAX);
    path[NAME_MAX + 1] = '\0';
    is_int(write_text(path, "x", 0, &e), 0, "the longest name has a temporary, too");
    is_int(count_entries(root_dir), 3, "that is not left");
    teardown();
}

static char seen[8]; // the first letter of /f at each sync

static void look(void)
{
    const char *text = get_file(in_root("/f"));
    if (strlen(seen) + 1 < sizeof(seen))
        strncat(seen, text != NULL ? text : "-", 1);
}

static int counted_write(const char *text, unsigned flags, unsigned fail_at, struct err *e)
{
    syncs = 0;
    seen[0] = '\0';
    failing_sync = fail_at;
    at_sync = look;
    int r = write_text("/f", text, flags, e);
    at_sync = NULL;
    failing_sync = 0;
    return r;
}

static void test_sync(void)
{
    struct err e = ERR_INIT;
    setup();
    put_file(in_root("/f"), "old", 0600);
    is_int(counted_write("new", 0, 0, &e), 0, "%s: written", how);
    is_str(seen, "on", "the text is durable before it has its name, the name before it is said to be done");
    is_int(counted_write("old", FS_NOSYNC, 0, &e), 0, "written where it need not last");
    is_int(syncs, 0, "without a sync");
    is_int(counted_write("new", 0, 1, &e), E_IO, "the text cannot be made durable");
    is_str(get_file(in_root("/f")), "old", "the old one stands");
    is_int(count_entries(root_dir), 1, "no temporary");
    is_int(counted_write("new", 0, 2, &e), E_IO, "the name cannot be made durable: an error");
    is_str(get_file(in_root("/f")), "new", "though the new text is there");
    syncs = 0;
    is_int(d->ops->unlink(d, "/f", 0, &e), 0, "removed");
    is_int(syncs, 1, "durably");
    is_int(d->ops->mkdirs(d, "/a/b", 0755, 0, &e), 0, "two directories");
    is_int(syncs, 3, "durably each");
    is_int(d->ops->mkdirs(d, "/a/b", 0755, 0, &e), 0, "again");
    is_int(d->ops->mkdirs(d, "/c", 0755, FS_NOSYNC, &e), 0, "one that need not last");
    is_int(syncs, 3, "cost none");
    teardown();
}

static void test_no_space(void)
{
    struct err e = ERR_INIT;
    static char big[300000];
    setup();
    make_dir_(in_root("/small"));
    pid_t pid = fork(); // a mount of its own, that ends with the child
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", in_root("/small"), "tmpfs", 0, "size=100k") != 0)
            _exit(77);
        // A disk of this name space: its root was opened in it.
        bool has_openat2 = fs_real(d)->has_openat2;
        if (disk_real_new(&d, NULL, root_dir, &e) != 0)
            _exit(8);
        fs_real(d)->has_openat2 = has_openat2;
        if (write_text("/small/f", "old", 0, &e) != 0)
            _exit(1);
        if (fs_write(d, "/small/f", big, sizeof(big), 0644, 0, &e) != E_NOSPC)
            _exit(2);
        if (get_file(in_root("/small/f")) == NULL || strcmp(get_file(in_root("/small/f")), "old") != 0)
            _exit(3);
        if (count_entries(in_root("/small")) != 1)
            _exit(4);
        uint64_t avail = 0, total = 0;
        if (d->ops->free_bytes(d, "/small", &avail, &total, &e) != 0 || total != 102400 || avail == 0 || avail >= total)
            _exit(5);
        // A mount inside a tree is not its content.
        if (d->ops->rmtree(d, "/small", &e) != E_BUSY || !is_there(in_root("/small/f")))
            _exit(6);
        if (mount(NULL, in_root("/small"), NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0 || write_text("/small/f", "new", 0, &e) != E_FORBIDDEN)
            _exit(7);
        _exit(0);
    }
    int st = -1;
    waitpid(pid, &st, 0);
    if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
        skip("no right to mount a small file system");
    else
        is_int(st, 0,
               "%s: a full file system (1-4), its size (5), a mount in a tree (6), a read-only one (7); status is 256 times the step", how);
    teardown();
}

static void test_owner(void)
{
    struct err e = ERR_INIT;
    struct fs_stat st;
    setup();
    if (geteuid() != 0) {
        skip("only root gives files away");
        teardown();
        return;
    }
    is_int(d->ops->write(d, "/f", "x", 1, 06755, 1234, 5678, 0, &e), 0, "%s: written for somebody", how);
    is_int(d->ops->stat(d, "/f", 0, &st, &e), 0, "looked at");
    ok(st.uid == 1234 && st.gid == 5678, "owner and group");
    is_int(st.mode, 06755, "with its set-id bits, which a change of owner takes away");
    is_int(write_text("/f", "y", 0, &e), 0, "written without an owner");
    is_int(d->ops->stat(d, "/f", 0, &st, &e), 0, "looked at");
    ok(st.uid == 0 && st.gid == 0, "is the writer's");

    is_int(d->ops->chattr(d, "/f", 04700, 77, UINT32_MAX, FS_GUARDED, &e), 0, "changed %s", e.msg);
    is_int(d->ops->stat(d, "/f", 0, &st, &e), 0, "looked at");
    ok(st.uid == 77 && st.gid == 0 && st.mode == 04700, "owner and mode, not the group");
    make_dir_(in_root("/dir"));
    is_int(d->ops->chattr(d, "/dir", 01777, UINT32_MAX, 88, 0, &e), 0, "a directory");
    is_int(d->ops->stat(d, "/dir", 0, &st, &e), 0, "looked at");
    ok(st.type == FS_DIR && st.uid == 0 && st.gid == 88 && st.mode == 01777, "as well");
    teardown();
}

static void test_chattr_refusals(void)
{
    struct err e = ERR_INIT;
    setup();
    put_file(in_root("/f"), "x", 0600);
    make_link("f", in_root("/link"));
    if (mkfifo(in_root("/fifo"), 0600) != 0 || link(in_root("/f"), in_root("/twin")) != 0)
        fail("fixture");
    is_int(d->ops->chattr(d, "/link", 0777, UINT32_MAX, UINT32_MAX, 0, &e), E_FORBIDDEN, "%s: not through a symlink", how);
    is_int(d->ops->chattr(d, "/link", 0777, UINT32_MAX, UINT32_MAX, FS_GUARDED, &e), E_FORBIDDEN, "guarded or not");
    is_int(d->ops->chattr(d, "/fifo", 0777, UINT32_MAX, UINT32_MAX, 0, &e), E_INVAL, "not a FIFO");
    is_int(d->ops->chattr(d, "/twin", 0777, UINT32_MAX, UINT32_MAX, FS_GUARDED, &e), E_FORBIDDEN, "guarded: not a file with another name");
    is_int(d->ops->chattr(d, "/no", 0777, UINT32_MAX, UINT32_MAX, 0, &e), E_NOTFOUND, "not what is not there");
    is_int(d->ops->chattr(d, "/f", 0200000, UINT32_MAX, UINT32_MAX, 0, &e), E_INVAL, "no such mode");
    struct stat st;
    stat(in_root("/f"), &st);
    is_int(st.st_mode & 07777, 0600, "nothing of this changed the file");
    teardown();
}

// --- the guard

static void test_guard(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(1000);
    struct fs_stat st;
    char outside[100];
    setup();
    snprintf(outside, sizeof(outside), "%s/outside", base);
    make_dir_(outside);
    snprintf(outside, sizeof(outside), "%s/outside/secret", base);
    put_file(outside, "secret", 0600);
    make_dir_(in_root("/etc"));
    put_file(in_root("/etc/real"), "real", 0644);
    make_link("../outside", in_root("/etc/up")); // out of the root, if it were followed
    make_link("/etc", in_root("/abs"));          // inside, when resolved below the root
    make_link("real", in_root("/etc/final"));
    make_link("../../../../../../../../etc/real", in_root("/etc/far"));
    make_link("/etc/real", in_root("/etc/deep")); // absolute, in a directory
    make_link("loop", in_root("/loop"));
    snprintf(outside, sizeof(outside), "%s/outside", base);
    make_link(outside, in_root("/etc/out")); // absolute, out of the root

    static const char *const linked[] = { "/etc/final", "/abs/real", "/etc/far",       "/etc/deep",
                                          "/loop",      "/loop/x",   "/etc/up/secret", "/etc/out/secret" };
    for (size_t i = 0; i < ARRAY_LEN(linked); i++) {
        is_int(read_text(linked[i], FS_GUARDED, &b, &e), E_FORBIDDEN, "field 26: %s: guarded read of %s", how, linked[i]);
        is_int(write_text(linked[i], "evil", FS_GUARDED, &e), E_FORBIDDEN, "field 26: guarded write of %s", linked[i]);
        is_int(d->ops->stat(d, linked[i], FS_GUARDED, &st, &e), E_FORBIDDEN, "guarded stat of %s", linked[i]);
        is_int(d->ops->unlink(d, linked[i], FS_GUARDED, &e), E_FORBIDDEN, "guarded unlink of %s", linked[i]);
        is_int(d->ops->chattr(d, linked[i], 0777, UINT32_MAX, UINT32_MAX, FS_GUARDED, &e), E_FORBIDDEN, "guarded chattr of %s", linked[i]);
        is_int(d->ops->mkdirs(d, linked[i], 0755, FS_GUARDED, &e), E_FORBIDDEN, "guarded mkdirs of %s", linked[i]);
    }
    is_int(d->ops->mkdirs(d, "/etc/out/sub/dir", 0755, FS_GUARDED, &e), E_FORBIDDEN, "nor below one");
    is_str(get_file(in_root("/etc/real")), "real", "and the file they name stands");
    snprintf(outside, sizeof(outside), "%s/outside/secret", base);
    is_str(get_file(outside), "secret", "and so does the one outside");

    is_int(read_text("/etc/final", 0, &b, &e), 0, "unguarded, a symlink is followed");
    is_str(b.data, "real", "to what it names");
    is_int(read_text("/abs/real", 0, &b, &e), 0, "an absolute one below the root");
    is_str(b.data, "real", "to its like");
    is_int(read_text("/etc/deep", 0, &b, &e), 0, "also from a directory");
    is_str(b.data, "real", "to its like");
    is_int(read_text("/etc/far", 0, &b, &e), 0, "one that climbs too far stays in the root");
    is_str(b.data, "real", "as if it were /");
    is_int(read_text("/etc/out/secret", 0, &b, &e), E_NOTFOUND, "so nothing outside is found");
    is_int(read_text("/etc/up/secret", 0, &b, &e), E_NOTFOUND, "either way");
    is_int(read_text("/loop", 0, &b, &e), E_INVAL, "a loop ends");
    is_int(d->ops->stat(d, "/etc/final", 0, &st, &e), 0, "a stat");
    is_int(st.type, FS_LINK, "is of the link itself");
    is_int(write_text("/abs/new", "new", 0, &e), 0, "unguarded write below one");
    is_str(get_file(in_root("/etc/new")), "new", "lands in the root");
    is_int(write_text("/etc/final", "mine", 0, &e), 0, "a symlink in the file's place");
    is_str(get_file(in_root("/etc/real")), "real", "is replaced, not followed");
    is_int(d->ops->stat(d, "/etc/final", 0, &st, &e), 0, "by");
    is_int(st.type, FS_FILE, "a file");
    teardown();
}

// --- remove, make, list

static void test_unlink(void)
{
    struct err e = ERR_INIT;
    setup();
    put_file(in_root("/f"), "x", 0600);
    make_dir_(in_root("/dir"));
    is_int(d->ops->unlink(d, "/f", 0, &e), 0, "%s: removed", how);
    ok(!is_there(in_root("/f")), "and gone");
    is_int(d->ops->unlink(d, "/f", FS_NOSYNC, &e), 0, "again is success");
    is_int(d->ops->unlink(d, "/no/f", 0, &e), 0, "also when its directory is not there");
    is_int(e.cls, 0, "without an error");
    ok(d->ops->unlink(d, "/dir", 0, &e) < 0 && is_there(in_root("/dir")), "a directory is not a file");
    ok(d->ops->unlink(d, "/", 0, &e) < 0, "nor is the root");
    make_link("dir", in_root("/link"));
    is_int(d->ops->unlink(d, "/link", 0, &e), 0, "a symlink");
    ok(!is_there(in_root("/link")) && is_there(in_root("/dir")), "is removed itself");
    teardown();
}

static void test_rename(void)
{
    struct err e = ERR_INIT;
    setup();
    make_dir_(in_root("/dir"));
    put_file(in_root("/dir/a"), "a", 0600);
    put_file(in_root("/dir/b"), "b", 0600);
    is_int(d->ops->rename(d, "/dir/a", "/dir/b", FS_GUARDED, &e), 0, "%s: renamed onto another", how);
    is_str(get_file(in_root("/dir/b")), "a", "which it replaces");
    is_int(count_entries(in_root("/dir")), 1, "and leaves its old name");
    is_int(d->ops->rename(d, "/dir/a", "/dir/c", 0, &e), E_NOTFOUND, "what is not there is not renamed");
    is_int(d->ops->rename(d, "/dir/b", "/b", 0, &e), E_INVAL, "not to another directory");
    is_int(d->ops->rename(d, "/dir/b", "/dif/b", 0, &e), E_INVAL, "of equal length");
    is_int(d->ops->rename(d, "/dir/b", "/dir/..", 0, &e), E_INVAL, "nor to no name");
    is_int(d->ops->rename(d, "b", "c", 0, &e), E_INVAL, "nor without paths");
    ok(d->ops->rename(d, "/dir", "/", 0, &e) < 0, "nor to the root");
    make_link("/etc/passwd", in_root("/dir/link"));
    make_link("dir", in_root("/way"));
    is_int(d->ops->rename(d, "/dir/link", "/dir/x", FS_GUARDED, &e), E_FORBIDDEN, "guarded: not a symlink");
    is_int(d->ops->rename(d, "/way/b", "/way/x", FS_GUARDED, &e), E_FORBIDDEN, "nor through one");
    is_int(d->ops->rename(d, "/way/b", "/way/x", 0, &e), 0, "unguarded it is");
    is_str(get_file(in_root("/dir/x")), "a", "found there");
    teardown();
}

static void test_mkdirs(void)
{
    struct err e = ERR_INIT;
    struct fs_stat st;
    setup();
    mode_t was = umask(077);
    is_int(d->ops->mkdirs(d, "/a/b/c", 0755, FS_GUARDED, &e), 0, "%s: three at once %s", how, e.msg);
    umask(was);
    is_int(d->ops->stat(d, "/a/b", 0, &st, &e), 0, "the middle one");
    ok(st.type == FS_DIR && st.mode == 0755, "has its mode, whatever the umask");
    is_int(d->ops->mkdirs(d, "/a/b", 0700, 0, &e), 0, "existing is success");
    is_int(d->ops->stat(d, "/a/b", 0, &st, &e), 0, "and");
    is_int(st.mode, 0755, "keeps its mode");
    is_int(d->ops->mkdirs(d, "/", 0700, 0, &e), 0, "the root is there");
    is_int(e.cls, 0, "all without an error");
    put_file(in_root("/f"), "x", 0600);
    is_int(d->ops->mkdirs(d, "/f", 0755, 0, &e), E_INVAL, "a file is in the way");
    is_int(d->ops->mkdirs(d, "/f/g/h", 0755, 0, &e), E_INVAL, "on the way");
    is_int(d->ops->mkdirs(d, "/a/../b", 0755, 0, &e), E_INVAL, "no path");
    is_int(d->ops->mkdirs(d, "/z", 0100000, 0, &e), E_INVAL, "no mode");
    teardown();
}

static void test_rmdir(void)
{
    struct err e = ERR_INIT;
    setup();
    is_int(d->ops->mkdirs(d, "/a/b", 0755, 0, &e), 0, "%s: a directory in another %s", how, e.msg);
    is_int(d->ops->rmdir(d, "/a", FS_GUARDED, &e), E_EXISTS, "one that is not empty stays");
    has_str(e.msg, "/a: is not empty", "and says so");
    e = (struct err)ERR_INIT;
    is_int(d->ops->rmdir(d, "/a/b", FS_GUARDED, &e), 0, "an empty one goes");
    ok(!is_there(in_root("/a/b")), "is gone");
    is_int(d->ops->rmdir(d, "/a/b", FS_GUARDED, &e), 0, "absent is success");
    is_int(d->ops->rmdir(d, "/nowhere/b", FS_GUARDED, &e), 0, "so is one below what is absent");
    is_int(e.cls, 0, "all without an error");
    put_file(in_root("/a/f"), "x", 0600);
    is_int(d->ops->rmdir(d, "/a/f", FS_GUARDED, &e), E_INVAL, "a file is no directory");
    ok(is_there(in_root("/a/f")), "and stays");
    ok(symlink("a", in_root("/way")) == 0, "a symbolic link");
    is_int(d->ops->rmdir(d, "/way", FS_GUARDED, &e), E_FORBIDDEN, "is not followed");
    teardown();
}

struct listing {
    unsigned files, dirs, links, others, calls, stop_after;
};

static int on_entry(void *ctx, const char *name, enum fs_type t)
{
    struct listing *x = ctx;
    x->calls++;
    x->files += t == FS_FILE && name[0] == 'f';
    x->dirs += t == FS_DIR && name[0] == 'd';
    x->links += t == FS_LINK && name[0] == 'l';
    x->others += t == FS_OTHER && name[0] == 'o';
    return x->calls == x->stop_after ? 42 : 0;
}

static void test_list(void)
{
    struct err e = ERR_INIT;
    struct listing x = { 0 };
    setup();
    is_int(d->ops->list(d, "/", on_entry, &x, &e), 0, "%s: an empty directory", how);
    is_int(x.calls, 0, "has no entries");
    put_file(in_root("/f1"), "", 0600);
    put_file(in_root("/f2"), "", 0600);
    make_dir_(in_root("/d"));
    make_link("f1", in_root("/l"));
    if (mkfifo(in_root("/o"), 0600) != 0)
        fail("mkfifo");
    is_int(d->ops->list(d, "/", on_entry, &x, &e), 0, "five entries");
    ok(x.calls == 5 && x.files == 2 && x.dirs == 1 && x.links == 1 && x.others == 1, "each with its type");
    x = (struct listing){ .stop_after = 2 };
    is_int(d->ops->list(d, "/", on_entry, &x, &e), 42, "stopped");
    is_int(x.calls, 2, "at once");
    is_int(d->ops->list(d, "/no", on_entry, &x, &e), E_NOTFOUND, "no directory");
    is_int(d->ops->list(d, "/f1", on_entry, &x, &e), E_INVAL, "a file");
    teardown();
}

static void make_tree(const char *path, int depth)
{
    char sub[PATH_MAX];
    make_dir_(path);
    for (int i = 0; i < 3; i++) {
        snprintf(sub, sizeof(sub), "%s/f%d", path, i);
        put_file(sub, "x", 0600);
        snprintf(sub, sizeof(sub), "%s/d%d", path, i);
        if (depth > 0)
            make_tree(sub, depth - 1);
    }
}

static void test_rmtree(void)
{
    struct err e = ERR_INIT;
    char outside[100];
    setup();
    snprintf(outside, sizeof(outside), "%s/keep", base);
    put_file(outside, "keep", 0600);
    make_tree(in_root("/t"), 3);
    make_link(base, in_root("/t/d1/link"));
    make_link("../../keep", in_root("/t/l"));
    is_int(d->ops->rmtree(d, "/t", &e), 0, "%s: a tree %s", how, e.msg);
    ok(!is_there(in_root("/t")), "is gone");
    is_str(get_file(outside), "keep", "what its symlinks named is not");
    is_int(d->ops->rmtree(d, "/t", &e), 0, "absent is success");
    is_int(d->ops->rmtree(d, "/no/t", &e), 0, "also below what is absent");
    is_int(e.cls, 0, "without an error");
    put_file(in_root("/f"), "x", 0600);
    is_int(d->ops->rmtree(d, "/f", &e), 0, "a file");
    make_dir_(in_root("/real"));
    put_file(in_root("/real/f"), "x", 0600);
    make_link("real", in_root("/link"));
    is_int(d->ops->rmtree(d, "/link", &e), 0, "a symlink to a tree");
    ok(!is_there(in_root("/link")) && is_there(in_root("/real/f")), "goes alone");
    is_int(d->ops->rmtree(d, "/", &e), E_INVAL, "the root is not removed");
    ok(is_there(in_root("/real")), "nor what is in it");

    char deep[PATH_MAX] = "/real";
    for (int i = 0; i < DEPTH_MAX + 5; i++) {
        strcat(deep, "/d");
        if (i < DEPTH_MAX - 2)
            make_dir_(in_root(deep));
    }
    is_int(d->ops->rmtree(d, "/real", &e), 0, "deep");
    make_dir_(in_root("/real"));
    strcpy(deep, "/real");
    for (int i = 0; i < DEPTH_MAX + 5; i++) {
        strcat(deep, "/d");
        make_dir_(in_root(deep));
    }
    is_int(d->ops->rmtree(d, "/real", &e), E_INVAL, "too deep is refused");
    ok(is_there(in_root(deep)), "and left alone");
    // In two halves it goes.
    is_int(d->ops->rmtree(d, "/real/d/d/d/d/d/d/d/d/d/d", &e), 0, "its lower part is not too deep");
    teardown();
}

// --- watches

struct watcher {
    struct fs_watch w;
    char names[400];
    unsigned lost;
    struct watcher *drop; // unwatches it
    const char *again;    // watches this when told
};

static void on_change(struct fs_watch *w, const char *name)
{
    struct watcher *x = container_of(w, struct watcher, w);
    struct err e = ERR_INIT;
    if (name == NULL) {
        x->lost++;
    } else if (strlen(x->names) + strlen(name) + 2 < sizeof(x->names)) {
        strcat(x->names, name);
        strcat(x->names, " ");
    }
    if (x->drop != NULL)
        d->ops->unwatch(d, &steal(x->drop)->w);
    if (x->again != NULL && d->ops->watch(d, &x->w, steal(x->again), &e) != 0)
        fail("watch again: %s", e.msg);
}

static void watch(struct watcher *x, const char *dir)
{
    struct err e = ERR_INIT;
    *x = (struct watcher){ .w.fn = on_change };
    if (d->ops->watch(d, &x->w, dir, &e) != 0)
        fail("watch %s: %s", dir, e.msg);
}

// Events are in the queue when the call that made them returns, so a turn that would not sleep hears them all.
static void hear(void)
{
    struct err e = ERR_INIT;
    for (int i = 0; i < 20; i++)
        if (loop_turn(l, 0, &e) != 0)
            fail("turn: %s", e.msg);
}

static unsigned count_dirs(void)
{
    unsigned n = 0;
    list_each(it, &fs_real(d)->watcher.dirs)
        n++;
    return n;
}

static void test_watch(void)
{
    struct watcher a, b;
    struct err e = ERR_INIT;
    setup();
    make_dir_(in_root("/w"));
    watch(&a, "/w");
    put_file(in_root("/w/f"), "x", 0600);
    hear();
    has_str(a.names, "f ", "%s: created", how);
    a.names[0] = '\0';
    put_file(in_root("/w/f"), "y", 0600);
    hear();
    has_str(a.names, "f ", "modified");
    a.names[0] = '\0';
    if (chmod(in_root("/w/f"), 0640) != 0)
        fail("chmod");
    hear();
    is_str(a.names, "f ", "mode changed");
    a.names[0] = '\0';
    if (rename(in_root("/w/f"), in_root("/w/g")) != 0)
        fail("rename");
    hear();
    is_str(a.names, "f g ", "moved");
    a.names[0] = '\0';
    unlink(in_root("/w/g"));
    hear();
    has_str(a.names, "g ", "removed");
    a.names[0] = '\0';
    is_int(write_text("/w/own", "x", 0, &e), 0, "written by the disk");
    hear();
    is_str(a.names, "own ", "is one change; its temporary is not told");
    is_int(a.lost, 0, "nothing was lost");

    watch(&b, "/w");
    is_int(count_dirs(), 1, "two watches of one directory are one of the kernel's");
    a.names[0] = '\0';
    put_file(in_root("/w/h"), "x", 0600);
    hear();
    has_str(a.names, "h ", "both are told");
    has_str(b.names, "h ", "both");
    d->ops->unwatch(d, &a.w);
    d->ops->unwatch(d, &a.w);
    a.names[0] = b.names[0] = '\0';
    put_file(in_root("/w/i"), "x", 0600);
    hear();
    is_str(a.names, "", "one removed, twice: not told");
    has_str(b.names, "i ", "the other is");
    put_file(in_root("/w/j"), "x", 0600);
    d->ops->unwatch(d, &b.w);
    b.names[0] = '\0';
    hear();
    is_str(b.names, "", "removed while its events were in the queue: not told");
    is_int(count_dirs(), 0, "nothing is watched");

    is_int(d->ops->watch(d, &a.w, "/no", &e), E_NOTFOUND, "no directory");
    is_int(d->ops->watch(d, &a.w, "/w/h", &e), E_INVAL, "a file");
    is_int(whole->ops->watch(whole, &a.w, "/tmp", &e), E_UNSUP, "no loop");
    d->ops->unwatch(d, &a.w);
    watch(&a, "/w"); // and is left to the disk's end
    teardown();
    ok(!list_linked(&a.w.link) && a.w.impl == NULL, "the disk's end ends the watches");
}

static void test_watch_reentry(void)
{
    struct watcher a, b, c;
    setup();
    make_dir_(in_root("/w"));
    watch(&a, "/w");
    watch(&b, "/w");
    watch(&c, "/w");
    a.drop = &b;
    put_file(in_root("/w/1"), "", 0600);
    hear();
    is_str(b.names, "", "%s: one removed by the one before it is not told", how);
    has_str(c.names, "1 ", "the next is");
    a.drop = &a;
    c.drop = &c;
    put_file(in_root("/w/2"), "", 0600);
    hear();
    is_int(count_dirs(), 0, "all removed from inside: nothing is watched");
    hear();
    teardown();
}

static void test_watch_gone(void)
{
    struct watcher a, b, c;
    struct err e = ERR_INIT;
    setup();
    make_dir_(in_root("/w"));
    watch(&a, "/w");
    watch(&b, "/w");
    rmdir(in_root("/w"));
    hear();
    ok(a.lost == 1 && b.lost == 1, "%s: a directory removed: both are told to look", how);
    ok(!list_linked(&a.w.link) && a.w.impl == NULL, "and the watch is over");
    is_int(count_dirs(), 0, "nothing is watched");
    d->ops->unwatch(d, &a.w);

    make_dir_(in_root("/w"));
    watch(&a, "/w");
    watch(&b, "/w");
    watch(&c, "/w");
    a.drop = &b;
    a.again = "/w2";
    make_dir_(in_root("/w2"));
    if (rename(in_root("/w"), in_root("/moved")) != 0)
        fail("rename");
    hear();
    ok(a.lost == 1 && c.lost == 1, "moved away: told as well");
    is_int(b.lost, 0, "but not one that was removed by the first");
    put_file(in_root("/w2/x"), "", 0600);
    put_file(in_root("/moved/y"), "", 0600);
    hear();
    has_str(a.names, "x ", "watched again from inside: the new directory");
    ok(strstr(a.names, "y") == NULL, "not the old one");
    d->ops->unwatch(d, &a.w);

    // More than the queue holds.
    AUTO_BUF struct buf b2 = BUF_INIT(100);
    int64_t limit = fs_read(whole, "/proc/sys/fs/inotify/max_queued_events", 100, 0, &b2, &e) == 0 ? atoll(buf_str(&b2)) : 0;
    if (limit <= 0 || limit > 100000) {
        skip("no overflow: the queue holds %lld", (long long)limit);
    } else {
        watch(&a, "/w2");
        watch(&b, "/moved");
        put_file(in_root("/w2/x2"), "", 0600);
        for (int64_t i = 0; i < limit; i++) // alternating, so that they are not merged
            if (chmod(in_root(i % 2 ? "/w2/x" : "/w2/x2"), 0600) != 0)
                break;
        for (int i = 0; i < 10000 && a.lost == 0; i++)
            hear();
        ok(a.lost == 1 && b.lost == 1, "an overflow is told to everybody");
        put_file(in_root("/moved/z"), "", 0600);
        hear();
        has_str(b.names, "z ", "who still hear what comes after");
    }
    teardown();
}

// --- users

static void test_users(void)
{
    struct err e = ERR_INIT;
    uint32_t uid = 1, gid = 1;
    setup();
    is_int(d->ops->user(d, "web", &uid, &gid, &e), E_NOTFOUND, "%s: no passwd file, no user", how);
    is_int(d->ops->user(d, "33", &uid, &gid, &e), 0, "but digits");
    ok(uid == 33 && gid == UINT32_MAX, "are an id without a group");
    make_dir_(in_root("/etc"));
    put_file(in_root("/etc/passwd"),
             "root:x:0:0:root:/root:/bin/sh\n"
             "broken\n"
             "bad:x:notanumber:1:::\n"
             "nogid:x:5\n"
             "huge:x:4294967295:1::/:\n"
             "neg:x:-1:1::/:\n"
             "webmaster:x:34:34::/:\n"
             "\n"
             "web:x:33:333:Web,,,:/var/www:/bin/false\n"
             "web:x:99:99:a second one:/:\n"
             "last:x:1000:1001::/home:/bin/sh",
             0644);
    put_file(in_root("/etc/group"), "root:x:0:\nadm:x:4:a,b\nbad:x::\nlast:x:7", 0644);
    static const struct {
        const char *name;
        uint32_t uid, gid;
    } good[] = { { "root", 0, 0 },
                 { "web", 33, 333 },
                 { "last", 1000, 1001 },
                 { "33", 33, 333 },
                 { "0", 0, 0 },
                 { "65534", 65534, UINT32_MAX },
                 { "", UINT32_MAX, UINT32_MAX },
                 { "4294967294", 4294967294, UINT32_MAX } };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        is_int(d->ops->user(d, good[i].name, &uid, &gid, &e), 0, "user \"%s\" %s", good[i].name, e.msg);
        ok(uid == good[i].uid && gid == good[i].gid, "is %u:%u", uid, gid);
    }
    static const char *const none[] = { "broken", "bad", "nogid", "huge",         "neg",   "we",  "webx",
                                        "web:x",  "x",   "Web",   "a second one", "web\n", " web" };
    uid = gid = 1;
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        is_int(d->ops->user(d, none[i], &uid, &gid, &e), E_NOTFOUND, "no user \"%s\"", none[i]);
    is_int(d->ops->user(d, "4294967295", &uid, &gid, &e), E_INVAL, "an id that stands for none");
    is_int(d->ops->user(d, "99999999999999999999", &uid, &gid, &e), E_INVAL, "an id too large");
    ok(uid == 1 && gid == 1, "an error leaves the ids alone");

    is_int(d->ops->group(d, "adm", &gid, &e), 0, "a group");
    is_int(gid, 4, "by name");
    is_int(d->ops->group(d, "last", &gid, &e), 0, "the last one");
    is_int(gid, 7, "without a newline");
    is_int(d->ops->group(d, "12", &gid, &e), 0, "digits");
    is_int(gid, 12, "as they are");
    is_int(d->ops->group(d, "", &gid, &e), 0, "none");
    ok(gid == UINT32_MAX, "is none");
    is_int(d->ops->group(d, "bad", &gid, &e), E_NOTFOUND, "a damaged line is no group");
    is_int(d->ops->group(d, "nope", &gid, &e), E_NOTFOUND, "nor is nothing");
    is_int(whole->ops->user(whole, "root", &uid, &gid, &e), 0, "this machine's root");
    ok(uid == 0 && gid == 0, "is 0:0");
    teardown();
}

static void append(const char *path, int64_t at, const char *text, int want, const char *what)
{
    struct err e = ERR_INIT;
    is_int(d->ops->append(d, path, at, text, strlen(text), 0, &e), want, "%s: %s", what, e.msg);
}

static void test_append(void)
{
    struct fs_stat st;
    setup();
    append("/part", 3, "x", E_NOTFOUND, "behind what is not there");
    append("/part", 0, "hello", 0, "a new file");
    append("/part", 5, " world", 0, "goes on");
    is_str(get_file(in_root("/part")), "hello world", "%s: holds it", how);
    is_int(d->ops->stat(d, "/part", 0, &st, NULL), 0, "it is there");
    is_int(st.mode, 0600, "for root alone");
    append("/part", 12, "x", E_INVAL, "a hole is refused");
    append("/part", 4, "", 0, "what came after is cut off");
    is_str(get_file(in_root("/part")), "hell", "%s: holds it", how);
    append("/part", 0, "new", 0, "begun again");
    is_str(get_file(in_root("/part")), "new", "%s: holds it", how);
    make_link("part", in_root("/link"));
    append("/link", 0, "x", E_INVAL, "a link is not followed");
    if (mkfifo(in_root("/fifo"), 0600) != 0)
        abort();
    append("/fifo", 0, "x", E_IO, "a pipe is not waited for");
    teardown();
}

static void test_new(void)
{
    struct err e = ERR_INIT;
    struct disk *x = NULL;
    is_int(disk_real_new(&x, NULL, "relative", &e), E_INVAL, "a root is absolute");
    is_int(disk_real_new(&x, NULL, "/no/such/root", &e), E_NOTFOUND, "and exists");
    is_int(disk_real_new(&x, NULL, "/tmp/", &e), E_INVAL, "without a slash at its end");
    is_int(disk_real_new(&x, NULL, "/", &e), 0, "the machine's own by its name");
    is_str(x->root, "", "is the empty root");
    disk_free(x);
    disk_free(NULL);
}

int main(void)
{
    test_paths();
    test_new();
    static const char *const ways[] = { "openat2", "walk" };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        how = ways[i];
        if (i == 0 && !fs_probe_openat2()) {
            skip("this kernel has no openat2");
            continue;
        }
        test_write_read();
        test_read_bounds();
        test_write_fails();
        test_append();
        test_sync();
        test_no_space();
        test_owner();
        test_chattr_refusals();
        test_guard();
        test_unlink();
        test_rename();
        test_mkdirs();
        test_rmdir();
        test_list();
        test_rmtree();
        test_watch();
        test_watch_reentry();
        test_watch_gone();
        test_users();
    }
    return done_testing();
}
