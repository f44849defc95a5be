/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - see ledger.h. */
#include <assert.h>
#include <errno.h>

#include "base/rng.h"
#include "core/ledger/ledger_internal.h"

static bool is_free(const struct gpu *gpu)
{
    return gpu->used == 0 && !gpu->bad && gpu->reserved_for == JOB_NONE;
}

bool ledger_whole(const struct ledger *ledger, uint32_t gpu)
{
    const struct gpu *g = &ledger->gpus[gpu];

    return is_free(g) && ledger->topo.nodes[g->node].up;
}

static uint32_t empty_count(const struct ledger *ledger, uint32_t sku, bool up)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++) {
        const struct gpu *gpu = &ledger->gpus[g];
        const struct node *node = &ledger->topo.nodes[gpu->node];
        uint32_t s = gpu->shares;

        while (s != SHARE_NONE && (ledger->shares[s].leaving || ledger->shares[s].off))
            s = ledger->shares[s].next_of_gpu;
        count += node->sku == sku && (node->up && !gpu->bad) == up && s == SHARE_NONE;
    }
    return count;
}

uint32_t ledger_empty(const struct ledger *ledger, uint32_t sku)
{
    return empty_count(ledger, sku, true);
}

uint32_t ledger_empty_down(const struct ledger *ledger, uint32_t sku)
{
    return empty_count(ledger, sku, false);
}

/* Books a change of freeness in the cells below the node, then in the node and all above it. */
static void count_free(struct ledger *ledger, const struct gpu *gpu, bool free)
{
    struct topo *topo = &ledger->topo;
    struct node *node = &topo->nodes[gpu->node];

    for (uint32_t c = gpu->group; c != node->cell; c = topo->cells[c].parent)
        topo->cells[c].free = free ? topo->cells[c].free + 1 : topo->cells[c].free - 1;
    topo_node_free(topo, gpu->node, (uint16_t)(free ? node->free + 1 : node->free - 1));
    if (free)
        ledger->releases++;
}

/* A GPU of which part is given away is open to further shares; the tree knows how much is left of each. */
static void open_update(struct ledger *ledger, uint32_t index, mgpu_t was)
{
    const struct gpu *gpu = &ledger->gpus[index];
    uint32_t *root = &ledger->open_trees[ledger->topo.nodes[gpu->node].sku];
    struct tree_node *t = &ledger->open_nodes[index];

    if (gpu->bound)
        return;
    if (was > 0 && was < MGPU_ONE)
        tree_remove(ledger->open_nodes, root, index);
    if (gpu->used > 0 && gpu->used < MGPU_ONE) {
        t->rank = (struct rank){ .key = MGPU_ONE - gpu->used, .id = index };
        t->weight = MGPU_ONE - gpu->used;
        tree_insert(ledger->open_nodes, root, index);
    }
}

/* Nobody owns any of it, but guests are there. */
static bool is_lone(const struct gpu *gpu)
{
    return gpu->used == 0 && gpu->guests > 0;
}

void ledger_count_guest(struct ledger *ledger, uint32_t index, int sign)
{
    struct gpu *gpu = &ledger->gpus[index];
    bool was = is_lone(gpu);

    gpu->guests = (uint8_t)(gpu->guests + sign);
    ledger->lone += (uint32_t)is_lone(gpu) - (uint32_t)was;
}

void ledger_count_share(struct ledger *ledger, const struct share *share, int sign)
{
    uint32_t index = share->gpu;
    struct gpu *gpu = &ledger->gpus[index];
    bool was_free = is_free(gpu), was_lone = is_lone(gpu);
    mgpu_t was = gpu->used, used = was + (share->role == ROLE_OWNER ? sign * share->amount : 0);

    assert(used >= 0);
    assert(used <= MGPU_ONE);
    assert(sign > 0 || gpu->memory >= share->memory);
    gpu->used = used;
    ledger->lone += (uint32_t)is_lone(gpu) - (uint32_t)was_lone;
    gpu->memory = sign > 0 ? gpu->memory + share->memory : gpu->memory - share->memory;
    open_update(ledger, index, was);
    if (used == 0 && sign < 0) /* of a snapshot the packed share may come first, and its owner after it */
        gpu->bound = false;
    if (used < was)
        ledger->releases++;
    if (is_free(gpu) != was_free)
        count_free(ledger, gpu, !was_free);
}

bool ledger_memory_fits(const struct ledger *ledger, uint32_t gpu, uint32_t memory)
{
    uint32_t size = ledger->topo.sku_memory[ledger->topo.nodes[ledger->gpus[gpu].node].sku];

    return size == 0 || (uint64_t)ledger->gpus[gpu].memory + memory <= size;
}

