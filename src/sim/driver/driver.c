/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - see driver.h.
 *
 * The driver holds the truth (how much work a job has, when its attempt will fail) and the core what can be known. Both
 * count progress in nominal run time; the driver's count decides when a job ends, the core's is what policies see.
 */
#include "sim/driver/driver.h"

#include <assert.h>
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/snapshot/snapshot.h"
#include "model/promise.h"
#include "sim/driver/batches.h"
#include "sim/driver/driver_internal.h"
#include "sim/driver/observe.h"
#include "sim/driver/search.h"

static usec_t next_instant(const struct driver *d)
{
    usec_t at = heap_next(&d->heap), wake = core_next_wake(d->core);

    if (wake < at)
        at = wake;
    if (use_next(d) < at)
        at = use_next(d);
    if (observer_next(d->observer) < at)
        at = observer_next(d->observer);
    if (batches_next(d->batches) < at)
        at = batches_next(d->batches);
    if (searches_next(d) < at)
        at = searches_next(d);
    if (d->next_arrival < d->trace->count && d->trace->jobs[d->next_arrival].spec.submit < at)
        at = d->trace->jobs[d->next_arrival].spec.submit;
    if (d->has_fault && d->fault.at < at)
        at = d->fault.at;
    if (d->next_script < d->config->script_count && d->config->script[d->next_script].at < at)
        at = d->config->script[d->next_script].at;
    return at > d->now ? at : d->now;
}

int driver_offer(struct driver *d, const struct event *event, uint32_t index, struct job_ref *ret_ref)
{
    const struct driver_port *port = d->config->port;

    d->events++;
    if (!port)
        return core_offer(d->core, event, ret_ref, d->err);
    if (ret_ref)
        *ret_ref = (struct job_ref){ JOB_NONE, 0 }; /* known after the step */
    return port->offer(port->arg, event, index, d->err);
}

/* One step, by ourselves or by whoever has the core. Jobs that came get their references then. */
static int step(struct driver *d, const struct outbox **ret_out)
{
    const struct driver_port *port = d->config->port;
    int r;

    if (!port) {
        *ret_out = core_step(d->core, d->now);
        return 0;
    }
    r = port->step(port->arg, d->now, ret_out, &d->core, d->err);
    for (; r == 0 && d->next_settled < d->next_arrival; d->next_settled++) {
        struct job_ref ref;

        if (port->find(port->arg, (uint32_t)d->next_settled, &ref) == 0)
            answer_settled(d, (uint32_t)d->next_settled, &ref);
        else if (d->config->skip_infeasible) {
            d->result->jobs[d->next_settled].outcome = OUTCOME_REFUSED;
            d->actors[d->next_settled].in_core = false;
            d->ended++;
        } else
            r = error_set(d->err, -ERANGE, "job %zu was refused", d->next_settled);
    }
    return r;
}

static int instant(struct driver *d)
{
    const struct outbox *out;
    int r = answer_due(d);

    if (r == 0)
        r = answer_event_costs(d);
    if (r == 0)
        r = answer_reports(d);
    if (r == 0)
        r = answer_uses(d);
    if (r == 0)
        r = answer_faults(d);
    while (r == 0 && d->next_arrival < d->trace->count && d->trace->jobs[d->next_arrival].spec.submit <= d->now)
        r = answer_arrival(d, (uint32_t)d->next_arrival++);
    if (r == 0)
        r = answer_script(d);
    if (r == 0)
        r = searches_act(d);
    while (r == 0) {
        uint64_t before = d->events;

        r = step(d, &out);
        if (r == 0)
            r = answer_outbox(d, out);
        if (r == 0)
            r = answer_rates(d);
        if (d->events == before)
            break;
    }
    if (r == 0 && d->config->on_instant)
        d->config->on_instant(d->config->on_instant_arg, d->core);
    if (r == 0)
        r = series_told(d);
    return r == 0 ? series_sample(d) : r;
}

