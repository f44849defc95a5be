/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* whatif.h - the cluster's own history, or a trace, replayed under other policies or on another cluster.
 *
 * Each run is the program `muster sim run` in a process of its own, one at a time, nice, within bounds of memory and
 * time: the scheduler is never held up, and the figures are those that `muster sim compare` gives on the same files.
 * What is kept is in memory and in a folder below the state; it goes when the controller ends, or when newer ones need
 * the room.
 */
#include <stdio.h>

#include "ctl/daemon/server.h"

enum {
    WHATIFS_KEPT = 16,        /* all together */
    WHATIFS_WAITING = 4,      /* of them not over */
    WHATIF_POLICIES_MAX = 16, /* of one comparison */
    WHATIF_SETTINGS_MAX = 32,
    WHATIF_JOBS_MAX = 100000,
};

enum whatif_state { WHATIF_WAITING, WHATIF_RUNNING, WHATIF_DONE, WHATIF_FAILED, WHATIF_STATES };

struct whatifs;

struct whatif_setting {
    char *key, *value;
};

struct whatif_policy {
    char *label; /* as asked for; "present" is what the cluster does now */
    char *name;  /* of the policy */
    bool present;
    struct whatif_setting settings[WHATIF_SETTINGS_MAX];
    size_t setting_count;
};

struct child;

struct whatif {
    int64_t id; /* 0 = free */
    struct whatifs *owner;
    enum whatif_state state;
    char user[64];
    usec_t created, ended;
    bool from_trace; /* else from history */
    usec_t since, until;
    int64_t jobs; /* in the trace; -1 = not known yet */
    struct whatif_policy policies[WHATIF_POLICIES_MAX];
    size_t policy_count, done;
    json_t *runs; /* SimRun objects, in the order of the policies */
    char step[32], error[512];
    char notes[1024]; /* what was left out of the history */
    /* Working state. */
    char *folder;
    FILE *history;              /* being written */
    int64_t before;             /* next page of it */
    size_t written, unfinished; /* of these, not over yet */
    struct child *child;
    bool cancelled;
};

int whatifs_new(struct server *server, struct whatifs **ret_whatifs);
void whatifs_stop(struct whatifs *whatifs); /* ends what runs and removes all folders; before the loop goes */
void whatifs_free(struct whatifs *whatifs);

const struct whatif *whatif_find(const struct whatifs *whatifs, int64_t id);
/* From the newest; NULL at the end. */
const struct whatif *whatif_at(const struct whatifs *whatifs, size_t index);

/* Takes a request: docs/rest.md, POST /sim. -EINVAL; -EBUSY: too many wait; -ENOENT: no program to run; -EIO. */
int whatif_add(struct whatifs *whatifs, const json_t *body, const char *user, const struct whatif **ret,
               struct error *err);
/* Ends and forgets it. */
int whatif_remove(struct whatifs *whatifs, int64_t id);

/* whatif_plan.c: the request into policies and files. */
int whatif_policies(struct whatif *w, const json_t *body, const struct server *server, struct error *err);
int whatif_clusters(const struct whatif *w, const json_t *body, const struct server *server, struct error *err);
void whatif_policy_done(struct whatif_policy *policy);
