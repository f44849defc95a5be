/* SPDX-License-Identifier: Apache-2.0 */
/* Placements asked directly: the search order of Philly's localities (example Y5 of YARN-CS), and, for every placement
 * on random clusters, that what they answer can be had. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"
#include "policy/list.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

static void make_core(struct cluster_spec *cluster, const char *text, struct core **ret)
{
    static struct policy_setup policy;
    struct core_config config = { .limits = { .jobs = 64 }, .policies = &policy, .seed = 1 };

    policy_setup(policy_find("fifo-skip"), &policy);
    *cluster = (struct cluster_spec){ 0 };
    assert_int_equal(cluster_parse(text, cluster, NULL), 0);
    assert_int_equal(core_new(cluster, &config, ret, NULL), 0);
}

static void gpu_down(struct core *core, uint32_t gpu)
{
    struct event event = { .kind = EVENT_GPU, .target = gpu };

    assert_int_equal(core_offer(core, &event, NULL, NULL), 0);
}

/* "n1:5-7 n3:4" as in stories. */
static void ask(struct core *core, const struct place_ops *place, const struct place_request *request, char *out,
                size_t size)
{
    struct place_ctx ctx = core->vcs[0].place;
    const struct topo *topo = &core->ledger.topo;
    size_t have = 0;

    *out = '\0';
    ctx.params = NULL;
    if (place->find(&ctx, request) < 0) {
        (void)snprintf(out, size, "none");
        return;
    }
    for (int32_t i = 0; i < request->gpus; i++) {
        uint32_t node = core->ledger.gpus[ctx.out[i]].node;

        have += (size_t)snprintf(out + have, size - have, "%s%u:%u", i ? " " : "", node,
                                 ctx.out[i] - topo->nodes[node].first_gpu);
    }
}

/* Servers of 8, racks a = {2 free, 3 free}, b = {1 free, 4 free}; those that are free have the highest numbers. */
static void search_order_of_localities(void **state)
{
    static const struct {
        int32_t gpus;
        uint8_t level;
        const char *answer;
    } cases[] = {
        { 4, 0, "3:4 3:5 3:6 3:7" },
        { 5, 0, "none" },
        { 5, 1, "0:6 0:7 1:5 1:6 1:7" },
        { 5, 2, "1:5 3:4 3:5 3:6 3:7" },
        { 6, 0, "none" },
        { 6, 1, "none" },
        { 6, 2, "1:5 1:6 3:4 3:5 3:6 3:7" },
        { 9, 2, "0:6 0:7 1:5 1:6 1:7 3:4 3:5 3:6 3:7" },
        { 11, 2, "none" },
    };
    static const uint32_t down[] = { 6, 5, 7, 4 };
    struct cluster_spec cluster;
    struct core *core;
    char answer[256];

    (void)state;
    make_core(&cluster, "racks:2 nodes:2 gpus:8", &core);
    for (uint32_t n = 0; n < 4; n++)
        for (uint32_t g = 0; g < down[n]; g++)
            gpu_down(core, n * 8 + g);
    (void)core_step(core, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct place_request request = { .gpus = cases[i].gpus, .share = MGPU_ONE, .level = cases[i].level };

        ask(core, &place_levels, &request, answer, sizeof(answer));
        assert_string_equal(answer, cases[i].answer);
    }
    core_free(core);
    cluster_spec_done(&cluster);
}

/* The fewest nodes that could hold so many of the free GPUs. */
static uint32_t fewest_nodes(const struct core *core, uint32_t need)
{
    uint16_t free[64];
    uint32_t nodes = core->ledger.topo.node_count, used = 0;

    for (uint32_t n = 0; n < nodes; n++)
        free[n] = core->ledger.topo.nodes[n].up ? core->ledger.topo.nodes[n].free : 0;
    while (need) {
        uint32_t best = 0;

        for (uint32_t n = 1; n < nodes; n++)
            best = free[n] > free[best] ? n : best;
        need -= free[best] < need ? free[best] : need;
        free[best] = 0;
        used++;
    }
    return used;
}

/* The first and the last node have the same rack above them. */
static bool one_rack(const struct core *core)
{
    const struct topo *topo = &core->ledger.topo;

    return topo_above(topo, 0, LEVEL_RACK) == topo_above(topo, topo->node_count - 1, LEVEL_RACK);
}

