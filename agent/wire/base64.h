// SPDX-License-Identifier: Apache-2.0
// base64 — RFC 4648. Decodes both alphabets, padding optional, white space between the characters allowed; encodes the standard one,
// padded. Pure.
#ifndef WIRE_BASE64_H
#define WIRE_BASE64_H

#include "base/buf.h"

// Appends the bytes. E_INVAL: another character, or an impossible length.
int base64_decode(const char *text, size_t len, struct buf *out, struct err *e) MUST_USE;
// Appends the text of n bytes. E_NOMEM, E_TOOBIG: nothing is appended.
int base64_encode(const void *bytes, size_t n, struct buf *out, struct err *e) MUST_USE;

#endif
