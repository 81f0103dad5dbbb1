// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <string.h>

// The fractional parts of the cube roots of the first 64 primes.
static const uint32_t round_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

void sha256_init(struct sha256 *s)
{
    // The fractional parts of the square roots of the first eight primes.
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(s->h, start, sizeof(start));
    s->bytes = 0;
}

static uint32_t ror(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void schedule(uint32_t w[64], const unsigned char *b)
{
    for (int i = 0; i < 16; i++, b += 4)
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

// a..h of the standard are v[0]..v[7], and each round they move on by one. So the places move and the values stay: `r` is the round.
static void one_round(uint32_t v[8], int r, uint32_t k_and_w)
{
    uint32_t *a = &v[-r & 7], b = v[(1 - r) & 7], c = v[(2 - r) & 7], *d = &v[(3 - r) & 7];
    uint32_t e = v[(4 - r) & 7], f = v[(5 - r) & 7], g = v[(6 - r) & 7], *h = &v[(7 - r) & 7];
    uint32_t s1 = ror(e, 6) ^ ror(e, 11) ^ ror(e, 25);
    uint32_t choice = (e & f) ^ (~e & g);
    uint32_t t1 = *h + s1 + choice + k_and_w;
    uint32_t s0 = ror(*a, 2) ^ ror(*a, 13) ^ ror(*a, 22);
    uint32_t majority = (*a & b) ^ (*a & c) ^ (b & c);
    *d += t1;
    *h = t1 + s0 + majority;
}

static void compress(uint32_t h[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    schedule(w, block);
    memcpy(v, h, sizeof(v));
    for (int i = 0; i < 64; i++)
        one_round(v, i, round_k[i] + w[i]);
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
    const unsigned char *in = p;
    size_t have = s->bytes % sizeof(s->block);
    s->bytes += n;
    while (n > 0) {
        size_t take = sizeof(s->block) - have;
        take = take < n ? take : n;
        memcpy(s->block + have, in, take);
        in += take;
        n -= take;
        have += take;
        if (have < sizeof(s->block))
            return;
        compress(s->h, s->block);
        have = 0;
    }
}

void sha256_end(struct sha256 *s, unsigned char out[SHA256_LEN])
{
    static const unsigned char pad[64] = { 0x80 };
    uint64_t bits = s->bytes * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, pad, 1 + (119 - s->bytes % 64) % 64);
    sha256_add(s, length, sizeof(length));
    for (int i = 0; i < SHA256_LEN; i++)
        out[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[SHA256_LEN];
    sha256_end(s, raw);
    for (size_t i = 0; i < SHA256_LEN; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
    out[SHA256_HEX - 1] = '\0';
}

void sha256_hex(const void *p, size_t n, char out[SHA256_HEX])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, p, n);
    sha256_end_hex(&s, out);
}
