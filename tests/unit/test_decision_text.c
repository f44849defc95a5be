/* SPDX-License-Identifier: Apache-2.0 */
/* A decision as a line of the log: every digit of times, ids, nodes and GPUs, as printf would write them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "core/core_internal.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

static struct core *core;
static struct cluster_spec cluster;

static int setup(void **state)
{
    static struct policy_setup policy;
    struct core_config config = { .limits = { .jobs = 4 }, .policies = &policy, .seed = 1 };

    (void)state;
    policy_setup(policy_find("fifo"), &policy);
    return cluster_parse("120x12", &cluster, NULL) < 0 ? -1 : core_new(&cluster, &config, &core, NULL);
}

static int teardown(void **state)
{
    (void)state;
    core_free(core);
    cluster_spec_done(&cluster);
    return 0;
}

static void expect_line(const struct decision *decision, const uint32_t *gpus, const char *line)
{
    struct buf out = BUF_INIT(1 << 16);

    core_tell(core, decision, gpus, &out);
    buf_char(&out, '\0');
    assert_string_equal(out.data, line);
    buf_done(&out);
}

static void times_and_places(void **state)
{
    static const uint32_t gpus[] = { 10, 11, 12, 119 * 12 + 10 };
    struct decision move = { .id = 9876543210, .kind = DECISION_MIGRATE, .gpu_count = 4 };

    (void)state;
    expect_line(&move, gpus, "0 move 9876543210 n0:10,11 n1:0 n119:10\n");
    move.at = 1234567890 * USEC_SEC + 120;
    move.gpu_count = 1;
    expect_line(&move, gpus, "1234567890.00012 move 9876543210 n0:10\n");
    move.at = -(USEC_SEC + USEC_MSEC);
    move.id = -1011;
    expect_line(&move, gpus, "-1.001 move -1011 n0:10\n");
}

static void any_number(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        int64_t id = (int64_t)(rng_next(&rng) >> rng_below(&rng, 63)),
                at = (int64_t)(rng_next(&rng) >> (1 + rng_below(&rng, 63)));
        struct decision end = { .at = at, .id = id, .kind = DECISION_END };
        char line[100], *last;

        (void)snprintf(line, sizeof(line), "%" PRId64 ".%06d", at / USEC_SEC, (int)(at % USEC_SEC));
        for (last = line + strlen(line); last[-1] == '0'; last--)
            ;
        last -= last[-1] == '.';
        (void)snprintf(last, sizeof(line) - (size_t)(last - line), " end %" PRId64 "\n", id);
        expect_line(&end, NULL, line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_and_places),
        cmocka_unit_test(any_number),
    };

    return cmocka_run_group_tests_name("decision_text", tests, setup, teardown);
}
