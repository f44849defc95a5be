/* SPDX-License-Identifier: Apache-2.0 */
/* gen_internal.c - see gen_internal.h. */
#include "sim/gen/gen_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Batch, memory and utilisation are round numbers of the kind such models have; they agree with data/. */
const struct gen_model gen_models[] = {
    { "resnet50", 20, 10240, 64, 88, 80 },   { "resnet18", 14, 4096, 128, 62, 180 },
    { "vgg16", 8, 11264, 32, 92, 740 },      { "inception3", 8, 9216, 64, 85, 90 },
    { "mobilenet", 8, 6144, 128, 48, 370 },  { "lstm", 12, 5120, 64, 44, 420 },
    { "bert", 10, 14336, 16, 94, 220 },      { "gpt2", 6, 15360, 8, 96, 310 },
    { "deepspeech2", 8, 8192, 20, 71, 270 }, { "dqn", 6, 1536, 128, 14, 950 },
};
_Static_assert(sizeof(gen_models) / sizeof(gen_models[0]) == GEN_MODELS, "the count in the header");

int32_t gen_pick(struct rng *rng, const struct gen_weight *weights, size_t count)
{
    uint64_t sum = 0, at;

    for (size_t i = 0; i < count; i++)
        sum += weights[i].weight;
    at = rng_below(rng, sum);
    for (size_t i = 0; i < count; i++) {
        if (at < weights[i].weight)
            return weights[i].value;
        at -= weights[i].weight;
    }
    return weights[count - 1].value;
}

uint8_t gen_model_draw(struct rng *rng)
{
    uint64_t at = rng_below(rng, 100); /* the weights add up to 100 */
    uint8_t i = 0;

    while (i + 1 < GEN_MODELS && at >= gen_models[i].weight)
        at -= gen_models[i++].weight;
    return i;
}

usec_t gen_duration(struct rng *rng, const struct gen_quantile *points)
{
    /* Permille with 32 more bits. */
    uint64_t u = rng_below(rng, 1000ULL << 32);
    const struct gen_quantile *low = points;
    int64_t from, to, part, seconds;

    while (low[1].permille < 1000 && u >= (uint64_t)low[1].permille << 32)
        low++;
    u -= (uint64_t)low->permille << 32;
    part = (int64_t)(u / (low[1].permille - low->permille)); /* Q32 */
    from = math_log2(low->seconds);
    to = math_log2(low[1].seconds);
    seconds = math_exp2(1 << 20, from + (int64_t)(((__int128)(to - from) * part) >> 32)) >> 20;
    return (seconds > 1 ? seconds : 1) * USEC_SEC;
}

int gen_drafts_init(struct gen_drafts *drafts, size_t count, struct error *err)
{
    drafts->jobs = mem_zalloc(count, sizeof(*drafts->jobs));
    drafts->count = count;
    return drafts->jobs ? 0 : error_set(err, -ENOMEM, "out of memory");
}

void gen_drafts_done(struct gen_drafts *drafts)
{
    mem_free(drafts->jobs);
    *drafts = (struct gen_drafts){ 0 };
}

/* Weight of the hour that is number `hour` since Monday midnight of the first week. */
static uint64_t hour_weight(const struct gen_week *week, uint64_t hour)
{
    return (uint64_t)week->hour[hour % 24] * week->day[hour / 24 % 7];
}

/* Order statistics of a uniform are partial sums of exponentials over their total; stretching them by the inverse of
 * the summed-up week gives the instants. Units of the stretched clock: weight x microseconds. */
static void draw_arrivals(struct rng *rng, const struct gen_week *week, usec_t span, usec_t *ret_at, size_t count)
{
    const int64_t mean = 1 << 20;
    unsigned __int128 stretched = 0, begin = 0, target;
    uint64_t sum = 0, hour = 0, weight;
    usec_t left = span;

    for (uint64_t h = 0; left > 0; h++, left -= USEC_HOUR)
        stretched += (unsigned __int128)hour_weight(week, h) * (uint64_t)(left < USEC_HOUR ? left : USEC_HOUR);
    for (size_t i = 0; i < count; i++) {
        sum += (uint64_t)math_exponential(rng, mean);
        ret_at[i] = (usec_t)sum;
    }
    sum += (uint64_t)math_exponential(rng, mean);
    weight = hour_weight(week, 0);
    for (size_t i = 0; i < count; i++) {
        /* stretched fits 2^64 for spans up to 5,000 years, so the product fits. */
        target = stretched * (uint64_t)ret_at[i] / sum;
        while (target >= begin + (unsigned __int128)weight * (uint64_t)USEC_HOUR) {
            begin += (unsigned __int128)weight * (uint64_t)USEC_HOUR;
            weight = hour_weight(week, ++hour);
        }
        ret_at[i] = (usec_t)(hour * (uint64_t)USEC_HOUR + (uint64_t)((target - begin) / weight));
        ret_at[i] -= ret_at[i] % USEC_SEC;
    }
}

