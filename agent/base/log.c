// SPDX-License-Identifier: Apache-2.0
// A call's format is marked before it is filled in: the blanks between its words and the first '=' of a word become control
// bytes. So a value may hold blanks, quotes and equal signs without breaking out of its member, and a value that holds one of the
// marks itself is noticed by their number.
#include "base/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/syslogd.h"
#include "base/utf8.h"
#include "base/util.h"

enum {
    MSG_MAX = 1024, // a longer message is cut and ends in "..."
    FMT_MAX = 256,
    LINE_CAP = 8192, // every byte of a message may become six
    SITE_PER_MIN = 20,
    PATIENCE_MS = 50, // how long a full pipe is waited for, once; then lines are dropped until it drains
};

#define MARK_BLANK '\x1f'
#define MARK_EQUAL '\x1e'

static struct {
    enum log_level level;
    bool json, journal, daemon;
    struct syslogd syslogd; // where `daemon` writes to
    struct clock *clock;
    log_sink_fn *sink;
    void *sink_ctx;
    uint64_t trace;
    bool is_socket;
    bool torn;     // the last line was written in part
    unsigned lost; // lines, since the last one that was written
} lg = { .level = LOG_INFO };

static const char *const level_names[] = { "error", "warn", "info", "debug" };

// --- setup

static bool is_journal(const struct stat *st)
{
    const char *s = getenv("JOURNAL_STREAM");
    uintmax_t dev, ino;
    return s != NULL && sscanf(s, "%ju:%ju", &dev, &ino) == 2 && dev == (uintmax_t)st->st_dev && ino == (uintmax_t)st->st_ino;
}

static bool is_nowhere(void)
{
    struct stat st;
    return fstat(STDERR_FILENO, &st) < 0 || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)); // the number of /dev/null
}

void log_target(enum log_target target, const char *socket)
{
    bool daemon = target == LOG_TO_SYSLOG || (target == LOG_TO_AUTO && is_nowhere());
    lg.daemon = daemon && syslogd_init(&lg.syslogd, socket);
    if (!lg.daemon)
        syslogd_fini(&lg.syslogd);
}

void log_setup(enum log_level level, enum log_format format, struct clock *clock)
{
    struct stat st = { 0 };
    bool known = fstat(STDERR_FILENO, &st) == 0;
    lg.level = level;
    lg.clock = clock;
    lg.journal = !lg.daemon && known && is_journal(&st);
    lg.is_socket = S_ISSOCK(st.st_mode);
    lg.json = format == LOG_JSON || (format == LOG_AUTO && !lg.journal && !lg.daemon && !isatty(STDERR_FILENO));
}

void log_set_sink(log_sink_fn *sink, void *ctx)
{
    lg.sink = sink;
    lg.sink_ctx = ctx;
}

void log_set_trace(uint64_t id)
{
    lg.trace = id;
}

bool log_enabled(enum log_level level)
{
    return level <= lg.level;
}

// --- a line under construction

struct line {
    size_t n;
    char text[LINE_CAP];
};

static void put(struct line *l, const char *s, size_t n)
{
    n = MIN(n, sizeof(l->text) - 1 - l->n); // the newline's byte is kept free
    memcpy(l->text + l->n, s, n);
    l->n += n;
}

