// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

// C0 and C1 controls, which act on a terminal and break lines.
static bool is_control(const char *s, size_t len)
{
    unsigned char c = (unsigned char)s[0];
    return c < 0x20 || c == 0x7f || (len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0);
}

// Texts quote paths, server replies and what programs print: a damaged byte in one of them must not travel into JSON, a control
// character not to a terminal. An error is one line.
static void copy_text(struct err *e, const char *text)
{
    size_t n = strlen(text);
    bool cut = n >= sizeof(e->msg);
    if (cut)
        n = utf8_cut(text, sizeof(e->msg) - sizeof("..."));
    size_t i = 0;
    while (i < n) {
        size_t len = utf8_seq(text + i, n - i);
        bool control = is_control(text + i, len);
        if (len == 0)
            e->msg[i++] = '?';
        else
            for (; len > 0; len--, i++)
                e->msg[i] = control ? ' ' : text[i];
    }
    memcpy(e->msg + n, cut ? "..." : "", cut ? sizeof("...") : 1);
}

// More than msg holds, so that copy_text() sees what was too long; formatted aside because an argument may be e->msg.
enum { TEXT_MAX = 2 * ERR_MSG_MAX + 8 };

int err_set(struct err *e, int cls, const char *fmt, ...)
{
    if (e == NULL)
        return cls;
    char text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    *e = (struct err){ .cls = cls };
    copy_text(e, text);
    return cls;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    int cls = err_class_of_errno(errnum);
    if (e == NULL)
        return cls;
    char what[TEXT_MAX], text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    // The reason is the part that must survive a long path.
    snprintf(text, sizeof(text), "%.*s: %s", (int)utf8_cut(what, strnlen(what, ERR_MSG_MAX - 80)), what, strerror(errnum));
    *e = (struct err){ .cls = cls, .sys = errnum };
    copy_text(e, text);
    return cls;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (e == NULL)
        return E_IO;
    char text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= 0 && n < ERR_MSG_MAX)
        snprintf(text + n, sizeof(text) - (size_t)n, ": %s", e->msg);
    copy_text(e, text);
    return e->cls;
}

static const char *const words[] = {
    [-E_INVAL] = "Invalid",     [-E_NOTFOUND] = "NotFound",   [-E_CONFLICT] = "Conflict",    [-E_GONE] = "Gone",
    [-E_AUTH] = "Unauthorized", [-E_FORBIDDEN] = "Forbidden", [-E_OFFLINE] = "Offline",      [-E_TIMEOUT] = "Timeout",
    [-E_BUSY] = "Busy",         [-E_IO] = "IOError",          [-E_NOSPC] = "NoSpace",        [-E_NOMEM] = "NoMemory",
    [-E_UNSUP] = "Unsupported", [-E_TERMINAL] = "Terminal",   [-E_EXISTS] = "AlreadyExists", [-E_TOOBIG] = "TooLarge",
    [-E_CORRUPT] = "Corrupt",   [-E_CANCELED] = "Canceled",   [-E_SERVER] = "ServerError",
};

const char *err_word(int cls)
{
    if (cls >= 0 || cls < E_CLASS_LAST)
        return "Unknown";
    return words[-cls];
}

int err_class_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return E_NOTFOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return E_NOSPC;
    case ENOMEM:
        return E_NOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return E_FORBIDDEN;
    case EEXIST:
        return E_EXISTS;
    case ETIMEDOUT:
        return E_TIMEOUT;
    case EAGAIN:
    case EBUSY:
        return E_BUSY;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
        return E_OFFLINE;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
        return E_INVAL;
    default:
        return E_IO;
    }
}
