// SPDX-License-Identifier: Apache-2.0
// Zones: the calendar, POSIX rules, TZif files made here (good ones, and each way to be bad), names, and what the system's tzdata says of
// well-known changes.
#include "expr/tz.c"
#include "expr/tz_civil.c"
#include "expr/tz_file.c"
#include "expr/tz_rule.c"

#include <ftw.h>

#include "base/clock.h"
#include "tap.h"

static int64_t instant(const char *text)
{
    int64_t us = 0;
    if (!rfc3339_parse(text, &us))
        fail("%s is a time", text);
    return us / 1000000;
}

// --- the calendar

static int days_in(int64_t year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (leap && month == 2);
}

// From one day to the next, as a person counts.
static void count_day(struct tz_civil *c)
{
    c->wday = (c->wday + 1) % 7;
    if (++c->day > days_in(c->year, c->month)) {
        c->day = 1;
        if (++c->month > 12) {
            c->month = 1;
            c->year++;
        }
    }
}

static void test_civil(void)
{
    struct tz_civil want = { .year = -1000, .month = 1, .day = 1 }, got;
    int64_t day = tz_civil_s(&want) / DAY_S, wrong = 0;
    tz_civil_of(day * DAY_S, &got);
    want.wday = got.wday;
    for (; want.year < 10000; day++, count_day(&want)) {
        tz_civil_of(day * DAY_S + 86399, &got);
        wrong += got.year != want.year || got.month != want.month || got.day != want.day || got.wday != want.wday;
        wrong += got.hour != 23 || got.min != 59 || got.sec != 59 || tz_civil_s(&got) != day * DAY_S + 86399;
    }
    is_int(wrong, 0, "each day of eleven thousand years, and its weekday");
    tz_civil_of(0, &got);
    ok(got.year == 1970 && got.month == 1 && got.day == 1 && got.wday == 4 && got.hour == 0, "1970 began on a Thursday");
}

