/* SPDX-License-Identifier: Apache-2.0 */
/* planner_optimus.c - sizes of elastic jobs by what another GPU would save (Optimus, Peng et al., EuroSys'18).
 *
 * Every interval: all jobs get the least they run with, in the order of the queue, while there is room; what is left
 * goes GPU by GPU to the job whose predicted completion falls most per unit of the cluster. Predictions come from what
 * jobs report: a curve through their losses says how many epochs are left, a model of their speeds how long an epoch
 * takes at another size (optimus_learn.c). Jobs stand on the fewest nodes, evenly (optimus_room.c). A job is resized
 * only when that saves more in the next interval than resizing was seen to cost, and shrunk only when somebody needs
 * what it gives. Between two intervals jobs that arrive start at their least size where there is room; what ends frees
 * is given out at the next one.
 *
 * Sizes are given out of what the virtual cluster is owed. What others leave idle is borrowed for starts alone, at the
 * least size: a job that had grown into it could not be asked to give back a part, and the whole would be more than
 * may be taken.
 *
 * A job that names parameter servers gets workers and servers by the same gain. Servers hold no GPU and the cluster
 * counts nothing else, so their CPUs are the planner's own account: `gpu-cpus` CPUs for each GPU of a node, `task-cpus`
 * for a worker or a server. Where no job has servers CPUs are not counted. Jobs that report nothing get up to what they
 * ask for, out of what the others leave.
 */
#include <errno.h>
#include <math.h>

#include "policy/list.h"
#include "policy/optimus/optimus.h"

enum { STRIDE = 16 };

/* ---- the queue ---- */

static void waiting_begin(struct planner_ctx *ctx)
{
    struct optimus *o = ctx->state;
    const struct queue *queue = &ctx->vc->queue;

    for (uint32_t i = 0; i < queue->live_count; i++)
        o->cursor[queue->live[i]] = tree_first(view_tree(ctx->view), queue->shapes[queue->live[i]].root);
}

/* Every waiting job in order, one a call: the shapes' lists merged. Those taken before may have been started. */
static uint32_t waiting_next(struct planner_ctx *ctx)
{
    struct optimus *o = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE, from = 0;

    for (uint32_t i = 0; i < queue->live_count; i++) {
        uint32_t job = o->cursor[queue->live[i]];

        if (job == TREE_NONE || (best != TREE_NONE && !rank_before(&tree[job].rank, &tree[best].rank)))
            continue;
        best = job;
        from = queue->live[i];
    }
    if (best != TREE_NONE)
        o->cursor[from] = tree_after(tree, queue->shapes[from].root, &tree[best].rank);
    return best;
}

static bool may_use(const struct planner_ctx *ctx, const struct job *job, uint32_t sku)
{
    return job->shape != UINT32_MAX && ctx->vc->queue.shapes[job->shape].shape.sku_mask >> sku & 1;
}

/* Whole GPUs the virtual cluster may take of a type now. */
static int32_t room_now(const struct planner_ctx *ctx, const struct plan *plan, uint32_t sku, uint8_t klass)
{
    int64_t free = view_free(ctx->view, sku), budget = plan_budget(plan, sku, klass) / MGPU_ONE;

    return (int32_t)(free < budget ? free : budget);
}

/* Whole GPUs it holds beyond what it is owed: before anybody grows, as many must be given up. */
static int32_t over_quota(const struct planner_ctx *ctx, uint32_t sku)
{
    int64_t over = ctx->vc->used[sku] - ctx->vc->lent[sku] - ctx->vc->quota[sku];

    return over > 0 ? (int32_t)((over + MGPU_ONE - 1) / MGPU_ONE) : 0;
}

/* From here on CPUs count. */
static void count_cpus(struct planner_ctx *ctx)
{
    struct optimus *o = ctx->state;

    o->served = true;
    room_count_cpus(ctx);
}

