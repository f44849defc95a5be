/* SPDX-License-Identifier: Apache-2.0 */
/* chronus_mss.c - elastic sizes by minimum satisfactory share (ElasticFlow, Gu et al., ASPLOS'23).
 *
 * In the order of their deadlines jobs are given the smallest size with which they end in time, in what those before
 * them leave; where less is free for a while they have that. If everybody with a promise ends in time beside a new job,
 * its deadline is promised. Sizes are powers of two. Time is not cut into slots: free GPUs are a staircase over time
 * whose steps are the ends of jobs, so a plan for weeks costs what its jobs cost.
 *
 * At every event the plan is made anew from what jobs have done. What it leaves free now goes to promised jobs,
 * doubling whoever gains most for each GPU, as long as the gain is worth it; then to those without a promise.
 */
#include <errno.h>
#include <string.h>

#include "model/measure.h"
#include "policy/chronus/chronus_mss.h"

/* A new job is admitted as if everybody had a little more to do, so that the plan can be made anew later. */
#define MSS_CARE 50
#define MSS_ROUNDING (10 * USEC_SEC)
enum { MSS_SOONER = 3, MSS_WAYS = 4 * MSS_SOONER };

static int32_t size_at(int s)
{
    return (int32_t)1 << s;
}

static int index_of(int64_t gpus)
{
    int s = 0;

    while (s + 1 < MSS_SIZES && size_at(s + 1) <= gpus)
        s++;
    return s;
}

/* ---- what is known of a job ---- */

struct curve *mss_curve(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct chronus *c = ctx->state;
    const struct job *j = view_job(ctx->view, job);
    uint32_t at = (uint32_t)j->word[WORD_CURVE];

    if (at > 0 && at <= MSS_JOBS && c->curves[at - 1].live && c->curves[at - 1].job == job)
        return &c->curves[at - 1];
    if (!plan)
        return NULL;
    for (at = 0; at < MSS_JOBS && c->curves[at].live; at++)
        ;
    if (at == MSS_JOBS)
        return NULL;
    c->curve_top = at >= c->curve_top ? at + 1 : c->curve_top;
    c->curves[at] = (struct curve){ .live = true, .job = job };
    /* Until more is known: in proportion up to what it asks for, and no faster beyond. */
    for (int s = 0; s < MSS_SIZES; s++)
        c->curves[at].rate[s] = size_at(s) >= j->spec.gpus ? PPM_ONE : muldiv_floor(PPM_ONE, size_at(s), j->spec.gpus);
    plan_word(plan, job, WORD_CURVE, at + 1);
    return &c->curves[at];
}

void mss_ended(struct planner_ctx *ctx, uint32_t job)
{
    struct chronus *c = ctx->state;
    struct curve *curve = mss_curve(ctx, NULL, job);

    if (!curve)
        return;
    curve->live = false;
    while (c->curve_top && !c->curves[c->curve_top - 1].live)
        c->curve_top--;
}

/* A real job tells in the pool how fast it is, of what its estimate says. What it says later changes no promise. */
static void measured(struct planner_ctx *ctx, struct plan *plan, uint32_t job, ppm_t rate)
{
    const struct job *j = view_job(ctx->view, job);
    struct curve *curve = NULL;

    if (ctx->params[P_ELASTIC] == ELASTIC_OFF && chronus_status(j) == STATUS_PROFILING && rate > 0)
        curve = mss_curve(ctx, plan, job);
    if (curve)
        curve->fixed = rate / 1000 < 1 ? 1 : rate / 1000 < INT32_MAX ? (int32_t)(rate / 1000) : INT32_MAX;
}

ppm_t mss_measured(const struct planner_ctx *ctx, const struct job *job)
{
    const struct chronus *c = ctx->state;
    uint32_t at = (uint32_t)job->word[WORD_CURVE];
    const struct curve *curve = at > 0 && at <= MSS_JOBS ? &c->curves[at - 1] : NULL;

    if (ctx->params[P_ELASTIC] != ELASTIC_OFF || !curve || !curve->live || curve->fixed == 0 ||
        view_job(ctx->view, curve->job) != job)
        return PPM_ONE;
    return (ppm_t)curve->fixed * 1000;
}

