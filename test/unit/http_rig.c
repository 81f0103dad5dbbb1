// SPDX-License-Identifier: Apache-2.0
#include "http_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    char name[16];
    int port;
} servers[24];

static struct odd_clock *odd(struct clock *c)
{
    return container_of(c, struct odd_clock, clock);
}
static int64_t odd_mono(struct clock *c)
{
    return odd(c)->real.ops->mono_ms(&odd(c)->real);
}
static int64_t odd_boot(struct clock *c)
{
    return odd(c)->real.ops->boot_ms(&odd(c)->real);
}
static int64_t odd_wall(struct clock *c)
{
    return odd(c)->real.ops->wall_us(&odd(c)->real) + odd(c)->wall_shift_us;
}
static bool odd_synced(struct clock *c)
{
    return odd(c)->synced;
}
static void odd_random(struct clock *c, void *p, size_t n)
{
    odd(c)->real.ops->random(&odd(c)->real, p, n);
}
static void odd_boot_id(struct clock *c, char out[37])
{
    odd(c)->real.ops->boot_id(&odd(c)->real, out);
}

static void odd_clock_init(struct odd_clock *o)
{
    static const struct clock_ops ops = { odd_mono, odd_boot, odd_wall, odd_synced, odd_random, odd_boot_id, NULL };

    *o = (struct odd_clock){ .clock.ops = &ops, .synced = true };
    clock_real_init(&o->real);
}

static char *slurp(const char *dir, const char *name)
{
    char path[512], *text = calloc(1, 65536);

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (f == NULL || text == NULL || fread(text, 1, 65535, f) == 0)
        abort();
    fclose(f);
    return text;
}

static void exec_server(const char *dir, int in, int out)
{
    char script[512];

    snprintf(script, sizeof script, "%s/test/unit/http_server.py", getenv("SRC") != NULL ? getenv("SRC") : ".");
    dup2(in, 0);
    dup2(out, 1);
    execlp("python3", "python3", script, dir, (char *)NULL);
    _exit(127);
}

static bool read_ports(int fd)
{
    FILE *f = fdopen(fd, "r");
    size_t n = 0;

    while (n < ARRAY_LEN(servers) && fscanf(f, "%15s %d", servers[n].name, &servers[n].port) == 2) {
        if (strcmp(servers[n].name, "ready") == 0) {
            fclose(f);
            return true;
        }
        n++;
    }
    fclose(f);
    return false;
}

bool http_rig_start(struct http_rig *g)
{
    int in[2], out[2];
    struct loop_backend *b;
    struct err e = ERR_INIT;

    snprintf(g->dir, sizeof g->dir, "%s/http-rig-%d", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", getpid());
    if (pipe(in) < 0 || pipe(out) < 0 || (g->pid = fork()) < 0)
        return false;
    if (g->pid == 0) {
        close(in[1]);
        exec_server(g->dir, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    g->stdin_fd = in[1];
    odd_clock_init(&g->clock);
    if (!read_ports(out[0]) || loop_backend_epoll(&b, &e) < 0 || loop_new(&g->loop, &g->clock.clock, b, &e) < 0) {
        printf("# the test servers do not start: %s\n", e.msg);
        return false;
    }
    g->ca = slurp(g->dir, "ca.pem");
    g->other_ca = slurp(g->dir, "other.pem");
    g->client_cert = slurp(g->dir, "client.pem");
    g->client_key = slurp(g->dir, "client.key");
    g->join_token = slurp(g->dir, "join-token");
    return true;
}

void http_rig_stop(struct http_rig *g)
{
    char cmd[300];

    close(g->stdin_fd);
    waitpid(g->pid, NULL, 0);
    loop_free(g->loop);
    free(g->ca);
    free(g->other_ca);
    free(g->client_cert);
    free(g->client_key);
    free(g->join_token);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", g->dir);
    if (system(cmd) != 0)
        printf("# %s is left\n", g->dir);
}

int http_rig_port(const struct http_rig *g UNUSED, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(servers); i++)
        if (strcmp(servers[i].name, name) == 0)
            return servers[i].port;
    abort();
}

static int probe_head(struct http_req *r, const struct http_head *h UNUSED)
{
    container_of(r, struct probe, req)->heads++;
    return 0;
}

static int probe_body(struct http_req *r, const void *p, size_t n)
{
    struct probe *pr = container_of(r, struct probe, req);

    if (buf_add(&pr->body, p, n, NULL) < 0)
        abort();
    return pr->chunk != NULL ? pr->chunk(pr) : 0;
}

static void probe_done(struct http_req *r, const struct err *e)
{
    struct probe *pr = container_of(r, struct probe, req);

    pr->dones++;
    pr->err = e != NULL ? *e : ERR_INIT;
    if (pr->then != NULL)
        pr->then(pr);
}

void probe_init(struct probe *p, const char *method, const char *url)
{
    *p = (struct probe){ .req = { .method = method, .total_timeout_ms = 30000 } };
    snprintf(p->req.url, sizeof p->req.url, "%s", url);
    p->req.on_head = probe_head;
    p->req.on_body = probe_body;
    p->req.on_done = probe_done;
    buf_init(&p->body, 8 * 1024 * 1024);
}

void probe_fini(struct probe *p)
{
    buf_fini(&p->body);
}

bool wait_for(struct http_rig *g, const int *counter, int n)
{
    int64_t end = clock_mono(&g->clock.clock) + 60000;

    while (*counter < n && clock_mono(&g->clock.clock) < end)
        if (loop_turn(g->loop, 1000, NULL) < 0)
            return false;
    return *counter >= n;
}

void turn_for(struct http_rig *g, int64_t ms)
{
    int64_t end = clock_mono(&g->clock.clock) + ms;

    while (clock_mono(&g->clock.clock) < end)
        if (loop_turn(g->loop, 20, NULL) < 0)
            return;
}
