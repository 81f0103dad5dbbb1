// SPDX-License-Identifier: Apache-2.0
// The identity file of a joined node: one JSON object with all that is needed to speak to the server.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/json.h"
#include "wire/cred.h"

enum { IDENTITY_MAX = 1024 * 1024, IDENTITY_VERSION = 1 };

// The members and where they live in struct cred.
static const struct {
    const char *key;
    size_t at;
    bool required;
} members[] = {
    { "server", offsetof(struct cred, server), true },         { "ca", offsetof(struct cred, ca_pem), true },
    { "token", offsetof(struct cred, token), false },          { "clientCertificate", offsetof(struct cred, cert_pem), false },
    { "clientKey", offsetof(struct cred, key_pem), false },    { "serverName", offsetof(struct cred, server_name), false },
    { "proxy", offsetof(struct cred, proxy), false },          { "namespace", offsetof(struct cred, ns), true },
    { "certificateUser", offsetof(struct cred, user), false }, { "spareToken", offsetof(struct cred, spare), false },
    { "cluster", offsetof(struct cred, cluster), false },      { "receivedBoot", offsetof(struct cred, received_boot), false },
};

static char **member_of(struct cred *c, size_t i)
{
    return (char **)((char *)c + members[i].at);
}

static int fill(struct cred *out, char node[254], const struct json *j, struct err *e)
{
    int64_t version;
    const char *name = json_str(json_get(j, "node"));

    if (!json_i64(json_get(j, "version"), &version) || version != IDENTITY_VERSION)
        return err_set(e, E_UNSUP, "not an identity of version %d", IDENTITY_VERSION);
    if (name == NULL || strlen(name) >= 254)
        return err_set(e, E_CORRUPT, "no node name in it");
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const char *text = json_str(json_get(j, members[i].key));
        if (members[i].required && text == NULL)
            return err_set(e, E_CORRUPT, "no %s in it", members[i].key);
        int rc = cred_set(member_of(out, i), text, e);
        if (rc < 0)
            return rc;
    }
    if (!json_i64(json_get(j, "receivedBootMs"), &out->received_ms) || !json_i64(json_get(j, "receivedServerTime"), &out->received_s))
        out->received_ms = out->received_s = 0;
    strcpy(node, name);
    return 0;
}

static int load(struct cred *out, struct disk *d, const char *path, char node[254], struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(IDENTITY_MAX);
    AUTO_JSON struct json *j = NULL;
    int rc = fs_read(d, path, IDENTITY_MAX, 0, &text, e);

    if (rc == 0 && json_parse(&j, buf_str(&text), text.len, NULL) < 0)
        rc = err_set(e, E_CORRUPT, "not JSON"); // what is there may be a piece of a token: it is not quoted
    if (rc == 0)
        rc = fill(out, node, j, e);
    return rc == 0 ? 0 : err_wrap(e, "%s", path);
}

int cred_load_identity(struct cred *out, struct disk *d, const char *state_dir, char node[254], struct err *e)
{
    char path[4096], prev[4096];
    struct err why = ERR_INIT, ignored = ERR_INIT;

    snprintf(path, sizeof path, "%s/identity.json", state_dir);
    snprintf(prev, sizeof prev, "%s/identity.json.prev", state_dir);
    int rc = load(out, d, path, node, &why);
    if (rc == E_CORRUPT) {
        cred_fini(out);
        rc = load(out, d, prev, node, &ignored) < 0 ? E_CORRUPT : 0;
    }
    if (rc == 0 && why.cls != 0)
        log_warn("cred", "identity-damaged using=%s", prev);
    if (rc < 0)
        cred_fini(out);
    if (rc < 0 && e != NULL)
        *e = why;
    return rc;
}

int cred_load_previous(struct cred *out, struct disk *d, const char *state_dir, char node[254], struct err *e)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/identity.json.prev", state_dir);
    struct err why = ERR_INIT;
    int rc = load(out, d, path, node, &why);
    if (rc < 0 && e != NULL)
        *e = why;
    return rc;
}

static int print(const struct cred *c, const char *node, struct buf *out, struct err *e)
{
    AUTO_JSON struct json *j = json_object();
    struct cred copy = *c; // only to read by the same table

    json_set_int(j, "version", IDENTITY_VERSION);
    json_set_str(j, "node", node);
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        json_set_str(j, members[i].key, *member_of(&copy, i));
    if (c->received_boot != NULL) {
        json_set_int(j, "receivedBootMs", c->received_ms);
        json_set_int(j, "receivedServerTime", c->received_s);
    }
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory for the identity");
    return json_print(j, out, e);
}

// A damaged one is not kept: until the new one is written, the one before is all that there is.
static int keep_previous(struct disk *d, const char *path, const char *prev, struct err *e)
{
    CLEANUP(buf_wipe) struct buf old = BUF_INIT(IDENTITY_MAX);
    CLEANUP(cred_fini) struct cred readable = { 0 };
    struct err why = ERR_INIT, damage = ERR_INIT;
    char node[254];
    int rc = fs_read(d, path, IDENTITY_MAX, 0, &old, &why);

    if (rc == E_NOTFOUND || (rc == 0 && load(&readable, d, path, node, &damage) == E_CORRUPT))
        return 0;
    if (rc == 0)
        return fs_write(d, prev, buf_str(&old), old.len, 0600, 0, e);
    if (e != NULL)
        *e = why;
    return rc;
}

int cred_save_identity(const struct cred *c, struct disk *d, const char *state_dir, const char *node, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(IDENTITY_MAX);
    char path[4096], prev[4096];

    snprintf(path, sizeof path, "%s/identity.json", state_dir);
    snprintf(prev, sizeof prev, "%s/identity.json.prev", state_dir);
    int rc = print(c, node, &text, e);
    if (rc == 0)
        rc = keep_previous(d, path, prev, e);
    if (rc == 0)
        rc = fs_write(d, path, buf_str(&text), text.len, 0600, 0, e);
    return rc == 0 ? 0 : err_wrap(e, "saving the identity");
}
