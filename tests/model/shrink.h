/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* shrink.h - scripts as lists of lines, run in a process of their own, and made short. */
#include <stdbool.h>
#include <stddef.h>

#include "model.h"

struct script {
    char (*steps)[STEP_BYTES]; /* [STEPS_MAX], shared with the process that runs it */
    size_t count;
    bool loud; /* tells each step, and how things stand behind it */
    const char *tolerated;
};

/* What has become of a run; shared with its process. */
struct outcome {
    char why[WHY_BYTES];
    size_t step;
};

/* From now on an assertion that fails is told there, and ends this process. */
void script_dies(struct outcome *outcome);
/* Runs it in this process: 0, or -1 with words. */
int script_run(const struct script *script, struct outcome *outcome);
/* In a process of its own, which may die; an assertion that fails is an outcome like any other. */
int script_run_apart(const struct script *script, struct outcome *outcome);
/* Leaves out whatever it can while it fails the same way. */
void script_shrink(struct script *script, struct outcome *outcome);
