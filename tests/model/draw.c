/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - a cluster, its virtual clusters and steps against them, from a seed.
 *
 * Every draw is in a statement or a declarator of its own: arguments have no order among them.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "policy/registry.h"

static uint32_t below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)rng_below(rng, bound);
}

static bool chance(struct rng *rng, uint32_t percent)
{
    return below(rng, 100) < percent;
}

#define PICK(rng, list) ((list)[below(rng, (uint32_t)(sizeof(list) / sizeof(*(list))))])

/* One of the register, now and then with an optimiser of running jobs. */
void draw_policy(struct rng *rng, const char *wanted, char *out, size_t size)
{
    uint32_t count = 0, tuners = 0, at;

    while (policy_at(count))
        count++;
    while (policy_tuner(tuners))
        tuners++;
    at = below(rng, count);
    (void)snprintf(out, size, "%s", wanted ? wanted : policy_at(at)->name);
    if (!wanted && chance(rng, 25)) {
        size_t used = strlen(out);
        uint32_t tuner = below(rng, tuners);

        (void)snprintf(out + used, size - used, "+%s", policy_tuner(tuner)->name);
        if (!policy_known(out))
            out[used] = '\0';
    }
}

static const struct layout {
    const char *nodes[5];
    int h100, biggest; /* GPUs of the one type that all have; of a node */
} layouts[] = {
    { { "node n0 1 H100" }, 1, 1 },
    { { "node n0 2 H100" }, 2, 2 },
    { { "node n0 4 H100" }, 4, 4 },
    { { "node n0 2 H100", "node n1 2 H100" }, 4, 2 },
    { { "node n0 4 H100", "node n1 4 H100" }, 8, 4 },
    { { "node n0 2 H100", "node n1 2 H100", "node n2 2 H100" }, 6, 2 },
    { { "node n0 4 H100", "node n1 4 H100", "node n2 4 H100", "node b0 0 -" }, 12, 4 },
    { { "node n0 2 H100", "node n1 2 H100", "node n2 4 A100" }, 4, 2 },
    { { "node n0 8 H100", "node n1 8 H100" }, 16, 8 },
};

static void draw_vcs(struct rng *rng, const struct layout *layout, const char *policy, char *out, size_t size)
{
    static const char *const borrows[] = { "\"none\"", "\"50%\"", "2", "\"none\"" };
    const char *borrow = PICK(rng, borrows);
    int first = 1 + (int)below(rng, (uint32_t)layout->h100);
    uint32_t kind = below(rng, 5);
    char other[64];

    draw_policy(rng, NULL, other, sizeof(other));
    if (kind == 0 || layout->h100 < 2)
        (void)snprintf(out, size, "config {\"policy\":\"%s\"}", policy);
    else if (kind == 1 && layout->nodes[1])
        (void)snprintf(out, size,
                       "config {\"policy\":\"%s\",\"vcs\":{\"va\":{\"guarantee\":{\"H100\":\"1 node\"}},"
                       "\"vb\":{\"guarantee\":{\"H100\":\"1 node\"},\"borrow\":%s}}}",
                       policy, borrow);
    else if (kind == 2)
        (void)snprintf(out, size,
                       "config {\"policy\":\"%s\",\"vcs\":{\"va\":{\"quota\":{\"H100\":%d}},"
                       "\"vb\":{\"quota\":{\"H100\":%d},\"policy\":\"%s\"}}}",
                       policy, first, layout->h100 - first, other);
    else
        (void)snprintf(out, size,
                       "config {\"policy\":\"%s\",\"vcs\":{\"va\":{\"quota\":{\"H100\":%d}},"
                       "\"vb\":{\"quota\":{\"H100\":%d},\"borrow\":%s}}}",
                       policy, first, layout->h100 - first, borrow);
}

void draw_start(struct rng *rng, const char *policy, char steps[][STEP_BYTES], size_t *count)
{
    const struct layout *layout = &PICK(rng, layouts);

    (void)snprintf(steps[(*count)++], STEP_BYTES, "policy %s", policy);
    for (size_t n = 0; n < 5 && layout->nodes[n]; n++)
        (void)snprintf(steps[(*count)++], STEP_BYTES, "%s", layout->nodes[n]);
    if (chance(rng, 60))
        draw_vcs(rng, layout, policy, steps[(*count)++], STEP_BYTES);
}

