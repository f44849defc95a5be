/* SPDX-License-Identifier: Apache-2.0 */
/* tune_pack.c - two jobs on the same GPUs where both together do more than in turns (Gandiva, OSDI'18, section 3.2).
 *
 * Only while somebody waits or takes turns. Jobs that ran alone for a window and were measured are candidates, those
 * that use their GPUs least first. One joins another of the same width on the same GPU type, memory permitting, for a
 * window; then
 *
 *     gain = rate beside the other / rate alone, summed over both
 *
 * Taking turns gives 1. The pair stays together while its gain is above 1.05 at first and above 1 later, at every
 * measurement; else the one that came leaves. What was found out about two models is remembered: a pair that lost is
 * not tried again, one that won goes before those nobody has tried. When nobody waits any more and there is room, a
 * pair parts.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/rng.h"
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "model/measure.h"
#include "policy/list.h"

enum { P_GAIN, P_WINDOW, P_REPORT };

/* Words of a job: its rate alone, and from how many windows; where that was; how busy its GPUs were then, and its
 * memory; its rate beside another, from how many windows, since when, and beside whom (plus 1); not to be packed
 * before; ids, plus 1, of those with whom it lost. */
enum {
    W_ALONE,
    W_WINDOWS,
    W_WHERE,
    W_BUSY,
    W_MEMORY,
    W_BESIDE,
    W_TOGETHER,
    W_SINCE,
    W_MATE,
    W_REST,
    W_LOST,
    W_LOSTS = 4
};
enum { W_COUNT = W_LOST + W_LOSTS };

enum { WIDTHS_MAX = 20, KNOWN_MAX = 2048, MODELS_MAX = 1024, CANDIDATES_MAX = 16384, LOOK_MAX = 64, PACKS_A_PASS = 64 };

/* Before anything is known pairs are taken to gain 0.3, as firmly as if eight had been tried; what was found out about
 * pairs in general counts for four of those that a model has been in. */
enum { PRIOR_PAIRS = 8, PRIOR_MODEL = 4 };
#define PRIOR (13 * PPM_ONE / 10)

/* Pairs nobody has tried that are tried at once: as many, and twice as many as were tried before at their width. */
enum { TRIES_MIN = 4 };

/* Of two models on one GPU type at one width. */
struct known {
    uint64_t key; /* 0 = empty */
    int64_t gain; /* in millionths, averaged */
};

struct pack {
    int64_t packed, undone, parted; /* pairs made; that lost; that were given room of their own */
    struct known known[KNOWN_MAX];
    struct tried {
        uint64_t key;       /* 0 = empty */
        int64_t sum, count; /* gains of pairs of models tried */
    } tried[SKUS_MAX][WIDTHS_MAX],
        models[MODELS_MAX]; /* at a width, the last power of two below it; of a model there */
    /* Inside a guarantee, and beyond: GPUs wanted before the planner's last turn; after it, and those that were free
     * then. */
    int64_t need[2], left[2], idle[2];
    struct candidate {
        uint64_t key; /* type, width, utilisation: those that go together are neighbours */
        uint32_t job;
    } list[CANDIDATES_MAX], spare[CANDIDATES_MAX]; /* of one pass */
};

/* In rounds a pair that was a mistake lasts for one, so it has to promise more. */
static int64_t gain_least(const struct planner_ctx *ctx)
{
    bool rounds = view_round(ctx->view) > ctx->params[P_WINDOW];

    return ctx->params[P_GAIN] ? ctx->params[P_GAIN] : (rounds ? 120 : 105) * PPM_ONE / 100;
}

/* Reports that a window has. */
static int64_t windows_of(const struct planner_ctx *ctx)
{
    int64_t count = ctx->params[P_WINDOW] / ctx->params[P_REPORT];

    return count ? count : 1;
}

static int64_t where(const struct planner_ctx *ctx, uint32_t index)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, index);
    uint32_t node = UINT32_MAX, nodes = 0;

    for (uint32_t s = view_shares(ctx->view, index); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        nodes += ledger->gpus[ledger->shares[s].gpu].node != node;
        node = ledger->gpus[ledger->shares[s].gpu].node;
    }
    return (int64_t)job->sku << 40 | (int64_t)nodes << 20 | job->gpus;
}

