// SPDX-License-Identifier: Apache-2.0
#include "data/outbox_events.c"

#include <inttypes.h>

#include "store_rig.h"

#define UID "11111111-2222-3333-4444-555555555555"

static struct outbox *box;
static int64_t max_events;

static void open_box(void)
{
    struct err e = ERR_INIT;
    if (outbox_open(&box, rig_db, &rig_clock.clock, &(struct outbox_conf){ max_events }, &e) != 0)
        fail("opening the outbox: %s", e.msg);
}

static void fresh(void)
{
    rig_fresh();
    open_box();
}

static void close_all(void)
{
    outbox_close(box);
    db_close(rig_db);
    max_events = rig_max_bytes = 0;
}

static void reopen(bool orderly)
{
    if (orderly) {
        outbox_close(box);
        db_close(rig_db);
    } else {
        db_abandon(rig_db); // takes all nodes off its lists
        outbox_close(box);
    }
    rig_open();
    open_box();
}

static struct outbox_stats stats(void)
{
    struct outbox_stats s = { 0 };
    struct err e = ERR_INIT;
    if (outbox_stats(box, &s, &e) != 0)
        fail("stats: %s", e.msg);
    return s;
}

// --- Statuses

static int put(const char *key, const char *json)
{
    struct err e = ERR_INIT;
    int r = outbox_status_put(box, key, UID, 3, json, strlen(json), hash_bytes(HASH_SEED, json, strlen(json)), &e);
    if (r < 0)
        diag("status of %s: %s", key, e.msg);
    return r;
}

static int hear_slot(void *ctx, const struct status_slot *s)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 400 - at, "%s=%s ", s->key, buf_str(&s->json));
    return 0;
}

static const char *pending(void)
{
    static char text[400];
    struct err e = ERR_INIT;
    text[0] = '\0';
    if (outbox_status_pending(box, 0, 100, hear_slot, text, &e) != 0)
        fail("pending: %s", e.msg);
    return text;
}

static int64_t seq_of(const char *key)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct err e;
    return outbox_status_get(box, key, &slot, &e) == 0 ? slot.seq : -1;
}

static void test_status(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    is_int(outbox_status_get(box, "a", &slot, &e), E_NOTFOUND, "no status");
    is_int(put("a", "1"), 1, "a status");
    is_int(put("b", "2"), 1, "another");
    rig_commit();
    uint64_t writes = test_vfs.writes;
    is_int(put("a", "1"), 0, "the same again");
    ok(!db_dirty(rig_db), "opens no transaction");
    is_int(test_vfs.writes, writes, "field 13: the same status again writes nothing");
    is_str(pending(), "a=1 b=2 ", "both are pending, the oldest first");
    is_int(put("a", "3"), 1, "a newer one");
    is_str(pending(), "b=2 a=3 ", "takes the place of the older and is the newest");
    rig_commit();
    is_int(outbox_status_get(box, "a", &slot, &e), 0, "the slot");
    ok(strcmp(slot.uid, UID) == 0 && slot.generation == 3 && slot.pending, "uid, generation, pending");
    is_int(slot.at_us, rig_clock.wall_us, "when it changed");
    ok(slot.hash == hash_bytes(HASH_SEED, "3", 1), "its hash");
    is_int(stats().status_pending, 2, "two pending");
    is_int(stats().oldest_us, rig_clock.wall_us, "since when");
    is_int(outbox_status_put(box, "a", "another-uid", 1, "3", 1, slot.hash, &e), 1, "the same status of another object of that name");
    rig_commit();
    is_int(outbox_status_delete(box, "a", &e), 0, "deleting");
    is_str(pending(), "b=2 ", "works");
    rig_commit();
    is_int(outbox_status_delete(box, "a", &e), 0, "what is not there");
    ok(!db_dirty(rig_db), "writes nothing");
    is_int(stats().status_pending, 1, "one pending");
    char long_key[KEY_MAX + 1];
    memset(long_key, 'k', KEY_MAX);
    long_key[KEY_MAX] = '\0';
    is_int(put(long_key, "1"), E_INVAL, "a key over its bound is refused, not cut");
    close_all();
}

