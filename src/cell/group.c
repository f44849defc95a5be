/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - gangs: their slots, one a pod, sizes ascending, and the devices of each. */
#include "cell/parts.h"

static uint32_t hash_of(const struct cells *s, uint64_t id)
{
    id *= 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(id >> 32) & s->group_mask;
}

struct group *group_find(const struct cells *s, uint64_t id)
{
    for (uint32_t i = s->group_hash[hash_of(s, id)]; i != CELL_NONE; i = s->groups[i].hash_next)
        if (s->groups[i].id == id)
            return &s->groups[i];
    return NULL;
}

/* NULL: as many gangs as the limit allows. */
struct group *group_new(struct cells *s, const struct cell_request *r, uint32_t chain)
{
    uint32_t i = s->group_free, *head = &s->group_hash[hash_of(s, r->group)];

    if (i == CELL_NONE)
        return NULL;
    s->group_free = s->groups[i].hash_next;
    s->groups[i] = (struct group){ .id = r->group,
                                   .vc = r->vc,
                                   .chain = chain,
                                   .slot_first = CELL_NONE,
                                   .asker_first = CELL_NONE,
                                   .hash_next = *head,
                                   .priority = r->priority,
                                   .state = CELL_ALLOCATED,
                                   .lazy = r->lazy,
                                   .ignore_suggested = r->ignore_suggested };
    *head = i;
    s->group_live++;
    return &s->groups[i];
}

void group_free(struct cells *s, struct group *g)
{
    uint32_t i = group_slot(s, g), *link = &s->group_hash[hash_of(s, g->id)], slot = g->slot_first;

    while (*link != i)
        link = &s->groups[*link].hash_next;
    *link = g->hash_next;
    while (slot != CELL_NONE) {
        uint32_t next = s->slots[slot].next, share = s->slots[slot].leaf_first;

        while (share != CELL_NONE) {
            uint32_t after = s->shares[share].next;

            s->shares[share].next = s->share_free;
            s->share_free = share;
            s->share_left++;
            share = after;
        }
        s->slots[slot].next = s->slot_free;
        s->slot_free = slot;
        s->slot_left++;
        slot = next;
    }
    group_askers_free(s, g);
    g->hash_next = s->group_free;
    s->group_free = i;
    s->group_live--;
}

/* Noted once a pod. When so many wait that slots for pods to come would be missing, one more is not noted. */
void group_ask(struct cells *s, struct group *g, uint64_t pod)
{
    uint32_t i = s->slot_free;

    for (uint32_t k = g->asker_first; k != CELL_NONE; k = s->slots[k].next)
        if (s->slots[k].pod == pod)
            return;
    if (s->slot_left <= s->share_left)
        return;
    s->slot_free = s->slots[i].next;
    s->slot_left--;
    s->slots[i] = (struct slot){ .pod = pod, .leaf_first = CELL_NONE, .next = g->asker_first };
    g->asker_first = i;
}

bool group_unask(struct cells *s, struct group *g, uint64_t pod)
{
    for (uint32_t *link = &g->asker_first; *link != CELL_NONE; link = &s->slots[*link].next) {
        uint32_t i = *link;

        if (s->slots[i].pod != pod)
            continue;
        *link = s->slots[i].next;
        s->slots[i].next = s->slot_free;
        s->slot_free = i;
        s->slot_left++;
        return true;
    }
    return false;
}

void group_askers_free(struct cells *s, struct group *g)
{
    while (g->asker_first != CELL_NONE)
        (void)group_unask(s, g, s->slots[g->asker_first].pod);
}

bool group_room(const struct cells *s, uint32_t pods, uint32_t leaves)
{
    return s->group_free != CELL_NONE && s->slot_left >= pods && s->share_left >= leaves;
}

/* A slot at the end, with room for its devices, which are empty. The caller has asked group_room(). */
struct slot *group_add_slot(struct cells *s, struct group *g, uint32_t leaves)
{
    uint32_t i = s->slot_free, *link = &g->slot_first, *share;
    struct slot *slot = &s->slots[i];

