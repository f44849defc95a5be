/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* child.h - what every process on its way to a user's program does. */
#include <jansson.h>

int child_become(const json_t *plan); /* uid, gid and groups of the plan, where it says "switch" */
char **child_strings(const json_t *first, const json_t *second); /* for exec; NULL = no memory */
void child_strings_free(char **list);
void child_signals(void); /* none ignored, none blocked */
