/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_plan.c - the leases of promised jobs: finding them, keeping them true as time goes by, mending them.
 *
 * A job gets the latest leases with room: early ones stay open for whoever comes with little time. What it needs is
 * counted in time, not in leases: every block of consecutive leases costs one interruption and no more, so a job that
 * is planned in one piece is not charged for interruptions it will not have. The lease under way and the one the
 * deadline falls into count with the part that is usable, as a last resort.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "policy/chronus/chronus.h"
#include "policy/chronus/chronus_mss.h"

static uint32_t ring(int64_t lease)
{
    return (uint32_t)(lease % CHRONUS_LEASES);
}

static bool bit_at(const uint64_t *bits, int64_t lease)
{
    return bits[ring(lease) / 64] >> (ring(lease) % 64) & 1;
}

static void bit_set(uint64_t *bits, int64_t lease)
{
    bits[ring(lease) / 64] |= (uint64_t)1 << (ring(lease) % 64);
}

static void bit_clear(uint64_t *bits, int64_t lease)
{
    bits[ring(lease) / 64] &= ~((uint64_t)1 << (ring(lease) % 64));
}

bool task_has(const struct task *task, int64_t lease)
{
    return bit_at(task->bits, lease);
}

struct task *chronus_task(struct planner_ctx *ctx, const struct job *job)
{
    struct chronus *c = ctx->state;

    assert(chronus_status(job) == STATUS_PROMISED);
    assert(job->word[WORD_TASK] >= 0 && job->word[WORD_TASK] < CHRONUS_TASKS);
    return &c->tasks[job->word[WORD_TASK]];
}

/* What the job says it takes, corrected by how fast it was in the pool. */
static usec_t chronus_estimate(const struct planner_ctx *ctx, const struct job *job)
{
    ppm_t rate = mss_measured(ctx, job);

    return rate == PPM_ONE ? job->spec.estimate : muldiv_ceil(job->spec.estimate, PPM_ONE, rate);
}

usec_t chronus_remaining(const struct planner_ctx *ctx, const struct job *job)
{
    usec_t all = chronus_estimate(ctx, job), done = job_progress(job, view_now(ctx->view));

    return all > done ? all - done : 0;
}

usec_t chronus_left(const struct planner_ctx *ctx, const struct job *job)
{
    usec_t all = muldiv_ceil(chronus_estimate(ctx, job), ctx->params[P_SAFETY], PPM_ONE);
    usec_t done = job_progress(job, view_now(ctx->view));

    return all > done ? all - done : 0;
}

/* ---- finding leases ---- */

struct window {
    int64_t low, high; /* leases it may have */
    usec_t head, tail; /* usable part of the lowest, of the highest */
    int free_blocks;   /* blocks that cost nothing */
};

static bool fill_window(const struct planner_ctx *ctx, const struct wish *wish, const struct window *w, uint64_t *bits)
{
    const struct chronus *c = ctx->state;
    const int32_t *used = c->used[wish->sku];
    int32_t most = c->capacity[wish->sku] - wish->size;
    usec_t got = 0, lease = ctx->params[P_LEASE];
    int64_t before = w->high + 2, need = wish->left, l;
    int blocks = 0;

    for (l = w->high; l >= w->low; l--) {
        usec_t length = l == w->low && w->head ? w->head : l == w->high && w->tail ? w->tail : lease;

        if (used[ring(l)] > most || (wish->others && wish->others[ring(l)] > most - wish->spared))
            continue;
        if (l + 1 != before)
            blocks++;
        before = l;
        bit_set(bits, l);
        got += length;
        if (got - (blocks > w->free_blocks ? blocks - w->free_blocks : 0) * wish->cost >= need)
            return true;
    }
    for (l = w->low; l <= w->high; l++)
        bit_clear(bits, l);
    return false;
}

