/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - see snapshot.h.
 *
 * One function walks each part of the state for saving and loading alike, so that the two cannot drift apart: a codec
 * either writes the number it is given or replaces it by the one it reads. Reading never trusts a number: indexes and
 * counts are checked before they are used, and the audit is the last word.
 */
#include "core/snapshot/snapshot.h"

#include <assert.h>
#include <errno.h>

#include "core/planning/vc_wakeup.h"
#include "core/snapshot/audit.h"
#include "core/snapshot/snapshot_internal.h"
#include "model/solve.h"

static const uint64_t magic = 0x31706e5372747375ULL;

/* Of a GPU of a virtual cluster's own: the one that stands for it, in use or broken. */
static void own_part(struct codec *c, const struct core *core, const struct vc *vc, uint32_t index, uint32_t *on)
{
    uint32_t peer = c->write ? cells_peer(core->cells, vc->own_cells[index]) : CELL_NONE;

    *on = peer == CELL_NONE ? UINT32_MAX : core->gpu_of[peer];
    codec_ref(c, on, core->ledger.topo.gpu_count);
}

static void share_part(struct codec *c, struct core *core, struct ledger *ledger, struct share *share)
{
    codec_ref(c, &share->job, core->job_capacity);
    codec_i32(c, &share->amount);
    codec_u32(c, &share->memory, UINT32_MAX);
    codec_u8(c, &share->role, ROLE_PACKED);
    codec_u8(c, &share->part, PART_NEW);
    codec_flag(c, &share->leaving);
    codec_flag(c, &share->off);
    codec_flag(c, &share->server);
    codec_flag(c, &share->waits);
    if (ledger->imagined)
        codec_u32(c, &share->on, core->ledger.topo.gpu_count - 1);
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
    codec_flag(c, &bad);
    codec_flag(c, &bound);
    codec_ref(c, &reserved, core->job_capacity);
    codec_u32(c, &count, 1024);
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
    if (reserved != JOB_NONE && (reserved >= core->job_top || gpu->used != 0)) {
        c->bad = true;
        return;
    }
    if (reserved != JOB_NONE) {
        ledger_reserve(ledger, reserved, &(struct placement){ &index, 1 });
        core->vcs[core->jobs[reserved].vc].kept[ledger->topo.nodes[gpu->node].sku]++;
    }
    ledger_gpu_bad(ledger, index, bad);
}

