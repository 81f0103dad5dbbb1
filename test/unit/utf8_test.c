// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.c"

#include "tap.h"

// Every sequence of up to four bytes whose first two are arbitrary, against the definition by code point.
static size_t by_definition(const unsigned char *p, size_t n)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (len < 2 || len > n)
        return len > n ? 0 : len;
    uint32_t cp = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        cp = cp << 6 | (p[i] & 0x3f);
    }
    return cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff) ? 0 : len;
}

static void test_all_leads(void)
{
    static const unsigned char tails[] = { 0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xff };
    unsigned long wrong = 0, tried = 0;
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (unsigned c = 0; c < sizeof(tails); c++)
                for (unsigned d = 0; d < sizeof(tails); d++)
                    for (size_t n = 1; n <= 4; n++, tried++) {
                        unsigned char p[4] = { (unsigned char)a, (unsigned char)b, tails[c], tails[d] };
                        wrong += utf8_seq((const char *)p, n) != by_definition(p, n);
                    }
    is_int(wrong, 0, "all %lu sequences as Unicode defines them", tried);
}

static void test_valid(void)
{
    ok(utf8_valid("", 0), "nothing is well-formed");
    ok(utf8_valid("a\0b", 3), "a NUL is a character");
    ok(utf8_valid("\xf0\x9f\x98\x80", 4), "four bytes");
    ok(!utf8_valid("\xf0\x9f\x98\x80", 3), "three of four are not");
    ok(!utf8_valid("ok\xc0\xaf", 4), "an overlong slash is not");
}

static void test_cut(void)
{
    const char *s = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const size_t want[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11 };
    for (size_t n = 0; n <= 11; n++)
        is_int(utf8_cut(s, n), want[n], "the first %zu bytes", n);
    is_int(utf8_cut("\x80\x80\x80\x80\x80", 5), 5, "stray tails are not cut for ever");
    is_int(utf8_cut("\x80\x80", 2), 2, "nor to nothing");
}

int main(void)
{
    test_all_leads();
    test_valid();
    test_cut();
    return done_testing();
}
