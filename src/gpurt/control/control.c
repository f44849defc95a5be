/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the loop that writes gates, slices and leases into the pages.
 *
 * A pair forms when a guaranteed and an opportunistic job hold contexts on one GPU. What its neighbours then have of
 * the guaranteed job's gaps is decided in coord/pair.h, which is told its steps here; the simulator runs the same code.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpurt/control/fraction.h"
#include "gpurt/control/turns.h"
#include "gpurt/node.h"
#include "shim/gate/admit.h"

#define USEC 1000ULL
#define MSEC 1000000ULL
#define SLICE_RG_US 10000u
#define SLICE_OT_US 200u
#define COMMAND_NS (2000 * MSEC)
#define BEFORE_EVERY_NS (100 * MSEC) /* so that the twenty newest are of two seconds, not of one spell of noise */

uint64_t control_command(struct client *client, enum page_op op, uint32_t gpu, uint64_t arg, uint64_t within_ns)
{
    struct page_control *control = &client->page->control;
    uint64_t seq = control->command_seq + 1;
    struct page_command *c = &client->page->command[seq % PAGE_RING];
    struct message_head kick = { MSG_KICK, sizeof(kick) };

    *c = (struct page_command){
        .seq = seq, .op = op, .gpu = gpu, .arg = { arg }, .deadline_ns = node_now() + within_ns
    };
    __atomic_store_n(&control->command_seq, seq, __ATOMIC_RELEASE);
    if (client->fd >= 0)
        (void)!write(client->fd, &kick, sizeof(kick));
    return seq;
}

uint32_t client_gpu(const struct client *client)
{
    for (uint32_t i = 0; i < PAGE_GPUS; i++)
        if (client->page->memory[i].present)
            return i;
    return 0;
}

void control_gate(struct client *client, enum page_gate gate)
{
    uint32_t *word = &client->page->control.gate;

    if (__atomic_exchange_n(word, gate, __ATOMIC_SEQ_CST) != (uint32_t)gate)
        (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* At once, or when the step that was named is over. */
void control_close(struct client *client)
{
    struct page_control *control = &client->page->control;

    if (!client->close_step) {
        control_gate(client, GATE_CLOSED);
        return;
    }
    control->close_from = control->gate;
    control->close_step = client->close_step;
    control->close_by_ns = node_now() + client->close_ns;
    control_gate(client, GATE_CLOSING);
    client->close_step = 0;
}

static void slice_tell(struct client *client, uint32_t us)
{
    if (client->slice_told && client->slice_us == us)
        return;
    if (!client->slice_told && us == 0)
        return;
    client->slice_us = us;
    client->slice_told = us != 0;
    client->page->control.slice_us = us;
    (void)control_command(client, OP_SET_SLICE, 0, us, COMMAND_NS);
}

bool client_on(const struct client *client, int gpu)
{
    for (int i = 0; i < PAGE_GPUS; i++)
        if (client->arena[i] == gpu)
            return true;
    return false;
}

static void share_write(struct client *client, uint32_t u, int32_t edge_us)
{
    struct page_control *control = &client->page->control;
    struct admit_knobs knobs;

    admit_map(u, &knobs);
    __atomic_store_n(&control->share, u, __ATOMIC_RELAXED);
    control->window_us = knobs.window_us;
    control->guard_us = (uint32_t)knobs.guard_us;
    __atomic_store_n(&control->edge_us, edge_us, __ATOMIC_RELAXED);
    control->gap_min_us = knobs.gap_min_us;
}

/* OTHERWISE: something else slows the GPU down, so they say nothing of anybody. */
enum steps_for { STEPS_PAIR, STEPS_BEFORE, STEPS_NOBODY, STEPS_OTHERWISE };

/* Steps of the guaranteed job since we last looked. */
static void steps_read(struct gpu_arena *gpu, struct client *rg, enum steps_for whom, uint64_t now)
{
    struct page_step *step = &rg->page->step;
    uint64_t seq = __atomic_load_n(&step->seq, __ATOMIC_ACQUIRE);

    if (seq - rg->step_read > PAGE_STEPS)
        rg->step_read = seq - PAGE_STEPS;
    for (; rg->step_read < seq; rg->step_read++) {
        const struct page_step_record *r = &step->ring[rg->step_read % PAGE_STEPS];

        if (r->tier >= TIER_TIME || r->wall_us == 0 || whom == STEPS_OTHERWISE)
            continue;
        unruly_step(&gpu->unruly, r->launches, r->wall_us, now);
        if (whom == STEPS_PAIR)
            pair_step(&gpu->loop, r->launches, r->wall_us);
        else if (whom == STEPS_BEFORE && now - gpu->before_ns >= BEFORE_EVERY_NS) {
            (void)baseline_add(&gpu->before, r->launches, r->wall_us);
            gpu->before_ns = now;
        }
    }
}

/* How long the newest step took. */
static uint32_t step_us(const struct client *rg)
{
    return rg->step_read ? rg->page->step.ring[(rg->step_read - 1) % PAGE_STEPS].wall_us : 0;
}

/* Is nobody else on this GPU, and nobody about to be? A process that has registered and has no GPU yet is starting:
 * what the guaranteed job does meanwhile is not what it does alone. */
static bool undisturbed(const struct node *node, const struct gpu_arena *gpu, const struct client *rg)
{
    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];
        bool elsewhere = false;

        if (c->fd < 0 || c == rg)
            continue;
        for (int k = 0; k < PAGE_GPUS; k++) {
            if (c->arena[k] >= 0 && &node->gpu[c->arena[k]] == gpu)
                return false;
            elsewhere |= c->arena[k] >= 0;
        }
        if (!elsewhere)
            return false;
    }
    for (uint32_t i = 0; i < node->foreigners.count; i++)
        if (memcmp(node->foreigners.one[i].uuid, gpu->uuid, sizeof(gpu->uuid)) == 0)
            return false;
    return true;
}

