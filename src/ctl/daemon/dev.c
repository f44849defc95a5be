/* SPDX-License-Identifier: Apache-2.0 */
/* dev.c - emulated nodes in the controller's own process: real agents that run real processes, on GPUs that are not
 * there. They dial in over loopback as any agent does. */
#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/embed.h"
#include "base/alloc.h"
#include "ctl/daemon/daemon.h"

enum { FAKE_NODES_MAX = 2000, FAKE_GPUS_MAX = 64 };

struct fake_group {
    long nodes, gpus;
    char sku[64], rack[64]; /* rack: empty = none */
};

struct fake_nodes {
    struct agents *agents;
    const struct server *server;
    const char *url;
    long number; /* of the last node */
    int width;   /* digits of a number */
    bool passing;
};

/* One "4x8:H100" or, in a rack, "4x8:H100@r1"; *at moves behind it. */
static int group_read(const char **at, struct fake_group *ret, struct error *err)
{
    const char *text = *at;
    size_t length = strcspn(text, ",");
    int used = 0;

    *ret = (struct fake_group){ 0 };
    if (length < 100 && sscanf(text, "%4ldx%3ld:%63[A-Za-z0-9_-]%n", &ret->nodes, &ret->gpus, ret->sku, &used) == 3 &&
        text[used] == '@') {
        int more = 0;

        (void)sscanf(text + used + 1, "%63[A-Za-z0-9_-]%n", ret->rack, &more);
        used = more ? used + 1 + more : 0;
    }
    if (used == 0 || (size_t)used != length)
        return error_set(err, -EINVAL, "--fake: expected NODESxGPUS:TYPE[@RACK] like 4x8:H100, got '%.60s'", text);
    if (ret->nodes < 1 || ret->nodes > FAKE_NODES_MAX || ret->gpus < 1 || ret->gpus > FAKE_GPUS_MAX)
        return error_set(err, -EINVAL, "--fake: from 1 to %d nodes with 1 to %d GPUs", FAKE_NODES_MAX, FAKE_GPUS_MAX);
    *at = text + length + (text[length] == ',');
    return 0;
}

int fake_check(const char *text, struct error *err)
{
    struct fake_group group;
    long all = 0;
    int r = 0;

    while (r == 0 && *text) {
        r = group_read(&text, &group, err);
        all += group.nodes;
    }
    if (r == 0 && all > FAKE_NODES_MAX)
        return error_set(err, -EINVAL, "--fake: more than %d nodes", FAKE_NODES_MAX);
    return r == 0 && all == 0 ? error_set(err, -EINVAL, "--fake: no nodes") : r;
}

static int group_start(struct fake_nodes *nodes, const struct fake_group *group, struct error *err)
{
    char name[64], state[4096], fake[96], labels[80];
    int r = 0;

    (void)snprintf(labels, sizeof(labels), "rack=%s", group->rack);

    for (long i = 0; r == 0 && i < group->nodes; i++) {
        struct agent_config config = { .url = nodes->url,
                                       .node = name,
                                       .state = state,
                                       .fake = fake,
                                       .address = "127.0.0.1",
                                       .labels = group->rack[0] ? labels : NULL,
                                       .cgroup = NULL,
                                       .passing = nodes->passing,
                                       .allow_root = true,
                                       .bare_images = nodes->server->conf->bare_images,
                                       .private_tmp = 0 };

        nodes->number++;
        (void)snprintf(name, sizeof(name),
                       nodes->width > 3   ? "gpu%04ld"
                       : nodes->width > 2 ? "gpu%03ld"
                                          : "gpu%02ld",
                       nodes->number);
        (void)snprintf(state, sizeof(state), "%s/nodes/%s", nodes->server->conf->state, name);
        (void)snprintf(fake, sizeof(fake), "%ld:%s", group->gpus, group->sku);
        r = agents_add(nodes->agents, &config, err);
    }
    return r;
}

int fake_start(struct server *server, const char *text, const char *url, bool passing, struct fake_nodes **ret_nodes,
               struct error *err)
{
    struct fake_nodes *nodes = mem_zalloc(1, sizeof(*nodes));
    struct fake_group group;
    const char *at = text;
    long all = 0;
    int r = nodes ? 0 : error_set(err, -ENOMEM, "out of memory");

    while (r == 0 && *at) {
        r = group_read(&at, &group, err);
        all += group.nodes;
    }
    if (r == 0) {
        *nodes = (struct fake_nodes){ .server = server,
                                      .url = url,
                                      .passing = passing,
                                      .width = all >= 1000  ? 4
                                               : all >= 100 ? 3
                                                            : 2 };
        r = agents_new(server->loop, &nodes->agents, err);
    }
    for (at = text; r == 0 && *at;) {
        r = group_read(&at, &group, err);
        if (r == 0)
            r = group_start(nodes, &group, err);
    }
    if (r < 0) {
        mem_free(nodes);
        return r;
    }
    *ret_nodes = nodes;
    return 0;
}

/* Tasks find their scripts by the path of the state, from the root on. It is not opened for them: what the controller
 * keeps there is nobody else's. */
bool fake_shut(const char *state, char *ret_folder, size_t size)
{
    char path[PATH_MAX];
    struct stat st;

    if (geteuid() != 0 || !realpath(state, path))
        return false;
    for (char *end = path + strlen(path); end && end != path; end = strrchr(path, '/')) {
        *end = '\0';
        if (stat(path, &st) == 0 && !(st.st_mode & S_IXOTH)) {
            (void)snprintf(ret_folder, size, "%s", path);
            return true;
        }
    }
    return false;
}

void fake_stop(struct fake_nodes *nodes, void (*done)(void *arg), void *arg)
{
    agents_stop(nodes->agents, true, done, arg);
}

void fake_free(struct fake_nodes *nodes)
{
    if (!nodes)
        return;
    agents_free(nodes->agents);
    mem_free(nodes);
}
