/* SPDX-License-Identifier: Apache-2.0 */
/* batcher_worker.c - what the batcher has done elsewhere: long computations, and looks into the past. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/state/registry.h"
#include "ctl/state/state_internal.h"
#include "wire/text/json_quick.h"
#include "work/work.h"

/* A computation on a thread of its own. */
struct solve {
    struct batcher *batcher;
    uint32_t vc, ticket, kind, count;
    struct work_answer answer;
    int64_t words[];
};

enum { SOLVE_WORDS_MAX = 1 << 20 };

static void solve_work(void *arg)
{
    struct solve *solve = arg;
    struct error err;

    if (work_run((enum solve_kind)solve->kind, solve->words, solve->count, &solve->answer, &err) < 0)
        solve->answer.count = 0;
}

static void solve_done(void *arg)
{
    struct solve *solve = arg;
    struct entry entry = { .kind = ENTRY_SOLVED,
                           .solved = { .vc = solve->vc,
                                       .ticket = solve->ticket,
                                       .words = { take(solve->answer.words), solve->answer.count } } };

    (void)batcher_push(solve->batcher, &entry, NULL, NULL);
    batcher_turn(solve->batcher);
    mem_free(solve);
}

void batcher_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count)
{
    struct batcher *batcher = arg;
    struct solve *solve = mem_zalloc(1, sizeof(*solve) + count * sizeof(*words));
    int (*compute)(void *, void (*)(void *), void (*)(void *), void *) =
        batcher->host.compute ? batcher->host.compute : batcher->host.work;

    if (!solve)
        return;
    *solve = (struct solve){ .batcher = batcher, .vc = vc, .ticket = ticket, .kind = kind, .count = count };
    memcpy(solve->words, words, count * sizeof(*words));
    solve->answer.capacity = SOLVE_WORDS_MAX;
    solve->answer.words = mem_zalloc(SOLVE_WORDS_MAX, sizeof(int64_t));
    if (!solve->answer.words || compute(batcher->host.arg, solve_work, solve_done, solve) < 0) {
        mem_free(solve->answer.words);
        mem_free(solve);
    }
}

/* It has not been heard of, or there has been no connection to it for a third of that time: what is placed there now
 * can be told to nobody. */
static bool fell_silent(const struct ctl_config *config, const struct ctl_node *node, usec_t now, usec_t age)
{
    bool cut = !node->connected && node->gone && now - node->gone > config->node_timeout / 3;

    return (!node->silent && (cut || age > config->node_timeout)) || (node->silent && !node->connected && node->untold);
}

/* With what was to be launched there and was told to nobody. */
static void push_silent(struct batcher *batcher, struct ctl_node *node, const char *name)
{
    struct entry entry = { .kind = ENTRY_SILENT, .silent = { .joins = { GIVEN_VALUE, node->joins } } };

    (void)untold_list(batcher->ctl, node, &entry.silent.untold);
    node->untold = false;
    if (node->silent && entry.silent.untold.count == 0) {
        entry_done(&entry);
        return;
    }
    entry.silent.node = entry_text(name);
    (void)batcher_push(batcher, &entry, NULL, NULL);
}

/* A controller that was stopped or had no time itself has heard nobody: nobody is to blame for that, and what was said
 * meanwhile is still to be read. It counts anew. */
static void note_absence(struct batcher *batcher, usec_t now)
{
    if (batcher->looked && now - batcher->looked > batcher->config.ctl.node_timeout / 3 + BATCHER_LOOK_EVERY)
        batcher->started = now;
    batcher->looked = now;
}

/* Who has not been heard of. Not part of the state: what follows from it is offered like anything else. */
void batcher_look_at_nodes(struct batcher *batcher, usec_t now)
{
    struct registry *registry = ctl_registry_mut(batcher->ctl);
    const struct ctl_config *config = &batcher->config.ctl;

    if (now - batcher->looked < BATCHER_LOOK_EVERY || config->virtual_time)
        return;
    note_absence(batcher, now);
    for (size_t n = 0; n < registry->node_count; n++) {
        struct ctl_node *node = &registry->nodes[n];
        const char *name = names_get(&registry->node_names, node->name);
        usec_t seen = node->seen > batcher->started ? node->seen : batcher->started, age = now - seen;

        if (!node->joined || node->forgotten || node->lost)
            continue;
        if (node->lease && age > node->lease + node->lease / 4 + USEC_SEC)
            (void)batcher_push(
                batcher,
                &(struct entry){ .kind = ENTRY_LOST,
                                 .lost = { .node = entry_text(name), .why = entry_text("its lease ran out") } },
                NULL, NULL);
        else if (fell_silent(config, node, now, age))
            push_silent(batcher, node, name);
        else if (age <= config->node_timeout && node->silent && node->connected)
            (void)batcher_push(
                batcher, &(struct entry){ .kind = ENTRY_SILENT, .silent = { .node = entry_text(name), .back = true } },
                NULL, NULL);
    }
}

/* Finished jobs on the worker. */
struct look_back {
    struct batcher *batcher;
    struct store_query query;
    char *user, *vc, *state, *name, *find;
    int64_t id; /* one job; 0 = a list */
    json_t *items;
    void (*done)(void *arg, json_t *items);
    void *arg;
};

static int keep_item(void *arg, const struct store_job *job, struct error *err)
{
    json_t *item = NULL;

    (void)err;
    /* On the worker, so not by json_read(), which says where memory comes from. */
    if (json_quick_read(job->json, strlen(job->json), &item) < 0)
        item = json_loads(job->json, 0, NULL);
    if (item)
        (void)json_array_append_new(arg, item);
    return 0;
}

static void history_work(void *arg)
{
    struct look_back *look = arg;
    struct error err;

    if (look->id)
        (void)store_history_get(look->batcher->store, look->id, keep_item, look->items, &err);
    else
        (void)store_history(look->batcher->store, &look->query, keep_item, look->items, &err);
}

static void history_done(void *arg)
{
    struct look_back *look = arg;

    look->done(look->arg, look->items);
    json_decref(look->items);
    mem_free(look->user);
    mem_free(look->vc);
    mem_free(look->state);
    mem_free(look->name);
    mem_free(look->find);
    mem_free(look);
}

static char *copy(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

static int look_back(struct batcher *batcher, const struct store_query *query, int64_t id,
                     void (*done)(void *arg, json_t *items), void *arg)
{
    struct look_back *look = mem_zalloc(1, sizeof(*look));

    if (!look)
        return -ENOMEM;
    *look = (struct look_back){ .batcher = batcher, .id = id, .items = json_array(), .done = done, .arg = arg };
    if (query) {
        look->query = *query;
        look->query.user = look->user = copy(query->user);
        look->query.vc = look->vc = copy(query->vc);
        look->query.state = look->state = copy(query->state);
        look->query.name = look->name = copy(query->name);
        look->query.find = look->find = copy(query->find);
    }
    return batcher->host.work(batcher->host.arg, history_work, history_done, look);
}

int batcher_history(struct batcher *batcher, const struct store_query *query, void (*done)(void *arg, json_t *items),
                    void *arg)
{
    return look_back(batcher, query, 0, done, arg);
}

int batcher_history_get(struct batcher *batcher, int64_t id, void (*done)(void *arg, json_t *items), void *arg)
{
    return look_back(batcher, NULL, id, done, arg);
}
