// SPDX-License-Identifier: Apache-2.0
#include "unpack/tar.h"

#include <string.h>

// Where the fields of a header lie.
enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_SIZE = 124,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
    LEN_NAME = 100,
    LEN_PREFIX = 155,
    LEN_MODE = 8,
    LEN_SIZE = 12,
    LEN_SUM = 8,
};

#define SIZE_LIMIT (INT64_C(1) << 50) // of one entry; far from where sums overflow

void tar_init(struct tar_reader *r, const struct tar_sink *sink)
{
    *r = (struct tar_reader){ .sink = sink };
}

void tar_fini(struct tar_reader *r)
{
    free(steal(r->extended));
}

// --- Numbers and names

// Octal, blanks around it; or GNU's binary form, whose first bit is set.
static int read_number(const unsigned char *p, size_t n, int64_t *out, struct err *e)
{
    int64_t v = 0;
    size_t i = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (v > SIZE_LIMIT)
                return err_set(e, E_TOOBIG, "tar: a number is out of range");
            v = v * 256 + p[i];
        }
        *out = v;
        return 0;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v * 8 + (p[i] - '0'); // twelve digits: 36 bits
    if (i < n && p[i] != ' ' && p[i] != '\0')
        return err_set(e, E_CORRUPT, "tar: a field is not a number");
    *out = v;
    return 0;
}

int tar_clean_name(const char *name, char out[TAR_NAME_MAX], struct err *e)
{
    size_t len = 0;
    if (name[0] == '/')
        return err_set(e, E_INVAL, "tar: absolute name %.200s", name);
    for (size_t n; *name != '\0'; name += n) {
        name += strspn(name, "/");
        n = strcspn(name, "/");
        if (n == 2 && memcmp(name, "..", 2) == 0)
            return err_set(e, E_INVAL, "tar: a name with \"..\"");
        if (n == 0 || (n == 1 && name[0] == '.'))
            continue;
        if (n > 255 || len + n + 2 > TAR_NAME_MAX)
            return err_set(e, E_TOOBIG, "tar: a name is too long");
        if (len > 0)
            out[len++] = '/';
        memcpy(out + len, name, n);
        len += n;
    }
    out[len] = '\0';
    return 0;
}

static int64_t sum_of(const unsigned char *b)
{
    int64_t sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= AT_SUM && i < AT_SUM + LEN_SUM ? ' ' : b[i];
    return sum;
}

static bool is_zero(const unsigned char *b)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (b[i] != 0)
            return false;
    return true;
}

// --- Extended headers: kept whole, then read

static int begin_extended(struct tar_reader *r, enum tar_use use, size_t max, struct err *e)
{
    if (r->left > (int64_t)max)
        return err_set(e, E_TOOBIG, "tar: an extended header of more than %zu bytes", max);
    free(steal(r->extended));
    r->extended = malloc((size_t)r->left + 1);
    if (r->extended == NULL)
        return err_set(e, E_NOMEM, "tar: extended header");
    r->extended_len = 0;
    r->use = use;
    return 0;
}

static int keep_text(char out[TAR_NAME_MAX], const char *text, size_t n, struct err *e)
{
    if (n >= TAR_NAME_MAX)
        return err_set(e, E_TOOBIG, "tar: a name is too long");
    if (memchr(text, '\0', n) != NULL)
        return err_set(e, E_CORRUPT, "tar: a name with a NUL in it");
    memcpy(out, text, n);
    out[n] = '\0';
    return 0;
}

static int keep_size(struct tar_reader *r, const char *text, size_t n, struct err *e)
{
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return err_set(e, E_CORRUPT, "tar: pax size is not a number");
        v = v * 10 + (text[i] - '0');
        if (v > SIZE_LIMIT)
            return err_set(e, E_TOOBIG, "tar: a file is too large");
    }
    r->size = v;
    r->has_size = true;
    return 0;
}

static bool is_key(const char *text, size_t n, const char *key)
{
    return n == strlen(key) && memcmp(text, key, n) == 0;
}

static int take_pax(struct tar_reader *r, const char *key, size_t key_len, const char *value, size_t n, struct err *e)
{
    int rc = 0;
    if (is_key(key, key_len, "path")) {
        rc = keep_text(r->name, value, n, e);
        r->has_name = rc == 0;
    } else if (is_key(key, key_len, "linkpath")) {
        rc = keep_text(r->target, value, n, e);
        r->has_target = rc == 0;
    } else if (is_key(key, key_len, "size")) {
        rc = keep_size(r, value, n, e);
    } else if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        rc = err_set(e, E_UNSUP, "tar: sparse files are not unpacked");
    }
    return rc;
}

