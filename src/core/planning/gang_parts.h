/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gang_parts.h - gangs on several types of GPU: one part of the gang is what policies know, the others are its sides.
 *
 * To a policy such a job is its first part: so many GPUs of one type, in one order, with one key. Whenever that part is
 * to be placed, the core looks for a place for each side too, on types that no other part of the gang may have, and
 * finds all of them or none; when it starts, all are taken at once. What sides hold is charged to the virtual cluster
 * and the user like all else. A job without sides never comes here.
 */
#include "core/ledger/queue.h"

struct core;
struct ledger;
struct placement;
struct plan;

/* All GPUs it holds, those of its sides too. */
static inline int32_t job_held(const struct job *job)
{
    return job->gpus ? job->gpus + jobspec_sides(&job->spec) : 0;
}

/* Whether some of the GPUs it holds, or had when it was told to leave, are of this type. */
static inline bool job_on(const struct job *job, uint32_t sku)
{
    for (uint32_t i = 0; i < job->spec.side_count; i++)
        if (job->side_sku[i] == sku)
            return true;
    return job->sku == sku;
}

/* The number of its part that is on GPUs of this type: 0 is the first, then its sides. */
static inline uint8_t job_part(const struct job *job, uint32_t sku)
{
    for (uint8_t i = 0; i < job->spec.side_count; i++)
        if (job->side_sku[i] == sku)
            return (uint8_t)(i + 1);
    return 0;
}

/* What it holds of one type, in thousandths. */
static inline int64_t job_amount_on(const struct job *job, uint32_t sku)
{
    int64_t amount = job->sku == sku ? job_amount(job) : 0;

    for (uint32_t i = 0; i < job->spec.side_count; i++)
        amount += job->side_sku[i] == sku ? (int64_t)job->spec.sides[i].gpus * MGPU_ONE : 0;
    return amount;
}

/* The sides of a shape: their types are those that exist and have the memory. */
void sides_of(const struct core *core, const struct jobspec *spec, struct shape *shape);
bool sides_equal(const struct shape *a, const struct shape *b);

/* A side as the shape, or as the job, that it would be alone. */
struct shape sides_shape(const struct shape *shape, uint32_t side);
struct jobspec sides_spec(const struct jobspec *spec, uint32_t side);
/* The shape without its sides, or one of them, for who looks at each by itself: 0 is the first part, then the sides. */
struct shape sides_part(const struct shape *shape, uint32_t part);

/* Whether the sides of a job are such as a job may have. -EINVAL in words. */
int sides_check(const struct jobspec *spec, struct error *err);
/* The same of a job from a snapshot. */
bool sides_sane(const struct core *core, const struct job *job);

/* Whether the phase allows so many of some type for each side, the first part being on `sku`. */
bool sides_allowed(const struct plan *plan, const struct shape *shape, uint32_t sku);

/* Places for all sides, in core->side_gpus one after the other; their types in skus[]. -EBUSY; *ret_mapped as
 * plan_place has it. */
int sides_find(struct plan *plan, const struct shape *shape, uint32_t sku, uint8_t *skus, bool *ret_mapped);

/* What was found for the first part with what is found for the sides, ascending, in core->gang; and the types. Their
 * places are as the job wants them. */
int sides_join(struct plan *plan, uint32_t job, const struct placement *to, uint8_t *skus, struct placement *ret);
