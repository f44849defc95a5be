/* SPDX-License-Identifier: Apache-2.0 */
/* snap.c - see snap.h.
 *
 * One function walks each part of the state for saving and loading alike, so that the two cannot drift apart: a codec
 * either writes the number it is given or replaces it by the one it reads. Reading never trusts a number: indexes and
 * counts are checked before they are used, and the audit is the last word.
 */
#include "core/snap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/state.h"
#include "core/wake.h"
#include "model/solve.h"

struct codec {
    snap_write_fn write; /* NULL: reading */
    void *arg;
    const unsigned char *data;
    size_t size, at;
    uint64_t sum; /* over the numbers so far; the last one written tells what it must be */
    bool bad;     /* cut short, or a number out of its range */
};

static const uint64_t magic = 0x31706e5372747375ULL;

static void raw(struct codec *c, void *data, size_t size)
{
    if (c->write) {
        c->write(c->arg, data, size);
    } else if (c->bad || size > c->size - c->at) {
        c->bad = true;
        memset(data, 0, size);
    } else {
        memcpy(data, c->data + c->at, size);
        c->at += size;
    }
}

static void u64(struct codec *c, uint64_t *value)
{
    unsigned char bytes[8];

    if (c->write)
        c->sum = rng_mix(c->sum ^ *value);

    for (int i = 0; c->write && i < 8; i++)
        bytes[i] = (unsigned char)(*value >> (8 * i));
    raw(c, bytes, 8);
    if (c->write)
        return;
    *value = 0;
    for (int i = 0; i < 8; i++)
        *value |= (uint64_t)bytes[i] << (8 * i);
    c->sum = rng_mix(c->sum ^ *value);
}

/* Opaque bytes of a policy, as words. */
static void blob(struct codec *c, void *data, size_t size)
{
    unsigned char *at = data;

    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;

        for (size_t k = 0; k < 8 && i + k < size; k++)
            word |= (uint64_t)at[i + k] << (8 * k);
        u64(c, &word);
        for (size_t k = 0; !c->write && k < 8 && i + k < size; k++)
            at[i + k] = (unsigned char)(word >> (8 * k));
    }
}

static void i64(struct codec *c, int64_t *value)
{
    uint64_t u = (uint64_t)*value;

    u64(c, &u);
    *value = (int64_t)u;
}

/* A number that must not exceed `max`. */
static void u32(struct codec *c, uint32_t *value, uint32_t max)
{
    uint64_t u = *value;

    u64(c, &u);
    if (u > max) {
        c->bad = true;
        u = 0;
    }
    *value = (uint32_t)u;
}

static void i32(struct codec *c, int32_t *value)
{
    int64_t i = *value;

    i64(c, &i);
    if (i < INT32_MIN || i > INT32_MAX)
        c->bad = true;
    *value = (int32_t)i;
}

static void u8(struct codec *c, uint8_t *value, uint32_t max)
{
    uint32_t u = *value;

    u32(c, &u, max);
    *value = (uint8_t)u;
}

static void u16(struct codec *c, uint16_t *value, uint32_t max)
{
    uint32_t u = *value;

    u32(c, &u, max);
    *value = (uint16_t)u;
}

static void flag(struct codec *c, bool *value)
{
    uint8_t u = *value;

    u8(c, &u, 1);
    *value = u;
}

/* A reference to something below `end`, or none (the largest number). */
static void ref(struct codec *c, uint32_t *value, uint32_t end)
{
    uint64_t u = *value == UINT32_MAX ? 0 : (uint64_t)*value + 1;

    u64(c, &u);
    if (u > end)
        c->bad = true;
    *value = u == 0 || u > end ? UINT32_MAX : (uint32_t)(u - 1);
}

