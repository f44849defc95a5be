/* SPDX-License-Identifier: Apache-2.0 */
/* drive_aside.c - what the drive has done elsewhere: long computations, and looks into the past. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/book.h"
#include "ctl/drive_part.h"
#include "ctl/part.h"
#include "wire/json_quick.h"
#include "work/work.h"

/* A computation on a thread of its own. */
struct solve {
    struct drive *drive;
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
    json_t *words = json_array();

    for (uint32_t i = 0; i < solve->answer.count; i++)
        (void)json_array_append_new(words, json_integer(solve->answer.words[i]));
    (void)drive_push(
        solve->drive, ENTRY_SOLVED,
        json_pack("{s:I, s:I, s:o}", "vc", (json_int_t)solve->vc, "ticket", (json_int_t)solve->ticket, "words", words),
        NULL, NULL);
    drive_turn(solve->drive);
    mem_free(solve->answer.words);
    mem_free(solve);
}

void drive_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count)
{
    struct drive *drive = arg;
    struct solve *solve = mem_zalloc(1, sizeof(*solve) + count * sizeof(*words));
    int (*compute)(void *, void (*)(void *), void (*)(void *), void *) =
        drive->host.compute ? drive->host.compute : drive->host.work;

    if (!solve)
        return;
    *solve = (struct solve){ .drive = drive, .vc = vc, .ticket = ticket, .kind = kind, .count = count };
    memcpy(solve->words, words, count * sizeof(*words));
    solve->answer.capacity = SOLVE_WORDS_MAX;
    solve->answer.words = mem_zalloc(SOLVE_WORDS_MAX, sizeof(int64_t));
    if (!solve->answer.words || compute(drive->host.arg, solve_work, solve_done, solve) < 0) {
        mem_free(solve->answer.words);
        mem_free(solve);
    }
}

/* It has not been heard of, or there has been no connection to it for a third of that time: what is placed there now
 * can be told to nobody. */
static bool fell_silent(const struct ctl_config *config, const struct book_node *node, usec_t now, usec_t age)
{
    bool cut = !node->connected && node->gone && now - node->gone > config->node_timeout / 3;

    return (!node->silent && (cut || age > config->node_timeout)) || (node->silent && !node->connected && node->untold);
}

/* With what was to be launched there and was told to nobody. */
static void push_silent(struct drive *drive, struct book_node *node, const char *name)
{
    json_t *untold = untold_list(drive->ctl, node);

    node->untold = false;
    if (node->silent && json_array_size(untold) == 0) {
        json_decref(untold);
        return;
    }
    (void)drive_push(drive, ENTRY_SILENT,
                     json_pack("{s:s, s:I, s:o}", "node", name, "joins", (json_int_t)node->joins, "untold", untold),
                     NULL, NULL);
}

/* A controller that was stopped or had no time itself has heard nobody: nobody is to blame for that, and what was said
 * meanwhile is still to be read. It counts anew. */
static void note_absence(struct drive *drive, usec_t now)
{
    if (drive->looked && now - drive->looked > drive->config.ctl.node_timeout / 3 + DRIVE_LOOK_EVERY)
        drive->started = now;
    drive->looked = now;
}

/* Who has not been heard of. Not part of the state: what follows from it is offered like anything else. */
void drive_look_at_nodes(struct drive *drive, usec_t now)
{
    struct book *book = ctl_book_mut(drive->ctl);
    const struct ctl_config *config = &drive->config.ctl;

    if (now - drive->looked < DRIVE_LOOK_EVERY || config->virtual_time)
        return;
    note_absence(drive, now);
    for (size_t n = 0; n < book->node_count; n++) {
        struct book_node *node = &book->nodes[n];
        const char *name = names_get(&book->node_names, node->name);
        usec_t seen = node->seen > drive->started ? node->seen : drive->started, age = now - seen;

        if (!node->joined || node->forgotten || node->lost)
            continue;
        if (age > config->lease + config->lease / 4 + USEC_SEC)
            (void)drive_push(drive, ENTRY_LOST, json_pack("{s:s}", "node", name), NULL, NULL);
        else if (fell_silent(config, node, now, age))
            push_silent(drive, node, name);
        else if (age <= config->node_timeout && node->silent && node->connected)
            (void)drive_push(drive, ENTRY_SILENT, json_pack("{s:s, s:b}", "node", name, "back", 1), NULL, NULL);
    }
}

/* Finished jobs on the worker. */
struct look_back {
    struct drive *drive;
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
        (void)store_history_get(look->drive->store, look->id, keep_item, look->items, &err);
    else
        (void)store_history(look->drive->store, &look->query, keep_item, look->items, &err);
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

static int look_back(struct drive *drive, const struct store_query *query, int64_t id,
                     void (*done)(void *arg, json_t *items), void *arg)
{
    struct look_back *look = mem_zalloc(1, sizeof(*look));

    if (!look)
        return -ENOMEM;
    *look = (struct look_back){ .drive = drive, .id = id, .items = json_array(), .done = done, .arg = arg };
    if (query) {
        look->query = *query;
        look->query.user = look->user = copy(query->user);
        look->query.vc = look->vc = copy(query->vc);
        look->query.state = look->state = copy(query->state);
        look->query.name = look->name = copy(query->name);
        look->query.find = look->find = copy(query->find);
    }
    return drive->host.work(drive->host.arg, history_work, history_done, look);
}

int drive_history(struct drive *drive, const struct store_query *query, void (*done)(void *arg, json_t *items),
                  void *arg)
{
    return look_back(drive, query, 0, done, arg);
}

int drive_history_get(struct drive *drive, int64_t id, void (*done)(void *arg, json_t *items), void *arg)
{
    return look_back(drive, NULL, id, done, arg);
}
