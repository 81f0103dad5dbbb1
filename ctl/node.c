// SPDX-License-Identifier: Apache-2.0
#include "ctl/node.h"

#include <stdio.h>
#include <string.h>

static enum node_claim judge(const struct json *object, const char *node, char owner[NODE_NAME_MAX + 1])
{
    // The key has dots, so it is no path.
    const char *is = json_str(json_get(json_path(object, "metadata.annotations"), NODE_ANNOTATION));
    snprintf(owner, NODE_NAME_MAX + 1, "%s", is != NULL ? is : "");
    if (json_path(object, "metadata.deletionTimestamp") != NULL)
        return NODE_TERMINATING;
    return strcmp(owner, node) == 0 ? NODE_OURS : NODE_OTHER;
}

int node_claim(struct api *a, const char *node, const char *ns, enum node_claim *out, char owner[NODE_NAME_MAX + 1], struct err *e)
{
    char path[HTTP_URL_MAX];
    struct json *object AUTO_JSON = NULL;
    struct err why = ERR_INIT;

    owner[0] = '\0';
    int r = api_path(path, "v1", "Namespace", "", ns, e);
    if (r != 0)
        return r;
    r = api_get(a, path, &object, &why);
    if (r == E_NOTFOUND) {
        *out = NODE_ABSENT;
        return 0;
    }
    if (r != 0) {
        *e = why;
        return r;
    }
    *out = judge(object, node, owner);
    return 0;
}

// What stands at a mark, NULL = there is none; *len: of the mark.
static const char *value_at(const char *text, const struct node_names *names, size_t *len)
{
    const struct {
        const char *mark, *value;
    } marks[] = { { "@NODE@", names->node }, { "@NAMESPACE@", names->ns }, { "@USER@", names->user } };

    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        *len = strlen(marks[i].mark);
        if (strncmp(text, marks[i].mark, *len) == 0)
            return marks[i].value;
    }
    *len = 0;
    return NULL;
}

int node_fill(struct buf *out, const char *text, const struct node_names *names, struct err *e)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "@"), mark;
        const char *value = value_at(text + plain, names, &mark);
        if (value == NULL && text[plain] == '@')
            plain++;
        int r = buf_add(out, text, plain, e);
        if (r == 0 && value != NULL)
            r = buf_adds(out, value, e);
        if (r != 0)
            return r;
        text += plain + mark;
    }
    return 0;
}
