// SPDX-License-Identifier: Apache-2.0
// describe — an object as text, in the layout that `kubectl describe` has for custom resources. Pure.
//
// What `limpet describe` knows and kubectl does not stands between the object and its events: whether the server has heard of the status,
// and what differs between spec and machine.
#ifndef LOCAL_DESCRIBE_H
#define LOCAL_DESCRIBE_H

#include "data/json.h"

// As kubectl writes a time that passed: 35s, 5m3s, 3h20m, 4d; a negative one is 0s.
char *age_text(int64_t s, char out[32]);

// `answer` is that of the control socket: {"object", "reported", "differences", "events"}. now_us: for ages.
int describe_print(const struct json *answer, int64_t now_us, struct buf *out, struct err *e) MUST_USE;

#endif
