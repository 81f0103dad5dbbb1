// SPDX-License-Identifier: Apache-2.0
#include "kinds/node_names.h"

#include <string.h>

#include "data/key.h"
#include "kinds/registry.h"

static const char *const of_inventory[] = { "node.hostname", "node.architecture", "node.os", "node.kernel", "node.address", NULL };
static const char *const of_agent[] = { "node.name", "node.namespace", NULL };
static const char labels[] = "node.labels.", annotations[] = "node.annotations.";

static bool is_among(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

// The key behind a prefix; NULL = it is not of this kind.
static const char *key_after(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && name[n] != '\0' ? name + n : NULL;
}

static const char *possible(const void *ctx, const char *name)
{
    (void)ctx;
    bool is_known =
        is_among(name, of_inventory) || is_among(name, of_agent) || key_after(name, labels) != NULL || key_after(name, annotations) != NULL;
    return is_known ? "" : NULL;
}

const struct template_names node_names_possible = { possible, NULL };

static const char *known(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static const char *from_inventory(const struct inventory *i, const char *name)
{
    const char *const values[] = { i->hostname, i->arch, i->os_image, i->kernel, i->n_addresses > 0 ? i->addresses[0] : "" };
    for (size_t k = 0; of_inventory[k] != NULL; k++)
        if (strcmp(of_inventory[k], name) == 0)
            return known(values[k]);
    return NULL;
}

static const char *lookup(const void *ctx, const char *name)
{
    const struct node_names *n = ctx;
    const char *label = key_after(name, labels), *annotation = key_after(name, annotations);
    if (label != NULL)
        return json_str(json_get(json_path(n->node, "metadata.labels"), label));
    if (annotation != NULL)
        return json_str(json_get(json_path(n->node, "metadata.annotations"), annotation));
    if (strcmp(name, "node.name") == 0)
        return known(n->env->node);
    if (strcmp(name, "node.namespace") == 0)
        return known(n->env->ns);
    return from_inventory(&n->inventory, name);
}

struct template_names node_names_of(const struct node_names *n)
{
    return (struct template_names){ lookup, n };
}

int node_names_init(struct node_names *n, const struct kind_env *env, struct err *e)
{
    char key[KEY_MAX];
    struct err why = ERR_INIT;
    struct cached row = CACHED_INIT;
    *n = (struct node_names){ .env = env };
    inventory_read(&n->inventory, env->disk);
    int rc = key_make(key, kind_edgenode.type.plural, env->ns, env->node, &why);
    if (rc == 0)
        rc = cache_get(env->cache, key, &row, &why);
    if (rc == 0)
        rc = json_parse(&n->node, buf_str(&row.json), row.json.len, &why);
    cached_fini(&row);
    if (rc == 0 || rc == E_NOTFOUND || rc == E_INVAL) // not heard of it yet, or not enrolled
        return 0;
    *e = why;
    return rc;
}

void node_names_fini(struct node_names *n)
{
    json_free(n->node);
    n->node = NULL;
}
