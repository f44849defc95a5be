/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - nodes come, fall silent, are lost, are drained; and what their agents report. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

static const char *text_or(const char *text)
{
    return text ? text : "";
}

struct ctl_node *node_get(struct ctl *ctl, const char *name)
{
    uint32_t index = names_find(&ctl->registry.node_names, name, strlen(name));

    return index == NAME_NONE ? NULL : &ctl->registry.nodes[index];
}

bool node_runs(const struct ctl *ctl, const struct ctl_node *node)
{
    const struct ctl_job *job;

    for (size_t at = 0; (job = registry_next(&ctl->registry, &at));) {
        const struct ctl_attempt *attempt = attempt_last(job);

        for (uint32_t t = 0; attempt_live(attempt) && t < attempt->task_count; t++)
            if (attempt->tasks[t].node == node->name && !task_gone(&attempt->tasks[t]))
                return true;
    }
    return false;
}

int join_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const char *name = text_or(entry->join.node);
    struct inventory inventory;

    (void)ctl;
    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789.-_")])
        return ret->code = error_set(&ret->text, -EINVAL, "node: a name has letters, digits, '.', '-' and '_'");
    if (!*text_or(entry->join.agent) || inventory_read(entry->join.inventory, &inventory, NULL) < 0)
        return ret->code = error_set(&ret->text, -EINVAL, "node %s: expected agent and inventory", name);
    if (inventory.gpu_count > NODE_GPUS_MAX || (inventory.gpu_count > 0 && !*text_or(inventory.sku)))
        ret->code =
            error_set(&ret->text, -EINVAL, "node %s: expected at most %d GPUs of a named type", name, NODE_GPUS_MAX);
    inventory_done(&inventory);
    return ret->code;
}

/* The node that an entry is about; all these records begin with its name. NULL: refused. */
static const struct ctl_node *node_of(const struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const char *name = text_or(entry->lost.node);
    const struct ctl_node *node = registry_node_find(&ctl->registry, name);

    if (node && !node->forgotten)
        return node;
    ret->code = error_set(&ret->text, -ENOENT, "no node '%s'", name);
    return NULL;
}

int node_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    return node_of(ctl, entry, ret) ? 0 : ret->code;
}

int drain_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct opt_number *gpu = entry->kind == ENTRY_DRAIN ? &entry->drain.gpu : &entry->undrain.gpu;
    const struct ctl_node *node = node_of(ctl, entry, ret);

    if (node && gpu->given == GIVEN_VALUE && (gpu->value < 0 || gpu->value >= node->gpu_count))
        return ret->code =
                   error_set(&ret->text, -ENOENT, "node %s has GPUs 0 to %d", entry->drain.node, node->gpu_count - 1);
    return ret->code;
}

int forget_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct ctl_node *node = node_of(ctl, entry, ret);

    if (node && !node->lost && !entry->forget.revoke)
        return ret->code = error_set(&ret->text, -EALREADY, "node %s is not lost; drain it and stop its agent first",
                                     entry->forget.node);
    return ret->code;
}

static struct ctl_node *node_add(struct ctl *ctl, const char *name)
{
    struct registry *registry = &ctl->registry;
    void *block = registry->nodes;
    uint32_t index;
    int r;

    if (names_put(&registry->node_names, name, strlen(name), &index) < 0)
        return NULL;
    if (index < registry->node_count)
        return &registry->nodes[index];
    r = mem_grow(&block, &registry->node_capacity, registry->node_count + 1, NODES_MAX, sizeof(*registry->nodes));
    registry->nodes = block;
    if (r < 0)
        return NULL;
    assert(index == registry->node_count);
    registry->nodes[index] = (struct ctl_node){ .name = index, .core_node = UINT32_MAX };
    registry->node_count++;
    return &registry->nodes[index];
}

/* Why a GPU is out of order that its node has lost. */
static const char gone_reason[] = "not there since the node came back";

static bool gpu_gone(const struct ctl_gpu *gpu)
{
    return !gpu->ok && strcmp(gpu->reason, gone_reason) == 0;
}

