// SPDX-License-Identifier: Apache-2.0
#include "wire/http.c"
#include "wire/http_head.c"

#include "tap.h"

enum { WALL = 784111777 - 100 }; // a hundred seconds before the date in the cases

static struct http_head_parser feed(const char *const *lines)
{
    struct http_head_parser p = { 0 };

    for (; *lines != NULL; lines++)
        http_head_line(&p, *lines, strlen(*lines), WALL);
    return p;
}

#define LINES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"

static void test_lines(void)
{
    struct http_head_parser p =
        feed(LINES("HTTP/1.1 200 OK\r\n", "Date: " DATE "\r\n", "CONTENT-TYPE:  Application/JSON ; charset=x\r\n", "\r\n"));

    ok(p.complete, "a head");
    is_int(p.head.status, 200, "its status");
    is_int(p.head.date_sec, 784111777, "its date");
    is_str(p.head.content_type, "application/json", "its type");

    p = feed(LINES("HTTP/1.1 100 Continue\r\n", "X: y\r\n", "\r\n", "HTTP/1.1 201 Created\r\n", "\r\n", "Retry-After: 5\r\n"));
    is_int(p.head.status, 201, "an informational head is passed over");
    is_int(p.head.retry_after_ms, 0, "a trailer is no header");
    p = feed(LINES("HTTP/2 429\r\n", "retry-after: 30\r\n", "\r\n"));
    is_int(p.head.status, 429, "HTTP/2 has no words");
    is_int(p.head.retry_after_ms, 30000, "Retry-After in seconds");
}

static void test_retry_after(void)
{
    static const struct {
        const char *value;
        int64_t ms;
    } cases[] = {
        { "0", 0 },
        { "1", 1000 },
        { "7 ", 7000 },
        { "86400", 86400000 },
        { "999999999999999999999999", 86400000 },
        { "-5", 0 },
        { "soon", 0 },
        { "", 0 },
        { DATE, 100000 },
        { "Thu, 06 Nov 2994 08:49:37 GMT", 86400000 },
        { "Mon, 01 Jan 1990 00:00:00 GMT", 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char line[100];
        snprintf(line, sizeof line, "Retry-After: %s\r\n", cases[i].value);
        struct http_head_parser p = feed(LINES("HTTP/1.1 503 x\r\n", line, "\r\n"));
        is_int(p.head.retry_after_ms, cases[i].ms, "Retry-After \"%s\"", cases[i].value);
    }
    struct http_head_parser p =
        feed(LINES("HTTP/1.1 503 x\r\n", "Retry-After: " DATE "\r\n", "Date: Sun, 06 Nov 1994 08:49:27 GMT\r\n", "\r\n"));
    is_int(p.head.retry_after_ms, 10000, "a date counts from the server's own");
}

static void test_hostile(void)
{
    static const char *const statuses[] = { "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20", "HTTP/1.1 abc x", "HTTP/1.1 -20 x", "HTTP/" };
    AUTO_FREE char *lng = malloc(100001);

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct http_head_parser p = feed(LINES(statuses[i], "\r\n"));
        ok(!p.complete && p.head.status == 0, "no status in \"%s\"", statuses[i]);
    }
    memset(lng, 'x', 100000);
    lng[100000] = '\0';
    memcpy(lng, "Content-Type: ", 14);
    struct http_head_parser p =
        feed(LINES("HTTP/1.1 200 x\r\n", lng, "no colon\r\n", ": no name\r\n", ":\r\n", "\x01\xff: \x02\r\n", "\r\n"));
    ok(p.complete, "odd lines are passed over");
    is_int(strlen(p.head.content_type), sizeof p.head.content_type - 1, "a type without end is cut");
    // Not terminated, as they come from the network.
    char *exact = malloc(16);
    memcpy(exact, "Retry-After: 123", 16);
    p = feed(LINES("HTTP/1.1 503 x\r\n"));
    http_head_line(&p, exact, 15, WALL);
    http_head_line(&p, "\r\n", 2, WALL);
    is_int(p.head.retry_after_ms, 12000, "a line is read to its length and not beyond");
    free(exact);
}

static struct http_head_parser feed_one(const char *line)
{
    return feed(LINES("HTTP/1.1 206 x\r\n", line, "\r\n"));
}

