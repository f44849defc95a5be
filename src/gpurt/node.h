/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* node.h - the node side of the GPU runtime: who is registered, what each may do, and the loop that tells them.
 *
 * One process a node (or a user), one thread, one socket. Job processes register with their page; tools send one line
 * and get one answer. Whatever this process decides is written into pages that keep working without it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "coord/duty.h"
#include "coord/pair.h"
#include "gpurt/context.h"
#include "gpurt/control/clocks.h"
#include "gpurt/control/edge.h"
#include "gpurt/control/memory.h"
#include "gpurt/control/starve.h"
#include "gpurt/control/unruly.h"
#include "gpurt/foreign.h"
#include "gpurt/ladder/estimate.h"
#include "gpurt/ladder/hold.h"
#include "gpurt/ladder/save.h"
#include "gpurt/ladder/torch.h"
#include "shim/page.h"

#define NODE_CLIENTS 512
#define NODE_ASKS 64
#define NODE_PENDING 512
#define NODE_TEXT 180000 /* the longest answer: a message, so below the socket's buffer */
#define NODE_LINE 512
#define NODE_LEASE_NS 5000000000ULL

enum client_state { CLIENT_RUNNING, CLIENT_PAUSED, CLIENT_EVICTED, CLIENT_RELEASED, CLIENT_FAILED, CLIENT_STATE_COUNT };

/* What a client was told to do, step by step; see ladder.c. */
enum ladder_step {
    STEP_NONE,
    STEP_SYNC,    /* pausing: waiting for the work in flight */
    STEP_EVICT,   /* its own copies */
    STEP_RELEASE, /* the driver's checkpoint of the rest */
    STEP_RESTORE, /* the driver's restore */
    STEP_RELOAD,  /* its own copies, home */
    STEP_SPILL,
    STEP_PROMOTE,
    STEP_SAVE,     /* the program's own checkpoint */
    STEP_END,      /* after that: it is to end */
    STEP_BASELINE, /* how long its steps are with nobody beside it */
    STEP_DUMP,     /* it lets go of us */
    STEP_STATS,    /* PyTorch's own book */
    LADDER_STEP_COUNT
};

struct client {
    int fd; /* -1 = free slot */
    pid_t pid;
    uid_t uid; /* whose it is */
    uint64_t start_ticks;
    struct page *page;
    uint32_t role, mode;
    uint32_t driver_version, capabilities; /* as message.h has them */
    char job[MESSAGE_NAME_MAX], exe[MESSAGE_NAME_MAX], version[MESSAGE_VERSION_MAX];
    int arena[PAGE_GPUS]; /* our number of each of its GPUs, -1 none */
    enum client_state state, goal;
    enum ladder_step step;
    uint64_t step_seq, step_since_ns, step_bytes;
    struct page_reply moved;                /* the last reply, for its times; of a limit the sum of all */
    uint64_t rung_ns[LADDER_STEP_COUNT];    /* how long the last of each took */
    uint64_t order_since_ns;                /* when the tool asked */
    int guardian;                           /* socket to it, -1 none */
    uint64_t guardian_since_ns, claimed_ns; /* when it was started, when it was last told that we are here */
    uint32_t guardian_tries;
    bool guardian_told;
    uint32_t keep_pinned; /* permille of the host area that stays registered over a release */
    bool unpinned;        /* evicted, and the driver has let go of its host memory */
    double driver_s;      /* what the driver itself took, for the answer */
    uint64_t step_read;   /* how many of its step records were read */
    uint32_t slice_us;    /* what it was last told */
    uint32_t duty;        /* 0 = no share asked */
    bool slice_told;
    uint32_t slice_gain; /* of a share, permille: what its slice is corrected by */
    int util;            /* percent it kept the GPU busy, as NVML says; -1 not known */
    struct context context[PAGE_GPUS];
    struct hold hold;
    uint64_t still_ns, held_ns; /* since when it is paused or further down, 0 = it runs; and whatever was done since */
    int signal;                 /* sent once it runs, 0 none */
    uint32_t save_s, save_how;  /* how long it has to save itself before that, 0 = at once; enum save_how */
    struct ending ending;
    uint64_t saved_ns;   /* when it last saved itself so; 0 = never seen */
    uint64_t close_step; /* pause when it has made so many steps; 0 = at once */
    uint64_t close_ns;   /* but no later than this from the order */
    uint8_t move_to[16]; /* restore on this GPU */
    bool moving;
    uint64_t home_ns; /* nothing is brought home before */
    uint32_t group;   /* 1 + the ask that waits for all processes of its job, 0 none */
    uint64_t joined;  /* the how-manieth to register: who is older */
    bool own;         /* the move under way is ours: nobody waits for it, and an order that comes is next */
    bool asked;       /* such an order has come */
    bool squeezed;    /* evicted because there was no room, not because somebody said so */
    struct duty book; /* of a neighbour that has a part of the time: what it idled too little or too much */
    uint64_t book_ns, book_gated_ns;
    uint32_t book_u, book_duty;       /* of which share, and with what is made up for */
    bool goes_on;                     /* was paused so, and told to run all the same */
    bool starved;                     /* paused for want of host memory: starve.h */
    uint64_t starved_ns;              /* when that was last tried */
    bool limited;                     /* its cap is ours, below what it was started with */
    bool limit_asked;                 /* somebody set a limit while a move of ours was under way */
    uint32_t limit_lower, limit_left; /* GPUs where it was below the one before, and whose memory is still to follow */
    struct page_reply limit_sum;
    bool no_host; /* a move for it found no host memory for all it was to move */
};

