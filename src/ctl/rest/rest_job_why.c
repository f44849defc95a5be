/* SPDX-License-Identifier: Apache-2.0 */
/* rest_job_why.c - why a job waits or was stopped, what would start now instead, and plans for jobs not yet submitted.
 *
 * The reason is the one the decision recorded. Who is in the way and when that ends comes from the ledger and from a
 * future of a copied core; other shapes are submitted to further copies, in the job's place, and looked at.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/host_resources.h"
#include "core/ledger/ledger.h"
#include "ctl/insight/forecast_internal.h"
#include "ctl/rest/common/access.h"
#include "ctl/rest/rest.h"
#include "ctl/state/attempt/attempt.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "wire/text/hostlist.h"

enum { SHOWN_MAX = 16, FORMS_MAX = 4, TERMS_MAX = 4 };
#define ETA_NEAR (2 * USEC_SEC) /* two futures of one state begin so far from each other, at most */

static int tier_of(const struct ctl_job *job, const char *code)
{
    static const char *const third[] = { "VcLimit", "UserLimit", "AccountBudget", "BorrowLimit", "LicenseLimit" };
    static const char *const fifth[] = { "Preempting", "Defragmenting", "Scheduling", "Acquiring", "Profiling" };

    if ((job->gate != GATE_NONE && job->gate != GATE_USER) || strcmp(code, "Backoff") == 0 ||
        strcmp(code, "Held") == 0 || strcmp(code, "SchedulerPaused") == 0)
        return 2;
    for (size_t i = 0; i < 5; i++) {
        if (strcmp(code, third[i]) == 0)
            return 3;
        if (strcmp(code, fifth[i]) == 0)
            return 5;
    }
    return 4;
}

static const char *sku_name(const struct scene *scene, uint32_t sku)
{
    return sku < scene->cluster->sku_count ? names_get(&scene->cluster->names, scene->cluster->skus[sku].name) : "";
}

static bool sku_allowed(const struct jobspec *spec, uint32_t sku)
{
    uint32_t mask = spec->sku_mask;

    for (uint32_t i = 0; i < spec->side_count; i++)
        mask |= spec->sides[i].sku_mask;
    return mask == 0 || (mask >> sku & 1);
}

/* "H100 or A100" */
static void types_text(const struct scene *scene, uint32_t mask, char type[160])
{
    type[0] = '\0';
    for (uint32_t sku = 0; mask && sku < scene->cluster->sku_count; sku++)
        if (mask >> sku & 1) {
            size_t length = strlen(type);

            (void)snprintf(type + length, 160 - length, "%s%s", length ? " or " : "", sku_name(scene, sku));
        }
}

/* "2 nodes x 8 H100", "16 H100", "half of a GPU". */
static void asks_text(const struct scene *scene, const struct jobspec *spec, char *out, size_t size)
{
    char type[160];

    types_text(scene, spec->sku_mask, type);
    if (spec->gpus == 0)
        (void)snprintf(out, size, "%d %s with %g CPUs and %u MiB each, no GPUs", spec->tasks,
                       spec->tasks == 1 ? "node" : "nodes", spec->mcpus / 1000.0, spec->host_mib);
    else if (spec->share < MGPU_ONE)
        (void)snprintf(out, size, "%g of a %s", (double)spec->share / MGPU_ONE, *type ? type : "GPU");
    else if (spec->per_node && spec->gpus > spec->per_node)
        (void)snprintf(out, size, "%d nodes x %d %s", spec->gpus / spec->per_node, spec->per_node,
                       *type ? type : "GPUs");
    else
        (void)snprintf(out, size, "%d %s%s", spec->gpus,
                       *type             ? type
                       : spec->gpus == 1 ? "GPU"
                                         : "GPUs",
                       spec->per_node ? " on one node" : "");
    for (uint32_t i = 0; i < spec->side_count; i++) {
        const struct gang_side *side = &spec->sides[i];
        size_t length = strlen(out);

        types_text(scene, side->sku_mask, type);
        (void)snprintf(out + length, size - length, ", and %d nodes x %d %s", side->gpus / side->per_node,
                       side->per_node, type);
    }
}

