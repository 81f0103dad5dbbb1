// SPDX-License-Identifier: Apache-2.0
#include "flow/outage.c"

#include "store_rig.h"

enum { LEAST_MS = 40000 };

static struct outage o;
static struct outage_news news;

static void fresh(void)
{
    rig_fresh();
    o = (struct outage){ .clock = &rig_clock.clock, .db = rig_db, .least_ms = LEAST_MS };
    outage_recall(&o);
}

static void done(void)
{
    rig_commit();
    db_close(rig_db);
}

// What is told now, "" = nothing.
static const char *tells(void)
{
    struct err e = ERR_INIT;
    if (!outage_news(&o, "connect: refused", &news))
        return "";
    if (outage_told(&o, &news, &e) < 0)
        fail("%s", e.msg);
    return news.reason;
}

static void away_for(int64_t ms)
{
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, ms);
    outage_link(&o, OUTAGE_REACHED);
}

static void test_pair(void)
{
    fresh();
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "", "reached: nothing to tell");
    int64_t began_ms = clock_boot(&rig_clock.clock);
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS - 1);
    is_str(tells(), "", "not yet");
    is_int(outage_next_ms(&o) - clock_mono(&rig_clock.clock), 1, "in a moment");
    fake_clock_advance(&rig_clock, 1);
    is_str(tells(), "Offline", "after the time that a Lease lasts");
    is_str(news.note, "no contact with the server: connect: refused", "and why");
    is_int(news.at.boot_ms, began_ms, "with the moment at which it began");
    is_str(tells(), "", "once");
    is_int(outage_next_ms(&o) == INT64_MAX, 1, "until the link changes");
    fake_clock_advance(&rig_clock, 3 * 3600000);
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "then it is reached again");
    is_str(news.note, "in contact with the server again after 3 h 0 min", "and says after how long");
    is_str(tells(), "", "once");
    done();
}

static void test_start(void)
{
    fresh();
    away_for(LEAST_MS + 5000); // and nobody knew our EdgeNode yet
    is_str(tells(), "", "a slow start is no outage");
    fake_clock_advance(&rig_clock, OUTAGE_GAP_MS);
    is_str(tells(), "", "also later");
    done();
}

static void test_blip(void)
{
    fresh();
    outage_link(&o, OUTAGE_REACHED);
    away_for(1000);
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS);
    is_str(tells(), "Offline", "a short one before delays nothing");
    done();
}

static void test_short(void)
{
    fresh();
    outage_link(&o, OUTAGE_REACHED);
    away_for(LEAST_MS - 1);
    away_for(1000);
    is_str(tells(), "", "two short ones are nobody's business");
    fake_clock_advance(&rig_clock, OUTAGE_GAP_MS);
    is_str(tells(), "", "also later");
    away_for(1000);
    fake_clock_advance(&rig_clock, OUTAGE_GAP_MS);
    is_str(tells(), "", "one more, much later, is none of theirs");
    done();
}

static void test_flapping(void)
{
    fresh();
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS);
    is_str(tells(), "Offline", "the first one is told");
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "in a pair");
    int told = 0;
    for (int i = 0; i < 5; i++) {
        outage_link(&o, OUTAGE_AWAY);
        fake_clock_advance(&rig_clock, 60000);
        told += *tells() != '\0';
        outage_link(&o, OUTAGE_REACHED);
        fake_clock_advance(&rig_clock, 30000);
        told += *tells() != '\0';
    }
    is_int(told, 0, "five more within ten minutes are counted");
    fake_clock_advance(&rig_clock, outage_next_ms(&o) - clock_mono(&rig_clock.clock));
    is_str(tells(), "Flapping", "and told as one when the ten minutes are over");
    is_str(news.note, "contact with the server was lost 5 times, for 5 min in all, within 10 min", "how often, and for how long");
    is_str(tells(), "", "once");
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, 60000);
    is_str(tells(), "Offline", "ten minutes after the last one another is told by itself");
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "in a pair");
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, 60000);
    is_str(tells(), "", "the next one comes too soon");
    fake_clock_advance(&rig_clock, OUTAGE_GAP_MS);
    is_str(tells(), "Offline", "but it lasts");
    done();
}

static void test_bound(void)
{
    fresh();
    int told = 0;
    for (int64_t ms = 0; ms < 86400000; ms += 20000) {
        outage_link(&o, ms / 20000 % 4 < 3 ? OUTAGE_AWAY : OUTAGE_REACHED);
        told += *tells() != '\0';
        fake_clock_advance(&rig_clock, 20000);
        told += *tells() != '\0';
    }
    ok(told <= 3 * 144 + 2, "a day of flapping: no more than three events in ten minutes (%d)", told);
    ok(told >= 144, "and no silence");
    done();
}

static void another_agent(void)
{
    rig_commit();
    o = (struct outage){ .clock = &rig_clock.clock, .db = rig_db, .least_ms = LEAST_MS };
    outage_recall(&o);
    outage_link(&o, OUTAGE_AWAY);
}

static void test_restart(void)
{
    fresh();
    rig_clock.synced = true;
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS);
    is_str(tells(), "Offline", "told");
    another_agent();
    fake_clock_advance(&rig_clock, 20 * 60000);
    is_str(tells(), "", "the next agent does not tell it again");
    snprintf(rig_clock.boot_id, sizeof(rig_clock.boot_id), "%s", "another-boot");
    rig_clock.boot_ms = 1000;
    another_agent();
    fake_clock_advance(&rig_clock, 50 * 3600000);
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "the one after the next boot tells its end");
    is_str(news.note, "in contact with the server again after 2 d 2 h", "from the beginning");
    another_agent();
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "", "once, over restarts, too");
    done();
}

static void test_untrusted_clock(void)
{
    fresh();
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS);
    rig_clock.wall_us += INT64_C(86400000000);
    is_str(tells(), "Offline", "told");
    is_int(clock_wall_us(&rig_clock.clock) - news.at.wall_us, LEAST_MS * 1000, "the clock was set meanwhile: as it says now");
    o.since.trusted = false;
    o.told = true;
    (void)!keep(&o, &o.since, &(struct err)ERR_INIT);
    snprintf(rig_clock.boot_id, sizeof(rig_clock.boot_id), "%s", "third-boot");
    another_agent();
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "reached in another boot");
    has_str(news.note, "the clock could not tell", "no length is made up");
    done();
}

static void test_commit_fails(void)
{
    struct err e = ERR_INIT;
    fresh();
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, LEAST_MS);
    is_str(tells(), "Offline", "told");
    db_rollback(rig_db);
    outage_recall(&o);
    is_str(tells(), "Offline", "the commit failed, the event went with it: told again");
    if (db_commit(rig_db, &e) < 0)
        fail("%s", e.msg);
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "Online", "its end, too");
    db_rollback(rig_db);
    outage_recall(&o);
    is_str(tells(), "Online", "is told again");
    done();
}

static void test_standby(void)
{
    fresh();
    outage_link(&o, OUTAGE_AWAY);
    fake_clock_advance(&rig_clock, 30000);
    outage_link(&o, OUTAGE_NOBODYS);
    fake_clock_advance(&rig_clock, 3600000);
    is_str(tells(), "", "another agent speaks for the node: no outage");
    outage_link(&o, OUTAGE_REACHED);
    is_str(tells(), "", "nor when we do again");
    done();
}

int main(void)
{
    if (!rig_start())
        return 1;
    test_pair();
    test_start();
    test_blip();
    test_short();
    test_flapping();
    test_bound();
    test_restart();
    test_untrusted_clock();
    test_commit_fails();
    test_standby();
    rig_end();
    return done_testing();
}
