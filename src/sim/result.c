/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - see result.h.
 *
 * A week of a busy cluster changes its state a million times; a plot shows a thousand points. So what is kept is
 * bounded, and what must be exact (sums over time) is added up as the samples pass.
 */
#include "sim/result.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void run_result_done(struct run_result *result)
{
    mem_free(result->jobs);
    mem_free(result->vc_samples);
    mem_free(result->spans);
    mem_free(result->marks);
    mem_free(result->timeline.bins);
    told_done(&result->told);
    *result = (struct run_result){ 0 };
}

/* Adds the time from tally->last.at to `at` to the sums. Time before the first submit counts for nothing. */
static void tally_advance(struct tally *tally, usec_t first, usec_t at)
{
    const struct sample *last = &tally->last;
    usec_t from = last->at > first ? last->at : first;
    int64_t idle = last->mgpu_total - last->mgpu_held;
    double span;

    if (!tally->has_last || at <= from)
        return;
    span = (double)(at - from);
    tally->capacity += (double)last->mgpu_total * span;
    tally->twice += (double)last->mgpu_twice * span;
    if (!last->waiting)
        return;
    tally->waiting_span += at - from;
    if (idle > last->mgpu_waiting)
        idle = last->mgpu_waiting;
    if (idle > 0 && last->mgpu_total > 0)
        tally->wanted_idle += (double)idle / (double)last->mgpu_total * span;
}

static void bin_add(struct timebin *bin, usec_t span, const struct sample *sample)
{
    bool first = bin->span == 0;

    bin->span += span;
    bin->held += (double)sample->mgpu_held * (double)span;
    bin->total += (double)sample->mgpu_total * (double)span;
    bin->waiting += (double)sample->waiting * (double)span;
    if (first || sample->mgpu_held < bin->held_min)
        bin->held_min = sample->mgpu_held;
    if (first || sample->mgpu_held > bin->held_max)
        bin->held_max = sample->mgpu_held;
    if (first || sample->waiting < bin->waiting_min)
        bin->waiting_min = sample->waiting;
    if (first || sample->waiting > bin->waiting_max)
        bin->waiting_max = sample->waiting;
}

static void bin_join(struct timebin *to, const struct timebin *from)
{
    if (!from->span)
        return;
    if (!to->span) {
        *to = *from;
        return;
    }
    to->span += from->span;
    to->held += from->held;
    to->total += from->total;
    to->waiting += from->waiting;
    if (from->held_min < to->held_min)
        to->held_min = from->held_min;
    if (from->held_max > to->held_max)
        to->held_max = from->held_max;
    if (from->waiting_min < to->waiting_min)
        to->waiting_min = from->waiting_min;
    if (from->waiting_max > to->waiting_max)
        to->waiting_max = from->waiting_max;
}

static void timeline_widen(struct timeline *line)
{
    for (size_t i = 0; i < TIMEBINS / 2; i++) {
        struct timebin joined = line->bins[2 * i];

        bin_join(&joined, &line->bins[2 * i + 1]);
        line->bins[i] = joined;
    }
    memset(&line->bins[TIMEBINS / 2], 0, TIMEBINS / 2 * sizeof(*line->bins));
    line->count = (line->count + 1) / 2;
    line->width *= 2;
}

/* Adds the state `sample` from `from` to `to`. The first call sets where the line starts. */
static void timeline_add(struct timeline *line, usec_t from, usec_t to, const struct sample *sample)
{
    if (!line->width) {
        line->start = from;
        line->width = 1;
    }
    while ((to - line->start - 1) / line->width >= TIMEBINS)
        timeline_widen(line);
    while (from < to) {
        size_t at = (size_t)((from - line->start) / line->width);
        usec_t end = line->start + (usec_t)(at + 1) * line->width;

        bin_add(&line->bins[at], (end < to ? end : to) - from, sample);
        if (at >= line->count)
            line->count = at + 1;
        from = end;
    }
}

