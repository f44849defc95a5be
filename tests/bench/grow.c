/* SPDX-License-Identifier: Apache-2.0 */
/* grow.c - every verb on an array of COUNT elements, for test_grow.sh to count the instructions of.
 *
 * grow COUNT: a controller without sockets, with agents that do at once what they are told; each case makes what it
 * needs, and then callgrind counts what its verb takes, and writes that down. Names of the cases go to standard output,
 * in order; the time of each, for people, to standard error.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_STOP_INSTRUMENTATION (void)0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

#include "../model/entries.h"
#include "base/alloc.h"
#include "ctl/state/state_internal.h"

enum { NODES = 10, NODE_GPUS = 64 };

struct told {
    uint32_t node;
    enum order_kind kind;
    struct task_id id;
};

struct grow {
    struct ctl_config config;
    struct ctl *ctl;
    usec_t now;
    uint64_t seq[NODES];
    struct told *told; /* not carried out yet */
    size_t told_count, told_capacity;
    struct buf snapshot;
};

typedef void (*verb_fn)(struct grow *grow, int64_t id, int count);

static bool on_order(void *arg, const char *node, const struct agent_order *order)
{
    struct grow *grow = arg;
    void *block = grow->told;

    if (mem_grow(&block, &grow->told_capacity, grow->told_count + 1, (size_t)1 << 24, sizeof(*grow->told)) < 0)
        abort();
    grow->told = block;
    grow->told[grow->told_count++] =
        (struct told){ (uint32_t)atoi(node + 1), order->kind, { order->job, order->attempt, order->rank } };
    return true;
}

/* One batch; what the entries hold is freed. */
static struct entry_result apply(struct grow *grow, struct entry *entries, size_t count)
{
    struct entry_result *results = mem_zalloc(count + 1, sizeof(*results)), last;

    grow->now += USEC_SEC;
    ctl_apply(grow->ctl, ctl_seq(grow->ctl) + 1, grow->now, entries, count, results);
    last = results[count ? count - 1 : 0];
    for (size_t i = 0; i < count; i++)
        entry_done(&entries[i]);
    mem_free(results);
    return last;
}

static struct entry_result apply_one(struct grow *grow, struct entry entry)
{
    return apply(grow, &entry, 1);
}

static bool answers(const struct told *told, struct said *said)
{
    *said = (struct said){ .id = told->id, .gpu = -1, .rate = -1 };
    if (told->kind == ORDER_LAUNCH || told->kind == ORDER_RESUME)
        said->state = TASK_RUNNING;
    else if (told->kind == ORDER_SUSPEND)
        said->state = TASK_SUSPENDED;
    else if (told->kind == ORDER_STOP) {
        said->state = TASK_EXITED;
        (void)snprintf(said->cause, sizeof(said->cause), "cancel");
        said->signal = 15;
    } else {
        return false;
    }
    return true;
}

/* Agents do what they were told, and say so, until nobody is told anything more. */
static void settle(struct grow *grow)
{
    while (grow->told_count) {
        size_t count = 0, told_count = grow->told_count;
        struct told *told = take(grow->told);
        struct entry *entries = mem_zalloc(told_count, sizeof(*entries));

        grow->told_count = grow->told_capacity = 0;
        for (size_t i = 0; i < told_count; i++) {
            struct said said;
            char node[8];

            if (!answers(&told[i], &said))
                continue;
            (void)snprintf(node, sizeof(node), "n%u", told[i].node);
            said.seq = ++grow->seq[told[i].node];
            entries[count++] = entry_report(node, "a", &said);
        }
        (void)apply(grow, entries, count);
        mem_free(entries);
        mem_free(told);
    }
}

static void grow_open(struct grow *grow, int count)
{
    struct error err = { 0 };
    struct ctl_sink sink = { .order = on_order, .arg = grow };

    *grow = (struct grow){ .now = 1000 * USEC_SEC,
                           .config = { .cluster = "grow",
                                       .policy = "fifo-skip",
                                       .jobs_max = 4096 + 3 * (uint32_t)count,
                                       .finished_keep = 10000,
                                       .lease = 60 * USEC_SEC,
                                       .node_timeout = 30 * USEC_SEC,
                                       .grace = 10 * USEC_SEC } };
    grow->snapshot.max = (size_t)1 << 30;
    if (ctl_new(&grow->config, &grow->ctl, &err) < 0)
        abort();
    ctl_listen(grow->ctl, &sink);
    for (int n = 0; n < NODES; n++) {
        char text[4096];
        int at = snprintf(text, sizeof(text),
                          "{\"node\":\"n%d\",\"agent\":\"a\",\"boot\":\"b\",\"address\":\"127.0.0.1\",\"inventory\":{"
                          "\"sku\":\"H100\",\"cpus\":4096,\"memory_bytes\":1099511627776,\"gpus\":[",
                          n);

        for (int g = 0; g < NODE_GPUS; g++)
            at += snprintf(text + at, sizeof(text) - (size_t)at, "%s{\"index\":%d}", g ? "," : "", g);
        (void)snprintf(text + at, sizeof(text) - (size_t)at, "]}}");
        (void)apply_one(grow, entry_words(ENTRY_JOIN, text));
    }
}

