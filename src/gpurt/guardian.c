/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c - the node side's end of a guardian (guard.c): starting one, finding it, telling it that we are here. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpurt/guard.h"
#include "gpurt/node.h"
#include "gpurt/tool.h"
#include "shim/channel.h"

#define CLAIM_NS 1000000000ULL

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
            guard_journal_read(node->run_dir, number, &journal, NULL) < 0 || journal.pid != number ||
            channel_start_ticks(journal.pid) != journal.start_ticks || node_find(node, journal.pid))
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
void guardian_claim(struct node *node, struct client *client)
{
    uint64_t now = node_now();
    char text[256];
    ssize_t n = -1;

    while (client->guardian >= 0 && (n = recv(client->guardian, text, sizeof(text), MSG_DONTWAIT)) > 0)
        ; /* what it says of itself */
    if (client->guardian >= 0 && n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        if (now - client->claimed_ns > CLAIM_NS && send(client->guardian, "claim", 5, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
            client->claimed_ns = now;
        return;
    }
    guardian_drop(client);
    client->guardian = guardian_connect(node, client);
    if (client->guardian < 0 && now - client->guardian_since_ns > GUARDIAN_NS)
        (void)guardian_start(node, client);
}
