/* SPDX-License-Identifier: Apache-2.0 */
/* soak.c - a controller that takes 100 jobs a second for hours, in compressed time: does anything grow?
 *
 * soak [--jobs N] [--state DIR]: the batcher, the state machine and the real store, with a clock that is told; agents
 * start at once what they are told to and report its end four seconds later. Ten users, arrays, dependencies,
 * cancellations, holds. Each line is a tenth of the jobs: memory of the process, files of the state, and how long a
 * turn of the loop took (a batch with what it is committed with), then the same as a plot. Exits 1 where memory or the
 * state's files of the last tenth are more than 1.2 times those of the fourth, or the p99 of a turn more than twice.
 */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/log/batcher.h"
#include "ctl/state/registry.h"

enum {
    NODES = 64,
    NODE_GPUS = 8,
    RATE = 100,
    RUN_SECONDS = 4,
    TENTHS = 10,
    RUNNING_MAX = NODES * NODE_GPUS,
    TURNS_MAX = 1 << 20
};

struct running {
    int64_t job, attempt;
    uint32_t node;
    usec_t ends;
};

struct sample {
    double memory, files, p50, p99, worst; /* MiB, milliseconds */
};

static struct {
    struct store *store;
    struct batcher *batcher;
    const char *folder;
    usec_t now;
    uint64_t reports[NODES], done, submitted, refused;
    struct running *running;
    size_t running_count, running_capacity;
    double turns[TURNS_MAX]; /* milliseconds, since the last sample */
    size_t turn_count;
    uint32_t seed;
    int64_t last;
    void (*work)(void *), (*work_done)(void *); /* given to the worker */
    void *work_arg;
} soak;

static uint32_t draw(uint32_t bound)
{
    soak.seed = (uint32_t)((uint64_t)soak.seed * 48271 % 2147483647);
    return soak.seed % bound;
}

static usec_t now_fn(void *arg)
{
    (void)arg;
    return soak.now;
}

static int work_fn(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    (void)arg;
    soak.work = work;
    soak.work_done = done;
    soak.work_arg = work_arg;
    return 0;
}

static void wake_fn(void *arg, usec_t at)
{
    (void)arg;
    (void)at;
}

static void event_fn(void *arg, const struct ctl_event *event)
{
    (void)arg;
    soak.done += strcmp(event->kind, "job.ended") == 0;
}

static void fatal_fn(void *arg, const struct error *err)
{
    (void)arg;
    fprintf(stderr, "soak: %s\n", err->text);
    abort();
}

static void report(uint32_t node, int64_t job, int64_t attempt, const char *state)
{
    char name[8];
    json_t *frame = json_pack("{s:s, s:I, s:I, s:I, s:i, s:s, s:s, s:i, s:i}", "t", "report", "seq",
                              (json_int_t)++soak.reports[node], "job", (json_int_t)job, "attempt", (json_int_t)attempt,
                              "rank", 0, "state", state, "cause", "exit", "exit", 0, "signal", 0);
    struct error err = { 0 };

    (void)snprintf(name, sizeof(name), "n%u", node);
    if (batcher_agent_frame(soak.batcher, name, frame, &err) < 0)
        fatal_fn(NULL, &err);
    json_decref(frame);
}

/* The task of an order; -1: it runs nowhere. */
static int running_find(int64_t job)
{
    for (size_t i = 0; i < soak.running_count; i++)
        if (soak.running[i].job == job)
            return (int)i;
    return -1;
}

static bool order_fn(void *arg, const char *node, const struct agent_frame *frame)
{
    json_t *tree = json_loadb(frame->text, frame->size, 0, NULL);
    int64_t job = json_integer_value(json_object_get(tree, "job"));
    int64_t attempt = json_integer_value(json_object_get(tree, "attempt"));
    void *block = soak.running;
    int at;

    (void)arg;
    json_decref(tree);
    if (frame->kind != DOWN_ORDER)
        return true;
    at = running_find(job);
    if (frame->order == ORDER_STOP && at >= 0) {
        soak.running[at].ends = soak.now;
    } else if (frame->order == ORDER_LAUNCH && at < 0) {
        if (mem_grow(&block, &soak.running_capacity, soak.running_count + 1, 1 << 20, sizeof(*soak.running)) < 0)
            abort();
        soak.running = block;
        soak.running[soak.running_count++] = (struct running){ job, attempt, (uint32_t)atoi(node + 1), 0 };
    }
    return true;
}

