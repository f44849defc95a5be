/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - see driver.h.
 *
 * The driver holds the truth (how much work a job has, when its attempt will fail) and the core what can be known. Both
 * count progress in nominal run time; the driver's count decides when a job ends, the core's is what policies see.
 */
#include "sim/driver.h"

#include <assert.h>
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/heap.h"
#include "core/snap.h"

enum due { DUE_NOTHING, DUE_STARTED, DUE_STOPPED, DUE_END, DUE_FAIL };

/* One job of the trace as the world sees it. */
struct actor {
    uint32_t slot, gen; /* reference in the core */
    uint8_t due;        /* what its instant in the heap stands for */
    uint8_t fails;      /* attempts that failed */
    bool in_core, running;
    usec_t since;    /* progress below is up to here */
    usec_t progress; /* true progress, in nominal run time */
    usec_t saved;    /* of it, what a crash cannot take */
    ppm_t rate;
};

struct driver {
    const struct driver_config *config;
    const struct trace *trace;
    struct core_config core_config;
    struct core *core;
    struct world *world;
    struct actor *actors;
    uint32_t *actor_of_slot; /* by slot of the core */
    struct span *open;       /* by GPU: the bar under way */
    void *heap_memory;
    struct heap heap; /* by job of the trace */
    struct run_result *result;
    struct error *err;
    size_t next_arrival, next_script;
    struct world_fault fault;
    bool has_fault;
    uint32_t *touched; /* jobs whose speed may have changed */
    size_t touched_count;
    bool sharing; /* some job shares a GPU */
    uint64_t ended, events;
    usec_t now;
};

enum { TOUCHED_MAX = 1 << 16 };

/* ---- shapes and speeds ---- */

static struct world_shape shape_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    struct world_shape shape = { .gpus = job->gpus, .sku = job->sku, .node_gpus_min = INT32_MAX };
    uint32_t node = UINT32_MAX, rack = UINT32_MAX;
    int32_t here = 0;

    /* GPUs come in ascending order, so those of a node and of a rack follow each other. */
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct gpu *gpu = &ledger->gpus[ledger->shares[s].gpu];

        if (gpu->node != node) {
            if (here && here < shape.node_gpus_min)
                shape.node_gpus_min = here;
            node = gpu->node;
            here = 0;
            shape.nodes++;
            if (topo_above(&ledger->topo, node, LEVEL_RACK) != rack) {
                rack = topo_above(&ledger->topo, node, LEVEL_RACK);
                shape.racks++;
            }
        }
        if (++here > shape.node_gpus_max)
            shape.node_gpus_max = here;
    }
    if (here < shape.node_gpus_min)
        shape.node_gpus_min = here;
    return shape;
}

enum { NEIGHBOURS_MAX = 64 };

static size_t neighbours_of(const struct driver *d, uint32_t slot, struct world_neighbour *out)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    size_t count = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            uint32_t other = ledger->shares[o].job;
            bool known = other == slot || core_job(d->core, other)->state != JOB_RUNNING;

            for (size_t i = 0; i < count && !known; i++)
                known = out[i].job == d->actor_of_slot[other];
            if (!known && count < NEIGHBOURS_MAX)
                out[count++] = (struct world_neighbour){ d->actor_of_slot[other], ledger->shares[o].amount };
        }
    return count;
}

static ppm_t rate_of(const struct driver *d, uint32_t index)
{
    struct world_neighbour neighbours[NEIGHBOURS_MAX];
    uint32_t slot = d->actors[index].slot;
    struct world_shape shape = shape_of(d, slot);
    size_t count = neighbours_of(d, slot, neighbours);

    return world_rate(d->world, index, &shape, neighbours, count);
}

/* ---- true progress ---- */

static void actor_settle(struct driver *d, struct actor *a)
{
    if (a->running)
        a->progress += muldiv_floor(d->now - a->since, a->rate, PPM_ONE);
    a->since = d->now;
}

