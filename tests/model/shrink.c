/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c - a failing script made short by delta debugging (Zeller and Hildebrandt, 2002): parts of it are left out,
 * halves first, then smaller ones, as long as what is left fails in the same way. "The same way" is the words of the
 * failure up to their first colon.
 */
#include "shrink.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SECONDS_MAX = 20 };

static struct outcome *dying; /* where a process that runs a script says what it dies of */

/* In place of the C library's: the words are wanted, and no core file. */
void __assert_fail(const char *assertion, const char *file, unsigned int line, const char *function)
{
    fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, assertion);
    if (!dying)
        abort();
    (void)snprintf(dying->why, sizeof(dying->why), "assertion %s %s: %s", function, assertion, file);
    _exit(3);
}

void script_dies(struct outcome *outcome)
{
    dying = outcome;
}

int script_run(const struct script *script, struct outcome *outcome)
{
    struct world *world = mem_zalloc(1, sizeof(*world));

    if (!world || strncmp(script->steps[0], "policy ", 7) != 0)
        abort();
    world_open(world, script->steps[0] + 7);
    world->tolerated = script->tolerated;
    for (size_t i = 1; i < script->count && !world_failed(world); i++) {
        outcome->step = i;
        step_do(world, script->steps[i]);
        if (script->loud) {
            printf("> %s\n", script->steps[i]);
            world_print(world);
        }
    }
    outcome->step = script->count;
    if (!world_failed(world))
        check_end(world);
    if (script->loud)
        world_print(world);
    memcpy(outcome->why, world->why, sizeof(outcome->why));
    world_close(world);
    mem_free(world);
    return outcome->why[0] ? -1 : 0;
}

int script_run_apart(const struct script *script, struct outcome *outcome)
{
    static struct outcome *shared;
    int status = 0;
    pid_t pid;

    if (!shared)
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        script_dies(shared);
        if (!freopen("/dev/null", "w", stderr))
            _exit(4);
        alarm(SECONDS_MAX);
        status = script_run(script, shared) < 0;
        (void)fflush(stdout);
        _exit(status);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        abort();
    if (WIFSIGNALED(status))
        (void)snprintf(shared->why, sizeof(shared->why), "signal %d: the process died", WTERMSIG(status));
    *outcome = *shared;
    return outcome->why[0] ? -1 : 0;
}

static bool same_way(const struct outcome *a, const struct outcome *b)
{
    size_t length = strcspn(a->why, ":");

    return length == strcspn(b->why, ":") && strncmp(a->why, b->why, length) == 0;
}

/* The script without `many` steps from `first` on; true: it still fails so, and is shorter from now on. */
static bool leave_out(struct script *script, size_t first, size_t many, struct outcome *outcome)
{
    size_t bytes = script->count * sizeof(*script->steps), tail = script->count - first - many;
    char(*kept)[STEP_BYTES] = mem_zalloc(1, bytes);
    struct outcome now;
    bool fails;

    if (!kept)
        abort();
    memcpy(kept, script->steps, bytes);
    memmove(script->steps[first], script->steps[first + many], tail * sizeof(*script->steps));
    script->count -= many;
    fails = script_run_apart(script, &now) < 0 && same_way(outcome, &now);
    if (fails) {
        *outcome = now;
    } else {
        script->count += many;
        memcpy(script->steps, kept, bytes);
    }
    mem_free(kept);
    return fails;
}

/* A line in place of another; true: it still fails so. */
static bool replace(struct script *script, size_t at, const char *line, struct outcome *outcome)
{
    char was[STEP_BYTES];
    struct outcome now;

    memcpy(was, script->steps[at], sizeof(was));
    (void)snprintf(script->steps[at], STEP_BYTES, "%s", line);
    if (script_run_apart(script, &now) < 0 && same_way(outcome, &now)) {
        *outcome = now;
        return true;
    }
    memcpy(script->steps[at], was, sizeof(was));
    return false;
}

/* Keys of a submission that do not matter, one by one: from a comma to the next that is in no list or object. */
static bool drop_keys(struct script *script, size_t at, struct outcome *outcome)
{
    bool any = false;

    for (char *comma = strchr(script->steps[at], ','); comma;) {
        char line[STEP_BYTES];
        char *end = comma + 1;
        int depth = 0;

        while (*end && ((*end != ',' && *end != '}') || depth > 0)) {
            depth += *end == '{' || *end == '[';
            depth -= *end == '}' || *end == ']';
            end++;
        }
        (void)snprintf(line, sizeof(line), "%.*s%s", (int)(comma - script->steps[at]), script->steps[at], end);
        if (strncmp(comma, ",\"args\"", 7) != 0 && *end && replace(script, at, line, outcome))
            any = true;
        else
            comma = strchr(comma + 1, ',');
        if (comma && *comma != ',')
            comma = strchr(comma, ',');
    }
    return any;
}

/* Lines made simpler: policies of the register by the first one, submissions with fewer keys, no batches of several. */
static bool simplify(struct script *script, struct outcome *outcome)
{
    bool any = false;

    for (size_t i = 0; i < script->count; i++) {
        size_t length = strlen(script->steps[i]);
        char line[STEP_BYTES];

        memcpy(line, script->steps[i], sizeof(line));
        if (length > 2 && line[length - 1] == '&') {
            line[length - 2] = '\0';
            any |= replace(script, i, line, outcome);
        }
        if (strncmp(line, "submit ", 7) == 0)
            any |= drop_keys(script, i, outcome);
        if (i == 0 && strcmp(line, "policy fifo-skip") != 0)
            any |= replace(script, i, "policy fifo-skip", outcome);
        if (strncmp(line, "hear ", 5) == 0 || strncmp(line, "work ", 5) == 0 || strncmp(line, "tell ", 5) == 0)
            any |= replace(script, i, "settle", outcome);
    }
    return any;
}

void script_shrink(struct script *script, struct outcome *outcome)
{
    bool any = true;

    if (outcome->step + 1 < script->count)
        script->count = outcome->step + 1;
    while (any) {
        any = false;
        for (size_t many = script->count / 2; many > 0; many = many > 1 ? many / 2 : 0)
            for (size_t first = script->count > many ? script->count - many : 1; first >= 1;) {
                any |= first + many <= script->count && leave_out(script, first, many, outcome);
                first = first > many ? first - many : first > 1 ? 1 : 0;
            }
        any |= simplify(script, outcome);
    }
}