/* A running average that forgets: the last four windows or so. */
static void average(int64_t *mean, int64_t *windows, int64_t value)
{
    int64_t weight = *windows < 3 ? *windows : 3;

    *mean = (*mean * weight + value) / (weight + 1);
    ++*windows;
}

static void pack_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    const struct job *job = view_job(ctx->view, index);
    int64_t *words = plan_words(ctx, plan, index), here;

    if (report->kind != MEASURE_BATCH || job->state != JOB_RUNNING)
        return;
    if (job->mate != JOB_NONE) {
        /* What it did before they came together is not in it. */
        if (words[W_SINCE] && view_now(ctx->view) >= words[W_SINCE] + ctx->params[P_REPORT])
            average(&words[W_BESIDE], &words[W_TOGETHER], report->value[0]);
        if (words[W_TOGETHER] == windows_of(ctx))
            plan_wake(plan, view_now(ctx->view) + 1); /* the pair is judged as soon as it can be */
        return;
    }
    here = where(ctx, index);
    if (here != words[W_WHERE])
        words[W_WINDOWS] = 0;
    words[W_WHERE] = here;
    average(&words[W_ALONE], &words[W_WINDOWS], report->value[0]);
    words[W_BUSY] = report->value[1];
    words[W_MEMORY] = report->value[2];
}

/* ---- what is known of two models ---- */

static uint64_t key_of(const struct job *a, const struct job *b)
{
    uint32_t low = a->spec.model < b->spec.model ? a->spec.model : b->spec.model;
    uint32_t high = a->spec.model < b->spec.model ? b->spec.model : a->spec.model;
    uint64_t key;

    if (low == NAME_NONE || high == NAME_NONE)
        return 0;
    key = rng_mix((uint64_t)low << 32 | high) ^ rng_mix((uint64_t)a->sku << 32 | (uint32_t)a->gpus);
    return key ? key : 1;
}

/* Its place, or an empty one, within a few of where it should be; else the first of these, to be overwritten. */
static struct known *known_at(struct pack *pack, uint64_t key)
{
    for (uint32_t i = 0; i < 8; i++) {
        struct known *k = &pack->known[(key + i) % KNOWN_MAX];

        if (k->key == key || k->key == 0)
            return k;
    }
    return &pack->known[key % KNOWN_MAX];
}

static struct tried *tried_at(struct pack *pack, const struct job *job)
{
    uint32_t width = 0;

    while ((job->gpus >> width) > 1)
        width++;
    return &pack->tried[job->sku][width];
}

/* Of all pairs that jobs of its model were in, likewise. NULL: it has none. */
static struct tried *model_at(struct pack *pack, const struct job *job)
{
    uint64_t key = rng_mix((uint64_t)job->sku << 56 ^ (uint64_t)job->gpus << 32 ^ job->spec.model);

    if (job->spec.model == NAME_NONE)
        return NULL;
    key = key ? key : 1;
    for (uint32_t i = 0; i < 8; i++) {
        struct tried *t = &pack->models[(key + i) % MODELS_MAX];

        if (t->key == 0)
            t->key = key;
        if (t->key == key)
            return t;
    }
    return NULL;
}

static void count_gain(struct tried *t, int64_t gain)
{
    if (t == NULL)
        return;
    t->sum += gain;
    t->count++;
}

static void learn(struct pack *pack, const struct job *a, const struct job *b, int64_t gain)
{
    uint64_t key = key_of(a, b);
    struct known *k = known_at(pack, key);

    if (key == 0 || k->key != key) {
        count_gain(tried_at(pack, a), gain);
        count_gain(model_at(pack, a), gain);
        if (a->spec.model != b->spec.model)
            count_gain(model_at(pack, b), gain);
    }
    if (key == 0)
        return;
    k->gain = k->key == key ? (k->gain + gain) / 2 : gain;
    k->key = key;
}

static bool lost_before(const int64_t *words, const struct job *other)
{
    for (int i = 0; i < W_LOSTS; i++)
        if (words[W_LOST + i] == other->spec.id + 1)
            return true;
    return false;
}