static void test_ack(void)
{
    fresh();
    struct err e = ERR_INIT;
    is_int(put("a", "1"), 1, "a status");
    is_int(put("b", "1"), 1, "another");
    rig_commit();
    int64_t sent = seq_of("a");
    is_int(put("a", "2"), 1, "it changes while it is being sent");
    rig_commit();
    uint64_t writes = test_vfs.writes;
    outbox_status_ack(box, "a", sent);
    is_str(pending(), "b=1 a=2 ", "the answer to the old one leaves the new one pending");
    outbox_status_ack(box, "a", seq_of("a"));
    outbox_status_ack(box, "a", seq_of("a"));
    outbox_status_ack(box, "none", 99);
    is_str(pending(), "b=1 ", "the answer to the new one does not");
    is_int(stats().status_pending, 1, "one pending");
    is_int(stats().acked, 1, "one acknowledged");
    is_int(put("a", "2"), 0, "it is still the previous status");
    rig_commit();
    is_int(test_vfs.writes, writes, "none of it was written");
    reopen(false);
    is_str(pending(), "b=1 a=2 ", "a crash forgets the acknowledgement: it is sent again");
    outbox_status_ack(box, "a", seq_of("a"));
    reopen(true);
    is_str(pending(), "b=1 ", "an orderly stop does not");
    outbox_status_ack(box, "b", seq_of("b"));
    is_int(put("c", "1"), 1, "a real write");
    rig_commit();
    reopen(false);
    is_str(pending(), "c=1 ", "takes it along");
    is_int(outbox_status_resend(box, "b", &e), 0, "the server lost it");
    is_str(pending(), "c=1 b=1 ", "it is sent again");
    is_int(outbox_status_resend(box, "b", &e), 0, "once");
    is_int(stats().status_pending, 2, "two pending");
    is_int(outbox_status_resend(box, "none", &e), E_NOTFOUND, "there is nothing to send again");
    close_all();
}

static void test_ack_and_failed_commit(void)
{
    fresh();
    struct err e = ERR_INIT;
    is_int(put("a", "1"), 1, "a status");
    rig_commit();
    outbox_status_ack(box, "a", seq_of("a"));
    for (int i = 0; i < 3; i++) {
        is_int(put("b", "1"), 1, "a write");
        test_vfs.fail_writes = true;
        is_int(db_commit(rig_db, &e), E_IO, "that cannot be committed");
        test_vfs.fail_writes = false;
        is_str(pending(), "", "does not bring back what was acknowledged");
        is_int(stats().status_pending, 0, "nor counts it");
    }
    is_int(put("b", "1"), 1, "the write again");
    rig_commit();
    reopen(false);
    is_str(pending(), "b=1 ", "then the acknowledgement goes along");
    close_all();
}

static void test_many_acks(void)
{
    fresh();
    char key[20];
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        wrong += put(key, "1") != 1;
    }
    rig_commit();
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        outbox_status_ack(box, key, seq_of(key));
        wrong += box->n_acks > ACKS_MAX;
    }
    is_int(wrong, 0, "1,000 acknowledgements: never more than %d wait", ACKS_MAX);
    is_int(stats().status_pending, 0, "nothing pending");
    rig_commit();
    reopen(false);
    is_int(stats().status_pending, 0, "they were written");
    close_all();
}

static int stop_at_two(void *ctx, const struct status_slot *s)
{
    (void)s;
    return ++*(int *)ctx == 2 ? E_CANCELED : 0;
}

static int delete_slot(void *ctx, const struct status_slot *s)
{
    struct err e;
    (void)ctx;
    return outbox_status_delete(box, s->key, &e);
}

static void test_pending_walk(void)
{
    fresh();
    struct err e = ERR_INIT;
    char text[400] = "";
    int n = 0;
    for (char key[2] = "a"; key[0] <= 'e'; key[0]++)
        is_int(put(key, "1"), 1, "status of %s", key);
    is_int(outbox_status_pending(box, 0, 2, hear_slot, text, &e), 0, "two of five");
    is_str(text, "a=1 b=1 ", "the first two");
    text[0] = '\0';
    is_int(outbox_status_pending(box, seq_of("b"), 100, hear_slot, text, &e), 0, "after those");
    is_str(text, "c=1 d=1 e=1 ", "the rest");
    is_int(outbox_status_pending(box, 0, 100, stop_at_two, &n, &e), E_CANCELED, "a walk can be stopped");
    is_int(n, 2, "at once");
    is_int(outbox_status_pending(box, 0, 100, delete_slot, NULL, &e), 0, "and may write");
    is_str(pending(), "", "all gone");
    close_all();
}

