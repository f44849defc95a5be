/* SPDX-License-Identifier: Apache-2.0 */
/* trace_stat.c - see trace_stat.h. Percentiles are elements of the sorted list, as everywhere (S7). */
#include "cli/sim/trace_stat.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output_text.h"
#include "wire/text/json_write.h"

static const struct {
    const char *name;
    usec_t below;
} spans[STAT_SPANS] = {
    { "< 10s", 10 * USEC_SEC },     { "10s - 1m", USEC_MIN },  { "1m - 5m", 5 * USEC_MIN },
    { "5m - 15m", 15 * USEC_MIN },  { "15m - 1h", USEC_HOUR }, { "1h - 4h", 4 * USEC_HOUR },
    { "4h - 12h", 12 * USEC_HOUR }, { "12h - 1d", USEC_DAY },  { "1d - 7d", 7 * USEC_DAY },
    { "> 7d", USEC_NEVER },
};

static int compare_i32(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;

    return a < b ? -1 : a > b;
}

static int compare_usec(const void *left, const void *right)
{
    usec_t a = *(const usec_t *)left, b = *(const usec_t *)right;

    return a < b ? -1 : a > b;
}

static double hours_of(const struct trace_job *job)
{
    return (double)job->spec.gpus * (double)job->spec.share / (double)MGPU_ONE * (double)job->truth.duration /
           (double)USEC_HOUR;
}

/* The sizes that occur, from the smallest; what is beyond the table goes to its last entry. */
static int sizes_list(const struct trace *trace, struct trace_stat *stat)
{
    int32_t *gpus = mem_zalloc(trace->count, sizeof(*gpus));

    if (!gpus)
        return -ENOMEM;
    for (size_t i = 0; i < trace->count; i++)
        gpus[i] = trace->jobs[i].spec.gpus;
    qsort(gpus, trace->count, sizeof(*gpus), compare_i32);
    for (size_t i = 0; i < trace->count && stat->size_count < STAT_SIZES_MAX; i++)
        if (i == 0 || gpus[i] != gpus[i - 1])
            stat->sizes[stat->size_count++].gpus = gpus[i];
    mem_free(gpus);
    return 0;
}

static void job_count(struct trace_stat *stat, const struct trace_job *job)
{
    const struct jobspec *spec = &job->spec;
    double hours = hours_of(job);
    size_t at = 0, last = stat->size_count - 1;

    while (at < last && stat->sizes[at].gpus != spec->gpus)
        at++;
    stat->sizes[at].jobs++;
    stat->sizes[at].gpu_hours += hours;
    for (at = 0; job->truth.duration >= spans[at].below;)
        at++;
    if (job->truth.duration > 0) {
        stat->spans[at].jobs++;
        stat->spans[at].gpu_hours += hours;
    }
    stat->gpu_hours += hours;
    stat->shared += spec->share < MGPU_ONE;
    stat->elastic += spec->gpus_min != spec->gpus_max;
    stat->deadlines += spec->deadline_count > 0;
    stat->strict += spec->deadline_count > 0 && spec->slo == SLO_STRICT;
    stat->soft += spec->deadline_count > 0 && spec->slo == SLO_SOFT;
    stat->opportunistic += spec->klass == CLASS_OPPORTUNISTIC;
    stat->failing += job->truth.fail != FAIL_NONE;
}

static int durations_sum(const struct trace *trace, struct trace_stat *stat)
{
    usec_t *durations = mem_zalloc(trace->count, sizeof(*durations));
    double sum = 0;
    size_t count = 0;

    if (!durations)
        return -ENOMEM;
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->jobs[i].truth.duration == 0)
            continue;
        durations[count++] = trace->jobs[i].truth.duration;
        sum += (double)trace->jobs[i].truth.duration;
    }
    stat->timed = count;
    if (count) {
        qsort(durations, count, sizeof(*durations), compare_usec);
        stat->duration_p50 = (double)durations[(count - 1) / 2] / (double)USEC_SEC;
        stat->duration_p95 = (double)durations[percentile_index(count, 95)] / (double)USEC_SEC;
        stat->duration_max = (double)durations[count - 1] / (double)USEC_SEC;
        stat->duration_mean = sum / (double)count / (double)USEC_SEC;
    }
    mem_free(durations);
    return 0;
}

