/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c - the node side's end of a guardian (guard.c): starting one, finding it, telling it that we are here. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpurt/ladder/guard.h"
#include "gpurt/node.h"
#include "gpurt/tool.h"
#include "shim/channel.h"

#define CLAIM_NS 1000000000ULL
#define GUARDIAN_TRIES 2

void guardian_drop(struct client *client)
{
    if (client->guardian >= 0)
        close(client->guardian);
    client->guardian = -1;
}

int guardian_connect(struct node *node, const struct client *client)
{
    char path[TOOL_PATH_MAX];
    int fd;

    guard_path(node->run_dir, client->pid, path, sizeof(path));
    fd = channel_connect(path, SOCK_NONBLOCK);
    return fd < 0 ? -1 : fd;
}

static int guardian_spawn(const struct node *node, pid_t of, uint64_t start_ticks)
{
    char pid_text[32], start_text[32];
    pid_t pid;

    (void)snprintf(pid_text, sizeof(pid_text), "%d", (int)of);
    (void)snprintf(start_text, sizeof(start_text), "%llu", (unsigned long long)start_ticks);
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        setsid();
        execl(node->program, node->program, "gpu", "guard", "--run-dir", node->run_dir, pid_text, start_text,
              (char *)NULL);
        _exit(127);
    }
    return 0;
}

int guardian_start(struct node *node, struct client *client)
{
    guardian_drop(client);
    client->guardian_since_ns = node_now();
    return guardian_spawn(node, client->pid, client->start_ticks);
}

static size_t hex_write(const uint8_t *uuid, char *text)
{
    for (int i = 0; i < 16; i++)
        (void)snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", uuid[i]);
    return 32;
}

/* What it holds, and where, for the journal. */
static void process_text(const struct client *client, char *text, size_t size)
{
    uint64_t bytes = 0;
    size_t n;

    for (int i = 0; i < PAGE_GPUS; i++)
        bytes += client->page->memory[i].present ? client->page->memory[i].used + client->page->memory[i].saved : 0;
    n = (size_t)snprintf(text, size, " %llu", (unsigned long long)bytes);
    for (int i = 0, count = 0; i < PAGE_GPUS && n + 34 < size; i++) {
        if (!client->page->memory[i].present)
            continue;
        text[n++] = count++ ? ',' : ' ';
        n += hex_write(client->page->memory[i].uuid, text + n);
    }
}

/* "checkpoint BYTES GPU,GPU..."; "restore", or "restore FROM TO ..." with every GPU of the process: the driver wants
 * all of them named.
 */
static void order_text(const struct client *client, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, client->step == STEP_RELEASE ? "checkpoint" : "restore");
    bool first = true;

    if (client->step == STEP_RELEASE) {
        process_text(client, text + n, size - n);
        return;
    }

    for (uint32_t i = 0; i < PAGE_GPUS && client->moving && client->step == STEP_RESTORE && n + 70 < size; i++) {
        const struct page_memory *m = &client->page->memory[i];
        const uint8_t *to = first ? client->move_to : m->uuid;

        if (!m->present)
            continue;
        first = false;
        text[n++] = ' ';
        n += hex_write(m->uuid, text + n);
        text[n++] = ' ';
        n += hex_write(to, text + n);
        text[n] = '\0';
    }
}

static int guardian_again(struct node *node, struct client *client, const char *why, char *text, size_t size)
{
    if (guardian_failed(node, client)) {
        (void)snprintf(text, size, "failed: " GUARD_GIVEN_UP);
        return -1;
    }
    if (client->guardian_tries++ < GUARDIAN_TRIES && guardian_start(node, client) == 0)
        return 0;
    (void)snprintf(text, size, "%s", why);
    return -1;
}