static bool vcs_there(const struct world *world)
{
    return ctl_cluster(world->ctl)->vc_count > 1;
}

static int biggest(const struct world *world)
{
    int most = 1;

    for (size_t a = 0; a < world->agent_count; a++)
        most = world->agents[a].gpus > most ? world->agents[a].gpus : most;
    return most;
}

struct text {
    char *out;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *words, ...)
{
    va_list args;
    int more;

    va_start(args, words);
    more = vsnprintf(text->out + text->used, text->size - text->used, words, args);
    va_end(args);
    if (more > 0 && text->used + (size_t)more < text->size)
        text->used += (size_t)more;
}

/* How many GPUs, and how they lie. */
static void draw_size(struct rng *rng, const struct world *world, struct text *text)
{
    int most = biggest(world), gpus = 1 + (int)below(rng, (uint32_t)most);
    uint32_t kind = below(rng, 20), nodes = world->agent_count > 1 ? 2 + below(rng, 2) : 2;

    if (kind < 9)
        add(text, "\"gpus\":%d", gpus);
    else if (kind < 12)
        add(text, "\"gpus\":0.5");
    else if (kind < 15)
        add(text, "\"gpus\":\"%d..%d\"", gpus, gpus + 1 + (int)below(rng, (uint32_t)most));
    else if (kind < 18)
        add(text, "\"nodes\":%u,\"per_node\":{\"gpu\":%d},\"launch\":\"node\"", nodes, gpus);
    else if (kind < 19)
        add(text, "\"gpus\":%d", 2 * gpus);
    else
        add(text, "\"gpus\":0,\"per_node\":{\"cpu\":%d}", gpus);
}

static void draw_wishes(struct rng *rng, const struct world *world, struct text *text)
{
    static const char *const preempts[] = { "suspend", "checkpoint", "requeue", "cancel", "requeue" };
    static const char *const tiers[] = { "premium", "standard", "basic" };
    static const int priorities[] = { -1, -1, 10, 500, 1000 };

    if (chance(rng, 45)) {
        int priority = PICK(rng, priorities);

        add(text, ",\"priority\":%d", priority);
    }
    if (vcs_there(world) && chance(rng, 80))
        add(text, ",\"vc\":\"%s\"", chance(rng, 50) ? "va" : "vb");
    if (chance(rng, 30)) {
        const char *preempt = PICK(rng, preempts);

        add(text, ",\"preempt\":\"%s\"", preempt);
    }
    if (chance(rng, 25)) {
        uint32_t minutes = 1 + below(rng, 9);

        add(text, ",\"time\":\"%um\"", minutes);
    }
    if (chance(rng, 15)) {
        const char *tier = PICK(rng, tiers);

        add(text, ",\"tier\":\"%s\"", tier);
    }
    if (chance(rng, 20)) {
        uint32_t retries = 1 + below(rng, 2);

        add(text, ",\"retries\":%u,\"retry_on\":[7]", retries);
    }
    if (chance(rng, 15))
        add(text, ",\"keep_on_fail\":\"2m\"");
    if (chance(rng, 8))
        add(text, ",\"requeue\":false");
    if (chance(rng, 8))
        add(text, ",\"hold\":true");
    if (chance(rng, 8))
        add(text, ",\"grace\":\"30s\"");
    if (chance(rng, 5))
        add(text, ",\"checkpoint\":{\"signal\":10}");
}

