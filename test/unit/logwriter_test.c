// SPDX-License-Identifier: Apache-2.0
// The writer on a clock that the test moves; and the places of logfile.c after every kind of crash.
#include "shim/logfile.c"
#include "shim/logwriter.c"

#include <dirent.h>

#include "tap.h"

static char dir[64];
static int64_t now = 1000;

static void fresh(void)
{
    snprintf(dir, sizeof(dir), "/tmp/logwriter-test.XXXXXX");
    ok(mkdtemp(dir) != NULL, "a directory");
}

static void remove_dir(void)
{
    DIR *d = opendir(dir);
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;)
        unlinkat(dirfd(d), de->d_name, 0);
    if (d != NULL)
        closedir(d);
    rmdir(dir);
}

static const char *content(const char *name)
{
    static char text[4 << 20];
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[MAX(n, 0)] = '\0';
    if (fd >= 0)
        close(fd);
    return fd < 0 ? NULL : text;
}

static void add(struct logwriter *w, const char *s)
{
    logwriter_add(w, s, strlen(s), now);
}

// Only the numbers are used.
static struct logfiles places(void)
{
    struct logfiles l = { .n = 0 };
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    is_int(logfiles_open(&l, fd, "web"), 0, "its places are read");
    close(fd);
    for (int k = 0; k < l.n; k++)
        close(l.fd[k]);
    return l;
}

static void rotates(void)
{
    struct logwriter w;
    fresh();
    logwriter_init(&w, dir, "web", 20, 3, now);
    add(&w, "0123456\n0123456\n");
    add(&w, "abcdefg\n");
    is_str(content("web.log"), "abcdefg\n", "a line that does not fit begins the next file");
    is_str(content("web.log.1"), "0123456\n0123456\n", "the one before");
    add(&w, "second8\nthird 8\n");
    is_str(content("web.log"), "third 8\n", "a piece is cut between lines");
    is_str(content("web.log.1"), "abcdefg\nsecond8\n", "what fits goes first");
    add(&w, "this line is much longer than any file may be and has to be cut\n");
    struct logfiles l = places();
    is_int(l.n, 3, "three files are kept");
    for (int k = 0; k < l.n; k++)
        ok(l.size[k] <= 20, "none longer than allowed");
    is_int(l.end, 16 + 8 + 16 + 64, "the end counts all that was ever written");
    is_int(l.begin[0] + l.size[0], l.end, "the newest ends there");
    is_int(l.begin[1] + l.size[1], l.begin[0], "and begins where the one before ends");
    logwriter_fini(&w, now);
    remove_dir();
}

static void one_file(void)
{
    struct logwriter w;
    fresh();
    logwriter_init(&w, dir, "web", 10, 1, now);
    add(&w, "0123456\n");
    add(&w, "abcdefg\n");
    is_str(content("web.log"), "abcdefg\n", "with one file the old is gone");
    ok(content("web.log.1") == NULL, "and not kept");
    is_int(places().end, 16, "but counted");
    logwriter_fini(&w, now);
    remove_dir();
}

static void fewer_files(void)
{
    struct logwriter w;
    fresh();
    logwriter_init(&w, dir, "web", 8, 4, now);
    for (int k = 0; k < 6; k++)
        add(&w, "0123456\n");
    ok(content("web.log.3") != NULL, "four files");
    logwriter_fini(&w, now);
    logwriter_init(&w, dir, "web", 8, 2, now);
    add(&w, "0123456\n");
    ok(content("web.log.1") != NULL && content("web.log.2") == NULL && content("web.log.3") == NULL, "fewer are wanted: the others go");
    is_int(places().end, 7 * 8, "the offsets go on");
    logwriter_fini(&w, now);
    remove_dir();
}

static void rename_in(const char *from, const char *to)
{
    char a[200], b[200];
    snprintf(a, sizeof(a), "%s/%s", dir, from);
    snprintf(b, sizeof(b), "%s/%s", dir, to);
    ok(rename(a, b) == 0, "%s becomes %s", from, to);
}

