/* SPDX-License-Identifier: Apache-2.0 */
/* batcher_turns.c - what of all that was put aside goes into the next batch.
 *
 * All of it, as long as it concerns no more jobs than one turn of the loop has time for. Else agents first, then people
 * by turns, each in the order in which they asked; the rest waits for the next batch. What somebody asks of a whole
 * array is asked of its elements, one after another, and answered when the last has had it: so the log has ordinary
 * entries, and whoever replays it needs to know nothing of turns.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/state/registry.h"

enum { TURN_JOBS = 1000, TURN_SLICE = 100 };

/* One act on an array, element by element. */
struct offer_slices {
    batcher_done_fn done;
    void *arg;
    int64_t next, last;         /* ids of elements */
    size_t left;                /* on their way */
    bool any;                   /* some could */
    struct entry_result result; /* why the first could not that could not */
};

/* Users by the hash of their names: two may share a turn, which is no harm. Agents, and the controller itself, are 0.
 */
static uint16_t owner_of(const struct entry *entry, bool asked)
{
    const char *user = entry->kind == ENTRY_SUBMIT                               ? entry->submit.user
                       : entry->kind >= ENTRY_CANCEL && entry->kind <= ENTRY_SET ? entry->hold.by
                                                                                 : NULL;
    uint32_t hash = 2166136261u;

    if (!asked)
        return 0;
    for (; user && *user; user++)
        hash = (hash ^ (unsigned char)*user) * 16777619u;
    return (uint16_t)(1 + hash % (BATCHER_OWNERS - 1));
}

static bool act_slices(const struct batcher *batcher, const struct entry *entry)
{
    return entry->kind >= ENTRY_CANCEL && entry->kind < ENTRY_SET && !batcher->config.ctl.virtual_time &&
           registry_array_live(ctl_registry(batcher->ctl), entry->hold.job);
}

int offer_weigh(struct batcher *batcher, struct offer *offer)
{
    const struct registry *registry = ctl_registry(batcher->ctl);
    const struct entry *entry = &offer->entry;
    const struct ctl_job *last = NULL;
    size_t count;

    offer->owner = owner_of(entry, offer->done != NULL);
    offer->weight = entry->spec && entry->spec->s.array_count ? (uint32_t)entry->spec->s.array_count : 1;
    if (act_slices(batcher, entry)) {
        count = registry_array(registry, entry->hold.job, NULL, 0);
        offer->weight = (uint32_t)count;
        if (count > TURN_SLICE && offer->done) {
            offer->slices = mem_zalloc(1, sizeof(*offer->slices));
            if (!offer->slices)
                return -ENOMEM;
            last = registry_array_last(registry, entry->hold.job);
            *offer->slices = (struct offer_slices){
                .done = offer->done, .arg = offer->arg, .next = entry->hold.job + 1, .last = last->id
            };
        }
    }
    batcher->weight += offer->weight;
    batcher->owned[offer->owner]++;
    return 0;
}

/* It leaves the queue. */
static void offer_forget(struct batcher *batcher, const struct offer *offer)
{
    assert(batcher->owned[offer->owner] > 0);
    batcher->owned[offer->owner]--;
    batcher->weight -= offer->weight;
}

size_t batcher_pending_of(const struct batcher *batcher, const char *user)
{
    struct entry entry = { .kind = ENTRY_HOLD };
    union {
        const char *seen;
        char *own;
    } name = { .seen = user };

    entry.hold.by = name.own;
    return batcher->owned[owner_of(&entry, true)];
}

static void slices_over(struct offer_slices *slices)
{
    if (slices->left || slices->next <= slices->last)
        return;
    if (slices->any)
        slices->result.code = 0; /* some could: that is what was asked for */
    slices->done(slices->arg, &slices->result);
    mem_free(slices);
}

static void on_slice(void *arg, const struct entry_result *result)
{
    struct offer_slices *slices = arg;

    slices->any |= result->code == 0;
    if (result->code < 0 && slices->result.code == 0)
        slices->result = *result;
    slices->left--;
    slices_over(slices);
}

static int list_add(struct offer_list *list, const struct offer *offer)
{
    void *block = list->items;
    int r = mem_grow(&block, &list->capacity, list->count + 1, (size_t)1 << 24, sizeof(*list->items));

    list->items = block;
    if (r == 0)
        list->items[list->count++] = *offer;
    return r;
}

static struct entry entry_of_element(const struct entry *whole, int64_t id)
{
    struct entry entry = entry_of_job(whole->kind, id, whole->hold.by);

    if (whole->kind == ENTRY_CANCEL) {
        entry.cancel.why = entry_text(whole->cancel.why);
        entry.cancel.now = whole->cancel.now;
    } else if (whole->kind == ENTRY_SIGNAL) {
        entry.signal.signal = whole->signal.signal;
    }
    return entry;
}

