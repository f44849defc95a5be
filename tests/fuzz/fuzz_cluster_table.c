/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters in tables of others. */
#include "fuzz_cluster.h"
#include "wire/cluster/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster_spec spec = { 0 };
    struct error err = { 0 };
    struct bytes input = fuzz_copy(data, size);

    cluster_check(cluster_read_csv("f", &input, &spec, &err), &spec, &err);
    bytes_done(&input);
    return 0;
}