static void test_seq_grows(void)
{
    fresh();
    struct err e = ERR_INIT;
    int64_t last = 0;
    for (int i = 0; i < 12; i++) {
        is_int(put("a", i % 2 ? "1" : "2"), 1, "a change");
        ok(seq_of("a") > last, "has a higher number than all before");
        last = seq_of("a");
        if (i % 3 == 2)
            is_int(outbox_status_delete(box, "a", &e), 0, "also after the newest was deleted");
        rig_commit();
        reopen(i % 2);
    }
    close_all();
}

static void test_damaged_slot(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    is_int(put("a", "1"), 1, "a status");
    is_int(put("b", "2"), 1, "another");
    is_int(put("c", "3"), 1, "and one more");
    rig_commit();
    rig_damage("UPDATE status SET json=x'39' WHERE key='b'");
    is_int(outbox_status_get(box, "b", &slot, &e), E_CORRUPT, "a damaged one is not believed");
    is_str(pending(), "a=1 c=3 ", "nor sent");
    is_int(stats().status_dropped, 1, "but dropped and counted");
    is_int(put("b", "2"), 1, "the next pass makes it anew");
    rig_commit();
    rig_damage("UPDATE status SET json=x'39' WHERE key='a'");
    is_int(put("a", "1"), 1, "also before anybody met it");
    is_str(pending(), "c=3 b=2 a=1 ", "all are there");
    is_int(stats().status_pending, 3, "and counted");
    outbox_status_ack(box, "c", seq_of("c"));
    is_int(put("d", "4"), 1, "a write");
    rig_commit();
    rig_damage("UPDATE unsent SET key='x' WHERE key='b'");
    is_str(pending(), "c=3 b=2 a=1 d=4 ", "what is to be sent is damaged: everything is sent again");
    is_int(stats().status_pending, 4, "and counted");
    rig_damage("DELETE FROM status WHERE key='a'");
    is_str(pending(), "c=3 b=2 d=4 ", "what is to be sent and not there");
    is_int(stats().status_pending, 3, "is forgotten");
    close_all();
}

// What is unsent may be among what a damaged store lost.
static void test_salvage(void)
{
    fresh();
    struct err e = ERR_INIT;
    is_int(put("a", "1"), 1, "a status");
    is_int(put("b", "2"), 1, "another");
    outbox_status_ack(box, "a", seq_of("a"));
    outbox_status_ack(box, "b", seq_of("b"));
    outbox_close(box);
    db_close(rig_db);
    AUTO_BUF struct buf image = BUF_INIT(1 << 20);
    is_int(fs_read(rig_disk, "/store.db", 1 << 20, 0, &image, &e), 0, "the store");
    memset(image.data, 'x', 100);
    is_int(fs_write(rig_disk, "/store.db", image.data, image.len, 0600, 0, &e), 0, "is damaged");
    rig_open();
    open_box();
    ok(db_salvaged(rig_db)->happened, "and salvaged");
    is_str(pending(), "a=1 b=2 ", "all statuses are told again");
    is_int(stats().status_pending, 2, "and counted");
    rig_commit();
    outbox_status_ack(box, "a", seq_of("a"));
    db_rollback(rig_db);
    is_str(pending(), "b=2 ", "once");
    close_all();
}

// --- Events

static bool harmless; // the next events are no warnings

static int event(const char *name, const char *reason, const char *note)
{
    struct err e = ERR_INIT;
    struct event_in in = { .key = name,
                           .uid = UID,
                           .kind = "EdgeApp",
                           .api_version = "edge.limpet.dev/v1alpha1",
                           .ns = "edge-a",
                           .name = name,
                           .warning = !harmless,
                           .reason = reason,
                           .action = "Start",
                           .note = note };
    int r = outbox_event(box, &in, &e);
    if (r < 0)
        diag("event: %s", e.msg);
    return r;
}

static int hear_event(void *ctx, const struct event_row *ev)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 400 - at, "%s/%s/%s*%" PRId64 " ", ev->obj_name, ev->reason, ev->note, ev->count);
    return 0;
}

static int keep_event(void *ctx, const struct event_row *ev)
{
    *(struct event_row *)ctx = *ev;
    return 0;
}

static const char *events(bool pending_only)
{
    static char text[400];
    struct err e = ERR_INIT;
    text[0] = '\0';
    if (outbox_events(box, 0, 100, pending_only, hear_event, text, &e) != 0)
        fail("events: %s", e.msg);
    return text;
}

