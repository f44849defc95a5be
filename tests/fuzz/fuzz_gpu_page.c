/* SPDX-License-Identifier: Apache-2.0 */
/* What job processes and tools may send to the node side of the GPU runtime: registrations, messages, orders, and a
 * shared page of anything. It answers every line with whole text and writes only what it may.
 *
 * Input: a byte of switches, a page (repeated to its size), then messages of 64 bytes and a line. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "gpurt/node.h"
#include "shim/channel.h"
#include "shim/gate/admit.h"

#define NOBODY 0x7ffffff0 /* no process has this number */
#define PAGE_PART 2048u
#define MESSAGES 8

enum { VALID_PAGE = 1, SEALED = 2, VALID_HELLO = 4, GUARANTEED = 8 };

/* The page's descriptor, filled with what there is. */
static int page_fd(const uint8_t *data, size_t size, uint8_t switches)
{
    static uint8_t bytes[PAGE_SIZE_BYTES];
    struct page *page = (struct page *)(void *)bytes;
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = size ? data[i % size] : 0;
    if (switches & VALID_PAGE) {
        page->magic = PAGE_MAGIC;
        page->abi = PAGE_ABI;
    }
    CHECK(fd >= 0 && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    if (switches & SEALED)
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

static void registered(struct node *node, int *ends, const uint8_t *data, size_t size, uint8_t switches)
{
    struct message_hello hello = { 0 };
    int fd = page_fd(data, size < PAGE_PART ? size : PAGE_PART, switches);

    memcpy(&hello, data, size < sizeof(hello) ? size : sizeof(hello));
    if (switches & VALID_HELLO) {
        hello.head = (struct message_head){ MSG_HELLO, sizeof(hello) };
        hello.abi = PAGE_ABI;
        hello.role = switches & GUARANTEED ? ROLE_GUARANTEED : ROLE_OPPORTUNISTIC;
        hello.mode = 2;
    }
    node->pending[0] = ends[0];
    CHECK(channel_send(ends[1], &hello, sizeof(hello), fd));
    close(fd);
    node_pending(node, 0);
    if (node->client[0].fd >= 0)
        node->client[0].pid = NOBODY; /* orders may send it signals */
}

static void asked(struct node *node, const char *line)
{
    static char text[NODE_TEXT];

    if (strncmp(line, "release", 7) == 0) /* starts a guardian */
        return;
    text[0] = '\0';
    if (!answer_line(node, -1, line, text))
        CHECK(strnlen(text, NODE_TEXT) < NODE_TEXT && text[0]);
}

/* What a job process makes of a page. */
static void admitted(const struct page *page)
{
    struct admit_lease lease = { 0 };
    struct admit_rule rule = admit_effective(&page->control, &lease, page->step.seq, node_now());
    struct admit_knobs knobs;
    struct admit_state state = { .rg_state = page->control.gate, .gap_pred_us = page->control.window_us };

    CHECK(rule.gate < GATE_COUNT && rule.share <= PAGE_PERMILLE && rule.duty <= PAGE_PERMILLE);
    admit_map(page->control.share, &knobs);
    CHECK(knobs.guard_us >= 100 && knobs.guard_us <= 400 && knobs.window_us <= 600);
    knobs.guard_us = page->control.edge_us;
    state.elapsed_us = page->control.gate_until_ns;
    state.inflight_us = page->control.lease_until_ns;
    CHECK(admit_harvest(&knobs, &state) < ADMIT_COUNT);
}

static void talked(struct node *node, int fd, const uint8_t *data, size_t size)
{
    char line[128] = "";
    size_t n = size < 100 ? size : 100;

    for (int i = 0; i < MESSAGES && size >= 64; i++, data += 64, size -= 64)
        (void)channel_send(fd, data, 64, -1);
    if (node->client[0].fd >= 0)
        node_client(node, &node->client[0]);
    memcpy(line, data, size < n ? size : n);
    asked(node, line);
    (void)snprintf(line, sizeof(line), "set %d memory=%zu share=500", NOBODY, size);
    asked(node, line);
    (void)snprintf(line, sizeof(line), "evict %d boundary", NOBODY);
    asked(node, line);
    for (int i = 0; i < 3; i++)
        control_turn(node);
    asked(node, "ls");
    asked(node, "json");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct node *node;
    int ends[2];

    if (size < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    node = node ? node : malloc(sizeof(*node));
    CHECK(node);
    memset(node, 0, sizeof(*node));
    node->run_dir = "/nonexistent";
    node->program = "/nonexistent";
    node->eps = 20;
    node_empty(node);
    registered(node, ends, data + 1, size - 1, data[0]);
    if (node->client[0].fd >= 0) {
        admitted(node->client[0].page);
        talked(node, ends[1], data + 1, size - 1);
    }
    close(ends[1]);
    if (node->client[0].fd >= 0)
        node_client(node, &node->client[0]);
    CHECK(node->client[0].fd < 0);
    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used) {
            close(node->gpu[i].fd);
            close(node->gpu[i].fd_readonly);
            (void)munmap(node->gpu[i].arena, ARENA_SIZE_BYTES);
        }
    return 0;
}
