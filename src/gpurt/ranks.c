/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - processes of one job that wait for one another: they stop after the same step, and go on together.
 *
 * A rank held back between two launches would hold up all others inside a collective. So an opportunistic job of
 * several processes, or of one process on several GPUs, has no gaps to wait for: beside a guaranteed job it is open,
 * with the short time slice, or closed at the end of a step that all of them can still reach.
 */
#include <string.h>

#include "gpurt/node.h"

#define RANK_MOST_NS 60000000000ULL
#define RANK_STEPS 2               /* beyond the furthest: one that all can still reach */
#define RANK_WAIT_NS 2000000000ULL /* ranks that have agreed on a step get there; and four steps more */

/* The newest step of a process: when it ended and how long it took, in ns. */
uint64_t rank_step_newest(const struct client *c, uint64_t *ret_span)
{
    const struct page_step *step = &c->page->step;
    const struct page_step_record *r = &step->ring[(step->seq - 1) % PAGE_STEPS];

    *ret_span = step->seq && r->tier < TIER_TIME ? (uint64_t)r->wall_us * 1000 : 0;
    return *ret_span ? r->end_ns : 0;
}

/* Ranks wait for one another inside a step, so they stop after the same one. Each counts its steps from when it was
 * first seen, so the counts differ by whatever they like; but ranks end a step together. Who ended its newest one half
 * a step or more before the last of them is one behind. */
void rank_boundary(struct client *c, uint64_t latest)
{
    uint64_t span, end = rank_step_newest(c, &span),
                   behind = span && latest > end ? (latest - end + span / 2) / span : 0;

    c->close_step = c->page->step.seq + (behind < 2 ? behind : 2) + RANK_STEPS;
    c->close_ns = RANK_WAIT_NS + 4 * span;
    c->close_ns = c->close_ns < RANK_MOST_NS ? c->close_ns : RANK_MOST_NS;
}

/* A job's number is the program's own word; whose it is, the kernel's. */
static bool rank_same(const struct client *a, const struct client *b)
{
    return *a->job && a->uid == b->uid && strcmp(a->job, b->job) == 0;
}

bool ranks_many(const struct node *node, const struct client *client)
{
    uint32_t gpus = 0;

    for (int i = 0; i < PAGE_GPUS; i++)
        gpus += client->arena[i] >= 0;
    for (int i = 0; i < NODE_CLIENTS && gpus < 2; i++)
        if (node->client[i].fd >= 0 && &node->client[i] != client && rank_same(client, &node->client[i]))
            return true;
    return gpus > 1;
}

static bool rank_open(const struct client *c, const struct client *of)
{
    bool same = c == of || rank_same(of, c);

    return c->fd >= 0 && same && c->state == CLIENT_RUNNING && c->goal == CLIENT_RUNNING &&
           c->page->control.gate != GATE_CLOSING && c->page->control.gate != GATE_CLOSED;
}

void ranks_gate(struct node *node, struct client *client, bool open)
{
    uint64_t latest = 0, span, end;

    if (open) {
        control_gate(client, GATE_OPEN);
        return;
    }
    if (!rank_open(client, client))
        return; /* on its way already */
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (rank_open(&node->client[i], client)) {
            end = rank_step_newest(&node->client[i], &span);
            latest = end > latest ? end : latest;
        }
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (rank_open(&node->client[i], client)) {
            rank_boundary(&node->client[i], latest);
            control_close(&node->client[i]);
        }
}

bool ranks_leaving(const struct node *node, const struct gpu_arena *gpu, uint64_t now)
{
    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];
        const struct page_control *control = c->fd >= 0 ? &c->page->control : NULL;

        if (control && control->gate == GATE_CLOSING && now < control->close_by_ns &&
            __atomic_load_n(&c->page->step.seq, __ATOMIC_ACQUIRE) < control->close_step &&
            client_on(c, (int)(gpu - node->gpu)))
            return true;
    }
    return false;
}