void mss_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report)
{
    struct curve *curve;
    int s;

    if (report->kind != MEASURE_PROFILE || report->value[0] < 1 || report->value[0] > size_at(MSS_SIZES - 1) ||
        report->value[2] < 0 || report->value[2] > 1000 * PPM_ONE)
        return;
    if (report->value[0] == view_job(ctx->view, job)->spec.gpus && report->value[1] == 0) {
        measured(ctx, plan, job, report->value[2]);
        return;
    }
    if (report->value[0] == view_job(ctx->view, job)->spec.gpus) {
        curve = report->value[1] == 2 && ctx->params[P_SPREAD] < PPM_ONE ? mss_curve(ctx, plan, job) : NULL;
        if (curve)
            curve->two_nodes = report->value[2];
        return;
    }
    if (ctx->params[P_ELASTIC] == ELASTIC_OFF)
        return;
    s = index_of(report->value[0]);
    curve = mss_curve(ctx, plan, job);
    if (curve && size_at(s) == report->value[0])
        curve->rate[s] = report->value[2];
}

/* The largest size it may have that is no larger than `most` and no slower than a smaller one; 0 if none. */
static int32_t usable(const struct job *job, const struct curve *curve, int32_t most)
{
    int32_t best = 0;
    ppm_t rate = 0;

    if (curve->fixed)
        return most >= curve->fixed ? curve->fixed : 0;
    for (int s = 0; s < MSS_SIZES && size_at(s) <= most; s++)
        if (size_at(s) >= job->spec.gpus_min && size_at(s) <= job->spec.gpus_max && curve->rate[s] > rate) {
            best = size_at(s);
            rate = curve->rate[s];
        }
    return best;
}

static ppm_t rate_at(const struct curve *curve, int32_t gpus)
{
    return gpus > 0 ? curve->rate[index_of(gpus)] : 0;
}

/* ---- free GPUs over time ---- */

static void stairs_begin(struct planner_ctx *ctx, uint32_t sku)
{
    struct chronus *c = ctx->state;

    c->stairs.count = 1;
    c->stairs.at[0] = view_now(ctx->view);
    c->stairs.free[0] = c->capacity[sku];
}

/* A step that begins at `at`; its number, or MSS_STEPS when there are too many. */
static uint32_t stairs_cut(struct stairs *st, usec_t at)
{
    uint32_t k = st->count;

    while (k > 0 && st->at[k - 1] > at)
        k--;
    if (k > 0 && st->at[k - 1] == at)
        return k - 1;
    if (st->count == MSS_STEPS)
        return MSS_STEPS;
    memmove(&st->at[k + 1], &st->at[k], (st->count - k) * sizeof(*st->at));
    memmove(&st->free[k + 1], &st->free[k], (st->count - k) * sizeof(*st->free));
    st->at[k] = at;
    st->free[k] = st->free[k - 1];
    st->count++;
    return k;
}

/* When the job ends with at most `share` GPUs; USEC_NEVER if not before `due`. */
static usec_t end_with(const struct stairs *st, const struct job *job, const struct curve *curve, int32_t share,
                       usec_t left, usec_t due)
{
    for (uint32_t k = 0; k < st->count && st->at[k] < due; k++) {
        int32_t gpus = usable(job, curve, share < st->free[k] ? share : st->free[k]);
        ppm_t rate = rate_at(curve, gpus);
        usec_t until = k + 1 < st->count ? st->at[k + 1] : USEC_NEVER;
        usec_t need = rate > 0 ? muldiv_ceil(left, PPM_ONE, rate) : USEC_NEVER;

        if (need != USEC_NEVER && (until == USEC_NEVER || need <= until - st->at[k]))
            return st->at[k] + need;
        if (until == USEC_NEVER)
            return USEC_NEVER;
        left -= muldiv_floor(until - st->at[k], rate, PPM_ONE);
    }
    return USEC_NEVER;
}