static void spec(struct codec *c, struct jobspec *s)
{
    int16_t priority = s->priority;
    int32_t wide = priority;

    i64(c, &s->id);
    i64(c, &s->submit);
    i64(c, &s->estimate);
    i64(c, &s->time_limit);
    u32(c, &s->user, UINT32_MAX);
    u32(c, &s->vc, UINT32_MAX);
    u32(c, &s->model, UINT32_MAX);
    i32(c, &s->gpus);
    i32(c, &s->tasks);
    u32(c, &s->mcpus, UINT32_MAX);
    u32(c, &s->host_mib, UINT32_MAX);
    i32(c, &s->share);
    i32(c, &s->gpus_min);
    i32(c, &s->gpus_max);
    i32(c, &s->servers);
    i32(c, &s->gpu_servers);
    u32(c, &s->bandwidth, UINT32_MAX);
    i64(c, &s->launch);
    i64(c, &s->save);
    u32(c, &s->memory_mib, UINT32_MAX);
    u32(c, &s->memory_peak_mib, UINT32_MAX);
    u32(c, &s->batch, UINT32_MAX);
    u32(c, &s->sku_mask, UINT32_MAX);
    u16(c, &s->utilisation, UINT16_MAX);
    u16(c, &s->per_node, UINT16_MAX);
    u16(c, &s->per_unit, UINT16_MAX);
    u8(c, &s->unit, WITHIN_COUNT - 1);
    u8(c, &s->within, WITHIN_COUNT - 1);
    flag(c, &s->within_must);
    u8(c, &s->mark, MARKS_MAX);
    u8(c, &s->kept, KEPT_MAX);
    u16(c, &s->skew_permille, UINT16_MAX);
    u16(c, &s->tp, UINT16_MAX);
    u16(c, &s->pp, UINT16_MAX);
    u16(c, &s->splice_max, UINT16_MAX);
    i32(c, &wide);
    s->priority = (int16_t)wide;
    u8(c, &s->klass, CLASS_COUNT - 1);
    u8(c, &s->tier, TIER_COUNT - 1);
    u8(c, &s->slo, SLO_COUNT - 1);
    u8(c, &s->deadline_count, DEADLINES_MAX);
    u8(c, &s->retries, UINT8_MAX);
    for (uint32_t i = 0; i < s->deadline_count; i++) {
        i64(c, &s->deadlines[i].at);
        i32(c, &s->deadlines[i].value);
    }
}

/* Everything of a job but what lists and trees are built from again. Waiting is written as if it were booked now. */
static void job_fields(struct codec *c, const struct core *core, struct job *j)
{
    spec(c, &j->spec);
    u32(c, &j->gen, UINT32_MAX);
    u8(c, &j->state, JOB_STATE_COUNT - 1);
    u8(c, &j->klass, CLASS_COUNT - 1);
    u8(c, &j->tier, TIER_COUNT - 1);
    u8(c, &j->reason, REASON_COUNT - 1);
    u8(c, &j->level, UINT8_MAX);
    u8(c, &j->stop, STOP_STEP_COUNT - 1);
    u8(c, &j->before, JOB_STATE_COUNT - 1);
    u8(c, &j->sku, SKUS_MAX - 1);
    flag(c, &j->borrowed);
    flag(c, &j->parks);
    flag(c, &j->prepared);
    flag(c, &j->yields);
    flag(c, &j->resumes);
    flag(c, &j->packed);
    flag(c, &j->unpacks);
    flag(c, &j->moving);
    ref(c, &j->mate, core->job_capacity);
    flag(c, &j->sheds);
    flag(c, &j->resized);
    i32(c, &j->runs_on);
    u32(c, &j->vc, core->vc_count - 1);
    ref(c, &j->shape, SHAPES_MAX);
    i32(c, &j->gpus);
    u32(c, &j->blocked, UINT32_MAX);
    u32(c, &j->reserved_first, core->ledger.topo.gpu_count);
    u32(c, &j->reserved_count, core->ledger.topo.gpu_count);
    ref(c, &j->next, core->job_capacity);
    u8(c, &j->breach, BREACH_COUNT - 1);
    i64(c, &j->promise);
    i64(c, &j->offer);
    u32(c, &j->evictions, UINT32_MAX);
    u32(c, &j->preemptions, UINT32_MAX);
    u32(c, &j->migrations, UINT32_MAX);
    u32(c, &j->splices, UINT32_MAX);
    u32(c, &j->attempts, UINT32_MAX);
    u32(c, &j->fails, UINT32_MAX);
    u32(c, &j->packings, UINT32_MAX);
    u32(c, &j->resizes, UINT32_MAX);
    u32(c, &j->suspensions, UINT32_MAX);
    i64(c, &j->disturbed);
    u32(c, &j->limit_mib, UINT32_MAX);
    u8(c, &j->limit_percent, 100);
    flag(c, &j->measured);
    u16(c, &j->used_percent, 10000);
    u32(c, &j->used_mib, UINT32_MAX);
    i64(c, &j->since);
    i64(c, &j->state_since);
    i64(c, &j->first_start);
    i64(c, &j->last_start);
    i64(c, &j->queued_at);
    i64(c, &j->ran);
    i64(c, &j->progress);
    i64(c, &j->attained);
    i64(c, &j->rate);
    i64(c, &j->order_value);
    i64(c, &j->order_slope);
    for (int i = 0; i < REASON_COUNT; i++)
        i64(c, &j->waited[i]);
    i64(c, &j->over_quota);
    i64(c, &j->waited_all);
    for (int i = 0; i < POLICY_WORDS; i++)
        i64(c, &j->word[i]);
    for (int i = 0; i < ORDER_WORDS; i++)
        i64(c, &j->order_word[i]);
}

