/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_snap.c - snapshots of the core: one that is whole gives the same core again; one that was changed and sealed
 * anew is refused, or gives a core whose invariants hold.
 *
 * Random bytes never get past the seal of a snapshot. So the input is a short life of a cluster and what to change: two
 * bytes choose cluster and policy, one tells how many things happen, each of three bytes; the rest are changes of four.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "core/snapshot/snapshot.h"
#include "fuzz.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"

static const char *const clusters[] = {
    "racks: [{count: 2, nodes: {count: 2, gpus: 4, sku: V, sockets: 2}}]\n",
    "nodes: {count: 3, gpus: 4, sku: V, cpus: 16, memory: 64G}\n"
    "vcs: {a: {quota: 8, cpus: 4, max_user_gpus: 6}, b: {quota: 4, borrow: 2}}\n",
    "skus: {V: {memory: 32G}}\nnodes: {count: 4, gpus: 4, sku: V, sockets: 2}\n"
    "vcs: {a: {guarantee: 2 nodes, borrow: all}, b: {guarantee: 4 gpus in 2s}}\n",
};
/* For gangs on several types. */
static const char two_types[] =
    "nodes: [{count: 2, gpus: 4, sku: V, cpus: 16}, {count: 2, prefix: w, gpus: 2, sku: W, cpus: 8}]\n"
    "vcs: {a: {quota: {V: 4, W: 2}}, b: {quota: {V: 4, W: 2}, borrow: 2}}\n";
static const char *const policies[] = { "fifo-skip", "srsf",   "yarn-cs",     "backfill-easy",
                                        "las",       "antman", "gandiva",     "las+pack+migrate",
                                        "chronus",   "liquid", "singularity", "optimus" };

enum { JOBS = 12, THINGS = 48, EFFECTS = 64, EVENTS = 12 };

struct life {
    struct cluster_spec cluster;
    struct policy_setup setups[2];
    struct core_config config;
    struct core *core;
    struct job_ref jobs[JOBS];
    struct effect effects[EFFECTS]; /* that wait for an answer */
    size_t job_count, effect_count;
    usec_t now;
    int64_t ids;
};

