// SPDX-License-Identifier: Apache-2.0
//
// What the agent knows of itself and the EdgeNode should say. Called when it may have changed; an unchanged fact costs nothing.
#include <stdio.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/agent.h"
#include "kinds/edgenode.h"

static struct agent_credential credential_of(struct agent *a)
{
    struct agent_credential c = { 0 };
    if (a->credential != NULL)
        a->credential(a->ctx, &c);
    return c;
}

bool agent_expired(struct agent *a, int64_t *since_s)
{
    *since_s = credential_of(a).expires_s;
    return *since_s != 0 && !a->is_online && clock_trusted(a->seams.clock) && clock_wall_us(a->seams.clock) / 1000000 >= *since_s;
}

const char *agent_rejoin(struct agent *a, char out[AGENT_REMEDY_MAX])
{
    struct agent_credential c = credential_of(a);
    if (c.joined)
        snprintf(out, AGENT_REMEDY_MAX,
                 "join again: where limpetctl has access, `limpetctl node add %s --replace --server %s` prints the command", a->node,
                 c.server);
    else
        snprintf(out, AGENT_REMEDY_MAX, "put a new credential in the place of the old one; it is read by itself");
    return out;
}

static void log_expiry(struct agent *a, bool expired, int64_t since_s)
{
    char at[RFC3339_MAX], remedy[AGENT_REMEDY_MAX];
    if (expired && !a->expiry_told)
        log_warn("agent", "credential-expired since=%s remedy=\"everything goes on; %s\"", rfc3339_sec(since_s * 1000000, at),
                 agent_rejoin(a, remedy));
    a->expiry_told = expired;
}

static void identity_fact(struct agent *a)
{
    struct sync_stats s;
    int64_t since_s;
    char at[RFC3339_MAX], remedy[AGENT_REMEDY_MAX];
    bool expired = agent_expired(a, &since_s);
    sync_stats(a->sync, &s);
    log_expiry(a, expired, since_s);
    if (expired)
        node_facts_set(&a->env, "IdentityLost", COND_TRUE, "Expired", "the credential of this node expired at %s; everything is kept; %s",
                       rfc3339_sec(since_s * 1000000, at), agent_rejoin(a, remedy));
    else if (s.link == LINK_IDENTITY_LOST)
        node_facts_set(&a->env, "IdentityLost", COND_TRUE, "NotOurs", "%s; everything is kept; %s, or run limpet leave", sync_why(a->sync),
                       agent_rejoin(a, remedy));
    else
        node_facts_set(&a->env, "IdentityLost", COND_FALSE, "Known", "the server knows this node");
}

static void certificate_fact(struct agent *a)
{
    struct agent_credential c = credential_of(a);
    if (c.user == NULL)
        return;
    if (c.reason[0] != '\0')
        node_facts_set(&a->env, "CertificateIssued", c.certified ? COND_TRUE : COND_FALSE, c.reason, "%s; %s", c.message,
                       c.certified ? "the certificate in use is still good" : "the node goes on with its token");
    else if (c.certified)
        node_facts_set(&a->env, "CertificateIssued", COND_TRUE, "Issued", "the node shows a certificate for %s", c.user);
    else
        node_facts_set(&a->env, "CertificateIssued", COND_FALSE, "Refused", "the certificate was refused; the node goes on with its token");
}

static void duplicate_fact(struct agent *a)
{
    if (a->other_holder[0] != '\0')
        node_facts_set(&a->env, "DuplicateNode", COND_TRUE, "LeaseHeld", "agent %s holds the lease of this node; this one stands by",
                       a->other_holder);
    else
        node_facts_set(&a->env, "DuplicateNode", COND_FALSE, "Alone", "no other agent has this node's name");
}

static void store_fact(struct agent *a)
{
    if (a->store_away)
        node_facts_set(&a->env, "StoreVolatile", COND_TRUE, "ReadOnly",
                       "%s cannot be written: the store is a copy in memory, and what it learns is lost at the next boot",
                       a->config->state_dir);
    else
        node_facts_set(&a->env, "StoreVolatile", COND_FALSE, "Durable", "the store lies in %s", a->config->state_dir);
}

// Nothing is said of a directory that never had a file.
static void manifests_fact(struct agent *a)
{
    static const char type[] = "ManifestsAccepted";
    struct manifests_stats s;
    manifests_stats(a->manifests, &s);
    if (s.bad > 0)
        node_facts_set(&a->env, type, COND_FALSE, "InvalidManifest", "%zu of %zu files are left alone; %s", s.bad, s.files, s.problem);
    else if (s.problem[0] != '\0' && s.unknown == 0)
        node_facts_set(&a->env, type, COND_FALSE, "DirectoryInDoubt", "%s", s.problem);
    else if (s.unknown > 0)
        node_facts_set(&a->env, type, COND_FALSE, "UnknownField", "%zu of %zu files count without fields that are unknown; %s", s.unknown,
                       s.files, s.problem);
    else if (s.files > 0 || a->manifests_told)
        node_facts_set(&a->env, type, COND_TRUE, "AllAccepted", "%zu objects in %zu files", s.objects, s.files);
    else
        return;
    a->manifests_told = true;
}

void agent_refresh_facts(struct agent *a)
{
    char key[KEY_MAX];
    bool trusted = clock_trusted(a->seams.clock);
    store_fact(a);
    if (a->manifests != NULL)
        manifests_fact(a);
    if (a->sync != NULL)
        identity_fact(a);
    certificate_fact(a);
    if (a->lease != NULL)
        duplicate_fact(a);
    if (trusted != a->clock_was_told && key_make(key, kind_edgenode.type.plural, a->ns, a->node, NULL) == 0)
        engine_touch(a->engine, key, "clock");
    a->clock_was_told = trusted;
}