static void test_length(void)
{
    static const char *const bad[] = { "", "-1", "12x", "0x10", "99999999999999999999", "1 2", "1, 1" };

    is_int(feed_one("content-length: 0\r\n").head.has_length, 1, "a length of nothing is one");
    is_int(feed_one("Content-Length: 9000000000000\r\n").head.length, 9000000000000, "a long one");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char line[100];
        snprintf(line, sizeof line, "Content-Length: %s\r\n", bad[i]);
        ok(!feed_one(line).head.has_length, "no length: \"%s\"", bad[i]);
    }
}

static void test_range(void)
{
    static const struct {
        const char *value;
        int64_t from, total;
    } good[] = { { "bytes 0-0/1", 0, 1 }, { "bytes 100-199/500", 100, 500 }, { "Bytes 5-9/*", 5, -1 }, { "bytes */77", -1, 77 } };
    static const char *const bad[] = { "",           "bytes",         "bytes 5-4/9",  "bytes 0-9/9", "bytes 0-/9",
                                       "bytes -1/9", "bytes 0-1/9 x", "lines 0-1/9",  "bytes 0-1",   "bytes 0-99999999999999999999/*",
                                       "bytes */",   "bytes 0-1/-1",  "bytes=0-1/22", "bytes x-1/2" };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        char line[100];
        snprintf(line, sizeof line, "Content-Range: %s\r\n", good[i].value);
        struct http_head h = feed_one(line).head;
        ok(h.has_range && h.range_from == good[i].from && h.range_total == good[i].total, "a range: \"%s\"", good[i].value);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char line[100];
        snprintf(line, sizeof line, "Content-Range: %s\r\n", bad[i]);
        ok(!feed_one(line).head.has_range, "no range: \"%s\"", bad[i]);
    }
}

static void test_etag(void)
{
    char lng[400];
    static const char *const weak[] = { "W/\"a\"", "a", "\"a", "\"", "\"a\"b\"", "\"a b\"", "\"\xe9\"", "" };

    is_str(feed_one("ETag: \"33a64df5\"\r\n").head.etag, "\"33a64df5\"", "a strong ETag, with its quotes");
    for (size_t i = 0; i < ARRAY_LEN(weak); i++) {
        snprintf(lng, sizeof lng, "ETag: %s\r\n", weak[i]);
        is_str(feed_one(lng).head.etag, "", "no strong ETag: %s", weak[i]);
    }
    memset(lng, 'x', sizeof lng);
    memcpy(lng, "ETag: \"", 7);
    memcpy(lng + 254, "\"\r\n", 4); // where a line is cut
    is_str(feed_one(lng).head.etag, "", "one that is too long is none");
}

static void test_location(void)
{
    char location[HTTP_URL_MAX], lng[HTTP_URL_MAX + 40];
    struct http_head_parser p = { .location = location };

    http_head_line(&p, "HTTP/1.1 302 x\r\n", 16, WALL);
    is_str(location, "", "no Location yet");
    memset(lng, 'a', sizeof lng);
    memcpy(lng, "LOCATION:  /", 12);
    http_head_line(&p, lng, 12 + HTTP_URL_MAX - 2, WALL);
    is_int(strlen(location), HTTP_URL_MAX - 1, "a Location as long as there is room");
    http_head_line(&p, lng, 12 + HTTP_URL_MAX - 1, WALL);
    is_str(location, "", "a longer one is none");
    http_head_line(&p, "Location: /a\0b\r\n", 16, WALL);
    is_str(location, "", "nor is one with a NUL");
    http_head_line(&p, "Location: https://h/x?y \r\n", 26, WALL);
    is_str(location, "https://h/x?y", "one without the blanks around it");
    p = (struct http_head_parser){ 0 };
    http_head_line(&p, "HTTP/1.1 302 x\r\n", 16, WALL);
    http_head_line(&p, "Location: /\r\n", 13, WALL);
    http_head_line(&p, "\r\n", 2, WALL);
    is_int(p.complete, 1, "nobody has to ask for it");
}

static void test_escape(void)
{
    AUTO_BUF struct buf b = BUF_INIT(100);

    is_int(http_escape(&b, "a-Z_0.9~ /?#%&=+\xc3\xa9", NULL), 0, "escaping");
    is_str(buf_str(&b), "a-Z_0.9~%20%2F%3F%23%25%26%3D%2B%C3%A9", "leaves only what stands for itself");
    b.max = b.len + 2;
    is_int(http_escape(&b, "%", NULL), E_TOOBIG, "and stops at the bound");
}

int main(void)
{
    test_lines();
    test_retry_after();
    test_hostile();
    test_length();
    test_range();
    test_etag();
    test_location();
    test_escape();
    return done_testing();
}
