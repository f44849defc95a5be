/* SPDX-License-Identifier: Apache-2.0 */
/* driver_answer.c - what happens in the world: arrivals, ends, faults, and its answers to the core's effects. */
#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "sim/batches.h"
#include "sim/driver_part.h"
#include "sim/observe.h"
#include "sim/reshape.h"
#include "work/work.h"

static int offer(struct driver *d, struct event *event, uint32_t index)
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
    r = driver_offer(d, &event, index, &ref);
    if (r == -ERANGE && d->config->skip_infeasible) {
        d->result->jobs[index].outcome = OUTCOME_REFUSED;
        d->ended++;
        return 0;
    }
    if (r < 0)
        return r;
    answer_settled(d, index, &ref);
    r = spec.gpus ? answer_profile(d, index) : 0;
    return r < 0 || spec.gpus == 0 ? r : answer_told(d, index);
}

static int offer_started(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_STARTED, .rate = rate_of(d, index), .progress = PROGRESS_OWN };
    struct job_result *out = &d->result->jobs[index];
    uint32_t mate = core_job(d->core, a->slot)->mate;

    actor_settle(d, a);
    a->rate = event.rate;
    a->running = true;
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
    a->left_at = d->now;
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    return offer(d, &event, index);
}

/* It has saved itself and left what it does not keep; it goes on when it is where it goes. */
static int offer_left(struct driver *d, uint32_t index)
{
    struct event event = { .kind = EVENT_STOPPED, .progress = PROGRESS_OWN };

    actor_due(d, index, DUE_STARTED, d->actors[index].restart_at);
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
    a->left_at = 1; /* what it goes on from was sent away long ago */
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
        a->fails++;
        actor_crash(d, index);
        event.progress = a->progress;
    }
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    return offer(d, &event, index);
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
        r = offer(d, &event, i);
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
            from->kind == EVENT_RANK) {
            if (from->target < d->trace->count && d->actors[from->target].in_core)
                r = offer(d, &event, from->target);
            continue;
        }
        if (from->kind == EVENT_COUNT)
            continue;
        r = driver_offer(d, &event, DRIVER_NOBODY, NULL);
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

static void note_placement(struct driver *d, uint32_t index)
{
    struct world_shape shape = shape_of(d, d->actors[index].slot);
    struct job_result *out = &d->result->jobs[index];
    uint32_t size = core_ledger(d->core)->topo.node_gpus_max[shape.sku];
    uint32_t fewest = ((uint32_t)shape.gpus + size - 1) / size;

    out->nodes = shape.gpus ? shape.nodes : (uint16_t)core_tasks(d->core, d->actors[index].slot, NULL, 0);
    out->locality = (uint8_t)(shape.racks > 1 ? 2 : shape.nodes > fewest ? 1 : 0);
}

/* What matters to the cost of saving a job and bringing it back, besides where it stands now. */
static struct world_shape shape_from(const struct driver *d, uint32_t index)
{
    const struct actor *a = &d->actors[index];
    struct world_shape shape = shape_of(d, a->slot);

    shape.dumped = a->dumps > 0;
    shape.far = a->region != 0 && region_of(d, a->slot) != a->region;
    shape.away = a->left_at > 0 ? d->now - a->left_at : 0;
    return shape;
}

/* It goes on elsewhere, or on more or fewer GPUs; those that it does not keep it leaves when it has saved itself. */
static int on_shift(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_from(d, index);
    usec_t leave = world_cost(d->world, index, WORLD_STOP, &shape);
    usec_t all = world_cost(d->world, index, WORLD_MIGRATE, &shape);

    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    a->saved = a->progress;
    a->dumps++;
    a->region = region_of(d, a->slot);
    note_placement(d, index);
    d->result->jobs[index].overhead += all;
    reshape_cost(d, index, all);
    bars_close(d, index);
    bars_open(d, a->slot, 1);
    a->restart_at = d->now + all;
    if (core_job(d->core, a->slot)->sheds && all > 0) {
        actor_due(d, index, DUE_LEFT, d->now + (leave < all ? leave : all));
        return 0;
    }
    if (all == 0)
        return offer_started(d, index);
    actor_due(d, index, DUE_STARTED, a->restart_at);
    return 0;
}

