/* SPDX-License-Identifier: Apache-2.0 */
/* quick.c - muster, as it is started: by scripts, thousands of times, for a millisecond.
 *
 * `submit` and `run` to a controller that needs no library to be reached are in this program, which is linked with
 * nothing but itself: the loader and the libraries of the whole one take longer than the request. All else is handed,
 * as it came, to muster-full beside it, before anything was read or said. The verbs are the same objects in both.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/channel_internal.h"
#include "cli/client/context.h"
#include "cli/verbs/live.h"
#include "io/beside.h"

#define WHOLE "muster-full"

static char **words; /* argv as it came */

static int whole_run(void)
{
    char path[PATH_MAX];
    struct problem problem;

    if (beside_find(WHOLE, path, sizeof(path)) == 0)
        (void)execv(path, words);
    (void)problem_set(&problem, CODE_FAILED, "", WHOLE ", the larger half of this program: %s", strerror(errno));
    problem_hint(&problem, "it belongs beside muster, or into ../libexec/muster");
    return problem_print(&problem);
}

/* Can all of it be done here? What is wrong with where the controller is, the whole program says. */
static bool near(const struct command_args *args)
{
    struct context context;

    return !args_has(args, "pty") && !step_inside() &&
           context_load(args_value(args, "url"), args_value(args, "context"), &context, NULL) == 0 &&
           channel_near(context.url);
}

static int submit_quick(struct command_args *args)
{
    return near(args) ? cmd_submit(args) : whole_run();
}

static int run_quick(struct command_args *args)
{
    return near(args) ? cmd_run(args) : whole_run();
}

/* What near() has kept away from here. */
int run_pty(struct command_args *args)
{
    (void)args;
    return whole_run();
}

int run_step(struct command_args *args)
{
    (void)args;
    return whole_run();
}

int channel_open_far(struct channel *channel, const char *url, const char *ca, struct error *err)
{
    (void)channel;
    (void)ca;
    return error_set(err, -EHOSTUNREACH, "%s is not near", url);
}

static const struct command commands[] = {
    { COMMAND_SUBMIT, .run = submit_quick },
    { COMMAND_RUN, .run = run_quick },
    { 0 },
};

int main(int argc, char **argv)
{
    const char *name = argc > 0 && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argc > 0 ? argv[0] : "";
    const struct command *command = argc > 1 && strcmp(name, "muster") == 0 ? command_find(commands, argv[1]) : NULL;
    char full[32];

    words = command ? mem_zalloc((size_t)argc + 1, sizeof(*words)) : NULL;
    if (!words) {
        words = argv;
        return whole_run();
    }
    memcpy(words, argv, (size_t)argc * sizeof(*words)); /* its parsing moves them */
    cli_start(argc, argv);
    (void)snprintf(full, sizeof(full), "muster %s", command->name);
    return command_run(command, full, argc - 1, argv + 1);
}
