/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - the state machine as its daemon drives it: requests are checked, wait for the next batch, and are applied
 * together at one instant; orders go to who is connected; who is not heard of is silent, then lost; every batch is kept
 * as text, as the log would have it.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model.h"
#include "work/work.h"

enum { LOG_MAX = 1000000, SETTLE_ROUNDS = 3000, SOLVE_WORDS = 1 << 16, SAVE_MAX = 64 << 20, EXCERPT = 160 };

/* Whether it begins with one of the words that are passed over; they are divided by '|'. */
static bool tolerated(const struct world *world)
{
    for (const char *at = world->tolerated; at && *at;) {
        size_t length = strcspn(at, "|");

        if (length && strncmp(world->why, at, length) == 0)
            return true;
        at += length + (at[length] == '|');
    }
    return false;
}

void world_fail(struct world *world, const char *words, ...)
{
    va_list args;

    if (world_failed(world))
        return;
    va_start(args, words);
    (void)vsnprintf(world->why, sizeof(world->why), words, args);
    va_end(args);
    if (tolerated(world))
        world->why[0] = '\0';
}

/* As it goes over the wire. */
static bool on_order(void *arg, const char *node, const struct agent_order *order)
{
    struct buf text = BUF_INIT((size_t)FRAME_BYTES_MAX);
    json_t *frame;
    bool told;

    agent_order_write(order, &text);
    frame = text.error ? NULL : json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    if (!frame)
        abort();
    told = agent_order(arg, node, frame);
    json_decref(frame);
    buf_done(&text);
    return told;
}

/* A worker computes it; its answer comes with a later batch. */
static void on_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count)
{
    struct world *world = arg;
    struct work_answer answer = { .capacity = SOLVE_WORDS };
    struct error err = { 0 };

    answer.words = mem_zalloc(answer.capacity, sizeof(*answer.words));
    if (!answer.words)
        abort();
    if (work_run((enum solve_kind)kind, words, count, &answer, &err) < 0)
        answer.count = 0;
    if (world->solved_count < sizeof(world->solved) / sizeof(*world->solved))
        world->solved[world->solved_count++] = entry_solved(vc, ticket, answer.words, answer.count);
    mem_free(answer.words);
}

static void listen(struct world *world)
{
    struct ctl_sink sink = { .order = on_order, .solve = on_solve, .arg = world };

    ctl_listen(world->ctl, &sink);
}

void world_open(struct world *world, const char *policy)
{
    struct error err = { 0 };

    (void)snprintf(world->policy, sizeof(world->policy), "%s", policy);
    world->now = 1000 * USEC_SEC;
    world->config = (struct ctl_config){ .cluster = "model",
                                         .policy = world->policy,
                                         .jobs_max = 256,
                                         .finished_keep = 64,
                                         .lease = LEASE,
                                         .node_timeout = NODE_TIMEOUT,
                                         .grace = 10 * USEC_SEC };
    if (ctl_new(&world->config, &world->ctl, &err) < 0) {
        fprintf(stderr, "ctl_new: %s\n", err.text);
        abort();
    }
    listen(world);
}

void world_close(struct world *world)
{
    ctl_free(world->ctl);
    for (size_t a = 0; a < world->agent_count; a++)
        agent_free(&world->agents[a]);
    for (size_t i = 0; i < world->pending_count; i++)
        entry_done(&world->pending[i]);
    for (size_t i = 0; i < world->solved_count; i++)
        entry_done(&world->solved[i]);
    for (size_t i = 0; i < world->log_count; i++)
        free(world->log[i].text);
    mem_free(world->log);
}

void world_offer(struct world *world, struct entry entry, int label)
{
    struct entry_result result;

    if (world->pending_count == ENTRIES_MAX || ctl_check(world->ctl, &entry, &result) < 0) {
        entry_done(&entry);
        return;
    }
    world->pending_of[world->pending_count] = label;
    world->pending[world->pending_count++] = entry;
}

static void log_add(struct world *world, struct logged line)
{
    void *block = world->log;

    if (mem_grow(&block, &world->log_capacity, world->log_count + 1, LOG_MAX, sizeof(line)) < 0)
        abort();
    world->log = block;
    world->log[world->log_count++] = line;
}

/* Whom no attempt may follow any more. */
static void note_cancelled(struct world *world, int64_t id)
{
    const struct registry *registry = ctl_registry(world->ctl);

    for (size_t i = 0; i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[i];

        if ((job->id == id || job->array_id == id) &&
            world->grave_count < sizeof(world->graves) / sizeof(*world->graves))
            world->graves[world->grave_count++] = (struct grave){ job->id, job->attempt_count };
    }
}

