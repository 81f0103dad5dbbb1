// SPDX-License-Identifier: Apache-2.0
//
// limpetctl node rm: says what will go, asks, and deletes the node's namespace with all that is in it.
#include <stdio.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/node_certificate.h"

enum {
    GONE_TIMEOUT_MS = 120000,
    GONE_POLL_MS = 500,
};

static int count_item(void *ctx, const struct json *item UNUSED, struct err *e UNUSED)
{
    (*(size_t *)ctx)++;
    return 0;
}

static int count(struct api *a, const char *kind, const char *ns, size_t *n, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct err why = ERR_INIT;

    *n = 0;
    int r = api_path(path, "edge.limpet.dev/v1alpha1", kind, ns, NULL, e);
    if (r != 0)
        return r;
    r = api_each(a, path, count_item, n, &why);
    if (r == 0 || r == E_UNSUP) // the kinds may have been removed before the nodes
        return 0;
    *e = why;
    return r;
}

static int announce(struct api *a, const char *node, const char *ns, struct err *e)
{
    size_t apps, configs, jobs;
    int r = count(a, "EdgeApp", ns, &apps, e);
    if (r == 0)
        r = count(a, "EdgeConfig", ns, &configs, e);
    if (r == 0)
        r = count(a, "EdgeJob", ns, &jobs, e);
    if (r != 0)
        return r;
    fprintf(
        stderr,
        "This deletes namespace %s of node %s with all that is in it, %zu EdgeApps, %zu EdgeConfigs and %zu EdgeJobs included, and ends\n"
        "the node's credential. The machine itself keeps what it runs until `limpet leave` is run there.\n",
        ns, node, apps, configs, jobs);
    return 0;
}

// Only the node's name itself is a yes: it cannot be typed for the wrong node.
static bool is_confirmed(const char *node)
{
    char line[NODE_NAME_MAX + 2];
    fprintf(stderr, "Type the name of the node to go on: ");
    if (fgets(line, sizeof(line), stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, node) == 0;
}

static int delete_one(struct api *a, const char *api_version, const char *kind, const char *ns, const char *name, struct err *e)
{
    char path[HTTP_URL_MAX], label[320];
    struct err why = ERR_INIT;

    int r = api_path(path, api_version, kind, ns, name, e);
    if (r != 0)
        return r;
    api_label(label, sizeof(label), api_version, kind, name);
    r = api_delete(a, path, &why);
    if (r != 0 && r != E_NOTFOUND) {
        *e = why;
        return err_wrap(e, "deleting %s", label);
    }
    if (r == 0)
        fprintf(stderr, "%s deleted\n", label);
    return 0;
}

static int wait_gone(struct api *a, const char *node, const char *ns, struct err *e)
{
    int64_t end = clock_mono(&a->clock) + GONE_TIMEOUT_MS;
    for (;;) {
        enum node_claim claim;
        char owner[NODE_NAME_MAX + 1];
        int r = node_claim(a, node, ns, &claim, owner, e);
        if (r != 0 || claim == NODE_ABSENT)
            return r;
        if (clock_mono(&a->clock) > end)
            return err_set(e, E_TIMEOUT, "namespace %s is still being deleted after %d s", ns, GONE_TIMEOUT_MS / 1000);
        r = api_pause(a, GONE_POLL_MS, e);
        if (r != 0)
            return r;
    }
}

static int check_claim(struct api *a, const struct options *o, const char *ns)
{
    enum node_claim claim;
    char owner[NODE_NAME_MAX + 1];
    struct err e = ERR_INIT;

    if (node_claim(a, o->node, ns, &claim, owner, &e) != 0)
        return cmd_fail(&e, NULL);
    if (claim == NODE_OURS || (claim == NODE_TERMINATING && strcmp(owner, o->node) == 0))
        return EXIT_DONE;
    if (claim == NODE_ABSENT)
        err_set(&e, E_NOTFOUND, "there is no node %s: no namespace %s", o->node, ns);
    else
        err_set(&e, E_CONFLICT, "namespace %s is not that of node %s, but %s%s", ns, o->node, owner[0] != '\0' ? "of node " : "of no node",
                owner);
    return cmd_fail(&e, "limpetctl node list shows the nodes");
}

static int rm(struct api *a, const struct options *o, const char *ns)
{
    char binding[NAMESPACE_MAX + 16];
    struct err e = ERR_INIT;

    int r = announce(a, o->node, ns, &e);
    if (r == 0 && !o->yes && !is_confirmed(o->node)) {
        fprintf(stderr, "\nNothing was deleted.\n");
        return EXIT_FAILED;
    }
    snprintf(binding, sizeof(binding), "limpet-%s", ns);
    if (r == 0)
        r = delete_one(a, "rbac.authorization.k8s.io/v1", "RoleBinding", "kube-system", binding, &e);
    if (r == 0)
        r = delete_one(a, "rbac.authorization.k8s.io/v1", "RoleBinding", "edge-system", binding, &e);
    if (r == 0)
        r = node_user_revoke(a, ns, &e);
    if (r == 0)
        r = delete_one(a, "v1", "Namespace", "", ns, &e);
    if (r == 0 && !o->no_wait)
        r = wait_gone(a, o->node, ns, &e);
    if (r == 0)
        return EXIT_DONE;
    return cmd_fail(&e, r == E_TIMEOUT ? "kubectl describe namespace says what holds it" : NULL);
}

int cmd_node_rm(const struct options *o)
{
    struct api a;
    struct err e = ERR_INIT;
    char ns[NAMESPACE_MAX + 1];

    if (node_name_check(o->node, &e) != 0) {
        cmd_fail(&e, "limpetctl node list shows the nodes");
        return EXIT_USAGE;
    }
    int status = cmd_open(&a, o);
    if (status != EXIT_DONE)
        return status;
    node_namespace(o->node, ns);
    status = check_claim(&a, o, ns);
    if (status == EXIT_DONE)
        status = rm(&a, o, ns);
    api_close(&a);
    return status;
}