static void lost(int64_t *words, const struct job *other)
{
    memmove(&words[W_LOST + 1], &words[W_LOST], (W_LOSTS - 1) * sizeof(*words));
    words[W_LOST] = other->spec.id + 1;
}

/* ---- pairs there are ---- */

/* Millionths; -1 while one of them has not been measured for a window yet. */
static int64_t gain_of(struct planner_ctx *ctx, struct plan *plan, uint32_t a, uint32_t b)
{
    const int64_t *wa = plan_words(ctx, plan, a), *wb = plan_words(ctx, plan, b);
    int64_t windows = windows_of(ctx);

    if (view_now(ctx->view) - wa[W_SINCE] < ctx->params[P_WINDOW] || wa[W_TOGETHER] == 0 || wb[W_TOGETHER] == 0 ||
        wa[W_ALONE] <= 0 || wb[W_ALONE] <= 0 || (wa[W_TOGETHER] < windows && wb[W_TOGETHER] < windows))
        return -1;
    return muldiv_floor(wa[W_BESIDE], PPM_ONE, wa[W_ALONE]) + muldiv_floor(wb[W_BESIDE], PPM_ONE, wb[W_ALONE]);
}

static void forget(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    int64_t *words = plan_words(ctx, plan, index);

    words[W_SINCE] = words[W_TOGETHER] = words[W_BESIDE] = words[W_MATE] = 0;
}

/* The one with less to lose leaves: it came last. To take turns, where the planner knows turns; else to the queue. */
static bool undo(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    uint32_t mate = view_job(ctx->view, index)->mate;
    bool turns = ctx->vc->policy.planner->tunes;

    if (plan_unpack(plan, index, turns ? STOP_SUSPEND : STOP_CHECKPOINT) < 0)
        return false;
    lost(plan_words(ctx, plan, index), view_job(ctx->view, mate));
    lost(plan_words(ctx, plan, mate), view_job(ctx->view, index));
    forget(ctx, plan, index);
    forget(ctx, plan, mate);
    return true;
}

/* The fullest node that has room for all of the job. */
static uint32_t room_for(const struct planner_ctx *ctx, const struct job *job, uint32_t *gpus)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t best, count = 0;

    if (job->gpus > ledger->topo.node_gpus_max[job->sku])
        return 0;
    best = pool_best_fit(&ledger->topo.pools[ledger->topo.sku_pools[job->sku]], (uint32_t)job->gpus);
    if (best == BITS_NONE)
        return 0;
    for (uint32_t g = ledger->topo.nodes[best].first_gpu, end = g + ledger->topo.nodes[best].gpus;
         g < end && (int32_t)count < job->gpus; g++)
        if (ledger_idle(ledger, g))
            gpus[count++] = g;
    return (int32_t)count == job->gpus ? count : 0;
}

static void together(struct planner_ctx *ctx, struct plan *plan, uint32_t a, uint32_t b)
{
    int64_t *words[2] = { plan_words(ctx, plan, a), plan_words(ctx, plan, b) };

    for (int i = 0; i < 2; i++) {
        words[i][W_SINCE] = view_now(ctx->view);
        words[i][W_TOGETHER] = words[i][W_BESIDE] = 0;
        words[i][W_MATE] = (int64_t)(i ? a : b) + 1;
    }
}

/* Of two that were suspended as a pair, and come back as one. */
static bool paired(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    int64_t mate = plan_words(ctx, plan, index)[W_MATE];

    return mate > 0 && mate <= view_job_top(ctx->view) && view_job(ctx->view, index)->state == JOB_SUSPENDED &&
           view_job(ctx->view, (uint32_t)(mate - 1))->state == JOB_SUSPENDED &&
           plan_words(ctx, plan, (uint32_t)(mate - 1))[W_MATE] == (int64_t)index + 1;
}

