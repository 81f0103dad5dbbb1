// SPDX-License-Identifier: Apache-2.0
#include "wire/pending.h"

#include <stdio.h>
#include <string.h>

#include "data/json.h"
#include "wire/cred.h"
#include "wire/http_csr.h"

enum { PENDING_MAX = 16 * 1024 };

void pending_fini(struct pending *p)
{
    char **all[] = { &p->user, &p->key_pem, &p->request };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (*all[i] != NULL)
            explicit_bzero(*all[i], strlen(*all[i]));
        free(*all[i]);
        *all[i] = NULL;
    }
}

static int fill(struct pending *p, const struct json *j, struct err *e)
{
    const struct {
        const char *key;
        char **to;
    } members[] = { { "user", &p->user }, { "key", &p->key_pem }, { "request", &p->request } };

    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const char *text = json_str(json_get(j, members[i].key));
        if (text == NULL)
            return err_set(e, E_CORRUPT, "%s: no %s in it", PENDING_FILE, members[i].key);
        int rc = cred_set(members[i].to, text, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int pending_load(struct pending *p, struct disk *d, const char *state_dir, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(PENDING_MAX);
    AUTO_JSON struct json *j = NULL;
    char path[4096];

    pending_fini(p);
    snprintf(path, sizeof path, "%s/" PENDING_FILE, state_dir);
    int rc = fs_read(d, path, PENDING_MAX, 0, &text, e);
    if (rc == 0 && json_parse(&j, buf_str(&text), text.len, NULL) < 0)
        rc = err_set(e, E_CORRUPT, "%s: not JSON", PENDING_FILE);
    if (rc == 0)
        rc = fill(p, j, e);
    if (rc < 0)
        pending_fini(p);
    return rc;
}

static int save(const struct pending *p, struct disk *d, const char *state_dir, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(PENDING_MAX);
    AUTO_JSON struct json *j = json_object();
    char path[4096];

    json_set_str(j, "user", p->user);
    json_set_str(j, "key", p->key_pem);
    json_set_str(j, "request", p->request);
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory for a key");
    snprintf(path, sizeof path, "%s/" PENDING_FILE, state_dir);
    int rc = json_print(j, &text, e);
    return rc == 0 ? fs_write(d, path, buf_str(&text), text.len, 0600, 0, e) : rc;
}

int pending_make(struct pending *p, struct disk *d, const char *state_dir, const char *user, struct clock *c, struct err *e)
{
    CLEANUP(buf_wipe) struct buf key = BUF_INIT(TLS_KEY_PEM_MAX);
    AUTO_BUF struct buf request = BUF_INIT(TLS_CSR_PEM_MAX);

    pending_fini(p);
    int rc = tls_make_key(c, &key, e);
    if (rc == 0)
        rc = tls_make_csr(buf_str(&key), CERTIFICATE_GROUP, user, c, &request, e);
    if (rc == 0)
        rc = cred_set(&p->user, user, e);
    if (rc < 0)
        return rc;
    p->key_pem = buf_steal(&key);
    p->request = buf_steal(&request);
    rc = save(p, d, state_dir, e);
    if (rc < 0)
        pending_fini(p);
    return rc;
}

int pending_remove(struct disk *d, const char *state_dir, struct err *e)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/" PENDING_FILE, state_dir);
    return d->ops->unlink(d, path, 0, e);
}