/* Takes what the job uses; its size now. */
static int32_t stairs_take(struct stairs *st, const struct job *job, const struct curve *curve, int32_t share,
                           usec_t end)
{
    uint32_t last = stairs_cut(st, end);
    int32_t now = 0;

    for (uint32_t k = 0; k < last && k < st->count; k++) {
        int32_t gpus = usable(job, curve, share < st->free[k] ? share : st->free[k]);

        now = k == 0 ? gpus : now;
        st->free[k] -= gpus;
    }
    return now;
}

/* ---- the plan ---- */

static usec_t left_of(const struct planner_ctx *ctx, const struct job *job)
{
    const struct chronus *c = ctx->state;
    usec_t left = chronus_left(ctx, job);

    return left > 0 ? left + (c->careful ? left / MSS_CARE : 0) : USEC_SEC;
}

/* Gives the job its smallest share that ends in time, or, where it is to be done sooner, that share doubled so often.
 * False if there is none; then nothing was given. */
static bool fill_one(struct planner_ctx *ctx, struct curve *curve, int sooner)
{
    struct chronus *c = ctx->state;
    const struct job *job = view_job(ctx->view, curve->job);
    usec_t left = left_of(ctx, job), end = USEC_NEVER, best = USEC_NEVER;
    usec_t due = curve->due - (curve->promised ? 0 : MSS_ROUNDING); /* what is rounded later must not break a promise */
    int32_t chosen = 0;

    curve->now = 0;
    for (int s = 0; s < MSS_SIZES && sooner >= 0; s++) {
        int32_t share = size_at(s);

        if (ctx->params[P_ELASTIC] == ELASTIC_ONCE && !curve->promised)
            curve->fixed = 0;
        if (share < job->spec.gpus_min || share > job->spec.gpus_max || usable(job, curve, share) != share)
            continue;
        if (ctx->params[P_ELASTIC] == ELASTIC_ONCE)
            curve->fixed = share;
        end = end_with(&c->stairs, job, curve, share, left, due);
        if (end > due || end >= best)
            continue;
        best = end;
        chosen = share;
        sooner--;
    }
    if (ctx->params[P_ELASTIC] == ELASTIC_ONCE && !curve->promised)
        curve->fixed = chosen;
    curve->late = chosen == 0;
    if (chosen)
        curve->now = stairs_take(&c->stairs, job, curve, chosen, best);
    return chosen > 0;
}

/* Who is late all the same has what the others leave. */
static void fill_late(struct planner_ctx *ctx, struct curve *curve)
{
    struct chronus *c = ctx->state;
    const struct job *job = view_job(ctx->view, curve->job);
    usec_t end = end_with(&c->stairs, job, curve, size_at(MSS_SIZES - 1), left_of(ctx, job), USEC_NEVER);

    if (end != USEC_NEVER)
        curve->now = stairs_take(&c->stairs, job, curve, size_at(MSS_SIZES - 1), end);
}

/* Promised jobs of a type, and `extra`, by deadline; into c->list. */
static uint32_t line_up(struct planner_ctx *ctx, uint32_t sku, const struct curve *extra)
{
    struct chronus *c = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->curve_top; i++) {
        const struct curve *v = &c->curves[i];
        uint32_t k;

        if (!v->live || v->sku != sku || (!v->promised && v != extra))
            continue;
        for (k = count++; k > 0 && c->curves[c->list[k - 1]].due > v->due; k--)
            c->list[k] = c->list[k - 1];
        c->list[k] = i;
    }
    return count;
}

/* One plan in the order of c->list; how many are late, and the first of them. */
static uint32_t fill_all(struct planner_ctx *ctx, uint32_t sku, uint32_t count, int sooner, uint32_t *ret_first)
{
    struct chronus *c = ctx->state;
    uint32_t late = 0;

    stairs_begin(ctx, sku);
    for (uint32_t i = 0; i < count; i++)
        if (!fill_one(ctx, &c->curves[c->list[i]], sooner) && late++ == 0)
            *ret_first = i;
    return late;
}

