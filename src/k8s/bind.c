/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - what the core decided becomes bindings and evictions.
 *
 *   QUEUED ──START──► BINDING ──all are bound──► RUNNING ──all have ended──► gone
 *                        │ one cannot be bound      │ STOP (preempted)
 *                        └────────► LEAVING ◄───────┘
 *                                      └── all that were bound are gone ──► gone; the rest is gathered anew
 *
 * The first pod of a gang is bound alone, with an annotation that says where the rest goes: a scheduler that takes over
 * half-way completes the gang by it. What a binding came to when no answer arrived is read from the pod before anything
 * else is done. Victims leave through the Eviction API, which respects disruption budgets and grace; pods of a gang
 * that could not be bound whole are deleted.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/log.h"
#include "k8s/sched.h"
#include "work/work.h"

enum { TRIES_MAX = 10, FLIGHTS_MAX = 256, ANSWER_WORDS_MAX = 1 << 20 };
#define RETRY_SPAN (USEC_SEC / 5)
#define BUDGET_SPAN (2 * USEC_SEC)
#define HOLD_SPAN (5 * USEC_SEC)

void sched_offer(struct sched *sched, const struct event *event)
{
    struct error err = { 0 };

    if (core_offer(sched->core, event, NULL, &err) < 0)
        log_err("the core refuses an event", "why", err.text);
    else
        sched->offered = true;
}

static void offer_job(struct sched *sched, const struct workload *workload, enum event_kind kind, enum fail_class fail)
{
    sched_offer(sched, &(struct event){ .kind = kind,
                                        .job = workload->slot,
                                        .gen = workload->gen,
                                        .fail = fail,
                                        .rate = PPM_ONE,
                                        .progress = PROGRESS_OWN });
}

void workload_cancel(struct sched *sched, struct workload *workload)
{
    if (!workload->in_core) {
        workload_free(sched, workload);
    } else if (!workload->cancelled) {
        workload->cancelled = true;
        offer_job(sched, workload, EVENT_CANCEL, FAIL_NONE);
    }
}

static void pod_path(char *path, size_t size, const struct k8s_pod *pod, const char *end)
{
    (void)snprintf(path, size, "/api/v1/namespaces/%s/pods/%s%s", pod->namespace, pod->name, end);
}

/* From now on a pod of it that is not there has been, and was replaced. */
static void workload_note_whole(struct sched *sched, const struct workload *workload)
{
    const struct k8s_pod *pod = workload->members[0].pod;
    char path[2 * NAME_MAX_K8S + 64];

    for (uint32_t m = 1; m < workload->member_count; m++)
        if (workload->members[m].pod && workload->members[m].pod->plan)
            pod = workload->members[m].pod; /* of one that was taken over, the first to be bound may be any */
    if (workload->member_count < 2 || !pod || pod->whole)
        return;
    pod_path(path, sizeof(path), pod, "");
    (void)client_send(sched->client,
                      &(struct client_call){ .method = "PATCH",
                                             .path = path,
                                             .type = "application/merge-patch+json",
                                             .body = json_pack("{s:{s:s, s:{s:s}}}", "metadata", "uid", pod->uid,
                                                               "annotations", "muster.io/gang-bound", "true") },
                      NULL);
}

/* ---- its end ---- */

static bool member_settled(const struct member *member)
{
    return !member->flight && (member->state == MEMBER_OVER || member->state == MEMBER_WAITING);
}

/* Nothing of it is on any node any more. */
static void workload_finish(struct sched *sched, struct workload *workload)
{
    enum job_state state;

    if (workload->cancelled)
        return;
    if (!workload->in_core) {
        workload_free(sched, workload);
        return;
    }
    workload->cancelled = true;
    state = (enum job_state)core_job(sched->core, workload->slot)->state;
    if (job_waits(state) || state == JOB_HELD)
        offer_job(sched, workload, EVENT_CANCEL, FAIL_NONE);
    else
        offer_job(sched, workload, EVENT_ENDED, workload->ok ? FAIL_NONE : FAIL_USER);
}

