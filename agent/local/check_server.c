// SPDX-License-Identifier: Apache-2.0
// The credential, and the way to the server step by step. All steps are told from one exchange without a token, in which the dates of the
// server's certificate are not judged: so that a clock that is wrong and a certificate that has expired are told apart.
#include <inttypes.h>
#include <string.h>

#include "local/check.h"
#include "wire/http_tls.h"

enum { PROBE_MS = 15000, SKEW_WARN_S = 60, SKEW_FAIL_S = 3600, DAY_S = 86400, SOON_S = 7 * DAY_S };

// --- one exchange ----------------------------------------------------------------------------------------------------------------

static void ask_for_version(struct check *k)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    struct kube kube = { .transport = k->stranger };
    kube_call_init(&call, &kube);
    call.http.total_timeout_ms = check_limit(k, PROBE_MS);
    int rc = kube_raw(&call, "GET", "/version", NULL, NULL, 0, &k->probe_err);
    if (rc == 0)
        rc = kube_wait(k->loop, &call, &k->probe_err);
    k->wall_sec = k->cli->clock.ops->wall_us(&k->cli->clock) / 1000000;
    http_look(k->stranger, &k->look);
    k->head = call.http.head;
    if (rc < 0 && k->head.status != 0 && k->look.step == HTTP_ANSWERED)
        k->probe_err = ERR_INIT; // 401 and 403 are answers
}

// What went wrong, without the request that it happened to.
static const char *error_of(const struct check *k)
{
    static const char request[] = "GET /version: ";
    bool begins = strncmp(k->probe_err.msg, request, sizeof(request) - 1) == 0;
    return k->probe_err.msg + (begins ? sizeof(request) - 1 : 0);
}

static void probe(struct check *k)
{
    if (!k->probed)
        ask_for_version(k);
    k->probed = true;
}

// Everything that is judged by time asks the server's clock first, where it can be had.
int64_t check_now(const struct check *k)
{
    bool told = k->probed && k->head.verified && k->head.date_sec > 0;
    return told ? k->head.date_sec : clock_wall_us(&k->cli->clock) / 1000000;
}

// --- the credential --------------------------------------------------------------------------------------------------------------

static const char *const sources[] = {
    [CREDENTIAL_NONE] = "none",       [CREDENTIAL_KEYS] = "[server] url and files",          [CREDENTIAL_KUBECONFIG] = "kubeconfig",
    [CREDENTIAL_IDENTITY] = "joined", [CREDENTIAL_IN_CLUSTER] = "the pod's service account",
};

static void say_unreadable(struct check *k, struct check_result *r, const struct err *e)
{
    if (e->cls == E_FORBIDDEN && geteuid() != 0) {
        check_say(r, CHECK_SKIP, "%s", e->msg);
        check_remedy(r, "run limpet check as root: only root may read the credential");
        return;
    }
    check_say(r, CHECK_FAIL, "%s", e->msg);
    check_cause(r, "the credential (%s) cannot be used", sources[k->from]);
    if (k->from == CREDENTIAL_IDENTITY)
        check_remedy(r, "join again: `limpetctl node add NAME --replace` prints the command");
    else
        check_remedy(r, "put right what [server] in limpet.ini names");
}

// Whoever may not enter the state directory cannot tell a node that has not joined from one that has.
static bool is_hidden(struct check *k)
{
    struct err e = ERR_INIT;
    struct fs_stat st;
    char path[512];
    snprintf(path, sizeof(path), "%s/identity.json", k->config->state_dir);
    return k->disk->ops->stat(k->disk, path, 0, &st, &e) == E_FORBIDDEN;
}

static int open_ways(struct check *k, struct err *e)
{
    int rc = cred_transport(&k->stranger, k->loop, &k->cred, true, e);
    if (rc == 0)
        rc = cred_transport(&k->transport, k->loop, &k->cred, false, e);
    k->kube = (struct kube){ .transport = k->transport }; // without a clock: what the server says is looked at here
    if (rc == 0)
        http_look(k->stranger, &k->look);
    return rc;
}

