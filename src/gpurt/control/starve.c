/* SPDX-License-Identifier: Apache-2.0 */
/* starve.c - see starve.h. */
#include "gpurt/control/starve.h"

#include "gpurt/node.h"

#define AGAIN_NS 5000000000ULL

static uint64_t cap_of(const struct client *client, uint32_t gpu)
{
    return __atomic_load_n(&client->page->limit[gpu].cap_bytes, __ATOMIC_RELAXED);
}

/* On which of its GPUs it holds more than it may; PAGE_GPUS: on none. */
static uint32_t above(const struct client *client)
{
    uint32_t i;

    for (i = 0; i < PAGE_GPUS; i++)
        if (cap_of(client, i) && __atomic_load_n(&client->page->memory[i].used, __ATOMIC_RELAXED) > cap_of(client, i))
            break;
    return i;
}

void starve_pause(struct node *node, struct client *client)
{
    uint64_t bytes = client->step_bytes, since = client->order_since_ns;
    bool squeezed = client->squeezed;
    struct error err;

    if (client->state != CLIENT_RUNNING || client->role == ROLE_GUARANTEED || ranks_many(node, client) ||
        ladder_order(node, client, CLIENT_PAUSED, &err) < 0)
        return;
    client->squeezed = squeezed;
    client->starved = true;
    client->starved_ns = node_now();
    client->step_bytes = bytes; /* of the order it was, for its answer */
    client->order_since_ns = since;
}

bool starve_look(struct node *node, struct client *client)
{
    if (client->goes_on || above(client) == PAGE_GPUS ||
        !(client->no_host || (client->page->health.flags & HEALTH_NO_HOST)))
        return false;
    starve_pause(node, client);
    return client->starved;
}

void starve_turn(struct node *node, struct client *client, uint64_t now)
{
    struct error err;

    if (!client->starved || client->step != STEP_NONE)
        return;
    if (client->state != CLIENT_PAUSED) {
        client->starved = false;
    } else if (above(client) == PAGE_GPUS) {
        (void)ladder_order(node, client, CLIENT_RUNNING, &err);
        client->goes_on = false; /* the next time it is paused again */
    } else if (now - client->starved_ns > AGAIN_NS) {
        client->starved_ns = now;
        ladder_again(client, above(client), cap_of(client, above(client)));
    }
}
