/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* settings_record.h - what the registry keeps of limits, secrets, webhooks, reservations, choices of nodes, licences,
 * labels and types of GPUs, each declared once. Where an entry says all of it, its record is kept as it is. */
#include "ctl/state/entry/entry.h"
#include "ctl/state/entry/record_list.h"

/* A reservation. stage: 0 to come, 1 its nodes take no other job, 2 in force. number: the core's, from 1. */
#define KEPT_RESV_FIELDS(F, S)                                                                                         \
    RESV_FIELDS(F, S)                                                                                                  \
    F(S, NUMBER, stage, "stage", 10, 1, 0, 2, NULL)                                                                    \
    F(S, NUMBER, number, "number", 11, 1, 0, UINT8_MAX, NULL)
/* Nodes that jobs choose: the i-th is mark i + 1. One that is free again keeps its place. */
#define KEPT_CHOICE_FIELDS(F, S)                                                                                       \
    F(S, TEXT, nodelist, "nodelist", 1, 1, 0, ENTRY_DOC_MAX, NULL)                                                     \
    F(S, TEXT, exclude, "exclude", 2, 1, 0, ENTRY_DOC_MAX, NULL)                                                       \
    F(S, TEXT, constraint, "constraint", 3, 1, 0, ENTRY_DOC_MAX, NULL)
/* The name of a licence; the i-th is number i to jobs. */
#define KEPT_LICENSE_FIELDS(F, S) F(S, TEXT, name, "name", 1, 1, 0, ENTRY_NAME_MAX, NULL)
/* Labels that people gave a node, over those of its inventory. */
#define KEPT_LABELS_FIELDS(F, S)                                                                                       \
    F(S, NUMBER, node, "node", 1, 1, 0, UINT32_MAX, NULL)                                                              \
    F(S, CHANGES, labels, "labels", 2, 1, 0, ENTRY_VALUES_MAX, NULL)

/* A type of GPU; the i-th is number i to the core. memory_mib: of one of them; 0 = not told. */
#define KEPT_SKU_FIELDS(F, S)                                                                                          \
    F(S, TEXT, name, "name", 1, 1, 0, ENTRY_NAME_MAX, NULL)                                                            \
    F(S, NUMBER, memory_mib, "memory_mib", 2, 1, 0, INT64_MAX, NULL)

/* X(code, member of the registry, type of a record, fields): lists of the registry, in the order of snapshots. */
#define KEPT_LISTS(X)                                                                                                  \
    X(LIMITS, limits, struct entry_limits, LIMITS_FIELDS)                                                              \
    X(SECRETS, secrets, struct entry_secret, SECRET_FIELDS)                                                            \
    X(HOOKS, hooks, struct entry_hook, HOOK_FIELDS)                                                                    \
    X(CHOICES, choices, struct ctl_choice, KEPT_CHOICE_FIELDS)                                                         \
    X(RESVS, resvs, struct ctl_resv, KEPT_RESV_FIELDS)                                                                 \
    X(LICENSES, licenses, struct ctl_license, KEPT_LICENSE_FIELDS)                                                     \
    X(LABELS, labels, struct ctl_labels, KEPT_LABELS_FIELDS)                                                           \
    X(SKUS, skus, struct ctl_sku, KEPT_SKU_FIELDS)

enum kept_list {
#define X(code, member, type, declared) KEPT_##code,
    KEPT_LISTS(X)
#undef X
        KEPT_COUNT
};

#define MEMBER(record, type, member, name, tag, since, least, most, expects) FIELD_C_##type member;
struct ctl_resv {
    KEPT_RESV_FIELDS(MEMBER, )
};
struct ctl_choice {
    KEPT_CHOICE_FIELDS(MEMBER, )
};
struct ctl_license {
    KEPT_LICENSE_FIELDS(MEMBER, )
};
struct ctl_labels {
    KEPT_LABELS_FIELDS(MEMBER, )
};
struct ctl_sku {
    KEPT_SKU_FIELDS(MEMBER, )
};
#undef MEMBER

struct kept_lists {
#define X(code, member, type, declared) struct record_list member;
    KEPT_LISTS(X)
#undef X
};

void kept_init(struct kept_lists *lists);
void kept_done(struct kept_lists *lists);
struct record_list *kept_list(struct kept_lists *lists, enum kept_list which);
/* All of them, one after another. */
void kept_encode(const struct kept_lists *lists, struct buf *out);
int kept_decode(struct kept_lists *lists, uint32_t version, const char *data, size_t size, struct error *err);

enum { JOIN_NODES_MAX = 10000 };

struct ctl_token {
    char id[24], hash[65], user[64], role[16], scope[64];
    usec_t expires, created;
    uint32_t nodes; /* that may still join by it; 0: it is not for joining */
};

/* Each record of a list: for (each_record(struct ctl_resv, resv, &lists->resvs)) */
#define each_record(type, name, list)                                                                                  \
    type *name = record_first(list);                                                                                   \
    name < (type *)record_end(list);                                                                                   \
    name++
