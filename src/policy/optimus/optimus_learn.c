/* SPDX-License-Identifier: Apache-2.0 */
/* optimus_learn.c - what Optimus knows of jobs: reports as they came, and the models made of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/measure.h"
#include "policy/optimus/optimus.h"

enum { FADE = 16, FIRM = 4, TRUSTED_POINTS = 8, SEEN_WELL = 2, ASSUMED_POINTS = 5 };

#define NAME_UNKNOWN UINT32_MAX

struct record *learn_find(struct optimus *o, const struct job *job)
{
    int64_t at = job->word[WORD_RECORD];

    return at > 0 && at <= OPTIMUS_JOBS && o->records[at - 1].gen == job->gen && o->records[at - 1].used
               ? &o->records[at - 1]
               : NULL;
}

static struct record *make(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    struct optimus *o = ctx->state;
    uint32_t at = o->record_free;

    while (at < OPTIMUS_JOBS && o->records[at].used)
        at++;
    o->record_free = at;
    if (at == OPTIMUS_JOBS)
        return NULL;
    o->records[at] = (struct record){
        .used = 1, .job = index, .gen = view_job(ctx->view, index)->gen, .loss_stride = 1, .moved = -1
    };
    o->memos[at].kept = 0;
    o->memos[at].gen = UINT32_MAX;
    plan_word(plan, index, WORD_RECORD, at + 1);
    return &o->records[at];
}

static void note_speed(struct record *record, const struct report *report)
{
    struct seen_speed *s = record->speed;
    uint32_t i = 0;

    if (report->value[0] < 1 || report->value[0] > GANG_GPUS_MAX || report->value[1] < 0 ||
        report->value[1] > GANG_GPUS_MAX || report->value[2] <= 0 || report->value[2] > INT64_MAX / (2 * FADE))
        return; /* nothing that could have been measured */
    while (i < record->speed_count && (s[i].workers != report->value[0] || s[i].servers != report->value[1]))
        i++;
    if (i == SPEED_POINTS_MAX)
        return;
    if (i == record->speed_count) {
        record->speed_count++;
        s[i] = (struct seen_speed){ .workers = (int32_t)report->value[0], .servers = (int32_t)report->value[1] };
    }
    if (s[i].count == FADE) {
        s[i].sum /= 2;
        s[i].count /= 2;
    }
    s[i].sum += report->value[2];
    s[i].count++;
}

static void note_loss(struct record *record, const struct report *report)
{
    int64_t epoch = report->value[0], loss = report->value[1];
    uint32_t *count = &record->loss_count;

    if (epoch < 0)
        return;
    if (loss <= 0) { /* it tells how far it is, and nothing of its loss */
        record->epoch = epoch;
        return;
    }
    /* A crash has taken it back: what came after is to be seen again. */
    while (*count > 0 && record->loss_epoch[*count - 1] >= epoch)
        --*count;
    record->epoch = epoch;
    if (++record->loss_skipped < record->loss_stride)
        return;
    record->loss_skipped = 0;
    record->loss_kept++;
    if (*count == LOSS_POINTS_MAX) {
        for (uint32_t i = 0; i < LOSS_POINTS_MAX / 2; i++) {
            record->loss_epoch[i] = record->loss_epoch[2 * i];
            record->loss_value[i] = record->loss_value[2 * i];
        }
        *count = LOSS_POINTS_MAX / 2;
        record->loss_stride *= 2;
    }
    record->loss_epoch[*count] = epoch;
    record->loss_value[(*count)++] = loss;
}

void learn_moved(struct planner_ctx *ctx, uint32_t job)
{
    struct record *record = learn_find(ctx->state, view_job(ctx->view, job));

    if (record)
        record->moved = view_now(ctx->view);
}

bool learn_slow(const struct optimus *o, uint32_t gpu)
{
    for (int i = 0; i < OPTIMUS_SLOW; i++)
        if (o->slow[i] == gpu + 1)
            return true;
    return false;
}

/* Workers are reported one by one; with the last of a job they are held against each other. A pass is asked for where
 * one is slower than half the median. */
static void note_worker(struct planner_ctx *ctx, struct plan *plan, struct record *record, const struct report *report)
{
    struct optimus *o = ctx->state;

    if (o->worker_job != record->job)
        o->worker_count = 0;
    o->worker_job = record->job;
    if (o->worker_count == GANG_GPUS_MAX || report->value[1] <= 0 || report->value[0] < 0)
        return;
    o->worker_gpu[o->worker_count] = (uint32_t)report->value[0];
    o->worker[o->worker_count++] = (double)report->value[1];
    if (report->value[2] > 0)
        return;
    if (o->worker_count > 1 && ps_stragglers(o->worker, (int)o->worker_count, o->worker_slow) > 0) {
        for (uint32_t i = 0; i < o->worker_count; i++)
            if (o->worker_slow[i] && !learn_slow(o, o->worker_gpu[i]))
                o->slow[o->slow_next++ % OPTIMUS_SLOW] = o->worker_gpu[i] + 1;
        record->slow = 1;
        plan_wake(plan, view_now(ctx->view));
    }
    o->worker_count = 0;
}