static void put(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

static void step(struct life *life)
{
    const struct outbox *out = core_step(life->core, life->now);

    for (size_t i = 0; i < out->effect_count && life->effect_count < EFFECTS; i++)
        life->effects[life->effect_count++] = out->effects[i];
}

static void submit(struct life *life, uint8_t which, uint8_t arg)
{
    static const int32_t sizes[] = { 1, 1, 2, 4, 3, 8, 0, 6 };
    int32_t gpus = sizes[which % 8];
    struct jobspec spec = { .id = ++life->ids,
                            .submit = life->now,
                            .estimate = (1 + which / 8) * USEC_MIN,
                            .user = arg % 3,
                            .gpus = gpus,
                            .gpus_min = gpus,
                            .gpus_max = gpus,
                            .tasks = gpus ? 0 : 1 + arg % 3,
                            .mcpus = (arg >> 1 & 3) * 1000,
                            .host_mib = (arg >> 2 & 1) * 1024,
                            .share = gpus == 1 && arg & 8 ? MGPU_ONE / 2 : MGPU_ONE,
                            .memory_mib = (arg >> 4 & 3) * 8000,
                            .utilisation = 40,
                            .klass = arg & 64 ? CLASS_OPPORTUNISTIC : 0,
                            .retries = 1 };
    struct event event = { .kind = EVENT_SUBMIT, .target = (arg >> 7) % life->cluster.vc_count, .spec = &spec };
    struct job_ref ref;

    if (life->cluster.sku_count > 1 && (gpus == 2 || gpus == 4)) {
        spec.sku_mask = 1;
        spec.memory_mib = 0;
        spec.sides[spec.side_count++] = (struct gang_side){
            .gpus = 2, .per_node = (uint16_t)(1 + (which >> 3 & 1)), .sku_mask = 2, .mcpus = (arg & 3) * 500
        };
    }
    if (core_offer(life->core, &event, &ref, NULL) == 0 && life->job_count < JOBS)
        life->jobs[life->job_count++] = ref;
}

/* The oldest orders are carried out. */
static void answer(struct life *life, uint8_t count)
{
    size_t some = 1 + count % 4U, n = some < life->effect_count ? some : life->effect_count;

    for (size_t i = 0; i < n; i++) {
        const struct effect *e = &life->effects[i];
        struct event event = { .job = e->job, .gen = e->gen, .rate = PPM_ONE, .progress = PROGRESS_OWN };

        if (e->kind == EFFECT_START || e->kind == EFFECT_RESUME || e->kind == EFFECT_MIGRATE)
            event.kind = EVENT_STARTED;
        else if (e->kind == EFFECT_STOP || e->kind == EFFECT_SPLICE)
            event.kind = EVENT_STOPPED;
        else if (e->kind == EFFECT_SOLVE)
            event = (struct event){ .kind = EVENT_SOLVED, .target = e->vc, .ticket = e->ticket };
        else
            continue;
        (void)core_offer(life->core, &event, NULL, NULL);
        if (e->kind == EFFECT_SPLICE) {
            step(life);
            event.kind = EVENT_STARTED;
            (void)core_offer(life->core, &event, NULL, NULL);
        }
    }
    memmove(life->effects, life->effects + n, (life->effect_count - n) * sizeof(*life->effects));
    life->effect_count -= n;
}

/* One thing happens. What cannot be is refused, and nothing has happened. */
static void happen(struct life *life, const uint8_t *bytes)
{
    static const enum event_kind kinds[EVENTS] = { EVENT_SUBMIT, EVENT_SUBMIT, EVENT_SUBMIT,  EVENT_COUNT,
                                                   EVENT_COUNT,  EVENT_ENDED,  EVENT_NODE,    EVENT_GPU,
                                                   EVENT_QUOTA,  EVENT_HOLD,   EVENT_RELEASE, EVENT_RANK };
    enum event_kind kind = kinds[bytes[0] % EVENTS];
    struct job_ref ref = life->job_count ? life->jobs[bytes[1] % life->job_count] : (struct job_ref){ 0 };
    struct event event = { .kind = kind, .job = ref.index, .gen = ref.gen, .progress = PROGRESS_OWN };

    life->now += bytes[0] / EVENTS * USEC_SEC;
    event.value = bytes[2] % 9;
    event.up = bytes[2] & 1;
    event.target = bytes[1] % 4;
    event.fail = bytes[2] & 2 ? FAIL_SYSTEM : FAIL_NONE;
    if (kind == EVENT_SUBMIT)
        submit(life, bytes[1], bytes[2]);
    else if (kind == EVENT_COUNT)
        answer(life, bytes[1]);
    else
        (void)core_offer(life->core, &event, NULL, NULL);
    step(life);
}

/* Changes words, or cuts off the end, and seals it again as core_save() does. */
static void change(struct buf *snap, const uint8_t *data, size_t size)
{
    size_t words = snap->size / 8 - 1;
    uint64_t sum = 0, word;

    for (; size >= 4; data += 4, size -= 4) {
        size_t at = (data[0] | (size_t)data[1] << 8) % words;

        memcpy(&word, snap->data + at * 8, 8);
        if (data[2] % 8 == 0)
            word = data[3];
        else if (data[2] % 8 == 1)
            word ^= 1ULL << data[3] % 64;
        else if (data[2] % 8 == 2)
            word = UINT64_MAX - data[3];
        else if (data[2] % 8 == 3)
            words = data[3] == 255 ? at + 1 : words;
        else if (data[2] % 8 == 4)
            memcpy(&word, snap->data + data[3] % words * 8, 8);
        else
            word += (uint64_t)(int64_t)(int8_t)data[3];
        memcpy(snap->data + at * 8, &word, 8);
    }
    for (size_t i = 0; i < words; i++) {
        memcpy(&word, snap->data + i * 8, 8);
        sum = rng_mix(sum ^ word);
    }
    memcpy(snap->data + words * 8, &sum, 8);
    snap->size = words * 8 + 8;
}

/* Loads it; what is accepted is sound, and is saved as the same bytes where it is `whole`. */
static void try(struct life *life, const struct buf *snap, bool whole)
{
    struct buf again = BUF_INIT((size_t)1 << 22);
    struct core *core = NULL;
    int r = core_load(&life->cluster, &life->config, snap->data, snap->size, &core, NULL);

    if (whole && r < 0)
        abort();
    if (r == 0) {
        core_audit(core);
        core_save(core, put, &again);
        if (whole && (again.error || again.size != snap->size || memcmp(again.data, snap->data, again.size) != 0))
            abort();
    }
    core_free(core);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct life life = { .now = USEC_SEC };
    struct buf snap = BUF_INIT((size_t)1 << 22);
    const char *text = size < 3         ? ""
                       : data[0] >= 240 ? two_types
                                        : clusters[data[0] % (sizeof(clusters) / sizeof(*clusters))];
    struct bytes bytes = { .data = (char *)(uintptr_t)text, .size = strlen(text) };
    size_t things;

    if (size < 3)
        return 0;
    if (cluster_read_yaml("fuzz", &bytes, &life.cluster, NULL) < 0)
        abort();
    for (int i = 0; i < 2; i++)
        if (policy_parse(policies[data[1] % (sizeof(policies) / sizeof(*policies))], &life.setups[i], NULL) < 0)
            abort();
    life.config = (struct core_config){ .limits = { .jobs = JOBS }, .seed = 1, .policies = life.setups };
    if (core_new(&life.cluster, &life.config, &life.core, NULL) < 0)
        abort();
    step(&life);
    things = data[2] % THINGS;
    for (data += 3, size -= 3; things && size >= 3; things--, data += 3, size -= 3)
        happen(&life, data);
    core_save(life.core, put, &snap);
    if (snap.error)
        abort();
    try(&life, &snap, true);
    change(&snap, data, size);
    try(&life, &snap, false);
    core_free(life.core);
    buf_done(&snap);
    cluster_spec_done(&life.cluster);
    return 0;
}
