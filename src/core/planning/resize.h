/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* resize.h - a person sets the size of an elastic job; inside the core only. */
#include <stdbool.h>
#include <stdint.h>

struct core;
struct event;

void apply_size(struct core *core, const struct event *event);

/* A job that is about to wait, or whose shape nothing depends on yet, has the size that was set. */
void resize_waiting(struct core *core, uint32_t job);

/* In a pass: running jobs go to the size that was set, those inside their guarantee, or the others. */
void resize_pass(struct core *core, bool own);