static void workload_check(struct sched *sched, struct workload *workload)
{
    uint32_t settled = 0, over = 0, bound = 0, failed = 0;

    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct member *member = &workload->members[m];

        settled += member_settled(member);
        over += member->state == MEMBER_OVER && !member->flight;
        bound += member->state == MEMBER_BOUND || (member->state == MEMBER_OVER && !member->failed);
        failed += member->failed;
    }
    if (workload->state == WORKLOAD_BINDING && failed) {
        workload->gang->hold_until = sched->now + HOLD_SPAN;
        sched->counts.undone++;
        workload_leave(sched, workload, false);
        return;
    }
    if (workload->state == WORKLOAD_BINDING && bound == workload->member_count) {
        workload->state = WORKLOAD_RUNNING;
        workload_note_whole(sched, workload);
        if (workload->in_core)
            offer_job(sched, workload, EVENT_STARTED, FAIL_NONE);
    }
    if ((workload->state == WORKLOAD_LEAVING && settled == workload->member_count) ||
        (workload->state == WORKLOAD_RUNNING && over == workload->member_count))
        workload_finish(sched, workload);
}

void workload_leave(struct sched *sched, struct workload *workload, bool evict)
{
    if (workload->state == WORKLOAD_LEAVING)
        return;
    workload->state = WORKLOAD_LEAVING;
    workload->evict = evict;
    workload_check(sched, workload);
}

/* ---- pods as they change ---- */

static void member_fail(struct member *member, const char *why)
{
    log_warn("pod not bound", "pod", member->pod ? member->pod->name : "(gone)", "node", member->node_name, "why", why);
    member->failed = true;
    member->state = MEMBER_OVER;
}

/* In a gang that runs, a pod that takes an ended one's place may fail to be bound; the gang goes on. */
static void member_release(struct sched *sched, struct member *member)
{
    struct k8s_pod *pod = member->pod;

    member->pod = NULL;
    if (!pod)
        return;
    pod->of = NULL;
    if (pod->node[0] && !pod_over(pod))
        sched->usage_dirty = true;
    member->workload->gang->hold_until = sched->now + HOLD_SPAN;
    gang_add(sched, pod);
}

static void member_failed(struct sched *sched, struct member *member, const char *why)
{
    sched->counts.bind_failed++;
    member_fail(member, why);
    if (member->workload->state == WORKLOAD_RUNNING)
        member_release(sched, member);
}

void member_pod_gone(struct sched *sched, struct member *member)
{
    struct workload *workload = member->workload;

    sched->usage_dirty |= member->pod && member->pod->extra_count > 0;
    member->pod = NULL;
    if (workload->state <= WORKLOAD_QUEUED) {
        workload_cancel(sched, workload);
        return;
    }
    if (member->state != MEMBER_OVER) {
        member->state = MEMBER_OVER;
        workload->ok = false;
        /* A gang that is not whole yet will not be. */
        member->failed |= workload->state == WORKLOAD_BINDING;
    }
    workload_check(sched, workload);
}

static void member_bound(struct sched *sched, struct member *member)
{
    if (member->state == MEMBER_BOUND || member->state == MEMBER_OVER)
        return;
    member->state = MEMBER_BOUND;
    sched->counts.bound++;
    sched->usage_dirty |= member->pod && member->pod->extra_count > 0;
}

void member_pod_changed(struct sched *sched, struct member *member)
{
    struct workload *workload = member->workload;
    struct k8s_pod *pod = member->pod;

    if (workload->state <= WORKLOAD_QUEUED) {
        /* It waits no more, or asks for something else: its gang is gathered anew. */
        if (pod->node[0] || pod->phase != POD_PENDING || pod->deleting || pod->gated || pod->gpus != member->gpus ||
            pod->refused)
            workload_cancel(sched, workload);
        return;
    }
    if (pod->node[0] && strcmp(pod->node, member->node_name) != 0) {
        sched->counts.conflicts++;
        member_failed(sched, member, "somebody else has bound it elsewhere");
        sched->usage_dirty = true;
    } else if (pod->node[0]) {
        member_bound(sched, member);
    } else if (pod->deleting && member->state == MEMBER_WAITING) {
        member_failed(sched, member, "it is being deleted");
    }
    if (pod_over(pod) && member->state != MEMBER_OVER) {
        member->state = MEMBER_OVER;
        workload->ok &= pod->phase == POD_SUCCEEDED;
        sched->usage_dirty |= pod->extra_count > 0;
    }
    workload_check(sched, workload);
}

