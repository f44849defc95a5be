/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* node_record.h - a node and its GPUs in the registry (registry.h). */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "wire/agent/inventory.h"

struct ctl_gpu {
    bool ok, drained, foreign;
    bool told_bad; /* what the core was last told, before it was stepped. Not in the log */
    char reason[64];
    /* From beats; not in the log. */
    uint8_t util, temp;
    uint32_t memory_mib, power;
};

/* Whether a node is to be started anew: when nothing runs there; it was told to. */
enum reboot_state { REBOOT_NONE, REBOOT_WANTED, REBOOT_ORDERED };

struct ctl_node {
    uint32_t name; /* names */
    char address[64];
    char agent[40], boot[40], version[24];
    char machine[48];                 /* the number of its board; "" = not told */
    char instance[40];                /* of its agent, of the process that is connected; not in the log */
    int64_t stuck_job, stuck_seconds; /* killed for so long and not gone; 0 = none. Not in the log */
    usec_t greeted;                   /* that one has said hello; not in the log */
    usec_t rival;                     /* another agent was refused under its name; 0 = none. Not in the log */
    char rival_at[64];                /* where that one is */
    uint64_t report_seq;              /* last report taken of this incarnation */
    uint32_t joins;                   /* how often it has */
    struct inventory inventory;
    uint32_t core_node; /* number in the core's cluster; UINT32_MAX: not in it */
    usec_t lease;       /* its tasks go on for so long at most when it hears nobody; 0: as long as they like */
    bool joined, silent, lost, drained, forgotten;
    uint64_t told_step; /* of the core, before which it was told of the node: told_up and told_closed. Not in the log */
    bool told_up, told_closed;
    bool vacated;       /* nobody is there whom the core has there no longer; false: not known. Not in the log */
    bool connected;     /* right now; not in the log */
    uint64_t ack_batch; /* whose reports it was told were taken; not in the log */
    usec_t seen;        /* last beat; not in the log */
    usec_t gone;        /* its connection was closed; 0 = it was not. Not in the log */
    bool untold;        /* a launch for it was told to nobody. Not in the log */
    usec_t ahead;       /* its clock, of ours, by the last beat; not in the log */
    usec_t drain_deadline;
    uint32_t reboot;   /* enum reboot_state */
    uint32_t refusals; /* starts in a row it could not carry out (node_refusal.c) */
    usec_t rest_until; /* drained by itself until then; 0 */
    usec_t barred;     /* certificates made until then are worth nothing; 0 */
    char drain_reason[128];
    uint16_t gpu_count;
    struct ctl_gpu *gpus;
};
