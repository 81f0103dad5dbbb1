// SPDX-License-Identifier: Apache-2.0
#include "sim_net.h"

#include <stdio.h>
#include <string.h>

enum {
    PIECE_MAX = 4000,
    BUSY_S_MAX = 8,
    PUT_OFF_S = 3600,
    RETRANSMIT_MS = 400,
    CONNECT_MS = 5000,
    SYN_AGAIN_MS = 1000,
    ORPHAN_MS = 100000,
    LATE_MS = 60000
};

enum fault {
    FAULT_NONE,
    FAULT_LOST_REQUEST,
    FAULT_LOST_ANSWER,
    FAULT_SILENT,
    FAULT_CUT,
    FAULT_RESET_IN_BODY,
    FAULT_BUSY,
    FAULT_5XX,
    FAULT_401,
    FAULTS,       // one of the above meets a request by chance
    FAULT_PUT_OFF // and this one only whom it is meant for
};

enum phase { REQUEST, HEAD, BODY, END };

// One exchange. The caller may be gone (req NULL) while the request still travels.
struct flight {
    struct list link;
    struct sim_net *net;
    struct http_req *req;
    enum phase phase;
    enum fault fault;
    char method[8], url[HTTP_URL_MAX], content_type[64];
    char *body;
    size_t len;
    struct sim_event step, limit;
    struct sim_answer answer;
    bool answered, calling, dropped; // dropped: freed after the call under way
    bool no_connection;              // packets vanished when it began, or nobody listened: it never left
    bool on_dead_connection, was_held_up;
    int token;
    int64_t began_ms, last_byte_ms;
    struct err fate; // how it ends; cls 0 = well
};

static struct sim_net *self(struct transport *t)
{
    return container_of(t, struct sim_net, transport);
}

static void flight_free(struct flight *f)
{
    sim_unset(&f->step);
    sim_unset(&f->limit);
    if (f->answer.stream != NULL)
        sim_stream_close(f->answer.stream);
    sim_answer_fini(&f->answer);
    list_del(&f->link);
    if (f->req != NULL)
        f->net->under_way--;
    free(f->body);
    free(f);
}

// --- Calls into the agent. Only from the loop, so that loop_now() is right.

static void call_done(struct flight *f)
{
    struct http_req *r = f->req;
    struct sim_net *n = f->net;
    struct err fate = f->fate;
    sim_trace(f->net->sim, "<- %s %.140s: %d %s", f->method, f->url, f->answer.status, fate.cls != 0 ? fate.msg : "");
    f->net->under_way--;
    f->req = NULL;
    flight_free(f);
    r->impl = NULL;
    if (fate.cls == 0 && r->head.retry_after_ms > 0 && n->put_off_by != NULL)
        n->put_off_by(n, r);
    r->on_done(r, fate.cls != 0 ? &fate : NULL);
}

static void on_step(struct sim_event *ev);

static void step_in(struct flight *f, int64_t ms)
{
    sim_in(f->net->sim, &f->step, ms, on_step);
}

// Already heard, or on a connection that never was or is dead.
static bool never_left(const struct flight *f)
{
    return f->phase != REQUEST || f->no_connection || f->on_dead_connection;
}

// What had left when the caller gave up lies in some queue, and may arrive much later.
static void haunt(const struct flight *f)
{
    AS_WORLD;
    struct sim_net *n = f->net;
    if (never_left(f) || !rng_chance(&n->rng, 30))
        return;
    struct flight *ghost = calloc(1, sizeof(*ghost));
    char *body = malloc(f->len + 1);
    if (ghost == NULL || body == NULL)
        abort();
    *ghost = (struct flight){ .net = n, .body = body, .len = f->len, .token = f->token };
    if (f->len > 0)
        memcpy(body, f->body, f->len);
    memcpy(ghost->method, f->method, sizeof(f->method));
    memcpy(ghost->url, f->url, sizeof(f->url));
    memcpy(ghost->content_type, f->content_type, sizeof(f->content_type));
    list_add_tail(&n->flying, &ghost->link);
    step_in(ghost, rng_between(&n->rng, 1, LATE_MS));
}

static void end_with(struct flight *f, int cls, const char *why)
{
    haunt(f);
    err_set(&f->fate, cls, "%s", why);
    f->phase = END;
    step_in(f, 0);
}

// Packets get through, sooner or later; in a black hole not at all.
static bool is_held_up(const struct flight *f, enum sim_fault *why)
{
    enum sim_link link = f->net->link;
    bool out = f->phase == REQUEST;
    *why = f->on_dead_connection ? F_HALF_OPEN : out ? F_PARTITION_OUT : F_PARTITION_IN;
    bool cannot_connect = out && link == NET_DROPS_IN && !f->net->connected;
    return f->on_dead_connection || link == NET_DROPS || link == (out ? NET_DROPS_OUT : NET_DROPS_IN) || cannot_connect;
}

