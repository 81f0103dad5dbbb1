// SPDX-License-Identifier: Apache-2.0
// http_rig — the misbehaving servers of http_server.py, a real loop with a clock that can be told to lie, and requests that note
// what happened to them.
#ifndef TEST_HTTP_RIG_H
#define TEST_HTTP_RIG_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "wire/http.h"

// The machine's clock, its wall time moved and its trust set by the test.
struct odd_clock {
    struct clock clock;
    struct clock real;
    int64_t wall_shift_us;
    bool synced;
};

struct http_rig {
    char dir[256];
    int pid, stdin_fd;
    struct odd_clock clock;
    struct loop *loop;
    char *ca, *other_ca, *client_cert, *client_key, *join_token;
};

// Prints why and returns false when the servers do not come up.
bool http_rig_start(struct http_rig *g);
void http_rig_stop(struct http_rig *g);
int http_rig_port(const struct http_rig *g, const char *name);

struct probe {
    struct http_req req;
    struct buf body;
    int heads, dones;
    struct err err;                // class 0 = completed
    void (*then)(struct probe *p); // from inside on_done
    int (*chunk)(struct probe *p); // from inside on_body
    struct transport *transport;
    struct probe *other;
    int left;
};
void probe_init(struct probe *p, const char *method, const char *url);
void probe_fini(struct probe *p);

// Turns the loop until *counter reaches n, for 60 s at most.
bool wait_for(struct http_rig *g, const int *counter, int n);
void turn_for(struct http_rig *g, int64_t ms);

#endif
