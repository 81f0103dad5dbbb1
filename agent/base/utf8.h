// SPDX-License-Identifier: Apache-2.0
// utf8 — where one well-formed character ends; for whatever must not pass on damaged text.
//
// Not a Unicode library: no case, no width, no normal forms.
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// Bytes (1..4) of the well-formed UTF-8 character at s, 0 when the bytes there are none (overlong, surrogate, above U+10FFFF,
// cut off). n is what may be read, > 0.
size_t utf8_seq(const char *s, size_t n);
bool utf8_valid(const char *s, size_t n);
// The longest prefix of s, at most n bytes, that does not end inside a character.
size_t utf8_cut(const char *s, size_t n);

#endif
