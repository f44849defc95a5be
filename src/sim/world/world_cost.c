/* SPDX-License-Identifier: Apache-2.0 */
/* world_cost.c - what starting, stopping and moving a job costs, and what a stop leaves of its progress.
 *
 * Each peer's simulator charges differently; the settings are named after it, so that its published runs can be
 * repeated. docs/world-model.md has the table and where each number comes from.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/world/world_internal.h"
#include "sim/world/world_math.h"
#include "solve/ckpt.h"

enum { STREAM_MOVE = 0x6d6f7665 };

/* Seconds to restart a model on 1, 2, 4, 8, 16 and 32 GPUs, as Muri's artifact measured them. */
enum { MURI_SIZES = 6 };
static const struct muri_cost {
    const char *model;
    uint8_t seconds[MURI_SIZES];
} muri_costs[] = {
    { "vgg16", { 7, 7, 8, 9, 9, 10 } },     { "vgg19", { 7, 7, 8, 9, 10, 10 } },
    { "resnet18", { 4, 5, 5, 7, 7, 7 } },   { "shufflenet_v2_x1_0", { 4, 4, 5, 5, 7, 8 } },
    { "shufflenet", { 4, 4, 5, 5, 7, 8 } }, { "bert", { 10, 10, 10, 10, 10, 10 } },
    { "gpt2", { 10, 10, 10, 10, 10, 10 } }, { "a2c", { 38, 39, 39, 46, 46, 46 } },
    { "dqn", { 5, 5, 6, 6, 8, 8 } },
};

static const struct muri_cost *muri_find(const char *model)
{
    for (size_t i = 0; i < sizeof(muri_costs) / sizeof(muri_costs[0]); i++) {
        if (strcmp(model, muri_costs[i].model) == 0)
            return &muri_costs[i];
    }
    return NULL;
}

/* Between two sizes as at the next that was measured. */
static usec_t muri_restart(const char *model, int32_t gpus)
{
    const struct muri_cost *cost = muri_find(model);
    int size = 0;

    if (!cost)
        return 0; /* world_new() has refused such a trace */
    while (size + 1 < MURI_SIZES && gpus > 1 << size)
        size++;
    return cost->seconds[size] * USEC_SEC;
}

static usec_t chronus_resume(int32_t gpus)
{
    int64_t factor = Q32_ONE + math_log2((uint64_t)gpus);

    return (usec_t)(((__int128)(30 * USEC_SEC) * factor + Q32_ONE / 2) >> 32);
}

static usec_t gandiva_migrate(int32_t gpus)
{
    return gpus > 9 ? 40 * USEC_SEC : (2 + 4 * gpus) * USEC_SEC;
}

/* Barrier and dump free the GPUs; what is dumped is sent away meanwhile, fetched and put back where the job goes on.
 * Each node has a link of its own. */
static usec_t singularity_cost(const struct world *world, uint32_t job, enum world_cost kind,
                               const struct world_shape *shape)
{
    const struct world_config *config = &world->config;
    const struct jobspec *spec = &world->trace->jobs[job].spec;
    struct ckpt_job dumped = { .shards = (spec->tp ? spec->tp : 1) * (spec->pp ? spec->pp : 1),
                               .workers = spec->gpus,
                               .shard = muldiv_floor(config->ckpt_shard, CKPT_GIB, PPM_ONE),
                               .host = muldiv_floor(config->ckpt_host, CKPT_GIB, PPM_ONE) };
    int64_t bytes = ckpt_bytes(&dumped, shape && shape->dumped) / (shape && shape->nodes ? shape->nodes : 1);
    int64_t rate = muldiv_floor(config->ckpt_rate, CKPT_GIB, PPM_ONE);
    usec_t send, stop = config->barrier + 2 * USEC_SEC, restore = 2 * USEC_SEC;

    if (shape && shape->far)
        rate = muldiv_floor(rate, PPM_ONE, config->region_factor > 0 ? config->region_factor : PPM_ONE);
    send = rate > 0 ? muldiv_ceil(bytes, USEC_SEC, rate) : 0;
    switch (kind) {
    case WORLD_STOP:
    case WORLD_CHECKPOINT:
        return stop;
    case WORLD_RESUME:
        return restore + send + (shape && shape->away < send ? send - shape->away : 0);
    case WORLD_MIGRATE:
        return stop + restore + 2 * send;
    case WORLD_START:
    case WORLD_COST_COUNT:
        break;
    }
    return -1;
}

