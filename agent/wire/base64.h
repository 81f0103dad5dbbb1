// SPDX-License-Identifier: Apache-2.0
// base64 — decodes RFC 4648 text, both alphabets, padding optional, white space between the characters allowed. Pure.
#ifndef WIRE_BASE64_H
#define WIRE_BASE64_H

#include "base/buf.h"

// Appends the bytes. E_INVAL: another character, or an impossible length.
int base64_decode(const char *text, size_t len, struct buf *out, struct err *e) MUST_USE;

#endif
