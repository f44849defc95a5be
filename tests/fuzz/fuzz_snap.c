/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_snap.c - snapshots of the core: damaged ones are refused; what is accepted is sound and is saved as the same
 * bytes.
 *
 * The first byte chooses the policy the snapshot is loaded under; the rest is the snapshot.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/snap.h"
#include "fuzz.h"
#include "policy/registry.h"
#include "wire/cluster.h"

static void put(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const policies[] = { "fifo-skip", "srsf", "yarn-cs", "backfill-easy" };
    struct cluster_spec cluster = { 0 };
    struct policy_setup setup;
    struct core_config config = { .limits = { .jobs = 16 }, .seed = 1, .policies = &setup };
    struct buf again = BUF_INIT((size_t)1 << 20);
    struct core *core = NULL;

    if (size < 1 || cluster_parse("racks:2 nodes:2 gpus:4", &cluster, NULL) < 0)
        return 0;
    policy_setup(policy_find(policies[data[0] % 4]), &setup);
    if (core_load(&cluster, &config, data + 1, size - 1, &core, NULL) == 0) {
        core_audit(core);
        core_save(core, put, &again);
        if (again.error || again.size != size - 1 || memcmp(again.data, data + 1, again.size) != 0)
            abort();
    }
    core_free(core);
    buf_done(&again);
    cluster_spec_done(&cluster);
    return 0;
}
