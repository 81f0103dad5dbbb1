// SPDX-License-Identifier: Apache-2.0
#include "data/key.h"

#include <stdio.h>
#include <string.h>

int key_make(char out[KEY_MAX], const char *plural, const char *ns, const char *name, struct err *e)
{
    int n = snprintf(out, KEY_MAX, "%s/%s/%s", plural, ns != NULL ? ns : "", name);
    if (n < 0 || n >= KEY_MAX)
        return err_set(e, E_TOOBIG, "name too long: %s/%s/%s", plural, ns != NULL ? ns : "", name);
    return 0;
}

static bool take(const char **p, char sep, char *out, size_t max)
{
    const char *end = sep != '\0' ? strchr(*p, sep) : *p + strlen(*p);
    if (end == NULL || (size_t)(end - *p) >= max)
        return false;
    memcpy(out, *p, (size_t)(end - *p));
    out[end - *p] = '\0';
    *p = sep != '\0' ? end + 1 : end;
    return true;
}

int key_split(const char *key, struct key_parts *out, struct err *e)
{
    const char *p = key;
    if (!take(&p, '/', out->plural, sizeof(out->plural)) || !take(&p, '/', out->ns, sizeof(out->ns)) ||
        !take(&p, '\0', out->name, sizeof(out->name)) || out->plural[0] == '\0' || out->name[0] == '\0')
        return err_set(e, E_INVAL, "not a key: %s", key);
    return 0;
}