static void actor_due(struct driver *d, uint32_t index, enum due due, usec_t at)
{
    d->actors[index].due = (uint8_t)due;
    heap_set(&d->heap, index, at);
}

/* Sets the instant at which the attempt under way is over, one way or the other. */
static void actor_plan_end(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    const struct truth *truth = &d->trace->jobs[index].truth;
    usec_t work = world_work(d->world, index), goal = work;
    bool fails = truth->fail != FAIL_NONE && (truth->fail_times == UINT8_MAX || a->fails < truth->fail_times);

    if (fails && truth->fail_after < work)
        goal = truth->fail_after > a->progress ? truth->fail_after : a->progress;
    else
        fails = false;
    if (a->rate == 0) {
        actor_due(d, index, DUE_NOTHING, USEC_NEVER);
        return;
    }
    actor_due(d, index, fails ? DUE_FAIL : DUE_END,
              d->now + (goal > a->progress ? muldiv_ceil(goal - a->progress, PPM_ONE, a->rate) : 0));
}

/* ---- what is kept for the report ---- */

/* Bars are kept for small clusters only, so looking at every GPU is cheap, and right even when the job has lost its. */
static void bars_close(struct driver *d, uint32_t index)
{
    for (uint32_t g = 0; d->open && g < d->result->gpu_count; g++) {
        struct span *bar = &d->open[g];

        if (bar->job != index || bar->from < 0)
            continue;
        bar->to = d->now;
        if (bar->to > bar->from)
            (void)run_result_span(d->result, bar);
        bar->from = -1;
    }
}

static void bars_open(struct driver *d, uint32_t slot, uint8_t kind)
{
    const struct ledger *ledger = core_ledger(d->core);

    if (!d->open)
        return;
    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        d->open[ledger->shares[s].gpu] = (struct span){ .from = d->now,
                                                        .job = d->actor_of_slot[slot],
                                                        .gpu = ledger->shares[s].gpu,
                                                        .share = ledger->shares[s].amount,
                                                        .kind = kind };
}

static void bars_close_all(struct driver *d)
{
    for (uint32_t g = 0; d->open && g < d->result->gpu_count; g++)
        if (d->open[g].from >= 0)
            bars_close(d, d->open[g].job);
}

/* ---- jobs that share a GPU slow each other down ---- */

/* Notes that the speeds of those beside the job have to be looked at again after the step. */
static void touch_neighbours(struct driver *d, uint32_t slot)
{
    struct world_neighbour neighbours[NEIGHBOURS_MAX];
    size_t count;

    if (!d->sharing)
        return;
    count = neighbours_of(d, slot, neighbours);
    for (size_t i = 0; i < count && d->touched_count < TOUCHED_MAX; i++)
        d->touched[d->touched_count++] = neighbours[i].job;
}

static int sample(struct driver *d)
{
    const struct ledger *ledger = core_ledger(d->core);
    struct sample s = { .at = d->now,
                        .mgpu_held = core_mgpu_held(d->core),
                        .waiting = core_waiting(d->core),
                        .running = core_running(d->core) };
    int r;

    for (uint32_t k = 0; k < ledger->topo.sku_count; k++)
        s.mgpu_total += (int64_t)ledger->topo.pools[ledger->topo.sku_pools[k]].total * MGPU_ONE;
    for (uint32_t v = 0; v < core_vc_count(d->core); v++)
        s.mgpu_waiting += core_vc(d->core, v)->queue.mgpu_waiting;
    r = run_result_sample(d->result, &s);
    for (uint32_t v = 0; r == 0 && d->config->keep_series && core_vc_count(d->core) > 1 && v < core_vc_count(d->core);
         v++) {
        const struct vc *vc = core_vc(d->core, v);
        struct vc_sample vs = { .at = d->now, .vc = v, .waiting = vc->queue.waiting };

        for (uint32_t k = 0; k < ledger->topo.sku_count; k++)
            vs.mgpu_held += vc->used[k] + vc->guest[k];
        r = run_result_vc_sample(d->result, &vs);
    }
    return r;
}

