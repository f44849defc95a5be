/* SPDX-License-Identifier: Apache-2.0 */
/* antman_user.c - the waiting jobs of each user, first come first, in lists through the jobs' own words.
 *
 * More users than the table has room for share entries, by the hash of their names: they then share a queue, not a
 * quota's worth of rights they do not have. Nothing of this is in a snapshot: after one the lists are built again.
 */
#include <string.h>

#include "base/rng.h"
#include "policy/antman/antman.h"

static uint32_t next_of(const struct job *job)
{
    return job->word[WORD_NEXT] > 0 ? (uint32_t)(job->word[WORD_NEXT] - 1) : JOB_NONE;
}

static uint32_t prev_of(const struct job *job)
{
    return job->word[WORD_PREV] > 0 ? (uint32_t)(job->word[WORD_PREV] - 1) : JOB_NONE;
}

int64_t antman_quota(const struct planner_ctx *ctx)
{
    return ctx->params[ANTMAN_QUOTA] ? ctx->params[ANTMAN_QUOTA] * MGPU_ONE : INT64_MAX;
}

struct antman_user *antman_user_of(struct antman *state, uint32_t name)
{
    uint32_t at = (uint32_t)(rng_mix(name) % ANTMAN_USERS);

    for (uint32_t i = 0; i < ANTMAN_USERS; i++, at = (at + 1) % ANTMAN_USERS) {
        struct antman_user *user = &state->users[at];

        if (user->taken && user->name == name)
            return user;
        if (user->taken)
            continue;
        *user = (struct antman_user){
            .name = name, .first = JOB_NONE, .last = JOB_NONE, .cursor = JOB_NONE, .taken = true
        };
        state->order[state->order_count++] = at;
        return user;
    }
    return &state->users[at];
}

/* Whether `a` comes before `b` in its user's list: by what never changes, so that it is the same when built again. */
static bool before(const struct job *a, const struct job *b)
{
    return a->spec.submit != b->spec.submit ? a->spec.submit < b->spec.submit : a->spec.id < b->spec.id;
}

/* As a rule the last to come is the last in line. -1 before the first marks who is in a list. */
void antman_link(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    struct antman_user *user = antman_user_of(ctx->state, job->spec.user);
    uint32_t at = user->last, behind;

    if (job->word[WORD_PREV] != 0)
        return;
    while (at != JOB_NONE && before(job, view_job(ctx->view, at)))
        at = prev_of(view_job(ctx->view, at));
    behind = at == JOB_NONE ? user->first : next_of(view_job(ctx->view, at));
    plan_word(plan, index, WORD_PREV, at == JOB_NONE ? -1 : (int64_t)at + 1);
    plan_word(plan, index, WORD_NEXT, behind == JOB_NONE ? 0 : (int64_t)behind + 1);
    if (at == JOB_NONE)
        user->first = index;
    else
        plan_word(plan, at, WORD_NEXT, (int64_t)index + 1);
    if (behind == JOB_NONE)
        user->last = index;
    else
        plan_word(plan, behind, WORD_PREV, (int64_t)index + 1);
}

void antman_unlink(struct planner_ctx *ctx, struct plan *plan, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);
    struct antman_user *user = antman_user_of(ctx->state, job->spec.user);
    uint32_t next = next_of(job), prev = prev_of(job);

    if (job->word[WORD_PREV] == 0)
        return;
    if (user->cursor == index)
        user->cursor = next;
    if (prev == JOB_NONE)
        user->first = next;
    else
        plan_word(plan, prev, WORD_NEXT, job->word[WORD_NEXT]);
    if (next == JOB_NONE)
        user->last = prev;
    else
        plan_word(plan, next, WORD_PREV, prev == JOB_NONE ? -1 : (int64_t)prev + 1);
    plan_word(plan, index, WORD_NEXT, 0);
    plan_word(plan, index, WORD_PREV, 0);
}

uint32_t antman_waiting(struct planner_ctx *ctx, struct plan *plan, uint32_t at)
{
    while (at != JOB_NONE) {
        const struct job *job = view_job(ctx->view, at);
        uint32_t next = next_of(job);

        if (job_waits(job->state) && job->klass != CLASS_OPPORTUNISTIC)
            break;
        antman_unlink(ctx, plan, at);
        at = next;
    }
    return at;
}

/* After a start, a snapshot or a change of the cluster. */
void antman_build(struct planner_ctx *ctx, struct plan *plan)
{
    struct antman *state = ctx->state;
    uint32_t top = core_job_top(ctx->view->core);

    if (state->built)
        return;
    state->built = true;
    state->order_count = 0;
    memset(state->users, 0, sizeof(state->users));
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < top; i++) {
            const struct job *job = view_job(ctx->view, i);

            /* Jobs without GPUs are not the policy's. */
            if (job->state == JOB_FREE || job->spec.gpus == 0 || &ctx->vc[0] != core_vc(ctx->view->core, job->vc))
                continue;
            if (round == 0 && (job->word[WORD_NEXT] || job->word[WORD_PREV])) {
                plan_word(plan, i, WORD_NEXT, 0);
                plan_word(plan, i, WORD_PREV, 0);
            } else if (round == 1 && job_waits(job->state) && job->klass != CLASS_OPPORTUNISTIC) {
                antman_link(ctx, plan, i);
            }
        }
}

/* What each user has of guaranteed GPUs, and nobody tried yet. */
void antman_count(struct planner_ctx *ctx)
{
    struct antman *state = ctx->state;

    for (uint32_t i = 0; i < state->order_count; i++) {
        struct antman_user *user = &state->users[state->order[i]];
        uint32_t at = i, slot = state->order[i];

        /* By name, whoever came first: the same after a restart. */
        for (; at > 0 && state->users[state->order[at - 1]].name > user->name; at--)
            state->order[at] = state->order[at - 1];
        state->order[at] = slot;
        user->used = 0;
        user->tried = 0;
        user->done = user->gathers = false;
        user->cursor = user->first;
    }
    for (uint32_t i = ctx->vc->run_first; i != JOB_NONE; i = view_job(ctx->view, i)->next) {
        const struct job *job = view_job(ctx->view, i);

        if (job->klass != CLASS_OPPORTUNISTIC)
            antman_user_of(state, job->spec.user)->used += (int64_t)job->gpus * job->spec.share;
    }
}