static void look_at_pair(struct planner_ctx *ctx, struct plan *plan, uint32_t index, bool crowded)
{
    struct pack *pack = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    uint32_t gpus[NODE_GPUS_MAX], mate = job->mate, count;
    int64_t *words = plan_words(ctx, plan, index), gain, least;

    if (words[W_SINCE] == 0) /* packed by somebody else, or again after a turn */
        together(ctx, plan, index, mate);
    if (job->state != JOB_RUNNING || view_job(ctx->view, mate)->state != JOB_RUNNING || job->planned)
        return;
    gain = gain_of(ctx, plan, index, mate);
    least = words[W_TOGETHER] > windows_of(ctx) ? PPM_ONE : gain_least(ctx);
    if (gain >= 0)
        learn(pack, job, view_job(ctx->view, mate), gain);
    if (gain >= 0 && gain <= least) {
        pack->undone += undo(ctx, plan, index);
        return;
    }
    count = crowded || !plan_rested(plan, index) ? 0 : room_for(ctx, job, gpus);
    if (count && plan_move(plan, index, &(struct placement){ gpus, count }) == 0) {
        forget(ctx, plan, index);
        forget(ctx, plan, mate);
        pack->parted++;
    }
}

/* ---- new ones ---- */

static bool candidate(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct policy_setup *policy = &ctx->vc->policy;
    const struct job *job = view_job(ctx->view, index);
    const int64_t *words = plan_words(ctx, plan, index);

    if ((policy->planner->classes || (policy->admit && policy->admit->classes)) && job->klass == CLASS_GUARANTEED)
        return false; /* it shares with nobody but guests */
    if (job_holds(job->state) && !view_owner(ctx->view, index))
        return false;
    return (job_holds(job->state) || (job->state == JOB_SUSPENDED && !job->yields && !job->prepared)) &&
           job->mate == JOB_NONE && job->spec.share == MGPU_ONE && job->gpus == job->spec.gpus && job->promise == 0 &&
           job_shapeless(job) && view_shows(ctx->view, index) && words[W_WINDOWS] >= windows_of(ctx) &&
           words[W_ALONE] > 0 && words[W_REST] <= view_now(ctx->view) && plan_rested(plan, index) &&
           !paired(ctx, plan, index);
}

/* Equals go by their ids: which slots jobs have is a matter of what others run. */
static bool before(const struct planner_ctx *ctx, const struct candidate *a, const struct candidate *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    return view_job(ctx->view, a->job)->spec.id < view_job(ctx->view, b->job)->spec.id;
}

/* Merges runs of doubling length. */
static void sort(const struct planner_ctx *ctx, uint32_t count)
{
    struct pack *pack = ctx->state;
    struct candidate *from = pack->list, *to = pack->spare;

    for (uint32_t width = 1; width < count; width *= 2) {
        struct candidate *swap = from;

        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count, a = low, b = middle;
            uint32_t high = middle + width < count ? middle + width : count;

            for (uint32_t at = low; at < high; at++)
                to[at] = b == high || (a < middle && !before(ctx, &from[b], &from[a])) ? from[a++] : from[b++];
        }
        from = to;
        to = swap;
    }
    if (from != pack->list)
        memcpy(pack->list, from, count * sizeof(*from));
}

/* By type, width and utilisation; one that is not known counts as half. */
static uint32_t gather(struct planner_ctx *ctx, struct plan *plan)
{
    struct pack *pack = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < view_job_top(ctx->view) && count < CANDIDATES_MAX; i++) {
        const struct job *job = view_job(ctx->view, i);
        int64_t busy;

        if (job->vc != ctx->vc->index || !candidate(ctx, plan, i))
            continue;
        busy = plan_words(ctx, plan, i)[W_BUSY];
        pack->list[count++] =
            (struct candidate){ (uint64_t)job->sku << 56 | (uint64_t)job->klass << 48 |
                                    (uint64_t)(uint32_t)job->gpus << 16 | (uint64_t)(busy ? busy : 50),
                                i };
    }
    sort(ctx, count);
    return count;
}

static bool memory_fits(struct planner_ctx *ctx, struct plan *plan, uint32_t a, uint32_t b)
{
    int64_t size = view_ledger(ctx->view)->topo.sku_memory[view_job(ctx->view, a)->sku];
    int64_t ma = plan_words(ctx, plan, a)[W_MEMORY], mb = plan_words(ctx, plan, b)[W_MEMORY];

    return size == 0 || ma + mb <= size;
}