/* Is another guaranteed process at work on this GPU? */
static bool guaranteed_twice(const struct node *node, const struct gpu_arena *gpu, const struct client *rg)
{
    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];

        if (c->fd >= 0 && c != rg && c->role == ROLE_GUARANTEED && c->state == CLIENT_RUNNING &&
            client_on(c, (int)(gpu - node->gpu)))
            return true;
    }
    return false;
}

/* A guaranteed job publishes its gaps for the first of its GPUs, and each process only its own: a gap of one is not a
 * gap of another beside it. Where gaps cannot be seen, neighbours run a part of the time instead, by AntMan's own rule.
 */
static enum pair_law law_of(const struct node *node, const struct gpu_arena *gpu, const struct client *rg)
{
    if (guaranteed_twice(node, gpu, rg))
        return PAIR_DUTY;
    for (int i = 0; i < PAGE_GPUS; i++)
        if (rg->arena[i] >= 0)
            return &node->gpu[rg->arena[i]] == gpu ? node->law : PAIR_DUTY;
    return node->law;
}

/* What the neighbours of a GPU have counted. */
static struct gaps gaps_sum(const struct node *node, int index)
{
    struct gaps sum = { 0 };

    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];

        if (c->fd < 0 || c->role != ROLE_OPPORTUNISTIC || !client_on(c, index))
            continue;
        sum.seen += page_sum(c->page, offsetof(struct page_counters, gaps));
        sum.late += page_sum(c->page, offsetof(struct page_counters, gaps_late));
        sum.waits += page_sum(c->page, offsetof(struct page_counters, gate_waits));
    }
    return sum;
}

static void pair_form(const struct node *node, struct gpu_arena *gpu, struct client *rg, uint64_t now)
{
    gpu->pair = rg->pid;
    rg->step_read = rg->page->step.seq;
    edge_init(&gpu->edge, node->aim);
    gpu->edge_at = 0;
    gpu->edge_gaps = gaps_sum(node, (int)(gpu - node->gpu));
    pair_begin(&gpu->loop, law_of(node, gpu, rg), rg->page->step.tier >= TIER_PERIOD ? 2 * node->eps : node->eps,
               (usec_t)(now / USEC));
    if (node->anchored)
        pair_before(&gpu->loop, &gpu->before);
}

/* Once a second: by how much it was active more or less than its part of the time; the next second makes up for it. The
 * shim's own bucket goes by what launches are thought to cost, which is never quite right. */
static uint32_t duty_corrected(struct client *ot, uint32_t u, uint64_t now)
{
    uint64_t gated = page_sum(ot->page, offsetof(struct page_counters, gated_ns));
    usec_t d = (usec_t)((now - ot->book_ns) / USEC), s = (usec_t)((gated - ot->book_gated_ns) / USEC);
    int64_t duty;

    if (ot->book_ns && d < USEC_SEC)
        return u == ot->book_u ? ot->book_duty : u;
    if (!ot->book_ns || u == 0 || d > 2 * USEC_SEC) { /* a new pair, or one that was held for something else */
        ot->book = (struct duty){ 0 };
        ot->book_duty = u;
    } else {
        (void)duty_after(&ot->book, d, s < d ? s : d, u >= 10 ? u / 10 : 1);
        duty = (int64_t)u - ot->book.owed * PAGE_PERMILLE / d;
        ot->book_duty = duty < 1 ? 1 : duty > PAGE_PERMILLE ? PAGE_PERMILLE : (uint32_t)duty;
    }
    ot->book_u = u;
    ot->book_ns = now;
    ot->book_gated_ns = gated;
    return ot->book_duty;
}

