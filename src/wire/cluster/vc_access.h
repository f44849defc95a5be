/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* vc_access.h - who may submit what to a virtual cluster.
 *
 *     access:
 *       ask: prof@example.org
 *       default_time: 1h
 *       allow:
 *       - {groups: [staff], priority: urgent}
 *       - {users: [ann, bob], groups: [course], priority: normal, gpus: 2, time: 2h}
 *
 * A rule that names neither users nor groups is for everybody. Who is in several rules may do what any of them allows.
 */
#include <jansson.h>

#include "base/units.h"
#include "wire/text/yaml_doc.h"

/* Whether the value of `access` is one; in words. */
int vc_access_valid(const json_t *access, struct error *err);
/* The same of a node of a document, by line and column. */
int vc_access_read(struct yaml_doc *doc, yaml_node_t *node, struct error *err);

struct access_ask {
    const char *user;
    int priority;
    int64_t gpus; /* of the whole job */
    usec_t time;  /* 0 = no limit */
    bool (*in_group)(const char *user, const char *group);
};

/* Whether the virtual cluster, whose `access` it is (NULL: it has none), lets it in. -EACCES: it does not, in words;
 * `ret_hint` says whom to ask. */
int vc_access_check(const json_t *access, const char *vc, const struct access_ask *ask, char ret_hint[200],
                    struct error *err);

/* The time limit of jobs there that name none; 0: none. */
usec_t vc_access_time(const json_t *access);
