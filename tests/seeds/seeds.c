/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c - simulated lives of clusters, one a seed, audited at every step.
 *
 *   seeds [--from A] [--count N] [--limit SECONDS] [-v] [--log] [--cells] [--marks] [--sides] [--bare] [--classes]
 * [--found]
 *         [--policy NAME] [--set KEY=VALUE]...
 *
 * Each seed is run twice, and once more with the core saved, dropped and loaded again as it goes; the three decide
 * alike. The failing seed is the last line printed. With --cells virtual clusters are guaranteed shapes, not counts;
 * with --marks some nodes are for some jobs only, and why somebody waits is not looked at; with --sides there are
 * several types of GPU, and gangs on more than one of them; with --bare there are nodes without GPUs.
 * Policies are drawn from the register; with --found as they were when the seeds that tests name found something.
 * With --policy it is that of the cluster and of half of its parts, and not drawn; with --set it has that option
 * everywhere. With --limit a seed that takes longer has failed: one whose policy asks itself the same thing over and
 * over would never end.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core_internal.h"
#include "seeds.h"

static bool verbose, logging, cells, marks, sides, found, bare, classes;
static const char *policy;
static struct setting given[GIVEN_MAX]; /* by --set, after what was drawn */
static size_t given_count;

static int run_once(const struct life *life, struct watch *watch, uint32_t reload, uint32_t carry,
                    struct run_result *ret, struct error *err)
{
    struct scenario_request request = { life->policy, life->settings, life->setting_count };
    struct core_config config;
    struct scenario scenario;
    int r = scenario_init(&scenario, &life->cluster, &life->trace, &request, err);

    if (r < 0)
        return r;
    scenario.driver.script = life->script;
    scenario.driver.script_count = life->script_count;
    scenario.driver.until = life->until;
    scenario.driver.reload_every = reload;
    scenario.driver.carry_every = carry;
    if (life->stop_cost) {
        scenario.driver.world.cost[WORLD_STOP] = life->stop_cost;
        scenario.driver.world.cost_set[WORLD_STOP] = true;
    }
    if (watch) {
        config = (struct core_config){ .limits = { .jobs = (uint32_t)life->trace.count + 1 },
                                       .round = scenario.driver.round,
                                       .seed = life->seed,
                                       .policies = scenario.driver.policies };
        watch->cluster = scenario.driver.cluster;
        watch->config = &config;
        scenario.driver.on_decision = watch_decision;
        scenario.driver.on_decision_arg = watch;
        scenario.driver.on_instant = watch_instant;
        scenario.driver.on_instant_arg = watch;
    }
    r = scenario_run(&scenario, life->seed, ret, err);
    scenario_done(&scenario);
    if (watch)
        watch->config = NULL;
    return r;
}

/* Every microsecond between submission and end is accounted for. */
static const char *check_job(const struct job_result *job)
{
    usec_t waited = 0;

    if (job->outcome == OUTCOME_REFUSED)
        return NULL;
    for (int r = 0; r < REASON_COUNT; r++) {
        if (job->waited[r] < 0)
            return "waited less than nothing";
        waited += job->waited[r];
    }
    if (job->outcome != OUTCOME_DONE)
        return NULL;
    if (job->end < job->submit || job->start < job->submit)
        return "over before it came";
    if (job->end - job->submit != waited + job->run + job->overhead)
        return "time that nobody knows of";
    if (job->fair_share < 0 || job->fragmentation < 0)
        return "a delay below zero";
    return NULL;
}

static int check_result(const struct life *life, const struct run_result *result, char *why)
{
    for (size_t i = 0; i < result->job_count; i++) {
        const struct job_result *job = &result->jobs[i];
        const char *wrong = check_job(job);
        usec_t waited = 0;

        for (int r = 0; r < REASON_COUNT; r++)
            waited += job->waited[r];
        if (wrong) {
            (void)snprintf(why, WHY_TEXT, "job %lld: %s (%.6f s, waited %.6f, ran %.6f, overhead %.6f)",
                           (long long)job->id, wrong, (double)(job->end - job->submit) / 1e6, (double)waited / 1e6,
                           (double)job->run / 1e6, (double)job->overhead / 1e6);
            return -EIO;
        }
    }
    (void)life;
    return 0;
}

