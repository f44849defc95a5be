/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot as the version before this one left it is read, and holds what it held: snapshot-2 was written by that
 * version, snapshot-2.txt is what it had in memory then, told by the same functions as here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/audit.h"
#include "ctl/state/snapshot.h"
#include "io/file.h"

#define BYTES_MAX ((size_t)1 << 24)

static const struct ctl_config config = {
    .policy = "las", .jobs_max = 4096, .finished_keep = 100, .virtual_time = true
};

static void summary_task(const struct ctl *ctl, const struct ctl_task *task, struct buf *out)
{
    buf_printf(out,
               "  task %s %u exit %d signal %d oom %d blame %d part %d at %lld %lld cause '%s' used %u %u %d %d on",
               names_get(&ctl_registry(ctl)->node_names, task->node), task->state, task->exit, task->signal, task->oom,
               task->blame, task->part, (long long)task->started, (long long)task->ended, task_cause_shown(task),
               task->used_samples, task->used_memory_mib, task->used_util, task->used_util_dev);
    for (uint32_t g = 0; g < task->gpu_count; g++)
        buf_printf(out, " %d", task->gpus[g]);
    buf_char(out, '\n');
}

static void summary_attempt(const struct ctl *ctl, const struct ctl_attempt *a, struct buf *out)
{
    buf_printf(out,
               " attempt %u %d state %d placed %lld %lld %lld ran %lld exit %d %d stop %d by %lld at %lld grace %lld\n",
               a->number, (int)a->phase, a->state, (long long)a->placed, (long long)a->started, (long long)a->ended,
               (long long)a->ran, a->exit, a->signal, a->stop_cause, (long long)a->stop_by, (long long)a->stop_at,
               (long long)a->grace);
    buf_printf(out, "  went %lld warned %lld gang %lld kept %lld port %d roles %u %d %d '%s'\n", (long long)a->went,
               (long long)a->warned, (long long)a->gang_ended, (long long)a->kept_until, a->port, a->role_verdict,
               a->role_exit, a->role_signal, a->refusal ? a->refusal : "");
    for (uint32_t t = 0; t < a->task_count; t++)
        summary_task(ctl, &a->tasks[t], out);
}

static void summary_job(const struct ctl *ctl, const struct ctl_job *job, struct buf *out)
{
    const struct jobspec *w = &job->wants;

    buf_printf(out,
               "job %lld of %lld %d user %u vc %u uid %u gid %u phase %d gate %d held %d link %d ends %d by %lld\n",
               (long long)job->id, (long long)job->array_id, job->array_index, job->user, job->vc, job->uid, job->gid,
               (int)job->phase, (int)job->gate, job->held, job->link, (int)job->ends_as, (long long)job->stop_by);
    buf_printf(out, " slot %u %u times %lld %lld %lld %lld %lld %lld reason %d %lld %lld after %llu %llu ckpt %lld\n",
               job->slot, job->gen, (long long)job->submit, (long long)job->eligible, (long long)job->first_start,
               (long long)job->last_start, (long long)job->end, (long long)job->reason_since, (int)job->reason,
               (long long)job->reason_needs, (long long)job->reason_free, (unsigned long long)job->after_met,
               (unsigned long long)job->after_failed, (long long)job->last_ckpt);
    buf_printf(
        out,
        " said %lld %lld used %lld lost %lld preempted %u failed %u exit %d %d '%s' v%llu predicted %lld %u %d %d %d\n",
        (long long)job->said_progress, (long long)job->said_rate, (long long)job->gpu_usec, (long long)job->lost_usec,
        job->preemptions, job->failures, job->exit, job->signal, job->end_text, (unsigned long long)job->version,
        (long long)job->predicted.run, job->predicted.memory_mib, job->predicted.util, job->predicted.util_dev,
        job->predicted.gpus_pay);
    buf_printf(out,
               " wants %lld %d %d..%d %d share %d tasks %d mcpus %u mib %u limit %lld est %lld prio %d class %d tier "
               "%d sku %x per %d mark %d kept %d\n",
               (long long)w->id, w->gpus, w->gpus_min, w->gpus_max, w->range_max, (int)w->share, w->tasks, w->mcpus,
               w->host_mib, (long long)w->time_limit, (long long)w->estimate, w->priority, w->klass, w->tier,
               w->sku_mask, w->per_node, w->mark, w->kept);
    buf_printf(out,
               " retries %d codes %d lic %d sides %d deadlines %d preempt %d min %lld name '%s' refs %u inside %u\n",
               w->retries, w->retry_on_count ? w->retry_on[w->retry_on_count - 1] : -1,
               w->license_count ? (int)w->licenses[0].license * 1000 + (int)w->licenses[0].count : -1, w->side_count,
               w->deadline_count, w->preempt, (long long)w->min_runtime, job->spec->name ? job->spec->name : "",
               job->source->refs, job->source->array ? job->source->array->inside : 0);
    for (uint32_t a = 0; a < job->attempt_count; a++)
        summary_attempt(ctl, &job->attempts[a], out);
}

