/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - see snapshot.h: the records of a snapshot, and how they are written.
 *
 * A struct that is more than what is saved of it has a table of the members that are. Zeros are left out. What is not
 * in the log (connections, beats) is not saved either.
 */
#include "ctl/state/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "core/snapshot/snapshot.h"
#include "ctl/state/state_internal.h"

#define SAVED_BYTES_MAX ((size_t)1 << 31)

#define FIRST(type, member) (((type *)0)->member)
#define MOST(type, member)                                                                                             \
    (FIELD_OF(FIRST(type, member)) == FIELD_CHARS ? (int64_t)sizeof(FIRST(type, member)) - 1 : INT64_MAX)
/* A number, a flag or characters; its tag. */
#define F(type, member, tag)                                                                                           \
    {                                                                                                                  \
#member, FIELD_OF(FIRST(type, member)), tag, 1, offsetof(type, member), INT64_MIN, MOST(type, member), NULL    \
    }
/* What is owned by it. */
#define P(type, member, what, tag)                                                                                     \
    {                                                                                                                  \
#member, FIELD_##what, tag, 1, offsetof(type, member), 0, INT64_MAX, NULL                                      \
    }

#define H(member, tag) F(struct saved_head, member, tag)
static const struct entry_field head_fields[] = {
    H(seq, 1),
    H(event, 2),
    H(submitted, 3),
    H(now, 4),
    H(next_id, 5),
    H(paused, 6),
    P(struct saved_head, ended, NUMBERS, 7),
    P(struct saved_head, settings, RAW, 8),
};
static const struct entry_field text_fields[] = { P(struct saved_text, text, RAW, 1) };
#define N(member, tag) F(struct ctl_node, member, tag)
static const struct entry_field node_fields[] = {
    N(address, 1),    N(agent, 2),           N(boot, 3),          N(version, 4), N(report_seq, 5),
    N(core_node, 6),  N(joined, 7),          N(silent, 8),        N(lost, 9),    N(drained, 10),
    N(forgotten, 11), N(drain_deadline, 12), N(drain_reason, 13), N(barred, 14), N(reboot, 15),
    N(joins, 16),     N(refusals, 17),       N(rest_until, 18),   N(lease, 19),  N(machine, 20),
};
#define G(member, tag) F(struct ctl_gpu, member, tag)
static const struct entry_field gpu_fields[] = { G(ok, 1), G(drained, 2), G(foreign, 3), G(reason, 4) };
#define T(member, tag) F(struct ctl_token, member, tag)
static const struct entry_field token_fields[] = {
    T(id, 1), T(hash, 2), T(user, 3), T(role, 4), T(scope, 5), T(expires, 6), T(created, 7), T(nodes, 8),
};
static const struct entry_field outcome_fields[] = { F(struct ctl_outcome, id, 1), F(struct ctl_outcome, phase, 2) };
#define K(member, tag) F(struct ctl_key, member, tag)
static const struct entry_field key_fields[] = { K(user, 1), K(hash, 2), K(key, 3), K(id, 4) };
#define J(member, tag) F(struct ctl_job, member, tag)
static const struct entry_field job_fields[] = {
    J(id, 1),
    J(array_id, 2),
    J(array_index, 3),
    J(user, 4),
    J(vc, 5),
    J(uid, 6),
    J(gid, 7),
    J(phase, 8),
    J(gate, 9),
    J(held, 10),
    J(link, 11),
    J(ends_as, 12),
    J(stop_by, 13),
    J(slot, 14),
    J(gen, 15),
    J(submit, 16),
    J(eligible, 17),
    J(first_start, 18),
    J(last_start, 19),
    J(end, 20),
    J(reason_since, 21),
    J(reason, 22),
    J(reason_needs, 23),
    J(reason_free, 24),
    J(after_met, 25),
    J(after_failed, 26),
    J(last_ckpt, 27),
    J(said_progress, 28),
    J(said_rate, 29),
    J(gpu_usec, 30),
    J(preemptions, 31),
    J(failures, 32),
    J(exit, 33),
    J(signal, 34),
    J(end_text, 35),
    J(version, 36),
    J(lost_usec, 37),
    J(predicted.run, 38),
    J(predicted.memory_mib, 39),
    J(predicted.util, 40),
    J(predicted.util_dev, 41),
    J(predicted.gpus_pay, 42),
};
#define W(member, tag) F(struct saved_wants, spec.member, tag)
#define L(member, tag) P(struct saved_wants, member, NUMBERS, tag)
static const struct entry_field wants_fields[] = {
    W(id, 1),
    W(submit, 2),
    W(estimate, 3),
    W(time_limit, 4),
    W(user, 5),
    W(vc, 6),
    W(model, 7),
    W(gpus, 8),
    W(tasks, 9),
    W(mcpus, 10),
    W(host_mib, 11),
    W(per_unit, 12),
    W(unit, 13),
    W(within, 14),
    W(within_must, 15),
    W(share, 16),
    W(gpus_min, 17),
    W(gpus_max, 18),
    W(range_min, 19),
    W(range_max, 20),
    W(servers, 21),
    W(memory_mib, 22),
    W(memory_peak_mib, 23),
    W(batch, 24),
    W(sku_mask, 25),
    W(utilisation, 26),
    W(per_node, 27),
    W(mark, 28),
    W(kept, 29),
    W(skew_permille, 30),
    W(tp, 31),
    W(pp, 32),
    W(splice_max, 33),
    W(priority, 34),
    W(klass, 35),
    W(tier, 36),
    W(slo, 37),
    W(retries, 38),
    W(no_requeue, 39),
    W(preempt, 40),
    W(min_runtime, 41),
    W(gpu_servers, 42),
    W(bandwidth, 43),
    W(launch, 44),
    W(save, 45),
    L(deadlines, 46),
    L(licenses, 47),
    L(sides, 48),
    L(retry_on, 49),
};
#define A(member, tag) F(struct saved_attempt, attempt.member, tag)
static const struct entry_field attempt_fields[] = {
    A(number, 1),
    A(phase, 2),
    A(role_verdict, 3),
    A(role_exit, 4),
    A(role_signal, 5),
    A(placed, 6),
    A(started, 7),
    A(ended, 8),
    A(ran, 9),
    A(exit, 10),
    A(signal, 11),
    A(state, 12),
    A(went, 13),
    A(warned, 14),
    A(gang_ended, 15),
    A(stop_by, 16),
    A(stop_at, 17),
    A(grace, 18),
    A(kept_until, 19),
    A(port, 20),
    P(struct saved_attempt, attempt.refusal, RAW, 21),
    P(struct saved_attempt, stop_kind, RAW, 22),
    P(struct saved_attempt, role_ends, NUMBERS, 23),
};
#define K2(member, tag) F(struct saved_task, task.member, tag)
static const struct entry_field task_fields[] = {
    K2(node, 1),
    K2(state, 2),
    K2(exit, 3),
    K2(signal, 4),
    K2(oom, 5),
    K2(blame, 6),
    K2(part, 7),
    K2(started, 8),
    K2(ended, 9),
    K2(used_samples, 10),
    K2(used_memory_mib, 11),
    K2(used_util, 12),
    K2(used_util_dev, 13),
    P(struct saved_task, cause, RAW, 14),
    P(struct saved_task, gpus, NUMBERS, 15),
};

