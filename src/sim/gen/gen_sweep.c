/* SPDX-License-Identifier: Apache-2.0 */
/* gen_sweep.c - days of hyper-parameter search.
 *
 * A search is a batch of equal trials that one user sends within a minute: same model, same GPUs, same budget. It is
 * run by successive halving: at 1/8, 1/4 and 1/2 of the budget the worse half of what is left is stopped, so of n
 * trials n/2 end at the first rung, n/4 at the second, n/8 at the third, and the rest runs to the end. The user, and
 * so the estimate, knows the budget only. One trial in twenty diverges and dies within minutes. Between searches there
 * are 1-GPU development jobs, and after a third of the searches a long final run of the winner on 4 or 8 GPUs, elastic.
 */
#include "sim/gen/gen_internal.h"

enum { VCS = 4, USERS = 10, STREAM_JOBS = 5, STREAM_TIMES = 6 };

static const struct gen_weight trial_counts[] = {
    { 8, 20 }, { 16, 30 }, { 32, 25 }, { 64, 15 }, { 128, 8 }, { 256, 2 }
};
static const struct gen_weight trial_gpus[] = { { 1, 80 }, { 2, 14 }, { 4, 6 } };
static const struct gen_quantile budgets[] = {
    { 0, 900 }, { 250, 3600 }, { 500, 7200 }, { 850, 21600 }, { 1000, 86400 }
};
static const struct gen_quantile crashes[] = { { 0, 20 }, { 500, 90 }, { 1000, 600 } };
static const struct gen_quantile develops[] = { { 0, 20 }, { 300, 120 }, { 700, 900 }, { 950, 7200 }, { 1000, 28800 } };
static const struct gen_quantile finals[] = { { 0, 7200 }, { 500, 28800 }, { 1000, 172800 } };

static const struct gen_week
    week = {
        .hour = { 60,  45,  35,  30,  25,  25,  35,  55,  95,  145, 160, 150,
                  115, 130, 155, 165, 165, 160, 150, 125, 105, 95,  90,  85 },
        .day = { 115, 120, 120, 120, 110, 60, 55 },
    };

static void draw_user(struct rng *rng, struct gen_draft *draft)
{
    uint64_t vc = rng_below(rng, VCS);

    draft->vc = (uint16_t)vc;
    draft->user = (uint16_t)(vc * USERS + rng_below(rng, USERS));
}

static void set_gpus(struct gen_draft *draft, int32_t gpus, int32_t low, int32_t high)
{
    draft->gpus = gpus;
    draft->gpus_min = low;
    draft->gpus_max = high;
}

static void draw_trial(struct rng *rng, struct gen_draft *draft, usec_t budget)
{
    uint64_t u = rng_below(rng, 8);
    int rung = u < 4 ? 3 : u < 6 ? 2 : u < 7 ? 1 : 0; /* ends at budget / 2^rung */

    draft->estimate = budget;
    draft->run = draft->duration = budget >> rung;
    if (rng_below(rng, 20) == 0) {
        draft->run = gen_duration(rng, crashes);
        draft->duration = budget > draft->run ? budget : draft->run + USEC_SEC;
        draft->fail = FAIL_USER;
        draft->fail_times = UINT8_MAX;
        draft->fail_after = draft->run;
    }
}

/* As many trials as fit; the final run follows when a trial at full budget would be over. Returns how many jobs. */
static size_t draw_search(struct rng *rng, const struct gen_config *config, struct gen_draft *jobs, size_t left)
{
    size_t trials = (size_t)gen_pick(rng, trial_counts, sizeof(trial_counts) / sizeof(trial_counts[0]));
    int32_t gpus = gen_pick(rng, trial_gpus, sizeof(trial_gpus) / sizeof(trial_gpus[0]));
    usec_t budget = gen_duration(rng, budgets);
    struct gen_draft like = { .model = gen_model_draw(rng), .klass = CLASS_OPPORTUNISTIC };
    size_t count = trials < left ? trials : left;

    draw_user(rng, &like);
    gpus = gpus < config->gpus ? gpus : config->gpus;
    set_gpus(&like, gpus, gpus, gpus);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = like;
        draw_trial(rng, &jobs[i], budget);
        jobs[i].submit = i ? (usec_t)rng_below(rng, 60) * USEC_SEC : GEN_HEAD;
    }
    if (count < left && rng_below(rng, 3) == 0 && config->gpus >= 8) {
        jobs[count] = like;
        jobs[count].klass = CLASS_GUARANTEED;
        jobs[count].priority = 10;
        jobs[count].run = jobs[count].duration = jobs[count].estimate = gen_duration(rng, finals);
        jobs[count].submit = budget + 20 * USEC_MIN;
        gpus = rng_below(rng, 2) ? 8 : 4;
        set_gpus(&jobs[count++], gpus, gpus / 2, gpus * 2 < config->gpus ? gpus * 2 : config->gpus);
    }
    return count;
}

static size_t draw_develop(struct rng *rng, struct gen_draft *draft)
{
    *draft = (struct gen_draft){ .submit = GEN_HEAD, .model = gen_model_draw(rng), .klass = CLASS_GUARANTEED };
    draw_user(rng, draft);
    set_gpus(draft, 1, 1, 1);
    draft->run = draft->duration = gen_duration(rng, develops);
    return 1;
}

int gen_sweep(const struct gen_config *config, struct trace *trace, struct error *err)
{
    struct rng rng = math_stream(config->seed, STREAM_JOBS, 0);
    struct gen_drafts drafts;
    int r = gen_drafts_init(&drafts, config->jobs, err);

    if (r == 0) {
        for (size_t i = 0; i < drafts.count;) {
            bool search = rng_below(&rng, 5) == 0;

            i += search ? draw_search(&rng, config, &drafts.jobs[i], drafts.count - i)
                        : draw_develop(&rng, &drafts.jobs[i]);
        }
        rng = math_stream(config->seed, STREAM_TIMES, 0);
        r = gen_submit(&rng, &week, gen_span(&drafts, config), &drafts, err);
    }
    if (r == 0)
        r = gen_people(trace, VCS, USERS, err);
    if (r == 0)
        r = gen_finish(&drafts, trace, err);
    gen_drafts_done(&drafts);
    return r;
}
