/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - see ledger.h. */
#include "core/ledger.h"

#include <assert.h>
#include <errno.h>

#include "core/host.h"

static bool is_free(const struct gpu *gpu)
{
    return gpu->used == 0 && !gpu->bad && gpu->reserved_for == JOB_NONE;
}

bool ledger_whole(const struct ledger *ledger, uint32_t gpu)
{
    const struct gpu *g = &ledger->gpus[gpu];

    return is_free(g) && ledger->topo.nodes[g->node].up;
}

uint32_t ledger_empty(const struct ledger *ledger, uint32_t sku)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < ledger->topo.gpu_count; g++) {
        const struct gpu *gpu = &ledger->gpus[g];
        const struct node *node = &ledger->topo.nodes[gpu->node];
        uint32_t s = gpu->shares;

        while (s != SHARE_NONE && (ledger->shares[s].leaving || ledger->shares[s].off))
            s = ledger->shares[s].next_of_gpu;
        count += node->sku == sku && node->up && !gpu->bad && s == SHARE_NONE;
    }
    return count;
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

/* A guest more (sign 1) or less (-1). */
static void count_guest(struct ledger *ledger, uint32_t index, int sign)
{
    struct gpu *gpu = &ledger->gpus[index];
    bool was = is_lone(gpu);

    gpu->guests = (uint8_t)(gpu->guests + sign);
    ledger->lone += (uint32_t)is_lone(gpu) - (uint32_t)was;
}

/* The share of an owner, or of one packed beside it, begins (sign 1) or ceases (-1) to count. */
static void count_share(struct ledger *ledger, const struct share *share, int sign)
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
        if (ledger->topo.nodes[gpu->node].sku != ledger->topo.nodes[ledger->gpus[to->gpus[0]].node].sku)
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

static uint32_t share_new(struct ledger *ledger)
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

/* Whether CPUs or memory count here and the job asks for some. */
static bool asks(const struct ledger *ledger, const struct job *job)
{
    return ledger->hosts && host_asks(&job->spec);
}

/* It counts on its nodes; where others have not left yet it waits for them. Returns how many GPUs more are waited for.
 */
static uint32_t take_hosts(struct ledger *ledger, const struct job *job)
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
        uint32_t i = share_new(ledger);
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
            count_guest(ledger, to->gpus[k], 1);
            continue;
        }
        ledger->shares[i].waits = gpu->leaving > 0 && !ledger->imagined;
        blocked += ledger->shares[i].waits;
        count_share(ledger, &ledger->shares[i], 1);
    }
    return asks(ledger, job) ? blocked + take_hosts(ledger, job) : blocked;
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
        uint32_t i = share_new(ledger);
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

void ledger_leave(struct ledger *ledger, const struct job *job)
{
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];

        if (share->part == PART_OLD)
            continue;
        assert(!share->leaving);
        share->leaving = true;
        if (share->role == ROLE_GUEST)
            continue;
        ledger->gpus[share->gpu].leaving += share->amount;
        count_share(ledger, share, -1);
    }
    if (asks(ledger, job))
        host_change(ledger, job, HOST_LEAVE);
}

static void unlink_from_gpu(struct ledger *ledger, uint32_t i)
{
    uint32_t *at = &ledger->gpus[ledger->shares[i].gpu].shares;

    while (*at != i) {
        assert(*at != SHARE_NONE);
        at = &ledger->shares[*at].next_of_gpu;
    }
    *at = ledger->shares[i].next_of_gpu;
}

/* The last leaver of a GPU is gone: whoever was given it meanwhile is one GPU closer. Those that have all of theirs go
 * into ready[], if there is one. */
static uint32_t unblock(struct ledger *ledger, struct job *jobs, uint32_t gpu, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = ledger->gpus[gpu].shares; i != SHARE_NONE; i = ledger->shares[i].next_of_gpu) {
        struct job *other = &jobs[ledger->shares[i].job];

        if ((other->state != JOB_CLAIMING && !job_defers(other)) || ledger->shares[i].leaving ||
            !ledger->shares[i].waits)
            continue;
        if (asks(ledger, other) && host_over(ledger, ledger->gpus[gpu].node))
            continue;
        assert(other->blocked > 0);
        ledger->shares[i].waits = false;
        if (--other->blocked == 0 && ready) {
            assert(count < max);
            ready[count++] = ledger->shares[i].job;
        }
    }
    return count;
}

uint32_t ledger_unblock(struct ledger *ledger, struct job *jobs, uint32_t node, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0, first = ledger->topo.nodes[node].first_gpu;

    for (uint32_t g = first; g < first + ledger->topo.nodes[node].gpus && !host_over(ledger, node); g++)
        if (ledger->gpus[g].leaving == 0)
            count += unblock(ledger, jobs, g, ready ? ready + count : NULL, max - count);
    return count;
}

/* What the job had on its nodes is no longer there, or no longer leaving. */
static uint32_t unblock_hosts(struct ledger *ledger, struct job *jobs, const struct job *job, uint32_t *ready,
                              uint32_t max)
{
    uint32_t count = 0, last = UINT32_MAX;

    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        uint32_t node = ledger->gpus[ledger->shares[i].gpu].node;

        if (node != last)
            count += ledger_unblock(ledger, jobs, node, ready ? ready + count : NULL, max - count);
        last = node;
    }
    return count;
}

