/* SPDX-License-Identifier: Apache-2.0 */
/* measures.c - measurements of the log become reports to the core, as the simulator makes them (model/measure.h). */
#include "ctl/state/measures.h"

#include "core/contract/reports.h"
#include "ctl/state/state_internal.h"
#include "model/measure.h"

static int64_t clamp(__int128 value)
{
    return value > INT64_MAX / 64 ? INT64_MAX / 64 : value < 0 ? 0 : (int64_t)value;
}

int64_t measures_epoch(const int64_t *row)
{
    if (row[COLUMN_EPOCH] >= 0)
        return row[COLUMN_EPOCH];
    if (row[COLUMN_STEP] < 0)
        return 0;
    if (row[COLUMN_TOTAL] > 0)
        return clamp((__int128)row[COLUMN_STEP] * MEASURES_EPOCHS_OF_ALL * 1000 / row[COLUMN_TOTAL]);
    return clamp((__int128)row[COLUMN_STEP] * 1000 / MEASURES_STEPS_AN_EPOCH);
}

int64_t measures_speed(const int64_t *row)
{
    if (row[COLUMN_EPOCH] >= 0 && row[COLUMN_STEP] < 0)
        return clamp(row[COLUMN_RATE]); /* what is counted are thousandths of epochs */
    if (row[COLUMN_EPOCH] > 0 && row[COLUMN_STEP] > 0)
        return clamp((__int128)row[COLUMN_RATE] * row[COLUMN_EPOCH] / row[COLUMN_STEP]);
    if (row[COLUMN_TOTAL] > 0)
        return clamp((__int128)row[COLUMN_RATE] * 1000 * MEASURES_EPOCHS_OF_ALL / row[COLUMN_TOTAL]);
    return clamp((__int128)row[COLUMN_RATE] * 1000 / MEASURES_STEPS_AN_EPOCH);
}

int64_t measures_all(const int64_t *row)
{
    if (row[COLUMN_TOTAL] <= 0)
        return 0;
    if (row[COLUMN_EPOCH] > 0 && row[COLUMN_STEP] > 0)
        return clamp((__int128)row[COLUMN_EPOCH] * row[COLUMN_TOTAL] / row[COLUMN_STEP]);
    return row[COLUMN_EPOCH] >= 0 ? 0 : MEASURES_EPOCHS_OF_ALL * 1000;
}

static int64_t nodes_of(const struct ctl *ctl, const struct job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    uint32_t node = UINT32_MAX;
    int64_t nodes = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        nodes += ledger->gpus[ledger->shares[s].gpu].node != node;
        node = ledger->gpus[ledger->shares[s].gpu].node;
    }
    return nodes;
}

static void report_tell(struct ctl *ctl, const struct ctl_job *job, struct report report)
{
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_REPORT, .report = report });
}

/* How fast it is of what its estimate says: by what it has run and what is left of its steps at the rate it has. 0:
 * nobody can tell. */
static int64_t of_estimate(const struct ctl *ctl, const struct job *core, const int64_t *row)
{
    int64_t left = row[COLUMN_TOTAL] - row[COLUMN_STEP], all;

    if (row[COLUMN_TOTAL] <= 0 || row[COLUMN_STEP] < 0 || left < 0 || row[COLUMN_RATE] <= 0 || core->spec.estimate <= 0)
        return 0;
    all = clamp((__int128)left * 1000000 * USEC_SEC / row[COLUMN_RATE]) + job_progress(core, ctl->now);
    return all > 0 ? clamp((__int128)core->spec.estimate * PPM_ONE / all) : 0;
}

/* As the simulator does it: a policy is told what it asks for, and no other. */
static void row_tell(struct ctl *ctl, const struct ctl_job *job, const int64_t *row)
{
    const struct job *core = core_job(ctl->core, job->slot);
    const struct policy_setup *policy = &core_vc(ctl->core, core->vc)->policy;
    int64_t loss = row[COLUMN_LOSS] == MEASURES_NO_LOSS ? 0 : row[COLUMN_LOSS];
    int64_t beside = core->spec.servers ? core->spec.servers : nodes_of(ctl, core);

    if (policy_hears_progress(policy) && row[COLUMN_RATE] > 0)
        report_tell(ctl, job, (struct report){ MEASURE_SPEED, { core->gpus, beside, measures_speed(row) } });
    if (policy_hears_progress(policy))
        report_tell(ctl, job,
                    (struct report){ MEASURE_LOSS, { measures_epoch(row), loss > 0 ? loss : 0, measures_all(row) } });
    if (policy->planner->profiles && of_estimate(ctl, core, row) > 0)
        report_tell(ctl, job, (struct report){ MEASURE_PROFILE, { core->gpus, 0, of_estimate(ctl, core, row) } });
    if (policy_hears_batches(policy) && row[COLUMN_RATE] > 0)
        report_tell(ctl, job,
                    (struct report){ MEASURE_BATCH, { row[COLUMN_RATE], row[COLUMN_UTIL], row[COLUMN_MEMORY] } });
}

void measures_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const struct number_list *rows = &entry->measures.rows;

    (void)ret;
    for (size_t i = 0; i + MEASURES_ROW <= rows->count; i += MEASURES_ROW) {
        const int64_t *row = &rows->items[i];
        struct ctl_job *job = registry_get(&ctl->registry, row[COLUMN_JOB]);

        /* It may have been stopped, or have ended, since it said so. */
        if (job && job_in_core(job) && job->attempt_count == row[COLUMN_ATTEMPT] + 1 &&
            core_job(ctl->core, job->slot)->state == JOB_RUNNING)
            row_tell(ctl, job, row);
    }
}
