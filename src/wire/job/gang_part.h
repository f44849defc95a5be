/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gang_part.h - a part of a gang on other types of GPU, as traces and stories write it: A100|V100:8:4, eight of either,
 * four on each node; then, where they are told, CPUs and MiB of host memory with each GPU: A100:8:4:2:1024. */
#include "base/buf.h"
#include "model/trace.h"

#define SIDE_WORDS "TYPE|TYPE:GPUS:PER_NODE[:CPUS[:MIB]]"

/* One more of the job's; its types are numbers of `names`. -EINVAL; -E2BIG: too many types or parts; -ENOMEM. */
int side_add(struct jobspec *spec, struct names *names, const char *text, size_t length);

/* All of them, divided by ';'; types by name. */
void sides_put(struct buf *out, const struct names *names, const struct jobspec *spec);
