/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* registry.h - policies by name, and their knobs from text. */
#include "base/error.h"
#include "core/planning/vc.h"

struct policy {
    const char *name, *summary, *fixed; /* fixed: "key=value key=value" */
    const struct planner_ops *planner;
    const struct order_ops *order;
    const struct place_ops *place;
};

/* NULL if there is none of that name. */
const struct policy *policy_find(const char *name);

/* "fifo", or with optimisers of its running jobs "fifo+pack+migrate": every knob at its standard or fixed value.
 * -ENOENT without words: there is no such policy; -EINVAL: no such optimiser. */
int policy_parse(const char *text, struct policy_setup *ret_setup, struct error *err);

/* Whether there is such a policy, and with it such optimisers. */
bool policy_known(const char *text);

/* The optimisers there are; NULL at the end. */
const struct tune_ops *policy_tuner(size_t index);

/* All of them, in the order of the register; NULL at the end. */
const struct policy *policy_at(size_t index);

/* A composition with every knob at its standard or fixed value. */
void policy_setup(const struct policy *policy, struct policy_setup *ret_setup);

/* Other programs the policy can do as, by `compat`: their names; NULL at the end. */
const char *policy_compat(const struct policy_setup *setup, size_t index);

/* Sets one knob in every part that has it (parts that work together may share one). `compat`, `place` and `optimise`
 * choose parts themselves, with knobs of their own: they are to be set first, in this order. 0, -ENOENT (no part has
 * it), -EINVAL with words. */
int policy_set(struct policy_setup *setup, const char *key, const char *value, struct error *err);

/* "mode, requeue, place ..." for an error message. */
void policy_keys(const struct policy_setup *setup, char *out, size_t size);
