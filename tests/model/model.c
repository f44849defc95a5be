/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - random lives of the controller's state machine, with agents that answer late, in part or again.
 *
 *   ctl_model FIRST COUNT STEPS [--policy P] [--keep DIR]    seeds FIRST .. FIRST + COUNT - 1
 *   ctl_model --replay FILE ...                              scripts, as a failing seed leaves them, or folders of them
 *   ctl_model --loud FILE ...                                the same, with how things stand after each step
 *
 * --tolerate 'WORDS|WORDS': failures that begin so are known, and passed over.
 * A failing seed is named with its step and made short; its script is printed, and kept in DIR.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/names.h"
#include "io/dir.h"
#include "shrink.h"

enum { SECONDS_MAX = 60 };

struct options {
    uint64_t first, count;
    size_t steps;
    const char *policy, *keep, *tolerated;
};

/* Shared with the process that plays: what it did before it died. */
struct shared {
    uint64_t seed;
    size_t count;
    struct outcome outcome;
    uint64_t jobs, batches, orders, heard[ORDER_COUNT], causes[STOP_CAUSE_COUNT], ended[PHASE_JOB_COUNT];
    char steps[STEPS_MAX][STEP_BYTES];
};

static void sum(struct shared *shared, const struct world *world)
{
    const struct registry *registry = ctl_registry(world->ctl);

    shared->jobs += registry->submitted;
    shared->batches += world->batches;
    shared->orders += world->orders;
    for (int i = 0; i < ORDER_COUNT; i++)
        shared->heard[i] += world->heard[i];
    for (int i = 0; i < STOP_CAUSE_COUNT; i++)
        shared->causes[i] += world->causes[i];
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        shared->ended[i] += registry->ended[i];
}

/* What happened in all of them: whoever changes what is drawn sees whether it still does. */
static void print_sums(const struct shared *shared)
{
    printf("# %llu jobs, %llu batches, %llu orders:", (unsigned long long)shared->jobs,
           (unsigned long long)shared->batches, (unsigned long long)shared->orders);
    for (int i = 0; i < ORDER_COUNT; i++)
        printf(" %s %llu", order_name((enum order_kind)i), (unsigned long long)shared->heard[i]);
    printf("\n# stops:");
    for (int i = 1; i < STOP_CAUSE_COUNT; i++)
        printf(" %s %llu", stop_cause_name((enum stop_cause)i), (unsigned long long)shared->causes[i]);
    printf("\n# ends:");
    for (int i = 0; i < PHASE_JOB_COUNT; i++)
        if (phase_over((enum phase_of_job)i))
            printf(" %s %llu", phase_name((enum phase_of_job)i), (unsigned long long)shared->ended[i]);
    printf("\n");
}

/* Each step is drawn from the world as it is by then. */
static void play(struct shared *shared, const struct options *options)
{
    struct world *world = calloc(1, sizeof(*world));
    struct mood mood;
    struct rng rng;
    char policy[64];
    size_t done = 1;

    if (!world)
        abort();
    rng_seed(&rng, rng_mix(shared->seed + 0x5eed));
    shared->count = 0;
    draw_policy(&rng, options->policy, policy, sizeof(policy));
    draw_mood(&rng, &mood);
    draw_start(&rng, policy, shared->steps, &shared->count);
    world_open(world, policy);
    world->tolerated = options->tolerated;
    for (; done < options->steps && !world_failed(world); done++) {
        if (done >= shared->count)
            draw_step(&rng, world, &mood, shared->steps[shared->count++], STEP_BYTES);
        shared->outcome.step = done;
        step_do(world, shared->steps[done]);
    }
    shared->outcome.step = done;
    if (!world_failed(world))
        check_end(world);
    memcpy(shared->outcome.why, world->why, sizeof(world->why));
    sum(shared, world);
    world_close(world);
    free(world);
}

/* Plays seeds until one fails; its words are in the outcome. */
static void play_some(struct shared *shared, const struct options *options)
{
    for (; shared->seed < options->first + options->count; shared->seed++) {
        shared->outcome = (struct outcome){ 0 };
        alarm(SECONDS_MAX);
        play(shared, options);
        if (shared->outcome.why[0])
            _exit(1);
    }
    _exit(0);
}

static void keep(const struct script *script, const struct outcome *outcome, uint64_t seed, FILE *to)
{
    fprintf(to, "# seed %llu, step %zu: %s\n", (unsigned long long)seed, outcome->step, outcome->why);
    for (size_t i = 0; i < script->count; i++)
        fprintf(to, "%s\n", script->steps[i]);
}

