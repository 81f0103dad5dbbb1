// SPDX-License-Identifier: Apache-2.0
// The configuration, and what the running agent says of itself.
#include <inttypes.h>
#include <string.h>

#include "local/check.h"

enum { AGENT_MS = 5000, OUTBOX_OLD_S = 3600 };

void check_config(struct check *k, struct check_result *r)
{
    const char *p = buf_str(&k->problems), *file = k->config->config_file;
    size_t first = strcspn(p, "\n");
    if (k->config_rc == 0) {
        check_say(r, CHECK_OK, "%s", file != NULL ? file : "no file, the defaults");
        return;
    }
    int more = -1;
    for (const char *c = p; *c != '\0'; c++)
        more += *c == '\n';
    if (more < 0)
        check_say(r, CHECK_FAIL, "it cannot be read: %s", err_word(k->config_rc));
    else if (more == 0)
        check_say(r, CHECK_FAIL, "%.*s", (int)MIN(first, (size_t)700), p);
    else
        check_say(r, CHECK_FAIL, "%.*s; and %d more", (int)MIN(first, (size_t)700), p, more);
    check_cause(r, "a mistake in the configuration: the agent does not start with it (exit code 78)");
    check_remedy(r, "correct it; `limpet check-config` names every problem with its line, limpet.ini(5) every key");
}

// --- the agent -------------------------------------------------------------------------------------------------------------------

static int keep(void *ctx, const struct json *line)
{
    struct check *k = ctx;
    json_free(k->agent);
    k->agent = json_copy(line);
    return 0;
}

static void no_agent(struct check *k, struct check_result *r)
{
    struct err e = ERR_INIT;
    r->holds = true; // for those that ask it
    if (control_lock_free(k->config, &e) == E_BUSY) {
        k->agent_hangs = true;
        check_say(r, CHECK_FAIL, "an agent holds the lock of %s, but its control socket is not there", k->config->run_dir);
        check_cause(r, "its run directory was emptied under it, or another process has the lock");
        check_remedy(r, "restart it: systemctl restart limpet. Workloads keep running");
        return;
    }
    check_say(r, CHECK_WARN, "no agent runs here");
    r->holds = true;
    check_cause(r, "it was not started, or it ended; workloads keep running, and nobody looks after them");
    check_remedy(r, "systemctl start limpet, or `limpet run`; why it ended: journalctl -u limpet");
}

void check_agent(struct check *k, struct check_result *r)
{
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("status");
    k->cli->patience_ms = AGENT_MS;
    int rc = cli_ask(k->cli, q, keep, k, &e);
    if (rc == 0 && k->agent != NULL) {
        check_say(r, CHECK_OK, "version %s answers on its control socket", json_path_str(k->agent, "version"));
    } else if (rc == E_OFFLINE) {
        no_agent(k, r);
    } else if (rc == E_FORBIDDEN) {
        check_say(r, CHECK_SKIP, "%s", e.msg);
        check_remedy(r, "run limpet check as root, or as a member of the group %s", k->config->control_group);
    } else {
        k->agent_hangs = true;
        check_say(r, CHECK_FAIL, "it does not answer: %s", e.msg);
        check_cause(r, "it hangs (a disk that does not answer?), or it is overrun by other clients");
        check_remedy(r, "journalctl -u limpet; systemctl restart limpet. Workloads keep running");
    }
}

static void say_offline(const struct json *a, struct check_result *r)
{
    char since[48];
    check_say(r, CHECK_WARN, "offline since %s: %s", check_when(-json_path_i64(a, "link.sinceSeconds"), since),
              json_path_str(a, "link.why"));
    check_cause(r, "the way to the server is broken; the checks of the server below say where. What runs here goes on from the cache");
}

static void say_lost(const struct json *a, struct check_result *r)
{
    check_say(r, CHECK_FAIL, "the server does not know this node any more: %s", json_path_str(a, "link.why"));
    check_cause(r, "its namespace or account was deleted, or the cluster is another one; everything that runs is kept");
    check_remedy(r, "`limpetctl node add NAME --replace` makes a new join command; or `limpet leave`, if the node is to go");
}

void check_link(struct check *k, struct check_result *r)
{
    const char *state = json_path_str(k->agent, "link.state");
    char since[48];
    if (strcmp(state, "Online") == 0)
        check_say(r, CHECK_OK, "online since %s, in contact with every source",
                  check_when(-json_path_i64(k->agent, "link.sinceSeconds"), since));
    else if (strcmp(state, "IdentityLost") == 0)
        say_lost(k->agent, r);
    else if (strcmp(state, "Standby") == 0)
        check_say(r, CHECK_WARN, "it stands by for another agent of this node: see lease");
    else if (strcmp(state, "NotEnrolled") == 0)
        check_say(r, CHECK_WARN, "it works from its cache alone, without a server%s%s: see credential",
                  json_path_str(k->agent, "link.why")[0] != '\0' ? ": " : "", json_path_str(k->agent, "link.why"));
    else
        say_offline(k->agent, r);
}

void check_outbox(struct check *k, struct check_result *r)
{
    const struct json *o = json_get(k->agent, "outbox");
    int64_t waiting = json_path_i64(o, "statusPending") + json_path_i64(o, "eventsPending"), lost = json_path_i64(o, "eventsLost"), us = 0;
    const char *oldest = json_path_str(o, "oldest");
    bool old = rfc3339_parse(oldest, &us) && clock_wall_us(&k->cli->clock) - us > OUTBOX_OLD_S * INT64_C(1000000);
    check_say(r, old || lost > 0 ? CHECK_WARN : CHECK_OK, "%" PRId64 " statuses and %" PRId64 " events wait%s%s, %" PRId64 " events lost",
              json_path_i64(o, "statusPending"), json_path_i64(o, "eventsPending"), waiting > 0 ? ", the oldest since " : "", oldest, lost);
    if (old)
        check_cause(r, "the server has not heard of this machine for a while; nothing of it is lost yet");
    if (lost > 0)
        check_cause(r, "more happened than [outbox] maxEvents or the store holds; the oldest events went, no status did");
    if (lost > 0)
        check_remedy(r, "raise [outbox] maxEvents if such outages are usual here");
}

void check_manifests(struct check *k, struct check_result *r)
{
    const struct json *m = json_get(k->agent, "manifests");
    const char *problem = json_path_str(m, "problem");
    if (m == NULL)
        check_say(r, CHECK_OK, "no directory is set");
    else if (problem[0] == '\0')
        check_say(r, CHECK_OK, "%" PRId64 " objects in %" PRId64 " files of %s", json_path_i64(m, "objects"), json_path_i64(m, "files"),
                  json_path_str(m, "dir"));
    else
        check_say(r, CHECK_WARN, "%s: %s", json_path_str(m, "dir"), problem);
    if (problem[0] == '\0')
        return;
    if (json_path_i64(m, "bad") > 0)
        check_cause(r, "a file with a mistake is left alone: what it said before stays in force, and it alone; %" PRId64 " files are so",
                    json_path_i64(m, "bad"));
    else if (json_path_i64(m, "unknownFields") > 0)
        check_cause(r, "a typo, or a field of a newer version; the rest of the file counts");
    else
        check_cause(r, "it is not mounted, was made anew, or cannot be read; nothing is removed for that");
    check_remedy(r, "limpet diff -f FILE tells of each mistake with its line");
}
