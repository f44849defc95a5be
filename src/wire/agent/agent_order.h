/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* agent_order.h - what the controller tells an agent to do, as a struct, and its frame (docs/protocol.md).
 *
 * Whoever decides fills the struct; only what is sent is written. Texts and lists are borrowed.
 */
#include "wire/agent/agent_msg.h"

enum { ORDER_BESIDE_MAX = 8 };

/* Where a rank is. */
struct order_place {
    const char *node, *address;
    const uint16_t *gpus;
    uint16_t gpu_count;
    uint8_t part; /* of a gang on several types of GPU; 0: the first */
};

struct order_secret {
    const char *name, *value; /* value: NULL where it cannot be read */
};

/* A task that a node may keep. */
struct keep_task {
    struct task_id id;
    bool fresh; /* its launch may be still to come */
    usec_t born;
};

struct agent_order {
    enum agent_down frame; /* DOWN_ORDER, or DOWN_KEEP with `tasks` */
    enum order_kind kind;
    int64_t job; /* all but REBOOT */
    uint32_t attempt;
    /* LAUNCH */
    uint32_t rank, uid, gid;
    bool go, resume, gate;
    bool use, idle, runtime, opportunistic, guest; /* whose GPUs it is on, and what its node has to watch */
    usec_t born, end;                              /* end: by its time limit; 0 = none */
    const char *user, *vc, *cluster, *spec;        /* spec: canonical JSON */
    uint16_t port;
    struct order_secret *secrets; /* NULL: it asks for none */
    size_t secret_count;
    const struct order_place *place; /* of all its ranks */
    uint32_t place_count;
    int64_t array_id; /* 0 = not of an array */
    int32_t array_index;
    /* LAUNCH, GO, RESUME: jobs that only save their results on its GPUs, or are packed with it */
    int64_t beside[ORDER_BESIDE_MAX];
    uint32_t beside_count;
    /* LAUNCH, LIMIT */
    bool limited;
    uint32_t memory_mib, percent;
    /* STOP */
    const char *stop; /* what for */
    bool resize;
    int64_t keep_ms, grace_ms, by; /* keep_ms, by: 0 = not told */
    /* STOP, SIGNAL; 0 = none */
    int signal;
    /* REBOOT */
    const char *boot;
    /* KEEP */
    const struct keep_task *tasks;
    size_t task_count;
};

/* A frame ready to be sent. */
struct agent_frame {
    enum agent_down kind;
    enum order_kind order; /* of DOWN_ORDER */
    const char *text;
    size_t size;
};

void agent_order_write(const struct agent_order *order, struct buf *out);