void why_asks(const struct scene *scene, struct json_write *json, const struct jobspec *spec)
{
    char text[256];

    asks_text(scene, spec, text, sizeof(text));
    json_write_object(json, "asks");
    json_write_i64(json, "nodes", spec->per_node ? spec->gpus / spec->per_node : 0);
    json_write_i64(json, "gpus", jobspec_gpus(spec));
    json_write_i64(json, "gpu_share", spec->share);
    json_write_text(json, "text", text);
    json_write_close(json);
}

static void entitlement_put(const struct scene *scene, struct json_write *json, uint32_t number)
{
    const struct vc *vc = scene->core && number < core_vc_count(scene->core) ? core_vc(scene->core, number) : NULL;
    int64_t quota = 0, used = 0, more;
    char text[256];

    if (!vc) {
        json_write_null(json, "entitlement");
        return;
    }
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++) {
        quota += vc->quota[sku];
        used += vc->used[sku];
    }
    more = vc->borrow_max > vc->borrowed ? vc->borrow_max - vc->borrowed : 0; /* less was allowed meanwhile: none */
    json_write_object(json, "entitlement");
    json_write_text(json, "vc", vc_name(scene, number));
    json_write_double(json, "guarantee", (double)quota / MGPU_ONE);
    json_write_double(json, "used", (double)used / MGPU_ONE);
    if (vc->borrow_max < 0)
        json_write_null(json, "borrowable");
    else
        json_write_double(json, "borrowable", (double)more / MGPU_ONE);
    if (vc->borrow_max < 0)
        (void)snprintf(text, sizeof(text), "guarantee %g, used %g; it may borrow what is idle",
                       (double)quota / MGPU_ONE, (double)used / MGPU_ONE);
    else
        (void)snprintf(text, sizeof(text), "guarantee %g, used %g; it may borrow %g more", (double)quota / MGPU_ONE,
                       (double)used / MGPU_ONE, (double)more / MGPU_ONE);
    json_write_text(json, "text", text);
    json_write_close(json);
}

/* Nodes it may run on, by their type, its choice and reservations, that have GPUs free. */
static void free_put(const struct scene *scene, struct json_write *json, const struct jobspec *spec)
{
    int shown = 0;

    json_write_array(json, "free");
    for (size_t i = 0; scene->core && i < scene->registry->node_count && shown < SHOWN_MAX * 4; i++) {
        const struct ctl_node *node = &scene->registry->nodes[i];
        const struct topo *topo = &core_ledger(scene->core)->topo;
        struct node_use use;

        if (!node_open(scene, node, spec) || !sku_allowed(spec, topo->nodes[node->core_node].sku))
            continue;
        node_use(scene, node, &use);
        if (use.free == 0)
            continue;
        json_write_object(json, NULL);
        json_write_text(json, "node", node_name(scene, (uint32_t)i));
        json_write_i64(json, "gpus", use.free);
        json_write_text(json, "sku", sku_name(scene, topo->nodes[node->core_node].sku));
        json_write_close(json);
        shown++;
    }
    json_write_close(json);
}

struct holder {
    const struct ctl_job *job;
    usec_t until;
};

static int holder_order(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    usec_t xu = x->until ? x->until : USEC_NEVER, yu = y->until ? y->until : USEC_NEVER;

    if (xu != yu)
        return xu < yu ? -1 : 1;
    return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

/* Whom a person has suspended keeps its GPUs; who waits for its turn has left them to another. */
static bool has_gpus(const struct ctl_job *job)
{
    return job->phase != PHASE_JOB_PENDING && (job->phase != PHASE_JOB_SUSPENDED || job_paused(job));
}

/* Whether one of the tasks is on a node that the job could use. */
static bool in_the_way(const struct scene *scene, const struct ctl_attempt *attempt, const struct jobspec *wants)
{
    const struct topo *topo = &core_ledger(scene->core)->topo;

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_node *node = &scene->registry->nodes[attempt->tasks[t].node];

        if (node_open(scene, node, wants) && sku_allowed(wants, topo->nodes[node->core_node].sku))
            return true;
    }
    return false;
}

/* When it is expected to leave its GPUs; without a forecast, when it has to. */
static usec_t holder_until(const struct scene *scene, const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    usec_t leaves = forecast_leave(scene->server->forecast, job->id);

    if (leaves)
        return leaves;
    return job->wants.time_limit && attempt->started ? attempt->started + job->wants.time_limit : 0;
}

