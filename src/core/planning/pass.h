/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pass.h - one planning pass: who plans (pass.c), why the others wait (reasons.c), what is told of it (commit.c). */
#include "core/core_internal.h"

/* A pass, if anything changed that could matter. */
void pass_run(struct core *core);
/* A step after the pass of its instant: whoever began to wait is told why; the rest is left to the next pass. */
void pass_late(struct core *core);

/* Why the jobs of a shape wait, as things are; of all shapes. */
void reasons_shape(struct core *core, struct vc *vc, struct shape_class *cls);
void reasons_all(struct core *core);

/* Turns what the pass did to each job into effects and decisions, in the order it was done. */
void commit_planned(struct core *core);
/* Whoever began to wait in this step, and still does, is told why. */
void commit_waits(struct core *core);
/* Jobs whose claim was taken from them wait again. Nothing was launched, so there is nothing to wait for. Returns how
 * many; they are in core->victims. */
uint32_t commit_withdrawn(struct core *core);
