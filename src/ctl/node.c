/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - nodes come, fall silent, are lost, are drained; and what their agents report. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"

static const char *text_of(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));

    return text ? text : "";
}

struct book_node *node_get(struct ctl *ctl, const char *name)
{
    uint32_t index = names_find(&ctl->book.node_names, name, strlen(name));

    return index == NAME_NONE ? NULL : &ctl->book.nodes[index];
}

static int check_join(const json_t *body, struct entry_result *ret)
{
    const json_t *inventory = json_object_get(body, "inventory");
    const char *name = text_of(body, "node");
    size_t gpus = json_array_size(json_object_get(inventory, "gpus"));

    if (!*name || strlen(name) > AGENT_NAME_MAX ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789.-_")])
        return ret->code = error_set(&ret->text, -EINVAL, "node: a name has letters, digits, '.', '-' and '_'");
    if (!*text_of(body, "agent") || !json_is_object(inventory))
        return ret->code = error_set(&ret->text, -EINVAL, "node %s: expected agent and inventory", name);
    if (gpus > NODE_GPUS_MAX || (gpus > 0 && !*text_of(inventory, "sku")))
        return ret->code = error_set(&ret->text, -EINVAL, "node %s: expected at most %d GPUs of a named type", name,
                                     NODE_GPUS_MAX);
    return 0;
}

int node_check(const struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const char *name = text_of(entry->body, "node");
    const struct book_node *node;

    if (entry->kind == ENTRY_JOIN)
        return check_join(entry->body, ret);
    node = book_node_find(&ctl->book, name);
    if (!node || node->forgotten)
        return ret->code = error_set(&ret->text, -ENOENT, "no node '%s'", name);
    if (json_object_get(entry->body, "gpu") && (entry->kind == ENTRY_DRAIN || entry->kind == ENTRY_UNDRAIN) &&
        (json_integer_value(json_object_get(entry->body, "gpu")) < 0 ||
         json_integer_value(json_object_get(entry->body, "gpu")) >= node->gpu_count))
        return ret->code = error_set(&ret->text, -ENOENT, "node %s has GPUs 0 to %d", name, node->gpu_count - 1);
    if (entry->kind == ENTRY_FORGET && !node->lost && !json_is_true(json_object_get(entry->body, "revoke")))
        return ret->code =
                   error_set(&ret->text, -EALREADY, "node %s is not lost; drain it and stop its agent first", name);
    return 0;
}

static struct book_node *node_add(struct ctl *ctl, const char *name)
{
    struct book *book = &ctl->book;
    void *block = book->nodes;
    uint32_t index;
    int r;

    if (names_put(&book->node_names, name, strlen(name), &index) < 0)
        return NULL;
    if (index < book->node_count)
        return &book->nodes[index];
    r = mem_grow(&block, &book->node_capacity, book->node_count + 1, NODES_MAX, sizeof(*book->nodes));
    book->nodes = block;
    if (r < 0)
        return NULL;
    assert(index == book->node_count);
    book->nodes[index] = (struct book_node){ .name = index, .core_node = UINT32_MAX };
    book->node_count++;
    return &book->nodes[index];
}

/* Whether what it has differs in what the core knows of it. */
static bool other_shape(const struct book_node *node, const json_t *inventory)
{
    static const char *const keys[] = { "sku", "sockets", "groups", "labels", "cpus", "memory_mib", "memory_bytes" };

    if (!node->inventory || node->gpu_count != json_array_size(json_object_get(inventory, "gpus")))
        return true;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const json_t *was = json_object_get(node->inventory, keys[i]), *now = json_object_get(inventory, keys[i]);

        if ((was || now) && !json_equal(was, now))
            return true;
    }
    return false;
}

static void take_inventory(struct ctl *ctl, struct book_node *node, json_t *inventory)
{
    uint16_t count = (uint16_t)json_array_size(json_object_get(inventory, "gpus"));
    struct book_gpu *gpus = mem_zalloc(count + 1u, sizeof(*gpus));

    assert(gpus);
    for (uint16_t g = 0; g < count; g++) {
        gpus[g].ok = true;
        if (g < node->gpu_count) /* a GPU that was taken out stays out */
            gpus[g] = node->gpus[g];
        gpus[g].ok = json_object_get(json_array_get(json_object_get(inventory, "gpus"), g), "bad") == NULL;
    }
    mem_free(node->gpus);
    node->gpus = gpus;
    node->gpu_count = count;
    json_decref(node->inventory);
    node->inventory = json_deep_copy(inventory);
    ctl->cluster_dirty = true;
}

static void lose(struct ctl *ctl, struct book_node *node)
{
    node->lost = true;
    attempt_node_lost(ctl, node->name);
    node_tell(ctl, node);
}

