/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* book_node.h - a node and its GPUs in the book (book.h). */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct book_gpu {
    bool ok, drained, foreign;
    char reason[64];
    /* From beats; not in the log. */
    uint8_t util, temp;
    uint32_t memory_mib, power;
};

/* Whether a node is to be started anew: when nothing runs there; it was told to. */
enum reboot_state { REBOOT_NONE, REBOOT_WANTED, REBOOT_ORDERED };

struct book_node {
    uint32_t name; /* names */
    char address[64];
    char agent[40], boot[40], version[24];
    uint64_t report_seq; /* last report taken of this incarnation */
    uint32_t joins;      /* how often it has */
    json_t *inventory;
    json_t *labels;     /* given by people, over those of the inventory; NULL */
    uint32_t core_node; /* number in the core's cluster; UINT32_MAX: not in it */
    bool joined, silent, lost, drained, forgotten;
    bool vacated;       /* nobody is there whom the core has there no longer; false: not known. Not in the log */
    bool connected;     /* right now; not in the log */
    uint64_t ack_batch; /* whose reports it was told were taken; not in the log */
    usec_t seen;        /* last beat; not in the log */
    usec_t gone;        /* its connection was closed; 0 = it was not. Not in the log */
    bool untold;        /* a launch for it was told to nobody. Not in the log */
    usec_t ahead;       /* its clock, of ours, by the last beat; not in the log */
    usec_t drain_deadline;
    uint32_t reboot;   /* enum reboot_state */
    uint32_t refusals; /* starts in a row it could not carry out (sick.c) */
    usec_t rest_until; /* drained by itself until then; 0 */
    usec_t barred;     /* certificates made until then are worth nothing; 0 */
    char drain_reason[128];
    uint16_t gpu_count;
    struct book_gpu *gpus;
};
