/* SPDX-License-Identifier: Apache-2.0 */
/* driver_answer.c - what happens in the world: arrivals, starts, stops, ends, faults, what people do. Its answers to
 * the core's effects are in driver_effect.c. */
#include <assert.h>
#include <errno.h>

#include "sim/driver/batches.h"
#include "sim/driver/driver_internal.h"
#include "sim/driver/observe.h"
#include "sim/driver/reshape.h"

int offer_about(struct driver *d, struct event *event, uint32_t index)
{
    event->job = d->actors[index].slot;
    event->gen = d->actors[index].gen;
    return driver_offer(d, event, index, NULL);
}

void answer_settled(struct driver *d, uint32_t index, const struct job_ref *ref)
{
    d->actors[index].slot = ref->index;
    d->actors[index].gen = ref->gen;
    d->actors[index].in_core = true;
    if (ref->index != JOB_NONE)
        d->actor_of_slot[ref->index] = index;
}

/* Licences as the cluster numbers them, ascending. */
static void licenses_bind(const struct driver *d, struct jobspec *spec)
{
    for (uint32_t i = 0; d->config->licenses && i < spec->license_count; i++) {
        struct license_need need = spec->licenses[i];
        uint32_t at = i;

        need.license = d->config->licenses[need.license];
        for (; at > 0 && spec->licenses[at - 1].license > need.license; at--)
            spec->licenses[at] = spec->licenses[at - 1];
        spec->licenses[at] = need;
    }
}

/* The types of its sides as those of the cluster. One that has none of them gets a bit beyond: the core refuses it. */
static void sides_bind(const struct driver *d, struct jobspec *spec)
{
    for (uint32_t i = 0; i < spec->side_count && d->config->type_skus; i++) {
        uint32_t mask = 0;

        for (uint32_t t = 0; t < 32; t++)
            mask |= spec->sides[i].sku_mask >> t & 1 ? d->config->type_skus[t] : 0;
        spec->sides[i].sku_mask = mask ? mask : 1u << (30 - i);
    }
}

int answer_arrival(struct driver *d, uint32_t index)
{
    const struct trace_job *from = &d->trace->jobs[index];
    struct jobspec spec = from->spec;
    struct event event = { .kind = EVENT_SUBMIT, .target = d->config->job_vcs[index], .spec = &spec };
    struct job_ref ref;
    int r;

    spec.estimate = world_estimate(d->world, index);
    spec.launch = world_stage(d->world, index, from->truth.launch, false);
    spec.save = world_stage(d->world, index, from->truth.save, true);
    spec.skew_permille = world_skew(d->world, index);
    if (spec.gpus) {
        predictor_ask(d->predictor, index, &spec);
        stage_share(d, &spec);
    }
    spec.sku_mask = d->config->job_skus ? d->config->job_skus[index] : 0;
    sides_bind(d, &spec);
    licenses_bind(d, &spec);
    r = driver_offer(d, &event, index, &ref);
    if (r == -ERANGE && d->config->skip_infeasible) {
        d->result->jobs[index].outcome = OUTCOME_REFUSED;
        d->ended++;
        return 0;
    }
    if (r < 0)
        return trace_fail(d->trace, index, r, d->err);
    answer_settled(d, index, &ref);
    r = spec.gpus ? answer_profile(d, index) : 0;
    return r < 0 || spec.gpus == 0 ? r : answer_told(d, index);
}

int offer_started(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_STARTED, .rate = rate_of(d, index), .progress = PROGRESS_OWN };
    struct job_result *out = &d->result->jobs[index];
    uint32_t mate = core_job(d->core, a->slot)->mate;

    actor_settle(d, a);
    a->rate = event.rate;
    a->running = true;
    if (a->moving)
        a->saved = a->progress; /* else it could not have gone on there */
    move_over(a);
    a->charged = d->now;
    if (world_paces(d->world)) {
        struct world_shape shape = shape_of(d, a->slot);

        world_pace_place(d->world, index, &shape, &a->pace);
    }
    if (out->start < 0)
        out->start = d->now;
    bars_close(d, index);
    bars_open(d, a->slot, 0);
    stage_idle_end(d, index);
    a->save_end = a->used = 0;
    a->beside = mate == JOB_NONE ? DRIVER_NOBODY : d->actor_of_slot[mate];
    if (mate != JOB_NONE) {
        actor_settle(d, &d->actors[a->beside]);
        d->actors[a->beside].beside = index;
        reshape_begin(d, a->beside);
    }
    reshape_begin(d, index);
    actor_touch_neighbours(d, a->slot);
    actor_plan_end(d, index);
    if (d->trace->jobs[index].spec.gpus)
        observer_started(d->observer, index, d->now);
    use_changed(d, index);
    batches_begin(d->batches, index, d->now, a->progress);
    d->result->shared.guest_starts += a->guest;
    return offer_about(d, &event, index);
}