static struct event_row first_event(void)
{
    struct event_row ev = { 0 };
    struct err e = ERR_INIT;
    if (outbox_events(box, 0, 1, true, keep_event, &ev, &e) != 0)
        fail("first event: %s", e.msg);
    return ev;
}

static void test_event(void)
{
    fresh();
    is_str(events(true), "", "none");
    is_int(event("web", "Started", "pid 7"), 0, "an event");
    struct event_row ev = first_event();
    ok(strcmp(ev.key, "web") == 0 && strcmp(ev.uid, UID) == 0 && strcmp(ev.kind, "EdgeApp") == 0 &&
           strcmp(ev.api_version, "edge.limpet.dev/v1alpha1") == 0 && strcmp(ev.ns, "edge-a") == 0 && strcmp(ev.obj_name, "web") == 0,
       "about whom");
    ok(ev.warning && strcmp(ev.reason, "Started") == 0 && strcmp(ev.action, "Start") == 0 && strcmp(ev.note, "pid 7") == 0, "what");
    ok(ev.count == 1 && ev.pending && ev.first.wall_us == rig_clock.wall_us && ev.first.boot_ms == rig_clock.boot_ms && ev.first.trusted &&
           strcmp(ev.first.boot_id, rig_clock.boot_id) == 0,
       "when");
    ok(memcmp(&ev.first, &ev.last, sizeof(ev.first)) == 0, "once");
    is_int(strlen(ev.name), strlen("web.") + 16, "the name: the object's and 16 digits");
    ok(strncmp(ev.name, "web.", 4) == 0 && strspn(ev.name + 4, "0123456789abcdef") == 16, "as Kubernetes takes it: %s", ev.name);
    rig_commit();
    reopen(false);
    struct event_row again = first_event();
    is_str(again.name, ev.name, "is the same after a crash: a replay meets itself");
    is_int(again.first.wall_us, ev.first.wall_us, "and so is the time");
    outbox_event_ack(box, ev.seq);
    outbox_event_ack(box, ev.seq);
    is_str(events(true), "", "acknowledged");
    is_str(events(false), "web/Started/pid 7*1 ", "it stays in the ring");
    ok(stats().events_pending == 0 && stats().acked == 1, "counted once");
    close_all();
}

static void test_fold(void)
{
    fresh();
    struct err e = ERR_INIT;
    is_int(event("web", "Crashed", "exit 1"), 0, "an event");
    fake_clock_advance(&rig_clock, 5000);
    is_int(event("web", "Crashed", "exit 1"), 0, "again");
    fake_clock_advance(&rig_clock, 5000);
    is_int(event("web", "Crashed", "exit 1"), 0, "and again");
    is_int(event("web", "Crashed", "exit 2"), 0, "with another note");
    is_int(event("db", "Crashed", "exit 1"), 0, "of another object");
    rig_commit();
    reopen(true);
    is_int(event("web", "Crashed", "exit 1"), 0, "once more, after a restart");
    is_int(stats().events_pending, 3, "three events");
    struct event_row ev = first_event();
    is_int(ev.count, 4, "one of them four times");
    is_int(ev.last.wall_us - ev.first.wall_us, 10 * 1000000, "from the first to the last");
    // It was handed out: what comes now must not be lost in it.
    is_int(event("web", "Crashed", "exit 1"), 0, "the same while it is being sent");
    is_int(event("web", "Crashed", "exit 1"), 0, "twice");
    is_int(stats().events_pending, 4, "is an event of its own");
    outbox_event_ack(box, ev.seq);
    is_str(events(true), "web/Crashed/exit 2*1 db/Crashed/exit 1*1 web/Crashed/exit 1*2 ", "that stays pending");
    is_int(event("web", "Crashed", "exit 2"), 0, "now all were handed out");
    is_int(stats().events_pending, 4, "so each repeat is new");
    is_int(outbox_event_drop(box, ev.seq + 1, &e), 0, "one is refused for good");
    ok(stats().events_pending == 3 && stats().events_dropped == 1, "dropped and counted");
    is_int(outbox_event_drop(box, 12345, &e), 0, "dropping what is not there");
    is_int(stats().events_dropped, 1, "counts nothing");
    close_all();
}

