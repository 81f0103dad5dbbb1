// SPDX-License-Identifier: Apache-2.0
// sha256 — the hash of FIPS 180-4, for revisions, artifacts and names, where the TLS library is out of reach.
//
// Not for passwords, and makes no promise about side channels.
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_LEN = 32, SHA256_HEX = 65 }; // bytes; hex digits with terminator

struct sha256 {
    uint32_t h[8];
    uint64_t len; // bytes so far
    unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *p, size_t n);
void sha256_final(struct sha256 *s, unsigned char out[SHA256_LEN]); // wipes s

char *sha256_to_hex(const unsigned char sum[SHA256_LEN], char out[SHA256_HEX]); // lower-case; returns out
char *sha256_hex(const void *p, size_t n, char out[SHA256_HEX]);                // of one piece

#endif
