/* SPDX-License-Identifier: Apache-2.0 */
/* test_naive.c - the policies against the plainest program that obeys the same rules.
 *
 * The core keeps trees, sums and memories of refusals so that a decision costs next to nothing; here every event sorts
 * all jobs and walks over them. On random workloads, with short and equal run times so that ties are common, both must
 * end every job at the same instant. docs/parity.md has comparisons with other people's programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"

enum { SEEDS = 150, JOBS_MAX = 400, NODES = 3, NODE_GPUS = 8, GPUS = NODES * NODE_GPUS };

enum rule { FIFO, FIFO_SKIP, SJF, EASY, CONSERVATIVE, SRTF, SRSF, RULES };

static const char *const rule_names[RULES] = { "fifo", "fifo-skip", "sjf", "backfill-easy", "backfill-conservative",
                                               "srtf", "srsf" };

struct naive {
    int64_t id, submit, left, wide; /* seconds; GPUs */
    int64_t limit;                  /* run time its user allows it: at least what it takes */
    int64_t pause;                  /* seconds of its resume still to go */
    int64_t start, end;
    int64_t on[NODES]; /* GPUs it has of each node, where that matters */
    bool runs, ran, chosen;
};

static int64_t key_of(const struct naive *job, enum rule rule)
{
    if (rule == SRTF || rule == SJF)
        return job->left;
    return rule == SRSF ? job->left * job->wide : job->submit;
}

static void sort(struct naive **live, size_t count, enum rule rule)
{
    for (size_t i = 1; i < count; i++) {
        struct naive *job = live[i];
        size_t at = i;

        for (; at > 0; at--) {
            const struct naive *other = live[at - 1];
            int64_t a = key_of(job, rule), b = key_of(other, rule);

            if (a > b || (a == b && job->submit > other->submit) ||
                (a == b && job->submit == other->submit && job->id > other->id))
                break;
            live[at] = live[at - 1];
        }
        live[at] = job;
    }
}

/* The fewest nodes: for what fits one node the fullest that has room; else empty nodes, and the fullest for the rest.
 */
static bool place(struct naive *job, int64_t *free)
{
    int64_t need = job->wide, on[NODES] = { 0 };

    for (int n = 0; n < NODES && need >= NODE_GPUS; n++)
        if (free[n] == NODE_GPUS) {
            on[n] = NODE_GPUS;
            need -= NODE_GPUS;
        }
    if (need > 0) {
        int best = -1;

        for (int n = 0; n < NODES && need < NODE_GPUS; n++)
            if (!on[n] && free[n] >= need && (best < 0 || free[n] < free[best]))
                best = n;
        if (best < 0)
            return false;
        on[best] = need;
    }
    for (int n = 0; n < NODES; n++)
        free[n] -= on[n];
    memcpy(job->on, on, sizeof(on));
    return true;
}

/* Places by node: first come, first served or not; or chosen by count, and what finds no place waits beside GPUs that
 * are kept for it. */
static void walk_nodes(struct naive **live, size_t count, enum rule rule)
{
    int64_t free[NODES] = { NODE_GPUS, NODE_GPUS, NODE_GPUS }, quota = GPUS;
    bool preempts = rule == SRTF || rule == SRSF;

    for (size_t i = 0; i < count; i++) {
        live[i]->chosen = !preempts || live[i]->wide <= quota;
        quota -= live[i]->chosen ? live[i]->wide : 0;
        live[i]->runs &= live[i]->chosen;
        for (int n = 0; n < NODES && live[i]->runs; n++)
            free[n] -= live[i]->on[n];
    }
    for (size_t i = 0; i < count; i++) {
        if (live[i]->runs || !live[i]->chosen)
            continue;
        if (place(live[i], free))
            live[i]->runs = live[i]->ran = true;
        else if (rule == FIFO || rule == SJF)
            return;
    }
}

/* Who has GPUs from now on. */
static void walk(struct naive **live, size_t count, enum rule rule, int64_t restart)
{
    bool preempts = rule == SRTF || rule == SRSF, blocked = false;
    int64_t free = GPUS;

    for (size_t i = 0; i < count && !preempts; i++)
        free -= live[i]->runs ? live[i]->wide : 0;
    for (size_t i = 0; i < count; i++) {
        struct naive *job = live[i];

        if (!preempts && job->runs)
            continue;
        if (job->wide > free || blocked) {
            blocked |= rule == FIFO || rule == SJF;
            job->runs = false;
            continue;
        }
        free -= job->wide;
        if (!job->runs)
            job->pause = job->ran ? restart : 0;
        job->runs = job->ran = true;
    }
}