/* What the job runs with from now on, where CPUs count. */
static void note_servers(struct planner_ctx *ctx, struct plan *plan, uint32_t index, int32_t servers)
{
    struct optimus *o = ctx->state;

    if (view_job(ctx->view, index)->spec.servers > 0)
        plan_word(plan, index, WORD_SERVERS, servers);
    if (o->served)
        room_count_cpus(ctx);
}

static int start(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t sku, const int32_t tasks[2])
{
    const struct job *job = view_job(ctx->view, index);
    const int32_t range[2] = { job->spec.gpus_min, tasks[0] };
    int32_t servers = tasks[1];
    struct placement to;
    int r;

    if (job->spec.servers > 0 && !((struct optimus *)ctx->state)->served)
        count_cpus(ctx);
    if (job->spec.share < MGPU_ONE)
        r = plan_find(plan, plan_shape(plan, index), &to);
    else
        r = room_find(ctx, index, sku, range, &servers, &to);
    if (r == 0)
        r = plan_start(plan, index, &to);
    if (r < 0)
        return r;
    note_servers(ctx, plan, index, servers);
    learn_moved(ctx, index);
    return 0;
}

/* Whether anybody could be started: something is free, or was lent to others. */
static bool anything_left(const struct planner_ctx *ctx, const struct plan *plan)
{
    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        if (view_free_mgpu(ctx->view, sku) > 0 || (!plan_borrows(plan) && plan_budget(plan, sku, CLASS_GUARANTEED) > 0))
            return true;
    return false;
}

/* Starts a job at its least size, on the first type that has room; else where what was lent can be taken back. */
static int start_least(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    struct placement to;
    int r = -EBUSY;

    if (job->spec.share < MGPU_ONE)
        r = start(ctx, plan, index, 0, (const int32_t[2]){ 1, 0 });
    for (uint32_t sku = 0; r < 0 && job->spec.share == MGPU_ONE && sku < view_sku_count(ctx->view); sku++)
        if (may_use(ctx, job, sku) && room_now(ctx, plan, sku, job->klass) >= job->spec.gpus_min)
            r = start(ctx, plan, index, sku, (const int32_t[2]){ job->spec.gpus_min, job->spec.servers });
    /* What it wants of how its GPUs lie the placement knows; and a GPU that was found slow is better than none. Of the
     * CPUs of servers it knows nothing. */
    if (r < 0 && job->spec.share == MGPU_ONE && !((struct optimus *)ctx->state)->served &&
        plan_find(plan, plan_shape(plan, index), &to) == 0)
        r = plan_start(plan, index, &to);
    if (r < 0 && !plan_borrows(plan) && plan_reclaim(plan, index, &to) == 0)
        r = plan_start(plan, index, &to);
    return r;
}