static void test_names(void)
{
    static const struct {
        const char *name, *prefix;
    } cases[] = {
        { "web", "web." },   { "a.b-c", "a.b-c." }, { "Web_1", "web-1." },     { "-x-", "x." }, { "", "limpet." },
        { "a..b", "a--b." }, { "a.-b", "a--b." },   { "\xc3\xa4", "limpet." }, { "x.", "x." },
    };
    fresh();
    struct err e;
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        is_int(event(cases[i].name, "R", "n"), 0, "an event about \"%s\"", cases[i].name);
        struct event_row ev = { 0 };
        is_int(outbox_events(box, box->next_seq - 2, 1, true, keep_event, &ev, &e), 0, "read");
        size_t n = strlen(cases[i].prefix);
        ok(strncmp(ev.name, cases[i].prefix, n) == 0 && strlen(ev.name) == n + 16, "has the name %s", ev.name);
    }
    char long_name[OBJ_NAME_MAX];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    is_int(event(long_name, "R", "n"), 0, "a name as long as can be");
    struct event_row ev = { 0 };
    is_int(outbox_events(box, box->next_seq - 2, 1, true, keep_event, &ev, &e), 0, "read");
    ok(strlen(ev.name) == 253 && strlen(ev.obj_name) == 253, "gives one of 253 bytes");
    char names[50][OBJ_NAME_MAX];
    for (int i = 0; i < 50; i++) {
        char note[16];
        snprintf(note, sizeof(note), "%d", i);
        wrong += event("web", "R", note) != 0 || outbox_events(box, box->next_seq - 2, 1, true, keep_event, &ev, &e) != 0;
        snprintf(names[i], sizeof(names[i]), "%s", ev.name);
        for (int j = 0; j < i; j++)
            wrong += strcmp(names[i], names[j]) == 0;
    }
    is_int(wrong, 0, "50 events, 50 names");
    close_all();
}

static void test_long_texts(void)
{
    fresh();
    AUTO_FREE char *text = malloc(5001);
    for (int i = 0; i < 5000; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[5000] = '\0';
    is_int(event("web", text, text), 0, "texts over their bounds");
    struct event_row ev = first_event();
    ok(strlen(ev.reason) <= 128 && strcmp(ev.reason + strlen(ev.reason) - 3, "...") == 0, "the reason is cut, and says so");
    ok(strlen(ev.note) <= 1024 && strlen(ev.note) > 1000, "so is the note");
    ok(utf8_valid(ev.note, strlen(ev.note)) && utf8_valid(ev.reason, strlen(ev.reason)), "between characters");
    char exact[1025];
    memset(exact, 'x', 1024);
    exact[1024] = '\0';
    is_int(event("web", "R", exact), 0, "a note at its bound");
    struct err e;
    is_int(outbox_events(box, ev.seq, 1, true, keep_event, &ev, &e), 0, "read");
    is_str(ev.note, exact, "is whole");
    close_all();
}

static void test_ring(void)
{
    max_events = 20;
    fresh();
    char note[20];
    int wrong = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(note, sizeof(note), "%d", i);
        wrong += event("web", "R", note) != 0;
        if (i == 9)
            rig_commit();
    }
    rig_commit();
    is_int(wrong, 0, "50 events");
    ok(stats().events_pending == 20 && stats().events_lost == 30, "20 are kept, 30 are lost and counted");
    is_str(first_event().note, "30", "the oldest went first");
    reopen(false);
    ok(stats().events_pending == 20 && stats().events_lost == 30, "also after a crash");
    int64_t newest = box->next_seq - 1;
    outbox_event_ack(box, newest);
    outbox_event_ack(box, newest - 1);
    is_int(event("web", "R", "a"), 0, "one more");
    is_int(event("web", "R", "b"), 0, "and another");
    is_int(stats().events_lost, 30, "take the places of those that the server has");
    is_str(first_event().note, "30", "the oldest pending one is still there");
    is_int(event("web", "R", "c"), 0, "a third");
    ok(stats().events_lost == 31 && stats().events_pending == 20, "does not");
    rig_commit();
    max_events = 5;
    reopen(true);
    is_int(event("web", "R", "d"), 0, "with a smaller ring");
    ok(stats().events_pending == 5 && stats().events_lost == 31 + 16, "it shrinks with the next one");
    is_int(box->events_total, 5, "to its bound");
    rig_commit();
    reopen(true);
    is_int(stats().events_lost, 31 + 16, "the count outlives the agent");
    close_all();
}

