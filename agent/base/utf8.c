// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <stdint.h>

// The second byte's range depends on the first: this is what excludes overlong forms, surrogates and numbers above U+10FFFF.
static size_t lead_byte(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0)
            *lo = 0xa0;
        if (c == 0xed)
            *hi = 0x9f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0)
            *lo = 0x90;
        if (c == 0xf4)
            *hi = 0x8f;
        return 4;
    }
    return 0;
}

size_t utf8_seq(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80)
        return 1;
    unsigned char lo, hi;
    size_t len = lead_byte(p[0], &lo, &hi);
    if (len == 0 || len > n || p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool utf8_valid(const char *s, size_t n)
{
    while (n > 0) {
        size_t len = utf8_seq(s, n);
        if (len == 0)
            return false;
        s += len;
        n -= len;
    }
    return true;
}

size_t utf8_cut(const char *s, size_t n)
{
    size_t back = 0;
    while (back < 3 && back < n && ((unsigned char)s[n - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == n)
        return n;
    unsigned char lo, hi;
    size_t want = lead_byte((unsigned char)s[n - 1 - back], &lo, &hi);
    return want > back + 1 ? n - 1 - back : n;
}
