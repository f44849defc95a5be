/* SPDX-License-Identifier: Apache-2.0 */
/* foresee.c - the world that answers a copied core: starts succeed at once, stops too, jobs end when expected.
 *
 * What a job is doing at the beginning is read from the core itself: those that hold GPUs get an end, those on their
 * way in or out an answer at once. A long computation the core asks for is not carried out here; it is told that no
 * answer comes, and goes on with what it has.
 */
#include "ctl/insight/foresee.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "core/ledger/ledger.h"

enum due { DUE_END, DUE_STARTED, DUE_STOPPED };

enum stay_kind { STAY_NONE, STAY_ITEM, STAY_LEAVE };

/* What is due for a job, and what is noted of its stay on the GPUs it has. */
struct stay {
    uint8_t due;   /* enum due */
    uint8_t kind;  /* enum stay_kind: of the future's items, or of its leaves */
    uint32_t note; /* its index there */
};

struct seer {
    struct core *core;
    foresee_left_fn left;
    void *arg;
    struct heap heap; /* by slot */
    struct stay *stays;
    uint32_t slots;
    struct future *future;
    const struct foresee_limits *limits;
    struct error *err;
};

void future_done(struct future *future)
{
    mem_free(future->items);
    mem_free(future->gpus);
    mem_free(future->stops);
    mem_free(future->leaves);
    *future = (struct future){ 0 };
}

const struct foreseen *future_find(const struct future *future, int64_t job)
{
    for (size_t i = 0; i < future->count; i++)
        if (future->items[i].job == job)
            return &future->items[i];
    return NULL;
}

static int leave_order(const void *a, const void *b)
{
    const struct foreseen_leave *x = a, *y = b;

    return x->job < y->job ? -1 : x->job > y->job;
}

usec_t future_leave(const struct future *future, int64_t job)
{
    const struct foreseen_leave key = { .job = job }, *found = NULL;

    if (future->leave_count)
        found = bsearch(&key, future->leaves, future->leave_count, sizeof(key), leave_order);
    return found ? found->at : 0;
}

static void due_set(struct seer *seer, uint32_t slot, enum due what, usec_t at)
{
    seer->stays[slot].due = (uint8_t)what;
    heap_set(&seer->heap, slot, at);
}

/* The job has left the GPUs it had: those of its last start, or those of the beginning. */
static void stay_close(struct seer *seer, uint32_t slot, usec_t now)
{
    struct stay *stay = &seer->stays[slot];

    if (stay->kind == STAY_ITEM)
        seer->future->items[stay->note].end = now;
    else if (stay->kind == STAY_LEAVE)
        seer->future->leaves[stay->note].at = now;
    stay->kind = STAY_NONE;
}

/* The job that has been given the first GPU of one that leaves. */
static int64_t taker_find(const struct core *core, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(core);

    for (uint32_t s = core_job(core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            const struct share *other = &ledger->shares[o];

            if (other->job != slot && !other->leaving && !other->off && other->role == ROLE_OWNER)
                return core_job(core, other->job)->spec.id;
        }
    return 0;
}

static int stop_note(struct seer *seer, uint32_t slot, usec_t now)
{
    struct future *future = seer->future;
    int r = mem_grow((void **)&future->stops, &future->stop_capacity, future->stop_count + 1, (size_t)1 << 20,
                     sizeof(*future->stops));

    if (r == 0)
        future->stops[future->stop_count++] =
            (struct foreseen_stop){ core_job(seer->core, slot)->spec.id, taker_find(seer->core, slot), now };
    return r == -ENOMEM ? r : 0;
}

/* Notes a start with the GPUs the ledger gives. */
static int start_note(struct seer *seer, uint32_t slot, usec_t now, usec_t end)
{
    struct future *future = seer->future;
    const struct job *job = core_job(seer->core, slot);
    const struct ledger *ledger = core_ledger(seer->core);
    struct foreseen item = { .job = job->spec.id, .start = now, .end = end, .gpu_first = (uint32_t)future->gpu_count };
    int r = mem_grow((void **)&future->items, &future->capacity, future->count + 1, seer->limits->starts + 1,
                     sizeof(*future->items));

    for (uint32_t s = job->shares; r == 0 && s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        r = mem_grow((void **)&future->gpus, &future->gpu_capacity, future->gpu_count + 1, (size_t)1 << 26,
                     sizeof(*future->gpus));
        if (r == 0)
            future->gpus[future->gpu_count++] = ledger->shares[s].gpu;
    }
    if (r < 0)
        return r;
    item.gpu_count = (uint32_t)future->gpu_count - item.gpu_first;
    stay_close(seer, slot, now);
    seer->stays[slot] = (struct stay){ seer->stays[slot].due, STAY_ITEM, (uint32_t)future->count };
    future->items[future->count++] = item;
    return 0;
}

static int offer(struct seer *seer, uint32_t slot, struct event event)
{
    event.job = slot;
    event.gen = core_job(seer->core, slot)->gen;
    return core_offer(seer->core, &event, NULL, seer->err);
}

/* What is due now. A refusal means that things went another way meanwhile: nothing is due for it any more. */
static int answers_give(struct seer *seer, usec_t now)
{
    int given = 0;

    while (heap_next(&seer->heap) <= now) {
        uint32_t slot = heap_first(&seer->heap);
        const struct job *job = core_job(seer->core, slot);

        heap_clear(&seer->heap, slot);
        given++;
        switch ((enum due)seer->stays[slot].due) {
        case DUE_STARTED:
            if (offer(seer, slot, (struct event){ .kind = EVENT_STARTED, .rate = PPM_ONE, .progress = PROGRESS_OWN }) ==
                0)
                due_set(seer, slot, DUE_END, now + seer->left(seer->arg, job, now));
            break;
        case DUE_STOPPED:
            (void)offer(seer, slot, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
            break;
        case DUE_END:
            stay_close(seer, slot, now);
            (void)offer(seer, slot, (struct event){ .kind = EVENT_ENDED, .fail = FAIL_NONE, .progress = PROGRESS_OWN });
            break;
        }
    }
    return given;
}

static int effects_take(struct seer *seer, const struct outbox *out, usec_t now)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < out->effect_count; i++) {
        const struct effect *effect = &out->effects[i];

        switch (effect->kind) {
        case EFFECT_START:
        case EFFECT_RESUME:
        case EFFECT_MIGRATE:
        case EFFECT_SPLICE:
            r = start_note(seer, effect->job, now, now + seer->left(seer->arg, core_job(seer->core, effect->job), now));
            due_set(seer, effect->job, DUE_STARTED, now);
            break;
        case EFFECT_STOP:
            r = stop_note(seer, effect->job, now);
            stay_close(seer, effect->job, now);
            due_set(seer, effect->job, DUE_STOPPED, now);
            break;
        case EFFECT_KILL:
        case EFFECT_FORGET:
            stay_close(seer, effect->job, now);
            heap_clear(&seer->heap, effect->job);
            break;
        case EFFECT_SOLVE:
            (void)core_offer(seer->core,
                             &(struct event){ .kind = EVENT_SOLVED, .target = effect->vc, .ticket = effect->ticket },
                             NULL, seer->err);
            break;
        case EFFECT_PREPARE:
        case EFFECT_SAVE:
        case EFFECT_LIMIT:
        case EFFECT_COUNT:
            break;
        }
    }
    return r;
}

