/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* replay_step.h - the steps of a replay script and what they expect, for cell_replay.c and its parts alone. */
#include <jansson.h>
#include <stdbool.h>

#include "cli/cells/cell_replay.h"
#include "cli/cells/cell_run.h"

enum { REPLAY_WORDS_MAX = 400 };

struct replay {
    const char *file;
    const json_t *defaults, *order; /* order: the case's chainOrder, or NULL */
    struct cell_run run;
    struct replay_totals *totals;
    char unknown[64];                                       /* a predicate of the step that is not known, or a pod */
    char expected[REPLAY_WORDS_MAX], got[REPLAY_WORDS_MAX]; /* of the step that failed */
};

/* A string of an object, or NULL. */
static inline const char *replay_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A step's value, or the script's default. */
static inline const json_t *replay_value(const struct replay *p, const json_t *step, const char *key)
{
    const json_t *v = json_object_get(step, key);

    return v && !json_is_null(v) ? v : json_object_get(p->defaults, key);
}

/* Notes what a step wanted and got. Returns false. */
bool replay_fail(struct replay *p, const char *expected, const char *got, ...) __attribute__((format(printf, 3, 4)));

/* Is the answer the one that is expected, or as good? */
bool replay_answer(struct replay *p, const struct run_answer *a, const json_t *expect);

/* Whether the key is one that people write notes under, wherever they like. */
bool replay_prose(const char *key);

/* What is wrong with a step, or NULL. A key that is nearly one of the format is; others are passed over. */
const char *replay_step_check(const json_t *step, char words[REPLAY_WORDS_MAX]);

/* The same of the keys and values in a step of that kind, in the "defaults", in a "case" or in the whole "script"; null
 * is as good as absent. */
const char *replay_values_check(const char *kind, const json_t *object, char words[REPLAY_WORDS_MAX]);

/* Runs a checked step. False: it failed, and expected and got say how. */
bool replay_step(struct replay *p, const json_t *step);

/* Tries chains in the order that the case tells; a chain that is not there is passed over. */
void replay_order(struct replay *p);
