// SPDX-License-Identifier: Apache-2.0
#include "local/check.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "version.h"

enum { WHOLE_MS = 45000, BACKSTOP_S = 60, NEEDS_MAX = 3 };

// Names are for scripts, so they stay as they are. A check comes after those it needs.
static const struct {
    const char *name, *group;
    check_fn *fn;
    const char *needs[NEEDS_MAX + 1];
} checks[] = {
    { "config", "configuration", check_config, { NULL } },
    { "agent", "agent", check_agent, { "config" } },
    { "agent-link", "agent", check_link, { "agent" } },
    { "outbox", "agent", check_outbox, { "agent" } },
    { "manifests", "agent", check_manifests, { "agent" } },
    { "credential", "identity", check_credential, { "config" } },
    { "credential-expiry", "identity", check_expiry, { "credential" } },
    { "server-proxy", "server", check_proxy, { "credential" } },
    { "server-name", "server", check_name, { "server-proxy" } },
    { "server-tcp", "server", check_tcp, { "server-name" } },
    { "server-tls", "server", check_tls, { "server-tcp" } },
    { "server-answer", "server", check_answer, { "server-tls" } },
    { "server-clock", "server", check_server_clock, { "server-answer" } },
    { "server-certificate", "server", check_certificate, { "server-tls" } },
    { "login", "cluster", check_login, { "server-answer", "server-certificate", "server-clock" } },
    { "namespace", "cluster", check_namespace, { "login" } },
    { "crds", "cluster", check_crds, { "login" } },
    { "rbac", "cluster", check_rbac, { "login", "namespace" } },
    { "lease", "cluster", check_lease, { "login", "namespace" } },
    { "clock", "machine", check_clock, { "config" } },
    { "store", "machine", check_store, { "config" } },
    { "state-dir", "machine", check_state_dir, { "config" } },
    { "run-dir", "machine", check_run_dir, { "config" } },
    { "log-dir", "machine", check_log_dir, { "config" } },
    { "port", "machine", check_port, { "config" } },
};

static const char *const status_words[] = { "ok", "warn", "fail", "skip" };

// --- what a function says --------------------------------------------------------------------------------------------------------

static void put(char *out, size_t max, const char *fmt, va_list ap)
{
    int n = vsnprintf(out, max, fmt, ap);
    if (n < 0)
        out[0] = '\0';
    else if ((size_t)n >= max)
        memcpy(out + max - sizeof("..."), "...", sizeof("..."));
    for (char *p = out; *p != '\0'; p++) // what others sent must not draw on a terminal
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
}

void check_say(struct check_result *r, enum check_status s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(r->seen, sizeof(r->seen), fmt, ap);
    va_end(ap);
    r->status = s;
    r->holds = s == CHECK_FAIL || s == CHECK_SKIP;
}

void check_cause(struct check_result *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(r->cause, sizeof(r->cause), fmt, ap);
    va_end(ap);
}

void check_remedy(struct check_result *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(r->remedy, sizeof(r->remedy), fmt, ap);
    va_end(ap);
}

void check_needs(struct check_result *r, const char *name)
{
    check_say(r, CHECK_SKIP, "needs %s", name);
    r->needs = name;
}

int64_t check_limit(const struct check *k, int64_t ms)
{
    int64_t left = k->deadline_ms - clock_mono(&k->cli->clock);
    return MAX(MIN(left, ms), (int64_t)1);
}

const char *check_when(int64_t sec, char out[48])
{
    static const struct {
        int64_t sec;
        const char *name;
    } units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };
    int64_t n = sec < 0 ? -sec : sec;
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(units) && n < 2 * units[i].sec)
        i++;
    n /= units[i].sec;
    snprintf(out, 48, "%s%" PRId64 " %s%s%s", sec < 0 ? "" : "in ", n, units[i].name, n == 1 ? "" : "s", sec < 0 ? " ago" : "");
    return out;
}

// --- running them ----------------------------------------------------------------------------------------------------------------

struct report {
    struct check_result result[ARRAY_LEN(checks)];
    int count[ARRAY_LEN(status_words)];
    bool json;
};

static size_t index_of(const char *name)
{
    size_t i = 0;
    while (strcmp(checks[i].name, name) != 0)
        i++;
    return i;
}

// The first check that stands in the way, by its own reason and not by what it needed itself. NULL: none.
static const char *obstacle(const struct report *rep, size_t i)
{
    for (const char *const *n = checks[i].needs; *n != NULL; n++) {
        const struct check_result *r = &rep->result[index_of(*n)];
        if (r->holds)
            return r->needs != NULL ? r->needs : *n;
    }
    return NULL;
}

static void print_more(const char *label, const char *text)
{
    if (text[0] != '\0')
        printf("%28s%s %s\n", "", label, text);
}

