// SPDX-License-Identifier: Apache-2.0
#include "wire/http_endpoint.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

struct url_parts {
    CURLU *url;
    char *scheme, *user, *host, *port, *path, *query, *fragment;
};

static void parts_fini(struct url_parts *p)
{
    char *all[] = { p->scheme, p->user, p->host, p->port, p->path, p->query, p->fragment };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        curl_free(all[i]);
    curl_url_cleanup(p->url);
}

// Absent parts stay NULL.
static int parts_init(struct url_parts *p, const char *text, const char *what, struct err *e)
{
    p->url = curl_url();
    if (p->url == NULL)
        return err_set(e, E_NOMEM, "no memory for a URL");
    CURLUcode rc = curl_url_set(p->url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
    if (rc != CURLUE_OK)
        return err_set(e, E_INVAL, "%s: %s", what, curl_url_strerror(rc));
    (void)curl_url_get(p->url, CURLUPART_SCHEME, &p->scheme, 0);
    (void)curl_url_get(p->url, CURLUPART_USER, &p->user, 0);
    (void)curl_url_get(p->url, CURLUPART_HOST, &p->host, 0);
    (void)curl_url_get(p->url, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT);
    (void)curl_url_get(p->url, CURLUPART_PATH, &p->path, 0);
    (void)curl_url_get(p->url, CURLUPART_QUERY, &p->query, 0);
    (void)curl_url_get(p->url, CURLUPART_FRAGMENT, &p->fragment, 0);
    if (p->scheme == NULL || p->host == NULL || p->port == NULL || p->path == NULL)
        return err_set(e, E_INVAL, "%s: not a complete URL", what);
    return 0;
}

static int check_base(const struct url_parts *p, struct err *e)
{
    if (strcmp(p->scheme, "https") != 0 && strcmp(p->scheme, "http") != 0)
        return err_set(e, E_INVAL, "server URL: %s:// is neither https:// nor http://", p->scheme);
    if (p->user != NULL)
        return err_set(e, E_INVAL, "server URL: a user name does not belong there");
    if (p->query != NULL || p->fragment != NULL)
        return err_set(e, E_INVAL, "server URL: '?' and '#' do not belong there");
    return 0;
}

// Request paths begin with a slash, so the base must not end with one.
static int put_base(struct http_endpoint *at, const struct url_parts *p, const char *host, struct err *e)
{
    size_t path_len = strlen(p->path);

    while (path_len > 0 && p->path[path_len - 1] == '/')
        path_len--;
    int n = snprintf(at->base, sizeof at->base, "%s://%s:%s%.*s", p->scheme, host, p->port, (int)path_len, p->path);
    if (n < 0 || (size_t)n >= sizeof at->base)
        return err_set(e, E_TOOBIG, "server URL: longer than %d bytes", HTTP_BASE_MAX - 1);
    snprintf(at->where, sizeof at->where, "%s:%s", p->host, p->port);
    return 0;
}

static bool is_host_name(const char *s)
{
    return *s != '\0' && strlen(s) <= 253 && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] == '\0';
}

static int put_detour(struct http_endpoint *at, const struct url_parts *p, const char *server_name, struct err *e)
{
    char detour[2 * HTTP_BASE_MAX];

    if (!is_host_name(server_name))
        return err_set(e, E_INVAL, "tls-server-name: not a host name: %.60s", server_name);
    snprintf(detour, sizeof detour, "%s:%s:%.300s:%s", server_name, p->port, p->host, p->port);
    at->connect_to = curl_slist_append(NULL, detour);
    return at->connect_to != NULL ? put_base(at, p, server_name, e) : err_set(e, E_NOMEM, "no memory for a URL");
}

static bool is_loopback(const char *host)
{
    bool numeric = host[strspn(host, "0123456789.")] == '\0';
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 || (numeric && strncmp(host, "127.", 4) == 0);
}

static int put_server(struct http_endpoint *at, const struct http_conf *c, struct err *e)
{
    CLEANUP(parts_fini) struct url_parts p = { 0 };
    int rc = parts_init(&p, c->base_url, "server URL", e);

    if (rc == 0)
        rc = check_base(&p, e);
    if (rc < 0)
        return rc;
    at->tls = strcmp(p.scheme, "https") == 0;
    at->loopback = is_loopback(p.host);
    if (c->server_name == NULL || !at->tls)
        return put_base(at, &p, p.host, e);
    return put_detour(at, &p, c->server_name, e);
}

