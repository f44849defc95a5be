/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* driver_internal.h - the inside of the driver, shared by its files: driver.c (the loop), driver_actor.c (jobs as the
 * world sees them), driver_answer.c (what happens in the world), driver_effect.c (what it does for the core),
 * driver_series.c (what is kept for the report).
 */
#include "base/heap.h"
#include "base/rng.h"
#include "model/measure.h"
#include "sim/driver/driver.h"
#include "sim/driver/predict.h"

#define DRIVER_NOBODY UINT32_MAX

enum due { DUE_NOTHING, DUE_STARTED, DUE_STOPPED, DUE_END, DUE_FAIL, DUE_SAVE, DUE_IDLE, DUE_LEFT, DUE_LOST };

/* One job of the trace as the world sees it. */
struct actor {
    uint32_t slot, gen; /* reference in the core */
    uint8_t due;        /* what its instant in the heap stands for */
    uint8_t fails;      /* attempts that failed */
    uint32_t node;      /* all its GPUs were last there; UINT32_MAX: on several, or nowhere yet */
    bool in_core, running;
    bool parked;             /* suspended, not stopped */
    uint8_t reshaped;        /* enum reshape: what was last done to it, until it runs again */
    uint32_t size;           /* GPUs it has */
    ppm_t alone, moved_from; /* its rate if nobody were beside it; before its last move, 0 = it has not moved */
    uint32_t beside;         /* the job it was packed with when it last started; DRIVER_NOBODY */
    usec_t since;            /* progress below is up to here */
    usec_t progress;         /* true progress, in nominal run time */
    usec_t saved;            /* of it, what a crash cannot take */
    usec_t charged;          /* when an event last cost it something, or it began to run */
    usec_t prepared_at, save_end, true_end;
    usec_t restart_at; /* it goes on elsewhere then, once it has left */
    usec_t saved_at;   /* of a move: from then on what it had is saved */
    uint32_t moves;    /* so far */
    uint32_t from;     /* the node it moves from; UINT32_MAX: several */
    uint8_t fate;      /* enum world_move, of its present move */
    bool moving;       /* it is on its way */
    usec_t left_at;    /* when it was last saved and gone from its GPUs */
    uint32_t dumps;    /* times it was saved whole */
    uint32_t region;   /* domain of its first GPU, when it last ran; 0 = never */
    usec_t used;       /* time it used its GPUs, once that is over; 0: as the core counts it */
    bool prepared;     /* launched before its GPUs were free, since prepared_at */
    bool told;         /* over at true_end, and the node's heartbeat is awaited */
    ppm_t rate;
    ppm_t lost;             /* of its rate, to guests beside it */
    bool guest;             /* on GPUs that are not its own */
    struct world_pace pace; /* where the world counts progress so */
};

struct driver {
    const struct driver_config *config;
    const struct trace *trace;
    struct core_config core_config;
    struct core *core;
    struct world *world;
    struct observer *observer; /* NULL where nobody listens */
    struct batches *batches;   /* the same */
    struct searches *searches; /* NULL: no kill rule */
    struct actor *actors;
    uint32_t *actor_of_slot; /* by slot of the core */
    struct span *open;       /* by GPU, BAR_LANES each: the bars under way */
    void *heap_memory;
    struct heap heap; /* by job of the trace */
    struct run_result *result;
    struct error *err;
    size_t next_arrival, next_script;
    size_t next_settled; /* with a port: jobs before it have their references */
    struct world_fault fault;
    bool has_fault;
    uint32_t *touched; /* jobs whose speed may have changed */
    size_t touched_count;
    bool sharing;                /* some job shares a GPU */
    struct predictor *predictor; /* NULL: requests are taken as stated */
    usec_t *idle_since;          /* by GPU: last use of it; 0: in use, or never used */
    int64_t *answer;             /* room for what a computation gives; taken when the first is asked for */
    void *window_memory;         /* NULL: nobody asks for the use of GPUs */
    struct heap windows;         /* by job: when the use of its GPUs is told */
    uint64_t ended, events;
    usec_t now;
};

/* Jobs on one GPU that a chart can tell apart. */
enum { BAR_LANES = 4 };

