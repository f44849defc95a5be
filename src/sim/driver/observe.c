/* SPDX-License-Identifier: Apache-2.0 */
/* observe.c - see observe.h. */
#include "sim/driver/observe.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "base/rng_real.h"
#include "core/contract/reports.h"
#include "model/measure.h"
#include "sim/world/world_math.h"

enum { SAMPLES = 8, SAMPLES_ORACLE = 32, EPOCHS_MIN = 8, CALM = 3 };

enum { STREAM_CURVE = 0x6c6f7373, STREAM_NOISE = 0x6e6f6973 };

static const double DELTA = 0.01;

/* What is true of one job. Epochs 0: it is not watched. */
struct watch {
    double b0, b1, b2;
    double still_from, still_to; /* epochs between which the reported loss stands still */
    uint16_t epochs;
    uint16_t sampled, samples;
    uint32_t count; /* reports so far */
    bool oracle;
};

struct observer {
    const struct trace *trace;
    const struct world *world;
    const struct world_config *config;
    int32_t gpus; /* of the cluster */
    struct watch *watches;
    void *heap_memory;
    struct heap heap;
};

/* Whether the planner has a switch of that name, and it is on. */
static bool is_oracle(const struct policy_setup *setup)
{
    const struct param *params = setup->planner->params;

    for (int i = 0; params && params[i].name; i++)
        if (strcmp(params[i].name, "oracle") == 0)
            return setup->planner_params[i] != 0;
    return false;
}

/* How far the loss falls in epoch k, of a first loss of 1. */
static double fall(const struct watch *w, double k)
{
    return w->b0 / ((w->b0 * (k - 1) + w->b1) * (w->b0 * k + w->b1));
}

/* A curve from 1 down that converges in a drawn epoch. Of the two that do, the steeper one: it is nearly done. */
static void draw_curve(struct watch *w, uint64_t seed, int64_t id)
{
    struct rng rng = math_stream(seed, STREAM_CURVE, (uint64_t)id);
    double low, high, last, at;

    w->b2 = 0.3 * rng_unit(&rng);
    w->b1 = 1 / (1 - w->b2);
    last = (1 - w->b2) / (4 * DELTA) * 0.9; /* the fall in epoch k is never above (1 - b2) / 4k */
    w->epochs = (uint16_t)(EPOCHS_MIN + rng_below(&rng, (uint64_t)(last - EPOCHS_MIN) + 1));
    at = w->epochs - CALM + 0.5;
    low = w->b1 / (at - 1);
    high = low * 1e6;
    for (int i = 0; i < 100; i++) {
        w->b0 = (low + high) / 2;
        if (fall(w, at) > DELTA)
            low = w->b0;
        else
            high = w->b0;
    }
    if (rng_below(&rng, 4) == 0) {
        w->still_from = w->epochs * (0.2 + 0.5 * rng_unit(&rng));
        w->still_to = w->still_from + w->epochs * (0.05 + 0.05 * rng_unit(&rng));
    }
}

int observer_new(const struct driver_config *config, const struct world *world, struct observer **ret,
                 struct error *err)
{
    const struct trace *trace = config->trace;
    struct observer *o;
    bool any = false;

    *ret = NULL;
    for (size_t i = 0; i < trace->count && !any; i++)
        any = policy_hears_progress(&config->policies[config->job_vcs[i]]);
    if (!any)
        return 0;
    o = mem_zalloc(1, sizeof(*o));
    if (!o)
        return error_set(err, -ENOMEM, "out of memory");
    *o = (struct observer){ .trace = trace, .world = world, .config = &config->world };
    o->watches = mem_zalloc(trace->count, sizeof(*o->watches));
    o->heap_memory = mem_zalloc(heap_size((uint32_t)trace->count), 1);
    if (!o->watches || !o->heap_memory) {
        observer_free(o);
        return error_set(err, -ENOMEM, "out of memory");
    }
    heap_init(&o->heap, o->heap_memory, (uint32_t)trace->count);
    for (uint32_t i = 0; i < config->cluster->node_count; i++)
        o->gpus += config->cluster->nodes[i].gpus;
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct jobspec *spec = &trace->jobs[i].spec;
        const struct policy_setup *setup = &config->policies[config->job_vcs[i]];
        int32_t sizes = spec->gpus_max - spec->gpus_min + 1, most;