/* The order and the way of the last plan in which nobody was late. */
static void remember(struct planner_ctx *ctx, uint32_t count, int way)
{
    struct chronus *c = ctx->state;

    c->way = way;
    for (uint32_t i = 0; i < count; i++)
        c->curves[c->list[i]].place = i;
}

static bool recall(struct planner_ctx *ctx, uint32_t count)
{
    struct chronus *c = ctx->state;

    for (uint32_t i = 1; i < count; i++) {
        uint32_t job = c->list[i], k = i;

        for (; k > 0 && c->curves[c->list[k - 1]].place > c->curves[job].place; k--)
            c->list[k] = c->list[k - 1];
        c->list[k] = job;
    }
    return count > 0;
}

/* Plans everybody; how many are late. If somebody is, there are other ways: whoever is late goes first, or everybody
 * ends sooner than he must, which leaves more for later. The plan with the fewest late ones stands. */
static uint32_t plan_all(struct planner_ctx *ctx, uint32_t sku, const struct curve *extra)
{
    struct chronus *c = ctx->state;
    uint32_t count = line_up(ctx, sku, extra), first = 0, least = UINT32_MAX, late;
    int best = 0;

    if (fill_all(ctx, sku, count, 0, &first) > 0 && recall(ctx, count) &&
        fill_all(ctx, sku, count, c->way, &first) == 0)
        return 0;
    count = line_up(ctx, sku, extra);
    for (int way = 0; way < MSS_WAYS; way++) {
        late = fill_all(ctx, sku, count, way % MSS_SOONER, &first);
        if (late < least) {
            least = late;
            best = way;
            memcpy(c->other, c->list, count * sizeof(*c->list));
        }
        if (late == 0) {
            remember(ctx, count, way % MSS_SOONER);
            return 0;
        }
        if (way % MSS_SOONER < MSS_SOONER - 1)
            continue;
        for (uint32_t i = first, job = c->list[first]; i > 0; i--) {
            c->list[i] = c->list[i - 1];
            c->list[i - 1] = job;
        }
    }
    memcpy(c->list, c->other, count * sizeof(*c->list));
    late = fill_all(ctx, sku, count, best % MSS_SOONER, &first);
    for (uint32_t i = 0; i < count; i++)
        if (c->curves[c->list[i]].late)
            fill_late(ctx, &c->curves[c->list[i]]);
    return late;
}

static bool admit_on(struct planner_ctx *ctx, struct plan *plan, struct curve *curve)
{
    struct chronus *c = ctx->state;
    const struct job *job = view_job(ctx->view, curve->job);

    for (int p = 0; p < job->spec.deadline_count; p++) {
        bool worse;

        curve->due = job->spec.deadlines[p].at;
        c->careful = true;
        worse = curve->due <= view_now(ctx->view) || plan_all(ctx, curve->sku, curve) > 0;
        c->careful = false;
        if (worse)
            continue;
        curve->promised = true;
        chronus_become(plan, ctx, curve->job, STATUS_PROMISED);
        plan_promise(plan, curve->job, curve->due);
        return true;
    }
    return false;
}

/* When it would end with all that is left. */
static usec_t earliest(struct planner_ctx *ctx, const struct curve *curve)
{
    struct chronus *c = ctx->state;
    const struct job *job = view_job(ctx->view, curve->job);

    (void)plan_all(ctx, curve->sku, NULL);
    return end_with(&c->stairs, job, curve, size_at(MSS_SIZES - 1), left_of(ctx, job), USEC_NEVER);
}

void mss_admit(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);
    struct curve *curve = chronus_promisable(j) ? mss_curve(ctx, plan, job) : NULL;
    uint32_t mask = chronus_types(ctx, j);

    if (!j->spec.deadline_count) {
        chronus_become(plan, ctx, job, STATUS_BEST_EFFORT);
        return;
    }
    for (uint32_t sku = 0; curve && sku < view_sku_count(ctx->view); sku++)
        if (mask >> sku & 1) {
            curve->sku = (uint16_t)sku;
            if (admit_on(ctx, plan, curve))
                return;
        }
    plan_decline(plan, job, curve ? earliest(ctx, curve) : USEC_NEVER);
    chronus_become(plan, ctx, job, STATUS_UNSURE);
}

