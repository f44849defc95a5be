/* SPDX-License-Identifier: Apache-2.0 */
/* dependents.c - see dependents.h. */
#include "ctl/state/dependents.h"

#include <assert.h>
#include <errno.h>

#include "base/alloc.h"

/* Those that wait for one job to end in one way; never without any. */
struct after_target {
    struct after_target *next; /* of the same bucket */
    int64_t id;
    enum after_kind kind;
    struct after_edge *first;
};

static struct after_target **place_of(struct dependents *dependents, int64_t id, enum after_kind kind)
{
    uint64_t hash = ((uint64_t)id * 4 + kind) * 0x9e3779b97f4a7c15ULL;
    struct after_target **at = &dependents->buckets[hash >> 50];

    static_assert(DEPENDENTS_BUCKETS == 1 << (64 - 50), "the hash has as many bits as there are buckets");
    while (*at && ((*at)->id != id || (*at)->kind != kind))
        at = &(*at)->next;
    return at;
}

static struct after_target *target_get(struct dependents *dependents, int64_t id, enum after_kind kind)
{
    struct after_target **at = place_of(dependents, id, kind);

    if (*at)
        return *at;
    *at = mem_zalloc(1, sizeof(**at));
    if (*at)
        **at = (struct after_target){ .id = id, .kind = kind };
    return *at;
}

static void target_drop(struct dependents *dependents, struct after_target *target)
{
    struct after_target **at = place_of(dependents, target->id, target->kind);

    assert(*at == target);
    *at = target->next;
    mem_free(target);
}

static void edge_leave(struct dependents *dependents, struct after_edge *edge)
{
    struct after_target *target = edge->target;

    if (!target)
        return;
    edge->target = NULL;
    if (edge->next)
        edge->next->prev = edge->prev;
    if (edge->prev)
        edge->prev->next = edge->next;
    else
        target->first = edge->next;
    if (!target->first)
        target_drop(dependents, target);
}

int dependents_add(struct dependents *dependents, int64_t waiter, const struct submission *s, uint64_t decided,
                   struct after_list **ret)
{
    struct after_list *list;

    assert(s->after_count <= 64);
    list = mem_zalloc(1, sizeof(*list) + s->after_count * sizeof(*list->edges));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < s->after_count; i++) {
        struct after_edge *edge = &list->edges[list->count];
        struct after_target *target;

        if (decided >> i & 1)
            continue;
        target = target_get(dependents, s->after[i].job, s->after[i].kind);
        if (!target) {
            dependents_drop(dependents, &list);
            return -ENOMEM;
        }
        *edge = (struct after_edge){ .next = target->first, .target = target, .waiter = waiter, .number = (uint8_t)i };
        if (target->first)
            target->first->prev = edge;
        target->first = edge;
        list->count++;
    }
    *ret = list;
    return 0;
}

void dependents_drop(struct dependents *dependents, struct after_list **list)
{
    struct after_list *own = *list;

    *list = NULL;
    for (uint32_t i = 0; own && i < own->count; i++)
        edge_leave(dependents, &own->edges[i]);
    mem_free(own);
}

struct after_edge *dependents_next(struct dependents *dependents, int64_t id, enum after_kind kind)
{
    struct after_target *target = *place_of(dependents, id, kind);
    struct after_edge *edge = target ? target->first : NULL;

    if (edge)
        edge_leave(dependents, edge);
    return edge;
}

void dependents_done(struct dependents *dependents)
{
    for (size_t i = 0; i < DEPENDENTS_BUCKETS; i++)
        assert(!dependents->buckets[i]);
}
