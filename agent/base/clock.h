// SPDX-License-Identifier: Apache-2.0
// clock — the seam for time and randomness, and how far the wall clock is believed.
//
// Three times: monotonic (timers, deadlines, backoff: nothing else), boot-time (order and age of observations, counts
// suspend), wall (shown to people, may lie). Nobody else calls clock_gettime() or getrandom().
//
// Trust: synchronised this boot (adjtimex), or the wall clock is at or after the floor and came from an RTC that was right,
// or a verified server Date this boot (a wall clock stepped days away from it loses trust), or the configuration says always. The floor is the newest of build time and last stored
// time. An untrusted clock never makes anybody act: it only marks what is reported.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock;

struct clock_ops {
    int64_t (*mono_ms)(struct clock *c);                // CLOCK_MONOTONIC, milliseconds
    int64_t (*boot_ms)(struct clock *c);                // CLOCK_BOOTTIME, milliseconds
    int64_t (*wall_us)(struct clock *c);                // CLOCK_REALTIME, microseconds since 1970
    bool (*synced)(struct clock *c);                    // the kernel says it is synchronised (adjtimex)
    void (*random)(struct clock *c, void *p, size_t n); // never fails
    void (*boot_id)(struct clock *c, char out[37]);     // /proc/sys/kernel/random/boot_id, lower-case, terminated
    int64_t (*mono_us)(struct clock *c);                // CLOCK_MONOTONIC, microseconds; NULL: no finer than mono_ms
};

struct clock {
    const struct clock_ops *ops;
    int64_t floor_us;     // 0 = none
    int64_t built_us;     // when this program was made: no floor is below it
    int64_t offset_us;    // server time minus boot-time, learned from a verified Date; used only while the wall is untrusted
    bool always;          // [clock] trust=always
    bool server_dated;    // a verified server Date was seen this boot
    bool was_below_floor; // the wall stood before the floor at start
    bool floor_lowered;   // in this boot, on the server's word
    // Verified server Dates before the floor that agree with one another: how many, since when (boot-time), and what they say.
    int earlier;
    int64_t earlier_since_ms, earlier_offset_us;
    bool no_rtc; // nothing set the wall at boot (OpenWrt takes the newest file time): the floor proves nothing
};

void clock_real_init(struct clock *c);

int64_t clock_mono(struct clock *c);
int64_t clock_mono_us(struct clock *c); // for measuring how long something takes
int64_t clock_boot(struct clock *c);
// Best estimate of the wall time: the wall when it is trusted, else the server's time carried on by boot-time, else
// the wall; never before the floor.
int64_t clock_wall_us(struct clock *c);
bool clock_trusted(struct clock *c);
// Somebody outside of this machine says so: time synchronisation, a server, or the owner. Only such a time may become a floor; one that is
// believed because it is after the last floor could be ten years off, and as a floor would never be left again.
bool clock_vouched(struct clock *c);
// A Date header of a server whose certificate chain was verified; seconds since 1970. One before the floor is ignored, for the server's clock
// may be the wrong one. But a floor may come from a clock that lied by years while it was trusted, and nothing would ever lead back: when
// CLOCK_AGREE Dates in CLOCK_AGREE_MS or more agree with one another to the second, and none contradicts them, the floor is lowered to what they
// say, never below the time the program was made.
enum { CLOCK_AGREE = 10, CLOCK_AGREE_MS = 10 * 60 * 1000 };
void clock_server_date(struct clock *c, int64_t sec);
void clock_floor(struct clock *c, int64_t us); // raises the floor

// When something happened, in a form that survives a lying clock.
struct instant {
    char boot_id[37];
    int64_t boot_ms;
    int64_t wall_us; // best estimate at that moment
    bool trusted;
};
void clock_instant(struct clock *c, struct instant *out);

// RFC 3339 in UTC. Seconds: "2026-11-30T12:00:00Z" (21 bytes with terminator); micro: "...00.000000Z" (28 bytes).
enum { RFC3339_MAX = 32 };
char *rfc3339_sec(int64_t wall_us, char out[RFC3339_MAX]);
char *rfc3339_micro(int64_t wall_us, char out[RFC3339_MAX]);
// Microseconds since 1970 into *us; false when it is no RFC 3339 date-time. Any offset, up to nanoseconds.
bool rfc3339_parse(const char *s, int64_t *us);
// "Sun, 06 Nov 1994 08:49:37 GMT" into seconds since 1970; false when it is no IMF-fixdate.
bool http_date_parse(const char *s, int64_t *sec);

// Uniform in [0, n); 0 for n <= 0.
int64_t clock_rand(struct clock *c, int64_t n);
uint64_t clock_rand64(struct clock *c);

#endif