static void start(struct naive *job, int64_t now)
{
    job->runs = job->ran = true;
    job->start = now;
}

/* EASY: the first that does not fit starts at `at` by all limits, and leaves `spare` GPUs then. */
static void walk_easy(struct naive **live, size_t count, int64_t now)
{
    int64_t free = GPUS, at = INT64_MAX, spare = 0;
    const struct naive *head = NULL;

    for (size_t i = 0; i < count; i++)
        free -= live[i]->runs ? live[i]->wide : 0;
    for (size_t i = 0; i < count; i++) {
        if (live[i]->runs)
            continue;
        if (!head && live[i]->wide > free) {
            head = live[i];
            for (size_t k = 0; k < count; k++) { /* the earliest end by which enough have ended */
                int64_t end = live[k]->start + live[k]->limit, then = free;

                for (size_t m = 0; m < count; m++)
                    then += live[m]->runs && live[m]->start + live[m]->limit <= end ? live[m]->wide : 0;
                if (live[k]->runs && then >= head->wide && end < at) {
                    at = end;
                    spare = then - head->wide;
                }
            }
        } else if (live[i]->wide <= free && (!head || now + live[i]->limit <= at || live[i]->wide <= spare)) {
            if (head && now + live[i]->limit > at)
                spare -= live[i]->wide;
            free -= live[i]->wide;
            start(live[i], now);
        }
    }
}

/* Conservative: everybody in order gets the earliest slot that is free throughout; those whose slot is now start. */
static void walk_conservative(struct naive **live, size_t count, int64_t now)
{
    int64_t from[JOBS_MAX]; /* slot of each */

    for (size_t i = 0; i < count; i++)
        from[i] = live[i]->runs ? live[i]->start : -1;
    for (size_t i = 0; i < count; i++) {
        int64_t best = INT64_MAX;

        if (live[i]->runs)
            continue;
        /* A slot begins now or where another ends; it is free throughout if it is free wherever one begins inside. */
        for (size_t k = 0; k <= count; k++) {
            int64_t at = k == count ? now : from[k] < 0 ? now : from[k] + live[k]->limit;
            bool fits = true;

            for (size_t m = 0; m <= count && fits; m++) {
                int64_t when = m == count || from[m] < at ? at : from[m], held = 0;

                for (size_t o = 0; o < count && when < at + live[i]->limit; o++)
                    held += from[o] >= 0 && from[o] <= when && when < from[o] + live[o]->limit ? live[o]->wide : 0;
                fits = held + live[i]->wide <= GPUS;
            }
            if (fits && at < best)
                best = at;
        }
        from[i] = best;
        if (best == now)
            start(live[i], now);
    }
}

static void naive_run(struct naive *jobs, size_t count, enum rule rule, bool by_node, int64_t restart)
{
    struct naive *live[JOBS_MAX];
    size_t alive = 0, next = 0;
    int64_t now = 0;

    while (next < count || alive) {
        int64_t at = next < count ? jobs[next].submit : INT64_MAX;
        size_t kept = 0;

        for (size_t i = 0; i < alive; i++)
            if (live[i]->runs && now + live[i]->pause + live[i]->left < at)
                at = now + live[i]->pause + live[i]->left;
        for (size_t i = 0; i < alive; i++) {
            int64_t span = live[i]->runs ? at - now : 0, paused = span < live[i]->pause ? span : live[i]->pause;

            live[i]->pause -= paused;
            live[i]->left -= span - paused;
            live[i]->end = at;
            if (live[i]->left > 0)
                live[kept++] = live[i];
        }
        alive = kept;
        now = at;
        while (next < count && jobs[next].submit == now)
            live[alive++] = &jobs[next++];
        sort(live, alive, rule);
        if (by_node)
            walk_nodes(live, alive, rule);
        else if (rule == EASY)
            walk_easy(live, alive, now);
        else if (rule == CONSERVATIVE)
            walk_conservative(live, alive, now);
        else
            walk(live, alive, rule, restart);
    }
}

static void die(const char *what, const struct error *err)
{
    printf("Bail out! %s: %s\n", what, err->text);
    exit(1);
}