/* Jobs that share the GPU by fractions, with no guaranteed one among them. */
struct sharing {
    uint32_t count, shares, busy;
    bool sliced; /* the slices of all of them are verified */
};

static bool sharer(const struct client *c, int index)
{
    return c->fd >= 0 && c->role != ROLE_GUARANTEED && c->duty && c->state == CLIENT_RUNNING &&
           c->goal == CLIENT_RUNNING && client_on(c, index);
}

static void sharing_look(struct node *node, int index, uint64_t now, struct sharing *ret)
{
    struct gpu_arena *gpu = &node->gpu[index];
    bool correct = now - gpu->corrected_ns >= FRACTION_CORRECT_NS;

    *ret = (struct sharing){ .sliced = true };
    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];

        if (!sharer(c, index))
            continue;
        ret->count++;
        ret->shares += c->duty;
        ret->busy += c->util > 0 ? (uint32_t)c->util : 0;
        ret->sliced &= __atomic_load_n(&c->page->health.slice_ok, __ATOMIC_RELAXED) != 0;
    }
    if (ret->count < 2) /* alone the longest slice would give it everything: the gate does it */
        *ret = (struct sharing){ 0 };
    for (int i = 0; i < NODE_CLIENTS && correct && ret->sliced; i++) {
        struct client *c = &node->client[i];

        if (sharer(c, index))
            c->slice_gain =
                fraction_gain(c->slice_gain, c->duty, ret->shares, c->util > 0 ? (uint32_t)c->util : 0, ret->busy);
    }
    gpu->corrected_ns = correct ? now : gpu->corrected_ns;
}

/* One that is nobody's neighbour: all, or its share, by time slices where those can be had and by the gate otherwise.
 */
static void unpaired_turn(struct client *c, const struct sharing *sharing)
{
    if (c->state != CLIENT_RUNNING || c->goal != CLIENT_RUNNING)
        return;
    slice_tell(c, c->duty && sharing->count ? fraction_slice(c->duty, sharing->count, c->slice_gain) : 0);
    c->page->control.duty = c->duty;
    control_gate(c, c->duty && !sharing->sliced ? GATE_DUTY : GATE_OPEN);
}

static void neighbour_turn(struct node *node, struct client *ot, const struct gpu_arena *gpu, uint32_t u, uint64_t now)
{
    if (ot->state != CLIENT_RUNNING || ot->goal != CLIENT_RUNNING)
        return; /* closed by the ladder */
    slice_tell(ot, SLICE_OT_US);
    share_write(ot, u, gpu->edge.us);
    if (ranks_many(node, ot)) {
        ranks_gate(node, ot, u != 0);
        return;
    }
    if (gpu->loop.law == PAIR_DUTY)
        ot->page->control.duty = duty_corrected(ot, u, now);
    control_gate(ot, !u ? GATE_CLOSED : gpu->loop.law == PAIR_DUTY ? GATE_DUTY : GATE_HARVEST);
}

/* The guaranteed job of a GPU, and how many share it. */
static struct client *gpu_count(struct node *node, int index, uint32_t *ret_neighbours)
{
    struct client *rg = NULL;

    *ret_neighbours = 0;
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        if (c->fd < 0 || c->state != CLIENT_RUNNING || !client_on(c, index))
            continue;
        if (c->role == ROLE_GUARANTEED && !rg)
            rg = c;
        *ret_neighbours += c->role == ROLE_OPPORTUNISTIC;
    }
    return rg;
}

