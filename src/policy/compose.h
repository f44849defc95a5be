/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* compose.h - the policy of one virtual cluster, as its description names it. */
#include "model/cluster.h"
#include "policy/registry.h"

/* Its own with its own settings, or `common` with them. -ENOENT (no such policy), -EINVAL: in words. */
int policy_compose(const struct vc_spec *vc, const struct names *names, const struct policy_setup *common,
                   struct policy_setup *ret_setup, struct error *err);

/* What chooses parts of the policy is set before the knobs these bring: 0, 1 or 2. */
int policy_turn(const char *key);