/* Steps one instant until it is quiet. */
static int instant(struct seer *seer, usec_t now)
{
    int r = 0, turns = 0;

    do {
        const struct outbox *out;

        (void)answers_give(seer, now);
        out = core_step(seer->core, now);
        seer->future->steps++;
        r = effects_take(seer, out, now);
    } while (r == 0 && heap_next(&seer->heap) <= now && ++turns < 1000);
    return r;
}

static bool far_enough(const struct seer *seer)
{
    const struct future *future = seer->future;

    if (future->steps >= seer->limits->steps || future->count >= seer->limits->starts)
        return true;
    return seer->limits->until ? future->count && future_find(future, seer->limits->until) != NULL
                               : core_waiting(seer->core) == 0;
}

/* Everybody that holds GPUs or is on the way in or out. */
static void begin(struct seer *seer, usec_t now)
{
    for (uint32_t slot = 0; slot < seer->slots; slot++) {
        const struct job *job = core_job(seer->core, slot);

        if (job->state == JOB_RUNNING || job->state == JOB_STARTING) {
            seer->stays[slot].kind = STAY_LEAVE;
            seer->stays[slot].note = (uint32_t)seer->future->leave_count;
            seer->future->leaves[seer->future->leave_count++] = (struct foreseen_leave){ .job = job->spec.id };
        }
        switch ((enum job_state)job->state) {
        case JOB_RUNNING:
            due_set(seer, slot, DUE_END, now + seer->left(seer->arg, job, now));
            break;
        case JOB_STARTING:
            due_set(seer, slot, DUE_STARTED, now);
            break;
        case JOB_STOPPING:
            due_set(seer, slot, DUE_STOPPED, now);
            break;
        case JOB_SUSPENDED:
            if (job->yields)
                due_set(seer, slot, DUE_END, now + seer->left(seer->arg, job, now));
            break;
        case JOB_FREE:
        case JOB_OFFERED:
        case JOB_HELD:
        case JOB_PENDING:
        case JOB_RESERVED:
        case JOB_CLAIMING:
        case JOB_DONE:
        case JOB_FAILED:
        case JOB_KILLED:
        case JOB_STATE_COUNT:
            break;
        }
    }
}

int foresee(struct core *core, const struct foresee_limits *limits, foresee_left_fn left, void *arg,
            struct future *ret_future, struct error *err)
{
    struct seer seer = { .core = core, .left = left, .arg = arg, .limits = limits, .future = ret_future, .err = err };
    usec_t now = limits->from > core_now(core) ? limits->from : core_now(core) + 1;
    void *memory;
    int r = 0;

    *ret_future = (struct future){ 0 };
    seer.slots = core_job_top(core);
    /* A future in which nothing comes needs no more slots than there are; one for a job that is being asked about. */
    memory = mem_zalloc(heap_size(seer.slots + 1), 1);
    seer.stays = mem_zalloc(seer.slots + 1, sizeof(*seer.stays));
    ret_future->leaves = mem_zalloc(seer.slots + 1, sizeof(*ret_future->leaves));
    if (!memory || !seer.stays || !ret_future->leaves) {
        mem_free(memory);
        mem_free(seer.stays);
        future_done(ret_future);
        return error_set(err, -ENOMEM, "out of memory");
    }
    heap_init(&seer.heap, memory, seer.slots + 1);
    begin(&seer, now);
    while (r == 0) {
        usec_t wake, next;

        r = instant(&seer, now);
        if (r < 0 || far_enough(&seer))
            break;
        wake = core_next_wake(core);
        next = heap_next(&seer.heap);
        next = wake < next ? wake : next;
        if (next == USEC_NEVER || next > limits->horizon)
            break;
        now = next > now ? next : now;
    }
    ret_future->cut = ret_future->steps >= limits->steps || ret_future->count >= limits->starts;
    qsort(ret_future->leaves, ret_future->leave_count, sizeof(*ret_future->leaves), leave_order);
    mem_free(memory);
    mem_free(seer.stays);
    if (r < 0)
        future_done(ret_future);
    return r;
}