void check_credential(struct check *k, struct check_result *r)
{
    struct err e = ERR_INIT;
    int rc = credentials_load(&k->cred, &k->from, k->config, k->disk, k->cli->disk, k->node, &e);
    credentials_names(k->config, &k->cred, k->node, k->ns);
    if (rc == 0 && k->from == CREDENTIAL_NONE && is_hidden(k))
        rc = err_set(&e, E_FORBIDDEN, "%s: permission denied", k->config->state_dir);
    if (rc == 0 && k->from != CREDENTIAL_NONE)
        rc = open_ways(k, &e);
    if (rc < 0) {
        say_unreadable(k, r, &e);
    } else if (k->from == CREDENTIAL_NONE) {
        check_say(r, CHECK_FAIL, "there is none: this node has not joined");
        check_cause(r, "`limpet join` was not run yet, or `limpet leave` was; no [server] is configured either");
        check_remedy(r, "where limpetctl has access: `limpetctl node add NAME --server URL`; run what it prints on this machine");
    } else if (k->ns[0] == '\0') {
        check_say(r, CHECK_FAIL, "no namespace is named by it");
        check_remedy(r, "set [node] namespace, or use `limpet join`");
    } else {
        check_say(r, CHECK_OK, "%s: node %s, namespace %s, server %s", sources[k->from], k->node, k->ns, k->look.where);
    }
}

enum check_status check_judge_expiry(int64_t now, int64_t began, int64_t expires)
{
    if (expires <= now)
        return CHECK_FAIL;
    // What is renewed at 70-90 % of its life is overdue at 95 %, however long or short that is.
    int64_t margin = began > 0 && expires > began ? MIN((expires - began) / 20, (int64_t)SOON_S) : SOON_S;
    return expires - now < margin ? CHECK_WARN : CHECK_OK;
}

void check_expiry(struct check *k, struct check_result *r)
{
    int64_t began, expires;
    const char *what = k->cred.token != NULL ? "token" : "client certificate";
    char at[RFC3339_MAX], when[48];
    probe(k);
    if (!cred_lifetime(&k->cred, &began, &expires)) {
        check_say(r, CHECK_OK, "the %s names no expiry", what);
        return;
    }
    int64_t now = check_now(k);
    check_say(r, check_judge_expiry(now, began, expires), "the %s %s %s (%s)", what, expires <= now ? "expired" : "expires",
              check_when(expires - now, when), rfc3339_sec(expires * 1000000, at));
    if (r->status == CHECK_OK)
        return;
    r->holds = false;
    check_cause(r, k->from == CREDENTIAL_IDENTITY ? "it is renewed at 70-90 %% of its life by an agent that is online: none was"
                                                  : "who gave it has not renewed it");
    if (k->from == CREDENTIAL_IDENTITY && r->status == CHECK_FAIL)
        check_remedy(r, "join again: `limpetctl node add %s --replace --server %s` prints the command. What runs here goes on meanwhile",
                     k->node, k->cred.server);
    else
        check_remedy(r, k->from == CREDENTIAL_IDENTITY ? "let the agent reach the server before then" : "put a new one in its place");
}

// --- step by step --------------------------------------------------------------------------------------------------------------

static const char *host_of(const struct check *k, char out[256])
{
    const char *colon = strrchr(k->look.where, ':');
    snprintf(out, 256, "%.*s", colon != NULL ? (int)(colon - k->look.where) : 255, k->look.where);
    return out;
}

static void say_strange_proxy(struct check *k, struct check_result *r)
{
    if (k->look.untrusted) {
        check_cause(r,
                    "its certificate was issued by \"%s\", which is not trusted for a proxy: another machine answers, or a new authority",
                    k->look.issuer);
        check_remedy(r, "ask who runs the proxy who issues its certificate, and name that PEM file in [server] proxyCA");
    } else if (k->look.other_name) {
        check_cause(r, "its certificate is for other names (%s)", k->look.names);
        check_remedy(r, "name the proxy in [server] proxy as its certificate does");
    } else {
        check_cause(r, "its certificate is out of its time by the clock of this machine, or too weak");
        check_remedy(r, "look at this machine's clock; have the proxy's certificate renewed");
    }
}

