// SPDX-License-Identifier: Apache-2.0
#include "base/util.h"
#include "tap.h"

// Another number each time, as of a generator or a clock: first too small, then too large.
static int draws;
static int64_t draw(void)
{
    return draws++ % 2 == 0 ? 1500 : 996;
}

// With an argument evaluated twice, a Retry-After of a second was not kept: 1,500 was compared, and 996 taken.
static void test_arguments_are_evaluated_once(void)
{
    is_int(MAX((int64_t)1000, draw()), 1500, "MAX is what was compared");
    is_int(draws, 1, "and one draw");
    is_int(MIN((int64_t)1000, draw()), 996, "MIN, too");
    is_int(draws, 2, "and one more");
    draws = 0;
    is_int(MIN((int64_t)2000, MAX(draw(), MIN(draw(), (int64_t)3000))), 1500, "one within another");
    is_int(draws, 2, "each once");
}

int main(void)
{
    test_arguments_are_evaluated_once();
    return done_testing();
}
