// SPDX-License-Identifier: Apache-2.0
//
// Outages as events about our EdgeNode. Who has never known one has nobody to tell it of; it is looked for again each minute.
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/agent.h"

static void on_timer(struct timer *t)
{
    agent_outage_look(container_of(t, struct agent, outage_timer));
}

void agent_outage_init(struct agent *a)
{
    timer_init(&a->outage_timer, on_timer);
}

static struct object_state *our_node(struct agent *a)
{
    char key[KEY_MAX];
    if (key_make(key, kind_edgenode.type.plural, a->ns, a->node, NULL) < 0)
        return NULL;
    return engine_state_of(a->engine, key);
}

static void tell(struct agent *a, const struct outage_news *n)
{
    struct err e = ERR_INIT;
    struct object_state *node = our_node(a);
    if (node == NULL)
        return;
    if (outage_told(&a->outage, n, &e) < 0) {
        log_error("agent", "outage-not-kept error=\"%s\"", e.msg);
        return;
    }
    engine_event_of(a->engine, node, n->id, &n->at, strcmp(n->reason, "Online") != 0, n->reason, "Connect", "%s", n->note);
}

void agent_outage_look(struct agent *a)
{
    struct outage_news n;
    if (a->sync == NULL)
        return;
    a->outage.least_ms = a->config->lease_duration_ms;
    if (outage_news(&a->outage, sync_why(a->sync), &n))
        tell(a, &n);
    int64_t next_ms = outage_next_ms(&a->outage), now_ms = clock_mono(a->seams.clock);
    timer_cancel(a->seams.loop, &a->outage_timer);
    if (next_ms > now_ms && next_ms < INT64_MAX && timer_in(a->seams.loop, &a->outage_timer, next_ms - now_ms) < 0)
        log_error("agent", "no-outage-timer");
}

void agent_outage_link(struct agent *a, enum link_state s)
{
    static const enum outage_link links[] = {
        [LINK_OFFLINE] = OUTAGE_AWAY, [LINK_ONLINE] = OUTAGE_REACHED, [LINK_IDENTITY_LOST] = OUTAGE_AWAY, [LINK_STANDBY] = OUTAGE_NOBODYS
    };
    outage_link(&a->outage, links[s]);
    agent_outage_look(a);
}

// Until it is reached, the server is out of reach.
void agent_outage_start(struct agent *a)
{
    a->outage.clock = a->seams.clock;
    a->outage.db = a->db;
    outage_recall(&a->outage);
    outage_link(&a->outage, OUTAGE_AWAY);
    agent_outage_look(a);
}
