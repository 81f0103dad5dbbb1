// SPDX-License-Identifier: Apache-2.0
#include "wire/http_head.h"

#include <string.h>
#include <strings.h>

enum { RETRY_AFTER_MAX_S = 24 * 3600 }; // longer waits are a mistake of the server

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// "HTTP/1.1 200 OK", "HTTP/2 200": the three digits, 0 when there are none.
static int status_of(const char *line, size_t len)
{
    const char *p = memchr(line, ' ', len);
    int status = 0;

    if (p == NULL || (size_t)(line + len - p) < 4)
        return 0;
    for (int i = 1; i <= 3; i++) {
        if (p[i] < '0' || p[i] > '9')
            return 0;
        status = status * 10 + (p[i] - '0');
    }
    return status;
}

static void set_content_type(struct http_head *h, const char *v)
{
    size_t i = 0;

    for (; v[i] != '\0' && v[i] != ';' && !is_blank(v[i]) && i + 1 < sizeof h->content_type; i++)
        h->content_type[i] = to_lower(v[i]);
    h->content_type[i] = '\0';
}

static void set_retry_after(struct http_head_parser *p, const char *v)
{
    int64_t sec = 0;

    if (v[0] < '0' || v[0] > '9') {
        if (!http_date_parse(v, &p->retry_at_sec))
            p->retry_at_sec = 0;
        return;
    }
    for (; *v >= '0' && *v <= '9'; v++)
        if (sec <= RETRY_AFTER_MAX_S)
            sec = sec * 10 + (*v - '0');
    p->head.retry_after_ms = MIN(sec, RETRY_AFTER_MAX_S) * 1000;
}

// A number at *s, which moves behind it.
static bool take_number(const char **s, int64_t *out)
{
    const char *p = *s;
    int64_t v = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > (INT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (*p - '0');
    }
    *out = v;
    bool any = p != *s;
    *s = p;
    return any;
}

static void set_length(struct http_head *h, const char *v)
{
    h->has_length = take_number(&v, &h->length) && *v == '\0';
}

// "bytes 100-199/500", "bytes 100-199/*", "bytes */500"; what is none of these says nothing.
static void set_range(struct http_head *h, const char *v)
{
    int64_t from = -1, to = 0, total = -1;

    h->has_range = false;
    if (strncasecmp(v, "bytes ", 6) != 0)
        return;
    v += 6;
    if (v[0] == '*')
        v++;
    else if (!take_number(&v, &from) || *v++ != '-' || !take_number(&v, &to) || to < from)
        return;
    if (*v++ != '/')
        return;
    if (strcmp(v, "*") != 0 && (!take_number(&v, &total) || *v != '\0' || total <= to))
        return;
    h->has_range = true;
    h->range_from = from;
    h->range_total = total;
}

// RFC 9110: a strong one begins with its quote, and holds no other before its end.
static void set_etag(struct http_head *h, const char *v)
{
    size_t n = strlen(v);
    bool strong = n >= 2 && n < sizeof h->etag && v[0] == '"' && strchr(v + 1, '"') == v + n - 1;

    for (size_t i = 0; i < n; i++)
        strong = strong && v[i] > ' ' && v[i] <= '~';
    memcpy(h->etag, strong ? v : "", strong ? n + 1 : 1);
}

static void take_field(struct http_head_parser *p, const char *name, const char *value)
{
    if (strcasecmp(name, "content-type") == 0)
        set_content_type(&p->head, value);
    else if (strcasecmp(name, "retry-after") == 0)
        set_retry_after(p, value);
    else if (strcasecmp(name, "date") == 0 && !http_date_parse(value, &p->head.date_sec))
        p->head.date_sec = 0;
    else if (strcasecmp(name, "content-length") == 0)
        set_length(&p->head, value);
    else if (strcasecmp(name, "content-range") == 0)
        set_range(&p->head, value);
    else if (strcasecmp(name, "etag") == 0)
        set_etag(&p->head, value);
}

// The one field that is longer than what the others are read from. Of two the second counts, as with the others.
static void take_location(struct http_head_parser *p, const char *line, size_t len)
{
    static const char name[] = "location:";
    size_t n = sizeof name - 1;

    if (p->location == NULL || len < n || strncasecmp(line, name, n) != 0)
        return;
    for (; n < len && is_blank(line[n]); n++)
        ;
    bool fits = len - n < HTTP_URL_MAX && memchr(line + n, '\0', len - n) == NULL;
    if (fits)
        memcpy(p->location, line + n, len - n);
    p->location[fits ? len - n : 0] = '\0';
}

static void finish(struct http_head_parser *p, int64_t wall_sec)
{
    struct http_head *h = &p->head;
    int64_t from = h->date_sec != 0 ? h->date_sec : wall_sec;

    p->complete = true;
    if (h->retry_after_ms == 0 && p->retry_at_sec > from)
        h->retry_after_ms = MIN(p->retry_at_sec - from, RETRY_AFTER_MAX_S) * 1000;
}

bool http_head_line(struct http_head_parser *p, const char *line, size_t len, int64_t wall_sec)
{
    char text[256];
    size_t n, colon;

    if (p->complete)
        return false;
    while (len > 0 && is_blank(line[len - 1]))
        len--;
    if (len == 0) {
        if (p->head.status >= 200)
            finish(p, wall_sec);
        return p->complete;
    }
    if (len >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        *p = (struct http_head_parser){ .head.status = status_of(line, len), .location = p->location };
        if (p->location != NULL)
            p->location[0] = '\0';
        return false;
    }
    take_location(p, line, len);
    n = MIN(len, sizeof text - 1); // the fields we read are short; what is longer is none of them
    memcpy(text, line, n);
    text[n] = '\0';
    colon = strcspn(text, ":");
    if (text[colon] == '\0')
        return false;
    text[colon] = '\0';
    for (line = text + colon + 1; is_blank(*line); line++)
        ;
    take_field(p, text, line);
    return false;
}