        if ((sizes < 2 && !world_paces(world)) || !policy_hears_progress(setup))
            continue;
        draw_curve(&o->watches[i], config->world.seed, spec->id);
        o->watches[i].oracle = is_oracle(setup);
        most = o->watches[i].oracle ? SAMPLES_ORACLE : SAMPLES;
        o->watches[i].samples = (uint16_t)(sizes < most && spec->servers == 0 ? sizes : most);
    }
    *ret = o;
    return 0;
}

void observer_free(struct observer *observer)
{
    if (!observer)
        return;
    mem_free(observer->watches);
    mem_free(observer->heap_memory);
    mem_free(observer);
}

usec_t observer_next(const struct observer *observer)
{
    return observer ? heap_next(&observer->heap) : USEC_NEVER;
}

/* Until the next report. Where everything is told, it is told at every minute. */
static usec_t period_of(const struct observer *o, const struct watch *w, usec_t now)
{
    if (world_paces(o->world))
        return USEC_MIN - now % USEC_MIN;
    return w->sampled < w->samples ? USEC_SEC : w->oracle || !o->config->reports ? USEC_NEVER : o->config->reports;
}

uint32_t observer_take(struct observer *observer, usec_t now)
{
    uint32_t job = heap_first(&observer->heap);
    usec_t period = period_of(observer, &observer->watches[job], now);

    heap_set(&observer->heap, job, period == USEC_NEVER ? USEC_NEVER : now + period);
    return job;
}

void observer_started(struct observer *observer, uint32_t job, usec_t now)
{
    usec_t period;

    if (!observer || !observer->watches[job].epochs)
        return;
    period = period_of(observer, &observer->watches[job], now);
    heap_set(&observer->heap, job, period == USEC_NEVER ? USEC_NEVER : now + period);
}

void observer_stopped(struct observer *observer, uint32_t job)
{
    if (observer)
        heap_clear(&observer->heap, job);
}

/* About normal, of mean 0 and standard deviation 1. */
static double bell(struct rng *rng)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += rng_unit(rng);
    return sum - 6;
}

/* A factor around 1. */
static double noise(struct rng *rng, ppm_t size)
{
    double factor = 1 + bell(rng) * (double)size / (double)PPM_ONE;

    return factor > 0.05 ? factor : 0.05;
}

/* GPUs and, beside them, what they share a model with: nodes, or its parameter servers. */
static struct report size_report(const struct observer *o, uint32_t job, const struct world_shape *shape)
{
    bool served = o->trace->jobs[job].spec.servers > 0;

    return (struct report){ .kind = MEASURE_SPEED,
                            .value = { shape->gpus, served ? shape->servers : shape->nodes, 0 } };
}

static struct report speed_report(struct observer *o, uint32_t job, const struct world_shape *shape, struct rng *rng)
{
    const struct watch *w = &o->watches[job];
    struct report report = size_report(o, job, shape);
    ppm_t rate = world_rate(o->world, job, shape, NULL, 0);
    double seconds = (double)world_work(o->world, job) / (double)USEC_SEC;

    if (w->oracle) {
        report.kind = MEASURE_RATE;
        report.value[2] = rate;
        return report;
    }
    report.value[2] =
        (int64_t)((double)rate / (double)PPM_ONE * w->epochs / seconds * noise(rng, o->config->speed_noise) * 1e9 +
                  0.5);
    return report;
}

/* With servers: workers and servers for each, more of one and of the other; within the elastic range. An oracle is told
 * of as many as fit. */