static void job_part(struct codec *c, struct core *core, uint32_t index)
{
    struct job copy = core->jobs[index];
    usec_t timers[TIMERS_A_JOB] = { USEC_NEVER, USEC_NEVER };
    struct rank rank = core->tree[index].rank;
    int64_t aux = core->tree[index].aux, low = (int64_t)(uint64_t)(unsigned __int128)rank.key,
            high = (int64_t)(rank.key >> 64);

    if (c->write) {
        if (job_waits(copy.state) && copy.shape != UINT32_MAX)
            queue_booked(core, index, &copy);
        for (int k = 0; k < TIMERS_A_JOB; k++)
            timers[k] = heap_at(&core->timers, timer_of(index, (enum timer_kind)k));
    }
    job_fields(c, core, &copy);
    i64(c, &high);
    i64(c, &low);
    i64(c, &aux);
    for (int k = 0; k < TIMERS_A_JOB; k++)
        i64(c, &timers[k]);
    for (uint32_t i = 0; i < core->word_stride; i++)
        i64(c, &core->words[(size_t)index * core->word_stride + i]);
    if (c->write)
        return;
    core->jobs[index] = copy;
    core->jobs[index].shares = core->jobs[index].own_shares = SHARE_NONE;
    core->jobs[index].holds = HOLD_NONE;
    core->jobs[index].run_class = UINT32_MAX;
    core->tree[index].rank = (struct rank){ .key = (__int128)((unsigned __int128)(uint64_t)high << 64 | (uint64_t)low),
                                            .time = copy.spec.submit,
                                            .id = copy.spec.id };
    core->tree[index].aux = aux;
    for (int k = 0; k < TIMERS_A_JOB; k++)
        heap_set(&core->timers, timer_of(index, (enum timer_kind)k), timers[k]);
}

/* Of a GPU of a virtual cluster's own: the one that stands for it, in use or broken. */
static void own_part(struct codec *c, const struct core *core, const struct vc *vc, uint32_t index, uint32_t *on)
{
    uint32_t peer = c->write ? cells_peer(core->cells, vc->own_cells[index]) : CELL_NONE;

    *on = peer == CELL_NONE ? UINT32_MAX : core->gpu_of[peer];
    ref(c, on, core->ledger.topo.gpu_count);
}

static void share_part(struct codec *c, struct core *core, struct ledger *ledger, struct share *share)
{
    ref(c, &share->job, core->job_capacity);
    i32(c, &share->amount);
    u32(c, &share->memory, UINT32_MAX);
    u8(c, &share->role, ROLE_PACKED);
    u8(c, &share->part, PART_NEW);
    flag(c, &share->leaving);
    flag(c, &share->off);
    flag(c, &share->server);
    flag(c, &share->waits);
    if (ledger->imagined)
        u32(c, &share->on, core->ledger.topo.gpu_count - 1);
    if (!c->write && (share->job >= core->job_top || ledger->share_free == SHARE_NONE || share->amount < 1 ||
                      share->amount > MGPU_ONE))
        c->bad = true;
}

