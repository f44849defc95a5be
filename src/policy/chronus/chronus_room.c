/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_room.c - GPUs for promised jobs.
 *
 * Sizes are rounded up to powers of two and whole nodes. Placed in descending order they always fit if their sum does,
 * with nobody spread wider than needed: what larger ones leave of a node is a multiple of the next size. So a job that
 * stands well stays where it is, and only smaller ones that stand in the way of larger ones move. What a job was
 * rounded up by stays beside it for jobs without a promise; promised ones are not placed there.
 */
#include <assert.h>
#include <errno.h>

#include "policy/chronus/chronus.h"

/* Jobs that are looked at to make room for one that wants it in a certain way. */
enum { LEAVE_MAX = 64 };

static bool is_promised_now(const struct planner_ctx *ctx, const struct job *job)
{
    const struct chronus *c = ctx->state;

    return chronus_status(job) == STATUS_PROMISED && c->tasks[job->word[WORD_TASK]].live &&
           task_has(&c->tasks[job->word[WORD_TASK]], c->lease);
}

/* What a job that holds GPUs takes of each node, rounded up; the surplus is on its last node. */
static void hold(struct planner_ctx *ctx, const struct task *task, int sign)
{
    struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, task->job);
    uint32_t node = 0;

    for (uint32_t s = view_shares(ctx->view, task->job); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        node = ledger->gpus[ledger->shares[s].gpu].node;
        c->node_held[node] += sign;
    }
    c->node_held[node] += sign * (task->size - job->gpus);
}

/* GPUs of every node that jobs of other virtual clusters hold. */
static void count_others(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);

    for (uint32_t n = 0; n < ledger->topo.node_count && n < CHRONUS_NODES; n++)
        c->node_held[n] = 0;
    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++) {
        bool theirs = ledger->gpus[g].reserved_for != JOB_NONE;

        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE && !theirs; s = ledger->shares[s].next_of_gpu)
            theirs = view_job(ctx->view, ledger->shares[s].job)->vc != c->vc && !ledger->shares[s].leaving;
        if (theirs && ledger->gpus[g].node < CHRONUS_NODES)
            c->node_held[ledger->gpus[g].node]++;
    }
}

/* The same and those that promised jobs of this lease hold. */
static void count_held(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;

    count_others(ctx);
    for (uint32_t i = 0; i < c->task_top; i++) {
        const struct task *t = &c->tasks[i];

        if (t->live && task_has(t, c->lease) && job_holds(view_job(ctx->view, t->job)->state))
            hold(ctx, t, 1);
    }
}

/* GPUs of a node that could be planned, in whole units where jobs need more than one. */
static int32_t healthy(const struct planner_ctx *ctx, uint32_t node)
{
    const struct node *n = &view_ledger(ctx->view)->topo.nodes[node];

    return n->up ? n->gpus - n->bad : 0;
}

/* The node with the least room that has `size`; where that is equal, the one with most of it free already. */
static uint32_t best_node(const struct planner_ctx *ctx, uint16_t sku, int32_t size, uint8_t kept)
{
    const struct chronus *c = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    uint32_t best = UINT32_MAX;
    int32_t best_room = 0;

    for (uint32_t n = 0; n < topo->node_count && n < CHRONUS_NODES; n++) {
        int32_t room = healthy(ctx, n) - c->node_held[n];

        if (topo->nodes[n].sku != sku || topo->nodes[n].kept != kept || room < size)
            continue;
        if (best != UINT32_MAX &&
            (room > best_room || (room == best_room && topo->nodes[n].free <= topo->nodes[best].free)))
            continue;
        best = n;
        best_room = room;
    }
    return best;
}

/* The nodes for a size into c->other, and how many; 0 if there are none. Nodes that are kept for some jobs are for
 * those, and they for no others: nobody is made to leave a node that is of no use. */
static uint32_t choose_nodes(struct planner_ctx *ctx, uint16_t sku, int32_t size, uint8_t kept)
{
    struct chronus *c = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    int32_t unit = (int32_t)c->unit[sku];
    uint32_t count = 0;

    if (size <= unit) {
        c->other[0] = best_node(ctx, sku, size, kept);
        return c->other[0] != UINT32_MAX;
    }
    /* Whole units: on as few nodes as have them; those with more free GPUs first, so that fewer others must leave. */
    for (int pass = 0; pass < 2 && size > 0; pass++)
        for (uint32_t n = 0; n < topo->node_count && n < CHRONUS_NODES && size > 0 && count < CHRONUS_RUNNING; n++) {
            int32_t room = (healthy(ctx, n) - c->node_held[n]) / unit * unit;
            bool empty = topo->nodes[n].free == topo->nodes[n].gpus;

            if (topo->nodes[n].sku != sku || topo->nodes[n].kept != kept || room < unit || empty != (pass == 0) ||
                room < healthy(ctx, n) / unit * unit)
                continue;
            c->other[count++] = n;
            size -= room;
        }
    return size <= 0 ? count : 0;
}

