/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - see queue.h. */
#include "core/ledger/queue.h"

#include <assert.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/planning/gang_parts.h"
#include "core/planning/preempt.h"
#include "core/planning/priority.h"

enum { LANE_OVER_QUOTA = WAIT_LANES - 1 };

static const enum reason lane_reasons[LANE_OVER_QUOTA] = {
    REASON_VC_LIMIT, REASON_BORROW_LIMIT, REASON_INSUFFICIENT_GPUS, REASON_FRAGMENTED, REASON_NODES_UNHEALTHY,
    REASON_RESERVED, REASON_PRIORITY,     REASON_SCHEDULING,        REASON_CPU_MEM,    REASON_TOPOLOGY,
};

int queue_lane(enum reason reason)
{
    for (int lane = 0; lane < LANE_OVER_QUOTA; lane++)
        if (lane_reasons[lane] == reason)
            return lane;
    return -1;
}

uint32_t queue_types(const struct core *core, const struct jobspec *spec)
{
    const struct topo *topo = &core->ledger.topo;
    uint32_t mask = spec->sku_mask ? spec->sku_mask & core->any_sku : core->any_sku;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        if (topo->sku_memory[s] && topo->sku_memory[s] < spec->memory_mib)
            mask &= ~(1u << s);
    return mask;
}

struct shape queue_shape(const struct core *core, const struct jobspec *spec, uint8_t level, uint8_t klass)
{
    struct shape shape = { .gpus = spec->gpus,
                           .share = spec->share,
                           .memory_mib = spec->share < MGPU_ONE ? spec->memory_mib : 0,
                           .sku_mask = queue_types(core, spec),
                           .per_node = spec->per_node,
                           .per_unit = spec->per_unit,
                           .unit = spec->unit,
                           .within = spec->within,
                           .must = spec->within_must,
                           .mcpus = spec->mcpus,
                           .host_mib = spec->host_mib,
                           .mark = spec->mark,
                           .kept = spec->kept,
                           .servers = (uint32_t)spec->gpu_servers,
                           .bandwidth = spec->bandwidth,
                           .level = level,
                           .klass = klass,
                           .keeps = jobspec_keeps(spec) };

    if (spec->side_count)
        sides_of(core, spec, &shape);
    return shape;
}

static bool shape_equal(const struct shape *a, const struct shape *b)
{
    return a->gpus == b->gpus && a->share == b->share && a->memory_mib == b->memory_mib && a->sku_mask == b->sku_mask &&
           a->per_node == b->per_node && a->mcpus == b->mcpus && a->host_mib == b->host_mib && a->mark == b->mark &&
           a->kept == b->kept && a->within == b->within && a->must == b->must && a->unit == b->unit &&
           a->per_unit == b->per_unit && a->servers == b->servers && a->bandwidth == b->bandwidth &&
           a->level == b->level && a->klass == b->klass && a->keeps == b->keeps && a->side_count == b->side_count &&
           (a->side_count == 0 || sides_equal(a, b));
}

static uint32_t shape_find(const struct queue *queue, const struct shape *shape)
{
    for (uint32_t i = 0; i < queue->live_count; i++)
        if (shape_equal(&queue->shapes[queue->live[i]].shape, shape))
            return queue->live[i];
    return UINT32_MAX;
}

bool queue_has_room(const struct queue *queue, const struct shape *shape)
{
    /* A job may need a second shape when it relaxes; keep some room for that. */
    return queue->live_count < SHAPES_OFFERED_MAX || shape_find(queue, shape) != UINT32_MAX;
}

static uint32_t shape_new(struct queue *queue, const struct shape *shape, usec_t now)
{
    uint32_t i = 0;

    /* A dead class is used again, the lowest first. */
    while (i < queue->shape_top && queue->shapes[i].live)
        i++;
    if (i == queue->shape_top)
        queue->shape_top++;
    assert(i < SHAPES_MAX);
    queue->shapes[i] = (struct shape_class){
        .shape = *shape, .root = TREE_NONE, .live = true, .reason = REASON_SCHEDULING, .since = now
    };
    queue->live[queue->live_count++] = (uint16_t)i;
    return i;
}

static void shape_drop(struct queue *queue, uint32_t index)
{
    uint32_t at = 0;

    queue->shapes[index].live = false;
    while (queue->live[at] != index)
        at++;
    for (queue->live_count--; at < queue->live_count; at++)
        queue->live[at] = queue->live[at + 1];
}

void queue_reason(struct shape_class *cls, enum reason reason, bool over_quota, usec_t now)
{
    int lane = queue_lane(cls->reason);

    if (lane >= 0)
        cls->lane[lane] += now - cls->since;
    if (cls->over_quota)
        cls->lane[LANE_OVER_QUOTA] += now - cls->since;
    cls->since = now;
    cls->reason = (uint8_t)reason;
    cls->over_quota = over_quota;
}

