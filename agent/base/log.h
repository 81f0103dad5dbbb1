// SPDX-License-Identifier: Apache-2.0
// log — one line per fact: module, event text as key=value, the id of the reconcile pass.
//
// log_info("sync", "relist kind=%s rv=%s", ...). Text on a terminal, JSON lines otherwise ({"ts","level","module","event",
// "trace_id",...}: the first word of the text is the event, key=value pairs become members), with "<N>" priorities when
// stderr is the journal (JOURNAL_STREAM matches). Repeats of one message are limited (20 a minute per call site; then one
// line says how many were left out). Secrets have no printf path: nothing here takes a struct secret.
// To the machine's log daemon (log_target): text without a time, "<N>limpet[PID]: " before it, a datagram a line.
// Never blocks on a full pipe for ever: stderr is written once per line, a short write drops the rest. The daemon is not waited for at all.
// Lines that were lost are counted, and the next one that is not says how many.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/clock.h"
#include "base/err.h"

enum log_level { LOG_ERROR = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_DEBUG = 3 };
enum log_format { LOG_AUTO, LOG_TEXT, LOG_JSON };
enum log_target { LOG_TO_AUTO, LOG_TO_STDERR, LOG_TO_SYSLOG }; // auto: stderr, unless it is /dev/null or closed

// `clock` may be NULL before it exists (then no timestamps). `sink` NULL = stderr; tests and the simulator give their own.
typedef void log_sink_fn(void *ctx, const char *line, size_t len);
// Before log_setup(). `socket`: of the log daemon; too long a path is stderr. Without this call: stderr.
void log_target(enum log_target target, const char *socket);
void log_setup(enum log_level level, enum log_format format, struct clock *clock);
void log_set_sink(log_sink_fn *sink, void *ctx);
void log_set_trace(uint64_t id); // 0 = no pass under way
bool log_enabled(enum log_level level);

struct log_site { // one per call site; static
    int64_t window_ms;
    unsigned in_window, left_out;
};
void log_at(struct log_site *site, enum log_level level, const char *module, const char *fmt, ...) PRINTF_LIKE(4, 5);

#define LOG_AT_(level, module, ...)                             \
    do {                                                        \
        static struct log_site log_site_;                       \
        if (log_enabled(level))                                 \
            log_at(&log_site_, (level), (module), __VA_ARGS__); \
    } while (0)
#define log_error(module, ...) LOG_AT_(LOG_ERROR, module, __VA_ARGS__)
#define log_warn(module, ...) LOG_AT_(LOG_WARN, module, __VA_ARGS__)
#define log_info(module, ...) LOG_AT_(LOG_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) LOG_AT_(LOG_DEBUG, module, __VA_ARGS__)

#endif