// "LENGTH KEY=VALUE\n", the length counts all of it.
static int read_pax(struct tar_reader *r, struct err *e)
{
    const char *p = r->extended, *end = p + r->extended_len;
    while (p < end) {
        size_t len = 0, digits = 0;
        for (; p + digits < end && p[digits] >= '0' && p[digits] <= '9' && digits < 6; digits++)
            len = len * 10 + (size_t)(p[digits] - '0');
        const char *record = p + digits + 1;
        if (digits == 0 || len < digits + 4 || len > (size_t)(end - p) || p[digits] != ' ' || p[len - 1] != '\n')
            return err_set(e, E_CORRUPT, "tar: damaged pax header");
        const char *value = memchr(record, '=', len - digits - 2);
        if (value == NULL)
            return err_set(e, E_CORRUPT, "tar: damaged pax header");
        int rc = take_pax(r, record, (size_t)(value - record), value + 1, (size_t)(p + len - 1 - (value + 1)), e);
        if (rc < 0)
            return rc;
        p += len;
    }
    return 0;
}

static int read_extended(struct tar_reader *r, struct err *e)
{
    int rc;
    r->extended[r->extended_len] = '\0';
    if (r->use == TAR_USE_PAX)
        return read_pax(r, e);
    if (r->use == TAR_USE_LONG_NAME) {
        rc = keep_text(r->name, r->extended, strlen(r->extended), e);
        r->has_name = rc == 0;
    } else {
        rc = keep_text(r->target, r->extended, strlen(r->extended), e);
        r->has_target = rc == 0;
    }
    return rc;
}

// --- Entries

static void header_name(const struct tar_reader *r, char out[TAR_NAME_MAX])
{
    const char *b = (const char *)r->block;
    size_t n = 0;
    if (memcmp(b + AT_MAGIC, "ustar\0", 6) == 0 && b[AT_PREFIX] != '\0') {
        n = strnlen(b + AT_PREFIX, LEN_PREFIX);
        memcpy(out, b + AT_PREFIX, n);
        out[n++] = '/';
    }
    size_t m = strnlen(b + AT_NAME, LEN_NAME);
    memcpy(out + n, b + AT_NAME, m);
    out[n + m] = '\0';
}

static int type_of(unsigned char flag, enum tar_type *out, struct err *e)
{
    switch (flag) {
    case '0':
    case '\0':
    case '7':
        *out = TAR_FILE;
        return 0;
    case '1':
        *out = TAR_HARDLINK;
        return 0;
    case '2':
        *out = TAR_SYMLINK;
        return 0;
    case '5':
        *out = TAR_DIR;
        return 0;
    case '3':
    case '4':
    case '6':
        return err_set(e, E_UNSUP, "tar: devices and FIFOs are not unpacked");
    case 'S':
        return err_set(e, E_UNSUP, "tar: sparse files are not unpacked");
    default:
        return err_set(e, E_UNSUP, "tar: an entry of type 0x%02x is not unpacked", flag);
    }
}

static int take_target(const struct tar_reader *r, struct tar_entry *t, char raw[TAR_NAME_MAX], char clean[TAR_NAME_MAX], struct err *e)
{
    size_t n = strnlen((const char *)r->block + AT_LINK, LEN_NAME);
    memcpy(raw, r->block + AT_LINK, n);
    raw[n] = '\0';
    t->target = r->has_target ? r->target : raw;
    if (t->type != TAR_HARDLINK)
        return 0;
    int rc = tar_clean_name(t->target, clean, e);
    t->target = clean;
    return rc;
}

static void forget_extended(struct tar_reader *r)
{
    r->has_name = r->has_target = r->has_size = false;
    free(steal(r->extended));
}

static int take_entry(struct tar_reader *r, int64_t mode, struct err *e)
{
    char raw[TAR_NAME_MAX], name[TAR_NAME_MAX], raw_target[TAR_NAME_MAX], target[TAR_NAME_MAX];
    struct tar_entry t = { .name = name, .mode = (uint32_t)mode & 07777 };
    int rc = type_of(r->block[AT_TYPE], &t.type, e);
    if (rc < 0)
        return rc;
    header_name(r, raw);
    const char *given = r->has_name ? r->name : raw;
    size_t len = strlen(given);
    if (t.type == TAR_FILE && len > 0 && given[len - 1] == '/')
        t.type = TAR_DIR; // as archives from before ustar have it
    rc = tar_clean_name(given, name, e);
    if (rc == 0)
        rc = take_target(r, &t, raw_target, target, e);
    if (rc < 0)
        return rc;
    if (t.type != TAR_DIR && name[0] == '\0')
        return err_set(e, E_INVAL, "tar: an entry without a name");
    t.size = t.type == TAR_FILE ? r->left : 0;
    r->use = t.type == TAR_FILE ? TAR_USE_DATA : TAR_USE_SKIP;
    rc = r->sink->entry(r->sink->ctx, &t, e);
    forget_extended(r);
    return rc;
}