/* Shares go GPU by GPU, each list from its end, so that it comes back in the same order. */
static void gpu_part(struct codec *c, struct core *core, struct ledger *ledger, uint32_t index)
{
    struct gpu *gpu = &ledger->gpus[index];
    uint32_t list[1024], count = 0;
    bool bad = gpu->bad, bound = gpu->bound;
    uint32_t reserved = gpu->reserved_for;

    for (uint32_t s = gpu->shares; s != SHARE_NONE && count < 1024; s = ledger->shares[s].next_of_gpu)
        list[count++] = s;
    flag(c, &bad);
    flag(c, &bound);
    ref(c, &reserved, core->job_capacity);
    u32(c, &count, 1024);
    gpu->bound = bound;
    for (uint32_t i = count; i-- > 0;) {
        struct share share = c->write ? ledger->shares[list[i]] : (struct share){ .gpu = index };

        share_part(c, core, ledger, &share);
        if (c->bad)
            return;
        if (!c->write)
            ledger_restore(ledger, &share);
    }
    if (c->write)
        return;
    if (reserved != JOB_NONE && reserved < core->job_top) {
        ledger_reserve(ledger, reserved, &(struct placement){ &index, 1 });
        core->vcs[core->jobs[reserved].vc].kept[ledger->topo.nodes[gpu->node].sku]++;
    }
    ledger_gpu_bad(ledger, index, bad);
}

/* Where tasks of jobs without GPUs are, job by job. */
static void hold_parts(struct codec *c, struct core *core)
{
    flag(c, &core->tasks_dirty);
    for (uint32_t i = 0; i < core->job_top && core->ledger.hosts && !c->bad; i++) {
        uint32_t count = 0, at = core->jobs[i].holds;

        for (uint32_t h = core->jobs[i].holds; c->write && h != HOLD_NONE; h = core->holds[h].next_of_job)
            count++;
        u32(c, &count, core->hold_capacity - core->hold_count);
        for (uint32_t k = 0; k < count && !c->bad; k++) {
            uint32_t node = c->write ? core->holds[at].node : 0, tasks = c->write ? core->holds[at].tasks : 0;

            u32(c, &node, core->ledger.topo.node_count - 1);
            u32(c, &tasks, TASKS_MAX);
            if (c->write)
                at = core->holds[at].next_of_job;
            else if (core->hold_free != HOLD_NONE)
                tasks_hold(core, i, node, tasks);
        }
        if (!c->write && count)
            tasks_turn(core, i);
    }
}

/* Virtual clusters' own ledgers, and what the cells were. */
static void own_parts(struct codec *c, struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count && core->cells && !c->bad; v++) {
        struct vc *vc = &core->vcs[v];
        uint64_t releases = vc->own->releases;

        u64(c, &releases);
        for (uint32_t g = 0; g < vc->own->topo.gpu_count && !c->bad; g++) {
            gpu_part(c, core, vc->own, g);
            own_part(c, core, vc, g, &core->map.own[g]);
            vc->own->gpus[g].stands = core->map.own[g];
        }
        vc->own->releases = releases;
    }
}