/* Whoever waits starts at its least size. Where one could not, no other of its shape can that needs as much. */
static void start_waiting(struct planner_ctx *ctx, struct plan *plan)
{
    struct optimus *o = ctx->state;
    uint32_t job;

    waiting_begin(ctx);
    while (anything_left(ctx, plan) && (job = waiting_next(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        uint32_t shape = j->shape;

        if (!plan_considers(plan, &ctx->vc->queue.shapes[shape])) {
            o->cursor[shape] = TREE_NONE;
            continue;
        }
        if (start_least(ctx, plan, job) < 0 && (j->spec.gpus_min == j->spec.gpus || j->spec.gpus_min == 1))
            o->cursor[shape] = TREE_NONE;
    }
}

/* ---- one allocation, on one type ---- */

struct round {
    uint32_t sku;
    int count;     /* of o->choices */
    int32_t spare; /* GPUs nobody was given */
    bool served;   /* some have parameter servers */
};

static void add_choice(struct planner_ctx *ctx, struct round *round, uint32_t index, int32_t least)
{
    struct optimus *o = ctx->state;
    const struct job *job = view_job(ctx->view, index);

    o->choices[round->count++] = (struct choice){ .job = index,
                                                  .now = job->gpus,
                                                  .then = least,
                                                  .least = least,
                                                  .servers_now = job->spec.servers > 0 ? learn_servers(job) : 0 };
    round->spare += job->gpus - least;
    round->served |= job->spec.servers > 0;
}

/* What is known of everybody; nothing is asked for where there is nothing to share out. */
static void learn_all(struct planner_ctx *ctx, const struct round *round)
{
    struct optimus *o = ctx->state;
    double task = round->served ? (double)ctx->params[P_TASK_CPUS] / (double)PPM_ONE : 0;

    for (int i = 0; i < round->count; i++) {
        struct learned *l = &o->learned[i];

        *l = (struct learned){ 0 };
        if (round->spare > 0 || o->choices[i].servers_now)
            learn_model(ctx, o->choices[i].job, l);
        o->jobs[i] = (struct gain_job){ .speed = l->usable ? learn_speed : NULL,
                                        .arg = l,
                                        .work = l->left,
                                        .factor = l->early ? (double)ctx->params[P_EARLY] / (double)PPM_ONE : 1,
                                        .worker = { [GAIN_GPU] = 1, [GAIN_CPU] = task },
                                        .server = { [GAIN_CPU] = task },
                                        .workers_max = view_job(ctx->view, o->choices[i].job)->spec.gpus_max,
                                        .stride = STRIDE };
        if (o->choices[i].servers_now)
            o->jobs[i].servers_max = o->jobs[i].workers_max;
    }
}

/* Those that run: each has its least, and what it has beyond is to be given out anew. */
static void add_running(struct planner_ctx *ctx, struct round *round)
{
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE && round->count < OPTIMUS_JOBS;
         i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);

        if (job->state != JOB_RUNNING || job->planned || job->sku != round->sku ||
            job->spec.gpus_min == job->spec.gpus_max || !view_owner(ctx->view, i))
            continue;
        add_choice(ctx, round, i, job->spec.gpus_min);
    }
}

