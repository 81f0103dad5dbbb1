// SPDX-License-Identifier: Apache-2.0
//
// What the agent knows of itself and the EdgeNode should say. Called when it may have changed; an unchanged fact costs nothing.
#include "data/key.h"
#include "flow/agent.h"
#include "kinds/edgenode.h"

static void identity_fact(struct agent *a)
{
    struct sync_stats s;
    sync_stats(a->sync, &s);
    if (s.link == LINK_IDENTITY_LOST)
        node_facts_set(&a->env, "IdentityLost", COND_TRUE, "NotOurs", "%s; everything is kept: join again, or limpet leave",
                       sync_why(a->sync));
    else
        node_facts_set(&a->env, "IdentityLost", COND_FALSE, "Known", "the server knows this node");
}

static void duplicate_fact(struct agent *a)
{
    if (a->other_holder[0] != '\0')
        node_facts_set(&a->env, "DuplicateNode", COND_TRUE, "LeaseHeld", "agent %s holds the lease of this node; this one stands by",
                       a->other_holder);
    else
        node_facts_set(&a->env, "DuplicateNode", COND_FALSE, "Alone", "no other agent has this node's name");
}

static void store_fact(struct agent *a)
{
    if (a->store_away)
        node_facts_set(&a->env, "StoreVolatile", COND_TRUE, "ReadOnly",
                       "%s cannot be written: the store is a copy in memory, and what it learns is lost at the next boot",
                       a->config->state_dir);
    else
        node_facts_set(&a->env, "StoreVolatile", COND_FALSE, "Durable", "the store lies in %s", a->config->state_dir);
}

void agent_refresh_facts(struct agent *a)
{
    char key[KEY_MAX];
    bool trusted = clock_trusted(a->seams.clock);
    store_fact(a);
    if (a->sync != NULL)
        identity_fact(a);
    if (a->lease != NULL)
        duplicate_fact(a);
    if (trusted != a->clock_was_told && key_make(key, kind_edgenode.type.plural, a->ns, a->node, NULL) == 0)
        engine_touch(a->engine, key, "clock");
    a->clock_was_told = trusted;
}