// "WNW": the types of what is kept, oldest first.
static int keep_type(void *ctx, const struct event_row *ev)
{
    char *text = ctx;
    size_t n = strlen(text);
    text[n] = ev->warning ? 'W' : 'N';
    text[n + 1] = '\0';
    return 0;
}

static const char *types(void)
{
    static char text[100];
    struct err e = ERR_INIT;
    text[0] = '\0';
    if (outbox_events(box, 0, 99, false, keep_type, text, &e) != 0)
        fail("events: %s", e.msg);
    return text;
}

static void limit(int64_t max, enum outbox_shed first)
{
    struct err e = ERR_INIT;
    is_int(outbox_limits(box, max, first, &e), 0, "at most %d from now on", (int)max);
}

static void test_limits(void)
{
    char note[20];
    max_events = 20;
    fresh();
    for (int i = 0; i < 9; i++) {
        harmless = i % 3 != 0;
        snprintf(note, sizeof(note), "%d", i);
        is_int(event("web", "R", note), 0, "event %d", i);
    }
    is_str(types(), "WNNWNNWNN", "nine are kept");
    limit(7, OUTBOX_SHED_OLDEST);
    is_str(types(), "NWNNWNN", "the oldest go at once");
    is_int(stats().events_lost, 2, "counted");
    limit(5, OUTBOX_SHED_NORMAL);
    is_str(types(), "WNWNN", "or the oldest of a type");
    harmless = false;
    for (int i = 10; i < 14; i++) {
        snprintf(note, sizeof(note), "%d", i);
        is_int(event("web", "R", note), 0, "event %d", i);
    }
    is_str(types(), "WWWWW", "also for a new one, and while there is none of it the oldest at all");
    harmless = true;
    is_int(event("web", "R", "15"), 0, "event 15");
    limit(5, OUTBOX_SHED_WARNING);
    is_int(event("web", "R", "16"), 0, "event 16");
    is_str(types(), "WWWNN", "the other way round");
    limit(0, OUTBOX_SHED_OLDEST);
    harmless = false;
    is_int(event("web", "R", "17"), 0, "event 17");
    is_str(types(), "WWWNNW", "0 is the default again");
    close_all();
}

static void test_damaged_event(void)
{
    fresh();
    is_int(event("a", "R", "1"), 0, "an event");
    is_int(event("b", "R", "2"), 0, "another");
    is_int(event("c", "R", "3"), 0, "and one more");
    rig_commit();
    rig_damage("UPDATE event SET note='x' WHERE key='b'");
    is_str(events(true), "a/R/1*1 c/R/3*1 ", "a damaged one is not told");
    ok(stats().events_lost == 1 && stats().events_pending == 2, "but counted as lost");
    close_all();
}

// --- The clock

static void test_clock_corrected(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    is_int(event("a", "R", "before"), 0, "an event with a good clock");
    int64_t good = rig_clock.wall_us;
    rig_clock.synced = false;
    rig_clock.wall_us = 0; // 1970
    fake_clock_advance(&rig_clock, 1000);
    int64_t boot = rig_clock.boot_ms;
    is_int(event("b", "R", "n"), 0, "one without");
    is_int(put("s", "1"), 1, "and a status");
    fake_clock_advance(&rig_clock, 2000);
    is_int(event("b", "R", "n"), 0, "the event again");
    rig_commit();
    struct event_row ev = { 0 };
    is_int(outbox_events(box, first_event().seq, 1, true, keep_event, &ev, &e), 0, "read");
    ok(!ev.first.trusted && !ev.last.trusted, "its times are not trusted");
    int64_t diff = INT64_C(1700000000000000);
    is_int(outbox_clock_corrected(box, rig_clock.boot_id, diff, &e), 0, "the true time is learned");
    rig_commit();
    reopen(false);
    is_int(outbox_events(box, first_event().seq, 1, true, keep_event, &ev, &e), 0, "read");
    ok(ev.first.trusted && ev.first.wall_us == diff + boot * 1000, "the first time is when it was");
    ok(ev.last.trusted && ev.last.wall_us == diff + (boot + 2000) * 1000, "the last one, too");
    is_int(outbox_status_get(box, "s", &slot, &e), 0, "the status");
    is_int(slot.at_us, diff + boot * 1000, "as well");
    ok(first_event().first.wall_us == good, "what was known is left alone");
    is_int(outbox_clock_corrected(box, rig_clock.boot_id, diff + 1, &e), 0, "again");
    ok(!db_dirty(rig_db), "nothing is left to correct");
    is_int(event("c", "R", "n"), 0, "an event of this boot without a good clock");
    rig_commit();
    is_int(outbox_clock_corrected(box, "another boot", 5, &e), 0, "another boot's difference");
    ok(!db_dirty(rig_db), "is not for it");
    close_all();
}

