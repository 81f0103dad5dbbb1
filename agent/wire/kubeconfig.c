// SPDX-License-Identifier: Apache-2.0
// Kubeconfig files, read as client-go reads them where it matters: data wins over a file, tokenFile over token, relative names are
// relative to the file. What would run a program or weaken TLS is refused by name.
#include <stdio.h>
#include <string.h>

#include "data/json.h"
#include "wire/base64.h"
#include "wire/cred.h"
#include "wire/yaml.h"

// Where we are, for messages.
struct place {
    const char *file;
    const char *list; // "clusters", "users", "contexts"
    const char *name; // of the entry
    struct err *e;
};

static int refuse(const struct place *p, int cls, const char *key, const char *why)
{
    return err_set(p->e, cls, "%s: %s \"%s\": %s%s%s", p->file, p->list, p->name, key, *key != '\0' ? ": " : "", why);
}

// The member as text; *out NULL when absent, null or empty (as kubectl writes what is not set).
static int text_of(const struct place *p, const struct json *j, const char *key, const char **out)
{
    const struct json *v = json_get(j, key);

    *out = NULL;
    if (json_type(v) == JSON_ABSENT || json_type(v) == JSON_NULL)
        return 0;
    if (json_str(v) == NULL)
        return refuse(p, E_INVAL, key, "must be a string (quote it)");
    if (*json_str(v) != '\0')
        *out = json_str(v);
    return 0;
}

static int set_text(const struct place *p, const struct json *j, const char *key, char **member)
{
    const char *text;
    int rc = text_of(p, j, key, &text);

    return rc == 0 ? cred_set(member, text, p->e) : rc;
}

static int set_path(const struct place *p, const struct json *j, const char *key, char **member)
{
    AUTO_BUF struct buf path = BUF_INIT(4096);
    const char *text;
    int rc = text_of(p, j, key, &text);

    if (rc < 0 || text == NULL)
        return rc;
    const char *slash = strrchr(p->file, '/');
    if (text[0] == '/' || slash == NULL)
        rc = buf_adds(&path, text, p->e);
    else
        rc = buf_addf(&path, p->e, "%.*s/%s", (int)(slash - p->file), p->file, strncmp(text, "./", 2) == 0 ? text + 2 : text);
    return rc == 0 ? cred_set(member, buf_str(&path), p->e) : rc;
}

static int add_data(const struct place *p, const struct json *j, const char *key, struct buf *out)
{
    const char *text;
    int rc = text_of(p, j, key, &text);

    if (rc < 0 || text == NULL)
        return rc;
    if (base64_decode(text, strlen(text), out, NULL) < 0)
        return refuse(p, E_INVAL, key, "not base64, or too long");
    if (out->len == 0 || memchr(out->data, '\0', out->len) != NULL)
        return refuse(p, E_INVAL, key, "not PEM text");
    return 0;
}

// "x-data" holds the value itself and wins over "x", which names a file.
static int set_data_or_path(const struct place *p, const struct json *j, const char *key, char **value, char **file)
{
    CLEANUP(buf_wipe) struct buf data = BUF_INIT(CRED_PEM_MAX);
    char data_key[64];

    snprintf(data_key, sizeof data_key, "%s-data", key);
    int rc = add_data(p, j, data_key, &data);
    if (rc == 0 && data.len == 0)
        return set_path(p, j, key, file);
    return rc == 0 ? cred_set(value, buf_str(&data), p->e) : rc;
}

static int refuse_if_set(const struct place *p, const struct json *j, const char *key, const char *why)
{
    enum json_type type = json_type(json_get(j, key));
    bool is_off = type == JSON_ABSENT || type == JSON_NULL || (type == JSON_BOOL && !json_bool(json_get(j, key), false)) ||
                  (type == JSON_STRING && *json_str(json_get(j, key)) == '\0');

    return is_off ? 0 : refuse(p, E_UNSUP, key, why);
}

// --- the three lists -------------------------------------------------------------------------------------------------------------

static int take_cluster(const struct place *p, const struct json *j, struct cred *out)
{
    int rc = refuse_if_set(p, j, "insecure-skip-tls-verify", "a server that is not verified is not accepted; give its CA");

    if (rc == 0)
        rc = set_text(p, j, "server", &out->server);
    if (rc == 0 && out->server == NULL)
        rc = refuse(p, E_INVAL, "server", "missing");
    if (rc == 0)
        rc = set_data_or_path(p, j, "certificate-authority", &out->ca_pem, &out->ca_file);
    if (rc == 0)
        rc = set_text(p, j, "tls-server-name", &out->server_name);
    if (rc == 0)
        rc = set_text(p, j, "proxy-url", &out->proxy);
    return rc;
}

