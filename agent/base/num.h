// SPDX-License-Identifier: Apache-2.0
// num — numbers out of text, strictly: the whole text or nothing, never clamped, never rounded down in silence.
//
// For configuration, manifests and CRD fields. Nothing here looks at the locale, accepts blanks, or reads past the terminator. All
// return 0 or E_INVAL with a text that quotes the input and says what is wanted; *out is untouched then.
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// Decimal, optional leading "-". Within [min, max].
int num_i64(const char *s, int64_t min, int64_t max, int64_t *out, struct err *e) MUST_USE;

// Go's form without sign: "250ms", "10s", "5m", "1h30m", "1.5s"; units h, m, s, ms; "0" alone needs none. Milliseconds; finer than
// one is refused.
int num_duration_ms(const char *s, int64_t *ms, struct err *e) MUST_USE;

// A Kubernetes quantity: "64Mi", "1.5G", "100m", "1e3"; suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent. Not
// negative. In units of 1/scale (scale 1 = bytes, 1000 = thousandths, as of CPU), rounded up as Kubernetes does.
int num_quantity(const char *s, int64_t scale, int64_t *out, struct err *e) MUST_USE;

// true false yes no on off 1 0, in any case.
int num_bool(const char *s, bool *out, struct err *e) MUST_USE;

#endif
