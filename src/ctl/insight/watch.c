/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h. */
#include "ctl/insight/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/ledger.h"
#include "ctl/insight/event_detail.h"
#include "ctl/insight/forecast.h"
#include "ctl/insight/selfcheck.h"
#include "ctl/insight/stats.h"
#include "ctl/rest/render/render.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "io/file.h"
#include "io/log.h"

enum {
    WAITS_KEPT = 512,
    SERIES_BYTES_MAX = 64 << 20,
    FAULTS_MAX = 4096,
    FORESEEN = 1024,
    FORESEE_QUEUE_MAX = 500,
    FORESEE_REST = 1000
};
#define SAVE_EVERY (10 * 60 * USEC_SEC)

struct node_past {
    struct gpu_past *gpus;
    uint32_t count;
};

struct watch {
    struct server *server;
    struct loop_timer *timer;
    struct series *series;
    struct node_past *nodes; /* as the registry's */
    size_t node_capacity;
    int64_t used[STATS_VCS_MAX][SKUS_MAX][USE_CLASSES];
    float waits[SIZE_CLASSES][WAITS_KEPT];
    uint32_t wait_next[SIZE_CLASSES], wait_count[SIZE_CLASSES];
    struct gpu_fault *faults;
    size_t fault_count, fault_capacity;
    struct {
        int64_t job;
        usec_t at;
    } foreseen[FORESEEN]; /* the first start foreseen for a job, by its number modulo */
    usec_t foresee_next;
    usec_t looked, saved;
};

const struct series *watch_series(const struct watch *watch)
{
    return watch->series;
}

const struct gpu_look *gpu_past_at(const struct gpu_past *past, uint32_t i)
{
    return &past->looks[(past->next + GPU_LOOKS - past->count + i) % GPU_LOOKS];
}

static struct gpu_past *past_get(struct watch *watch, uint32_t node, uint32_t gpu)
{
    if (node >= watch->node_capacity || gpu >= watch->nodes[node].count)
        return NULL;
    return &watch->nodes[node].gpus[gpu];
}

const struct gpu_past *watch_gpu(const struct watch *watch, const struct ctl_node *node, uint32_t gpu)
{
    if (node->name >= watch->node_capacity || gpu >= watch->nodes[node->name].count)
        return NULL;
    return &watch->nodes[node->name].gpus[gpu];
}

int64_t watch_used(const struct watch *watch, uint32_t vc, uint32_t sku, enum use_class klass)
{
    return vc < STATS_VCS_MAX && sku < SKUS_MAX ? watch->used[vc][sku][klass] : 0;
}

static int wait_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

size_t watch_waits(const struct watch *watch, unsigned size, double *ret_waits, size_t max)
{
    size_t n = 0;

    for (uint32_t i = 0; i < watch->wait_count[size] && n < max; i++)
        ret_waits[n++] = (double)watch->waits[size][i];
    qsort(ret_waits, n, sizeof(*ret_waits), wait_order);
    return n;
}