/* ---- offers ---- */

static int offer(struct driver *d, struct event *event, uint32_t index)
{
    event->job = d->actors[index].slot;
    event->gen = d->actors[index].gen;
    d->events++;
    return core_offer(d->core, event, NULL, d->err);
}

static int offer_arrival(struct driver *d, uint32_t index)
{
    const struct trace_job *from = &d->trace->jobs[index];
    struct jobspec spec = from->spec;
    struct event event = { .kind = EVENT_SUBMIT, .target = d->config->job_vcs[index], .spec = &spec };
    struct job_ref ref;
    int r;

    spec.estimate = world_estimate(d->world, index);
    spec.sku_mask = d->config->job_skus ? d->config->job_skus[index] : 0;
    r = core_offer(d->core, &event, &ref, d->err);
    d->events++;
    if (r == -ERANGE && d->config->skip_infeasible) {
        d->result->jobs[index].outcome = OUTCOME_REFUSED;
        d->ended++;
        return 0;
    }
    if (r < 0)
        return r;
    d->actors[index].slot = ref.index;
    d->actors[index].gen = ref.gen;
    d->actors[index].in_core = true;
    d->actor_of_slot[ref.index] = index;
    return 0;
}

static int offer_started(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_STARTED, .rate = rate_of(d, index), .progress = PROGRESS_OWN };
    struct job_result *out = &d->result->jobs[index];

    actor_settle(d, a);
    a->rate = event.rate;
    a->running = true;
    if (out->start < 0)
        out->start = d->now;
    bars_close(d, index);
    bars_open(d, a->slot, 0);
    touch_neighbours(d, a->slot);
    actor_plan_end(d, index);
    return offer(d, &event, index);
}

static int offer_stopped(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_STOPPED };
    usec_t kept = world_kept(d->world, index, a->progress, true);

    if (kept < a->saved)
        kept = a->saved;
    kept -= world_rework(d->world, index);
    d->result->jobs[index].lost += a->progress - kept;
    a->progress = a->saved = event.progress = kept;
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    return offer(d, &event, index);
}

/* What survives a crash: the last periodic checkpoint, or what a planned stop has saved. */
static void actor_crash(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    usec_t kept = world_kept(d->world, index, a->progress, false);

    if (kept < a->saved)
        kept = a->saved;
    d->result->jobs[index].lost += a->progress - kept;
    a->progress = a->saved = kept;
}

static int offer_ended(struct driver *d, uint32_t index, bool failed)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_ENDED, .fail = FAIL_NONE, .progress = PROGRESS_OWN };

    actor_settle(d, a);
    a->running = false;
    bars_close(d, index);
    touch_neighbours(d, a->slot);
    if (failed) {
        event.fail = (enum fail_class)d->trace->jobs[index].truth.fail;
        a->fails++;
        actor_crash(d, index);
        event.progress = a->progress;
    }
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    return offer(d, &event, index);
}

static int offer_due(struct driver *d)
{
    int r = 0;

    while (r == 0 && heap_next(&d->heap) <= d->now) {
        uint32_t index = heap_first(&d->heap);

        switch ((enum due)d->actors[index].due) {
        case DUE_STARTED:
            r = offer_started(d, index);
            break;
        case DUE_STOPPED:
            r = offer_stopped(d, index);
            break;
        case DUE_END:
        case DUE_FAIL:
            r = offer_ended(d, index, d->actors[index].due == DUE_FAIL);
            break;
        case DUE_NOTHING:
            heap_clear(&d->heap, index);
            break;
        }
    }
    return r;
}

