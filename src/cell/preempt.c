/* SPDX-License-Identifier: Apache-2.0 */
/* preempt.c - who gives way to whom.
 *
 *      device      a claim of B          last pod of A ends     B is placed        B gives up
 *      Free        -> Reserved(B)
 *      Used(A)     -> Reserving(A,B)     -> Free
 *      Reserving                         -> Reserved(B)                            -> Used(A)
 *      Reserved                                                 -> Used(B)         -> Free
 *
 * A claim is in the books at once: the victim's virtual cells are released and the preemptor's bound. A lazily
 * preempted gang keeps its devices as an opportunistic one.
 */
#include "cell/parts.h"

/* The gang goes on opportunistically where it runs. Devices already claimed by somebody are not its to give. The
 * virtual cells stay noted, for preempt_lazy_undo(). */
void preempt_lazy(struct cells *s, struct group *victim, uint64_t by)
{
    for (uint32_t i = victim->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            uint32_t leaf = s->shares[k].leaf;

            if (leaf == CELL_NONE || s->shares[k].vleaf == CELL_NONE || leaf_of(s, leaf)->state != CELL_USED ||
                s->prio[leaf] < 0)
                continue;
            take_release(s, leaf);
            (void)take_leaf(s, leaf, CELL_NONE, CELL_PRIORITY_OPP);
        }
    }
    victim->virtual_placed = false;
    victim->lazy_preempted = true;
    victim->preemptor = by;
}

void preempt_lazy_undo(struct cells *s, struct group *victim)
{
    for (uint32_t i = victim->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            uint32_t leaf = s->shares[k].leaf;

            if (leaf == CELL_NONE || s->shares[k].vleaf == CELL_NONE || leaf_of(s, leaf)->state != CELL_USED)
                continue;
            take_release(s, leaf);
            (void)take_leaf(s, leaf, s->shares[k].vleaf, victim->priority);
        }
    }
    victim->virtual_placed = true;
    victim->lazy_preempted = false;
    victim->preemptor = 0;
}

/* Claims what the decision chose (s->pods, s->picked, s->mapped) for the gang of the request. */
void preempt_start(struct cells *s, const struct cell_request *r, uint32_t chain)
{
    struct group *g = group_new(s, r, chain);

    assert(g);
    g->state = CELL_GROUP_PREEMPTING;
    g->virtual_placed = true;
    for (uint32_t i = 0; i < s->pod_count; i++) {
        struct slot *slot = group_add_slot(s, g, s->pods[i].size);
        uint32_t at = s->pods[i].first;

        slot->node = cells_node_of(s, s->mapped[at]);
        for (uint32_t k = slot->leaf_first; k != CELL_NONE; k = s->shares[k].next, at++) {
            struct share *share = &s->shares[k];
            struct leaf *leaf = leaf_of(s, s->mapped[at]);

            share->leaf = s->mapped[at];
            share->vleaf = s->picked[at];
            share->index = leaf->index;
            share->preassigned =
                chain_of(s, &s->cells[share->vleaf])->type_at[s->forests[s->cells[share->vleaf].forest].top];
            if (leaf->state == CELL_USED) {
                s->groups[leaf->user].state = CELL_BEING_PREEMPTED_STATE;
                take_release(s, share->leaf);
            }
            (void)take_leaf(s, share->leaf, share->vleaf, r->priority);
            leaf->state = leaf->state == CELL_USED ? CELL_RESERVING : CELL_RESERVED;
            leaf->reserver = group_slot(s, g);
        }
    }
}

/* Gives a device back to the gang that was being preempted there. */
static void victim_restore(struct cells *s, uint32_t leaf)
{
    struct group *g = &s->groups[leaf_of(s, leaf)->user];
    uint32_t vleaf = CELL_NONE;

    for (uint32_t i = g->slot_first; g->virtual_placed && i != CELL_NONE; i = s->slots[i].next)
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
            if (s->shares[k].leaf == leaf)
                vleaf = s->shares[k].vleaf;
    if (vleaf != CELL_NONE && take_fits(s, leaf, vleaf)) {
        (void)take_leaf(s, leaf, vleaf, g->priority);
        return;
    }
    (void)take_leaf(s, leaf, CELL_NONE, CELL_PRIORITY_OPP);
    if (vleaf != CELL_NONE)
        preempt_lazy(s, g, 0); /* its virtual cell was lost meanwhile: all of it goes on as opportunistic */
}

/* The claim is dropped; victims have their devices and virtual cells back. */
void preempt_cancel(struct cells *s, struct group *g)
{
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            struct leaf *leaf = leaf_of(s, s->shares[k].leaf);

            take_release(s, s->shares[k].leaf);
            leaf->reserver = CELL_NONE;
            if (leaf->state == CELL_RESERVING) {
                leaf->state = CELL_USED;
                victim_restore(s, s->shares[k].leaf);
            } else {
                leaf->state = CELL_FREE;
            }
        }
    }
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next)
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
            if (leaf_of(s, s->shares[k].leaf)->state == CELL_USED)
                group_refresh(s, &s->groups[leaf_of(s, s->shares[k].leaf)->user]);
    group_free(s, g);
}
