/* SPDX-License-Identifier: Apache-2.0 */
/* live_sim.c - live equals simulated: one workload under every policy, once through the simulator's own core and once
 * through a controller in virtual time, byte for byte the same decisions.
 *
 * In the second run the world of the simulator plays the clients and the agents: jobs are submitted as requests, orders
 * come out, what the world answers goes in as reports of agents; every batch is committed to a store before it counts.
 * Nothing but the clock is emulated between a request and the decision it leads to.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/log/batcher.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "ctl/state/registry.h"
#include "policy/registry.h"
#include "sim/gen/gen.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"
#include "wire/job/gang_part.h"
#include "wire/job/jobspec_json.h"
#include "wire/job/license.h"
#include "wire/trace/trace.h"

struct lines {
    struct buf text;
};

struct live {
    struct store *store;
    struct batcher *batcher;
    const struct trace *trace;
    const struct scenario *scenario;
    struct lines *log;
    struct outbox out;
    usec_t now;
    uint64_t seq[64];
    uint32_t nodes;
    struct error err;
};

static void log_simulated(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    struct lines *log = arg;

    core_tell(core, decision, gpus, &log->text);
}

/* What the loop of a daemon would provide. */
static usec_t host_now(void *arg)
{
    return ((struct live *)arg)->now;
}

static int host_work(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    (void)arg;
    work(work_arg);
    done(work_arg);
    return 0;
}

static void host_wake(void *arg, usec_t at)
{
    (void)arg;
    (void)at;
}

static bool host_order(void *arg, const char *node, const struct agent_frame *frame)
{
    (void)arg;
    (void)node;
    (void)frame; /* the world learns of it from the core's effects, as it does in a simulation */
    return true;
}

static void host_event(void *arg, const struct ctl_event *event)
{
    (void)arg;
    (void)event;
}

static void host_decision(void *arg, const char *line)
{
    struct live *live = arg;

    buf_text(&live->log->text, line);
    buf_char(&live->log->text, '\n');
}

static void host_fatal(void *arg, const struct error *err)
{
    (void)arg;
    fprintf(stderr, "live_sim: %s\n", err->text);
    abort();
}

static void host_solve(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count)
{
    (void)arg;
    (void)vc;
    (void)ticket;
    (void)kind;
    (void)words;
    (void)count; /* the world carries it out when it sees the effect */
}

static void append(void **to, size_t *count, size_t *capacity, const void *from, size_t more, size_t size)
{
    if (mem_grow(to, capacity, *count + more + 1, (size_t)1 << 28, size) < 0) /* never without memory */
        abort();
    if (more)
        memcpy((char *)*to + *count * size, from, more * size);
    *count += more;
}

static void host_stepped(void *arg, const struct outbox *out)
{
    struct live *live = arg;
    struct outbox *to = &live->out;
    void *effects = to->effects, *decisions = to->decisions, *gpus = to->gpus, *words = to->words;
    uint32_t gpu0 = (uint32_t)to->gpu_count, word0 = (uint32_t)to->word_count;
    size_t effect0 = to->effect_count, decision0 = to->decision_count;

    append(&effects, &to->effect_count, &to->effect_capacity, out->effects, out->effect_count, sizeof(*out->effects));
    append(&decisions, &to->decision_count, &to->decision_capacity, out->decisions, out->decision_count,
           sizeof(*out->decisions));
    append(&gpus, &to->gpu_count, &to->gpu_capacity, out->gpus, out->gpu_count, sizeof(*out->gpus));
    append(&words, &to->word_count, &to->word_capacity, out->words, out->word_count, sizeof(*out->words));
    to->effects = effects;
    to->decisions = decisions;
    to->gpus = gpus;
    to->words = words;
    for (size_t i = effect0; i < to->effect_count; i++)
        to->effects[i].word_first += word0;
    for (size_t i = decision0; i < to->decision_count; i++)
        to->decisions[i].gpu_first += gpu0;
}