static void note_results(struct world *world, const struct entry *entries, const struct entry_result *results,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct label *label = world->pending_of[i] >= 0 ? &world->labels[world->pending_of[i]] : NULL;

        if (label && entries[i].kind == ENTRY_SUBMIT && results[i].code == 0) {
            label->id = results[i].id;
            label->count = (int64_t)registry_array(ctl_registry(world->ctl), label->id, NULL, 0);
        }
        if (entries[i].kind == ENTRY_CANCEL && results[i].code == 0)
            note_cancelled(world, entries[i].cancel.job);
    }
}

/* Who said hello is welcomed, told whom it may keep, and all orders that are due. */
static void answer_hello(struct world *world, const char *name)
{
    struct agent *agent = agent_find(world, name);
    struct registry *registry = ctl_registry_mut(world->ctl);
    uint32_t index = names_find(&registry->node_names, name, strlen(name));

    if (!agent || !agent->connected || index == NAME_NONE)
        return; /* gone again */
    registry->nodes[index].connected = true;
    registry->nodes[index].gone = 0;
    agent_welcome(world, agent, registry->nodes[index].report_seq);
    ctl_sync(world->ctl, name);
}

static void apply(struct world *world, struct entry *entries, size_t count)
{
    struct entry_result *results = mem_zalloc(count + 1, sizeof(*results));

    if (!results)
        abort();
    for (size_t i = 0; i < count; i++)
        log_add(world, (struct logged){ entries[i].kind, entry_write(&entries[i]), world->now });
    log_add(world, (struct logged){ ENTRY_COUNT, NULL, world->now });
    world->batches++;
    ctl_apply(world->ctl, ctl_seq(world->ctl) + 1, world->now, entries, count, results);
    note_results(world, entries, results, count);
    for (size_t i = 0; i < count; i++)
        if (entries[i].kind == ENTRY_JOIN)
            answer_hello(world, entries[i].join.node);
    mem_free(results);
}

void world_turn(struct world *world)
{
    struct entry entries[ENTRIES_MAX];
    size_t count = world->pending_count;

    memcpy(entries, world->pending, count * sizeof(*entries));
    apply(world, entries, count);
    world->pending_count = 0;
    for (size_t i = 0; i < count; i++)
        entry_done(&entries[i]);
    check_batch(world);
    /* What was computed meanwhile. */
    for (size_t i = 0; i < world->solved_count; i++)
        world_offer(world, world->solved[i], -1);
    world->solved_count = 0;
}

static struct ctl_node *node_of(const struct world *world, const struct agent *agent)
{
    struct registry *registry = ctl_registry_mut(world->ctl);
    uint32_t index = names_find(&registry->node_names, agent->name, strlen(agent->name));

    return index == NAME_NONE ? NULL : &registry->nodes[index];
}

#define LOST_AFTER (LEASE + LEASE / 4 + USEC_SEC)

/* When something becomes of an agent that is away; USEC_NEVER. */
static usec_t away_next(const struct world *world, const struct agent *agent)
{
    const struct ctl_node *node = node_of(world, agent);

    if (agent->connected || !agent->joined || !node || node->forgotten || node->lost)
        return USEC_NEVER;
    if (!agent->fenced)
        return !node->silent ? agent->gone + NODE_TIMEOUT / 3 : agent->gone + LEASE;
    return agent->gone + LOST_AFTER;
}

static void look_away(struct world *world, struct agent *agent)
{
    const struct ctl_node *node = node_of(world, agent);

    if (agent->connected || !agent->joined || !node || node->forgotten || node->lost)
        return;
    if (!node->silent && world->now >= agent->gone + NODE_TIMEOUT / 3)
        world_offer(world, entry_silent(world->ctl, agent->name), -1);
    else if (node->silent && node->untold)
        world_offer(world, entry_silent(world->ctl, agent->name), -1);
    if (!agent->fenced && world->now >= agent->gone + LEASE)
        agent_fence(world, agent);
    if (world->now >= agent->gone + LOST_AFTER)
        world_offer(world, entry_node(ENTRY_LOST, agent->name), -1);
}

static void look_at_agents(struct world *world)
{
    for (size_t a = 0; a < world->agent_count; a++)
        look_away(world, &world->agents[a]);
}

void world_wait(struct world *world, usec_t span)
{
    usec_t until = world->now + span;

    for (int turns = 0; world->now < until && !world_failed(world); turns++) {
        usec_t next = ctl_next_wake(world->ctl);

        for (size_t a = 0; a < world->agent_count; a++) {
            usec_t at = away_next(world, &world->agents[a]);

            next = at < next ? at : next;
        }
        if (turns == SETTLE_ROUNDS) {
            world_fail(world, "no rest: %d wakes in %lld s", turns, (long long)(span / USEC_SEC));
            return;
        }
        world->now = next >= until ? until : next > world->now ? next : world->now + 1;
        look_at_agents(world);
        world_turn(world);
    }
}

