/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - see roles.h. */
#include "wire/job/roles.h"

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

/* The first role that names this type, where the job's is another. role_count: none. */
static size_t first_of(const struct submission *s, const char *selector)
{
    size_t r = 0;

    while (r < s->role_count && !(s->roles[r].gpu_selector && strcasecmp(s->roles[r].gpu_selector, selector) == 0))
        r++;
    return r;
}

/* Whether a role is the first of a part other than the first. */
static bool begins_part(const struct submission *s, size_t role)
{
    return s->roles[role].gpu_selector && first_of(s, s->roles[role].gpu_selector) == role;
}

uint32_t roles_parts(const struct submission *s)
{
    uint32_t count = 1;

    for (size_t r = 0; r < s->role_count; r++)
        count += begins_part(s, r);
    return count;
}

uint32_t roles_part(const struct submission *s, const struct job_role *role)
{
    size_t first = role->gpu_selector ? first_of(s, role->gpu_selector) : s->role_count;
    uint32_t part = 0;

    for (size_t r = 0; first < s->role_count && r <= first; r++)
        part += begins_part(s, r);
    return part;
}

char *roles_part_type(const struct submission *s, uint32_t part)
{
    for (size_t r = 0; r < s->role_count; r++)
        if (part > 0 && begins_part(s, r) && --part == 0)
            return s->roles[r].gpu_selector;
    return s->gpu_selector;
}

uint32_t roles_part_gpus(const struct submission *s, uint32_t part)
{
    uint32_t count = 0;

    for (size_t r = 0; r < s->role_count; r++)
        if (roles_part(s, &s->roles[r]) == part)
            count += (uint32_t)s->roles[r].count * (uint32_t)s->roles[r].gpus;
    return count;
}

/* The role of the part whose tasks are the largest below `size`; the first of them. role_count: none. */
static size_t next_size(const struct submission *s, uint32_t part, int32_t size)
{
    size_t best = s->role_count;

    for (size_t r = 0; r < s->role_count; r++)
        if (s->roles[r].gpus < size && s->roles[r].gpus > 0 && roles_part(s, &s->roles[r]) == part &&
            (best == s->role_count || s->roles[r].gpus > s->roles[best].gpus))
            best = r;
    return best;
}

struct packing {
    const struct submission *s;
    const struct role_node *nodes;
    uint32_t count;
    uint32_t *used; /* GPUs of each node */
    struct role_task *tasks;
};

/* Tasks of one size and part go where there is room, first nodes first. */
static int size_put(struct packing *p, uint32_t part, int32_t size)
{
    const struct submission *s = p->s;
    uint32_t node = 0;

    for (size_t r = 0, at = 0; r < s->role_count; at += (size_t)s->roles[r].count, r++) {
        if (s->roles[r].gpus != size || roles_part(s, &s->roles[r]) != part)
            continue;
        for (int32_t i = 0; i < s->roles[r].count; i++) {
            while (node < p->count &&
                   (p->nodes[node].part != part || p->used[node] + (uint32_t)size > p->nodes[node].gpus))
                node++;
            if (node == p->count)
                return -ERANGE;
            p->tasks[at + (size_t)i].node = node;
            p->tasks[at + (size_t)i].gpu_first = p->used[node];
            p->used[node] += (uint32_t)size;
        }
    }
    return 0;
}

static int part_put(struct packing *p, uint32_t part)
{
    int r = 0;

    for (int32_t size = INT32_MAX; r == 0;) {
        size_t role = next_size(p->s, part, size);

        if (role == p->s->role_count)
            break;
        size = p->s->roles[role].gpus;
        r = size_put(p, part, size);
    }
    return r;
}

/* The number of the i-th node of the first part, counted around; -ERANGE: there is none. */
static int64_t beside_of(const struct packing *p, uint32_t i)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < p->count; n++)
        count += p->nodes[n].part == 0;
    for (uint32_t n = 0, left = count ? i % count : 0; n < p->count && count; n++)
        if (p->nodes[n].part == 0 && left-- == 0)
            return n;
    return -ERANGE;
}

