/* SPDX-License-Identifier: Apache-2.0 */
/* bench_place.c - one search for GPUs, on 16 to 16,384 nodes of 8.
 *
 * The nodes are filled at random to nine tenths with jobs of 1 to 8 GPUs; then each placement is asked again and again
 * for 1, 4, 8 and 16 GPUs. Nothing is taken, so every answer comes from the same state. Nanoseconds a search, the mean
 * of those four sizes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "bench.h"
#include "wire/cluster/cluster.h"

enum { SIZES = 6, ROUNDS = 20000 };

static const uint32_t nodes[SIZES] = { 16, 64, 256, 1024, 4096, 16384 };
static const char *const places[] = {
    "count", "consolidate", "spread", "random", "topology", "yarn", "levels", "liquid"
};

static struct core *core_of(uint32_t count, const char *place, struct cluster_spec *cluster)
{
    struct policy_setup setup;
    struct core_config config = { .limits = { .jobs = count * 8 }, .seed = 1, .policies = &setup };
    struct error err = { 0 };
    struct core *core = NULL;
    char text[64];

    snprintf(text, sizeof(text), "racks:%u nodes:16 gpus:8", count / 16);
    policy_setup(policy_find("fifo-skip"), &setup);
    if (cluster_parse(text, cluster, &err) < 0 || policy_set(&setup, "place", place, &err) < 0 ||
        core_new(cluster, &config, &core, &err) < 0)
        bench_fail(place, &err);
    return core;
}

/* Jobs that never end, until nine GPUs of ten are held; placed at random so that nodes differ. */
static void fill(struct core *core, struct rng *rng)
{
    int64_t id = 0, limit = (int64_t)core_ledger(core)->topo.gpu_count * MGPU_ONE / 10 * 9;

    while (core_mgpu_held(core) < limit) {
        int32_t gpus = 1 << rng_below(rng, 4);
        struct jobspec spec = { .id = id++, .gpus = gpus, .gpus_min = gpus, .gpus_max = gpus, .share = MGPU_ONE };
        struct event event = { .kind = EVENT_SUBMIT, .spec = &spec };
        struct error err = { 0 };

        if (core_offer(core, &event, NULL, &err) < 0)
            bench_fail("fill", &err);
        (void)core_step(core, id);
    }
}

static double search_ns(uint32_t count, const char *place)
{
    static const int32_t gpus[] = { 1, 4, 8, 16 };
    struct cluster_spec cluster = { 0 };
    struct core *core = core_of(count, "random", &cluster);
    struct policy_setup setup;
    struct place_ctx ctx = core_vc(core, 0)->place;
    struct rng rng;
    double cpu;

    rng_seed(&rng, count);
    fill(core, &rng);
    policy_setup(policy_find("fifo-skip"), &setup);
    if (policy_set(&setup, "place", place, NULL) < 0)
        bench_fail(place, NULL);
    ctx.params = setup.place_params;
    ctx.state = calloc(1, setup.place->state_size + 1);
    cpu = bench_cpu_now();
    for (int i = 0; i < ROUNDS; i++) {
        struct place_request request = { .gpus = gpus[i % 4], .share = MGPU_ONE, .level = (uint8_t)(i / 4 % 3) };

        if (request.level >= (setup.place->levels ? setup.place->levels : 1))
            request.level = 0;
        (void)setup.place->find(&ctx, &request);
    }
    cpu = bench_cpu_now() - cpu;
    free(ctx.state);
    core_free(core);
    cluster_spec_done(&cluster);
    return cpu / ROUNDS * 1e9;
}

int main(void)
{
    printf("Nanoseconds of CPU time a placement search (nine tenths full, 1, 4, 8 and 16 GPUs)\n\n%-12s", "placement");
    for (int s = 0; s < SIZES; s++) {
        char text[32];

        printf(" %8s", bench_number(nodes[s], text));
    }
    printf(" nodes %9s\n", "x of 16");
    for (size_t p = 0; p < sizeof(places) / sizeof(*places); p++) {
        double first = 0, last = 0;

        printf("%-12s", places[p]);
        for (int s = 0; s < SIZES; s++) {
            last = search_ns(nodes[s], places[p]);
            if (s == 0)
                first = last;
            printf(" %8.0f", last);
            fflush(stdout);
        }
        printf("       %9.1f\n", last / first);
    }
    return 0;
}