/* What the class has waited since the job was last booked. The one that gathers a gang waits for the rest of it, and
 * not for what the others of its shape wait for. */
static void book(const struct shape_class *cls, struct job *job)
{
    for (int lane = 0; lane < LANE_OVER_QUOTA; lane++)
        job->waited[job->state == JOB_RESERVED ? REASON_ACQUIRING : lane_reasons[lane]] +=
            cls->lane[lane] - job->lane_base[lane];
    job->over_quota += cls->lane[LANE_OVER_QUOTA] - job->lane_base[LANE_OVER_QUOTA];
}

void queue_book(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct shape_class *cls = &core->vcs[job->vc].queue.shapes[job->shape];

    queue_reason(cls, cls->reason, cls->over_quota, core->now);
    book(cls, job);
    for (int lane = 0; lane < WAIT_LANES; lane++)
        job->lane_base[lane] = cls->lane[lane];
}

void queue_booked(const struct core *core, uint32_t index, struct job *copy)
{
    struct shape_class cls = core->vcs[copy->vc].queue.shapes[copy->shape];

    queue_reason(&cls, cls.reason, cls.over_quota, core->now);
    (void)index;
    book(&cls, copy);
}

/* Asks the ordering for the key and keeps the timer of its next change. A job that begins to wait may want another
 * pass at this instant; asked again it may not, or it could want them forever. */
static void key_update(struct core *core, uint32_t index, bool begins)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    struct order_key key = { .change_at = USEC_NEVER };

    memcpy(key.word, job->order_word, sizeof(key.word));
    vc->policy.order->key(&vc->order, job, &key);
    memcpy(job->order_word, key.word, sizeof(key.word));
    job->order_value = key.value;
    job->order_slope = job->state == JOB_RUNNING ? key.slope_ppm : 0;
    heap_set(&core->timers, timer_of(index, TIMER_KEY),
             key.change_at >= core->now + !begins ? key.change_at : USEC_NEVER);
}

/* The key as trees have it: a higher priority comes before any key of a lower one. Keys fall with time, priorities do
 * not, so the order inside a tree of one slope still never changes. */
static __int128 key_with_priority(const struct core *core, const struct job *job, __int128 key)
{
    if (core->vcs[job->vc].priorities == PRIORITIES_OFF)
        return key;
    return key + ((__int128)(PRIORITY_MAX - job->spec.priority) << 100);
}

struct rank queue_rank(const struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];

    if (core->vcs[job->vc].queue.run_order == RUN_BY_KEY)
        return view_rank(&core->view, index);
    return (struct rank){ key_with_priority(core, job, (__int128)job->order_value * PPM_ONE), job->spec.submit,
                          job->spec.id };
}

/* For backfilling: how long the job asks to run at most. */
static int64_t span_of(const struct job *job)
{
    usec_t span = job->spec.time_limit ? job->spec.time_limit : job->spec.estimate;

    return span ? span : USEC_NEVER;
}

static void count_waiting(struct queue *queue, const struct job *job, int sign)
{
    bool guest = queue->shapes[job->shape].shape.klass == CLASS_OPPORTUNISTIC;
    int64_t demand = sign * job_demand(job);

    queue->waiting = (uint32_t)((int64_t)queue->waiting + sign);
    queue->mgpu_waiting += demand;
    queue->guests = (uint32_t)((int64_t)queue->guests + (guest ? sign : 0));
    queue->mgpu_guests += guest ? demand : 0;
}

void queue_add(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;
    struct shape shape = queue_shape(core, &job->spec, job->level, job->klass);
    struct tree_node *node = &core->tree[index];
    uint32_t cls = shape_find(queue, &shape);

    priority_note(&core->vcs[job->vc], job);
    if (cls == UINT32_MAX)
        cls = shape_new(queue, &shape, core->now);
    key_update(core, index, true);
    job->shape = cls;
    queue_reason(&queue->shapes[cls], queue->shapes[cls].reason, queue->shapes[cls].over_quota, core->now);
    for (int lane = 0; lane < WAIT_LANES; lane++)
        job->lane_base[lane] = queue->shapes[cls].lane[lane];
    *node = (struct tree_node){ .rank = { key_with_priority(core, job, (__int128)job->order_value * PPM_ONE),
                                          job->spec.submit, job->spec.id },
                                .weight = 1,
                                .aux = span_of(job) };
    tree_insert(core->tree, &queue->shapes[cls].root, index);
    queue->shapes[cls].count++;
    count_waiting(queue, job, 1);
}

