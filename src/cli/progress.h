/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* progress.h - how far long work has come: one bar that is redrawn on a terminal, one line a step elsewhere. */
#include <stddef.h>
#include <stdio.h>

struct progress;

/* NULL when there is no memory; the other calls accept that. */
struct progress *progress_new(FILE *out, size_t total);

/* One more is done; `label` names it. Callers take turns. */
void progress_step(struct progress *progress, const char *label);

/* Leaves the terminal clean. */
void progress_free(struct progress *progress);
