/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - see state.h: one batch after the other, each an instant.
 *
 * Applying a batch: its entries in order; the cluster built anew if nodes or virtual clusters changed; timers that are
 * due; then the core is stepped and its effects carried out until the instant is quiet. The core is stepped only when
 * it was offered something or wants to be woken, as the simulator does it, so that the same workload gives the same
 * steps.
 */
#include "ctl/state/state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "ctl/state/audit.h"
#include "ctl/state/state_internal.h"
#include "work/work.h"

int ctl_offer(struct ctl *ctl, const struct event *event, struct job_ref *ret_job, struct error *err)
{
    int r = core_offer(ctl->core, event, ret_job, err);

    if (r == 0)
        ctl->offered++;
    return r;
}

void ctl_tell_core(struct ctl *ctl, const struct ctl_job *job, struct event event)
{
    struct error err = { 0 };
    int r;

    assert(job_in_core(job));
    event.job = job->slot;
    event.gen = job->gen;
    assert(ctl->by_slot[job->slot] == job);
    r = ctl_offer(ctl, &event, NULL, &err);
    assert(r == 0);
    (void)r;
}

const struct ctl_fact *event_fact(const struct ctl_event *event, const char *name)
{
    for (const struct ctl_fact *fact = event->facts; fact && fact->name; fact++)
        if (strcmp(fact->name, name) == 0)
            return fact;
    return NULL;
}

void ctl_event(struct ctl *ctl, const char *kind, const struct ctl_job *job, const char *node,
               const struct ctl_fact *facts)
{
    struct ctl_event event = {
        .id = ++ctl->event_id, .at = ctl->now, .kind = kind, .job = job ? job->id : 0, .node = node, .facts = facts
    };

    for (const struct ctl_fact *fact = facts; fact && fact->name && fact[1].name; fact++)
        assert(strcmp(fact->name, fact[1].name) < 0);
    if (ctl->listening && ctl->sink.event)
        ctl->sink.event(ctl->sink.arg, &event);
}

bool ctl_order(struct ctl *ctl, uint32_t node, struct agent_order order)
{
    bool told = true; /* in a replay: as far as anybody knows */

    if (ctl->listening && ctl->sink.order)
        told = ctl->sink.order(ctl->sink.arg, names_get(&ctl->registry.node_names, node), &order);
    mem_free(order.secrets);
    return told;
}

static void tell_decisions(struct ctl *ctl, const struct outbox *out)
{
    CLEANUP_BUF struct buf line = BUF_INIT((size_t)1 << 24);

    if (!ctl->listening || !ctl->sink.decision)
        return;
    for (size_t i = 0; i < out->decision_count; i++) {
        const struct decision *d = &out->decisions[i];

        buf_clear(&line);
        core_tell(ctl->core, d, out->gpus + d->gpu_first, &line);
        if (!line.error) {
            line.data[line.size - 1] = '\0';
            ctl->sink.decision(ctl->sink.arg, line.data);
        }
    }
}

void ctl_step(struct ctl *ctl)
{
    bool wakes = ctl->core && core_next_wake(ctl->core) <= ctl->now;

    /* Woken once a batch: if it wants to be woken again at this instant, the answers of agents come first. */
    while (ctl->core && (ctl->offered || wakes)) {
        const struct outbox *out;

        ctl->offered = 0;
        ctl->steps++;
        wakes = false;
        out = core_step(ctl->core, ctl->now);
        tell_decisions(ctl, out);
        if (ctl->listening && ctl->sink.stepped)
            ctl->sink.stepped(ctl->sink.arg, out);
        effect_all(ctl, out);
    }
}

static int by_id(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return a < b ? -1 : a > b;
}

/* Begin times, time limits: what is due by now, by job. The heap goes by numbers that jobs have in memory, which are
 * others after a restart. A job's next instant is in the future again afterwards. */
static void fire_timers(struct ctl *ctl)
{
    size_t count = 0;

    while (heap_next(&ctl->timers) <= ctl->now) {
        const struct ctl_job *job = ctl->by_index[heap_first(&ctl->timers)];
        void *block = ctl->due;

        if (mem_grow(&block, &ctl->due_capacity, count + 1, ctl->config.jobs_max, sizeof(*ctl->due)) < 0)
            abort(); /* the batch is durable: half of it carried out would be a lie */
        ctl->due = block;
        ctl->due[count++] = job->id;
        assert(job->index < ctl->config.jobs_max);
        heap_clear(&ctl->timers, job->index);
    }
    if (count > 1)
        qsort(ctl->due, count, sizeof(*ctl->due), by_id);
    for (size_t i = 0; i < count; i++) {
        struct ctl_job *job = registry_get(&ctl->registry, ctl->due[i]);

        if (job)
            job_tick(ctl, job);
    }
    if (node_timer(ctl) <= ctl->now)
        node_tick(ctl);
}