/* Room for what nodes there are now. */
static int rooms_make(struct watch *watch, const struct registry *registry)
{
    void *block = watch->nodes;
    size_t had = watch->node_capacity;
    int r = mem_grow(&block, &watch->node_capacity, registry->node_count, NODES_MAX, sizeof(*watch->nodes));

    watch->nodes = block;
    if (r < 0)
        return r;
    if (watch->node_capacity > had)
        memset(watch->nodes + had, 0, (watch->node_capacity - had) * sizeof(*watch->nodes));
    for (size_t n = 0; n < registry->node_count; n++) {
        struct node_past *past = &watch->nodes[n];
        struct gpu_past *grown;

        if (past->count >= registry->nodes[n].gpu_count)
            continue;
        grown = mem_resize(past->gpus, registry->nodes[n].gpu_count, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        memset(grown + past->count, 0, (registry->nodes[n].gpu_count - past->count) * sizeof(*grown));
        past->gpus = grown;
        past->count = registry->nodes[n].gpu_count;
    }
    return 0;
}

/* Since when something is so without a break. */
static void lasts(usec_t *since, bool so, usec_t now)
{
    *since = !so ? 0 : *since ? *since : now;
}

static void gpu_watch(struct gpu_past *past, const struct ctl_gpu *gpu, bool used, usec_t now)
{
    if (used && !past->looks)
        past->looks = mem_zalloc(GPU_LOOKS, sizeof(*past->looks));
    if (gpu->power > past->power_max)
        past->power_max = gpu->power > UINT16_MAX ? UINT16_MAX : (uint16_t)gpu->power;
    lasts(&past->idle_since, used && gpu->util < 5 && !past->paused, now);
    /* A collective that waits for ever keeps the GPU at full utilisation and at little power. */
    lasts(&past->stall_since, used && gpu->util >= 90 && gpu->power * 2 < past->power_max, now);
    if (!past->looks || (!used && past->count && gpu_past_at(past, past->count - 1)->util == 0 && gpu->util == 0))
        return;
    past->looks[past->next] = (struct gpu_look){
        .at = now, .util = gpu->util, .temp = gpu->temp, .power = (uint16_t)gpu->power, .memory_mib = gpu->memory_mib
    };
    past->next = (past->next + 1) % GPU_LOOKS;
    if (past->count < GPU_LOOKS)
        past->count++;
}

/* Sums of a type over its nodes. */
struct type_sum {
    int64_t used, free, down, foreign, util, biggest;
};

static void node_watch(struct watch *watch, const struct scene *scene, uint32_t n, struct type_sum *sum)
{
    const struct ctl_node *node = &scene->registry->nodes[n];
    struct node_use use;

    node_use(scene, node, &use);
    sum->used += use.used;
    sum->free += use.free;
    sum->down += use.down;
    sum->foreign += use.foreign;
    sum->biggest = use.free > sum->biggest ? use.free : sum->biggest;
    for (uint32_t g = 0; g < node->gpu_count; g++) {
        struct gpu_past *past = past_get(watch, n, g);
        bool used = gpu_in_use(scene, node, g);

        sum->util += used ? node->gpus[g].util : 0;
        if (past)
            gpu_watch(past, &node->gpus[g], used, scene->now);
        if (past)
            past->paused = false;
    }
}

static void put(struct watch *watch, const char *kind, const char *name, const char *what, int64_t value)
{
    char text[SERIES_NAME_MAX];

    /* Names of types may have blanks, which end a name in the file. */
    if (snprintf(text, sizeof(text), "%s/%s/%s", kind, name, what) >= (int)sizeof(text))
        return;
    for (char *at = text; *at; at++)
        if (*at == ' ' || *at == '\n')
            *at = '_';
    (void)series_put(watch->series, text, watch->looked, value);
}

/* GPUs of jobs that a person has suspended. */
static void paused_mark(struct watch *watch, const struct scene *scene)
{
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = job_paused(job) ? attempt_last(job) : NULL;

        for (uint32_t t = 0; attempt && t < attempt->task_count; t++)
            for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++) {
                struct gpu_past *past = past_get(watch, attempt->tasks[t].node, attempt->tasks[t].gpus[g]);

                if (past)
                    past->paused = true;
            }
    }
}

static void types_watch(struct watch *watch, const struct scene *scene)
{
    struct type_sum sums[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < scene->registry->node_count; n++) {
        uint32_t sku = node_sku(scene, &scene->registry->nodes[n]);

        if (!scene->registry->nodes[n].forgotten && sku < SKUS_MAX)
            node_watch(watch, scene, n, &sums[sku]);
    }
    for (uint32_t s = 0; s < scene->cluster->sku_count; s++) {
        const char *name = names_get(&scene->cluster->names, scene->cluster->skus[s].name);
        const struct type_sum *sum = &sums[s];

        put(watch, "sku", name, "used", sum->used * MGPU_ONE);
        put(watch, "sku", name, "free", sum->free * MGPU_ONE);
        put(watch, "sku", name, "down", sum->down * MGPU_ONE);
        put(watch, "sku", name, "foreign", sum->foreign * MGPU_ONE);
        put(watch, "sku", name, "busy", sum->util * MGPU_ONE / 100);
        put(watch, "sku", name, "largest_gang", (int64_t)largest_gang(scene, s) * MGPU_ONE);
        put(watch, "sku", name, "fragmentation", sum->free ? (sum->free - sum->biggest) * 1000 / sum->free : 0);
    }
}

/* What a virtual cluster has at this moment, by class of use; and its time since the last look. */
static void vc_watch(struct watch *watch, const struct scene *scene, uint32_t v, usec_t span)
{
    const struct vc *vc = core_vc(scene->core, v);
    struct vc_sum sum;

    vc_sum(scene, v, &sum);
    put(watch, "vc", vc_name(scene, v), "guaranteed", sum.guaranteed);
    put(watch, "vc", vc_name(scene, v), "used", sum.used);
    put(watch, "vc", vc_name(scene, v), "borrowed", sum.borrowed);
    put(watch, "vc", vc_name(scene, v), "lent", sum.lent);
    put(watch, "vc", vc_name(scene, v), "oppo", sum.oppo);
    put(watch, "vc", vc_name(scene, v), "pending", sum.pending_gpus * MGPU_ONE);
    for (uint32_t s = 0; v < STATS_VCS_MAX && s < scene->cluster->sku_count; s++) {
        int64_t over = vc->used[s] > vc->quota[s] ? vc->used[s] - vc->quota[s] : 0;

        watch->used[v][s][USE_GUARANTEED] += svc_of(vc->used[s] - over, span);
        watch->used[v][s][USE_BORROWED] += svc_of(over, span);
        watch->used[v][s][USE_OPPO] += svc_of(vc->guest[s], span);
    }
}

