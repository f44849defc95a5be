/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_history.h - jobs that are over and that the registry no longer has: those of before the last start, and the
 * oldest.
 *
 * Read from the store when somebody asks for one, and kept for a while beside the registry: nothing of this is state.
 */
#include "ctl/http/http_server.h"
#include "ctl/state/registry.h"
#include "ctl/state/state.h"

struct past;
struct server;

int past_new(struct server *server, struct past **ret_past);
void past_free(struct past *past);

const struct ctl_job *past_find(const struct past *past, int64_t id);
const struct ctl_job *past_element(const struct past *past, int64_t array, int64_t index);

/* Whether this asks for a job that the store may have: then it is looked for, and again(request) is called. */
bool past_fetch(struct past *past, struct request *request, void (*again)(struct request *request));

/* A job as the store has it. NULL: it cannot be read. */
struct ctl_job *past_read(const struct ctl *ctl, const json_t *record);
