/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* event_detail.h - what is told with an event, as JSON: an object of its facts, or null. */
#include "ctl/state/state.h"

void event_detail_put(struct buf *out, const struct ctl_event *event);
/* The words of a fact; NULL: it is not told. */
const char *event_detail_text(const struct ctl_event *event, const char *name);
int64_t event_detail_number(const struct ctl_event *event, const char *name); /* 0 where it is not told */
