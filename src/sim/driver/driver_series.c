/* SPDX-License-Identifier: Apache-2.0 */
/* driver_series.c - what a run keeps for its report: samples of the cluster, bars of the Gantt chart. */
#include "sim/driver/driver_internal.h"

/* Bars are kept for small clusters only, so looking at every GPU is cheap, and right even when the job has lost its. */
void bars_close(struct driver *d, uint32_t index)
{
    for (uint32_t g = 0; d->open && g < d->result->gpu_count * BAR_LANES; g++) {
        struct span *bar = &d->open[g];

        if (bar->job != index || bar->from < 0)
            continue;
        bar->to = d->now;
        if (bar->to > bar->from)
            (void)run_result_span(d->result, bar);
        bar->from = -1;
    }
}

/* The lane of the GPU that is the job's, or a free one; the last, if there is none. */
static struct span *bar_of(struct driver *d, uint32_t gpu, uint32_t job)
{
    struct span *lanes = &d->open[(size_t)gpu * BAR_LANES], *found = NULL;

    for (int i = 0; i < BAR_LANES; i++) {
        if (lanes[i].from >= 0 && lanes[i].job == job)
            return &lanes[i];
        if (lanes[i].from < 0 && !found)
            found = &lanes[i];
    }
    return found ? found : &lanes[BAR_LANES - 1];
}

/* What it has of the GPU: as promised, or of a whole one its part, if others run there as well. */
static mgpu_t share_of(const struct driver *d, const struct ledger *ledger, uint32_t share)
{
    uint32_t gpu = ledger->shares[share].gpu;
    mgpu_t jobs = 1;

    if (ledger->shares[share].amount < MGPU_ONE)
        return ledger->shares[share].amount;
    for (uint32_t s = ledger->gpus[gpu].shares; s != SHARE_NONE; s = ledger->shares[s].next_of_gpu)
        jobs += s != share && !ledger->shares[s].off && ledger->shares[s].part != PART_NEW &&
                d->actors[d->actor_of_slot[ledger->shares[s].job]].running;
    return MGPU_ONE / jobs;
}

static uint8_t how_of(const struct driver *d, const struct job *job, const struct share *share)
{
    bool paired = job->mate != JOB_NONE && d->actors[d->actor_of_slot[job->mate]].running;

    return (uint8_t)((paired ? SPAN_PAIR : 0) | (share->role == ROLE_GUEST ? SPAN_GUEST : 0) |
                     ((job->runs_on ? job->runs_on : job->gpus) < job->spec.gpus_min ? SPAN_SPLICED : 0));
}

static struct span bar_from(const struct driver *d, uint32_t slot, uint32_t share, uint8_t kind)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);

    return (struct span){ .from = d->now,
                          .job = d->actor_of_slot[slot],
                          .gpu = ledger->shares[share].gpu,
                          .share = share_of(d, ledger, share),
                          .kind = kind,
                          .how = how_of(d, job, &ledger->shares[share]),
                          .size = (uint16_t)(job->runs_on ? job->runs_on : job->gpus) };
}

/* Somebody may have come to its GPUs, or gone: a bar of another height from now on, if so. */
void bars_share(struct driver *d, uint32_t index)
{
    const struct ledger *ledger = core_ledger(d->core);
    uint32_t slot = d->actors[index].slot;
    bool same = true;

    if (!d->open)
        return;
    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        struct span now = bar_from(d, slot, s, 0), *bar = bar_of(d, now.gpu, index);

        if (!share_here(core_job(d->core, slot), &ledger->shares[s]))
            continue;
        same &= bar->from >= 0 && bar->job == index && bar->share == now.share && bar->kind == 0 &&
                bar->how == now.how && bar->size == now.size;
    }
    if (same)
        return;
    bars_close(d, index);
    bars_open(d, slot, 0);
}

void bars_open(struct driver *d, uint32_t slot, uint8_t kind)
{
    const struct ledger *ledger = core_ledger(d->core);

    if (!d->open)
        return;
    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        if (!share_here(core_job(d->core, slot), &ledger->shares[s]))
            continue;
        *bar_of(d, ledger->shares[s].gpu, d->actor_of_slot[slot]) = bar_from(d, slot, s, kind);
    }
}

void bars_close_all(struct driver *d)
{
    for (uint32_t g = 0; d->open && g < d->result->gpu_count * BAR_LANES; g++)
        if (d->open[g].from >= 0)
            bars_close(d, d->open[g].job);
}

int series_sample(struct driver *d)
{
    const struct ledger *ledger = core_ledger(d->core);
    struct sample s = { .at = d->now,
                        .mgpu_held = core_mgpu_held(d->core),
                        .mgpu_twice = core_mgpu_twice(d->core),
                        .waiting = core_waiting(d->core),
                        .running = core_running(d->core) };
    int r;

    for (uint32_t k = 0; k < ledger->topo.sku_count; k++)
        s.mgpu_total += (int64_t)ledger->topo.pools[ledger->topo.sku_pools[k]].total * MGPU_ONE;
    for (uint32_t v = 0; v < core_vc_count(d->core); v++)
        s.mgpu_waiting += core_vc(d->core, v)->queue.mgpu_waiting;
    r = run_result_sample(d->result, &s);
    for (uint32_t v = 0; r == 0 && d->config->keep_series && core_vc_count(d->core) > 1 && v < core_vc_count(d->core);
         v++) {
        const struct vc *vc = core_vc(d->core, v);
        struct vc_sample vs = { .at = d->now, .vc = v, .waiting = vc->queue.waiting };

        for (uint32_t k = 0; k < ledger->topo.sku_count; k++)
            vs.mgpu_held += vc->used[k] + vc->guest[k];
        r = run_result_vc_sample(d->result, &vs);
    }
    return r;
}

/* Jobs in each queue, from time to time. */
static int sample_levels(struct driver *d)
{
    struct level_sample sample = { .at = d->now };
    struct told *told = &d->result->told;
    bool any = false;

    for (uint32_t v = 0; v < core_vc_count(d->core); v++)
        any |= core_vc(d->core, v)->policy.order->level != NULL;
    if (!any || !told_due(told, d->now))
        return 0; /* no ordering has queues: nobody is asked */
    any = false;
    for (size_t i = 0; i < d->next_arrival; i++) {
        struct order_level level;

        if (!d->actors[i].in_core || !core_level(d->core, d->actors[i].slot, &level) || level.levels < 1)
            continue;
        any = true;
        if (level.levels > told->levels)
            told->levels = level.levels;
        sample.jobs[level.level < TOLD_LEVELS ? level.level : TOLD_LEVELS - 1]++;
    }
    return any || told->sample_count ? told_levels(told, &sample) : 0;
}

int series_told(struct driver *d)
{
    int r = 0;

    if (!d->config->keep_told)
        return 0;
    d->result->told.promotions = core_promotions(d->core);
    r = sample_levels(d);
    if (!core_predicted(d->core, JOB_NONE, NULL))
        return r;
    for (uint32_t i = 0; i < d->next_arrival && r == 0; i++) {
        struct prediction p = { .job = i, .at = d->now };

        if (d->actors[i].in_core && core_predicted(d->core, d->actors[i].slot, &p.left))
            r = told_predicted(&d->result->told, &p);
    }
    return r;
}
