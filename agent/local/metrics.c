// SPDX-License-Identifier: Apache-2.0
#include "local/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// The first error sticks; what comes after it is not written.
struct writer {
    struct buf *b;
    struct err *e;
    int rc;
};

static void put(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct writer *w, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    if (w->rc < 0)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    w->rc = buf_adds(w->b, line, w->e);
}

static void head(struct writer *w, const char *name, const char *type, const char *help)
{
    put(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct writer *w, const char *name, uint64_t v, const char *help)
{
    head(w, name, "counter", help);
    put(w, "%s %" PRIu64 "\n", name, v);
}

static void gauge(struct writer *w, const char *name, int64_t v, const char *help)
{
    head(w, name, "gauge", help);
    put(w, "%s %" PRId64 "\n", name, v);
}

static void gauge_ms(struct writer *w, const char *name, int64_t ms, const char *help)
{
    head(w, name, "gauge", help);
    put(w, "%s %" PRId64 ".%03d\n", name, ms / 1000, (int)(ms % 1000));
}

// labels: "" or "a=\"b\"".
static void histogram(struct writer *w, const char *name, const char *labels, const struct histo *h)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    char open[160] = "";
    uint64_t n = 0;
    if (labels[0] != '\0')
        snprintf(open, sizeof(open), "{%s}", labels);
    for (int i = 0; i < HISTO_BUCKETS; i++) {
        n += h->n[i];
        put(w, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma, (double)histo_bounds_us[i] / 1e6, n);
    }
    put(w, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, histo_count(h));
    put(w, "%s_sum%s %" PRIu64 ".%06u\n", name, open, h->sum_us / 1000000, (unsigned)(h->sum_us % 1000000));
    put(w, "%s_count%s %" PRIu64 "\n", name, open, histo_count(h));
}

// --- controller-runtime: one controller a kind

struct per_kind {
    struct writer *w;
    void (*line)(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s);
};

static int kind_line(void *ctx, const struct kind *k, const struct kind_stats *s)
{
    const struct per_kind *p = ctx;
    char name[64];
    ascii_lower(k->name, name, sizeof(name));
    p->line(p->w, name, k, s);
    return 0;
}

static void each_kind(struct writer *w, struct agent *a,
                      void (*line)(struct writer *, const char *, const struct kind *, const struct kind_stats *))
{
    struct per_kind p = { w, line };
    (void)engine_each_kind(a->engine, kind_line, &p);
}

static void total_line(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s)
{
    const struct {
        const char *result;
        uint64_t n;
    } results[] = { { "error", s->error }, { "requeue", s->requeue }, { "requeue_after", s->requeue_after }, { "success", s->success } };
    (void)k;
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        put(w, "controller_runtime_reconcile_total{controller=\"%s\",result=\"%s\"} %" PRIu64 "\n", controller, results[i].result,
            results[i].n);
}

static void errors_line(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s)
{
    (void)k;
    put(w, "controller_runtime_reconcile_errors_total{controller=\"%s\"} %" PRIu64 "\n", controller, s->error);
}

static void time_line(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s)
{
    char labels[96];
    (void)k;
    snprintf(labels, sizeof(labels), "controller=\"%s\"", controller);
    histogram(w, "controller_runtime_reconcile_time_seconds", labels, &s->time);
}

static void workers_line(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s)
{
    (void)k;
    put(w, "controller_runtime_active_workers{controller=\"%s\"} %d\n", controller, s->open);
}

static void most_line(struct writer *w, const char *controller, const struct kind *k, const struct kind_stats *s)
{
    (void)s;
    put(w, "controller_runtime_max_concurrent_reconciles{controller=\"%s\"} %d\n", controller, MAX(1, k->max_concurrent));
}

static void write_controllers(struct writer *w, struct agent *a)
{
    head(w, "controller_runtime_reconcile_total", "counter", "Passes by kind and result.");
    each_kind(w, a, total_line);
    head(w, "controller_runtime_reconcile_errors_total", "counter", "Passes that failed.");
    each_kind(w, a, errors_line);
    head(w, "controller_runtime_reconcile_time_seconds", "histogram", "How long passes took, waiting for what they had started included.");
    each_kind(w, a, time_line);
    head(w, "controller_runtime_active_workers", "gauge", "Passes under way that wait for something.");
    each_kind(w, a, workers_line);
    head(w, "controller_runtime_max_concurrent_reconciles", "gauge", "Passes of a kind that may be under way at once.");
    each_kind(w, a, most_line);
}

