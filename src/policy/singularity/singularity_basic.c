/* SPDX-License-Identifier: Apache-2.0 */
/* singularity_basic.c - jobs that nothing was promised: the least size for everybody who waits, in order of arrival;
 * then they grow in that order into what is left. */
#include <errno.h>

#include "policy/singularity/singularity.h"

/* The least of a waiting job that nothing was promised, on the first home with room; then as large as fits there. */
static int start_basic(struct planner_ctx *ctx, struct plan *plan, uint32_t index, int32_t spare)
{
    const struct job *job = view_job(ctx->view, index);
    uint32_t types = ctx->vc->queue.shapes[job->shape].shape.sku_mask;
    struct placement to;
    int r = -EBUSY;

    if (job->spec.share < MGPU_ONE || !job_plain(job)) {
        r = plan_find(plan, plan_shape(plan, index), &to);
        return r == 0 ? plan_start(plan, index, &to) : r;
    }
    for (int32_t home = 0; r < 0 && home < (int32_t)home_count(ctx); home++) {
        struct item item = { .job = index, .at = job, .home = home, .world = job->spec.gpus };
        int32_t room = home_room(ctx, plan, home, job->klass), least = size_least(ctx, &job->spec);

        if (!(types >> home_sku(ctx, home) & 1) || room < least)
            continue;
        room = least + spare < room ? least + spare : room;
        for (int32_t n = size_fit(ctx, &job->spec, room); r < 0 && n > 0; n = size_fit(ctx, &job->spec, n - 1))
            r = stand_start(ctx, plan, &item, n);
    }
    return r;
}

/* GPUs that are free and not asked for by the least sizes of those that wait: by how much each may start larger. Looks
 * no further than there are GPUs. */
static int32_t spare_of(struct planner_ctx *ctx, const struct plan *plan)
{
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    int64_t free = 0, asked = 0;

    for (int32_t home = 0; home < (int32_t)home_count(ctx); home++)
        free += home_room(ctx, plan, home, CLASS_GUARANTEED);
    for (uint32_t k = 0; k < queue->live_count && asked < free; k++) {
        uint32_t root = queue->shapes[queue->live[k]].root;

        if (!plan_considers(plan, &queue->shapes[queue->live[k]]))
            continue; /* those who come after everybody else leave nobody less */
        for (uint32_t i = tree_first(tree, root); i != TREE_NONE && asked < free;
             i = tree_after(tree, root, &tree[i].rank))
            if (!floor_promised(view_job(ctx->view, i)))
                asked += size_least(ctx, &view_job(ctx->view, i)->spec);
    }
    return asked < free ? (int32_t)(free - asked) : 0;
}

/* Waiting jobs that nothing was promised, in order, one a call. They come last in the tree of each shape. */
static void basics_begin(struct planner_ctx *ctx, const struct plan *plan)
{
    struct singularity *s = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);

    for (uint32_t k = 0; k < queue->live_count; k++) {
        const struct shape_class *cls = &queue->shapes[queue->live[k]];
        uint32_t i = plan_considers(plan, cls) ? tree_first(tree, cls->root) : TREE_NONE;

        while (i != TREE_NONE && floor_promised(view_job(ctx->view, i)))
            i = tree_after(tree, cls->root, &tree[i].rank);
        s->cursor[queue->live[k]] = i;
    }
}

static uint32_t basics_next(struct planner_ctx *ctx)
{
    struct singularity *s = ctx->state;
    const struct queue *queue = &ctx->vc->queue;
    const struct tree_node *tree = view_tree(ctx->view);
    uint32_t best = TREE_NONE, from = 0;

    for (uint32_t k = 0; k < queue->live_count; k++) {
        uint32_t job = s->cursor[queue->live[k]];

        if (job == TREE_NONE || (best != TREE_NONE && !rank_before(&tree[job].rank, &tree[best].rank)))
            continue;
        best = job;
        from = queue->live[k];
    }
    if (best != TREE_NONE)
        s->cursor[from] = tree_after(tree, queue->shapes[from].root, &tree[best].rank);
    return best;
}

/* Whether there is anything to give: whole GPUs, or parts of some. */
static bool anything_left(const struct planner_ctx *ctx, const struct plan *plan)
{
    for (int32_t home = 0; home < (int32_t)home_count(ctx); home++)
        if (home_room(ctx, plan, home, CLASS_GUARANTEED) > 0 || home_room(ctx, plan, home, CLASS_OPPORTUNISTIC) > 0 ||
            view_free_mgpu(ctx->view, home_sku(ctx, home)) % MGPU_ONE != 0)
            return true;
    return false;
}

/* Where one could not start, no other of its shape can that needs as much. */
void basics_start(struct planner_ctx *ctx, struct plan *plan)
{
    struct singularity *s = ctx->state;
    int32_t spare;
    uint32_t job;

    if (!anything_left(ctx, plan))
        return;
    spare = spare_of(ctx, plan);
    basics_begin(ctx, plan);
    while (anything_left(ctx, plan) && (job = basics_next(ctx)) != TREE_NONE) {
        const struct job *j = view_job(ctx->view, job);
        uint32_t shape = j->shape;
        int32_t least = size_least(ctx, &j->spec);

        if (start_basic(ctx, plan, job, spare) < 0) {
            if (least == 1 || least == j->spec.gpus)
                s->cursor[shape] = TREE_NONE;
            continue;
        }
        spare -= j->gpus > least ? j->gpus - least : 0;
    }
}

/* Basic jobs that run below their size, in order of arrival. */
void basics_grow(struct planner_ctx *ctx, struct plan *plan)
{
    struct singularity *s = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->item_count; i++)
        if (s->items[i].tier == TIER_BASIC && s->items[i].idle && s->items[i].gpus < s->items[i].world &&
            rested(ctx, s->items[i].at))
            s->order[count++] = i;
    order_sort(ctx, count, false);
    for (uint32_t i = 0; i < count; i++) {
        struct item *item = &s->items[s->order[i]];
        const struct job *job = item->at;
        int32_t room = home_room(ctx, plan, item->home, job->klass), n = size_fit(ctx, &job->spec, item->gpus + room);

        if (n > item->gpus)
            (void)stand_grow(ctx, plan, item, n);
    }
}