static int take_header(struct tar_reader *r, struct err *e)
{
    int64_t sum, size, mode;
    if (is_zero(r->block)) {
        r->ended = true;
        return r->has_name || r->has_target || r->has_size ? err_set(e, E_CORRUPT, "tar: an extended header of nothing") : 0;
    }
    int rc = read_number(r->block + AT_SUM, LEN_SUM, &sum, e);
    if (rc == 0 && sum != sum_of(r->block))
        rc = err_set(e, E_CORRUPT, "tar: no tar archive, or a damaged one: a header has a wrong checksum");
    if (rc == 0)
        rc = read_number(r->block + AT_SIZE, LEN_SIZE, &size, e);
    if (rc == 0)
        rc = read_number(r->block + AT_MODE, LEN_MODE, &mode, e);
    if (rc < 0)
        return rc;
    unsigned char type = r->block[AT_TYPE];
    bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    r->left = r->has_size && !extended ? r->size : size;
    if (r->left > SIZE_LIMIT)
        return err_set(e, E_TOOBIG, "tar: a file is too large");
    r->padding = (size_t)((TAR_BLOCK - r->left % TAR_BLOCK) % TAR_BLOCK);
    r->use = TAR_USE_SKIP;
    switch (type) {
    case 'g': // for all that follow: comments, times
        return 0;
    case 'x':
        return begin_extended(r, TAR_USE_PAX, TAR_EXTENDED_MAX, e);
    case 'L':
        return begin_extended(r, TAR_USE_LONG_NAME, TAR_NAME_MAX, e);
    case 'K':
        return begin_extended(r, TAR_USE_LONG_LINK, TAR_NAME_MAX, e);
    default:
        return take_entry(r, mode, e);
    }
}

// --- Bytes

static int end_data(struct tar_reader *r, struct err *e)
{
    enum tar_use use = r->use;
    int rc = 0;
    if (use == TAR_USE_DATA)
        rc = r->sink->end(r->sink->ctx, e);
    else if (use == TAR_USE_PAX || use == TAR_USE_LONG_NAME || use == TAR_USE_LONG_LINK)
        rc = read_extended(r, e);
    r->use = TAR_USE_NONE;
    return rc;
}

static int feed_header(struct tar_reader *r, const unsigned char **p, size_t *n, struct err *e)
{
    size_t take = MIN(*n, TAR_BLOCK - r->filled);
    memcpy(r->block + r->filled, *p, take);
    r->filled += take;
    *p += take;
    *n -= take;
    if (r->filled < TAR_BLOCK)
        return 0;
    r->filled = 0;
    int rc = take_header(r, e);
    return rc == 0 && r->left == 0 && r->use != TAR_USE_NONE ? end_data(r, e) : rc;
}

static int feed_data(struct tar_reader *r, const unsigned char **p, size_t *n, struct err *e)
{
    size_t take = (size_t)MIN((int64_t)*n, r->left);
    int rc = 0;
    if (r->use == TAR_USE_DATA)
        rc = r->sink->data(r->sink->ctx, *p, take, e);
    else if (r->use != TAR_USE_SKIP) {
        memcpy(r->extended + r->extended_len, *p, take);
        r->extended_len += take;
    }
    r->left -= (int64_t)take;
    *p += take;
    *n -= take;
    return rc == 0 && r->left == 0 ? end_data(r, e) : rc;
}

int tar_feed(struct tar_reader *r, const void *bytes, size_t n, struct err *e)
{
    const unsigned char *p = bytes;
    int rc = 0;
    while (n > 0 && rc == 0 && !r->ended) {
        if (r->left > 0) {
            rc = feed_data(r, &p, &n, e);
        } else if (r->padding > 0) {
            size_t take = MIN(n, r->padding);
            r->padding -= take;
            p += take;
            n -= take;
        } else {
            rc = feed_header(r, &p, &n, e);
        }
    }
    return rc;
}

int tar_finish(struct tar_reader *r, struct err *e)
{
    return r->ended ? 0 : err_set(e, E_CORRUPT, "tar: the archive ends before its end: it is truncated");
}
