// SPDX-License-Identifier: Apache-2.0
// control_priv — what control.c (the socket) and control_ops.c (the answers) share.
#ifndef LOCAL_CONTROL_PRIV_H
#define LOCAL_CONTROL_PRIV_H

#include "kinds/edgeapp.h"
#include "kinds/edgejob.h"
#include "local/local.h"

enum { CONTROL_REQUEST_MAX = 64 * 1024, CONTROL_CLIENTS = 8, CONTROL_PATIENCE_MS = 5000, CONTROL_ANSWER_MAX = 4 * 1024 * 1024 };

struct client {
    struct control *control; // NULL = free slot
    struct loop_fd fd;
    struct timer timer; // the request must come, the answer must go, within the patience
    bool may_change;    // root, or the user as whom the agent runs
    bool answered;
    struct buf in, out;
    size_t sent;
    // logs: the answer comes piece by piece, as fast as the client reads
    bool streaming;
    bool following; // -f: it has no end
    struct timer more;
    char log_name[JOB_LOG_NAME_MAX];
    int64_t log_offset;
};

struct control {
    struct loop *loop;
    struct control_conf conf;
    char path[512];
    struct loop_fd listener;
    struct client clients[CONTROL_CLIENTS];
};

int control_describe(struct client *c, const struct json *q, struct err *e); // control_describe.c
int control_events(struct client *c, const struct json *q, struct err *e);   // control_events.c
// What an event must be about; NULL = anything.
struct event_filter {
    const char *key, *plural, *name;
};
// The newest `most` of them, oldest first; fn takes ev, and != 0 stops and is returned.
int control_newest_events(struct agent *a, const struct event_filter *f, size_t most, int (*fn)(void *ctx, struct json *ev), void *ctx,
                          struct err *e);
int control_policy(struct client *c, const struct json *q, struct err *e); // control_policy.c
// The kind and the key that a request names. E_NOTFOUND: no such kind.
int control_key_of(struct client *c, const struct json *q, const struct kind **k, char key[KEY_MAX], struct err *e);
// Answers the request in c->in. Appends lines to c->out; the last one is an end or an error unless c->streaming was set.
void control_answer(struct client *c, const char *request, size_t len);
// The next piece of a streamed log. > 0: there may be more at once; 0: not now; < 0: it is over (the last line was added).
int control_stream(struct client *c);
int control_line(struct client *c, struct json *j);      // takes j
void control_end(struct client *c, const struct err *e); // e NULL = {"end":true}

#endif