static int offer(struct live *live, enum entry_kind kind, json_t *body, struct error *err)
{
    struct entry_result ret;
    int r = batcher_offer_json(live->batcher, kind, body, NULL, NULL, &ret);

    if (r < 0)
        *err = ret.text;
    return r;
}

/* What an agent sends; the number of its node is in the task. */
static int send_report(struct live *live, uint32_t node, json_t *frame, struct error *err)
{
    const struct registry *registry = ctl_registry(batcher_ctl(live->batcher));
    int r;

    (void)json_object_set_new(frame, "t", json_string("report"));
    (void)json_object_set_new(frame, "seq", json_integer((json_int_t)++live->seq[node]));
    r = batcher_agent_frame(live->batcher, names_get(&registry->node_names, node), frame, err);
    json_decref(frame);
    return r;
}

/* All ranks of an attempt say the same. */
static int send_state(struct live *live, const struct ctl_job *job, const struct ctl_attempt *place,
                      const json_t *extra, const char *state, struct error *err)
{
    int r = 0;

    for (uint32_t t = 0; r == 0 && t < place->task_count; t++) {
        json_t *frame = json_pack("{s:I, s:I, s:I, s:s}", "job", (json_int_t)job->id, "attempt",
                                  (json_int_t)place->number, "rank", (json_int_t)t, "state", state);

        (void)json_object_update_new(frame, json_copy((json_t *)(uintptr_t)extra));
        r = send_report(live, place->tasks[t].node, frame, err);
    }
    return r;
}

static int send_measure(struct live *live, int64_t job, json_t *measure, struct error *err)
{
    return send_report(live, 0, json_pack("{s:I, s:o}", "job", (json_int_t)job, "measure", measure), err);
}

static int offer_submit(struct live *live, const struct event *event, uint32_t index, struct error *err)
{
    const struct jobspec *spec = event->spec;
    const char *user = names_get(&live->trace->users, spec->user);
    json_t *body, *wants, *codes = json_array();
    struct jobspec told = *spec;

    (void)index;
    told.vc = event->target;
    wants = wants_json(&told);
    for (uint32_t i = 0; i < spec->retry_on_count; i++)
        (void)json_array_append_new(codes, json_integer(spec->retry_on[i]));
    body = json_pack("{s:s, s:{s:i, s:[s], s:i, s:o, s:s, s:b}, s:o}", "user", user && *user ? user : "somebody",
                     "spec", "gpus", 1, "args", "x", "retries", (int)spec->retries, "retry_on", codes, "preempt",
                     trace_preempts[spec->preempt], "requeue", !spec->no_requeue, "wants", wants);
    return offer(live, ENTRY_SUBMIT, body, err);
}

/* The tasks of a job that moves leave first; then it runs where it is now. */
static int offer_started(struct live *live, const struct ctl_job *job, const struct event *event, struct error *err)
{
    const struct ctl_attempt *attempt = &job->attempts[job->attempt_count - 1];
    json_t *extra = json_pack("{s:I}", "rate", (json_int_t)event->rate), *gone;
    int r = 0;

    if (attempt_in(attempt, ATTEMPT_SET(MOVING))) {
        gone = json_pack("{s:s}", "cause", "migrate");
        r = send_state(live, job, attempt, gone, "exited", err);
        json_decref(gone);
        if (r == 0)
            r = batcher_turn_at(live->batcher, live->now);
        attempt = &job->attempts[job->attempt_count - 1];
    }
    if (r == 0)
        r = send_state(live, job, attempt, extra, "running", err);
    json_decref(extra);
    return r;
}

