/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* task_progress.h - how far tasks are, as their shepherds tell it, on its way to the controller.
 *
 * Told with the beat where it has changed since; at once when the first rate is known, when the rate is another by more
 * than a tenth, and when a job stalls or goes on. Nothing of it is durable: what is lost with a connection is told
 * again on the next.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "coord/pace.h"

struct agent;
struct task;

/* What the controller is told of the counter: PROGRESS_STALLED after a minute, and twenty steps' time, without one. */
enum progress_state { PROGRESS_NONE, PROGRESS_MOVES, PROGRESS_STALLED };
enum progress_source { PROGRESS_OF_SOCKET, PROGRESS_OF_OUTPUT, PROGRESS_OF_RUNTIME, PROGRESS_OF_EMULATION };

struct task_progress {
    enum progress_state state;
    enum progress_source source;
    bool fresh; /* there is something to tell */
    bool has_loss;
    int64_t step, rate, loss, epoch, total; /* as in wire/agent/progress.h; -1 = not told. rate: millionths a second */
    usec_t at;                              /* of the last step, since 1970 */
    int64_t told_rate;
    struct pace pace; /* of what the GPU runtime has counted, */
    int64_t pace_pid; /* of this process */
    uint8_t util;     /* of its GPUs, percent, at the last beat */
    uint32_t memory;  /* MiB, of the fullest of them */
    struct {          /* the same while nothing else was on them, and its rate then; rate 0 = not known */
        uint8_t util;
        uint32_t memory;
        int64_t rate;
    } alone;
};

/* What a shepherd says of it. */
void task_progress_take(struct task *task, const json_t *said);
/* task_emulate.c: tasks of the node slow each other by who is on their GPUs now; how far one is. */
void emulate_settle(struct agent *agent);
void emulate_progress(struct task *task);
/* Rows for the controller of what has changed, [job, attempt, rank, ...] (docs/protocol.md); NULL: nothing has. */
json_t *agent_progress(struct agent *agent);
/* The GPU runtime has counted so many mini-batches of a process of it; taken where the job says nothing itself. */
void task_progress_counted(struct task *task, int64_t pid, int64_t steps);
/* What it does while it has its GPUs to itself is remembered. */
void task_use_alone(struct task *task);
/* What it uses of GPUs that it shares: percent, summed over them, and MiB; false: nobody can tell. Of an emulated GPU
 * that is what its processes use; of a card, what it used alone, as far as its steps are as fast as then. */
bool task_use_beside(const struct task *task, uint32_t *ret_util, uint32_t *ret_memory);
/* What there is to tell goes with this turn of the loop, not with the next beat. */
void agent_progress_now(struct agent *agent);
bool task_alone(const struct task *task); /* inventory.c: nothing else is on its GPUs */
/* All of it is to be told: the connection is new. */
void agent_progress_again(struct agent *agent);
