/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_config.h - HiveD's configuration file, unchanged, as cells (docs/cells.md).
 *
 * Errors name file, line and column. Keys that nobody knows are passed over, as HiveD does, and told: a mistyped
 * `pinnedCells` would otherwise be lost in silence.
 */
#include "base/buf.h"
#include "model/cell.h"
#include "wire/text/yaml_doc.h"

enum { HIVED_WARNINGS_MAX = 16 };

struct hived_warnings {
    int count; /* of all; the first HIVED_WARNINGS_MAX are kept */
    char text[HIVED_WARNINGS_MAX][200];
};

/* Fills a spec that is all zero; on failure it is empty again. `warnings` may be NULL. */
int hived_config_read(const char *file, const struct bytes *bytes, struct cell_spec *ret_spec,
                      struct hived_warnings *warnings, struct error *err) __attribute__((warn_unused_result));

/* The same of a document that is open; it may have other keys beside HiveD's at its top, which are passed over. */
int hived_config_load(const struct yaml_doc *doc, struct cell_spec *ret_spec, struct hived_warnings *warnings,
                      struct error *err) __attribute__((warn_unused_result));
