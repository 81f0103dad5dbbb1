// SPDX-License-Identifier: Apache-2.0
// clock_file — the real clock, except that the wall clock is off by what a file says: linked in front of clock_real_init() (the linker's
// --wrap), into build/torture/limpet and into nothing else. No program that is shipped can be told the time this way.
//
// $TORTURE_CLOCK names the file: the offset in seconds, as text. While it is not 0 the kernel does not call the clock synchronised
// either, as on a machine whose time went wrong. The monotonic and the boot clock stay right, as they do on such a machine.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

void __real_clock_real_init(struct clock *c);
void __wrap_clock_real_init(struct clock *c);

static struct clock_ops ops;
static const struct clock_ops *real;

static int64_t offset_us(void)
{
    const char *path = getenv("TORTURE_CLOCK");
    char text[32] = "";
    int fd AUTO_CLOSE = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return 0;
    return strtoll(text, NULL, 10) * 1000000;
}

static int64_t wall_us(struct clock *c)
{
    return real->wall_us(c) + offset_us();
}

static bool synced(struct clock *c)
{
    return offset_us() == 0 && real->synced(c);
}

void __wrap_clock_real_init(struct clock *c)
{
    __real_clock_real_init(c);
    real = c->ops;
    ops = *real;
    ops.wall_us = wall_us;
    ops.synced = synced;
    c->ops = &ops;
}
