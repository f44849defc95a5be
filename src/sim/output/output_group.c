/* SPDX-License-Identifier: Apache-2.0 */
/* output_group.c - see output_group.h. */
#include "sim/output/output_group.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/output/output_text.h"

#define FIELD(name) offsetof(struct summary, name)

const struct metric metrics_list[] = {
    { "AVG-JCT", "Average JCT", "From submission to end, mean over finished jobs.", FIELD(avg_jct), METRIC_SPAN,
      BETTER_LESS },
    { "P50-JCT", "Median JCT", "Half of the finished jobs took no longer.", FIELD(p50_jct), METRIC_SPAN, BETTER_LESS },
    { "P95-JCT", "95th percentile JCT", "19 of 20 finished jobs took no longer.", FIELD(p95_jct), METRIC_SPAN,
      BETTER_LESS },
    { "MAX-JCT", "Longest JCT", "The job that took longest.", FIELD(max_jct), METRIC_SPAN, BETTER_LESS },
    { "AVG-QUEUE", "Average queueing", "Completion time beyond what the job needs alone.", FIELD(avg_queue),
      METRIC_SPAN, BETTER_LESS },
    { "MAKESPAN", "Makespan", "From the first submission to the last end.", FIELD(makespan), METRIC_SPAN, BETTER_LESS },
    { "UTIL", "GPU utilization", "GPU time that made progress, of all healthy GPU time.", FIELD(gpu_utilization),
      METRIC_RATIO, BETTER_MORE },
    { "FRAG", "Wanted but idle", "GPUs idle while waiting jobs asked for them, mean while jobs waited.",
      FIELD(fragmentation), METRIC_RATIO, BETTER_LESS },
    { "MISSED", "Deadlines missed", "Of the jobs that have a deadline.", FIELD(deadline_miss), METRIC_RATIO,
      BETTER_LESS },
    { "PREEMPT", "Preemptions", "Times a job was stopped to make room.", FIELD(preemptions), METRIC_COUNT,
      BETTER_NONE },
    { "MIGRATE", "Migrations", "Times a job was moved.", FIELD(migrations), METRIC_COUNT, BETTER_NONE },
    { "SPLICE", "Splices", "Times a job went on with more or fewer GPUs and the same world.", FIELD(splices),
      METRIC_COUNT, BETTER_NONE },
    { 0 },
};

double metric_of(const struct metric *metric, const struct run_result *run)
{
    const char *at = (const char *)&run->summary + metric->offset;
    uint64_t count;
    double value;

    if (metric->kind == METRIC_COUNT) {
        memcpy(&count, at, sizeof(count));
        return (double)count;
    }
    if (run->summary.finished == 0 && metric->offset != FIELD(deadline_miss))
        return (double)NAN; /* a mean over nothing, a span without an end: not 0, which would be the best there is */
    memcpy(&value, at, sizeof(value));
    return value;
}

char *metric_text(const struct metric *metric, double value, char *buffer, size_t size)
{
    switch (metric->kind) {
    case METRIC_SPAN:
        return text_span(buffer, size, value);
    case METRIC_RATIO:
        return text_ratio(buffer, size, value);
    case METRIC_COUNT:
        break;
    }
    if (value >= 0 && value < 1e18)
        return text_count(buffer, size, (uint64_t)llround(value));
    snprintf(buffer, size, "-");
    return buffer;
}

static bool same_but_seed(const struct run_result *a, const struct run_result *b)
{
    return strcmp(a->policy, b->policy) == 0 && strcmp(a->trace_name, b->trace_name) == 0 &&
           strcmp(a->cluster_name, b->cluster_name) == 0 && strcmp(a->settings, b->settings) == 0;
}

/* Which fields differ between groups, and so belong into their labels. */
struct differing {
    bool trace, cluster, settings;
};

static struct differing groups_differ(const struct run_groups *groups)
{
    struct differing differ = { 0 };

    for (size_t i = 1; i < groups->count; i++) {
        const struct run_result *a = groups->items[0].runs[0], *b = groups->items[i].runs[0];

        differ.trace |= strcmp(a->trace_name, b->trace_name) != 0;
        differ.cluster |= strcmp(a->cluster_name, b->cluster_name) != 0;
        differ.settings |= strcmp(a->settings, b->settings) != 0;
    }
    return differ;
}

static void label_add(char *label, size_t size, const char *text)
{
    size_t length = strlen(label);

    if (*text)
        snprintf(label + length, size - length, "%s%s", length ? ", " : "", text);
}

