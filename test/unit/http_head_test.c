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
    test_escape();
    return done_testing();
}
