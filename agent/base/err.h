// SPDX-License-Identifier: Apache-2.0
// err — what went wrong, as a class that chooses what to do and a text that says where.
//
// A fixed record on the caller's stack: no heap, nothing to free. Success leaves it untouched.
// An error is logged once, by the function that handles it; everybody else wraps and returns it.
// Not an exception mechanism and not errno: a class is chosen by what the caller should do about it.
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdint.h>

// The classes. flow/action.c has the one table from class to what the queue does.
enum err_class {
    E_INVAL = -1,     // the input is wrong and stays wrong until somebody changes it
    E_NOTFOUND = -2,  // proven absent (404, ENOENT); never a guess
    E_CONFLICT = -3,  // somebody else was first (409 on a resourceVersion)
    E_GONE = -4,      // the resourceVersion is too old (410)
    E_AUTH = -5,      // not authenticated (401)
    E_FORBIDDEN = -6, // authenticated, not allowed (403, EACCES, EPERM)
    E_OFFLINE = -7,   // the other side cannot be reached
    E_TIMEOUT = -8,   // no answer in time
    E_BUSY = -9,      // asked to come back later (429, 503, EAGAIN); see retry_after_ms
    E_IO = -10,       // the disk or a pipe failed
    E_NOSPC = -11,    // no space left
    E_NOMEM = -12,    // no memory
    E_UNSUP = -13,    // this build, platform or server cannot do it
    E_TERMINAL = -14, // will not work again without a change; do not retry
    E_EXISTS = -15,   // already there (409 AlreadyExists, EEXIST)
    E_TOOBIG = -16,   // over a stated bound; refused whole
    E_CORRUPT = -17,  // the bytes are damaged or truncated
    E_CANCELED = -18, // the caller took it back
    E_SERVER = -19,   // the server failed (5xx other than 503)
    E_CLASS_LAST = -19
};

enum { ERR_MSG_MAX = 400 };

struct err {
    int cls;                // an enum err_class, 0 when unset
    int sys;                // errno behind it, 0 when none
    int http;               // HTTP status behind it, 0 when none
    int64_t retry_after_ms; // > 0: the other side asked for this much patience
    char msg[ERR_MSG_MAX];  // one line of UTF-8, always terminated; a longer text ends in "...", control characters become blanks
};

#define ERR_INIT ((struct err){ 0 })
#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

// Sets class and text; returns the class, so that it can be a tail call. `e` may be NULL.
int err_set(struct err *e, int cls, const char *fmt, ...) PRINTF_LIKE(3, 4);

// The same from an errno: "<text>: <strerror>". The class follows from the errno (ENOENT -> E_NOTFOUND, ENOSPC/EDQUOT/EFBIG ->
// E_NOSPC, ENOMEM -> E_NOMEM, EACCES/EPERM/EROFS -> E_FORBIDDEN, EEXIST -> E_EXISTS, ETIMEDOUT -> E_TIMEOUT,
// EAGAIN/EBUSY -> E_BUSY, ECONN*/ENET*/EHOST* -> E_OFFLINE, EINVAL/ENAMETOOLONG/ENOTDIR/EISDIR/ELOOP -> E_INVAL, else E_IO).
int err_sys(struct err *e, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Prefixes context ("<text>: <old message>"), keeps everything else; returns the class (E_IO when `e` is NULL: it held it).
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

// "NotFound", "Timeout", ... : the word used in logs, conditions and metrics. Never NULL.
const char *err_word(int cls);

// The class that an errno maps to.
int err_class_of_errno(int errnum);

#endif