static void failed(struct shared *shared, const struct options *options)
{
    struct script script = { shared->steps, shared->count, false, options->tolerated };
    struct outcome outcome;

    printf("seed %llu step %zu of %zu: %s\n", (unsigned long long)shared->seed, shared->outcome.step, script.count,
           shared->outcome.why);
    if (script_run_apart(&script, &outcome) == 0) {
        printf("# the same steps do not fail when they are replayed\n");
        return;
    }
    script_shrink(&script, &outcome);
    keep(&script, &outcome, shared->seed, stdout);
    if (options->keep) {
        char path[4096];
        FILE *to;

        (void)snprintf(path, sizeof(path), "%s/seed-%llu.txt", options->keep, (unsigned long long)shared->seed);
        to = fopen(path, "w");
        if (to) {
            keep(&script, &outcome, shared->seed, to);
            (void)fclose(to);
        }
    }
    (void)fflush(stdout);
}

static int play_all(const struct options *options)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t failures = 0;

    if (shared == MAP_FAILED)
        return 1;
    shared->seed = options->first;
    while (shared->seed < options->first + options->count) {
        int status = 0;
        pid_t pid;

        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
            script_dies(&shared->outcome);
            play_some(shared, options);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
            return 1;
        if (WIFSIGNALED(status))
            (void)snprintf(shared->outcome.why, sizeof(shared->outcome.why), "signal %d: the process died",
                           WTERMSIG(status));
        if (status == 0)
            break;
        failures++;
        failed(shared, options);
        shared->seed++;
    }
    print_sums(shared);
    printf("%llu sequences, %llu failed\n", (unsigned long long)options->count, (unsigned long long)failures);
    return failures > 0;
}

static int replay(const char *path, bool loud, int *count)
{
    static char steps[STEPS_MAX][STEP_BYTES];
    struct script script = { steps, 0, loud, NULL };
    struct outcome outcome = { 0 };
    FILE *from = fopen(path, "r");

    (*count)++;
    if (!from) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    while (script.count < STEPS_MAX && fgets(steps[script.count], STEP_BYTES, from)) {
        steps[script.count][strcspn(steps[script.count], "\n")] = '\0';
        script.count += steps[script.count][0] && steps[script.count][0] != '#';
    }
    (void)fclose(from);
    if (script.count == 0 || strncmp(steps[0], "policy ", 7) != 0) {
        fprintf(stderr, "%s: no script\n", path);
        return 1;
    }
    if (script_run_apart(&script, &outcome) == 0)
        return 0;
    printf("%s: step %zu (%s): %s\n", path, outcome.step, outcome.step < script.count ? steps[outcome.step] : "the end",
           outcome.why);
    return 1;
}

/* A script, or all of a folder. */
static int replay_all(const char *path, bool loud, int *count)
{
    struct names list = { 0 };
    char file[4096];
    int failures = 0;

    if (dir_list(path, &list, NULL) < 0)
        return replay(path, loud, count);
    for (uint32_t i = 0; i < list.count; i++) {
        const char *name = names_get(&list, i), *end = strrchr(name, '.');

        (void)snprintf(file, sizeof(file), "%s/%s", path, name);
        if (end && strcmp(end, ".txt") == 0)
            failures += replay(file, loud, count);
    }
    names_done(&list);
    return failures;
}

static int usage(void)
{
    fprintf(stderr, "ctl_model FIRST COUNT STEPS [--policy P] [--keep DIR] | --replay|--loud FILE...\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct options options = { 0 };
    int failures = 0, count = 0;

    if (argc > 2 && (strcmp(argv[1], "--replay") == 0 || strcmp(argv[1], "--loud") == 0)) {
        for (int i = 2; i < argc; i++)
            failures += replay_all(argv[i], argv[1][2] == 'l', &count);
        printf("%d scripts, %d failed\n", count, failures);
        return failures > 0;
    }
    if (argc < 4)
        return usage();
    options.first = strtoull(argv[1], NULL, 10);
    options.count = strtoull(argv[2], NULL, 10);
    options.steps = strtoull(argv[3], NULL, 10);
    for (int i = 4; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--policy") == 0)
            options.policy = argv[i + 1];
        else if (strcmp(argv[i], "--keep") == 0)
            options.keep = argv[i + 1];
        else if (strcmp(argv[i], "--tolerate") == 0)
            options.tolerated = argv[i + 1];
        else
            return usage();
    }
    return options.steps > STEPS_MAX ? usage() : play_all(&options);
}