static bool passes(struct flight *f)
{
    enum sim_fault why;
    if (!is_held_up(f, &why))
        return true;
    if (!f->was_held_up)
        sim_hit(f->net->sim, why);
    f->was_held_up = true;
    return false;
}

static int64_t latency(struct flight *f)
{
    int64_t ms = rng_between(&f->net->rng, 1, f->net->latency_ms);
    if (ms >= 1000)
        sim_hit(f->net->sim, F_SLOW);
    return ms;
}

static void abort_by_caller(struct flight *f)
{
    err_set(&f->fate, E_CANCELED, "the caller stopped it");
    f->phase = END;
}

static void call_head(struct flight *f)
{
    struct http_req *r = f->req;
    r->head = (struct http_head){ .status = f->answer.status,
                                  .retry_after_ms = f->answer.retry_after_s * 1000,
                                  .date_sec = sim_true_us(f->net->sim) / 1000000,
                                  .verified = true };
    snprintf(r->head.content_type, sizeof(r->head.content_type), "%s", f->answer.content_type);
    r->bytes_in += 200;
    f->phase = BODY;
    f->calling = true;
    if (r->on_head != NULL && r->on_head(r, &r->head) != 0)
        abort_by_caller(f);
    f->calling = false;
}

// The pieces of an answer that is all there, or what a stream has so far.
static struct buf *source(struct flight *f)
{
    return f->answer.stream != NULL ? &f->answer.stream->out : &f->answer.body;
}

static void call_body(struct flight *f)
{
    struct buf *b = source(f);
    struct http_req *r = f->req;
    char piece[PIECE_MAX];
    size_t some = (size_t)rng_between(&f->net->rng, 1, PIECE_MAX), n = MIN(b->len, some);
    memcpy(piece, b->data, n);
    buf_drop(b, n);
    r->bytes_in += n;
    f->last_byte_ms = f->net->sim->now_ms;
    f->calling = true;
    if (r->on_body != NULL && r->on_body(r, piece, n) != 0)
        abort_by_caller(f);
    f->calling = false;
}

// --- The server's side

static void on_more(struct sim_stream *st)
{
    struct flight *f = st->ctx;
    if (f->fault != FAULT_SILENT && !sim_is_set(&f->step))
        step_in(f, latency(f));
}

static void busy(struct flight *f)
{
    struct sim_answer *a = &f->answer;
    bool too_many = rng_chance(&f->net->rng, 50);
    sim_hit(f->net->sim, too_many ? F_429 : F_503);
    sim_fail(a, too_many ? 429 : 503, too_many ? "TooManyRequests" : "ServiceUnavailable", "please try again later");
    a->retry_after_s = rng_between(&f->net->rng, 1, BUSY_S_MAX);
}

static void unauthorized(struct flight *f, enum sim_fault why)
{
    sim_hit(f->net->sim, why);
    sim_fail(&f->answer, 401, "Unauthorized", "Unauthorized");
}

static void broken(struct flight *f, enum sim_fault why)
{
    sim_hit(f->net->sim, why);
    sim_fail(&f->answer, rng_chance(&f->net->rng, 50) ? 500 : 504, "InternalError", "etcdserver: request timed out");
}

// True: it was answered by whoever stands before the server, or by a server that is not itself.
static bool server_fails(struct flight *f)
{
    struct sim_net *n = f->net;
    f->answer = (struct sim_answer){ .content_type = "application/json", .body = BUF_INIT(65536) };
    if (f->token != n->token_valid) {
        unauthorized(f, F_TOKEN);
    } else if (f->fault == FAULT_PUT_OFF) {
        sim_fail(&f->answer, 503, "ServiceUnavailable", "not within the hour");
        f->answer.retry_after_s = PUT_OFF_S;
    } else if (f->fault == FAULT_BUSY) {
        busy(f);
    } else if (f->fault == FAULT_401) {
        unauthorized(f, F_401);
    } else if (f->fault == FAULT_5XX || n->storm) {
        broken(f, n->storm ? F_STORM : F_5XX);
    } else {
        return false;
    }
    return true;
}