static void puts_(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

static void putf(struct line *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void putf(struct line *l, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    put(l, text, MIN((size_t)MAX(n, 0), sizeof(text) - 1));
}

static void put_json(struct line *l, const char *s, size_t n)
{
    while (n > 0) {
        size_t len = utf8_seq(s, n);
        unsigned char c = (unsigned char)*s;
        if (len == 0)
            puts_(l, "\\ufffd");
        else if (c == '"' || c == '\\')
            putf(l, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            putf(l, "\\u%04x", c);
        else
            put(l, s, len);
        len = MAX(len, (size_t)1);
        s += len;
        n -= len;
    }
}

// C1 controls act on terminals like the escape sequences they abbreviate.
static bool is_c1(const char *s, size_t len)
{
    return len == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0;
}

static void put_text(struct line *l, const char *s, size_t n)
{
    while (n > 0) {
        size_t len = utf8_seq(s, n);
        unsigned char c = (unsigned char)*s;
        if (len == 0 || c < 0x20 || c == 0x7f)
            putf(l, "\\x%02x", c);
        else if (is_c1(s, len))
            putf(l, "\\u%04x", (unsigned char)s[1]);
        else
            put(l, s, len);
        len = MAX(len, (size_t)1);
        s += len;
        n -= len;
    }
}

// --- from a format to marked words

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

// The length of a conversion ("%-5.*s"), whose blank flag is no end of a word.
static size_t conversion_len(const char *s)
{
    size_t n = 1 + strspn(s + 1, "-+ #0123456789.*hlqjzt");
    return s[n] != '\0' ? n + 1 : n;
}

// Marks a copy of the format; returns the number of marks, or -1 when it is too long to be marked.
static int mark_format(const char *fmt, char out[FMT_MAX])
{
    size_t n = strlen(fmt);
    if (n >= FMT_MAX)
        return -1;
    memcpy(out, fmt, n + 1);
    int marks = 0;
    bool quoted = false, keyed = false, key = true; // keyed: this word has its '='; key: so far it may be a key
    for (size_t i = 0, word = 0; i < n; i++) {
        char c = out[i];
        if (c == '%') {
            i += conversion_len(out + i) - 1;
            key = false;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (c == ' ' && !quoted) {
            out[i] = MARK_BLANK;
            marks++;
            word = i + 1;
            keyed = false;
            key = true;
        } else if (c == '=' && key && !keyed && i > word) {
            out[i] = MARK_EQUAL;
            marks++;
            keyed = true;
        } else {
            key = key && is_key_char(c);
        }
    }
    return marks;
}

static int count_marks(const char *s)
{
    int n = 0;
    for (; *s != '\0'; s++)
        n += *s == MARK_BLANK || *s == MARK_EQUAL;
    return n;
}

struct word {
    const char *key, *val; // key NULL: a plain word
    size_t key_len, val_len;
};

// Takes the next word off *s; false at the end. Quotes around a value were the format's and are dropped.
static bool next_word(const char **s, struct word *w)
{
    if (**s == '\0')
        return false;
    const char *start = *s;
    size_t n = strcspn(start, "\x1f");
    *s = start + n + (start[n] != '\0');
    *w = (struct word){ .val = start, .val_len = n };
    const char *eq = memchr(start, MARK_EQUAL, n);
    if (eq == NULL)
        return true;
    w->key = start;
    w->key_len = (size_t)(eq - start);
    w->val = eq + 1;
    w->val_len = n - w->key_len - 1;
    if (w->val_len >= 2 && w->val[0] == '"' && w->val[w->val_len - 1] == '"') {
        w->val++;
        w->val_len -= 2;
    }
    return true;
}

// --- the two forms

// Members that every line has; a pair of that name gets a "_".
static bool is_own_member(const struct word *w)
{
    static const char *const own[] = { "ts", "level", "module", "event", "trace_id", "msg" };
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == w->key_len && memcmp(own[i], w->key, w->key_len) == 0)
            return true;
    return false;
}

static void json_member(struct line *l, const char *key, const char *val, size_t val_len)
{
    putf(l, ",\"%s\":\"", key);
    put_json(l, val, val_len);
    puts_(l, "\"");
}

static void json_pairs(struct line *l, const char *msg)
{
    struct word w;
    while (next_word(&msg, &w)) {
        if (w.key == NULL)
            continue;
        puts_(l, ",\"");
        put_json(l, w.key, w.key_len);
        puts_(l, is_own_member(&w) ? "_\":\"" : "\":\"");
        put_json(l, w.val, w.val_len);
        puts_(l, "\"");
    }
}

// The words that are neither the event nor a pair.
static void json_rest(struct line *l, const char *msg)
{
    struct word w;
    bool any = false;
    while (next_word(&msg, &w)) {
        if (w.key != NULL || w.val_len == 0)
            continue;
        puts_(l, any ? " " : ",\"msg\":\"");
        put_json(l, w.val, w.val_len);
        any = true;
    }
    if (any)
        puts_(l, "\"");
}

static void json_line(struct line *l, enum log_level level, const char *module, const char *msg)
{
    char ts[RFC3339_MAX];
    puts_(l, "{");
    if (lg.clock != NULL)
        putf(l, "\"ts\":\"%s\",", rfc3339_micro(clock_wall_us(lg.clock), ts));
    putf(l, "\"level\":\"%s\"", level_names[level]);
    json_member(l, "module", module, strlen(module));
    const char *rest = msg;
    struct word w;
    if (next_word(&rest, &w) && w.key == NULL)
        json_member(l, "event", w.val, w.val_len);
    else
        rest = msg;
    if (lg.trace != 0)
        putf(l, ",\"trace_id\":\"%016" PRIx64 "\"", lg.trace);
    json_pairs(l, rest);
    json_rest(l, rest);
    puts_(l, "}");
}

static bool needs_quotes(const struct word *w)
{
    if (w->val_len == 0)
        return true;
    for (size_t i = 0; i < w->val_len; i++)
        if (w->val[i] == ' ' || w->val[i] == '"')
            return true;
    return false;
}

static void text_word(struct line *l, const struct word *w)
{
    puts_(l, " ");
    if (w->key == NULL) {
        put_text(l, w->val, w->val_len);
        return;
    }
    put_text(l, w->key, w->key_len);
    const char *quote = needs_quotes(w) ? "\"" : "";
    putf(l, "=%s", quote);
    put_text(l, w->val, w->val_len);
    puts_(l, quote);
}

static void put_priority(struct line *l, enum log_level level)
{
    enum { DAEMON = 3 << 3 };                       // the facility
    static const int priorities[] = { 3, 4, 6, 7 }; // err, warning, info, debug
    if (lg.daemon)
        putf(l, "<%d>limpet[%d]: ", DAEMON | priorities[level], (int)getpid());
    else if (lg.journal && !lg.json)
        putf(l, "<%d>", priorities[level]);
}

static void text_line(struct line *l, enum log_level level, const char *module, const char *msg)
{
    char ts[RFC3339_MAX];
    if (!lg.journal && !lg.daemon && lg.clock != NULL)
        putf(l, "%s ", rfc3339_micro(clock_wall_us(lg.clock), ts));
    putf(l, "%-5s ", level_names[level]);
    put_text(l, module, strlen(module));
    puts_(l, ":");
    struct word w;
    while (next_word(&msg, &w))
        text_word(l, &w);
    if (lg.trace != 0)
        putf(l, " trace_id=%016" PRIx64, lg.trace);
}

// --- out

// A piece as large as a pipe or socket takes at once when it says that it is writable.
enum { PIECE_MAX = 4096 };

// stderr is shared with others, so it is not made non-blocking: it is asked first. Once a line was lost nothing is waited for.
static bool write_piece(const char *s, size_t n)
{
    struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&p, 1, lg.lost > 0 ? 0 : PATIENCE_MS) != 1 || (p.revents & POLLOUT) == 0)
        return false;
    ssize_t r = lg.is_socket ? send(STDERR_FILENO, s, n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(STDERR_FILENO, s, n);
    return r == (ssize_t)n;
}

static bool write_stderr(const char *s, size_t n)
{
    if (lg.torn && !write_piece("\n", 1))
        return false;
    lg.torn = false;
    for (size_t at = 0; at < n; at += PIECE_MAX) {
        if (!write_piece(s + at, MIN(n - at, (size_t)PIECE_MAX))) {
            lg.torn = at > 0;
            return false;
        }
    }
    return true;
}

static bool write_line(enum log_level level, const char *module, const char *msg)
{
    struct line l;
    l.n = 0;
    put_priority(&l, level);
    if (lg.json)
        json_line(&l, level, module, msg);
    else
        text_line(&l, level, module, msg);
    if (lg.daemon && lg.sink == NULL)
        return syslogd_send(&lg.syslogd, l.text, l.n);
    l.text[l.n++] = '\n';
    if (lg.sink == NULL)
        return write_stderr(l.text, l.n);
    lg.sink(lg.sink_ctx, l.text, l.n);
    return true;
}

static void report_lost(void)
{
    char note[64];
    if (lg.lost == 0)
        return;
    snprintf(note, sizeof(note), "lines-lost%ccount%c%u", MARK_BLANK, MARK_EQUAL, lg.lost);
    if (write_line(LOG_WARN, "log", note))
        lg.lost = 0;
}

// --- limits

// Counts the call; false when it is one too many in its minute. *left_out: how many were, when a new minute begins.
static bool admit(struct log_site *site, unsigned *left_out)
{
    *left_out = 0;
    if (lg.clock == NULL)
        return true;
    int64_t now = clock_mono(lg.clock);
    if (site->in_window == 0 || now - site->window_ms >= 60000) {
        *left_out = site->left_out;
        *site = (struct log_site){ .window_ms = now };
    }
    if (site->in_window >= SITE_PER_MIN) {
        site->left_out++;
        return false;
    }
    site->in_window++;
    return true;
}

// No pairs: the first word is the event, all others are the text.
static void mark_plain(char *msg)
{
    for (; *msg != '\0'; msg++) {
        if (*msg == MARK_BLANK || *msg == MARK_EQUAL)
            *msg = '?';
        else if (*msg == ' ')
            *msg = MARK_BLANK;
    }
}

static void format_message(char msg[MSG_MAX], const char *fmt, va_list ap)
{
    char marked[FMT_MAX];
    va_list again;
    va_copy(again, ap);
    int marks = mark_format(fmt, marked);
    int n = marks < 0 ? MSG_MAX : vsnprintf(msg, MSG_MAX, marked, ap);
    if (n < 0 || n >= MSG_MAX || count_marks(msg) != marks) {
        n = vsnprintf(msg, MSG_MAX, fmt, again);
        mark_plain(msg);
    }
    va_end(again);
    if (n >= MSG_MAX) {
        size_t cut = utf8_cut(msg, MSG_MAX - sizeof("..."));
        memcpy(msg + cut, "...", sizeof("..."));
    }
}

static void report_left_out(enum log_level level, const char *module, const char *msg, unsigned left_out)
{
    char note[128];
    int event = (int)MIN(strcspn(msg, "\x1f\x1e"), (size_t)60);
    snprintf(note, sizeof(note), "left-out%ccount%c%u%cof%c%.*s", MARK_BLANK, MARK_EQUAL, left_out, MARK_BLANK, MARK_EQUAL, event, msg);
    write_line(level, module, note);
}

void log_at(struct log_site *site, enum log_level level, const char *module, const char *fmt, ...)
{
    unsigned left_out;
    if (!log_enabled(level) || !admit(site, &left_out))
        return;
    char msg[MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    format_message(msg, fmt, ap);
    va_end(ap);
    report_lost();
    if (left_out > 0)
        report_left_out(level, module, msg, left_out);
    if (!write_line(level, module, msg))
        lg.lost++;
}
