/* SPDX-License-Identifier: Apache-2.0 */
/* torch.c - see torch.h. */
#include "gpurt/ladder/torch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpurt/door.h"
#include "gpurt/node.h"

#define SEC 1000000000ULL
#define STATS_NS (10 * SEC)
#define GIB (1024.0 * 1024 * 1024)
#define MIB 1048576.0
#define ROW 128u

static const struct page_torch *torch_of(const struct client *client)
{
    const struct page_torch *t = &client->page->torch;

    return page_has_torch(client->page) && __atomic_load_n(&t->seq, __ATOMIC_ACQUIRE) ? t : NULL;
}

int torch_order(struct client *client, struct error *err)
{
    if (client->step != STEP_NONE)
        return error_set(err, -EBUSY, "process %d: an order to it is not finished; wait for it", (int)client->pid);
    if (client->state != CLIENT_RUNNING)
        return error_set(err, -EBUSY, "process %d is %s; resume it first", (int)client->pid,
                         client_state_name(client->state));
    client->order_since_ns = client->step_since_ns = node_now();
    client->step = STEP_STATS;
    client->step_seq = control_command(client, OP_STATS, 0, 0, STATS_NS);
    return 0;
}

static const char *reason(int r)
{
    switch (r) {
    case -ENOSYS:
        return "it is no PyTorch program, or none whose optimizer could be hooked";
    case -EIO:
        return "torch.cuda.memory_stats() failed in it";
    case -ETIMEDOUT:
        return "no step of it ended in 10 s";
    case -EINVAL:
        return "its library is older than this order";
    default:
        return strerror(-r);
    }
}

void torch_done(struct node *node, struct client *client, int r)
{
    const struct page_torch *t = torch_of(client);
    char text[NODE_LINE];

    client->step = STEP_NONE;
    if (r < 0 || !t)
        (void)snprintf(text, sizeof(text), "error: process %d: %s", (int)client->pid, reason(r < 0 ? r : -ENOSYS));
    else
        (void)snprintf(
            text, sizeof(text),
            "ok %d: GPU %llu: allocated %.1f MiB, at most %.1f; reserved %.1f, at most %.1f; active %.1f, at "
            "most %.1f; inactive and split %.1f, at most %.1f",
            (int)client->pid, (unsigned long long)t->gpu, (double)t->allocated / MIB, (double)t->allocated_peak / MIB,
            (double)t->reserved / MIB, (double)t->reserved_peak / MIB, (double)t->active / MIB,
            (double)t->active_peak / MIB, (double)t->inactive_split / MIB, (double)t->inactive_split_peak / MIB);
    answer_tell(node, client->pid, text);
}

int torch_json(const struct client *client, char *text, size_t size)
{
    const struct page_torch *t = torch_of(client);
    uint64_t now = node_now();

    *text = '\0';
    if (!t)
        return 0;
    return snprintf(text, size,
                    "\"torch_gpu\":%llu,\"torch_age_ms\":%llu,\"torch_allocated_bytes\":%llu,"
                    "\"torch_allocated_peak_bytes\":%llu,\"torch_reserved_bytes\":%llu,"
                    "\"torch_reserved_peak_bytes\":%llu,\"torch_active_bytes\":%llu,\"torch_active_peak_bytes\":%llu,"
                    "\"torch_inactive_split_bytes\":%llu,\"torch_inactive_split_peak_bytes\":%llu,",
                    (unsigned long long)t->gpu, (unsigned long long)(now > t->at_ns ? (now - t->at_ns) / 1000000 : 0),
                    (unsigned long long)t->allocated, (unsigned long long)t->allocated_peak,
                    (unsigned long long)t->reserved, (unsigned long long)t->reserved_peak,
                    (unsigned long long)t->active, (unsigned long long)t->active_peak,
                    (unsigned long long)t->inactive_split, (unsigned long long)t->inactive_split_peak);
}

size_t torch_text(const struct node *node, char *text, size_t size)
{
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < NODE_CLIENTS && n + 2 * ROW < size; i++) {
        const struct client *c = &node->client[i];
        const struct page_torch *t = c->fd >= 0 && door_shows(node, c) ? torch_of(c) : NULL;

        if (!t)
            continue;
        if (!n)
            n = (size_t)snprintf(text, size, "\n%-8s  %9s  %9s  %9s  %9s  %9s  %9s\n", "PID", "TORCH-GIB", "PEAK",
                                 "RESERVED", "PEAK", "ACT-PEAK", "INACTIVE");
        n += (size_t)snprintf(text + n, size - n, "%-8d  %9.2f  %9.2f  %9.2f  %9.2f  %9.2f  %9.2f\n", (int)c->pid,
                              (double)t->allocated / GIB, (double)t->allocated_peak / GIB, (double)t->reserved / GIB,
                              (double)t->reserved_peak / GIB, (double)t->active_peak / GIB,
                              (double)t->inactive_split / GIB);
    }
    return n;
}