static void shape_part(struct codec *c, struct core *core, struct queue *queue, uint32_t position)
{
    uint32_t index = c->write ? queue->live[position] : 0;
    struct shape_class *cls;

    u32(c, &index, SHAPES_MAX - 1);
    cls = &queue->shapes[index];
    if (!c->write && cls->live)
        c->bad = true;
    i32(c, &cls->shape.gpus);
    i32(c, &cls->shape.share);
    u32(c, &cls->shape.memory_mib, UINT32_MAX);
    u32(c, &cls->shape.sku_mask, UINT32_MAX);
    u16(c, &cls->shape.per_node, UINT16_MAX);
    u16(c, &cls->shape.per_unit, UINT16_MAX);
    u8(c, &cls->shape.unit, WITHIN_COUNT - 1);
    u8(c, &cls->shape.within, WITHIN_COUNT - 1);
    flag(c, &cls->shape.must);
    u32(c, &cls->shape.mcpus, UINT32_MAX);
    u32(c, &cls->shape.host_mib, UINT32_MAX);
    u8(c, &cls->shape.mark, MARKS_MAX);
    u8(c, &cls->shape.kept, KEPT_MAX);
    u32(c, &cls->shape.servers, UINT32_MAX);
    u32(c, &cls->shape.bandwidth, UINT32_MAX);
    u8(c, &cls->shape.level, UINT8_MAX);
    u8(c, &cls->shape.klass, CLASS_COUNT - 1);
    u8(c, &cls->reason, REASON_COUNT - 1);
    flag(c, &cls->over_quota);
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        u64(c, &cls->no_fit[s]);
    for (uint32_t s = 0; s < core->ledger.topo.sku_count && core->cells; s++)
        u64(c, &cls->no_fit_own[s]);
    if (c->write)
        return;
    cls->live = true;
    cls->root = TREE_NONE;
    cls->since = core->now;
    queue->live[position] = (uint16_t)index;
}

static void nodes_part(struct codec *c, const struct core *core, const struct planner_ctx *ctx)
{
    size_t nodes = core->ledger.topo.node_count + (ctx->vc->own ? ctx->vc->own->topo.node_count : 0);
    size_t count = nodes * ctx->node_words;

    for (size_t i = 0; i < count; i++)
        i64(c, &ctx->nodes[i]);
}

static void vc_part(struct codec *c, struct core *core, struct vc *vc)
{
    usec_t wake = heap_at(&core->timers, timer_vc(core, vc->index, false));
    usec_t beyond = heap_at(&core->timers, timer_vc(core, vc->index, true));
    uint32_t live = vc->queue.live_count, running = vc->running, index = vc->run_first;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        i64(c, &vc->quota[s]);
    i64(c, &vc->borrow_max);
    flag(c, &vc->dirty);
    flag(c, &vc->stirred);
    flag(c, &vc->solving);
    u32(c, &vc->ticket, UINT32_MAX);
    u32(c, &vc->solve_kind, SOLVE_COUNT - 1);
    u64(c, &vc->seen_releases);
    u64(c, &vc->seen_own);
    flag(c, &vc->unmapped);
    i64(c, &vc->again);
    i64(c, &vc->planned_at);
    u64(c, &vc->rng.state);
    i64(c, &wake);
    i64(c, &beyond);
    blob(c, vc->order.state, vc->policy.order->kept_size);
    blob(c, vc->place.state, vc->policy.place->kept_size);
    blob(c, vc->planner.state, vc->policy.planner->kept_size);
    nodes_part(c, core, &vc->planner);
    if (vc->policy.admit)
        blob(c, vc->admit.state, vc->policy.admit->kept_size);
    for (uint32_t i = 0; i < vc->policy.tune_count; i++) {
        blob(c, vc->tune[i].state, vc->policy.tune[i]->kept_size);
        nodes_part(c, core, &vc->tune[i]);
    }
    u32(c, &vc->queue.shape_top, SHAPES_MAX);
    u32(c, &live, SHAPES_MAX);
    for (uint32_t i = 0; i < live && !c->bad; i++)
        shape_part(c, core, &vc->queue, i);
    /* Who holds GPUs, by start. */
    u32(c, &running, core->job_capacity);
    for (uint32_t i = 0; i < running && !c->bad; i++) {
        ref(c, &index, core->job_capacity);
        if (c->write)
            index = core->jobs[index].next;
        else if (index < core->job_top && job_holds(core->jobs[index].state) && core->jobs[index].vc == vc - core->vcs)
            core_relink(core, index);
        else
            c->bad = true;
    }
    if (c->write || c->bad)
        return;
    vc->queue.live_count = live;
    heap_set(&core->timers, timer_vc(core, vc->index, false), wake);
    heap_set(&core->timers, timer_vc(core, vc->index, true), beyond);
}