// By itself, for it is another one who can put it right.
void check_proxy(struct check *k, struct check_result *r)
{
    const char *proxy = k->look.proxy_where;
    probe(k);
    check_say(r, CHECK_FAIL, "%s", error_of(k));
    switch (k->look.proxy) {
    case HTTP_PROXY_NONE:
        check_say(r, CHECK_OK, proxy[0] != '\0' ? "none for this server, by noProxy; else %s" : "none is used%s", proxy);
        break;
    case HTTP_PROXY_GOOD:
        check_say(r, CHECK_OK, "%s connects us to the server", proxy);
        break;
    case HTTP_PROXY_UNKNOWN:
        check_cause(r, "the proxy's name does not exist, or no name server can be reached");
        check_remedy(r, "correct [server] proxy, or HTTPS_PROXY of the agent's environment; look at /etc/resolv.conf");
        break;
    case HTTP_PROXY_NO_TLS:
        check_cause(r, "it does not speak TLS, or no version of it that is safe");
        check_remedy(r, "does this site say http://? Compare [server] proxy, or HTTPS_PROXY of the agent's environment");
        break;
    case HTTP_PROXY_STRANGER:
        say_strange_proxy(k, r);
        break;
    case HTTP_PROXY_ASKS:
        check_cause(r, k->cred.proxy_auth != NULL ? "the proxy does not accept the user and password it was given"
                                                  : "the proxy wants a user and a password");
        check_remedy(r, "write user:password into a file of mode 600 and name that in [server] proxyAuth");
        break;
    case HTTP_PROXY_REFUSES:
        check_cause(r, "the proxy does not allow, or does not reach, %s", k->look.where);
        check_remedy(r, "have it allow CONNECT to %s; or name the server in [server] noProxy, if it is reached without", k->look.where);
        break;
    default:
        check_cause(r, k->look.proxy == HTTP_PROXY_AWAY
                           ? "the proxy is down, or there is no way to it"
                           : "it takes the connection and says nothing: overload, or it is no HTTP proxy, or one for https://");
        check_remedy(r, "is the proxy up? Compare [server] proxy, or HTTPS_PROXY of the agent's environment, with what this site says");
    }
}

void check_name(struct check *k, struct check_result *r)
{
    char host[256];
    probe(k);
    host_of(k, host);
    if (k->look.step == HTTP_RESOLVE) {
        check_say(r, CHECK_FAIL, "%s", error_of(k));
        check_cause(r, "%s does not exist, or no name server can be reached: is the network up?", host);
        check_remedy(r, "look at /etc/resolv.conf and `ip route`; or put the address into /etc/hosts");
    } else if (k->look.address[0] == '\0' && k->probe_err.cls != 0) {
        check_say(r, CHECK_FAIL, "%s", error_of(k));
    } else if (strcmp(host, k->look.address) == 0) {
        check_say(r, CHECK_OK, "%s is an address, there is no name", host);
    } else {
        check_say(r, CHECK_OK, "%s%s is %s", host, k->look.proxied ? " by a proxy, which" : "", k->look.address);
    }
}

void check_tcp(struct check *k, struct check_result *r)
{
    if (k->look.step != HTTP_CONNECT) {
        check_say(r, CHECK_OK, "%s accepts connections%s", k->look.where, k->look.proxied ? ", through the proxy" : "");
        return;
    }
    check_say(r, CHECK_FAIL, "%s", error_of(k));
    check_cause(r, strstr(error_of(k), "refused") != NULL ? "the server is down, or the port is another one"
                                                          : "the host is down, there is no route, or a firewall drops the packets");
    check_remedy(r, "is the API server up? From here: `ip route get %s`; look at firewalls on the way", k->look.address);
}

static void say_stranger(struct check *k, struct check_result *r)
{
    if (k->look.untrusted) {
        check_cause(
            r,
            "its certificate was issued by \"%s\", which is not the authority (CA) that this node trusts: another server, a CA that "
            "was replaced, or a proxy that looks into TLS",
            k->look.issuer);
        check_remedy(r,
                     "if the cluster's CA was replaced, join again: `limpetctl node add NAME --replace`; else find out who answers there");
    } else if (k->look.other_name) {
        char host[256];
        check_cause(r, "the certificate is for other names (%s) than %s", k->look.names,
                    k->cred.server_name != NULL ? k->cred.server_name : host_of(k, host));
        check_remedy(r,
                     "use a URL with one of these names, set [server] tlsServerName to one, or add the name to the server's certificate");
    } else {
        check_cause(r, "no TLS is spoken there, or its handshake broke off: is this the API server's port?");
        check_remedy(r, "compare [server] url, or the URL of the join command, with `kubectl cluster-info`");
    }
}

void check_tls(struct check *k, struct check_result *r)
{
    if (k->look.step == HTTP_HANDSHAKE) {
        check_say(r, CHECK_FAIL, "%s", error_of(k));
        say_stranger(k, r);
    } else if (!k->look.tls) {
        check_say(r, CHECK_OK, "none: http:// on the loopback interface");
    } else {
        check_say(r, CHECK_OK, "issued by \"%s\", which leads to this node's CA, for %s", k->look.issuer, k->look.names);
    }
}