static void count_doubt(struct sim_net *n)
{
    static const enum sim_fault faults[DOUBTS] = {
        [DOUBT_TERMINATING] = F_TERMINATING, [DOUBT_NO_NAMESPACE] = F_NO_NAMESPACE,   [DOUBT_FORBIDDEN] = F_403,
        [DOUBT_UNAUTHORIZED] = F_401,        [DOUBT_OTHER_CLUSTER] = F_OTHER_CLUSTER, [DOUBT_NAMESAKE] = F_NAMESAKE,
        [DOUBT_NO_CRD] = F_NO_CRD,           [DOUBT_TRUNCATED] = F_TRUNCATED,         [DOUBT_PORTAL] = F_PORTAL,
        [DOUBT_RESTORED] = F_RESTORED,
    };
    if (n->server->doubt != DOUBT_NONE)
        sim_hit(n->sim, faults[n->server->doubt]);
}

static void cut(struct flight *f)
{
    struct buf *b = source(f);
    size_t n = (size_t)rng_below(&f->net->rng, (int64_t)b->len);
    bool in_line = f->answer.stream != NULL && n > 0 && b->data[n - 1] != '\n';
    sim_hit(f->net->sim, f->fault == FAULT_RESET_IN_BODY ? F_RESET : in_line ? F_CUT_LINE : F_CUT_BODY);
    b->len = n;
}

static void arrive(struct flight *f)
{
    struct sim_net *n = f->net;
    struct sim_request r = { f->method, f->url, f->content_type, f->body, f->len, f->req != NULL ? f->req->accept : NULL };
    if (!server_fails(f)) {
        count_doubt(n);
        sim_server_answer(n->server, &r, &f->answer);
    }
    f->answered = true;
    if (n->heard != NULL)
        n->heard(n, f->method, f->url, !n->connected, f->answer.status);
    n->connected = true;
    if (f->answer.stream != NULL) {
        f->answer.stream->wake = on_more;
        f->answer.stream->ctx = f;
    }
    if (f->answer.cut)
        f->fault = FAULT_CUT;
    if (f->fault == FAULT_CUT || f->fault == FAULT_RESET_IN_BODY)
        cut(f);
}

// --- Step by step

// The kernel asks for a connection again after 1, 3, 7 ... seconds.
static int64_t next_syn(const struct flight *f)
{
    int64_t asked_for = f->net->sim->now_ms - f->began_ms, at = SYN_AGAIN_MS;
    while (at <= asked_for)
        at = 2 * at + SYN_AGAIN_MS;
    return at - asked_for;
}

// Why no connection comes about, or the one there is ends; NULL = it stands.
static const char *refusal(struct flight *f, int *cls)
{
    struct sim_net *n = f->net;
    *cls = E_OFFLINE;
    f->no_connection = f->no_connection || n->link == NET_REFUSED;
    if (n->link == NET_REFUSED) {
        sim_hit(n->sim, F_REFUSED);
        return "connect: Connection refused";
    }
    if (f->fault == FAULT_LOST_REQUEST) {
        sim_hit(n->sim, F_LOST_REQUEST);
        return "recv: Connection reset by peer";
    }
    if (!n->cert_expired || n->connected || f->req == NULL)
        return NULL;
    sim_hit(n->sim, F_CERT);
    *cls = E_AUTH;
    return "the server's certificate has expired";
}

static void on_answered(struct flight *f)
{
    f->phase = HEAD;
    if (f->fault == FAULT_LOST_ANSWER) {
        sim_hit(f->net->sim, F_LOST_ANSWER);
        end_with(f, E_OFFLINE, "recv: Connection reset by peer");
    } else if (f->fault == FAULT_SILENT) {
        sim_hit(f->net->sim, F_NO_ANSWER);
    } else {
        step_in(f, f->answer.delay_ms + latency(f));
    }
}

static void travel(struct flight *f)
{
    int cls;
    const char *why = refusal(f, &cls);
    if (why != NULL) {
        if (f->req == NULL)
            flight_free(f);
        else
            end_with(f, cls, why);
        return;
    }
    if (!passes(f) && f->req == NULL && f->net->sim->now_ms - f->began_ms > ORPHAN_MS) { // the kernel, too, gives up
        flight_free(f);
        return;
    }
    if (!passes(f)) { // asked again and again, until the link or the caller's patience ends
        step_in(f, f->no_connection ? next_syn(f) : RETRANSMIT_MS);
        return;
    }
    arrive(f);
    if (f->req != NULL) {
        on_answered(f);
        return;
    }
    sim_hit(f->net->sim, F_LATE); // nobody is there any more to hear the answer
    flight_free(f);
}

static bool is_whole(const struct flight *f)
{
    return f->answer.stream == NULL || f->answer.stream->ended;
}