/* ---- requests ---- */

/* Members stay where they are as long as an answer is outstanding: their workload is not freed before. */
struct flight {
    struct sched *sched;
    struct member *member;
};

typedef void (*reply_fn)(void *arg, const struct client_reply *reply);

static bool request_send(struct sched *sched, struct member *member, struct client_call *call, reply_fn done)
{
    struct flight *flight = mem_zalloc(1, sizeof(*flight));

    if (!flight) {
        json_decref(call->body);
        return false;
    }
    *flight = (struct flight){ sched, member };
    call->done = done;
    call->arg = flight;
    member->flight = true;
    sched->flights++;
    if (client_send(sched->client, call, NULL) < 0) {
        member->flight = false;
        sched->flights--;
        mem_free(flight);
        return false;
    }
    return true;
}

static struct member *request_land(void *arg, struct sched **ret_sched)
{
    struct flight *flight = arg;
    struct member *member = flight->member;

    *ret_sched = flight->sched;
    flight->sched->flights--;
    member->flight = false;
    mem_free(flight);
    return member;
}

static void member_retry(struct sched *sched, struct member *member, enum member_state state, const char *why)
{
    if (++member->tries > TRIES_MAX) {
        member_failed(sched, member, why);
        return;
    }
    member->state = state;
    member->try_at = sched->now + RETRY_SPAN * member->tries;
}

static void on_read(void *arg, const struct client_reply *reply)
{
    struct sched *sched;
    struct member *member = request_land(arg, &sched);
    const char *node = json_at_text(reply->body, "spec|nodeName");

    if (member->state != MEMBER_ASKED) { /* the watch was faster */
        workload_check(sched, member->workload);
        return;
    }
    if (reply->status == 404 || (reply->status == 200 && member->pod &&
                                 strcmp(json_at_text(reply->body, "metadata|uid"), member->pod->uid) != 0))
        member_failed(sched, member, "it is gone");
    else if (reply->status != 200)
        member_retry(sched, member, MEMBER_ASKED, reply->text);
    else if (strcmp(node, member->node_name) == 0)
        member_bound(sched, member);
    else if (*node) {
        sched->counts.conflicts++;
        member_failed(sched, member, "somebody else has bound it elsewhere");
    } else
        member_retry(sched, member, MEMBER_WAITING, "its bindings are refused");
    workload_check(sched, member->workload);
}

static void member_read(struct sched *sched, struct member *member)
{
    char path[2 * NAME_MAX_K8S + 64];

    pod_path(path, sizeof(path), member->pod, "");
    (void)request_send(sched, member, &(struct client_call){ .method = "GET", .path = path }, on_read);
}

static void on_bound(void *arg, const struct client_reply *reply)
{
    struct sched *sched;
    struct member *member = request_land(arg, &sched);

    if (member->state != MEMBER_SENT) {
        workload_check(sched, member->workload);
        return;
    }
    if (reply->status == 200 || reply->status == 201)
        member_bound(sched, member);
    else if (reply->status == 400 || reply->status == 403 || reply->status == 422)
        member_failed(sched, member, reply->text);
    else if (!member->pod)
        member_failed(sched, member, "it is gone");
    else {
        sched->counts.conflicts += reply->status == 409;
        member_retry(sched, member, MEMBER_ASKED, reply->text);
        member->try_at = 0;
    }
    workload_check(sched, member->workload);
}

static void devices_text(const struct member *member, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t d = 0; d < member->gpus && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%u", d ? "," : "", member->devices[d]);
}