int gen_submit(struct rng *rng, const struct gen_week *week, usec_t span, struct gen_drafts *drafts, struct error *err)
{
    size_t heads = 0, head = 0;
    usec_t *at, begin = 0;

    for (size_t i = 0; i < drafts->count; i++)
        heads += drafts->jobs[i].submit == GEN_HEAD;
    at = mem_zalloc(heads, sizeof(*at));
    if (!at)
        return error_set(err, -ENOMEM, "out of memory");
    draw_arrivals(rng, week, span, at, heads);
    for (size_t i = 0; i < drafts->count; i++) {
        if (drafts->jobs[i].submit == GEN_HEAD) {
            begin = at[head++];
            drafts->jobs[i].submit = 0;
        }
        drafts->jobs[i].submit += begin;
    }
    mem_free(at);
    return 0;
}

usec_t gen_span(const struct gen_drafts *drafts, const struct gen_config *config)
{
    unsigned __int128 asked = 0; /* GPU-microseconds */

    for (size_t i = 0; i < drafts->count; i++)
        asked += (unsigned __int128)drafts->jobs[i].run * (unsigned)drafts->jobs[i].gpus;
    asked = asked * (uint64_t)PPM_ONE / ((uint64_t)config->gpus * (uint64_t)config->load);
    assert(asked < (unsigned __int128)INT64_MAX);
    return asked > (unsigned __int128)USEC_MIN ? (usec_t)asked : USEC_MIN;
}

static int compare(const void *left, const void *right)
{
    const struct gen_draft *a = *(const struct gen_draft *const *)left;
    const struct gen_draft *b = *(const struct gen_draft *const *)right;

    if (a->submit != b->submit)
        return a->submit < b->submit ? -1 : 1;
    return a < b ? -1 : a > b; /* places in one array: the order in which they were drawn */
}

static void fill_job(const struct gen_draft *draft, int64_t id, const uint32_t models[GEN_MODELS],
                     struct trace_job *ret_job)
{
    const struct gen_model *model = &gen_models[draft->model];

    *ret_job = (struct trace_job){
        .spec = {
            .id = id,
            .submit = draft->submit,
            .estimate = draft->estimate,
            .time_limit = gen_time_limit(draft->duration > draft->estimate ? draft->duration : draft->estimate),
            .user = draft->user,
            .vc = draft->vc,
            .model = models[draft->model],
            .gpus = draft->gpus,
            .share = MGPU_ONE,
            .gpus_min = draft->gpus_min,
            .gpus_max = draft->gpus_max,
            .memory_mib = model->memory_mib,
            .memory_peak_mib = model->memory_mib + model->memory_mib / 8,
            .batch = model->batch * (uint32_t)draft->gpus,
            .utilisation = model->utilisation,
            .skew_permille = model->skew_permille,
            .priority = draft->priority,
            .klass = draft->klass,
            .tier = TIER_STANDARD,
            .slo = SLO_BEST_EFFORT,
            .retries = 3,
        },
        .truth = {
            .duration = draft->duration,
            .fail_after = draft->fail_after,
            .fail = draft->fail,
            .fail_times = draft->fail_times,
        },
    };
}

int gen_finish(struct gen_drafts *drafts, struct trace *trace, struct error *err)
{
    uint32_t models[GEN_MODELS];
    struct gen_draft **order = mem_zalloc(drafts->count, sizeof(*order));
    int r = order ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < GEN_MODELS; i++)
        r = names_put(&trace->models, gen_models[i].name, strlen(gen_models[i].name), &models[i]);
    if (r == 0)
        r = mem_grow((void **)&trace->jobs, &trace->capacity, drafts->count, TRACE_JOBS_MAX, sizeof(*trace->jobs));
    if (r == 0) {
        for (size_t i = 0; i < drafts->count; i++)
            order[i] = &drafts->jobs[i];
        qsort(order, drafts->count, sizeof(*order), compare);
        for (size_t i = 0; i < drafts->count; i++)
            fill_job(order[i], (int64_t)i, models, &trace->jobs[i]);
        trace->count = drafts->count;
    }
    mem_free(order);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int gen_people(struct trace *trace, int vcs, int users_each, struct error *err)
{
    char text[32];
    uint32_t index;
    int r = 0;

    for (int vc = 0; r == 0 && vc < vcs; vc++) {
        r = names_put(&trace->vcs, text, (size_t)snprintf(text, sizeof(text), "vc%d", vc), &index);
        for (int user = 0; r == 0 && user < users_each; user++)
            r = names_put(&trace->users, text, (size_t)snprintf(text, sizeof(text), "vc%d-u%d", vc, user), &index);
    }
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

usec_t gen_time_limit(usec_t duration)
{
    static const uint16_t hours[] = { 1, 4, 12, 24, 48, 96, 168, 336, 720, 1440, 4320 };
    usec_t need = duration + duration / 5;

    for (size_t i = 0; i < sizeof(hours) / sizeof(hours[0]); i++) {
        if (need <= hours[i] * USEC_HOUR)
            return hours[i] * USEC_HOUR;
    }
    return need;
}
