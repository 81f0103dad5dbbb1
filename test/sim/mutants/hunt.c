// SPDX-License-Identifier: Apache-2.0
// hunt — plays seeds with a broken agent until the simulator says of one what it should say.
//
//     hunt PATTERN FIRST LAST
//
// PATTERN is an extended regular expression for the verdict. Prints one line: the seed, how many seeds before it ended with another verdict,
// and the verdict; exit 0. Or how many of those seeds failed with which last verdict; exit 1. A seed that hangs is the last one: each would
// take minutes.
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "../sim_run.h"

static int usage(const char *name)
{
    fprintf(stderr, "usage: %s PATTERN FIRST LAST\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    regex_t pattern;
    struct outcome out = { 0 };
    char other[sizeof(out.verdict)] = "every seed was well";
    unsigned long long first = argc == 4 ? strtoull(argv[2], NULL, 10) : 0, last = first > 0 ? strtoull(argv[3], NULL, 10) : 0, others = 0;
    if (last < first || last == 0 || regcomp(&pattern, argv[1], REG_EXTENDED | REG_NOSUB) != 0)
        return usage(argv[0]);
    for (unsigned long long seed = first; seed <= last && !out.hung; seed++) {
        struct plan p;
        plan_make(&p, seed);
        run_apart(&p, SHOW_NOTHING, &out);
        if (out.broken && regexec(&pattern, out.verdict, 0, NULL, 0) == 0) {
            printf("%llu\t%llu\t%s\n", seed, others, out.verdict);
            return 0;
        }
        if (out.broken) {
            others++;
            snprintf(other, sizeof(other), "%s", out.verdict);
        }
    }
    printf("-\t%llu\t%s\n", others, other);
    return 1;
}