/* Where the others go, for whoever has to complete the gang. */
static char *plan_text(const struct workload *workload)
{
    json_t *plan = json_array();
    char devices[DEVICES_MAX * 6], *text;

    for (uint32_t m = 1; m < workload->member_count; m++) {
        const struct member *member = &workload->members[m];

        devices_text(member, devices, sizeof(devices));
        if (member->pod)
            (void)json_array_append_new(
                plan, json_pack("[s, s, s, s]", member->pod->name, member->pod->uid, member->node_name, devices));
    }
    text = json_dumps(plan, JSON_COMPACT);
    json_decref(plan);
    return text;
}

static json_t *binding_json(const struct workload *workload, const struct member *member)
{
    const struct k8s_pod *pod = member->pod;
    json_t *notes = json_object();
    char devices[DEVICES_MAX * 6];

    devices_text(member, devices, sizeof(devices));
    (void)json_object_set_new(notes, "muster.io/gpus", json_string(devices));
    if (pod->hived)
        (void)json_object_set_new(notes, "hivedscheduler.microsoft.com/pod-leaf-cell-isolation", json_string(devices));
    if (member == workload->members && workload->member_count > 1) {
        char *plan = plan_text(workload);

        if (plan)
            (void)json_object_set_new(notes, "muster.io/gang-plan", json_string(plan));
        free(plan); /* jansson's */
    }
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:o}, s:{s:s, s:s, s:s}}", "apiVersion", "v1", "kind", "Binding",
                     "metadata", "name", pod->name, "namespace", pod->namespace, "uid", pod->uid, "annotations", notes,
                     "target", "apiVersion", "v1", "kind", "Node", "name", member->node_name);
}

static void member_bind(struct sched *sched, struct member *member)
{
    char path[2 * NAME_MAX_K8S + 64];

    pod_path(path, sizeof(path), member->pod, "/binding");
    if (request_send(
            sched, member,
            &(struct client_call){ .method = "POST", .path = path, .body = binding_json(member->workload, member) },
            on_bound))
        member->state = MEMBER_SENT;
    else
        member->try_at = sched->now + RETRY_SPAN;
}

static void on_left(void *arg, const struct client_reply *reply)
{
    struct sched *sched;
    struct member *member = request_land(arg, &sched);

    member->workload->blocked = reply->status == 429;
    if ((reply->status >= 200 && reply->status < 300) || reply->status == 404) {
        sched->counts.evicted += reply->status != 404 && !member->leaving;
        member->leaving = true;
    } else {
        member->try_at = sched->now + (reply->status == 429 ? BUDGET_SPAN : RETRY_SPAN);
    }
    workload_check(sched, member->workload);
}

static void member_evict(struct sched *sched, struct member *member)
{
    const struct k8s_pod *pod = member->pod;
    bool evict = member->workload->evict;
    char path[2 * NAME_MAX_K8S + 64];
    json_t *options =
        json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions", "preconditions", "uid", pod->uid);

    if (evict)
        options = json_pack("{s:s, s:s, s:{s:s, s:s}, s:o}", "apiVersion", "policy/v1", "kind", "Eviction", "metadata",
                            "name", pod->name, "namespace", pod->namespace, "deleteOptions", options);
    pod_path(path, sizeof(path), pod, evict ? "/eviction" : "");
    if (!request_send(sched, member,
                      &(struct client_call){ .method = evict ? "POST" : "DELETE", .path = path, .body = options },
                      on_left))
        member->try_at = sched->now + RETRY_SPAN;
}

/* ---- its turn ---- */

/* Of a gang that is undone the pod with the plan goes last: whoever takes over half-way finds out by it. */
static bool leaves_now(const struct workload *workload, const struct member *member)
{
    if (workload->evict || !(member->pod->plan || (member == workload->members && !workload->restored)))
        return true;
    for (uint32_t m = 0; m < workload->member_count; m++)
        if (&workload->members[m] != member && !member_settled(&workload->members[m]))
            return false;
    return true;
}

