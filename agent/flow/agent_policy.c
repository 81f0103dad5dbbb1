// SPDX-License-Identifier: Apache-2.0
//
// What becomes of policies: the values that are in force reach sync, lease, outbox and engine at once.
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/agent.h"

static int touch_workload(void *ctx, struct object_state *os)
{
    struct agent *a = ctx;
    const struct kind *k = registry_of_key(a->registry, object_state_key(os));
    if (k == &kind_edgeapp || k == &kind_edgejob)
        engine_touch_state(a->engine, os, "policy");
    return 0;
}

static void limit_outbox(struct agent *a)
{
    struct err e = ERR_INIT;
    if (outbox_limits(a->outbox, a->config->outbox_max_events, a->policy->merged.v.shed_first, &e) < 0)
        log_error("agent", "outbox-not-limited error=\"%s\"", e.msg);
}

static void on_policy(void *ctx, unsigned what)
{
    struct agent *a = ctx;
    if ((what & POLICY_CHANGED_SYNC) != 0 && a->sync != NULL)
        sync_tuned(a->sync);
    if ((what & POLICY_CHANGED_LEASE) != 0 && a->lease != NULL)
        lease_tune(a->lease, a->config->lease_duration_ms, a->config->lease_renew_ms);
    if ((what & POLICY_CHANGED_OUTBOX) != 0)
        limit_outbox(a);
    if ((what & POLICY_CHANGED_OFFLINE) != 0)
        engine_each(a->engine, touch_workload, a);
    if ((what & POLICY_CHANGED_WINDOWS) != 0)
        engine_windows_changed(a->engine);
}

int agent_policy_new(struct agent *a, struct err *e)
{
    struct policy_conf pc = {
        .loop = a->seams.loop, .clock = a->seams.clock, .db = a->db, .config = a->config, .changed = on_policy, .ctx = a
    };
    int rc = policy_new(&a->policy, &pc, e);
    if (rc == 0)
        a->config = &a->policy->effective; // from here on everybody reads what is in force
    return rc;
}

// Policies select by labels, templates of EdgeConfigs name them.
static int touch_by_labels(void *ctx, const char *key)
{
    struct agent *a = ctx;
    const struct kind *k = registry_of_key(a->registry, key);
    if (k == &kind_edgepolicy || k == &kind_edgeconfig)
        engine_touch(a->engine, key, "labels");
    return 0;
}

void agent_policy_heard(struct agent *a, const char *key)
{
    char node[KEY_MAX];
    struct err e = ERR_INIT;
    if (key_make(node, kind_edgenode.type.plural, a->ns, a->node, &e) < 0 || strcmp(key, node) != 0)
        return;
    if (cache_each_key(a->cache, NULL, touch_by_labels, a, &e) < 0)
        log_error("agent", "policies-not-matched error=\"%s\"", e.msg);
}

// Another agent that acts for this node is a contact with the server, too.
void agent_policy_link(struct agent *a, enum link_state s)
{
    policy_link(a->policy, s == LINK_ONLINE || s == LINK_STANDBY);
}

void agent_policy_minute(struct agent *a)
{
    policy_look(a->policy);
    policy_keep_offline(a->policy, false);
}