static void test_civil_carries(void)
{
    static const struct {
        struct tz_civil over;
        const char *is;
    } t[] = {
        { { .year = 2026, .month = 13, .day = 1 }, "2027-01-01T00:00:00Z" },
        { { .year = 2027, .month = 0, .day = 1 }, "2026-12-01T00:00:00Z" },
        { { .year = 2028, .month = 3, .day = 0 }, "2028-02-29T00:00:00Z" },
        { { .year = 2026, .month = 12, .day = 32, .hour = 24, .min = 60, .sec = 60 }, "2027-01-02T01:01:00Z" },
        { { .year = 2027, .month = 1, .day = 1, .hour = -1 }, "2026-12-31T23:00:00Z" },
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        is_int(tz_civil_s(&t[i].over), instant(t[i].is), "carries over to %s", t[i].is);
}

// --- POSIX rules

static struct disk no_disk;

static struct tz *posix(const char *text)
{
    struct tz *z = NULL;
    struct err e = ERR_INIT;
    if (tz_load(&z, &no_disk, text, &e) != 0)
        fail("%s: %s", text, e.msg);
    return z;
}

static void offset_at(const struct tz *z, const char *what, const char *at, int want)
{
    is_int(tz_offset(z, instant(at)), want, "%s at %s", what, at);
}

static void changes(const char *rule, const char *at, int before, int after)
{
    struct tz *z = posix(rule);
    is_int(tz_offset(z, instant(at) - 1), before, "%s: until %s", rule, at);
    is_int(tz_offset(z, instant(at)), after, "%s: from %s on", rule, at);
    tz_free(z);
}

static void test_rules(void)
{
    changes("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", 3600, 7200);
    changes("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00Z", 7200, 3600);
    changes("EST5EDT,M3.2.0,M11.1.0", "2026-03-08T07:00:00Z", -18000, -14400);
    changes("EST5EDT,M3.2.0,M11.1.0", "2026-11-01T06:00:00Z", -14400, -18000);
    changes("AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-04-04T16:00:00Z", 39600, 36000);
    changes("AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-10-03T16:00:00Z", 36000, 39600);
    changes("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-04-04T15:00:00Z", 39600, 37800);
    changes("IST-1GMT0,M10.5.0,M3.5.0/1", "2026-10-25T01:00:00Z", 3600, 0);
    changes("IST-1GMT0,M10.5.0,M3.5.0/1", "2026-03-29T01:00:00Z", 0, 3600);
    changes("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", -7200, -3600);
    changes("EET-2EEST,M3.4.4/50,M10.4.4/50", "2026-03-28T00:00:00Z", 7200, 10800); // 50 h after midnight of a Thursday
    changes("NST3:30NDT2:30:15,M3.2.0/0:01:30,M11.1.0", "2026-03-08T03:31:30Z", -12600, -9015);
    // J60 is always 1 March; 59 is 1 March, or 29 February where there is one.
    changes("AAA0BBB,J60/0,J300", "2027-03-01T00:00:00Z", 0, 3600);
    changes("AAA0BBB,J60/0,J300", "2028-03-01T00:00:00Z", 0, 3600);
    changes("AAA0BBB,59/0,300", "2027-03-01T00:00:00Z", 0, 3600);
    changes("AAA0BBB,59/0,300", "2028-02-29T00:00:00Z", 0, 3600);
    changes("AAA0BBB,J1/0,J59/25", "2028-02-29T00:00:00Z", 3600, 0);
}

static void test_rules_without_change(void)
{
    struct tz *z = posix("<+0545>-5:45");
    offset_at(z, "Nepal", "2026-06-01T00:00:00Z", 20700);
    tz_free(z);
    z = posix("EST5EDT4,0/0,J365/25"); // summer all year, as RFC 9636 writes it
    for (int year = 2024; year < 2030; year++) {
        int64_t new_year = tz_civil_s(&(struct tz_civil){ .year = year, .month = 1, .day = 1, .hour = 4 });
        ok(tz_offset(z, new_year - 1) == -14400 && tz_offset(z, new_year) == -14400 && tz_offset(z, new_year + 15000000) == -14400,
           "summer all through %d", year);
    }
    for (int i = 0; i < 64; i++)
        tz_offset(z, (int64_t)(UINT64_C(1) << i)); // the sanitizers see what overflows
    is_int(tz_offset(z, INT64_MAX), -14400, "at the end of time");
    tz_free(z);
}

static void test_bad_rules(void)
{
    static const char *const bad[] = {
        "CET",
        "CE-1",
        "CET-",
        "CET-25",
        "CET-1:60",
        "CET-1:00:60",
        "CET-1CEST", // without its days
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,",
        "CET-1CEST,M3.5.0,M10.5.0/",
        "CET-1CEST,M3.5.0,M10.5.0/168",
        "CET-1CEST,M3.5.0,M10.5.0/3 ",
        "CET-1CEST,M3.5.0,M10.5.0/3,",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5,M10.5.0",
        "CET-1CEST,J0,J365",
        "CET-1CEST,J1,J366",
        "CET-1CEST,0,366",
        "CET-1CEST,99999999999999999999,1",
        "<CET-1",
        "<C>-1",
        "<CET>",
        "<C_T>-1",
        ":Europe/Berlin",
        "CET-1 ",
    };
    struct tz_rule r;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        is_int(tz_rule_parse(&r, bad[i], &e), E_INVAL, "refused: \"%s\"", bad[i]);
        has_str(e.msg, "POSIX TZ string", "\"%s\": the text says what is wanted", bad[i]);
    }
}

// --- files

struct made {
    unsigned char b[2048];
    size_t n;
};

static void put(struct made *m, const void *p, size_t n)
{
    memcpy(m->b + m->n, p, n);
    m->n += n;
}

static void put_number(struct made *m, int64_t v, unsigned bytes)
{
    while (bytes-- > 0)
        m->b[m->n++] = (unsigned char)((uint64_t)v >> bytes * 8);
}

static void put_header(struct made *m, char version, unsigned leap, unsigned times, unsigned types)
{
    put(m, "TZif", 4);
    put(m, &version, 1);
    put(m, (unsigned char[15]){ 0 }, 15);
    put_number(m, 0, 4);
    put_number(m, 0, 4);
    put_number(m, leap, 4);
    put_number(m, times, 4);
    put_number(m, types, 4);
    put_number(m, 4, 4);
}

