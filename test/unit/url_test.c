// SPDX-License-Identifier: Apache-2.0
//
// Addresses of files, and where a Location leads.
#include "wire/url.c"

#include "base/util.h"
#include "tap.h"

static void test_address(void)
{
    static const char *const good[] = { "http://a", "https://files.example.com:8443/a/b.tar.gz?sig=%2F&x=1", "http://127.0.0.1:1/",
                                        "https://[2001:db8::1]:443/x", "https://a/!$&'()*+,;=:@~" };
    static const char *const bad[] = { "",
                                       "ftp://a/b",
                                       "HTTPS://a/b",
                                       "https://",
                                       "https:///a",
                                       "https://user@a/b",
                                       "https://user:pass@a/b",
                                       "https://a:/b",
                                       "https://a:123456/b",
                                       "https://a:80x/b",
                                       "https://a/b#c",
                                       "https://a/b c",
                                       "https://a/b\nc",
                                       "https://a/\xc3\xa9",
                                       "https://a/\"",
                                       "https://a?b",
                                       "https://-a/b",
                                       "https://.a/b",
                                       "https://[::1/b",
                                       "https://[]/b",
                                       "https://a\\b/",
                                       "//a/b",
                                       "/b" };
    char lng[HTTP_URL_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ok(url_is_file(good[i]), "may be one: %s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ok(!url_is_file(bad[i]), "may not: %s", bad[i]);
    memset(lng, 'a', sizeof(lng));
    memcpy(lng, "http://a/", 9);
    lng[HTTP_URL_MAX] = '\0';
    ok(!url_is_file(lng), "nor one that is too long");
    lng[HTTP_URL_MAX - 1] = '\0';
    ok(url_is_file(lng), "unlike one that is just not");
}

static void test_split(void)
{
    char base[URL_BASE_MAX], path[HTTP_URL_MAX];
    is_int(url_split("https://a.b:1/c?d", base, path, NULL), 0, "two pieces");
    is_str(base, "https://a.b:1", "the host");
    is_str(path, "/c?d", "the path");
    is_int(url_split("http://a", base, path, NULL), 0, "without a path");
    is_str(path, "/", "there is one");
    is_int(url_split("http://a b/", base, path, NULL), E_INVAL, "what is no address has no pieces");
}

static void test_follow(void)
{
    static const struct {
        const char *from, *location, *to;
    } cases[] = {
        { "https://a/b/c?d", "https://e:8/f?g", "https://e:8/f?g" },
        { "https://a/b/c?d", "https://e/f#part", "https://e/f" },
        { "https://a:1/b/c?d", "//e/f", "https://e/f" },
        { "https://a:1/b/c?d/e", "/f?u=http://x", "https://a:1/f?u=http://x" },
        { "https://a:1/b/c?d/e", "f", "https://a:1/b/f" },
        { "https://a:1", "f", "https://a:1/f" },
        { "http://a/b", "https://a/b", "https://a/b" },
        { "https://a/b", "http://a/b", NULL },
        { "https://a/b", "", NULL },
        { "https://a/b", "#x", NULL },
        { "https://a/b", "file:///etc/shadow", NULL },
        { "https://a/b", "javascript:x", NULL },
        { "https://a/b", "https://user:pass@c/", NULL },
        { "https://a/b", "/x y", NULL },
        { "https://a/b", "/x\r\nHost: z", NULL },
        { "https://a/b", "https://c d/", NULL },
        { "https://a/b", "///x", NULL },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[HTTP_URL_MAX] = "unchanged";
        int rc = url_follow(cases[i].from, cases[i].location, out, NULL);
        is_int(rc, cases[i].to != NULL ? 0 : E_INVAL, "%s from %s", cases[i].location, cases[i].from);
        is_str(out, cases[i].to != NULL ? cases[i].to : "unchanged", "leads there");
    }
    char lng[HTTP_URL_MAX], out[HTTP_URL_MAX];
    memset(lng, 'a', sizeof(lng) - 1);
    lng[sizeof(lng) - 1] = '\0';
    lng[0] = '/';
    is_int(url_follow("https://a/b", lng, out, NULL), E_INVAL, "what becomes too long is not followed");
}

static void test_text(void)
{
    char text[20];
    url_text("https://a/b?sig=secret", text, sizeof(text));
    is_str(text, "https://a/b", "a query is not shown");
    url_text("https://a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", text, sizeof(text));
    is_int(strlen(text), sizeof(text) - 1, "a long one is cut");
}

int main(void)
{
    test_address();
    test_split();
    test_follow();
    test_text();
    return done_testing();
}
