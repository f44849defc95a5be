/* SPDX-License-Identifier: Apache-2.0 */
/* told.c - see told.h. */
#include "sim/driver/told.h"

#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "sim/result.h"

void told_done(struct told *told)
{
    mem_free(told->samples);
    mem_free(told->predictions);
    *told = (struct told){ 0 };
}

bool told_due(const struct told *told, usec_t now)
{
    return !told->sample_count || now >= told->samples[told->sample_count - 1].at + told->gap;
}

int told_levels(struct told *told, const struct level_sample *sample)
{
    if (!told->samples)
        told->samples = mem_zalloc(TOLD_SAMPLES, sizeof(*told->samples));
    if (!told->samples)
        return -ENOMEM;
    if (told->sample_count == TOLD_SAMPLES) {
        usec_t span = sample->at - told->samples[0].at;

        for (size_t i = 0; i < TOLD_SAMPLES / 2; i++)
            told->samples[i] = told->samples[2 * i];
        told->sample_count = TOLD_SAMPLES / 2;
        told->gap = span / (TOLD_SAMPLES / 2);
    }
    told->samples[told->sample_count++] = *sample;
    return 0;
}

int told_predicted(struct told *told, const struct prediction *prediction)
{
    if (!told->predictions)
        told->predictions = mem_zalloc(TOLD_PREDICTIONS, sizeof(*told->predictions));
    if (!told->predictions)
        return -ENOMEM;
    if (++told->skipped < told->stride)
        return 0;
    told->skipped = 0;
    if (told->prediction_count == TOLD_PREDICTIONS) {
        for (size_t i = 0; i < TOLD_PREDICTIONS / 2; i++)
            told->predictions[i] = told->predictions[2 * i];
        told->prediction_count = TOLD_PREDICTIONS / 2;
        told->stride = told->stride ? told->stride * 2 : 2;
    }
    told->predictions[told->prediction_count++] = *prediction;
    return 0;
}

usec_t told_truth(const struct run_result *run, const struct prediction *prediction)
{
    const struct job_result *job = &run->jobs[prediction->job];

    if (job->outcome != OUTCOME_DONE || job->end < prediction->at || job->start < 0 || job->end <= job->start)
        return -1;
    return job->end - prediction->at;
}

static void summarize_levels(const struct run_result *run, struct told_summary *ret)
{
    const struct told *told = &run->told;
    double all = 0;

    for (size_t i = 0; i < told->sample_count; i++) {
        const struct level_sample *sample = &told->samples[i];
        usec_t until = i + 1 < told->sample_count ? told->samples[i + 1].at : run->tally.last.at;
        double span = until > sample->at ? (double)(until - sample->at) : 0;

        all += span;
        for (int k = 0; k < TOLD_LEVELS; k++) {
            ret->mean_jobs[k] += span * sample->jobs[k];
            if (sample->jobs[k] > ret->max_jobs[k])
                ret->max_jobs[k] = sample->jobs[k];
        }
    }
    for (int k = 0; k < TOLD_LEVELS && all > 0; k++)
        ret->mean_jobs[k] /= all;
}

void told_summarize(const struct run_result *run, struct told_summary *ret)
{
    const struct told *told = &run->told;

    *ret = (struct told_summary){ .error = 0 };
    summarize_levels(run, ret);
    for (size_t i = 0; i < told->prediction_count; i++) {
        const struct prediction *p = &told->predictions[i];
        usec_t truth = told_truth(run, p);
        double life, error;
        int quarter;

        if (truth < 0)
            continue;
        life = (double)(run->jobs[p->job].end - run->jobs[p->job].start);
        error = fabs((double)(p->left - truth)) / life;
        quarter = (int)(TOLD_QUARTERS * (1 - (double)truth / life));
        quarter = quarter < 0 ? 0 : quarter < TOLD_QUARTERS ? quarter : TOLD_QUARTERS - 1;
        ret->predictions++;
        ret->error += error;
        ret->error_quarter[quarter] += error;
        ret->count_quarter[quarter]++;
    }
    ret->error = ret->predictions ? ret->error / (double)ret->predictions : (double)NAN;
    for (int q = 0; q < TOLD_QUARTERS; q++)
        ret->error_quarter[q] =
            ret->count_quarter[q] ? ret->error_quarter[q] / (double)ret->count_quarter[q] : (double)NAN;
}
