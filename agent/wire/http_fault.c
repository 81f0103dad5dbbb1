// SPDX-License-Identifier: Apache-2.0
#include "wire/http_fault.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"

static const struct {
    int code;
    int cls;
    const char *what;
} table[] = {
    { CURLE_COULDNT_RESOLVE_HOST, E_OFFLINE, "the name cannot be resolved (is there a network, and does its name server answer?)" },
    { CURLE_SEND_ERROR, E_OFFLINE, "the connection broke while sending" },
    { CURLE_RECV_ERROR, E_OFFLINE, "the connection broke while receiving" },
    { CURLE_GOT_NOTHING, E_OFFLINE, "the connection was closed without an answer" },
    { CURLE_AGAIN, E_OFFLINE, "the connection is stuck" },
    { CURLE_SSL_CONNECT_ERROR, E_OFFLINE, "no TLS handshake (is this the API server's port?)" },
    { CURLE_SSL_CERTPROBLEM, E_AUTH, "the client certificate cannot be used" },
    { CURLE_SSL_ISSUER_ERROR, E_AUTH, "the server's certificate is not accepted" },
    { CURLE_PEER_FAILED_VERIFICATION, E_AUTH, "the server's certificate is not accepted" },
    { CURLE_WEIRD_SERVER_REPLY, E_CORRUPT, "the answer is not HTTP" },
    { CURLE_UNSUPPORTED_PROTOCOL, E_CORRUPT, "the answer is not HTTP" },
    { CURLE_BAD_CONTENT_ENCODING, E_CORRUPT, "the answer's encoding is broken" },
    { CURLE_TOO_LARGE, E_CORRUPT, "the answer's headers are too large" },
    { CURLE_WRITE_ERROR, E_CANCELED, "stopped by the receiver" },
    { CURLE_ABORTED_BY_CALLBACK, E_NOMEM, "no memory to watch its connection" },
    { CURLE_OUT_OF_MEMORY, E_NOMEM, "no memory for the exchange" },
};

static int explain_connect(const struct http_fault *f, struct err *e)
{
    if (f->sys == ECONNREFUSED)
        return err_set(e, E_OFFLINE, "%s: connection refused (nothing listens there, or a firewall rejects it)", f->where);
    if (f->sys != 0)
        return err_set(e, E_OFFLINE, "%s: cannot connect: %s", f->where, strerror(f->sys));
    return err_set(e, E_OFFLINE, "%s: cannot connect: %s", f->where, f->detail);
}

static int explain_no_connection(const struct http_fault *f, struct err *e)
{
    const char *why = f->connected  ? "it accepts, and then says nothing; is this the API server's port?"
                      : f->resolved ? "host down, or packets are dropped on the way"
                                    : "its name was not resolved; does the name server answer?";

    return err_set(e, E_OFFLINE, "%s: no connection within %lld ms (%s)", f->where, (long long)f->connect_timeout_ms, why);
}

// Cut off: before an answer began that is a lost connection, afterwards a truncated body.
static int explain_cut(const struct http_fault *f, struct err *e)
{
    if (f->head_seen)
        return err_set(e, E_CORRUPT, "%s: the answer ends before it is complete (%s)", f->where, f->detail);
    return err_set(e, E_OFFLINE, "%s: the connection was lost before an answer (%s)", f->where, f->detail);
}

// mbedTLS calls the end of a connection an error number 0.
static const char *detail_of(const struct http_fault *f)
{
    if (f->chain[0] != '\0')
        return f->chain;
    return strstr(f->detail, "(-0x0000)") != NULL ? "closed by the other side" : f->detail;
}

enum http_proxy http_fault_proxy(const struct http_fault *f)
{
    if (!f->proxied)
        return HTTP_PROXY_NONE;
    if (f->proxy_status == 407)
        return HTTP_PROXY_ASKS;
    if (f->proxy_status != 0)
        return f->proxy_status / 100 == 2 ? HTTP_PROXY_GOOD : HTTP_PROXY_REFUSES;
    switch (f->code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
        return HTTP_PROXY_UNKNOWN;
    case CURLE_COULDNT_CONNECT:
        return HTTP_PROXY_AWAY;
    case CURLE_OPERATION_TIMEDOUT:
        return f->connected ? HTTP_PROXY_MUTE : (f->resolved ? HTTP_PROXY_AWAY : HTTP_PROXY_UNKNOWN);
    case CURLE_SSL_CONNECT_ERROR:
        return HTTP_PROXY_NO_TLS;
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
        return HTTP_PROXY_STRANGER;
    default:
        return HTTP_PROXY_MUTE; // no answer to CONNECT, whatever broke
    }
}

enum http_step http_fault_step(const struct http_fault *f)
{
    enum http_proxy p = http_fault_proxy(f);
    if (p != HTTP_PROXY_NONE && p != HTTP_PROXY_GOOD)
        return p == HTTP_PROXY_UNKNOWN ? HTTP_RESOLVE : HTTP_CONNECT;
    switch (f->code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return HTTP_RESOLVE;
    case CURLE_COULDNT_CONNECT:
        return HTTP_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return f->connected ? HTTP_HANDSHAKE : (f->resolved ? HTTP_CONNECT : HTTP_RESOLVE);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
        return HTTP_HANDSHAKE;
    default:
        return HTTP_EXCHANGE;
    }
}

static int explain_proxy(const struct http_fault *f, struct err *e)
{
    switch (http_fault_proxy(f)) {
    case HTTP_PROXY_UNKNOWN:
        return err_set(e, E_OFFLINE, "proxy %s: its name cannot be resolved", f->proxy);
    case HTTP_PROXY_AWAY:
        return err_set(e, E_OFFLINE, "proxy %s: %s", f->proxy,
                       f->sys != 0 ? strerror(f->sys) : "no connection (host down, or packets are dropped)");
    case HTTP_PROXY_NO_TLS:
        return err_set(e, E_OFFLINE, "proxy %s: no TLS handshake (is it one for http://?): %s", f->proxy, detail_of(f));
    case HTTP_PROXY_STRANGER:
        return err_set(e, E_OFFLINE, "proxy %s does not prove who it is: %s ([server] proxyCA names who issues its certificate)", f->proxy,
                       detail_of(f));
    case HTTP_PROXY_ASKS:
        return err_set(e, E_OFFLINE, "proxy %s does not let us through: it wants another user and password, or any", f->proxy);
    case HTTP_PROXY_REFUSES:
        return err_set(e, E_OFFLINE, "proxy %s does not let us through to %s: it answers %d", f->proxy, f->where, f->proxy_status);
    default:
        return err_set(e, E_OFFLINE, "proxy %s does not answer (%s)", f->proxy, f->detail);
    }
}

int http_fault_explain(const struct http_fault *f, struct err *e)
{
    if (f->proxied && http_fault_proxy(f) != HTTP_PROXY_GOOD)
        return explain_proxy(f, e);
    switch (f->code) {
    case CURLE_COULDNT_CONNECT:
        return explain_connect(f, e);
    case CURLE_OPERATION_TIMEDOUT: // the only limit curl keeps for us
        return explain_no_connection(f, e);
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return explain_cut(f, e);
    default:
        break;
    }
    const char *detail = detail_of(f);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].code == f->code)
            return err_set(e, table[i].cls, "%s: %s%s%s", f->where, table[i].what, *detail != '\0' ? ": " : "", detail);
    return err_set(e, E_OFFLINE, "%s: %s (%d)", f->where, *detail != '\0' ? detail : curl_easy_strerror((CURLcode)f->code), f->code);
}
