/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_leave.c - jobs that leave GPUs, and those that wait for them to be gone: leaving for good, for a while
 * (parked), or for other GPUs. See ledger.h. */
#include <assert.h>
#include <errno.h>

#include "core/ledger/ledger_internal.h"

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
        ledger_count_share(ledger, share, -1);
    }
    if (ledger_asks(ledger, job))
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
        if (ledger_asks(ledger, other) && host_over(ledger, ledger->gpus[gpu].node))
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
    if (ledger_asks(ledger, job) && !host_has_room(ledger, job))
        return -EBUSY;
    if (ledger_asks(ledger, job))
        host_change(ledger, job, HOST_STAY);
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];

        if (share->part == PART_OLD)
            continue;
        share->leaving = false;
        if (share->role == ROLE_GUEST)
            continue;
        ledger->gpus[share->gpu].leaving -= share->amount;
        ledger_count_share(ledger, share, 1);
        if (ledger->gpus[share->gpu].leaving == 0)
            (void)unblock(ledger, jobs, share->gpu, NULL, 0);
    }
    if (ledger_asks(ledger, job))
        (void)unblock_hosts(ledger, jobs, job, NULL, 0);
    return 0;
}

uint32_t ledger_park(struct ledger *ledger, struct job *jobs, const struct job *job, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    if (ledger_asks(ledger, job))
        host_change(ledger, job, HOST_GO);
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        assert(share->leaving);
        share->leaving = false;
        share->off = true;
        if (share->role == ROLE_GUEST) {
            ledger_count_guest(ledger, share->gpu, -1);
            continue;
        }
        share->role = ROLE_OWNER; /* its next turn is its own */
        gpu->leaving -= share->amount;
        if (gpu->leaving == 0)
            count += unblock(ledger, jobs, share->gpu, ready + count, max - count);
    }
    return ledger_asks(ledger, job) ? count + unblock_hosts(ledger, jobs, job, ready + count, max - count) : count;
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
    if (ledger_asks(ledger, job) && !host_has_room(ledger, job))
        return -EBUSY;
    for (uint32_t i = job->shares; i != SHARE_NONE; i = ledger->shares[i].next_of_job) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        share->off = false;
        if (share->role == ROLE_GUEST) {
            ledger_count_guest(ledger, share->gpu, 1);
            continue;
        }
        share->waits = gpu->leaving > 0 && !ledger->imagined;
        blocked += share->waits;
        ledger_count_share(ledger, share, 1);
    }
    return ledger_asks(ledger, job) ? blocked + (int)ledger_take_hosts(ledger, job) : blocked;
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

/* Back into the pool. */
static void share_drop(struct ledger *ledger, uint32_t i)
{
    ledger->shares[i].next_of_job = ledger->share_free;
    ledger->share_free = i;
    ledger->share_count--;
}

uint32_t ledger_release(struct ledger *ledger, struct job *jobs, struct job *job, uint32_t *ready, uint32_t max)
{
    uint32_t count = 0;

    if (ledger_asks(ledger, job) && job->shares != SHARE_NONE)
        count = release_hosts(ledger, jobs, job, ready, max);
    for (uint32_t i = job->shares, next; i != SHARE_NONE; i = next) {
        struct share *share = &ledger->shares[i];
        struct gpu *gpu = &ledger->gpus[share->gpu];

        next = share->next_of_job;
        unlink_from_gpu(ledger, i);
        if (share->off) {
            ledger->releases++;
        } else if (share->role == ROLE_GUEST) {
            ledger_count_guest(ledger, share->gpu, -1);
            ledger->releases++;
        } else if (!share->leaving) {
            ledger_count_share(ledger, share, -1);
        } else {
            gpu->leaving -= share->amount;
            if (gpu->leaving == 0)
                count += unblock(ledger, jobs, share->gpu, ready + count, max - count);
        }
        share_drop(ledger, i);
    }
    job->shares = SHARE_NONE;
    return count;
}

/* One more share of a job, in front of *at in its list. */
static void share_add(struct ledger *ledger, uint32_t index, const struct job *job, uint32_t gpu, uint32_t *at)
{
    uint32_t i = ledger_share_new(ledger);

    ledger->shares[i] = (struct share){ .job = index,
                                        .gpu = gpu,
                                        .next_of_job = *at,
                                        .next_of_gpu = ledger->gpus[gpu].shares,
                                        .amount = job->spec.share,
                                        .memory = job->spec.memory_mib };
    ledger->gpus[gpu].shares = i;
    ledger_count_share(ledger, &ledger->shares[i], 1);
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
            ledger_count_share(ledger, share, -1);
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
            share->part == PART_NEW && (gpu->leaving > 0 || (ledger_asks(ledger, job) && host_over(ledger, gpu->node)));
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
        if (ledger_asks(ledger, job))
            count += ledger_unblock(ledger, jobs, gpu->node, ready + count, max - count);
        share_drop(ledger, i);
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
