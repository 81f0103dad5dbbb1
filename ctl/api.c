// SPDX-License-Identifier: Apache-2.0
#include "ctl/api.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "version.h"

enum {
    API_PATIENCE_MS = 30000,
    API_PATIENCE_STEP_MS = 500,
};

// --- Configuration -----------------------------------------------------------------------------------------------------------------

static bool is_there(struct disk *d, const char *path)
{
    struct fs_stat st;
    return d->ops->stat(d, path, 0, &st, NULL) == 0;
}

// The disk seam takes absolute paths only; people give relative ones.
static char *absolute(const char *path)
{
    char *out = NULL;
    if (path[0] == '/')
        return strdup(path);
    char *cwd AUTO_FREE = getcwd(NULL, 0);
    if (cwd == NULL || asprintf(&out, "%s/%s", cwd, path) < 0)
        return NULL;
    return out;
}

// The first file of a list joined by colons that exists; "" when none does.
static char *first_of(struct disk *d, const char *list)
{
    for (const char *p = list; *p != '\0';) {
        size_t n = strcspn(p, ":");
        char *one AUTO_FREE = strndup(p, n);
        char *path AUTO_FREE = one != NULL && n > 0 ? absolute(one) : NULL;
        if (path != NULL && is_there(d, path))
            return steal(path);
        p += n + (p[n] == ':');
    }
    return strdup("");
}

static char *default_kubeconfig(struct disk *d)
{
    const char *list = getenv("KUBECONFIG");
    if (list != NULL && *list != '\0')
        return first_of(d, list);
    const char *home = getenv("HOME");
    char *path = NULL;
    if (home == NULL || asprintf(&path, "%s/.kube/config", home) < 0)
        return strdup("");
    return path;
}

static int load_cred(struct api *a, const char *kubeconfig, const char *context, struct err *e)
{
    char *path AUTO_FREE = kubeconfig != NULL ? absolute(kubeconfig) : default_kubeconfig(a->disk);
    if (path == NULL)
        return err_set(e, E_NOMEM, "no memory");
    if (*path == '\0')
        return err_set(e, E_NOTFOUND, "no kubeconfig: none of the files in $KUBECONFIG exists");
    return cred_from_kubeconfig(&a->cred, a->disk, path, context, e);
}

static int connect_as(struct api *a, struct err *e)
{
    const struct cred *c = &a->cred;
    struct http_conf conf = {
        .base_url = c->server,
        .ca_pem = c->ca_pem,
        .cert_pem = c->cert_pem,
        .key_pem = c->key_pem,
        .server_name = c->server_name,
        .proxy = c->proxy,
        .user_agent = "limpetctl/" LIMPET_VERSION,
    };
    int r = http_new(&a->transport, a->loop, &conf, e);
    if (r == 0 && c->token != NULL)
        r = http_set_bearer(a->transport, c->token, e);
    return r;
}

int api_open(struct api *a, const char *kubeconfig, const char *context, struct err *e)
{
    struct loop_backend *epoll;

    *a = (struct api){ 0 };
    clock_real_init(&a->clock);
    // The administrator's machine is trusted to know the time; whether a node's Lease is fresh is judged by the server's.
    a->clock.always = true;
    int r = loop_backend_epoll(&epoll, e);
    if (r == 0)
        r = loop_new(&a->loop, &a->clock, epoll, e);
    if (r == 0)
        r = disk_real_new(&a->disk, NULL, "", e);
    if (r == 0)
        r = load_cred(a, kubeconfig, context, e);
    if (r == 0)
        r = connect_as(a, e);
    a->kube = (struct kube){ .transport = a->transport, .clock = &a->clock };
    return r;
}

void api_close(struct api *a)
{
    if (a->transport != NULL)
        transport_free(a->transport);
    cred_fini(&a->cred);
    if (a->disk != NULL)
        disk_free(a->disk);
    if (a->loop != NULL)
        loop_free(a->loop);
    *a = (struct api){ 0 };
}

// --- Requests ----------------------------------------------------------------------------------------------------------------------