/* What agents say of a rank that has ended, by the class of its failure. */
static void tell_failure(const struct event *event, json_t *extra)
{
    switch (event->fail) {
    case FAIL_NONE:
        break;
    case FAIL_USER:
        (void)json_object_set_new(extra, "exit", json_integer(event->value ? event->value : 1));
        break;
    case FAIL_SYSTEM:
        (void)json_object_set_new(extra, "cause", json_string("lost"));
        break;
    case FAIL_UNKNOWN:
        (void)json_object_set_new(extra, "signal", json_integer(9));
        break;
    case FAIL_MEMORY:
        (void)json_object_set_new(extra, "cause", json_string("oom"));
        (void)json_object_set_new(extra, "oom", json_true());
        (void)json_object_set_new(extra, "exit", json_integer(event->value));
        break;
    case FAIL_TIMEOUT:
        (void)json_object_set_new(extra, "cause", json_string("timeout"));
        break;
    case FAIL_PREEMPTED:
        (void)json_object_set_new(extra, "cause", json_string("preempt"));
        break;
    case FAIL_REQUEUE: /* a person or a drain, of which there are none here */
    case FAIL_COUNT:
        abort();
    }
}

static int offer_left(struct live *live, const struct ctl_job *job, const struct event *event, struct error *err)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    const struct job *in_core = core_job(ctl_core(batcher_ctl(live->batcher)), job->slot);
    json_t *extra = json_object();
    const char *state = "exited";
    int r;

    if (event->progress != PROGRESS_OWN)
        (void)json_object_set_new(extra, "progress", json_integer(event->progress));
    if (event->kind == EVENT_STOPPED && in_core->sheds) /* it goes on elsewhere, and has left where it was */
        (void)json_object_set_new(extra, "cause", json_string("migrate"));
    else if (event->kind == EVENT_STOPPED && in_core->parks)
        state = "suspended";
    else if (event->kind == EVENT_STOPPED)
        (void)json_object_set_new(extra, "cause", json_string("preempt"));
    else
        tell_failure(event, extra);
    r = send_state(live, job, attempt, extra, state, err);
    json_decref(extra);
    return r;
}

static int port_offer(void *arg, const struct event *event, uint32_t index, struct error *err)
{
    struct live *live = arg;
    const struct registry *registry = ctl_registry(batcher_ctl(live->batcher));
    int64_t id = index == UINT32_MAX ? 0 : live->trace->jobs[index].spec.id;
    const struct ctl_job *job = registry_find(registry, id);
    json_t *words;

    switch ((int)event->kind) {
    case EVENT_SUBMIT:
        return offer_submit(live, event, index, err);
    case EVENT_STARTED:
        return offer_started(live, job, event, err);
    case EVENT_ENDED:
    case EVENT_STOPPED:
        return offer_left(live, job, event, err);
    case EVENT_RATE:
        words = json_pack("{s:I}", "rate", (json_int_t)event->rate);
        if (event->progress != PROGRESS_OWN)
            (void)json_object_set_new(words, "progress", json_integer(event->progress));
        return send_measure(live, id, words, err);
    case EVENT_REPORT:
        return send_measure(live, id,
                            json_pack("{s:I, s:[I, I, I]}", "kind", (json_int_t)event->report.kind, "values",
                                      (json_int_t)event->report.value[0], (json_int_t)event->report.value[1],
                                      (json_int_t)event->report.value[2]),
                            err);
    case EVENT_SOLVED:
        words = json_array();
        for (uint32_t i = 0; i < event->word_count; i++)
            (void)json_array_append_new(words, json_integer(event->words[i]));
        return offer(live, ENTRY_SOLVED,
                     json_pack("{s:I, s:I, s:o}", "vc", (json_int_t)event->target, "ticket", (json_int_t)event->ticket,
                               "words", words),
                     err);
    default:
        return error_set(err, -ENOTSUP, "live_sim: no such event in this workload");
    }
}