int config_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    struct setting_value settings;

    ret->code = setting_read(entry->config.settings, &settings, &ret->text);
    if (ret->code < 0)
        return ret->code;
    ret->code = cluster_try(ctl, &settings, &ret->text);
    setting_done(&settings);
    return ret->code;
}

void config_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct setting_value settings;

    if (setting_read(entry->config.settings, &settings, &ret->text) < 0) {
        ret->code = ret->text.code;
        return;
    }
    setting_done(&ctl->settings);
    ctl->settings = settings;
    ctl->cluster_dirty = true;
    ctl_event(ctl, "config.changed", NULL, NULL, NULL);
}

void solved_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const struct entry_solved *solved = &entry->solved;
    struct event event = { .kind = EVENT_SOLVED,
                           .target = (uint32_t)solved->vc,
                           .ticket = (uint32_t)solved->ticket,
                           .words = solved->words.items,
                           .word_count = (uint32_t)solved->words.count };

    if (ctl->core)
        ret->code = ctl_offer(ctl, &event, NULL, &ret->text);
}

void pause_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    bool paused = entry->pause.paused;

    (void)ret;
    if (paused == ctl->registry.paused)
        return;
    ctl->registry.paused = paused;
    for (struct ctl_job *job = registry_after(&ctl->registry, 0); job;) {
        int64_t from = job->id; /* it may be over then */

        gate_look(ctl, job);
        job = registry_after(&ctl->registry, from);
    }
    ctl_event(ctl, paused ? "scheduler.paused" : "scheduler.resumed", NULL, NULL, NULL);
}

/* Nothing to say; what texts held stays behind their ends. */
static void result_init(struct entry_result *ret)
{
    ret->code = ret->text.code = 0;
    ret->id = 0;
    ret->reason[0] = ret->text.text[0] = ret->hint[0] = '\0';
    ret->of_core = false;
}

int ctl_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct entry_row *row = entry_row(entry->kind);

    result_init(ret);
    if (entry_check(entry, &ret->text) < 0)
        return ret->code = -EINVAL;
    return row->check ? row->check(ctl, entry, ret) : 0;
}

static void apply_entry(struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct entry_row *row = entry_row(entry->kind);

    /* The state may have changed since it was checked; a log may be older than the check. */
    if (!row->check || entry->kind == ENTRY_SUBMIT || row->check(ctl, entry, ret) == 0)
        row->apply(ctl, entry, ret);
}

/* In checked builds: what a batch has left behind is as it should be. */
static void check_state(const struct ctl *ctl)
{
#if MUSTER_CHECKED
    struct state_audit audit = { 0 };

    (void)state_audit(ctl, &audit);
    for (size_t i = 0; i < audit.count && i < AUDIT_LINES_MAX; i++)
        (void)fprintf(stderr, "audit: %s\n", audit.lines[i]);
    assert(audit.count == 0);
#else
    (void)ctl;
#endif
}

void ctl_apply(struct ctl *ctl, uint64_t seq, usec_t at, struct entry *entries, size_t count,
               struct entry_result *results)
{
    struct entry_result scratch;

    ctl->seq = seq;
    if (at > ctl->now)
        ctl->now = at;
    for (size_t i = 0; i < count; i++) {
        struct entry_result *ret = results ? &results[i] : &scratch;

        result_init(ret);
        /* Entries about jobs need them to be in the cluster as it is. */
        if (ctl->cluster_dirty && entries[i].kind != ENTRY_JOIN)
            (void)cluster_rebuild(ctl, NULL);
        apply_entry(ctl, &entries[i], ret);
    }
    if (resv_timer(ctl) <= ctl->now)
        resv_tick(ctl);
    if (ctl->cluster_dirty)
        (void)cluster_rebuild(ctl, NULL);
    fire_timers(ctl);
    ctl_step(ctl);
    if (ctl->reboots)
        reboot_look(ctl);
    assert(ctl->offered == 0);
    registry_compact(&ctl->registry);
    check_state(ctl);
}