/* Whether a can go to where b is: one that takes turns has no GPUs of its own, one that was just given some stays. */
static bool goes_to(const struct planner_ctx *ctx, uint32_t a, uint32_t b)
{
    const struct job *ja = view_job(ctx->view, a), *jb = view_job(ctx->view, b);

    return !ja->planned && job_holds(jb->state) &&
           (ja->state == JOB_SUSPENDED || (ja->state == JOB_RUNNING && jb->state != JOB_CLAIMING));
}

/* What two models that nobody has tried together are expected to gain: as pairs of either of them did, and as those of
 * that width do in general. */
static int64_t guessed(struct pack *pack, const struct job *a, const struct job *b)
{
    const struct tried *all = tried_at(pack, a), *one = model_at(pack, a), *other = model_at(pack, b);
    int64_t base = (all->sum + PRIOR_PAIRS * PRIOR) / (all->count + PRIOR_PAIRS), sum = PRIOR_MODEL * base;
    int64_t count = PRIOR_MODEL;

    if (one) {
        sum += one->sum;
        count += one->count;
    }
    if (other) {
        sum += other->sum;
        count += other->count;
    }
    return sum / count;
}

/* What the two are expected to gain, and whether that is known of their models. 0: not to be tried. */
static int64_t expected(struct planner_ctx *ctx, struct plan *plan, uint32_t a, uint32_t b, bool *ret_known)
{
    struct pack *pack = ctx->state;
    const struct job *ja = view_job(ctx->view, a), *jb = view_job(ctx->view, b);
    uint64_t key = key_of(ja, jb);
    const struct known *k = known_at(pack, key);
    int64_t gain;

    *ret_known = key && k->key == key;
    if ((!goes_to(ctx, a, b) && !goes_to(ctx, b, a)) || lost_before(plan_words(ctx, plan, a), jb) ||
        !memory_fits(ctx, plan, a, b))
        return 0;
    gain = *ret_known ? k->gain : guessed(pack, ja, jb);
    return gain > gain_least(ctx) ? gain : 0;
}

static int join(const struct planner_ctx *ctx, struct plan *plan, uint32_t a, uint32_t b)
{
    return goes_to(ctx, a, b) ? plan_pack(plan, a, b) : plan_pack(plan, b, a);
}

/* The best mate among those that follow in the list and go with it. `*tries`: how many more that nobody knows. */
static uint32_t mate_for(struct planner_ctx *ctx, struct plan *plan, uint32_t at, uint32_t count, int64_t *tries)
{
    const struct pack *pack = ctx->state;
    const struct candidate *list = pack->list;
    uint32_t best = UINT32_MAX;
    int64_t most = 0;
    bool known = true, best_known = true;

    for (uint32_t i = at + 1; i < count && i <= at + LOOK_MAX && list[i].key >> 16 == list[at].key >> 16; i++) {
        int64_t gain = list[i].job == JOB_NONE ? 0 : expected(ctx, plan, list[at].job, list[i].job, &known);

        if (gain > most && (known || *tries > 0)) {
            best = i;
            most = gain;
            best_known = known;
        }
    }
    *tries -= !best_known;
    return best;
}

/* Enough pairs that those who wait or take turns find room, and no more. */
static void make_pairs(struct planner_ctx *ctx, struct plan *plan, int64_t need)
{
    struct pack *pack = ctx->state;
    uint32_t count = gather(ctx, plan), made = 0;
    int64_t tries = 0;

    for (uint32_t i = 0; i < count && need > 0 && made < PACKS_A_PASS; i++) {
        uint32_t k = UINT32_MAX;

        if (pack->list[i].job != JOB_NONE && (i == 0 || pack->list[i].key >> 16 != pack->list[i - 1].key >> 16))
            tries = TRIES_MIN + 2 * tried_at(pack, view_job(ctx->view, pack->list[i].job))->count;
        if (pack->list[i].job != JOB_NONE)
            k = mate_for(ctx, plan, i, count, &tries);
        if (k == UINT32_MAX || join(ctx, plan, pack->list[i].job, pack->list[k].job) < 0)
            continue;
        together(ctx, plan, pack->list[i].job, pack->list[k].job);
        need -= view_job(ctx->view, pack->list[i].job)->gpus;
        pack->list[k].job = JOB_NONE;
        pack->packed++;
        made++;
    }
}

