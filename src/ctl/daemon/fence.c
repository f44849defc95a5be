/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - see fence.h.
 *
 * A node that has been silent for the time of a lease, since this controller listens, is switched off by
 * `PROGRAM NODE ADDRESS`; exit status 0 says that it is off, and then it is lost. One at a time. Where more than one
 * node and more than half of them are silent it is rather this machine that is cut off, and nothing is done.
 */
#include "ctl/daemon/fence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/stats.h"
#include "ctl/state/registry.h"
#include "io/child.h"
#include "io/log.h"

#define LOOK_EVERY USEC_SEC
#define AGAIN_AFTER USEC_MIN
#define TIME_MAX (5 * USEC_MIN)

enum { SAID_MAX = 128, OUT_MAX = 65536 };

struct fence_node {
    usec_t silent; /* since when, as seen by this process; 0 = it is not */
    usec_t next;   /* not before */
    char said[SAID_MAX];
};

struct fence {
    struct server *server;
    struct loop_timer *timer;
    struct child *child; /* NULL = none runs */
    uint32_t target, joins;
    struct fence_node *nodes; /* owned; by number in the registry */
    size_t capacity, count;
};

const char *fence_said(const struct fence *fence, size_t node)
{
    return fence && node < fence->count ? fence->nodes[node].said : "";
}

static const struct registry *registry_of(const struct fence *fence)
{
    return ctl_registry(batcher_ctl(fence->server->batcher));
}

static void on_end(void *arg, const struct child_end *end)
{
    struct fence *fence = arg;
    struct fence_node *mine = &fence->nodes[fence->target];
    const struct ctl_node *node = &registry_of(fence)->nodes[fence->target];
    const char *name = names_get(&registry_of(fence)->node_names, node->name);
    struct entry lost = { .kind = ENTRY_LOST };
    struct entry_result result;

    fence->child = NULL;
    if (fence->server->stopping)
        return;
    if (end->code != 0 || end->signal || end->why) {
        (void)snprintf(mine->said, sizeof(mine->said), ", and could not be switched off: %.80s",
                       end->why    ? end->why
                       : *end->err ? end->err
                                   : "its program failed");
        mine->said[strcspn(mine->said, "\n")] = '\0';
        mine->next = clock_now() + AGAIN_AFTER;
        log_err("a silent node could not be switched off", "node", name, "why", mine->said + 2);
        return;
    }
    mine->said[0] = '\0';
    if (node->joins != fence->joins || node->lost || !node->silent)
        return; /* it has been here since: what it runs it says itself */
    log_warn("a silent node was switched off", "node", name);
    lost.lost.node = entry_text(name);
    lost.lost.why = entry_text("it was switched off");
    (void)batcher_offer(fence->server->batcher, &lost, NULL, NULL, &result);
    batcher_turn(fence->server->batcher);
}

static void node_off(struct fence *fence, uint32_t target)
{
    const struct registry *registry = registry_of(fence);
    const struct ctl_node *node = &registry->nodes[target];
    const char *argv[] = { fence->server->conf->fence_program, names_get(&registry->node_names, node->name),
                           node->address, NULL };
    struct child_spec spec = {
        .argv = argv, .limits = { .wall = TIME_MAX, .out_max = OUT_MAX }, .done = on_end, .arg = fence
    };
    struct error err = { 0 };

    fence->target = target;
    fence->joins = node->joins;
    log_warn("switching a silent node off", "node", argv[1], "by", argv[0]);
    if (child_start(fence->server->loop, &spec, &fence->child, &err) < 0) {
        log_err("a silent node could not be switched off", "node", argv[1], "why", err.text);
        fence->nodes[target].next = clock_now() + AGAIN_AFTER;
    }
}

/* More than half of several nodes are silent: then the fault is rather at the controller. */
static bool most_nodes_silent(const struct fence *fence, size_t count)
{
    const struct registry *registry = registry_of(fence);
    size_t silent = 0, joined = 0;

    for (size_t n = 0; n < count; n++) {
        const struct ctl_node *node = &registry->nodes[n];

        if (!node->joined || node->forgotten || node->lost)
            continue;
        joined++;
        silent += node->silent;
    }
    return silent > 1 && silent * 2 > joined;
}

static void on_time(void *arg)
{
    struct fence *fence = arg;
    const struct conf *conf = fence->server->conf;
    size_t count;
    usec_t now = clock_now();

    if (conf->fence != CONF_FENCE_PROGRAM || !fence->server->batcher || fence->server->stopping)
        return;
    count = registry_of(fence)->node_count;
    if (mem_grow((void **)&fence->nodes, &fence->capacity, count, NODES_MAX, sizeof(*fence->nodes)) < 0)
        return;
    for (; fence->count < count; fence->count++)
        fence->nodes[fence->count] = (struct fence_node){ 0 };
    for (size_t n = 0; n < count; n++) {
        const struct ctl_node *node = &registry_of(fence)->nodes[n];
        struct fence_node *mine = &fence->nodes[n];

        if (!node->silent || node->connected || node->lost || node->forgotten)
            *mine = (struct fence_node){ 0 };
        else if (!mine->silent)
            mine->silent = now;
        if (mine->silent && now - mine->silent > conf->lease && now >= mine->next && !fence->child &&
            !most_nodes_silent(fence, count))
            node_off(fence, (uint32_t)n);
    }
}

int fence_new(struct server *server, struct fence **ret_fence)
{
    struct fence *fence = mem_zalloc(1, sizeof(*fence));
    int r = fence ? loop_timer_new(server->loop, on_time, fence, &fence->timer) : -ENOMEM;

    if (r < 0) {
        mem_free(fence);
        return r;
    }
    fence->server = server;
    loop_timer_every(fence->timer, LOOK_EVERY);
    *ret_fence = fence;
    return 0;
}

void fence_free(struct fence *fence)
{
    if (!fence)
        return;
    if (fence->child)
        child_abandon(fence->child);
    loop_timer_free(fence->timer);
    mem_free(fence->nodes);
    mem_free(fence);
}
