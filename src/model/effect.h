/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* effect.h - what the core wants done, and what it decided.
 *
 * Effects are orders to the world, simulated or real; the answer comes back as an event. Decisions are the record: they
 * feed explanations, golden stories, the digest and the report, and are the same in daemon and simulator.
 */
#include <stddef.h>

#include "base/units.h"
#include "model/promise.h"
#include "model/reason.h"

enum effect_kind {
    EFFECT_START,   /* launch it on the GPUs the ledger now gives it; answer STARTED */
    EFFECT_RESUME,  /* the same for a job that has run before */
    EFFECT_STOP,    /* make it leave by `step`; answer STOPPED */
    EFFECT_MIGRATE, /* it leaves its GPUs for others; answer STARTED */
    EFFECT_KILL,    /* its hardware is gone or a person wants it; no answer expected */
    EFFECT_FORGET,  /* it is over and its slot is free again */
    EFFECT_PREPARE, /* launch it up to the gate before it first uses its GPUs; START or RESUME opens it, KILL ends it */
    EFFECT_SPLICE,  /* it goes on elsewhere on more or fewer GPUs, its world as it is; answer STOPPED if it leaves some
                       of those it had (when it has left them), and STARTED */
    EFFECT_SAVE,    /* it is to save itself where it runs, against a crash; no answer expected */
    EFFECT_SOLVE,   /* compute something for virtual cluster `vc`; answer SOLVED */
    EFFECT_LIMIT,   /* from now on it has `memory_mib` of each of its GPUs and `percent` of their time; no answer */
    EFFECT_COUNT
};

struct effect {
    enum effect_kind kind;
    uint32_t job, gen;
    uint8_t step;                    /* enum stop_step */
    uint32_t vc, ticket, solve;      /* SOLVE: for whom, which request, enum solve_kind */
    uint32_t word_first, word_count; /* SOLVE: into outbox.words */
    uint32_t memory_mib, percent;    /* LIMIT: 0 MiB = no cap; 0 % = paused, 100 % = no limit */
};

#define DECISIONS(X)                                                                                                   \
    X(START, "start")                                                                                                  \
    X(STOP, "stop")                                                                                                    \
    X(MIGRATE, "move")                                                                                                 \
    X(WAIT, "wait")                                                                                                    \
    X(RESERVE, "reserve")                                                                                              \
    X(RELAX, "relax")                                                                                                  \
    X(END, "end")                                                                                                      \
    X(FAIL, "fail")                                                                                                    \
    X(RETRY, "retry")                                                                                                  \
    X(REFUSE, "refuse")                                                                                                \
    X(SUSPEND, "suspend")                                                                                              \
    X(RESUME, "resume")                                                                                                \
    X(KILL, "kill")                                                                                                    \
    X(PROMISE, "promise") /* it will end by `until` */                                                                 \
    X(DECLINE, "decline") /* no deadline of it could be promised; `until`: the earliest that could */                  \
    X(BREAK, "break")     /* what was promised will not be, or was not, kept; `breach`: why */                         \
    X(BAD, "bad")         /* a policy proposed something the core refused: a defect of the policy */                   \
    X(PREPARE, "prepare") /* launched up to its gate, behind the job that has its GPUs */                              \
    X(YIELD, "yield")     /* saves its result and leaves its GPUs to others */                                         \
    X(PACK, "pack")       /* beside another on that one's GPUs; `needs`: whom */                                       \
    X(UNPACK, "unpack")   /* leaves the one it was packed with; `needs`: whom */                                       \
    X(SPLICE, "splice") /* another size with the same world: replicas take turns on fewer GPUs, or on fewer no more */ \
    X(TIER, "tier")     /* treated as of another tier than it asks for; `needs`: which */                              \
    X(SAVE, "save")     /* a checkpoint against crashes */                                                             \
    X(LIMIT, "limit")   /* may have `needs` MiB of each GPU (0: all it likes) and `free` percent of its time */        \
    X(CLASS, "class")   /* is of class `needs` from now on */                                                          \
    X(SIZE, "size")     /* a person wants it on `needs` GPUs; 0: on as many of its range as its policy likes */

enum decision_kind {
#define X(code, name) DECISION_##code,
    DECISIONS(X)
#undef X
        DECISION_COUNT
};

const char *decision_name(enum decision_kind kind);

struct decision {
    usec_t at;
    int64_t id; /* of the job */
    uint32_t job;
    uint32_t vc;
    enum decision_kind kind;
    enum reason reason;
    int64_t needs, free; /* thousandths of GPUs, where a reason speaks of them; level for RELAX; by whom for STOP;
                          * beside whom for PACK and UNPACK */
    usec_t until;        /* PROMISE, DECLINE (USEC_NEVER: none), BREAK */
    uint8_t breach;      /* BREAK: enum breach */
    uint32_t gpu_first, gpu_count; /* START: into outbox.gpus */
};

/* Filled by a step; borrowed until the next one. */
struct outbox {
    struct effect *effects;
    struct decision *decisions;
    uint32_t *gpus;
    int64_t *words; /* of requests to solve */
    size_t effect_count, effect_capacity, decision_count, decision_capacity, gpu_count, gpu_capacity;
    size_t word_count, word_capacity;
};