static void gpu_free(struct gpu_arena *gpu)
{
    gpu->rg = gpu->pair = 0;
    if (gpu->arena->rg_state == RG_ABSENT)
        return;
    __atomic_store_n(&gpu->arena->rg_state, RG_ABSENT, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &gpu->arena->rg_state, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* A period of the pair has ended. One of several neighbours that left takes its counts along: that period says nothing.
 */
static void edge_turn(const struct node *node, struct gpu_arena *gpu, const struct client *rg, uint32_t u)
{
    struct gaps now = gaps_sum(node, (int)(gpu - node->gpu)), then = gpu->edge_gaps;
    struct edge_look look = {
        .slowdown = gpu->loop.judged, .eps = gpu->loop.share.eps, .share = u, .step_us = step_us(rg)
    };

    if (now.seen >= then.seen && now.late >= then.late && now.waits >= then.waits) {
        look.gaps = (uint32_t)(now.seen - then.seen);
        look.late = (uint32_t)(now.late - then.late);
        look.held = now.waits > then.waits;
    }
    gpu->edge_at = gpu->loop.periods;
    gpu->edge_gaps = now;
    (void)edge_period(&gpu->edge, &look);
}

/* There is a guaranteed job: what its neighbours may have. */
static uint32_t gpu_paired(struct node *node, struct gpu_arena *gpu, struct client *rg, bool neighbours, uint64_t now)
{
    bool judged = clocks_judged(&gpu->clocks, now);
    uint32_t u;

    if (gpu->rg != rg->pid)
        baseline_reset(&gpu->before);
    gpu->rg = rg->pid;
    if (gpu->arena->rg_state == RG_ABSENT)
        __atomic_store_n(&gpu->arena->rg_state, RG_IDLE, __ATOMIC_SEQ_CST);
    slice_tell(rg, neighbours ? SLICE_RG_US : 0);
    if (!neighbours) {
        gpu->pair = 0;
        steps_read(gpu, rg, !judged ? STEPS_OTHERWISE : undisturbed(node, gpu, rg) ? STEPS_BEFORE : STEPS_NOBODY, now);
        return SHARE_MAX;
    }
    if (gpu->pair != rg->pid || gpu->loop.law != law_of(node, gpu, rg))
        pair_form(node, gpu, rg, now);
    judged = judged && !(gpu->loop.baselining && ranks_leaving(node, gpu, now));
    steps_read(gpu, rg, judged ? STEPS_PAIR : STEPS_OTHERWISE, now);
    if (!judged)
        pair_hold(&gpu->loop, (usec_t)(now / USEC));
    u = pair_turn(&gpu->loop, (usec_t)(now / USEC));
    if (gpu->loop.periods != gpu->edge_at)
        edge_turn(node, gpu, rg, u);
    return u;
}

/* Its neighbours are closed: does it suffer all the same? */
static void gpu_watch(struct node *node, int index, bool closed, uint64_t now)
{
    struct gpu_arena *gpu = &node->gpu[index];
    bool suffers = unruly_turn(&gpu->unruly, &gpu->loop.baseline, gpu->loop.share.eps, closed, now);

    unruly_act(node, index, suffers, closed);
}

static void gpu_turn(struct node *node, int index, uint64_t now)
{
    struct gpu_arena *gpu = &node->gpu[index];
    uint32_t neighbours, u = SHARE_MAX;
    struct client *rg = gpu_count(node, index, &neighbours);
    struct sharing sharing = { 0 };
    struct admit_knobs knobs;

    if (rg) {
        bool measured = rg->step == STEP_BASELINE; /* somebody wants to know what it is alone */

        u = gpu_paired(node, gpu, rg, neighbours != 0, now);
        gpu_watch(node, index, u == 0 && !gpu->loop.baselining && !measured, now);
        u = measured ? 0 : u;
    } else {
        gpu_free(gpu);
        gpu_watch(node, index, false, now);
        sharing_look(node, index, now, &sharing);
    }
    __atomic_store_n(&gpu->arena->ot_count, neighbours, __ATOMIC_RELAXED);
    turns_rotate(node, index, rg ? neighbours : 0, now);
    admit_map(u, &knobs);
    gpu->arena->gap_floor_us = knobs.gap_min_us;
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        if (c->fd < 0 || c->role == ROLE_GUARANTEED || !client_on(c, index))
            continue;
        if (rg && c->role == ROLE_OPPORTUNISTIC)
            neighbour_turn(node, c, gpu, u, now);
        else
            unpaired_turn(c, &sharing);
    }
    memory_turn(node, index, now);
}

void control_turn(struct node *node)
{
    uint64_t now = node_now();

    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        if (c->fd < 0)
            continue;
        __atomic_store_n(&c->page->control.lease_until_ns, now + NODE_LEASE_NS, __ATOMIC_RELAXED);
        ladder_turn(node, c);
    }
    for (int i = 0; i < PAGE_GPUS; i++)
        if (node->gpu[i].used)
            gpu_turn(node, i, now);
}
