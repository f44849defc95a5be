/* SPDX-License-Identifier: Apache-2.0 */
/* gandiva_servers.c - which server a job goes to.
 *
 * Servers that are alike (type, affinity, load, room, GPUs of the virtual cluster's own jobs) are told apart by their
 * numbers alone, and there are few kinds of them however many servers there are. So a pass that looks more than a few
 * times files them by kind, each kind a tree by number, and looks at kinds from then on; whoever changes what is known
 * of a server files it anew. What is found is what looking at every server would have found.
 */
#include <string.h>

#include "policy/gandiva/gandiva.h"

/* Filing costs as much as so many looks at every server. */
enum { LOOKS_FIRST = 12 };

struct wanted {
    int32_t width;
    bool crowded;
    const int64_t *here; /* of the server it would leave; NULL: it comes from the queue */
};

/* 1 to 4; 0: not for this job. */
static int class_of(const struct planner_ctx *ctx, const int64_t *words, const struct wanted *wanted)
{
    int32_t width = wanted->width;

    if (words[N_ROOM] < width)
        return 0;
    if (words[N_ROOM] - words[N_LOAD] >= width)
        return words[N_AFFINITY] == width ? 1 : words[N_AFFINITY] == 0 ? 2 : 3;
    if (!wanted->crowded || words[N_MINE] < width)
        return 0;
    return words[N_AFFINITY] == width || gandiva_any(ctx) ? 4 : 0;
}

/* Whether it would still be less crowded there than here; 1, or 0. */
static int calmer(const struct planner_ctx *ctx, const int64_t *words, const struct wanted *wanted)
{
    const int64_t *here = wanted->here;
    int32_t width = wanted->width;

    return (words[N_AFFINITY] == here[N_AFFINITY] || gandiva_any(ctx)) && words[N_ROOM] >= width &&
           words[N_MINE] >= width && (words[N_LOAD] + width) * here[N_ROOM] < here[N_LOAD] * words[N_ROOM];
}

static int rate(const struct planner_ctx *ctx, const int64_t *words, const struct wanted *wanted)
{
    return wanted->here ? calmer(ctx, words, wanted) : class_of(ctx, words, wanted);
}

/* The best so far: by class, by load, by number. */
struct best {
    uint32_t node;
    int class;
    int64_t load, room;
};

static void offer(struct best *best, uint32_t node, int class, const int64_t *words)
{
    int64_t mine = words[N_LOAD] * best->room, other = best->load * words[N_ROOM];

    if (class == 0 || class > best->class)
        return;
    if (class == best->class && (mine > other || (mine == other && node > best->node)))
        return;
    *best = (struct best){ node, class, words[N_LOAD], words[N_ROOM] };
}

/* ---- by kind ---- */

static uint32_t hash(const struct server_kind *kind)
{
    uint64_t h = kind->sku;

    for (int i = 0; i < N_SUSPENDED; i++)
        h = (h ^ (uint64_t)kind->words[i]) * 0x9E3779B97F4A7C15U;
    return (uint32_t)(h >> 40) % KIND_SLOTS;
}

/* Where the kind is, or could be; UINT32_MAX: there are too many. */
static uint32_t kind_find(struct gandiva *g, const struct server_kind *kind)
{
    uint32_t slot = hash(kind);

    for (; g->kind_at[slot]; slot = (slot + 1) % KIND_SLOTS) {
        const struct server_kind *there = &g->kinds[g->kind_at[slot] - 1];

        if (there->sku == kind->sku && memcmp(there->words, kind->words, sizeof(kind->words)) == 0)
            return g->kind_at[slot] - 1;
    }
    if (g->kind_count == KINDS_MAX)
        return UINT32_MAX;
    g->kinds[g->kind_count] = *kind;
    g->kinds[g->kind_count].root = TREE_NONE;
    g->kind_at[slot] = (uint16_t)++g->kind_count;
    return g->kind_count - 1;
}

static bool file(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node)
{
    struct gandiva *g = ctx->state;
    struct server_kind kind = { .sku = view_ledger(ctx->view)->topo.nodes[node].sku };
    uint32_t at;

    memcpy(kind.words, gandiva_node(ctx, plan, node), sizeof(kind.words));
    at = kind_find(g, &kind);
    if (at == UINT32_MAX)
        return false;
    g->kind_of[node] = (uint16_t)at;
    g->servers[node] = (struct tree_node){ .rank = { .id = node } };
    tree_insert(g->servers, &g->kinds[at].root, node);
    return true;
}

static void file_all(const struct planner_ctx *ctx, const struct plan *plan)
{
    struct gandiva *g = ctx->state;
    uint32_t count = view_ledger(ctx->view)->topo.node_count;

    g->filed = count <= POOL_NODES_MAX;
    g->kind_count = 0;
    memset(g->kind_at, 0, sizeof(g->kind_at));
    for (uint32_t n = 0; n < count && g->filed; n++)
        g->filed = file(ctx, plan, n);
}

void servers_forget(const struct planner_ctx *ctx)
{
    struct gandiva *g = ctx->state;

    g->filed = false;
    g->looks = 0;
}

void servers_changed(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node)
{
    struct gandiva *g = ctx->state;

    if (!g->filed)
        return;
    tree_remove(g->servers, &g->kinds[g->kind_of[node]].root, node);
    g->filed = file(ctx, plan, node);
}

/* ---- looking ---- */

/* Among those of the types in the mask. */
static uint32_t look(const struct planner_ctx *ctx, const struct plan *plan, const struct wanted *wanted, uint32_t mask)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    struct gandiva *g = ctx->state;
    struct best best = { UINT32_MAX, 6, 0, 1 };

    if (!g->filed && ++g->looks == LOOKS_FIRST)
        file_all(ctx, plan);
    for (uint32_t k = 0; g->filed && k < g->kind_count; k++) {
        const struct server_kind *kind = &g->kinds[k];
        int class = kind->root != TREE_NONE && mask >> kind->sku & 1 ? rate(ctx, kind->words, wanted) : 0;

        if (class)
            offer(&best, tree_first(g->servers, kind->root), class, kind->words);
    }
    for (uint32_t n = 0; !g->filed && n < topo->node_count; n++)
        if (mask >> topo->nodes[n].sku & 1) {
            const int64_t *words = gandiva_node(ctx, plan, n);

            offer(&best, n, rate(ctx, words, wanted), words);
        }
    return best.node;
}

uint32_t gandiva_server(const struct planner_ctx *ctx, const struct plan *plan, int32_t width, uint32_t sku,
                        bool crowded)
{
    return look(ctx, plan, &(struct wanted){ width, crowded, NULL }, 1U << sku);
}

uint32_t gandiva_calmer(const struct planner_ctx *ctx, const struct plan *plan, uint32_t index, uint32_t from)
{
    uint32_t mask = 0;

    for (uint32_t sku = 0; sku < view_sku_count(ctx->view); sku++)
        mask |= (uint32_t)gandiva_roams(ctx, index, sku) << sku;
    return look(ctx, plan, &(struct wanted){ view_job(ctx->view, index)->gpus, true, gandiva_node(ctx, plan, from) },
                mask);
}
