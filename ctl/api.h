// SPDX-License-Identifier: Apache-2.0
// api — the API server as a command-line tool sees it: one request at a time, each call waits for its answer.
//
// A blocking wrapper around the agent's own client (wire/kube.h): same TLS, same credentials, same error classes. Every function
// blocks until the answer is there; a server that asks to come back later is asked again, for 30 s. Not for the agent, which never waits.
#ifndef CTL_API_H
#define CTL_API_H

#include "base/fsio.h"
#include "ctl/manifests.h"
#include "data/json.h"
#include "wire/cred.h"
#include "wire/kube.h"

struct api {
    struct clock clock;
    struct loop *loop;
    struct disk *disk;
    struct transport *transport;
    struct kube kube;
    struct cred cred;
    int64_t server_s; // Date of the last answer, seconds since 1970; 0 = none yet
};

// `kubeconfig` NULL: the files of $KUBECONFIG (the first that exists), else ~/.kube/config. `context` NULL: its current-context.
// Connects to nothing yet. E_INVAL, E_NOTFOUND: the configuration; the message says which file.
int api_open(struct api *a, const char *kubeconfig, const char *context, struct err *e) MUST_USE;
void api_close(struct api *a); // safe after a failed api_open()

// One exchange. `answer` NULL: not wanted; else the caller frees what it gets. The err's class is that of wire/kube.h.
int api_get(struct api *a, const char *path, struct json **answer, struct err *e) MUST_USE;
int api_post(struct api *a, const char *path, const struct json *body, struct json **answer, struct err *e) MUST_USE;
int api_put(struct api *a, const char *path, const char *body, size_t len, struct err *e) MUST_USE;
int api_delete(struct api *a, const char *path, struct err *e) MUST_USE; // absent is E_NOTFOUND

// Lets `ms` milliseconds pass, for those who ask again until something has happened.
int api_pause(struct api *a, int64_t ms, struct err *e) MUST_USE;

// Calls `fn` for each item of a collection, page by page; fn != 0 stops and is returned.
int api_each(struct api *a, const char *path, int (*fn)(void *ctx, const struct json *item, struct err *e), void *ctx,
             struct err *e) MUST_USE;

enum applied { APPLIED_CREATED, APPLIED_CONFIGURED, APPLIED_UNCHANGED };
const char *applied_word(enum applied a); // "created", ...

// Server-side apply of one manifest, as field manager limpetctl, which takes the fields over from others. `text` is the manifest's, all
// placeholders filled in; ns and name likewise. dry_run: the server checks and tells, and stores nothing.
int api_apply(struct api *a, const struct manifest *m, const char *ns, const char *name, const char *text, bool dry_run, enum applied *how,
              struct err *e) MUST_USE;

// "/api/v1/namespaces/x", "/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME". ns "" for what is in none; name NULL: the collection.
// E_UNSUP: a kind that no manifest has.
int api_path(char out[HTTP_URL_MAX], const char *api_version, const char *kind, const char *ns, const char *name, struct err *e) MUST_USE;
// "edgenode.edge.limpet.dev/NAME", the way kubectl names things.
void api_label(char *out, size_t size, const char *api_version, const char *kind, const char *name);

#endif