static void print_one(size_t i, const struct check_result *r)
{
    if (i == 0 || strcmp(checks[i].group, checks[i - 1].group) != 0)
        printf("%s\n", checks[i].group);
    printf("  %-5s %-19s %s\n", status_words[r->status], checks[i].name, r->seen);
    print_more("cause: ", r->cause);
    print_more("remedy:", r->remedy);
    fflush(stdout); // what comes next may take its time
}

static void run_one(struct check *k, struct report *rep, size_t i)
{
    struct check_result *r = &rep->result[i];
    const char *in_the_way = obstacle(rep, i);
    if (in_the_way != NULL)
        check_needs(r, in_the_way);
    else
        checks[i].fn(k, r);
    rep->count[r->status]++;
    if (!rep->json)
        print_one(i, r);
}

// --- what they share -------------------------------------------------------------------------------------------------------------

static const char *volatile backstop_doing;

// Nothing here should take so long; a dead network file system can.
static void on_backstop(int sig UNUSED)
{
    static const char text[] = "limpet: check: gave up after 60 s, in the middle of: ";
    const char *doing = backstop_doing;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)!write(STDERR_FILENO, doing, strlen(doing));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(EXIT_FAIL);
}

static int begin(struct check *k, struct cli *c, struct err *e)
{
    struct loop_backend *b;
    *k = (struct check){ .cli = c, .config = &c->config, .problems = BUF_INIT(1024 * 1024) };
    k->deadline_ms = clock_mono(&c->clock) + WHOLE_MS;
    clock_floor(&c->clock, LIMPET_BUILD_EPOCH * INT64_C(1000000));
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, on_backstop);
    alarm(BACKSTOP_S);
    int rc = loop_backend_epoll(&b, e);
    if (rc == 0)
        rc = loop_new(&k->loop, &c->clock, b, e);
    if (rc < 0)
        return rc;
    k->config_rc = cli_load(c, &k->problems, e);
    c->clock.always = k->config_rc == 0 && c->config.clock_trust == 1;
    return disk_real_new(&k->disk, NULL, k->config_rc == 0 && c->config.port_root != NULL ? c->config.port_root : "", e);
}

static void end(struct check *k)
{
    alarm(0);
    transport_free(k->stranger);
    transport_free(k->transport);
    cred_fini(&k->cred);
    json_free(k->agent);
    json_free(k->own_ns);
    buf_fini(&k->problems);
    if (k->disk != NULL)
        disk_free(k->disk);
    loop_free(k->loop);
}

// --- the report ------------------------------------------------------------------------------------------------------------------

static void set_text(struct json *j, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_set_str(j, name, text);
}

static struct json *one_json(size_t i, const struct check_result *r)
{
    struct json *j = json_object();
    json_set_str(j, "name", checks[i].name);
    json_set_str(j, "group", checks[i].group);
    json_set_str(j, "status", status_words[r->status]);
    set_text(j, "needs", r->needs);
    set_text(j, "seen", r->seen);
    set_text(j, "cause", r->cause);
    set_text(j, "remedy", r->remedy);
    return j;
}

static int print_report(const struct check *k, const struct report *rep, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(1024 * 1024);
    struct json *j AUTO_JSON = json_object(), *counts = json_object(), *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(status_words); i++)
        json_set_int(counts, status_words[i], rep->count[i]);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        json_push(list, one_json(i, &rep->result[i]));
    json_set_str(j, "version", LIMPET_VERSION);
    set_text(j, "node", k->node);
    set_text(j, "namespace", k->ns);
    json_set_str(j, "result", rep->count[CHECK_FAIL] > 0 ? "fail" : (rep->count[CHECK_WARN] > 0 ? "warn" : "ok"));
    json_set(j, "counts", counts);
    json_set(j, "checks", list);
    int rc = json_ok() ? json_print(j, &text, e) : err_set(e, E_NOMEM, "no memory for the report");
    if (rc == 0)
        puts(buf_str(&text));
    return rc;
}

static int look_at_all(struct check *k, bool json, struct err *e)
{
    struct report rep = { .json = json };
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        backstop_doing = checks[i].name;
        run_one(k, &rep, i);
    }
    if (json && print_report(k, &rep, e) < 0)
        return cli_fail(e);
    if (!json)
        printf("\n%zu checks: %d ok, %d warn, %d fail, %d skipped\n", ARRAY_LEN(checks), rep.count[CHECK_OK], rep.count[CHECK_WARN],
               rep.count[CHECK_FAIL], rep.count[CHECK_SKIP]);
    return rep.count[CHECK_FAIL] > 0 ? EXIT_FAIL : EXIT_OK;
}

int cli_check(struct cli *c)
{
    struct check k;
    struct err e = ERR_INIT;
    bool json;
    if (cli_operands(c, NULL, 0, &json) != EXIT_OK)
        return EXIT_BAD_USAGE;
    int rc = begin(&k, c, &e) == 0 ? look_at_all(&k, json, &e) : cli_fail(&e);
    end(&k);
    return rc;
}
