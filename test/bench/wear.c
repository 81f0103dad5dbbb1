// SPDX-License-Identifier: Apache-2.0
//
// wear STATE-DIRECTORY CHANGES OBJECTS — the agent's own store, told of one status change a minute on a clock that is wound forward.
//
// Of the objects in turn; each change is committed, then acknowledged with a new resourceVersion, and the clock floor and three bookmarks
// ride along, as in a running agent. What it wrote is for the caller to count.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "data/outbox.h"
#include "fake_clock.h"

enum { MINUTE_MS = 60000 };

struct store {
    struct fake_clock clock;
    struct disk *disk;
    struct db *db;
    struct cache *cache;
    struct outbox *outbox;
};

static void key_of(char key[64], long object)
{
    snprintf(key, 64, "edgeapps/edge-a/app-%ld", object);
}

static int open_all(struct store *s, const char *root, struct err *e)
{
    fake_clock_init(&s->clock, 1);
    log_setup(LOG_WARN, LOG_TEXT, &s->clock.clock);
    int rc = disk_real_new(&s->disk, NULL, root, e);
    if (rc == 0)
        rc = db_open(&s->db, s->disk, &s->clock.clock, &(struct db_conf){ .path = "/limpet.db" }, e);
    if (rc == 0)
        rc = cache_open(&s->cache, s->db, e);
    return rc == 0 ? outbox_open(&s->outbox, s->db, &s->clock.clock, &(struct outbox_conf){ 0 }, e) : rc;
}

static int spec_comes(struct store *s, long object, struct err *e)
{
    char key[64], json[512];
    struct object_view v = { .uid = "11111111-2222-3333-4444-555555555555", .rv = "1" };
    key_of(key, object);
    int n = snprintf(json, sizeof(json), "{\"metadata\":{\"name\":\"app-%ld\"},\"spec\":{\"command\":[\"/usr/bin/%0100d\"]}}", object, 0);
    return MIN(cache_put(s->cache, "edgeapps", key, &v, json, (size_t)n, e), 0);
}

// A status with three conditions, as they are, is of this size.
static int status_changes(struct store *s, const char *key, long change, struct err *e)
{
    char json[1280];
    int n = snprintf(json, sizeof(json), "{\"n\":%ld,\"conditions\":\"%01000d\"}", change, 0);
    return MIN(outbox_status_put(s->outbox, key, "11111111-2222-3333-4444-555555555555", 1, json, (size_t)n, (uint64_t)change + 1, e), 0);
}

static int ride_along(struct store *s, const char *rv, struct err *e)
{
    static const char *const names[] = { "clock_floor", "rv:edgenodes", "rv:edgeconfigs", "rv:edgeapps" };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(names); i++)
        rc = db_lazy_meta(s->db, names[i], rv, e);
    return rc;
}

static int acknowledge(struct store *s, const char *key, const char *rv, struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    int rc = outbox_status_get(s->outbox, key, &slot, e);
    if (rc < 0)
        return rc;
    outbox_status_ack(s->outbox, key, slot.seq);
    cache_note_rv(s->cache, key, slot.uid, rv);
    return db_commit(s->db, e);
}

static int minute(struct store *s, long change, long objects, struct err *e)
{
    char key[64], rv[24];
    key_of(key, change % objects);
    snprintf(rv, sizeof(rv), "%ld", change + 2);
    fake_clock_advance(&s->clock, MINUTE_MS);
    int rc = status_changes(s, key, change, e);
    if (rc == 0)
        rc = ride_along(s, rv, e);
    if (rc == 0)
        rc = db_commit(s->db, e);
    return rc == 0 ? acknowledge(s, key, rv, e) : rc;
}

static int day(struct store *s, long changes, long objects, struct err *e)
{
    int rc = 0;
    for (long i = 0; rc == 0 && i < objects; i++)
        rc = spec_comes(s, i, e);
    if (rc == 0)
        rc = db_commit(s->db, e);
    puts("begins");
    fflush(stdout);
    (void)getchar(); // the caller reads its counters
    for (long i = 0; rc == 0 && i < changes; i++)
        rc = minute(s, i, objects, e);
    puts("ends");
    fflush(stdout);
    (void)getchar();
    return rc;
}

int main(int argc, char **argv)
{
    struct store s = { 0 };
    struct err e = ERR_INIT;
    if (argc != 4) {
        fputs("usage: wear STATE-DIRECTORY CHANGES OBJECTS\n", stderr);
        return 64;
    }
    int rc = open_all(&s, argv[1], &e);
    if (rc == 0)
        rc = day(&s, strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10), &e);
    if (rc < 0)
        fprintf(stderr, "wear: %s\n", e.msg);
    db_abandon(s.db);
    return rc < 0 ? 1 : 0;
}