static void done_fn(void *arg, const struct entry_result *result)
{
    (void)arg;
    if (result->code < 0)
        soak.refused++;
    else if (result->id)
        soak.last = result->id;
}

static void offer(const struct entry *entry)
{
    struct entry_result ret = { 0 };

    if (batcher_offer(soak.batcher, entry, done_fn, NULL, &ret) < 0)
        soak.refused++;
}

static size_t submit_one(void)
{
    struct entry entry = { .kind = ENTRY_SUBMIT, .submit = { .uid = 1000, .gid = 1000 } };
    char user[8], text[400];
    uint32_t dice = draw(100);
    size_t count = 1;
    int size;

    (void)snprintf(user, sizeof(user), "u%u", draw(10));
    size = snprintf(text, sizeof(text),
                    "{\"run\":\"train.sh --seed %u\",\"name\":\"job%u\",\"gpus\":1,\"env\":{\"SEED\":\"%u\"}",
                    draw(1000), draw(50), draw(1 << 20));
    if (dice < 2) {
        count = 10;
        size += snprintf(text + size, sizeof(text) - (size_t)size, ",\"array\":\"1-10\"");
    } else if (dice < 12 && soak.last) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, ",\"after\":{\"any\":[%lld]}", (long long)soak.last);
    }
    (void)snprintf(text + size, sizeof(text) - (size_t)size, "}");
    entry.submit.user = entry_text(user);
    entry.submit.spec = entry_text(text);
    offer(&entry);
    return count;
}

/* A turn of the loop, and how long it took. */
static void turn(void)
{
    struct timespec began, ended;

    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    soak.now++;
    if (!soak.work)
        batcher_turn(soak.batcher);
    if (soak.work) {
        void (*work)(void *) = soak.work;

        soak.work = NULL;
        work(soak.work_arg);
        soak.work_done(soak.work_arg); /* the next may be on its way then */
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    if (soak.turn_count < TURNS_MAX)
        soak.turns[soak.turn_count++] =
            (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
}

/* What was started runs, what has run for its time ends. */
static void agents_turn(void)
{
    for (size_t i = 0; i < soak.running_count;) {
        struct running *one = &soak.running[i];

        if (one->ends == 0) {
            one->ends = soak.now + RUN_SECONDS * USEC_SEC;
            report(one->node, one->job, one->attempt, "running");
        } else if (one->ends <= soak.now) {
            report(one->node, one->job, one->attempt, "exited");
            soak.running[i] = soak.running[--soak.running_count];
            continue;
        }
        i++;
    }
}

/* A tenth of a second. */
static void tick(void)
{
    for (size_t n = 0; n < RATE / 10;)
        n += submit_one();
    if (soak.last > 10 && draw(4) == 0) {
        struct entry cancel = entry_of_job(ENTRY_CANCEL, soak.last - (int64_t)draw(10), "root");

        offer(&cancel);
    }
    turn();
    agents_turn();
    for (int i = 0; i < 4; i++) {
        soak.now += USEC_SEC / 40;
        turn();
        agents_turn();
    }
}

static double files_mib(void)
{
    DIR *folder = opendir(soak.folder);
    struct dirent *entry;
    double sum = 0;

    while (folder && (entry = readdir(folder))) {
        char path[4096];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/%s", soak.folder, entry->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            sum += (double)st.st_size;
    }
    if (folder)
        (void)closedir(folder);
    return sum / (1 << 20);
}

static double memory_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all = 0, here = 0;

    if (file && fscanf(file, "%ld %ld", &all, &here) != 2)
        here = 0;
    if (file)
        (void)fclose(file);
    return (double)here * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static struct sample sample_take(void)
{
    struct sample ret = { .memory = memory_mib(), .files = files_mib() };

    qsort(soak.turns, soak.turn_count, sizeof(*soak.turns), by_size);
    if (soak.turn_count) {
        ret.p50 = soak.turns[soak.turn_count / 2];
        ret.p99 = soak.turns[soak.turn_count * 99 / 100];
        ret.worst = soak.turns[soak.turn_count - 1];
    }
    soak.turn_count = 0;
    return ret;
}

static void soak_open(void)
{
    static const struct batcher_host host = {
        .now = now_fn, .work = work_fn, .wake_at = wake_fn, .order = order_fn, .event = event_fn, .fatal = fatal_fn
    };
    struct batcher_config config = { .ctl = { .cluster = "soak",
                                              .policy = "fifo-skip",
                                              .jobs_max = 1 << 17,
                                              .finished_keep = 10000,
                                              .lease = USEC_DAY,
                                              .node_timeout = USEC_DAY * 365,
                                              .beat = 5 * USEC_SEC,
                                              .grace = 30 * USEC_SEC },
                                     .pending_max = 20000,
                                     .snapshot_every = 50000 };
    struct error err = { 0 };

    soak.now = (usec_t)1800000000 * USEC_SEC;
    soak.seed = 1;
    if (store_open(soak.folder, &soak.store, &err) < 0 ||
        batcher_new(&config, &host, soak.store, &soak.batcher, &err) < 0)
        fatal_fn(NULL, &err);
    for (int n = 0; n < NODES; n++) {
        json_t *gpus = json_array(), *hello;
        char name[8];

        for (int g = 0; g < NODE_GPUS; g++)
            (void)json_array_append_new(gpus, json_pack("{s:i}", "index", g));
        hello = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:o}}", "t", "hello", "agent", "a", "boot", "b", "address",
                          "127.0.0.1", "inventory", "sku", "H100", "gpus", gpus);
        (void)snprintf(name, sizeof(name), "n%d", n);
        if (batcher_agent_hello(soak.batcher, name, hello, &err) < 0)
            fatal_fn(NULL, &err);
        json_decref(hello);
    }
    turn();
}