/* The next elements of what is asked of an array. True: all of them are on their way. */
static bool offer_slice(struct batcher *batcher, struct offer *offer, size_t most, struct offer_list *ret)
{
    struct registry *registry = ctl_registry_mut(batcher->ctl);
    struct offer_slices *slices = offer->slices;
    const struct ctl_job *job = registry_element(registry, offer->entry.hold.job, slices->next);

    for (; job && job->id <= slices->last && most > 0; most--) {
        struct offer one = { .entry = entry_of_element(&offer->entry, job->id), .done = on_slice, .arg = slices };

        if (list_add(ret, &one) < 0) {
            entry_done(&one.entry);
            return false; /* what is on its way goes; the rest is tried again */
        }
        slices->left++;
        slices->next = job->id + 1;
        job = registry_element(registry, offer->entry.hold.job, slices->next);
    }
    if (job && job->id <= slices->last)
        return false;
    slices->next = slices->last + 1;
    entry_done(&offer->entry);
    slices_over(slices); /* where none of them was left */
    return true;
}

/* Takes one turn of its owner: a request, or part of one. True: it leaves the queue. */
static bool offer_turn(struct batcher *batcher, struct offer *offer, size_t most, int64_t *room, struct offer_list *ret)
{
    size_t had = ret->count;
    bool over;

    if (offer->slices)
        over = offer_slice(batcher, offer, most, ret);
    else
        over = list_add(ret, offer) == 0;
    *room -= offer->slices ? (int64_t)(ret->count - had) + 1 : offer->weight;
    return over;
}

/* Whose turn it is, and what waits of each. */
struct turns {
    uint32_t first[BATCHER_OWNERS], last[BATCHER_OWNERS]; /* place of the offer and 1; 0 none */
    uint32_t *next;                                       /* of the same owner */
    bool *gone;
};

static void turns_fill(struct turns *turns, const struct offer_list *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        uint16_t owner = queue->items[i].owner;

        if (turns->last[owner])
            turns->next[turns->last[owner] - 1] = (uint32_t)i + 1;
        else
            turns->first[owner] = (uint32_t)i + 1;
        turns->last[owner] = (uint32_t)i + 1;
    }
}

static bool owner_turn(struct batcher *batcher, struct turns *turns, uint32_t owner, int64_t *room,
                       struct offer_list *ret)
{
    uint32_t place = turns->first[owner];
    struct offer *offer;

    if (!place)
        return false;
    offer = &batcher->queue.items[place - 1];
    if (!offer_turn(batcher, offer, TURN_SLICE, room, ret))
        return true;
    offer_forget(batcher, offer);
    turns->gone[place - 1] = true;
    turns->first[owner] = turns->next[place - 1];
    return true;
}

/* Agents have no end, people as long as there is room. */
static void turns_take(struct batcher *batcher, struct turns *turns, struct offer_list *ret)
{
    int64_t room = TURN_JOBS, none = 0;
    bool any = true;

    while (turns->first[0] && owner_turn(batcher, turns, 0, &none, ret))
        ;
    while (any && room > 0) {
        any = false;
        for (uint32_t i = 0; i + 1 < BATCHER_OWNERS && room > 0; i++) {
            batcher->owner_next = batcher->owner_next % (BATCHER_OWNERS - 1) + 1;
            any |= owner_turn(batcher, turns, batcher->owner_next, &room, ret);
        }
    }
}

static int take_some(struct batcher *batcher, struct offer_list *ret)
{
    struct offer_list *queue = &batcher->queue;
    struct turns *turns = mem_zalloc(1, sizeof(*turns));
    size_t kept = 0;

    if (turns) {
        turns->next = mem_zalloc(queue->count + 1, sizeof(*turns->next));
        turns->gone = mem_zalloc(queue->count + 1, sizeof(*turns->gone));
    }
    if (turns && turns->next && turns->gone) {
        turns_fill(turns, queue);
        turns_take(batcher, turns, ret);
        for (size_t i = 0; i < queue->count; i++)
            if (!turns->gone[i])
                queue->items[kept++] = queue->items[i];
        queue->count = kept;
    }
    if (turns) {
        mem_free(turns->next);
        mem_free(turns->gone);
    }
    mem_free(turns);
    return ret->count ? 0 : -ENOMEM;
}

int batcher_take(struct batcher *batcher, bool all, struct offer_list *ret)
{
    struct offer_list *queue = &batcher->queue;
    int64_t room = 0;
    bool sliced = false;

    *ret = (struct offer_list){ 0 };
    for (size_t i = 0; i < queue->count && !sliced; i++)
        sliced = queue->items[i].slices != NULL;
    if (!all && (sliced || batcher->weight > TURN_JOBS) && queue->count)
        return take_some(batcher, ret);
    if (!sliced) {
        *ret = *queue;
        *queue = (struct offer_list){ 0 };
        batcher->weight = 0;
        memset(batcher->owned, 0, sizeof(batcher->owned));
        return 0;
    }
    for (size_t i = 0; i < queue->count; i++) {
        if (!offer_turn(batcher, &queue->items[i], SIZE_MAX, &room, ret))
            return -ENOMEM;
        offer_forget(batcher, &queue->items[i]);
    }
    queue->count = 0;
    return 0;
}

void offer_drop(struct offer *offer)
{
    entry_done(&offer->entry);
    mem_free(offer->slices);
}
