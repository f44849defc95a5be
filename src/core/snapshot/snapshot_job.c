/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_job.c - a job in a snapshot. */
#include "core/snapshot/snapshot_internal.h"

void snap_sides(struct codec *c, uint8_t *count, struct gang_side *sides)
{
    codec_u8(c, count, SIDES_MAX);
    for (uint32_t i = 0; i < *count; i++) {
        codec_i32(c, &sides[i].gpus);
        codec_u32(c, &sides[i].sku_mask, UINT32_MAX);
        codec_u32(c, &sides[i].mcpus, UINT32_MAX);
        codec_u32(c, &sides[i].host_mib, UINT32_MAX);
        codec_u16(c, &sides[i].per_node, UINT16_MAX);
    }
}

static void spec(struct codec *c, struct jobspec *s)
{
    int16_t priority = s->priority;
    int32_t wide = priority;

    codec_i64(c, &s->id);
    codec_i64(c, &s->submit);
    codec_i64(c, &s->estimate);
    codec_i64(c, &s->time_limit);
    codec_u32(c, &s->user, UINT32_MAX);
    codec_u32(c, &s->vc, UINT32_MAX);
    codec_u32(c, &s->model, UINT32_MAX);
    codec_i32(c, &s->gpus);
    codec_i32(c, &s->tasks);
    codec_u32(c, &s->mcpus, UINT32_MAX);
    codec_u32(c, &s->host_mib, UINT32_MAX);
    codec_i32(c, &s->share);
    codec_i32(c, &s->gpus_min);
    codec_i32(c, &s->gpus_max);
    codec_i32(c, &s->range_min);
    codec_i32(c, &s->range_max);
    codec_i32(c, &s->servers);
    codec_i32(c, &s->gpu_servers);
    codec_u32(c, &s->bandwidth, UINT32_MAX);
    codec_i64(c, &s->launch);
    codec_i64(c, &s->save);
    codec_u32(c, &s->memory_mib, UINT32_MAX);
    codec_u32(c, &s->memory_peak_mib, UINT32_MAX);
    codec_u32(c, &s->batch, UINT32_MAX);
    codec_u32(c, &s->sku_mask, UINT32_MAX);
    codec_u16(c, &s->utilisation, UINT16_MAX);
    codec_u16(c, &s->per_node, UINT16_MAX);
    codec_u16(c, &s->per_unit, UINT16_MAX);
    codec_u8(c, &s->unit, WITHIN_COUNT - 1);
    codec_u8(c, &s->within, WITHIN_COUNT - 1);
    codec_flag(c, &s->within_must);
    codec_u8(c, &s->mark, MARKS_MAX);
    codec_u8(c, &s->kept, KEPT_MAX);
    codec_u16(c, &s->skew_permille, UINT16_MAX);
    codec_u16(c, &s->tp, UINT16_MAX);
    codec_u16(c, &s->pp, UINT16_MAX);
    codec_u16(c, &s->splice_max, UINT16_MAX);
    codec_i32(c, &wide);
    s->priority = (int16_t)wide;
    codec_u8(c, &s->klass, CLASS_COUNT - 1);
    codec_u8(c, &s->tier, TIER_COUNT - 1);
    codec_u8(c, &s->slo, SLO_COUNT - 1);
    codec_u8(c, &s->deadline_count, DEADLINES_MAX);
    codec_u8(c, &s->retries, UINT8_MAX);
    codec_flag(c, &s->no_requeue);
    codec_u8(c, &s->retry_on_count, RETRY_CODES_MAX);
    for (uint32_t i = 0; i < s->retry_on_count; i++)
        codec_u8(c, &s->retry_on[i], UINT8_MAX);
    codec_u8(c, &s->preempt, PREEMPT_MODES - 1);
    codec_i64(c, &s->min_runtime);
    for (uint32_t i = 0; i < s->deadline_count; i++) {
        codec_i64(c, &s->deadlines[i].at);
        codec_i32(c, &s->deadlines[i].value);
    }
    codec_u8(c, &s->license_count, LICENSE_NEEDS_MAX);
    for (uint32_t i = 0; i < s->license_count; i++) {
        codec_u8(c, &s->licenses[i].license, LICENSES_MAX - 1);
        codec_u32(c, &s->licenses[i].count, LICENSE_COUNT_MAX);
    }
    snap_sides(c, &s->side_count, s->sides);
}

/* How often what has befallen it. */
static void job_counts(struct codec *c, struct job *j)
{
    codec_u32(c, &j->evictions, UINT32_MAX);
    codec_u32(c, &j->preemptions, UINT32_MAX);
    codec_u32(c, &j->migrations, UINT32_MAX);
    codec_u32(c, &j->splices, UINT32_MAX);
    codec_u32(c, &j->attempts, UINT32_MAX);
    codec_u32(c, &j->fails, UINT32_MAX);
    codec_u32(c, &j->system_fails, UINT32_MAX);
    codec_u32(c, &j->packings, UINT32_MAX);
    codec_u32(c, &j->resizes, UINT32_MAX);
    codec_u32(c, &j->suspensions, UINT32_MAX);
}

