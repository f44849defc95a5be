/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* param.h - the knobs of a policy, declared beside it.
 *
 * Configuration checking, --help, the manual and the dashboard all read the same table. A policy sees its values as
 * an int64 array in the order of the table. A list comes last in its table: its length stands where it is declared,
 * its values behind that.
 */
#include <stdint.h>

enum param_kind {
    PARAM_COUNTER, /* a whole number */
    PARAM_TIME,    /* microseconds; written 90, 60s, 5m, 2h, 1d */
    PARAM_RATIO,   /* parts per million; written 0.9 or 90% */
    PARAM_SWITCH,  /* 0 or 1; written off or on */
    PARAM_CHOICE,  /* index into choices */
    PARAM_TIMES,   /* ascending times, written 60s,10m,2h; `max` of them at most, `standard` alone by default */
};

#define PARAM_MAX INT64_MAX

enum { PARAM_TIMES_MAX = 16 }; /* values of a list */

struct param {
    const char *name; /* NULL ends the table */
    const char *help;
    enum param_kind kind;
    int64_t standard, min, max;
    const char *const *choices; /* NULL-terminated, for PARAM_CHOICE */
};