static void mover_part(struct codec *c, const struct core *core, struct mover *mover)
{
    u32(c, &mover->job, core->job_capacity);
    u32(c, &mover->gen, UINT32_MAX);
    flag(c, &mover->set);
    if (mover->set && mover->job >= core->job_top)
        c->bad = true;
}

/* Jobs and GPUs first: the rest is linked from them. */
static void state(struct codec *c, struct core *core)
{
    uint64_t word = magic, version = SNAP_VERSION;
    usec_t round = heap_at(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count);
    uint64_t releases = core->ledger.releases;

    u64(c, &word);
    u64(c, &version);
    if (word != magic || version != SNAP_VERSION)
        c->bad = true;
    i64(c, &core->now);
    i64(c, &core->planned_at);
    u32(c, &core->passes, PASSES_MAX);
    i64(c, &core->pass_at);
    u32(c, &core->chain, CHAIN_MAX);
    i64(c, &round);
    u64(c, &core->rng.state);
    u64(c, &core->decisions);
    u64(c, &core->digest);
    u64(c, &releases);
    flag(c, &core->borrowing);
    u32(c, &core->job_top, core->job_capacity);
    ref(c, &core->job_free, core->job_capacity);
    for (uint32_t i = 0; i < core->job_top && !c->bad; i++)
        job_part(c, core, i);
    for (uint32_t n = 0; n < core->ledger.topo.node_count && !c->bad; n++) {
        bool up = core->ledger.topo.nodes[n].up, closed = core->ledger.topo.nodes[n].closed;

        flag(c, &up);
        flag(c, &closed);
        mover_part(c, core, &core->movers[n]);
        if (!c->write) {
            topo_node_up(&core->ledger.topo, n, up);
            core->ledger.topo.nodes[n].closed = closed;
        }
    }
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count && !c->bad; g++)
        gpu_part(c, core, &core->ledger, g);
    hold_parts(c, core);
    own_parts(c, core);
    if (!c->write && !c->bad && (core_rejoin_shares(core) < 0 || own_restore(core) < 0))
        c->bad = true;
    for (uint32_t i = 0; i < core->vc_count; i++) {
        uint32_t v = core->vc_order[i];

        u32(c, &v, core->vc_count - 1);
        core->vc_order[i] = v;
    }
    for (uint32_t v = 0; v < core->vc_count && !c->bad; v++)
        vc_part(c, core, &core->vcs[v]);
    if (c->write || c->bad)
        return;
    core->ledger.releases = releases;
    heap_set(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count, round);
}

void core_save(const struct core *core, snap_write_fn write, void *arg)
{
    struct codec c = { .write = write, .arg = arg };
    union {
        const struct core *seen;
        struct core *own; /* one walk for both directions; writing changes nothing */
    } both = { .seen = core };

    assert(core->inbox_count == 0);
    state(&c, both.own);
    u64(&c, &(uint64_t){ c.sum });
}

/* A copy that is damaged is found before anything of it is believed. */
static bool intact(const void *data, size_t size)
{
    struct codec c = { .data = data, .size = size };
    uint64_t sum = 0, value = 0;

    while (c.at + 8 < size) {
        u64(&c, &value);
        sum = c.sum;
    }
    u64(&c, &value);
    return !c.bad && c.at == size && value == sum;
}

int core_load(const struct cluster_spec *spec_, const struct core_config *config, const void *data, size_t size,
              struct core **ret_core, struct error *err)
{
    struct codec c = { .data = data, .size = size };
    struct core *core;
    int r;

    if (size % 8 || !intact(data, size))
        return error_set(err, -EBADMSG, "snapshot: damaged or cut short, %zu bytes", size);
    r = core_new(spec_, config, &core, err);
    if (r < 0)
        return r;
    state(&c, core);
    if (!c.bad)
        c.bad = core_requeue(core) < 0;
    if (c.bad || c.at + 8 != size) {
        core_free(core);
        return error_set(err, -EBADMSG, "snapshot: of another cluster, limit or policy, at byte %zu of %zu", c.at,
                         size);
    }
    *ret_core = core;
    return 0;
}
