/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fence.h - a program of the site switches silent nodes off, so that their jobs can start elsewhere (ADR 55). */
#include "ctl/daemon/server.h"

struct fence;

int fence_new(struct server *server, struct fence **ret_fence);
void fence_free(struct fence *fence);

/* What the program last said of a node that it could not switch off, with ", " before it; "": nothing. */
const char *fence_said(const struct fence *fence, size_t node);