static void draw_submit(struct rng *rng, const struct world *world, struct text *text)
{
    static const char *const kinds[] = { "ok", "any", "notok" };
    static const char *const users[] = { "alice", "bob" };
    const char *user = PICK(rng, users), *kind = PICK(rng, kinds);

    add(text, "submit j%zu %s ", world->label_count, user);
    if (world->label_count && chance(rng, 12)) {
        uint32_t other = below(rng, (uint32_t)world->label_count);

        add(text, "after=%s:j%u ", kind, other);
    }
    if (chance(rng, 6)) {
        uint32_t begin = 1 + below(rng, 90);

        add(text, "begin=%u ", begin);
    }
    if (chance(rng, 8)) {
        uint32_t deadline = 60 + below(rng, 900);

        add(text, "deadline=%u ", deadline);
    }
    add(text, "{");
    draw_size(rng, world, text);
    draw_wishes(rng, world, text);
    if (chance(rng, 12)) {
        uint32_t last = 1 + below(rng, 3), parallel = 1 + below(rng, 2);

        add(text, ",\"array\":\"0-%u%%%u\"", last, parallel);
    }
    add(text, ",\"args\":[\"x\"]}");
}

/* The label of a job, and which element of an array it is; false: nobody has named it. */
static bool add_ref(struct text *text, const struct world *world, const struct ctl_job *job)
{
    for (size_t i = 0; i < world->label_count; i++) {
        const struct label *label = &world->labels[i];

        if (label->id && (label->id == job->id || label->id == job->array_id)) {
            add(text, "%s", label->name);
            if (label->count)
                add(text, "[%lld]", (long long)(job->id - label->id - 1));
            return true;
        }
    }
    return false;
}

/* Mostly one that is not over; an array as a whole, or one of its elements. */
static void draw_ref(struct rng *rng, const struct world *world, struct text *text)
{
    const struct registry *registry = ctl_registry(world->ctl);
    uint32_t label = below(rng, (uint32_t)world->label_count);

    if (registry->live_count && chance(rng, 80)) {
        uint32_t live = below(rng, (uint32_t)registry->live_count);

        if (add_ref(text, world, registry->live[live]))
            return;
    }
    add(text, "%s", world->labels[label].name);
}

/* Mostly one that is so; else any. */
static void draw_ref_in(struct rng *rng, const struct world *world, enum phase_of_job phase, struct text *text)
{
    const struct registry *registry = ctl_registry(world->ctl);
    uint32_t first = registry->live_count ? below(rng, (uint32_t)registry->live_count) : 0;
    bool any = chance(rng, 10);

    for (uint32_t i = 0; !any && i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[(first + i) % registry->live_count];

        if (job->phase == phase && add_ref(text, world, job))
            return;
    }
    draw_ref(rng, world, text);
}

static const char *node_any(struct rng *rng, const struct world *world)
{
    return world->agents[below(rng, (uint32_t)world->agent_count)].name;
}

/* Mostly one that has something to hear, to do or to tell. */
static const char *node_busy(struct rng *rng, const struct world *world)
{
    uint32_t first = below(rng, (uint32_t)world->agent_count);

    for (uint32_t i = 0; i < world->agent_count; i++) {
        const struct agent *agent = &world->agents[(first + i) % world->agent_count];

        if (agent->inbox_count || agent->sent < agent->journal_count)
            return agent->name;
    }
    return world->agents[first].name;
}

static void draw_set(struct rng *rng, const struct world *world, struct text *text)
{
    static const int priorities[] = { -1, 10, 100, 500 };
    uint32_t kind = below(rng, 4), value = below(rng, 6);
    int priority = PICK(rng, priorities);

    add(text, "set ");
    draw_ref(rng, world, text);
    if (kind == 0)
        add(text, " priority %d", priority);
    else if (kind == 1)
        add(text, " vc %s", value < 3 ? "va" : "vb");
    else if (kind == 2)
        add(text, " time %u", value * 60);
    else
        add(text, " size %u", value);
}

