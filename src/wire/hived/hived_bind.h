/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_bind.h - where a pod and its gang run: the annotation hivedscheduler.microsoft.com/pod-bind-info.
 *
 * What is written here is read back line by line; what others wrote, through the YAML reader.
 */
#include "base/buf.h"
#include "model/cell.h"

/* Whoever knows the names. */
struct hived_namer {
    void *context;
    const char *(*node_name)(const void *context, uint32_t node);
    const char *(*type_name)(const void *context, uint32_t type);
    int (*node_find)(void *context, const char *name, size_t length, uint32_t *ret_node);
    uint32_t (*type_find)(const void *context, const char *name, size_t length); /* CELL_UNKNOWN: no such */
};

/* Room for a bind that was read; grows, and is used again. All zero is empty. */
struct hived_places {
    struct cell_pod_place *pods;
    struct cell_leaf_place *leaves;
    size_t pod_capacity, leaf_capacity;
};
void hived_places_done(struct hived_places *places);

void hived_bind_write(const struct hived_namer *namer, const struct cell_bind *bind, struct buf *out);

/* `ret_bind` points into `places`. */
int hived_bind_read(const struct hived_namer *namer, const char *text, size_t size, struct hived_places *places,
                    struct cell_bind *ret_bind, struct error *err) __attribute__((warn_unused_result));