static void sample_served(const struct watch *w, const struct jobspec *spec, struct world_shape *shape)
{
    static const uint8_t tried[SAMPLES][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 },
                                               { 4, 2 }, { 2, 4 }, { 4, 4 }, { 6, 3 } };
    int32_t workers = w->oracle ? 1 + w->sampled / 4 : tried[w->sampled % SAMPLES][0];
    int32_t servers = w->oracle ? 1 + 2 * (w->sampled % 4) : tried[w->sampled % SAMPLES][1];

    workers += spec->gpus_min - 1;
    shape->gpus = workers < spec->gpus_max ? workers : spec->gpus_max;
    shape->servers = servers;
}

/* The next of the sizes that are tried: evenly over the elastic range, on the fewest nodes. */
static struct report sample_report(struct observer *o, uint32_t job, const struct world_shape *here, struct rng *rng)
{
    struct watch *w = &o->watches[job];
    const struct jobspec *spec = &o->trace->jobs[job].spec;
    int32_t span = spec->gpus_max - spec->gpus_min;
    int32_t gpus = spec->gpus_min + (w->samples > 1 ? span * w->sampled / (w->samples - 1) : 0);
    struct world_shape shape = { .gpus = gpus };

    if (spec->servers > 0)
        sample_served(w, spec, &shape);
    gpus = shape.servers;
    shape = world_shape_best(o->world, shape.gpus, here->sku);
    shape.servers = gpus;
    w->sampled++;
    return speed_report(o, job, &shape, rng);
}

static struct report loss_report(struct observer *o, uint32_t job, usec_t progress, struct rng *rng)
{
    const struct watch *w = &o->watches[job];
    double k = (double)progress / (double)world_work(o->world, job) * w->epochs, seen = k, loss;

    if (k > w->still_from && k < w->still_to)
        seen = w->still_from;
    loss = (1 / (w->b0 * seen + w->b1) + w->b2) * noise(rng, o->config->loss_noise);
    if (rng_below(rng, (uint64_t)PPM_ONE) < (uint64_t)o->config->spikes)
        loss *= 1.5 + rng_unit(rng);
    return (struct report){ .kind = MEASURE_LOSS, .value = { (int64_t)(k * 1000 + 0.5), (int64_t)(loss * 1e9 + 0.5) } };
}

static struct report left_report(const struct observer *o, uint32_t job, const struct world_pace *pace)
{
    return (struct report){ .kind = MEASURE_LEFT,
                            .value = { (int64_t)(world_steps_left(o->world, job, pace) * 1e6 + 0.5) } };
}

int observer_arrived(const struct observer *observer, uint32_t job, int (*tell)(void *arg, const struct report *report),
                     void *arg)
{
    struct world_pace begin = { 0 };
    struct report report;
    int32_t most;
    int r = 0;

    if (!observer || !observer->watches[job].epochs || !world_paces(observer->world))
        return 0;
    most = observer->trace->jobs[job].spec.gpus_max;
    most = most < observer->gpus ? most : observer->gpus;
    for (int32_t g = 1; g <= most && r == 0; g++) {
        report = (struct report){ .kind = MEASURE_STEP,
                                  .value = { g, (int64_t)(world_step_time(observer->world, job, g) * 1e15 + 0.5) } };
        r = tell(arg, &report);
    }
    report = left_report(observer, job, &begin);
    return r == 0 ? tell(arg, &report) : r;
}

int observer_reports(struct observer *observer, uint32_t job, const struct observed *seen, struct report *out)
{
    struct watch *w = &observer->watches[job];
    struct rng rng = math_stream(observer->config->seed, STREAM_NOISE,
                                 (uint64_t)observer->trace->jobs[job].spec.id << 24 ^ w->count++);

    if (world_paces(observer->world)) {
        out[0] = left_report(observer, job, seen->pace);
        return 1;
    }
    if (w->sampled < w->samples) {
        out[0] = sample_report(observer, job, &seen->shape, &rng);
        return 1;
    }
    out[0] = speed_report(observer, job, &seen->shape, &rng);
    out[1] = loss_report(observer, job, seen->progress, &rng);
    return 2;
}

int observer_epochs(const struct observer *observer, uint32_t job)
{
    return observer ? observer->watches[job].epochs : 0;
}