static void draw_act(struct rng *rng, const struct world *world, struct text *text)
{
    static const struct {
        const char *verb;
        enum phase_of_job phase;
    } acts[] = { { "hold", PHASE_JOB_PENDING },     { "release", PHASE_JOB_PENDING },
                 { "release", PHASE_JOB_RUNNING },  { "requeue", PHASE_JOB_RUNNING },
                 { "requeue", PHASE_JOB_STARTING }, { "suspend", PHASE_JOB_RUNNING },
                 { "suspend", PHASE_JOB_RUNNING },  { "resume", PHASE_JOB_SUSPENDED },
                 { "resume", PHASE_JOB_SUSPENDED }, { "requeue", PHASE_JOB_SUSPENDED },
                 { "signal", PHASE_JOB_RUNNING } };
    static const enum phase_of_job cancelled[] = { PHASE_JOB_PENDING, PHASE_JOB_STARTING, PHASE_JOB_RUNNING,
                                                   PHASE_JOB_COMPLETING, PHASE_JOB_SUSPENDED };
    uint32_t kind = below(rng, 24), act = below(rng, sizeof(acts) / sizeof(*acts));
    enum phase_of_job phase = PICK(rng, cancelled);

    if (kind < 7) {
        add(text, "cancel ");
        draw_ref_in(rng, world, phase, text);
        if (chance(rng, 25))
            add(text, " now");
    } else if (kind < 21) {
        add(text, "%s ", acts[act].verb);
        draw_ref_in(rng, world, acts[act].phase, text);
        if (strcmp(acts[act].verb, "signal") == 0)
            add(text, " 10");
    } else {
        draw_set(rng, world, text);
    }
}

static void draw_exit(struct rng *rng, const struct world *world, struct text *text)
{
    static const char *const hows[] = { "code 0",  "code 0",   "code 0",    "code 1", "code 7",
                                        "code 85", "signal 9", "signal 15", "oom 9",  "signal 11" };
    const char *how = PICK(rng, hows);
    uint32_t rank = chance(rng, 80) ? 0 : 1, kind = below(rng, 12);

    if (kind < 10) {
        add(text, "exit ");
        draw_ref_in(rng, world, PHASE_JOB_RUNNING, text);
        add(text, " %u %s", rank, how);
    } else if (kind < 11) {
        uint32_t rate = below(rng, 2000001);

        add(text, "rate ");
        draw_ref_in(rng, world, PHASE_JOB_RUNNING, text);
        add(text, " %u", rate);
    } else {
        add(text, "saved ");
        draw_ref_in(rng, world, PHASE_JOB_RUNNING, text);
    }
}

static void draw_frames(struct rng *rng, const struct world *world, struct text *text)
{
    const char *node = node_busy(rng, world);
    uint32_t kind = below(rng, 10), many = 1 + below(rng, 3);

    if (kind < 3)
        add(text, "hear %s %u", node, many);
    else if (kind < 6)
        add(text, "work %s", node);
    else if (kind < 9)
        add(text, "tell %s %u", node, many);
    else
        add(text, "again %s", node);
}

static void draw_drain(struct rng *rng, const struct world *world, struct text *text)
{
    const char *node = node_any(rng, world);
    uint32_t gpu = below(rng, 4), in = 1 + below(rng, 30), kind = below(rng, 10);

    if (kind < 3)
        add(text, "undrain %s", node);
    else if (kind < 5)
        add(text, "drain %s gpu %u", node, gpu);
    else if (kind < 6)
        add(text, "undrain %s gpu %u", node, gpu);
    else if (kind < 7)
        add(text, "drain %s", node);
    else if (kind < 8)
        add(text, "drain %s reboot", node);
    else
        add(text, "drain %s in %u", node, in);
}

static void draw_node(struct rng *rng, const struct world *world, struct text *text)
{
    static const char *const returns[] = { "", " lost", " boot", "", " fresh" };
    static const char *const healths[] = { "bad", "ok", "ok", "foreign" };
    const char *node = node_any(rng, world), *how = PICK(rng, returns), *health = PICK(rng, healths);
    uint32_t kind = below(rng, 26), gpu = below(rng, 4);

    if (kind < 8)
        draw_drain(rng, world, text);
    else if (kind < 14)
        add(text, "cut %s", node);
    else if (kind < 21)
        add(text, "join %s%s", node, how);
    else if (kind < 23)
        add(text, "refuse %s%s", node, gpu == 0 ? " user" : "");
    else if (kind < 25)
        add(text, "gpu %s %u %s", node, gpu, health);
    else
        add(text, "forget %s", node);
}