/* GPUs that those who take turns or wait would like to have. */
static int64_t wanted(const struct planner_ctx *ctx)
{
    int64_t need = view_queued_mgpu(ctx->view, ctx->vc) / MGPU_ONE;

    for (uint32_t i = 0; i < view_job_top(ctx->view); i++) {
        const struct job *job = view_job(ctx->view, i);

        if (job->vc == ctx->vc->index && view_shows(ctx->view, i) &&
            ((job->state == JOB_SUSPENDED && !job->yields) ||
             (job->state == JOB_STOPPING && job->parks))) /* its turn is just over */
            need += job->gpus;
    }
    return need;
}

static int64_t free_gpus(const struct planner_ctx *ctx)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    int64_t count = 0;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        count += view_free(ctx->view, s);
    return count;
}

/* Of those that wait or take turns only whom the planner had nothing for when it was last asked; and less what has come
 * free since, which it will hand out now. */
static int64_t needed(const struct planner_ctx *ctx, const struct pack *pack, bool beyond)
{
    int64_t want = wanted(ctx), old = want < pack->left[beyond] ? want : pack->left[beyond];
    int64_t come = free_gpus(ctx) - pack->idle[beyond];

    return old - (come > 0 ? come : 0);
}

/* Before the planner: it hands on what comes free, and does not end turns of those that have just been paired. */
static void pack_review(struct planner_ctx *ctx, struct plan *plan)
{
    struct pack *pack = ctx->state;
    bool crowded = view_queued(ctx->view, ctx->vc) || view_suspended(ctx->view, ctx->vc);

    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        next = view_job(ctx->view, i)->next;
        if (view_job(ctx->view, i)->packed && view_shows(ctx->view, i))
            look_at_pair(ctx, plan, i, crowded);
    }
    pack->need[plan_borrows(plan)] = needed(ctx, pack, plan_borrows(plan));
    if (pack->need[plan_borrows(plan)] > 0)
        make_pairs(ctx, plan, pack->need[plan_borrows(plan)]);
}

static void pack_tune(struct planner_ctx *ctx, struct plan *plan)
{
    struct pack *pack = ctx->state;
    int64_t need = wanted(ctx);

    pack->left[plan_borrows(plan)] = need;
    pack->idle[plan_borrows(plan)] = free_gpus(ctx);
    if (need > pack->need[plan_borrows(plan)])
        plan_wake(plan, view_now(ctx->view) + 1); /* somebody has come to wait in this pass */
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE && need == 0; i = view_job(ctx->view, i)->next)
        need = view_job(ctx->view, i)->packed && view_shows(ctx->view, i);
    if (need > 0)
        plan_wake(plan, view_now(ctx->view) + ctx->params[P_REPORT]);
}

static const struct param pack_params[] = {
    [P_GAIN] = { "pack_gain",
                 "what two packed jobs must do together, of what they do in turns; 0 = 1.05, in rounds 1.2",
                 PARAM_RATIO, 0, 0, 2 * PPM_ONE, NULL },
    [P_WINDOW] = { "pack_window", "time for which they are measured, alone and together", PARAM_TIME, 120 * USEC_SEC,
                   USEC_SEC, PARAM_MAX, NULL },
    [P_REPORT] = { "pack_report", "time between two reports of a running job", PARAM_TIME, 60 * USEC_SEC, USEC_SEC,
                   PARAM_MAX, NULL },
    { 0 },
};

static const char *const pack_counters[] = { "packed", "packings undone", "packings parted", NULL };

const struct tune_ops tune_pack = {
    .name = "pack",
    .summary = "two jobs on the same GPUs while they do more together than in turns, as measured",
    .params = pack_params,
    .state_size = sizeof(struct pack),
    .kept_size = offsetof(struct pack, list),
    .words = W_COUNT,
    .batches = true,
    .tune = pack_tune,
    .review = pack_review,
    .report = pack_report,
    .counters = pack_counters,
};