/* The one whose end the expected start waits for comes first, so that no limit leaves it out. */
static void holders_lead(struct holder *holders, size_t n, usec_t start)
{
    struct holder last;
    size_t at = n;

    for (size_t i = 0; i < n; i++)
        if (holders[i].until && holders[i].until <= start + ETA_NEAR)
            at = i;
    if (!start || at == n)
        return;
    last = holders[at];
    memmove(holders + 1, holders, at * sizeof(*holders));
    holders[0] = last;
}

/* Other jobs on nodes it could use, those first that end first. */
static void holders_put(const struct scene *scene, struct json_write *json, const struct ctl_job *whose, usec_t start)
{
    struct holder *holders = mem_zalloc(scene->registry->live_count + 1, sizeof(*holders));
    size_t n = 0;

    for (size_t i = 0; holders && scene->core && i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = attempt_last(job);

        if (job == whose || !attempt || attempt->ended || !has_gpus(job) || !in_the_way(scene, attempt, &whose->wants))
            continue;
        holders[n++] = (struct holder){ job, holder_until(scene, job, attempt) };
    }
    if (holders)
        qsort(holders, n, sizeof(*holders), holder_order);
    if (holders)
        holders_lead(holders, n, start);
    json_write_array(json, "heldBy");
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        const struct ctl_attempt *attempt = attempt_last(holders[i].job);

        json_write_object(json, NULL);
        json_write_i64(json, "job", holders[i].job->id);
        put_array(scene, json, holders[i].job);
        json_write_text(json, "user", user_name(scene, holders[i].job->user));
        json_write_i64(json, "gpus", jobspec_gpus(&holders[i].job->wants));
        json_write_array(json, "nodes");
        for (uint32_t t = 0; attempt && t < attempt->task_count && t < SHOWN_MAX; t++)
            json_write_text(json, NULL, node_name(scene, attempt->tasks[t].node));
        json_write_close(json);
        put_time(json, "until", holders[i].until);
        json_write_close(json);
    }
    json_write_close(json);
    mem_free(holders);
}

/* Whether it was planned before this place too: what starts, is sent away and starts again is ahead once. */
static bool planned_before(const struct planned *planned, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (planned[i].job == planned[at].job)
            return true;
    return false;
}

/* Waiting jobs that start before it in the likely future. */
static void ahead_put(const struct scene *scene, struct json_write *json, int64_t id)
{
    size_t count = 0, shown = 0;
    const uint32_t *gpus;
    const struct planned *planned = forecast_planned(scene->server->forecast, &count, &gpus);

    json_write_array(json, "ahead");
    for (size_t i = 0; i < count && planned[i].job != id && shown < SHOWN_MAX; i++) {
        const struct ctl_job *job = registry_find(scene->registry, planned[i].job);

        if (!job || job->phase != PHASE_JOB_PENDING || planned_before(planned, i))
            continue;
        json_write_object(json, NULL);
        json_write_i64(json, "job", job->id);
        put_array(scene, json, job);
        json_write_text(json, "user", user_name(scene, job->user));
        json_write_i64(json, "gpus", jobspec_gpus(&job->wants));
        put_time(json, "start", planned[i].start);
        json_write_close(json);
        shown++;
    }
    json_write_close(json);
}

void why_eta(struct json_write *json, const char *key, const struct eta *eta)
{
    if (!eta) {
        json_write_null(json, key);
        return;
    }
    json_write_object(json, key);
    put_time(json, "at", eta->at);
    put_time(json, "low", eta->low);
    put_time(json, "high", eta->high);
    json_write_text(json, "basis", eta->basis);
    json_write_close(json);
}

/* Where a start would be, in words of the registry: "gpu[01-02]". */
void why_place(const struct scene *scene, const struct future *future, const struct foreseen *start, struct buf *out)
{
    const struct ledger *ledger = core_ledger(scene->core);
    const char *names[64];
    size_t n = 0;
    uint32_t last = UINT32_MAX;

    for (uint32_t i = 0; i < start->gpu_count && n < 64; i++) {
        uint32_t node = ledger->gpus[future->gpus[start->gpu_first + i]].node;

        if (node == last)
            continue;
        last = node;
        for (size_t b = 0; b < scene->registry->node_count; b++)
            if (scene->registry->nodes[b].core_node == node)
                names[n++] = node_name(scene, (uint32_t)b);
    }
    if (n)
        hostlist_put(out, names, n);
    buf_char(out, '\0');
}