int api_pause(struct api *a, int64_t ms, struct err *e)
{
    int r = 0;
    int64_t end = clock_mono(&a->clock) + ms;
    for (int64_t left = ms; r == 0 && left > 0; left = end - clock_mono(&a->clock))
        r = loop_turn(a->loop, left, e);
    return r;
}

// Waits for a call that was started and takes its answer.
static int finish(struct api *a, struct kube_call *c, struct json **answer, struct err *e)
{
    int r = kube_wait(a->loop, c, e);
    if (c->http.head.date_sec != 0)
        a->server_s = c->http.head.date_sec;
    if (r == 0 && answer != NULL)
        r = json_parse(answer, buf_str(&c->answer), c->answer.len, e);
    return r;
}

static int exchange_once(struct api *a, const char *method, const char *path, const char *type, const char *body, size_t len,
                         struct json **answer, struct err *e)
{
    struct kube_call call;

    kube_call_init(&call, &a->kube);
    int r = kube_raw(&call, method, path, type, body, len, e);
    if (r == 0)
        r = finish(a, &call, answer, e);
    // An answer can be a new token: what held it is overwritten, not only freed.
    buf_wipe(&call.answer);
    kube_call_fini(&call);
    return r;
}

// "Come back later" is obeyed, within reason: a server says so for a moment whenever it begins to serve a new resource.
static int exchange(struct api *a, const char *method, const char *path, const char *type, const char *body, size_t len,
                    struct json **answer, struct err *e)
{
    int64_t end = clock_mono(&a->clock) + API_PATIENCE_MS;
    for (;;) {
        struct err why = ERR_INIT;
        int r = exchange_once(a, method, path, type, body, len, answer, &why);
        if (r != E_BUSY || clock_mono(&a->clock) >= end) {
            if (r != 0)
                *e = why;
            return r;
        }
        r = api_pause(a, MIN(MAX(why.retry_after_ms, API_PATIENCE_STEP_MS), API_PATIENCE_MS), e);
        if (r != 0)
            return r;
    }
}

int api_get(struct api *a, const char *path, struct json **answer, struct err *e)
{
    return exchange(a, "GET", path, NULL, NULL, 0, answer, e);
}

int api_post(struct api *a, const char *path, const struct json *body, struct json **answer, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(64 * 1024);
    int r = json_print(body, &text, e);
    return r != 0 ? r : exchange(a, "POST", path, "application/json", text.data, text.len, answer, e);
}

int api_put(struct api *a, const char *path, const char *body, size_t len, struct err *e)
{
    return exchange(a, "PUT", path, "application/json", body, len, NULL, e);
}

int api_delete(struct api *a, const char *path, struct err *e)
{
    return exchange(a, "DELETE", path, NULL, NULL, 0, NULL, e);
}

// --- Collections -------------------------------------------------------------------------------------------------------------------

enum { PAGE = 250 }; // objects; keeps an answer well below KUBE_ANSWER_MAX

static int page_path(const char *path, const char *token, struct buf *url, struct err *e)
{
    buf_reset(url);
    int r = buf_addf(url, e, "%s?limit=%d", path, PAGE);
    if (r == 0 && token != NULL && *token != '\0') {
        r = buf_adds(url, "&continue=", e);
        if (r == 0)
            r = http_escape(url, token, e);
    }
    return r;
}

static int each_of_page(const struct json *page, int (*fn)(void *, const struct json *, struct err *), void *ctx, struct err *e)
{
    json_each(item, json_get(page, "items"))
    {
        int r = fn(ctx, item, e);
        if (r != 0)
            return r;
    }
    return 0;
}

int api_each(struct api *a, const char *path, int (*fn)(void *, const struct json *, struct err *), void *ctx, struct err *e)
{
    struct buf url AUTO_BUF = BUF_INIT(HTTP_URL_MAX - 1);
    char *token AUTO_FREE = NULL;

    do {
        struct json *page AUTO_JSON = NULL;
        int r = page_path(path, token, &url, e);
        if (r == 0)
            r = api_get(a, buf_str(&url), &page, e);
        if (r == 0)
            r = each_of_page(page, fn, ctx, e);
        if (r != 0)
            return r;
        const char *next = json_str(json_path(page, "metadata.continue"));
        free(token);
        token = next != NULL && *next != '\0' ? strdup(next) : NULL;
    } while (token != NULL);
    return 0;
}