int run_result_sample(struct run_result *result, const struct sample *sample)
{
    struct tally *tally = &result->tally;
    usec_t first = result->job_count ? result->jobs[0].submit : INT64_MIN;

    assert(!tally->has_last || sample->at >= tally->last.at);
    if (!result->timeline.bins) {
        result->timeline.bins = mem_zalloc(TIMEBINS, sizeof(*result->timeline.bins));
        if (!result->timeline.bins)
            return -ENOMEM;
    }
    tally_advance(tally, first, sample->at);
    if (tally->has_last) {
        usec_t from = tally->last.at > first ? tally->last.at : first;

        if (sample->at > from)
            timeline_add(&result->timeline, from, sample->at, &tally->last);
    }
    tally->last = *sample;
    tally->has_last = true;
    return 0;
}

static int compare_at(const void *left, const void *right)
{
    const struct vc_sample *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->vc < b->vc ? -1 : a->vc > b->vc;
}

/* Keeps the newest sample of each virtual cluster in each time bucket, in order of time. */
static size_t vc_samples_thin(struct vc_sample *samples, size_t count)
{
    size_t kept = 0;
    usec_t start = samples[0].at, width = (samples[count - 1].at - start) / (VC_SAMPLES_MAX / 4 / VC_SERIES_MAX) + 1;

    for (size_t i = 0; i < count;) {
        usec_t bucket = (samples[i].at - start) / width;
        size_t begin = kept, place[VC_SERIES_MAX];

        for (size_t vc = 0; vc < VC_SERIES_MAX; vc++)
            place[vc] = SIZE_MAX;
        for (; i < count && (samples[i].at - start) / width == bucket; i++) {
            size_t *at = &place[samples[i].vc];

            if (*at == SIZE_MAX)
                *at = kept++;
            samples[*at] = samples[i]; /* never ahead of what is read: kept <= i */
        }
        qsort(&samples[begin], kept - begin, sizeof(*samples), compare_at);
    }
    return kept;
}

int run_result_vc_sample(struct run_result *result, const struct vc_sample *sample)
{
    int r;

    if (sample->vc >= VC_SERIES_MAX)
        return 0;
    if (result->vc_sample_count == VC_SAMPLES_MAX)
        result->vc_sample_count = vc_samples_thin(result->vc_samples, result->vc_sample_count);
    r = mem_grow((void **)&result->vc_samples, &result->vc_sample_capacity, result->vc_sample_count + 1, VC_SAMPLES_MAX,
                 sizeof(*result->vc_samples));
    if (r < 0)
        return r;
    result->vc_samples[result->vc_sample_count++] = *sample;
    return 0;
}

int run_result_span(struct run_result *result, const struct span *span)
{
    int r;

    if (result->gpu_count > SPAN_GPUS_MAX || (result->spans_until && span->from >= result->spans_until))
        return 0;
    if (!result->spans_until && result->span_count >= SPANS_MAX)
        result->spans_until = span->to;
    if (result->span_count == 2 * (size_t)SPANS_MAX) /* bars that overlap without end: not a cluster */
        return 0;
    r = mem_grow((void **)&result->spans, &result->span_capacity, result->span_count + 1, 2 * (size_t)SPANS_MAX,
                 sizeof(*result->spans));
    if (r < 0)
        return r;
    result->spans[result->span_count++] = *span;
    return 0;
}

int run_result_mark(struct run_result *result, const struct mark *mark)
{
    int r;

    if (result->gpu_count > SPAN_GPUS_MAX || (result->spans_until && mark->at >= result->spans_until))
        return 0;
    if (result->mark_count == RUN_MARKS_MAX) {
        result->spans_until = mark->at;
        return 0;
    }
    r = mem_grow((void **)&result->marks, &result->mark_capacity, result->mark_count + 1, RUN_MARKS_MAX,
                 sizeof(*result->marks));
    if (r < 0)
        return r;
    result->marks[result->mark_count++] = *mark;
    return 0;
}