// A rotation has three steps after which the power may fail.
static void crashes(void)
{
    struct logwriter w;
    struct logfiles l;
    fresh();
    logwriter_init(&w, dir, "web", 8, 3, now);
    add(&w, "0123456\n");
    add(&w, "abcdefg\n");
    logwriter_fini(&w, now);
    rename_in("web.log.1", "web.log.2");
    rename_in("web.log", "web.log.1");
    l = places();
    ok(l.n == 2 && l.begin[0] == 8 && l.begin[1] == 0 && l.end == 16, "moved, the new file not made: all is found");
    char path[200];
    snprintf(path, sizeof(path), "%s/web.log", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    l = places();
    ok(l.n == 3 && l.begin[0] == 16 && l.begin[1] == 8 && l.end == 16, "made, not yet written down: all is found");
    logwriter_init(&w, dir, "web", 8, 3, now);
    add(&w, "ABCDEFG\n");
    l = places();
    ok(l.n == 3 && l.begin[0] == 16 && l.end == 24, "the next writer goes on there");
    logwriter_fini(&w, now);
    snprintf(path, sizeof(path), "%s/web.log.offset", dir);
    unlink(path);
    l = places();
    ok(l.n == 3 && l.begin[2] == 0 && l.end == 24, "without its mark the oldest begins at 0");
    snprintf(path, sizeof(path), "%s/web.log.offset", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(write(fd, "-5 garbage", 10) == 10, "a damaged mark");
    close(fd);
    is_int(places().end, 24, "is like none");
    remove_dir();
}

static void rate(void)
{
    static char line[1025];
    struct logwriter w;
    fresh();
    memset(line, 'x', 1023);
    line[1023] = '\n';
    logwriter_init(&w, dir, "web", 64 << 20, 2, now);
    for (int k = 0; k < 5000; k++)
        add(&w, line);
    ok(w.size <= 1024 * 1024, "field 29: at once no more than a second's worth is written");
    ok(w.dropped >= 5000 * 1024 - 1024 * 1024, "field 29: the rest is counted");
    int64_t due = logwriter_due(&w);
    is_int(due, now + 500, "and will be told after a pause");
    logwriter_tick(&w, now + 100);
    ok(w.dropped > 0, "not before");
    now = due;
    uint64_t dropped = w.dropped;
    logwriter_tick(&w, now);
    is_int(w.dropped, 0, "then it is");
    char note_text[128];
    snprintf(note_text, sizeof(note_text), "x\nlimpet: %llu bytes of this log were dropped (over 1 MiB a second)\n",
             (unsigned long long)dropped);
    has_str(content("web.log"), note_text, "field 29: on a line of its own, with the number");
    is_int(logwriter_due(&w), -1, "nothing is waited for any more");
    now += 1000;
    add(&w, "after\n");
    has_str(content("web.log"), "second)\nafter\n", "and the log goes on");
    logwriter_fini(&w, now);
    remove_dir();
}

// Text after a gap begins with a whole line, and all bytes are written or counted.
static void gap_ends_with_a_line(void)
{
    static char flood[RATE];
    struct logwriter w;
    fresh();
    memset(flood, 'f', sizeof(flood));
    logwriter_init(&w, dir, "web", 64 << 20, 2, now);
    logwriter_add(&w, flood, sizeof(flood), now);
    add(&w, "begin of a line that");
    now += 600;
    add(&w, " goes on here\nwhole line\n");
    const char *text = strstr(content("web.log"), "limpet:");
    has_str(text, "second)\nwhole line\n", "what follows the gap is whole");
    ok(strstr(text, "goes on here") == NULL, "the rest of the line is part of the gap");
    logwriter_fini(&w, now);
    remove_dir();
}

static void disk(void)
{
    struct logwriter w;
    char path[200];
    fresh();
    snprintf(path, sizeof(path), "%s/web.log", dir);
    ok(mkdir(path, 0700) == 0, "a directory where the log should be");
    logwriter_init(&w, dir, "web", 0, 0, now);
    add(&w, "lost\n");
    is_int(w.dropped, 5, "field 29: what cannot be written is counted");
    is_int(logwriter_due(&w), -1, "nobody wakes up for it");
    ok(rmdir(path) == 0, "it is taken away");
    add(&w, "lost, too\n");
    is_int(w.dropped, 15, "within a second nothing is tried");
    now += 1000;
    add(&w, "found\n");
    is_str(content("web.log"), "limpet: 15 bytes of this log were dropped (they could not be written)\nfound\n", "then it goes on");
    logwriter_fini(&w, now);
    remove_dir();
    logwriter_init(&w, "/proc/nonexistent/log", "web", 0, 0, now);
    add(&w, "lost\n");
    is_int(w.dropped, 5, "a directory that cannot be made");
    logwriter_fini(&w, now);
}

static void told_at_the_end(void)
{
    static char flood[2 * RATE];
    struct logwriter w;
    fresh();
    memset(flood, 'f', sizeof(flood));
    logwriter_init(&w, dir, "web", 64 << 20, 2, now);
    logwriter_add(&w, flood, sizeof(flood), now);
    logwriter_fini(&w, now);
    has_str(content("web.log"), "limpet: 2097152 bytes of this log were dropped", "what is missing is told at the latest at the end");
    remove_dir();
}

int main(void)
{
    rotates();
    one_file();
    fewer_files();
    crashes();
    rate();
    gap_ends_with_a_line();
    disk();
    told_at_the_end();
    return done_testing();
}
