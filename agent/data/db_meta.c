// SPDX-License-Identifier: Apache-2.0
// Small named values, and those that wait for a transaction somebody else needs.
#include <stdio.h>
#include <string.h>

#include "data/db_priv.h"

struct lazy_meta {
    struct list link;
    char *value;
    bool written; // in the transaction that is open
    char name[];
};

static struct lazy_meta *find(struct db *db, const char *name)
{
    list_each(it, &db->metas) {
        struct lazy_meta *m = container_of(it, struct lazy_meta, link);
        if (strcmp(m->name, name) == 0)
            return m;
    }
    return NULL;
}

static void drop(struct db *db, struct lazy_meta *m)
{
    list_del(&m->link);
    db->n_metas--;
    free(m->value);
    free(m);
}

void db_metas_free(struct db *db)
{
    list_each_safe(it, next, &db->metas)
        drop(db, container_of(it, struct lazy_meta, link));
}

// --- In the table

static int put(struct db *db, const char *name, const char *value, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "INSERT INTO meta(name,value,crc) VALUES(?1,?2,row_crc('meta',?1,?2))"
                                    " ON CONFLICT(name) DO UPDATE SET value=excluded.value,crc=excluded.crc");
    db_bind_text(s, 1, name);
    db_bind_text(s, 2, value);
    return db_run(s, e);
}

static int take_away(struct db *db, const char *name, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "SELECT 1 FROM meta WHERE name=?1");
    db_bind_text(s, 1, name);
    int r = db_step(s, e);
    if (r != 1) // nothing there: nothing to write
        return r;
    db_done(s);
    s = db_stmt(db, "DELETE FROM meta WHERE name=?1");
    db_bind_text(s, 1, name);
    return db_run(s, e);
}

int db_meta_set(struct db *db, const char *name, const char *value, struct err *e)
{
    struct lazy_meta *m = find(db, name);
    if (m != NULL)
        drop(db, m);
    return value != NULL ? put(db, name, value, e) : take_away(db, name, e);
}

static int copy_out(const char *name, const char *value, char *out, size_t max, struct err *e)
{
    int n = snprintf(out, max, "%s", value);
    return (size_t)n < max ? 0 : err_set(e, E_TOOBIG, "store: %s has %d bytes, %zu are expected at most", name, n, max - 1);
}

int db_meta_get(struct db *db, const char *name, char *out, size_t max, struct err *e)
{
    struct lazy_meta *m = find(db, name);
    if (m != NULL)
        return copy_out(name, m->value, out, max, e);
    struct db_stmt *s = db_stmt(db, "SELECT value,crc=row_crc('meta',name,value) FROM meta WHERE name=?1");
    db_bind_text(s, 1, name);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "store has no %s", name) : r;
    r = db_int(s, 1) == 0 ? db_bad_row(db, "meta", name, e) : copy_out(name, db_text(s, 0), out, max, e);
    db_done(s);
    return r;
}

// --- Waiting

static int wait_new(struct db *db, const char *name, const char *value, struct err *e)
{
    size_t n = strlen(name) + 1;
    struct lazy_meta *m = calloc(1, sizeof(*m) + n);
    if (m == NULL || (m->value = strdup(value)) == NULL) {
        free(m);
        return err_set(e, E_NOMEM, "no memory for %s", name);
    }
    memcpy(m->name, name, n);
    list_add_tail(&db->metas, &m->link);
    db->n_metas++;
    return 0;
}

int db_lazy_meta(struct db *db, const char *name, const char *value, struct err *e)
{
    struct lazy_meta *m = find(db, name);
    if (m == NULL)
        return db->n_metas < DB_LAZY_META_MAX ? wait_new(db, name, value, e) : put(db, name, value, e);
    char *copy = strdup(value);
    if (copy == NULL)
        return err_set(e, E_NOMEM, "no memory for %s", name);
    free(m->value);
    m->value = copy;
    m->written = false;
    return 0;
}

int db_metas_write(struct db *db, struct err *e)
{
    int r = 0;
    list_each(it, &db->metas) {
        struct lazy_meta *m = container_of(it, struct lazy_meta, link);
        r = put(db, m->name, m->value, e);
        if (r != 0)
            break;
        m->written = true;
    }
    return r;
}

// Rolled back: what waits may speak of what is gone with the transaction (a resourceVersion of rows that are not there). What the table
// has is older and true.
void db_metas_ended(struct db *db, bool committed)
{
    list_each_safe(it, next, &db->metas) {
        struct lazy_meta *m = container_of(it, struct lazy_meta, link);
        if (m->written || !committed)
            drop(db, m);
    }
}
