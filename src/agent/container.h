/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* container.h - jobs with an image: through runc or podman, where they are. */
#include <jansson.h>

#include "base/error.h"

struct task;

json_t *container_runtimes(void); /* ["runc","podman"]; those found in PATH */
/* Makes the processes of the plan start through a runtime. -EOPNOTSUPP with words where none can. */
int container_wrap(const struct task *task, const char *dir, json_t *plan, struct error *err);
