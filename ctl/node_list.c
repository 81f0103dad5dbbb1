// SPDX-License-Identifier: Apache-2.0
//
// limpetctl node list: every node, and whether it can be reached, which only its Lease tells.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/lease.h"

struct row {
    char *name, *ns, *version;
    int64_t created_s; // seconds since 1970, 0 = unknown
    struct lease_facts lease;
};

struct rows {
    struct row *row; // in the order of by_name() once all are there
    size_t n, alloc;
};

// --- Collecting ----------------------------------------------------------------------------------------------------------------------

static void rows_fini(struct rows *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->row[i].name);
        free(l->row[i].ns);
        free(l->row[i].version);
    }
    free(l->row);
}

// What a node wrote goes to an administrator's terminal: only printable ASCII.
static char *copy_of(const struct json *j, const char *absent)
{
    const char *s = json_str(j);
    char *copy = strdup(s != NULL && *s != '\0' ? s : absent);
    for (char *c = copy; c != NULL && *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    return copy;
}

static int64_t seconds_of(const struct json *j)
{
    int64_t us;
    const char *s = json_str(j);
    return s != NULL && rfc3339_parse(s, &us) ? us / 1000000 : 0;
}

static int rows_grow(struct rows *l, struct err *e)
{
    if (l->n < l->alloc)
        return 0;
    size_t alloc = l->alloc == 0 ? 64 : 2 * l->alloc;
    struct row *row = reallocarray(l->row, alloc, sizeof(*row));
    if (row == NULL)
        return err_set(e, E_NOMEM, "no memory");
    l->row = row;
    l->alloc = alloc;
    return 0;
}

static int take_node(void *ctx, const struct json *node, struct err *e)
{
    struct rows *l = ctx;
    int r = rows_grow(l, e);
    if (r != 0)
        return r;
    struct row *row = &l->row[l->n++];
    *row = (struct row){
        .name = copy_of(json_path(node, "metadata.name"), ""),
        .ns = copy_of(json_path(node, "metadata.namespace"), ""),
        .version = copy_of(json_path(node, "status.nodeInfo.agentVersion"), "<none>"),
        .created_s = seconds_of(json_path(node, "metadata.creationTimestamp")),
    };
    return row->name != NULL && row->ns != NULL && row->version != NULL ? 0 : err_set(e, E_NOMEM, "no memory");
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : strcmp(x->ns, y->ns);
}

// Most Leases of a cluster are of others: only one with a node's name and namespace is looked at.
static int take_lease(void *ctx, const struct json *lease, struct err *e)
{
    struct rows *l = ctx;
    struct row like = { 0 };
    const char *ns = json_str(json_path(lease, "metadata.namespace"));
    const char *name = json_str(json_path(lease, "metadata.name"));
    const char *renewed = json_str(json_path(lease, "spec.renewTime"));

    if (ns == NULL || name == NULL)
        return err_set(e, E_CORRUPT, "the server listed a Lease without a name");
    like.name = (char *)name;
    like.ns = (char *)ns;
    struct row *row = l->n > 0 ? bsearch(&like, l->row, l->n, sizeof(like), by_name) : NULL;
    if (row == NULL)
        return 0;
    row->lease.renewed = renewed != NULL && rfc3339_parse(renewed, &row->lease.renew_us);
    if (!json_i64(json_path(lease, "spec.leaseDurationSeconds"), &row->lease.duration_s))
        row->lease.duration_s = 0;
    return 0;
}

static int collect(struct api *a, struct rows *l, struct err *e)
{
    int r = api_each(a, "/apis/edge.limpet.dev/v1alpha1/edgenodes", take_node, l, e);
    if (r == 0 && l->n > 1)
        qsort(l->row, l->n, sizeof(*l->row), by_name);
    return r != 0 ? r : api_each(a, "/apis/coordination.k8s.io/v1/leases", take_lease, l, e);
}

// --- Showing -------------------------------------------------------------------------------------------------------------------------

// How long ago the node was heard of, as a column.
static const char *last_seen(const struct lease_facts *lease, int64_t now_us, char out[SPAN_TEXT_MAX])
{
    switch (lease_judge(lease, now_us)) {
    case LEASE_NEVER:
        return "<never>";
    case LEASE_AHEAD:
        return "<clock ahead>";
    default:
        return span_text((now_us - lease->renew_us) / 1000000, out);
    }
}

static const char *age(const struct row *r, int64_t now_us, char out[SPAN_TEXT_MAX])
{
    return r->created_s == 0 ? "<unknown>" : span_text(now_us / 1000000 - r->created_s, out);
}

static int longest(const struct rows *l, const char *title, size_t field)
{
    size_t width = strlen(title);
    for (size_t i = 0; i < l->n; i++)
        width = MAX(width, strlen(*(char *const *)((const char *)&l->row[i] + field)));
    return (int)width;
}

static void print_table(const struct rows *l, int64_t now_us)
{
    char old[SPAN_TEXT_MAX], seen[SPAN_TEXT_MAX];
    int name = longest(l, "NAME", offsetof(struct row, name));
    int ns = longest(l, "NAMESPACE", offsetof(struct row, ns));

    if (l->n == 0) {
        fprintf(stderr, "There are no nodes. limpetctl node add makes one.\n");
        return;
    }
    printf("%-*s   %-*s   READY     AGE       LAST-SEEN       VERSION\n", name, "NAME", ns, "NAMESPACE");
    for (size_t i = 0; i < l->n; i++) {
        const struct row *r = &l->row[i];
        printf("%-*s   %-*s   %-7s   %-7s   %-13s   %s\n", name, r->name, ns, r->ns, lease_ready(lease_judge(&r->lease, now_us)),
               age(r, now_us, old), last_seen(&r->lease, now_us, seen), r->version);
    }
}

static struct json *row_json(const struct row *r, int64_t now_us)
{
    char text[RFC3339_MAX];
    enum lease_state state = lease_judge(&r->lease, now_us);
    struct json *j = json_object();

    json_set_str(j, "name", r->name);
    json_set_str(j, "namespace", r->ns);
    json_set_str(j, "ready", lease_ready(state));
    json_set_str(j, "reason", lease_reason(state));
    json_set_str(j, "lastSeen", r->lease.renewed ? rfc3339_sec(r->lease.renew_us, text) : NULL);
    json_set_str(j, "created", r->created_s != 0 ? rfc3339_sec(r->created_s * 1000000, text) : NULL);
    json_set_str(j, "version", strcmp(r->version, "<none>") != 0 ? r->version : NULL);
    return j;
}

static int print_json(const struct rows *l, int64_t now_us, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(64 * 1024 * 1024);
    struct json *all AUTO_JSON = json_array();
    for (size_t i = 0; i < l->n; i++)
        json_push(all, row_json(&l->row[i], now_us));
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory");
    int r = json_print(all, &text, e);
    if (r == 0)
        printf("%s\n", buf_str(&text));
    return r;
}

static int print_rows(const struct rows *l, const char *output, int64_t now_us, struct err *e)
{
    if (output != NULL && strcmp(output, "json") == 0)
        return print_json(l, now_us, e);
    if (output == NULL)
        print_table(l, now_us);
    for (size_t i = 0; output != NULL && i < l->n; i++)
        printf("%s\n", l->row[i].name);
    return 0;
}

int cmd_node_list(const struct options *o)
{
    struct api a;
    struct rows l = { 0 };
    struct err e = ERR_INIT;

    if (o->output != NULL && strcmp(o->output, "json") != 0 && strcmp(o->output, "name") != 0) {
        err_set(&e, E_INVAL, "unknown output format \"%s\"", o->output);
        cmd_fail(&e, "the formats are json and name; without -o it is a table");
        return EXIT_USAGE;
    }
    if (cmd_open(&a, o) != EXIT_DONE)
        return EXIT_FAILED;
    int r = collect(&a, &l, &e);
    // The server wrote what is compared, or saw it: its clock is the one to measure by.
    int64_t now_us = a.server_s != 0 ? a.server_s * 1000000 : clock_wall_us(&a.clock);
    if (r == 0)
        r = print_rows(&l, o->output, now_us, &e);
    rows_fini(&l);
    api_close(&a);
    return r == 0 ? EXIT_DONE : cmd_fail(&e, r == E_UNSUP ? "run limpetctl install first" : NULL);
}
