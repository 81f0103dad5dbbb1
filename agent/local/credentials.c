// SPDX-License-Identifier: Apache-2.0
#include "local/credentials.h"

#include <stdio.h>
#include <string.h>

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0' ? v : NULL;
}

static int take(char **member, const char *v, struct err *e)
{
    return v != NULL ? cred_set(member, v, e) : 0;
}

// [server] url with files.
static int from_keys(struct cred *out, const struct config *c, struct disk *files, struct err *e)
{
    bool changed;
    int rc = take(&out->server, c->server_url, e);
    if (rc == 0)
        rc = take(&out->ca_file, c->server_ca_file, e);
    if (rc == 0)
        rc = take(&out->token_file, c->server_token_file, e);
    if (rc == 0)
        rc = take(&out->cert_file, c->server_cert_file, e);
    if (rc == 0)
        rc = take(&out->key_file, c->server_key_file, e);
    return rc < 0 ? rc : cred_reload(out, files, &changed, e);
}

// As Go's clients have it: either case, and never for a server on this very machine.
static const char *env_either(const char *upper, const char *lower)
{
    return env(upper) != NULL ? env(upper) : env(lower);
}

static bool on_this_machine(const char *server)
{
    static const char *const here[] = { "https://127.", "https://localhost:", "https://localhost/", "https://[::1]", "http://" };
    for (size_t i = 0; i < ARRAY_LEN(here); i++)
        if (server != NULL && strncmp(server, here[i], strlen(here[i])) == 0)
            return true;
    return server != NULL && strcmp(server, "https://localhost") == 0;
}

static int read_private(char **out, struct disk *files, const char *path, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(1024);
    struct fs_stat st = { 0 };
    int rc = files->ops->stat(files, path, 0, &st, e);
    if (rc == 0 && (st.mode & 077) != 0)
        return err_set(e, E_INVAL, "%s: others may read it; chmod 600", path);
    if (rc == 0)
        rc = fs_read(files, path, 1024, 0, &text, e);
    while (rc == 0 && text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL)
        text.data[--text.len] = '\0';
    return rc == 0 ? cred_set(out, buf_str(&text), e) : rc;
}

static int read_certificates(char **out, struct disk *files, const char *path, struct err *e)
{
    struct buf pem AUTO_BUF = BUF_INIT(CRED_PEM_MAX);
    int rc = path != NULL ? fs_read(files, path, CRED_PEM_MAX, 0, &pem, e) : 0;
    return rc == 0 && path != NULL ? cred_set(out, buf_str(&pem), e) : rc;
}

int credentials_way(struct cred *out, const struct config *c, struct disk *files, const char *server, struct err *e)
{
    int rc = take(&out->proxy, c->server_proxy, e);
    if (rc == 0 && out->proxy == NULL && !on_this_machine(server))
        rc = take(&out->proxy, env_either("HTTPS_PROXY", "https_proxy"), e);
    if (rc == 0)
        rc = take(&out->no_proxy, c->server_no_proxy != NULL ? c->server_no_proxy : env_either("NO_PROXY", "no_proxy"), e);
    if (rc == 0 && c->server_proxy_auth_file != NULL)
        rc = read_private(&out->proxy_auth, files, c->server_proxy_auth_file, e);
    if (rc == 0)
        rc = read_certificates(&out->extra_ca_pem, files, c->server_extra_ca_file, e);
    return rc == 0 ? read_certificates(&out->proxy_ca_pem, files, c->server_proxy_ca_file, e) : rc;
}

static enum credential choose(const struct config *c)
{
    if (c->server_url != NULL)
        return CREDENTIAL_KEYS;
    return c->server_kubeconfig != NULL ? CREDENTIAL_KUBECONFIG : CREDENTIAL_IDENTITY;
}

static int load(struct cred *out, enum credential from, const struct config *c, struct disk *state, struct disk *files, char node[254],
                struct err *e)
{
    switch (from) {
    case CREDENTIAL_KEYS:
        return from_keys(out, c, files, e);
    case CREDENTIAL_KUBECONFIG:
        return cred_from_kubeconfig(out, files, c->server_kubeconfig, c->server_context, e);
    case CREDENTIAL_IDENTITY:
        return cred_load_identity(out, state, c->state_dir, node, e);
    case CREDENTIAL_IN_CLUSTER:
        return cred_in_cluster(out, files, env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT"), e);
    default:
        return 0;
    }
}

int credentials_load(struct cred *out, enum credential *from, const struct config *c, struct disk *state, struct disk *files,
                     char node[254], struct err *e)
{
    struct err why = ERR_INIT;
    *from = choose(c);
    int rc = load(out, *from, c, state, files, node, &why);
    if (rc == E_NOTFOUND && *from == CREDENTIAL_IDENTITY) {
        bool in_pod = env("KUBERNETES_SERVICE_HOST") != NULL && env("KUBERNETES_SERVICE_PORT") != NULL;
        *from = in_pod ? CREDENTIAL_IN_CLUSTER : CREDENTIAL_NONE;
        why = ERR_INIT;
        rc = load(out, *from, c, state, files, node, &why);
    }
    if (rc < 0)
        return err_set(e, rc, "credentials: %s", why.msg);
    rc = take(&out->server_name, c->server_name, e);
    return rc == 0 ? credentials_way(out, c, files, out->server, e) : rc;
}

static void lower(char *s)
{
    for (; *s != '\0'; s++)
        if (*s >= 'A' && *s <= 'Z')
            *s = (char)(*s + 32);
}

void credentials_names(const struct config *c, const struct cred *cred, char node[254], char ns[64])
{
    if (c->node_name != NULL)
        snprintf(node, 254, "%s", c->node_name);
    if (node[0] == '\0' && gethostname(node, 253) == 0)
        lower(node);
    const char *named = c->node_namespace != NULL ? c->node_namespace : cred->ns;
    snprintf(ns, 64, "%s", named != NULL ? named : "");
}
