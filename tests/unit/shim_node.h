/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* shim_node.h - a test is the node side of its own process, on a socket of its own: it welcomes the library, gives it
 * an arena, and keeps what it asks for. */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/channel.h"
#include "unit/shim_play.h"

static char node_dir[] = "/tmp/muster-node-XXXXXX";
static struct arena *arena;
static int arena_fd = -1, listener = -1;
static _Atomic int node_beats;       /* the guaranteed job of the arena shows life */
static _Atomic uint64_t node_needed; /* the last MSG_NEED, in bytes */

static void node_answer(int fd)
{
    union {
        struct message_head head;
        struct message_device device;
        struct message_hello hello;
        char bytes[MESSAGE_MAX];
    } m;
    struct message_welcome welcome = { .head = { MSG_WELCOME, sizeof(welcome) }, .abi = PAGE_ABI };
    int passed;

    while (channel_receive(fd, &m, sizeof(m), &passed) > 0) {
        if (passed >= 0)
            (void)close(passed);
        if (m.head.type == MSG_HELLO)
            (void)channel_send(fd, &welcome, sizeof(welcome), -1);
        if (m.head.type == MSG_DEVICE) {
            m.head.type = MSG_ARENA;
            (void)channel_send(fd, &m, sizeof(m.device), arena_fd);
        } else if (m.head.type == MSG_NEED) {
            node_needed = m.device.bytes;
        }
    }
}

static void *node_side(void *arg)
{
    struct pollfd p[2] = { { .fd = listener, .events = POLLIN }, { .fd = -1, .events = POLLIN } };

    (void)arg;
    for (;;) {
        if (poll(p, 2, 10) > 0 && p[0].revents)
            p[1].fd = accept(listener, NULL, NULL);
        if (p[1].revents)
            node_answer(p[1].fd);
        if (node_beats)
            __atomic_store_n(&arena->rg_beat_ns, now_ns(), __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static int node_start(void)
{
    struct sockaddr_un addr;
    char path[64];
    pthread_t thread;

    (void)snprintf(path, sizeof(path), "%s/gpu.sock", mkdtemp(node_dir));
    arena_fd = memfd_create("muster-played", 0);
    listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (arena_fd < 0 || ftruncate(arena_fd, ARENA_SIZE_BYTES) < 0 || channel_address(path, &addr) < 0 ||
        bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listener, 4) < 0 ||
        setenv("MUSTER_GPU_SOCKET", path, 1) < 0)
        return 1;
    arena = mmap(NULL, ARENA_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
    if (arena == MAP_FAILED)
        return 1;
    *arena = (struct arena){ .magic = PAGE_MAGIC, .abi = PAGE_ABI, .size = sizeof(*arena) };
    return pthread_create(&thread, NULL, node_side, NULL);
}

/* The arena is mapped twice: here and by the library. */
static int node_arenas(void)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    int n = 0;

    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, "memfd:muster-played") != NULL;
    if (f)
        (void)fclose(f);
    return n;
}

/* Once there is a context: until the library has its arena. */
static int node_wait(void)
{
    for (int i = 0; i < 10000 && node_arenas() < 2; i++)
        (void)usleep(1000);
    return node_arenas() < 2;
}

static int node_end(void **state)
{
    char path[64];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/gpu.sock", node_dir);
    (void)unlink(path);
    (void)rmdir(node_dir);
    return 0;
}