static void plot(const char *name, const char *unit, const struct sample *samples, size_t offset)
{
    double most = 0;

    for (int i = 0; i < TENTHS; i++) {
        double value = *(const double *)((const char *)&samples[i] + offset);

        most = value > most ? value : most;
    }
    printf("\n%s, up to %.1f %s\n", name, most, unit);
    for (int i = 0; i < TENTHS; i++) {
        double value = *(const double *)((const char *)&samples[i] + offset);
        int width = most > 0 ? (int)(value / most * 60 + 0.5) : 0;

        printf("%4d%% %.*s %.1f\n", (i + 1) * 10, width, "############################################################",
               value);
    }
}

static bool flat(const char *name, double early, double late, double limit)
{
    bool good = late <= early * limit;

    printf("%s - %s: %.2f of what it was at four tenths, at most %.2f\n", good ? "ok" : "not ok", name,
           early > 0 ? late / early : 0, limit);
    return good;
}

int main(int argc, char **argv)
{
    struct sample samples[TENTHS];
    uint64_t jobs = 100000;
    bool good = true;
    uint64_t history;

    soak.folder = "soak.state";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--jobs") == 0)
            jobs = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--state") == 0)
            soak.folder = argv[i + 1];
    }
    (void)mkdir(soak.folder, 0700);
    soak_open();
    printf("   JOBS  LIVE  MEMORY-MiB  FILES-MiB  BYTES/JOB  TURN-p50-ms  p99  WORST\n");
    for (int i = 0; i < TENTHS; i++) {
        const struct registry *registry = ctl_registry(batcher_ctl(soak.batcher));

        while (registry->submitted < jobs * (uint64_t)(i + 1) / TENTHS)
            tick();
        samples[i] = sample_take();
        printf("%7llu %5zu  %10.1f  %9.1f  %9.0f  %11.2f  %.2f  %.2f\n", (unsigned long long)registry->submitted,
               registry->live_count, samples[i].memory, samples[i].files,
               samples[i].files * (1 << 20) / (double)registry->submitted, samples[i].p50, samples[i].p99,
               samples[i].worst);
        (void)fflush(stdout);
    }
    plot("memory", "MiB", samples, offsetof(struct sample, memory));
    plot("files of the state", "MiB", samples, offsetof(struct sample, files));
    plot("p99 of a turn", "ms", samples, offsetof(struct sample, p99));
    history = soak.done;
    printf("\n%llu jobs are over, %llu requests were refused\n", (unsigned long long)history,
           (unsigned long long)soak.refused);
    good &= flat("memory", samples[3].memory, samples[TENTHS - 1].memory, 1.2);
    good &= flat("bytes of the state for a job", samples[3].files / 4, samples[TENTHS - 1].files / 10, 1.2);
    good &= flat("p99 of a turn", samples[3].p99, samples[TENTHS - 1].p99, 2);
    batcher_free(soak.batcher);
    store_close(soak.store);
    mem_free(soak.running);
    return good ? 0 : 1;
}