/* Fills both forms of the same workload. */
static size_t draw(uint64_t seed, size_t most, struct naive *jobs, struct trace *trace)
{
    struct rng rng;
    size_t count;
    int64_t submit = 0;
    uint64_t longest, gap;

    rng_seed(&rng, seed);
    count = most / 4 + rng_below(&rng, most - most / 4);
    longest = 2 + rng_below(&rng, rng_below(&rng, 2) ? 40 : 1000);
    gap = 1 + rng_below(&rng, longest);
    for (size_t i = 0; i < count; i++) {
        int64_t wide = rng_below(&rng, 3) ? 1 + (int64_t)rng_below(&rng, 4) : 1 + (int64_t)rng_below(&rng, 16);
        int64_t slack;
        struct trace_job job;

        submit += (int64_t)(rng_below(&rng, 4) ? rng_below(&rng, gap / 4 + 1) : rng_below(&rng, gap + 1));
        slack = rng_below(&rng, 3) ? 0 : (int64_t)rng_below(&rng, longest);
        jobs[i] = (struct naive){
            .id = (int64_t)i, .submit = submit, .wide = wide, .left = 1 + (int64_t)rng_below(&rng, longest)
        };
        jobs[i].limit = jobs[i].left + slack;
        trace_job_init(&job);
        job.spec.time_limit = jobs[i].limit * USEC_SEC;
        job.spec.id = (int64_t)i;
        job.spec.submit = submit * USEC_SEC;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = (int32_t)wide;
        job.truth.duration = jobs[i].left * USEC_SEC;
        if (trace_add(trace, &job) < 0)
            abort();
    }
    return count;
}

/* One policy with settings, and what the plain program makes of them. */
struct match {
    enum rule rule;
    bool by_node;
    int64_t restart;
    struct setting settings[2];
    size_t setting_count;
};

static const struct match matches[] = {
    { FIFO, false, 0, { { 0 } }, 0 },
    { FIFO_SKIP, false, 0, { { 0 } }, 0 },
    { SJF, false, 0, { { 0 } }, 0 },
    { EASY, false, 0, { { 0 } }, 0 },
    { CONSERVATIVE, false, 0, { { "depth", "2000" } }, 1 },
    { SRTF, false, 0, { { 0 } }, 0 },
    { SRTF, false, 7, { { "restart", "7s" } }, 1 },
    { SRSF, false, 0, { { 0 } }, 0 },
    { SRSF, false, 7, { { "restart", "7s" } }, 1 },
    { FIFO, true, 0, { { "place", "consolidate" } }, 1 },
    { FIFO_SKIP, true, 0, { { "place", "consolidate" } }, 1 },
    { SJF, true, 0, { { "place", "consolidate" } }, 1 },
    { SRTF, true, 0, { { "place", "consolidate" }, { "unplaced", "hold" } }, 2 },
    { SRSF, true, 0, { { "place", "consolidate" }, { "unplaced", "hold" } }, 2 },
};

/* How many jobs end at another instant. */
static size_t differ(uint64_t seed, const struct match *match)
{
    struct scenario_request request = { rule_names[match->rule], match->settings, match->setting_count };
    struct naive jobs[JOBS_MAX];
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct run_result result = { 0 };
    struct scenario scenario;
    struct error err = { 0 };
    /* The plain way of finding slots takes the third power of the queue. */
    size_t count = draw(seed, match->rule == CONSERVATIVE ? 100 : JOBS_MAX, jobs, &trace), wrong = 0;

    naive_run(jobs, count, match->rule, match->by_node, match->restart);
    if (cluster_parse("3x8", &cluster, &err) < 0 || scenario_init(&scenario, &cluster, &trace, &request, &err) < 0 ||
        scenario_run(&scenario, 1, &result, &err) < 0)
        die(rule_names[match->rule], &err);
    for (size_t i = 0; i < count; i++)
        wrong += result.jobs[i].end != jobs[i].end * USEC_SEC;
    run_result_done(&result);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
    trace_done(&trace);
    return wrong;
}

int main(void)
{
    int number = 0, failed = 0;

    for (const struct match *m = matches; m < matches + sizeof(matches) / sizeof(*matches); m++) {
        uint64_t bad = 0;

        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            size_t wrong = differ(seed, m);

            if (wrong)
                printf("# seed %llu: %zu jobs differ\n", (unsigned long long)seed, wrong);
            bad += wrong > 0;
        }
        failed += bad > 0;
        printf("%s %d - %s", bad ? "not ok" : "ok", ++number, rule_names[m->rule]);
        for (size_t i = 0; i < m->setting_count; i++)
            printf(" %s=%s", m->settings[i].key, m->settings[i].value);
        printf(": %d random workloads on 3x8, %llu differ\n", SEEDS, (unsigned long long)bad);
    }
    printf("1..%d\n", number);
    return failed > 0;
}
