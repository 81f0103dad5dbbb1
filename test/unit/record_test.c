// SPDX-License-Identifier: Apache-2.0
#include "shim/record.c"

#include <sys/stat.h>

#include "tap.h"

static struct state_record sample(void)
{
    return (struct state_record){
        .uid = "a-1",
        .owner = "edgeapps/ns/web",
        .revision = "r1",
        .index = 3,
        .shim_pid = 10,
        .shim_start = 111,
        .child_pid = 11,
        .child_start = 222,
        .started = { .boot_id = "01234567-89ab-cdef-0123-456789abcdef", .boot_ms = 5000, .wall_us = 1700000000000000, .trusted = true },
    };
}

static void state_round_trip(void)
{
    struct state_record a = sample(), b;
    char text[RECORD_MAX];
    ok(state_format(&a, text) && state_parse(text, &b), "a state is written and read");
    ok(memcmp(&a.started, &b.started, sizeof(a.started)) == 0 && b.index == 3 && b.shim_pid == 10 && b.shim_start == 111 &&
           b.child_pid == 11 && b.child_start == 222,
       "with its numbers");
    ok(strcmp(b.uid, a.uid) == 0 && strcmp(b.owner, a.owner) == 0 && strcmp(b.revision, a.revision) == 0, "and its texts");
    a.revision[0] = '\0';
    ok(state_format(&a, text) && state_parse(text, &b) && b.revision[0] == '\0', "an empty revision");
    char more[RECORD_MAX + 32];
    snprintf(more, sizeof(more), "%sfuture some thing\n", text);
    ok(state_parse(more, &b), "what a newer shim wrote besides is skipped");
    memset(a.owner, 'o', sizeof(a.owner) - 1);
    ok(state_format(&a, text) && state_parse(text, &b) && strlen(b.owner) == INST_OWNER_MAX - 1, "the longest owner");
}

// Cut off at any byte it is no record: a torn file is never half believed.
static void state_torn(void)
{
    struct state_record a = sample(), b;
    char text[RECORD_MAX];
    int accepted = 0;
    ok(state_format(&a, text), "a state");
    size_t n = strlen(text);
    for (size_t k = 0; k < n; k++) {
        char cut[RECORD_MAX];
        memcpy(cut, text, k);
        cut[k] = '\0';
        accepted += state_parse(cut, &b);
    }
    is_int(accepted, 0, "cut off anywhere it is refused");
}

static void state_hostile(void)
{
    static const char *const bad[] = {
        "limpet-state 2\n",
        "limpet-state 1\nuid a\n",
        "\n",
        "limpet-exit 1\n",
        "limpet-state 1\nuid a\nowner o\nrevision r\nindex x\nshim 1 2\nchild 3 4\ntime b 1 2 1\n",
        "limpet-state 1\nuid a\nowner o\nrevision r\nindex 1\nshim -1 2\nchild 3 4\ntime b 1 2 1\n",
        "limpet-state 1\nuid a\nowner o\nrevision r\nindex 1\nshim 1\nchild 3 4\ntime b 1 2 1\n",
        "limpet-state 1\nuid a\nowner o\nrevision r\nindex 1\nshim 1 2 3\nchild 3 4\ntime b 1 2 1\n",
        "limpet-state 1\nuid a\nowner o\nrevision r\nindex 1\nshim 1 2\nchild 3 4\ntime b 1\n",
        "limpet-state 1\nuid 0123456789012345678901234567890123456789012345678901234567890123456789\nowner o\nindex 1\nshim 1 2\nchild 3 "
        "4\ntime b 1 2 1\n",
    };
    struct state_record b = { .index = 99 };
    for (size_t k = 0; k < ARRAY_LEN(bad); k++)
        ok(!state_parse(bad[k], &b) && b.index == 99, "refuses bad state %zu", k);
}

static void exit_round_trip(void)
{
    struct exit_record a = { .exit = { .known = true, .code = -1, .signal = 9, .reason = "Error", .detail = "signal 9 (Killed)" },
                             .ended = sample().started },
                       b;
    char text[RECORD_MAX];
    ok(exit_format(&a, text) && exit_parse(text, &b), "an exit is written and read");
    ok(b.exit.known && b.exit.code == -1 && b.exit.signal == 9 && b.exit.start_errno == 0, "with its numbers");
    is_str(b.exit.detail, "signal 9 (Killed)", "and its detail");
    a.exit = (struct inst_exit){ .known = true, .code = 0, .reason = "Completed" };
    ok(exit_format(&a, text) && exit_parse(text, &b) && b.exit.detail[0] == '\0', "an empty detail");
    ok(!exit_parse("limpet-exit 1\nknown 1\n", &b), "half an exit is refused");
}

static void files(void)
{
    char dir[] = "/tmp/record-test.XXXXXX", text[RECORD_MAX];
    struct stat st;
    ok(mkdtemp(dir) != NULL, "a directory");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    is_int(record_read(fd, "x", text), ENOENT, "nothing there");
    is_int(record_write(fd, "x", "hello\n"), 0, "written");
    is_int(record_write(fd, "x", "again\n"), 0, "over it");
    is_int(record_read(fd, "x", text), 0, "read");
    is_str(text, "again\n", "the whole");
    ok(fstatat(fd, "x", &st, 0) == 0 && (st.st_mode & 07777) == 0600, "for nobody else");
    ok(fstatat(fd, "x.new", &st, 0) != 0, "no temporary is left");
    static char big[RECORD_MAX + 2];
    memset(big, 'x', RECORD_MAX + 1);
    is_int(record_write(fd, "big", big), 0, "one that is too long");
    is_int(record_read(fd, "big", text), EFBIG, "is refused whole");
    ok(symlinkat("x", fd, "link") == 0, "a symlink");
    is_int(record_read(fd, "link", text), ELOOP, "is not followed");
    is_int(record_write(fd, "no/such", "x"), ENOENT, "nowhere to write");
    unlinkat(fd, "x", 0);
    unlinkat(fd, "big", 0);
    unlinkat(fd, "link", 0);
    close(fd);
    ok(rmdir(dir) == 0, "nothing else was left");
}

int main(void)
{
    state_round_trip();
    state_torn();
    state_hostile();
    exit_round_trip();
    files();
    return done_testing();
}