// --- No room

static void test_small_store(void)
{
    rig_max_bytes = 1024 * 1024;
    max_events = 100000;
    fresh();
    struct err e = ERR_INIT;
    char note[900], key[20];
    int failed = 0;
    memset(note, 'n', sizeof(note) - 1);
    note[sizeof(note) - 1] = '\0';
    for (int i = 0; i < 3000; i++) {
        int n = snprintf(note, sizeof(note), "%d", i);
        note[n] = 'n';
        failed += event("web", "R", note) != 0;
        if (i % 50 == 0)
            failed += db_commit(rig_db, &e) != 0;
    }
    rig_commit();
    is_int(failed, 0, "more events than the store can hold");
    struct outbox_stats st = stats();
    ok(st.events_lost > 1000 && st.events_pending > 300 && st.events_lost + st.events_pending == 3000, "the oldest went: %d kept, %d lost",
       (int)st.events_pending, (int)st.events_lost);
    ok(db_room(rig_db) >= EVENT_RESERVE - 8 * 1024, "and left room for everything else");
    AUTO_FREE char *json = malloc(3001);
    memset(json, 'j', 3000);
    json[3000] = '\0';
    int slots = 0;
    for (int i = 0; i < 250 && failed == 0; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        failed += put(key, json) != 1 || db_commit(rig_db, &e) != 0;
        slots++;
    }
    is_int(failed, 0, "%d statuses of 3 KB", slots);
    ok(stats().events_pending < st.events_pending, "for which more events went");
    is_int(stats().status_pending, slots, "no status did");
    while (failed == 0 && slots < 2000) {
        snprintf(key, sizeof(key), "k%d", slots++);
        failed = outbox_status_put(box, key, UID, 1, json, 3000, 5, &e) != 1;
        if (failed == 0 && db_commit(rig_db, &e) != 0)
            failed = 1;
    }
    is_int(e.cls, E_NOSPC, "until there is no room for a status either");
    is_int(event("web", "R", "last"), E_NOSPC, "nor for an event");
    is_int(stats().status_pending, slots - 1, "those that were taken stay");
    close_all();
}

static void test_full_disk(void)
{
    fresh();
    struct err e = ERR_INIT;
    char note[1000], key[20];
    memset(note, 'n', sizeof(note) - 1);
    note[sizeof(note) - 1] = '\0';
    int kept = 0, refused = 0;
    for (int i = 0; i < 100; i++) {
        int n = snprintf(note, sizeof(note), "%d", i);
        note[n] = 'n';
        kept += event("web", "R", note) == 0 && db_commit(rig_db, &e) == 0;
    }
    is_int(kept, 100, "100 events");
    test_vfs.room = 0; // from now on no file grows
    kept = 0;
    for (int i = 0; i < 2000; i++) {
        snprintf(key, sizeof(key), "k%d", i % 10);
        snprintf(note, sizeof(note), "status %d", i);
        int n = outbox_status_put(box, key, UID, 1, note, strlen(note), (uint64_t)i + 1, &e);
        n = n == 1 ? db_commit(rig_db, &e) : n;
        refused += n == E_NOSPC;
        kept += n == 0;
        if (n != 0 && n != E_NOSPC)
            return (void)fail("%d: %s", n, e.msg);
    }
    ok(kept > 1900 && refused < 100, "a full disk: of 2,000 statuses %d are kept, %d refused", kept, refused);
    is_int(stats().status_pending, 10, "none of the slots is gone");
    ok(stats().events_lost > 0, "events made room for them (%d)", (int)stats().events_lost);
    test_vfs.room = -1;
    is_int(put("after", "1"), 1, "space is freed");
    is_int(event("web", "R", "after"), 0, "and events come again");
    rig_commit();
    reopen(false);
    is_int(stats().status_pending, 11, "all is there after a crash");
    ok(!db_salvaged(rig_db)->happened, "and whole");
    close_all();
}