static void grow_close(struct grow *grow)
{
    ctl_free(grow->ctl);
    mem_free(grow->told);
    buf_done(&grow->snapshot);
}

static int64_t submit(struct grow *grow, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int64_t submit(struct grow *grow, const char *format, ...)
{
    struct entry_result result;
    char text[4096];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    result = apply_one(grow, entry_submit("ann", text));
    if (result.code < 0) {
        fprintf(stderr, "%s: %s\n", text, result.text.text);
        exit(1);
    }
    return result.id;
}

/* What jobs there are when the verb comes. */
static int64_t make_none(struct grow *grow, int count)
{
    (void)grow;
    (void)count;
    return 0;
}

static int64_t make_held(struct grow *grow, int count)
{
    return submit(grow, "{\"run\":\"x\",\"gpus\":1,\"hold\":true,\"array\":\"0-%d\"}", count - 1);
}

static int64_t make_waiting(struct grow *grow, int count)
{
    (void)submit(grow, "{\"run\":\"x\",\"gpus\":64,\"array\":\"0-%d\"}", NODES - 1); /* all GPUs are taken */
    return submit(grow, "{\"run\":\"x\",\"gpus\":1,\"array\":\"0-%d\"}", count - 1);
}

/* Each is many bytes. */
static int64_t make_few(struct grow *grow, int count)
{
    return make_waiting(grow, count / 3);
}

/* One at a time. */
static int64_t make_turns(struct grow *grow, int count)
{
    return submit(grow, "{\"run\":\"x\",\"gpus\":1,\"array\":\"0-%d%%1\"}", count - 1);
}

static int64_t make_limited(struct grow *grow, int count)
{
    (void)apply_one(grow, entry_words(ENTRY_LIMITS, "{\"user\":\"ann\",\"max_gpus\":2}"));
    return submit(grow, "{\"run\":\"x\",\"gpus\":1,\"array\":\"0-%d\"}", count - 1);
}

/* Without GPUs: as many run as there are. */
static int64_t make_running(struct grow *grow, int count)
{
    int64_t id = submit(grow, "{\"run\":\"x\",\"gpus\":0,\"cpus_per_task\":1,\"array\":\"0-%d\"}", count - 1);

    settle(grow);
    return id;
}

/* An array that waits for another, held one. */
static int64_t make_after(struct grow *grow, int count)
{
    int64_t id = make_held(grow, count);

    (void)submit(grow, "{\"run\":\"x\",\"gpus\":1,\"after\":{\"any\":[%lld]},\"array\":\"0-%d\"}", (long long)id,
                 count - 1);
    return id;
}

static int64_t make_after_ok(struct grow *grow, int count)
{
    int64_t id = make_held(grow, count);

    (void)submit(grow, "{\"run\":\"x\",\"gpus\":1,\"after\":[%lld],\"array\":\"0-%d\"}", (long long)id, count - 1);
    return id;
}

/* Each waits for the one before. */
static int64_t make_chain(struct grow *grow, int count)
{
    int64_t first = submit(grow, "{\"run\":\"x\",\"gpus\":1,\"hold\":true}"), last = first;

    for (int i = 1; i < count; i++)
        last = submit(grow, "{\"run\":\"x\",\"gpus\":1,\"after\":[%lld]}", (long long)last);
    return first;
}

/* Many wait for one. */
static int64_t make_fan(struct grow *grow, int count)
{
    int64_t first = submit(grow, "{\"run\":\"x\",\"gpus\":1,\"hold\":true}");

    for (int i = 1; i < count; i++)
        (void)submit(grow, "{\"run\":\"x\",\"gpus\":1,\"after\":{\"any\":[%lld]}}", (long long)first);
    return first;
}

static int64_t make_singles(struct grow *grow, int count)
{
    int64_t first = 0;

    for (int i = 0; i < count; i++) {
        int64_t id = submit(grow, "{\"run\":\"x\",\"gpus\":1,\"hold\":true}");

        first = first ? first : id;
    }
    return first;
}

/* The verbs. */
static void act(struct grow *grow, enum entry_kind kind, int64_t id)
{
    struct entry_result result = apply_one(grow, entry_act(kind, id));

    if (result.code < 0) {
        fprintf(stderr, "%s: %s\n", entry_name(kind), result.text.text);
        exit(1);
    }
    settle(grow);
}

static void verb_cancel(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_CANCEL, id);
}

static void verb_hold(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_HOLD, id);
}

static void verb_release(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_RELEASE, id);
}

static void verb_requeue(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_REQUEUE, id);
}

static void verb_suspend(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_SUSPEND, id);
}

static void verb_resume(struct grow *grow, int64_t id, int count)
{
    (void)count;
    act(grow, ENTRY_SUSPEND, id);
    act(grow, ENTRY_RESUME, id);
}