static int offer_faults(struct driver *d)
{
    int r = 0;

    while (r == 0 && d->has_fault && d->fault.at <= d->now) {
        struct event event = { .kind = EVENT_NODE, .target = d->fault.node, .up = d->fault.up };

        if (d->fault.gpu != WORLD_WHOLE_NODE) {
            event.kind = EVENT_GPU;
            event.target = core_ledger(d->core)->topo.nodes[d->fault.node].first_gpu + d->fault.gpu;
        }
        d->events++;
        r = core_offer(d->core, &event, NULL, d->err);
        d->has_fault = world_next_fault(d->world, d->now, &d->fault);
    }
    return r;
}

/* What the script says of this instant. Arrivals have been offered: a job can be cancelled as it comes. */
static int offer_script(struct driver *d)
{
    const struct driver_config *config = d->config;
    int r = 0;

    while (r == 0 && d->next_script < config->script_count && config->script[d->next_script].at <= d->now) {
        const struct driver_event *from = &config->script[d->next_script++];
        struct event event = {
            .kind = from->kind, .target = from->target, .up = from->up, .sku = from->sku, .value = from->value
        };

        if (from->kind == EVENT_CANCEL || from->kind == EVENT_HOLD || from->kind == EVENT_RELEASE) {
            if (from->target < d->trace->count && d->actors[from->target].in_core)
                r = offer(d, &event, from->target);
            continue;
        }
        if (from->kind == EVENT_COUNT)
            continue;
        d->events++;
        r = core_offer(d->core, &event, NULL, d->err);
    }
    return r;
}

/* ---- effects ---- */

/* The result's view of a job. A slot keeps what was in it until it is given away again. */
static void collect(struct driver *d, uint32_t index)
{
    const struct actor *a = &d->actors[index];
    struct job_result *out = &d->result->jobs[index];
    const struct job *job = core_job(d->core, a->slot);

    for (int i = 0; i < REASON_COUNT; i++)
        out->waited[i] = job->waited[i];
    out->run = job->ran;
    out->preemptions = job->preemptions;
    out->migrations = job->migrations;
    out->attempts = job->attempts;
    out->fair_share = job->over_quota;
    out->fragmentation = job->waited_all - job->over_quota;
}

static void note_placement(struct driver *d, uint32_t index)
{
    struct world_shape shape = shape_of(d, d->actors[index].slot);
    struct job_result *out = &d->result->jobs[index];
    uint32_t size = core_ledger(d->core)->topo.node_gpus_max[shape.sku];
    uint32_t fewest = ((uint32_t)shape.gpus + size - 1) / size;

    out->nodes = shape.nodes;
    out->locality = (uint8_t)(shape.racks > 1 ? 2 : shape.nodes > fewest ? 1 : 0);
}

static int on_start(struct driver *d, uint32_t index, enum world_cost kind)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_of(d, a->slot);
    usec_t cost = world_cost(d->world, index, kind, &shape);

    actor_settle(d, a);
    a->running = false;
    note_placement(d, index);
    d->result->jobs[index].overhead += cost;
    if (cost == 0)
        return offer_started(d, index);
    bars_open(d, a->slot, 1);
    actor_due(d, index, DUE_STARTED, d->now + cost);
    return 0;
}

static int on_stop(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_of(d, a->slot);
    usec_t cost = world_cost(d->world, index, WORLD_STOP, &shape), left = heap_at(&d->heap, index);

    /* A start that is cut short costs only what was spent of it. */
    if (a->due == DUE_STARTED && left != USEC_NEVER)
        d->result->jobs[index].overhead -= left - d->now;
    actor_settle(d, a);
    a->running = false;
    bars_close(d, index);
    touch_neighbours(d, a->slot);
    if (cost == 0)
        return offer_stopped(d, index);
    d->result->jobs[index].overhead += cost;
    bars_open(d, a->slot, 1);
    actor_due(d, index, DUE_STOPPED, d->now + cost);
    return 0;
}

