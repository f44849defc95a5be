/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. The time left is what the steps so far took, spread over those to come. */
#include "cli/progress.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum { BAR = 30 };

struct progress {
    FILE *out;
    size_t total, done;
    bool terminal;
    struct timespec begin;
};

struct progress *progress_new(FILE *out, size_t total)
{
    struct progress *p = mem_zalloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->out = out;
    p->total = total;
    p->terminal = isatty(fileno(out));
    clock_gettime(CLOCK_MONOTONIC, &p->begin);
    return p;
}

void progress_step(struct progress *p, const char *label)
{
    struct timespec now;
    double spent;
    size_t filled;

    if (!p)
        return;
    p->done++;
    clock_gettime(CLOCK_MONOTONIC, &now);
    spent = (double)(now.tv_sec - p->begin.tv_sec) + (double)(now.tv_nsec - p->begin.tv_nsec) * 1e-9;
    if (!p->terminal) {
        fprintf(p->out, "%zu/%zu %s (%.1f s)\n", p->done, p->total, label, spent);
        return;
    }
    filled = p->total ? p->done * BAR / p->total : BAR;
    fprintf(p->out, "\r[%.*s%*s] %zu/%zu, %.0f s left, %.40s\033[K", (int)filled,
            "==============================", (int)(BAR - filled), "", p->done, p->total,
            spent / (double)p->done * (double)(p->total - p->done), label);
    fflush(p->out);
}

void progress_free(struct progress *p)
{
    if (p && p->terminal) {
        fputs("\r\033[K", p->out);
        fflush(p->out);
    }
    mem_free(p);
}