/* The start of a job like `spec`, put into a copy in place of `instead` (NULL: beside everybody). */
int why_start(const struct scene *scene, const struct jobspec *spec, uint32_t vc, const struct ctl_job *instead,
              struct future *ret_future, struct error *err)
{
    struct core *core = NULL;
    struct event event = { .kind = EVENT_SUBMIT, .target = vc, .spec = spec };
    struct job_ref ref;
    int r = core_copy_choosing(scene, &core, err);

    if (r < 0)
        return r;
    if (instead && job_in_core(instead))
        r = core_offer(core, &(struct event){ .kind = EVENT_CANCEL, .job = instead->slot, .gen = instead->gen }, NULL,
                       err);
    if (r == 0)
        r = core_offer(core, &event, &ref, err);
    if (r == 0)
        r = future_of(scene->server, core, EXPECT_LIKELY, spec->id, ret_future, NULL);
    core_free(core);
    return r;
}

struct form {
    struct jobspec spec;
    uint32_t vc;
    char flags[160];
};

static void shape_add(struct form *shapes, size_t *count, const struct jobspec *spec, const char *flags)
{
    if (*count == FORMS_MAX || spec->gpus < 1)
        return;
    for (size_t i = 0; i < *count; i++)
        if (shapes[i].spec.gpus == spec->gpus && shapes[i].spec.per_node == spec->per_node &&
            shapes[i].spec.sku_mask == spec->sku_mask)
            return;
    shapes[*count].spec = *spec;
    shapes[*count].spec.gpus_min = shapes[*count].spec.gpus_max = spec->gpus;
    (void)snprintf(shapes[(*count)++].flags, sizeof(shapes->flags), "%s", flags);
}

static int64_t free_gpus(const struct scene *scene, uint32_t sku, int64_t *ret_biggest)
{
    const struct topo *topo = &core_ledger(scene->core)->topo;
    int64_t all = 0, biggest = 0;

    for (size_t i = 0; i < scene->registry->node_count; i++) {
        const struct ctl_node *node = &scene->registry->nodes[i];
        struct node_use use;

        if (node->core_node >= topo->node_count || topo->nodes[node->core_node].sku != sku)
            continue;
        node_use(scene, node, &use);
        all += use.free;
        biggest = use.free > biggest ? use.free : biggest;
    }
    *ret_biggest = biggest;
    return all;
}

/* Requests near this one: spread over nodes, of another type, smaller. */
static size_t shapes_make(const struct scene *scene, const struct jobspec *spec, struct form *shapes)
{
    size_t count = 0;

    if (spec->share < MGPU_ONE)
        return 0;
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++) {
        struct jobspec other = *spec;
        int64_t biggest, all = free_gpus(scene, sku, &biggest);
        char flags[160];

        other.sku_mask = 1U << sku;
        if (spec->per_node && sku_allowed(spec, sku)) {
            other.per_node = 0;
            (void)snprintf(flags, sizeof(flags), "-G %s:%d", sku_name(scene, sku), spec->gpus);
            shape_add(shapes, &count, &other, flags);
        }
        if (!sku_allowed(spec, sku)) {
            (void)snprintf(flags, sizeof(flags), "-G %s:%d", sku_name(scene, sku), spec->gpus);
            other.per_node = 0;
            shape_add(shapes, &count, &other, flags);
        }
        if (sku_allowed(spec, sku) && all > 0 && all < spec->gpus) {
            other.gpus = (int32_t)all;
            other.per_node = 0;
            (void)snprintf(flags, sizeof(flags), "-G %s:%d", sku_name(scene, sku), other.gpus);
            shape_add(shapes, &count, &other, flags);
        }
        if (sku_allowed(spec, sku) && biggest > 0 && biggest < spec->gpus) {
            other.gpus = (int32_t)biggest;
            other.per_node = (uint16_t)biggest;
            (void)snprintf(flags, sizeof(flags), "-N 1 --gpus-per-node=%s:%d", sku_name(scene, sku), other.gpus);
            shape_add(shapes, &count, &other, flags);
        }
    }
    return count;
}

/* The same request on other terms, where enough GPUs are free for it: as an opportunistic job, in another virtual
 * cluster that its user may submit it to. */