void queue_remove(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;
    struct shape_class *cls = &queue->shapes[job->shape];

    queue_book(core, index);
    tree_remove(core->tree, &cls->root, index);
    count_waiting(queue, job, -1);
    heap_clear(&core->timers, timer_of(index, TIMER_KEY));
    if (--cls->count == 0)
        shape_drop(queue, job->shape);
    job->shape = UINT32_MAX;
}

static uint32_t run_class_of(struct queue *queue, int64_t slope, uint16_t sku, bool lent)
{
    uint32_t empty = UINT32_MAX;

    for (uint32_t i = 0; i < queue->run_count; i++) {
        if (queue->runs[i].count == 0)
            empty = empty == UINT32_MAX ? i : empty;
        else if (queue->runs[i].slope == slope && queue->runs[i].sku == sku && queue->runs[i].lent == lent)
            return i;
    }
    if (empty == UINT32_MAX)
        empty = queue->run_count++;
    assert(empty < queue->run_capacity); /* never more than there are jobs that run */
    queue->runs[empty] = (struct run_class){ .slope = slope, .sku = sku, .lent = lent, .root = TREE_NONE };
    return empty;
}

/* Opportunistic jobs are nobody's rivals: they are stopped by whoever is owed their GPUs, not by their key. */
static bool ordered(const struct queue *queue, const struct job *job)
{
    return queue->run_order != RUN_UNORDERED && job->klass != CLASS_OPPORTUNISTIC;
}

/* A job that was promised to run on comes before everybody until then; the timer looks again. */
bool queue_kept_timer(struct core *core, uint32_t index)
{
    usec_t until = core_kept_until(core, &core->jobs[index]);
    uint32_t timer = timer_of(index, TIMER_KEY);

    if (until <= core->now)
        return false;
    if (until < heap_at(&core->timers, timer))
        heap_set(&core->timers, timer, until);
    return true;
}

void queue_run_add(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;
    struct rank rank = { .time = job->spec.submit, .id = job->spec.id };
    int64_t slope = 0;
    bool kept;

    key_update(core, index, false);
    kept = queue_kept_timer(core, index);
    if (!ordered(queue, job))
        return;
    if (queue->run_order == RUN_BY_END) {
        int64_t span = span_of(job);

        rank.key = span == USEC_NEVER ? USEC_NEVER : (__int128)job->last_start + span;
    } else {
        slope = job->order_slope;
        rank.key = key_with_priority(core, job, (__int128)job->order_value * PPM_ONE + (__int128)slope * core->now);
        if (kept)
            rank.key = -((__int128)1 << 120);
    }
    job->run_class = run_class_of(queue, slope, job->sku, core->cells && !job_bound(job));
    core->tree[index] = (struct tree_node){ .rank = rank, .weight = job_amount(job) };
    tree_insert(core->tree, &queue->runs[job->run_class].root, index);
    queue->runs[job->run_class].count++;
}

void queue_run_remove(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;

    heap_clear(&core->timers, timer_of(index, TIMER_KEY));
    if (!ordered(queue, job))
        return;
    tree_remove(core->tree, &queue->runs[job->run_class].root, index);
    queue->runs[job->run_class].count--;
    while (queue->run_count && queue->runs[queue->run_count - 1].count == 0)
        queue->run_count--;
}

void queue_restore(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;

    core->tree[index].weight = 1;
    tree_insert(core->tree, &queue->shapes[job->shape].root, index);
    queue->shapes[job->shape].count++;
    count_waiting(queue, job, 1);
}

void queue_run_restore(struct core *core, uint32_t index, const struct rank *rank)
{
    struct job *job = &core->jobs[index];
    struct queue *queue = &core->vcs[job->vc].queue;

    if (!ordered(queue, job))
        return;
    job->run_class = run_class_of(queue, queue->run_order == RUN_BY_KEY ? job->order_slope : 0, job->sku,
                                  core->cells && !job_bound(job));
    core->tree[index] = (struct tree_node){ .rank = *rank, .weight = job_amount(job) };
    tree_insert(core->tree, &queue->runs[job->run_class].root, index);
    queue->runs[job->run_class].count++;
}

void queue_rekey(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job_gpuless(job)) {
        if (job_holds(job->state))
            (void)queue_kept_timer(core, index);
        if (!job_waits(job->state))
            return;
        tasks_remove(core, index); /* its priority may be another */
        tasks_add(core, index);
    } else if (job_waits(job->state) && job->shape != UINT32_MAX) {
        struct queue *queue = &core->vcs[job->vc].queue;

        tree_remove(core->tree, &queue->shapes[job->shape].root, index);
        key_update(core, index, false);
        core->tree[index].rank.key = key_with_priority(core, job, (__int128)job->order_value * PPM_ONE);
        tree_insert(core->tree, &queue->shapes[job->shape].root, index);
    } else if (job_holds(job->state)) {
        queue_run_remove(core, index);
        queue_run_add(core, index);
    }
}
