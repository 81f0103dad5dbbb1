// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK_INTENT "restart"

enum { MARK_MAX = 80 };

int app_mark_put(const struct kind_env *env, const char *key, struct err *e)
{
    char text[MARK_MAX];
    struct instant now;
    clock_instant(env->clock, &now);
    snprintf(text, sizeof(text), "%s %" PRId64, now.boot_id, now.boot_ms);
    return intent_put(env->db, key, MARK_INTENT, text, e);
}

static int read_text(struct db *db, const char *key, struct buf *text, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = intent_get(db, key, MARK_INTENT, text, &why);
    if (rc == 0 || rc == E_NOTFOUND)
        return 0;
    *e = why;
    return rc;
}

int app_mark_copy(struct db *db, const char *from, const char *to, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(MARK_MAX);
    int rc = read_text(db, from, &text, e);
    return rc == 0 ? intent_put(db, to, MARK_INTENT, buf_str(&text), e) : rc;
}

int app_mark_load(struct app_mark *m, struct db *db, const char *key, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(MARK_MAX);
    *m = (struct app_mark){ 0 };
    int rc = read_text(db, key, &text, e);
    if (rc == 0 && text.len > 0 && sscanf(buf_str(&text), "%36s %" SCNd64, m->boot_id, &m->boot_ms) != 2)
        *m = (struct app_mark){ 0 }; // damaged: nobody is restarted on doubt
    return rc;
}

int app_mark_delete(struct db *db, const char *key, struct err *e)
{
    return intent_delete(db, key, MARK_INTENT, e);
}

bool app_mark_outdates(const struct app_mark *m, const struct inst *i)
{
    return m->boot_id[0] != '\0' && strcmp(m->boot_id, i->started.boot_id) == 0 && i->started.boot_ms <= m->boot_ms;
}
