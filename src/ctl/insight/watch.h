/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* watch.h - looks at the cluster every few seconds and remembers what it saw: for graphs, alerts and figures.
 *
 * Nothing here decides anything, and nothing is in the log. Figures of the cluster and of virtual clusters go into
 * series (series.h); what each GPU measures goes into a ring of its own, from which a job's utilisation, memory and
 * power over time are read.
 */
#include "ctl/daemon/server.h"
#include "ctl/insight/series.h"

struct watch;

#define WATCH_EVERY (5 * USEC_SEC)
#define IDLE_AFTER (15 * 60 * USEC_SEC)  /* allocated and below 5 % for so long: idle */
#define STALL_AFTER (10 * 60 * USEC_SEC) /* busy and cold for so long: stalled */

/* One look at a GPU. */
struct gpu_look {
    usec_t at; /* 0 = none */
    uint8_t util, temp;
    uint16_t power;
    uint32_t memory_mib;
};

/* Where its ring begins and what lasts. */
struct gpu_past {
    struct gpu_look *looks; /* NULL until a job has used it */
    uint32_t next, count;
    usec_t idle_since, stall_since; /* 0 = it is not */
    uint16_t power_max;             /* most ever seen */
    bool paused;                    /* a person has suspended its job: it is idle as it should be */
};

enum { GPU_LOOKS = 720 };

int watch_new(struct server *server, struct watch **ret_watch);
void watch_stop(struct watch *watch); /* saves; no timer any more */
void watch_free(struct watch *watch);

const struct series *watch_series(const struct watch *watch);
/* What is known of a GPU; NULL: nothing yet. */
const struct gpu_past *watch_gpu(const struct watch *watch, const struct ctl_node *node, uint32_t gpu);
/* The look at index i, 0 = the oldest. */
const struct gpu_look *gpu_past_at(const struct gpu_past *past, uint32_t i);

/* A job began to run or ended, a GPU went out of order: counted where it belongs. */
void watch_event(struct watch *watch, const struct ctl_event *event);

/* GPU time by virtual cluster, type and class of use since the controller started, in microseconds. */
enum use_class { USE_GUARANTEED, USE_BORROWED, USE_OPPO, USE_CLASSES };
int64_t watch_used(const struct watch *watch, uint32_t vc, uint32_t sku, enum use_class klass);

/* Times a GPU went out of order, by the error it told ("79", or "other"). */
struct gpu_fault {
    uint32_t node, gpu, count;
    char xid[12];
};
const struct gpu_fault *watch_faults(const struct watch *watch, size_t *ret_count);

/* What a virtual cluster used over what it was owed, mean of the last seven days. */
struct scene;
double watch_share(const struct scene *scene, uint32_t vc);

/* Waits of jobs that started lately, by size class: at most `max` of them, in seconds, ascending. */
size_t watch_waits(const struct watch *watch, unsigned size_class, double *ret_waits, size_t max);