static void member_turn(struct sched *sched, struct workload *workload, struct member *member)
{
    bool leader = member == workload->members || workload->members[0].state >= MEMBER_BOUND;

    if (member->flight || !member->pod || sched->flights >= FLIGHTS_MAX || member->try_at > sched->now)
        return;
    if (member->state == MEMBER_ASKED)
        member_read(sched, member);
    else if (member->state == MEMBER_BOUND && workload->state == WORKLOAD_LEAVING && !member->leaving &&
             leaves_now(workload, member))
        member_evict(sched, member);
    else if (member->state == MEMBER_WAITING && workload->state != WORKLOAD_LEAVING && leader)
        member_bind(sched, member);
}

usec_t workload_turn(struct sched *sched, struct workload *workload)
{
    usec_t next = USEC_NEVER;

    if (workload->state == WORKLOAD_REFUSED) {
        if (workload->retry_at <= sched->now)
            workload_submit(sched, workload);
        return workload->state == WORKLOAD_REFUSED ? workload->retry_at : USEC_NEVER;
    }
    if (workload->state == WORKLOAD_QUEUED || workload->cancelled)
        return USEC_NEVER;
    for (uint32_t m = 0; m < workload->member_count; m++) {
        struct member *member = &workload->members[m];

        member_turn(sched, workload, member);
        if (!member->flight && member->pod && member->try_at > sched->now && member->try_at < next &&
            member->state != MEMBER_OVER)
            next = member->try_at;
    }
    return next;
}

/* ---- effects ---- */

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return (a > b) - (a < b);
}

static void member_place(struct sched *sched, struct member *member, uint32_t node)
{
    member->node = node < sched->by_node_count ? sched->by_node[node] : NULL;
    (void)snprintf(member->node_name, sizeof(member->node_name), "%s",
                   names_get(&sched->cluster.names, sched->cluster.nodes[node].name));
}

/* Its GPUs, ascending, are the bins one after the other; each lies on one node. */
static int place_gpus(struct sched *sched, struct workload *workload)
{
    const struct ledger *ledger = core_ledger(sched->core);
    uint32_t count = workload->bins * workload->chunk, n = 0;
    uint32_t *gpus = mem_zalloc((size_t)count + 1, sizeof(*gpus)),
             *used = mem_zalloc((size_t)workload->bins + 1, sizeof(*used));

    if (!gpus || !used) {
        mem_free(gpus);
        mem_free(used);
        return -ENOMEM;
    }
    for (uint32_t s = core_job(sched->core, workload->slot)->shares; s != SHARE_NONE && n < count;
         s = ledger->shares[s].next_of_job)
        gpus[n++] = ledger->shares[s].gpu;
    assert(n == count);
    qsort(gpus, n, sizeof(*gpus), by_number);
    for (uint32_t m = 0; m < workload->member_count; m++) {
        struct member *member = &workload->members[m];
        uint32_t first = member->bin * workload->chunk, node = ledger->gpus[gpus[first]].node;

        for (uint32_t d = 0; d < member->gpus; d++)
            member->devices[d] = (uint16_t)(gpus[first + used[member->bin] + d] - ledger->topo.nodes[node].first_gpu);
        used[member->bin] += member->gpus;
        member_place(sched, member, node);
    }
    mem_free(gpus);
    mem_free(used);
    return 0;
}

static int place_tasks(struct sched *sched, struct workload *workload)
{
    struct core_task *tasks = mem_zalloc(workload->member_count, sizeof(*tasks));
    uint32_t count, m = 0;

    if (!tasks)
        return -ENOMEM;
    count = core_tasks(sched->core, workload->slot, tasks, workload->member_count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = 0; t < tasks[i].tasks && m < workload->member_count; t++)
            member_place(sched, &workload->members[m++], tasks[i].node);
    assert(m == workload->member_count);
    mem_free(tasks);
    return 0;
}

static void effect_start(struct sched *sched, struct workload *workload)
{
    char text[256];
    int r;

    workload->state = WORKLOAD_BINDING;
    if (workload->restored) {
        if (workload->torn)
            workload_leave(sched, workload, false);
        else
            workload_check(sched, workload);
        return;
    }
    r = workload->chunk ? place_gpus(sched, workload) : place_tasks(sched, workload);
    if (r < 0 || !fleet_extra_fits(sched, workload, text, sizeof(text))) {
        workload->gang->hold_until = sched->now + HOLD_SPAN;
        (void)snprintf(workload->gang->code, sizeof(workload->gang->code), "InsufficientExtended");
        (void)snprintf(workload->gang->text, sizeof(workload->gang->text), "%s", r < 0 ? "no memory" : text);
        for (uint32_t m = 0; m < workload->member_count; m++)
            workload->members[m].node_name[0] = '\0';
        workload_leave(sched, workload, false);
    }
}

