/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_link.c - groups of GPUs that are linked to one another. By itself: the GPU runtime is built without hwloc. */
#include "gpu/gpu.h"

void gpu_link_join(struct gpus *gpus, uint16_t a, uint16_t b)
{
    uint16_t low = a < b ? a : b, high = a < b ? b : a;

    for (uint32_t i = 0; i < gpus->count; i++)
        if (gpus->info[i].link == high)
            gpus->info[i].link = low;
}
