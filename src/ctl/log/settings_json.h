/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* settings_json.h - settings as jansson's trees, for who answers requests and reads the configuration. */
#include <jansson.h>

#include "ctl/state/state.h"

/* All return a tree of the caller's; NULL: no memory. */
json_t *setting_tree(const struct setting_value *setting);
json_t *settings_tree(const struct ctl *ctl);
/* The cluster as a cluster file would describe it (ctl_describe()). */
json_t *describe_tree(const struct ctl *ctl);

/* Puts the virtual clusters of new settings into the order of those there are, and those that are closed among them;
 * `stay`: also those that the new settings do not speak of. Settings that speak of none leave all as they are. */
void settings_arrange(const json_t *was, json_t *settings, bool stay);
