// SPDX-License-Identifier: Apache-2.0
#include "expr/template.c"

#include "tap.h"

static const char *lookup(const void *ctx, const char *name)
{
    (void)ctx;
    if (strcmp(name, "node.name") == 0)
        return "edge-1";
    if (strcmp(name, "empty") == 0)
        return "";
    return strcmp(name, "sly") == 0 ? "${node.name}" : NULL;
}

static const struct template_names names = { lookup, NULL };

struct render_case {
    const char *text, *want; // want NULL: an error
    const char *error;
};

static const struct render_case cases[] = {
    { "", "", NULL },
    { "plain", "plain", NULL },
    { "${node.name}", "edge-1", NULL },
    { "a ${node.name}\n${node.name}b", "a edge-1\nedge-1b", NULL },
    { "[${empty}]", "[]", NULL },
    { "${sly}", "${node.name}", NULL }, // what is put in is not looked at again
    { "$", "$", NULL },
    { "$$", "$$", NULL },
    { "cost $5 $HOME $(x)", "cost $5 $HOME $(x)", NULL },
    { "$${node.name}", "${node.name}", NULL },
    { "$$${node.name}", "$${node.name}", NULL },
    { "$${", "${", NULL },
    { "x\n  ${nodename}", NULL, "line 2, column 3: nothing is known as ${nodename}" },
    { "${ node.name }", NULL, "nothing is known as ${ node.name }" },
    { "${}", NULL, "nothing is known as ${}" },
    { "${node.name", NULL, "line 1, column 1: ${ without its }" },
    { "a\nb${node\n.name}", NULL, "line 2, column 2: ${ without its }" },
};

static void check(const struct render_case *c)
{
    struct buf out AUTO_BUF = BUF_INIT(1000);
    struct err e = ERR_INIT;
    int rc = template_render(c->text, strlen(c->text), &names, &out, &e);
    if (c->want != NULL)
        is_str(rc == 0 ? buf_str(&out) : e.msg, c->want, "%s", c->text);
    else
        has_str(rc < 0 ? e.msg : "no error", c->error, "%s", c->text);
}

int main(void)
{
    struct err e = ERR_INIT;
    struct buf small AUTO_BUF = BUF_INIT(5);
    struct buf bytes AUTO_BUF = BUF_INIT(100);
    char name[TEMPLATE_NAME_MAX + 4];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(&cases[i]);
    ok(template_render("${node.name}", 12, &names, &small, &e) == E_TOOBIG, "no more than the caller has room for");
    is_int(template_render("a\0$${", 5, &names, &bytes, &e), 0, "bytes");
    ok(bytes.len == 4 && memcmp(bytes.data, "a\0${", 4) == 0, "stay what they are");
    memset(name, 'n', sizeof(name));
    memcpy(name, "${", 2);
    name[sizeof(name) - 1] = '}';
    ok(template_render(name, sizeof(name), &names, &bytes, &e) == E_INVAL, "a name of any length is refused");
    return done_testing();
}