static int copy_to(char **out, const char *s, struct err *e)
{
    *out = s != NULL ? strdup(s) : NULL;
    return s == NULL || *out != NULL ? 0 : err_set(e, E_NOMEM, "no memory for a URL");
}

// Whether the list names the host, or a domain that it is in.
static bool is_named(const char *list, const char *host, size_t host_len)
{
    for (size_t n = 0; *list != '\0'; list += n) {
        list += strspn(list, ", ");
        n = strcspn(list, ", ");
        const char *name = *list == '.' ? list + 1 : list;
        size_t len = n - (size_t)(name - list);
        if (n == 1 && *list == '*')
            return true;
        if (len == 0 || len > host_len || strncasecmp(host + host_len - len, name, len) != 0)
            continue;
        if (len == host_len || host[host_len - len - 1] == '.')
            return true;
    }
    return false;
}

// curl compares with the name that the certificate must carry. Where that is another one than the host's the list is read here.
static const char *no_proxy_for(const struct http_endpoint *at, const char *list)
{
    const char *colon = strrchr(at->where, ':');

    if (list == NULL || at->connect_to == NULL)
        return list != NULL ? list : "";
    return is_named(list, at->where, (size_t)(colon - at->where)) ? "*" : "";
}

// What the URL says of user and password would win in curl.
static int copy_bare(char **out, const struct url_parts *p, struct err *e)
{
    char text[HTTP_BASE_MAX];
    int n = snprintf(text, sizeof text, "%s://%s:%s", p->scheme, p->host, p->port);

    return n >= 0 && (size_t)n < sizeof text ? copy_to(out, text, e) : err_set(e, E_TOOBIG, "proxy URL: too long");
}

static int put_proxy(struct http_endpoint *at, const struct http_conf *c, struct err *e)
{
    const char *proxy = c->proxy;
    CLEANUP(parts_fini) struct url_parts p = { 0 };

    if (proxy == NULL || *proxy == '\0')
        return 0;
    int rc = parts_init(&p, proxy, "proxy URL", e);
    if (rc < 0)
        return rc;
    at->proxy_tls = strcmp(p.scheme, "https") == 0;
    if (!at->proxy_tls && strcmp(p.scheme, "http") != 0)
        return err_set(e, E_UNSUP, "proxy URL: only http:// and https:// proxies are supported, not %s://", p.scheme);
    if (c->proxy_auth != NULL && strchr(c->proxy_auth, ':') == NULL)
        return err_set(e, E_INVAL, "proxy: its credential is not user:password");
    rc = num_i64(p.port, 1, 65535, &at->proxy_port, e); // else curl takes one of its own for http://
    if (rc < 0)
        return err_wrap(e, "proxy URL: port");
    snprintf(at->proxy_where, sizeof at->proxy_where, "%s:%s", p.host, p.port);
    rc = c->proxy_auth != NULL ? copy_bare(&at->proxy, &p, e) : copy_to(&at->proxy, proxy, e);
    if (rc == 0)
        rc = copy_to(&at->no_proxy, no_proxy_for(at, c->no_proxy), e);
    return rc == 0 ? copy_to(&at->proxy_auth, c->proxy_auth, e) : rc;
}

int http_endpoint_init(struct http_endpoint *at, const struct http_conf *c, struct err *e)
{
    if (c->base_url == NULL || *c->base_url == '\0')
        return err_set(e, E_INVAL, "no server URL");
    int rc = put_server(at, c, e);
    return rc == 0 ? put_proxy(at, c, e) : rc;
}

void http_endpoint_fini(struct http_endpoint *at)
{
    char *secrets[] = { at->proxy, at->proxy_auth };

    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        if (secrets[i] != NULL)
            explicit_bzero(secrets[i], strlen(secrets[i]));
        free(secrets[i]);
    }
    free(at->no_proxy);
    curl_slist_free_all(at->connect_to);
    *at = (struct http_endpoint){ 0 };
}