static void verb_set(struct grow *grow, int64_t id, int count)
{
    (void)count;
    (void)apply_one(grow, entry_set_number(id, "priority", 7));
    (void)apply_one(grow, entry_words(ENTRY_SET, "{\"job\":1,\"comment\":\"x\",\"tags\":{\"a\":\"b\"}}"));
}

static void verb_submit(struct grow *grow, int64_t id, int count)
{
    (void)id;
    (void)make_waiting(grow, count);
}

static void verb_pause(struct grow *grow, int64_t id, int count)
{
    (void)id;
    (void)count;
    (void)apply_one(grow, entry_pause(true));
    (void)apply_one(grow, entry_pause(false));
}

static void verb_save(struct grow *grow, int64_t id, int count)
{
    struct ctl *other;

    (void)id;
    (void)count;
    if (ctl_save(grow->ctl, &grow->snapshot, NULL) < 0 ||
        ctl_load(&grow->config, grow->snapshot.data, grow->snapshot.size, &other, NULL) < 0)
        abort();
    ctl_free(other);
}

/* One batch of many acts, as replayed from a log and asked for by jobs:batch. */
static void verb_each(struct grow *grow, int64_t id, int count)
{
    struct entry *entries = mem_zalloc((size_t)count, sizeof(*entries));

    for (int i = 0; i < count; i++)
        entries[i] = entry_cancel(id + i, false);
    (void)apply(grow, entries, (size_t)count);
    mem_free(entries);
    settle(grow);
}

static void verb_end(struct grow *grow, int64_t id, int count)
{
    struct entry *entries = mem_zalloc((size_t)count, sizeof(*entries));
    size_t n = 0;

    for (int i = 1; i <= count; i++) {
        struct ctl_job *job = registry_get(&grow->ctl->registry, id + i);
        struct said said = { .id = { id + i, 0, 0 }, .state = TASK_EXITED, .cause = "exit", .gpu = -1, .rate = -1 };
        uint32_t node;

        if (!job || !job->attempt_count)
            continue;
        node = job->attempts[0].tasks[0].node;
        said.seq = ++grow->seq[node];
        entries[n++] = entry_report(names_get(&grow->ctl->registry.node_names, node), "a", &said);
    }
    (void)apply(grow, entries, n);
    mem_free(entries);
    settle(grow);
}

static void verb_look(struct grow *grow, int64_t id, int count)
{
    const struct ctl_job **all = mem_zalloc((size_t)count, sizeof(struct ctl_job *));
    size_t n = registry_array(&grow->ctl->registry, id, all, (size_t)count);

    for (size_t i = 0; i < n; i++)
        (void)registry_find(&grow->ctl->registry, all[i]->id);
    for (int64_t i = 0; i < count; i++)
        (void)registry_find(&grow->ctl->registry, INT64_MAX - i);
    mem_free(all);
}

static const struct {
    const char *name;
    int64_t (*make)(struct grow *grow, int count);
    verb_fn verb;
} cases[] = {
    { "submit", make_none, verb_submit },
    { "cancel a held array", make_held, verb_cancel },
    { "cancel a waiting array", make_waiting, verb_cancel },
    { "cancel an array that runs one at a time", make_turns, verb_cancel },
    { "cancel an array beyond a limit of GPUs", make_limited, verb_cancel },
    { "cancel a running array", make_running, verb_cancel },
    { "cancel an array that another waits for", make_after, verb_cancel },
    { "cancel an array that another is to come well after", make_after_ok, verb_cancel },
    { "cancel the first of a chain", make_chain, verb_cancel },
    { "cancel the one that all wait for", make_fan, verb_cancel },
    { "cancel many jobs at once", make_singles, verb_each },
    { "hold", make_waiting, verb_hold },
    { "hold an array that runs one at a time", make_turns, verb_hold },
    { "release", make_held, verb_release },
    { "requeue", make_running, verb_requeue },
    { "suspend", make_running, verb_suspend },
    { "suspend and resume", make_running, verb_resume },
    { "end", make_running, verb_end },
    { "set", make_held, verb_set },
    { "pause and go on", make_waiting, verb_pause },
    { "save and load", make_few, verb_save },
    { "look", make_held, verb_look },
};

int main(int argc, char **argv)
{
    static struct grow grow;
    int count = argc > 1 ? atoi(argv[1]) : 100;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct timespec began, ended;
        int64_t id;

        if (argc > 2 && strcmp(argv[2], cases[i].name) != 0)
            continue;
        grow_open(&grow, count);
        id = cases[i].make(&grow, count);
        puts(cases[i].name);
        (void)fflush(stdout);
        CALLGRIND_START_INSTRUMENTATION;
        CALLGRIND_ZERO_STATS;
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
        cases[i].verb(&grow, id, count);
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
        CALLGRIND_DUMP_STATS_AT(cases[i].name);
        CALLGRIND_STOP_INSTRUMENTATION;
        fprintf(stderr, "%.3f s\n",
                (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
        grow_close(&grow);
    }
    return 0;
}
