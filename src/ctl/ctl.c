/* SPDX-License-Identifier: Apache-2.0 */
/* ctl.c - see ctl.h: one batch after the other, each an instant.
 *
 * Applying a batch: its entries in order; the cluster built anew if nodes or virtual clusters changed; timers that are
 * due; then the core is stepped and its effects carried out until the instant is quiet. The core is stepped only when
 * it was offered something or wants to be woken, as the simulator does it, so that the same workload gives the same
 * steps.
 */
#include "ctl/ctl.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "ctl/part.h"
#include "ctl/record.h"
#include "work/work.h"

int ctl_offer(struct ctl *ctl, const struct event *event, struct job_ref *ret_job, struct error *err)
{
    int r = core_offer(ctl->core, event, ret_job, err);

    if (r == 0)
        ctl->offered++;
    return r;
}

void ctl_tell_core(struct ctl *ctl, const struct book_job *job, struct event event)
{
    struct error err = { 0 };
    int r;

    assert(job->in_core);
    event.job = job->slot;
    event.gen = job->gen;
    r = ctl_offer(ctl, &event, NULL, &err);
    assert(r == 0);
    (void)r;
}

void ctl_event(struct ctl *ctl, const char *kind, const struct book_job *job, const char *node, json_t *detail)
{
    struct ctl_event event = {
        .id = ++ctl->event_id, .at = ctl->now, .kind = kind, .job = job ? job->id : 0, .node = node, .detail = detail
    };

    if (ctl->listening && ctl->sink.event)
        ctl->sink.event(ctl->sink.arg, &event);
    json_decref(detail);
}

bool ctl_order(struct ctl *ctl, uint32_t node, json_t *frame)
{
    bool told = true; /* in a replay: as far as anybody knows */

    if (ctl->listening && ctl->sink.order && frame)
        told = ctl->sink.order(ctl->sink.arg, names_get(&ctl->book.node_names, node), frame);
    json_decref(frame);
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
        wakes = false;
        out = core_step(ctl->core, ctl->now);
        tell_decisions(ctl, out);
        if (ctl->listening && ctl->sink.stepped)
            ctl->sink.stepped(ctl->sink.arg, out);
        effect_all(ctl, out);
    }
}

/* Begin times, time limits: what is due by now. A job's next instant is in the future again afterwards. */
static void fire_timers(struct ctl *ctl)
{
    while (heap_next(&ctl->timers) <= ctl->now) {
        struct book_job *job = ctl->by_index[heap_first(&ctl->timers)];

        heap_clear(&ctl->timers, job->index);
        job_tick(ctl, job);
    }
    if (node_timer(ctl) <= ctl->now)
        node_tick(ctl);
}

static int check_token(const json_t *body, struct entry_result *ret)
{
    if (!json_string_length(json_object_get(body, "id")) || !json_string_length(json_object_get(body, "hash")) ||
        !json_string_length(json_object_get(body, "user")))
        return ret->code = error_set(&ret->text, -EINVAL, "token: expected id, hash and user");
    return 0;
}

static void copy_text(char *to, size_t size, const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));

    (void)snprintf(to, size, "%s", text ? text : "");
}

static void apply_token(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    struct book *book = &ctl->book;
    void *block = book->tokens;
    int r = mem_grow(&block, &book->token_capacity, book->token_count + 1, 65536, sizeof(*book->tokens));
    struct book_token *token;

    book->tokens = block;
    if (r < 0) {
        ret->code = error_set(&ret->text, -ENOSPC, "token: 65536 tokens are there already, the limit");
        return;
    }
    token = &book->tokens[book->token_count++];
    *token = (struct book_token){ .expires = json_integer_value(json_object_get(body, "expires")),
                                  .created = ctl->now,
                                  .nodes = (uint32_t)json_integer_value(json_object_get(body, "nodes")) };
    copy_text(token->id, sizeof(token->id), body, "id");
    copy_text(token->hash, sizeof(token->hash), body, "hash");
    copy_text(token->user, sizeof(token->user), body, "user");
    copy_text(token->role, sizeof(token->role), body, "role");
    copy_text(token->scope, sizeof(token->scope), body, "scope");
}