bool plan_wish_fill(const struct planner_ctx *ctx, const struct wish *wish, uint64_t *bits)
{
    usec_t now = view_now(ctx->view), lease = ctx->params[P_LEASE];
    int64_t under_way = now / lease, last = wish->due / lease, furthest = under_way + CHRONUS_LEASES - 2;
    struct window w = { .low = under_way + 1, .high = last - 1 };
    usec_t tail = wish->due % lease;

    memset(bits, 0, CHRONUS_WORDS * sizeof(*bits));
    if (wish->left > wish->due - now)
        return false;
    if (w.high >= furthest) {
        w.high = furthest;
        tail = 0;
    }
    if (w.high >= w.low && fill_window(ctx, wish, &w, bits))
        return true;
    if (tail > 0 && last > under_way) {
        w.high = last;
        w.tail = tail;
        if (fill_window(ctx, wish, &w, bits))
            return true;
    }
    if (!wish->now)
        return false;
    w.low = under_way;
    w.head = (under_way + 1) * lease - now;
    if (last == under_way) {
        w.high = under_way;
        w.head = wish->due - now;
    }
    w.free_blocks = 1;
    return fill_window(ctx, wish, &w, bits);
}

usec_t plan_earliest(const struct planner_ctx *ctx, const struct wish *wish)
{
    const struct chronus *c = ctx->state;
    usec_t now = view_now(ctx->view), lease = ctx->params[P_LEASE], got = 0;
    int64_t first = now / lease + 1, before = -1;
    int32_t most = c->capacity[wish->sku] - wish->size;
    int blocks = 0;

    for (int64_t l = first; l < first + CHRONUS_LEASES - 2; l++) {
        if (c->used[wish->sku][ring(l)] > most || (wish->others && wish->others[ring(l)] > most - wish->spared))
            continue;
        blocks += l != before + 1;
        before = l;
        got += lease;
        if (got - blocks * wish->cost >= wish->left)
            return (l + 1) * lease;
    }
    return USEC_NEVER;
}

/* Ramps: a job must have its last n units before t only as far as those after t do not hold them. */
bool plan_impossible(struct planner_ctx *ctx, const struct wish *wish)
{
    struct chronus *c = ctx->state;
    usec_t lease = ctx->params[P_LEASE];
    int64_t first = view_now(ctx->view) / lease + 1, last = (wish->due + lease - 1) / lease, must = 0;
    int32_t *step = c->room;

    if (last - first >= CHRONUS_LEASES - 2)
        return false;
    memset(step, 0, sizeof(c->room));
    for (uint32_t i = 0; i < c->task_top; i++) {
        const struct task *t = &c->tasks[i];
        usec_t left;
        int64_t end, begin;

        if (!t->live || t->sku != wish->sku)
            continue;
        left = chronus_left(ctx, view_job(ctx->view, t->job));
        if (task_has(t, first - 1))
            left -= first * lease - view_now(ctx->view);
        end = (t->due + lease - 1) / lease;
        begin = end - (left > 0 ? left / lease : 0);
        for (int64_t l = begin > first ? begin : first; l < end && l < last; l++)
            step[l - first] += t->size;
        if (begin < first && first < last)
            must += (first - begin) * t->size;
    }
    for (int64_t l = last - wish->left / lease; l < last; l++) {
        if (l < first)
            must += wish->size;
        else
            step[l - first] += wish->size;
    }
    for (int64_t l = first; l < last; l++) {
        must += step[l - first];
        if (must > (l - first + 1) * c->capacity[wish->sku])
            return true;
    }
    return false;
}

/* ---- tasks ---- */

static void count_bits(struct chronus *c, const struct task *task, int sign)
{
    c->version++;
    for (int w = 0; w < CHRONUS_WORDS; w++)
        for (uint64_t left = task->bits[w]; left; left &= left - 1)
            c->used[task->sku][w * 64 + __builtin_ctzll(left)] += sign * task->size;
}

void task_set(struct planner_ctx *ctx, struct task *task, const uint64_t *bits)
{
    struct chronus *c = ctx->state;

    count_bits(c, task, -1);
    memcpy(task->bits, bits, sizeof(task->bits));
    count_bits(c, task, 1);
}

struct task *task_add(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct wish *wish,
                      const uint64_t *bits)
{
    struct chronus *c = ctx->state;
    uint32_t at = 0;

    if (c->task_count == c->task_top)
        at = c->task_top;
    while (at < c->task_top && c->tasks[at].live)
        at++;
    if (at == CHRONUS_TASKS)
        return NULL;
    if (at == c->task_top)
        c->task_top++;
    c->task_count++;
    c->tasks[at] = (struct task){ .job = job,
                                  .gen = view_job(ctx->view, job)->gen,
                                  .size = wish->size,
                                  .sku = wish->sku,
                                  .live = true,
                                  .due = wish->due };
    task_set(ctx, &c->tasks[at], bits);
    plan_word(plan, job, WORD_TASK, at);
    return &c->tasks[at];
}