void learn_report(struct planner_ctx *ctx, struct plan *plan, uint32_t index, const struct report *report)
{
    struct optimus *o = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    struct record *record = learn_find(o, job);

    /* Inside a guarantee nothing is learned from jobs that have no part in it. */
    if (job->spec.gpus_min == job->spec.gpus_max || (ctx->vc->own && job->klass == CLASS_OPPORTUNISTIC))
        return;
    if (!record)
        record = make(ctx, plan, index);
    if (!record)
        return;
    if (record->moved >= 0 && job->state == JOB_RUNNING && job->state_since >= record->moved) {
        o->cost_sum += job->state_since - record->moved;
        o->cost_count++;
        record->moved = -1;
    }
    /* Which GPU stands for which of a guarantee is not the policy's affair. */
    if (report->kind == MEASURE_WORKER && ctx->params[P_STRAGGLERS] && !ctx->vc->own)
        note_worker(ctx, plan, record, report);
    else if (report->kind == MEASURE_LOSS) {
        note_loss(record, report);
        if (job->spec.servers == 0 && report->value[2] != job->word[WORD_ALL])
            plan_word(plan, index, WORD_ALL, report->value[2] > 0 ? report->value[2] : 0);
    } else if (report->kind == (ctx->params[P_ORACLE] ? MEASURE_RATE : MEASURE_SPEED))
        note_speed(record, report);
}

/* ---- epochs of types ---- */

static struct type_epochs *type_find(struct optimus *o, uint32_t model, bool add)
{
    if (model == NAME_UNKNOWN)
        return NULL;
    for (uint32_t i = 0; i < o->type_count; i++)
        if (o->types[i].model == model)
            return &o->types[i];
    if (!add || o->type_count == OPTIMUS_TYPES)
        return NULL;
    o->types[o->type_count] = (struct type_epochs){ .model = model };
    return &o->types[o->type_count++];
}

void learn_ended(struct planner_ctx *ctx, uint32_t index)
{
    struct optimus *o = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    struct record *record = learn_find(o, job);
    struct type_epochs *type;

    if (!record)
        return;
    type = job->state == JOB_DONE && record->epoch > 0 ? type_find(o, job->spec.model, true) : NULL;
    if (type) {
        type->epochs += (record->epoch + 999) / 1000 * 1000; /* the last report was before the last epoch ended */
        type->count++;
    }
    record->used = 0;
    if (record - o->records < o->record_free)
        o->record_free = (uint32_t)(record - o->records);
}

/* ---- models ---- */

/* The curve of what was reported so far; NULL while there is none. */
static const struct loss_fit *curve_of(struct optimus *o, const struct record *record)
{
    struct memo *memo = &o->memos[record - o->records];
    struct loss_point points[LOSS_POINTS_MAX];

    if (record->loss_kept == 0)
        return NULL; /* the memo may be that of a state just loaded, which has none */
    if (memo->gen != record->gen || memo->kept != record->loss_kept) {
        for (uint32_t i = 0; i < record->loss_count; i++)
            points[i] = (struct loss_point){ (double)record->loss_epoch[i] / 1e3, (double)record->loss_value[i] / 1e9 };
        memo->failed = loss_fit(points, (int)record->loss_count, &memo->fit) < 0;
        memo->gen = record->gen;
        memo->kept = record->loss_kept;
    }
    return memo->failed ? NULL : &memo->fit;
}

static int64_t told_all(const struct job *job)
{
    return job->spec.servers == 0 ? job->word[WORD_ALL] : 0;
}

static double epochs_left(struct planner_ctx *ctx, const struct job *job, const struct record *record)
{
    struct optimus *o = ctx->state;
    struct type_epochs *type = type_find(o, job->spec.model, false);
    struct loss_rule rule = { .delta = (double)ctx->params[P_DELTA] / (double)PPM_ONE,
                              .epochs = (int)ctx->params[P_CALM],
                              .cap = (int)ctx->params[P_EPOCHS],
                              .blind = loss_rule_standard.blind };
    struct loss_known known = { .fit = curve_of(o, record),
                                .typical = type ? (double)type->epochs / 1e3 / type->count : 0 };

    /* Who says how much there is in all is believed: a curve tells when it converges, not when it ends. */
    if (told_all(job) > 0)
        return fmax((double)(told_all(job) - record->epoch) / 1e3, 1e-3);
    return loss_remaining(&known, &rule, (double)record->epoch / 1e3);
}

