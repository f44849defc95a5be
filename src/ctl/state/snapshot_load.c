/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_load.c - the state from the bytes of a snapshot (snapshot.h): item by item, each kind by a function of its
 * own, which knows what came before it. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/snapshot.h"
#include "ctl/state/state_internal.h"

struct loading {
    struct ctl *ctl;
    uint32_t version;
    struct ctl_spec *spec;        /* of the jobs that follow; NULL: none yet */
    struct ctl_job *job;          /* the last one, whose parts follow */
    const struct ctl_job *before; /* the one before that: elements of an array follow each other */
};

static int take_head(struct loading *loading, void *record)
{
    struct saved_head *head = record;
    struct ctl *ctl = loading->ctl;
    struct setting_value settings;

    if (setting_read(head->settings, &settings, NULL) < 0)
        return -EBADMSG;
    setting_done(&ctl->settings);
    ctl->settings = settings;
    ctl->seq = head->seq;
    ctl->now = head->now;
    ctl->event_id = head->event;
    ctl->registry.next_id = head->next_id;
    ctl->registry.submitted = head->submitted;
    ctl->registry.paused = head->paused;
    for (size_t i = 0; i < head->ended.count && i < PHASE_JOB_COUNT; i++)
        ctl->registry.ended[i] = (uint64_t)head->ended.items[i];
    return 0;
}

static int name_take(struct names *names, const void *record)
{
    const struct saved_text *saved = record;
    const char *text = saved->text ? saved->text : "";
    uint32_t index;

    return names_put(names, text, strlen(text), &index);
}

static int take_user(struct loading *loading, void *record)
{
    return name_take(&loading->ctl->registry.users, record);
}

static int take_node_name(struct loading *loading, void *record)
{
    return name_take(&loading->ctl->registry.node_names, record);
}

static int take_node(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;
    struct ctl_node *node = record;
    void *block = registry->nodes;
    int r;

    if (registry->node_count >= registry->node_names.count)
        return -EBADMSG;
    r = mem_grow(&block, &registry->node_capacity, registry->node_count + 1, NODES_MAX, sizeof(*registry->nodes));
    registry->nodes = block;
    if (r < 0)
        return r;
    node->name = (uint32_t)registry->node_count;
    registry->nodes[registry->node_count++] = *node;
    loading->ctl->deadlines += node->drain_deadline != 0;
    loading->ctl->deadlines += node->rest_until != 0;
    loading->ctl->reboots += node->reboot == REBOOT_WANTED;
    return 0;
}

/* Those of nodes of before inventories were kept say nothing. */
static int take_inventory(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;
    const struct saved_text *saved = record;

    if (registry->node_count == 0)
        return -EBADMSG;
    return inventory_read(saved->text, &registry->nodes[registry->node_count - 1].inventory, NULL);
}

static int take_gpu(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;
    struct ctl_node *node;
    struct ctl_gpu *grown;

    if (registry->node_count == 0)
        return -EBADMSG;
    node = &registry->nodes[registry->node_count - 1];
    if (node->gpu_count >= NODE_GPUS_MAX)
        return -EBADMSG;
    grown = mem_resize(node->gpus, node->gpu_count + 1u, sizeof(*node->gpus));
    if (!grown)
        return -ENOMEM;
    node->gpus = grown;
    memcpy(&grown[node->gpu_count++], record, sizeof(*grown));
    return 0;
}

enum { SAVED_TOKENS_MAX = 1 << 20 };

static int take_token(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;
    void *block = registry->tokens;
    int r = mem_grow(&block, &registry->token_capacity, registry->token_count + 1, SAVED_TOKENS_MAX,
                     sizeof(*registry->tokens));

    registry->tokens = block;
    if (r == 0)
        memcpy(&registry->tokens[registry->token_count++], record, sizeof(*registry->tokens));
    return r;
}

static int take_outcome(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;
    const struct ctl_outcome *saved = record;

    if (registry->outcome_count >= REGISTRY_OUTCOMES)
        return -EBADMSG;
    registry_outcome_put(registry, saved->id, saved->phase);
    return 0;
}

