// SPDX-License-Identifier: Apache-2.0
// json_scan — a strict JSON reader that is fed bytes and answers where keys and values begin and end.
//
// RFC 8259 to the letter: no BOM, no comments, no leading zeros, well-formed UTF-8, escaped surrogates only in pairs. It follows any
// depth that an API server takes, so that one object nested beyond reason is an object and not a damaged stream; trees stop at
// JSON_DEPTH_MAX. Bytes come in chunks cut anywhere; the state is this struct, nothing is allocated.
// Not a parser: it builds nothing and keeps no bytes. object.c and object_list.c use the positions, json.c the verdict.
#ifndef DATA_JSON_SCAN_H
#define DATA_JSON_SCAN_H

#include "base/err.h"
#include "base/util.h"

enum {
    JSON_DEPTH_MAX = 64,    // containers inside each other that become a tree
    JSON_SCAN_DEPTH = 10240 // that are read: the API server's 10,000 and what it wraps around an object
};

enum scan_event {
    SCAN_MORE,        // the chunk is used up
    SCAN_KEY_BEGIN,   // a member's name begins at *at (its quote)
    SCAN_KEY_END,     // ... and ended before *at
    SCAN_VALUE_BEGIN, // a value begins at *at
    SCAN_VALUE_END,   // ... and ended before *at
    SCAN_BAD,         // the byte at *at may not stand there; `why` says so. No call makes sense any more
};

struct json_scan {
    int depth;       // containers around the key or value of the event: 0 for the document itself
    size_t offset;   // bytes consumed, over all chunks
    const char *why; // after SCAN_BAD
    bool has_nul;    // some string held \u0000
    int deepest;     // the largest depth so far
    // The rest is private.
    unsigned char objects[JSON_SCAN_DEPTH / 8]; // a bit for each open container: 1 = object, 0 = array
    const char *word;                           // what must still come of true, false, null
    uint8_t state, number;
    uint8_t need, lo, hi;  // UTF-8: continuation bytes to come, bounds of the next
    uint8_t digits;        // \u: hex digits to come
    uint32_t unit, leader; // \u: the code unit so far; the high surrogate that waits for its partner
    bool in_key, announced;
};

void json_scan_init(struct json_scan *s);
// Reads from p[*at] on until something happened or p[n] is reached; *at moves.
enum scan_event json_scan_run(struct json_scan *s, const char *p, size_t n, size_t *at);
// True when what was read is one whole document.
bool json_scan_done(const struct json_scan *s);

// What the grammar allows and a tree may not hold.
struct json_facts {
    bool has_nul;
    int depth;
};

// The whole text at once. E_INVAL with the offset of the first byte that may not stand there. `facts` may be NULL.
int json_check(const char *text, size_t len, struct json_facts *facts, struct err *e) MUST_USE;

#endif
