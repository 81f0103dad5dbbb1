// SPDX-License-Identifier: Apache-2.0
#include "wire/base64.h"

#include <string.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// After the first '=' only such and white space may come.
static bool is_padding(const char *p, const char *end)
{
    size_t n = 0;

    for (; p < end; p++)
        if (*p == '=')
            n++;
        else if (!is_blank(*p))
            return false;
    return n <= 2;
}

int base64_decode(const char *text, size_t len, struct buf *out, struct err *e)
{
    const char *end = text + len;
    uint32_t bits = 0;
    int n_bits = 0;

    for (const char *p = text; p < end; p++) {
        if (is_blank(*p))
            continue;
        if (*p == '=' && is_padding(p, end))
            break;
        int v = value_of(*p);
        if (v < 0)
            return err_set(e, E_INVAL, "not base64 at byte %zu", (size_t)(p - text));
        bits = (bits << 6) | (uint32_t)v;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        unsigned char byte = (unsigned char)(bits >> n_bits);
        int rc = buf_add(out, &byte, 1, e);
        if (rc < 0)
            return rc;
    }
    // One character alone cannot end a byte.
    return n_bits == 6 ? err_set(e, E_INVAL, "base64 is cut off") : 0;
}

int base64_encode(const void *bytes, size_t n, struct buf *out, struct err *e)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    int rc = buf_reserve(out, (n + 2) / 3 * 4, e);

    for (size_t i = 0; i < n && rc == 0; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        char four[4] = { digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                         left > 2 ? digits[bits & 63] : '=' };
        rc = buf_add(out, four, sizeof(four), e);
    }
    return rc;
}
