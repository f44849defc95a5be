/* SPDX-License-Identifier: Apache-2.0 */
/* planner_antman.c - guaranteed and opportunistic jobs on the same GPUs (AntMan: Xiao et al., OSDI'20).
 *
 * Guaranteed jobs wait in a queue for each user; the user who has least of them goes first. One that fits only in part
 * keeps what there is: closed to other guaranteed jobs, open to opportunistic ones, until its gang is complete. A
 * user has one such job at a time; one that has gathered for `gather` gives it up if an older job could start with it.
 * Jobs of class auto are guaranteed; after waiting for `auto` they become opportunistic, and guaranteed again, without
 * being stopped, when their user may have them and nobody else owns their GPUs.
 *
 * Opportunistic jobs are guests (antman_guest.c): nobody ever waits for one to leave. What they get of a GPU beside its
 * owner is decided on the node from one mini-batch to the next (coord/pair.h); the planner only says where that begins.
 */
#include <errno.h>
#include <stddef.h>

#include "policy/antman/antman.h"
#include "policy/list.h"

enum { ROUNDS = 16 };

static void antman_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    antman_build(ctx, plan);
    plan_word(plan, index, WORD_SINCE, 0);
    if (job->klass == CLASS_OPPORTUNISTIC)
        return;
    antman_link(ctx, plan, index);
    if (job->klass == CLASS_AUTO)
        plan_job_timer(plan, index, view_now(ctx->view) + ctx->params[ANTMAN_AUTO]);
}

static void antman_ended(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    antman_build(ctx, plan);
    antman_unlink(ctx, plan, index);
}

/* It has waited long enough for what it would like best. */
static void antman_timer(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    struct antman *state = ctx->state;

    antman_build(ctx, plan);
    if (!job_waits(job->state) || job->klass != CLASS_AUTO || plan_reclass(plan, index, CLASS_OPPORTUNISTIC) < 0)
        return;
    antman_unlink(ctx, plan, index);
    state->converted++;
}

/* What it keeps now, before it is given up to be looked at afresh. */
static void kept_list(struct planner_ctx *ctx, uint32_t index)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    struct antman *state = ctx->state;

    state->kept_count = 0;
    for (uint32_t g = job->reserved_first; state->kept_count < job->reserved_count && g < ledger->topo.gpu_count; g++)
        if (ledger->gpus[g].reserved_for == index && state->kept_count < ANTMAN_GPUS)
            state->picked[state->kept_count++] = g;
}

/* Whole free GPUs of a type, as many as the job could use and the phase allows; those that it kept before, and others.
 */
static uint32_t gather(const struct planner_ctx *ctx, const struct plan *plan, const struct job *job, uint32_t sku)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    struct antman *state = ctx->state;
    int64_t budget = plan_budget(plan, sku, job->klass) / MGPU_ONE - ctx->vc->kept[sku];
    uint32_t count = 0, had = 0, need = (uint32_t)job->spec.gpus < ANTMAN_GPUS ? (uint32_t)job->spec.gpus : ANTMAN_GPUS;

    if (budget <= 0)
        return 0;
    need = need < budget ? need : (uint32_t)budget;
    for (uint32_t i = 0; i < state->kept_count; i++)
        had += ledger->topo.nodes[ledger->gpus[state->picked[i]].node].sku == sku &&
               ledger_whole(ledger, state->picked[i]);
    for (uint32_t g = 0, k = 0; g < ledger->topo.gpu_count && count < need; g++) {
        bool own;

        while (k < state->kept_count && state->picked[k] < g)
            k++;
        own = k < state->kept_count && state->picked[k] == g;
        if (ledger->topo.nodes[ledger->gpus[g].node].sku != sku || !ledger_whole(ledger, g) || ledger->gpus[g].bound ||
            (!own && count + had >= need))
            continue;
        had -= own;
        state->gpus[count++] = g;
    }
    return count;
}