static int take_key(struct loading *loading, void *record)
{
    struct registry *registry = &loading->ctl->registry;

    if (registry->key_count >= REGISTRY_KEYS)
        return -EBADMSG;
    memcpy(&registry->keys[registry->key_count], record, sizeof(*registry->keys));
    registry_key_link(registry, registry->key_count++);
    registry->key_next = registry->key_count % REGISTRY_KEYS;
    return 0;
}

static int take_spec(struct loading *loading, void *record)
{
    const struct saved_text *saved = record;

    ctl_spec_drop(loading->spec);
    loading->spec = ctl_spec_new(saved->text, NULL);
    return loading->spec ? 0 : -EBADMSG;
}

/* All of the last job is there by now. */
static void job_whole(struct loading *loading)
{
    if (!loading->job)
        return;
    if (job_in_core(loading->job)) {
        loading->ctl->by_slot[loading->job->slot] = loading->job;
        job_counts(loading->job, 1);
        user_count(loading->ctl, loading->job);
    }
    job_timer_set(loading->ctl, loading->job);
    gate_queue_enter(loading->ctl, loading->job);
    gate_wait(loading->ctl, loading->job);
    loading->before = loading->job;
    loading->job = NULL;
}

static int take_job(struct loading *loading, void *record)
{
    struct ctl *ctl = loading->ctl;
    const struct registry *registry = &ctl->registry;
    struct ctl_job *job;
    int r;

    job_whole(loading);
    job = mem_zalloc(1, sizeof(*job));
    if (!job || !loading->spec) {
        mem_free(job);
        return job ? -EBADMSG : -ENOMEM;
    }
    *job = *(const struct ctl_job *)record;
    job->source = loading->spec;
    job->spec = &loading->spec->s;
    loading->spec->refs++;
    r = registry->live_count && registry->live[registry->live_count - 1]->id >= job->id ? -EBADMSG : 0;
    if (r == 0 && job_in_core(job) && (!ctl->core || job->slot >= ctl->config.jobs_max || ctl->by_slot[job->slot]))
        r = -EBADMSG;
    /* Before it is counted in the array that it shares. */
    if (r == 0 && loading->before && job->array_id && loading->before->array_id == job->array_id)
        ctl_spec_share(loading->spec, loading->before->source);
    if (r == 0)
        r = registry_add(ctl, job);
    if (r < 0) {
        ctl_job_free(job);
        return r;
    }
    loading->job = job;
    return 0;
}

static int take_wants(struct loading *loading, void *record)
{
    const struct saved_wants *saved = record;
    struct jobspec *wants;

    if (!loading->job || saved->deadlines.count > 2 * DEADLINES_MAX || saved->licenses.count > 2 * LICENSE_NEEDS_MAX ||
        saved->sides.count > 5 * SIDES_MAX || saved->retry_on.count > RETRY_CODES_MAX)
        return -EBADMSG;
    wants = &loading->job->wants;
    *wants = saved->spec;
    for (size_t i = 0; i + 1 < saved->deadlines.count; i += 2)
        wants->deadlines[wants->deadline_count++] =
            (struct deadline){ saved->deadlines.items[i], (int32_t)saved->deadlines.items[i + 1] };
    for (size_t i = 0; i + 1 < saved->licenses.count; i += 2)
        wants->licenses[wants->license_count++] =
            (struct license_need){ .license = (uint8_t)saved->licenses.items[i],
                                   .count = (uint32_t)saved->licenses.items[i + 1] };
    for (size_t i = 0; i + 4 < saved->sides.count; i += 5) {
        const int64_t *side = &saved->sides.items[i];

        wants->sides[wants->side_count++] = (struct gang_side){ .gpus = (int32_t)side[0],
                                                                .sku_mask = (uint32_t)side[1],
                                                                .per_node = (uint16_t)side[2],
                                                                .mcpus = (uint32_t)side[3],
                                                                .host_mib = (uint32_t)side[4] };
    }
    for (size_t i = 0; i < saved->retry_on.count; i++)
        wants->retry_on[wants->retry_on_count++] = (uint8_t)saved->retry_on.items[i];
    return 0;
}