int offer_stopped(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_STOPPED };
    usec_t kept = world_kept(d->world, index, a->progress, true);

    if (kept < a->saved)
        kept = a->saved;
    kept -= world_rework(d->world, index);
    d->result->jobs[index].lost += a->progress - kept;
    a->progress = a->saved = event.progress = kept;
    move_over(a);
    a->left_at = d->now;
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    if (!core_job(d->core, a->slot)->parks && d->trace->jobs[index].spec.preempt == PREEMPT_CANCEL) {
        event.kind = EVENT_ENDED; /* and does not come back */
        event.fail = FAIL_PREEMPTED;
    }
    return offer_about(d, &event, index);
}

/* It has saved itself and left what it does not keep; it goes on when it is where it goes. */
static int offer_left(struct driver *d, uint32_t index)
{
    struct event event = { .kind = EVENT_STOPPED, .progress = PROGRESS_OWN };

    actor_due(d, index, d->actors[index].fate == MOVE_WELL ? DUE_STARTED : DUE_LOST, d->actors[index].restart_at);
    return offer_about(d, &event, index);
}

/* What survives a crash: the last periodic checkpoint, or what a planned stop or a move has saved. */
void actor_crash(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    bool saves = d->trace->jobs[index].truth.exit == EXIT_REQUEUE && a->due == DUE_FAIL; /* then it has saved itself */
    usec_t kept = move_saved(d, a) ? a->progress : world_kept(d->world, index, a->progress, saves);

    if (kept < a->saved)
        kept = a->saved;
    d->result->jobs[index].lost += a->progress - kept;
    a->progress = a->saved = kept;
    move_over(a);
    a->left_at = 1; /* what it goes on from was sent away long ago */
}

void actor_gone(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];

    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    bars_close(d, index);
    actor_crash(d, index);
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
}

static int offer_ended(struct driver *d, uint32_t index, bool failed)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_ENDED, .fail = FAIL_NONE, .progress = PROGRESS_OWN };

    if (!a->told)
        stage_last_use(d, index);
    a->true_end = a->told ? a->true_end : 0;
    a->told = false;
    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    bars_close(d, index);
    actor_touch_neighbours(d, a->slot);
    if (failed) {
        event.fail = (enum fail_class)d->trace->jobs[index].truth.fail;
        event.value = d->trace->jobs[index].truth.exit;
        a->fails++;
        actor_crash(d, index);
        event.progress = a->progress;
    }
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    return offer_about(d, &event, index);
}

int answer_due(struct driver *d)
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
            if (!stage_unreported(d, index))
                r = offer_ended(d, index, d->actors[index].due == DUE_FAIL);
            break;
        case DUE_SAVE:
            stage_save(d, index);
            break;
        case DUE_IDLE:
            r = stage_idle(d, index);
            break;
        case DUE_LEFT:
            r = offer_left(d, index);
            break;
        case DUE_LOST:
            r = move_failed(d, index);
            break;
        case DUE_NOTHING:
            heap_clear(&d->heap, index);
            break;
        }
    }
    return r;
}

/* What an event costs those that run on through it, if the world says so: at most the time since the last one. A look
 * at every job that has come; only a world made for comparison asks for it. */
int answer_event_costs(struct driver *d)
{
    int r = 0;

    if (d->config->world.costs != COSTS_MURI_SIM)
        return 0;
    for (uint32_t i = 0; i < d->next_arrival && r == 0; i++) {
        struct actor *a = &d->actors[i];
        struct event event = { .kind = EVENT_RATE, .rate = a->rate };
        usec_t cost = world_event_cost(d->world, i), since = d->now - a->charged;

        if (!a->running || since == 0)
            continue;
        cost = cost < since ? cost : since;
        a->charged = d->now;
        actor_settle(d, a);
        a->progress -= muldiv_floor(cost, a->rate, PPM_ONE);
        d->result->jobs[i].overhead += cost;
        actor_plan_end(d, i);
        event.progress = a->progress;
        r = offer_about(d, &event, i);
    }
    return r;
}

