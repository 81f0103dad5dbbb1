// SPDX-License-Identifier: Apache-2.0
#include "wire/url.h"

#include <stdio.h>
#include <string.h>

enum { HOST_MAX = 253, PORT_DIGITS = 5 };

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static size_t scheme_length(const char *url)
{
    if (strncmp(url, "https://", 8) == 0)
        return 8;
    return strncmp(url, "http://", 7) == 0 ? 7 : 0;
}

bool url_is_tls(const char *url)
{
    return scheme_length(url) == 8;
}

// 0 = no host.
static size_t host_length(const char *s)
{
    if (s[0] != '[') {
        size_t n = strspn(s, ALNUM ".-");
        return n <= HOST_MAX && n > 0 && strchr(".-", s[0]) == NULL ? n : 0;
    }
    size_t n = strspn(s + 1, "0123456789abcdefABCDEF:.");
    return n >= 2 && n < 46 && s[n + 1] == ']' ? n + 2 : 0;
}

// Up to where the path begins, or the end; 0 = that is no address.
static size_t base_length(const char *url)
{
    size_t scheme = scheme_length(url), host = scheme > 0 ? host_length(url + scheme) : 0, at = scheme + host;
    if (host == 0)
        return 0;
    if (url[at] == ':') {
        size_t digits = strspn(url + at + 1, "0123456789");
        if (digits == 0 || digits > PORT_DIGITS)
            return 0;
        at += 1 + digits;
    }
    return url[at] == '\0' || url[at] == '/' ? at : 0;
}

static bool is_path(const char *s)
{
    for (; *s != '\0'; s++)
        if (*s < '!' || *s > '~' || *s == '"' || *s == '#')
            return false;
    return true;
}

bool url_is_file(const char *url)
{
    size_t n = base_length(url);
    return n > 0 && is_path(url + n) && strlen(url) < HTTP_URL_MAX;
}

int url_split(const char *url, char base[URL_BASE_MAX], char path[HTTP_URL_MAX], struct err *e)
{
    size_t n = base_length(url);
    if (!url_is_file(url) || n >= URL_BASE_MAX)
        return err_set(e, E_INVAL, "no http:// or https:// address of a file");
    snprintf(base, URL_BASE_MAX, "%.*s", (int)n, url);
    snprintf(path, HTTP_URL_MAX, "%s", url[n] != '\0' ? url + n : "/");
    return 0;
}

// What of `from` stays in front of a location that is no whole address.
static size_t kept_length(const char *from, const char *location)
{
    size_t base = base_length(from);
    if (location[0] == '/' && location[1] == '/')
        return scheme_length(from) - 2; // "https:"
    if (location[0] == '/')
        return base;
    size_t path = strcspn(from + base, "?"); // beside the file
    while (path > 0 && from[base + path - 1] != '/')
        path--;
    return base + path;
}

int url_follow(const char *from, const char *location, char out[HTTP_URL_MAX], struct err *e)
{
    char to[HTTP_URL_MAX];
    size_t len = strcspn(location, "#"), kept = scheme_length(location) > 0 ? 0 : kept_length(from, location);
    bool scheme = kept == 0 || (location[0] == '/' || strcspn(location, ":") >= strcspn(location, "/?"));
    const char *slash = kept > 0 && from[kept - 1] != '/' && location[0] != '/' ? "/" : "";
    int n = snprintf(to, sizeof(to), "%.*s%s%.*s", (int)kept, from, slash, (int)len, location);
    if (len == 0 || !scheme || n < 0 || (size_t)n >= sizeof(to) || !url_is_file(to))
        return err_set(e, E_INVAL, "it leads to no http:// or https:// address of a file");
    if (url_is_tls(from) && !url_is_tls(to))
        return err_set(e, E_INVAL, "it leads from https:// to http://");
    memcpy(out, to, (size_t)n + 1);
    return 0;
}

void url_text(const char *url, char *out, size_t max)
{
    snprintf(out, max, "%.*s", (int)strcspn(url, "?"), url);
}
