// SPDX-License-Identifier: Apache-2.0
// metrics — what the agent counts, as Prometheus' text format; and whether it is well, for probes.
//
// Names that controller-runtime, client-go and Prometheus' own libraries have mean here what they mean there; all others begin with
// limpet_. Counters begin anew with the agent, except for limpet_outbox_lost_total, which is in the store.
// Only reads; local/web.c carries the text to who asks.
#ifndef LOCAL_METRICS_H
#define LOCAL_METRICS_H

#include "flow/agent.h"
#include "local/web.h"

enum { METRICS_MAX = 256 * 1024 };
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics_source {
    struct agent *agent;
    const char *version, *server; // server: URL, "" = none
    int64_t started_us;           // wall time
};
int metrics_text(const struct metrics_source *s, struct buf *out, struct err *e) MUST_USE;

// The answers of local/web.h: /metrics, /healthz (the loop turns), /readyz. ctx is a struct metrics_source.
web_answer metrics_answer;

// A line for each check, as the API server's own /readyz?verbose has them, and the verdict. Being offline is no reason not to be ready.
bool metrics_ready(const struct metrics_source *s, struct buf *out, struct err *e);

#endif
