/* SPDX-License-Identifier: Apache-2.0 */
/* singularity_take.c - whose GPUs a promised job gets: who may be made smaller or stopped for it, and back. */
#include <errno.h>

#include "policy/singularity/singularity.h"

/* Since when nothing was done to its size. */
usec_t settled_since(const struct job *job)
{
    return job->disturbed > job->last_start ? job->disturbed : job->last_start;
}

bool rested(const struct planner_ctx *ctx, const struct job *job)
{
    return view_now(ctx->view) - settled_since(job) >= ctx->params[P_REST];
}

/* Whether it can be stopped at all. One that has not begun yet gives way to an arrival only, and to one that grows only
 * who has had its time: else two could take from each other for ever. */
static bool may_fall(const struct planner_ctx *ctx, const struct item *item, enum turn turn)
{
    const struct job *job = item->at;

    if (item->gpus == 0 || job->planned || job->sheds || !job_holds(job->state))
        return false;
    if (item->tier != TIER_BASIC)
        return item->idle;
    if (view_now(ctx->view) - job->last_start < YOUNG)
        return false;
    return turn == TURN_ARRIVAL || (job->state != JOB_CLAIMING && (turn == TURN_ALARM || rested(ctx, job)));
}

/* Where a job wants its GPUs in a certain way only a try tells whether there is room: then nobody is made smaller for
 * it, which could not be taken back. */
static void fill_victims(struct planner_ctx *ctx, const struct item *for_whom, enum turn turn, uint32_t *count)
{
    struct singularity *s = ctx->state;
    bool plain = job_plain(for_whom->at);

    *count = 0;
    for (uint32_t i = 0; i < s->item_count; i++) {
        const struct item *item = &s->items[i];
        const struct job *job = item->at;

        if (item->home != for_whom->home || !may_fall(ctx, item, turn))
            continue;
        s->victims[(*count)++] = (struct reclaim_job){ .spec = &job->spec,
                                                       .job = i,
                                                       .gpus = item->gpus,
                                                       .slack = item->spare,
                                                       .tier = item->tier,
                                                       .fixed = !plain || !item->idle || !ctx->params[P_SPLICE] ||
                                                                (turn != TURN_ALARM && !rested(ctx, job)) };
    }
}

/* Carries one out. GPUs that come free. */
static int32_t take_from(struct planner_ctx *ctx, struct plan *plan, const struct reclaim_job *victim)
{
    struct singularity *s = ctx->state;
    struct item *item = &s->items[victim->job];
    struct placement to;

    if (victim->then > 0 && stand_less(ctx, item->job, victim->then, &to) == 0 &&
        plan_splice(plan, item->job, &to) == 0) {
        s->shrinks++;
        item->idle = false;
        item->gpus = victim->then;
        return victim->gpus - victim->then;
    }
    /* One that stands on a closed node cannot be told to stay there in part. */
    if (victim->then > 0 && item->tier != TIER_BASIC)
        return 0;
    if (plan_stop(plan, item->job, STOP_CHECKPOINT) < 0)
        return 0;
    s->preemptions++;
    s->stopped[s->stopped_count++] = (struct undo){ victim->job, victim->gpus };
    item->idle = false;
    item->gpus = 0;
    item->done = true;
    return victim->gpus;
}

/* It was for nothing: those that were stopped stay. */
void take_back(struct planner_ctx *ctx, struct plan *plan)
{
    struct singularity *s = ctx->state;

    while (s->stopped_count) {
        const struct undo *undo = &s->stopped[--s->stopped_count];
        struct item *item = &s->items[undo->item];

        if (plan_keep(plan, item->job) < 0)
            continue;
        s->preemptions--;
        item->gpus = undo->gpus;
        item->done = false;
        item->idle = item->at->state == JOB_RUNNING;
    }
}

/* Leaves out those without whom the groups are whole all the same. */
static void leave_out(struct planner_ctx *ctx, const struct jobspec *spec, const struct item *item, uint32_t count,
                      const int32_t gpus[2])
{
    struct singularity *s = ctx->state;
    int32_t got = 0;

    for (uint32_t i = 0; i < count; i++)
        got += s->victims[i].gpus - s->victims[i].then;
    for (uint32_t i = count; i-- > 0;) {
        struct reclaim_job *victim = &s->victims[i];
        int32_t then = victim->then, gives = victim->gpus - then;

        if (gives == 0 || got - gives < gpus[1])
            continue;
        victim->then = victim->gpus;
        if (stand_groups(ctx, spec, item->home, gpus[0], count))
            got -= gives;
        else
            victim->then = then;
    }
}