/* Takes what the inventory holds. */
static void take_inventory(struct ctl *ctl, struct ctl_node *node, struct inventory *inventory)
{
    uint16_t count = (uint16_t)inventory->gpu_count;
    struct ctl_gpu *gpus = mem_zalloc(count + 1u, sizeof(*gpus));

    assert(gpus);
    assert(inventory->gpu_count <= NODE_GPUS_MAX);
    for (uint16_t g = 0; g < count; g++) {
        if (g < node->gpu_count) /* a GPU that was taken out stays out */
            gpus[g] = node->gpus[g];
        if (gpu_gone(&gpus[g]))
            gpus[g].reason[0] = '\0';
        gpus[g].ok = !inventory->gpus[g].bad;
    }
    mem_free(node->gpus);
    node->gpus = gpus;
    node->gpu_count = count;
    inventory_done(&node->inventory);
    node->inventory = *inventory;
    *inventory = (struct inventory){ 0 };
    ctl->cluster_dirty = true;
}

static void lose(struct ctl *ctl, struct ctl_node *node)
{
    node->lost = true;
    attempt_node_lost(ctl, node->name);
    node_tell(ctl, node);
}

/* How many of its GPUs a node had when it came last: behind those are the ones that it lost. */
static uint16_t gpus_present(const struct ctl_node *node)
{
    uint16_t count = node->gpu_count;

    while (count > 0 && gpu_gone(&node->gpus[count - 1]))
        count--;
    return count;
}

/* It has so many GPUs by now; others of those it had are out of order until it has them again. */
static void gpus_mark(struct ctl_node *node, size_t count)
{
    for (uint16_t g = 0; g < node->gpu_count; g++) {
        struct ctl_gpu *gpu = &node->gpus[g];

        if (g >= count) {
            gpu->ok = false;
            text_fit(gpu->reason, sizeof(gpu->reason), gone_reason);
        } else if (gpu_gone(gpu)) {
            gpu->ok = true;
            gpu->reason[0] = '\0';
        }
    }
}

/* What a node in the core has by now may leave less than is guaranteed: no cluster can be made of that, and the core
 * stays as it is. So does the node then, with GPUs that are out of order, or the next snapshot could not be loaded.
 * False: it is taken as it says it is. A node with another type of GPU is refused. */
static bool node_keeps(struct ctl *ctl, struct ctl_node *node, const struct inventory *now, struct entry_result *ret)
{
    const char *sku = text_or(node->inventory.sku);
    bool same = strcmp(sku, text_or(now->sku)) == 0, gone = gpus_present(node) < node->gpu_count;

    if (!ctl->core || node->core_node == UINT32_MAX || inventory_like(&node->inventory, now))
        return false;
    if (same && gone && gpus_present(node) == now->gpu_count)
        return true;
    if (cluster_try_node(ctl, node, now, &ret->text) == 0)
        return false;
    if (!same)
        ret->code = ret->text.code;
    else
        ret->text = (struct error){ 0 };
    return true;
}

static void join_note(struct ctl_node *node, const struct entry_join *join)
{
    /* A new incarnation counts its reports from the start. */
    if (strcmp(node->agent, text_or(join->agent)) != 0)
        node->report_seq = 0;
    text_fit(node->agent, sizeof(node->agent), text_or(join->agent));
    text_fit(node->boot, sizeof(node->boot), text_or(join->boot));
    text_fit(node->address, sizeof(node->address), text_or(join->address));
    text_fit(node->version, sizeof(node->version), text_or(join->version));
    text_fit(node->machine, sizeof(node->machine), text_or(join->machine));
    node->lease = join->lease;
    node->joined = true;
    node->joins++;
    node->forgotten = node->silent = node->lost = false;
}

void join_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const struct entry_join *join = &entry->join;
    struct ctl_node *node = node_add(ctl, join->node);
    struct inventory inventory;
    bool known, changed, kept;
    size_t count;

    if (!node || inventory_read(join->inventory, &inventory, NULL) < 0) {
        ret->code = error_set(&ret->text, -ENOSPC, "no room for another node");
        return;
    }
    known = node->joined && !node->forgotten;
    kept = node_keeps(ctl, node, &inventory, ret);
    if (ret->code < 0) {
        inventory_done(&inventory);
        return;
    }
    /* Whether what it has differs in what the core knows of it. */
    changed = !known || (!kept && !inventory_like(&node->inventory, &inventory));
    (void)reboot_back(ctl, node, text_or(join->boot));
    if (known && node->core_node != UINT32_MAX && !node->lost &&
        (changed ||
         (inventory.gpu_count < node->gpu_count ? inventory.gpu_count : node->gpu_count) != gpus_present(node))) {
        /* Hardware is not what it was: what ran there cannot be where the core believes it to be. */
        lose(ctl, node);
        ctl_step(ctl);
    }
    join_note(node, join);
    count = inventory.gpu_count;
    if (changed && !kept)
        take_inventory(ctl, node, &inventory);
    gpus_mark(node, count);
    ctl->cluster_dirty |= changed;
    inventory_done(&inventory);
    ctl_event(ctl, known ? "node.back" : "node.joined", NULL, join->node, NULL);
    if (!changed || kept)
        node_tell(ctl, node);
    /* It could be in the core and is not: the state is of before nodes without GPUs took jobs. */
    if (node->core_node == UINT32_MAX && node_takes_jobs(node))
        ctl->cluster_dirty = true;
}

