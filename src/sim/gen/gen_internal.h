/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gen_internal.h - what the generators share: draws from tables, arrivals over a week, the shape of a job. */
#include "sim/gen/gen.h"
#include "sim/world/world_math.h"

/* What can be picked with unequal chances: weights add up to anything. */
struct gen_weight {
    int32_t value;
    uint32_t weight;
};

/* The value of one of `count` entries. */
int32_t gen_pick(struct rng *rng, const struct gen_weight *weights, size_t count);

/* One point of a distribution: this share of all (permille) lies at or below so many seconds. Between two points the
 * logarithm is linear. The first point has permille 0, the last 1000. */
struct gen_quantile {
    uint32_t permille;
    uint32_t seconds; /* > 0 */
};

/* A time in whole seconds, >= 1 s. */
usec_t gen_duration(struct rng *rng, const struct gen_quantile *points);

/* A model as made-up jobs use it. */
struct gen_model {
    const char *name;
    uint32_t weight;
    uint32_t memory_mib, batch; /* of one GPU */
    uint16_t utilisation, skew_permille;
};
extern const struct gen_model gen_models[];
enum { GEN_MODELS = 10 };

/* Index into gen_models. */
uint8_t gen_model_draw(struct rng *rng);

/* A job being made up. */
#define GEN_HEAD ((usec_t)-1)
struct gen_draft {
    usec_t submit;     /* GEN_HEAD until the arrivals are drawn; or so long after the last head before it */
    usec_t run;        /* until it ends by itself, is killed or fails for good: what it loads the cluster with */
    usec_t duration;   /* what it would take if nothing went wrong */
    usec_t estimate;   /* what the user says; 0 = nothing */
    usec_t fail_after; /* 0 = never */
    int32_t gpus, gpus_min, gpus_max;
    uint16_t user, vc;
    uint8_t model; /* index into gen_models */
    uint8_t fail, fail_times, klass;
    int16_t priority;
};

struct gen_drafts {
    struct gen_draft *jobs; /* owned */
    size_t count;
};

int gen_drafts_init(struct gen_drafts *drafts, size_t count, struct error *err);
void gen_drafts_done(struct gen_drafts *drafts);

/* How busy each hour of a week is, from Monday midnight; in percent of the mean of the day and of the week. */
struct gen_week {
    uint16_t hour[24], day[7];
};

/* Gives each head its instant, ascending, and moves those that follow it along: a Poisson process whose rate follows
 * the week, with all heads inside `span`. */
int gen_submit(struct rng *rng, const struct gen_week *week, usec_t span, struct gen_drafts *drafts, struct error *err);

/* The time over which the drafts load config->gpus with config->load. */
usec_t gen_span(const struct gen_drafts *drafts, const struct gen_config *config);

/* Sorts the drafts by submission and appends them as jobs 0, 1, ... */
int gen_finish(struct gen_drafts *drafts, struct trace *trace, struct error *err);

/* Names users "vc3-u7" and virtual clusters "vc3". */
int gen_people(struct trace *trace, int vcs, int users_each, struct error *err);

/* The smallest usual time limit (1 h, 4 h, ... 180 d) that leaves a fifth to spare. */
usec_t gen_time_limit(usec_t duration);

int gen_philly(const struct gen_config *config, struct trace *trace, struct error *err);
int gen_helios(const struct gen_config *config, struct trace *trace, struct error *err);
int gen_search(const struct gen_config *config, struct trace *trace, struct error *err);
int gen_sweep(const struct gen_config *config, struct trace *trace, struct error *err);