enum { TOUCHED_MAX = 1 << 16 };

enum { NEIGHBOURS_MAX = 64 };

/* driver.c */
int driver_offer(struct driver *d, const struct event *event, uint32_t index, struct job_ref *ret_ref);

/* driver_actor.c */
/* Whether the job is at that GPU, or about to be: not one it only leaves, nor one that others have to leave before. */
static inline bool share_here(const struct job *job, const struct share *share)
{
    return !(job->sheds && share->leaving) && share->part != PART_NEW;
}

struct world_shape shape_of(const struct driver *d, uint32_t slot);
uint32_t region_of(const struct driver *d, uint32_t slot); /* domain of its first GPU; 0 = it has none */
ppm_t rate_of(const struct driver *d, uint32_t index);
ppm_t rate_alone(const struct driver *d, uint32_t index); /* as if nobody were beside it */
void actor_settle(struct driver *d, struct actor *a);
void actor_due(struct driver *d, uint32_t index, enum due due, usec_t at);
void actor_plan_end(struct driver *d, uint32_t index);
void actor_touch(struct driver *d, uint32_t index);
void actor_touch_neighbours(struct driver *d, uint32_t slot);

/* driver_stage.c */
usec_t stage_launch(struct driver *d, uint32_t index); /* what is left of it; forgets that it was prepared */
void stage_prepare(struct driver *d, uint32_t index);
void stage_share(const struct driver *d, struct jobspec *spec); /* one GPU becomes a share of one, where asked for */
void stage_save(struct driver *d, uint32_t index);
int stage_idle(struct driver *d, uint32_t index);
bool stage_unreported(struct driver *d, uint32_t index);
void stage_last_use(struct driver *d, uint32_t index);
void stage_idle_begin(struct driver *d, uint32_t slot);
void stage_idle_end(struct driver *d, uint32_t index);

/* driver_answer.c */
int offer_about(struct driver *d, struct event *event, uint32_t index); /* an event about this job */
int offer_started(struct driver *d, uint32_t index);
int offer_stopped(struct driver *d, uint32_t index);
void actor_gone(struct driver *d, uint32_t index);  /* it runs no more, not by its own doing */
void actor_crash(struct driver *d, uint32_t index); /* what survives: its last checkpoint, or what a stop has saved */
int answer_due(struct driver *d);
int answer_event_costs(struct driver *d);
int answer_faults(struct driver *d);
int answer_script(struct driver *d);
void answer_settled(struct driver *d, uint32_t index, const struct job_ref *ref);
int answer_arrival(struct driver *d, uint32_t index);
int answer_rates(struct driver *d);
void answer_collect(struct driver *d, uint32_t index);

/* driver_effect.c */
int answer_outbox(struct driver *d, const struct outbox *out);

/* driver_move.c */
/* It takes so long to leave, and so long in all until it goes on. */
void move_begin(struct driver *d, uint32_t index, usec_t leave, usec_t all);
int move_restart(struct driver *d, uint32_t index); /* it goes on when that is over, or now, if it does */
int move_failed(struct driver *d, uint32_t index);
int move_source_lost(struct driver *d, uint32_t node); /* whoever was leaving it fails */
bool move_saved(const struct driver *d, const struct actor *a);
void move_over(struct actor *a);

/* driver_use.c */
int use_init(struct driver *d);
void use_changed(struct driver *d, uint32_t index);
void use_role(struct driver *d, uint32_t index);
void use_settled(struct driver *d, const struct actor *a, usec_t progress);
usec_t use_next(const struct driver *d);
int answer_uses(struct driver *d);

/* observe_drive.c */
int answer_reports(struct driver *d);
int answer_told(struct driver *d, uint32_t index);

/* observe_profile.c */
int answer_profile(struct driver *d, uint32_t index);

/* driver_series.c */
void bars_close(struct driver *d, uint32_t index);
void bars_open(struct driver *d, uint32_t slot, uint8_t kind);
void bars_share(struct driver *d, uint32_t index);
void bars_close_all(struct driver *d);
int series_sample(struct driver *d);
int series_told(struct driver *d);
