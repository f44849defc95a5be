/* SPDX-License-Identifier: Apache-2.0 */
/* Short strings for clusters. */
#include "fuzz_cluster.h"
#include "wire/cluster/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster_spec spec = { 0 };
    struct error err = { 0 };
    char *copy = strndup((const char *)data, size);

    CHECK(copy);
    cluster_check(cluster_parse(copy, &spec, &err), &spec, &err);
    free(copy);
    return 0;
}