int32_t learn_servers(const struct job *job)
{
    return job->word[WORD_SERVERS] > 0 ? (int32_t)job->word[WORD_SERVERS] : job->spec.servers;
}

/* Nobody says whether a job with servers trains in step or not: the model that fits better does. */
static int fit_speed(const struct job *job, struct learned *l)
{
    struct speed_fit other;
    int r;

    if (job->spec.servers == 0)
        return speed_fit(SPEED_ALLREDUCE, job->spec.batch, l->points, l->count, &l->fit);
    r = speed_fit(SPEED_SYNC, job->spec.batch, l->points, l->count, &l->fit);
    if (speed_fit(SPEED_ASYNC, job->spec.batch, l->points, l->count, &other) == 0 &&
        (r < 0 || other.error < l->fit.error)) {
        l->fit = other;
        r = 0;
    }
    return r;
}

/* Where nothing measures other sizes in advance, as a simulation does, those nobody has seen are taken to be as fast as
 * Amdahl's law has it with a tenth that does not get faster, from the nearest size that was seen more than once. So a
 * job grows, and what it does there takes the place of what was assumed. */
static double assumed_speed(const struct learned *l, int count, int workers)
{
    const struct speed_point *near = NULL;

    for (int i = 0; i < count; i++)
        if (!near || abs(l->points[i].workers - workers) < abs(near->workers - workers))
            near = &l->points[i];
    return near->speed / (0.1 + 0.9 * near->workers / workers);
}

static void assume_sizes(const struct job *job, const struct record *record, struct learned *l)
{
    int32_t least = job->spec.gpus_min, steps = ASSUMED_POINTS - 1;
    int32_t span = job->spec.gpus_max - least > steps ? job->spec.gpus_max - least : steps; /* a fit takes several */
    int seen = l->count;
    bool well = false;

    for (int i = 0; i < seen; i++)
        well |= record->speed[i].count >= SEEN_WELL;
    if (!well || job->spec.servers > 0)
        return;
    for (int32_t i = 0; i <= steps && l->count < SPEED_POINTS_MAX; i++) {
        int32_t workers = least + span * i / steps, nodes = (workers + l->node_gpus - 1) / l->node_gpus;
        bool known = false;

        for (int k = 0; k < l->count; k++)
            known |= l->points[k].workers == workers;
        if (!known)
            l->points[l->count++] = (struct speed_point){ nodes, workers, assumed_speed(l, seen, workers) };
    }
}

void learn_model(struct planner_ctx *ctx, uint32_t index, struct learned *ret)
{
    struct optimus *o = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    const struct record *record = learn_find(o, job);
    uint32_t sku = job->gpus > 0 ? job->sku : 0;
    double scale = ctx->params[P_ORACLE] ? 1e6 : 1e9;

    *ret = (struct learned){ .servers = job->spec.servers,
                             .node_gpus = view_ledger(ctx->view)->topo.node_gpus_max[sku],
                             .early = true };
    if (!record)
        return;
    for (uint32_t i = 0; i < record->speed_count; i++) {
        const struct seen_speed *seen = &record->speed[i];

        ret->firm[i] = ctx->params[P_ORACLE] || seen->count >= FIRM;
        ret->points[ret->count++] =
            (struct speed_point){ seen->servers, seen->workers, (double)seen->sum / (double)seen->count / scale };
    }
    if (!ctx->params[P_ORACLE] && ret->count < ctx->params[P_SAMPLES])
        assume_sizes(job, record, ret);
    if (ret->count < ctx->params[P_SAMPLES] &&
        (job->spec.servers > 0 || ret->count < job->spec.gpus_max - job->spec.gpus_min + 1))
        return;
    if (fit_speed(job, ret) < 0)
        return;
    ret->usable = true;
    if (ctx->params[P_ORACLE]) {
        ret->left = fmax((double)job_remaining(job, view_now(ctx->view)) / (double)USEC_SEC, 1e-6);
        ret->early = false;
        return;
    }
    ret->left = epochs_left(ctx, job, record);
    ret->early = told_all(job) == 0 && (record->loss_count < TRUSTED_POINTS || !curve_of(o, record));
}

double learn_speed(const void *learned, int servers, int workers)
{
    const struct learned *l = learned;
    int beside = l->servers ? servers : (workers + l->node_gpus - 1) / l->node_gpus;

    for (int i = 0; i < l->count; i++)
        if (l->firm[i] && l->points[i].workers == workers && l->points[i].servers == beside)
            return l->points[i].speed;
    return speed_at(&l->fit, beside, workers);
}

double learn_cost(const struct optimus *o)
{
    return o->cost_count ? (double)o->cost_sum / (double)o->cost_count / (double)USEC_SEC : 0;
}