    if (g->slot_count > 0)
        link = &s->slots[g->slot_last].next;
    s->slot_free = slot->next;
    s->slot_left--;
    *slot = (struct slot){ .node = CELL_NONE, .leaf_first = CELL_NONE, .leaf_count = leaves, .next = CELL_NONE };
    *link = i;
    g->slot_last = i;
    g->slot_count++;
    share = &slot->leaf_first;
    for (uint32_t k = 0; k < leaves; k++) {
        uint32_t at = s->share_free;

        s->share_free = s->shares[at].next;
        s->share_left--;
        s->shares[at] =
            (struct share){ .leaf = CELL_NONE, .vleaf = CELL_NONE, .preassigned = CELL_NONE, .next = CELL_NONE };
        *share = at;
        share = &s->shares[at].next;
    }
    return slot;
}

/* The places of the whole gang, for this pod. A gang that is opportunistic by now says so. */
void group_bind(struct cells *s, const struct group *g, const struct slot *slot, struct cell_bind *bind)
{
    uint32_t leaf = 0, pod = 0;

    bind->pods = s->out_pods;
    bind->leaves = s->out_leaves;
    bind->chain = g->chain == CELL_UNKNOWN ? CELL_UNKNOWN : s->chains[g->chain].type;
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next, pod++) {
        const struct slot *p = &s->slots[i];

        if (p == slot)
            bind->pod = pod;
        s->out_pods[pod] = (struct cell_pod_place){ p->node, leaf, p->leaf_count };
        for (uint32_t k = p->leaf_first; k != CELL_NONE; k = s->shares[k].next)
            s->out_leaves[leaf++] =
                (struct cell_leaf_place){ s->shares[k].index,
                                          g->virtual_placed ? s->shares[k].preassigned : CELL_NONE };
    }
    bind->pod_count = pod;
    bind->leaf_count = leaf;
}

/* The request's members, equal sizes summed, sizes ascending. */
bool group_members(struct cells *s, const struct cell_request *r)
{
    s->member_count = 0;
    for (uint32_t i = 0; i < r->member_count; i++) {
        uint32_t at = 0;

        while (at < s->member_count && s->members[at].leaves < r->members[i].leaves)
            at++;
        if (at == s->member_count || s->members[at].leaves != r->members[i].leaves) {
            if (s->member_count == CELL_MEMBERS_MAX)
                return false;
            for (uint32_t k = s->member_count++; k > at; k--)
                s->members[k] = s->members[k - 1];
            s->members[at] = (struct cell_member){ 0, r->members[i].leaves };
        }
        if (__builtin_add_overflow(s->members[at].pods, r->members[i].pods, &s->members[at].pods))
            return false;
    }
    return true;
}

/* A gang is being preempted while somebody claims a device of its. */
void group_refresh(struct cells *s, struct group *g)
{
    if (g->state != CELL_BEING_PREEMPTED_STATE)
        return;
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next)
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
            if (s->shares[k].leaf != CELL_NONE && leaf_of(s, s->shares[k].leaf)->state == CELL_RESERVING)
                return;
    g->state = CELL_ALLOCATED;
}

void cells_group(const struct cells *s, uint64_t group, struct cell_group_info *ret_info)
{
    const struct group *g = group_find(s, group);

    *ret_info = (struct cell_group_info){ 0 };
    if (!g)
        return;
    *ret_info = (struct cell_group_info){ .state = g->state,
                                          .lazy_preempted = g->lazy_preempted,
                                          .priority = g->priority,
                                          .effective = g->virtual_placed ? g->priority : CELL_PRIORITY_OPP,
                                          .vc = g->vc,
                                          .pods = g->slot_count,
                                          .pods_placed = g->placed,
                                          .lazy_preemptor = g->preemptor };
}
