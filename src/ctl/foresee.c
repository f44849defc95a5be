/* SPDX-License-Identifier: Apache-2.0 */
/* foresee.c - the world that answers a copied core: starts succeed at once, stops too, jobs end when expected.
 *
 * What a job is doing at the beginning is read from the core itself: those that hold GPUs get an end, those on their
 * way in or out an answer at once. A long computation the core asks for is not carried out here; it is told that no
 * answer comes, and goes on with what it has.
 */
#include "ctl/foresee.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "core/ledger.h"

enum due { DUE_END, DUE_STARTED, DUE_STOPPED };

struct seer {
    struct core *core;
    foresee_left_fn left;
    void *arg;
    struct heap heap; /* by slot */
    uint8_t *due;
    uint32_t slots;
    struct future *future;
    const struct foresee_limits *limits;
    struct error *err;
};

void future_done(struct future *future)
{
    mem_free(future->items);
    mem_free(future->gpus);
    *future = (struct future){ 0 };
}

const struct foreseen *future_find(const struct future *future, int64_t job)
{
    for (size_t i = 0; i < future->count; i++)
        if (future->items[i].job == job)
            return &future->items[i];
    return NULL;
}

static void due_set(struct seer *seer, uint32_t slot, enum due what, usec_t at)
{
    seer->due[slot] = (uint8_t)what;
    heap_set(&seer->heap, slot, at);
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
        switch ((enum due)seer->due[slot]) {
        case DUE_STARTED:
            if (offer(seer, slot, (struct event){ .kind = EVENT_STARTED, .rate = PPM_ONE, .progress = PROGRESS_OWN }) ==
                0)
                due_set(seer, slot, DUE_END, now + seer->left(seer->arg, job, now));
            break;
        case DUE_STOPPED:
            (void)offer(seer, slot, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
            break;
        case DUE_END:
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
            due_set(seer, effect->job, DUE_STOPPED, now);
            break;
        case EFFECT_KILL:
        case EFFECT_FORGET:
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
    seer.due = mem_zalloc(seer.slots + 1, 1);
    if (!memory || !seer.due) {
        mem_free(memory);
        mem_free(seer.due);
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
    mem_free(memory);
    mem_free(seer.due);
    if (r < 0)
        future_done(ret_future);
    return r;
}