static int on_kill(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_RATE };
    usec_t left = heap_at(&d->heap, index);

    if (a->due == DUE_STARTED && left != USEC_NEVER)
        d->result->jobs[index].overhead -= left - d->now;
    actor_settle(d, a);
    a->running = false;
    bars_close(d, index);
    actor_crash(d, index);
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    event.progress = a->progress;
    if (core_job(d->core, a->slot)->gen != a->gen)
        return 0; /* a person has cancelled it: the core has forgotten it already */
    return offer(d, &event, index);
}

static void on_forget(struct driver *d, uint32_t index)
{
    collect(d, index);
    d->actors[index].in_core = false;
    heap_clear(&d->heap, index);
    d->ended++;
}

static void on_decision(struct driver *d, const struct decision *decision, const uint32_t *gpus)
{
    if (d->config->on_decision)
        d->config->on_decision(d->config->on_decision_arg, d->core, decision, gpus);
    /* A job that a person has cancelled counts as failed. One whose hardware died comes back. */
    if (decision->kind == DECISION_END || decision->kind == DECISION_FAIL ||
        (decision->kind == DECISION_KILL && decision->reason == REASON_NONE)) {
        uint32_t index = d->actor_of_slot[decision->job];
        struct job_result *out = &d->result->jobs[index];

        out->end = d->now;
        out->outcome = decision->kind == DECISION_END ? OUTCOME_DONE : OUTCOME_FAILED;
    }
}

static int carry_out(struct driver *d, const struct outbox *out)
{
    int r = 0;

    for (size_t i = 0; i < out->decision_count; i++)
        on_decision(d, &out->decisions[i], out->gpus + out->decisions[i].gpu_first);
    for (size_t i = 0; i < out->effect_count && r == 0; i++) {
        uint32_t index = d->actor_of_slot[out->effects[i].job];

        switch (out->effects[i].kind) {
        case EFFECT_START:
            r = on_start(d, index, WORLD_START);
            break;
        case EFFECT_RESUME:
            r = on_start(d, index, WORLD_RESUME);
            break;
        case EFFECT_MIGRATE:
            r = on_start(d, index, WORLD_MIGRATE);
            break;
        case EFFECT_STOP:
            r = on_stop(d, index);
            break;
        case EFFECT_KILL:
            r = on_kill(d, index);
            break;
        case EFFECT_FORGET:
            on_forget(d, index);
            break;
        case EFFECT_COUNT:
            break;
        }
    }
    return r;
}

static int offer_rates(struct driver *d)
{
    int r = 0;

    for (size_t i = 0; i < d->touched_count && r == 0; i++) {
        uint32_t index = d->touched[i];
        struct actor *a = &d->actors[index];
        struct event event = { .kind = EVENT_RATE, .progress = PROGRESS_OWN };

        if (!a->running)
            continue;
        event.rate = rate_of(d, index);
        if (event.rate == a->rate)
            continue;
        actor_settle(d, a);
        a->rate = event.rate;
        actor_plan_end(d, index);
        r = offer(d, &event, index);
    }
    d->touched_count = 0;
    return r;
}

/* ---- the loop ---- */

static usec_t next_instant(const struct driver *d)
{
    usec_t at = heap_next(&d->heap), wake = core_next_wake(d->core);

    if (wake < at)
        at = wake;
    if (d->next_arrival < d->trace->count && d->trace->jobs[d->next_arrival].spec.submit < at)
        at = d->trace->jobs[d->next_arrival].spec.submit;
    if (d->has_fault && d->fault.at < at)
        at = d->fault.at;
    if (d->next_script < d->config->script_count && d->config->script[d->next_script].at < at)
        at = d->config->script[d->next_script].at;
    return at > d->now ? at : d->now;
}

