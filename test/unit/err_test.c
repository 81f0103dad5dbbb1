// SPDX-License-Identifier: Apache-2.0
#include "base/err.c"

#include "base/util.h"
#include "tap.h"

static void test_set(void)
{
    struct err e = ERR_INIT;
    is_int(err_set(&e, E_CONFLICT, "patch %s: %d", "a/b", 409), E_CONFLICT, "err_set returns its class");
    is_int(e.cls, E_CONFLICT, "and records it");
    is_str(e.msg, "patch a/b: 409", "and the text");
    is_int(err_set(NULL, E_BUSY, "x"), E_BUSY, "without a record the class is still returned");

    e.sys = 5;
    e.http = 500;
    e.retry_after_ms = 1000;
    err_set(&e, E_INVAL, "new");
    ok(e.sys == 0 && e.http == 0 && e.retry_after_ms == 0, "a new error keeps nothing of the old one");
}

static void test_sys(void)
{
    struct err e = ERR_INIT;
    is_int(err_sys(&e, ENOENT, "/etc/%s", "x"), E_NOTFOUND, "ENOENT is NotFound");
    is_str(e.msg, "/etc/x: No such file or directory", "text and reason");
    is_int(e.sys, ENOENT, "errno is kept");
    is_int(err_sys(NULL, ENOSPC, "x"), E_NOSPC, "without a record the class is still returned");

    char longer[600];
    memset(longer, 'p', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    err_sys(&e, ENOENT, "%s", longer);
    ok(strstr(e.msg, ": No such file or directory") != NULL, "a long path does not push the reason out");
}

static void test_wrap(void)
{
    struct err e = ERR_INIT;
    err_sys(&e, EACCES, "open");
    e.http = 403;
    e.retry_after_ms = 7;
    is_int(err_wrap(&e, "applying %s", "k"), E_FORBIDDEN, "wrapping keeps the class");
    is_str(e.msg, "applying k: open: Permission denied", "context comes first");
    ok(e.sys == EACCES && e.http == 403 && e.retry_after_ms == 7, "and everything else stays");
    err_set(&e, e.cls, "again: %s", e.msg);
    is_str(e.msg, "again: applying k: open: Permission denied", "the old text may be an argument of the new one");
    ok(err_wrap(NULL, "x") < 0, "wrapping nothing is an error all the same");
}

static void test_length(void)
{
    struct err e = ERR_INIT;
    char text[ERR_MSG_MAX + 300];
    for (size_t n = ERR_MSG_MAX - 2; n <= ERR_MSG_MAX + 1; n++) {
        memset(text, 'a', n);
        text[n] = '\0';
        err_set(&e, E_INVAL, "%s", text);
        bool fits = n < ERR_MSG_MAX;
        is_int(strlen(e.msg), MIN(n, (size_t)ERR_MSG_MAX - 1), "%zu bytes in", n);
        is_int(strcmp(e.msg + strlen(e.msg) - 3, "...") == 0, !fits, "%zu bytes end in ... only when cut", n);
    }
    // Two-byte characters: at one of two offsets the bound lies inside one.
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 1 < sizeof(text); i += 2)
            memcpy(text + i, "\xc3\xa4", 2);
        text[(sizeof(text) - 1 - shift) / 2 * 2 + shift] = '\0';
        err_set(&e, E_INVAL, "%s", text);
        ok(utf8_valid(e.msg, strlen(e.msg)), "cut between characters, shift %zu", shift);
        ok(strchr(e.msg, '?') == NULL, "nothing was taken for damage, shift %zu", shift);
    }
    memset(text, 'b', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    err_set(&e, E_INVAL, "end");
    err_wrap(&e, "%s", text);
    is_str(e.msg + strlen(e.msg) - 3, "...", "a context too long by itself is cut");
    for (int i = 0; i < 200; i++)
        err_wrap(&e, "round %d", i);
    ok(strlen(e.msg) < ERR_MSG_MAX, "200 contexts stay inside");
}

static void test_damage(void)
{
    struct err e = ERR_INIT;
    err_set(&e, E_INVAL, "%s",
            "a\xff"
            "b\xc3(\xe2\x82z\xed\xa0\x80");
    ok(utf8_valid(e.msg, strlen(e.msg)), "damaged bytes do not pass");
    is_str(e.msg, "a?b?(??z???", "each becomes a ?");
    err_set(&e, E_INVAL, "%s", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
    is_str(e.msg, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "well-formed ones do");
    err_set(&e, E_INVAL, "%s",
            "two\nlines\r \x1b[2J\x7f \xc2\x9b"
            "2J");
    is_str(e.msg, "two lines   [2J    2J", "control characters, C1 too, become blanks");
}

static void test_words(void)
{
    const char *seen[32] = { NULL };
    for (int cls = -1; cls >= E_CLASS_LAST; cls--) {
        const char *w = err_word(cls);
        bool fresh = strcmp(w, "Unknown") != 0;
        for (int i = 1; i < -cls; i++)
            fresh = fresh && strcmp(w, seen[i]) != 0;
        ok(fresh, "class %d has its own word (%s)", cls, w);
        seen[-cls] = w;
    }
    const int none[] = { 0, 1, E_CLASS_LAST - 1, INT32_MIN, INT32_MAX };
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        is_str(err_word(none[i]), "Unknown", "class %d has none", none[i]);
}

static void test_errno(void)
{
    static const struct {
        int no, cls;
    } t[] = {
        { ENOENT, E_NOTFOUND },
        { ENOSPC, E_NOSPC },
        { EDQUOT, E_NOSPC },
        { ENOMEM, E_NOMEM },
        { EACCES, E_FORBIDDEN },
        { EPERM, E_FORBIDDEN },
        { EROFS, E_FORBIDDEN },
        { EEXIST, E_EXISTS },
        { ETIMEDOUT, E_TIMEOUT },
        { EAGAIN, E_BUSY },
        { EBUSY, E_BUSY },
        { ECONNREFUSED, E_OFFLINE },
        { ECONNRESET, E_OFFLINE },
        { ENETUNREACH, E_OFFLINE },
        { EHOSTUNREACH, E_OFFLINE },
        { ENETDOWN, E_OFFLINE },
        { EINVAL, E_INVAL },
        { ENAMETOOLONG, E_INVAL },
        { ENOTDIR, E_INVAL },
        { EISDIR, E_INVAL },
        { ELOOP, E_INVAL },
        { EIO, E_IO },
        { EMFILE, E_IO },
        { 99999, E_IO },
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        is_int(err_class_of_errno(t[i].no), t[i].cls, "errno %d is %s", t[i].no, err_word(t[i].cls));
}

int main(void)
{
    test_set();
    test_sys();
    test_wrap();
    test_length();
    test_damage();
    test_words();
    test_errno();
    return done_testing();
}
