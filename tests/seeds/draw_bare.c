/* SPDX-License-Identifier: Apache-2.0 */
/* draw_bare.c - nodes without GPUs, from a seed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "seeds.h"

/* Behind the nodes that there are. */
static int add_nodes(struct rng *rng, struct cluster_spec *cluster, uint32_t count)
{
    size_t capacity = cluster->node_count;

    if (mem_grow((void **)&cluster->nodes, &capacity, cluster->node_count + (size_t)count, NODES_MAX,
                 sizeof(*cluster->nodes)) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cpus = 1 + (uint32_t)rng_below(rng, 12);
        struct node_spec *node = &cluster->nodes[cluster->node_count + i];
        char name[16];

        *node = (struct node_spec){ .cpus = cpus, .cpu_jobs = cpus };
        if (rng_below(rng, 100) < 30)
            node->cpu_jobs = (uint32_t)rng_below(rng, cpus + 1);
        if (rng_below(rng, 100) < 50)
            node->memory_mib = cpus * 1000;
        (void)snprintf(name, sizeof(name), "bare%u", i);
        if (names_put(&cluster->names, name, strlen(name), &node->name) < 0)
            return -ENOMEM;
    }
    cluster->bare_count = count;
    return 0;
}

/* From a stream of its own. */
int draw_bare(const struct draw *draw, struct life *life)
{
    struct cluster_spec *cluster = &life->cluster;
    struct rng rng;
    int r;

    if (!draw->bare)
        return 0;
    rng_seed(&rng, rng_mix(draw->seed + 4321));
    r = add_nodes(&rng, cluster, 1 + (uint32_t)rng_below(&rng, 4));
    for (size_t i = 0; i < life->trace.count && r == 0; i++) {
        struct jobspec *spec = &life->trace.jobs[i].spec;

        if (spec->share != MGPU_ONE || spec->gpus == 0 || spec->side_count || spec->tp > 1 || spec->pp > 1 ||
            spec->unit || spec->within || spec->gpu_servers || rng_below(&rng, 100) >= 25)
            continue;
        spec->tasks = (int32_t)(1 + rng_below(&rng, 4));
        spec->per_node = (uint16_t)rng_below(&rng, 2);
        spec->gpus = spec->gpus_min = spec->gpus_max = 0;
        spec->mcpus = 100 + (uint32_t)rng_below(&rng, 4000);
        spec->deadline_count = 0;
        spec->slo = SLO_BEST_EFFORT;
    }
    for (size_t i = 0; i < life->script_count && r == 0; i++)
        if (life->script[i].kind == EVENT_NODE && rng_below(&rng, 100) < 50)
            life->script[i].target = cluster->node_count + (uint32_t)rng_below(&rng, cluster->bare_count);
    return r;
}
