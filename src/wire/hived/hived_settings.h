/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_settings.h - HiveD's configuration among the settings of a controller.
 *
 * Settings are JSON: "vcs", "policy" and so on as in muster.yaml, and, where guarantees are HiveD's cells, the values
 * of "physicalCluster" and "virtualClusters" as they were written. All scalars of these are texts: a node may be called
 * 007.
 */
#include <jansson.h>

#include "base/buf.h"
#include "model/cell.h"
#include "wire/cluster/setting.h"
#include "wire/text/yaml_doc.h"

/* Whether guarantees are HiveD's cells. */
bool hived_settings_any(const json_t *settings);

/* HiveD's two keys of a document into `to`, a JSON object. Errors are by file, line and column; keys that HiveD does
 * not know are told to `warn`, unless it is NULL. */
int hived_settings_read(const struct yaml_doc *doc, json_t *to, void (*warn)(const char *words), struct error *err)
    __attribute__((warn_unused_result));

/* Settings that say nothing of cells keep those there were. */
void hived_settings_keep(const json_t *was, json_t *settings);

/* Each virtual cluster of virtualClusters is among "vcs", and is owed there what its cells amount to; others are owed
 * nothing. Nothing changes where guarantees are not HiveD's. */
int hived_settings_fill(json_t *settings, struct error *err) __attribute__((warn_unused_result));

/* For who describes a cluster as a cluster file: the cells of settings, that were read before, into a spec that is all
 * zero; none where guarantees are not HiveD's. -ENOMEM or what hived_config_read() says. */
int hived_settings_cells(const struct setting_value *settings, struct cell_spec *ret_cells)
    __attribute__((warn_unused_result));
/* HiveD's two keys, as members of what is being written; nothing where guarantees are not HiveD's. */
void hived_settings_write(const struct setting_value *settings, struct json_write *json);
/* The type of GPU that cells of the type are made of. */
const char *hived_device_name(const struct cell_spec *cells, uint32_t type);
/* A cell that is a node, as a rack of a cluster file has it. */
void hived_node_write(const struct cell_spec *cells, const struct cell_place *place, struct json_write *json);