/* Everybody hears, works and is heard; false: there was nothing. */
static bool settle_round(struct world *world)
{
    bool any = false;

    for (size_t a = 0; a < world->agent_count; a++) {
        struct agent *agent = &world->agents[a];

        any |= agent->inbox_count > 0;
        agent_hear(world, agent, SIZE_MAX);
        any |= agent_work(world, agent);
        any |= agent->connected && agent->welcomed && agent->sent < agent->journal_count;
        agent_tell(world, agent, SIZE_MAX);
    }
    if (any || world->pending_count)
        world_turn(world);
    return any || world->pending_count || world->solved_count;
}

void world_settle(struct world *world)
{
    for (int rounds = 0; !world_failed(world); rounds++) {
        usec_t wake;

        if (rounds == SETTLE_ROUNDS) {
            world_fail(world, "no rest: %d rounds at one instant", rounds);
            return;
        }
        if (settle_round(world))
            continue;
        wake = ctl_next_wake(world->ctl);
        if (wake > world->now + 10)
            return;
        world->now = wake > world->now ? wake : world->now;
        world_turn(world);
    }
}

void world_join(struct world *world, struct agent *agent)
{
    agent_cut(world, agent);
    agent->connected = agent->joined = true;
    world_offer(world, entry_join(agent->name, agent->id, agent->boot, agent->gpus, agent->sku), -1);
}

static void save(struct world *world, const struct ctl *ctl, struct buf *out)
{
    struct error err = { 0 };

    *out = (struct buf)BUF_INIT(SAVE_MAX);
    if (ctl_save(ctl, out, &err) < 0)
        world_fail(world, "ctl_save: %s", err.text);
}

/* Some bytes as words. */
static void excerpt(const struct buf *from, size_t at, char out[EXCERPT])
{
    size_t i;

    for (i = 0; i + 1 < EXCERPT && at + i < from->size; i++)
        out[i] = from->data[at + i] >= ' ' && from->data[at + i] <= '~' ? from->data[at + i] : '.';
    out[i] = '\0';
}

/* Words for where two states part: around the first byte that differs. */
static void differ(struct world *world, const char *what, const struct buf *a, const struct buf *b)
{
    size_t at = sizeof(uint64_t), from; /* behind the length of the part that can be read */
    char one[EXCERPT], other[EXCERPT];

    while (at < a->size && at < b->size && a->data[at] == b->data[at])
        at++;
    if (at == a->size && at == b->size)
        return;
    from = at > EXCERPT / 2 ? at - EXCERPT / 2 : 0;
    excerpt(a, from, one);
    excerpt(b, from, other);
    world_fail(world, "%s: %zu and %zu bytes, from byte %zu on: %s | %s", what, a->size, b->size, at, one, other);
}

static struct ctl *load(struct world *world, const struct buf *from)
{
    struct ctl *ctl = NULL;
    struct error err = { 0 };

    if (ctl_load(&world->config, from->data, from->size, &ctl, &err) < 0)
        world_fail(world, "ctl_load: %s", err.text);
    return ctl;
}

/* A controller that has only the log. */
static struct ctl *replayed(struct world *world)
{
    struct entry entries[ENTRIES_MAX];
    struct ctl *ctl = NULL;
    struct error err = { 0 };
    size_t count = 0;

    if (ctl_new(&world->config, &ctl, &err) < 0)
        abort();
    for (size_t i = 0; i < world->log_count; i++) {
        const struct logged *line = &world->log[i];

        if (line->text) {
            entries[count++] = entry_read(line->kind, line->text);
            continue;
        }
        ctl_apply(ctl, ctl_seq(ctl) + 1, line->at, entries, count, NULL);
        while (count > 0)
            entry_done(&entries[--count]);
    }
    return ctl;
}

void world_replay_check(struct world *world)
{
    struct ctl *ctl = replayed(world);
    struct buf live, again;

    save(world, world->ctl, &live);
    save(world, ctl, &again);
    differ(world, "replay", &live, &again);
    buf_done(&live);
    buf_done(&again);
    ctl_free(ctl);
}

void world_restart(struct world *world, bool replay)
{
    struct buf was, now;
    struct ctl *ctl;

    save(world, world->ctl, &was);
    ctl = replay ? replayed(world) : load(world, &was);
    if (!ctl || world_failed(world))
        return;
    save(world, ctl, &now);
    differ(world, replay ? "replay" : "load", &was, &now);
    buf_done(&was);
    buf_done(&now);
    ctl_free(world->ctl);
    world->ctl = ctl;
    listen(world);
    for (size_t i = 0; i < world->pending_count; i++)
        entry_done(&world->pending[i]);
    for (size_t i = 0; i < world->solved_count; i++)
        entry_done(&world->solved[i]);
    world->pending_count = world->solved_count = 0;
    for (size_t a = 0; a < world->agent_count; a++)
        if (world->agents[a].connected)
            world_join(world, &world->agents[a]);
    world_turn(world);
}
