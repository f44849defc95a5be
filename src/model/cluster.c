/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - see cluster.h. */
#include "model/cluster.h"

#include "base/alloc.h"

const char *const vc_priorities_names[PRIORITIES_COUNT] = { "default", "weights", "strict", "off" };

void cluster_spec_done(struct cluster_spec *spec)
{
    names_done(&spec->names);
    mem_free(spec->nodes);
    mem_free(spec->vcs);
    mem_free(spec->guarantees);
    if (spec->cells)
        cell_spec_done(spec->cells);
    mem_free(spec->cells);
    *spec = (struct cluster_spec){ 0 };
}