/* Of many jobs that ask alike in one pass the first is told no, and the others hear of it. */
static bool known_vain(const struct planner_ctx *ctx, const struct item *item, int32_t need, enum turn turn,
                       const struct reclaim_rules *rules)
{
    const struct singularity *s = ctx->state;
    const struct reclaim_rules *was = &s->vain.rules;

    return s->vain.need && need >= s->vain.need && s->vain.home == item->home && s->vain.turn == turn &&
           s->vain.plain == job_plain(item->at) && was->outage == rules->outage && was->lowest == rules->lowest &&
           was->stops == rules->stops && was->floor_gpus == rules->floor_gpus && was->floor_world == rules->floor_world;
}

static void note_vain(struct planner_ctx *ctx, const struct item *item, int32_t need, enum turn turn,
                      const struct reclaim_rules *rules)
{
    struct singularity *s = ctx->state;

    s->vain.rules = *rules;
    s->vain.home = item->home;
    s->vain.need = need;
    s->vain.turn = (uint8_t)turn;
    s->vain.plain = job_plain(item->at);
}

static int32_t take_all(struct planner_ctx *ctx, struct plan *plan, uint32_t count)
{
    struct singularity *s = ctx->state;
    int32_t got = 0;

    s->vain.need = 0;
    for (uint32_t i = 0; i < count; i++)
        if (s->victims[i].then != s->victims[i].gpus)
            got += take_from(ctx, plan, &s->victims[i]);
    s->taken |= got > 0;
    return got;
}

/* There are GPUs enough, and no groups: somebody else is moved, once those have left who must. */
static int take_and_mend(struct planner_ctx *ctx, struct plan *plan, const struct item *item, int32_t need,
                         const struct reclaim_rules *rules)
{
    struct singularity *s = ctx->state;
    uint32_t count = 0;
    struct mend mend;
    bool found;

    if (view_ledger(ctx->view)->topo.node_count > GAIN_NODES ||
        item->spare > ctx->params[P_GUARD] + ctx->params[P_OUTAGE])
        return -EBUSY;
    fill_victims(ctx, item, item->gpus == 0 ? TURN_ARRIVAL : TURN_ALARM, &count);
    if (need > 0 && reclaim_choose(s->victims, count, need, rules) < 0)
        return -EBUSY;
    count = need > 0 ? count : 0;
    stand_gain(ctx, count, 1);
    found = mend_find(ctx, item, rules, &mend);
    stand_gain(ctx, count, -1);
    if (!found)
        return -EBUSY;
    if (need <= 0)
        return mend_move(ctx, plan, &mend);
    (void)take_all(ctx, plan, count);
    return -EAGAIN;
}

/* Makes room for a job to have gpus[0] more, gpus[1] beyond what is there. -EBUSY: nobody was touched. Where groups
 * must not be torn apart, more are asked for until some of what comes free lies together. */
int take_room(struct planner_ctx *ctx, struct plan *plan, const struct item *item, const int32_t gpus[2],
              const struct reclaim_rules *rules)
{
    struct singularity *s = ctx->state;
    const struct jobspec *spec = &item->at->spec;
    enum turn turn = item->gpus == 0 ? TURN_ARRIVAL : item->spare <= ctx->params[P_GUARD] ? TURN_ALARM : TURN_GROW;
    int32_t need = gpus[1] > 0 ? gpus[1] : 0;
    uint32_t count = 0;

    if (need == 0 && stand_groups(ctx, spec, item->home, gpus[0], 0))
        return 0;
    if (plan_borrows(plan))
        return -EBUSY; /* only within what is owed */
    if (known_vain(ctx, item, need, turn, rules))
        return -EBUSY;
    fill_victims(ctx, item, turn, &count);
    for (int32_t more = need ? need : 1;; more += more / 2 + 1) {
        if (reclaim_choose(s->victims, count, more, rules) < 0) {
            if (more != need)
                return take_and_mend(ctx, plan, item, need, rules);
            note_vain(ctx, item, need, turn, rules);
            return -EBUSY;
        }
        if (stand_groups(ctx, spec, item->home, gpus[0], count))
            break;
    }
    if (spec->tp > 1)
        leave_out(ctx, spec, item, count, gpus);
    return take_all(ctx, plan, count) >= need ? 0 : -EBUSY;
}
