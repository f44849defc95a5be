/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gpu_run.c - muster gpu run: a program with the library in front of its driver. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/verbs/cmd_gpu.h"
#include "gpurt/preload.h"
#include "gpurt/tool.h"

#define NOT_GIVEN UINT64_MAX

struct run_options {
    const char *role, *mode;
    uint64_t memory, host_memory, host_pool;
    bool required, restart;
};

/* What was not given stays as it was inherited: a cluster's agent tells its jobs their limits so. */
static void env_bytes(const char *name, uint64_t bytes)
{
    char text[32];

    if (bytes == NOT_GIVEN)
        return;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    if (bytes)
        (void)setenv(name, text, 1);
    else
        (void)unsetenv(name);
}

static int run_parse(int argc, char **argv, struct run_options *o)
{
    enum { OPT_ROLE = 256, OPT_MEMORY, OPT_HOST, OPT_POOL, OPT_MOVABLE, OPT_NATIVE, OPT_REQUIRED, OPT_RESTART };
    static const struct option options[] = { { "role", required_argument, NULL, OPT_ROLE },
                                             { "memory", required_argument, NULL, OPT_MEMORY },
                                             { "host-memory", required_argument, NULL, OPT_HOST },
                                             { "host-pool", required_argument, NULL, OPT_POOL },
                                             { "movable", no_argument, NULL, OPT_MOVABLE },
                                             { "native", no_argument, NULL, OPT_NATIVE },
                                             { "required", no_argument, NULL, OPT_REQUIRED },
                                             { "restart", no_argument, NULL, OPT_RESTART },
                                             { NULL, 0, NULL, 0 } };
    uint64_t *size = NULL;
    int c;

    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:", options, NULL)) >= 0) {
        size =
            c == OPT_MEMORY ? &o->memory : (c == OPT_HOST ? &o->host_memory : (c == OPT_POOL ? &o->host_pool : NULL));
        if (size && gpu_size(optarg, size) < 0)
            return gpu_misuse("'%s' is no size; 20G and 512M are", optarg);
        if (c == OPT_ROLE && strcmp(optarg, "guaranteed") != 0 && strcmp(optarg, "opportunistic") != 0)
            return gpu_misuse("--role: '%s' is neither guaranteed nor opportunistic", optarg);
        if ((c == OPT_MOVABLE || c == OPT_NATIVE) && o->mode && (strcmp(o->mode, "spill") == 0) != (c == OPT_MOVABLE))
            return gpu_misuse("%s", "run: --movable and --native exclude each other");
        if (c == OPT_ROLE)
            o->role = optarg;
        else if (c == OPT_MOVABLE)
            o->mode = "spill";
        else if (c == OPT_NATIVE)
            o->mode = "cap";
        else if (c == OPT_REQUIRED)
            o->required = true;
        else if (c == OPT_RESTART)
            o->restart = true;
        else if (c == '?' || c == ':')
            return gpu_option("run", c, argv);
    }
    if (optind >= argc)
        return gpu_misuse("%s", "run: a command is missing after --");
    return 0;
}

static int command_exec(char **argv)
{
    execvp(argv[0], argv);
    (void)fprintf(stderr, "muster gpu: %s: %s\n", argv[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

static volatile sig_atomic_t command_pid; /* signals go on to it */

static void forward(int number)
{
    if (command_pid > 0)
        (void)kill((pid_t)command_pid, number);
}

/* Starts the command and waits for its end; -1: there is no such status. */
static int command_wait(char **argv, bool off)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        if (off)
            (void)setenv("MUSTER_GPU_DISABLE", "1", 1);
        _exit(command_exec(argv));
    }
    if (pid < 0)
        return -1;
    command_pid = pid;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    command_pid = 0;
    return status;
}

static bool crash(int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGABRT;
}

/* Perhaps the library did it: once more, without. An opportunistic job is not, since nothing would hold it back. */
static int command_watch(char **argv, const char *role)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    const struct sigaction action = { .sa_handler = forward };
    bool again = !role || strcmp(role, "opportunistic") != 0;
    int status;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)sigaction(signals[i], &action, NULL);
    status = command_wait(argv, false);
    if (status != -1 && crash(status)) {
        (void)fprintf(stderr, "muster gpu: %s died by signal %d (%s); %s\n", argv[0], WTERMSIG(status),
                      strsignal(WTERMSIG(status)),
                      again ? "started once more without the library. If it runs now, please report it: the core dump "
                              "names the function"
                            : "not started again: without the library nothing would hold an opportunistic job back");
        status = again ? command_wait(argv, true) : status;
    }
    if (status == -1)
        return EXIT_FAILED;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* MUSTER_GPU_PYTHON=inside does without. */