/* The cluster made anew under its jobs again and again: decisions may differ, rules may not. */
static int carried(const struct life *life, char *why)
{
    struct run_result result = { 0 };
    struct error err = { 0 };
    struct watch watch = { 0 };
    int r = watch_init(&watch, life);

    if (r == 0)
        r = run_once(life, &watch, 0, life->reload_every, &result, &err);
    if (r < 0)
        (void)snprintf(why, WHY_TEXT, "carried: %.400s", err.text);
    else if (watch.why[0]) {
        (void)snprintf(why, WHY_TEXT, "carried: %.400s", watch.why);
        r = -EIO;
    } else
        r = check_result(life, &result, why);
    run_result_done(&result);
    watch_done(&watch);
    return r;
}

static size_t append(char *why, size_t have, const char *format, ...) __attribute__((format(printf, 3, 4)));

static size_t append(char *why, size_t have, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(why + have, WHY_TEXT - have, format, args);
    va_end(args);
    return n > 0 && have + (size_t)n < WHY_TEXT ? have + (size_t)n : have;
}

/* What the two runs do not have in common; the first of it. */
static void differ(const struct run_result *a, const struct run_result *b, char *why)
{
    size_t i = 0, have = strlen(why);

    while (i < a->job_count && memcmp(&a->jobs[i], &b->jobs[i], sizeof(*a->jobs)) == 0)
        i++;
    if (i == a->job_count)
        return;
    have = append(why, have, ": job %lld started at %.6f and %.6f, ended at %.6f and %.6f", (long long)a->jobs[i].id,
                  (double)a->jobs[i].start / 1e6, (double)b->jobs[i].start / 1e6, (double)a->jobs[i].end / 1e6,
                  (double)b->jobs[i].end / 1e6);
    for (int r = 0; r < REASON_COUNT; r++)
        if (a->jobs[i].waited[r] != b->jobs[i].waited[r])
            have = append(why, have, ", waited %.6f and %.6f %s", (double)a->jobs[i].waited[r] / 1e6,
                          (double)b->jobs[i].waited[r] / 1e6, reason_name((enum reason)r));
}

static int compare(const struct life *life, const struct run_result *first, uint32_t reload, char *why)
{
    struct run_result again = { 0 };
    struct error err = { 0 };
    int r = run_once(life, NULL, reload, 0, &again, &err);

    if (r < 0) {
        (void)snprintf(why, WHY_TEXT, "%.400s", err.text);
    } else if (again.summary.digest != first->summary.digest ||
               memcmp(again.jobs, first->jobs, first->job_count * sizeof(*first->jobs)) != 0) {
        (void)snprintf(why, WHY_TEXT, "decided otherwise when run again%s", reload ? " from snapshots" : "");
        differ(first, &again, why);
        r = -EIO;
    }
    run_result_done(&again);
    return r;
}

static void describe(const struct life *life, const struct run_result *result, const struct watch *watch)
{
    uint64_t by[OUTCOME_COUNT] = { 0 };

    for (size_t i = 0; i < result->job_count; i++)
        by[result->jobs[i].outcome]++;
    printf("# seed %llu: %s, %u virtual clusters, %s", (unsigned long long)life->seed, life->cluster_text,
           life->cluster.vc_count, life->policy);
    for (size_t i = 0; i < life->setting_count; i++)
        printf(" %s=%s", life->settings[i].key, life->settings[i].value);
    printf("; %zu jobs: %llu done, %llu failed, %llu refused, %llu running, %llu waiting; %llu stops, %llu decisions, "
           "%llu instants, %llu reasons tried\n",
           result->job_count, (unsigned long long)by[OUTCOME_DONE], (unsigned long long)by[OUTCOME_FAILED],
           (unsigned long long)by[OUTCOME_REFUSED], (unsigned long long)by[OUTCOME_RUNNING],
           (unsigned long long)by[OUTCOME_WAITING], (unsigned long long)result->summary.preemptions,
           (unsigned long long)watch->decisions, (unsigned long long)watch->looked,
           (unsigned long long)watch->theorems);
}

