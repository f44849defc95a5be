/* SPDX-License-Identifier: Apache-2.0 */
/* Programs run aside: what they print, how they end, and the limits they cannot pass. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/child.h"

struct seen {
    struct loop *loop;
    int code, signal, calls;
    char why[32], out[128], err[128];
    size_t out_size;
};

static void on_done(void *arg, const struct child_end *end)
{
    struct seen *seen = arg;

    seen->calls++;
    seen->code = end->code;
    seen->signal = end->signal;
    seen->out_size = end->out_size;
    (void)snprintf(seen->why, sizeof(seen->why), "%s", end->why ? end->why : "");
    (void)snprintf(seen->out, sizeof(seen->out), "%s", end->out);
    (void)snprintf(seen->err, sizeof(seen->err), "%s", end->err);
    loop_stop(seen->loop);
}

static void run(const char *script, struct child_limits limits, struct seen *seen)
{
    const char *args[] = { "/bin/sh", "-c", script, NULL };
    struct child_spec spec = { .argv = args, .folder = "/", .limits = limits, .done = on_done, .arg = seen };
    struct child *child;
    struct error err = { 0 };

    *seen = (struct seen){ 0 };
    assert_int_equal(loop_new(&seen->loop, &err), 0);
    assert_int_equal(child_start(seen->loop, &spec, &child, &err), 0);
    loop_run(seen->loop);
    assert_int_equal(seen->calls, 1);
    loop_free(seen->loop);
}

static void ends(void **state)
{
    struct seen seen;

    (void)state;
    run("pwd; echo wrong >&2; exit 3", (struct child_limits){ .out_max = 100 }, &seen);
    assert_int_equal(seen.code, 3);
    assert_int_equal(seen.signal, 0);
    assert_string_equal(seen.why, "");
    assert_string_equal(seen.out, "/\n");
    assert_string_equal(seen.err, "wrong\n");
    run("kill -9 $$", (struct child_limits){ .out_max = 100 }, &seen);
    assert_int_equal(seen.signal, 9);
    run("head -c 100 /dev/zero; exit 0", (struct child_limits){ .out_max = 100 }, &seen);
    assert_int_equal(seen.out_size, 100);
    assert_string_equal(seen.why, "");
}

static void limits(void **state)
{
    int own = getpriority(PRIO_PROCESS, 0);
    struct seen seen;

    (void)state;
    run("head -c 101 /dev/zero; sleep 100", (struct child_limits){ .out_max = 100 }, &seen);
    assert_string_equal(seen.why, "printed too much");
    run("exec sleep 100", (struct child_limits){ .out_max = 100, .wall = 50 * USEC_MSEC }, &seen);
    assert_string_equal(seen.why, "took too long");
    assert_int_equal(seen.signal, 9);
    run("sleep 0.3; while :; do :; done", (struct child_limits){ .out_max = 100, .cpu = 1 }, &seen);
    assert_true(seen.signal == 24 || seen.signal == 9); /* SIGXCPU */
    run("sleep 0.2; nice", (struct child_limits){ .out_max = 100, .nice = 7 }, &seen);
    assert_int_equal(strtol(seen.out, NULL, 10), own + 7 < 19 ? own + 7 : 19);
    run("sleep 0.2; ulimit -c", (struct child_limits){ .out_max = 100 }, &seen);
    assert_string_equal(seen.out, "0\n");
}

/* What a program has started goes with it; what has left its group is not waited for beyond the limit. */
static void family(void **state)
{
    char name[] = "/tmp/muster-child-XXXXXX", script[128];
    int fd = mkstemp(name);
    struct seen seen;
    FILE *file;
    int pid = 0;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    (void)snprintf(script, sizeof(script), "sleep 100 & echo $! >%s; head -c 101 /dev/zero; wait", name);
    run(script, (struct child_limits){ .out_max = 100 }, &seen);
    assert_string_equal(seen.why, "printed too much");
    file = fopen(name, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    (void)fclose(file);
    (void)unlink(name);
    for (int i = 0; i < 2000 && kill(pid, 0) == 0; i++) /* it is another's to bury */
        (void)usleep(10000);
    assert_int_equal(kill(pid, 0), -1);
    run("setsid sleep 6 & exit 3", (struct child_limits){ .out_max = 100, .wall = 2 * USEC_SEC }, &seen);
    assert_string_equal(seen.why, "took too long");
    assert_int_equal(seen.code, 3);
}

/* A program that is not there is told at once; one that still runs goes with the loop. */
static void not_there(void **state)
{
    const char *none[] = { "/no/such/program", NULL }, *sleeps[] = { "/bin/sleep", "100", NULL };
    struct seen seen = { 0 };
    struct child_spec spec = { .argv = none, .limits = { .out_max = 10 }, .done = on_done, .arg = &seen };
    struct child *child;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(loop_new(&seen.loop, &err), 0);
    assert_int_equal(child_start(seen.loop, &spec, &child, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/no/such/program"));
    spec.argv = sleeps;
    assert_int_equal(child_start(seen.loop, &spec, &child, &err), 0);
    child_abandon(child);
    loop_free(seen.loop);
    assert_int_equal(seen.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),
        cmocka_unit_test(limits),
        cmocka_unit_test(family),
        cmocka_unit_test(not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