/* `had`: it kept some before this pass; else its time begins now. */
static void reserve(struct planner_ctx *ctx, struct plan *plan, uint32_t index, bool had)
{
    struct antman *state = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    uint32_t best = 0, most = 0, mask = plan_shape(plan, index)->shape.sku_mask;

    if (job->spec.share < MGPU_ONE)
        return;
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        uint32_t count = mask >> sku & 1 && ctx->vc->quota[sku] >= job_demand(job) ? gather(ctx, plan, job, sku) : 0;

        if (count > most) {
            most = count;
            best = sku;
        }
    }
    if (!most)
        return;
    (void)gather(ctx, plan, job, best);
    if (plan_reserve(plan, index, &(struct placement){ state->gpus, most }) < 0)
        return;
    if (!had || job->word[WORD_SINCE] == 0) {
        plan_word(plan, index, WORD_SINCE, view_now(ctx->view) + 1);
        state->gathered++;
    }
    plan_wake(plan, job->word[WORD_SINCE] - 1 + ctx->params[ANTMAN_GATHER]);
}

static int try_start(struct planner_ctx *ctx, struct plan *plan, struct antman_user *user, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    int64_t demand = job_demand(job);
    struct placement to;
    int r;

    if (job->shape == UINT32_MAX) {
        if (job->reason != REASON_USER_LIMIT || user->used + demand > antman_quota(ctx) ||
            plan_put_back(plan, index) < 0)
            return -EPERM;
        if (ctx->vc->queue.shapes[job->shape].count == 1) /* a class that was not there before */
            ((struct antman *)ctx->state)->hopeless[job->shape] = false;
    }
    if (user->used + demand > antman_quota(ctx)) {
        plan_set_aside(plan, index, REASON_USER_LIMIT);
        return -EPERM;
    }
    if (((const struct antman *)ctx->state)->hopeless[job->shape] && job->state != JOB_RESERVED)
        return -EAGAIN;
    kept_list(ctx, index);
    plan_unreserve(plan, index);
    r = plan_find(plan, plan_shape(plan, index), &to);
    if (r < 0 && r != -EDQUOT && !plan_borrows(plan))
        r = plan_reclaim(plan, index, &to);
    return r < 0 ? r : plan_start(plan, index, &to);
}

/* The user whose turn it is: the least used, then whose first job came first. */
static struct antman_user *next_user(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    struct antman_user *best = NULL;

    for (uint32_t i = 0; i < state->order_count; i++) {
        struct antman_user *user = &state->users[state->order[i]];
        const struct job *a, *b;

        if (user->done || (user->cursor = antman_waiting(ctx, plan, user->cursor)) == JOB_NONE)
            continue;
        if (!best || user->used < best->used) {
            best = user;
            continue;
        }
        a = view_job(ctx->view, user->cursor);
        b = view_job(ctx->view, best->cursor);
        if (user->used == best->used &&
            (a->spec.submit < b->spec.submit || (a->spec.submit == b->spec.submit && a->spec.id < b->spec.id)))
            best = user;
    }
    return best;
}

/* One job of the user. Whether it started. */
static bool job_turn(struct planner_ctx *ctx, struct plan *plan, struct antman_user *user, uint32_t index)
{
    struct antman *state = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    bool had = job->state == JOB_RESERVED;
    uint32_t count = job->reserved_count, first = job->reserved_first;
    int r;

    if (plan_borrows(plan) && had)
        return false;
    state->kept_count = 0; /* of the one before */
    r = try_start(ctx, plan, user, index);
    if (r == 0) {
        antman_unlink(ctx, plan, index);
        user->used += job_demand(job);
        state->changed = true;
        return true;
    }
    user->done = ++user->tried >= ANTMAN_DEPTH;
    if (r == -EPERM) {
        state->changed |= had; /* what it kept is for others now */
        return false;
    }
    /* What others have gathered is kept from this shape as long as it is. */
    state->hopeless[job->shape] = true;
    if (!plan_borrows(plan) && !user->gathers) {
        user->gathers = true;
        reserve(ctx, plan, index, had);
    }
    state->changed |=
        had != (job->state == JOB_RESERVED) || (had && (count != job->reserved_count || first != job->reserved_first));
    return false;
}