static void after_piece(struct flight *f)
{
    struct buf *b = source(f);
    if (f->phase == END)
        step_in(f, 0);
    else if (b->len > 0)
        step_in(f, rng_between(&f->net->rng, 0, 3));
    else if (f->fault == FAULT_CUT && !f->net->hides_cuts)
        end_with(f, E_CORRUPT, "the body ended before its end");
    else if (f->fault == FAULT_RESET_IN_BODY)
        end_with(f, E_OFFLINE, "recv: Connection reset by peer");
    else if (is_whole(f) || f->fault == FAULT_CUT) {
        f->phase = END;
        step_in(f, rng_between(&f->net->rng, 0, 3));
    }
}

static void deliver(struct flight *f)
{
    if (f->phase == END) {
        call_done(f);
        return;
    }
    if (!passes(f)) {
        step_in(f, RETRANSMIT_MS);
        return;
    }
    if (f->phase == HEAD)
        call_head(f);
    else if (source(f)->len > 0)
        call_body(f);
    if (f->dropped)
        flight_free(f);
    else
        after_piece(f);
}

static void on_bell(struct loop_fd *fd, unsigned events UNUSED)
{
    struct sim_net *n = container_of(fd, struct sim_net, bell);
    struct flight *f = n->ringing;
    n->ringing = NULL;
    deliver(f);
}

static void on_step(struct sim_event *ev)
{
    struct flight *f = container_of(ev, struct flight, step);
    if (f->phase == REQUEST) {
        travel(f);
        return;
    }
    f->net->ringing = f;
    sim_dispatch(f->net->sim, f->net->loop, &f->net->bell);
}

// --- Time limits

static int64_t next_limit(const struct flight *f)
{
    const struct http_req *r = f->req;
    int64_t at = r->total_timeout_ms > 0 ? f->began_ms + r->total_timeout_ms : INT64_MAX;
    if (r->idle_timeout_ms > 0)
        at = MIN(at, f->last_byte_ms + r->idle_timeout_ms);
    if (f->no_connection && f->phase == REQUEST)
        at = MIN(at, f->began_ms + CONNECT_MS);
    return at;
}

static void on_limit(struct sim_event *ev)
{
    struct flight *f = container_of(ev, struct flight, limit);
    if (next_limit(f) > f->net->sim->now_ms)
        sim_at(f->net->sim, &f->limit, next_limit(f), on_limit);
    else if (f->phase != END)
        end_with(f, E_TIMEOUT, "no complete answer in time");
}

// --- The operations

static bool is_meant(const char *text, const struct http_req *r)
{
    return text != NULL && strstr(r->url, text) != NULL;
}

static enum fault draw_fault(struct sim_net *n, const struct http_req *r)
{
    if (is_meant(n->put_off, r))
        return FAULT_PUT_OFF;
    if (is_meant(n->unanswered, r))
        return FAULT_SILENT;
    if (!rng_chance(&n->rng, n->fault_percent))
        return FAULT_NONE;
    n->faults++;
    return (enum fault)rng_between(&n->rng, FAULT_LOST_REQUEST, FAULTS - 1);
}

static void check_request(struct sim_net *n, const struct http_req *r)
{
    bool has_body = strcmp(r->method, "GET") != 0;
    if (r->on_done == NULL || r->url[0] != '/' || (r->content_type != NULL) != has_body)
        sim_violation(n->sim, "a malformed request: %s %.100s", r->method, r->url);
    if (r->total_timeout_ms <= 0 && r->idle_timeout_ms <= 0)
        sim_violation(n->sim, "a request without any time limit: %s %.100s", r->method, r->url);
}

static int submit(struct transport *t, struct http_req *r, struct err *e)
{
    AS_WORLD;
    struct sim_net *n = self(t);
    if (!sim_effect(n->sim))
        return err_set(e, E_OFFLINE, "the agent is dead");
    if (r->impl != NULL)
        return err_set(e, E_BUSY, "the request is under way");
    check_request(n, r);
    if (n->asked != NULL)
        n->asked(n, r);
    struct flight *f = calloc(1, sizeof(*f));
    if (f == NULL || (r->body_len > 0 && (f->body = malloc(r->body_len)) == NULL))
        abort();
    f->net = n;
    f->req = r;
    f->began_ms = f->last_byte_ms = n->sim->now_ms;
    f->no_connection = n->link == NET_DROPS || n->link == NET_DROPS_OUT || n->link == NET_DROPS_IN;
    f->on_dead_connection = n->half_open;
    f->token = n->token;
    f->len = r->body_len;
    if (r->body_len > 0)
        memcpy(f->body, r->body, r->body_len);
    snprintf(f->method, sizeof(f->method), "%s", r->method);
    snprintf(f->url, sizeof(f->url), "%s", r->url);
    snprintf(f->content_type, sizeof(f->content_type), "%s", r->content_type != NULL ? r->content_type : "");
    f->fault = draw_fault(n, r);
    list_add_tail(&n->flying, &f->link);
    sim_trace(n->sim, "-> %s %.140s fault=%d", f->method, f->url, (int)f->fault);
    r->impl = f;
    r->bytes_in = 0;
    r->bytes_out = 200 + r->body_len;
    r->head = (struct http_head){ 0 };
    n->submitted++;
    n->under_way++;
    n->most_under_way = MAX(n->most_under_way, n->under_way);
    step_in(f, latency(f));
    if (next_limit(f) < INT64_MAX)
        sim_at(n->sim, &f->limit, next_limit(f), on_limit);
    return 0;
}

