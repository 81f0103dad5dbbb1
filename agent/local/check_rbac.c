// SPDX-License-Identifier: Apache-2.0
// Whether the server lets this node do what `limpetctl node add` grants (crd/node.yaml.in, crd/rbac.yaml; the unit test compares). It is asked
// by SelfSubjectAccessReviews, which every account may make; where it may not, by requests that change nothing: for a name
// that no object has, or as a dry run.
#include "local/check_rbac.h"

#include <string.h>

#include "local/check.h"

enum { CALL_MS = 10000, AT_ONCE = 8, MISSING_MAX = 600 };

#define EDGE "edge.limpet.dev"

const struct check_right check_rights[] = {
    { EDGE, "edgeapps", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgeapps", "status", NULL, "get patch", RIGHT_OWN },
    { EDGE, "edgeconfigs", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgeconfigs", "status", NULL, "get patch", RIGHT_OWN },
    { EDGE, "edgejobs", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgejobs", "status", NULL, "get patch", RIGHT_OWN },
    { EDGE, "edgenodes", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgenodes", "status", NULL, "get patch", RIGHT_OWN },
    { EDGE, "edgepolicies", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgepolicies", "status", NULL, "get patch", RIGHT_OWN },
    { "events.k8s.io", "events", "", NULL, "create patch", RIGHT_OWN },
    { "coordination.k8s.io", "leases", "", NULL, "get create patch", RIGHT_OWN },
    { "", "namespaces", "", "@NAMESPACE@", "get", RIGHT_OWN },
    { "", "serviceaccounts", "token", "limpet", "create", RIGHT_OWN },
    { "", "secrets", "", NULL, "get list watch", RIGHT_OWN },
    { "", "configmaps", "", NULL, "get list watch", RIGHT_OWN },
    { EDGE, "edgepolicies", "", NULL, "get list watch", RIGHT_SHARED },
    { "", "namespaces", "", "edge-system", "get", RIGHT_SHARED },
    { "", "namespaces", "", "kube-system", "get", RIGHT_SYSTEM },
};
const size_t n_check_rights = ARRAY_LEN(check_rights);

// One verb of one right.
struct question {
    struct kube_call call;
    struct rbac *rbac;
    const struct check_right *right;
    char verb[8];
    enum { UNKNOWN, ALLOWED, DENIED } answer;
};

struct rbac {
    struct check *k;
    struct question *q;
    size_t n, next, under_way;
    bool by_trying; // reviews are not allowed
    struct err err; // why an answer is unknown
};

static const char *namespace_of(const struct rbac *a, const struct check_right *right)
{
    return right->where == RIGHT_OWN ? a->k->ns : (right->where == RIGHT_SHARED ? "edge-system" : "kube-system");
}

static const char *name_of(const struct rbac *a, const struct check_right *right)
{
    return right->name != NULL && right->name[0] == '@' ? a->k->ns : right->name;
}

// --- asking ----------------------------------------------------------------------------------------------------------------------

static int ask_review(struct question *q, struct err *e)
{
    static const struct kube_type reviews = { "authorization.k8s.io", "v1", "selfsubjectaccessreviews" };
    struct buf text AUTO_BUF = BUF_INIT(4096);
    struct json *j AUTO_JSON = json_object(), *spec = json_object(), *what = json_object();
    json_set_str(what, "namespace", namespace_of(q->rbac, q->right));
    json_set_str(what, "verb", q->verb);
    json_set_str(what, "group", q->right->group);
    json_set_str(what, "resource", q->right->resource);
    json_set_str(what, "subresource", q->right->sub[0] != '\0' ? q->right->sub : NULL);
    json_set_str(what, "name", name_of(q->rbac, q->right));
    json_set_str(j, "apiVersion", "authorization.k8s.io/v1");
    json_set_str(j, "kind", "SelfSubjectAccessReview");
    json_set(spec, "resourceAttributes", what);
    json_set(j, "spec", spec);
    int rc = json_ok() ? json_print(j, &text, e) : err_set(e, E_NOMEM, "no memory for a question");
    return rc < 0 ? rc : kube_create(&q->call, &reviews, NULL, NULL, NULL, buf_str(&text), text.len, e);
}

// Access is judged before anything else is: 404, 400 and 422 mean that it is granted.
static int ask_by_trying(struct question *q, struct err *e)
{
    const struct check_right *right = q->right;
    struct kube_type t = { right->group, right->group[0] == '\0' ? "v1" : (strcmp(right->group, EDGE) == 0 ? "v1alpha1" : "v1"),
                           right->resource };
    bool cluster = strcmp(right->resource, "namespaces") == 0, patch = strcmp(q->verb, "patch") == 0,
         create = strcmp(q->verb, "create") == 0;
    const char *name = name_of(q->rbac, right), *sub = right->sub[0] != '\0' ? right->sub : NULL;
    char url[HTTP_URL_MAX];
    bool named = patch || strcmp(q->verb, "get") == 0;
    int rc = kube_path(url, &t, cluster ? NULL : namespace_of(q->rbac, right), named && name == NULL ? "limpet-check-no-such-object" : name,
                       sub, e);
    if (rc < 0)
        return rc;
    size_t n = strlen(url);
    snprintf(url + n, sizeof(url) - n, "%s",
             create || patch                 ? "?dryRun=All"
             : strcmp(q->verb, "list") == 0  ? "?limit=1"
             : strcmp(q->verb, "watch") == 0 ? "?watch=1&timeoutSeconds=1"
                                             : "");
    return kube_raw(&q->call, create ? "POST" : (patch ? "PATCH" : "GET"), url,
                    create ? "application/json" : (patch ? "application/merge-patch+json" : NULL), "{}", 2, e);
}

// A token is not made only to see whether it may be.
static bool must_not_be_tried(const struct question *q)
{
    return strcmp(q->right->sub, "token") == 0;
}

static void take_answer(struct question *q, const struct err *e)
{
    struct json *j AUTO_JSON = NULL;
    if (q->rbac->by_trying)
        q->answer = e == NULL || e->cls == E_NOTFOUND || e->cls == E_INVAL || e->cls == E_UNSUP ? ALLOWED
                    : e->cls == E_FORBIDDEN                                                     ? DENIED
                                                                                                : UNKNOWN;
    else if (e == NULL && json_parse(&j, buf_str(&q->call.answer), q->call.answer.len, NULL) == 0)
        q->answer = json_bool(json_path(j, "status.allowed"), false) ? ALLOWED : DENIED;
    if (q->answer == UNKNOWN && e != NULL)
        q->rbac->err = *e;
    buf_reset(&q->call.answer);
}

static void ask_more(struct rbac *a);

static void on_answer(struct kube_call *call, struct err *e)
{
    struct question *q = container_of(call, struct question, call);
    q->rbac->under_way--;
    take_answer(q, e);
    ask_more(q->rbac);
}

static void ask_more(struct rbac *a)
{
    while (a->next < a->n && a->under_way < AT_ONCE) {
        struct question *q = &a->q[a->next++];
        if (a->by_trying && must_not_be_tried(q))
            continue;
        q->call.on_done = on_answer;
        q->call.http.total_timeout_ms = check_limit(a->k, CALL_MS);
        int rc = a->by_trying ? ask_by_trying(q, &a->err) : ask_review(q, &a->err);
        a->under_way += rc == 0;
    }
}

static int ask_all(struct rbac *a, struct err *e)
{
    int rc = 0;
    a->next = 0;
    a->err = ERR_INIT;
    for (size_t i = 0; i < a->n; i++)
        a->q[i].answer = UNKNOWN;
    ask_more(a);
    while (rc == 0 && a->under_way > 0)
        rc = loop_turn(a->k->loop, -1, e);
    return rc;
}

// --- what comes of it ------------------------------------------------------------------------------------------------------------

static size_t count(const struct rbac *a, int answer)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++)
        n += (int)a->q[i].answer == answer;
    return n;
}

// "edgeapps: list watch (edge-a); leases: patch (edge-a)"
static void list_denied(const struct rbac *a, char out[MISSING_MAX])
{
    const struct check_right *last = NULL;
    out[0] = '\0';
    for (size_t i = 0; i < a->n; i++) {
        const struct question *q = &a->q[i];
        size_t n = strlen(out);
        if (q->answer != DENIED)
            continue;
        if (q->right == last)
            snprintf(out + n, MISSING_MAX - n, " %s", q->verb);
        else
            snprintf(out + n, MISSING_MAX - n, "%s%s%s%s in %s: %s", n > 0 ? "; " : "", q->right->resource,
                     q->right->sub[0] != '\0' ? "/" : "", q->right->sub, namespace_of(a, q->right), q->verb);
        last = q->right;
    }
}

static void report(const struct rbac *a, struct check_result *r)
{
    size_t denied = count(a, DENIED), allowed = count(a, ALLOWED);
    const char *how = a->by_trying ? " (tried, as this account may not ask for reviews)" : "";
    char missing[MISSING_MAX];
    if (denied == 0 && a->err.cls != 0) {
        check_say(r, CHECK_FAIL, "only %zu of %zu rights could be asked for: %s", allowed, a->n, a->err.msg);
        return;
    }
    if (denied == 0) {
        check_say(r, CHECK_OK, "all %zu rights that a node needs%s", allowed, how);
        return;
    }
    list_denied(a, missing);
    check_say(r, CHECK_FAIL, "%zu of %zu rights are missing: %s%s", denied, a->n, missing, how);
    check_cause(r, allowed == 0 ? "none is left: the namespace or its RoleBindings are gone, or this is the account of something else"
                                : "the Role or RoleBinding \"limpet\" was changed, or is of an older limpet");
    check_remedy(r, "`limpetctl install` and `limpetctl node add %s --replace` put Roles and RoleBindings back", a->k->node);
}

static void add_verbs(struct rbac *a, const struct check_right *right)
{
    for (const char *v = right->verbs; *v != '\0'; v += strspn(v, " ")) {
        size_t n = strcspn(v, " ");
        if (a->q != NULL) {
            struct question *q = &a->q[a->n];
            kube_call_init(&q->call, &a->k->kube);
            q->rbac = a;
            q->right = right;
            snprintf(q->verb, sizeof(q->verb), "%.*s", (int)n, v);
        }
        a->n++;
        v += n;
    }
}

static int make_questions(struct rbac *a, struct err *e)
{
    for (size_t i = 0; i < n_check_rights; i++)
        add_verbs(a, &check_rights[i]);
    a->q = calloc(a->n, sizeof(*a->q));
    if (a->q == NULL)
        return err_set(e, E_NOMEM, "no memory for the questions");
    a->n = 0;
    for (size_t i = 0; i < n_check_rights; i++)
        add_verbs(a, &check_rights[i]);
    return 0;
}

static void rbac_fini(struct rbac *a)
{
    for (size_t i = 0; a->q != NULL && i < a->n; i++)
        kube_call_fini(&a->q[i].call);
    free(a->q);
}

void check_rbac(struct check *k, struct check_result *r)
{
    CLEANUP(rbac_fini) struct rbac a = { .k = k };
    struct err e = ERR_INIT;
    if (k->config->server_metaserver) {
        check_say(r, CHECK_SKIP, "KubeEdge's MetaServer cannot be asked for rights");
        return;
    }
    int rc = make_questions(&a, &e);
    if (rc == 0)
        rc = ask_all(&a, &e);
    if (rc == 0 && (a.err.cls == E_FORBIDDEN || a.err.cls == E_NOTFOUND || a.err.cls == E_UNSUP)) {
        a.by_trying = true;
        rc = ask_all(&a, &e);
    }
    if (rc < 0)
        check_say(r, CHECK_FAIL, "%s", e.msg);
    else
        report(&a, r);
}