/* Where tasks of jobs without GPUs are, job by job. */
static void hold_parts(struct codec *c, struct core *core)
{
    codec_flag(c, &core->tasks_dirty);
    for (uint32_t i = 0; i < core->job_top && core->ledger.hosts && !c->bad; i++) {
        uint32_t count = 0, at = core->jobs[i].holds;

        for (uint32_t h = core->jobs[i].holds; c->write && h != HOLD_NONE; h = core->holds[h].next_of_job)
            count++;
        codec_u32(c, &count, core->hold_capacity - core->hold_count);
        for (uint32_t k = 0; k < count && !c->bad; k++) {
            uint32_t node = c->write ? core->holds[at].node : 0, tasks = c->write ? core->holds[at].tasks : 0;

            codec_u32(c, &node, core->ledger.topo.host_count - 1);
            codec_u32(c, &tasks, TASKS_MAX);
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

        codec_u64(c, &releases);
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

    codec_u32(c, &index, SHAPES_MAX - 1);
    cls = &queue->shapes[index];
    if (!c->write && cls->live)
        c->bad = true;
    codec_i32(c, &cls->shape.gpus);
    codec_i32(c, &cls->shape.share);
    codec_u32(c, &cls->shape.memory_mib, UINT32_MAX);
    codec_u32(c, &cls->shape.sku_mask, UINT32_MAX);
    codec_u16(c, &cls->shape.per_node, UINT16_MAX);
    codec_u16(c, &cls->shape.per_unit, UINT16_MAX);
    codec_u8(c, &cls->shape.unit, WITHIN_COUNT - 1);
    codec_u8(c, &cls->shape.within, WITHIN_COUNT - 1);
    codec_flag(c, &cls->shape.must);
    codec_u32(c, &cls->shape.mcpus, UINT32_MAX);
    codec_u32(c, &cls->shape.host_mib, UINT32_MAX);
    codec_u8(c, &cls->shape.mark, MARKS_MAX);
    codec_u8(c, &cls->shape.kept, KEPT_MAX);
    codec_u32(c, &cls->shape.servers, UINT32_MAX);
    codec_u32(c, &cls->shape.bandwidth, UINT32_MAX);
    codec_u8(c, &cls->shape.level, UINT8_MAX);
    codec_u8(c, &cls->shape.klass, CLASS_COUNT - 1);
    codec_i64(c, &cls->shape.keeps);
    snap_sides(c, &cls->shape.side_count, cls->shape.sides);
    codec_u8(c, &cls->reason, REASON_COUNT - 1);
    codec_flag(c, &cls->over_quota);
    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        codec_u64(c, &cls->no_fit[s]);
    for (uint32_t s = 0; s < core->ledger.topo.sku_count && core->cells; s++)
        codec_u64(c, &cls->no_fit_own[s]);
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
        codec_i64(c, &ctx->nodes[i]);
}

static void vc_part(struct codec *c, struct core *core, struct vc *vc)
{
    usec_t wake = heap_at(&core->timers, timer_vc(core, vc->index, false));
    usec_t beyond = heap_at(&core->timers, timer_vc(core, vc->index, true));
    uint32_t live = vc->queue.live_count, running = vc->running, index = vc->run_first;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
        codec_i64(c, &vc->quota[s]);
    codec_i64(c, &vc->borrow_max);
    codec_flag(c, &vc->dirty);
    codec_flag(c, &vc->stirred);
    codec_flag(c, &vc->solving);
    codec_u32(c, &vc->ticket, UINT32_MAX);
    codec_u32(c, &vc->solve_kind, SOLVE_COUNT - 1);
    codec_u64(c, &vc->seen_releases);
    codec_u64(c, &vc->seen_own);
    codec_flag(c, &vc->unmapped);
    codec_i64(c, &vc->again);
    codec_i64(c, &vc->planned_at);
    codec_u64(c, &vc->rng.state);
    codec_i64(c, &wake);
    codec_i64(c, &beyond);
    codec_blob(c, vc->order.state, vc->policy.order->kept_size);
    codec_blob(c, vc->place.state, vc->policy.place->kept_size);
    codec_blob(c, vc->planner.state, vc->policy.planner->kept_size);
    nodes_part(c, core, &vc->planner);
    if (vc->policy.admit)
        codec_blob(c, vc->admit.state, vc->policy.admit->kept_size);
    for (uint32_t i = 0; i < vc->policy.tune_count; i++) {
        codec_blob(c, vc->tune[i].state, vc->policy.tune[i]->kept_size);
        nodes_part(c, core, &vc->tune[i]);
    }
    codec_u32(c, &vc->queue.shape_top, SHAPES_MAX);
    codec_u32(c, &live, SHAPES_MAX);
    for (uint32_t i = 0; i < live && !c->bad; i++)
        shape_part(c, core, &vc->queue, i);
    /* Who holds GPUs, by start. */
    codec_u32(c, &running, core->job_capacity);
    for (uint32_t i = 0; i < running && !c->bad; i++) {
        codec_ref(c, &index, core->job_capacity);
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
    codec_u32(c, &mover->job, core->job_capacity);
    codec_u32(c, &mover->gen, UINT32_MAX);
    codec_flag(c, &mover->set);
    if (mover->set && mover->job >= core->job_top)
        c->bad = true;
}

/* Jobs and GPUs first: the rest is linked from them. */
static void state(struct codec *c, struct core *core)
{
    uint64_t word = magic, version = SNAP_VERSION;
    usec_t round = heap_at(&core->timers, core->job_capacity * TIMERS_A_JOB + core->vc_count);
    uint64_t releases = core->ledger.releases;

    codec_u64(c, &word);
    codec_u64(c, &version);
    if (word != magic || version != SNAP_VERSION)
        c->bad = true;
    codec_i64(c, &core->now);
    codec_i64(c, &core->planned_at);
    codec_u32(c, &core->passes, PASSES_MAX);
    codec_i64(c, &core->pass_at);
    codec_u32(c, &core->chain, CHAIN_MAX);
    codec_i64(c, &round);
    codec_u64(c, &core->rng.state);
    codec_u64(c, &core->decisions);
    codec_u64(c, &core->digest);
    codec_u64(c, &releases);
    codec_flag(c, &core->borrowing);
    codec_u32(c, &core->job_top, core->job_capacity);
    codec_ref(c, &core->job_free, core->job_capacity);
    for (uint32_t i = 0; i < core->job_top && !c->bad; i++)
        snap_job(c, core, i);
    for (uint32_t n = 0; n < core->ledger.topo.host_count && !c->bad; n++) {
        bool up = core->ledger.topo.nodes[n].up, closed = core->ledger.topo.nodes[n].closed;

        codec_flag(c, &up);
        codec_flag(c, &closed);
        if (n < core->ledger.topo.node_count)
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

        codec_u32(c, &v, core->vc_count - 1);
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
    codec_u64(&c, &(uint64_t){ c.sum });
}

/* A copy that is damaged is found before anything of it is believed. */
static bool intact(const void *data, size_t size)
{
    struct codec c = { .data = data, .size = size };
    uint64_t sum = 0, value = 0;

    while (c.at + 8 < size) {
        codec_u64(&c, &value);
        sum = c.sum;
    }
    codec_u64(&c, &value);
    return !c.bad && c.at == size && value == sum;
}

int core_load(const struct cluster_spec *spec_, const struct core_config *config, const void *data, size_t size,
              struct core **ret_core, struct error *err)
{
    struct codec c = { .data = data, .size = size };
    struct audit audit = { 0 };
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
    if (!c.bad && c.at + 8 == size)
        audit_run(core, &audit);
    if (audit.broken) {
        core_free(core);
        return error_set(err, -EBADMSG, "snapshot: contradicts itself: %s", audit.broken);
    }
    if (c.bad && c.at == 2 * sizeof(uint64_t)) { /* behind its first two words */
        core_free(core);
        return error_set(err, -EBADMSG, "snapshot: written by another version of muster; only that one reads it");
    }
    if (c.bad || c.at + 8 != size) {
        core_free(core);
        return error_set(err, -EBADMSG, "snapshot: of another cluster, limit or policy, at byte %zu of %zu", c.at,
                         size);
    }
    *ret_core = core;
    return 0;
}
