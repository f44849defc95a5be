/* SPDX-License-Identifier: Apache-2.0 */
/* gen.c - the register of shapes, and the reference trace R1.
 *
 * R1 is a linear congruential generator and a fixed order of draws, so that any language can make the same 480 jobs;
 * the results of whole policies on it are known exactly. More jobs continue the stream, another seed is another start.
 */
#include "sim/gen/gen.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/gen/gen_internal.h"
#include "sim/world/world_math.h"

static uint64_t r1_next(uint64_t *x)
{
    *x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
    return *x >> 33;
}

/* Arrivals are drawn modulo `gap` seconds. The draws must happen in exactly this order. */
static int r1_fill(const struct gen_config *config, uint64_t gap, struct trace *trace, struct error *err)
{
    uint64_t x = config->seed;
    uint64_t submit = 0;

    for (size_t i = 0; i < config->jobs; i++) {
        uint64_t v = r1_next(&x) % 100;
        uint64_t a = r1_next(&x) % 12;
        uint64_t b = r1_next(&x) % 12;
        uint64_t base = (uint64_t)60 << (a < b ? a : b);
        uint64_t duration = base + r1_next(&x) % base;
        int32_t gpus = v < 70 ? 1 : v < 78 ? 2 : v < 88 ? 4 : v < 98 ? 8 : 16;
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = (int64_t)i;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = gpus;
        job.truth.duration = (usec_t)duration * USEC_SEC;
        submit += r1_next(&x) % gap;
        job.spec.submit = (usec_t)submit * USEC_SEC;
        if (trace_add(trace, &job) < 0)
            return error_set(err, -ENOMEM, "out of memory");
    }
    return 0;
}

static int gen_r1(const struct gen_config *config, struct trace *trace, struct error *err)
{
    return r1_fill(config, 240, trace, err);
}

static int gen_r1_low(const struct gen_config *config, struct trace *trace, struct error *err)
{
    return r1_fill(config, 1200, trace, err);
}

const struct gen_shape gen_shapes[] = {
    { "r1", "the reference trace R1 (480 jobs, 2.45 times what 60 GPUs can do)", 480, 0, 0, gen_r1 },
    { "r1-low", "R1 with arrivals five times as far apart (load 0.47 on 60 GPUs)", 480, 0, 0, gen_r1_low },
    { "philly", "many 1-GPU jobs, heavy-tailed run times, a third fails or is killed", 2000, 128, 900000, gen_philly },
    { "helios", "half 1 GPU, a quarter 8, trains of short debugging jobs", 10000, 1024, 700000, gen_helios },
    { "sweep", "a day of hyper-parameter searches: batches of equal trials, most stopped early", 2000, 128, 1100000,
      gen_sweep },
    { "search", "twelve searches of equal trials over a day, none stopped: for --set search=10%", 312, 0, 0,
      gen_search },
    { 0 },
};

const struct gen_shape *gen_shape_find(const char *name)
{
    for (const struct gen_shape *shape = gen_shapes; shape->name; shape++) {
        if (strcmp(shape->name, name) == 0)
            return shape;
    }
    return NULL;
}

static int check(const struct gen_shape *shape, struct gen_config *config, struct error *err)
{
    if (!config->jobs)
        config->jobs = shape->jobs;
    if (config->jobs > GEN_JOBS_MAX)
        return error_set(err, -EINVAL, "jobs: %zu is above %zu", config->jobs, GEN_JOBS_MAX);
    if (!shape->gpus && (config->gpus || config->load))
        return error_set(err, -EINVAL, "shape %s is not scaled to a cluster: gpus and load do not apply", shape->name);
    if (!config->gpus)
        config->gpus = shape->gpus;
    if (!config->load)
        config->load = shape->load;
    if (config->gpus < 0 || (size_t)config->gpus > CLUSTER_GPUS_MAX)
        return error_set(err, -EINVAL, "gpus: %d is not in 1..%zu", config->gpus, CLUSTER_GPUS_MAX);
    if (config->deadlines < 0 || config->deadlines > PPM_ONE)
        return error_set(err, -EINVAL, "deadlines: %g is not in 0..1", (double)config->deadlines / 1e6);
    if (config->load < 0 || config->load > 100 * PPM_ONE)
        return error_set(err, -EINVAL, "load: %g is not above 0 and at most 100", (double)config->load / 1e6);
    return 0;
}

enum { STREAM_DEADLINES = 0x646c6e73 };

/* A strict deadline, 1.1 to 5 run times after submission, half of them below 2.1: about as in Chronus' workloads. */
static void draw_deadlines(const struct gen_config *config, struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        struct jobspec *spec = &trace->jobs[i].spec;
        struct rng rng = math_stream(config->seed, STREAM_DEADLINES, (uint64_t)spec->id);
        int64_t u = (int64_t)rng_below(&rng, 1001), factor = 1100 + 3900 * u * u / 1000000;

        if ((int64_t)rng_below(&rng, (uint64_t)PPM_ONE) >= config->deadlines)
            continue;
        spec->slo = SLO_STRICT;
        spec->deadline_count = 1;
        spec->deadlines[0] =
            (struct deadline){ spec->submit + muldiv_ceil(trace->jobs[i].truth.duration, factor, 1000), 10 };
    }
}

int gen_trace(const char *shape, const struct gen_config *config, struct trace *ret_trace, struct error *err)
{
    const struct gen_shape *found = gen_shape_find(shape);
    struct gen_config full = *config;
    struct trace trace = { 0 };
    char known[128] = "";
    int r;

    if (!found) {
        for (const struct gen_shape *s = gen_shapes; s->name; s++) {
            strncat(known, s == gen_shapes ? "" : ", ", sizeof(known) - strlen(known) - 1);
            strncat(known, s->name, sizeof(known) - strlen(known) - 1);
        }
        return error_set(err, -EINVAL, "no shape '%s' (known: %s)", shape, known);
    }
    r = check(found, &full, err);
    if (r < 0)
        return r;
    r = found->fill(&full, &trace, err);
    if (r < 0) {
        trace_done(&trace);
        return r;
    }
    if (full.deadlines)
        draw_deadlines(&full, &trace);
    *ret_trace = trace;
    return 0;
}
