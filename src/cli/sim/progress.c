/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. The rate is that since the beginning: runs differ in length, and a rate of the last few
 * would jump. */
#include "cli/sim/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum { BAR_MAX = 30, LINE_MAX_COLUMNS = 200, REDRAW_MSEC = 100 };

static usec_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (usec_t)now.tv_sec * USEC_SEC + now.tv_nsec / 1000;
}

static int terminal_width(const struct progress *progress)
{
    struct winsize size;

    if (progress->width > 0)
        return progress->width;
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col < LINE_MAX_COLUMNS ? size.ws_col : LINE_MAX_COLUMNS;
    return 80;
}

struct progress *progress_new(FILE *out, size_t total)
{
    const char *term = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe): before any thread */
    struct progress *progress = mem_zalloc(1, sizeof(*progress));

    if (!progress)
        return NULL;
    *progress = (struct progress){ .out = out, .total = total, .begun = clock_now(), .drawn = -1 };
    progress->terminal = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
    return progress;
}

/* "3s", "2m05s", "1h10m": seconds are enough for what is left. */
static void span_text(char *text, size_t size, usec_t span)
{
    int64_t s = (span + USEC_SEC / 2) / USEC_SEC;

    if (s < 60)
        (void)snprintf(text, size, "%" PRId64 "s", s);
    else if (s < 3600)
        (void)snprintf(text, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else
        (void)snprintf(text, size, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
}

/* Rate and time left, or nothing while neither is known. */
static void rate_text(const struct progress *progress, usec_t now, char *text, size_t size)
{
    usec_t spent = now - progress->begun;
    double rate;
    char left[32];

    text[0] = 0;
    if (!progress->done || spent <= 0)
        return;
    rate = (double)progress->done * (double)USEC_SEC / (double)spent;
    if (progress->done < progress->total) {
        span_text(left, sizeof(left),
                  muldiv_ceil(spent, (int64_t)(progress->total - progress->done), (int64_t)progress->done));
        (void)snprintf(text, size, "  %.*f/s  ETA %s", rate < 100, rate, left);
    } else {
        span_text(left, sizeof(left), spent);
        (void)snprintf(text, size, "  %.*f/s  took %s", rate < 100, rate, left);
    }
}

void progress_render(const struct progress *progress, usec_t now, const char *label, char *line, size_t size)
{
    char rate[80], bar[BAR_MAX + 1], text[LINE_MAX_COLUMNS + 512];
    int width = terminal_width(progress), cells = width / 3 < BAR_MAX ? width / 3 : BAR_MAX, full = cells;
    size_t length, room = (size_t)width < size - 1 ? (size_t)width : size - 1;

    if (progress->total && progress->done < progress->total)
        full = (int)muldiv_floor((int64_t)progress->done, cells, (int64_t)progress->total);
    memset(bar, '-', (size_t)cells);
    memset(bar, '#', (size_t)full);
    bar[cells] = 0;
    rate_text(progress, now, rate, sizeof(rate));
    (void)snprintf(text, sizeof(text), "[%s] %zu/%zu%s  %.400s", bar, progress->done, progress->total, rate, label);
    length = strlen(text);
    if (length > room)
        length = room;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) /* not in the middle of a character */
        length--;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    memcpy(line, text, length);
    line[length] = 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?'; /* a name must not move the cursor */
}

void progress_step(struct progress *progress, const char *label)
{
    char line[LINE_MAX_COLUMNS + 1];
    usec_t now = clock_now();

    if (!progress)
        return;
    progress->done++;
    if (!progress->terminal) {
        fprintf(progress->out, "%zu/%zu %s\n", progress->done, progress->total, label);
        return;
    }
    if (progress->drawn >= 0 && now - progress->drawn < REDRAW_MSEC * USEC_MSEC && progress->done < progress->total)
        return;
    progress_render(progress, now, label, line, sizeof(line));
    fprintf(progress->out, "\r%s\x1b[K", line);
    (void)fflush(progress->out);
    progress->drawn = now;
}

void progress_free(struct progress *progress)
{
    if (progress && progress->terminal && progress->drawn >= 0) {
        fputs("\r\x1b[K", progress->out);
        (void)fflush(progress->out);
    }
    mem_free(progress);
}