static void report_gpu(struct ctl *ctl, struct ctl_node *node, const struct entry_report *report)
{
    int64_t index = report->gpu_index;
    const char *kind, *reason = text_or(report->gpu_reason);
    char words[64];
    struct ctl_gpu *at;

    if (index < 0 || index >= node->gpu_count)
        return;
    at = &node->gpus[index];
    at->ok = report->gpu_ok.given != GIVEN_VALUE || report->gpu_ok.value;
    if (report->gpu_foreign.given == GIVEN_VALUE)
        at->foreign = report->gpu_foreign.value;
    kind = !at->ok ? "gpu.bad" : at->foreign ? "gpu.foreign" : "gpu.ok";
    if (at->ok && at->foreign) {
        (void)snprintf(words, sizeof(words), "used by process %lld of %.24s", (long long)report->gpu_pid,
                       text_or(report->gpu_user));
        reason = words;
    }
    if (!at->drained || !at->ok) /* why somebody drained it is not to be forgotten */
        text_fit(at->reason, sizeof(at->reason), reason);
    ctl_event(ctl, kind, NULL, names_get(&ctl->registry.node_names, node->name),
              FACTS(fact_number("gpu", index), fact_text("reason", reason)));
    node_tell(ctl, node);
}

/* A job is about to give its GPUs back. Those that are to be used no more go out of use at the same instant, before
 * anybody else can be given them. */
void node_keep_out(struct ctl *ctl, const struct ctl_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);

    assert(job_in_core(job));
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t gpu = ledger->shares[s].gpu, number = ledger->gpus[gpu].node;
        uint32_t index = gpu - ledger->topo.nodes[number].first_gpu;
        bool alone = true;

        for (uint32_t o = ledger->gpus[gpu].shares; o != SHARE_NONE; o = ledger->shares[o].next_of_gpu)
            alone &= ledger->shares[o].job == job->slot;
        for (size_t n = 0; alone && n < ctl->registry.node_count; n++) {
            struct ctl_node *node = &ctl->registry.nodes[n];

            if (node->core_node == number && index < node->gpu_count && !ledger->gpus[gpu].bad &&
                (node->gpus[index].drained || node->gpus[index].foreign)) {
                (void)ctl_offer(ctl, &(struct event){ .kind = EVENT_GPU, .target = gpu, .up = false }, NULL, NULL);
                node_told(ctl, node);
                node->gpus[index].told_bad = true;
            }
        }
    }
}

void report_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const struct entry_report *report = &entry->report;
    struct ctl_node *node = node_get(ctl, report->node);
    struct ctl_job *job = NULL;

    (void)ret;
    assert(node);
    /* Sent again after a reconnection, or by an agent that was since started anew. */
    if (strcmp(node->agent, text_or(report->agent)) != 0 || (uint64_t)report->seq <= node->report_seq)
        return;
    node->report_seq = (uint64_t)report->seq;
    if (report->gpu)
        report_gpu(ctl, node, report);
    if (report->reboot)
        reboot_failed(ctl, node, text_or(report->reboot_reason));
    if (report->measure || report->ckpt)
        job = registry_get(&ctl->registry, report->job);
    if (report->measure) {
        if (job)
            attempt_measure(ctl, job, report);
    } else if (report->ckpt) {
        if (job) {
            job->last_ckpt = ctl->now;
            job->version++;
            ctl_event(ctl, "job.checkpoint", job, NULL, FACTS({ "", FACT_DOC, report->ckpt, 0 }));
        }
    } else if (report->state.given || report->ended_roles.count) {
        attempt_report(ctl, node->name, report);
    }
}