static void summary(const struct ctl *ctl, struct buf *out)
{
    const struct registry *r = ctl_registry(ctl);

    buf_printf(out, "seq %llu now %lld next %lld submitted %llu paused %d\n", (unsigned long long)ctl_seq(ctl),
               (long long)ctl_now(ctl), (long long)r->next_id, (unsigned long long)r->submitted, r->paused);
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        buf_printf(out, "%llu ", (unsigned long long)r->ended[i]);
    buf_char(out, '\n');
    for (size_t n = 0; n < r->node_count; n++) {
        const struct ctl_node *node = &r->nodes[n];

        buf_printf(
            out, "node %s '%s' '%s' '%s' '%s' seq %llu core %u %d%d%d%d%d until %lld '%s' barred %lld %u %u %u %lld\n",
            names_get(&r->node_names, node->name), node->address, node->agent, node->boot, node->version,
            (unsigned long long)node->report_seq, node->core_node, node->joined, node->silent, node->lost,
            node->drained, node->forgotten, (long long)node->drain_deadline, node->drain_reason,
            (long long)node->barred, node->reboot, node->joins, node->refusals, (long long)node->rest_until);
        for (uint32_t g = 0; g < node->gpu_count; g++)
            buf_printf(out, " gpu %d%d%d '%s'\n", node->gpus[g].ok, node->gpus[g].drained, node->gpus[g].foreign,
                       node->gpus[g].reason);
    }
    for (size_t i = 0; i < r->token_count; i++)
        buf_printf(out, "token %s %s %s %s %s %lld %lld %u\n", r->tokens[i].id, r->tokens[i].hash, r->tokens[i].user,
                   r->tokens[i].role, r->tokens[i].scope, (long long)r->tokens[i].expires,
                   (long long)r->tokens[i].created, r->tokens[i].nodes);
    for (size_t i = 0; i < r->outcome_count; i++)
        buf_printf(out, "outcome %lld %d\n", (long long)r->outcomes[i].id, (int)r->outcomes[i].phase);
    for (size_t i = 0; i < r->key_count; i++)
        buf_printf(out, "key %u %llu '%s' %lld\n", r->keys[i].user, (unsigned long long)r->keys[i].hash, r->keys[i].key,
                   (long long)r->keys[i].id);
    buf_printf(out, "lists %zu %zu %zu %zu %zu %zu %zu\n", r->kept.limits.count, r->kept.secrets.count,
               r->kept.hooks.count, r->kept.choices.count, r->kept.resvs.count, r->kept.licenses.count,
               r->kept.labels.count);
    for (size_t i = 0; i < r->live_count; i++)
        summary_job(ctl, r->live[i], out);
}

static void file_of(const char *name, struct bytes *ret)
{
    struct error err = { 0 };
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tests/unit/%s", getenv("MUSTER_SOURCE"), name);
    if (file_read(path, BYTES_MAX, ret, &err) < 0)
        fail_msg("%s", err.text);
}

static void expect_clean(const struct ctl *ctl)
{
    struct state_audit audit = { 0 };

    (void)state_audit(ctl, &audit);
    if (audit.count)
        fail_msg("%s", audit.lines[0]);
}

static void expect_content(const struct ctl *ctl, const struct bytes *want)
{
    struct buf text = BUF_INIT(BYTES_MAX);

    summary(ctl, &text);
    buf_char(&text, '\0');
    assert_string_equal(text.data, want->data);
    buf_done(&text);
}

static void test_former(void **state)
{
    struct buf read = BUF_INIT(BYTES_MAX), saved = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
    struct bytes former, want;
    struct error err = { 0 };
    const struct ctl_role_end *end;
    const struct ctl_job *job;
    struct ctl *ctl = NULL;

    (void)state;
    file_of("snapshot-2", &former);
    file_of("snapshot-2.txt", &want);
    assert_false(ctl_snapshot_is(former.data, former.size));
    if (snapshot_from_json(former.data, former.size, &read, &err) < 0 ||
        ctl_load(&config, read.data, read.size, &ctl, &err) < 0)
        fail_msg("%s", err.text);
    expect_content(ctl, &want);
    expect_clean(ctl);
    job = registry_find(ctl_registry(ctl), 8);
    assert_string_equal(job->spec->name, "roles");
    end = role_end_find(job->spec, attempt_last(job), &job->spec->roles[0], 0);
    assert_true(end && end->exit == 3 && end->signal == 9);
    assert_string_equal(setting_text(setting_find(ctl_settings(ctl), "policy")), "fifo-skip");
    assert_int_equal(((struct ctl_sku *)record_at(&ctl_registry(ctl)->kept.skus, 0))->memory_mib, 0);
    assert_int_equal(ctl_save(ctl, &saved, &err), 0);
    ctl_free(ctl);
    assert_int_equal(ctl_load(&config, saved.data, saved.size, &ctl, &err), 0);
    expect_content(ctl, &want);
    expect_clean(ctl);
    assert_int_equal(ctl_save(ctl, &again, &err), 0);
    assert_int_equal(again.size, saved.size);
    assert_memory_equal(again.data, saved.data, saved.size);
    ctl_free(ctl);
    bytes_done(&former);
    bytes_done(&want);
    buf_done(&read);
    buf_done(&saved);
    buf_done(&again);
}

/* What is cut short or changed is refused in words, or is another state; it is never a crash. */
static void test_damage(void **state)
{
    struct buf read = BUF_INIT(BYTES_MAX);
    struct bytes former;
    struct error err = { 0 };
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    file_of("snapshot-2", &former);
    assert_int_equal(snapshot_from_json(former.data, former.size, &read, &err), 0);
    for (int i = 0; i < 400; i++) {
        size_t size = rng_below(&rng, read.size);
        struct ctl *ctl = NULL;

        err = (struct error){ 0 };
        if (ctl_load(&config, read.data, size, &ctl, &err) == 0)
            ctl_free(ctl); /* cut behind all jobs, where the core would be */
        else
            assert_true(err.text[0] != '\0');
    }
    bytes_done(&former);
    buf_done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_former), cmocka_unit_test(test_damage) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