/* The user's jobs in turn, until one starts: then somebody else may have less. */
static void user_turn(struct planner_ctx *ctx, struct plan *plan, struct antman_user *user)
{
    bool started = false;

    while (!started && !user->done && (user->cursor = antman_waiting(ctx, plan, user->cursor)) != JOB_NONE) {
        uint32_t index = user->cursor;
        const struct job *job = view_job(ctx->view, index);

        user->cursor = job->word[WORD_NEXT] > 0 ? (uint32_t)(job->word[WORD_NEXT] - 1) : JOB_NONE;
        started = job_turn(ctx, plan, user, index);
    }
}

static bool older(const struct job *a, const struct job *b)
{
    return a->spec.submit != b->spec.submit ? a->spec.submit < b->spec.submit : a->spec.id < b->spec.id;
}

/* The oldest job that has kept GPUs for too long; JOB_NONE. */
static uint32_t late_job(struct planner_ctx *ctx, struct plan *plan)
{
    const struct antman *state = ctx->state;
    uint32_t late = JOB_NONE;

    for (uint32_t i = 0; i < state->order_count; i++) {
        uint32_t j = antman_waiting(ctx, plan, state->users[state->order[i]].first);

        for (uint32_t n = 0; j != JOB_NONE && n < ANTMAN_DEPTH; n++) {
            const struct job *job = view_job(ctx->view, j);

            if (job->state == JOB_RESERVED && job->word[WORD_SINCE] &&
                view_now(ctx->view) - job->word[WORD_SINCE] >= ctx->params[ANTMAN_GATHER] - 1 &&
                (late == JOB_NONE || older(job, view_job(ctx->view, late))))
                late = j;
            j = job->word[WORD_NEXT] > 0 ? (uint32_t)(job->word[WORD_NEXT] - 1) : JOB_NONE;
            j = antman_waiting(ctx, plan, j);
        }
    }
    return late;
}

/* Of the users' first jobs the oldest that is younger than `after` (NULL: of all) and older than `late`; its user. */
static struct antman_user *next_older(struct planner_ctx *ctx, struct plan *plan, const struct job *after,
                                      const struct job *late)
{
    struct antman *state = ctx->state;
    struct antman_user *best = NULL;

    for (uint32_t i = 0; i < state->order_count; i++) {
        struct antman_user *user = &state->users[state->order[i]];
        uint32_t first = antman_waiting(ctx, plan, user->first);
        const struct job *job = first == JOB_NONE ? NULL : view_job(ctx->view, first);

        if (!job || !older(job, late) || (after && !older(after, job)) ||
            (best && !older(job, view_job(ctx->view, best->first))))
            continue;
        best = user;
    }
    return best;
}

/* A job that gathers for too long does without, if somebody older could start: it is tried before anybody else. By age,
 * not by user: users are numbered otherwise in another place. */
static void give_up_old(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    uint32_t late;

    while ((late = late_job(ctx, plan)) != JOB_NONE) {
        const struct job *after = NULL;
        struct antman_user *user;

        plan_unreserve(plan, late);
        plan_word(plan, late, WORD_SINCE, 0);
        while ((user = next_older(ctx, plan, after, view_job(ctx->view, late))) != NULL) {
            uint32_t first = user->first;

            after = view_job(ctx->view, first);
            if (try_start(ctx, plan, user, first) < 0)
                continue;
            antman_unlink(ctx, plan, first);
            user->used += job_demand(after);
            state->dropped++;
        }
    }
}

/* Guests that came as auto and may be guaranteed now. */
static void upgrade(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;

    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        const struct job *job = view_job(ctx->view, i);
        const struct ledger *ledger = core_ledger(ctx->view->core);
        struct antman_user *user;

        next = job->next;
        if (job->spec.klass != CLASS_AUTO || job->klass != CLASS_OPPORTUNISTIC || job->state != JOB_RUNNING ||
            job->planned || job->shares == SHARE_NONE || ledger->shares[job->shares].role != ROLE_GUEST)
            continue;
        user = antman_user_of(state, job->spec.user);
        if (user->used + job_demand(job) > antman_quota(ctx) || plan_upgrade(plan, i) < 0)
            continue;
        user->used += job_demand(job);
        state->upgraded++;
    }
}