/* What the chosen peer charges; -1 = it does not say. */
static usec_t preset_cost(const struct world *world, uint32_t job, enum world_cost kind, int32_t gpus)
{
    bool moves = kind == WORLD_RESUME || kind == WORLD_MIGRATE;
    const struct jobspec *spec = &world->trace->jobs[job].spec;

    switch (world->config.costs) {
    case COSTS_NONE:
        return -1;
    case COSTS_LUCID:
        return -1; /* work instead: world_rework() */
    case COSTS_MURI_SIM:
        return -1; /* at every event instead: world_event_cost() */
    case COSTS_MURI:
        return moves ? muri_restart(names_get(&world->trace->models, spec->model), gpus) : -1;
    case COSTS_POLLUX:
        return moves || kind == WORLD_START ? 30 * USEC_SEC : -1;
    case COSTS_CHRONUS:
        return moves ? chronus_resume(gpus) : -1;
    case COSTS_GANDIVA:
        return kind == WORLD_MIGRATE ? gandiva_migrate(gpus) : kind == WORLD_RESUME ? 200 * USEC_MSEC : -1;
    case COSTS_SINGULARITY:
        return -1; /* see singularity_cost() */
    case COSTS_COUNT:
        break;
    }
    return -1;
}

usec_t world_cost(const struct world *world, uint32_t job, enum world_cost kind, const struct world_shape *shape)
{
    int32_t gpus = shape && shape->gpus > 0 ? shape->gpus : world->trace->jobs[job].spec.gpus;
    usec_t cost;

    gpus = gpus ? gpus : 1; /* one without GPUs comes and goes like one of a single GPU */
    assert(kind < WORLD_COST_COUNT);
    if (world->config.cost_set[kind])
        return world->config.cost[kind];
    if (world->config.costs == COSTS_SINGULARITY)
        cost = singularity_cost(world, job, kind, shape);
    else
        cost = preset_cost(world, job, kind, gpus);
    if (cost >= 0)
        return cost;
    if (kind == WORLD_MIGRATE)
        return world_cost(world, job, WORLD_STOP, shape) + world_cost(world, job, WORLD_RESUME, shape);
    return 0;
}

usec_t world_cost_inside(const struct world *world, uint32_t job, const struct world_shape *shape)
{
    usec_t cost = world_cost(world, job, WORLD_MIGRATE, shape);

    return world->config.costs == COSTS_GANDIVA && !world->config.cost_set[WORLD_MIGRATE] ? cost / 2 : cost;
}

usec_t world_cost_elsewhere(const struct world *world, uint32_t job, const struct world_shape *shape)
{
    return world_cost(world, job, world->config.costs == COSTS_GANDIVA ? WORLD_MIGRATE : WORLD_RESUME, shape);
}

usec_t world_event_cost(const struct world *world, uint32_t job)
{
    const struct jobspec *spec = &world->trace->jobs[job].spec;

    if (world->config.costs != COSTS_MURI_SIM)
        return 0;
    return muri_restart(names_get(&world->trace->models, spec->model), spec->gpus);
}

int world_cost_check(const struct world *world, struct error *err)
{
    const struct trace *trace = world->trace;
    char known[256] = "", label[WORLD_LABEL_MAX];

    if (world->config.costs != COSTS_MURI && world->config.costs != COSTS_MURI_SIM)
        return 0;
    for (size_t i = 0; i < trace->count; i++) {
        const char *model = names_get(&trace->models, trace->jobs[i].spec.model);

        if (muri_find(model))
            continue;
        for (size_t k = 0; k < sizeof(muri_costs) / sizeof(muri_costs[0]); k++)
            snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", k ? ", " : "", muri_costs[k].model);
        return error_set(err, -EINVAL, "%s: costs=muri knows no model '%s' (known: %s)",
                         world_job_label(world, i, label), model, known);
    }
    return 0;
}

usec_t world_kept(const struct world *world, uint32_t job, usec_t progress, bool planned)
{
    usec_t interval = world->config.checkpoint;

    (void)job;
    if (planned && world->config.keep == KEEP_ALL)
        return progress;
    if (!interval || (planned && world->config.keep == KEEP_NONE))
        return 0;
    return progress - progress % interval;
}

enum world_move world_move_fate(const struct world *world, uint32_t job, uint32_t nth)
{
    uint64_t index = (uint64_t)world->trace->jobs[job].spec.id << 24 ^ nth;
    struct rng rng = math_stream(world->config.seed, STREAM_MOVE, index);
    int64_t drawn = (int64_t)rng_below(&rng, PPM_ONE);

    if (drawn >= world->config.move_fails)
        return MOVE_WELL;
    return drawn % 2 ? MOVE_UNSAVED : MOVE_UNRESTORED;
}

usec_t world_rework(const struct world *world, uint32_t job)
{
    if (world->config.costs != COSTS_LUCID || world->config.cost_set[WORLD_RESUME])
        return 0;
    return (world->trace->jobs[job].spec.gpus <= 8 ? 40 : 60) * USEC_SEC;
}