static void test_events_of_a_failed_commit(void)
{
    fresh();
    struct err e = ERR_INIT;
    is_int(event("web", "R", "1"), 0, "an event");
    rig_commit();
    is_int(event("web", "R", "2"), 0, "another");
    is_int(event("web", "R", "3"), 0, "and one more");
    test_vfs.fail_writes = true;
    is_int(db_commit(rig_db, &e), E_IO, "that cannot be committed");
    test_vfs.fail_writes = false;
    ok(stats().events_pending == 1 && stats().events_lost == 2, "are lost and counted");
    is_int(event("web", "R", "4"), 0, "the next one");
    rig_commit();
    reopen(false);
    is_str(events(true), "web/R/1*1 web/R/4*1 ", "is kept");
    is_int(stats().events_lost, 2, "and the count with it");
    outbox_close(box);
    max_events = 2;
    open_box();
    is_int(event("web", "R", "5"), 0, "one that takes the place of another");
    is_int(stats().events_lost, 3, "which is lost");
    db_rollback(rig_db);
    ok(stats().events_lost == 3 && stats().events_pending == 2, "rolled back, the other is back and the new one is lost");
    is_int(event("web", "R", "6"), 0, "again");
    rig_commit();
    reopen(false);
    ok(stats().events_lost == 4 && stats().events_pending == 2, "then the other is lost, and a crash does not forget it");
    close_all();
}

// --- Wear

// One status change a minute for a day over 100 objects, each acknowledged with a new resourceVersion, with the clock floor and a
// bookmark that ride along: what DESIGN.md budgets at 15 MB at the block layer.
static void test_wear(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct cache *cache = NULL;
    char json[700], key[40], text[24];
    int failed = cache_open(&cache, rig_db, &e) != 0;
    for (int i = 0; i < 100; i++) {
        struct object_view v = { .uid = UID, .rv = "1" };
        snprintf(key, sizeof(key), "edgeapps/edge-a/app-%d", i);
        snprintf(json, sizeof(json), "{\"n\":%d,\"pad\":\"%0500d\"}", i, i);
        failed += put(key, json) != 1 || cache_put(cache, "source", key, &v, json, strlen(json), &e) != CACHE_NEW;
    }
    rig_commit();
    uint64_t bytes = test_vfs.write_bytes, syncs = test_vfs.syncs, blocks = test_vfs.blocks;
    for (int i = 0; i < 1440 && failed == 0; i++) {
        snprintf(key, sizeof(key), "edgeapps/edge-a/app-%d", i % 100);
        snprintf(json, sizeof(json), "{\"n\":%d,\"pad\":\"%0500d\"}", i + 1000, i);
        failed += put(key, json) != 1;
        snprintf(text, sizeof(text), "%d", i + 2);
        fake_clock_advance(&rig_clock, 60 * 1000);
        failed += db_lazy_meta(rig_db, "clock_floor", text, &e) != 0 || db_lazy_meta(rig_db, "rv@source", text, &e) != 0;
        failed += db_commit(rig_db, &e) != 0;
        outbox_status_ack(box, key, seq_of(key));
        cache_note_rv(cache, key, UID, text);
        failed += db_commit(rig_db, &e) != 0; // nothing but an acknowledgement: no transaction
    }
    is_int(failed, 0, "1,440 status changes");
    struct db_stats st;
    db_stats(rig_db, &st);
    double mb = (double)(test_vfs.write_bytes - bytes) / 1e6, block_mb = (double)(test_vfs.blocks - blocks) * 4096 / 1e6;
    diag("1,440 changes: %.1f MB written by SQLite, %.1f MB in blocks of 4 KiB between syncs, %d syncs, %d commits", mb, block_mb,
         (int)(test_vfs.syncs - syncs), (int)st.commits);
    ok(block_mb <= 13.5, "%.1f MB in blocks of 4 KiB: with the file system's own the day stays below 15 MB", block_mb);
    cache_close(cache);
    close_all();
}

int main(void)
{
    if (!rig_start())
        return 1;
    test_status();
    test_ack();
    test_ack_and_failed_commit();
    test_many_acks();
    test_pending_walk();
    test_seq_grows();
    test_damaged_slot();
    test_salvage();
    test_event();
    test_fold();
    test_names();
    test_long_texts();
    test_ring();
    test_limits();
    test_damaged_event();
    test_clock_corrected();
    test_small_store();
    test_full_disk();
    test_events_of_a_failed_commit();
    test_wear();
    rig_end();
    return done_testing();
}
