/* SPDX-License-Identifier: Apache-2.0 */
/* driver_stage.c - the stages of a job besides training: launch before its GPUs are used, save after; when the
 * controller learns that a job is over (at once, or with the next heartbeat of its node); and how long GPUs lie idle
 * between two jobs because of all that.
 *
 * A gap is counted where the next job on a GPU had been submitted before the GPU fell idle: from the last use of one to
 * the first use of the next.
 */
#include "sim/driver/driver_internal.h"
#include "solve/demand.h"

usec_t stage_launch(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    usec_t left = d->trace->jobs[index].truth.launch;

    if (a->prepared) {
        usec_t done = d->now - a->prepared_at;

        left = done < left ? left - done : 0;
        a->prepared = false;
    }
    return left;
}

void stage_share(const struct driver *d, struct jobspec *spec)
{
    const struct world_config *config = &d->config->world;

    if (config->share_gpus && spec->gpus == 1 && spec->gpus_max == 1 && spec->share == MGPU_ONE &&
        spec->utilisation > 0)
        spec->share = demand_share(spec->utilisation, config->u_max);
}

void stage_prepare(struct driver *d, uint32_t index)
{
    d->actors[index].prepared = true;
    d->actors[index].prepared_at = d->now;
}

/* The work is done; what follows needs no GPU. */
void stage_save(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    usec_t save = d->trace->jobs[index].truth.save, notice = d->config->world.idle_after;

    actor_settle(d, a);
    a->running = false;
    stage_last_use(d, index);
    a->save_end = d->now + save;
    d->result->jobs[index].overhead += save;
    bars_close(d, index);
    bars_open(d, a->slot, 1);
    actor_touch_neighbours(d, a->slot);
    actor_due(d, index, DUE_IDLE, d->now + (notice < save ? notice : save));
}

/* Its GPUs were seen idle. */
int stage_idle(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen, .report = { .kind = MEASURE_IDLE } };

    actor_due(d, index, DUE_END, a->save_end);
    return driver_offer(d, &event, index, NULL);
}

/* Whether the end must wait for the node to report; each node has its own beat. */
bool stage_unreported(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    const struct ledger *ledger = core_ledger(d->core);
    usec_t beat = d->config->world.heartbeat, phase;
    uint32_t share = core_job(d->core, a->slot)->shares;

    if (beat == 0 || a->told || share == SHARE_NONE)
        return false;
    phase = (usec_t)(rng_mix(ledger->gpus[ledger->shares[share].gpu].node + 1) % (uint64_t)beat);
    actor_settle(d, a);
    a->running = false;
    a->told = true;
    a->true_end = d->now;
    stage_last_use(d, index);
    actor_due(d, index, (enum due)a->due, d->now + beat - (d->now + phase) % beat);
    return true;
}

/* It uses its GPUs no more, unless that was noted before. */
void stage_last_use(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    const struct job *job = core_job(d->core, a->slot);

    if (a->save_end)
        return;
    stage_idle_begin(d, a->slot);
    a->used = job->ran + (job->state == JOB_RUNNING || job_defers(job) ? d->now - job->since : 0);
}

void stage_idle_begin(struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);

    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        if (ledger->shares[s].part != PART_NEW)
            d->idle_since[ledger->shares[s].gpu] = d->now;
}

void stage_idle_end(struct driver *d, uint32_t index)
{
    const struct ledger *ledger = core_ledger(d->core);
    usec_t submit = d->trace->jobs[index].spec.submit;

    for (uint32_t s = core_job(d->core, d->actors[index].slot)->shares; s != SHARE_NONE;
         s = ledger->shares[s].next_of_job) {
        usec_t *since = &d->idle_since[ledger->shares[s].gpu];

        if (*since >= submit && *since > 0) {
            d->result->idle_gap += d->now - *since;
            d->result->idle_gaps++;
        }
        *since = 0;
    }
}