static int ends_take(struct ctl_attempt *attempt, const struct submission *s, const struct number_list *ends)
{
    int r = ends->count ? role_ends_make(attempt, s) : 0;

    for (size_t i = 0; r == 0 && i + 2 < ends->count; i += 3) {
        if (ends->items[i] < 0 || ends->items[i] >= attempt->role_end_count)
            return -EBADMSG;
        attempt->role_ends[ends->items[i]] =
            (struct ctl_role_end){ true, (int)ends->items[i + 1], (int)ends->items[i + 2] };
    }
    return r;
}

static int take_attempt(struct loading *loading, void *record)
{
    struct saved_attempt *saved = record;
    struct ctl_job *job = loading->job;
    struct ctl_attempt *attempt;

    if (!job || saved->attempt.state == ATTEMPT_NONE || saved->attempt.state >= ATTEMPT_STATE_COUNT)
        return -EBADMSG;
    if (attempt_live(attempt_of(job)))
        return -EBADMSG;
    if (ctl_attempt_add(job) < 0)
        return -ENOMEM;
    attempt = attempt_now(job);
    *attempt = saved->attempt;
    saved->attempt.refusal = NULL; /* taken */
    attempt->stop_cause = (uint8_t)stop_cause_find(saved->stop_kind);
    return ends_take(attempt, job->spec, &saved->role_ends);
}

static int take_task(struct loading *loading, void *record)
{
    const struct saved_task *saved = record;
    struct ctl_attempt *attempt = loading->job ? attempt_of(loading->job) : NULL;
    struct ctl_task *grown, *task;

    if (!attempt || saved->task.node >= loading->ctl->registry.node_count || saved->gpus.count > NODE_GPUS_MAX)
        return -EBADMSG;
    grown = mem_resize(attempt->tasks, attempt->task_count + 1, sizeof(*attempt->tasks));
    if (!grown)
        return -ENOMEM;
    attempt->tasks = grown;
    task = &grown[attempt->task_count];
    *task = saved->task;
    task->gpus = mem_zalloc(saved->gpus.count + 1, sizeof(*task->gpus));
    if (!task->gpus)
        return -ENOMEM;
    attempt->task_count++;
    for (size_t g = 0; g < saved->gpus.count; g++)
        task->gpus[task->gpu_count++] = (uint16_t)saved->gpus.items[g];
    task_cause_note(task, saved->cause);
    return 0;
}

static int (*const takers[SAVED_COUNT])(struct loading *loading, void *record) = {
    [SAVED_HEAD] = take_head,
    [SAVED_USER] = take_user,
    [SAVED_NODE_NAME] = take_node_name,
    [SAVED_NODE] = take_node,
    [SAVED_INVENTORY] = take_inventory,
    [SAVED_GPU] = take_gpu,
    [SAVED_TOKEN] = take_token,
    [SAVED_OUTCOME] = take_outcome,
    [SAVED_KEY] = take_key,
    [SAVED_SPEC] = take_spec,
    [SAVED_JOB] = take_job,
    [SAVED_WANTS] = take_wants,
    [SAVED_ATTEMPT] = take_attempt,
    [SAVED_TASK] = take_task,
};

union saved_any {
#define X(code, type, number) type member_##code;
    SAVED_KINDS(X)
#undef X
};