int trace_stat(const struct trace *trace, struct trace_stat *ret_stat, struct error *err)
{
    struct trace_stat stat = { .jobs = trace->count };

    for (size_t i = 0; i < STAT_SPANS; i++)
        stat.spans[i].name = spans[i].name;
    if (sizes_list(trace, &stat) < 0 || durations_sum(trace, &stat) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < trace->count; i++)
        job_count(&stat, &trace->jobs[i]);
    stat.first_submit = (double)trace->jobs[0].spec.submit / (double)USEC_SEC;
    stat.last_submit = (double)trace->jobs[trace->count - 1].spec.submit / (double)USEC_SEC;
    if (stat.last_submit > stat.first_submit)
        stat.demand = stat.gpu_hours * 3600 / (stat.last_submit - stat.first_submit);
    stat.users = trace->users.count;
    stat.vcs = trace->vcs.count;
    stat.models = trace->models.count;
    *ret_stat = stat;
    return 0;
}

/* A bar of eighths of a character, `width` characters for 1. */
static void bar_print(FILE *out, double part, int width)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int filled = (int)lround(part * width * 8);

    if (filled == 0 && part > 0)
        filled = 1;
    for (; filled >= 8; filled -= 8)
        fputs("█", out);
    fprintf(out, "%s\n", eighths[filled]);
}

static void histogram_line(FILE *out, const char *label, uint64_t jobs, double hours, const struct trace_stat *stat,
                           double most)
{
    char count[32], ratio[2][32];

    fprintf(out, "%10s  %11s  %6s  %6s  ", label, text_count(count, sizeof(count), jobs),
            text_ratio(ratio[0], sizeof(ratio[0]), (double)jobs / (double)stat->jobs),
            text_ratio(ratio[1], sizeof(ratio[1]), stat->gpu_hours > 0 ? hours / stat->gpu_hours : (double)NAN));
    bar_print(out, (double)jobs / most, 30);
}

static void histograms_print(FILE *out, const struct trace_stat *stat)
{
    uint64_t most = 1;

    for (size_t i = 0; i < stat->size_count; i++)
        most = stat->sizes[i].jobs > most ? stat->sizes[i].jobs : most;
    fprintf(out, "\n%10s  %11s  %6s  %6s\n", "GPUS", "JOBS", "JOBS%", "TIME%");
    for (size_t i = 0; i < stat->size_count; i++) {
        char label[32];

        (void)snprintf(label, sizeof(label), "%d%s", stat->sizes[i].gpus, i + 1 == STAT_SIZES_MAX ? "+" : "");
        histogram_line(out, label, stat->sizes[i].jobs, stat->sizes[i].gpu_hours, stat, (double)most);
    }
    if (stat->timed == 0)
        return;
    most = 1;
    for (size_t i = 0; i < STAT_SPANS; i++)
        most = stat->spans[i].jobs > most ? stat->spans[i].jobs : most;
    fprintf(out, "\n%10s  %11s  %6s  %6s\n", "DURATION", "JOBS", "JOBS%", "TIME%");
    for (size_t i = 0; i < STAT_SPANS; i++)
        histogram_line(out, stat->spans[i].name, stat->spans[i].jobs, stat->spans[i].gpu_hours, stat, (double)most);
}

static void kinds_print(FILE *out, const struct trace_stat *stat)
{
    const struct {
        const char *name;
        uint64_t count;
    } kinds[] = {
        { "users", stat->users },
        { "vcs", stat->vcs },
        { "models", stat->models },
        { "jobs with a share of a GPU", stat->shared },
        { "elastic jobs", stat->elastic },
        { "jobs with strict deadlines", stat->strict },
        { "jobs with soft deadlines", stat->soft },
        { "opportunistic jobs", stat->opportunistic },
        { "jobs that fail", stat->failing },
        { "jobs without a duration", stat->jobs - stat->timed },
    };
    char count[32];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].count)
            fprintf(out, "%-28s%s\n", kinds[i].name, text_count(count, sizeof(count), kinds[i].count));
}

