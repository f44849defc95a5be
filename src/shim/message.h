/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* message.h - what a job process, a tool and the node side say to one another over the socket. */
#include <stddef.h>
#include <stdint.h>

/* Messages on the SOCK_SEQPACKET socket. Each begins with a head; an unknown type is skipped by its length. */
enum message_type {
    MSG_HELLO = 1,    /* job -> node */
    MSG_WELCOME,      /* node -> job, with the page's descriptor */
    MSG_DEVICE,       /* job -> node: a context on this GPU exists */
    MSG_ARENA,        /* node -> job, with the arena's descriptor */
    MSG_KICK,         /* node -> job: look at the command ring */
    MSG_DONE,         /* job -> node: a reply is in the ring */
    MSG_NEED,         /* job -> node: a guaranteed job's allocation found no memory */
    MSG_BESIDE,       /* node -> job, with the descriptor of the neighbours' page */
    MSG_CONTROL = 64, /* tool -> node; the answer is text */
};

#define MESSAGE_MAX 4096
#define MESSAGE_NAME_MAX 64
#define MESSAGE_VERSION_MAX 32
struct message_head {
    uint32_t type, size;
};

enum message_capability {
    CAPABLE_MOVE = 1,       /* the driver maps memory */
    CAPABLE_CHECKPOINT = 2, /* and checkpoints processes */
    CAPABLE_LOOKUP = 4,     /* both ways to look a function up give the same */
};

struct message_hello {
    struct message_head head;
    uint32_t abi, role, pid, mode;
    uint64_t start_ticks; /* of the process, as /proc tells it */
    uint64_t memory_bytes, host_bytes, pool_bytes;
    uint32_t driver_version; /* of CUDA, as 12080; 0 = not told */
    uint32_t capabilities;   /* enum message_capability, added up */
    char job[MESSAGE_NAME_MAX], exe[MESSAGE_NAME_MAX];
    /* Fields are only appended: a library that is older sends none of these. */
    char version[MESSAGE_VERSION_MAX]; /* of the library */
    uint32_t share, spare;             /* permille of the time it begins with; 0 = not told */
};

#define MESSAGE_HELLO_LEAST offsetof(struct message_hello, version)

struct message_welcome {
    struct message_head head;
    uint32_t abi, role;
    uint64_t generation;
};

struct message_device {
    struct message_head head;
    uint32_t gpu, spare; /* the process' own number of the GPU */
    uint8_t uuid[16];
    uint64_t bytes; /* MSG_DEVICE: total memory. MSG_NEED: what is missing */
};