int answer_faults(struct driver *d)
{
    int r = 0;

    while (r == 0 && d->has_fault && d->fault.at <= d->now) {
        struct event event = { .kind = EVENT_NODE, .target = d->fault.node, .up = d->fault.up };

        if (d->fault.gpu != WORLD_WHOLE_NODE) {
            event.kind = EVENT_GPU;
            event.target = core_ledger(d->core)->topo.nodes[d->fault.node].first_gpu + d->fault.gpu;
        }
        r = driver_offer(d, &event, DRIVER_NOBODY, NULL);
        if (r == 0 && event.kind == EVENT_NODE && !event.up)
            r = move_source_lost(d, d->fault.node);
        d->has_fault = world_next_fault(d->world, d->now, &d->fault);
    }
    return r;
}

/* What the script says of this instant. Arrivals have been offered: a job can be cancelled as it comes. */
int answer_script(struct driver *d)
{
    const struct driver_config *config = d->config;
    int r = 0;

    while (r == 0 && d->next_script < config->script_count && config->script[d->next_script].at <= d->now) {
        const struct driver_event *from = &config->script[d->next_script++];
        struct event event = {
            .kind = from->kind, .target = from->target, .up = from->up, .sku = from->sku, .value = from->value
        };

        if (from->kind == EVENT_CANCEL || from->kind == EVENT_HOLD || from->kind == EVENT_RELEASE ||
            from->kind == EVENT_RANK || from->kind == EVENT_SIZE) {
            if (from->target >= d->trace->count || !d->actors[from->target].in_core)
                continue;
            /* A size that the job cannot have is refused, and all goes on. */
            if (from->kind == EVENT_SIZE &&
                core_size_check(d->core, d->actors[from->target].slot, from->value, NULL) < 0)
                continue;
            r = offer_about(d, &event, from->target);
            continue;
        }
        if (from->kind == EVENT_COUNT)
            continue;
        r = driver_offer(d, &event, DRIVER_NOBODY, NULL);
        if (r == 0 && event.kind == EVENT_NODE && !event.up && event.value == 0)
            r = move_source_lost(d, event.target);
    }
    return r;
}

/* The result's view of a job. A slot keeps what was in it until it is given away again. */
void answer_collect(struct driver *d, uint32_t index)
{
    const struct actor *a = &d->actors[index];
    struct job_result *out = &d->result->jobs[index];
    const struct job *job = core_job(d->core, a->slot);
    bool waits = job_waits(job->state), aside = waits && job->shape == UINT32_MAX;
    usec_t now = core_now(d->core);

    for (int i = 0; i < REASON_COUNT; i++)
        out->waited[i] = job->waited[i];
    /* A wait that is not over when the run ends is booked nowhere yet, but for the time in a shape. */
    if (aside || job->state == JOB_HELD || job->state == JOB_SUSPENDED)
        out->waited[job->reason] += now - job->state_since;
    else if (job->state == JOB_CLAIMING)
        out->waited[REASON_PREEMPTING] += now - job->state_since;
    out->run = a->used ? a->used : job->ran;
    if (job->spec.gpus_min != job->spec.gpus_max || job->splices ||
        job->attained + USEC_SEC < svc_of(job_demand(job), job->ran))
        out->service = job->attained; /* its size may have changed */
    out->promise = job->promise;
    out->offer = job->offer;
    out->breach = job->breach;
    out->preemptions = job->preemptions;
    out->migrations = job->migrations;
    out->splices = job->splices;
    out->attempts = job->attempts;
    out->fair_share = job->over_quota;
    out->fragmentation = job->waited_all + (waits ? now - job->queued_at : 0) - job->over_quota;
}

int answer_rates(struct driver *d)
{
    int r = 0;

    for (size_t i = 0; i < d->touched_count && r == 0; i++) {
        uint32_t index = d->touched[i];
        struct actor *a = &d->actors[index];
        struct event event = { .kind = EVENT_RATE, .progress = PROGRESS_OWN };

        if (!a->running)
            continue;
        bars_share(d, index);
        event.rate = rate_of(d, index);
        if (event.rate == a->rate)
            continue;
        actor_settle(d, a);
        a->rate = event.rate;
        use_changed(d, index);
        batches_begin(d->batches, index, d->now, a->progress);
        actor_plan_end(d, index);
        r = offer_about(d, &event, index);
    }
    d->touched_count = 0;
    return r;
}