static void effect_forget(struct sched *sched, struct workload *workload)
{
    workload->in_core = false;
    if (sched->by_slot[workload->slot] == workload)
        sched->by_slot[workload->slot] = NULL;
    if (workload->cancelled || workload->state <= WORKLOAD_QUEUED)
        workload_free(sched, workload);
    else
        sched->usage_dirty = true; /* its pods are still there, and no longer the core's */
}

static void effect_solve(struct sched *sched, const struct effect *effect, const struct outbox *out)
{
    struct work_answer answer = { .capacity = ANSWER_WORDS_MAX };
    int64_t *request = mem_zalloc((size_t)effect->word_count + 1, sizeof(*request));

    answer.words = mem_zalloc(answer.capacity, sizeof(*answer.words));
    if (request && answer.words) {
        memcpy(request, out->words + effect->word_first, effect->word_count * sizeof(*request));
        if (work_run((enum solve_kind)effect->solve, request, effect->word_count, &answer, NULL) < 0)
            answer.count = 0;
    }
    sched_offer(sched, &(struct event){ .kind = EVENT_SOLVED,
                                        .target = effect->vc,
                                        .ticket = effect->ticket,
                                        .words = answer.words,
                                        .word_count = answer.count });
    mem_free(request);
    mem_free(answer.words);
}

static void effect_apply(struct sched *sched, const struct effect *effect, struct workload *workload)
{
    switch (effect->kind) {
    case EFFECT_START:
    case EFFECT_RESUME:
        if (workload && !workload->cancelled && workload->state == WORKLOAD_QUEUED)
            effect_start(sched, workload);
        break;
    case EFFECT_STOP:
        if (workload && workload->state == WORKLOAD_QUEUED) /* nothing of it was launched */
            offer_job(sched, workload, EVENT_STOPPED, FAIL_NONE);
        else if (workload)
            workload_leave(sched, workload, true);
        break;
    case EFFECT_MIGRATE:
    case EFFECT_SPLICE:
    case EFFECT_KILL:
        if (workload && workload->state > WORKLOAD_QUEUED)
            workload_leave(sched, workload, true);
        break;
    case EFFECT_FORGET:
        if (workload)
            effect_forget(sched, workload);
        break;
    case EFFECT_PREPARE: /* nothing is launched ahead of its GPUs, */
    case EFFECT_LIMIT:   /* and nobody shares them: policies that would are refused */
    case EFFECT_SAVE:
    case EFFECT_SOLVE:
    case EFFECT_COUNT:
        break;
    }
}

void effects_apply(struct sched *sched, const struct outbox *out)
{
    struct workload **of = mem_zalloc(out->effect_count + 1, sizeof(*of));
    struct effect *effects = mem_zalloc(out->effect_count + 1, sizeof(*effects));
    size_t count = out->effect_count;

    if (!of || !effects)
        abort(); /* decisions that are not carried out would be a lie */
    /* Slots that were freed may be given to others while the effects are carried out. */
    for (size_t i = 0; i < count; i++) {
        effects[i] = out->effects[i];
        of[i] = effects[i].kind == EFFECT_SOLVE ? NULL : sched->by_slot[effects[i].job];
    }
    for (size_t i = 0; i < count; i++) {
        if (effects[i].kind == EFFECT_SOLVE)
            effect_solve(sched, &effects[i], out);
        else
            effect_apply(sched, &effects[i], of[i]);
        for (size_t j = i + 1; j < count && effects[i].kind == EFFECT_FORGET; j++)
            if (of[j] == of[i])
                of[j] = NULL; /* it is freed */
    }
    mem_free(of);
    mem_free(effects);
}
