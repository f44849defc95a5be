/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_write.h - cells as a configuration file of HiveD's; what its reader would infer is left out. */
#include "base/buf.h"
#include "model/cell.h"

void hived_config_write(const struct cell_spec *spec, struct buf *out);