static int port_step(void *arg, usec_t at, const struct outbox **ret_outbox, struct core **ret_core, struct error *err)
{
    struct live *live = arg;
    union {
        const struct core *seen;
        struct core *own; /* the driver only reads it */
    } core;

    live->out.effect_count = live->out.decision_count = live->out.gpu_count = live->out.word_count = 0;
    live->now = at;
    if (batcher_turn_at(live->batcher, at) < 0)
        return error_set(err, -EIO, "live_sim: the store failed");
    core.seen = ctl_core(batcher_ctl(live->batcher));
    *ret_core = core.own;
    *ret_outbox = &live->out;
    return 0;
}

static int port_find(void *arg, uint32_t index, struct job_ref *ret_ref)
{
    struct live *live = arg;
    const struct ctl_job *job =
        registry_find(ctl_registry(batcher_ctl(live->batcher)), live->trace->jobs[index].spec.id);

    if (!job || !job_in_core(job))
        return -ENOENT;
    *ret_ref = (struct job_ref){ job->slot, job->gen };
    return 0;
}

static json_t *licenses_of(const struct cluster_spec *cluster)
{
    json_t *licenses = json_object();

    for (uint32_t i = 0; i < cluster->license_count; i++)
        (void)json_object_set_new(licenses, names_get(&cluster->names, cluster->licenses[i].name),
                                  json_integer(cluster->licenses[i].count));
    return licenses;
}

static int open_live(struct live *live, const char *policy, const struct setting *set,
                     const struct cluster_spec *cluster, const char *where)
{
    struct batcher_config config = { .ctl = { .policy = policy,
                                              .jobs_max = 8192,
                                              .finished_keep = 8192,
                                              .lease = 60 * USEC_SEC,
                                              .node_timeout = 30 * USEC_SEC,
                                              .virtual_time = true },
                                     .pending_max = 1 << 20,
                                     .snapshot_every = 500 };
    struct batcher_host host = { .now = host_now,
                                 .work = host_work,
                                 .wake_at = host_wake,
                                 .order = host_order,
                                 .event = host_event,
                                 .decision = host_decision,
                                 .fatal = host_fatal,
                                 .stepped = host_stepped,
                                 .solve = host_solve,
                                 .arg = live };
    int r = store_open(where, &live->store, &live->err);

    if (r == 0)
        r = batcher_new(&config, &host, live->store, &live->batcher, &live->err);
    for (uint32_t n = 0; r == 0 && n < cluster->node_count; n++) {
        json_t *gpus = json_array(), *hello;

        for (uint32_t g = 0; g < cluster->nodes[n].gpus; g++)
            (void)json_array_append_new(gpus, json_pack("{s:I}", "index", (json_int_t)g));
        hello =
            json_pack("{s:s, s:s, s:s, s:{s:s, s:o}}", "agent", "a", "boot", "b", "address", "127.0.0.1", "inventory",
                      "sku", names_get(&cluster->names, cluster->skus[cluster->nodes[n].sku].name), "gpus", gpus);
        r = batcher_agent_hello(live->batcher, names_get(&cluster->names, cluster->nodes[n].name), hello, &live->err);
        json_decref(hello);
    }
    if (r == 0 && (set || cluster->license_count)) {
        json_t *settings = json_pack("{s:s, s:o}", "policy", policy, "licenses", licenses_of(cluster));

        if (set)
            (void)json_object_set_new(settings, "set", json_pack("{s:s}", set->key, set->value));
        r = offer(live, ENTRY_CONFIG, settings, &live->err);
    }
    if (r == 0)
        r = batcher_turn_at(live->batcher, 0);
    return r;
}

static void close_live(struct live *live)
{
    batcher_free(live->batcher);
    store_close(live->store);
    mem_free(live->out.effects);
    mem_free(live->out.decisions);
    mem_free(live->out.gpus);
    mem_free(live->out.words);
}

static int simulate(struct scenario *scenario, const struct driver_port *port, struct lines *log, struct error *err)
{
    struct run_result result = { 0 };
    int r;

    scenario->driver.port = port;
    scenario->driver.on_decision = port ? NULL : log_simulated;
    scenario->driver.on_decision_arg = log;
    r = scenario_run(scenario, 1, &result, err);
    run_result_done(&result);
    return r;
}