static size_t terms_make(const struct scene *scene, const char *user, const struct jobspec *spec, uint32_t vc,
                         struct form *shapes)
{
    int64_t free = 0, biggest;
    size_t count = 0;

    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        free += sku_allowed(spec, sku) ? free_gpus(scene, sku, &biggest) : 0;
    if (free < jobspec_gpus(spec))
        return 0;
    if (spec->klass != CLASS_OPPORTUNISTIC && spec->preempt != PREEMPT_NEVER && spec->min_runtime == 0) {
        shapes[count] = (struct form){ *spec, vc, "-q oppo" };
        shapes[count].spec.klass = CLASS_OPPORTUNISTIC;
        shapes[count++].spec.priority = -1;
    }
    for (uint32_t other = 0; other < scene->cluster->vc_count && count < TERMS_MAX; other++) {
        if (other == vc || settings_closed(ctl_settings(batcher_ctl(scene->server->batcher)), vc_name(scene, other)) ||
            !access_shown(scene, user, vc_name(scene, other), spec))
            continue;
        shapes[count] = (struct form){ .spec = *spec, .vc = other };
        (void)snprintf(shapes[count++].flags, sizeof(shapes->flags), "-p %.120s", vc_name(scene, other));
    }
    return count;
}

/* Tried in a copy, and told; `only_now`: only if it would start at once. */
static void shape_put(const struct scene *scene, struct json_write *json, const struct form *shape, bool only_now,
                      const struct ctl_job *instead)
{
    CLEANUP_BUF struct buf nodes = BUF_INIT(65536);
    struct jobspec spec = shape->spec;
    struct future future = { 0 };
    const struct foreseen *start;
    struct error err = { 0 };
    char text[400];
    bool now;
    int r;

    spec.id = PLAN_ID;
    r = why_start(scene, &spec, shape->vc, instead, &future, &err);
    start = r == 0 ? future_find(&future, PLAN_ID) : NULL;
    now = start && start->start <= clock_now();
    if (only_now && !now) {
        future_done(&future);
        return;
    }
    if (start)
        why_place(scene, &future, start, &nodes);
    if (r < 0) {
        char code[32];

        submit_words(err.text, code, sizeof(code));
        (void)snprintf(text, sizeof(text), "no: %.300s", err.text);
    } else
        (void)snprintf(text, sizeof(text), "%s%.300s",
                       now     ? "starts now on "
                       : start ? "later, on "
                               : "not now",
                       start ? nodes.data : "");
    json_write_object(json, NULL);
    json_write_text(json, "flags", shape->flags);
    json_write_bool(json, "ok", now);
    json_write_text(json, "nodes", start ? nodes.data : "");
    put_time(json, "start", start ? start->start : 0);
    json_write_text(json, "text", text);
    json_write_close(json);
    future_done(&future);
}

void why_shapes(const struct scene *scene, struct json_write *json, const char *key, const struct jobspec *spec,
                uint32_t vc, const struct ctl_job *instead)
{
    struct form shapes[FORMS_MAX], terms[TERMS_MAX];
    /* Flags do not change roles. */
    bool roles = (instead && instead->spec->role_count) || spec->side_count;
    const char *user = instead ? names_get(&scene->registry->users, instead->user) : scene->who->user;
    size_t count = scene->core && !roles ? shapes_make(scene, spec, shapes) : 0;
    size_t term_count = scene->core && !roles ? terms_make(scene, user, spec, vc, terms) : 0;

    json_write_array(json, key);
    for (size_t i = 0; i < term_count; i++)
        shape_put(scene, json, &terms[i], true, instead);
    for (size_t i = 0; i < count; i++) {
        shapes[i].vc = vc;
        shape_put(scene, json, &shapes[i], false, instead);
    }
    json_write_close(json);
}

/* What stopped it, and what that cost. */
static void receipt_put(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = NULL;
    const char *kind;
    char text[256];

    for (uint32_t a = job->attempt_count; a-- > 0 && !attempt;)
        if (job->attempts[a].stop_cause != STOP_CAUSE_NONE && job->attempts[a].ended)
            attempt = &job->attempts[a];
    if (!attempt) {
        json_write_null(json, "receipt");
        return;
    }
    kind = attempt_stop_word(scene, job, attempt);
    json_write_object(json, "receipt");
    json_write_i64(json, "attempt", attempt->number);
    json_write_text(json, "step", kind);
    if (attempt->stop_by)
        json_write_i64(json, "by", attempt->stop_by);
    else
        json_write_null(json, "by");
    json_write_i64(json, "lost_gpu_seconds", attempt_lost(job, attempt) / USEC_SEC);
    if (attempt->stop_by)
        (void)snprintf(text, sizeof(text), "%s: made room for job %" PRId64, kind, attempt->stop_by);
    else
        (void)snprintf(text, sizeof(text), "%s", kind);
    json_write_text(json, "text", text);
    put_time(json, "time", attempt->ended);
    json_write_close(json);
}