/* One that was killed is followed by another, which asks the driver where the process is and goes on from there. */
int guardian_look(struct node *node, struct client *client, const char *expect, char *text, size_t size)
{
    char order[1100];
    ssize_t n = -1;

    if (client->guardian < 0) {
        client->guardian = guardian_connect(node, client);
        client->guardian_told = false;
        if (client->guardian < 0 && node_now() - client->guardian_since_ns < GUARDIAN_NS)
            return 0;
        if (client->guardian < 0) /* one that was started ahead does not wait for ever for slow copies */
            return guardian_again(node, client, "the guardian did not start", text, size);
    }
    if (!client->guardian_told) {
        order_text(client, order, sizeof(order));
        client->guardian_told = send(client->guardian, order, strlen(order), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    }
    while ((n = recv(client->guardian, text, size - 1, MSG_DONTWAIT)) > 0) {
        text[n] = '\0';
        if (strncmp(text, expect, strlen(expect)) == 0)
            return 1;
        if (strncmp(text, "failed", 6) == 0)
            return -1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return guardian_again(node, client, "the guardian ended, and so did those after it", text, size);
}

bool guardian_failed(const struct node *node, const struct client *client)
{
    struct guard_journal journal;

    return guard_journal_read(node->run_dir, client->pid, &journal, NULL) == 0 &&
           journal.start_ticks == client->start_ticks && journal.state == GUARD_FAILED;
}

static bool process_lives(const struct guard_journal *journal)
{
    return channel_start_ticks(journal->pid) == journal->start_ticks;
}

/* Guardians that were killed left their journals. Each gets another, which restores the process when nobody claims it:
 * a process that waits inside the driver cannot register and say so itself. One that is just being killed still takes
 * connections: so it is looked at again and again, not only at the start. */
void ladder_orphans(struct node *node)
{
    const struct dirent *entry;
    int number;
    DIR *dir;

    if (node->orphans_ns && node_now() - node->orphans_ns < GUARDIAN_NS)
        return;
    node->orphans_ns = node_now();
    dir = opendir(node->run_dir);

    while (dir && (entry = readdir(dir))) {
        struct client lost = { .fd = -1, .guardian = -1 };
        struct guard_journal journal;
        char suffix[16] = "";

        if (sscanf(entry->d_name, "guard-%d.%15s", &number, suffix) != 2 || strcmp(suffix, "journal") != 0 ||
            guard_journal_read(node->run_dir, number, &journal, NULL) < 0 || journal.pid != number)
            continue;
        if (journal.state == GUARD_FAILED && !process_lives(&journal))
            guard_journal_remove(node->run_dir, number);
        if (journal.state == GUARD_FAILED || !process_lives(&journal) || node_find(node, journal.pid))
            continue;
        lost.pid = journal.pid;
        lost.guardian = guardian_connect(node, &lost);
        if (lost.guardian < 0)
            (void)guardian_spawn(node, journal.pid, journal.start_ticks);
        guardian_drop(&lost);
    }
    if (dir)
        (void)closedir(dir);
}

/* While a process is released its guardian is told that somebody knows; one that was killed gets a successor. */
int guardian_claim(struct node *node, struct client *client)
{
    uint64_t now = node_now();
    char text[256];
    ssize_t n = -1;

    while (client->guardian >= 0 && (n = recv(client->guardian, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0) {
        text[n] = '\0';
        if (strncmp(text, "running", 7) == 0 || strncmp(text, "restored", 8) == 0) {
            guardian_drop(client);
            return 1;
        }
    }
    if (client->guardian >= 0 && n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        if (now - client->claimed_ns > CLAIM_NS && send(client->guardian, "claim", 5, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
            client->claimed_ns = now;
        return 0;
    }
    guardian_drop(client);
    client->guardian = guardian_connect(node, client);
    if (client->guardian >= 0)
        return 0;
    if (guardian_failed(node, client))
        return -EIO;
    if (now - client->guardian_since_ns > GUARDIAN_NS)
        (void)guardian_start(node, client);
    return 0;
}