static void drain_gpu(struct ctl *ctl, struct ctl_node *node, int64_t index, const char *reason)
{
    struct ctl_gpu *gpu = &node->gpus[index];

    (void)ctl;
    gpu->drained = reason != NULL;
    text_fit(gpu->reason, sizeof(gpu->reason), text_or(reason));
}

void drain_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    bool drain = entry->kind == ENTRY_DRAIN;
    const struct opt_number *gpu = drain ? &entry->drain.gpu : &entry->undrain.gpu;
    const char *reason = drain ? text_or(entry->drain.reason) : NULL;
    struct ctl_node *node = node_get(ctl, entry->drain.node);

    (void)ret;
    if (gpu->given == GIVEN_VALUE) {
        drain_gpu(ctl, node, gpu->value, reason);
    } else {
        node->drained = drain;
        sick_forget(ctl, node);
        assert(!node->drain_deadline || ctl->deadlines > 0);
        reboot_set(ctl, node, drain && entry->drain.reboot ? REBOOT_WANTED : REBOOT_NONE);
        ctl->deadlines -= node->drain_deadline != 0;
        node->drain_deadline = drain ? entry->drain.deadline : 0;
        ctl->deadlines += node->drain_deadline != 0;
        text_fit(node->drain_reason, sizeof(node->drain_reason), text_or(reason));
    }
    ctl_event(ctl, drain ? "node.drained" : "node.resumed", NULL, entry->drain.node,
              FACTS(fact_text("reason", text_or(reason))));
    node_tell(ctl, node);
}

usec_t node_timer(const struct ctl *ctl)
{
    usec_t at = USEC_NEVER;

    for (size_t n = 0; n < ctl->registry.node_count && ctl->deadlines; n++) {
        const struct ctl_node *node = &ctl->registry.nodes[n];

        if (node->drain_deadline && node->drain_deadline < at)
            at = node->drain_deadline;
        if (node->rest_until && node->rest_until < at)
            at = node->rest_until;
    }
    return at;
}

/* The patience with what still runs on drained nodes is over: it is told to leave, and waits for another place. */
void node_tick(struct ctl *ctl)
{
    struct ctl_job *job;

    for (uint32_t n = 0; n < ctl->registry.node_count; n++) {
        struct ctl_node *node = &ctl->registry.nodes[n];

        sick_tick(ctl, node);
        if (!node->drain_deadline || node->drain_deadline > ctl->now)
            continue;
        assert(ctl->deadlines > 0);
        node->drain_deadline = 0;
        ctl->deadlines--;
        for (size_t i = 0; (job = registry_next(&ctl->registry, &i));) {
            struct ctl_attempt *attempt = attempt_of(job);
            bool there = false;

            for (uint32_t t = 0; attempt_live(attempt) && t < attempt->task_count; t++)
                there |= attempt->tasks[t].node == n;
            if (there && !attempt_leaving(attempt))
                attempt_stop(ctl, job, STOP_CAUSE_DRAIN, 0, job_grace(ctl, job));
        }
    }
}

/* Said again of a node that is silent already, it only takes launches back. */
void silent_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct ctl_node *node = node_get(ctl, entry->silent.node);
    bool silent = !entry->silent.back;

    (void)ret;
    if (silent != node->silent || entry->silent.joins.given == GIVEN_NOT) {
        node->silent = silent;
        ctl_event(ctl, silent ? "node.silent" : "node.back", NULL, entry->silent.node, NULL);
        node_tell(ctl, node);
    }
    if (silent)
        untold_apply(ctl, node, &entry->silent);
}

void lost_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct ctl_node *node = node_get(ctl, entry->lost.node);

    (void)ret;
    if (node->lost)
        return;
    ctl_event(ctl, "node.lost", NULL, entry->lost.node, NULL);
    lose(ctl, node);
}

/* From now on it is true: what was told before may have been longer (ADR 55). */
void lease_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    (void)ret;
    node_get(ctl, entry->lease.node)->lease = entry->lease.lease;
}

void forget_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct ctl_node *node = node_get(ctl, entry->forget.node);

    (void)ret;
    /* Whoever has its key is not it any more: it has to join again. */
    node->barred = ctl->now;
    ctl_event(ctl, node->lost ? "node.forgotten" : "node.revoked", NULL, entry->forget.node, NULL);
    if (!node->lost)
        return; /* what it runs may run on; it is silent, like any that is cut off */
    node->forgotten = true;
    ctl->cluster_dirty = true;
}
