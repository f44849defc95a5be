/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* agent_msg.h - what controller and agents say to each other: frames of JSON, docs/protocol.md.
 *
 * A frame is four bytes of length, most significant first, and one JSON object with its kind in "t". The connection is
 * an HTTP/1.1 request `GET /agent/v1` upgraded to `muster-agent`. Decoders take any bytes and never trust a length.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/units.h"

enum { FRAME_BYTES_MAX = 8 << 20, AGENT_GPUS_MAX = 256, AGENT_TASKS_MAX = 65536, AGENT_NAME_MAX = 255 };

/* What has become of a task. Reports carry it; the journal of an agent is a list of them. */
#define TASK_STATES(X)                                                                                                 \
    X(PREPARING, "preparing") /* launch was taken; limits, image, directories are being made */                        \
    X(READY, "ready")         /* waits at its gate */                                                                  \
    X(RUNNING, "running")                                                                                              \
    X(SUSPENDED, "suspended")                                                                                          \
    X(STOPPING, "stopping") /* was told to leave, grace is running */                                                  \
    X(EXITED, "exited")     /* gone, with exit code or signal; GPUs, cgroup and children too */                        \
    X(REFUSED, "refused")   /* could not be started: cause says why, blame who */                                      \
    X(KEPT, "kept")         /* its processes have ended and it failed; its place is kept to be looked at */

enum task_state {
#define X(code, name) TASK_##code,
    TASK_STATES(X)
#undef X
        TASK_STATE_COUNT
};

struct task_id {
    int64_t job;
    uint32_t attempt, rank; /* rank: of the node in the placement */
};

/* Agent -> controller. */
/* The protocol that this version speaks, and the oldest peer that it understands (docs/protocol.md, Versions). */
enum { AGENT_PROTOCOL = 1, AGENT_PROTOCOL_LEAST = 1 };

enum agent_up { UP_HELLO, UP_REPORT, UP_BEAT, UP_ANSWER, UP_PROGRESS, UP_COUNT };
/* Controller -> agent. */
enum agent_down {
    DOWN_WELCOME, /* answer to hello: lease, beat period, last report number taken; then DOWN_KEEP and orders follow */
    DOWN_KEEP, /* the tasks this node should have: others are killed and cleaned; missing ones reported exited/lost */
    DOWN_ORDER,
    DOWN_ACK,  /* reports up to `seq` are durable */
    DOWN_BEAT, /* echo of a beat: renews the lease */
    DOWN_BYE,  /* the controller will not have this connection, and says why before it closes it */
    DOWN_ASK,  /* read a log, run a command inside a task, ...; answered by UP_ANSWER with the same id */
    DOWN_COUNT
};

enum order_kind {
    ORDER_LAUNCH, /* prepare; `go` true: and start at once */
    ORDER_GO,
    ORDER_STOP,    /* notice, signal, grace, kill; `kind` of notice: preempt timeout cancel drain */
    ORDER_SUSPEND, /* off the GPU, the process is kept */
    ORDER_RESUME,
    ORDER_SIGNAL,
    ORDER_LIMIT,  /* so much memory of each GPU, so much of their time; see docs/protocol.md */
    ORDER_CLEAN,  /* the controller has recorded the exit: directories and journal of the task may go */
    ORDER_REBOOT, /* of the node, not of a task; only when nothing runs there */
    ORDER_COUNT
};

/* Bodies are JSON objects; these are the helpers both ends share. Keys of each kind: docs/protocol.md. */
struct json_t;
const char *task_state_name(enum task_state state);
int task_state_find(const char *name); /* -ENOENT */
const char *order_name(enum order_kind kind);
int order_find(const char *name);
const char *agent_up_name(enum agent_up kind);
const char *agent_down_name(enum agent_down kind);
int agent_up_find(const char *name);
int agent_down_find(const char *name);

/* Splits a stream into frames. Feed bytes; take whole payloads. -EMSGSIZE for a length beyond the limit: the
 * connection is not to be trusted any more. */
struct frame_reader {
    struct buf buf;
    size_t taken;
    size_t max;
};

void frame_reader_init(struct frame_reader *reader, size_t max);
void frame_reader_done(struct frame_reader *reader);
/* At most 1 MiB at a time, after all whole frames of the last feed were taken. */
int frame_reader_feed(struct frame_reader *reader, const void *data, size_t size, struct error *err);
/* 1 and a borrowed payload (until the next feed), 0 when there is none, -errno. */
int frame_reader_next(struct frame_reader *reader, const char **ret_data, size_t *ret_size, struct error *err);
/* One frame whose bytes are appended between the two; where that fails, nothing of it is left. */
size_t frame_open(struct buf *out);
int frame_close(struct buf *out, size_t start, struct error *err);
/* Appends one frame. */
int frame_write(struct buf *out, const char *data, size_t size, struct error *err);