struct gpu_arena {
    bool used;
    uint8_t uuid[16];
    uint64_t total_bytes;
    int fd, fd_readonly;
    struct arena *arena;
    int beside_fd, beside_readonly; /* the page its neighbours write; -1 none: a hint that may be missing */
    pid_t rg, pair;                 /* the guaranteed job; the one the baseline is of */
    struct baseline before;         /* its steps while nobody else was there, */
    uint64_t before_ns;             /* one each tenth of a second: then */
    struct pair loop;
    struct edge edge;
    uint32_t edge_at;      /* the period it has seen, */
    struct gaps edge_gaps; /* and what the neighbours had counted then */
    uint64_t turn_since_ns;
    struct memory memory;
    struct unruly unruly;
    struct clocks clocks;
    uint64_t corrected_ns; /* slices by shares */
};

/* A tool that waits for an order to be carried out. */
struct ask {
    int fd;
    pid_t pid;     /* the client; 0 = free, -1 = all of a job */
    uint32_t left; /* how many of them have not arrived */
    char error[NODE_LINE];
};

struct node {
    int listener;
    const char *run_dir, *program;
    struct client client[NODE_CLIENTS];
    struct gpu_arena gpu[PAGE_GPUS];
    struct ask ask[NODE_ASKS];
    int pending[NODE_PENDING]; /* connections that said nothing yet */
    uid_t pending_user[NODE_PENDING];
    bool everyone; /* programs of every user: door.h */
    uid_t asking;  /* whose line is being answered */
    uint64_t idle_since_ns, idle_exit_ns, orphans_ns;
    uint32_t eps;         /* permille of a step the guaranteed job may lose */
    uint32_t aim;         /* and what its neighbours try to take of it; 0 = a fixed guard instead */
    bool anchored;        /* steps before a neighbour came are the measure */
    uint32_t keep_pinned; /* what a process begins with */
    uint64_t joined;      /* processes so far */
    enum pair_law law;
    enum unruly_way unruly;
    struct estimate_rates rates; /* as far as this node has measured them */
    uint64_t freeze_ns;          /* how long one is paused before its cgroup is frozen; 0 = never */
    uint64_t watchdog_ns; /* how long ranks of a job are held before it is said that they should not; 0 = never */
    struct foreigners foreigners;
    uint64_t clocks_ns; /* when they were looked at */
    bool stop;
};

/* MUSTER_GPU_EPS in the environment (permille, 5..100) overrides the controller's tolerance, MUSTER_GPU_AIM (0..100)
 * what is aimed at below it; MUSTER_GPU_BEFORE=0: the steps before a neighbour came are no measure;
 * MUSTER_GPU_EVERYONE=1: programs of every user may come (door.h). Runs until
 * stopped or idle for `idle_exit_s` (0 = for ever). `program` starts guardians: PROGRAM gpu guard PID. */
int node_run(const char *socket_path, const char *run_dir, const char *program, unsigned int idle_exit_s,
             struct error *err);

/* The pieces of its loop: nobody is there yet; the first message of a connection; messages of a process. */
void node_empty(struct node *node);
void node_pending(struct node *node, int slot);
void node_client(struct node *node, struct client *client);

uint64_t node_now(void);
struct client *node_find(struct node *node, pid_t pid);

/* control.c: leases, gates, slices, the share controller. Called every turn. */
void control_turn(struct node *node);
void control_gate(struct client *client, enum page_gate gate);
void control_close(struct client *client);            /* at once, or when the step it was told of is over */
bool client_on(const struct client *client, int gpu); /* a context of it is on our GPU number `gpu` */
/* The GPU of the process that orders are about: its first with a context. */
uint32_t client_gpu(const struct client *client);
uint64_t control_command(struct client *client, enum page_op op, uint32_t gpu, uint64_t arg, uint64_t within_ns);
/* answer.c: what tools ask. Returns true when the answer comes later. */
bool answer_line(struct node *node, int fd, const char *line, char *text);
void answer_tell(struct node *node, pid_t pid, const char *text);
const char *client_state_name(enum client_state state);
/* A counter of a process, by its offset in struct page_counters. */
uint64_t page_sum(const struct page *page, size_t offset);

#include "gpurt/ladder/ladder.h"
#include "gpurt/ranks.h"