static void series_write(struct watch *watch)
{
    struct buf out = BUF_INIT(SERIES_BYTES_MAX);
    struct error err = { 0 };
    char path[4096];

    watch->saved = clock_now();
    series_save(watch->series, &out);
    (void)snprintf(path, sizeof(path), "%s/series.txt", watch->server->conf->state);
    if (out.error || file_write_atomic(path, out.data, out.size, &err) < 0)
        log_warn("the figures of the past were not written", "file", path, "error", err.text);
    buf_done(&out);
}

static void series_read(struct watch *watch)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct error err = { 0 };
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/series.txt", watch->server->conf->state);
    if (file_read(path, SERIES_BYTES_MAX, &bytes, NULL) == 0 &&
        series_load(watch->series, bytes.data, bytes.size, &err) < 0)
        log_warn("some figures of the past could not be read", "file", path, "error", err.text);
}

static void wait_note(struct watch *watch, const struct ctl_job *job)
{
    unsigned size = size_class(jobspec_gpus(&job->wants));

    watch->waits[size][watch->wait_next[size]] = (float)((double)(job->first_start - job->submit) / 1e6);
    watch->wait_next[size] = (watch->wait_next[size] + 1) % WAITS_KEPT;
    if (watch->wait_count[size] < WAITS_KEPT)
        watch->wait_count[size]++;
}

/* "XID 79" is 79; other words are not labels. */
static void fault_note(struct watch *watch, uint32_t node, const struct ctl_event *event)
{
    const char *reason = event_detail_text(event, "reason");
    struct gpu_fault fault = { .node = node, .gpu = (uint32_t)event_detail_number(event, "gpu") };
    void *block = watch->faults;
    int number;
    size_t i = 0;

    if (reason && sscanf(reason, "XID %d", &number) == 1 && number >= 0 && number < 10000)
        (void)snprintf(fault.xid, sizeof(fault.xid), "%d", number);
    else
        (void)snprintf(fault.xid, sizeof(fault.xid), "other");
    while (i < watch->fault_count && (watch->faults[i].node != node || watch->faults[i].gpu != fault.gpu ||
                                      strcmp(watch->faults[i].xid, fault.xid) != 0))
        i++;
    if (i == watch->fault_count) {
        int r = mem_grow(&block, &watch->fault_capacity, i + 1, FAULTS_MAX, sizeof(fault));

        watch->faults = block;
        if (r < 0)
            return;
        watch->faults[watch->fault_count++] = fault;
    }
    watch->faults[i].count++;
}

const struct gpu_fault *watch_faults(const struct watch *watch, size_t *ret_count)
{
    *ret_count = watch->fault_count;
    return watch->faults;
}

double watch_share(const struct scene *scene, uint32_t v)
{
    const struct series *series = watch_series(scene->server->watch);
    const unsigned tier = SERIES_TIERS - 1;
    const struct series_line *used, *owed;
    double sum_used = 0, sum_owed = 0;
    char name[SERIES_NAME_MAX];
    struct vc_sum now;

    (void)snprintf(name, sizeof(name), "vc/%s/used", vc_name(scene, v));
    used = series_find(series, name);
    (void)snprintf(name, sizeof(name), "vc/%s/guaranteed", vc_name(scene, v));
    owed = series_find(series, name);
    for (usec_t at = scene->now - 7 * USEC_DAY; used && owed && at <= scene->now; at += series_tiers[tier].step)
        if (series_at(used, tier, at) != SERIES_NONE && series_at(owed, tier, at) != SERIES_NONE) {
            sum_used += series_at(used, tier, at);
            sum_owed += series_at(owed, tier, at);
        }
    if (sum_owed > 0)
        return sum_used / sum_owed;
    vc_sum(scene, v, &now);
    return now.guaranteed ? (double)now.used / (double)now.guaranteed : 0;
}

/* What is foreseen for jobs that wait is noted once, so that it can be held against what came. Only while the queue is
 * short, and for a thousandth of the time: it is work that nobody asked for. */
static void starts_foresee(struct watch *watch, const struct scene *scene)
{
    usec_t began = clock_now();

    if (!scene->core || core_waiting(scene->core) > FORESEE_QUEUE_MAX || began < watch->foresee_next)
        return;
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        struct eta eta;

        if (job->phase != PHASE_JOB_PENDING || !job_in_core(job) || job->attempt_count ||
            watch->foreseen[job->id % FORESEEN].job == job->id || !forecast_eta(scene->server->forecast, job->id, &eta))
            continue;
        watch->foreseen[job->id % FORESEEN].job = job->id;
        watch->foreseen[job->id % FORESEEN].at = eta.at;
    }
    watch->foresee_next = began + FORESEE_REST * (clock_now() - began);
}