static void apply_untoken(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    struct book *book = &ctl->book;
    const char *id = json_string_value(json_object_get(body, "id"));
    bool joined = json_is_true(json_object_get(body, "joined"));
    size_t kept = 0;

    for (size_t i = 0; i < book->token_count; i++) {
        struct book_token *token = &book->tokens[i];

        if (strcmp(token->id, id ? id : "") != 0) {
            book->tokens[kept++] = *token;
        } else if (joined && token->nodes > 1) {
            token->nodes--; /* still good for others */
            return;
        }
    }
    if (kept == book->token_count)
        ret->code = error_set(&ret->text, -ENOENT, "no token '%s'", id ? id : "");
    book->token_count = kept;
}

static void apply_solved(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const json_t *words = json_object_get(body, "words");
    size_t count = json_array_size(words);
    int64_t *values = mem_zalloc(count + 1, sizeof(*values));
    struct event event = { .kind = EVENT_SOLVED,
                           .target = (uint32_t)json_integer_value(json_object_get(body, "vc")),
                           .ticket = (uint32_t)json_integer_value(json_object_get(body, "ticket")) };

    for (size_t i = 0; values && i < count; i++)
        values[i] = json_integer_value(json_array_get(words, i));
    event.words = values;
    event.word_count = values ? (uint32_t)count : 0;
    if (ctl->core)
        ret->code = ctl_offer(ctl, &event, NULL, &ret->text);
    mem_free(values);
}

static void apply_config(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    json_t *settings = json_deep_copy(body);

    ret->code = cluster_try(ctl, settings, &ret->text);
    if (ret->code < 0) {
        json_decref(settings);
        return;
    }
    json_decref(ctl->settings);
    ctl->settings = settings;
    ctl->cluster_dirty = true;
    ctl_event(ctl, "config.changed", NULL, NULL, NULL);
}

static void apply_pause(struct ctl *ctl, const json_t *body)
{
    bool paused = json_is_true(json_object_get(body, "paused"));

    if (paused == ctl->book.paused)
        return;
    ctl->book.paused = paused;
    for (size_t i = 0; i < ctl->book.live_count; i++)
        gate_look(ctl, ctl->book.live[i]);
    ctl_event(ctl, paused ? "scheduler.paused" : "scheduler.resumed", NULL, NULL, NULL);
}

void entry_done(struct entry *entry)
{
    json_decref(entry->body);
    book_spec_drop(entry->spec);
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
    result_init(ret);
    if (!json_is_object(entry->body))
        return ret->code = error_set(&ret->text, -EINVAL, "%s: expected an object", entry_name(entry->kind));
    switch (entry->kind) {
    case ENTRY_SUBMIT:
        return submit_check(ctl, entry, ret);
    case ENTRY_CANCEL:
    case ENTRY_HOLD:
    case ENTRY_RELEASE:
    case ENTRY_REQUEUE:
    case ENTRY_SUSPEND:
    case ENTRY_RESUME:
    case ENTRY_SIGNAL:
    case ENTRY_SET:
        return act_check(ctl, entry, ret);
    case ENTRY_JOIN:
    case ENTRY_SILENT:
    case ENTRY_LOST:
    case ENTRY_REPORT:
    case ENTRY_DRAIN:
    case ENTRY_UNDRAIN:
    case ENTRY_FORGET:
        return node_check(ctl, entry, ret);
    case ENTRY_CONFIG:
        return ret->code = cluster_try(ctl, entry->body, &ret->text);
    case ENTRY_VC:
        return vc_check(ctl, entry->body, ret);
    case ENTRY_LIMITS:
        return limits_check(entry->body, ret);
    case ENTRY_SECRET:
        return secret_check(ctl, entry->body, ret);
    case ENTRY_HOOK:
        return hook_check(ctl, entry->body, ret);
    case ENTRY_LABEL:
        return label_check(ctl, entry->body, ret);
    case ENTRY_RESV:
        return resv_check(ctl, entry->body, ret);
    case ENTRY_TOKEN:
        return check_token(entry->body, ret);
    case ENTRY_UNTOKEN:
    case ENTRY_SOLVED:
    case ENTRY_PAUSE:
        return 0;
    case ENTRY_COUNT:
        break;
    }
    return ret->code = error_set(&ret->text, -EINVAL, "no such entry");
}