/* The items of a part, one after another. */
static int load_items(struct loading *loading, const char *data, size_t size, struct error *err)
{
    union saved_any *record = mem_zalloc(1, sizeof(*record));
    size_t at = 0, length;
    int r = record ? 0 : -ENOMEM;

    while (r == 0 && at < size) {
        int kind = size - at > SAVED_LENGTH_BYTES ? saved_find((uint8_t)data[at]) : -ENOENT;

        length = 0;
        for (size_t i = 0; kind >= 0 && i < SAVED_LENGTH_BYTES; i++)
            length |= (size_t)(uint8_t)data[at + 1 + i] << 8 * i;
        if (kind < 0 || length > size - at - 1 - SAVED_LENGTH_BYTES) {
            r = error_set(err, -EBADMSG, "snapshot: damaged at byte %zu of a part", at);
            break;
        }
        at += 1 + SAVED_LENGTH_BYTES;
        memset(record, 0, sizeof(*record));
        r = record_decode(saved_fields((enum saved_kind)kind), loading->version, data + at, length, record, err);
        if (r < 0)
            r = error_prefix(err, -EBADMSG, "snapshot");
        else if ((r = takers[kind](loading, record)) < 0)
            r = error_set(err, r, "snapshot: %s",
                          r == -ENOMEM   ? "no memory"
                          : r == -ENOSPC ? "too many jobs"
                                         : "a record is not in its place");
        record_done(saved_fields((enum saved_kind)kind), record);
        at += length;
    }
    mem_free(record);
    if (r == 0)
        job_whole(loading);
    return r;
}

/* The next part; NULL: cut short. */
static const char *take_part(const char **data, size_t *left, size_t *ret_size)
{
    const char *part = *data + sizeof(uint64_t);
    uint64_t length = 0;

    if (*left >= sizeof(length))
        memcpy(&length, *data, sizeof(length));
    if (*left < sizeof(length) || length > *left - sizeof(length))
        return NULL;
    *ret_size = (size_t)length;
    *data = part + length;
    *left -= sizeof(length) + (size_t)length;
    return part;
}

static int load_parts(struct ctl *ctl, const char *data, size_t size, struct error *err)
{
    struct loading loading = { .ctl = ctl };
    const char *part[3] = { NULL };
    size_t part_size[3] = { 0 };
    uint64_t version = 0;
    int r = 0;

    if (size >= sizeof(version))
        memcpy(&version, data, sizeof(version));
    if (version > ENTRY_VERSION)
        return error_set(err, -EPROTONOSUPPORT, "snapshot: of version %llu, this controller reads up to %d",
                         (unsigned long long)version, ENTRY_VERSION);
    if (version == 0)
        return error_set(err, -EBADMSG, "snapshot: cut short");
    loading.version = (uint32_t)version;
    data += sizeof(version);
    size -= sizeof(version);
    for (int i = 0; i < 3; i++)
        if (!(part[i] = take_part(&data, &size, &part_size[i])))
            return error_set(err, -EBADMSG, "snapshot: cut short");
    r = load_items(&loading, part[0], part_size[0], err);
    if (r == 0 && ctl->registry.node_count != ctl->registry.node_names.count)
        r = error_set(err, -EBADMSG, "snapshot: nodes and their names do not agree");
    if (r == 0 && kept_decode(&ctl->registry.kept, loading.version, part[1], part_size[1], err) < 0)
        r = error_prefix(err, -EBADMSG, "snapshot");
    if (r == 0)
        r = cluster_restore(ctl, data, size, err);
    if (r == 0)
        r = load_items(&loading, part[2], part_size[2], err);
    ctl_spec_drop(loading.spec);
    return r;
}

bool ctl_snapshot_is(const char *data, size_t size)
{
    return size >= CTL_SNAPSHOT_MAGIC_SIZE && memcmp(data, CTL_SNAPSHOT_MAGIC, CTL_SNAPSHOT_MAGIC_SIZE) == 0;
}

int ctl_load(const struct ctl_config *config, const char *data, size_t size, struct ctl **ret_ctl, struct error *err)
{
    struct ctl *ctl = NULL;
    int r;

    if (!ctl_snapshot_is(data, size))
        return error_set(err, -EBADMSG, "snapshot: not one of this controller");
    r = ctl_new(config, &ctl, err);
    if (r < 0)
        return r;
    r = load_parts(ctl, data + CTL_SNAPSHOT_MAGIC_SIZE, size - CTL_SNAPSHOT_MAGIC_SIZE, err);
    if (r < 0) {
        ctl_free(ctl);
        return r;
    }
    *ret_ctl = ctl;
    return 0;
}
