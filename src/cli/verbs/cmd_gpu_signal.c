/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gpu_signal.c - muster gpu signal and checkpoint: a program is told to save itself. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/verbs/cmd_gpu.h"

static int signal_send(const char *line, const char *pid, const char *name)
{
    static char text[GPU_TEXT_MAX];
    int r = gpu_answer(line, GPU_ORDER_S, text);

    if (r != EXIT_OK)
        return r;
    (void)printf("ok %s: %s, signal %s sent%s\n", pid, strstr(text, ": failed") ? "failed" : "running", name,
                 strstr(text, "which ends it") ? ", which ends it: it does not catch it" : "");
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* The last rung: the program saves itself. It is resumed first, because a handler cannot run inside a held launch. */
int gpu_signal(int argc, char **argv)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "INT", SIGINT }, { "TERM", SIGTERM } };
    bool save = strcmp(argv[0], "checkpoint") == 0, force = false, end = false;
    unsigned long grace = 30;
    char line[128];

    while (save && argc > 2 &&
           (strcmp(argv[1], "--grace") == 0 || strcmp(argv[1], "--force") == 0 || strcmp(argv[1], "--end") == 0)) {
        int words = argv[1][2] == 'g' ? 2 : 1;

        if (words == 2 && gpu_count(argv[2], GPU_ORDER_S - 10, &grace) < 0)
            return gpu_misuse("checkpoint: --grace takes 1 to %u seconds, not '%s'", GPU_ORDER_S - 10, argv[2]);
        force |= argv[1][2] == 'f';
        end |= argv[1][2] == 'e';
        argc -= words;
        argv += words;
    }
    if (argc < 2 || argc > 3 || !gpu_pid_valid(argv[1]))
        return gpu_misuse("%s", save
                                    ? "checkpoint: expected [--grace 1..290] [--end] [--force] PID [USR1|USR2|INT|TERM]"
                                    : "signal: expected PID [USR1|USR2|INT|TERM]");
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcmp(argc == 3 ? argv[2] : "USR1", signals[i].name) == 0) {
            (void)snprintf(line, sizeof(line), "%s %s %d %lu%s%s", save ? "save" : "signal", argv[1], signals[i].number,
                           save ? grace : 0, force ? " force" : "", end ? " end" : "");
            return save ? gpu_ask(line, end ? 3 * GPU_ORDER_S : GPU_ORDER_S)
                        : signal_send(line, argv[1], signals[i].name);
        }
    return gpu_misuse("'%s' is none of USR1, USR2, INT and TERM", argv[2]);
}