// Until the second 1000: 100 s east, then 3600 s, from 2000 on 7200 s.
static void put_data(struct made *m, unsigned time_size)
{
    static const unsigned char which[] = { 1, 2 };
    static const int32_t offsets[] = { 100, 3600, 7200 };
    put_number(m, 1000, time_size);
    put_number(m, 2000, time_size);
    put(m, which, sizeof which);
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        put_number(m, offsets[i], 4);
        put_number(m, 0, 2);
    }
    put(m, "ABC", 4);
}

enum {
    AT_VERSION = 4,
    V1_DATA = HEADER + 2 * 4 + 2 + 3 * 6 + 4,
    AT_64 = V1_DATA + HEADER,
    AT_WHICH_64 = AT_64 + 16,
    AT_TYPES_64 = AT_WHICH_64 + 2
};

static struct made make(char version, const char *footer)
{
    struct made m = { .n = 0 };
    put_header(&m, version, 0, 2, 3);
    put_data(&m, 4);
    if (version == '\0')
        return m;
    put_header(&m, version, 0, 2, 3);
    put_data(&m, 8);
    put(&m, footer, strlen(footer));
    return m;
}

// Parsed from a block of exactly its size, so that a byte read beyond it is caught.
static int parse(struct tz **z, const struct made *m, size_t n, struct err *e)
{
    unsigned char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, m->b, n);
    int rc = tz_parse_file(z, exact, n, e);
    free(exact);
    return rc;
}

static void good_file(struct made m, const char *what, int later, const char *at)
{
    struct err e = ERR_INIT;
    struct tz *z = NULL;
    if (!is_int(parse(&z, &m, m.n, &e), 0, "%s", what))
        return diag("%s", e.msg);
    is_int(tz_offset(z, INT64_MIN), 100, "%s: before all changes", what);
    is_int(tz_offset(z, 999), 100, "%s: before the first", what);
    is_int(tz_offset(z, 1000), 3600, "%s: from the first on", what);
    is_int(tz_offset(z, 1999), 3600, "%s: before the second", what);
    offset_at(z, what, at, later);
    tz_free(z);
}

static void test_good_files(void)
{
    good_file(make('\0', ""), "version 1", 7200, "2026-07-01T00:00:00Z");
    good_file(make('2', "\n\n"), "version 2 with an empty footer", 7200, "2026-07-01T00:00:00Z");
    good_file(make('2', "\nCET-1CEST,M3.5.0,M10.5.0/3\n"), "version 2 in winter", 3600, "2026-01-01T00:00:00Z");
    good_file(make('3', "\nCET-1CEST,M3.5.0,M10.5.0/3\n"), "version 3 in summer", 7200, "2026-07-01T00:00:00Z");
    good_file(make('4', "\n<+03>-3\n"), "version 4", 10800, "2026-07-01T00:00:00Z");
}

static void bad_file(struct made m, const char *what)
{
    struct err e = ERR_INIT;
    struct tz *z = NULL;
    is_int(parse(&z, &m, m.n, &e), E_INVAL, "refused: %s (%s)", what, e.msg);
    ok(z == NULL, "%s: nothing is left of it", what);
    tz_free(z);
}

static void changed(size_t at, unsigned char byte, const char *what)
{
    struct made m = make('2', "\n<+03>-3\n");
    m.b[at] = byte;
    bad_file(m, what);
}

static void test_bad_files(void)
{
    changed(0, 'X', "no magic");
    changed(AT_VERSION, '1', "an unknown version");
    changed(V1_DATA, 'X', "no magic of the second header");
    changed(V1_DATA + AT_VERSION, 'A', "an unknown version in the second header");
    for (int count = 0; count < 6; count++) {
        changed((size_t)(20 + 4 * count), 0xff, "a huge count in the first header");
        changed((size_t)(V1_DATA + 20 + 4 * count), 0xff, "a huge count in the second header");
    }
    changed(V1_DATA + 39, 0, "no local times");
    changed(AT_WHICH_64 + 1, 3, "a change to a fourth local time of three");
    changed(AT_64 + 14, 0, "changes that are not in order");
    changed(AT_64 + 8, 0x80, "a change at the beginning of time behind another");
    changed(AT_TYPES_64, 0x7f, "a local time that is years ahead");
    changed(AT_TYPES_64 + 12, 0x80, "a local time that is years behind");
    bad_file(make('2', ""), "no footer");
    bad_file(make('2', "\n"), "half a footer");
    bad_file(make('2', "\n<+03>-3"), "a footer without an end");
    bad_file(make('2', "<+03>-3\n"), "a footer without a beginning");
    bad_file(make('2', "\nCET-1CEST\n"), "a footer without its days");
    bad_file(make('2',
                  "\nnonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense nonsense "
                  "nonsense nonsense\n"),
             "a long footer");
    struct made m = { .n = 0 };
    put_header(&m, '\0', 1, 2, 3);
    put_data(&m, 4);
    put_number(&m, 500, 4);
    put_number(&m, 1, 4);
    bad_file(m, "leap seconds");
}

