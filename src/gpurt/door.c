/* SPDX-License-Identifier: Apache-2.0 */
/* door.c - see door.h. */
#include "gpurt/door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpurt/node.h"

bool door_everyone(void)
{
    const char *text = getenv("MUSTER_GPU_EVERYONE");

    return text && strcmp(text, "1") == 0;
}

uid_t door_user(int fd)
{
    struct ucred cred = { 0 };
    socklen_t size = sizeof(cred);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 ? (uid_t)-1 : cred.uid;
}

bool door_master(uid_t user)
{
    return user == 0 || user == geteuid();
}

bool door_waits(const struct node *node, uid_t user)
{
    int count = 0;

    if (!node->everyone || door_master(user))
        return true;
    for (int i = 0; i < NODE_PENDING; i++)
        count += node->pending[i] >= 0 && node->pending_user[i] == user;
    return count < DOOR_WAITING;
}

bool door_takes(const struct node *node, uid_t user)
{
    int count = 0;

    if (!node->everyone || door_master(user))
        return true;
    for (int i = 0; i < NODE_CLIENTS; i++)
        count += node->client[i].fd >= 0 && node->client[i].uid == user;
    return count < DOOR_PROCS;
}

/* Lines that change nothing: of all programs, which door_shows() sorts, or of one, whose number follows. */
static bool looks(const char *line, bool *ret_one)
{
    static const char *const all[] = { "ls", "top", "json", "rows " }, *const one[] = { "estimate ", "stats " };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strncmp(line, all[i], strlen(all[i])) == 0 && (all[i][strlen(all[i]) - 1] == ' ' || !line[strlen(all[i])]))
            return true;
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
        if (strncmp(line, one[i], strlen(one[i])) == 0)
            return *ret_one = true;
    return false;
}

int door_asks(const struct node *node, uid_t user, const char *line, struct error *err)
{
    bool one = false;

    if (!node->everyone || door_master(user))
        return 0;
    if (!looks(line, &one))
        return error_set(err, -EPERM,
                         "this node side serves a cluster, which gives the orders; `muster suspend`, `muster resume` "
                         "and `muster ckpt` are for its jobs");
    if (one) {
        pid_t pid = (pid_t)strtol(strchr(line, ' ') + 1, NULL, 10);

        for (int i = 0; i < NODE_CLIENTS; i++)
            if (node->client[i].fd >= 0 && node->client[i].pid == pid && node->client[i].uid == user)
                return 0;
        return error_set(err, -EPERM, "no program of yours is process %d; `muster gpu ls` shows those that are",
                         (int)pid);
    }
    return 0;
}

bool door_shows(const struct node *node, const struct client *client)
{
    return !node->everyone || door_master(node->asking) || client->uid == node->asking;
}
