/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* agent_file.h - /etc/muster/agent.yaml: controller, labels, limits of a node. muster-agent(8). */
#include "agent/embed.h"

struct agent_file {
    char text[4096]; /* where the values live */
};

/* Fills what the configuration does not have yet. `path` NULL: the usual file, which may be missing. */
int agent_file_read(const char *path, struct agent_file *file, struct agent_config *config, struct error *err);
