// SPDX-License-Identifier: Apache-2.0
// The transport while the server is away, in each way that it can be: after thousands of failed attempts the process holds no more memory and
// no more descriptors than before. (A million attempts of the whole agent, without sockets: test/sim/outage_test.c.)
//
// timeout: 600
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "http_rig.h"
#include "tap.h"

enum { WARM_UP = 500, GROWTH_MAX = 256 * 1024, AT_ONCE = 4 };

static struct http_rig g;

#ifdef __SANITIZE_ADDRESS__
extern size_t __sanitizer_get_current_allocated_bytes(void);
enum { PART = 10 }; // sanitizers are slow: a tenth
static int64_t memory(void)
{
    return (int64_t)__sanitizer_get_current_allocated_bytes();
}
#else
enum { PART = 1 };
static int64_t memory(void)
{
    long long size, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    int n = f != NULL ? fscanf(f, "%lld %lld", &size, &resident) : 0;
    if (f != NULL)
        fclose(f);
    return n == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
}
#endif

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

struct tries {
    int left, failed, done;
};

static void again(struct probe *p)
{
    struct tries *t = (struct tries *)(void *)p->other;
    t->failed += p->err.cls != 0;
    t->left--;
    if (t->left < AT_ONCE || http_submit(p->transport, &p->req, NULL) < 0)
        t->done++;
}

// `n` attempts, a few at once; returns how many failed.
static int attempts(struct transport *t, int n)
{
    struct probe p[AT_ONCE];
    struct tries tries = { .left = n };
    for (int i = 0; i < AT_ONCE; i++) {
        probe_init(&p[i], "GET", "/apis/edge.limpet.dev/v1alpha1/namespaces/edge-x/edgeapps?watch=1");
        p[i].transport = t;
        p[i].then = again;
        p[i].other = (struct probe *)(void *)&tries;
        if (http_submit(t, &p[i].req, NULL) < 0)
            tries.done++;
    }
    while (tries.done < AT_ONCE && loop_turn(g.loop, 1000, NULL) == 0)
        continue;
    for (int i = 0; i < AT_ONCE; i++)
        probe_fini(&p[i]);
    return tries.failed;
}

static void stays_flat(const char *what, const char *server, const char *ca, int n)
{
    char url[64];
    struct transport *t;
    struct err e = ERR_INIT;
    snprintf(url, sizeof(url), "https://127.0.0.1:%d", http_rig_port(&g, server));
    if (!ok(http_new(&t, g.loop, &(struct http_conf){ .base_url = url, .ca_pem = ca }, &e) == 0, "field 8: %s", what))
        return;
    n /= PART;
    attempts(t, WARM_UP);
    int64_t before = memory();
    int open = descriptors();
    is_int(attempts(t, n), n, "field 8: %s: %d attempts, all in vain", what, n);
    int64_t grown = memory() - before;
    ok(before > 0 && grown < GROWTH_MAX, "field 8: %s: they cost %lld bytes of memory", what, (long long)grown);
    ok(descriptors() <= open, "field 8: %s: and no descriptor", what);
    transport_free(t);
}

int main(void)
{
    if (!http_rig_start(&g)) {
        fail("the test servers start");
        return done_testing();
    }
    stays_flat("nobody listens", "closed", g.ca, 20000);
    stays_flat("every connection is reset", "reset", g.ca, 5000);
    stays_flat("a stranger answers", "https", g.other_ca, 1500);
    http_rig_stop(&g);
    return done_testing();
}
