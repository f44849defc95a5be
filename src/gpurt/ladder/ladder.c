/* SPDX-License-Identifier: Apache-2.0 */
/* ladder.c - a client up and down the rungs: running, paused, evicted, released.
 *
 *   RUNNING --close, sync--> PAUSED --own copies--> EVICTED --driver checkpoint--> RELEASED
 *   RELEASED --driver restore--> EVICTED --own copies--> PAUSED --open--> RUNNING
 *
 * An order names the goal; each turn looks whether the step under way is done and takes the next one. A failed step
 * ends the order where it stands, with the reason told to whoever asked. A released process has a guardian of its own
 * (guard.c), which restores it if this process goes away.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpurt/ladder/guard.h"
#include "gpurt/ladder/lost.h"
#include "gpurt/node.h"

#define SEC 1000000000ULL
#define SYNC_NS (10 * SEC)
#define MOVE_NS (120 * SEC)
#define SAVE_LATE_NS (2 * SEC)   /* the program's own answer that its time is up comes first */
#define HOME_AGAIN_NS (10 * SEC) /* nothing could come home: asked again then */

const char *client_state_name(enum client_state state)
{
    switch (state) {
    case CLIENT_RUNNING:
        return "running";
    case CLIENT_PAUSED:
        return "paused";
    case CLIENT_EVICTED:
        return "evicted";
    case CLIENT_RELEASED:
        return "released";
    case CLIENT_FAILED:
        return "failed";
    case CLIENT_STATE_COUNT:
        break;
    }
    return "?";
}

/* Above its limits, on all its GPUs together. */
static uint64_t client_above(const struct client *client)
{
    uint64_t above = 0;

    for (int i = 0; i < PAGE_GPUS; i++) {
        uint64_t cap = client->page->limit[i].cap_bytes;
        uint64_t used = __atomic_load_n(&client->page->memory[i].used, __ATOMIC_RELAXED);

        if (cap && used > cap)
            above += used - cap;
    }
    return above;
}

static void step_begin(struct client *client, enum ladder_step step, uint64_t seq)
{
    client->step = step;
    client->step_seq = seq;
    client->step_since_ns = node_now();
}

void ladder_tell(struct node *node, const struct client *client, const char *how, const char *detail)
{
    char text[NODE_LINE];

    (void)snprintf(text, sizeof(text), "%s %d: %s", how, (int)client->pid, detail);
    answer_tell(node, client->pid, text);
}

static void arrived(struct node *node, struct client *client, const char *how)
{
    uint64_t above = client_above(client);
    double seconds = (double)(node_now() - client->order_since_ns) / 1e9;
    char text[320], driver[32], over[128] = "";

    if (above)
        (void)snprintf(over, sizeof(over), "; still %llu bytes above its limit, %s", (unsigned long long)above,
                       client->starved ? "no host memory for them: paused until there is, or it is resumed"
                                       : "it gets no more until it frees them");

    (void)snprintf(driver, sizeof(driver), "driver %.3f s", client->driver_s);
    (void)snprintf(text, sizeof(text), "%s %.3f s, %llu bytes moved, %s%s", client_state_name(client->state), seconds,
                   (unsigned long long)client->step_bytes, how ? how : driver, over);
    client->driver_s = 0;
    if (client->state == CLIENT_RUNNING && client->signal && client->save_s) {
        step_begin(client, STEP_SAVE, control_command(client, OP_CHECKPOINT, 0, 0, client->save_s * SEC));
        return;
    }
    if (client->state == CLIENT_RUNNING && client->signal) {
        if (process_ends(client->pid, client->signal))
            (void)snprintf(text, sizeof(text), "running, signal %d sent, which ends it: it does not catch it",
                           client->signal);
        (void)kill(client->pid, client->signal);
    }
    client->signal = 0;
    ladder_tell(node, client, "ok", text);
}

static void moved(struct node *node, struct client *client)
{
    const struct page_reply *r = &client->moved;
    char text[96];

    if (client->state == CLIENT_RUNNING && starve_look(node, client))
        return; /* the answer comes when it is paused */
    (void)snprintf(text, sizeof(text), "cache %.3f s, work in flight %.3f s, copies %.3f s", (double)r->trim_ns / 1e9,
                   (double)r->wait_ns / 1e9, (double)r->copy_ns / 1e9);
    arrived(node, client, text);
}