static int instant(struct driver *d)
{
    const struct outbox *out;
    int r = offer_due(d);

    if (r == 0)
        r = offer_faults(d);
    while (r == 0 && d->next_arrival < d->trace->count && d->trace->jobs[d->next_arrival].spec.submit <= d->now)
        r = offer_arrival(d, (uint32_t)d->next_arrival++);
    if (r == 0)
        r = offer_script(d);
    while (r == 0) {
        uint64_t before = d->events;

        out = core_step(d->core, d->now);
        r = carry_out(d, out);
        if (r == 0)
            r = offer_rates(d);
        if (d->events == before)
            break;
    }
    if (r == 0 && d->config->on_instant)
        d->config->on_instant(d->config->on_instant_arg, d->core);
    return r == 0 ? sample(d) : r;
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

/* Instants in a row at which nothing but timers of the core went off, with nothing else to come: nobody will ever
 * start. */
enum { IDLE_MAX = 10000 };

static int loop(struct driver *d)
{
    uint32_t idle = 0, instants = 0;
    int r = 0;

    while (r == 0 && d->ended < d->trace->count && idle < IDLE_MAX) {
        usec_t at = next_instant(d);
        bool others = heap_next(&d->heap) != USEC_NEVER || d->next_arrival < d->trace->count || d->has_fault ||
                      d->next_script < d->config->script_count;

        if (at == USEC_NEVER || (d->config->until && at > d->config->until))
            break;
        idle = others ? 0 : idle + 1;
        d->now = at;
        r = instant(d);
        if (r == 0 && d->config->reload_every && ++instants % d->config->reload_every == 0)
            r = reload(d);
    }
    return r;
}

static void finish(struct driver *d)
{
    if (d->config->until && d->config->until > d->now)
        d->now = d->config->until;
    bars_close_all(d);
    for (uint32_t i = 0; i < d->trace->count; i++) {
        struct job_result *out = &d->result->jobs[i];

        if (d->actors[i].in_core) {
            core_settle_waits(d->core, d->actors[i].slot);
            collect(d, i);
            out->outcome = out->start >= 0 ? OUTCOME_RUNNING : OUTCOME_WAITING;
        }
        for (int k = 0; k < out->deadlines; k++)
            if (out->outcome == OUTCOME_DONE && out->deadline_met < 0 &&
                out->end <= d->trace->jobs[i].spec.deadlines[k].at)
                out->deadline_met = (int8_t)k;
    }
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

        d->sharing |= spec->share < MGPU_ONE || spec->klass == CLASS_OPPORTUNISTIC;
        d->result->jobs[i] = (struct job_result){ .id = spec->id,
                                                  .submit = spec->submit,
                                                  .start = -1,
                                                  .end = -1,
                                                  .alone = world_work(d->world, i),
                                                  .gpus = spec->gpus,
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
    r = core_new(config->cluster, core, &d->core, d->err);
    if (r < 0)
        return r;
    d->world = world_new(config->trace, config->cluster, &config->world, d->err);
    if (!d->world)
        return -EINVAL;
    r = prepare_jobs(d);
    if (r < 0)
        return error_set(d->err, r, "no memory for %zu jobs", config->trace->count);
    d->result->trace = config->trace;
    d->result->cluster = config->cluster;
    d->result->gpu_count = core_ledger(d->core)->topo.gpu_count;
    d->result->node_count = config->cluster->node_count;
    d->result->vc_count = config->cluster->vc_count;
    d->result->seed = config->seed;
    if (config->keep_series && d->result->gpu_count <= SPAN_GPUS_MAX) {
        d->open = mem_zalloc(d->result->gpu_count, sizeof(*d->open));
        if (!d->open)
            return error_set(d->err, -ENOMEM, "no memory for the chart");
        for (uint32_t g = 0; g < d->result->gpu_count; g++)
            d->open[g].from = -1;
    }
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
    core_free(d.core);
    world_free(d.world);
    mem_free(d.actors);
    mem_free(d.actor_of_slot);
    mem_free(d.heap_memory);
    mem_free(d.touched);
    mem_free(d.open);
    return r;
}