void task_drop(struct planner_ctx *ctx, struct task *task)
{
    struct chronus *c = ctx->state;

    count_bits(c, task, -1);
    task->live = false;
    c->task_count--;
    while (c->task_top && !c->tasks[c->task_top - 1].live)
        c->task_top--;
}

/* ---- as time goes by ---- */

/* Usable time of a task's leases from `first` on, interruptions taken off; a job that runs into the first of them goes
 * on without one. */
static usec_t time_of(const struct planner_ctx *ctx, const struct task *task, int64_t first, bool runs)
{
    struct lease_times times = chronus_times(ctx);
    usec_t cost = lease_cost(&times, view_job(ctx->view, task->job)->spec.gpus), got = 0;
    usec_t now = view_now(ctx->view);
    int64_t last = task->due / times.lease;
    bool before = runs;

    if (last > first + CHRONUS_LEASES - 2)
        last = first + CHRONUS_LEASES - 2;
    for (int64_t l = first; l <= last; l++) {
        if (!task_has(task, l)) {
            before = false;
            continue;
        }
        got += (l == last ? task->due : (l + 1) * times.lease) - (l * times.lease > now ? l * times.lease : now);
        got -= before ? 0 : cost;
        before = true;
    }
    return got;
}

static bool runs_now(const struct job *job)
{
    return job->state == JOB_RUNNING || job->state == JOB_STARTING;
}

/* Gives up the first leases that are not needed any more. */
static void trim(struct planner_ctx *ctx, struct task *task, int64_t first, usec_t left)
{
    struct chronus *c = ctx->state;
    int64_t last = task->due / ctx->params[P_LEASE];
    bool runs = runs_now(view_job(ctx->view, task->job));

    for (int64_t l = first; l <= last && l < first + CHRONUS_LEASES - 1; l++) {
        if (!task_has(task, l))
            continue;
        bit_clear(task->bits, l);
        if (time_of(ctx, task, first, runs) < left) {
            bit_set(task->bits, l);
            return;
        }
        c->used[task->sku][ring(l)] -= task->size;
        c->version++;
    }
}

/* Finds leases anew beside the others; as before if there are none. */
static bool refill(struct planner_ctx *ctx, struct task *task, usec_t left)
{
    struct lease_times times = chronus_times(ctx);
    const struct job *job = view_job(ctx->view, task->job);
    struct wish wish = { .left = left,
                         .due = task->due,
                         .size = task->size,
                         .sku = task->sku,
                         .now = true,
                         .cost = lease_cost(&times, job->spec.gpus) };
    uint64_t old[CHRONUS_WORDS], bits[CHRONUS_WORDS], none[CHRONUS_WORDS] = { 0 };

    memcpy(old, task->bits, sizeof(old));
    task_set(ctx, task, none);
    if (plan_wish_fill(ctx, &wish, bits)) {
        task_set(ctx, task, bits);
        return true;
    }
    task_set(ctx, task, old);
    return false;
}

static void let_go(struct planner_ctx *ctx, struct plan *plan, struct task *task, enum breach cause)
{
    uint32_t job = task->job;

    task_drop(ctx, task);
    if (cause != BREACH_NONE)
        plan_break(plan, job, cause);
    chronus_become(plan, ctx, job, STATUS_FIRST);
}

static enum breach cause_of(const struct planner_ctx *ctx, const struct job *job)
{
    const struct chronus *c = ctx->state;

    if (job->evictions || c->lost)
        return BREACH_HARDWARE;
    if (job->fails)
        return BREACH_FAILURE;
    return chronus_left(ctx, job) == 0 ? BREACH_OVERRUN : BREACH_PLAN;
}

