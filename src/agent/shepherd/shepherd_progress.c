/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_progress.c - how far the job says it is: on MUSTER_SOCKET, or by patterns in its output.
 *
 * What a job says costs others nothing, whatever it says. At most LINES_A_SECOND lines of the socket are read as
 * progress and PATTERN_BYTES of output are looked through a second, the rest is passed over; the agent hears of it once
 * a second at most, as a summary: the counter, its rate (coord/pace.h), and the mean of the losses since.
 */
#include <errno.h>
#include <string.h>

#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "coord/pace.h"
#include "wire/agent/progress.h"
#include "wire/text/pattern.h"

enum { LINES_A_SECOND = 200, PATTERN_BYTES = 32768, OUTPUT_LINE_MAX = 512 };

#define TELL_EVERY USEC_SEC

struct output_line {
    size_t size;
    char text[OUTPUT_LINE_MAX];
};

struct shepherd_progress {
    struct pattern *patterns[PROGRESS_WORD_COUNT]; /* owned; NULL = none for that word */
    struct output_line *lines;                     /* owned: of outlet i of process p, 2 p + i; NULL = no patterns */
    struct progress_line last;
    struct pace pace;
    double losses;
    uint32_t loss_count;
    usec_t spoke;        /* when the counter last moved, since 1970 */
    usec_t told, second; /* since boot: to the agent; the second that is counted */
    uint32_t lines_now, bytes_now;
    bool fresh, of_output;
};

static void patterns_open(struct shepherd *s, struct shepherd_progress *p)
{
    const char *name;
    json_t *value;
    bool any = false;

    json_object_foreach(json_object_get(s->plan, "progress"), name, value)
    {
        int word = progress_find(name, strlen(name));

        if (word < 0 || !json_is_string(value) || p->patterns[word])
            continue;
        p->patterns[word] = mem_zalloc(1, sizeof(**p->patterns));
        if (p->patterns[word] && pattern_compile(json_string_value(value), p->patterns[word], NULL) < 0)
            p->patterns[word] = (mem_free(p->patterns[word]), NULL); /* refused at submission */
        any |= p->patterns[word] != NULL;
    }
    if (any)
        p->lines = mem_zalloc(2 * (size_t)s->proc_count, sizeof(*p->lines));
}

static struct shepherd_progress *progress_open(struct shepherd *s)
{
    if (!s->progress) {
        s->progress = mem_zalloc(1, sizeof(*s->progress));
        if (s->progress)
            patterns_open(s, s->progress);
    }
    return s->progress;
}

/* What is counted within a second begins again with the next. */
static void second_begin(struct shepherd_progress *p, usec_t now)
{
    if (now - p->second < USEC_SEC)
        return;
    p->second = now;
    p->lines_now = p->bytes_now = 0;
}

/* What moves: steps; else samples, else epochs. -1: none of them was told. */
static int64_t counter_of(const struct progress_line *line)
{
    return progress_has(line, PROGRESS_STEP)      ? line->value[PROGRESS_STEP]
           : progress_has(line, PROGRESS_SAMPLES) ? line->value[PROGRESS_SAMPLES]
           : progress_has(line, PROGRESS_EPOCH)   ? line->value[PROGRESS_EPOCH]
                                                  : -1;
}

static void progress_note(struct shepherd_progress *p, const struct progress_line *line, usec_t now)
{
    int64_t before = counter_of(&p->last), after;

    /* Where several processes speak, the first of them is believed. */
    if (progress_has(line, PROGRESS_RANK) && progress_has(&p->last, PROGRESS_RANK) &&
        line->value[PROGRESS_RANK] > p->last.value[PROGRESS_RANK])
        return;
    for (int i = 0; i < PROGRESS_WORD_COUNT; i++)
        if (progress_has(line, (enum progress_word)i))
            p->last.value[i] = line->value[i];
    p->last.given |= line->given;
    after = counter_of(&p->last);
    if (after >= 0)
        pace_look(&p->pace, now, after);
    if (after != before)
        p->spoke = clock_real();
    if (progress_has(line, PROGRESS_LOSS)) {
        p->losses += (double)line->value[PROGRESS_LOSS];
        p->loss_count++;
    }
    p->fresh = true;
}

