// SPDX-License-Identifier: Apache-2.0
// sim_net — the transport seam (wire/http.h) over a network that delays, cuts and lies, to the simulated server.
//
// A request travels, is answered by the server at its arrival, and the answer travels back in pieces cut anywhere. Faults: nobody
// listens, packets vanish, the request or the answer is lost, the body is cut, the server is busy or fails. As in the real one nothing is
// called from inside submit, callbacks come from the loop, on_done exactly once, never after a cancel.
// A request of a dead or cancelled caller may still arrive: that is what makes replays dangerous.
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim_server.h"
#include "wire/http.h"

enum { NET_LATENCY_MS = 20 };

enum sim_link {
    NET_FINE,
    NET_REFUSED,   // nobody listens
    NET_DROPS,     // packets vanish, both ways
    NET_DROPS_OUT, // what the agent sends vanishes
    NET_DROPS_IN,  // what it is sent vanishes
    NET_LINKS
};

struct sim_net {
    struct transport transport; // of the agent that lives now
    struct sim *sim;
    struct sim_server *server;
    struct sim_rng rng;
    struct loop *loop; // NULL = no agent
    struct loop_fd bell;
    struct list flying; // struct flight
    struct flight *ringing;
    enum sim_link link;
    int fault_percent; // of requests that meet one
    // Requests whose path holds this text (NULL = none): put off for an hour by a 503, or never answered.
    const char *put_off, *unanswered;
    bool hides_cuts; // a body that was cut looks as if it had ended there (a proxy that closes and says nothing)
    int64_t latency_ms;
    bool storm;        // the server fails whatever it is asked
    bool cert_expired; // no new connection comes about
    bool half_open;    // the connection is dead and nobody was told: whatever goes over it vanishes, until it is given up
    int token;         // what the agent sends; the server takes only the valid one
    int token_valid, token_in_file;
    uint64_t submitted, faults;
    size_t under_way, most_under_way;
    // All requests share one connection. It ends with the link, with the server, and when the agent gives it up.
    bool connected;
    void (*asked)(struct sim_net *n, const struct http_req *r);      // by the agent, before it is sent; may be NULL
    void (*put_off_by)(struct sim_net *n, const struct http_req *r); // the agent hears a Retry-After (r->head); may be NULL
    void (*heard)(struct sim_net *n, const char *method, const char *url, bool connects, int status); // the server; may be NULL
};

void sim_net_init(struct sim_net *n, struct sim *s, struct sim_server *v);
void sim_net_fini(struct sim_net *n);
struct transport *sim_net_for(struct sim_net *n, struct loop *l); // the next agent's; its `free` is sim_net_leave
void sim_net_leave(struct sim_net *n);                            // that agent is gone; what it sent may still arrive
void sim_net_link(struct sim_net *n, enum sim_link link);
void sim_net_half_open(struct sim_net *n);
size_t sim_net_under_way(struct sim_net *n, bool (*is)(const struct http_req *r)); // requests that somebody waits for
bool sim_net_reread(struct sim_net *n);                                            // the token's file; true: it is another one

#endif