static void apply_join(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    struct book_node *node = node_add(ctl, text_of(body, "node"));
    json_t *inventory = json_object_get(body, "inventory");
    bool known, changed;

    if (!node) {
        ret->code = error_set(&ret->text, -ENOSPC, "no room for another node");
        return;
    }
    known = node->joined && !node->forgotten;
    changed = !known || other_shape(node, inventory);
    (void)reboot_back(ctl, node, text_of(body, "boot"));
    if (known && changed && node->core_node != UINT32_MAX && !node->lost) {
        /* Hardware is not what it was: what ran there cannot be where the core believes it to be. */
        lose(ctl, node);
        ctl_step(ctl);
    }
    /* A new incarnation counts its reports from the start. */
    if (strcmp(node->agent, text_of(body, "agent")) != 0)
        node->report_seq = 0;
    (void)snprintf(node->agent, sizeof(node->agent), "%s", text_of(body, "agent"));
    (void)snprintf(node->boot, sizeof(node->boot), "%s", text_of(body, "boot"));
    (void)snprintf(node->address, sizeof(node->address), "%s", text_of(body, "address"));
    (void)snprintf(node->version, sizeof(node->version), "%s", text_of(body, "version"));
    if (changed)
        take_inventory(ctl, node, inventory);
    node->joined = true;
    node->joins++;
    node->forgotten = node->silent = node->lost = false;
    ctl_event(ctl, known ? "node.back" : "node.joined", NULL, text_of(body, "node"), NULL);
    if (!changed)
        node_tell(ctl, node);
    /* It could be in the core and is not: the state is of before nodes without GPUs took jobs. */
    if (node->core_node == UINT32_MAX && node_takes_jobs(node))
        ctl->cluster_dirty = true;
}

static void report_gpu(struct ctl *ctl, struct book_node *node, const json_t *gpu)
{
    int64_t index = json_integer_value(json_object_get(gpu, "index"));
    const char *kind, *reason = text_of(gpu, "reason");
    char words[64];
    struct book_gpu *at;

    if (index < 0 || index >= node->gpu_count)
        return;
    at = &node->gpus[index];
    at->ok = !json_is_false(json_object_get(gpu, "ok"));
    if (json_object_get(gpu, "foreign"))
        at->foreign = json_is_true(json_object_get(gpu, "foreign"));
    kind = !at->ok ? "gpu.bad" : at->foreign ? "gpu.foreign" : "gpu.ok";
    if (at->ok && at->foreign) {
        (void)snprintf(words, sizeof(words), "used by process %lld of %.24s",
                       (long long)json_integer_value(json_object_get(gpu, "pid")), text_of(gpu, "user"));
        reason = words;
    }
    if (!at->drained || !at->ok) /* why somebody drained it is not to be forgotten */
        book_words(at->reason, sizeof(at->reason), reason);
    ctl_event(ctl, kind, NULL, names_get(&ctl->book.node_names, node->name),
              json_pack("{s:I, s:s}", "gpu", (json_int_t)index, "reason", reason));
    node_tell(ctl, node);
}

/* A job is about to give its GPUs back. Those that are to be used no more go out of use at the same instant, before
 * anybody else can be given them. */
void node_keep_out(struct ctl *ctl, const struct book_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);

    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t gpu = ledger->shares[s].gpu, number = ledger->gpus[gpu].node;
        uint32_t index = gpu - ledger->topo.nodes[number].first_gpu;
        bool alone = true;

        for (uint32_t o = ledger->gpus[gpu].shares; o != SHARE_NONE; o = ledger->shares[o].next_of_gpu)
            alone &= ledger->shares[o].job == job->slot;
        for (size_t n = 0; alone && n < ctl->book.node_count; n++) {
            const struct book_node *node = &ctl->book.nodes[n];

            if (node->core_node == number && index < node->gpu_count && !ledger->gpus[gpu].bad &&
                (node->gpus[index].drained || node->gpus[index].foreign))
                (void)ctl_offer(ctl, &(struct event){ .kind = EVENT_GPU, .target = gpu, .up = false }, NULL, NULL);
        }
    }
}

static void apply_report(struct ctl *ctl, struct book_node *node, const json_t *body)
{
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(body, "seq"));
    const json_t *ckpt = json_object_get(body, "ckpt");

    /* Sent again after a reconnection, or by an agent that was since started anew. */
    if (strcmp(node->agent, text_of(body, "agent")) != 0 || seq <= node->report_seq)
        return;
    node->report_seq = seq;
    if (json_object_get(body, "gpu"))
        report_gpu(ctl, node, json_object_get(body, "gpu"));
    if (json_object_get(body, "reboot"))
        reboot_failed(ctl, node, json_object_get(body, "reboot"));
    if (json_object_get(body, "measure")) {
        struct book_job *job = book_get(&ctl->book, json_integer_value(json_object_get(body, "job")));

        if (job)
            attempt_measure(ctl, job, json_object_get(body, "measure"));
    } else if (ckpt) {
        struct book_job *job = book_get(&ctl->book, json_integer_value(json_object_get(body, "job")));

        if (job) {
            job->last_ckpt = ctl->now;
            job->version++;
            ctl_event(ctl, "job.checkpoint", job, NULL, json_deep_copy(ckpt));
        }
    } else if (json_object_get(body, "state") || json_object_get(body, "ended")) {
        attempt_report(ctl, node->name, body);
    }
}