#define LIST(fields)                                                                                                   \
    {                                                                                                                  \
        fields, sizeof(fields) / sizeof((fields)[0])                                                                   \
    }
static const struct field_list lists[SAVED_COUNT] = {
    [SAVED_HEAD] = LIST(head_fields),       [SAVED_USER] = LIST(text_fields),
    [SAVED_NODE_NAME] = LIST(text_fields),  [SAVED_NODE] = LIST(node_fields),
    [SAVED_INVENTORY] = LIST(text_fields),  [SAVED_GPU] = LIST(gpu_fields),
    [SAVED_TOKEN] = LIST(token_fields),     [SAVED_OUTCOME] = LIST(outcome_fields),
    [SAVED_KEY] = LIST(key_fields),         [SAVED_SPEC] = LIST(text_fields),
    [SAVED_JOB] = LIST(job_fields),         [SAVED_WANTS] = LIST(wants_fields),
    [SAVED_ATTEMPT] = LIST(attempt_fields), [SAVED_TASK] = LIST(task_fields),
};

static const struct saved_row {
    size_t size;
    uint8_t number;
} rows[SAVED_COUNT] = {
#define X(code, type, number) [SAVED_##code] = { sizeof(type), number },
    SAVED_KINDS(X)
#undef X
};

const struct field_list *saved_fields(enum saved_kind kind)
{
    assert(kind < SAVED_COUNT);
    return &lists[kind];
}

int saved_find(uint8_t number)
{
    for (int i = 0; i < SAVED_COUNT; i++)
        if (rows[i].number == number)
            return i;
    return -ENOENT;
}

size_t saved_size(enum saved_kind kind)
{
    assert(kind < SAVED_COUNT);
    return rows[kind].size;
}