static void test_cut_files(void)
{
    const struct made whole = make('2', "\n<+03>-3\n");
    struct tz *z = NULL;
    int refused = 0;
    for (size_t n = 0; n < whole.n; n++) {
        struct err e = ERR_INIT;
        refused += parse(&z, &whole, n, &e) == E_INVAL;
    }
    is_int(refused, whole.n, "refused: a file cut at any of its bytes");
}

// --- names

struct fake_disk {
    struct disk disk;
    struct made berlin, damaged;
    int reads, rc; // rc != 0: what reading gives
};

static const struct made *file_at(struct fake_disk *f, const char *path)
{
    if (strcmp(path, "/usr/share/zoneinfo/Europe/Berlin") == 0)
        return &f->berlin;
    return strcmp(path, "/usr/share/zoneinfo/Damaged") == 0 ? &f->damaged : NULL;
}

static int fake_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e)
{
    struct fake_disk *f = container_of(d, struct fake_disk, disk);
    const struct made *m = file_at(f, path);
    (void)flags;
    f->reads++;
    if (f->rc != 0)
        return err_set(e, f->rc, "the disk failed");
    if (m == NULL)
        return err_set(e, E_NOTFOUND, "%s: not there", path);
    return m->n > max ? err_set(e, E_TOOBIG, "too big") : buf_add(out, m->b, m->n, e);
}

static int fake_stat(struct disk *d, const char *path, unsigned flags, struct fs_stat *out, struct err *e)
{
    struct fake_disk *f = container_of(d, struct fake_disk, disk);
    (void)flags;
    f->reads++;
    *out = (struct fs_stat){ .type = strcmp(path, "/usr/share/zoneinfo/Europe") == 0 ? FS_DIR : FS_FILE };
    return out->type == FS_DIR || file_at(f, path) != NULL ? 0 : err_set(e, E_NOTFOUND, "%s: not there", path);
}

static const struct disk_ops fake_ops = { .read = fake_read, .stat = fake_stat };

static void load(struct fake_disk *f, const char *name, int want, const char *says, int reads)
{
    struct err e = ERR_INIT;
    struct tz *z = NULL;
    f->reads = 0;
    is_int(tz_load(&z, &f->disk, name, &e), want, "\"%s\"%s%s", name, e.msg[0] ? ": " : "", e.msg);
    has_str(e.msg, says, "\"%s\": the text says so", name);
    ok((f->reads > 0) == (reads > 0), "\"%s\": the disk was %s", name, reads > 0 ? "asked" : "not asked");
    ok((z != NULL) == (want == 0), "\"%s\": a zone only without an error", name);
    tz_free(z);
}