/* Since when it waits this time: what it has run before is no waiting. */
static usec_t pending_since(const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    if (job->phase == PHASE_JOB_SUSPENDED && job->reason_since)
        return job->reason_since;
    return attempt && attempt->ended ? attempt->ended : job->submit;
}

static void why_put(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const char *code = NULL;
    const char *words;
    char text[320];
    struct eta eta;
    usec_t kept = render_kept(job, &code, text, sizeof(text));
    bool silent = !kept && render_node_silent(scene, job, &code, text, sizeof(text));
    bool waits = !kept && !silent && render_reason(scene, job, &code, text, sizeof(text)), told;
    usec_t since = job->reason_since ? job->reason_since : job->submit;

    if (waits) {
        json_write_text(json, "code", code);
        json_write_text(json, "message", text);
        json_write_i64(json, "tier", tier_of(job, code));
    } else if (!silent && render_starting(job, &code, &words, &since)) {
        json_write_text(json, "code", code);
        json_write_text(json, "message", words);
        json_write_i64(json, "tier", 5);
    } else if (kept || silent) {
        json_write_text(json, "code", code);
        json_write_text(json, "message", text);
        json_write_null(json, "tier");
    } else {
        json_write_text(json, "code", phase_over(job->phase) ? phase_name(job->phase) : "Running");
        json_write_text(json, "message",
                        phase_over(job->phase) ? job->end_text
                        : job->wants.gpus == 0 ? "it holds its CPUs"
                                               : "it holds its GPUs");
        json_write_null(json, "tier");
    }
    put_time(json, "since", since);
    put_time(json, "kept_until", kept);
    json_write_i64(json, "pending_seconds", waits ? (scene->now - pending_since(job)) / USEC_SEC : 0);
    why_asks(scene, json, &job->wants);
    put_promise(scene, json, job);
    entitlement_put(scene, json, job->vc);
    why_licenses(scene, json, &job->wants);
    resvs_put(scene, json, job);
    /* Nothing is short that others have, or it cannot be said. */
    if (!waits || job->gate != GATE_NONE || !job_in_core(job) || job_paused(job)) {
        json_write_array(json, "free");
        json_write_close(json);
        json_write_array(json, "heldBy");
        json_write_close(json);
        json_write_array(json, "ahead");
        json_write_close(json);
        why_eta(json, "eta", waits && forecast_eta(scene->server->forecast, job->id, &eta) ? &eta : NULL);
        json_write_array(json, "startsNowWith");
        json_write_close(json);
        return;
    }
    told = eta_range(scene->server, job->id, &eta);
    free_put(scene, json, &job->wants);
    holders_put(scene, json, job, told ? eta.at : 0);
    ahead_put(scene, json, job->id);
    why_eta(json, "eta", told ? &eta : NULL);
    why_shapes(scene, json, "startsNowWith", &job->wants, job->vc, job);
}

void forecast_why(struct request *request)
{
    const struct ctl_job *job = request_job(request);
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    if (!job)
        return;
    scene_fill(&scene, request);
    if (!render_shows(&scene, job)) {
        reply_problem(request, 404, "NotFound", NULL, "no job %" PRId64, job->id);
        return;
    }
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Explanation");
    json_write_i64(&json, "job", job->id);
    put_array(&scene, &json, job);
    if (job->spec->name && render_names(&scene, job))
        json_write_text(&json, "name", job->spec->name);
    else
        json_write_null(&json, "name");
    json_write_text(&json, "user", user_name(&scene, job->user));
    json_write_text(&json, "vc", vc_name(&scene, job->vc));
    json_write_text(&json, "priority_class", priority_class(job->wants.priority));
    json_write_text(&json, "state", phase_name(job->phase));
    why_put(&scene, &json, job);
    receipt_put(&scene, &json, job);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
