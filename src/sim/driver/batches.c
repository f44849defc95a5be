/* SPDX-License-Identifier: Apache-2.0 */
/* batches.c - see batches.h. */
#include "sim/driver/batches.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "base/rng_real.h"
#include "core/contract/reports.h"
#include "model/measure.h"
#include "sim/world/world_math.h"

enum { STREAM_BATCH = 0x62617463 };

struct window {
    usec_t since, progress; /* true progress when it began */
    uint32_t count;         /* reports so far: each has noise of its own */
};

struct batches {
    const struct trace *trace;
    const struct world *world;
    const struct world_config *config;
    const struct driver_config *driver;
    struct window *windows;
    void *heap_memory;
    struct heap heap;
};

int batches_new(const struct driver_config *config, const struct world *world, struct batches **ret, struct error *err)
{
    size_t count = config->trace->count;
    struct batches *b;
    bool any = false;

    *ret = NULL;
    for (size_t i = 0; i < count && !any; i++)
        any = policy_hears_batches(&config->policies[config->job_vcs[i]]);
    if (!any || !config->world.batch_reports)
        return 0;
    b = mem_zalloc(1, sizeof(*b));
    if (!b)
        return error_set(err, -ENOMEM, "out of memory");
    *b = (struct batches){ .trace = config->trace, .world = world, .config = &config->world, .driver = config };
    b->windows = mem_zalloc(count, sizeof(*b->windows));
    b->heap_memory = mem_zalloc(heap_size((uint32_t)count), 1);
    if (!b->windows || !b->heap_memory) {
        batches_free(b);
        return error_set(err, -ENOMEM, "out of memory");
    }
    heap_init(&b->heap, b->heap_memory, (uint32_t)count);
    *ret = b;
    return 0;
}

void batches_free(struct batches *batches)
{
    if (!batches)
        return;
    mem_free(batches->windows);
    mem_free(batches->heap_memory);
    mem_free(batches);
}

usec_t batches_next(const struct batches *batches)
{
    return batches ? heap_next(&batches->heap) : USEC_NEVER;
}

void batches_begin(struct batches *batches, uint32_t job, usec_t now, usec_t progress)
{
    if (!batches || !policy_hears_batches(&batches->driver->policies[batches->driver->job_vcs[job]]))
        return;
    batches->windows[job].since = now;
    batches->windows[job].progress = progress;
    heap_set(&batches->heap, job, now + batches->config->batch_reports);
}

uint32_t batches_take(const struct batches *batches)
{
    return heap_first(&batches->heap);
}

void batches_stop(struct batches *batches, uint32_t job)
{
    if (batches)
        heap_clear(&batches->heap, job);
}

/* About normal, around 1. */
static double noise(const struct batches *b, uint32_t job, uint32_t count)
{
    struct rng rng = math_stream(b->config->seed, STREAM_BATCH, (uint64_t)b->trace->jobs[job].spec.id << 24 ^ count);
    double sum = -6, factor;

    for (int i = 0; i < 12; i++)
        sum += rng_unit(&rng);
    factor = 1 + sum * (double)b->config->speed_noise / (double)PPM_ONE;
    return factor > 0.05 ? factor : 0.05;
}

struct report batches_report(struct batches *batches, uint32_t job, usec_t now, usec_t progress, int64_t busy)
{
    struct window *w = &batches->windows[job];
    double rate = (double)(progress - w->progress) / (double)(now - w->since);

    rate *= world_batch_speed(batches->world, job) * noise(batches, job, w->count++);
    batches_begin(batches, job, now, progress);
    return (struct report){ .kind = MEASURE_BATCH,
                            .value = { rate > 0 ? (int64_t)(rate * 1e6 + 0.5) : 0, busy,
                                       batches->trace->jobs[job].spec.memory_mib } };
}
