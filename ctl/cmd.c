// SPDX-License-Identifier: Apache-2.0
#include "ctl/cmd.h"

#include <stdio.h>

#include "version.h"

static const char *remedy_of(int cls)
{
    switch (cls) {
    case E_OFFLINE:
    case E_TIMEOUT:
        return "is the server of the kubeconfig right and reachable from here? --kubeconfig and --context choose another";
    case E_AUTH:
        return "the credentials of the kubeconfig are not accepted; --kubeconfig and --context choose others";
    case E_FORBIDDEN:
        return "this needs an administrator: it makes namespaces, roles and custom resource definitions";
    case E_BUSY:
        return "the server asks for patience; run the same command again later";
    default:
        return NULL;
    }
}

int cmd_fail(const struct err *e, const char *remedy)
{
    if (remedy == NULL)
        remedy = remedy_of(e->cls);
    fprintf(stderr, "limpetctl: %s\n", e->msg);
    if (remedy != NULL)
        fprintf(stderr, "  %s\n", remedy);
    return EXIT_FAILED;
}

int cmd_open(struct api *a, const struct options *o)
{
    struct err e = ERR_INIT;
    if (api_open(a, o->kubeconfig, o->context, &e) == 0)
        return EXIT_DONE;
    api_close(a);
    return cmd_fail(&e, "name a kubeconfig by --kubeconfig FILE or in $KUBECONFIG");
}

int cmd_version(const struct options *o UNUSED)
{
    printf("limpetctl %s (%s)\n", LIMPET_VERSION, LIMPET_COMMIT);
    return EXIT_DONE;
}
