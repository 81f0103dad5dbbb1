// SPDX-License-Identifier: Apache-2.0
#include "sim_meta.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FROZEN_MS = 10000 };

struct remembered {
    struct list link;
    const struct sim_type *type;
    char ns[64], name[SIM_NAME_MAX];
    char *text;
};

static struct remembered *of_list(struct list *l)
{
    return container_of(l, struct remembered, link);
}

static struct remembered *find(struct sim_meta *m, const struct sim_type *t, const char *ns, const char *name)
{
    list_each(it, &m->cached) {
        struct remembered *c = of_list(it);
        if (c->type == t && strcmp(c->ns, ns) == 0 && strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}

static void remember(struct sim_meta *m, const struct sim_type *t, const char *ns, const char *name, const char *text)
{
    struct remembered *c = find(m, t, ns, name);
    if (c == NULL) {
        c = calloc(1, sizeof(*c));
        if (c == NULL)
            abort();
        c->type = t;
        snprintf(c->ns, sizeof(c->ns), "%s", ns);
        snprintf(c->name, sizeof(c->name), "%s", name);
        list_add_tail(&m->cached, &c->link);
    }
    free(c->text);
    c->text = strdup(text);
}

// Other programs of the node read what they like, and leave it in the cache.
static void others_read(struct sim_meta *m, const struct sim_type *t)
{
    sim_each_object(o, m->server) if (o->type == t && !o->hidden && rng_chance(&m->rng, m->curious_percent))
        remember(m, t, o->ns, o->name, o->text);
}

// --- Answers from the cache

static void add(struct buf *b, const char *text)
{
    struct err e = ERR_INIT;
    if (buf_adds(b, text, &e) < 0)
        abort();
}

// Of fields it knows only metadata.name; whoever asks for another, also beside it, gets nothing.
static bool is_selected(const struct remembered *c, const char *labels, const char *fields)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, c->text, strlen(c->text), &e) < 0)
        abort();
    bool knows = fields[0] == '\0' || (strncmp(fields, "metadata.name=", 14) == 0 && strchr(fields, ',') == NULL);
    bool yes = knows && sim_selected(labels, fields, j);
    json_free(j);
    return yes;
}

// "EdgeApp" becomes "Edgeapp".
static void wrong_case(const char *kind, char out[80])
{
    snprintf(out, 80, "%s", kind);
    for (char *p = out + 1; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
}

static void list_from_cache(struct sim_meta *m, const struct sim_place *p, const char *url, struct sim_answer *a)
{
    char text[300], kind[80], labels[200], fields[200];
    bool any = false;
    sim_query(url, "labelSelector", labels, sizeof(labels));
    sim_query(url, "fieldSelector", fields, sizeof(fields));
    wrong_case(p->type->kind, kind);
    buf_reset(&a->body);
    snprintf(text, sizeof(text), "{\"apiVersion\":\"%s/%s\",\"kind\":\"%sList\",\"metadata\":{\"resourceVersion\":\"%lld\"},\"items\":[",
             p->type->group, p->type->version, kind, (long long)m->server->rv);
    add(&a->body, text);
    list_each(it, &m->cached) {
        const struct remembered *c = of_list(it);
        if (c->type != p->type || (p->ns != NULL && strcmp(c->ns, p->ns) != 0) || !is_selected(c, labels, fields))
            continue;
        add(&a->body, any ? "," : "");
        add(&a->body, c->text);
        any = true;
    }
    add(&a->body, "]}");
    a->status = 200;
}

static void read_from_cache(struct sim_meta *m, const struct sim_place *p, const struct sim_request *r, struct sim_answer *a)
{
    struct remembered *c = p->name != NULL ? find(m, p->type, p->ns != NULL ? p->ns : "", p->name) : NULL;
    a->content_type = "application/json";
    a->retry_after_s = 0;
    m->lies++;
    if (p->name == NULL)
        list_from_cache(m, p, r->url, a);
    else if (c != NULL)
        sim_ok(a, c->text);
    else
        sim_fail_object(a, 404, "NotFound", p->type, p->name);
}

// --- Requests

static void answer_alone(struct sim_meta *m, const struct sim_place *p, const struct sim_request *r, struct sim_answer *a)
{
    if (strcmp(r->method, "GET") == 0)
        read_from_cache(m, p, r, a);
    else
        sim_fail(a, 500, "InternalError", "connection lost between EdgeCore and CloudCore");
    a->delay_ms = m->cloud == CLOUD_FROZEN ? FROZEN_MS : 0;
}

static void pass_through(struct sim_meta *m, const struct sim_place *p, const struct sim_request *r, struct sim_answer *a)
{
    sim_cloud_answer(m->server, r, a);
    if (strcmp(r->method, "GET") != 0)
        return;
    if (a->status != 200 || strcmp(a->content_type, "application/json") != 0)
        read_from_cache(m, p, r, a);
    else if (p->name != NULL)
        remember(m, p->type, p->ns != NULL ? p->ns : "", p->name, buf_str(&a->body));
    else
        others_read(m, p->type);
}

static bool is_a_watch(const char *url)
{
    char text[8];
    return sim_query(url, "watch", text, sizeof(text)) != 0;
}

void sim_meta_answer(struct sim_meta *m, const struct sim_request *r, struct sim_answer *a)
{
    struct sim_place p;
    *a = (struct sim_answer){ .content_type = "application/json", .body = BUF_INIT(16 << 20) };
    if (!sim_find_place(m->server, r->url, &p)) {
        sim_page_not_found(a);
    } else if (is_a_watch(r->url)) {
        sim_violation(m->server->sim, "a watch through MetaServer, which tells of the dead: %.120s", r->url);
        sim_fail(a, 422, "Invalid", "sendInitialEvents is forbidden");
    } else if (m->cloud == CLOUD_THERE) {
        sim_answer_fini(a);
        pass_through(m, &p, r, a);
    } else {
        answer_alone(m, &p, r, a);
    }
}

// --- The whole

void sim_meta_cloud(struct sim_meta *m, enum sim_cloud c)
{
    static const char *const words[] = { "is there", "is away", "is frozen" };
    if (m->cloud == c)
        return;
    m->cloud = c;
    sim_note(m->server->sim, "meta", "the cloud %s", words[c]);
}

void sim_meta_forget(struct sim_meta *m)
{
    sim_note(m->server->sim, "meta", "the cache is empty");
    list_each_safe(it, next, &m->cached) {
        struct remembered *c = of_list(it);
        list_del(&c->link);
        free(c->text);
        free(c);
    }
}

void sim_meta_init(struct sim_meta *m, struct sim_server *v)
{
    *m = (struct sim_meta){ .server = v, .rng = sim_stream(v->sim, "meta"), .curious_percent = 10 };
    list_init(&m->cached);
    v->meta = m;
}

void sim_meta_fini(struct sim_meta *m)
{
    sim_meta_forget(m);
    m->server->meta = NULL;
}
