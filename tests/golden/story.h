/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* story.h - a golden file: what happens to a cluster, and what the scheduler is expected to decide.
 *
 *   cluster  racks:1 nodes:2 gpus:4            as in --cluster, short form
 *   vc       NAME guarantee=2_nodes (guarantee.SKU=8_gpus_in_4s+1_rack) user_max=8   cells, as in a cluster file
 *   vc       NAME quota=4 borrow=none|all|N [policy=P] [key=value]...     quota.SKU=N where there are several types
 *   licenses NAME:4 OTHER:1                                               that the cluster counts
 *   policy   fifo-skip place=consolidate restart=60s seed=7               as in --policy and --set
 *   @0s      submit a gpus=4 run=60s [vc= user= share= class= priority= estimate= limit= sku= retries= min= max=
 *            cpus= host-memory= tasks= (without GPUs) per-node= topology=rack:must cells=socket:4
 *            licenses=NAME:2,OTHER side=TYPE:GPUS:PER_NODE skew= servers= bandwidth= memory= launch= save=]
 *                     [deadline=] [fail=user|system|unknown after=30s times=1|all]
 *   @7s      node n0 down|up; gpu n0:3 (or n0:0-5) down|up; cancel a; hold a; release a; rank a 5; quota VC 6 [SKU]
 *   @8s      why a              writes down why it waits, or its state, when the instant is settled
 *   show     jct delays         adds the mean completion time, the waiting of each job to what is expected
 *   expect
 *   @0s      start a n0:0-3
 *   @5s      wait  b InsufficientGpus needs=8 free=4
 *
 * Jobs are numbered in the order of the file, which is the last tie-break. # begins a comment.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "sim/scenario.h"

enum { STORY_SETTINGS_MAX = 32, STORY_EVENTS_MAX = 256, STORY_EXPECT_MAX = 4096, STORY_BYTES_MAX = 1 << 20 };

/* One instant at which somebody looks at a job. */
struct story_why {
    usec_t at;
    uint32_t job; /* id */
};

struct story {
    const char *file;
    char *text;        /* owned; the lines below point into it */
    size_t head_bytes; /* up to and with the line `expect` */
    struct cluster_spec cluster;
    struct trace trace; /* ids are names */
    char *policy;
    struct setting settings[STORY_SETTINGS_MAX];
    size_t setting_count;
    struct driver_event events[STORY_EVENTS_MAX];
    size_t event_count;
    struct story_why whys[STORY_EVENTS_MAX];
    size_t why_count;
    bool show_jct, show_delays;
    uint64_t seed;
    char *expect[STORY_EXPECT_MAX];
    int expect_line[STORY_EXPECT_MAX];
    size_t expect_count;
};

/* -EINVAL, -E2BIG: *err has file:line. */
int story_read(const char *file, struct story *ret_story, struct error *err);
void story_done(struct story *story);

/* Runs it and writes one line a decision. The digest is that of the core. */
int story_run(const struct story *story, struct buf *lines, uint64_t *ret_digest, struct error *err);