static void write_queue(struct writer *w, struct agent *a)
{
    static const char labels[] = "controller=\"limpet\",name=\"limpet\"";
    struct workq_stats q;
    engine_queue_stats(a->engine, &q);
    head(w, "workqueue_adds_total", "counter", "Keys that came to wait.");
    put(w, "workqueue_adds_total{%s} %" PRIu64 "\n", labels, q.adds);
    head(w, "workqueue_depth", "gauge", "Keys whose time has come and that were not worked yet.");
    put(w, "workqueue_depth{%s} %zu\n", labels, q.ready);
    head(w, "workqueue_retries_total", "counter", "Failures that are tried again.");
    put(w, "workqueue_retries_total{%s} %" PRIu64 "\n", labels, q.retries);
    head(w, "workqueue_queue_duration_seconds", "histogram", "How long keys waited after their time had come.");
    histogram(w, "workqueue_queue_duration_seconds", labels, &q.waited);
    gauge(w, "limpet_workqueue_delayed", (int64_t)q.delayed, "Keys that wait for a time to come.");
}

// --- client-go

// "https://host:6443/x" -> "host:6443"; what could end a label is not in the host of a URL that was accepted.
static void host_of(const char *url, char out[280])
{
    const char *p = strstr(url, "://");
    p = p != NULL ? p + 3 : url;
    snprintf(out, 280, "%.*s", (int)strcspn(p, "/\"\\\n"), p);
}

static void write_requests(struct writer *w, const struct metrics_source *s)
{
    const struct kube *k = &s->agent->kube;
    char host[280], code[16];
    host_of(s->server, host);
    head(w, "rest_client_requests_total", "counter", "Requests to the API server by method and status.");
    for (size_t i = 0; i < KUBE_COUNTS && k->counts[i].n > 0; i++) {
        snprintf(code, sizeof(code), "%d", k->counts[i].status);
        put(w, "rest_client_requests_total{code=\"%s\",host=\"%s\",method=\"%s\"} %" PRIu64 "\n",
            k->counts[i].status > 0 ? code : "<error>", host, k->counts[i].method, k->counts[i].n);
    }
}

// --- The process, as Prometheus' libraries have it

static int64_t resident_pages(struct disk *d)
{
    struct buf b AUTO_BUF = BUF_INIT(256);
    long long size = 0, resident = 0;
    if (fs_read(d, "/proc/self/statm", 256, 0, &b, NULL) < 0 || sscanf(buf_str(&b), "%lld %lld", &size, &resident) != 2)
        return -1;
    return resident;
}