void check_answer(struct check *k, struct check_result *r)
{
    if (k->probe_err.cls != 0) {
        check_say(r, CHECK_FAIL, "%s", error_of(k));
        check_cause(r, "it takes the connection and does not answer as an API server does: overload, or something else listens there");
        check_remedy(r, "look at the API server's log and load");
    } else if (k->config->server_metaserver && k->head.status < 500) {
        check_say(r, CHECK_OK, "something answers, as KubeEdge's MetaServer does");
    } else if (strcmp(k->head.content_type, "application/json") != 0) {
        check_say(r, CHECK_FAIL, "status %d with %s: this is not an API server", k->head.status,
                  k->head.content_type[0] != '\0' ? k->head.content_type : "no content type");
        check_cause(r, "a captive portal, a proxy's login page, or another web server");
        check_remedy(r, "log in to the network, or correct the server's URL");
    } else if (k->head.status == 429 || k->head.status >= 500) {
        check_say(r, CHECK_FAIL, "status %d", k->head.status);
        check_cause(r, "the API server is up and cannot work: starting, overloaded, or without its database");
        check_remedy(r, "wait; if it stays so, look at the API server's log");
    } else {
        check_say(r, CHECK_OK, "an API server answers");
    }
}

// --- time ------------------------------------------------------------------------------------------------------------------------

enum check_status check_judge_skew(int64_t skew)
{
    int64_t off = skew < 0 ? -skew : skew;
    return off >= SKEW_FAIL_S ? CHECK_FAIL : (off >= SKEW_WARN_S ? CHECK_WARN : CHECK_OK);
}

// Would the agent refuse the server's certificate only because it has another time?
static bool makes_invalid(const struct check *k)
{
    int64_t date = k->head.date_sec, ours = clock_wall_us(&k->cli->clock) / 1000000;
    bool good = date >= k->look.not_before && date <= k->look.not_after;
    return k->look.tls && good && (ours > k->look.not_after || (ours < k->look.not_before && clock_trusted(&k->cli->clock)));
}

void check_server_clock(struct check *k, struct check_result *r)
{
    char ours[RFC3339_MAX], theirs[RFC3339_MAX];
    int64_t skew = k->wall_sec - k->head.date_sec;
    if (k->head.date_sec == 0) {
        check_say(r, CHECK_OK, "the server names no time");
        return;
    }
    check_say(r, check_judge_skew(skew), "here it is %s, on the server %s: %" PRId64 " s %s", rfc3339_sec(k->wall_sec * 1000000, ours),
              rfc3339_sec(k->head.date_sec * 1000000, theirs), skew < 0 ? -skew : skew, skew < 0 ? "behind" : "ahead");
    r->holds = makes_invalid(k);
    k->clock_off = r->status == CHECK_FAIL;
    if (r->status == CHECK_OK)
        return;
    check_cause(r, "the clock of one of the two is wrong%s", r->holds ? "; by the time here the server's certificate is not valid" : "");
    check_remedy(r, "let chrony, systemd-timesyncd or ntpd set the clock; `timedatectl` shows it. Compare the server's, too");
}

// By the time there it is not valid, by the time here it is, and the two are far apart.
static bool is_clocks_fault(const struct check *k, int64_t now)
{
    bool there = now >= k->look.not_before && now < k->look.not_after;
    bool here = k->wall_sec >= k->look.not_before && k->wall_sec < k->look.not_after;
    return k->clock_off && here && !there;
}

void check_certificate(struct check *k, struct check_result *r)
{
    char at[RFC3339_MAX], when[48];
    int64_t now = check_now(k);
    if (!k->look.tls) {
        check_say(r, CHECK_OK, "none: http:// on the loopback interface");
        return;
    }
    if (is_clocks_fault(k, now)) {
        check_needs(r, "server-clock");
        return;
    }
    if (now < k->look.not_before) {
        check_say(r, CHECK_FAIL, "it is not valid before %s", rfc3339_sec(k->look.not_before * 1000000, at));
        check_cause(r, "it was made with a clock that was ahead");
        check_remedy(r, "renew the API server's certificate");
        return;
    }
    check_say(r, check_judge_expiry(now, 0, k->look.not_after), "it %s %s (%s)", now >= k->look.not_after ? "expired" : "expires",
              check_when(k->look.not_after - now, when), rfc3339_sec(k->look.not_after * 1000000, at));
    if (r->status == CHECK_OK)
        return;
    check_cause(r, "a certificate of the server's chain, or its CA, was not renewed: no node accepts it after that");
    check_remedy(r, "renew it on the server (kubeadm certs renew all; k3s: restart it)");
}
