// SPDX-License-Identifier: Apache-2.0
#include "flow/contact.h"

#include "base/log.h"
#include "wire/kube.h"

enum { ASK_TIMEOUT_MS = 10000 };

static const struct kube_type namespaces = { "", "v1", "namespaces" };

struct kube_contact {
    struct contact base;
    struct kube *kube;
    const char *ns;
    struct kube_call call;
    int64_t asked_ms;
};

static void on_done(struct kube_call *call, struct err *e)
{
    struct kube_contact *k = container_of(call, struct kube_contact, call);
    if (e == NULL)
        k->base.proved_ms = k->asked_ms;
    else
        log_debug("contact", "no-answer class=%s error=\"%s\"", err_word(e->cls), e->msg);
}

static void ask(struct contact *c)
{
    struct kube_contact *k = container_of(c, struct kube_contact, base);
    struct err e = ERR_INIT;
    if (k->call.active)
        return;
    k->asked_ms = clock_boot(k->kube->clock);
    k->call.http.total_timeout_ms = ASK_TIMEOUT_MS;
    k->call.http.fresh_connection = true;
    if (kube_get(&k->call, &namespaces, NULL, k->ns, &e) < 0)
        log_debug("contact", "not-asked error=\"%s\"", e.msg);
}

int contact_new(struct contact **out, struct kube *kube, const char *ns, struct err *e)
{
    struct kube_contact *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return err_set(e, E_NOMEM, "contact");
    k->base.ask = ask;
    k->kube = kube;
    k->ns = ns;
    kube_call_init(&k->call, kube);
    k->call.on_done = on_done;
    *out = &k->base;
    return 0;
}

void contact_free(struct contact *c)
{
    if (c == NULL)
        return;
    struct kube_contact *k = container_of(c, struct kube_contact, base);
    kube_call_fini(&k->call);
    free(k);
}

void contact_link(struct contact *c, struct clock *clock, bool online)
{
    if (c->online || online)
        c->online_ms = clock_boot(clock);
    c->online = online;
}

bool contact_recent(const struct contact *c, struct clock *clock, int64_t window_ms)
{
    return c->online || (c->online_ms != 0 && clock_boot(clock) - c->online_ms < window_ms);
}