void saved_put(struct buf *out, enum saved_kind kind, const void *record)
{
    size_t start, size;

    assert(kind < SAVED_COUNT);
    buf_char(out, (char)rows[kind].number);
    start = out->size;
    buf_put(out, (const char[SAVED_LENGTH_BYTES]){ 0 }, SAVED_LENGTH_BYTES);
    record_encode(&lists[kind], record, out);
    if (out->error)
        return;
    size = out->size - start - SAVED_LENGTH_BYTES;
    assert(size <= UINT32_MAX);
    for (size_t i = 0; i < SAVED_LENGTH_BYTES; i++)
        out->data[start + i] = (char)(size >> 8 * i);
}

/* A record that only borrows what it points to. */
static char *lent(const char *text)
{
    return (char *)(uintptr_t)text;
}

void saved_put_text(struct buf *out, enum saved_kind kind, const char *text)
{
    saved_put(out, kind, &(struct saved_text){ lent(text) });
}

void saved_put_wants(struct buf *out, const struct jobspec *spec)
{
    int64_t deadlines[2 * DEADLINES_MAX], licenses[2 * LICENSE_NEEDS_MAX], sides[5 * SIDES_MAX], codes[RETRY_CODES_MAX];
    struct saved_wants wants = { .spec = *spec,
                                 .deadlines = { deadlines, 2 * (size_t)spec->deadline_count },
                                 .licenses = { licenses, 2 * (size_t)spec->license_count },
                                 .sides = { sides, 5 * (size_t)spec->side_count },
                                 .retry_on = { codes, spec->retry_on_count } };

    assert(spec->deadline_count <= DEADLINES_MAX && spec->license_count <= LICENSE_NEEDS_MAX);
    assert(spec->side_count <= SIDES_MAX && spec->retry_on_count <= RETRY_CODES_MAX);
    for (size_t i = 0; i < spec->deadline_count; i++) {
        deadlines[2 * i] = spec->deadlines[i].at;
        deadlines[2 * i + 1] = spec->deadlines[i].value;
    }
    for (size_t i = 0; i < spec->license_count; i++) {
        licenses[2 * i] = spec->licenses[i].license;
        licenses[2 * i + 1] = spec->licenses[i].count;
    }
    for (size_t i = 0; i < spec->side_count; i++) {
        const struct gang_side *side = &spec->sides[i];
        const int64_t numbers[] = { side->gpus, side->sku_mask, side->per_node, side->mcpus, side->host_mib };

        memcpy(&sides[5 * i], numbers, sizeof(numbers));
    }
    for (size_t i = 0; i < spec->retry_on_count; i++)
        codes[i] = spec->retry_on[i];
    saved_put(out, SAVED_WANTS, &wants);
}

void saved_begin(struct buf *out)
{
    uint64_t version = ENTRY_VERSION;

    buf_put(out, CTL_SNAPSHOT_MAGIC, CTL_SNAPSHOT_MAGIC_SIZE);
    buf_put(out, &version, sizeof(version));
}

void saved_part(struct buf *out, const char *data, size_t size)
{
    uint64_t length = size;

    buf_put(out, &length, sizeof(length));
    buf_put(out, data, size);
}

/* Saving. */

static void save_task(struct buf *out, const struct ctl_task *task)
{
    struct saved_task saved = { .task = *task, .gpus.count = task->gpu_count };
    const char *cause = task_cause_shown(task);

    saved.gpus.items = mem_zalloc(task->gpu_count + 1u, sizeof(int64_t));
    if (!saved.gpus.items) {
        out->error = -ENOMEM;
        return;
    }
    for (uint32_t g = 0; g < task->gpu_count; g++)
        saved.gpus.items[g] = task->gpus[g];
    saved.cause = *cause ? lent(cause) : NULL;
    saved_put(out, SAVED_TASK, &saved);
    mem_free(saved.gpus.items);
}

static void save_attempt(struct buf *out, const struct ctl_attempt *attempt)
{
    struct saved_attempt saved = { .attempt = *attempt };
    const char *cause = stop_cause_name((enum stop_cause)attempt->stop_cause);
    int64_t *ends = mem_zalloc((size_t)attempt->role_end_count * 3 + 1, sizeof(*ends));

    if (!ends) {
        out->error = -ENOMEM;
        return;
    }
    saved.stop_kind = *cause ? lent(cause) : NULL;
    saved.role_ends.items = ends;
    for (uint32_t i = 0; i < attempt->role_end_count; i++)
        if (attempt->role_ends[i].ended) {
            ends[saved.role_ends.count++] = i;
            ends[saved.role_ends.count++] = attempt->role_ends[i].exit;
            ends[saved.role_ends.count++] = attempt->role_ends[i].signal;
        }
    saved_put(out, SAVED_ATTEMPT, &saved);
    mem_free(ends);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        save_task(out, &attempt->tasks[t]);
}