static void task_check(struct planner_ctx *ctx, struct plan *plan, struct task *task, int64_t first)
{
    const struct job *job = view_job(ctx->view, task->job);
    usec_t left = chronus_left(ctx, job), have;

    if (left == 0) {
        let_go(ctx, plan, task, BREACH_NONE); /* it runs on beyond its margin; it may still be in time */
        return;
    }
    have = time_of(ctx, task, first, runs_now(job));
    if (have >= left) {
        if (have - left >= ctx->params[P_LEASE])
            trim(ctx, task, first, left);
        return;
    }
    if (refill(ctx, task, left))
        return;
    /* Its last deadline may be a later one. */
    for (; task->step + 1 < job->spec.deadline_count; task->step++) {
        task->due = job->spec.deadlines[task->step + 1].at;
        if (refill(ctx, task, left)) {
            task->step++;
            return;
        }
    }
    /* The margin is not there any more; without it there may still be time. */
    left = chronus_remaining(ctx, job);
    if (have >= left || refill(ctx, task, left))
        return;
    let_go(ctx, plan, task, cause_of(ctx, job));
}

/* A job that is planned to keep a later deadline may be able to keep an earlier one by now. */
static void raise_task(struct planner_ctx *ctx, struct task *task)
{
    const struct job *job = view_job(ctx->view, task->job);
    usec_t due = task->due, left = chronus_left(ctx, job);

    for (int p = 0; p < task->step; p++) {
        task->due = job->spec.deadlines[p].at;
        if (task->due > view_now(ctx->view) && refill(ctx, task, left)) {
            task->step = (uint8_t)p;
            return;
        }
    }
    task->due = due;
}

void plan_advance(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    int64_t first = view_now(ctx->view) / ctx->params[P_LEASE];

    /* Leases that have gone are empty again, for the ring comes round. */
    for (uint32_t i = 0; i < c->task_top; i++) {
        struct task *t = &c->tasks[i];

        for (int64_t l = c->lease; t->live && l < first && l < c->lease + CHRONUS_LEASES; l++)
            if (task_has(t, l)) {
                c->version++;
                bit_clear(t->bits, l);
                c->used[t->sku][ring(l)] -= t->size;
            }
    }
    c->lease = first;
    for (uint32_t i = 0; i < c->task_top; i++)
        if (c->tasks[i].live)
            task_check(ctx, plan, &c->tasks[i], first);
    for (uint32_t i = 0; i < c->task_top; i++)
        if (c->tasks[i].live && c->tasks[i].step > 0)
            raise_task(ctx, &c->tasks[i]);
}

/* ---- capacity ---- */

static uint32_t unit_of(const struct topo *topo, uint32_t sku)
{
    uint32_t least = UINT32_MAX, unit = 1;

    for (uint32_t n = 0; n < topo->node_count; n++)
        if (topo->nodes[n].sku == sku && topo->nodes[n].gpus < least)
            least = topo->nodes[n].gpus;
    while (unit * 2 <= least && least != UINT32_MAX)
        unit *= 2;
    return unit;
}

static void count_capacity(struct planner_ctx *ctx)
{
    struct chronus *c = ctx->state;
    const struct topo *topo = &view_ledger(ctx->view)->topo;

    for (uint32_t s = 0; s < topo->sku_count; s++) {
        int64_t quota = ctx->vc->quota[s] / MGPU_ONE, all = 0;

        if (!c->unit[s])
            c->unit[s] = unit_of(topo, s);
        for (uint32_t n = 0; n < topo->node_count; n++)
            if (topo->nodes[n].sku == s && topo->nodes[n].up)
                all += (topo->nodes[n].gpus - topo->nodes[n].bad) / c->unit[s] * c->unit[s];
        all = all < quota ? all : quota - quota % c->unit[s];
        c->whole[s] = (int32_t)all;
        if (s == 0)
            c->pool = profile_pool(ctx, (int32_t)all, (int32_t)c->unit[s]);
        all -= s == 0 ? c->pool : 0;
        c->capacity[s] = (int32_t)all;
    }
}

/* Takes leases from those with the most time left until all fit. */
static void relieve(struct planner_ctx *ctx, uint32_t sku, int64_t lease)
{
    struct chronus *c = ctx->state;

    while (c->used[sku][ring(lease)] > c->whole[sku]) {
        struct task *most = NULL;

        for (uint32_t i = 0; i < c->task_top; i++)
            if (c->tasks[i].live && c->tasks[i].sku == sku && task_has(&c->tasks[i], lease) &&
                (!most || c->tasks[i].due > most->due))
                most = &c->tasks[i];
        if (!most)
            return;
        bit_clear(most->bits, lease);
        c->version++;
        c->used[sku][ring(lease)] -= most->size;
    }
}

