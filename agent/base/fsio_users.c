// SPDX-License-Identifier: Apache-2.0
// User and group names, from etc/passwd and etc/group below the root: the machine's own, also from inside a container, and without
// libc's plug-ins, which a static binary has not.
#include <string.h>

#include "base/fsio_real.h"

enum { FILE_MAX = 1 << 20 };

struct field {
    const char *p;
    size_t n;
};

static bool field_is(const struct field *f, const char *s)
{
    return strlen(s) == f->n && memcmp(f->p, s, f->n) == 0;
}

// Splits "a:b:c" up to the end of the line into at most n fields; returns how many there are, *next is the next line.
static size_t split_line(const char *line, struct field *f, size_t n, const char **next)
{
    const char *end = line + strcspn(line, "\n");
    size_t got = 0;
    *next = *end != '\0' ? end + 1 : end;
    while (got < n) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        f[got].p = line;
        f[got++].n = (size_t)((colon != NULL ? colon : end) - line);
        if (colon == NULL)
            break;
        line = colon + 1;
    }
    return got;
}

// A decimal id below UINT32_MAX, which stands for "none".
static bool parse_id(const char *p, size_t n, uint32_t *id)
{
    uint64_t v = 0;
    if (n == 0 || n > 10)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    if (v >= UINT32_MAX)
        return false;
    *id = (uint32_t)v;
    return true;
}

static bool is_digits(const char *s)
{
    return s[strspn(s, "0123456789")] == '\0';
}

struct entry {
    uint32_t id, gid;
};

// name:x:id:gid:..., of which a group has the first three. By name, or by id where the name is digits.
static bool find_entry(const char *text, const char *name, size_t fields, struct entry *out)
{
    uint32_t want_id = 0;
    bool by_id = parse_id(name, strlen(name), &want_id);
    while (*text != '\0') {
        struct field f[4];
        struct entry got = { 0, UINT32_MAX };
        size_t n = split_line(text, f, fields, &text);
        if (n < fields || !parse_id(f[2].p, f[2].n, &got.id))
            continue;
        if (fields > 3 && !parse_id(f[3].p, f[3].n, &got.gid))
            continue;
        if (by_id ? got.id != want_id : !field_is(&f[0], name))
            continue;
        *out = got;
        return true;
    }
    return false;
}

// E_NOTFOUND when there is no such entry, also when there is no such file.
static int look_up(struct disk *d, const char *file, const char *what, const char *name, size_t fields, struct entry *out, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
    struct err why = ERR_INIT;
    int r = fs_read(d, file, FILE_MAX, 0, &text, &why);
    if (r != 0 && r != E_NOTFOUND)
        return fs_fail(e, &why);
    if (r == 0 && find_entry(buf_str(&text), name, fields, out))
        return 0;
    return err_set(e, E_NOTFOUND, "no %s \"%s\" on this machine", what, name);
}

// Digits are an id whether or not anybody has it.
static int digits_id(const char *what, const char *name, uint32_t *id, struct err *e)
{
    if (parse_id(name, strlen(name), id))
        return 0;
    return err_set(e, E_INVAL, "%s id %s is out of range", what, name);
}

static int user_by_id(struct disk *d, const char *name, struct entry *out, struct err *e)
{
    int r = digits_id("user", name, &out->id, e);
    if (r != 0)
        return r;
    uint32_t id = out->id;
    struct err why = ERR_INIT;
    r = look_up(d, "/etc/passwd", "user", name, 4, out, &why);
    if (r == E_NOTFOUND) // an id needs no entry; only its group is then unknown
        *out = (struct entry){ id, UINT32_MAX };
    return r == 0 || r == E_NOTFOUND ? 0 : fs_fail(e, &why);
}

int fs_real_user(struct disk *d, const char *name, uint32_t *uid, uint32_t *gid, struct err *e)
{
    struct entry found = { UINT32_MAX, UINT32_MAX };
    int r = 0;
    if (name[0] != '\0')
        r = is_digits(name) ? user_by_id(d, name, &found, e) : look_up(d, "/etc/passwd", "user", name, 4, &found, e);
    if (r != 0)
        return r;
    *uid = found.id;
    *gid = found.gid;
    return 0;
}

int fs_real_group(struct disk *d, const char *name, uint32_t *gid, struct err *e)
{
    struct entry found = { UINT32_MAX, UINT32_MAX };
    int r = 0;
    if (is_digits(name) && name[0] != '\0')
        r = digits_id("group", name, &found.id, e);
    else if (name[0] != '\0')
        r = look_up(d, "/etc/group", "group", name, 3, &found, e);
    if (r == 0)
        *gid = found.id;
    return r;
}
