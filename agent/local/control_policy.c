// SPDX-License-Identifier: Apache-2.0
//
// What `limpet policy` shows: each value that policies can set, what it is now, and who said so.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "local/control_priv.h"

static const char *const mode_words[] = { "auto", "watch", "poll", "list" };
static const char *const shed_words[] = { "Oldest", "Normal", "Warning" };

static void duration_text(int64_t ms, char out[64])
{
    if (ms % 1000 == 0)
        snprintf(out, 64, "%" PRId64 "s", ms / 1000);
    else
        snprintf(out, 64, "%" PRId64 "ms", ms);
}

// Of what a field is when nothing is metered; what no policy sets and the configuration does not know is "".
static void value_text(const struct policy *p, enum policy_field f, char out[64])
{
    const struct config *local = p->conf.config;
    const struct policy_values *v = &p->merged.v;
    bool set = p->merged.from[f] != NULL;
    out[0] = '\0';
    switch (f) {
    case POLICY_SYNC_MODE:
        snprintf(out, 64, "%s", mode_words[set ? v->sync_mode : local->sync_mode]);
        break;
    case POLICY_SYNC_INTERVAL:
        duration_text(set ? v->sync_interval_ms : local->sync_interval_ms, out);
        break;
    case POLICY_METERED_MODE:
        snprintf(out, 64, "%s", set ? mode_words[v->metered_mode] : "poll");
        break;
    case POLICY_METERED_INTERVAL:
        if (set)
            duration_text(v->metered_interval_ms, out);
        break;
    case POLICY_LEASE_INTERVAL:
        duration_text(p->effective.lease_renew_ms, out);
        break;
    case POLICY_LEASE_DURATION:
        duration_text(p->effective.lease_duration_ms, out);
        break;
    case POLICY_MAX_EVENTS:
        snprintf(out, 64, "%" PRId64, p->effective.outbox_max_events);
        break;
    case POLICY_SHED_FIRST:
        snprintf(out, 64, "%s", shed_words[v->shed_first]);
        break;
    default:
        break;
    }
}

static const char *origin_word(const struct policy *p, enum policy_field f)
{
    static const char *const words[] = { "default", "limpet.ini", "environment", "command line" };
    const struct policy_field_row *r = &policy_fields[f];
    if (p->merged.from[f] != NULL)
        return "policy";
    return r->section != NULL ? words[config_origin_of(p->conf.config, r->section, r->key)] : "default";
}

static struct json *value_json(const struct policy *p, enum policy_field f)
{
    char text[300];
    struct json *j = json_object();
    const struct policy_doc *from = p->merged.from[f];
    bool is_list = f == POLICY_METERED_WINDOWS || f == POLICY_OFFLINE || f == POLICY_MAINTENANCE;
    json_set_str(j, "name", policy_fields[f].name);
    value_text(p, f, text);
    if (!is_list)
        json_set_str(j, "value", text);
    else if (from != NULL)
        json_set(j, "value", json_copy(json_path(from->spec, policy_fields[f].name)));
    else
        json_set(j, "value", json_array());
    json_set_str(j, "source", origin_word(p, f));
    if (from != NULL) {
        snprintf(text, sizeof(text), "%s/%s", from->ns, from->name);
        json_set_str(j, "policy", text);
        json_set_int(j, "priority", from->priority);
    }
    return j;
}

static struct json *maintenance_json(const struct policy *p)
{
    struct json *j = json_object();
    char why[256] = "", at[RFC3339_MAX];
    bool allowed = policy_disruption_allowed(p, why, sizeof(why));
    json_set_bool(j, "windows", policy_has_windows(p));
    json_set_bool(j, "open", allowed);
    if (policy_has_windows(p) && p->clock_trusted && p->maintenance.until_s >= 0)
        json_set_str(j, allowed ? "closes" : "opens", rfc3339_sec(p->maintenance.until_s * 1000000, at));
    if (!allowed)
        json_set_str(j, "why", why);
    return j;
}

static struct json *documents_json(const struct policy *p)
{
    char name[400];
    struct json *list = json_array();
    list_each(n, &p->docs) {
        const struct policy_doc *d = container_of(n, struct policy_doc, link);
        struct json *j = json_object();
        snprintf(name, sizeof(name), "%s/%s", d->ns, d->name);
        json_set_str(j, "policy", name);
        json_set_int(j, "priority", d->priority);
        json_set_int(j, "generation", d->generation);
        json_push(list, j);
    }
    return list;
}

int control_policy(struct client *c, const struct json *q, struct err *e)
{
    const struct policy *p = c->control->conf.agent->policy;
    struct json *j = json_object(), *values = json_array();
    (void)q;
    for (int f = 0; f < POLICY_FIELDS; f++)
        json_push(values, value_json(p, (enum policy_field)f));
    json_set(j, "values", values);
    json_set(j, "policies", documents_json(p));
    json_set_bool(j, "metered", p->metered);
    json_set_int(j, "offlineSeconds", policy_offline_ms(p) / 1000);
    json_set(j, "maintenance", maintenance_json(p));
    return control_line(c, j) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}
