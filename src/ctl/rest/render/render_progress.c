/* SPDX-License-Identifier: Apache-2.0 */
/* render_progress.c - how far a running job says it is, with where the number is from. */
#include "ctl/rest/render/render.h"

/* When it will have made all its steps, at the rate it has; 0 = nobody can tell, as of one that does not move now. */
static usec_t progress_end(const struct ctl_job *job)
{
    const struct ctl_progress *p = &job->progress;
    int64_t left = p->row[COLUMN_TOTAL] - p->row[COLUMN_STEP], rate = p->row[COLUMN_RATE];
    __int128 span;

    if (job->phase != PHASE_JOB_RUNNING || p->state != CTL_PROGRESS_MOVES || p->row[COLUMN_TOTAL] <= 0 ||
        p->row[COLUMN_STEP] < 0 || left < 0 || rate <= 0)
        return 0;
    span = (__int128)left * 1000000 * USEC_SEC / rate;
    return span < 100 * 365 * USEC_DAY ? p->heard + (usec_t)span : 0;
}

static void number_put(struct json_write *json, const char *key, int64_t number, double unit, bool given)
{
    if (given)
        json_write_double(json, key, (double)number / unit);
    else
        json_write_null(json, key);
}

void put_progress(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    static const char *const states[] = { "", "moving", "stalled" }, *const sources[] = { "socket", "output", "runtime",
                                                                                          "emulated" };
    const struct ctl_progress *p = &job->progress;
    const struct ctl_attempt *attempt = attempt_last(job);

    if (!p->heard || !attempt || attempt->number != p->attempt ||
        !auth_sees(scene->who, scene->registry, job, scene->cluster)) {
        json_write_null(json, "progress");
        return;
    }
    json_write_object(json, "progress");
    json_write_text(json, "state", states[p->state]);
    json_write_text(json, "source", sources[p->source]);
    number_put(json, "step", p->row[COLUMN_STEP], 1, p->row[COLUMN_STEP] >= 0);
    number_put(json, "total", p->row[COLUMN_TOTAL], 1, p->row[COLUMN_TOTAL] > 0);
    number_put(json, "epoch", p->row[COLUMN_EPOCH], 1e3, p->row[COLUMN_EPOCH] >= 0);
    number_put(json, "rate", p->row[COLUMN_RATE], 1e6, p->row[COLUMN_RATE] > 0);
    number_put(json, "loss", p->row[COLUMN_LOSS], 1e9, p->row[COLUMN_LOSS] != MEASURES_NO_LOSS);
    put_time(json, "end", progress_end(job));
    put_time(json, "heard", p->heard);
    json_write_close(json);
}
