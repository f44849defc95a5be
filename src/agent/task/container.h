/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* container.h - jobs with an image: through runc or podman, where they are. */
#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct task;

json_t *container_runtimes(void); /* ["runc","podman"]; those found in PATH */
/* Whether the task runs in a container: it has an image, and its node does not take such jobs without. */
bool container_used(const struct task *task);
/* The task has an image that the node leaves out: what it runs first says so. */
void container_skip(const struct task *task, json_t *plan);
/* Makes the processes of the plan start through a runtime. -EOPNOTSUPP with words where none can. */
int container_wrap(const struct task *task, const char *dir, json_t *plan, struct error *err);
