// SPDX-License-Identifier: Apache-2.0
#include "ctl/name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/sha256.h"
#include "base/util.h"

enum {
    LABEL_MAX = 63,
    HASH_DIGITS = 10,
};

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int label_check(const char *node, const char *label, size_t len, struct err *e)
{
    if (len == 0)
        return err_set(e, E_INVAL, "node name \"%s\" has an empty part between dots", node);
    if (len > LABEL_MAX)
        return err_set(e, E_INVAL, "node name: the part \"%.*s\" is longer than %d characters", (int)len, label, LABEL_MAX);
    for (size_t i = 0; i < len; i++)
        if (!is_lower_alnum(label[i]) && label[i] != '-')
            return err_set(e, E_INVAL, "node name \"%s\" may hold only lower-case letters, digits, dashes and dots", node);
    if (label[0] == '-' || label[len - 1] == '-')
        return err_set(e, E_INVAL, "node name \"%s\": a part must not begin or end with a dash", node);
    return 0;
}

int node_name_check(const char *node, struct err *e)
{
    if (strlen(node) > NODE_NAME_MAX)
        return err_set(e, E_INVAL, "node name is longer than %d characters", NODE_NAME_MAX);
    for (const char *label = node;;) {
        size_t len = strcspn(label, ".");
        int r = label_check(node, label, len, e);
        if (r != 0 || label[len] == '\0')
            return r;
        label += len + 1;
    }
}

// Room for the hash is made at a character that is no dash, so that no two dashes meet.
static void shorten(const char *node, char *ns)
{
    size_t keep = NAMESPACE_MAX - 1 - HASH_DIGITS;
    while (ns[keep - 1] == '-')
        keep--;
    char hash[SHA256_HEX];
    sha256_hex(node, strlen(node), hash);
    snprintf(ns + keep, NAMESPACE_MAX + 1 - keep, "-%.*s", HASH_DIGITS, hash);
}

void node_namespace(const char *node, char out[NAMESPACE_MAX + 1])
{
    static const char prefix[] = "edge-";
    snprintf(out, NAMESPACE_MAX + 1, "%s%s", prefix, node);
    for (char *c = out; *c != '\0'; c++)
        if (*c == '.')
            *c = '-';
    if (strlen(prefix) + strlen(node) > NAMESPACE_MAX)
        shorten(node, out);
}

// The host of a checked URL, without the brackets of IPv6.
static void host_of(const char *url, const char **host, size_t *len)
{
    *host = url + strlen("https://");
    if (**host == '[') {
        (*host)++;
        *len = strcspn(*host, "]");
    } else {
        *len = strcspn(*host, ":/");
    }
}

static bool is_port(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || digits > 5 || s[digits] != '\0')
        return false;
    long port = strtol(s, NULL, 10);
    return port > 0 && port <= 65535;
}

int server_url_check(const char *url, struct err *e)
{
    if (strncmp(url, "https://", 8) != 0)
        return err_set(e, E_INVAL, "server URL \"%s\" must begin with https://", url);
    // What follows is pasted into a shell: nothing may be in it that a shell would read as more than a word.
    if (url[8 + strspn(url + 8, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]")] != '\0')
        return err_set(e, E_INVAL, "server URL \"%s\" must be https://HOST[:PORT] and no more", url);
    const char *host;
    size_t len;
    host_of(url, &host, &len);
    const char *rest = host + len;
    if (url[8] == '[' && *rest++ != ']')
        return err_set(e, E_INVAL, "server URL \"%s\" lacks a ]", url);
    if (len == 0 || (*rest != '\0' && (*rest != ':' || !is_port(rest + 1))))
        return err_set(e, E_INVAL, "server URL \"%s\" must be https://HOST[:PORT] and no more", url);
    return 0;
}

bool server_url_is_loopback(const char *url)
{
    static const char *const names[] = { "localhost", "localhost.", "::1", "::", "0.0.0.0", "0" };
    const char *host;
    size_t len;
    host_of(url, &host, &len);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
            return true;
    bool dotted_quad = len == strspn(host, "0123456789.");
    bool under_localhost = len > 10 && strncasecmp(host + len - 10, ".localhost", 10) == 0;
    return under_localhost || (dotted_quad && strncmp(host, "127.", 4) == 0);
}