static size_t first_difference(const struct buf *a, const struct buf *b)
{
    size_t line = 1;

    for (size_t i = 0; i < a->size && i < b->size && a->data[i] == b->data[i]; i++)
        line += a->data[i] == '\n';
    return line;
}

/* Under the first policy every batch is synced to a file, as in a daemon; slow where the disk is. */
static int one_policy(const char *policy, const struct setting *set, const struct cluster_spec *cluster,
                      const struct trace *trace, char *why, size_t size)
{
    /* One that resizes jobs is played with what that costs: then they leave GPUs before they go on. */
    const struct setting costs = { "costs", "singularity" };
    bool durable = strcmp(policy, policy_at(0)->name) == 0;
    struct scenario_request request = { policy, set ? set : &costs, set || strcmp(policy, "singularity") == 0 ? 1 : 0 };
    struct lines simulated = { BUF_INIT((size_t)1 << 28) }, live_log = { BUF_INIT((size_t)1 << 28) };
    char where[] = "/tmp/muster-live-XXXXXX", remove[64];
    struct scenario scenario;
    struct error err = { 0 };
    struct live live = { .trace = trace, .scenario = &scenario, .log = &live_log };
    struct driver_port port = { .offer = port_offer, .step = port_step, .find = port_find, .arg = &live };
    int r = scenario_init(&scenario, cluster, trace, &request, &err);

    if (r == 0)
        r = simulate(&scenario, NULL, &simulated, &err);
    if (r == 0 && !mkdtemp(where))
        r = -errno;
    if (r == 0) {
        union {
            const struct core *seen;
            struct core *own;
        } core;

        r = open_live(&live, policy, set, cluster, durable ? where : "mem:");
        err = r < 0 ? live.err : err;
        core.seen = r == 0 ? ctl_core(batcher_ctl(live.batcher)) : NULL;
        port.core = core.own;
        if (r == 0)
            r = simulate(&scenario, &port, &live_log, &err);
        close_live(&live);
        (void)snprintf(remove, sizeof(remove), "rm -rf %s", where);
        if (system(remove) != 0)
            r = r ? r : -EIO;
    }
    if (r < 0)
        (void)snprintf(why, size, "%s", err.text);
    else if (simulated.text.size == 0 || simulated.text.size != live_log.text.size ||
             memcmp(simulated.text.data, live_log.text.data, simulated.text.size) != 0) {
        (void)snprintf(why, size, "decided otherwise from line %zu on (%zu and %zu bytes)",
                       first_difference(&simulated.text, &live_log.text), simulated.text.size, live_log.text.size);
        r = -EIO;
    } else {
        buf_char(&live_log.text, '\0');
        (void)snprintf(why, size, "%zu bytes of decisions", simulated.text.size);
        if (set && strcmp(set->key, "prestart") == 0 && !strstr(live_log.text.data, " yield "))
            r = -ENODATA; /* nobody's GPUs were ever left to its successor */
    }
    if (r < 0 && getenv("LIVE_SIM_KEEP")) {
        FILE *a = fopen("/tmp/live_sim.simulated", "w"), *b = fopen("/tmp/live_sim.live", "w");

        if (a && b) {
            (void)fwrite(simulated.text.data, 1, simulated.text.size, a);
            (void)fwrite(live_log.text.data, 1, live_log.text.size, b);
        }
        if (a)
            (void)fclose(a);
        if (b)
            (void)fclose(b);
    }
    buf_done(&simulated.text);
    buf_done(&live_log.text);
    scenario_done(&scenario);
    return r;
}

/* Ids as the controller gives them, and some seconds before the first arrival for the nodes to join in. */
static void number_jobs(struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        trace->jobs[i].spec.submit += 10 * USEC_SEC;
        trace->jobs[i].spec.id = (int64_t)i + 1;
        trace->jobs[i].spec.utilisation = (uint16_t)(20 + i * 37 % 70);
        if (i % 5 == 3)
            trace->jobs[i].spec.klass = i % 2 ? CLASS_OPPORTUNISTIC : CLASS_AUTO;
    }
}

