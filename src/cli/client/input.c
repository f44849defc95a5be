/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - see input.h. */
#include "cli/client/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

/* Whether there is anything to be read here: nobody waits for the end of /dev/null. */
static bool input_here(void)
{
    struct stat st, null;

    if (fstat(STDIN_FILENO, &st) < 0 || (S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) >= st.st_size))
        return false;
    return !S_ISCHR(st.st_mode) || stat("/dev/null", &null) < 0 || st.st_rdev != null.st_rdev;
}

const char *input_mode(const struct command_args *args)
{
    const char *told = args_value(args, "input");

    if (told && strcmp(told, "none") != 0)
        return told;
    return told || args_has(args, "array") || !input_here() ? "" : "all";
}

pid_t input_start(const struct command_args *args, int64_t job)
{
    char number[24], *argv[8], muster[] = "muster", input[] = "input", url[] = "--url", context[] = "--context";
    pid_t parent = getpid(), pid;
    int n = 0, null;

    (void)snprintf(number, sizeof(number), "%lld", (long long)job);
    argv[n++] = muster;
    argv[n++] = input;
    if (args_has(args, "url")) {
        argv[n++] = url;
        argv[n++] = (char *)(uintptr_t)args_value(args, "url");
    }
    if (args_has(args, "context")) {
        argv[n++] = context;
        argv[n++] = (char *)(uintptr_t)args_value(args, "context");
    }
    argv[n++] = number;
    argv[n] = NULL;
    (void)fflush(NULL);
    pid = fork();
    if (pid)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_IGN); /* who is interrupted decides what becomes of the job */
    null = open("/dev/null", O_WRONLY);
    if (getppid() == parent && null >= 0 && dup2(null, STDOUT_FILENO) >= 0)
        (void)execv("/proc/self/exe", argv);
    _exit(CODE_FAILED);
}

void input_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int input_spread_end(struct input_spread *spread)
{
    int ends[2];

    if (spread->count == spread->room) {
        size_t room = spread->room ? 2 * spread->room : 16;
        int *grown = mem_zalloc(room, sizeof(*grown));

        if (!grown)
            return -1;
        if (spread->count)
            memcpy(grown, spread->ends, spread->count * sizeof(*grown));
        mem_free(spread->ends);
        spread->ends = grown;
        spread->room = room;
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    spread->ends[spread->count++] = ends[1];
    return ends[0];
}

/* The slowest sets the pace; who reads no more is left out. */
static _Noreturn void spread_run(const struct input_spread *spread)
{
    char data[65536];
    size_t live = spread->count;
    ssize_t got;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    while (live && ((got = read(STDIN_FILENO, data, sizeof(data))) > 0 || (got < 0 && errno == EINTR)))
        for (size_t i = 0; got > 0 && i < spread->count; i++) {
            ssize_t put = 0, n = 0;

            while (spread->ends[i] >= 0 && put < got &&
                   ((n = write(spread->ends[i], data + put, (size_t)(got - put))) > 0 || errno == EINTR))
                put += n > 0 ? n : 0;
            if (spread->ends[i] >= 0 && put < got) {
                (void)close(spread->ends[i]);
                spread->ends[i] = -1;
                live--;
            }
        }
    _exit(0);
}

pid_t input_spread_start(struct input_spread *spread)
{
    pid_t pid = spread->count ? fork() : 0;

    if (spread->count && pid == 0)
        spread_run(spread);
    for (size_t i = 0; i < spread->count; i++)
        (void)close(spread->ends[i]);
    mem_free(spread->ends);
    *spread = (struct input_spread){ 0 };
    return pid;
}