/* Those that wait: whoever's least size fits, in order. A share of a GPU has been started already, if it could be. */
static void add_waiting(struct planner_ctx *ctx, struct round *round)
{
    uint32_t job;

    waiting_begin(ctx);
    while (round->count < OPTIMUS_JOBS && round->spare > 0 && (job = waiting_next(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);

        if (j->spec.share < MGPU_ONE || !may_use(ctx, j, round->sku) || j->spec.gpus_min > round->spare ||
            j->klass == CLASS_OPPORTUNISTIC)
            continue;
        add_choice(ctx, round, job, j->spec.gpus_min);
    }
}

/* The cluster without the least of everybody; CPUs where they count, less those of workers that are not up for choice.
 */
static struct gain_pool pool_of(struct planner_ctx *ctx, const struct round *round)
{
    struct optimus *o = ctx->state;
    double total = view_total(ctx->view, round->sku), task = (double)ctx->params[P_TASK_CPUS] / (double)PPM_ONE;
    struct gain_pool pool = { .capacity = { [GAIN_GPU] = total }, .free = { [GAIN_GPU] = round->spare } };
    double used = total - view_free(ctx->view, round->sku);

    for (int i = 0; i < round->count; i++) {
        o->jobs[i].workers = o->choices[i].least;
        o->jobs[i].servers = o->choices[i].servers_now ? 1 : 0;
        used += o->choices[i].least + o->jobs[i].servers - o->choices[i].now;
    }
    if (round->served) {
        pool.capacity[GAIN_CPU] = total * (double)ctx->params[P_GPU_CPUS] / (double)PPM_ONE;
        pool.free[GAIN_CPU] = fmax(pool.capacity[GAIN_CPU] - used * task, 0);
    }
    return pool;
}

/* By gain; then those without a model up to what they ask for. */
static void share_out(struct planner_ctx *ctx, struct round *round)
{
    struct optimus *o = ctx->state;
    struct gain_pool pool = pool_of(ctx, round);
    int32_t spare;

    gain_allocate(&pool, o->jobs, round->count, o->heap);
    spare = (int32_t)(pool.free[GAIN_GPU] + 0.5);
    for (int i = 0; i < round->count; i++) {
        const struct job *job = view_job(ctx->view, o->choices[i].job);
        int32_t asks = job->spec.gpus < o->jobs[i].workers_max ? job->spec.gpus : o->jobs[i].workers_max;
        int32_t more = asks - o->jobs[i].workers;

        o->choices[i].then = o->jobs[i].workers;
        o->choices[i].servers_then = o->learned[i].usable ? o->jobs[i].servers : o->choices[i].servers_now;
        if (o->learned[i].usable || more <= 0)
            continue;
        more = more < spare ? more : spare;
        o->choices[i].then += more;
        spare -= more;
    }
}

/* Whether a larger size saves more in the next interval than the change costs. */
static bool pays(const struct planner_ctx *ctx, int at)
{
    const struct optimus *o = ctx->state;
    const struct learned *l = &o->learned[at];
    double now, then, span = (double)ctx->params[P_INTERVAL] / (double)USEC_SEC;

    if (!l->usable)
        return o->choices[at].then > o->choices[at].now;
    now = learn_speed(l, o->choices[at].servers_now, o->choices[at].now);
    then = learn_speed(l, o->choices[at].servers_then, o->choices[at].then);
    if (!(then > now))
        return false;
    span = fmin(span, l->left / then);
    return span * (1 - now / then) > learn_cost(o);
}

/* Those whose growth does not pay are to stay as they are at most. Whether there were any: then what they were given is
 * shared out anew. */
static bool hold_back(struct planner_ctx *ctx, const struct round *round)
{
    struct optimus *o = ctx->state;
    bool any = false;

    for (int i = 0; i < round->count; i++) {
        const struct choice *c = &o->choices[i];

        if (c->now > 0 && c->then > c->now && !pays(ctx, i)) {
            o->jobs[i].workers_max = c->now;
            any = true;
        }
    }
    return any;
}

/* Shrinks no more than the others need. */
static void settle_choices(struct planner_ctx *ctx, const struct plan *plan, struct round *round)
{
    struct optimus *o = ctx->state;
    int32_t need = 0;

    for (int i = 0; i < round->count; i++)
        if (o->choices[i].then > o->choices[i].now)
            need += o->choices[i].then - o->choices[i].now;
    if (need > 0)
        need += over_quota(ctx, round->sku) - room_now(ctx, plan, round->sku, CLASS_GUARANTEED);
    for (int i = 0; i < round->count; i++) {
        struct choice *c = &o->choices[i];
        int32_t gives = c->now - c->then;

        /* As many GPUs with other servers: only if that pays. */
        if (gives == 0 && c->now > 0 && c->servers_then != c->servers_now && !pays(ctx, i))
            c->servers_then = c->servers_now;
        if (gives <= 0)
            continue;
        if (need <= 0) {
            c->then = c->now;
            c->servers_then = c->servers_now;
        }
        need -= gives;
    }
}

static void resize(struct planner_ctx *ctx, struct plan *plan, const struct round *round, const struct choice *c)
{
    int32_t range[2] = { c->then > c->now ? c->now + 1 : c->then, c->then }, servers = c->servers_then;
    struct placement to;

    if (room_find(ctx, c->job, round->sku, range, &servers, &to) < 0 || plan_move(plan, c->job, &to) < 0)
        return;
    note_servers(ctx, plan, c->job, servers);
    learn_moved(ctx, c->job);
}

/* Shrinks first, for what they give; then starts and growth, the small ones first. */
static void apply(struct planner_ctx *ctx, struct plan *plan, struct round *round)
{
    struct optimus *o = ctx->state;
    uint32_t *order = o->heap;

    for (int i = 0; i < round->count; i++) {
        int k = i;

        if (o->choices[i].then < o->choices[i].now)
            resize(ctx, plan, round, &o->choices[i]);
        for (; k > 0 && o->choices[order[k - 1]].then > o->choices[i].then; k--)
            order[k] = order[k - 1];
        order[k] = (uint32_t)i;
    }
    for (int i = 0; i < round->count; i++) {
        const struct choice *c = &o->choices[order[i]];

        if (c->now == 0)
            (void)start(ctx, plan, c->job, round->sku, (const int32_t[2]){ c->then, c->servers_then });
        else if (c->then > c->now || (c->then == c->now && c->servers_then != c->servers_now))
            resize(ctx, plan, round, c);
    }
}

/* What each job is now predicted to need, for whoever wants to know. */
static void note_predictions(struct planner_ctx *ctx, struct plan *plan, const struct round *round)
{
    struct optimus *o = ctx->state;

    for (int i = 0; i < round->count; i++) {
        const struct learned *l = &o->learned[i];
        int32_t gpus = view_job(ctx->view, o->choices[i].job)->gpus;
        double speed, left;

        if (!l->usable || gpus == 0)
            continue;
        speed = learn_speed(l, learn_servers(view_job(ctx->view, o->choices[i].job)), gpus);
        left = speed > 0 ? l->left / speed * (double)USEC_SEC : 0;
        plan_word(plan, o->choices[i].job, WORD_LEFT, left < (double)USEC_NEVER / 2 ? (int64_t)left : 0);
        plan_word(plan, o->choices[i].job, WORD_LEFT_AT, view_now(ctx->view));
    }
}

static void allocate(struct planner_ctx *ctx, struct plan *plan, uint32_t sku)
{
    struct round round = { .sku = sku };
    struct optimus *o = ctx->state;

    round.spare = room_now(ctx, plan, sku, CLASS_GUARANTEED) - over_quota(ctx, sku);
    add_running(ctx, &round);
    add_waiting(ctx, &round);
    if (!round.count || round.spare < 0)
        return;
    if (round.served && !o->served)
        count_cpus(ctx);
    learn_all(ctx, &round);
    for (int i = 0; i < round.count + 1; i++) {
        share_out(ctx, &round);
        if (!hold_back(ctx, &round))
            break;
    }
    settle_choices(ctx, plan, &round);
    apply(ctx, plan, &round);
    note_predictions(ctx, plan, &round);
}

/* Jobs with a worker that is far slower than the others: as many GPUs, but not that one. Where there are no others it
 * stays, and is looked at again at the next report. */
static void replace_slow(struct planner_ctx *ctx, struct plan *plan)
{
    struct optimus *o = ctx->state;

    for (uint32_t i = 0; i < OPTIMUS_JOBS && o->slow_next; i++) {
        struct record *record = &o->records[i];
        const struct job *job;
        struct choice same;

        if (!record->used || !record->slow)
            continue;
        record->slow = 0;
        job = view_job(ctx->view, record->job);
        if (job->gen != record->gen || job->state != JOB_RUNNING || job->planned)
            continue;
        same = (struct choice){ .job = record->job,
                                .now = job->gpus,
                                .then = job->gpus,
                                .servers_then = job->spec.servers > 0 ? learn_servers(job) : 0 };
        resize(ctx, plan, &(struct round){ .sku = job->sku }, &same);
    }
}

/* What is here to be planned for: inside a guarantee the jobs that are inside, as if there were no others. */
static bool look_around(struct planner_ctx *ctx)
{
    struct optimus *o = ctx->state;
    bool any = view_queued(ctx->view, ctx->vc) > 0;

    o->served = false;
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        if (!view_shows(ctx->view, i))
            continue;
        any = true;
        if (view_job(ctx->view, i)->spec.servers > 0 && !o->served)
            count_cpus(ctx);
    }
    return any;
}

