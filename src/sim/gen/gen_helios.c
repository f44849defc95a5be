/* SPDX-License-Identifier: Apache-2.0 */
/* gen_helios.c - a workload shaped like SenseTime's Helios Venus cluster (Hu et al., SC'21).
 *
 * Half of the jobs ask for one GPU, a quarter for a whole node of eight, a tenth for more; half are over in 200 s, and
 * run times stop at 48 h. Nights are nearly silent. One job in six belongs to a train: 1-GPU debugging runs of about
 * 95 s that one user sends at a nearly fixed beat. Numbers are rounded from published statistics; no job is copied.
 */
#include "sim/gen/gen_internal.h"

enum { VCS = 15, USERS = 16, STREAM_JOBS = 3, STREAM_TIMES = 4, TRAIN_MIN = 12, TRAIN_MAX = 60 };

static const struct gen_weight sizes[] = {
    { 1, 4150 }, { 2, 590 }, { 3, 14 },  { 4, 900 }, { 6, 14 },  { 8, 3060 }, { 16, 620 }, { 24, 120 },
    { 32, 285 }, { 40, 36 }, { 48, 38 }, { 64, 35 }, { 80, 23 }, { 128, 20 }, { 160, 30 },
};

static const struct gen_quantile times_small[] = {
    { 0, 1 },     { 50, 4 },     { 100, 14 },    { 250, 58 },    { 400, 125 },    { 500, 205 },
    { 600, 390 }, { 750, 1850 }, { 900, 21000 }, { 950, 56000 }, { 980, 160000 }, { 1000, 172800 },
};
static const struct gen_quantile times_large[] = {
    { 0, 1 },     { 50, 8 },      { 100, 19 },    { 250, 100 },    { 400, 230 },    { 500, 380 },
    { 600, 850 }, { 750, 10500 }, { 900, 66000 }, { 950, 125000 }, { 975, 172000 }, { 1000, 172800 },
};
static const struct gen_quantile times_train[] = { { 0, 88 }, { 100, 92 }, { 500, 95 }, { 900, 98 }, { 1000, 104 } };

static const struct gen_week week = {
    .hour = { 95,  60,  58,  33,  26,  18,  17,  18,  34,  84,  145, 152,
              122, 131, 151, 159, 168, 175, 127, 128, 135, 135, 116, 112 },
    .day = { 112, 115, 115, 115, 110, 70, 63 },
};

static void draw_people(struct rng *rng, struct gen_draft *draft)
{
    /* The least of two draws, twice: few virtual clusters and few users send most of the jobs. */
    uint64_t vc = rng_below(rng, rng_below(rng, VCS) + 1);
    uint64_t user = rng_below(rng, rng_below(rng, USERS) + 1);

    draft->vc = (uint16_t)vc;
    draft->user = (uint16_t)(vc * USERS + user);
}

static void draw(struct rng *rng, const struct gen_config *config, struct gen_draft *draft)
{
    do
        draft->gpus = gen_pick(rng, sizes, sizeof(sizes) / sizeof(sizes[0]));
    while (draft->gpus > 1 && draft->gpus > config->gpus / 2);
    draft->gpus_min = draft->gpus_max = draft->gpus;
    draft->run = draft->duration = gen_duration(rng, draft->gpus <= 8 ? times_small : times_large);
    draft->model = gen_model_draw(rng);
    draw_people(rng, draft);
    /* Helios: 6 of 10 jobs complete, 3 are cancelled, 1 fails; a cancelled job is one that ends when it ends. */
    if (rng_below(rng, 100) < 9) {
        draft->fail = FAIL_USER;
        draft->fail_times = UINT8_MAX;
        draft->fail_after = draft->run;
        draft->duration = draft->run * 2;
    }
}

/* The rest of a train behind its first job: same user, same model, one after the other. */
static void draw_train(struct rng *rng, struct gen_draft *first, size_t count)
{
    usec_t beat = (100 + (usec_t)rng_below(rng, 60)) * USEC_SEC;

    for (size_t i = 0; i < count; i++) {
        struct gen_draft *draft = &first[i];

        *draft = *first;
        draft->gpus = draft->gpus_min = draft->gpus_max = 1;
        draft->fail = FAIL_NONE;
        draft->fail_times = 0;
        draft->fail_after = 0;
        draft->run = draft->duration = gen_duration(rng, times_train);
        draft->submit = (usec_t)i * beat + (usec_t)rng_below(rng, 7) * USEC_SEC; /* after the first */
    }
}

/* Trains come about once in 180 other jobs and are 36 long: one job in six. */
static void draw_all(struct rng *rng, const struct gen_config *config, struct gen_drafts *drafts)
{
    for (size_t i = 0; i < drafts->count;) {
        size_t left = drafts->count - i;
        size_t length = 1;

        draw(rng, config, &drafts->jobs[i]);
        if (rng_below(rng, 180) == 0) {
            length = TRAIN_MIN + (size_t)rng_below(rng, TRAIN_MAX - TRAIN_MIN + 1);
            length = length < left ? length : left;
            draw_train(rng, &drafts->jobs[i], length);
        }
        drafts->jobs[i].submit = GEN_HEAD;
        i += length;
    }
}

int gen_helios(const struct gen_config *config, struct trace *trace, struct error *err)
{
    struct rng rng = math_stream(config->seed, STREAM_JOBS, 0);
    struct gen_drafts drafts;
    int r = gen_drafts_init(&drafts, config->jobs, err);

    if (r == 0) {
        draw_all(&rng, config, &drafts);
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