static void failed(struct node *node, struct client *client, const char *what)
{
    client->step = STEP_NONE;
    client->goal = client->state;
    client->signal = 0;
    client->close_step = 0;
    client->moving = false;
    if (client->state != CLIENT_RELEASED)
        guardian_drop(client); /* one that was never told to checkpoint ends by itself */
    if (client->state == CLIENT_RUNNING)
        control_gate(client, GATE_OPEN);
    ladder_tell(node, client, "error", what);
}

/* The driver has given it up. Nothing more is tried but once to come home, which has its helper find that out: then its
 * calls go to the driver again and get the driver's own errors. */
static void given_up(struct node *node, struct client *client, const char *what)
{
    client->state = CLIENT_FAILED;
    client->squeezed = client->starved = client->own = client->asked = client->limit_asked = false;
    hold_end(&client->hold, client->pid, client->start_ticks);
    control_gate(client, GATE_OPEN);
    (void)control_command(client, OP_RELOAD_ALL, 0, 0, MOVE_NS);
    failed(node, client, what);
}

int ladder_usable(const struct client *client, struct error *err)
{
    if (client->state != CLIENT_FAILED)
        return 0;
    return error_set(err, -EIO, "process %d: " GUARD_GIVEN_UP, (int)client->pid);
}

/* Has a guardian been told to take it away? One that was started for a release that came to nothing lives on for a
 * while, and is no reason to think that the process is gone. */
static bool guardian_told(const struct node *node, const struct client *client)
{
    struct guard_journal journal;

    return guard_journal_read(node->run_dir, client->pid, &journal, NULL) == 0 &&
           journal.start_ticks == client->start_ticks && journal.state != GUARD_NEW;
}

/* The page outlives a node side: what it says is where the process is. */
static void page_adopt(struct client *client)
{
    bool evicted = client->page->health.state == STATE_EVICTED || client->page->health.state == STATE_EVICTING;

    client->state = client->goal = evicted ? CLIENT_EVICTED : CLIENT_RUNNING;
    if (!evicted && client->page->control.gate == GATE_CLOSED)
        control_gate(client, GATE_OPEN);
}

void ladder_adopt(struct node *node, struct client *client)
{
    client->guardian = -1;
    if (guardian_failed(node, client)) {
        given_up(node, client, GUARD_GIVEN_UP);
        return;
    }
    if (guardian_told(node, client)) {
        client->guardian = guardian_connect(node, client);
        client->state = client->goal = CLIENT_RELEASED; /* until a guardian has asked the driver */
    } else {
        page_adopt(client);
    }
}

/* ---- steps */

static void next_step(struct node *node, struct client *client);

/* A limit is of every GPU of a process, one after the other: the answer tells of all. */
static void limit_add(struct client *client)
{
    struct page_reply *sum = &client->limit_sum, *last = &client->moved;

    sum->bytes += last->bytes;
    sum->ns += last->ns;
    sum->trim_ns += last->trim_ns;
    sum->wait_ns += last->wait_ns;
    sum->copy_ns += last->copy_ns;
    sum->result = last->result;
    *last = *sum;
}

/* The reply to the step's command: 1 good, 0 not there yet, -errno. */
static int reply_look(struct client *client)
{
    struct page_reply *reply = &client->page->reply[client->step_seq % PAGE_RING];

    uint64_t most = client->step == STEP_SAVE ? client->save_s * SEC + SAVE_LATE_NS : MOVE_NS;

    if (__atomic_load_n(&reply->seq, __ATOMIC_ACQUIRE) != client->step_seq)
        return node_now() - client->step_since_ns > most ? -ETIMEDOUT : 0;
    client->moved = *reply;
    if (!client->own && (client->step == STEP_SPILL || client->step == STEP_PROMOTE))
        limit_add(client);
    client->step_bytes = client->moved.bytes ? client->moved.bytes : client->step_bytes;
    return reply->result < 0 ? (int)reply->result : 1;
}

static void memory_begin(struct node *node, struct client *client);
static bool memory_next(struct client *client);

/* A move of ours is over: whoever gave an order meanwhile is served now. */
static void own_done(struct node *node, struct client *client, int r)
{
    bool none = r < 0 || client->moved.bytes == 0, spill = client->step == STEP_SPILL;

    if (none && client->step == STEP_PROMOTE)
        client->home_ns = node_now() + HOME_AGAIN_NS;
    client->step = STEP_NONE;
    client->own = false;
    if (r >= 0 && spill && !client->limit_asked && !client->asked && starve_look(node, client))
        return;
    if (client->limit_asked) {
        client->limit_asked = false;
        memory_begin(node, client);
    } else if (client->goal != client->state || client->asked) {
        client->asked = false;
        next_step(node, client);
    }
}