static int refuse_unsupported_user(const struct place *p, const struct json *j)
{
    static const struct {
        const char *key, *why;
    } table[] = {
        { "exec", "credential plugins are not run here; use a token, tokenFile or client certificate" },
        { "auth-provider", "auth providers are not supported; use a token, tokenFile or client certificate" },
        { "username", "basic authentication is not supported; use a token, tokenFile or client certificate" },
        { "password", "basic authentication is not supported; use a token, tokenFile or client certificate" },
        { "as", "impersonation is not supported" },
        { "as-uid", "impersonation is not supported" },
        { "as-groups", "impersonation is not supported" },
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int rc = refuse_if_set(p, j, table[i].key, table[i].why);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int take_user(const struct place *p, const struct json *j, struct cred *out)
{
    int rc = refuse_unsupported_user(p, j);

    if (rc == 0)
        rc = set_path(p, j, "tokenFile", &out->token_file);
    if (rc == 0 && out->token_file == NULL)
        rc = set_text(p, j, "token", &out->token);
    if (rc == 0)
        rc = set_data_or_path(p, j, "client-certificate", &out->cert_pem, &out->cert_file);
    if (rc == 0)
        rc = set_data_or_path(p, j, "client-key", &out->key_pem, &out->key_file);
    bool has_cert = out->cert_pem != NULL || out->cert_file != NULL;
    bool has_key = out->key_pem != NULL || out->key_file != NULL;
    if (rc == 0 && has_cert != has_key)
        rc = refuse(p, E_INVAL, "", "a client certificate needs its key, and the key its certificate");
    return rc;
}

// The entry of that name: {"name": NAME, MEMBER: {...}}.
static int find(const struct place *p, const struct json *doc, const char *member, const struct json **out)
{
    json_each(it, json_get(doc, p->list))
    {
        const char *name = json_str(json_get(it, "name"));
        if (name == NULL || strcmp(name, p->name) != 0)
            continue;
        *out = json_get(it, member);
        return json_type(*out) == JSON_OBJECT ? 0 : refuse(p, E_INVAL, member, "missing");
    }
    return refuse(p, E_INVAL, "", "there is none of that name");
}

static int take_context(const char *file, const struct json *doc, const char *name, struct cred *out, struct err *e)
{
    struct place p = { file, "contexts", name, e };
    const struct json *context, *cluster, *user;
    const char *cluster_name, *user_name;
    int rc = find(&p, doc, "context", &context);

    if (rc == 0)
        rc = text_of(&p, context, "cluster", &cluster_name);
    if (rc == 0)
        rc = text_of(&p, context, "user", &user_name);
    if (rc == 0 && (cluster_name == NULL || user_name == NULL))
        rc = refuse(&p, E_INVAL, "", "needs a cluster and a user");
    if (rc == 0)
        rc = set_text(&p, context, "namespace", &out->ns);
    if (rc < 0)
        return rc;
    struct place at_cluster = { file, "clusters", cluster_name, e };
    struct place at_user = { file, "users", user_name, e };
    rc = find(&at_cluster, doc, "cluster", &cluster);
    if (rc == 0)
        rc = take_cluster(&at_cluster, cluster, out);
    if (rc == 0)
        rc = find(&at_user, doc, "user", &user);
    return rc == 0 ? take_user(&at_user, user, out) : rc;
}

// --- the file --------------------------------------------------------------------------------------------------------------------

static int parse_yaml(struct json **out, const char *yaml, size_t len, const char *path, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(2 * KUBECONFIG_MAX);
    int rc = len <= KUBECONFIG_MAX ? 0 : err_set(e, E_TOOBIG, "longer than %d bytes", KUBECONFIG_MAX);

    if (rc == 0)
        rc = yaml_to_json(yaml, len, 0, &text, e);
    if (rc == 0)
        rc = json_parse(out, text.data, text.len, e);
    return rc == 0 ? 0 : err_wrap(e, "%s", path);
}

int kubeconfig_parse(struct cred *out, const char *yaml, size_t len, const char *path, const char *context, struct err *e)
{
    AUTO_JSON struct json *doc = NULL;
    int rc = parse_yaml(&doc, yaml, len, path, e);

    if (rc < 0)
        return rc;
    if (json_type(doc) != JSON_OBJECT)
        return err_set(e, E_INVAL, "%s: not a kubeconfig", path);
    if (context == NULL || *context == '\0')
        context = json_str(json_get(doc, "current-context"));
    if (context == NULL || *context == '\0')
        return err_set(e, E_INVAL, "%s: no current-context, and none was asked for", path);
    return take_context(path, doc, context, out, e);
}

int kubeconfig_ca(const char *yaml, size_t len, struct buf *pem, struct err *e)
{
    AUTO_JSON struct json *doc = NULL;
    int rc = parse_yaml(&doc, yaml, len, "kubeconfig", e);
    struct place p = { "kubeconfig", "clusters", "", e };

    if (rc < 0)
        return rc;
    const struct json *cluster = json_get(json_at(json_get(doc, "clusters"), 0), "cluster");
    rc = add_data(&p, cluster, "certificate-authority-data", pem);
    return rc == 0 && pem->len == 0 ? err_set(e, E_NOTFOUND, "no CA certificate in it") : rc;
}

int cred_from_kubeconfig(struct cred *out, struct disk *d, const char *path, const char *context, struct err *e)
{
    CLEANUP(buf_wipe) struct buf yaml = BUF_INIT(KUBECONFIG_MAX);
    bool changed;
    int rc = fs_read(d, path, KUBECONFIG_MAX, 0, &yaml, e);

    if (rc < 0)
        return err_wrap(e, "reading %s", path);
    rc = kubeconfig_parse(out, buf_str(&yaml), yaml.len, path, context, e);
    return rc == 0 ? cred_reload(out, d, &changed, e) : rc;
}
