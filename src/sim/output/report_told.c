/* SPDX-License-Identifier: Apache-2.0 */
/* report_told.c - what policies tell of themselves, in the report's data. See report.h and told.h. */
#include <math.h>

#include "sim/output/report.h"
#include "wire/text/json_write.h"

enum { POINTS_SHOWN = 1500 };

static double seconds(usec_t span)
{
    return round((double)span / 1e3) / 1e3;
}

/* Jobs in each queue: at = seconds since the first submit, then a list a queue. */
static void put_levels(struct json_write *json, const struct run_result *run)
{
    const struct told *told = &run->told;
    int levels = told->levels < TOLD_LEVELS ? told->levels : TOLD_LEVELS;

    json_write_object(json, "levels");
    if (told->promotions >= 0)
        json_write_i64(json, "promotions", told->promotions);
    json_write_array(json, "at");
    for (size_t i = 0; i < told->sample_count; i++)
        json_write_double(json, NULL, seconds(told->samples[i].at - run->timeline.start));
    json_write_close(json);
    json_write_array(json, "jobs");
    for (int k = 0; k < levels; k++) {
        json_write_array(json, NULL);
        for (size_t i = 0; i < told->sample_count; i++)
            json_write_u64(json, NULL, told->samples[i].jobs[k]);
        json_write_close(json);
    }
    json_write_close(json);
    json_write_close(json);
}

/* predicted, true, quarter, ...: time left of jobs that finished, thinned evenly. And the mean errors. */
static void put_predictions(struct json_write *json, const struct run_result *run)
{
    const struct told *told = &run->told;
    size_t stride = told->prediction_count / POINTS_SHOWN + 1;
    struct told_summary sum;

    told_summarize(run, &sum);
    if (!sum.predictions)
        return;
    json_write_object(json, "predictions");
    json_write_array(json, "errors");
    for (int q = 0; q < TOLD_QUARTERS; q++)
        json_write_double(json, NULL, sum.count_quarter[q] ? round(sum.error_quarter[q] * 1e4) / 1e4 : -1);
    json_write_close(json);
    json_write_array(json, "points");
    for (size_t i = 0; i < told->prediction_count; i += stride) {
        usec_t truth = told_truth(run, &told->predictions[i]);

        if (truth <= 0 || told->predictions[i].left <= 0)
            continue;
        json_write_double(json, NULL, seconds(told->predictions[i].left));
        json_write_double(json, NULL, seconds(truth));
    }
    json_write_close(json);
    json_write_close(json);
}

void report_data_told(struct json_write *json, const struct run_result *run)
{
    if (run->told.levels > 0 && run->told.sample_count)
        put_levels(json, run);
    if (run->told.prediction_count)
        put_predictions(json, run);
}