int ledger_check(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec,
                 enum share_role role)
{
    if (to->count == 0)
        return -EINVAL;
    if (to->count > ledger->share_capacity - ledger->share_count)
        return -ENOSPC;
    for (uint32_t i = 0; i < to->count; i++) {
        const struct gpu *gpu;

        if (to->gpus[i] >= ledger->topo.gpu_count)
            return -EINVAL;
        if (i > 0 && to->gpus[i] <= to->gpus[i - 1])
            return -EINVAL; /* ascending, so none is named twice */
        gpu = &ledger->gpus[to->gpus[i]];
        if (ledger->topo.nodes[gpu->node].sku != ledger->topo.nodes[ledger->gpus[to->gpus[0]].node].sku &&
            spec->side_count == 0)
            return -EINVAL;
        if (gpu->bad || !ledger->topo.nodes[gpu->node].up)
            return -EBUSY;
        if (role == ROLE_GUEST) {
            if (gpu->guests >= GUESTS_MAX)
                return -EBUSY;
            continue;
        }
        if ((role == ROLE_OWNER && (gpu->used + spec->share > MGPU_ONE || gpu->reserved_for != JOB_NONE)) ||
            !ledger_memory_fits(ledger, to->gpus[i], spec->memory_mib))
            return -EBUSY;
    }
    return 0;
}

uint32_t ledger_share_new(struct ledger *ledger)
{
    uint32_t i = ledger->share_free;

    assert(i != SHARE_NONE && ledger->shares);
    ledger->share_free = ledger->shares[i].next_of_job;
    ledger->share_count++;
    return i;
}

void ledger_serve(struct ledger *ledger, const struct job *job, const uint32_t *servers, uint32_t count)
{
    for (uint32_t s = job->shares; s != SHARE_NONE && count; s = ledger->shares[s].next_of_job) {
        ledger->shares[s].server = false;
        for (uint32_t i = 0; i < count && !ledger->shares[s].server; i++)
            ledger->shares[s].server = servers[i] == ledger->shares[s].gpu;
    }
}

uint32_t ledger_take_hosts(struct ledger *ledger, const struct job *job)
{
    uint32_t blocked = 0;

    host_change(ledger, job, HOST_TAKE);
    for (uint32_t i = job->shares; i != SHARE_NONE && !ledger->imagined; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];

        if (share->waits || !host_over(ledger, ledger->gpus[share->gpu].node))
            continue;
        share->waits = true;
        blocked++;
    }
    return blocked;
}

uint32_t ledger_take(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to,
                     enum share_role role)
{
    uint32_t blocked = 0;

    /* Backwards, so that the job's list ends up in ascending GPU order. */
    for (uint32_t k = to->count; k-- > 0;) {
        uint32_t i = ledger_share_new(ledger);
        struct gpu *gpu = &ledger->gpus[to->gpus[k]];

        ledger->shares[i] = (struct share){ .job = index,
                                            .gpu = to->gpus[k],
                                            .next_of_job = job->shares,
                                            .next_of_gpu = gpu->shares,
                                            .amount = job->spec.share,
                                            .memory = job->spec.memory_mib,
                                            .role = (uint8_t)role,
                                            .server = k < (uint32_t)job->spec.gpu_servers };
        job->shares = i;
        gpu->shares = i;
        if (role == ROLE_GUEST) {
            ledger_count_guest(ledger, to->gpus[k], 1);
            continue;
        }
        ledger->shares[i].waits = gpu->leaving > 0 && !ledger->imagined;
        blocked += ledger->shares[i].waits;
        ledger_count_share(ledger, &ledger->shares[i], 1);
    }
    return ledger_asks(ledger, job) ? blocked + ledger_take_hosts(ledger, job) : blocked;
}

int ledger_enlist(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to)
{
    if (to->count == 0)
        return -EINVAL;
    if (to->count > ledger->share_capacity - ledger->share_count)
        return -ENOSPC;
    for (uint32_t k = 0; k < to->count; k++) {
        const struct node *node;

        if (to->gpus[k] >= ledger->topo.gpu_count || (k && to->gpus[k] <= to->gpus[k - 1]))
            return -EINVAL;
        node = &ledger->topo.nodes[ledger->gpus[to->gpus[k]].node];
        if (!node->up || ledger->gpus[to->gpus[k]].bad ||
            node->sku != ledger->topo.nodes[ledger->gpus[to->gpus[0]].node].sku)
            return -EINVAL;
    }
    for (uint32_t k = to->count; k-- > 0;) {
        uint32_t i = ledger_share_new(ledger);
        struct gpu *gpu = &ledger->gpus[to->gpus[k]];

        ledger->shares[i] = (struct share){ .job = index,
                                            .gpu = to->gpus[k],
                                            .next_of_job = job->shares,
                                            .next_of_gpu = gpu->shares,
                                            .amount = job->spec.share,
                                            .memory = job->spec.memory_mib,
                                            .off = true,
                                            .server = k < (uint32_t)job->spec.gpu_servers };
        job->shares = i;
        gpu->shares = i;
    }
    return 0;
}