static void apply_entry(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    switch (entry->kind) {
    case ENTRY_SUBMIT:
        submit_apply(ctl, entry, ret);
        break;
    case ENTRY_CANCEL:
    case ENTRY_HOLD:
    case ENTRY_RELEASE:
    case ENTRY_REQUEUE:
    case ENTRY_SUSPEND:
    case ENTRY_RESUME:
    case ENTRY_SIGNAL:
    case ENTRY_SET:
        act_apply(ctl, entry, ret);
        break;
    case ENTRY_JOIN:
    case ENTRY_SILENT:
    case ENTRY_LOST:
    case ENTRY_REPORT:
    case ENTRY_DRAIN:
    case ENTRY_UNDRAIN:
    case ENTRY_FORGET:
        node_apply(ctl, entry, ret);
        break;
    case ENTRY_CONFIG:
        apply_config(ctl, entry->body, ret);
        break;
    case ENTRY_VC:
        vc_apply(ctl, entry->body, ret);
        break;
    case ENTRY_LIMITS:
        limits_apply(ctl, entry->body, ret);
        break;
    case ENTRY_SECRET:
        secret_apply(ctl, entry->body, ret);
        break;
    case ENTRY_HOOK:
        hook_apply(ctl, entry->body, ret);
        break;
    case ENTRY_LABEL:
        label_apply(ctl, entry->body, ret);
        break;
    case ENTRY_RESV:
        resv_apply(ctl, entry->body, ret);
        break;
    case ENTRY_TOKEN:
        apply_token(ctl, entry->body, ret);
        break;
    case ENTRY_UNTOKEN:
        apply_untoken(ctl, entry->body, ret);
        break;
    case ENTRY_SOLVED:
        apply_solved(ctl, entry->body, ret);
        break;
    case ENTRY_PAUSE:
        apply_pause(ctl, entry->body);
        break;
    case ENTRY_COUNT:
        break;
    }
}

void ctl_apply(struct ctl *ctl, uint64_t seq, usec_t at, const struct entry *entries, size_t count,
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
    ctl->config.cluster = own(config->cluster, "muster");
    ctl->config.policy = own(config->policy, "fifo-skip");
    ctl->settings = json_object();
    ctl->by_slot = mem_zalloc(jobs, sizeof(struct book_job *));
    ctl->by_index = mem_zalloc(jobs, sizeof(struct book_job *));
    ctl->free_index = mem_zalloc(jobs, sizeof(*ctl->free_index));
    ctl->timer_memory = mem_zalloc(heap_size(jobs), 1);
    if (book_init(&ctl->book, config) < 0 || !ctl->config.cluster || !ctl->config.policy || !ctl->settings ||
        !ctl->by_slot || !ctl->by_index || !ctl->free_index || !ctl->timer_memory) {
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
    book_done(&ctl->book);
    json_decref(ctl->settings);
    record_rows_free(ctl->done, ctl->done_count);
    mem_free(ctl->policies);
    mem_free(ctl->by_slot);
    mem_free(ctl->effect_jobs);
    mem_free(ctl->by_index);
    mem_free(ctl->free_index);
    mem_free(ctl->timer_memory);
    free_text(ctl->config.cluster);
    free_text(ctl->config.policy);
    mem_free(ctl);
}

void ctl_listen(struct ctl *ctl, const struct ctl_sink *sink)
{
    ctl->listening = sink != NULL;
    ctl->sink = sink ? *sink : (struct ctl_sink){ 0 };
}

const struct book *ctl_book(const struct ctl *ctl)
{
    return &ctl->book;
}

struct book *ctl_book_mut(struct ctl *ctl)
{
    return &ctl->book;
}

const struct core *ctl_core(const struct ctl *ctl)
{
    return ctl->core;
}

const struct cluster_spec *ctl_cluster(const struct ctl *ctl)
{
    return &ctl->cluster;
}

const json_t *ctl_settings(const struct ctl *ctl)
{
    return ctl->settings;
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

struct store_job *ctl_take_done(struct ctl *ctl, size_t *ret_count)
{
    *ret_count = ctl->done_count;
    ctl->done_count = ctl->done_capacity = 0;
    return take(ctl->done);
}

size_t ctl_done_count(const struct ctl *ctl)
{
    return ctl->done_count;
}