/* Every task with its role and number; those without GPUs are put in turn. */
static int tasks_list(struct packing *p)
{
    const struct submission *s = p->s;
    uint32_t beside = 0;

    for (size_t role = 0, at = 0; role < s->role_count; role++)
        for (int32_t i = 0; i < s->roles[role].count; i++, at++) {
            int64_t node = s->roles[role].gpus ? 0 : beside_of(p, beside++);

            if (node < 0)
                return (int)node;
            p->tasks[at] = (struct role_task){ .role = (uint16_t)role,
                                               .index = (uint32_t)i,
                                               .node = (uint32_t)node,
                                               .gpu_count = (uint32_t)s->roles[role].gpus };
        }
    return 0;
}

/* Parts [first, end) on nodes, of which the others need not be there. */
static int pack(struct packing *p, uint32_t first, uint32_t end)
{
    int r;

    p->tasks = mem_zalloc(roles_tasks(p->s) + 1, sizeof(*p->tasks));
    p->used = mem_zalloc(p->count + 1, sizeof(*p->used));
    r = !p->tasks || !p->used ? -ENOMEM : 0;
    if (r == 0 && first == 0)
        r = tasks_list(p);
    for (uint32_t part = first; part < end && r == 0; part++)
        r = part_put(p, part);
    mem_free(p->used);
    if (r < 0) {
        mem_free(p->tasks);
        p->tasks = NULL;
    }
    return r;
}

int roles_pack(const struct submission *s, const struct role_node *nodes, uint32_t count, struct role_task **ret_tasks)
{
    struct packing p = { .s = s, .nodes = nodes, .count = count };
    int r = pack(&p, 0, roles_parts(s));

    if (r == 0)
        *ret_tasks = p.tasks;
    return r;
}

/* CPUs and memory of the node of the part that is asked for most. */
static int hosts_sum(const struct packing *p, uint32_t part, struct submission *flat)
{
    const struct submission *s = p->s;
    uint64_t *sums = mem_zalloc((size_t)flat->nodes * 2, sizeof(*sums));
    size_t at = 0;

    if (!sums)
        return -ENOMEM;
    for (size_t r = 0; r < s->role_count; r++)
        for (int32_t i = 0; i < s->roles[r].count; i++, at++) {
            uint64_t *sum = &sums[(size_t)p->tasks[at].node * 2];

            if (roles_part(s, &s->roles[r]) != part)
                continue;
            sum[0] += (uint64_t)s->roles[r].cpus;
            sum[1] += s->roles[r].memory;
            if (sum[0] > (uint64_t)flat->cpus)
                flat->cpus = sum[0] > INT32_MAX ? INT32_MAX : (int32_t)sum[0];
            flat->memory = sum[1] > flat->memory ? sum[1] : flat->memory;
        }
    mem_free(sums);
    return 0;
}

/* The part on so many like nodes. */
static int flatten_on(const struct submission *s, uint32_t part, uint32_t nodes, struct submission *ret_flat)
{
    uint32_t each = roles_part_gpus(s, part) / nodes;
    struct role_node *alike = mem_zalloc(nodes, sizeof(*alike));
    struct packing p = { .s = s, .nodes = alike, .count = nodes };
    int r;

    if (!alike)
        return -ENOMEM;
    for (uint32_t n = 0; n < nodes; n++)
        alike[n] = (struct role_node){ part, each };
    r = pack(&p, part, part + 1);
    if (r == 0) {
        *ret_flat = *s;
        ret_flat->role_count = 0;
        ret_flat->nodes = ret_flat->nodes_max = (int32_t)nodes;
        ret_flat->gpus = ret_flat->gpus_max = (int32_t)each;
        ret_flat->gpus_per_node = true;
        ret_flat->cpus = 0;
        ret_flat->memory = 0;
        r = hosts_sum(&p, part, ret_flat);
    }
    mem_free(p.tasks);
    mem_free(alike);
    return r;
}

int roles_flatten(const struct submission *s, uint32_t part, int32_t most, int64_t (*enough)(void *arg, int32_t gpus),
                  void *arg, struct submission *ret_flat)
{
    uint32_t gpus = roles_part_gpus(s, part), with = 0;

    for (size_t r = 0; r < s->role_count; r++)
        with += s->roles[r].gpus && roles_part(s, &s->roles[r]) == part ? (uint32_t)s->roles[r].count : 0;
    for (uint32_t nodes = with; nodes > 0; nodes--) {
        int r;

        if (gpus % nodes || gpus / nodes > (uint32_t)most || enough(arg, (int32_t)(gpus / nodes)) < nodes)
            continue;
        r = flatten_on(s, part, nodes, ret_flat);
        if (r != -ERANGE)
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
        mem_free(s->roles[r].gpu_selector);
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