/* Every job saves its result for so long at its end, when its GPUs idle. */
static void save_results(struct trace *trace, usec_t span)
{
    for (size_t i = 0; i < trace->count; i++)
        trace->jobs[i].truth.save = span;
}

/* Two kinds that a third of the jobs ask for, few enough that many wait for them. */
static int license_jobs(struct cluster_spec *cluster, struct trace *trace)
{
    static const struct {
        const char *name;
        uint32_t count;
    } kinds[] = { { "matlab", 6 }, { "flow", 2 } };
    int r = 0;

    for (uint32_t k = 0; k < 2; k++) {
        cluster->licenses[k].count = kinds[k].count;
        r |= names_put(&cluster->names, kinds[k].name, strlen(kinds[k].name), &cluster->licenses[k].name);
    }
    cluster->license_count = 2;
    for (size_t i = 0; i < trace->count; i++)
        for (uint32_t k = 0; k < 2; k++)
            if (i % 6 == k || i % 18 == 8)
                r |= license_add(&trace->jobs[i].spec, &trace->licenses, kinds[k].name, strlen(kinds[k].name),
                                 1 + (uint32_t)i % kinds[k].count);
    return r;
}

/* A third of the jobs are on two types of GPU, some more of them on one of the two. */
static int side_jobs(struct trace *trace)
{
    uint32_t type;
    int r = names_put(&trace->skus, "H100", 4, &type) | names_put(&trace->skus, "A100", 4, &type);

    for (size_t i = 0; i < trace->count && r == 0; i++) {
        struct jobspec *spec = &trace->jobs[i].spec;

        spec->sku_mask = i % 3 == 0 ? 1 : i % 7 == 1 ? 2 : 0;
        if (spec->sku_mask == 2 && spec->gpus > 16)
            spec->sku_mask = 1;
        if (spec->sku_mask == 1 && spec->share == MGPU_ONE && spec->gpus_min == spec->gpus_max)
            r = side_add(spec, &trace->skus, i % 2 ? "A100:2:2" : "A100:4:1", 8);
    }
    return r;
}

/* Every way to fail, often enough that retries and system-retries are used up, and every way to be preempted. */
static void term_jobs(struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        struct truth *truth = &trace->jobs[i].truth;
        struct jobspec *spec = &trace->jobs[i].spec;

        *truth = (struct truth){ .duration = truth->duration, .fail = (uint8_t)(i % (FAIL_TIMEOUT + 1)) };
        if (truth->fail != FAIL_NONE) {
            truth->fail_after = 1 + truth->duration / (2 + (usec_t)i % 3);
            truth->fail_times = (uint8_t)(1 + i % 5);
        }
        if (truth->fail == FAIL_USER || truth->fail == FAIL_MEMORY)
            truth->exit = i % 5 ? (uint8_t)(1 + i % 3) : EXIT_REQUEUE;
        spec->retries = (uint8_t)(i % 4);
        spec->retry_on_count = 1 + i % 2;
        spec->retry_on[0] = (uint8_t)(1 + i / 3 % 3);
        spec->retry_on[1] = 4;
        spec->no_requeue = i % 8 == 2;
        spec->preempt = (uint8_t)(i / 2 % PREEMPT_MODES);
        spec->min_runtime = i % 4 == 1 ? (usec_t)(i % 100) * 60 * USEC_SEC : 0;
        if (spec->klass != CLASS_OPPORTUNISTIC)
            continue; /* which cannot keep what they have */
        spec->preempt = spec->preempt == PREEMPT_NEVER ? PREEMPT_CANCEL : spec->preempt;
        spec->min_runtime = 0;
    }
}

static size_t verdicts;