static void check_answer(const struct core *core, const struct place_ops *place, const struct place_request *request,
                         const uint32_t *out)
{
    const struct jobspec spec = { .gpus = request->gpus, .share = request->share };
    struct placement to = { out, (uint32_t)request->gpus };
    uint32_t nodes = 0;

    assert_int_equal(ledger_check(&core->ledger, &to, &spec, ROLE_OWNER), 0);
    for (int32_t i = 0; i < request->gpus; i++)
        nodes += i == 0 || core->ledger.gpus[out[i]].node != core->ledger.gpus[out[i - 1]].node;
    if (place == &place_consolidate)
        assert_true(nodes <= ((uint32_t)request->gpus + core->ledger.topo.node_gpus_max[0] - 1) /
                                 core->ledger.topo.node_gpus_max[0]);
    if (place == &place_topology && one_rack(core))
        assert_int_equal(nodes, fewest_nodes(core, (uint32_t)request->gpus));
}

/* Those that wait for no shape find a place whenever enough GPUs are free, and only then. */
static bool never_waits(const struct place_ops *place)
{
    return place == &place_count || place == &place_spread || place == &place_random || place == &place_topology ||
           place == &place_pack || place == &place_liquid;
}

static void answers_can_be_had(void **state)
{
#define X(name) &place_##name,
    static const struct place_ops *const places[] = { PLACES(X) };
#undef X
    static max_align_t room[8192];
    struct rng rng;

    (void)state;
    rng_seed(&rng, 5);
    for (int round = 0; round < 200; round++) {
        struct cluster_spec cluster;
        struct core *core;
        char text[64];
        uint32_t nodes = 1 + (uint32_t)rng_below(&rng, 4), gpus = 1 + (uint32_t)rng_below(&rng, 8),
                 racks = 1 + (uint32_t)rng_below(&rng, 3), total = racks * nodes * gpus;

        (void)snprintf(text, sizeof(text), "racks:%u nodes:%u gpus:%u", racks, nodes, gpus);
        make_core(&cluster, text, &core);
        for (uint32_t g = 0; g < total; g++)
            if (rng_below(&rng, 2))
                gpu_down(core, g);
        (void)core_step(core, 0);
        for (size_t p = 0; p < sizeof(places) / sizeof(*places); p++)
            for (int32_t need = 1; need <= (int32_t)total; need++) {
                struct place_request request = { .gpus = need,
                                                 .share = MGPU_ONE,
                                                 .servers =
                                                     (uint32_t)(need > 1 ? rng_below(&rng, 3) % (uint64_t)need : 0),
                                                 .level = (uint8_t)rng_below(&rng, 3) };
                struct place_ctx ctx = core->vcs[0].place;
                static const int64_t no_params[PARAMS_MAX];
                int r;

                ctx.params = no_params;
                ctx.state = room;
                assert_true(places[p]->state_size <= sizeof(room));
                r = places[p]->find(&ctx, &request);
                if (r == 0)
                    check_answer(core, places[p], &request, ctx.out);
                if (never_waits(places[p]))
                    assert_int_equal(r == 0, view_free(&core->view, 0) >= (uint32_t)need);
            }
        core_free(core);
        cluster_spec_done(&cluster);
    }
}

/* Every name of a placement is known, and nothing else is. */
static void names_of_places(void **state)
{
    static const char *const names[] = { "count",  "consolidate", "spread",   "random", "topology", "yarn",
                                         "levels", "skew",        "emptiest", "pack",   "liquid" };
    struct policy_setup setup;
    struct error err = { 0 };

    (void)state;
    policy_setup(policy_find("fifo"), &setup);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(policy_set(&setup, "place", names[i], &err), 0);
        assert_string_equal(setup.place->name, names[i]);
    }
    assert_int_equal(policy_set(&setup, "place", "liquids", &err), -EINVAL);
    assert_non_null(strstr(err.text, "got 'liquids'"));
    assert_string_equal(setup.place->name, "liquid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_order_of_localities),
        cmocka_unit_test(answers_can_be_had),
        cmocka_unit_test(names_of_places),
    };

    return cmocka_run_group_tests_name("policy_place", tests, NULL, NULL);
}
