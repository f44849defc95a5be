/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_events.h - what events do to jobs; inside the core only. */
#include "core/core.h"
#include "core/planning/vc.h"

/* Whether events of the kind are about the cluster, not about a job. */
static inline bool event_jobless(enum event_kind kind)
{
    return kind == EVENT_NODE || kind == EVENT_GPU || kind == EVENT_QUOTA || kind == EVENT_SOLVED;
}

/* job_events.c */
void event_apply(struct core *core, const struct event *event);

/* health.c */
void apply_node(struct core *core, const struct event *event);
void apply_gpu(struct core *core, const struct event *event);

/* job_moves.c */
void core_count_borrowed(struct vc *vc, uint32_t skus);
void core_keep_within(struct core *core, const struct vc *vc, uint32_t sku);
/* Gives the GPUs back, and launches whoever was waiting for just them. */
void core_release(struct core *core, uint32_t index);
void core_forget(struct core *core, uint32_t index);
