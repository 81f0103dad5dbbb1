// SPDX-License-Identifier: Apache-2.0
// check — what an on-call person looks at first, one small function each: the table in check.c names them and what each needs.
//
// A check only looks: it writes nothing, changes nothing on the server, and says no secret. Each network step has a limit and so has the
// whole. One that cannot be made because another failed, or because this user may not look, is CHECK_SKIP and says so; only what is seen
// to be wrong is CHECK_FAIL.
#ifndef LOCAL_CHECK_H
#define LOCAL_CHECK_H

#include "local/cli.h"
#include "local/credentials.h"
#include "wire/kube.h"

enum check_status { CHECK_OK, CHECK_WARN, CHECK_FAIL, CHECK_SKIP };

struct check_result {
    enum check_status status;
    bool holds;        // what needs this one is not made; set for fail and skip before the function is called, it may change that
    const char *needs; // CHECK_SKIP because of that check, NULL = for a reason of its own
    char seen[800];    // one line each; "" = nothing to say
    char cause[500];
    char remedy[500];
};

// What the checks share.
struct check {
    struct cli *cli;
    const struct config *config;
    struct buf problems; // of the configuration
    int config_rc;
    struct loop *loop;
    struct disk *disk;   // the machine's, below [port] root
    int64_t deadline_ms; // monotonic: no network step begins after it
    bool agent_hangs;    // there is one, and it does not answer: what it has open is not looked at
    struct json *agent;  // what the running agent says of itself, NULL = none answers
    struct cred cred;
    enum credential from;
    char node[254], ns[64];
    struct transport *stranger; // judges no date and carries no token
    struct transport *transport;
    struct kube kube;
    // What came of one request without a token (check_probe).
    bool probed;
    struct err probe_err; // cls 0: something answered
    struct http_look look;
    struct http_head head;
    int64_t wall_sec; // our clock when the answer came
    bool clock_off;   // server-clock failed
    // What came of the first request with the token.
    struct err login_err;
    struct json *own_ns;
};

// How the functions say what they saw. Texts that do not fit end in "...".
void check_say(struct check_result *r, enum check_status s, const char *fmt, ...) PRINTF_LIKE(3, 4);
void check_cause(struct check_result *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
void check_remedy(struct check_result *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
void check_needs(struct check_result *r, const char *name); // CHECK_SKIP because of another check
// What is left of `ms` before the whole is over; at least 1.
int64_t check_limit(const struct check *k, int64_t ms);
// The server's time in seconds when a verified server told it, else ours.
int64_t check_now(const struct check *k);
// "in 3 days", "2 hours ago" and the like for a time `sec` seconds from now.
const char *check_when(int64_t sec, char out[48]);

typedef void check_fn(struct check *k, struct check_result *r);

// check_agent.c: the configuration, and what the running agent says
check_fn check_config, check_agent, check_link, check_outbox, check_manifests;
// check_server.c
check_fn check_credential, check_expiry, check_proxy, check_name, check_tcp, check_tls, check_answer, check_server_clock, check_certificate;
// check_cluster.c
check_fn check_login, check_namespace, check_crds, check_lease;
// check_rbac.c
check_fn check_rbac;
// check_machine.c
check_fn check_clock, check_store, check_state_dir, check_run_dir, check_log_dir, check_port;

// Pure parts, for tests too.
// How bad a clock is that is `skew` seconds ahead of the server's, when the server's chain is good from not_before to not_after.
enum check_status check_judge_skew(int64_t skew);
// How bad it is to expire at `expires` when it is `now` and the life began at `began` (0 = unknown).
enum check_status check_judge_expiry(int64_t now, int64_t began, int64_t expires);
enum check_status check_judge_space(uint64_t avail, uint64_t total);
enum check_status check_judge_inodes(uint64_t avail, uint64_t total); // total 0: a file system that does not count them

#endif
