// SPDX-License-Identifier: Apache-2.0
// The machine's own clock and randomness: the only file that asks the kernel for either. What is believed of them, and how
// times are written, is in clock_wall.c.
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timex.h>
#include <time.h>

#include "base/util.h"

// Facts of this machine and this boot, asked once; adjtimex at most once a second.
static struct {
    int64_t synced_at_ms;
    bool synced_known, synced;
    char boot_id[37];
} machine;

static int64_t read_clock(clockid_t id, int64_t per_sec)
{
    struct timespec ts = { 0 };
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * per_sec + ts.tv_nsec / (1000000000 / per_sec);
}

static int64_t real_mono_ms(struct clock *c UNUSED)
{
    return read_clock(CLOCK_MONOTONIC, 1000);
}

static int64_t real_mono_us(struct clock *c UNUSED)
{
    return read_clock(CLOCK_MONOTONIC, 1000000);
}

static int64_t real_boot_ms(struct clock *c UNUSED)
{
    return read_clock(CLOCK_BOOTTIME, 1000);
}

static int64_t real_wall_us(struct clock *c UNUSED)
{
    return read_clock(CLOCK_REALTIME, 1000000);
}

static bool real_synced(struct clock *c)
{
    int64_t now = real_mono_ms(c);
    if (machine.synced_known && now - machine.synced_at_ms < 1000)
        return machine.synced;
    struct timex tx = { .modes = 0 };
    int state = adjtimex(&tx);
    machine.synced = state >= 0 && state != TIME_ERROR && (tx.status & STA_UNSYNC) == 0;
    machine.synced_known = true;
    machine.synced_at_ms = now;
    return machine.synced;
}

static ssize_t read_small(const char *path, void *p, size_t n)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : read(fd, p, n);
}

// getrandom() waits for the pool once, early in the boot; a kernel without the call has the device.
static void real_random(struct clock *c UNUSED, void *p, size_t n)
{
    char *at = p;
    AUTO_CLOSE int fd = -1;
    while (n > 0) {
        ssize_t got = fd < 0 ? getrandom(at, n, 0) : read(fd, at, n);
        if (got < 0 && errno == ENOSYS && fd < 0)
            fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        if (got < 0 && errno != EINTR && fd < 0)
            abort(); // ids, jitter and temporary secrets without randomness would be worse than stopping
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        }
    }
}

static void read_boot_id(char out[37])
{
    char text[37] = "";
    if (read_small("/proc/sys/kernel/random/boot_id", text, 36) != 36)
        strcpy(text, "00000000-0000-0000-0000-000000000000");
    for (char *p = text; *p != '\0'; p++)
        if (*p >= 'A' && *p <= 'F')
            *p = (char)(*p - 'A' + 'a');
    memcpy(out, text, sizeof(text));
}

static void real_boot_id(struct clock *c UNUSED, char out[37])
{
    if (machine.boot_id[0] == '\0')
        read_boot_id(machine.boot_id);
    memcpy(out, machine.boot_id, sizeof(machine.boot_id));
}

static bool has_rtc_device(void)
{
    DIR *d = opendir("/sys/class/rtc");
    if (d == NULL)
        return false;
    bool found = false;
    struct dirent *de;
    while (!found && (de = readdir(d)) != NULL)
        found = de->d_name[0] != '.';
    closedir(d);
    return found;
}

// A guest has its time from the host at boot, often without an RTC device.
static bool is_guest_clock(void)
{
    char names[256] = "";
    if (read_small("/sys/devices/system/clocksource/clocksource0/available_clocksource", names, sizeof(names) - 1) <= 0)
        return false;
    return strstr(names, "kvm-clock") != NULL || strstr(names, "xen") != NULL;
}

static const struct clock_ops real_ops = {
    .mono_ms = real_mono_ms,
    .mono_us = real_mono_us,
    .boot_ms = real_boot_ms,
    .wall_us = real_wall_us,
    .synced = real_synced,
    .random = real_random,
    .boot_id = real_boot_id,
};

void clock_real_init(struct clock *c)
{
    *c = (struct clock){ .ops = &real_ops };
    c->no_rtc = !has_rtc_device() && !is_guest_clock();
}