usec_t ctl_next_wake(const struct ctl *ctl)
{
    usec_t at = heap_next(&ctl->timers), core = ctl->core ? core_next_wake(ctl->core) : USEC_NEVER;
    usec_t node = node_timer(ctl), resv = resv_timer(ctl);

    at = node < at ? node : at;
    at = resv < at ? resv : at;
    return core < at ? core : at;
}

static char *own(const char *text, const char *standard)
{
    return mem_strdup(text ? text : standard);
}

int ctl_new(const struct ctl_config *config, struct ctl **ret_ctl, struct error *err)
{
    struct ctl *ctl = mem_zalloc(1, sizeof(*ctl));
    uint32_t jobs = config->jobs_max;

    if (!ctl)
        return error_set(err, -ENOMEM, "no memory for the controller");
    ctl->config = *config;
    ctl->solves_here = config->virtual_time;
    ctl->steps = 1;
    ctl->config.cluster = own(config->cluster, "muster");
    ctl->config.policy = own(config->policy, "fifo-skip");
    setting_init(&ctl->settings);
    ctl->by_slot = mem_zalloc(jobs, sizeof(struct ctl_job *));
    ctl->by_index = mem_zalloc(jobs, sizeof(struct ctl_job *));
    ctl->killed = mem_zalloc(jobs, sizeof(*ctl->killed));
    ctl->free_index = mem_zalloc(jobs, sizeof(*ctl->free_index));
    ctl->timer_memory = mem_zalloc(heap_size(jobs), 1);
    ctl->gate_nodes = mem_zalloc(jobs, sizeof(*ctl->gate_nodes));
    if (registry_init(&ctl->registry, config) < 0 || !ctl->config.cluster || !ctl->config.policy || !ctl->by_slot ||
        !ctl->by_index || !ctl->free_index || !ctl->timer_memory || !ctl->gate_nodes || !ctl->killed) {
        ctl_free(ctl);
        return error_set(err, -ENOMEM, "no memory for %u jobs", jobs);
    }
    heap_init(&ctl->timers, ctl->timer_memory, jobs);
    /* Low numbers first. */
    while (ctl->free_count < jobs) {
        ctl->free_index[ctl->free_count] = jobs - 1 - ctl->free_count;
        ctl->free_count++;
    }
    if (!policy_known(ctl->config.policy)) {
        int r = error_set(err, -ENOENT, "no policy '%s'; 'muster sim policies' lists them", ctl->config.policy);

        ctl_free(ctl);
        return r;
    }
    *ret_ctl = ctl;
    return 0;
}

static void free_text(const char *text)
{
    union {
        const char *seen;
        char *own;
    } both = { .seen = text };

    mem_free(both.own);
}

void ctl_free(struct ctl *ctl)
{
    if (!ctl)
        return;
    core_free(ctl->core);
    cluster_spec_done(&ctl->cluster);
    registry_done(&ctl->registry);
    setting_done(&ctl->settings);
    mem_free(ctl->policies);
    mem_free(ctl->by_slot);
    mem_free(ctl->effect_jobs);
    mem_free(ctl->due);
    mem_free(ctl->by_index);
    mem_free(ctl->free_index);
    mem_free(ctl->timer_memory);
    mem_free(ctl->gate_nodes);
    mem_free(ctl->killed);
    mem_free(ctl->leavers);
    mem_free(ctl->decided);
    free_text(ctl->config.cluster);
    free_text(ctl->config.policy);
    mem_free(ctl);
}

void ctl_listen(struct ctl *ctl, const struct ctl_sink *sink)
{
    ctl->listening = sink != NULL;
    ctl->sink = sink ? *sink : (struct ctl_sink){ 0 };
}

const struct registry *ctl_registry(const struct ctl *ctl)
{
    return &ctl->registry;
}

struct registry *ctl_registry_mut(struct ctl *ctl)
{
    return &ctl->registry;
}

const struct core *ctl_core(const struct ctl *ctl)
{
    return ctl->core;
}

const struct cluster_spec *ctl_cluster(const struct ctl *ctl)
{
    return &ctl->cluster;
}

const struct setting_value *ctl_settings(const struct ctl *ctl)
{
    return &ctl->settings;
}

const struct policy_setup *ctl_policies(const struct ctl *ctl)
{
    return ctl->policies;
}

uint64_t ctl_seq(const struct ctl *ctl)
{
    return ctl->seq;
}

usec_t ctl_now(const struct ctl *ctl)
{
    return ctl->now;
}
