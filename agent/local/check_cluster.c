// SPDX-License-Identifier: Apache-2.0
// What the server says to this node's credential: who it is, its namespace, the types, its lease.
#include <inttypes.h>
#include <string.h>

#include "kinds/registry.h"
#include "local/check.h"
#include "wire/token.h"

enum { CALL_MS = 10000, MISSING_MAX = 400 };

static const struct kube_type namespaces = { "", "v1", "namespaces" }, leases = { "coordination.k8s.io", "v1", "leases" };

#define JOIN_AGAIN "join again: `limpetctl node add NAME --replace` prints the command. What runs here goes on meanwhile"

// One GET; *out is the answer's tree.
static int get(struct check *k, const struct kube_type *t, const char *ns, const char *name, struct json **out, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    kube_call_init(&call, &k->kube);
    call.http.total_timeout_ms = check_limit(k, CALL_MS);
    int rc = kube_get(&call, t, ns, name, e);
    if (rc == 0)
        rc = kube_wait(k->loop, &call, e);
    return rc < 0 ? rc : json_parse(out, buf_str(&call.answer), call.answer.len, e);
}

static int get_path(struct check *k, const char *path, struct json **out, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    kube_call_init(&call, &k->kube);
    call.http.total_timeout_ms = check_limit(k, CALL_MS);
    int rc = kube_raw(&call, "GET", path, NULL, NULL, 0, e);
    if (rc == 0)
        rc = kube_wait(k->loop, &call, e);
    return rc < 0 ? rc : json_parse(out, buf_str(&call.answer), call.answer.len, e);
}

// --- login -----------------------------------------------------------------------------------------------------------------------

static void say_refused(struct check *k, struct check_result *r)
{
    struct token_claims claims = { 0 };
    bool token = k->cred.token != NULL, readable = token && token_read(k->cred.token, &claims, NULL) == 0;
    char when[48];
    check_say(r, CHECK_FAIL, "the server does not accept the %s (401)", token ? "token" : "client certificate");
    if (readable && claims.expires > 0 && claims.expires <= check_now(k))
        check_cause(r, "the token expired %s", check_when(claims.expires - check_now(k), when));
    else if (claims.account[0] != '\0')
        check_cause(r,
                    "it was revoked: the ServiceAccount %s of namespace %s, or that namespace, was deleted or made again; or the cluster "
                    "signs with another key",
                    claims.account, claims.ns);
    else
        check_cause(r, "it has expired, was revoked, or is of another cluster");
    check_remedy(r, k->from == CREDENTIAL_IDENTITY ? JOIN_AGAIN : "put a valid one in the place that [server] names");
}

// Any answer of the API but 401 says that it knows who asks. With what is asked for the next check goes on.
void check_login(struct check *k, struct check_result *r)
{
    int rc = get(k, &namespaces, NULL, k->ns, &k->own_ns, &k->login_err);
    if (rc == E_AUTH && k->login_err.http == 401) {
        say_refused(k, r);
    } else if (rc == 0 || rc == E_FORBIDDEN || rc == E_NOTFOUND) {
        check_say(r, CHECK_OK, "the server accepts the %s", k->cred.token != NULL ? "token" : "client certificate");
    } else {
        check_say(r, CHECK_FAIL, "%s", k->login_err.msg);
        check_cause(r, "the server does not answer a request as it should");
        check_remedy(r, "look at the API server's log and load");
    }
}

void check_namespace(struct check *k, struct check_result *r)
{
    const char *phase = json_path_str(k->own_ns, "status.phase");
    if (k->login_err.cls == E_FORBIDDEN) { // whether that is one right or all of them shows next
        check_say(r, CHECK_SKIP, "this node may not look at %s: see rbac", k->ns);
        r->holds = false;
        r->needs = "rbac";
        return;
    }
    if (k->login_err.cls == E_NOTFOUND)
        check_say(r, CHECK_FAIL, "there is no namespace %s", k->ns);
    else if (strcmp(phase, "Terminating") == 0)
        check_say(r, CHECK_FAIL, "namespace %s is being deleted", k->ns);
    else
        check_say(r, CHECK_OK, "%s is there", k->ns);
    if (r->status == CHECK_OK)
        return;
    check_cause(r, "the namespace was deleted, and all objects of this node with it; the agent keeps what runs until somebody decides");
    check_remedy(r, "`limpetctl node add NAME` makes it again, then join; or `limpet leave`, if the node is to go");
}

// --- the types -------------------------------------------------------------------------------------------------------------------

static const struct kind *const kinds[] = { &kind_edgeapp, &kind_edgeconfig, &kind_edgejob, &kind_edgenode, &kind_edgepolicy };

static bool serves(const struct json *list, const char *plural, const char *sub)
{
    char name[100];
    snprintf(name, sizeof(name), "%s%s", plural, sub);
    json_each(res, json_get(list, "resources")) if (strcmp(json_path_str(res, "name"), name) == 0) return true;
    return false;
}

static void add_word(char *list, size_t max, const char *word, const char *more)
{
    size_t n = strlen(list);
    snprintf(list + n, max - n, "%s%s%s", n > 0 ? ", " : "", word, more);
}