/* A checkpoint where it runs: it stands still as long as that takes, which is booked as work to be done again. */
static int on_save(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_from(d, index);
    usec_t cost = world_cost(d->world, index, WORLD_CHECKPOINT, &shape);
    struct event event = { .kind = EVENT_RATE, .rate = a->rate };

    if (!a->running)
        return 0;
    actor_settle(d, a);
    a->progress -= muldiv_floor(cost, a->rate, PPM_ONE);
    a->saved = a->progress > a->saved ? a->progress : a->saved;
    a->dumps++;
    d->result->jobs[index].overhead += cost;
    actor_plan_end(d, index);
    event.progress = a->progress;
    return offer(d, &event, index);
}

/* What it costs to come from where it was. */
static usec_t start_cost(const struct driver *d, uint32_t index, enum world_cost kind, uint32_t node)
{
    const struct actor *a = &d->actors[index];
    struct world_shape shape = shape_from(d, index);

    if (kind == WORLD_MIGRATE && node != UINT32_MAX && node == a->node)
        return world_cost_inside(d->world, index, &shape);
    if (kind == WORLD_RESUME && a->parked && (node == UINT32_MAX || node != a->node))
        return world_cost_elsewhere(d->world, index, &shape);
    return world_cost(d->world, index, kind, &shape);
}

/* The node of all its GPUs; UINT32_MAX: they are on several. */
static uint32_t node_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    uint32_t node = UINT32_MAX;

    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t here = ledger->gpus[ledger->shares[s].gpu].node;

        if (node != UINT32_MAX && here != node)
            return UINT32_MAX;
        node = here;
    }
    return node;
}

static int on_start(struct driver *d, uint32_t index, enum world_cost kind)
{
    struct actor *a = &d->actors[index];
    uint32_t node = node_of(d, a->slot);
    usec_t cost = start_cost(d, index, kind, node) + (kind == WORLD_MIGRATE ? 0 : stage_launch(d, index));

    a->node = node;
    a->parked = false;
    /* Whom it has left alone by moving is faster for it. */
    if (a->beside != DRIVER_NOBODY && d->touched_count < TOUCHED_MAX)
        d->touched[d->touched_count++] = a->beside;
    a->beside = DRIVER_NOBODY;

    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    note_placement(d, index);
    a->region = region_of(d, a->slot);
    d->result->jobs[index].overhead += cost;
    reshape_cost(d, index, cost);
    if (cost == 0)
        return offer_started(d, index);
    bars_close(d, index);
    bars_open(d, a->slot, 1);
    actor_due(d, index, DUE_STARTED, d->now + cost);
    return 0;
}

static int on_stop(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_from(d, index);
    usec_t cost = world_cost(d->world, index, WORLD_STOP, &shape), left = heap_at(&d->heap, index);

    /* A start that is cut short costs only what was spent of it. */
    if (a->due == DUE_STARTED && left != USEC_NEVER)
        d->result->jobs[index].overhead -= left - d->now;
    stage_idle_begin(d, a->slot);
    a->dumps++;
    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    a->parked = core_job(d->core, a->slot)->parks;
    bars_close(d, index);
    actor_touch_neighbours(d, a->slot);
    if (cost == 0)
        return offer_stopped(d, index);
    d->result->jobs[index].overhead += cost;
    reshape_cost(d, index, cost);
    bars_open(d, a->slot, 1);
    actor_due(d, index, DUE_STOPPED, d->now + cost);
    return 0;
}

static int on_kill(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_RATE };
    usec_t left = heap_at(&d->heap, index);

    if (a->due == DUE_LEFT)
        left = a->restart_at;
    if ((a->due == DUE_STARTED || a->due == DUE_STOPPED || a->due == DUE_LEFT) && left != USEC_NEVER)
        d->result->jobs[index].overhead -= left - d->now;
    a->prepared = a->told = false;
    actor_settle(d, a);
    a->running = false;
    batches_stop(d->batches, index);
    bars_close(d, index);
    actor_crash(d, index);
    actor_due(d, index, DUE_NOTHING, USEC_NEVER);
    event.progress = a->progress;
    if (core_job(d->core, a->slot)->gen != a->gen)
        return 0; /* a person has cancelled it: the core has forgotten it already */
    return offer(d, &event, index);
}

