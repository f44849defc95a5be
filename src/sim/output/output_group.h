/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* output_group.h - runs that differ in the seed only, taken together.
 *
 * A single seed proves nothing: what is compared is a group of runs, by its least, mean and greatest value.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "sim/result.h"

/* A number of the summary that runs are compared by. */
struct metric {
    const char *name;                                                  /* "AVG-JCT", upper case, for the terminal */
    const char *title;                                                 /* "Average JCT", for the report */
    const char *help;                                                  /* one sentence */
    size_t offset;                                                     /* into struct summary */
    enum metric_kind { METRIC_SPAN, METRIC_RATIO, METRIC_COUNT } kind; /* double seconds, double ratio, uint64 */
    enum metric_better { BETTER_LESS, BETTER_MORE, BETTER_NONE } better;
};

extern const struct metric metrics_list[]; /* closed by an entry without a name */

double metric_of(const struct metric *metric, const struct run_result *run);

/* The value for people. Returns `buffer`. */
char *metric_text(const struct metric *metric, double value, char *buffer, size_t size);

struct run_group {
    const struct run_result *const *runs; /* in the order given; the first stands for the group in plots */
    size_t count;
    size_t base;     /* the first group of the same trace: what it is compared with */
    char label[640]; /* the policy, and whatever else tells this group from the others */
};

struct run_groups {
    struct run_group *items; /* owned; in the order of their first runs */
    size_t count;
    const struct run_result **runs; /* owned; what the items point into */
    bool seeds;                     /* some group has more than one run */
    bool traces, clusters;          /* there are several */
};

/* -ENOMEM. */
int run_groups_init(struct run_groups *groups, const struct run_result *const *runs, size_t count);
void run_groups_done(struct run_groups *groups);

/* Whether runs of one trace finished different numbers of jobs, so that their means are over different jobs. */
bool groups_unequal(const struct run_groups *groups);

struct spread {
    double min, mean, max; /* NaN where no run has the number */
};

struct spread group_spread(const struct run_group *group, const struct metric *metric);

/* Average JCT of `base` / that of `group`, run against run of the same seed where both have it, else mean by mean. */
struct spread group_speedup(const struct run_group *base, const struct run_group *group);

/* Of the groups whose base is `base`, the first with the best mean; groups->count when the metric has no better, all
 * read the same, or there is only one. Different traces are never compared. */
size_t groups_best(const struct run_groups *groups, const struct metric *metric, size_t base);

/* Whether the group's mean reads the same as that of the best of its trace: what looks equal is marked alike. */
bool groups_is_best(const struct run_groups *groups, const struct metric *metric, size_t index);