static void test_names(void)
{
    struct fake_disk f = { .disk = { .ops = &fake_ops, .root = "" }, .berlin = make('2', "\n<+03>-3\n"), .damaged = make('2', "\n") };
    load(&f, "UTC", 0, "", 0);
    load(&f, "Europe/Berlin", 0, "", 1);
    load(&f, "CET-1CEST,M3.5.0,M10.5.0/3", 0, "", 0);
    load(&f, "JST-9", 0, "", 1); // could be the name of a file
    load(&f, "Europe/Atlantis", E_NOTFOUND, "install tzdata, or give a POSIX TZ string", 1);
    load(&f, "EST5EDT", E_NOTFOUND, "install tzdata", 1);
    load(&f, "Europe", E_NOTFOUND, "install tzdata", 1);
    load(&f, "Damaged", E_INVAL, "/usr/share/zoneinfo/Damaged: no usable TZif file", 1);
    load(&f, "Local", E_INVAL, "each node", 0);
    load(&f, "LOCAL", E_INVAL, "each node", 0);
    static const char *const outside[] = {
        "",         "..",      "../Berlin",      "Europe/../../etc/shadow", "/etc/localtime", "Europe//Berlin", "Europe/",
        "./Berlin", "-Berlin", "Europe/-Berlin", "Europe Berlin",           "Europe\\Berlin", "%2e%2e",         "Europe\nRome"
    };
    for (size_t i = 0; i < ARRAY_LEN(outside); i++)
        load(&f, outside[i], E_INVAL, "POSIX TZ string", 0);
    char longest[400];
    memset(longest, 'A', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    load(&f, longest, E_INVAL, "POSIX TZ string", 0);
    f.rc = E_IO;
    load(&f, "Europe/Berlin", E_IO, "Europe/Berlin", 1);
}

// --- the system's tzdata

static void known(struct disk *d, const char *name, int64_t at_s, int want)
{
    struct err e = ERR_INIT;
    struct tz *z = NULL;
    int rc = tz_load(&z, d, name, &e);
    if (rc == E_NOTFOUND)
        return skip("%s", e.msg);
    is_int(rc, 0, "%s is there", name);
    is_int(tz_offset(z, at_s), want, "%s at %" PRId64, name, at_s);
    tz_free(z);
}

static void test_known(struct disk *d)
{
    known(d, "Europe/Berlin", -2840140800, 3208);
    known(d, "Europe/Berlin", -776044800, 10800);
    known(d, "Europe/Berlin", instant("2026-07-01T00:00:00Z"), 7200);
    known(d, "Europe/Berlin", instant("2126-01-01T00:00:00Z"), 3600);
    known(d, "Europe/Berlin", instant("2126-07-01T00:00:00Z"), 7200);
    known(d, "Europe/Dublin", instant("2026-01-01T00:00:00Z"), 0);
    known(d, "Europe/Dublin", instant("2026-07-01T00:00:00Z"), 3600);
    known(d, "America/Sao_Paulo", instant("2019-01-01T00:00:00Z"), -7200);
    known(d, "America/Sao_Paulo", instant("2020-01-01T00:00:00Z"), -10800);
    known(d, "Pacific/Apia", instant("2011-12-30T09:59:59Z"), -36000);
    known(d, "Pacific/Apia", instant("2011-12-30T10:00:00Z"), 50400);
    known(d, "Australia/Lord_Howe", instant("2026-01-01T00:00:00Z"), 39600);
    known(d, "Asia/Kolkata", instant("2026-01-01T00:00:00Z"), 19800);
    known(d, "America/New_York", instant("2099-07-01T00:00:00Z"), -14400);
}

static struct disk *walk_disk;
static int walked, walk_failed;

// Each file of tzdata is taken, but those that count leap seconds.
static int load_each(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    struct err e = ERR_INIT;
    struct tz *z = NULL;
    const char *name = path + strlen(ZONEINFO);
    (void)st;
    if (kind != FTW_F || at->level == 0 || strchr(name, '.') != NULL || strncmp(name, "right/", 6) == 0)
        return 0;
    if (tz_load(&z, walk_disk, name, &e) == 0) {
        walked++;
    } else if (strstr(e.msg, "does not begin like one") == NULL) { // tables and notes lie there, too
        walk_failed++;
        diag("%s", e.msg);
    }
    tz_free(z);
    return 0;
}

static void test_all(struct disk *d)
{
    walk_disk = d;
    if (nftw(ZONEINFO "Europe", load_each, 16, 0) != 0)
        return skip("no tzdata here");
    walked = 0;
    nftw(ZONEINFO, load_each, 16, 0);
    ok(walked > 200 && walk_failed == 0, "all zones of tzdata are taken (%d)", walked);
}

int main(void)
{
    struct err e = ERR_INIT;
    struct disk *d;
    test_civil();
    test_civil_carries();
    test_rules();
    test_rules_without_change();
    test_bad_rules();
    test_good_files();
    test_bad_files();
    test_cut_files();
    test_names();
    if (is_int(disk_real_new(&d, NULL, "", &e), 0, "the disk of this machine")) {
        test_known(d);
        test_all(d);
        disk_free(d);
    }
    return done_testing();
}
