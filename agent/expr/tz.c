// SPDX-License-Identifier: Apache-2.0
#include "expr/tz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "expr/tz_priv.h"

#define ZONEINFO "/usr/share/zoneinfo/"
enum { FILE_MAX = 65536, NAME_MAX_LEN = 120 }; // the largest file of tzdata has 4 KiB, the longest name 32 bytes

// Far outside of what a file or a rule speaks of, and near enough that no sum overflows.
static const int64_t instant_max = INT64_C(1) << 39; // the year 19,391

static const struct tz_change *change_before(const struct tz *z, int64_t at_s)
{
    size_t low = 0, high = z->n; // change[low - 1] is not later, change[high] is
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (z->change[mid].at_s <= at_s)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? &z->change[low - 1] : NULL;
}

int tz_offset(const struct tz *z, int64_t at_s)
{
    if (z == NULL)
        return 0;
    if (z->ruled && (z->n == 0 || at_s >= z->change[z->n - 1].at_s))
        return tz_rule_offset(&z->rule, MIN(MAX(at_s, -instant_max), instant_max));
    const struct tz_change *c = change_before(z, at_s);
    return c != NULL ? c->offset : z->before;
}

int64_t tz_from_local(const struct tz *z, int64_t local_s)
{
    int guess = tz_offset(z, local_s);
    // Go looks a second time only when the first offset is not 0; it shows within hours of a change.
    return guess == 0 ? local_s : local_s - tz_offset(z, local_s - guess);
}

// --- loading

static int new_ruled(struct tz **out, const struct tz_rule *r, struct err *e)
{
    struct tz *z = calloc(1, sizeof *z);
    if (z == NULL)
        return err_set(e, E_NOMEM, "no memory for a time zone");
    z->ruled = true;
    z->rule = *r;
    *out = z;
    return 0;
}

// A name as tzdata makes them, which cannot leave the directory.
static bool is_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/";
    if (*name == '\0' || name[strspn(name, allowed)] != '\0' || strlen(name) > NAME_MAX_LEN)
        return false;
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += part != name;
        if (*part == '/' || *part == '-' || *part == '\0')
            return false;
    }
    return true;
}

// E_NOTFOUND also for a directory, such as "Europe".
static int load_file(struct tz **out, struct disk *d, const char *name, struct err *e)
{
    char path[sizeof ZONEINFO + NAME_MAX_LEN];
    struct buf data AUTO_BUF = BUF_INIT(FILE_MAX);
    struct fs_stat st;
    snprintf(path, sizeof path, ZONEINFO "%s", name);
    int rc = d->ops->stat(d, path, 0, &st, e);
    if (rc == 0 && st.type == FS_DIR)
        return err_set(e, E_NOTFOUND, "%s is a directory", path);
    if (rc == 0)
        rc = fs_read(d, path, FILE_MAX, 0, &data, e);
    if (rc != 0)
        return rc;
    rc = tz_parse_file(out, data.data, data.len, e);
    return rc == 0 ? 0 : err_wrap(e, "%s", path);
}

int tz_load(struct tz **out, struct disk *d, const char *name, struct err *e)
{
    struct tz_rule rule = { 0 };
    struct err scratch = ERR_INIT;
    if (strcmp(name, "UTC") == 0)
        return new_ruled(out, &rule, e);
    if (strcasecmp(name, "Local") == 0)
        return err_set(e, E_INVAL, "time zone \"%s\": name the place, this is a different one on each node", name);
    if (is_name(name)) {
        int rc = load_file(out, d, name, &scratch);
        if (rc == 0)
            return 0;
        if (rc != E_NOTFOUND)
            return err_set(e, rc, "time zone \"%s\": %s", name, scratch.msg);
    }
    if (tz_rule_parse(&rule, name, &scratch) == 0)
        return new_ruled(out, &rule, e);
    if (is_name(name))
        return err_set(e, E_NOTFOUND,
                       "time zone \"%s\": not in " ZONEINFO " of this machine; install tzdata, or give a POSIX TZ string such as "
                       "CET-1CEST,M3.5.0,M10.5.0/3",
                       name);
    return err_set(e, E_INVAL, "time zone: %s", scratch.msg);
}

void tz_free(struct tz *z)
{
    free(z);
}
