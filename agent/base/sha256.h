// SPDX-License-Identifier: Apache-2.0
// sha256 — the hash of FIPS 180-4, for naming contents: revisions, backups, CA fingerprints.
//
// Pure. Not for passwords, not a MAC, not constant-time beyond what the algorithm is by itself.
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_LEN = 32, SHA256_HEX = 2 * SHA256_LEN + 1 };

struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_LEN]); // s must be initialised before it is used again
// In lower-case hex with terminator.
void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX]);
void sha256_hex(const void *p, size_t n, char out[SHA256_HEX]);

#endif
