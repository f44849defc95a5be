/* SPDX-License-Identifier: Apache-2.0 */
/* driver_effect.c - what the core wants done, carried out in the world: what it costs, and when it is answered. */
#include <errno.h>

#include "base/alloc.h"
#include "sim/driver/batches.h"
#include "sim/driver/driver_internal.h"
#include "sim/driver/reshape.h"
#include "work/work.h"

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
    a->dumps++;
    a->region = region_of(d, a->slot);
    note_placement(d, index);
    d->result->jobs[index].overhead += all;
    reshape_cost(d, index, all);
    bars_close(d, index);
    bars_open(d, a->slot, 1);
    a->from = UINT32_MAX; /* the core has it there until it has left */
    move_begin(d, index, leave, all);
    if (core_job(d->core, a->slot)->sheds && all > 0 && a->fate != MOVE_UNSAVED) {
        actor_due(d, index, DUE_LEFT, a->saved_at);
        return 0;
    }
    return move_restart(d, index);
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
    return offer_about(d, &event, index);
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

    a->from = a->node;
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
    if (cost > 0) {
        bars_close(d, index);
        bars_open(d, a->slot, 1);
    }
    if (kind == WORLD_MIGRATE) {
        struct world_shape shape = shape_from(d, index);

        move_begin(d, index, world_cost(d->world, index, WORLD_STOP, &shape), cost);
        return move_restart(d, index);
    }
    if (cost == 0)
        return offer_started(d, index);
    actor_due(d, index, DUE_STARTED, d->now + cost);
    return 0;
}

static int on_stop(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_from(d, index);
    usec_t cost = world_cost(d->world, index, WORLD_STOP, &shape), left = heap_at(&d->heap, index);

    /* A start that is cut short costs only what was spent of it. */
    if (a->due == DUE_LOST)
        left = a->restart_at;
    if ((a->due == DUE_STARTED || a->due == DUE_LOST) && left != USEC_NEVER)
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

    if (a->due == DUE_LEFT || a->due == DUE_LOST)
        left = a->restart_at;
    if ((a->due == DUE_STARTED || a->due == DUE_STOPPED || a->due == DUE_LEFT || a->due == DUE_LOST) &&
        left != USEC_NEVER)
        d->result->jobs[index].overhead -= left - d->now;
    a->prepared = a->told = false;
    actor_gone(d, index);
    event.progress = a->progress;
    if (core_job(d->core, a->slot)->gen != a->gen)
        return 0; /* a person has cancelled it: the core has forgotten it already */
    return offer_about(d, &event, index);
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
