/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - see roles.h. */
#include "wire/roles.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

uint32_t roles_tasks(const struct submission *s)
{
    uint32_t count = 0;

    for (size_t r = 0; r < s->role_count; r++)
        count += (uint32_t)s->roles[r].count;
    return count;
}

uint32_t roles_gpus(const struct submission *s)
{
    uint32_t count = 0;

    for (size_t r = 0; r < s->role_count; r++)
        count += (uint32_t)s->roles[r].count * (uint32_t)s->roles[r].gpus;
    return count;
}

/* The role whose tasks are the largest below `size`; the first of them. role_count: none. */
static size_t next_size(const struct submission *s, int32_t size)
{
    size_t best = s->role_count;

    for (size_t r = 0; r < s->role_count; r++)
        if (s->roles[r].gpus < size && s->roles[r].gpus > 0 &&
            (best == s->role_count || s->roles[r].gpus > s->roles[best].gpus))
            best = r;
    return best;
}

/* Tasks of one size go where there is room, first nodes first. */
static int size_put(const struct submission *s, int32_t size, uint32_t *used, uint32_t nodes, struct role_task *tasks)
{
    uint32_t each = roles_gpus(s) / nodes, node = 0;

    for (size_t r = 0, at = 0; r < s->role_count; at += (size_t)s->roles[r].count, r++)
        for (int32_t i = 0; s->roles[r].gpus == size && i < s->roles[r].count; i++) {
            while (node < nodes && used[node] + (uint32_t)size > each)
                node++;
            if (node == nodes)
                return -ERANGE;
            tasks[at + (size_t)i].node = node;
            tasks[at + (size_t)i].gpu_first = used[node];
            used[node] += (uint32_t)size;
        }
    return 0;
}

int roles_pack(const struct submission *s, uint32_t nodes, struct role_task **ret_tasks)
{
    struct role_task *tasks = mem_zalloc(roles_tasks(s) + 1, sizeof(*tasks));
    uint32_t *used = mem_zalloc(nodes + 1, sizeof(*used)), beside = 0;
    int r = !tasks || !used ? -ENOMEM : nodes == 0 || roles_gpus(s) % nodes ? -ERANGE : 0;

    for (size_t role = 0, at = 0; r == 0 && role < s->role_count; role++)
        for (int32_t i = 0; i < s->roles[role].count; i++, at++) {
            tasks[at] = (struct role_task){ .role = (uint16_t)role,
                                            .index = (uint32_t)i,
                                            .gpu_count = (uint32_t)s->roles[role].gpus };
            if (s->roles[role].gpus == 0)
                tasks[at].node = beside++ % nodes;
        }
    for (int32_t size = INT32_MAX; r == 0;) {
        size_t role = next_size(s, size);

        if (role == s->role_count)
            break;
        size = s->roles[role].gpus;
        r = size_put(s, size, used, nodes, tasks);
    }
    mem_free(used);
    if (r < 0)
        mem_free(tasks);
    else
        *ret_tasks = tasks;
    return r;
}

/* CPUs and memory of the node that is asked for most. */
static int hosts_sum(const struct submission *s, const struct role_task *tasks, struct submission *flat)
{
    uint32_t count = roles_tasks(s);
    uint64_t *sums = mem_zalloc((size_t)flat->nodes * 2, sizeof(*sums));

    if (!sums)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const struct job_role *role = &s->roles[tasks[i].role];
        uint64_t *sum = &sums[(size_t)tasks[i].node * 2];

        sum[0] += (uint64_t)role->cpus;
        sum[1] += role->memory;
        if (sum[0] > (uint64_t)flat->cpus)
            flat->cpus = sum[0] > INT32_MAX ? INT32_MAX : (int32_t)sum[0];
        flat->memory = sum[1] > flat->memory ? sum[1] : flat->memory;
    }
    mem_free(sums);
    return 0;
}

int roles_flatten(const struct submission *s, int32_t most, int64_t (*enough)(void *arg, int32_t gpus), void *arg,
                  struct submission *ret_flat)
{
    uint32_t gpus = roles_gpus(s), with = 0;

    for (size_t r = 0; r < s->role_count; r++)
        with += s->roles[r].gpus ? (uint32_t)s->roles[r].count : 0;
    for (uint32_t nodes = with; nodes > 0; nodes--) {
        struct role_task *tasks = NULL;
        int r;

        if (gpus % nodes || gpus / nodes > (uint32_t)most || enough(arg, (int32_t)(gpus / nodes)) < nodes)
            continue;
        r = roles_pack(s, nodes, &tasks);
        if (r == -ERANGE)
            continue;
        if (r == 0) {
            *ret_flat = *s;
            ret_flat->role_count = 0;
            ret_flat->nodes = ret_flat->nodes_max = (int32_t)nodes;
            ret_flat->gpus = ret_flat->gpus_max = (int32_t)(gpus / nodes);
            ret_flat->gpus_per_node = true;
            ret_flat->cpus = 0;
            ret_flat->memory = 0;
            r = hosts_sum(s, tasks, ret_flat);
        }
        mem_free(tasks);
        return r;
    }
    return -ERANGE;
}

void roles_done(struct submission *s)
{
    for (size_t r = 0; r < s->role_count; r++) {
        mem_free(s->roles[r].name);
        mem_free(s->roles[r].run);
        mem_free(s->roles[r].image);
        for (size_t i = 0; i < s->roles[r].env_count; i++) {
            mem_free(s->roles[r].env[i].key);
            mem_free(s->roles[r].env[i].value);
        }
        mem_free(s->roles[r].env);
    }
    mem_free(s->roles);
}

const char *role_image(const struct submission *s, const struct job_role *role)
{
    return role && role->image ? role->image : s->image;
}

const char *roles_image(const struct submission *s)
{
    return role_image(s, s->role_count ? &s->roles[0] : NULL);
}