/* Whether it has the submission of the job before it. Elements on both sides of one that was changed have one or, from
 * a snapshot of before that one ended, two that are equal: that makes no difference. */
static bool spec_again(const struct ctl_job *job, const struct ctl_job *before)
{
    return before && (job->source == before->source || (job->array_id && job->array_id == before->array_id &&
                                                        strcmp(job->source->text, before->source->text) == 0));
}

static void save_jobs(const struct ctl *ctl, struct buf *out)
{
    const struct ctl_job *before = NULL;

    for (size_t i = 0; i < ctl->registry.live_count; i++) {
        const struct ctl_job *job = ctl->registry.live[i];

        if (!spec_again(job, before))
            saved_put_text(out, SAVED_SPEC, job->source->text);
        before = job;
        saved_put(out, SAVED_JOB, job);
        saved_put_wants(out, &job->wants);
        for (uint32_t a = 0; a < job->attempt_count; a++)
            save_attempt(out, &job->attempts[a]);
    }
}

static void save_head(const struct ctl *ctl, struct buf *out)
{
    const struct registry *registry = &ctl->registry;
    int64_t ended[PHASE_JOB_COUNT];
    struct saved_head head = { .seq = ctl->seq,
                               .event = ctl->event_id,
                               .submitted = registry->submitted,
                               .now = ctl->now,
                               .next_id = registry->next_id,
                               .paused = registry->paused,
                               .ended = { ended, PHASE_JOB_COUNT },
                               .settings = setting_doc(&ctl->settings) };

    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        ended[i] = (int64_t)registry->ended[i];
    if (!head.settings)
        out->error = -ENOMEM;
    saved_put(out, SAVED_HEAD, &head);
    mem_free(head.settings);
}

static void save_nodes(const struct registry *registry, struct buf *out)
{
    CLEANUP_BUF struct buf inventory = BUF_INIT(SAVED_BYTES_MAX);

    for (size_t n = 0; n < registry->node_count; n++) {
        const struct ctl_node *node = &registry->nodes[n];

        saved_put(out, SAVED_NODE, node);
        buf_clear(&inventory);
        inventory_put(&node->inventory, &inventory);
        if (inventory.error)
            out->error = inventory.error;
        else
            saved_put_text(out, SAVED_INVENTORY, inventory.data);
        for (uint32_t g = 0; g < node->gpu_count; g++)
            saved_put(out, SAVED_GPU, &node->gpus[g]);
    }
}

static void save_book(const struct ctl *ctl, struct buf *out)
{
    const struct registry *registry = &ctl->registry;

    save_head(ctl, out);
    for (uint32_t i = 0; i < registry->users.count; i++)
        saved_put_text(out, SAVED_USER, names_get(&registry->users, i));
    for (uint32_t i = 0; i < registry->node_names.count; i++)
        saved_put_text(out, SAVED_NODE_NAME, names_get(&registry->node_names, i));
    save_nodes(registry, out);
    for (size_t i = 0; i < registry->token_count; i++)
        saved_put(out, SAVED_TOKEN, &registry->tokens[i]);
    for (size_t i = 0; i < registry->outcome_count; i++) {
        size_t k = (registry->outcome_next + REGISTRY_OUTCOMES - registry->outcome_count + i) % REGISTRY_OUTCOMES;

        saved_put(out, SAVED_OUTCOME, &registry->outcomes[k]);
    }
    for (size_t i = 0; i < registry->key_count; i++) {
        size_t k = (registry->key_next + REGISTRY_KEYS - registry->key_count + i) % REGISTRY_KEYS;

        saved_put(out, SAVED_KEY, &registry->keys[k]);
    }
}

static void put_core(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

int ctl_save(const struct ctl *ctl, struct buf *out, struct error *err)
{
    CLEANUP_BUF struct buf part = BUF_INIT(SAVED_BYTES_MAX);

    saved_begin(out);
    save_book(ctl, &part);
    saved_part(out, part.data, part.size);
    for (int which = 0; which < 2 && !part.error; which++) {
        buf_clear(&part);
        if (which == 0)
            kept_encode(&ctl->registry.kept, &part);
        else
            save_jobs(ctl, &part);
        saved_part(out, part.data, part.size);
    }
    if (ctl->core)
        core_save(ctl->core, put_core, out);
    return part.error || out->error ? error_set(err, -ENOMEM, "no memory for a snapshot") : 0;
}
