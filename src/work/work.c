/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - see work.h. */
#include "work/work.h"

#include <errno.h>
#include <string.h>

#include "work/lease_milp.h"
#include "work/place_batch.h"

static int echo(const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err)
{
    if (count > answer->capacity)
        return error_set(err, -ENOSPC, "an answer of %u numbers, the limit is %u", count, answer->capacity);
    if (count)
        memcpy(answer->words, words, count * sizeof(*words));
    answer->count = count;
    return 0;
}

int work_run(enum solve_kind kind, const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err)
{
    int r = -EINVAL;

    answer->count = 0;
    switch (kind) {
    case SOLVE_ECHO:
        r = echo(words, count, answer, err);
        break;
    case SOLVE_LEASES:
        r = lease_milp(words, count, answer, err);
        break;
    case SOLVE_PLACE:
        r = place_batch(words, count, answer, err);
        break;
    case SOLVE_COUNT:
        r = error_set(err, -EINVAL, "no solver for computations of kind %u", (unsigned)kind);
        break;
    }
    if (r < 0)
        answer->count = 0;
    return r;
}