// Nothing of our version: what else is there of the group?
static void say_no_group(struct check *k, struct check_result *r)
{
    struct json *group AUTO_JSON = NULL;
    char path[200], versions[200] = "";
    struct err e = ERR_INIT;
    snprintf(path, sizeof(path), "/apis/%s", kinds[0]->type.group);
    if (get_path(k, path, &group, &e) == 0)
        json_each(v, json_get(group, "versions")) add_word(versions, sizeof(versions), json_path_str(v, "version"), "");
    if (versions[0] != '\0')
        check_say(r, CHECK_FAIL, "%s is served as %s, and this limpet speaks %s", kinds[0]->type.group, versions, kinds[0]->type.version);
    else
        check_say(r, CHECK_FAIL, "none is installed: the server does not know %s", kinds[0]->type.group);
    check_cause(r, versions[0] != '\0' ? "limpet and the CRDs are of different releases" : "limpetctl install was not run on this cluster");
    check_remedy(r, "`limpetctl install` of the same release as this limpet");
}

void check_crds(struct check *k, struct check_result *r)
{
    struct json *list AUTO_JSON = NULL;
    char path[200], missing[MISSING_MAX] = "";
    struct err e = ERR_INIT;
    if (k->config->server_metaserver) {
        check_say(r, CHECK_SKIP, "KubeEdge's MetaServer cannot be asked for types");
        return;
    }
    snprintf(path, sizeof(path), "/apis/%s/%s", kinds[0]->type.group, kinds[0]->type.version);
    int rc = get_path(k, path, &list, &e);
    if (rc == E_UNSUP || rc == E_NOTFOUND) {
        say_no_group(k, r);
        return;
    }
    if (rc < 0) {
        check_say(r, rc == E_FORBIDDEN ? CHECK_SKIP : CHECK_FAIL, "%s", e.msg);
        check_cause(r, "the list of types cannot be had (ClusterRole system:discovery lets every account read it)");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!serves(list, kinds[i]->type.plural, ""))
            add_word(missing, sizeof(missing), kinds[i]->type.plural, "");
        else if (!serves(list, kinds[i]->type.plural, "/status"))
            add_word(missing, sizeof(missing), kinds[i]->type.plural, "/status");
    if (missing[0] == '\0') {
        check_say(r, CHECK_OK, "all %zu of %s/%s", ARRAY_LEN(kinds), kinds[0]->type.group, kinds[0]->type.version);
        return;
    }
    check_say(r, CHECK_FAIL, "missing: %s", missing);
    check_cause(r, "a CRD was deleted, or is of an older release than this limpet");
    check_remedy(r, "`limpetctl install` of the same release as this limpet");
}

// --- the lease -------------------------------------------------------------------------------------------------------------------

// Ours is a random id in the state directory. "" = it cannot be read, or no agent ever ran.
static int read_holder(struct check *k, char out[64], struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(64);
    char path[512];
    snprintf(path, sizeof(path), "%s/holder", k->config->state_dir);
    int rc = fs_read(k->disk, path, 64, 0, &text, e);
    snprintf(out, 64, "%s", buf_str(&text));
    out[strcspn(out, " \r\n")] = '\0';
    return rc;
}

static void say_other(struct check_result *r, const char *holder, int64_t age)
{
    char when[48];
    check_say(r, CHECK_FAIL, "agent %s holds it, renewed %s", holder, check_when(-age, when));
    check_cause(r,
                "another machine runs with this node's name and credential (a cloned disk?), or this one's state directory was replaced");
    check_remedy(r,
                 "stop one of the two: `limpet leave` there, or give this one a name of its own with `limpetctl node add`. A lease that is "
                 "not renewed is taken over by itself");
}

static void judge_lease(struct check *k, struct check_result *r, const struct json *lease)
{
    const char *holder = json_path_str(lease, "spec.holderIdentity");
    int64_t us = 0, duration = MAX(json_path_i64(lease, "spec.leaseDurationSeconds"), (int64_t)1);
    int64_t age = rfc3339_parse(json_path_str(lease, "spec.renewTime"), &us) ? check_now(k) - us / 1000000 : 0;
    struct err e = ERR_INIT;
    char ours[64], when[48];
    int rc = read_holder(k, ours, &e);
    if (holder[0] == '\0')
        check_say(r, CHECK_OK, "nobody has taken it yet");
    else if (rc < 0 && rc != E_NOTFOUND)
        check_say(r, CHECK_SKIP, "held by %s; who we are cannot be read: %s", holder, e.msg);
    else if (strcmp(holder, ours) == 0)
        check_say(r, CHECK_OK, "ours, renewed %s", check_when(-MAX(age, (int64_t)0), when));
    else if (age <= duration)
        say_other(r, holder, MAX(age, (int64_t)0));
    else
        check_say(r, CHECK_OK, "left by %s, who renewed it %s: an agent here takes it over", holder, check_when(-age, when));
}

void check_lease(struct check *k, struct check_result *r)
{
    struct json *lease AUTO_JSON = NULL;
    struct err e = ERR_INIT;
    if (!k->config->lease_enabled) {
        check_say(r, CHECK_OK, "disabled by [lease] enabled");
        return;
    }
    int rc = get(k, &leases, k->ns, k->node, &lease, &e);
    if (rc == 0)
        judge_lease(k, r, lease);
    else if (rc == E_NOTFOUND)
        check_say(r, CHECK_OK, "there is none: an agent here makes it");
    else if (rc == E_FORBIDDEN)
        check_needs(r, "rbac");
    else
        check_say(r, CHECK_FAIL, "%s", e.msg);
}