static void command_done(struct node *node, struct client *client, int r)
{
    enum ladder_step step = client->step;
    char text[160];

    if (step == STEP_SAVE) {
        save_done(node, client, r);
        return;
    }
    if (step == STEP_STATS) {
        torch_done(node, client, r);
        return;
    }
    if (step == STEP_BASELINE || step == STEP_DUMP) {
        order_done(node, client, r);
        return;
    }
    if (client->own) {
        own_done(node, client, r);
        return;
    }
    if (r < 0) {
        if (client->page->health.flags & HEALTH_LOST)
            client->state = CLIENT_RUNNING; /* nothing to come home to: its gate opens, and the driver tells it */
        (void)snprintf(text, sizeof(text), "%s: %s; %.*s",
                       step == STEP_EVICT    ? "evict"
                       : step == STEP_RELOAD ? "reload"
                       : step == STEP_SYNC   ? "pause"
                                             : "move",
                       strerror(-r), PAGE_ERROR_MAX - 1, client->page->health.error);
        failed(node, client, text);
        return;
    }
    if (step == STEP_SPILL || step == STEP_PROMOTE) {
        client->no_host |= (client->page->health.flags & HEALTH_NO_HOST) != 0;
        if (memory_next(client))
            return;
    }
    client->step = STEP_NONE;
    client->rung_ns[step] = node_now() - client->step_since_ns;
    rungs_learn(node, client, step);
    if (step == STEP_SYNC) {
        client->state = CLIENT_PAUSED;
        control_gate(client, GATE_CLOSED); /* it closed by itself at the boundary; now it stays so */
    } else if (step == STEP_EVICT)
        client->state = CLIENT_EVICTED;
    else if (step == STEP_RELOAD)
        client->state = CLIENT_PAUSED;
    if (step == STEP_SPILL || step == STEP_PROMOTE)
        moved(node, client);
    else
        next_step(node, client);
}

static void guardian_done(struct node *node, struct client *client)
{
    bool release = client->step == STEP_RELEASE;
    char text[256];
    int r = guardian_look(node, client, release ? "released" : "restored", text, sizeof(text));

    if (r == 0)
        return;
    if (r < 0) {
        guardian_drop(client);
        (guardian_failed(node, client) ? given_up : failed)(node, client, text);
        return;
    }
    client->rung_ns[client->step] = node_now() - client->step_since_ns;
    client->step = STEP_NONE;
    client->moving = false;
    client->state = release ? CLIENT_RELEASED : CLIENT_EVICTED;
    client->driver_s = strtod(text + 8, NULL); /* "released 0.4", "restored 0.3" */
    rungs_learn(node, client, release ? STEP_RELEASE : STEP_RESTORE);
    if (!release)
        guardian_drop(client);
    next_step(node, client);
}

static void down(struct node *node, struct client *client)
{
    if (client->state == CLIENT_RUNNING) {
        control_close(client);
        step_begin(client, STEP_SYNC, control_command(client, OP_SYNC, 0, 0, SYNC_NS + client->close_ns));
    } else if (client->state == CLIENT_PAUSED || !client->unpinned) {
        /* Of one that was evicted before: the driver lets go of its host memory. At least 1: what can be, is. */
        uint64_t unpin = client->keep_pinned < PAGE_PERMILLE ? PAGE_PERMILLE - client->keep_pinned : 1;

        client->unpinned = client->goal == CLIENT_RELEASED;
        step_begin(client, STEP_EVICT, control_command(client, OP_EVICT_ALL, 0, client->unpinned ? unpin : 0, MOVE_NS));
    } else {
        step_begin(client, STEP_RELEASE, 0);
        client->guardian_told = false;
        client->guardian_tries = 0;
        guardian_done(node, client); /* told at once: it opened the driver meanwhile */
    }
}