void trace_stat_print(FILE *out, const struct trace_stat *stat, const char *name, const char *cluster, int64_t gpus)
{
    char text[4][32];

    fprintf(out, "%-28s%s\n", "trace", name);
    fprintf(out, "%-28s%s\n", "jobs", text_count(text[0], sizeof(text[0]), stat->jobs));
    fprintf(out, "%-28s%s (from %ss)\n", "submitted over",
            text_span(text[0], sizeof(text[0]), stat->last_submit - stat->first_submit),
            text_count(text[1], sizeof(text[1]), (uint64_t)stat->first_submit));
    if (stat->timed) {
        fprintf(out, "%-28sp50 %s  mean %s  p95 %s  max %s\n", "duration",
                text_span(text[0], sizeof(text[0]), stat->duration_p50),
                text_span(text[1], sizeof(text[1]), stat->duration_mean),
                text_span(text[2], sizeof(text[2]), stat->duration_p95),
                text_span(text[3], sizeof(text[3]), stat->duration_max));
        fprintf(out, "%-28s%.1f\n", "GPU-hours", stat->gpu_hours);
        if (stat->demand > 0)
            fprintf(out, "%-28s%.1f GPUs\n", "mean demand", stat->demand);
        if (gpus && stat->demand > 0)
            fprintf(out, "%-28s%.3f on %s (%lld GPUs)\n", "offered load", stat->demand / (double)gpus, cluster,
                    (long long)gpus);
    }
    kinds_print(out, stat);
    histograms_print(out, stat);
}

static void json_optional(struct json_write *json, const char *key, bool known, double value)
{
    if (known)
        json_write_double(json, key, value);
    else
        json_write_null(json, key);
}

static void json_totals(struct json_write *json, const struct trace_stat *stat, int64_t gpus)
{
    bool timed = stat->timed > 0, demand = stat->demand > 0;

    json_write_u64(json, "jobs", stat->jobs);
    json_write_u64(json, "jobs_with_duration", stat->timed);
    json_write_double(json, "first_submit_seconds", stat->first_submit);
    json_write_double(json, "last_submit_seconds", stat->last_submit);
    json_write_double(json, "span_seconds", stat->last_submit - stat->first_submit);
    json_optional(json, "duration_p50_seconds", timed, stat->duration_p50);
    json_optional(json, "duration_mean_seconds", timed, stat->duration_mean);
    json_optional(json, "duration_p95_seconds", timed, stat->duration_p95);
    json_optional(json, "duration_max_seconds", timed, stat->duration_max);
    json_optional(json, "gpu_hours", timed, stat->gpu_hours);
    json_optional(json, "mean_demand_gpus", demand, stat->demand);
    json_optional(json, "cluster_gpus", gpus > 0, (double)gpus);
    json_optional(json, "offered_load_ratio", gpus > 0 && demand, demand ? stat->demand / (double)gpus : 0);
    json_write_u64(json, "users", stat->users);
    json_write_u64(json, "vcs", stat->vcs);
    json_write_u64(json, "models", stat->models);
    json_write_u64(json, "shared_jobs", stat->shared);
    json_write_u64(json, "elastic_jobs", stat->elastic);
    json_write_u64(json, "deadline_jobs", stat->deadlines);
    json_write_u64(json, "strict_jobs", stat->strict);
    json_write_u64(json, "soft_jobs", stat->soft);
    json_write_u64(json, "opportunistic_jobs", stat->opportunistic);
    json_write_u64(json, "failing_jobs", stat->failing);
}

void trace_stat_json(struct buf *out, const struct trace_stat *stat, const char *name, int64_t gpus)
{
    struct json_write json;

    json_write_init(&json, out, true);
    json_write_object(&json, NULL);
    json_write_text(&json, "trace", name);
    json_totals(&json, stat, gpus);
    json_write_array(&json, "sizes");
    for (size_t i = 0; i < stat->size_count; i++) {
        json_write_object(&json, NULL);
        json_write_i64(&json, "gpus", stat->sizes[i].gpus);
        json_write_u64(&json, "jobs", stat->sizes[i].jobs);
        json_write_double(&json, "gpu_hours", stat->sizes[i].gpu_hours);
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_array(&json, "durations");
    for (size_t i = 0; i < STAT_SPANS; i++) {
        json_write_object(&json, NULL);
        json_write_text(&json, "span", stat->spans[i].name);
        json_write_u64(&json, "jobs", stat->spans[i].jobs);
        json_write_double(&json, "gpu_hours", stat->spans[i].gpu_hours);
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_close(&json);
}