int ledger_stay(struct ledger *ledger, struct job *jobs, const struct job *job)
{
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        const struct share *share = &ledger->shares[i];
        const struct gpu *gpu = &ledger->gpus[share->gpu];

        if (share->part == PART_OLD)
            continue;
        if (share->role == ROLE_OWNER && (gpu->used + share->amount > MGPU_ONE || gpu->reserved_for != JOB_NONE))
            return -EBUSY;
        if (share->role != ROLE_GUEST && !ledger_memory_fits(ledger, share->gpu, share->memory))
            return -EBUSY;
    }
    if (asks(ledger, job) && !host_has_room(ledger, job))
        return -EBUSY;
    if (asks(ledger, job))
        host_change(ledger, job, HOST_STAY);
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];

        if (share->part == PART_OLD)
            continue;
        share->leaving = false;
        if (share->role == ROLE_GUEST)
            continue;
        ledger->gpus[share->gpu].leaving -= share->amount;
        count_share(ledger, share, 1);
        if (ledger->gpus[share->gpu].leaving == 0)
            (void)unblock(ledger, jobs, share->gpu, NULL, 0);
    }
    if (asks(ledger, job))
        (void)unblock_hosts(ledger, jobs, job, NULL, 0);
    return 0;
}

uint32_t ledger_park(struct ledger *ledger, struct job *jobs, const struct job *job, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    if (asks(ledger, job))
        host_change(ledger, job, HOST_GO);
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        assert(share->leaving);
        share->leaving = false;
        share->off = true;
        if (share->role == ROLE_GUEST) {
            count_guest(ledger, share->gpu, -1);
            continue;
        }
        share->role = ROLE_OWNER; /* its next turn is its own */
        gpu->leaving -= share->amount;
        if (gpu->leaving == 0)
            count += unblock(ledger, jobs, share->gpu, ready + count, max - count);
    }
    return asks(ledger, job) ? count + unblock_hosts(ledger, jobs, job, ready + count, max - count) : count;
}

int ledger_unpark(struct ledger *ledger, const struct job *job)
{
    int blocked = 0;

    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        const struct share *share = &ledger->shares[i];
        const struct gpu *gpu = &ledger->gpus[share->gpu];

        if (share->role == ROLE_GUEST ? gpu->guests >= GUESTS_MAX
                                      : gpu->used + share->amount > MGPU_ONE || gpu->reserved_for != JOB_NONE ||
                                            !ledger_memory_fits(ledger, share->gpu, share->memory))
            return -EBUSY;
    }
    if (asks(ledger, job) && !host_has_room(ledger, job))
        return -EBUSY;
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        share->off = false;
        if (share->role == ROLE_GUEST) {
            count_guest(ledger, share->gpu, 1);
            continue;
        }
        share->waits = gpu->leaving > 0 && !ledger->imagined;
        blocked += share->waits;
        count_share(ledger, share, 1);
    }
    return asks(ledger, job) ? blocked + (int)take_hosts(ledger, job) : blocked;
}

/* Nobody waits for this job's CPUs any more. Of its own GPUs, those it is leaving are still in the way. */
static uint32_t release_hosts(struct ledger *ledger, struct job *jobs, const struct job *job, uint32_t *ready,
                              uint32_t max)
{
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job)
        host_share(ledger, job, &ledger->shares[i], -1);
    ledger->releases++;
    return unblock_hosts(ledger, jobs, job, ready, max);
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
        count_guest(ledger, ledger->shares[i].gpu, -1);
        ledger->shares[i].role = ROLE_OWNER;
        count_share(ledger, &ledger->shares[i], 1);
    }
}

uint32_t ledger_release(struct ledger *ledger, struct job *jobs, struct job *job, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    if (asks(ledger, job) && job->shares != SHARE_NONE)
        count = release_hosts(ledger, jobs, job, ready, max);
    for (uint32_t i = job->shares, next; i != SHARE_NONE; i = next) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        next = share->next_of_job;
        unlink_from_gpu(ledger, i);
        if (share->off) {
            ledger->releases++;
        } else if (share->role == ROLE_GUEST) {
            count_guest(ledger, share->gpu, -1);
            ledger->releases++;
        } else if (!share->leaving) {
            count_share(ledger, share, -1);
        } else {
            gpu->leaving -= share->amount;
            if (gpu->leaving == 0)
                count += unblock(ledger, jobs, share->gpu, ready + count, max - count);
        }
        share->next_of_job = ledger->share_free;
        ledger->share_free = i;
        ledger->share_count--;
    }
    job->shares = SHARE_NONE;
    return count;
}

