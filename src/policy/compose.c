/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c - see compose.h. */
#include "policy/compose.h"

#include <errno.h>
#include <string.h>

enum { TURNS = 3 };

int policy_turn(const char *key)
{
    return strcmp(key, "compat") == 0 ? 0 : strcmp(key, "place") == 0 || strcmp(key, "optimise") == 0 ? 1 : 2;
}

static int set_in_turn(const struct vc_spec *vc, const struct names *names, int turn, struct policy_setup *setup,
                       struct error *err)
{
    for (uint32_t i = 0; i < vc->param_count; i++) {
        const char *key = names_get(names, vc->params[i].key);
        char keys[256];
        int r;

        if (policy_turn(key) != turn)
            continue;
        r = policy_set(setup, key, names_get(names, vc->params[i].value), err);
        if (r == -ENOENT) {
            policy_keys(setup, keys, sizeof(keys));
            r = error_set(err, -EINVAL, "no setting '%s'; the policy has %s", key, keys);
        }
        if (r < 0)
            return error_prefix(err, r, "vcs.%s", names_get(names, vc->name));
    }
    return 0;
}

int policy_compose(const struct vc_spec *vc, const struct names *names, const struct policy_setup *common,
                   struct policy_setup *ret_setup, struct error *err)
{
    struct policy_setup setup = *common;

    if (vc->policy != NAME_NONE) {
        int r = policy_parse(names_get(names, vc->policy), &setup, err);

        if (r == -ENOENT)
            return error_set(err, -ENOENT, "vcs.%s: no policy '%s'; 'muster sim policies' lists them",
                             names_get(names, vc->name), names_get(names, vc->policy));
        if (r < 0)
            return error_prefix(err, r, "vcs.%s", names_get(names, vc->name));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        int r = set_in_turn(vc, names, turn, &setup, err);

        if (r < 0)
            return r;
    }
    if (vc->priorities == PRIORITIES_STRICT && !setup.planner->by_rank && setup.planner->run_order != RUN_BY_KEY)
        return error_set(
            err, -EINVAL,
            "vcs.%s: priorities: strict goes with policies that start or preempt by rank; %s shares GPUs out "
            "by itself",
            names_get(names, vc->name), setup.planner->name);
    *ret_setup = setup;
    return 0;
}