static void apply_drain(struct ctl *ctl, struct book_node *node, const struct entry *entry)
{
    const json_t *gpu = json_object_get(entry->body, "gpu");
    bool drain = entry->kind == ENTRY_DRAIN;

    if (gpu) {
        struct book_gpu *g = &node->gpus[json_integer_value(gpu)];

        g->drained = drain;
        book_words(g->reason, sizeof(g->reason), drain ? text_of(entry->body, "reason") : "");
    } else {
        node->drained = drain;
        sick_forget(ctl, node);
        reboot_set(ctl, node, json_is_true(json_object_get(entry->body, "reboot")) ? REBOOT_WANTED : REBOOT_NONE);
        ctl->deadlines -= node->drain_deadline != 0;
        node->drain_deadline = drain ? json_integer_value(json_object_get(entry->body, "deadline")) : 0;
        ctl->deadlines += node->drain_deadline != 0;
        book_words(node->drain_reason, sizeof(node->drain_reason), drain ? text_of(entry->body, "reason") : "");
    }
    ctl_event(ctl, drain ? "node.drained" : "node.resumed", NULL, text_of(entry->body, "node"),
              json_pack("{s:s}", "reason", text_of(entry->body, "reason")));
    node_tell(ctl, node);
}

usec_t node_timer(const struct ctl *ctl)
{
    usec_t at = USEC_NEVER;

    for (size_t n = 0; n < ctl->book.node_count && ctl->deadlines; n++) {
        const struct book_node *node = &ctl->book.nodes[n];

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
    for (uint32_t n = 0; n < ctl->book.node_count; n++) {
        struct book_node *node = &ctl->book.nodes[n];

        sick_tick(ctl, node);
        if (!node->drain_deadline || node->drain_deadline > ctl->now)
            continue;
        node->drain_deadline = 0;
        ctl->deadlines--;
        for (size_t i = 0; i < ctl->book.live_count; i++) {
            struct book_job *job = ctl->book.live[i];
            struct book_attempt *attempt = attempt_of(job);
            bool there = false;

            for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++)
                there |= attempt->tasks[t].node == n;
            if (there && !attempt->stopping)
                attempt_stop(ctl, job, "drain", 0, job_grace(ctl, job));
        }
    }
}

/* Said again of a node that is silent already, it only takes launches back. */
static void apply_silent(struct ctl *ctl, struct book_node *node, const json_t *body)
{
    bool silent = !json_is_true(json_object_get(body, "back"));

    if (silent != node->silent || !json_object_get(body, "untold")) {
        node->silent = silent;
        ctl_event(ctl, silent ? "node.silent" : "node.back", NULL, text_of(body, "node"), NULL);
        node_tell(ctl, node);
    }
    if (silent)
        untold_apply(ctl, node, body);
}

void node_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct book_node *node = node_get(ctl, text_of(entry->body, "node"));

    if (node_check(ctl, entry, ret) < 0)
        return;
    assert(node || entry->kind == ENTRY_JOIN);
    switch ((int)entry->kind) {
    case ENTRY_JOIN:
        apply_join(ctl, entry->body, ret);
        break;
    case ENTRY_SILENT:
        apply_silent(ctl, node, entry->body);
        break;
    case ENTRY_LOST:
        if (!node->lost) {
            ctl_event(ctl, "node.lost", NULL, text_of(entry->body, "node"), NULL);
            lose(ctl, node);
        }
        break;
    case ENTRY_REPORT:
        if (node)
            apply_report(ctl, node, entry->body);
        break;
    case ENTRY_DRAIN:
    case ENTRY_UNDRAIN:
        apply_drain(ctl, node, entry);
        break;
    case ENTRY_FORGET:
        /* Whoever has its key is not it any more: it has to join again. */
        node->barred = ctl->now;
        ctl_event(ctl, node->lost ? "node.forgotten" : "node.revoked", NULL, text_of(entry->body, "node"), NULL);
        if (!node->lost)
            break; /* what it runs may run on until its lease is over; then it is lost */
        node->forgotten = true;
        ctl->cluster_dirty = true;
        break;
    default: /* no other kind comes here */
        assert(false);
    }
}