static void optimus_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct optimus *o = ctx->state;
    usec_t now = view_now(ctx->view), interval = ctx->params[P_INTERVAL];
    bool any = look_around(ctx);

    /* What is lent is no occasion to share out what is owed. */
    if (now >= o->tick && !plan_borrows(plan)) {
        o->ticked = now;
        o->tick = now - now % interval + interval;
    }
    if (!plan_borrows(plan))
        replace_slow(ctx, plan);
    if (o->ticked == now && !plan_borrows(plan))
        for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
            allocate(ctx, plan, sku);
    start_waiting(ctx, plan);
    if (any)
        plan_wake(plan, o->tick);
}

static void optimus_ended(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    (void)plan;
    learn_ended(ctx, job);
}

/* Whoever would fit is started, unless CPUs count: those the placement knows nothing of. */
static enum reason optimus_awaits(const struct planner_ctx *ctx, const struct shape_class *cls)
{
    bool served = view_job(ctx->view, tree_first(view_tree(ctx->view), cls->root))->spec.servers > 0;

    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE && !served; i = view_job(ctx->view, i)->next)
        served = view_job(ctx->view, i)->spec.servers > 0;
    return served ? REASON_CPU_MEM : REASON_PRIORITY;
}

static int32_t optimus_servers(const struct planner_ctx *ctx, uint32_t job)
{
    return view_job(ctx->view, job)->spec.servers > 0 ? learn_servers(view_job(ctx->view, job)) : 0;
}