/* A computation is carried out at once. One that fails is answered with nothing, as a daemon would. */
static int on_solve(struct driver *d, const struct outbox *out, const struct effect *effect)
{
    uint32_t capacity = core_vc(d->core, effect->vc)->policy.planner->solve_words;
    struct event event = { .kind = EVENT_SOLVED, .target = effect->vc, .ticket = effect->ticket };
    struct work_answer answer = { .capacity = capacity };

    mem_free(d->answer);
    answer.words = d->answer = mem_zalloc(capacity, sizeof(*d->answer));
    if (!d->answer)
        return error_set(d->err, -ENOMEM, "no memory for an answer of %u numbers", capacity);
    (void)work_run((enum solve_kind)effect->solve, out->words + effect->word_first, effect->word_count, &answer, NULL);
    event.words = answer.words;
    event.word_count = answer.count;
    return driver_offer(d, &event, DRIVER_NOBODY, NULL);
}

static int on_forget(struct driver *d, uint32_t index)
{
    answer_collect(d, index);
    d->actors[index].in_core = false;
    heap_clear(&d->heap, index);
    d->ended++;
    return d->result->jobs[index].outcome == OUTCOME_DONE ? predictor_learn(d->predictor, index, d->err) : 0;
}

static void on_decision(struct driver *d, const struct decision *decision, const uint32_t *gpus)
{
    reshape_decided(d, decision);
    if (d->config->on_decision)
        d->config->on_decision(d->config->on_decision_arg, d->core, decision, gpus);
    /* A job that a person has cancelled counts as failed. One whose hardware died comes back. */
    if (decision->kind == DECISION_END || decision->kind == DECISION_FAIL ||
        (decision->kind == DECISION_KILL && decision->reason == REASON_NONE)) {
        uint32_t index = d->actor_of_slot[decision->job];
        struct job_result *out = &d->result->jobs[index];

        out->end = d->actors[index].true_end ? d->actors[index].true_end : d->now;
        out->outcome = decision->kind == DECISION_END ? OUTCOME_DONE : OUTCOME_FAILED;
    }
}

/* An order to launch that is taken back in the same step (its node is gone, a person has cancelled it) was never
 * carried out. */
static bool taken_back(const struct outbox *out, size_t at)
{
    for (size_t i = at + 1; i < out->effect_count; i++)
        if (out->effects[i].kind == EFFECT_KILL && out->effects[i].job == out->effects[at].job)
            return true;
    return false;
}

static bool launches(enum effect_kind kind)
{
    return kind == EFFECT_START || kind == EFFECT_RESUME || kind == EFFECT_MIGRATE || kind == EFFECT_SPLICE;
}

int answer_outbox(struct driver *d, const struct outbox *out)
{
    bool kills = false;
    int r = 0;

    for (size_t i = 0; i < out->decision_count; i++)
        on_decision(d, &out->decisions[i], out->gpus + out->decisions[i].gpu_first);
    for (size_t i = 0; i < out->effect_count; i++)
        kills |= out->effects[i].kind == EFFECT_KILL;
    for (size_t i = 0; i < out->effect_count && r == 0; i++) {
        uint32_t index = d->actor_of_slot[out->effects[i].job];

        if (kills && launches(out->effects[i].kind) && taken_back(out, i))
            continue;
        switch (out->effects[i].kind) {
        case EFFECT_START:
            r = on_start(d, index, WORLD_START);
            break;
        case EFFECT_RESUME:
            r = on_start(d, index, WORLD_RESUME);
            break;
        case EFFECT_MIGRATE:
            r = core_job(d->core, out->effects[i].job)->sheds ? on_shift(d, index) : on_start(d, index, WORLD_MIGRATE);
            break;
        case EFFECT_SPLICE:
            r = on_shift(d, index);
            break;
        case EFFECT_SAVE:
            r = on_save(d, index);
            break;
        case EFFECT_STOP:
            r = on_stop(d, index);
            break;
        case EFFECT_KILL:
            r = on_kill(d, index);
            break;
        case EFFECT_FORGET:
            r = on_forget(d, index);
            break;
        case EFFECT_PREPARE:
            stage_prepare(d, index);
            break;
        case EFFECT_LIMIT: /* the world's own coordinator goes on from there */
            actor_settle(d, &d->actors[index]);
            use_role(d, index);
            actor_touch(d, index);
            d->result->shared.limits++;
            break;
        case EFFECT_SOLVE:
            r = on_solve(d, out, &out->effects[i]);
            break;
        case EFFECT_COUNT:
            break;
        }
    }
    return r;
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
        r = offer(d, &event, index);
    }
    d->touched_count = 0;
    return r;
}
