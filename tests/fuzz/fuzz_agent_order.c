/* SPDX-License-Identifier: Apache-2.0 */
/* An order to launch: any object is refused with words, or gives processes with an environment of whole strings. */
#include "agent/task/launch.h"
#include "agent/util.h"
#include "fuzz.h"
#include "wire/text/json_read.h"

static void env_check(json_t *env)
{
    json_t *one;
    size_t i;

    CHECK(json_is_array(env));
    json_array_foreach(env, i, one) CHECK(json_is_string(one) && strchr(json_string_value(one), '='));
    json_decref(env);
}

static void launch_check(struct launch *l)
{
    const struct launch_host host = {
        .node = "n", .sku = "H100", .rack = "r", .dir = "/d", .key = "k", .memory_mib = 1
    };
    struct buf hosts = BUF_INIT(1 << 24);
    uint32_t procs = launch_procs(l, l->id.rank);
    char *name = launch_output(l, l->spec.output ? l->spec.output : "%j-%x-%a-%A-%N-%t-%n-%%", "n", 1);

    CHECK(l->node_count > 0 && l->id.rank < l->node_count);
    CHECK(launch_first(l, l->id.rank) + procs <= launch_world(l));
    env_check(environ_node(l, &host));
    if (procs)
        env_check(environ_proc(l, procs - 1));
    (void)environ_hosts(l, &hosts);
    buf_done(&hosts);
    mem_free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    struct launch launch;
    struct error err = { 0 };
    json_t *order = NULL;
    int r = json_read("f", input.data, input.size, &order, &err);

    if (r == 0 && json_is_object(order)) {
        r = launch_read(order, &launch, &err);
        if (r < 0) {
            fuzz_check_error(r, &err);
        } else {
            launch_check(&launch);
            launch_done(&launch);
        }
    }
    json_decref(order);
    bytes_done(&input);
    return 0;
}