// --- Paths and names ---------------------------------------------------------------------------------------------------------------

static const struct resource {
    const char *kind, *plural;
} resources[] = {
    { "Namespace", "namespaces" },
    { "ServiceAccount", "serviceaccounts" },
    { "Role", "roles" },
    { "RoleBinding", "rolebindings" },
    { "ClusterRole", "clusterroles" },
    { "ClusterRoleBinding", "clusterrolebindings" },
    { "CertificateSigningRequest", "certificatesigningrequests" },
    { "CustomResourceDefinition", "customresourcedefinitions" },
    { "Lease", "leases" },
    { "EdgeApp", "edgeapps" },
    { "EdgeConfig", "edgeconfigs" },
    { "EdgeJob", "edgejobs" },
    { "EdgeNode", "edgenodes" },
};

static const char *plural_of(const char *kind)
{
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (strcmp(resources[i].kind, kind) == 0)
            return resources[i].plural;
    return NULL;
}

int api_path(char out[HTTP_URL_MAX], const char *api_version, const char *kind, const char *ns, const char *name, struct err *e)
{
    const char *plural = plural_of(kind);
    if (plural == NULL)
        return err_set(e, E_UNSUP, "limpetctl knows no resource for kind %s", kind);
    int n = snprintf(out, HTTP_URL_MAX, "/%s/%s%s%s/%s%s%s", strchr(api_version, '/') != NULL ? "apis" : "api", api_version,
                     *ns != '\0' ? "/namespaces/" : "", ns, plural, name != NULL ? "/" : "", name != NULL ? name : "");
    return n < HTTP_URL_MAX ? 0 : err_set(e, E_TOOBIG, "path of %s %s is too long", kind, name);
}

void api_label(char *out, size_t size, const char *api_version, const char *kind, const char *name)
{
    char lower[64];
    size_t n = 0;
    for (; kind[n] != '\0' && n + 1 < sizeof(lower); n++)
        lower[n] = (char)tolower((unsigned char)kind[n]);
    lower[n] = '\0';
    const char *slash = strchr(api_version, '/');
    int group = slash != NULL ? (int)(slash - api_version) : 0;
    snprintf(out, size, "%s%s%.*s/%s", lower, group > 0 ? "." : "", group, api_version, name);
}

// --- Apply -------------------------------------------------------------------------------------------------------------------------

// What the server counts up by itself, also where nothing else changes, is not a difference.
static void forget_bookkeeping(struct json *object)
{
    struct json *meta = (struct json *)json_get(object, "metadata");
    json_del(meta, "managedFields");
    json_del(meta, "resourceVersion");
    json_del(meta, "generation");
}

static int read_before(struct api *a, const char *path, struct json **before, struct err *e)
{
    struct err why = ERR_INIT;
    int r = api_get(a, path, before, &why);
    if (r == 0 || r == E_NOTFOUND)
        return 0;
    *e = why;
    return r;
}

int api_apply(struct api *a, const struct manifest *m, const char *ns, const char *name, const char *text, bool dry_run, enum applied *how,
              struct err *e)
{
    char path[HTTP_URL_MAX], url[HTTP_URL_MAX + 64];
    struct json *before AUTO_JSON = NULL;
    struct json *after AUTO_JSON = NULL;

    int r = api_path(path, m->api_version, m->kind, ns, name, e);
    if (r == 0)
        r = read_before(a, path, &before, e);
    if (r != 0)
        return r;
    snprintf(url, sizeof(url), "%s?fieldManager=limpetctl&force=true%s", path, dry_run ? "&dryRun=All" : "");
    r = exchange(a, "PATCH", url, "application/apply-patch+yaml", text, strlen(text), &after, e);
    if (r != 0)
        return r;
    if (before == NULL) {
        *how = APPLIED_CREATED;
        return 0;
    }
    forget_bookkeeping(before);
    forget_bookkeeping(after);
    *how = json_equal(before, after) ? APPLIED_UNCHANGED : APPLIED_CONFIGURED;
    return 0;
}

const char *applied_word(enum applied a)
{
    static const char *const words[] = { "created", "configured", "unchanged" };
    return words[a];
}