static void draw_cluster(struct rng *rng, const struct world *world, struct text *text)
{
    uint32_t kind = below(rng, 10), number = below(rng, 8), from = below(rng, 60), span = 10 + below(rng, 120);
    const char *node = node_any(rng, world);
    char policy[64];

    draw_policy(rng, NULL, policy, sizeof(policy));
    if (kind < 3 && vcs_there(world))
        add(text, "vc {\"name\":\"%s\",\"set\":{\"policy\":\"%s\"}}", number < 4 ? "va" : "vb", policy);
    else if (kind < 4 && vcs_there(world))
        add(text, "vc {\"name\":\"va\",\"set\":{\"quota\":{\"H100\":%u}}}", number);
    else if (kind < 5)
        add(text, "limits {\"user\":\"alice\",\"max_gpus\":%s}", number < 3 ? "2" : "null");
    else if (kind < 7)
        add(text, "resv r%u %s %u %u %u", number % 2, node, from, span, number);
    else if (kind < 8)
        add(text, "unresv r%u", number % 2);
    else
        add(text, number < 3 ? "pause" : "unpause");
}

static void draw_time(struct rng *rng, const struct mood *mood, struct text *text)
{
    uint32_t kind = below(rng, 40), seconds = 1 + below(rng, chance(rng, 15) ? 200 : mood->patience);

    if (kind < 37 && chance(rng, mood->settles))
        add(text, "settle");
    else if (kind < 37)
        add(text, "wait %u", seconds);
    else if (kind < 39)
        add(text, "restart");
    else
        add(text, "replay");
}

enum { DRAW_SUBMIT, DRAW_ACT, DRAW_EXIT, DRAW_FRAMES, DRAW_NODE, DRAW_CLUSTER, DRAW_TIME, DRAW_KINDS };

static_assert((int)DRAW_KINDS == (int)MOOD_KINDS, "a weight for each");

/* Some sequences are all about nodes, some about people: each kind of step is often there, rare or missing (swarm
 * testing: Groce and others, 2012). */
void draw_mood(struct rng *rng, struct mood *mood)
{
    static const uint32_t usual[DRAW_KINDS] = { 19, 16, 24, 13, 7, 3, 30 };

    for (int kind = 0; kind < DRAW_KINDS; kind++) {
        uint32_t factor = below(rng, 4);

        mood->weights[kind] = usual[kind] * (kind == DRAW_SUBMIT || kind == DRAW_TIME ? factor + 1 : factor);
    }
    mood->patience = 2 + below(rng, 60);
    mood->settles = below(rng, 100);
}

static int draw_kind(struct rng *rng, const struct world *world, const struct mood *mood)
{
    uint32_t sum = 0, at;
    int kind = 0;

    if (world->label_count < 3)
        return DRAW_SUBMIT;
    for (int k = 0; k < DRAW_KINDS; k++)
        sum += mood->weights[k];
    at = below(rng, sum);
    while (at >= mood->weights[kind])
        at -= mood->weights[kind++];
    return kind == DRAW_SUBMIT && world->label_count == LABELS_MAX ? DRAW_TIME : kind;
}

void draw_step(struct rng *rng, const struct world *world, const struct mood *mood, char *out, size_t size)
{
    struct text text = { out, size, 0 };
    int kind = draw_kind(rng, world, mood);

    out[0] = '\0';
    switch (kind) {
    case DRAW_SUBMIT:
        draw_submit(rng, world, &text);
        break;
    case DRAW_ACT:
        draw_act(rng, world, &text);
        break;
    case DRAW_EXIT:
        draw_exit(rng, world, &text);
        break;
    case DRAW_FRAMES:
        draw_frames(rng, world, &text);
        break;
    case DRAW_NODE:
        draw_node(rng, world, &text);
        break;
    case DRAW_CLUSTER:
        draw_cluster(rng, world, &text);
        break;
    default:
        draw_time(rng, mood, &text);
        return;
    }
    if (chance(rng, 15))
        add(&text, " &");
}