/* One more share of a job, in front of *at in its list. */
static void share_add(struct ledger *ledger, uint32_t index, const struct job *job, uint32_t gpu, uint32_t *at)
{
    uint32_t i = share_new(ledger);

    ledger->shares[i] = (struct share){ .job = index,
                                        .gpu = gpu,
                                        .next_of_job = *at,
                                        .next_of_gpu = ledger->gpus[gpu].shares,
                                        .amount = job->spec.share,
                                        .memory = job->spec.memory_mib };
    ledger->gpus[gpu].shares = i;
    count_share(ledger, &ledger->shares[i], 1);
    *at = i;
}

/* Both lists ascend. */
void ledger_shift(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to)
{
    uint32_t *at = &job->shares, k = 0;

    while (*at != SHARE_NONE || k < to->count) {
        struct share *share = *at == SHARE_NONE ? NULL : &ledger->shares[*at];

        if (!share || (k < to->count && to->gpus[k] < share->gpu)) {
            share_add(ledger, index, job, to->gpus[k++], at);
            share = &ledger->shares[*at];
            host_share(ledger, job, share, 1);
        } else if (k < to->count && to->gpus[k] == share->gpu) {
            k++;
        } else {
            host_share(ledger, job, share, -1);
            share->leaving = true;
            host_share(ledger, job, share, 1);
            ledger->gpus[share->gpu].leaving += share->amount;
            count_share(ledger, share, -1);
        }
        at = &share->next_of_job;
    }
}

/* Whoever has not left one of these GPUs, or the CPUs that come with it, is waited for. */
uint32_t ledger_defer(struct ledger *ledger, struct job *jobs, uint32_t index, const struct placement *to)
{
    struct job *job = &jobs[index];
    int stayed = ledger_stay(ledger, jobs, job);
    uint32_t blocked = 0;

    assert(stayed == 0); /* it has only just begun to leave */
    (void)stayed;
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job)
        ledger->shares[i].part = PART_OLD;
    ledger_shift(ledger, index, job, to);
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];
        const struct gpu *gpu = &ledger->gpus[share->gpu];

        if (share->leaving)
            continue;
        share->part = share->part == PART_OLD ? PART_STAYS : PART_NEW;
        share->waits =
            share->part == PART_NEW && (gpu->leaving > 0 || (asks(ledger, job) && host_over(ledger, gpu->node)));
        blocked += share->waits;
    }
    return blocked;
}

uint32_t ledger_shed(struct ledger *ledger, struct job *jobs, struct job *job, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t *at = &job->shares; *at != SHARE_NONE;) {
        uint32_t i = *at;
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        if (!share->leaving) {
            at = &share->next_of_job;
            continue;
        }
        unlink_from_gpu(ledger, i);
        *at = share->next_of_job;
        gpu->leaving -= share->amount;
        host_share(ledger, job, share, -1);
        if (gpu->leaving == 0)
            count += unblock(ledger, jobs, share->gpu, ready + count, max - count);
        if (asks(ledger, job))
            count += ledger_unblock(ledger, jobs, gpu->node, ready + count, max - count);
        share->next_of_job = ledger->share_free;
        ledger->share_free = i;
        ledger->share_count--;
    }
    return count;
}

bool ledger_only_leaver(const struct ledger *ledger, uint32_t gpu, uint32_t job)
{
    for (uint32_t i = ledger->gpus[gpu].shares; i != SHARE_NONE; i = ledger->shares[i].next_of_gpu)
        if (ledger->shares[i].leaving && ledger->shares[i].job != job && ledger->shares[i].role != ROLE_GUEST)
            return false; /* guests are in nobody's way */
    return true;
}

void ledger_hide(struct ledger *ledger, uint32_t index, uint32_t job)
{
    uint64_t releases = ledger->releases;
    struct gpu *gpu = &ledger->gpus[index];

    gpu->reserved_for = job;
    count_free(ledger, gpu, job == JOB_NONE);
    ledger->releases = releases;
}

void ledger_reserve(struct ledger *ledger, uint32_t job, const struct placement *what)
{
    for (uint32_t i = 0; i < what->count; i++) {
        struct gpu *gpu = &ledger->gpus[what->gpus[i]];

        assert(is_free(gpu));
        gpu->reserved_for = job;
        ledger->reserved[ledger->topo.nodes[gpu->node].sku]++;
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
        if (is_free(gpu))
            count_free(ledger, gpu, true);
    }
}

void ledger_restore(struct ledger *ledger, const struct share *share)
{
    struct gpu *gpu = &ledger->gpus[share->gpu];
    uint32_t i = share_new(ledger);

    ledger->shares[i] = *share;
    ledger->shares[i].next_of_gpu = gpu->shares;
    gpu->shares = i;
    if (share->off)
        return;
    if (share->role == ROLE_GUEST)
        count_guest(ledger, share->gpu, 1);
    else if (share->leaving)
        gpu->leaving += share->amount;
    else if (share->role == ROLE_PACKED || gpu->used + share->amount <= MGPU_ONE)
        count_share(ledger, share, 1);
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
    if (node->up)
        for (int i = 0; i <= ZONE_KINDS; i++)
            if (node->pool[i] != POOL_NONE)
                topo->pools[node->pool[i]].total += bad ? UINT32_MAX : 1;
    if (is_free(g) != was_free)
        count_free(ledger, g, !was_free);
}
