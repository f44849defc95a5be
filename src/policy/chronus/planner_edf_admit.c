/* SPDX-License-Identifier: Apache-2.0 */
/* planner_edf_admit.c - earliest deadline first, for deadlines that were found to be possible when the job came.
 *
 * On arrival everybody who was promised a deadline, and the new job, are played forward: earliest deadline first,
 * passing over who does not fit, by counting GPUs. If all of them end in time the first deadline of the new job is
 * promised; else it is told when it would have ended and runs behind everybody with a promise. Running is what the
 * preemptive list does.
 *
 * What it does not see: where GPUs lie, what interruptions cost, and that estimates are wrong. Its promises break by
 * these, and are reported broken.
 */
#include <assert.h>
#include <stddef.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/chronus/edf.h"
#include "policy/list.h"
#include "policy/planner/planner_list.h"

enum { EDF_JOBS = 4096 };

/* The list planner's own knobs come first. */
enum { P_MODE, P_UNPLACED, P_SAFETY };

struct player {
    usec_t left, due;
    int32_t gpus;
    uint32_t next; /* of those that have not ended, by deadline */
};

struct edf {
    struct walk walk; /* the list planner's; first, for it is given this state */
    uint32_t count;
    struct job_ref promised[EDF_JOBS]; /* by deadline */
    struct player players[EDF_JOBS + 1];
};

static usec_t left_of(const struct planner_ctx *ctx, const struct job *job)
{
    usec_t all = muldiv_ceil(job->spec.estimate, ctx->params[P_SAFETY], PPM_ONE);
    usec_t done = job_progress(job, view_now(ctx->view));

    return all > done ? all - done : 1;
}

static void forget_ended(struct planner_ctx *ctx, struct edf *edf)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < edf->count; i++)
        if (view_job(ctx->view, edf->promised[i].index)->gen == edf->promised[i].gen)
            edf->promised[kept++] = edf->promised[i];
    edf->count = kept;
}

/* Everybody with a promise and, if `with`, the new job, by deadline; the new one's place. */
static uint32_t line_up(struct planner_ctx *ctx, struct edf *edf, uint32_t job, bool with)
{
    const struct job *fresh = view_job(ctx->view, job);
    uint32_t at = edf->count, place;

    while (at > 0 &&
           view_job(ctx->view, edf->promised[at - 1].index)->spec.deadlines[0].at > fresh->spec.deadlines[0].at)
        at--;
    place = with ? at : EDF_JOBS + 1;
    for (uint32_t i = 0; i < edf->count + with; i++) {
        const struct job *j = i == place ? fresh : view_job(ctx->view, edf->promised[i - (i > place)].index);

        edf->players[i] = (struct player){ left_of(ctx, j), j->spec.deadlines[0].at, jobspec_gpus(&j->spec), i + 1 };
    }
    return place;
}

/* Those at the front of the line that fit: how long until the first of them ends. */
static usec_t next_end(const struct edf *edf, uint32_t first, uint32_t count, int64_t room)
{
    usec_t step = USEC_NEVER;

    for (uint32_t i = first; i < count && room > 0; i = edf->players[i].next)
        if (edf->players[i].gpus <= room) {
            room -= edf->players[i].gpus;
            step = edf->players[i].left < step ? edf->players[i].left : step;
        }
    return step;
}

/* Plays it to the end: how many are late; and when the player of this number ends. */
static uint32_t play(const struct planner_ctx *ctx, struct edf *edf, uint32_t count, uint32_t watched, usec_t *ret_end)
{
    uint32_t first = 0, late = 0;
    usec_t now = view_now(ctx->view);
    int64_t room = 0;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        room += view_total(ctx->view, sku);
    while (first < count) {
        usec_t step = next_end(edf, first, count, room);
        uint32_t *link = &first;
        int64_t free = room;

        if (step == USEC_NEVER)
            return UINT32_MAX; /* more GPUs than there are */
        now += step;
        for (uint32_t i = first; i < count && free > 0; i = *link) {
            struct player *p = &edf->players[i];

            if (p->gpus <= free) {
                free -= p->gpus;
                p->left -= step;
            }
            if (p->left > 0) {
                link = &p->next;
                continue;
            }
            late += now > p->due;
            if (i == watched)
                *ret_end = now;
            *link = p->next;
        }
    }
    return late;
}