int run_groups_init(struct run_groups *groups, const struct run_result *const *runs, size_t count)
{
    struct run_groups made = { .items = mem_zalloc(count, sizeof(*made.items)),
                               .runs = mem_zalloc(count, sizeof(*made.runs)) };
    size_t used = 0;
    struct differing differ;

    if (!made.items || !made.runs) {
        run_groups_done(&made);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct run_group *group = &made.items[made.count];
        bool known = false;

        for (size_t k = 0; k < made.count && !known; k++)
            known = same_but_seed(made.items[k].runs[0], runs[i]);
        if (known)
            continue;
        group->runs = &made.runs[used];
        for (size_t k = i; k < count; k++)
            if (same_but_seed(runs[i], runs[k]))
                made.runs[used++] = runs[k];
        group->count = (size_t)(&made.runs[used] - group->runs);
        made.seeds |= group->count > 1;
        made.count++;
    }
    differ = groups_differ(&made);
    made.traces = differ.trace;
    made.clusters = differ.cluster;
    for (size_t i = 0; i < made.count; i++) {
        struct run_group *group = &made.items[i];

        while (strcmp(made.items[group->base].runs[0]->trace_name, group->runs[0]->trace_name) != 0)
            group->base++;
        label_add(group->label, sizeof(group->label), group->runs[0]->policy);
        label_add(group->label, sizeof(group->label), differ.trace ? group->runs[0]->trace_name : "");
        label_add(group->label, sizeof(group->label), differ.cluster ? group->runs[0]->cluster_name : "");
        label_add(group->label, sizeof(group->label), differ.settings ? group->runs[0]->settings : "");
    }
    *groups = made;
    return 0;
}

void run_groups_done(struct run_groups *groups)
{
    mem_free(groups->items);
    mem_free(groups->runs);
    *groups = (struct run_groups){ 0 };
}

bool groups_unequal(const struct run_groups *groups)
{
    for (size_t i = 1; i < groups->count; i++) {
        const struct run_group *group = &groups->items[i], *first = &groups->items[group->base];

        for (size_t k = 0; k < group->count; k++)
            for (size_t j = 0; j < first->count; j++)
                if (group->runs[k]->seed == first->runs[j]->seed &&
                    group->runs[k]->summary.finished != first->runs[j]->summary.finished)
                    return true;
    }
    return false;
}

static void spread_add(struct spread *spread, size_t *n, double value)
{
    if (isnan(value))
        return;
    if (!*n || value < spread->min)
        spread->min = value;
    if (!*n || value > spread->max)
        spread->max = value;
    spread->mean = *n ? spread->mean + value : value; /* the sum, until spread_end() */
    ++*n;
}

static void spread_end(struct spread *spread, size_t n)
{
    if (n)
        spread->mean /= (double)n;
}

struct spread group_spread(const struct run_group *group, const struct metric *metric)
{
    struct spread spread = { (double)NAN, (double)NAN, (double)NAN };
    size_t n = 0;

    for (size_t i = 0; i < group->count; i++)
        spread_add(&spread, &n, metric_of(metric, group->runs[i]));
    spread_end(&spread, n);
    return spread;
}

struct spread group_speedup(const struct run_group *base, const struct run_group *group)
{
    struct spread spread = { (double)NAN, (double)NAN, (double)NAN };
    size_t n = 0;

    for (size_t i = 0; i < group->count; i++)
        for (size_t k = 0; k < base->count; k++)
            if (base->runs[k]->seed == group->runs[i]->seed && group->runs[i]->summary.avg_jct > 0 &&
                base->runs[k]->summary.avg_jct > 0)
                spread_add(&spread, &n, base->runs[k]->summary.avg_jct / group->runs[i]->summary.avg_jct);
    if (!n) {
        double ours = group_spread(group, &metrics_list[0]).mean;

        if (ours > 0)
            spread_add(&spread, &n, group_spread(base, &metrics_list[0]).mean / ours);
    }
    spread_end(&spread, n);
    return spread;
}

static bool reads_same(const struct metric *metric, double a, double b)
{
    char left[40], right[40];

    return strcmp(metric_text(metric, a, left, sizeof(left)), metric_text(metric, b, right, sizeof(right))) == 0;
}

size_t groups_best(const struct run_groups *groups, const struct metric *metric, size_t base)
{
    double best = (double)NAN;
    size_t at = groups->count;
    bool differ = false, missing = false;

    if (metric->better == BETTER_NONE)
        return groups->count;
    for (size_t i = base; i < groups->count; i++) {
        double value = group_spread(&groups->items[i], metric).mean;

        if (groups->items[i].base != base)
            continue;
        missing |= isnan(value);
        if (isnan(value))
            continue;
        differ |= !isnan(best) && !reads_same(metric, value, best);
        if (isnan(best) || (metric->better == BETTER_LESS ? value < best : value > best)) {
            best = value;
            at = i;
        }
    }
    return differ || missing ? at : groups->count; /* to have none is to differ */
}

bool groups_is_best(const struct run_groups *groups, const struct metric *metric, size_t index)
{
    size_t best = groups_best(groups, metric, groups->items[index].base);

    return best < groups->count && reads_same(metric, group_spread(&groups->items[best], metric).mean,
                                              group_spread(&groups->items[index], metric).mean);
}
