/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* live_tables.h - what the tables of verbs (live.c, live_admin.c) share: flags, and what the usual kinds of verbs take.
 */
#include "cli/verbs/live.h"

extern const struct opt common_opts[], listing_opts[], show_opts[];

extern const struct command vc_verbs[], resv_verbs[], secret_verbs[], user_verbs[], token_verbs[], node_verbs[],
    config_verbs[], sched_verbs[], cluster_verbs[];

/* Done to jobs. */
#define ON_JOBS .usage = "JOB...", .opts = common_opts, .least = 1, .most = -1, .complete = "job"
/* Tells of one job. */
#define ON_JOB .usage = "JOB", .opts = show_opts, .least = 1, .most = 1, .complete = "job"
/* Goes into a running job. */
#define IN_JOB .usage = "JOB[.TASK]", .opts = common_opts, .least = 1, .most = 1, .complete = "job"
/* Takes a file, or things by their names. */
#define ON_FILE .usage = "FILE", .opts = common_opts, .least = 1, .most = 1
#define ON_NAME .usage = "NAME", .opts = common_opts, .least = 1, .most = 1
#define ON_NAMES .usage = "NAME...", .opts = common_opts, .least = 1, .most = -1
/* Take no words: an action, one thing shown, a listing. */
#define PLAIN .usage = "[OPTION...]", .opts = common_opts
#define SHOWN .usage = "[OPTION...]", .opts = show_opts
#define LISTED .usage = "[OPTION...]", .opts = listing_opts
