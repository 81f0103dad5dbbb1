// SPDX-License-Identifier: Apache-2.0
// What users do: they give specs, delete, make again. Each spec carries the number of its act, so that no two are equal by accident.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { SPEC_MAX = 2000 };

static void app_spec(const struct act *a, struct sim_rng *r, char out[SPEC_MAX])
{
    static const char *const restarts[] = { "Always", "Always", "OnFailure" };
    static const char *const probes[] = {
        "", "", ",\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"periodSeconds\":7}",
        ",\"readinessProbe\":{\"exec\":{\"command\":[\"/bin/ready\"]},\"initialDelaySeconds\":2,\"periodSeconds\":11}"
    };
    int replicas = (int)rng_between(r, 0, 3);
    int64_t version = rng_chance(r, 60) ? 100 + a->number : rng_below(r, 3); // an old one comes back at times
    snprintf(out, SPEC_MAX,
             "{\"command\":[\"/bin/app\",\"--version\",\"%" PRId64
             "\"],\"replicas\":%d,\"restartPolicy\":\"%s\",\"terminationGracePeriodSeconds\":%d,"
             "\"env\":[{\"name\":\"COLOUR\",\"value\":\"c%d\"}]%s}",
             version, replicas, restarts[rng_below(r, 3)], (int)rng_between(r, 1, 20), (int)rng_below(r, 2), probes[rng_below(r, 4)]);
}

static void invalid_app_spec(const struct act *a, char out[SPEC_MAX])
{
    snprintf(out, SPEC_MAX, "{\"command\":[],\"replicas\":%d}", a->number);
}

const char *managed_path_of(int path, char out[64])
{
    snprintf(out, 64, "/etc/app/cfg-%d-%c.conf", path / FILES_EACH, 'a' + path % FILES_EACH);
    return out;
}

static void config_spec(const struct act *a, struct sim_rng *r, char out[SPEC_MAX])
{
    static const char *const policies[] = { "Restore", "Delete", "Keep" };
    char path[64];
    int index = (int)a->a, files = (int)rng_between(r, 1, FILES_EACH);
    int n = snprintf(out, SPEC_MAX, "{\"deletionPolicy\":\"%s\"", policies[(index + (rng_chance(r, 20) ? 1 : 0)) % 3]);
    if (index % 2 == 0)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"onChange\":{\"command\":[\"/bin/reload\",\"cfg-%d\"]}", index);
    if (index == 1)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"validate\":{\"command\":[\"/bin/validate\"]}");
    n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"files\":[");
    for (int i = 0; i < files; i++)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, "%s{\"path\":\"%s\",\"content\":\"text %d of cfg-%d\\n\",\"mode\":\"%s\"}",
                      i > 0 ? "," : "", managed_path_of(index * FILES_EACH + i, path), a->number * FILES_EACH + i, index,
                      rng_chance(r, 80) ? "0644" : "0600");
    snprintf(out + n, SPEC_MAX - (size_t)n, "]}");
}

// --- Apps

static bool is_served(struct world *w, const char *plural)
{
    return sim_type_find(&w->server, "edge.limpet.dev", "v1alpha1", plural)->served;
}

static struct sim_object *app(struct world *w, const struct act *a, char name[16])
{
    snprintf(name, 16, "app-%d", (int)a->a);
    return sim_server_find(&w->server, "edgeapps", name);
}

void user_edits_app(struct world *w, const struct act *a)
{
    char name[16], spec[SPEC_MAX];
    struct sim_rng r = { a->seed };
    struct sim_object *o = app(w, a, name);
    if (!is_served(w, "edgeapps"))
        return;
    if (rng_chance(&r, 5))
        invalid_app_spec(a, spec);
    else
        app_spec(a, &r, spec);
    if (o == NULL)
        o = sim_server_create(&w->server, "edgeapps", name, spec);
    else
        sim_server_set_spec(&w->server, o, spec);
    history_edited(w, o);
}

void user_deletes_app(struct world *w, const struct act *a)
{
    char name[16];
    struct sim_object *o = app(w, a, name);
    if (o == NULL)
        return;
    history_deleted(w, o);
    sim_server_delete(&w->server, o);
}

// The same name, another uid.
void user_replaces_app(struct world *w, const struct act *a)
{
    char name[16];
    if (app(w, a, name) == NULL)
        return;
    user_deletes_app(w, a);
    user_edits_app(w, a);
}

void user_wipes_status(struct world *w, const struct act *a)
{
    char name[16];
    struct sim_object *o = app(w, a, name);
    if (o == NULL || json_get(o->json, "status") == NULL)
        return;
    sim_hit(&w->sim, F_WIPED);
    sim_server_wipe_status(&w->server, o);
}

// --- Configs

static void touch_paths(struct world *w, int config)
{
    for (int i = 0; i < FILES_EACH; i++)
        w->paths[config * FILES_EACH + i].settled = false;
}

// What its release by this policy leaves there is not what lay there before.
static void forget_before(struct world *w, int config)
{
    for (int i = 0; i < FILES_EACH; i++)
        w->paths[config * FILES_EACH + i].before_known &= !w->paths[config * FILES_EACH + i].released;
}

static struct sim_object *config(struct world *w, const struct act *a, char name[16])
{
    snprintf(name, 16, "cfg-%d", (int)a->a);
    return sim_server_find(&w->server, "edgeconfigs", name);
}

static const char *policy_of(const struct sim_object *o)
{
    const char *s = json_str(json_path(o->json, "spec.deletionPolicy"));
    return s != NULL ? s : "";
}

static struct sim_object *make_config(struct world *w, const struct act *a, const char *name, const char *spec)
{
    touch_paths(w, (int)a->a);
    forget_before(w, (int)a->a);
    return sim_server_create(&w->server, "edgeconfigs", name, spec);
}

// When the policy changes, it is not ours to say which of the two the agent knows at the end.
static void change_config(struct world *w, const struct act *a, struct sim_object *o, const char *spec)
{
    char before[16];
    snprintf(before, sizeof(before), "%s", policy_of(o));
    sim_server_set_spec(&w->server, o, spec);
    if (strcmp(before, policy_of(o)) != 0)
        touch_paths(w, (int)a->a);
}

void user_edits_config(struct world *w, const struct act *a)
{
    char name[16], spec[SPEC_MAX];
    struct sim_rng r = { a->seed };
    struct sim_object *o = config(w, a, name);
    if (!is_served(w, "edgeconfigs"))
        return;
    config_spec(a, &r, spec);
    if (o == NULL)
        o = make_config(w, a, name, spec);
    else
        change_config(w, a, o, spec);
    history_edited(w, o);
}

void user_deletes_config(struct world *w, const struct act *a)
{
    char name[16];
    struct sim_object *o = config(w, a, name);
    if (o == NULL)
        return;
    for (int i = 0; i < FILES_EACH; i++)
        w->paths[a->a * FILES_EACH + i].released = true;
    history_deleted(w, o);
    sim_server_delete(&w->server, o);
}

void user_replaces_config(struct world *w, const struct act *a)
{
    char name[16];
    if (config(w, a, name) == NULL)
        return;
    user_deletes_config(w, a);
    user_edits_config(w, a);
}