bool room_possible(struct planner_ctx *ctx, uint16_t sku, int32_t size, uint8_t kept)
{
    count_held(ctx);
    return choose_nodes(ctx, sku, size, kept) > 0;
}

/* ---- making room ---- */

static bool may_leave(const struct planner_ctx *ctx, uint32_t job)
{
    const struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);

    return job_holds(j->state) && !j->planned && j->vc == c->vc && chronus_status(j) != STATUS_PROFILING &&
           !is_promised_now(ctx, j);
}

/* The job on a node that is to leave next: the one with the most service ahead. */
static uint32_t next_to_leave(const struct planner_ctx *ctx, uint32_t node)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t best = JOB_NONE;
    struct rank worst = { 0 };

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++)
        for (uint32_t s = ledger->gpus[g].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
            uint32_t job = ledger->shares[s].job;
            struct rank rank;

            if (ledger->shares[s].leaving || job == best || !may_leave(ctx, job))
                continue;
            rank = view_rank(ctx->view, job);
            if (best == JOB_NONE || rank_before(&worst, &rank)) {
                best = job;
                worst = rank;
            }
        }
    return best;
}

/* Those who were told to leave for a job; beyond so many nobody is asked to stay. */
struct leavers {
    uint32_t jobs[LEAVE_MAX], count;
};

static int tell_leave(struct plan *plan, struct leavers *leavers, uint32_t job)
{
    int r = job == JOB_NONE ? -EBUSY : plan_stop(plan, job, STOP_CHECKPOINT);

    if (r == 0 && leavers->count < LEAVE_MAX)
        leavers->jobs[leavers->count++] = job;
    return r;
}

/* The job they left for was not started. */
static void tell_stay(const struct planner_ctx *ctx, struct plan *plan, const struct leavers *leavers)
{
    for (uint32_t i = 0; i < leavers->count; i++)
        if (view_job(ctx->view, leavers->jobs[i])->state == JOB_STOPPING)
            (void)plan_keep(plan, leavers->jobs[i]);
}

/* `need` GPUs of a node that nobody has, after others were told to leave; into out. */
static int take_node(struct planner_ctx *ctx, struct plan *plan, struct leavers *leavers, uint32_t node, uint32_t need,
                     uint32_t *out)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t got = 0;

    while (n->free < need) {
        if (tell_leave(plan, leavers, next_to_leave(ctx, node)) < 0)
            return -EBUSY;
    }
    /* Those that are free at once before those that others are leaving. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus && got < need; g++)
            if (ledger_whole(ledger, g) && (ledger->gpus[g].leaving == 0) == (pass == 0))
                out[got++] = g;
    return got == need ? 0 : -EBUSY;
}

static void sort_gpus(uint32_t *gpus, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t gpu = gpus[i], k = i;

        for (; k > 0 && gpus[k - 1] > gpu; k--)
            gpus[k] = gpus[k - 1];
        gpus[k] = gpu;
    }
}

/* Of its own jobs without a promise the last in order; JOB_NONE. */
static uint32_t last_to_leave(const struct planner_ctx *ctx, uint32_t sku)
{
    uint32_t last = JOB_NONE;
    struct rank worst = { 0 };

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);
        struct rank rank;

        if (job->sku != sku || job->klass == CLASS_OPPORTUNISTIC || !may_leave(ctx, i))
            continue;
        rank = view_rank(ctx->view, i);
        if (last == JOB_NONE || rank_before(&worst, &rank)) {
            last = i;
            worst = rank;
        }
    }
    return last;
}

/* What the virtual cluster is owed may be held by its own jobs without a promise: the last in order leave. */
static bool within_quota(struct planner_ctx *ctx, struct plan *plan, struct leavers *leavers, const struct task *task)
{
    int64_t need = (int64_t)view_job(ctx->view, task->job)->spec.gpus * MGPU_ONE;

    while (plan_budget(plan, task->sku, CLASS_GUARANTEED) < need)
        if (tell_leave(plan, leavers, last_to_leave(ctx, task->sku)) < 0)
            return false;
    return true;
}