/* Whether the new job would be in time, and nobody late who would not be late without it. */
static bool possible(struct planner_ctx *ctx, struct edf *edf, uint32_t job, uint32_t *ret_place, usec_t *ret_end)
{
    uint32_t late;
    usec_t unused;

    *ret_place = line_up(ctx, edf, job, true);
    late = play(ctx, edf, edf->count + 1, *ret_place, ret_end);
    if (late == 0)
        return true;
    if (*ret_end > view_job(ctx->view, job)->spec.deadlines[0].at)
        return false;
    (void)line_up(ctx, edf, job, false);
    return late <= play(ctx, edf, edf->count, UINT32_MAX, &unused);
}

/* When it would end behind everybody with a promise. */
static usec_t earliest(struct planner_ctx *ctx, struct edf *edf, uint32_t job)
{
    const struct job *j = view_job(ctx->view, job);
    usec_t end = USEC_NEVER;

    (void)line_up(ctx, edf, job, false);
    edf->players[edf->count] = (struct player){ left_of(ctx, j), USEC_NEVER, jobspec_gpus(&j->spec), edf->count + 1 };
    (void)play(ctx, edf, edf->count + 1, edf->count, &end);
    return end;
}

static void edf_queued(struct planner_ctx *ctx, struct plan *plan, uint32_t job)
{
    struct edf *edf = ctx->state;
    const struct job *j = view_job(ctx->view, job);
    usec_t end = USEC_NEVER;
    uint32_t place;

    if (j->word[EDF_WORD] != EDF_NEW || !j->spec.deadline_count)
        return;
    forget_ended(ctx, edf);
    if (edf->count < EDF_JOBS && j->spec.estimate && j->spec.share == MGPU_ONE) {
        if (possible(ctx, edf, job, &place, &end)) {
            for (uint32_t i = edf->count++; i > place; i--)
                edf->promised[i] = edf->promised[i - 1];
            edf->promised[place] = (struct job_ref){ job, j->gen };
            plan_word(plan, job, EDF_WORD, EDF_PROMISED);
            plan_promise(plan, job, j->spec.deadlines[0].at);
            return;
        }
        end = earliest(ctx, edf, job);
    }
    plan_word(plan, job, EDF_WORD, EDF_DECLINED);
    plan_decline(plan, job, end);
    plan_rekey(plan, job);
}

static void edf_plan(struct planner_ctx *ctx, struct plan *plan)
{
    planner_list_preempt.plan(ctx, plan);
}

static const char *const mode_choices[] = { "strict", "skip", "preempt", NULL };
static const char *const unplaced_choices[] = { "pass", "hold", NULL };

static const struct param edf_params[] = {
    [P_MODE] = { "mode", "what happens at a job that does not fit", PARAM_CHOICE, 2, 0, 2, mode_choices },
    [P_UNPLACED] = { "unplaced", "preempt: a chosen job that finds no place is passed over, or GPUs are held for it",
                     PARAM_CHOICE, 0, 0, 1, unplaced_choices },
    [P_SAFETY] = { "safety", "margin on estimates of run time", PARAM_RATIO, 1100000, PPM_ONE, 10 * PPM_ONE, NULL },
    { 0 },
};

const struct planner_ops planner_edf_admit = {
    .name = "edf-admit",
    .summary = "the preemptive list, and deadlines promised when they come",
    .params = edf_params,
    .state_size = sizeof(struct edf),
    .kept_size = offsetof(struct edf, players),
    .run_order = RUN_BY_KEY,
    .sides = true,
    .plan = edf_plan,
    .queued = edf_queued,
};