/* Numbers its lines by itself: how many there are depends on the policy that was asked for. */
static size_t verdict_print(int r, const char *name, const char *variant, const char *why)
{
    printf("%s %zu %s%s # %s\n", r == 0 ? "ok" : "not ok", ++verdicts, name, variant, why);
    (void)fflush(stdout);
    return r < 0;
}

/* All policies once more, with all classes of failure and all terms of preemption. */
static size_t with_terms(const struct cluster_spec *cluster, const struct gen_config *gen, const char *only)
{
    const struct setting bound = { "system-retries", "3" };
    struct trace trace = { 0 };
    struct error err = { 0 };
    size_t failed = 0;
    char why[1100];

    if (gen_trace("philly", gen, &trace, &err) < 0)
        abort();
    number_jobs(&trace);
    term_jobs(&trace);
    for (size_t i = 0; policy_at(i); i++) {
        const char *name = policy_at(i)->name;
        int r;

        if (only && strcmp(only, name) != 0)
            continue;
        r = one_policy(name, &bound, cluster, &trace, why, sizeof(why));
        failed += verdict_print(r, name, " failures and terms", why);
    }
    trace_done(&trace);
    return failed;
}

static bool places_sides(size_t policy)
{
    return policy_at(policy)->planner->sides;
}

/* Policies that place gangs on several types, on a cluster of two. */
static size_t with_sides(const struct gen_config *gen, const char *only)
{
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    size_t failed = 0;
    char why[1100];

    if (cluster_parse("4x8:H100 + 4x4:A100", &cluster, &err) < 0 || gen_trace("philly", gen, &trace, &err) < 0 ||
        side_jobs(&trace) < 0)
        abort();
    number_jobs(&trace);
    for (size_t i = 0; policy_at(i); i++) {
        const char *name = policy_at(i)->name;
        int r;

        if (!places_sides(i) || (only && strcmp(only, name) != 0))
            continue;
        r = one_policy(name, NULL, &cluster, &trace, why, sizeof(why));
        failed += verdict_print(r, name, " several types", why);
    }
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return failed;
}

int main(int argc, char **argv)
{
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    struct gen_config gen = { .jobs = 400, .seed = 7, .gpus = 32, .load = 2 * PPM_ONE };
    size_t count = 0, failed = 0;
    static const struct setting prestart = { "prestart", "on" };
    char why[1100], variant[64];

    if (argc > 2) /* fewer jobs, where each takes long */
        gen.jobs = (size_t)strtoul(argv[2], NULL, 10);
    while (policy_at(count))
        count++;
    if (cluster_parse("4x8", &cluster, &err) < 0 || gen_trace("philly", &gen, &trace, &err) < 0) {
        fprintf(stderr, "live_sim: %s\n", err.text);
        return 1;
    }
    number_jobs(&trace);
    for (size_t n = 0; n < 2 * (count + 1); n++) {
        size_t i = n % (count + 1);
        /* At last successors that are launched to their gates: agents are told so, and nothing is decided otherwise. */
        const char *name = i < count ? policy_at(i)->name : "liquid";
        int r;

        if (n == count + 1 && license_jobs(&cluster, &trace) != 0) /* and all of it once more, with licences */
            abort();
        if (argv[1] && strcmp(argv[1], name) != 0)
            continue;
        save_results(&trace, i == count ? USEC_MIN : 0);
        r = one_policy(name, i < count ? NULL : &prestart, &cluster, &trace, why, sizeof(why));
        (void)snprintf(variant, sizeof(variant), "%s%s", i < count ? "" : " prestart=on", n == i ? "" : " licences");
        failed += verdict_print(r, name, variant, why);
    }
    failed += with_sides(&gen, argv[1]);
    cluster.license_count = 0;
    failed += with_terms(&cluster, &gen, argv[1]);
    printf("1..%zu\n", verdicts);
    cluster_spec_done(&cluster);
    trace_done(&trace);
    return failed ? 1 : 0;
}