void watch_event(struct watch *watch, const struct ctl_event *event)
{
    const struct registry *registry = server_book(watch->server);
    bool runs = event->job && strcmp(event->kind, "job.running") == 0; /* most events are not looked up */
    const struct ctl_job *job = runs ? registry_find(registry, event->job) : NULL;

    if (job && job->attempt_count == 1 && job->first_start)
        wait_note(watch, job);
    if (job && job->attempt_count == 1 && job->vc < STATS_VCS_MAX &&
        watch->foreseen[job->id % FORESEEN].job == job->id) {
        usec_t gap = job->first_start - watch->foreseen[job->id % FORESEEN].at;

        histogram_add(&watch->server->stats->eta_error[job->vc], gap < 0 ? -gap : gap);
    }
    if (event->node && strcmp(event->kind, "gpu.bad") == 0) {
        const struct ctl_node *node = registry_node_find(registry, event->node);

        if (node)
            fault_note(watch, node->name, event);
    }
}

static void on_ended(void *arg, const struct entry_result *result)
{
    (void)arg;
    (void)result; /* it may have ended by itself meanwhile */
}

/* Jobs that asked to be ended when they leave their GPUs idle. */
static void idle_end(const struct watch *watch, const struct scene *scene)
{
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = attempt_last(job);
        usec_t since = attempt ? attempt->started : 0;
        bool idle = job->spec->idle_timeout > 0 && job->phase == PHASE_JOB_RUNNING && attempt &&
                    !attempt_leaving(attempt) && !attempt->kept_until;
        struct entry_result refused;
        uint32_t gpus = 0; /* a job without GPUs leaves none idle */
        char why[96];

        for (uint32_t t = 0; idle && t < attempt->task_count; t++)
            for (uint16_t g = 0; idle && g < attempt->tasks[t].gpu_count; g++) {
                const struct gpu_past *past =
                    watch_gpu(watch, &scene->registry->nodes[attempt->tasks[t].node], attempt->tasks[t].gpus[g]);

                idle = past && past->idle_since;
                since = idle && past->idle_since > since ? past->idle_since : since;
                gpus++;
            }
        if (!idle || gpus == 0 || scene->now - since < job->spec->idle_timeout)
            continue;
        (void)snprintf(why, sizeof(why), "its GPUs were idle for %lld s (idle_timeout)",
                       (long long)((scene->now - since) / USEC_SEC));
        (void)batcher_offer(
            scene->server->batcher,
            &(struct entry){ .kind = ENTRY_CANCEL,
                             .cancel = { .job = job->id, .by = entry_text("musterd"), .why = entry_text(why) } },
            on_ended, NULL, &refused);
    }
}

static void on_look(void *arg)
{
    struct watch *watch = arg;
    struct server *server = watch->server;
    usec_t now = clock_now(), span = watch->looked ? now - watch->looked : 0;
    struct scene scene;

    if (!server->batcher || server->conf->virtual_time)
        return;
    if (!watch->saved) {
        series_read(watch);
        watch->saved = now;
    }
    scene_of(&scene, server);
    watch->looked = now;
    if (rooms_make(watch, scene.registry) < 0)
        return;
    paused_mark(watch, &scene);
    types_watch(watch, &scene);
    for (uint32_t v = 0; scene.core && v < core_vc_count(scene.core); v++)
        vc_watch(watch, &scene, v, span);
    starts_foresee(watch, &scene);
    idle_end(watch, &scene);
    selfcheck_tick(server->selfcheck, now);
    if (now - watch->saved >= SAVE_EVERY)
        series_write(watch);
}

int watch_new(struct server *server, struct watch **ret_watch)
{
    struct watch *watch = mem_zalloc(1, sizeof(*watch));

    if (!watch)
        return -ENOMEM;
    watch->server = server;
    if (series_new(&watch->series) < 0 || loop_timer_new(server->loop, on_look, watch, &watch->timer) < 0) {
        watch_free(watch);
        return -ENOMEM;
    }
    loop_timer_every(watch->timer, WATCH_EVERY);
    *ret_watch = watch;
    return 0;
}

void watch_stop(struct watch *watch)
{
    if (!watch)
        return;
    loop_timer_free(take(watch->timer));
    if (watch->saved && watch->server->batcher)
        series_write(watch);
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    loop_timer_free(watch->timer);
    for (size_t n = 0; n < watch->node_capacity; n++) {
        for (uint32_t g = 0; g < watch->nodes[n].count; g++)
            mem_free(watch->nodes[n].gpus[g].looks);
        mem_free(watch->nodes[n].gpus);
    }
    mem_free(watch->nodes);
    mem_free(watch->faults);
    series_free(watch->series);
    mem_free(watch);
}