static void save(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

/* A restart of the controller: what goes on must be what would have gone on. */
static int reload(struct driver *d)
{
    CLEANUP_BUF struct buf buf = BUF_INIT((size_t)1 << 31);
    struct core *core;
    int r;

    core_save(d->core, save, &buf);
    if (buf.error)
        return error_set(d->err, buf.error, "no memory for a snapshot");
    r = core_load(d->config->cluster, &d->core_config, buf.data, buf.size, &core, d->err);
    if (r < 0)
        return r;
    core_free(d->core);
    d->core = core;
    return 0;
}

/* The cluster is made anew, as when a node joins; here it is the same one. */
static int carry(struct driver *d)
{
    const struct cluster_spec *cluster = d->config->cluster;
    uint32_t *gpus = mem_zalloc((size_t)d->result->gpu_count + cluster->bare_count, sizeof(*gpus));
    struct core *core;
    int r;

    if (!gpus)
        return error_set(d->err, -ENOMEM, "no memory");
    for (uint32_t g = 0; g < d->result->gpu_count; g++)
        gpus[g] = g;
    for (uint32_t n = 0; n < cluster->bare_count; n++)
        gpus[d->result->gpu_count + n] = cluster->node_count + n;
    r = core_carry(d->core, cluster, &d->core_config, gpus, &core, d->err);
    mem_free(gpus);
    if (r < 0)
        return r;
    core_free(d->core);
    d->core = core;
    return 0;
}

/* Instants in a row at which nothing but timers of the core went off, with nothing else to come: nobody will ever
 * start. */
enum { IDLE_MAX = 10000 };

static int loop(struct driver *d)
{
    uint32_t idle = 0, instants = 0;
    int r = 0;

    while (r == 0 && d->ended < d->trace->count && idle < IDLE_MAX) {
        usec_t at = next_instant(d);
        bool others = heap_next(&d->heap) != USEC_NEVER || use_next(d) != USEC_NEVER ||
                      d->next_arrival < d->trace->count || d->has_fault || d->next_script < d->config->script_count;

        if (d->config->until && at > d->config->until) {
            d->now = d->config->until; /* nothing happens there, but waits and samples last until then */
            r = instant(d);
            break;
        }
        if (at == USEC_NEVER)
            break;
        idle = others ? 0 : idle + 1;
        d->now = at;
        instants++;
        r = instant(d);
        if (r == 0 && d->config->reload_every && instants % d->config->reload_every == 0)
            r = reload(d);
        if (r == 0 && d->config->carry_every && instants % d->config->carry_every == 0)
            r = carry(d);
    }
    return r;
}

static void collect(struct run_result *result, const char *const *names, const int64_t *values)
{
    for (uint32_t i = 0; names && names[i]; i++) {
        uint32_t k = 0;

        while (k < result->counter_count && result->counters[k].name != names[i])
            k++;
        if (k == COUNTERS_MAX)
            return;
        if (k == result->counter_count)
            result->counters[result->counter_count++].name = names[i];
        result->counters[k].value += values[i];
    }
}

/* What planners and tuners counted, summed over virtual clusters. */
static void collect_counters(struct driver *d)
{
    for (uint32_t v = 0; v < core_vc_count(d->core); v++) {
        const struct vc *vc = core_vc(d->core, v);

        collect(d->result, vc->policy.planner->counters, vc->planner.state);
        for (uint32_t i = 0; i < vc->policy.tune_count; i++)
            collect(d->result, vc->policy.tune[i]->counters, vc->tune[i].state);
    }
}

static void finish(struct driver *d)
{
    if (d->config->until && d->config->until > d->now)
        d->now = d->config->until;
    bars_close_all(d);
    collect_counters(d);
    searches_result(d);
    for (uint32_t i = 0; i < d->trace->count; i++) {
        struct job_result *out = &d->result->jobs[i];

        if (d->actors[i].in_core) {
            core_settle_waits(d->core, d->actors[i].slot);
            answer_collect(d, i);
            out->outcome = out->start >= 0 ? OUTCOME_RUNNING : OUTCOME_WAITING;
        }
        for (int k = 0; k < out->deadlines; k++)
            if (out->outcome == OUTCOME_DONE && out->deadline_met < 0 &&
                out->end <= d->trace->jobs[i].spec.deadlines[k].at)
                out->deadline_met = (int8_t)k;
        if (out->deadlines)
            out->worth = d->trace->jobs[i].spec.deadlines[0].value;
        if (out->deadline_met >= 0)
            out->kept = d->trace->jobs[i].spec.deadlines[out->deadline_met].value;
        /* A run that was cut short: what is late already will not be kept. */
        if (out->promise && out->outcome != OUTCOME_DONE && out->outcome != OUTCOME_FAILED && !out->breach &&
            d->now > out->promise)
            out->breach = BREACH_PLAN;
    }
}

/* Whether jobs that ask for whole GPUs may come to share them. */
static bool tunes(const struct policy_setup *setup)
{
    return setup->tune_count > 0 || setup->planner->tunes;
}

static int prepare_jobs(struct driver *d)
{
    size_t count = d->trace->count;

    d->actors = mem_zalloc(count, sizeof(*d->actors));
    d->actor_of_slot = mem_zalloc(count + 1, sizeof(*d->actor_of_slot));
    d->heap_memory = mem_zalloc(heap_size((uint32_t)count), 1);
    d->touched = mem_zalloc(TOUCHED_MAX, sizeof(*d->touched));
    d->result->jobs = mem_zalloc(count, sizeof(*d->result->jobs));
    if (!d->actors || !d->actor_of_slot || !d->heap_memory || !d->touched || !d->result->jobs)
        return -ENOMEM;
    d->result->job_count = count;
    heap_init(&d->heap, d->heap_memory, (uint32_t)count);
    for (uint32_t i = 0; i < count; i++) {
        const struct jobspec *spec = &d->trace->jobs[i].spec;

        d->sharing |= spec->share < MGPU_ONE || spec->klass == CLASS_OPPORTUNISTIC ||
                      tunes(&d->config->policies[d->config->job_vcs[i]]);
        d->actors[i].node = d->actors[i].beside = UINT32_MAX;
        d->result->jobs[i] = (struct job_result){ .id = spec->id,
                                                  .submit = spec->submit,
                                                  .start = -1,
                                                  .end = -1,
                                                  .alone = world_work(d->world, i),
                                                  .gpus = jobspec_gpus(spec),
                                                  .share = spec->share,
                                                  .user = spec->user,
                                                  .vc = spec->vc,
                                                  .model = spec->model,
                                                  .deadlines = spec->deadline_count,
                                                  .deadline_met = -1 };
    }
    return 0;
}

static int prepare(struct driver *d)
{
    const struct driver_config *config = d->config;
    struct core_config *core = &d->core_config;
    int r;

    *core = (struct core_config){ .limits = { .jobs = (uint32_t)config->trace->count + 1 },
                                  .round = config->round,
                                  .seed = config->seed,
                                  .policies = config->policies };
    r = 0;
    if (config->port)
        d->core = config->port->core;
    else
        r = core_new(config->cluster, core, &d->core, d->err);
    if (r < 0)
        return r;
    d->world = world_new(config->trace, config->cluster, &config->world, d->err);
    if (!d->world)
        return -EINVAL;
    r = observer_new(config, d->world, &d->observer, d->err);
    if (r == 0)
        r = batches_new(config, d->world, &d->batches, d->err);
    if (r == 0)
        r = searches_new(config, &d->searches, d->err);
    if (r < 0)
        return r;
    r = prepare_jobs(d);
    if (r < 0)
        return error_set(d->err, r, "no memory for %zu jobs", config->trace->count);
    if (use_init(d) < 0)
        return error_set(d->err, -ENOMEM, "no memory for %zu jobs", config->trace->count);
    d->result->trace = config->trace;
    d->result->cluster = config->cluster;
    d->result->gpu_count = core_ledger(d->core)->topo.gpu_count;
    d->result->node_count = config->cluster->node_count;
    d->result->vc_count = config->cluster->vc_count;
    d->result->seed = config->seed;
    if (config->keep_series && d->result->gpu_count <= SPAN_GPUS_MAX) {
        d->open = mem_zalloc((size_t)d->result->gpu_count * BAR_LANES, sizeof(*d->open));
        if (!d->open)
            return error_set(d->err, -ENOMEM, "no memory for the chart");
        for (uint32_t g = 0; g < d->result->gpu_count * BAR_LANES; g++)
            d->open[g].from = -1;
    }
    r = predictor_new(config->trace, &config->world, d->result->warning, &d->predictor, d->err);
    if (r < 0)
        return r;
    d->sharing |= config->world.share_gpus;
    d->idle_since = mem_zalloc(d->result->gpu_count, sizeof(*d->idle_since));
    if (!d->idle_since)
        return error_set(d->err, -ENOMEM, "no memory for %u GPUs", d->result->gpu_count);
    d->has_fault = world_next_fault(d->world, 0, &d->fault);
    return 0;
}

static double seconds_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) * 1e-9;
}

int driver_run(const struct driver_config *config, struct run_result *ret_result, struct error *err)
{
    struct driver d = { .config = config, .trace = config->trace, .result = ret_result, .err = err };
    struct summary *sum = &ret_result->summary;
    struct timespec begin;
    struct rusage usage;
    int r;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    r = prepare(&d);
    if (r == 0)
        r = loop(&d);
    if (r == 0) {
        finish(&d);
        sum->decisions = core_decisions(d.core);
        sum->events = d.events;
        sum->digest = core_digest(d.core);
        sum->wall_seconds = seconds_since(&begin);
        sum->decisions_per_second = sum->wall_seconds > 0 ? (double)sum->decisions / sum->wall_seconds : 0;
        getrusage(RUSAGE_SELF, &usage);
        sum->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    }
    if (!config->port)
        core_free(d.core);
    observer_free(d.observer);
    batches_free(d.batches);
    searches_free(d.searches);
    world_free(d.world);
    mem_free(d.actors);
    mem_free(d.actor_of_slot);
    mem_free(d.heap_memory);
    mem_free(d.window_memory);
    mem_free(d.touched);
    mem_free(d.open);
    mem_free(d.answer);
    mem_free(d.idle_since);
    predictor_free(d.predictor);
    return r;
}
