/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* topology.h - how GPUs are to lie, in words: "rack", "rack:must", "socket:4". */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/jobspec.h"

#define TOPOLOGY_WORDS "group (nvlink), socket (numa), node, rack or domain (pod), with :must or :prefer"

/* The level of that name, or WITHIN_ANY. */
uint8_t topology_find(const char *text, size_t length);

/* "rack". */
const char *topology_level(uint8_t level);

/* LEVEL[:must|:prefer]. -EINVAL. */
int topology_parse(const char *text, size_t length, uint8_t *ret_within, bool *ret_must);

/* LEVEL:GPUS, at or below the node. -EINVAL. */
int cells_parse(const char *text, size_t length, uint8_t *ret_unit, uint16_t *ret_gpus);