static int one(uint64_t seed, char *why)
{
    struct life life;
    struct watch watch = { 0 };
    struct run_result result = { 0 };
    struct error err = { 0 };
    int r = life_draw(&(struct draw){ seed, cells, marks, sides, found, classes, bare, policy, given, given_count },
                      &life, &err);

    if (r == 0)
        r = watch_init(&watch, &life);
    watch.log = logging;
    if (r == 0)
        r = run_once(&life, &watch, 0, 0, &result, &err);
    if (r < 0)
        (void)snprintf(why, WHY_TEXT, "%.400s", err.text);
    else if (watch.why[0])
        r = -EIO;
    if (watch.why[0])
        memcpy(why, watch.why, WHY_TEXT);
    if (r == 0)
        r = check_result(&life, &result, why);
    if (r == 0)
        r = compare(&life, &result, 0, why);
    if (r == 0)
        r = compare(&life, &result, life.reload_every, why);
    if (r == 0)
        r = carried(&life, why);
    if (verbose || r < 0)
        describe(&life, &result, &watch);
    run_result_done(&result);
    watch_done(&watch);
    life_done(&life);
    return r;
}

/* What is said of a seed that takes too long, ready before it begins: nothing can be put together in a handler. */
static char too_long[160];

static void on_alarm(int number)
{
    (void)number;
    (void)!write(STDOUT_FILENO, too_long, strlen(too_long));
    _exit(1);
}

/* From now on; 0: no limit any more. */
static void limit_begin(unsigned seconds, uint64_t number, uint64_t seed)
{
    (void)snprintf(too_long, sizeof(too_long), "not ok %llu seed %llu\n# not at its end after %u s\n# seed %llu\n",
                   (unsigned long long)number, (unsigned long long)seed, seconds, (unsigned long long)seed);
    (void)alarm(seconds);
}

/* KEY=VALUE; `text` is taken apart. */
static bool set_given(char *text)
{
    char *value = strchr(text, '=');

    if (!value || value == text || given_count == GIVEN_MAX)
        return false;
    *value = '\0';
    given[given_count++] = (struct setting){ text, value + 1 };
    return true;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, count = 60;
    unsigned limit = 0;
    char why[WHY_TEXT] = "";

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--from") == 0 && i + 1 < argc)
            from = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--limit") == 0 && i + 1 < argc)
            limit = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--policy") == 0 && i + 1 < argc)
            policy = argv[++i];
        else if (strcmp(argv[i], "--set") == 0 && i + 1 < argc && set_given(argv[i + 1]))
            i++;
        else if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--cells") == 0)
            cells = true;
        else if (strcmp(argv[i], "--marks") == 0)
            marks = true;
        else if (strcmp(argv[i], "--sides") == 0)
            sides = true;
        else if (strcmp(argv[i], "--found") == 0)
            found = true;
        else if (strcmp(argv[i], "--classes") == 0)
            classes = true;
        else if (strcmp(argv[i], "--bare") == 0)
            bare = true;
        else if (strcmp(argv[i], "--log") == 0)
            logging = true;
        else {
            fprintf(stderr, "usage: seeds [--from A] [--count N] [--limit SECONDS] [-v] [--log] [--cells] [--marks] "
                            "[--sides] [--bare] [--classes] [--found] [--policy NAME] [--set KEY=VALUE]...\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGALRM, on_alarm);
    printf("1..%llu\n", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        if (verbose)
            printf("# seed %llu\n", (unsigned long long)(from + i)); /* known even if it aborts */
        limit_begin(limit, i + 1, from + i);
        if (one(from + i, why) < 0) {
            printf("not ok %llu seed %llu\n# %s\n# seed %llu\n", (unsigned long long)(i + 1),
                   (unsigned long long)(from + i), why, (unsigned long long)(from + i));
            return 1;
        }
        printf("ok %llu seed %llu\n", (unsigned long long)(i + 1), (unsigned long long)(from + i));
    }
    return 0;
}