static void python_path(const char *library)
{
    const char *how = getenv("MUSTER_GPU_PYTHON"), *old = getenv("PYTHONPATH");
    char folder[PATH_MAX], path[4 * PATH_MAX];
    int n;

    if ((how && strcmp(how, "inside") == 0) || !preload_python(library, folder))
        return;
    n = snprintf(path, sizeof(path), "%s%s%s", folder, old && *old ? ":" : "", old ? old : "");
    if (n > 0 && (size_t)n < sizeof(path)) /* a longer one is the program's own, whole */
        (void)setenv("PYTHONPATH", path, 1);
}

/* Frameworks that take the whole card at their start leave nothing to share. What the user has set stays. */
static void growth_env(void)
{
    (void)setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 0);
    (void)setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false", 0);
}

static bool env_set(const char *name)
{
    const char *text = getenv(name);

    return text && *text && strcmp(text, "0") != 0;
}

int gpu_run(int argc, char **argv)
{
    char program[PATH_MAX], library[PATH_MAX], preload[2 * PATH_MAX];
    char run_dir[TOOL_PATH_MAX], socket_path[TOOL_PATH_MAX];
    const char *old = getenv("LD_PRELOAD");
    struct run_options o = { .memory = NOT_GIVEN, .host_memory = NOT_GIVEN, .host_pool = NOT_GIVEN };
    struct error err = { 0 };
    int r = run_parse(argc, argv, &o);

    if (r)
        return r;
    if (!o.role)
        o.role = getenv("MUSTER_GPU_ROLE");
    if (env_set("MUSTER_GPU_DISABLE") && o.role && strcmp(o.role, "opportunistic") == 0)
        return gpu_misuse("%s",
                          "an opportunistic job cannot run with MUSTER_GPU_DISABLE set: nothing would hold it back");
    gpu_program(program);
    if (preload_find(program, library, &err) < 0 || tool_paths(run_dir, socket_path, &err) < 0 ||
        tool_start(socket_path, program, &err) < 0)
        return gpu_fail(&err);
    (void)snprintf(preload, sizeof(preload), "%s%s%s", library, old && *old ? ":" : "", old ? old : "");
    (void)setenv("LD_PRELOAD", preload, 1);
    (void)setenv("MUSTER_GPU_SOCKET", socket_path, 1);
    python_path(library);
    if ((o.role && *o.role) || (o.memory == NOT_GIVEN ? env_set("MUSTER_GPU_MEMORY") : o.memory != 0))
        growth_env();
    if (o.role)
        (void)setenv("MUSTER_GPU_ROLE", o.role, 1);
    if (o.mode)
        (void)setenv("MUSTER_GPU_MEM", o.mode, 1);
    if (o.required)
        (void)setenv("MUSTER_GPU_REQUIRED", "1", 1);
    env_bytes("MUSTER_GPU_MEMORY", o.memory);
    env_bytes("MUSTER_GPU_HOST_MEMORY", o.host_memory);
    env_bytes("MUSTER_GPU_HOST_POOL", o.host_pool);
    return o.restart ? command_watch(argv + optind, o.role) : command_exec(argv + optind);
}
