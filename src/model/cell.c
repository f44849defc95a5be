/* SPDX-License-Identifier: Apache-2.0 */
/* cell.c - see cell.h. */
#include "model/cell.h"

#include "base/alloc.h"

void cell_spec_done(struct cell_spec *spec)
{
    names_done(&spec->names);
    mem_free(spec->types);
    mem_free(spec->places);
    mem_free(spec->vcs);
    mem_free(spec->grants);
    *spec = (struct cell_spec){ 0 };
}