/* Everything of a job but what lists and trees are built from again. Waiting is written as if it were booked now. */
static void job_fields(struct codec *c, const struct core *core, struct job *j)
{
    spec(c, &j->spec);
    codec_u32(c, &j->gen, UINT32_MAX);
    codec_u8(c, &j->state, JOB_STATE_COUNT - 1);
    codec_u8(c, &j->klass, CLASS_COUNT - 1);
    codec_u8(c, &j->tier, TIER_COUNT - 1);
    codec_u8(c, &j->reason, REASON_COUNT - 1);
    codec_u8(c, &j->level, UINT8_MAX);
    codec_u8(c, &j->stop, STOP_STEP_COUNT - 1);
    codec_u8(c, &j->before, JOB_STATE_COUNT - 1);
    codec_u8(c, &j->sku, SKUS_MAX - 1);
    for (uint32_t i = 0; i < j->spec.side_count; i++)
        codec_u8(c, &j->side_sku[i], SKUS_MAX - 1);
    codec_flag(c, &j->borrowed);
    codec_flag(c, &j->parks);
    codec_flag(c, &j->prepared);
    codec_flag(c, &j->yields);
    codec_flag(c, &j->resumes);
    codec_flag(c, &j->packed);
    codec_flag(c, &j->unpacks);
    codec_flag(c, &j->moving);
    codec_ref(c, &j->mate, core->job_capacity);
    codec_flag(c, &j->sheds);
    codec_flag(c, &j->resized);
    codec_i32(c, &j->size);
    codec_i32(c, &j->runs_on);
    codec_u32(c, &j->vc, core->vc_count - 1);
    codec_ref(c, &j->shape, SHAPES_MAX);
    codec_i32(c, &j->gpus);
    codec_u32(c, &j->blocked, UINT32_MAX);
    codec_u32(c, &j->reserved_first, core->ledger.topo.gpu_count);
    codec_u32(c, &j->reserved_count, core->ledger.topo.gpu_count);
    codec_ref(c, &j->next, core->job_capacity);
    codec_u8(c, &j->breach, BREACH_COUNT - 1);
    codec_i64(c, &j->promise);
    codec_i64(c, &j->offer);
    job_counts(c, j);
    codec_i64(c, &j->disturbed);
    codec_u32(c, &j->limit_mib, UINT32_MAX);
    codec_u8(c, &j->limit_percent, 100);
    codec_flag(c, &j->measured);
    codec_u16(c, &j->used_percent, 10000);
    codec_u32(c, &j->used_mib, UINT32_MAX);
    codec_i64(c, &j->since);
    codec_i64(c, &j->state_since);
    codec_i64(c, &j->first_start);
    codec_i64(c, &j->last_start);
    codec_i64(c, &j->ran_from);
    codec_i64(c, &j->queued_at);
    codec_i64(c, &j->ran);
    codec_i64(c, &j->progress);
    codec_i64(c, &j->attained);
    codec_i64(c, &j->rate);
    codec_i64(c, &j->order_value);
    codec_i64(c, &j->order_slope);
    for (int i = 0; i < REASON_COUNT; i++)
        codec_i64(c, &j->waited[i]);
    codec_i64(c, &j->over_quota);
    codec_i64(c, &j->waited_all);
    for (int i = 0; i < POLICY_WORDS; i++)
        codec_i64(c, &j->word[i]);
    for (int i = 0; i < ORDER_WORDS; i++)
        codec_i64(c, &j->order_word[i]);
}

void snap_job(struct codec *c, struct core *core, uint32_t index)
{
    struct job copy = core->jobs[index];
    usec_t timers[TIMERS_A_JOB] = { USEC_NEVER, USEC_NEVER };
    struct rank rank = core->tree[index].rank;
    int64_t aux = core->tree[index].aux, low = (int64_t)(uint64_t)(unsigned __int128)rank.key,
            high = (int64_t)(rank.key >> 64);

    if (c->write) {
        if (job_waits(copy.state) && copy.shape != UINT32_MAX)
            queue_booked(core, index, &copy);
        for (int k = 0; k < TIMERS_A_JOB; k++)
            timers[k] = heap_at(&core->timers, timer_of(index, (enum timer_kind)k));
    }
    job_fields(c, core, &copy);
    codec_i64(c, &high);
    codec_i64(c, &low);
    codec_i64(c, &aux);
    for (int k = 0; k < TIMERS_A_JOB; k++)
        codec_i64(c, &timers[k]);
    for (uint32_t i = 0; i < core->word_stride; i++)
        codec_i64(c, &core->words[(size_t)index * core->word_stride + i]);
    if (c->write)
        return;
    core->jobs[index] = copy;
    core->jobs[index].shares = core->jobs[index].own_shares = SHARE_NONE;
    core->jobs[index].holds = HOLD_NONE;
    core->jobs[index].run_class = UINT32_MAX;
    core->tree[index].rank = (struct rank){ .key = (__int128)((unsigned __int128)(uint64_t)high << 64 | (uint64_t)low),
                                            .time = copy.spec.submit,
                                            .id = copy.spec.id };
    core->tree[index].aux = aux;
    for (int k = 0; k < TIMERS_A_JOB; k++)
        heap_set(&core->timers, timer_of(index, (enum timer_kind)k), timers[k]);
}