void shepherd_progress_line(struct shepherd *s, const char *text)
{
    struct shepherd_progress *p = progress_open(s);
    struct progress_line line;
    usec_t now = clock_boot();

    if (!p)
        return;
    second_begin(p, now);
    if (p->lines_now++ < LINES_A_SECOND && progress_parse(text, strlen(text), &line))
        progress_note(p, &line, now);
}

static void output_line_take(struct shepherd_progress *p, struct output_line *line, usec_t now)
{
    struct progress_line found = { 0 };
    size_t at, size;

    for (int i = 0; i < PROGRESS_WORD_COUNT; i++)
        if (p->patterns[i] && pattern_find(p->patterns[i], line->text, line->size, &at, &size))
            (void)progress_set(&found, (enum progress_word)i, line->text + at, size);
    if (!found.given)
        return;
    p->of_output = true;
    progress_note(p, &found, now);
}

void shepherd_progress_output(struct shepherd *s, const struct outlet *outlet, const char *data, size_t size)
{
    struct shepherd_progress *p = s->progress;
    struct output_line *line = NULL;
    usec_t now;

    if (!p && json_object_get(s->plan, "progress"))
        p = progress_open(s);
    if (!p || !p->lines)
        return;
    for (uint32_t i = 0; i < s->proc_count && !line; i++)
        line = outlet == &s->procs[i].out ? &p->lines[2 * i] : outlet == &s->procs[i].err ? &p->lines[2 * i + 1] : NULL;
    if (!line)
        return;
    now = clock_boot();
    second_begin(p, now);
    for (size_t i = 0; i < size; i++) {
        bool end = data[i] == '\n' || data[i] == '\r'; /* the latter by bars that draw themselves again */

        if (!end && line->size < OUTPUT_LINE_MAX)
            line->text[line->size++] = data[i];
        if (!end)
            continue;
        p->bytes_now += (uint32_t)line->size;
        if (line->size && p->bytes_now <= PATTERN_BYTES)
            output_line_take(p, line, now);
        line->size = 0;
    }
}

static json_t *summary_of(const struct shepherd_progress *p)
{
    const struct progress_line *last = &p->last;
    int64_t rate = pace_rate(&p->pace);
    json_t *summary =
        json_pack("{sI,sI,sb}", "rate", (json_int_t)rate, "at", (json_int_t)p->spoke, "output", p->of_output);

    for (int i = 0; i < PROGRESS_WORD_COUNT; i++)
        if (progress_has(last, (enum progress_word)i) && i != PROGRESS_LOSS && i != PROGRESS_RANK)
            (void)json_object_set_new(summary, progress_name((enum progress_word)i), json_integer(last->value[i]));
    if (p->loss_count)
        (void)json_object_set_new(summary, "loss", json_integer((json_int_t)(p->losses / p->loss_count)));
    return summary;
}

usec_t shepherd_progress_due(struct shepherd *s, usec_t now)
{
    struct shepherd_progress *p = s->progress;

    if (!p || !p->fresh || s->peer < 0)
        return USEC_NEVER;
    if (now < p->told + TELL_EVERY)
        return p->told + TELL_EVERY;
    p->told = now;
    p->fresh = false;
    shepherd_tell(s, json_pack("{so}", "progress", summary_of(p)));
    p->losses = 0;
    p->loss_count = 0;
    return USEC_NEVER;
}

void shepherd_progress_repeat(struct shepherd *s)
{
    if (s->progress)
        s->progress->fresh = true;
}

void shepherd_progress_close(struct shepherd *s)
{
    struct shepherd_progress *p = s->progress;

    for (int i = 0; p && i < PROGRESS_WORD_COUNT; i++)
        mem_free(p->patterns[i]);
    if (p)
        mem_free(p->lines);
    mem_free(p);
    s->progress = NULL;
}