static void up(struct node *node, struct client *client)
{
    if (client->state == CLIENT_RELEASED) {
        step_begin(client, STEP_RESTORE, 0);
        client->guardian_told = false;
        client->guardian_tries = 0;
        if (client->guardian < 0)
            client->guardian = guardian_connect(node, client);
        if (client->guardian < 0)
            (void)guardian_start(node, client);
        guardian_done(node, client);
    } else if (client->state == CLIENT_EVICTED) {
        client->unpinned = false;
        step_begin(client, STEP_RELOAD, control_command(client, OP_RELOAD_ALL, 0, 0, MOVE_NS));
    } else {
        client->state = CLIENT_RUNNING;
        control_gate(client, GATE_OPEN);
        next_step(node, client);
    }
}

static void next_step(struct node *node, struct client *client)
{
    hold_end(&client->hold, client->pid, client->start_ticks); /* its helper has something to do */
    if (client->state == client->goal)
        arrived(node, client, NULL);
    else if (client->state < client->goal)
        down(node, client);
    else
        up(node, client);
}

int ladder_order(struct node *node, struct client *client, enum client_state goal, struct error *err)
{
    int r = ladder_usable(client, err);

    if (r < 0)
        return r;
    if (client->step != STEP_NONE && (!client->own || client->asked || client->limit_asked))
        return error_set(err, -EBUSY, "process %d: %s is not finished; wait for it", (int)client->pid,
                         client_state_name(client->goal));
    if (goal == CLIENT_EVICTED && (client->page->health.flags & HEALTH_NO_MOVE))
        return error_set(err, -EOPNOTSUPP,
                         "process %d: its driver cannot map memory (CUDA 10.2 and later can), so it can only be paused",
                         (int)client->pid);
    if (goal == CLIENT_EVICTED && client->mode != 2)
        return error_set(err, -EOPNOTSUPP, "process %d holds its memory natively; start it with --movable to evict it",
                         (int)client->pid);
    if (goal == CLIENT_RELEASED && (client->page->health.flags & HEALTH_MPS))
        return error_set(err, -EOPNOTSUPP,
                         "process %d runs under MPS, whose clients the driver cannot release; evict it instead",
                         (int)client->pid);
    if (goal == CLIENT_RELEASED && (client->page->health.flags & (HEALTH_NO_CHECKPOINT | HEALTH_SHARED)))
        return error_set(err, -EOPNOTSUPP,
                         "process %d uses managed or shared memory, which the driver cannot release; evict it instead",
                         (int)client->pid);
    if (goal > CLIENT_PAUSED && client->state < CLIENT_EVICTED && memory_host(client, err) < 0)
        return -ENOMEM;
    /* It takes a quarter of a second to open the driver: the guardian does so while the job's own copies run. */
    if (goal == CLIENT_RELEASED && client->state != CLIENT_RELEASED && guardian_start(node, client) < 0)
        return error_set(err, -EAGAIN, "process %d: its guardian could not be started", (int)client->pid);
    client->goal = goal;
    client->goes_on = goal == CLIENT_RUNNING && client->starved;
    client->squeezed = client->starved = false;
    client->order_since_ns = node_now();
    client->step_bytes = 0;
    if (client->own)
        client->asked = true; /* when our own move is over */
    else
        next_step(node, client);
    return 0;
}

/* The next GPU whose memory is to follow the limit that was set. */
static bool memory_next(struct client *client)
{
    for (uint32_t i = 0; i < PAGE_GPUS && !client->own; i++) {
        uint64_t bytes = client->page->limit[i].view_total_bytes;

        if (!(client->limit_left >> i & 1))
            continue;
        client->limit_left &= ~(1u << i);
        if ((client->limit_lower >> i & 1) && bytes)
            step_begin(client, STEP_SPILL, control_command(client, OP_SPILL_TO, i, bytes, MOVE_NS));
        else
            step_begin(client, STEP_PROMOTE, control_command(client, OP_PROMOTE, i, 0, MOVE_NS));
        return true;
    }
    return false;
}

static void memory_begin(struct node *node, struct client *client)
{
    client->no_host = false;
    client->limit_sum = (struct page_reply){ 0 };
    if (client->mode != 2 || !memory_next(client))
        arrived(node, client, NULL);
}