// Nobody waits for it any more. What had left may still arrive.
static void let_go(struct flight *f)
{
    f->req->impl = NULL;
    f->req = NULL;
    f->net->under_way--;
    sim_unset(&f->limit);
    if (f->calling)
        f->dropped = true;
    else if (never_left(f) || rng_chance(&f->net->rng, 30))
        flight_free(f);
}

static void cancel(struct transport *t UNUSED, struct http_req *r)
{
    if (r->impl != NULL)
        let_go(r->impl);
}

static void condemn(struct transport *t)
{
    struct sim_net *n = self(t);
    n->connected = n->half_open = false;
    list_each_safe(it, next, &n->flying) {
        struct flight *f = container_of(it, struct flight, link);
        if (f->req != NULL && f->phase != END)
            end_with(f, E_OFFLINE, "the connection was given up");
    }
}

static void stats(struct transport *t, struct http_stats *out)
{
    *out = (struct http_stats){ .requests = self(t)->submitted, .failures = self(t)->faults };
}

static void free_transport(struct transport *t)
{
    sim_net_leave(self(t));
}

static const struct transport_ops sim_ops = { submit, cancel, condemn, stats, free_transport };

// --- The agent comes and goes

struct transport *sim_net_for(struct sim_net *n, struct loop *l)
{
    struct err e = ERR_INIT;
    n->loop = l;
    n->transport.ops = &sim_ops;
    if (loop_fd_add(l, &n->bell, -1, LOOP_IN, on_bell, &e) < 0)
        abort();
    return &n->transport;
}

void sim_net_leave(struct sim_net *n)
{
    if (n->loop == NULL)
        return;
    list_each_safe(it, next, &n->flying) {
        struct flight *f = container_of(it, struct flight, link);
        if (f->req != NULL)
            let_go(f);
    }
    loop_fd_del(n->loop, &n->bell);
    n->loop = NULL;
    n->connected = n->half_open = false;
}

// A link that breaks takes the connections with it; one that drops packets does not.
void sim_net_link(struct sim_net *n, enum sim_link link)
{
    static const char *const words[] = { "fine", "refused", "drops packets", "nothing gets out", "nothing comes in" };
    if (n->link == link)
        return;
    n->link = link;
    if (link == NET_REFUSED)
        n->connected = n->half_open = false;
    sim_note(n->sim, "net", "link: %s", words[link]);
    list_each_safe(it, next, &n->flying) {
        struct flight *f = container_of(it, struct flight, link);
        if (link == NET_REFUSED && f->req != NULL && f->phase != END)
            end_with(f, E_OFFLINE, "recv: Connection reset by peer");
    }
}

// The other end is gone without a word, and what is in between says nothing either.
void sim_net_half_open(struct sim_net *n)
{
    n->half_open = true;
    list_each(it, &n->flying) {
        struct flight *f = container_of(it, struct flight, link);
        f->on_dead_connection = f->req != NULL;
    }
}

size_t sim_net_under_way(struct sim_net *n, bool (*is)(const struct http_req *r))
{
    size_t count = 0;
    list_each(it, &n->flying) {
        const struct flight *f = container_of(it, struct flight, link);
        count += f->req != NULL && is(f->req);
    }
    return count;
}

bool sim_net_reread(struct sim_net *n)
{
    bool other = n->token != n->token_in_file;
    n->token = n->token_in_file;
    return other;
}

void sim_net_init(struct sim_net *n, struct sim *s, struct sim_server *v)
{
    *n = (struct sim_net){ .sim = s, .server = v, .rng = sim_stream(s, "net"), .latency_ms = NET_LATENCY_MS };
    list_init(&n->flying);
}

void sim_net_fini(struct sim_net *n)
{
    list_each_safe(it, next, &n->flying)
        flight_free(container_of(it, struct flight, link));
}
