/* SPDX-License-Identifier: Apache-2.0 */
/* starve.c - see starve.h. */
#include "gpurt/starve.h"

#include "gpurt/node.h"

#define AGAIN_NS 5000000000ULL

static uint64_t cap_of(const struct client *client)
{
    return __atomic_load_n(&client->page->limit[client_gpu(client)].cap_bytes, __ATOMIC_RELAXED);
}

static bool above(const struct client *client)
{
    uint64_t cap = cap_of(client);

    return cap && __atomic_load_n(&client->page->memory[client_gpu(client)].used, __ATOMIC_RELAXED) > cap;
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
    if (client->goes_on || !(client->page->health.flags & HEALTH_NO_HOST) || !above(client))
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
    } else if (!above(client)) {
        (void)ladder_order(node, client, CLIENT_RUNNING, &err);
        client->goes_on = false; /* the next time it is paused again */
    } else if (now - client->starved_ns > AGAIN_NS) {
        client->starved_ns = now;
        ladder_again(client, client_gpu(client), cap_of(client));
    }
}
