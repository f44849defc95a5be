/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* anomaly.h - does sharing a cluster make somebody wait longer than a cluster of its own would?
 *
 * Four replays of one trace: each virtual cluster alone on what it is guaranteed; all of them with the same numbers of
 * GPUs as quotas; all of them with cells; and with cells while idle ones are lent. Compared job by job.
 */
#include <stdio.h>

#include "base/buf.h"
#include "sim/scenario.h"

enum anomaly_kind { ANOMALY_QUOTA, ANOMALY_CELLS, ANOMALY_LENT, ANOMALY_KINDS };

/* "quota", "cells", "lent"; what it is, in words. */
const char *anomaly_name(enum anomaly_kind kind);
const char *anomaly_words(enum anomaly_kind kind);

/* Of one virtual cluster, or of all, shared in one way. Seconds. */
struct anomaly_kind_row {
    double wait;          /* waited, in sum */
    uint64_t longer;      /* jobs that waited longer than alone */
    uint64_t stopped;     /* of these: were stopped more often than alone; the others were overtaken */
    double excess, worst; /* by how much: all of them together, the worst */
};

struct anomaly_row {
    uint64_t gpus, jobs; /* guaranteed; compared */
    double alone;        /* waited in a cluster of its own, in sum */
    struct anomaly_kind_row kinds[ANOMALY_KINDS];
};

struct anomaly {
    struct run_result runs[ANOMALY_KINDS];
    struct anomaly_row *rows;             /* owned: by virtual cluster of the cluster; the last is the sum */
    size_t count;                         /* virtual clusters */
    double use_alone, use[ANOMALY_KINDS]; /* of all GPUs, up to the last submission */
    double use_waiting[ANOMALY_KINDS];    /* the same while somebody waits; NaN: nobody ever does */
    bool with_guests;                     /* asked for: cells beside as many opportunistic jobs again */
    struct {
        uint64_t jobs, longer; /* guaranteed ones; of them, those that wait longer than alone */
        double wait, use;      /* in sum; of all GPUs */
    } guests;
};

/* The cluster must give guarantees in cells. ret_anomaly->with_guests is read. */
int anomaly_run(const struct cluster_spec *cluster, const struct trace *trace, const struct scenario_request *request,
                uint64_t seed, struct anomaly *ret_anomaly, struct error *err);
void anomaly_done(struct anomaly *anomaly);

/* A cluster made of what one virtual cluster is guaranteed, and of nothing else. */
int anomaly_private(const struct cluster_spec *cluster, uint32_t vc, struct cluster_spec *ret_cluster);

/* For people, for programs, and a section of the HTML report. */
void anomaly_text(FILE *out, const struct anomaly *anomaly, const struct cluster_spec *cluster);
int anomaly_json(struct buf *out, const struct anomaly *anomaly, const struct cluster_spec *cluster);
int anomaly_html(struct buf *out, const struct anomaly *anomaly, const struct cluster_spec *cluster);