static usec_t optimus_predicted(const struct planner_ctx *ctx, uint32_t job, usec_t *ret_at)
{
    const struct optimus *o = ctx->state;

    *ret_at = o->ticked;
    if (job == JOB_NONE)
        return 0;
    *ret_at = view_job(ctx->view, job)->word[WORD_LEFT] > 0 ? view_job(ctx->view, job)->word[WORD_LEFT_AT] : -1;
    return view_job(ctx->view, job)->word[WORD_LEFT];
}

static const struct param optimus_params[] = {
    [P_INTERVAL] = { "interval", "time between two allocations", PARAM_TIME, 600 * USEC_SEC, USEC_SEC, USEC_DAY, NULL },
    [P_ORACLE] = { "oracle", "use true speeds and the given run time instead of predictions", PARAM_SWITCH, 0, 0, 1,
                   NULL },
    [P_EARLY] = { "early", "factor on the gain of a job whose loss curve is not trusted yet", PARAM_RATIO, 950000, 0,
                  PPM_ONE, NULL },
    [P_DELTA] = { "delta", "a job has converged when its loss falls by less, of the largest loss, in an epoch",
                  PARAM_RATIO, PPM_ONE / 100, 1, PPM_ONE, NULL },
    [P_CALM] = { "calm", "and that in so many epochs in a row", PARAM_COUNTER, 3, 1, 100, NULL },
    [P_EPOCHS] = { "epochs", "no job is taken to need more", PARAM_COUNTER, 100, 1, 10000, NULL },
    [P_SAMPLES] = { "samples", "sizes a job must have been seen at before its speed is predicted", PARAM_COUNTER, 5, 3,
                    SPEED_POINTS_MAX, NULL },
    [P_GPU_CPUS] = { "gpu-cpus", "CPUs of a node for each of its GPUs, where jobs have parameter servers", PARAM_RATIO,
                     4 * PPM_ONE, PPM_ONE / 100, 1024 * PPM_ONE, NULL },
    [P_TASK_CPUS] = { "task-cpus", "CPUs of one worker or parameter server", PARAM_RATIO, 2 * PPM_ONE, PPM_ONE / 100,
                      1024 * PPM_ONE, NULL },
    [P_STRAGGLERS] = { "stragglers", "replace a worker that is slower than half the median of its job", PARAM_SWITCH, 1,
                       0, 1, NULL },
    { 0 },
};

const struct planner_ops planner_optimus = {
    .name = "optimus",
    .summary = "elastic sizes by predicted gain",
    .params = optimus_params,
    .sizes = true,
    .state_size = sizeof(struct optimus),
    .kept_size = offsetof(struct optimus, memos),
    .plan = optimus_plan,
    .report = learn_report,
    .ended = optimus_ended,
    .servers = optimus_servers,
    .awaits = optimus_awaits,
    .predicted = optimus_predicted,
};