/* Those who were refused may be possible by now. */
static void admit_later(struct planner_ctx *ctx, struct plan *plan, uint32_t sku)
{
    struct chronus *c = ctx->state;

    for (uint32_t i = 0; i < c->curve_top; i++) {
        struct curve *v = &c->curves[i];
        const struct job *job = view_job(ctx->view, v->job);
        usec_t last;

        if (!v->live || v->promised || v->sku != sku || chronus_status(job) != STATUS_UNSURE)
            continue;
        last = job->spec.deadlines[job->spec.deadline_count - 1].at;
        stairs_begin(ctx, sku);
        if (end_with(&c->stairs, job, v, size_at(MSS_SIZES - 1), left_of(ctx, job), last) > last)
            chronus_become(plan, ctx, v->job, STATUS_HOPELESS);
        else
            (void)admit_on(ctx, plan, v);
    }
}

/* ---- what is left goes where it helps most ---- */

/* How much faster for each GPU more, if the size is doubled; 0 if it may not be, or not enough. */
static int64_t gain_of(const struct planner_ctx *ctx, const struct curve *v, int32_t free)
{
    const struct job *job = view_job(ctx->view, v->job);
    int32_t next = v->now ? 2 * v->now : job->spec.gpus_min, one;
    ppm_t more;

    if (next > size_at(MSS_SIZES - 1) || next - v->now > free || next > job->spec.gpus_max ||
        usable(job, v, next) != next)
        return 0;
    more = rate_at(v, next) - rate_at(v, v->now);
    one = job->spec.gpus_min;
    /* In thousandths of how fast a GPU is where it is best used. */
    return rate_at(v, one) > 0 ? more * 1000 / (next - v->now) * one / rate_at(v, one) : 0;
}

static void grow(struct planner_ctx *ctx, uint32_t sku)
{
    struct chronus *c = ctx->state;
    int32_t free = ctx->params[P_ELASTIC] == ELASTIC_MSS ? c->stairs.free[0] : 0;

    while (free > 0) {
        struct curve *best = NULL;
        int64_t best_gain = ctx->params[P_WORTH] / 1000;

        for (uint32_t i = 0; i < c->curve_top; i++) {
            struct curve *v = &c->curves[i];
            int64_t gain;

            if (!v->live || !v->promised || v->sku != sku)
                continue;
            gain = gain_of(ctx, v, free);
            if (gain > best_gain || (gain == best_gain && best && v->due < best->due)) {
                best = v;
                best_gain = gain;
            }
        }
        if (!best)
            return;
        free -= (best->now ? best->now : 0);
        if (!best->now) {
            best->now = view_job(ctx->view, best->job)->spec.gpus_min;
            free -= best->now;
        } else {
            best->now *= 2;
        }
    }
}

/* ---- carrying it out ---- */