static void write_process(struct writer *w, const struct metrics_source *s)
{
    struct rusage u = { 0 };
    struct rlimit files = { 0 };
    int64_t pages = resident_pages(s->agent->seams.disk);
    getrusage(RUSAGE_SELF, &u);
    getrlimit(RLIMIT_NOFILE, &files);
    int64_t ms = (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
    head(w, "process_cpu_seconds_total", "counter", "Processor time of the agent.");
    put(w, "process_cpu_seconds_total %" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
    gauge(w, "process_max_fds", (int64_t)files.rlim_cur, "File descriptors that the agent may have.");
    gauge_ms(w, "process_start_time_seconds", s->started_us / 1000, "When the agent started, by its best estimate of the time.");
    if (pages >= 0)
        gauge(w, "process_resident_memory_bytes", pages * sysconf(_SC_PAGESIZE), "Resident memory of the agent.");
}

// --- limpet

// NULL: this node is enrolled nowhere.
static void write_link_state(struct writer *w, const struct sync_stats *now)
{
    head(w, "limpet_link_state", "gauge", "1 for the state that the link to the API server is in, 0 for the others.");
    for (int i = 0; i <= LINK_STANDBY; i++)
        put(w, "limpet_link_state{state=\"%s\"} %d\n", link_state_word((enum link_state)i), now != NULL && (int)now->link == i);
    put(w, "limpet_link_state{state=\"NotEnrolled\"} %d\n", now == NULL);
}

static void write_credential(struct writer *w, struct agent *a)
{
    struct agent_credential c = { 0 };
    if (a->credential == NULL || a->sync == NULL)
        return;
    a->credential(a->ctx, &c);
    counter(w, "limpet_credential_renewals_total", c.renewals, "Tokens and certificates that replaced the one in use, since the start.");
    gauge(w, "limpet_credential_expiry_timestamp_seconds", c.expires_s, "When the credential in use ends, 0 = not known.");
}

static void write_link(struct writer *w, struct agent *a)
{
    struct sync_stats s;
    int64_t now = loop_now(a->seams.loop);
    if (a->sync == NULL) {
        write_link_state(w, NULL);
        return;
    }
    sync_stats(a->sync, &s);
    write_link_state(w, &s);
    gauge_ms(w, "limpet_link_state_age_seconds", now - s.since_ms, "How long the link has been in this state.");
    if (s.last_contact_ms > 0)
        gauge_ms(w, "limpet_link_contact_age_seconds", now - s.last_contact_ms, "How long ago the server answered last.");
    gauge(w, "limpet_sync_sources", (int64_t)s.sources, "Resources that are followed.");
    gauge(w, "limpet_sync_sources_current", (int64_t)s.current, "Of these, the ones that equal the server.");
    counter(w, "limpet_sync_relists_total", s.relists, "Complete lists that were read.");
    counter(w, "limpet_sync_watches_total", s.watches, "Watches and delta polls that were opened.");
    counter(w, "limpet_sync_events_total", s.events, "Changes that were heard.");
    counter(w, "limpet_sync_expired_total", s.gone_410, "Times that the server no longer knew our resourceVersion.");
    counter(w, "limpet_sync_bad_lines_total", s.bad_lines, "Lines of a watch that could not be read.");
    counter(w, "limpet_sync_holds_total", s.holds, "Times that deletes were held back.");
    counter(w, "limpet_sync_received_bytes_total", s.bytes_in, "Bytes of lists and watches.");
}

static void write_outbox(struct writer *w, struct agent *a)
{
    struct outbox_stats s = { 0 };
    struct err e = ERR_INIT;
    if (outbox_stats(a->outbox, &s, &e) < 0)
        return;
    head(w, "limpet_outbox_pending", "gauge", "What the server still has to hear.");
    put(w, "limpet_outbox_pending{type=\"status\"} %" PRId64 "\n", s.status_pending);
    put(w, "limpet_outbox_pending{type=\"event\"} %" PRId64 "\n", s.events_pending);
    head(w, "limpet_outbox_dropped_total", "counter", "What the server refused for good.");
    put(w, "limpet_outbox_dropped_total{type=\"status\"} %" PRId64 "\n", s.status_dropped);
    put(w, "limpet_outbox_dropped_total{type=\"event\"} %" PRId64 "\n", s.events_dropped);
    counter(w, "limpet_outbox_lost_total", (uint64_t)s.events_lost, "Events for which there was no room; counted over restarts.");
    counter(w, "limpet_outbox_acknowledged_total", (uint64_t)s.acked, "Statuses and events that the server took.");
    if (s.oldest_us > 0)
        gauge_ms(w, "limpet_outbox_oldest_age_seconds", MAX(clock_wall_us(a->seams.clock) - s.oldest_us, INT64_C(0)) / 1000,
                 "Age of the oldest of what is pending.");
}

static void write_egress(struct writer *w, struct agent *a)
{
    struct egress_stats s = { 0 };
    if (a->egress == NULL)
        return;
    egress_stats(a->egress, &s);
    head(w, "limpet_egress_sent_total", "counter", "Reports that were sent.");
    put(w, "limpet_egress_sent_total{type=\"status\"} %" PRIu64 "\n", s.status_sent);
    put(w, "limpet_egress_sent_total{type=\"event\"} %" PRIu64 "\n", s.events_sent);
    counter(w, "limpet_egress_conflicts_total", s.status_conflicts, "Statuses that met a newer object.");
    counter(w, "limpet_egress_errors_total", s.errors, "Reports that failed and are sent again.");
    gauge(w, "limpet_egress_in_flight", s.in_flight, "Reports under way.");
}

static void write_store(struct writer *w, struct agent *a)
{
    struct db_stats s;
    db_stats(a->db, &s);
    head(w, "limpet_store_bytes", "gauge", "Size of the store.");
    put(w, "limpet_store_bytes{file=\"database\"} %" PRId64 "\n", s.file_bytes);
    put(w, "limpet_store_bytes{file=\"log\"} %" PRId64 "\n", s.wal_bytes);
    gauge(w, "limpet_store_max_bytes", a->config->store_max_bytes, "Size that the store may have.");
    counter(w, "limpet_store_commits_total", s.commits, "Transactions.");
    counter(w, "limpet_store_commit_failures_total", a->commit_failures, "Transactions that did not reach the disk.");
    counter(w, "limpet_store_bad_rows_total", s.rows_bad_crc, "Rows whose checksum was wrong when they were read.");
    gauge(w, "limpet_store_salvaged", db_salvaged(a->db)->happened, "1 when the store was damaged and what could be read was saved.");
    head(w, "limpet_store_commit_seconds", "histogram", "How long transactions took, which is how long everything else waited.");
    histogram(w, "limpet_store_commit_seconds", "", &a->commit_time);
}

static void write_agent(struct writer *w, const struct metrics_source *s)
{
    struct agent *a = s->agent;
    struct engine_stats g;
    engine_stats(a->engine, &g);
    head(w, "limpet_build_info", "gauge", "1; the version is in the label.");
    put(w, "limpet_build_info{version=\"%s\"} 1\n", s->version);
    gauge(w, "limpet_objects", (int64_t)g.objects, "Objects that are made true on this node.");
    gauge(w, "limpet_clock_trusted", clock_trusted(a->seams.clock), "1 when the wall clock is believed.");
    gauge(w, "limpet_lease_held", a->lease != NULL && a->is_holder, "1 while the node's Lease is ours.");
    counter(w, "limpet_loop_wakeups_total", loop_wakeups(a->seams.loop), "Times that the agent woke up.");
}

static void write_manifests(struct writer *w, const struct agent *a)
{
    struct manifests_stats s;
    if (a->manifests == NULL)
        return;
    manifests_stats(a->manifests, &s);
    gauge(w, "limpet_manifest_files", (int64_t)s.files, "Files of the manifest directory.");
    head(w, "limpet_manifest_errors", "gauge",
         "Of these, the ones that are left alone for a mistake, and those with fields that are unknown.");
    put(w, "limpet_manifest_errors{reason=\"invalid\"} %zu\n", s.bad);
    put(w, "limpet_manifest_errors{reason=\"unknown_field\"} %zu\n", s.unknown);
}

int metrics_text(const struct metrics_source *s, struct buf *out, struct err *e)
{
    struct writer w = { out, e, 0 };
    write_agent(&w, s);
    write_controllers(&w, s->agent);
    write_queue(&w, s->agent);
    write_requests(&w, s);
    write_link(&w, s->agent);
    write_credential(&w, s->agent);
    write_outbox(&w, s->agent);
    write_egress(&w, s->agent);
    write_store(&w, s->agent);
    write_manifests(&w, s->agent);
    write_process(&w, s);
    return w.rc;
}

// --- Ready?

static bool check(struct writer *w, bool good, const char *name, const char *why)
{
    put(w, "[%c]%s %s%s\n", good ? '+' : '-', name, good ? "ok" : "failed: ", good ? "" : why);
    return good;
}

bool metrics_ready(const struct metrics_source *s, struct buf *out, struct err *e)
{
    struct writer w = { out, e, 0 };
    struct agent *a = s->agent;
    struct engine_stats g;
    engine_stats(a->engine, &g);
    bool ready = check(&w, g.settled, "first-look", "not every object has been looked at since the start");
    ready &= check(&w, !timer_is_set(&a->store_retry), "store", "the last transaction did not reach the disk");
    ready &= check(&w, !a->store_away, "state-directory", "it cannot be written; the store is a copy in the run directory");
    put(&w, "readyz check %s\n", ready ? "passed" : "failed");
    return ready;
}

// --- Over HTTP

static int answer_ready(const struct metrics_source *s, bool verbose, struct buf *out, struct err *e)
{
    bool ready = metrics_ready(s, out, e);
    if (ready && !verbose) {
        buf_reset(out);
        (void)!buf_adds(out, "ok\n", e);
    }
    return ready ? 200 : 503;
}

int metrics_answer(void *ctx, const char *path, bool verbose, struct buf *out, const char **type)
{
    const struct metrics_source *s = ctx;
    struct err e = ERR_INIT;
    int rc = 0, status = 200;
    if (strcmp(path, "/metrics") == 0) {
        *type = METRICS_TYPE;
        rc = metrics_text(s, out, &e);
    } else if (strcmp(path, "/healthz") == 0) {
        rc = buf_adds(out, "ok\n", &e);
    } else if (strcmp(path, "/readyz") == 0) {
        return answer_ready(s, verbose, out, &e);
    } else {
        status = 404;
        rc = buf_adds(out, "/metrics, /healthz and /readyz are here\n", &e);
    }
    if (rc == 0)
        return status;
    buf_reset(out);
    *type = "text/plain; charset=utf-8";
    return 500;
}
