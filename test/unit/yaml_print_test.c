// SPDX-License-Identifier: Apache-2.0
#include "wire/yaml_print.c"

#include "tap.h"
#include "wire/yaml.h"

static void check(const char *json, const char *want)
{
    struct json *j AUTO_JSON = NULL, *again AUTO_JSON = NULL;
    struct buf text AUTO_BUF = BUF_INIT(1 << 20), back AUTO_BUF = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    is_int(json_parse(&j, json, strlen(json), &e), 0, "%s", json);
    is_int(yaml_print(j, &text, &e), 0, "is printed");
    if (want != NULL)
        is_str(buf_str(&text), want, "as people write it");
    is_int(yaml_to_json(buf_str(&text), text.len, 0, &back, &e), 0, "and read again %s", e.msg);
    ok(json_parse(&again, buf_str(&back), back.len, &e) == 0 && json_equal(j, again), "as the same");
}

int main(void)
{
    check("{\"a\":1,\"b\":[\"x\",{\"c\":{},\"d\":[]},[1,[2]]],\"e\":{\"f\":null,\"g\":true}}",
          "a: 1\nb:\n- x\n- c: {}\n  d: []\n- - 1\n  - - 2\ne:\n  f: null\n  g: true\n");
    check("{\"s\":[\"yes\",\"0644\",\"1e3\",\"a: b\",\"a #b\",\" a\",\"a:\",\"\",\"-x\",\"/bin/x\",\"a "
          "b\",\"2026-11-30\",\"~\",\"null\",\"x:1\",\"<<\"]}",
          "s:\n- \"yes\"\n- \"0644\"\n- \"1e3\"\n- \"a: b\"\n- \"a #b\"\n- \" a\"\n- \"a:\"\n- \"\"\n- \"-x\"\n- /bin/x\n- a b\n- "
          "2026-11-30\n"
          "- \"~\"\n- \"null\"\n- x:1\n- \"<<\"\n");
    check("{\"t\":\"one\\n\\n  two\\n\",\"u\":\"no end\\nx\",\"v\":\"keep\\n\\n\",\"w\":\" "
          "lead\\n\",\"x\":\"\\n\",\"y\":\"tab\\there\\n\",\"z\":\"\xc3\xa9\\n\"}",
          "t: |\n  one\n\n    two\nu: |-\n  no end\n  x\nv: |+\n  keep\n\nw: \" lead\\n\"\nx: \"\\n\"\n\"y\": \"tab\\there\\n\"\nz: "
          "\"\xc3\xa9\\n\"\n");
    check("[[],{},[[\"|\"]],{\"true\":{\"1\":[{\"x\":\"a\\nb\"}]}}]", NULL);
    check("\"x\"", " x\n");
    check("{\"a\":\"\\u2028\\u0085\\u0007\\u001b\\\"\\\\\",\"\\u0001\":1.5e300,\"b\":\"# x\\n# y\\n\"}", NULL);
    return done_testing();
}
