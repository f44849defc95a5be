/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_spec.h - what a pod asks for: the annotation hivedscheduler.microsoft.com/pod-scheduling-spec, YAML or JSON. */
#include "base/buf.h"
#include "model/cell.h"

enum { HIVED_MEMBERS_MAX = 256, HIVED_GROUPS_MAX = 16 };

/* Version 2: pods that ask for cells, in groups that must lie inside one cell. */
struct hived_group {
    char within[NAME_LENGTH_MAX + 1], cell_type[NAME_LENGTH_MAX + 1]; /* "": none */
    uint32_t parent, pods, cells;
};

struct hived_spec {
    char vc[NAME_LENGTH_MAX + 1], pin[NAME_LENGTH_MAX + 1], leaf_type[NAME_LENGTH_MAX + 1];
    char group[NAME_LENGTH_MAX + 1]; /* "": the pod alone */
    int32_t priority;
    uint32_t leaves, member_count;
    struct cell_member members[HIVED_MEMBERS_MAX];
    bool lazy, ignore_suggested;
    uint32_t tree_count, tree_pod; /* version 2; then leaves and members are the caller's to find */
    struct hived_group tree[HIVED_GROUPS_MAX];
};

/* Every failure but -ENOMEM is the user's mistake. Old words (gpuType, gpuNumber) are understood. */
int hived_spec_read(const char *label, const struct bytes *text, struct hived_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));
