/* SPDX-License-Identifier: Apache-2.0 */
#include "io/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

enum { LINES_A_SECOND = 500, LINE_MAX_BYTES = 4096, VALUE_MAX_BYTES = 512 };

static const char *const level_names[LOGLEVEL_COUNT] = { "err", "warn", "info", "debug" };
static const char journal_priority[LOGLEVEL_COUNT] = { '3', '4', '6', '7' };

static struct {
    pthread_mutex_t lock;
    _Atomic int level;
    time_t second;
    unsigned told, dropped;
} log_state = { .lock = PTHREAD_MUTEX_INITIALIZER, .level = LOGLEVEL_INFO };

void log_level_set(enum log_level level)
{
    log_state.level = (int)level;
}

bool log_wants(enum log_level level)
{
    return (int)level <= log_state.level;
}

int log_level_find(const char *name)
{
    for (int i = 0; i < LOGLEVEL_COUNT; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -ENOENT;
}

const char *log_i64(int64_t value, char *out)
{
    (void)snprintf(out, 24, "%" PRId64, value);
    return out;
}

/* Bare where that is unambiguous, else in quotes with escapes. */
static void value_put(struct buf *line, const char *value)
{
    size_t length = strlen(value), shown = length < VALUE_MAX_BYTES ? length : VALUE_MAX_BYTES;
    bool bare = length > 0;

    for (size_t i = 0; bare && i < shown; i++)
        bare = value[i] > ' ' && value[i] < 127 && !strchr("\"\\=", value[i]);
    if (bare) {
        buf_put(line, value, shown);
    } else {
        buf_char(line, '"');
        for (size_t i = 0; i < shown; i++) {
            unsigned char c = (unsigned char)value[i];

            if (c == '"' || c == '\\')
                buf_printf(line, "\\%c", c);
            else if (c < ' ' || c == 127)
                buf_printf(line, "\\x%02x", c);
            else
                buf_char(line, (char)c);
        }
        buf_char(line, '"');
    }
    if (shown < length)
        buf_text(line, "...");
}

static void line_begin(struct buf *line, enum log_level level)
{
    struct timespec now;
    struct tm tm;
    char text[32];

    if (getenv("JOURNAL_STREAM")) {
        buf_printf(line, "<%c>", journal_priority[level]);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(line, "%s.%03ldZ %s ", text, now.tv_nsec / 1000000, level_names[level]);
}

/* Whether the line may go out; lines dropped in seconds before are told first. */
static bool rate_allows(enum log_level level, struct buf *line)
{
    time_t now = time(NULL);

    if (now != log_state.second) {
        if (log_state.dropped) {
            line_begin(line, LOGLEVEL_WARN);
            buf_printf(line, "lines dropped count=%u\n", log_state.dropped);
        }
        log_state.second = now;
        log_state.told = log_state.dropped = 0;
    }
    if (level > LOGLEVEL_ERR && log_state.told >= LINES_A_SECOND) {
        log_state.dropped++;
        return false;
    }
    log_state.told++;
    return true;
}

void log_put(enum log_level level, const char *message, ...)
{
    CLEANUP_BUF struct buf line = BUF_INIT((size_t)LINE_MAX_BYTES * 4);
    const char *key, *value;
    va_list args;

    pthread_mutex_lock(&log_state.lock);
    if (log_wants(level) && rate_allows(level, &line)) {
        line_begin(&line, level);
        buf_text(&line, message);
        va_start(args, message);
        while ((key = va_arg(args, const char *)) != NULL) {
            value = va_arg(args, const char *);
            buf_printf(&line, " %s=", key);
            value_put(&line, value ? value : "");
        }
        va_end(args);
        buf_char(&line, '\n');
        if (line.data)
            (void)!write(STDERR_FILENO, line.data, line.size);
    }
    pthread_mutex_unlock(&log_state.lock);
}