void ledger_swap(struct ledger *ledger, const struct job *a, const struct job *b)
{
    uint32_t i = a->shares, k = b->shares;

    /* Both count or both leave, and for as much: no sum changes. */
    for (; i != SHARE_NONE; i = ledger->shares[i].next_of_job, k = ledger->shares[k].next_of_job) {
        uint8_t role = ledger->shares[i].role;

        assert(k != SHARE_NONE);
        assert(ledger->shares[i].gpu == ledger->shares[k].gpu);
        assert(ledger->shares[i].leaving == ledger->shares[k].leaving);
        assert(ledger->shares[i].amount == ledger->shares[k].amount);
        ledger->shares[i].role = ledger->shares[k].role;
        ledger->shares[k].role = role;
    }
}

int ledger_own_check(const struct ledger *ledger, const struct job *job)
{
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        const struct share *share = &ledger->shares[i];
        const struct gpu *gpu = &ledger->gpus[share->gpu];

        assert(share->role == ROLE_GUEST);
        if (gpu->used + share->amount > MGPU_ONE || gpu->leaving > 0 || gpu->reserved_for != JOB_NONE ||
            !ledger_memory_fits(ledger, share->gpu, share->memory))
            return -EBUSY;
    }
    return 0;
}

void ledger_own(struct ledger *ledger, const struct job *job)
{
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        ledger_count_guest(ledger, ledger->shares[i].gpu, -1);
        ledger->shares[i].role = ROLE_OWNER;
        ledger_count_share(ledger, &ledger->shares[i], 1);
    }
}

void ledger_hide(struct ledger *ledger, uint32_t index, uint32_t job)
{
    uint64_t releases = ledger->releases;
    struct gpu *gpu = &ledger->gpus[index];

    gpu->reserved_for = job;
    count_free(ledger, gpu, job == JOB_NONE);
    ledger->releases = releases;
}

/* Put in twice a GPU is out again: equal sets have equal numbers, and others do not in practice. */
static void count_kept(struct ledger *ledger, uint32_t gpu)
{
    ledger->kept ^= rng_mix((uint64_t)gpu + 1);
}

void ledger_reserve(struct ledger *ledger, uint32_t job, const struct placement *what)
{
    for (uint32_t i = 0; i < what->count; i++) {
        struct gpu *gpu = &ledger->gpus[what->gpus[i]];

        assert(is_free(gpu));
        gpu->reserved_for = job;
        ledger->reserved[ledger->topo.nodes[gpu->node].sku]++;
        count_kept(ledger, what->gpus[i]);
        count_free(ledger, gpu, false);
    }
}

void ledger_unreserve(struct ledger *ledger, uint32_t job, const struct placement *what)
{
    for (uint32_t i = 0; i < what->count; i++) {
        struct gpu *gpu = &ledger->gpus[what->gpus[i]];

        assert(gpu->reserved_for == job);
        gpu->reserved_for = JOB_NONE;
        ledger->reserved[ledger->topo.nodes[gpu->node].sku]--;
        count_kept(ledger, what->gpus[i]);
        ledger->unkept++;
        if (is_free(gpu))
            count_free(ledger, gpu, true);
    }
}

void ledger_restore(struct ledger *ledger, const struct share *share)
{
    struct gpu *gpu = &ledger->gpus[share->gpu];
    uint32_t i = ledger_share_new(ledger);

    ledger->shares[i] = *share;
    ledger->shares[i].next_of_gpu = gpu->shares;
    gpu->shares = i;
    if (share->off)
        return;
    if (share->role == ROLE_GUEST)
        ledger_count_guest(ledger, share->gpu, 1);
    else if (share->leaving)
        gpu->leaving += share->amount;
    else if (share->role == ROLE_PACKED || gpu->used + share->amount <= MGPU_ONE)
        ledger_count_share(ledger, share, 1);
}

void ledger_bind(struct ledger *ledger, uint32_t index)
{
    struct gpu *gpu = &ledger->gpus[index];

    if (!gpu->bound && gpu->used > 0 && gpu->used < MGPU_ONE)
        tree_remove(ledger->open_nodes, &ledger->open_trees[ledger->topo.nodes[gpu->node].sku], index);
    gpu->bound = true;
}

void ledger_gpu_bad(struct ledger *ledger, uint32_t gpu, bool bad)
{
    struct gpu *g = &ledger->gpus[gpu];
    struct topo *topo = &ledger->topo;
    struct node *node = &topo->nodes[g->node];
    bool was_free = is_free(g);

    if (g->bad == bad)
        return;
    g->bad = bad;
    node->bad = (uint16_t)(bad ? node->bad + 1 : node->bad - 1);
    if (!node->up)
        topo->sku_draining[node->sku] += bad ? UINT32_MAX : 1;
    if (node->up)
        for (int i = 0; i <= ZONE_KINDS; i++)
            if (node->pool[i] != POOL_NONE)
                topo->pools[node->pool[i]].total += bad ? UINT32_MAX : 1;
    if (is_free(g) != was_free)
        count_free(ledger, g, !was_free);
}
