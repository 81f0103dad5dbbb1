// SPDX-License-Identifier: Apache-2.0
// tap — checks for test programs, written as TAP (the Test Anything Protocol).
//
// A test program is one file, test/unit/NAME_test.c, that includes the .c it tests (so that its statics can be reached), has a main()
// and ends it with `return done_testing();`. The build finds it by its name. A check that fails prints its file and line and the
// program goes on; use `if (!ok(...)) return ...;` where going on makes no sense. A program that ends without done_testing() has
// failed, whatever it printed.
//
//     #include "base/buf.c"
//     #include "tap.h"
//
//     int main(void)
//     {
//         is_int(buf_len(&b), 3, "three bytes");
//         return done_testing();
//     }
//
// Not thread-safe; a forked child must not check (it would print into its parent's numbering).
#ifndef TEST_TAP_H
#define TEST_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int tap_run, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool cond, const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    tap_run++;
    printf("%sok %d - ", cond ? "" : "not ", tap_run);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    if (!cond) {
        tap_failed++;
        printf("#   at %s:%d\n", file, line);
    }
    fflush(stdout);
    return cond;
}

// Text on one line, so that a diagnostic stays a comment.
__attribute__((unused)) static void tap_quote(const char *label, const char *s)
{
    printf("#   %s: ", label);
    if (!s) {
        printf("NULL\n");
        return;
    }
    putchar('"');
    for (; *s; s++) {
        if (*s == '\n')
            printf("\\n");
        else if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20 || *s == 0x7f)
            printf("\\x%02x", (unsigned char)*s);
        else
            putchar(*s);
    }
    printf("\"\n");
}

__attribute__((unused)) static void tap_got_int(intmax_t got, intmax_t want)
{
    printf("#   got:  %" PRIdMAX "\n#   want: %" PRIdMAX "\n", got, want);
    fflush(stdout);
}

__attribute__((unused)) static void tap_got_str(const char *got, const char *want)
{
    tap_quote("got ", got);
    tap_quote("want", want);
    fflush(stdout);
}

__attribute__((unused)) static bool tap_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

// Each is an expression, true when the check holds. The rest is a name for the check, printf-like.
#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define fail(...) tap_ok(false, __FILE__, __LINE__, __VA_ARGS__)

#define is_int(got, want, ...)                                                \
    ({                                                                        \
        intmax_t tap_g = (intmax_t)(got), tap_w = (intmax_t)(want);           \
        bool tap_r = tap_ok(tap_g == tap_w, __FILE__, __LINE__, __VA_ARGS__); \
        if (!tap_r)                                                           \
            tap_got_int(tap_g, tap_w);                                        \
        tap_r;                                                                \
    })

// NULL equals NULL only.
#define is_str(got, want, ...)                                                        \
    ({                                                                                \
        const char *tap_g = (got), *tap_w = (want);                                   \
        bool tap_r = tap_ok(tap_same(tap_g, tap_w), __FILE__, __LINE__, __VA_ARGS__); \
        if (!tap_r)                                                                   \
            tap_got_str(tap_g, tap_w);                                                \
        tap_r;                                                                        \
    })

// True when `needle` is somewhere in `got`.
#define has_str(got, needle, ...)                                                            \
    ({                                                                                       \
        const char *tap_g = (got), *tap_w = (needle);                                        \
        bool tap_r = tap_ok(tap_g && strstr(tap_g, tap_w), __FILE__, __LINE__, __VA_ARGS__); \
        if (!tap_r)                                                                          \
            tap_got_str(tap_g, tap_w);                                                       \
        tap_r;                                                                               \
    })

__attribute__((format(printf, 1, 2), unused)) static void diag(const char *fmt, ...)
{
    va_list ap;

    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
}

// A check that cannot be made here, and why. It is counted and shown, never passed.
__attribute__((format(printf, 1, 2), unused)) static void skip(const char *fmt, ...)
{
    va_list ap;

    tap_run++;
    printf("ok %d # SKIP ", tap_run);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
}

// Prints the plan; the exit code for main().
__attribute__((unused)) static int done_testing(void)
{
    printf("1..%d\n", tap_run);
    fflush(stdout);
    return tap_failed != 0 || tap_run == 0;
}

#endif
