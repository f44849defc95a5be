/* SPDX-License-Identifier: Apache-2.0 */
/* lend.c - see lend.h. */
#include "cell/lend.h"

#include <errno.h>

#include "cell/parts.h"

static uint32_t chain_number(const struct cells *s, uint32_t cell)
{
    return s->forests[s->cells[cell].forest].chain;
}

/* Whether the i-th is the first of its chain. */
static bool chain_begins(const struct cells *s, const uint32_t *virt, uint32_t i)
{
    for (uint32_t k = i; k-- > 0;)
        if (chain_number(s, virt[k]) == chain_number(s, virt[i]))
            return false;
    return true;
}

int cells_map(struct cells *s, const uint32_t *virt, uint32_t count, const uint64_t *nodes, uint32_t *ret_phys)
{
    const struct cell_request request = { .ignore_suggested = !nodes, .suggested = nodes };

    for (uint32_t i = 0; i < count; i++) {
        uint32_t chain = chain_number(s, virt[i]), at = 0;

        if (i > 0 && (chain == chain_number(s, virt[i - 1]) || !chain_begins(s, virt, i)))
            continue;
        s->picked_count = 0;
        for (uint32_t k = i; k < count; k++)
            if (chain_number(s, virt[k]) == chain)
                s->picked[s->picked_count++] = virt[k];
        if (!map_gang(s, chain, &request))
            return -EBUSY;
        for (uint32_t k = i; k < count; k++)
            if (chain_number(s, virt[k]) == chain)
                ret_phys[k] = s->mapped[at++];
    }
    return 0;
}

static void give_back(struct cells *s, uint32_t leaf)
{
    take_release(s, leaf);
    leaf_of(s, leaf)->user = CELL_NONE;
    leaf_of(s, leaf)->state = CELL_FREE;
}

int cells_lend(struct cells *s, const uint32_t *virt, const uint32_t *phys, uint32_t count)
{
    uint32_t done = 0;
    bool ok = true;

    while (ok && done < count) {
        struct leaf *leaf = leaf_of(s, phys[done]);
        uint32_t vleaf = virt ? virt[done] : CELL_NONE;

        ok = leaf->state == CELL_FREE && (vleaf == CELL_NONE || take_fits(s, phys[done], vleaf));
        if (!ok)
            break;
        ok = take_leaf(s, phys[done], vleaf, 0);
        leaf->user = CELL_LENT;
        leaf->state = CELL_USED;
        done++;
    }
    for (uint32_t i = 0; !ok && i < done; i++)
        give_back(s, phys[i]);
    return ok ? 0 : -EBUSY;
}

void cells_return(struct cells *s, const uint32_t *phys, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        give_back(s, phys[i]);
}

void cells_settle(struct cells *s)
{
    doom_settle(s);
    cells_checked(s);
}

uint32_t cells_noted(struct cells *s)
{
    uint32_t virt;

    if (s->noted_count == 0)
        return CELL_NONE;
    virt = s->noted[--s->noted_count];
    s->cells[virt].flags &= (uint8_t)~CELL_NOTED;
    return virt;
}

uint32_t cells_parent(const struct cells *s, uint32_t cell)
{
    return s->cells[cell].parent;
}

uint32_t cells_peer(const struct cells *s, uint32_t cell)
{
    return s->cells[cell].peer;
}

bool cells_bad(const struct cells *s, uint32_t leaf)
{
    uint32_t phys = cell_is_virtual(s, leaf) ? s->cells[leaf].peer : leaf;

    return phys != CELL_NONE && s->cells[phys].bad > 0;
}

bool cells_taken(const struct cells *s, uint32_t leaf, bool own)
{
    return own ? s->prio[leaf] >= 0 : s->prio[leaf] != CELL_PRIORITY_FREE;
}

int cells_show_bad(struct cells *s, uint32_t virt, uint32_t phys)
{
    const struct forest *f = &s->forests[s->cells[virt].forest];

    if (s->cells[phys].bad == 0 || !take_fits(s, phys, virt))
        return -EBADMSG;
    for (uint32_t p = phys, v = virt; v != CELL_NONE; v = s->cells[v].parent, p = s->cells[p].parent) {
        if (s->cells[v].peer != CELL_NONE)
            continue;
        take_bind(s, p, v);
        if (s->cells[v].parent != CELL_NONE)
            continue;
        /* Bound for nothing but to be shown. */
        take_root(s, v);
        s->cells[v].flags |= CELL_DOOMED;
        account_of(s, f->vc, &s->chains[f->chain], f->top)->doomed++;
        s->chains[f->chain].doomed++;
    }
    return 0;
}