/* The job's own GPUs and free ones, as many as asked for: on the nodes where it stands first, then the fullest. */
static int pick(struct planner_ctx *ctx, const struct curve *v, struct placement *ret)
{
    struct chronus *c = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct topo *topo = &ledger->topo;
    const struct pool *pool = &topo->pools[topo->sku_pools[v->sku]];
    const struct job *job = view_job(ctx->view, v->job);
    uint32_t need = (uint32_t)v->now, got = 0;

    for (uint32_t s = view_shares(ctx->view, v->job); s != SHARE_NONE && got < need && job_holds(job->state);
         s = ledger->shares[s].next_of_job)
        c->gpus[got++] = ledger->shares[s].gpu;
    while (got < need) {
        uint32_t rest = need - got, n = pool_best_fit(pool, rest), before = got;

        n = n == BITS_NONE ? pool_emptiest(pool) : n;
        for (uint32_t p = 0; n != BITS_NONE && p < 2; p++)
            for (uint32_t g = topo->nodes[n].first_gpu;
                 g < topo->nodes[n].first_gpu + topo->nodes[n].gpus && got < need; g++) {
                bool have = false;

                for (uint32_t k = 0; k < got; k++)
                    have |= c->gpus[k] == g;
                if (!have && ledger_whole(ledger, g) && (ledger->gpus[g].leaving == 0) == (p == 0))
                    c->gpus[got++] = g;
            }
        if (got == before || rest == need - got)
            break;
        if (got < need) { /* more than one node: any GPUs that are free */
            for (uint32_t g = 0; g < topo->gpu_count && got < need; g++) {
                bool have = topo->nodes[ledger->gpus[g].node].sku != v->sku || !ledger_whole(ledger, g);

                for (uint32_t k = 0; k < got; k++)
                    have |= c->gpus[k] == g;
                if (!have)
                    c->gpus[got++] = g;
            }
            break;
        }
    }
    if (got < need)
        return -EBUSY;
    for (uint32_t i = 1; i < got; i++) {
        uint32_t gpu = c->gpus[i], k = i;

        for (; k > 0 && c->gpus[k - 1] > gpu; k--)
            c->gpus[k] = c->gpus[k - 1];
        c->gpus[k] = gpu;
    }
    *ret = (struct placement){ c->gpus, got };
    return 0;
}

static bool any_leaving(const struct planner_ctx *ctx, const struct placement *to)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (view_ledger(ctx->view)->gpus[to->gpus[i]].leaving)
            return true;
    return false;
}

/* Those without a promise leave, the last in order first, until so many GPUs are free. */
static void make_room(struct planner_ctx *ctx, struct plan *plan, uint32_t sku, uint32_t need)
{
    while (view_free(ctx->view, sku) < need) {
        uint32_t last = JOB_NONE;
        struct rank rank, worst = { 0 };

        for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
            const struct job *job = view_job(ctx->view, i);

            if (job->planned || job->sku != sku || chronus_status(job) == STATUS_PROMISED)
                continue;
            rank = view_rank(ctx->view, i);
            if (last == JOB_NONE || rank_before(&worst, &rank)) {
                last = i;
                worst = rank;
            }
        }
        if (last == JOB_NONE || plan_stop(plan, last, STOP_CHECKPOINT) < 0)
            return;
    }
}

/* One job to its size. Whether there is more to do that has to wait for others to leave. */
static bool apply(struct planner_ctx *ctx, struct plan *plan, struct curve *v)
{
    const struct job *job = view_job(ctx->view, v->job);
    int32_t holds = job_holds(job->state) ? job->gpus : 0;
    struct placement to;

    if (holds == v->now || job->planned)
        return false;
    if (v->now == 0)
        return plan_stop(plan, v->job, STOP_CHECKPOINT) < 0;
    if (!job_plain(job) && job_waits(job->state)) /* as the core finds it, or not at all */
        return job->shape == UINT32_MAX || plan_find(plan, plan_shape(plan, v->job), &to) < 0 ||
               plan_start(plan, v->job, &to) < 0;
    if (v->now > holds)
        make_room(ctx, plan, v->sku, (uint32_t)(v->now - holds));
    if (pick(ctx, v, &to) < 0)
        return true;
    if (job_waits(job->state))
        return job->shape == UINT32_MAX || plan_start(plan, v->job, &to) < 0;
    if (job->state != JOB_RUNNING || any_leaving(ctx, &to))
        return true;
    return plan_move(plan, v->job, &to) < 0;
}

bool mss_plan(struct planner_ctx *ctx, struct plan *plan)
{
    struct chronus *c = ctx->state;
    bool more = false;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++) {
        admit_later(ctx, plan, sku);
        (void)plan_all(ctx, sku, NULL);
        grow(ctx, sku);
        for (int shrinks = 1; shrinks >= 0; shrinks--)
            for (uint32_t i = 0; i < c->curve_top; i++) {
                struct curve *v = &c->curves[i];
                const struct job *job = view_job(ctx->view, v->job);

                if (v->live && v->promised && v->sku == sku && (v->now < job->gpus) == shrinks)
                    more |= apply(ctx, plan, v);
            }
    }
    return more;
}
