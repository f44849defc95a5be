/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* audit.h - one walk over every invariant for two ends: core_audit() stops the program at the first that is broken, for
 * that is a mistake of ours; a snapshot that breaks one is refused. */
#include <assert.h>
#include <stdbool.h>

struct audit {
    const char *broken; /* the first condition that does not hold; NULL. Nothing is looked at after it */
    bool stops;         /* at the first, with file and line */
};

#define MUST(audit, condition)                                                                                         \
    do {                                                                                                               \
        if (!(audit)->broken && !(condition)) {                                                                        \
            assert(!(audit)->stops || (condition));                                                                    \
            (audit)->broken = #condition;                                                                              \
        }                                                                                                              \
    } while (0)

struct core;

void audit_run(const struct core *core, struct audit *audit);