/* Where a job wants its GPUs in a certain way, or CPUs with them, the core finds them: jobs without a promise leave,
 * the last in order first, until it does; who turns out not to have been in the way stays, and everybody where it
 * cannot be started after all. */
static int start_in_room(struct planner_ctx *ctx, struct plan *plan, const struct task *task)
{
    uint32_t stopped[LEAVE_MAX], count = 0;
    struct placement to;
    int r = -EBUSY;

    while (r < 0 && count < LEAVE_MAX) {
        uint32_t last = last_to_leave(ctx, task->sku);

        if (last == JOB_NONE || plan_stop(plan, last, STOP_CHECKPOINT) < 0)
            break;
        stopped[count++] = last;
        r = plan_find(plan, plan_shape(plan, task->job), &to);
    }
    for (uint32_t i = 0; i < (r == 0 ? count - 1 : count); i++)
        if (plan_keep(plan, stopped[i]) == 0 && r == 0 && plan_find(plan, plan_shape(plan, task->job), &to) < 0)
            (void)plan_stop(plan, stopped[i], STOP_CHECKPOINT);
    if (r == 0)
        r = plan_find(plan, plan_shape(plan, task->job), &to);
    if (r == 0)
        r = plan_start(plan, task->job, &to);
    for (uint32_t i = 0; r < 0 && i < count; i++)
        if (view_job(ctx->view, stopped[i])->state == JOB_STOPPING)
            (void)plan_keep(plan, stopped[i]);
    return r;
}

static int start(struct planner_ctx *ctx, struct plan *plan, struct leavers *leavers, struct task *task)
{
    struct chronus *c = ctx->state;
    const struct job *job = view_job(ctx->view, task->job);
    uint32_t nodes = choose_nodes(ctx, task->sku, task->size, job->spec.kept), got = 0, need = (uint32_t)job->spec.gpus;

    if (!nodes || need > sizeof(c->gpus) / sizeof(*c->gpus) || !job_plain(job))
        return -EBUSY;
    for (uint32_t i = 0; i < nodes && need > 0; i++) {
        int32_t room = healthy(ctx, c->other[i]) - c->node_held[c->other[i]];
        uint32_t part = need < (uint32_t)room ? need : (uint32_t)room;
        int r = take_node(ctx, plan, leavers, c->other[i], part, c->gpus + got);

        if (r < 0)
            return r;
        got += part;
        need -= part;
    }
    if (need)
        return -EBUSY;
    sort_gpus(c->gpus, got);
    if (!within_quota(ctx, plan, leavers, task) || plan_start(plan, task->job, &(struct placement){ c->gpus, got }) < 0)
        return -EBUSY;
    hold(ctx, task, 1);
    return 0;
}

int room_measure(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);
    uint32_t mask = ctx->vc->queue.shapes[j->shape].shape.sku_mask;
    struct placement to;
    int r = -EBUSY;

    if (!job_plain(j)) {
        r = plan_find(plan, plan_shape(plan, job), &to);
        return r < 0 ? r : plan_start(plan, job, &to);
    }
    count_held(ctx);
    for (uint32_t sku = 0; r < 0 && sku < view_sku_count(ctx->view); sku++)
        if (mask >> sku & 1) {
            struct task task = { .job = job,
                                 .sku = (uint16_t)sku,
                                 .size = lease_round_up(j->spec.gpus, (int32_t)c->unit[sku]) };
            struct leavers leavers = { .count = 0 };

            r = start(ctx, plan, &leavers, &task);
            if (r < 0)
                tell_stay(ctx, plan, &leavers);
        }
    return r;
}

/* Tasks of this lease that wait, the largest first; into c->list. */
static uint32_t gather_waiting(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->task_top && count < CHRONUS_RUNNING; i++) {
        const struct task *t = &c->tasks[i];
        const struct job *job = view_job(ctx->view, t->job);
        uint32_t k;

        if (!t->live || !task_has(t, c->lease) || !job_waits(job->state) || job->shape == UINT32_MAX)
            continue;
        for (k = count++; k > 0 && c->tasks[c->list[k - 1]].size < t->size; k--)
            c->list[k] = c->list[k - 1];
        c->list[k] = i;
    }
    return count;
}

