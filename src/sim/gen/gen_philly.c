/* SPDX-License-Identifier: Apache-2.0 */
/* gen_philly.c - a workload shaped like Microsoft's Philly (Jeon et al., ATC'19).
 *
 * 93 % of the jobs ask for one GPU; run times span six decades, and the jobs with many GPUs run longer; three virtual
 * clusters send nine jobs of ten; weekends are quiet. About 31 % end killed or unsuccessful, the long ones more often,
 * so they take about half of the GPU-time. Numbers are rounded from published statistics; no job is copied.
 */
#include "sim/gen/gen_internal.h"

enum { VCS = 10, USERS = 12, STREAM_JOBS = 1, STREAM_TIMES = 2 };

static const struct gen_weight sizes[] = {
    { 1, 9270 }, { 2, 245 }, { 4, 240 }, { 8, 215 }, { 16, 20 }, { 32, 9 }, { 64, 1 },
};

static const struct gen_quantile times_one[] = {
    { 0, 5 },      { 20, 30 },     { 100, 60 },    { 250, 90 },     { 400, 450 },    { 500, 980 },      { 750, 2960 },
    { 900, 9100 }, { 950, 21400 }, { 980, 80000 }, { 990, 147000 }, { 998, 600000 }, { 1000, 1800000 },
};
static const struct gen_quantile times_few[] = {
    { 0, 8 },       { 100, 20 },     { 300, 60 },     { 450, 700 },    { 600, 12000 },
    { 800, 80000 }, { 900, 150000 }, { 950, 210000 }, { 990, 600000 }, { 1000, 1800000 },
};
static const struct gen_quantile times_many[] = {
    { 0, 20 },       { 100, 180 },    { 250, 1400 },    { 500, 22000 },    { 750, 150000 },
    { 900, 300000 }, { 950, 450000 }, { 990, 1000000 }, { 1000, 2400000 },
};

/* Who sends small jobs and who sends large ones. */
static const struct gen_weight vcs_small[] = {
    { 0, 560 }, { 1, 220 }, { 2, 135 }, { 3, 25 }, { 4, 18 }, { 5, 16 }, { 6, 12 }, { 7, 8 }, { 8, 4 }, { 9, 2 },
};
static const struct gen_weight vcs_large[] = {
    { 0, 60 }, { 1, 90 }, { 2, 120 }, { 3, 190 }, { 4, 160 }, { 5, 150 }, { 6, 90 }, { 7, 70 }, { 8, 40 }, { 9, 30 },
};

static const struct gen_week week = {
    .hour = { 95,  85,  80,  75,  70,  70,  75,  85,  100, 115, 125, 125,
              115, 115, 125, 130, 130, 120, 110, 100, 100, 100, 100, 95 },
    .day = { 100, 115, 120, 130, 120, 55, 60 },
};

/* How it ends: 0 well, 1 killed by its user, 2 unsuccessful; by how long it runs. */
static int draw_end(struct rng *rng, usec_t run)
{
    uint64_t u = rng_below(rng, 1000);
    unsigned killed = run < USEC_HOUR ? 135 : run < USEC_DAY ? 230 : 420;

    if (u < killed)
        return 1;
    return u < killed + 190 ? 2 : 0;
}

static void fail(struct rng *rng, struct gen_draft *draft, int end)
{
    uint64_t blame = rng_below(rng, 100);
    uint64_t more = 1050 + rng_below(rng, 450); /* permille of the run it would have needed */

    if (end == 2 && blame >= 60 && blame < 85) {
        /* A passing trouble: one or two attempts die, the next goes through. What dies comes before the end. */
        draft->fail = blame < 75 ? FAIL_SYSTEM : FAIL_UNKNOWN;
        draft->fail_times = (uint8_t)(1 + rng_below(rng, 2));
        draft->fail_after = 1 + (usec_t)rng_below(rng, (uint64_t)draft->run);
        return;
    }
    /* What every attempt runs into again is not the cluster's. */
    draft->fail = end == 1 || blame < 60 ? FAIL_USER : FAIL_UNKNOWN;
    draft->fail_times = UINT8_MAX;
    draft->fail_after = draft->run;
    draft->duration = muldiv_ceil(draft->run, (int64_t)more, 1000);
}

static void draw(struct rng *rng, const struct gen_config *config, struct gen_draft *draft)
{
    int end;

    draft->submit = GEN_HEAD;
    do
        draft->gpus = gen_pick(rng, sizes, sizeof(sizes) / sizeof(sizes[0]));
    while (draft->gpus > 1 && draft->gpus > config->gpus / 2);
    draft->gpus_min = draft->gpus_max = draft->gpus;
    draft->run = gen_duration(rng, draft->gpus == 1 ? times_one : draft->gpus < 8 ? times_few : times_many);
    draft->duration = draft->run;
    draft->vc = (uint16_t)gen_pick(rng, draft->gpus == 1 ? vcs_small : vcs_large, VCS);
    /* The lesser of two draws: few users send most of the jobs. */
    draft->user = (uint16_t)rng_below(rng, USERS);
    draft->user = (uint16_t)(draft->vc * USERS + rng_below(rng, (uint64_t)draft->user + 1));
    draft->model = gen_model_draw(rng);
    end = draw_end(rng, draft->run);
    if (end)
        fail(rng, draft, end);
}

int gen_philly(const struct gen_config *config, struct trace *trace, struct error *err)
{
    struct rng rng = math_stream(config->seed, STREAM_JOBS, 0);
    struct gen_drafts drafts;
    int r = gen_drafts_init(&drafts, config->jobs, err);

    for (size_t i = 0; r == 0 && i < drafts.count; i++)
        draw(&rng, config, &drafts.jobs[i]);
    rng = math_stream(config->seed, STREAM_TIMES, 0);
    if (r == 0)
        r = gen_submit(&rng, &week, gen_span(&drafts, config), &drafts, err);
    if (r == 0)
        r = gen_people(trace, VCS, USERS, err);
    if (r == 0)
        r = gen_finish(&drafts, trace, err);
    gen_drafts_done(&drafts);
    return r;
}
