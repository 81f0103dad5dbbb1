// SPDX-License-Identifier: Apache-2.0
#include "local/credentials.h"

#include <stdio.h>
#include <string.h>

#include "version.h"

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
    return rc == 0 ? take(&out->proxy, c->server_proxy, e) : rc;
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

int credentials_transport(struct transport **out, struct loop *l, const struct config *c, const struct cred *cred, bool any_date,
                          struct err *e)
{
    struct http_conf hc = { .base_url = cred->server,
                            .ca_pem = cred->ca_pem,
                            .cert_pem = cred->cert_pem,
                            .key_pem = cred->key_pem,
                            .server_name = cred->server_name,
                            .proxy = cred->proxy,
                            .no_proxy = c->server_no_proxy,
                            .user_agent = "limpet/" LIMPET_VERSION,
                            .any_date = any_date };
    int rc = http_new(out, l, &hc, e);
    return rc < 0 || any_date ? rc : http_set_bearer(*out, cred->token, e);
}
