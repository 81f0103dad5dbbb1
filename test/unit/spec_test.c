// SPDX-License-Identifier: Apache-2.0
#include "shim/spec.c"

#include "tap.h"

static void round_trip(void)
{
    static const char *const argv[] = { "prog", "", "two words", NULL }, *const env[] = { "A=1", "SECRET=x\ny", NULL };
    struct exec_env x = { .argv = argv, .env = env, .user = "nobody", .workdir = "/srv" };
    struct shim_spec h = { .uid = "a-1", .index = 4, .grace_ms = 77, .mark = "/run/x/i/a-1" }, got;
    struct spec_strings s;
    struct err e = ERR_INIT;
    int fd = -1;
    x.rlimits[0] = (struct rlimit_spec){ 7, 1, -1 };
    x.n_rlimits = 1;
    is_int(spec_write(&fd, &h, &x, &e), 0, "written");
    ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "close-on-exec");
    ok(spec_read(fd, &got), "read");
    ok(got.argc == 3 && got.envc == 3 && got.index == 4 && got.grace_ms == 77 && got.n_rlimits == 1 && got.rlimits[0].hard == -1,
       "its numbers");
    is_str(got.user, "nobody", "user");
    is_str(got.group, "", "no group");
    ok(spec_map(fd, &got, &s), "mapped");
    is_str(s.argv[0], "prog", "argv[0]");
    is_str(s.argv[1], "", "an empty argument");
    is_str(s.argv[2], "two words", "argv[2]");
    ok(s.argv[3] == NULL && s.env[3] == NULL, "ended by NULL");
    is_str(s.env[0], "_LIMPET_SHIM=/run/x/i/a-1", "its mark comes first");
    is_str(s.env[2], "SECRET=x\ny", "a value with a newline");
    is_str(s.workdir, "/srv", "working directory");
    free(s.argv);
    free(s.env);
    close(fd);
}

static void defaults(void)
{
    static const char *const argv[] = { "prog", NULL };
    struct exec_env x = { .argv = argv };
    struct shim_spec h = { .index = 0 }, got;
    struct spec_strings s;
    struct err e = ERR_INIT;
    int fd = -1;
    ok(spec_write(&fd, &h, &x, &e) == 0 && spec_read(fd, &got) && spec_map(fd, &got, &s), "a command that runs once");
    ok(got.envc == 1 && strncmp(s.env[0], "PATH=/", 6) == 0, "has PATH alone");
    is_str(s.workdir, "/", "and /");
    free(s.argv);
    free(s.env);
    close(fd);
}

static void refuses(void)
{
    static const char *const argv[] = { "prog", NULL }, *const none[] = { NULL };
    static const char *const no_value[] = { "TOPSECRET", NULL }, *const no_name[] = { "=x", NULL };
    static char user[100], huge[SPEC_STRINGS_MAX + 10];
    const char *much[] = { huge, NULL };
    struct shim_spec h = { .index = 0 };
    struct err e = ERR_INIT;
    int fd = -1;
    memset(user, 'u', sizeof(user) - 1);
    memset(huge, 'h', sizeof(huge) - 1);
    huge[1] = '=';
    struct exec_env x = { .argv = none };
    is_int(spec_write(&fd, &h, &x, &e), E_INVAL, "no command");
    x = (struct exec_env){ .argv = argv, .env = no_value };
    is_int(spec_write(&fd, &h, &x, &e), E_INVAL, "an entry without =");
    ok(strstr(e.msg, "TOPSECRET") == NULL, "which is not quoted: it may be a secret");
    x.env = no_name;
    is_int(spec_write(&fd, &h, &x, &e), E_INVAL, "an entry without a name");
    x = (struct exec_env){ .argv = argv, .user = user };
    is_int(spec_write(&fd, &h, &x, &e), E_INVAL, "a user that is too long");
    x = (struct exec_env){ .argv = argv, .n_rlimits = RLIMITS_MAX + 1 };
    is_int(spec_write(&fd, &h, &x, &e), E_INVAL, "too many limits");
    x = (struct exec_env){ .argv = argv, .env = much };
    is_int(spec_write(&fd, &h, &x, &e), E_TOOBIG, "more than 2 MiB");
    is_int(fd, -1, "nothing was made");
}

static void damaged(void)
{
    static const char *const argv[] = { "prog", NULL };
    struct exec_env x = { .argv = argv };
    struct shim_spec h = { .index = 0 }, got, bad;
    struct spec_strings s;
    struct err e = ERR_INIT;
    int fd = -1;
    ok(spec_write(&fd, &h, &x, &e) == 0 && spec_read(fd, &got), "a good one");
    bad = got;
    bad.magic[6] = '9';
    ok(pwrite(fd, &bad, sizeof(bad), 0) == sizeof(bad) && !spec_read(fd, &bad), "another version");
    bad = got;
    bad.size--;
    ok(pwrite(fd, &bad, sizeof(bad), 0) == sizeof(bad) && !spec_read(fd, &bad), "another size");
    bad = got;
    memset(bad.owner, 'o', sizeof(bad.owner));
    ok(pwrite(fd, &bad, sizeof(bad), 0) == sizeof(bad) && !spec_read(fd, &bad), "a text without its end");
    bad = got;
    bad.argc = 1000;
    ok(pwrite(fd, &bad, sizeof(bad), 0) == sizeof(bad) && spec_read(fd, &bad) && !spec_map(fd, &bad, &s), "more arguments than strings");
    bad = got;
    bad.argc = UINT32_MAX;
    ok(!spec_map(fd, &bad, &s), "arguments beyond all bounds");
    ok(ftruncate(fd, 10) == 0 && !spec_read(fd, &bad), "cut off");
    close(fd);
}

int main(void)
{
    round_trip();
    defaults();
    refuses();
    damaged();
    return done_testing();
}