/* Nobody was tried yet. */
static void begin(struct planner_ctx *ctx, const struct plan *plan)
{
    const struct queue *queue = &ctx->vc->queue;
    struct antman *state = ctx->state;

    for (uint32_t i = 0; i < queue->live_count; i++)
        state->hopeless[queue->live[i]] = !plan_considers(plan, &queue->shapes[queue->live[i]]);
    antman_count(ctx);
}

static void antman_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    struct antman_user *user;

    antman_build(ctx, plan);
    if (plan_for_guests(plan)) {
        antman_guests(ctx, plan);
        return;
    }
    begin(ctx, plan);
    if (!plan_borrows(plan)) {
        antman_starved(ctx, plan);
        antman_trial(ctx, plan);
        give_up_old(ctx, plan);
    }
    /* Until nothing changes: who was looked at first may use what another has given up since. So a further pass finds
     * nothing to do, and that there was one, for somebody else's sake, makes no difference. */
    for (int round = 0; round < ROUNDS && (round == 0 || state->changed); round++) {
        state->changed = false;
        begin(ctx, plan);
        while ((user = next_user(ctx, plan)) != NULL)
            user_turn(ctx, plan, user);
    }
    if (ctx->params[ANTMAN_UPGRADE])
        upgrade(ctx, plan);
}

static const struct param antman_params[] = {
    [ANTMAN_QUOTA] = { "user-quota", "GPUs of guaranteed jobs that one user may have; 0 = all of the virtual cluster's",
                       PARAM_COUNTER, 0, 0, GANG_GPUS_MAX, NULL },
    [ANTMAN_BELOW] = { "below", "utilisation below which a GPU takes opportunistic jobs", PARAM_RATIO, 800000, 1,
                       PPM_ONE, NULL },
    [ANTMAN_GUESTS] = { "guests", "opportunistic jobs on one GPU at a time", PARAM_COUNTER, 2, 1, GUESTS_MAX, NULL },
    [ANTMAN_MARGIN] = { "margin", "MiB of a GPU that are left free beside its owner", PARAM_COUNTER, 512, 0, 1 << 20,
                        NULL },
    [ANTMAN_START] = { "begin", "percent of a GPU's time an opportunistic job begins with beside an owner",
                       PARAM_COUNTER, 10, 1, 100, NULL },
    [ANTMAN_AUTO] = { "auto", "how long a job of class auto waits before it becomes opportunistic", PARAM_TIME,
                      300 * USEC_SEC, USEC_SEC, PARAM_MAX / 4, NULL },
    [ANTMAN_GATHER] = { "gather", "how long a gang keeps GPUs that an older job could start on", PARAM_TIME,
                        600 * USEC_SEC, USEC_SEC, PARAM_MAX / 4, NULL },
    [ANTMAN_UPGRADE] = { "upgrade", "whether opportunistic jobs that came as auto become guaranteed again",
                         PARAM_SWITCH, 1, 0, 1, NULL },
    [ANTMAN_WORTH] = { "worth",
                       "of its speed alone, what a guest must come to beside an owner, or it leaves for idle GPUs",
                       PARAM_RATIO, 100000, 0, PPM_ONE, NULL },
    { 0 },
};

static const char *const counters[] = { "converted", "upgraded", "gathered", "dropped", "moved", NULL };

const struct planner_ops planner_antman = {
    .name = "antman",
    .summary = "guaranteed jobs by user, opportunistic ones on GPUs that are idle enough",
    .params = antman_params,
    .kept_size = offsetof(struct antman, built),
    .state_size = sizeof(struct antman),
    .plan = antman_plan,
    .queued = antman_queued,
    .ended = antman_ended,
    .timer = antman_timer,
    .report = antman_report,
    .limit = antman_limits,
    .counters = counters,
};
