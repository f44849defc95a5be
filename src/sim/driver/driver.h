/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* driver.h - replays a trace: the world answers the core's effects, and time jumps from event to event.
 *
 * At one instant: ends and answers that are due, faults, arrivals; one step; the answers that come at once; and again
 * until it is quiet. Equal instants are handled in the order of enum event_kind, then by job id.
 */
#include "base/error.h"
#include "core/core.h"
#include "model/trace.h"
#include "sim/result.h"
#include "sim/world/world.h"

/* Called for every decision, in order; `core` may be read. */
typedef void (*driver_decision_fn)(void *arg, const struct core *core, const struct decision *decision,
                                   const uint32_t *gpus);

/* Called when everything about an instant is settled; `core` may be read. */
typedef void (*driver_instant_fn)(void *arg, const struct core *core);

/* What a person or the machine room does at a given instant, besides the trace and the world's own faults. An event
 * about a job that has not come yet or is over is passed over. */
struct driver_event {
    usec_t at;
    enum event_kind kind; /* NODE, GPU, QUOTA, CANCEL, HOLD or RELEASE; COUNT: nothing, but the instant is visited */
    uint32_t target;      /* index of the job in the trace; or node, GPU, virtual cluster */
    bool up;              /* NODE, GPU */
    uint16_t sku;         /* QUOTA */
    int32_t value;        /* QUOTA */
};

/* A core that somebody else steps: a controller in virtual time. Events about a job come with its number in the trace.
 */
struct driver_port {
    int (*offer)(void *arg, const struct event *event, uint32_t job, struct error *err);
    /* Everything offered happens at `at`; what the core put out, and the core itself. */
    int (*step)(void *arg, usec_t at, const struct outbox **ret_outbox, struct core **ret_core, struct error *err);
    /* The reference of a job that was submitted before the last step. -ENOENT: it was refused. */
    int (*find)(void *arg, uint32_t job, struct job_ref *ret_ref);
    struct core *core; /* at the start */
    void *arg;
};

struct driver_config {
    const struct driver_port *port; /* NULL: a core of its own */
    const struct trace *trace;
    const struct cluster_spec *cluster;
    const struct policy_setup *policies; /* one a virtual cluster */
    const uint32_t *job_vcs;             /* virtual cluster of each job of the trace */
    const uint8_t *licenses;   /* numbers of the trace's licences in the cluster, LICENSES_MAX: none; NULL = the same */
    const uint32_t *type_skus; /* [32]: of each type of the trace, the same of the cluster as a mask; NULL = the same */
    const uint32_t *job_skus;  /* allowed GPU types of each job, 0 = any; NULL = all any */
    struct world_config world;
    const struct driver_event *script; /* ascending in time; may be NULL */
    size_t script_count;
    usec_t round;
    usec_t until; /* stop there; 0 = when everything has ended */
    uint64_t seed;
    uint32_t reload_every;          /* save the core, drop it and load it again every so many instants; 0 = never */
    uint32_t carry_every;           /* the same, but into a cluster made anew (core_carry) */
    bool skip_infeasible;           /* a job that can never run is marked refused; else it is an error */
    bool keep_told;                 /* what policies tell of themselves: queues, promotions, predictions */
    bool keep_series;               /* samples and Gantt bars for a report */
    driver_decision_fn on_decision; /* may be NULL */
    void *on_decision_arg;
    driver_instant_fn on_instant; /* may be NULL */
    void *on_instant_arg;
};

/* -EINVAL, -ERANGE (an impossible job), -ENOMEM, in words. Timing and memory of the summary are filled in. */
int driver_run(const struct driver_config *config, struct run_result *ret_result, struct error *err);
