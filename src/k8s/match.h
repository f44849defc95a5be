/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* match.h - whether a pod may be on a node: taints, selector, required node affinity. */
#include "k8s/objects.h"

enum match { MATCH_FITS, MATCH_TAINT, MATCH_SELECTOR, MATCH_AFFINITY, MATCH_EXTRA, MATCH_COUNT };

/* wants: {nodeSelector, affinity, tolerations} as of k8s_pod. What is not understood does not match. */
enum match match_node(const json_t *wants, const struct k8s_node *node);

/* "untolerated taint", for a sentence. */
const char *match_text(enum match match);