int ladder_memory(struct node *node, struct client *client, int gpu, uint64_t bytes, struct error *err)
{
    if (gpu >= 0 && !client->page->memory[gpu % PAGE_GPUS].present)
        return error_set(err, -ENODEV, "process %d has no context on its GPU %d", (int)client->pid, gpu);
    if ((client->step != STEP_NONE && (!client->own || client->asked || client->limit_asked)) ||
        (client->state != CLIENT_RUNNING && !client->starved))
        return error_set(err, -EBUSY, "process %d is %s; resume it first", (int)client->pid,
                         client_state_name(client->state));
    client->limit_lower = client->limit_left = 0;
    for (uint32_t i = 0; i < PAGE_GPUS; i++) {
        struct page_limit *limit = &client->page->limit[i];

        if (gpu >= 0 && i != (uint32_t)gpu)
            continue;
        /* The same limit again: the move to it may have failed. */
        if (bytes &&
            (!limit->view_total_bytes || bytes < limit->view_total_bytes || client->page->memory[i].used > bytes))
            client->limit_lower |= 1u << i;
        if (client->page->memory[i].present || i == client_gpu(client))
            client->limit_left |= 1u << i;
        __atomic_store_n(&limit->cap_bytes, bytes, __ATOMIC_SEQ_CST);
        limit->view_total_bytes = bytes;
    }
    client->limited = client->goes_on = false;
    client->order_since_ns = node_now();
    client->step_bytes = 0;
    if (client->own &&
        client->step == STEP_PROMOTE) /* a part of each step at a time: it is dropped by what comes now */
        client->own = false;
    if (client->own)
        client->limit_asked = true; /* when our own move is over */
    else
        memory_begin(node, client);
    return 0;
}

static bool own_begin(struct client *client, enum ladder_step step, enum page_op op, uint32_t gpu, uint64_t bytes)
{
    if (client->step != STEP_NONE || client->state != CLIENT_RUNNING || client->goal != CLIENT_RUNNING)
        return false;
    client->own = true;
    client->no_host = false;
    step_begin(client, step, control_command(client, op, gpu, bytes, MOVE_NS));
    return true;
}

bool ladder_spill(struct client *client, uint32_t gpu, uint64_t bytes)
{
    return own_begin(client, STEP_SPILL, OP_SPILL_TO, gpu, bytes);
}

void ladder_again(struct client *client, uint32_t gpu, uint64_t bytes)
{
    client->own = true;
    client->no_host = false;
    step_begin(client, STEP_SPILL, control_command(client, OP_SPILL_TO, gpu, bytes, MOVE_NS));
}

bool ladder_promote(struct client *client, uint32_t gpu, uint64_t bytes)
{
    return node_now() >= client->home_ns && own_begin(client, STEP_PROMOTE, OP_HOME, gpu, bytes);
}

/* One that stays where it is for long is frozen with all it started; data loaders would run on. */
static void still_look(const struct node *node, struct client *client)
{
    bool held = client->state != CLIENT_RUNNING || client->page->control.gate == GATE_CLOSED;

    if (!held || client->state == CLIENT_FAILED)
        client->held_ns = 0;
    else if (!client->held_ns)
        client->held_ns = node_now();
    if (client->state == CLIENT_RUNNING || client->state == CLIENT_FAILED || client->step != STEP_NONE) {
        client->still_ns = 0;
    } else if (!client->still_ns) {
        client->still_ns = node_now();
    } else if (node->freeze_ns && node_now() - client->still_ns > node->freeze_ns && client->hold.kind == HOLD_NONE) {
        (void)hold_freeze(&client->hold, client->pid);
        client->still_ns = node_now(); /* where it cannot be, it is asked again then */
    }
}

static void claim(struct node *node, struct client *client)
{
    int r = guardian_claim(node, client);

    if (r < 0)
        given_up(node, client, GUARD_GIVEN_UP);
    if (r > 0)
        page_adopt(client);
}

void ladder_turn(struct node *node, struct client *client)
{
    int r;

    if (client->state == CLIENT_RELEASED && client->step == STEP_NONE)
        claim(node, client);
    still_look(node, client);
    starve_turn(node, client, node_now());
    switch (client->step) {
    case STEP_NONE:
    case LADDER_STEP_COUNT:
        return;
    case STEP_RELEASE:
    case STEP_RESTORE:
        guardian_done(node, client);
        return;
    case STEP_END:
        save_turn(node, client);
        return;
    case STEP_SYNC:
    case STEP_EVICT:
    case STEP_RELOAD:
    case STEP_SPILL:
    case STEP_PROMOTE:
    case STEP_SAVE:
    case STEP_BASELINE:
    case STEP_DUMP:
    case STEP_STATS:
        r = reply_look(client);
        if (r != 0)
            command_done(node, client, r);
        return;
    }
}
