// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <string.h>

#include "base/util.h"

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, //
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, //
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, //
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, //
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, //
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, //
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, //
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store32(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

static void schedule(const unsigned char *block, uint32_t w[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = load32(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        uint32_t s0 = rotr(a, 7) ^ rotr(a, 18) ^ a >> 3;
        uint32_t s1 = rotr(b, 17) ^ rotr(b, 19) ^ b >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

// FIPS 180-4, 6.2.2; v[0..7] are its a..h.
static void compress(uint32_t h[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    schedule(block, w);
    memcpy(v, h, sizeof(v));
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + K[t] + w[t];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){
        .h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
    };
}

void sha256_update(struct sha256 *s, const void *p, size_t n)
{
    const unsigned char *at = p;
    while (n > 0) {
        size_t have = s->len % sizeof(s->block);
        size_t take = MIN(n, sizeof(s->block) - have);
        memcpy(s->block + have, at, take);
        s->len += take;
        at += take;
        n -= take;
        if (have + take == sizeof(s->block))
            compress(s->h, s->block);
    }
}

void sha256_final(struct sha256 *s, unsigned char out[SHA256_LEN])
{
    static const unsigned char pad[64] = { 0x80 };
    unsigned char bits[8];
    store32(bits, (uint32_t)(s->len >> 29));
    store32(bits + 4, (uint32_t)(s->len << 3));
    size_t have = s->len % 64;
    sha256_update(s, pad, (have < 56 ? 56 : 120) - have);
    sha256_update(s, bits, sizeof(bits));
    for (int i = 0; i < 8; i++)
        store32(out + 4 * i, s->h[i]);
    explicit_bzero(s, sizeof(*s));
}

char *sha256_to_hex(const unsigned char sum[SHA256_LEN], char out[SHA256_HEX])
{
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_LEN; i++) {
        out[2 * i] = hex[sum[i] >> 4];
        out[2 * i + 1] = hex[sum[i] & 15];
    }
    out[2 * SHA256_LEN] = '\0';
    return out;
}

char *sha256_hex(const void *p, size_t n, char out[SHA256_HEX])
{
    struct sha256 s;
    unsigned char sum[SHA256_LEN];
    sha256_init(&s);
    sha256_update(&s, p, n);
    sha256_final(&s, sum);
    return sha256_to_hex(sum, out);
}