void plan_recount(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    int64_t first = view_now(ctx->view) / ctx->params[P_LEASE];
    int32_t before[SKUS_MAX];
    bool less = c->lost > 0;

    memcpy(before, c->whole, sizeof(before));
    count_capacity(ctx);
    for (uint32_t s = 0; s < view_sku_count(ctx->view); s++)
        less |= c->whole[s] < before[s];
    if (!less)
        return;
    /* Who cannot be in time whatever happens stands in nobody's way. */
    for (uint32_t i = 0; i < c->task_top; i++) {
        const struct job *job = view_job(ctx->view, c->tasks[i].job);

        if (c->tasks[i].live &&
            view_now(ctx->view) + chronus_remaining(ctx, job) > job->spec.deadlines[job->spec.deadline_count - 1].at)
            let_go(ctx, plan, &c->tasks[i], cause_of(ctx, job));
    }
    for (uint32_t s = 0; s < view_sku_count(ctx->view); s++)
        for (int64_t l = first; l < first + CHRONUS_LEASES - 1; l++)
            relieve(ctx, s, l);
    for (uint32_t i = 0; i < c->task_top; i++)
        if (c->tasks[i].live)
            task_check(ctx, plan, &c->tasks[i], first);
    c->lost = c->lost_seen = 0;
}

/* ---- as a problem for the solvers ---- */

int32_t plan_problem(struct planner_ctx *ctx, const struct wish *wish, uint16_t sku, struct lease_problem *ret)
{
    struct chronus *c = ctx->state;
    struct lease_times times = chronus_times(ctx);
    usec_t now = view_now(ctx->view);
    int64_t first = now / times.lease + 1;
    int32_t count = 0, leases = 0;

    for (uint32_t i = 0; i <= c->task_top; i++) {
        const struct task *t = &c->tasks[i < CHRONUS_TASKS ? i : 0];
        bool extra = i == c->task_top;
        usec_t left, due, cost;
        int64_t need, last;

        if (extra ? !wish : !t->live || t->sku != sku)
            continue;
        left = extra ? wish->left : chronus_left(ctx, view_job(ctx->view, t->job));
        cost = extra ? wish->cost : lease_cost(&times, view_job(ctx->view, t->job)->spec.gpus);
        due = extra ? wish->due : t->due;
        if (!extra && task_has(t, first - 1) && runs_now(view_job(ctx->view, t->job)))
            left -= first * times.lease - now;
        if (left <= 0)
            continue;
        need = (left + times.lease - cost - 1) / (times.lease - cost);
        last = due / times.lease - first;
        if (last > CHRONUS_LEASES - 2)
            last = CHRONUS_LEASES - 2;
        if (need > last || count == CHRONUS_TASKS)
            return -1; /* planned with parts of leases: not for a solver of whole ones */
        leases = last > leases ? (int32_t)last : leases;
        c->problem_task[count] = extra ? UINT32_MAX : i;
        c->problem[count] = (struct lease_task){ .id = count,
                                                 .size = extra ? wish->size : t->size,
                                                 .need = (int32_t)need,
                                                 .steps = 1,
                                                 .last = { (int32_t)last },
                                                 .value = { 10 } };
        count++;
    }
    for (int32_t l = 0; l < leases; l++)
        c->room[l] = c->capacity[sku];
    *ret = (struct lease_problem){ c->problem, count, leases, c->room, -1 };
    return count;
}

void plan_accept(struct planner_ctx *ctx, const struct lease_problem *problem, const uint64_t *bits,
                 uint64_t *wish_bits)
{
    struct chronus *c = ctx->state;
    int64_t first = view_now(ctx->view) / ctx->params[P_LEASE] + 1;
    int32_t words = lease_words(problem->leases);

    for (int32_t i = 0; i < problem->count; i++) {
        uint64_t fresh[CHRONUS_WORDS] = { 0 };
        uint32_t task = c->problem_task[i];

        for (int32_t l = 0; l < problem->leases; l++)
            if (lease_has(bits + i * words, l))
                bit_set(fresh, first + l);
        if (task == UINT32_MAX) {
            memcpy(wish_bits, fresh, sizeof(fresh));
            continue;
        }
        if (task_has(&c->tasks[task], first - 1))
            bit_set(fresh, first - 1);
        task_set(ctx, &c->tasks[task], fresh);
    }
}
