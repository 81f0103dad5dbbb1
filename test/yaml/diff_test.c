// SPDX-License-Identifier: Apache-2.0
// Our YAML against the library through which kubectl reads manifests: build/yaml/kubectl (test/yaml/kubectl) makes random documents from a
// seed and says what the library makes of each; here the same is asked of us. SEED=N and CASES=N choose others.
#include <stdlib.h>
#include <string.h>

#include "data/json.h"
#include "tap.h"
#include "wire/yaml.h"

enum { LINE_MAX_LEN = 1 << 20, SHOWN = 20 };

struct tally {
    int lines, differ, same, both_refuse, deliberate;
};

static const char *setting(const char *name, const char *otherwise)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : otherwise;
}

static size_t unescape(char *s)
{
    char *to = s, *from = s;
    for (unsigned byte; *from != '\0'; from++)
        if (*from == '%' && sscanf(from + 1, "%2X", &byte) == 1) {
            *to++ = (char)byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    *to = '\0';
    return (size_t)(to - s);
}

// What the library takes and we refuse, each for a reason that yaml.h and yaml_scalar.h give.
static bool is_deliberate(const char *why)
{
    static const char *const reasons[] = {
        "stands twice",
        "stands before it",
        "second merge",
        "anchor on a key",
        "key must be a scalar",
        "alias cannot be",
        "tag is not supported",
        "fraction",
        "a NUL",
        "inside of a merge",
        "an alias inside of",
        "expand to too much",
        "infinity", // of a key that stands twice
        // libyaml: [x:,y], an escaped apostrophe, commas and brackets in tags
        "found unexpected ':'",
        "unknown escape",
        "expected tag URI",
        "expected whitespace or line break",
    };
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strstr(why, reasons[i]) != NULL)
            return true;
    return false;
}

static bool same_json(const char *a, size_t na, const char *b, size_t nb)
{
    struct json *x AUTO_JSON = NULL, *y AUTO_JSON = NULL;
    return json_parse(&x, a, na, NULL) == 0 && json_parse(&y, b, nb, NULL) == 0 && json_equal(x, y);
}

static void show(const char *text, const char *want, const char *got)
{
    diag("---- kubectl: %s", want);
    diag("     we: %s", got);
    for (const char *line = text; *line != '\0';) {
        int n = (int)strcspn(line, "\n");
        diag("  | %.*s", n, line);
        line += n + (line[n] == '\n');
    }
}

static void compare(char *text, char *want, struct tally *t)
{
    struct buf out AUTO_BUF = BUF_INIT(LINE_MAX_LEN);
    struct err e = ERR_INIT;
    size_t len = unescape(text), n_want = unescape(want);
    int rc = yaml_to_json(text, len, 0, &out, &e);
    bool refused = strcmp(want, "invalid") == 0;
    t->lines++;
    if (rc == E_NOTFOUND && strcmp(want, "null") == 0) // no document at all
        t->same++;
    else if (rc < 0 && refused)
        t->both_refuse++;
    else if (rc < 0 && is_deliberate(e.msg))
        t->deliberate++;
    else if (rc == 0 && !refused && same_json(buf_str(&out), out.len, want, n_want))
        t->same++;
    else if (t->differ++ < SHOWN)
        show(text, want, rc < 0 ? e.msg : buf_str(&out));
}

int main(void)
{
    const char *seed = setting("SEED", "1"), *cases = setting("CASES", "50000"), *build = setting("BUILD", "build");
    char command[4200], *line = NULL;
    size_t size = 0;
    struct tally t = { 0 };

    snprintf(command, sizeof command, "exec '%s/yaml/kubectl' -seed '%s' -cases '%s'", build, seed, cases);
    FILE *in = popen(command, "re");
    while (in != NULL && getline(&line, &size, in) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *tab = strchr(line, '\t');
        if (tab == NULL) {
            fail("a line that can be read: %.200s", line);
            continue;
        }
        *tab = '\0';
        compare(line, tab + 1, &t);
    }
    free(line);
    ok(in != NULL && pclose(in) == 0, "the library answered all (test/reference.sh builds it)");

    diag("seed %s: %d the same, %d refused by both, %d refused by us alone and on purpose", seed, t.same, t.both_refuse, t.deliberate);
    is_int(t.lines, atoll(cases), "as many cases as were asked for");
    is_int(t.differ, 0, "seed %s: the same answer as kubectl's", seed);
    // So that the generator cannot go blind unnoticed.
    ok(t.same > t.lines / 5 && t.both_refuse > t.lines / 10 && t.deliberate > t.lines / 200, "of each kind enough");
    return done_testing();
}