void room_promised(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t count = gather_waiting(ctx);

    if (!count)
        return;
    count_held(ctx);
    for (uint32_t i = 0; i < count; i++) {
        struct task *task = &c->tasks[c->list[i]];
        struct leavers leavers = { .count = 0 };
        struct placement to;
        int r = -EBUSY;

        if (start(ctx, plan, &leavers, task) == 0 || view_job(ctx->view, task->job)->planned)
            continue;
        /* Anywhere, if it must be; and what was lent to other virtual clusters is taken back. */
        if (plan_find(plan, plan_shape(plan, task->job), &to) == 0 || plan_reclaim(plan, task->job, &to) == 0)
            r = plan_start(plan, task->job, &to);
        else if (!job_plain(view_job(ctx->view, task->job)))
            r = start_in_room(ctx, plan, task);
        if (r == 0)
            hold(ctx, task, 1);
        else
            tell_stay(ctx, plan, &leavers);
    }
}

/* ---- packing ---- */

/* All tasks of this lease, the largest first, those that run before those that wait; into c->list. */
static uint32_t gather_all(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    uint32_t count = 0;

    for (int32_t running = 1; running >= 0; running--)
        for (uint32_t i = 0; i < c->task_top && count < CHRONUS_RUNNING; i++) {
            const struct task *t = &c->tasks[i];
            uint32_t k;

            if (!t->live || !task_has(t, c->lease) || job_holds(view_job(ctx->view, t->job)->state) != running)
                continue;
            for (k = count++; k > 0 && c->tasks[c->list[k - 1]].size < t->size; k--)
                c->list[k] = c->list[k - 1];
            c->list[k] = i;
        }
    return count;
}

static bool stays(struct planner_ctx *ctx, const struct task *task)
{
    struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, task->job);
    bool fits = true;

    if (job->sku != task->sku)
        return false;
    hold(ctx, task, 1);
    for (uint32_t s = view_shares(ctx->view, task->job); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t node = ledger->gpus[ledger->shares[s].gpu].node;

        fits &= c->node_held[node] <= healthy(ctx, node);
    }
    if (!fits)
        hold(ctx, task, -1);
    return fits;
}

/* Whether it stands on no more nodes than it has to. */
static bool compact(const struct planner_ctx *ctx, const struct task *task)
{
    const struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t nodes = 0, node = UINT32_MAX, unit = c->unit[task->sku];

    for (uint32_t s = view_shares(ctx->view, task->job); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t here = ledger->gpus[ledger->shares[s].gpu].node;

        nodes += here != node;
        node = here;
    }
    return nodes <= ((uint32_t)task->size + unit - 1) / unit;
}

/* Takes a size of the nodes chosen for it; whether there were any. */
static bool occupy(struct planner_ctx *ctx, const struct task *task)
{
    struct chronus *c = ctx->state;
    uint32_t nodes = choose_nodes(ctx, task->sku, task->size, view_job(ctx->view, task->job)->spec.kept);
    int32_t left = task->size;

    for (uint32_t k = 0; k < nodes; k++) {
        int32_t room = healthy(ctx, c->other[k]) - c->node_held[c->other[k]];

        room = room < left ? room : left;
        c->node_held[c->other[k]] += room;
        left -= room;
    }
    return nodes > 0;
}

/* Whether everybody of this lease who waits has room although nobody with a promise moves. */
static bool fits_as_it_is(struct planner_ctx *ctx, uint32_t count)
{
    struct chronus *c = ctx->state;

    count_held(ctx);
    for (uint32_t i = 0; i < count; i++) {
        const struct task *t = &c->tasks[c->list[i]];

        if (job_holds(view_job(ctx->view, t->job)->state)
                ? !compact(ctx, t) || view_job(ctx->view, t->job)->sku != t->sku
                : !occupy(ctx, t))
            return false;
    }
    return true;
}

bool room_pack(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    uint32_t count = gather_all(ctx);
    bool moved = false;

    if (fits_as_it_is(ctx, count))
        return false;
    count_others(ctx);
    for (uint32_t i = 0; i < count; i++) {
        struct task *t = &c->tasks[c->list[i]];
        bool holds = job_holds(view_job(ctx->view, t->job)->state);

        if (holds && compact(ctx, t) && stays(ctx, t))
            continue;
        if (occupy(ctx, t) && holds && !view_job(ctx->view, t->job)->planned &&
            plan_stop(plan, t->job, STOP_CHECKPOINT) == 0)
            moved = true;
    }
    return moved;
}
