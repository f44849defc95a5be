/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gpu.c - muster gpu run, ls, top, pause, resume, evict, release, restore, set and the rest; and the two that serve
 * them: agent and guard. */
#include "cli/verbs/cmd_gpu.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpurt/check.h"
#include "gpurt/ladder/guard.h"
#include "gpurt/node.h"
#include "gpurt/tool.h"

#define TOP_WAIT_MOST_S 86400u
#define LINE_MOST 200 /* an order to a process */

static const char usage_text[] =
    "Usage: muster gpu run [--role guaranteed|opportunistic] [--memory SIZE] [--movable | --native]\n"
    "                      [--host-memory SIZE] [--host-pool SIZE] [--required] [--restart] -- COMMAND...\n"
    "       muster gpu ls [--json]\n"
    "       muster gpu top [-n TIMES] [-w SECONDS]\n"
    "       muster gpu pause|resume|evict|release|restore [--at-boundary] [--gpu UUID] PID | --job ID\n"
    "       muster gpu estimate|suspend [--free SIZE] PID\n"
    "       muster gpu set PID [gpu=N] memory=SIZE share=FRACTION prepare=SIZE pinned=FRACTION\n"
    "       muster gpu signal PID [USR1|USR2|INT|TERM]\n"
    "       muster gpu checkpoint [--grace SECONDS] [--end] [--force] PID [USR1|USR2|INT|TERM]\n"
    "       muster gpu baseline [--steps N] PID\n"
    "       muster gpu detach [--seconds N] PID\n"
    "       muster gpu stats PID\n"
    "       muster gpu check\n"
    "       muster gpu drain NODE:INDEX... --reason TEXT | resume NODE:INDEX...   (of the cluster)\n"
    "       muster gpu agent [--idle-exit SECONDS]\n"
    "\n"
    "Runs CUDA programs, unmodified, under a memory limit and beside one another; pauses them, moves their\n"
    "memory out of the GPU and back. Sizes: a bare number is MiB; K, M, G and T are binary.\n";

int gpu_fail(const struct error *err)
{
    (void)fprintf(stderr, "muster gpu: %s\n", err->text);
    return EXIT_FAILED;
}

int gpu_misuse(const char *format, ...)
{
    va_list ap;

    (void)fprintf(stderr, "muster gpu: ");
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fprintf(stderr, "\nTry `muster gpu --help`.\n");
    return EXIT_USAGE;
}

int gpu_option(const char *verb, int c, char **argv)
{
    if (c == ':')
        return gpu_misuse("%s: %s needs a value", verb, argv[optind - 1]);
    return gpu_misuse("%s: unknown option '%s'", verb, argv[optind - 1]);
}

/* 0..most, or -EINVAL. */
static int number_parse(const char *text, unsigned long most, unsigned long *ret)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || value > most)
        return -EINVAL;
    *ret = value;
    return 0;
}

int gpu_count(const char *text, unsigned long most, unsigned long *ret)
{
    unsigned long value;

    if (number_parse(text, most, &value) < 0 || value < 1)
        return -EINVAL;
    *ret = value;
    return 0;
}

int gpu_size(const char *text, uint64_t *ret)
{
    static const char units[] = "KMGTkmgt";
    unsigned long long value;
    const char *unit;
    char *end;
    int shift = 20;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (*end) {
        unit = strchr(units, *end);
        if (!unit || end[1])
            return -EINVAL;
        shift = 10 * (int)((unit - units) % 4 + 1);
    }
    if (errno || value > (UINT64_MAX >> shift))
        return -ERANGE;
    *ret = (uint64_t)value << shift;
    return 0;
}

void gpu_program(char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    path[n > 0 ? n : 0] = '\0';
}

int gpu_answer(const char *line, unsigned int wait_s, char *text)
{
    char run_dir[TOOL_PATH_MAX], socket_path[TOOL_PATH_MAX];
    struct error err = { 0 };

    if (tool_paths(run_dir, socket_path, &err) < 0)
        return gpu_fail(&err);
    if (tool_ask(socket_path, line, wait_s, text, GPU_TEXT_MAX, &err) < 0) {
        if (access(socket_path, W_OK) < 0 && errno == EACCES)
            (void)error_set(&err, -EACCES, "%s: is another user's, and so are the processes there", socket_path);
        return gpu_fail(&err);
    }
    if (strncmp(text, "error", 5) == 0) {
        (void)fprintf(stderr, "muster gpu: %s\n", text + 5 + strspn(text + 5, ": "));
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

int gpu_ask(const char *line, unsigned int wait_s)
{
    static char text[GPU_TEXT_MAX];
    int r = gpu_answer(line, wait_s, text);

    if (r != EXIT_OK)
        return r;
    (void)fputs(text, stdout);
    if (*text && text[strlen(text) - 1] != '\n')
        (void)putchar('\n');
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* One document, in as many answers as it takes: the rows that did not fit are asked for and put where they belong. */
static int ls_json(void)
{
    static char text[GPU_TEXT_MAX], more[GPU_TEXT_MAX];
    char line[32], *tail, *next, *end;
    int r = gpu_answer("json", 5, text), from;

    if (r != EXIT_OK)
        return r;
    tail = strstr(text, "],\"gpus\":[");
    next = tail ? strstr(tail, "],\"next\":") : NULL;
    if (!next || sscanf(next, "],\"next\":%d", &from) != 1) {
        (void)fputs(text, stdout);
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
    }
    *next = '\0';
    (void)printf("%.*s", (int)(tail - text), text);
    do {
        (void)snprintf(line, sizeof(line), "rows %d", from);
        r = gpu_answer(line, 5, more);
        if (r != EXIT_OK)
            return r;
        end = strchr(more, '\n');
        if (end && end > more)
            (void)printf(",%.*s", (int)(end - more), more);
    } while (end && sscanf(end + 1, "%d", &from) == 1);
    (void)printf("%s],\"next\":null}\n", tail);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

static int gpu_ls(int argc, char **argv)
{
    if (argc == 1)
        return gpu_ask("ls", 5);
    if (argc == 2 && (strcmp(argv[1], "--json") == 0 || strcmp(argv[1], "-ojson") == 0))
        return ls_json();
    return gpu_misuse("ls: unknown argument '%s'; [--json] is known", argv[argc - 1]);
}

static int gpu_top(int argc, char **argv)
{
    unsigned long times = ULONG_MAX, seconds = 1;
    int c, r;

    optind = 1;
    opterr = 0;
    while ((c = getopt(argc, argv, ":n:w:")) >= 0) {
        if (c != 'n' && c != 'w')
            return gpu_misuse("top: unknown option; -n TIMES and -w SECONDS are known");
        if (gpu_count(optarg, c == 'n' ? ULONG_MAX : TOP_WAIT_MOST_S, c == 'n' ? &times : &seconds) < 0)
            return gpu_misuse("top: -%c takes a number of %s from 1 on, not '%s'", c, c == 'n' ? "times" : "seconds",
                              optarg);
    }
    if (optind < argc)
        return gpu_misuse("top: unknown argument '%s'", argv[optind]);
    for (unsigned long i = 0; i < times; i++) {
        if (isatty(STDOUT_FILENO))
            (void)fputs("\033[H\033[2J", stdout);
        r = gpu_ask("top", 5);
        if (r != EXIT_OK)
            return r;
        if (i + 1 < times)
            (void)sleep((unsigned int)seconds);
    }
    return EXIT_OK;
}

bool gpu_pid_valid(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    return end != text && !*end && value > 0 && value <= INT_MAX;
}

/* GPU-2a8d5603-f56d-..., or the same without the prefix: 32 digits. */
static int uuid_parse(const char *text, char *ret)
{
    size_t n = 0;

    if (strncmp(text, "GPU-", 4) == 0)
        text += 4;
    for (; *text; text++) {
        if (*text == '-')
            continue;
        if (!strchr("0123456789abcdefABCDEF", *text) || n == 32)
            return -EINVAL;
        ret[n++] = *text;
    }
    ret[n] = '\0';
    return n == 32 ? 0 : -EINVAL;
}

static bool state_find(const char *rows, const char *pid, char *ret)
{
    char key[32];
    const char *row, *state, *next;

    (void)snprintf(key, sizeof(key), "{\"pid\":%s,", pid);
    row = strstr(rows, key);
    state = row ? strstr(row, "\"state\":\"") : NULL;
    next = row ? strstr(row + 1, "{\"pid\":") : NULL;
    return state && (!next || state < next) && sscanf(state, "\"state\":\"%15[a-z]", ret) == 1;
}

/* Where the process is now, into ret[16]; empty when that cannot be told: the order itself says why. */
static void state_ask(const char *pid, char *ret)
{
    static char text[GPU_TEXT_MAX];
    char run_dir[TOOL_PATH_MAX], socket_path[TOOL_PATH_MAX], line[32];
    const char *next;
    int from = 0;

    *ret = '\0';
    if (tool_paths(run_dir, socket_path, NULL) < 0 || tool_ask(socket_path, "json", 5, text, GPU_TEXT_MAX, NULL) < 0 ||
        state_find(text, pid, ret))
        return;
    next = strstr(text, "],\"next\":");
    while (next && sscanf(next, "],\"next\":%d", &from) == 1) {
        (void)snprintf(line, sizeof(line), "rows %d", from);
        if (tool_ask(socket_path, line, 5, text, GPU_TEXT_MAX, NULL) < 0 || state_find(text, pid, ret))
            return;
        next = strchr(text, '\n');
        if (!next || sscanf(next + 1, "%d", &from) != 1)
            return;
        (void)snprintf(text, sizeof(text), "],\"next\":%d", from);
        next = text;
    }
}

/* Where a verb leads. */
static const char *goal_of(const char *verb)
{
    return strcmp(verb, "pause") == 0     ? "paused"
           : strcmp(verb, "evict") == 0   ? "evicted"
           : strcmp(verb, "release") == 0 ? "released"
                                          : "running";
}

/* Asked for where it is already: said so, and not as if it had been done. */
static int order_send(const char *line, const char *pid, const char *goal, const char *state)
{
    static char text[GPU_TEXT_MAX];
    int r;

    if (strcmp(goal, state) != 0)
        return gpu_ask(line, GPU_ORDER_S);
    r = gpu_answer(line, GPU_ORDER_S, text);
    if (r != EXIT_OK)
        return r;
    (void)printf("ok %s: %s already\n", pid, goal);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* VERB [--at-boundary] [--gpu UUID] PID | --job ID */
static int gpu_order(int argc, char **argv)
{
    static const struct option options[] = { { "at-boundary", no_argument, NULL, 'b' },
                                             { "job", required_argument, NULL, 'j' },
                                             { "gpu", required_argument, NULL, 'g' },
                                             { NULL, 0, NULL, 0 } };
    const char *job = NULL;
    char line[200], uuid[33] = "", state[16] = "";
    bool boundary = false;
    int c;

    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", options, NULL)) >= 0) {
        if (c == 'b')
            boundary = true;
        else if (c == 'j')
            job = optarg;
        else if (c != 'g')
            return gpu_option(argv[0], c, argv);
        else if (strcmp(argv[0], "restore") != 0 || uuid_parse(optarg, uuid) < 0)
            return gpu_misuse("%s: --gpu is for restore, and takes a GPU's UUID, as nvidia-smi -L shows it", argv[0]);
    }
    if (job && (!*job || strpbrk(job, " =") || strlen(job) > 63))
        return gpu_misuse("%s: --job takes a job's id, 1 to 63 characters without blanks and '=', not '%s'", argv[0],
                          job);
    if (job ? optind != argc : optind + 1 != argc || !gpu_pid_valid(argv[optind]))
        return gpu_misuse("%s: expected one process id, or --job ID", argv[0]);
    (void)snprintf(line, sizeof(line), "%s %s%s%s%s%s", argv[0], job ? "job=" : "", job ? job : argv[optind],
                   boundary ? " boundary" : "", *uuid ? " gpu=" : "", uuid);
    if (job)
        return gpu_ask(line, GPU_ORDER_S);
    state_ask(argv[optind], state);
    if (*uuid && *state && strcmp(state, "released") != 0) {
        (void)fprintf(stderr, "muster gpu: process %s is %s; release it first, then --gpu says where it is restored\n",
                      argv[optind], state);
        return EXIT_FAILED;
    }
    return order_send(line, argv[optind], goal_of(argv[0]), state);
}

/* As far down as is needed; where that is where it is, it is said so. */
static int suspend_send(const char *line, const char *pid)
{
    static char text[GPU_TEXT_MAX];
    char before[16], state[16] = "";
    int r;

    state_ask(pid, before);
    r = gpu_answer(line, GPU_ORDER_S, text);
    if (r != EXIT_OK)
        return r;
    if (sscanf(text, "ok %*d: %15[a-z]", state) == 1 && strcmp(before, state) == 0)
        (void)printf("ok %s: %s already\n", pid, state);
    else
        (void)printf("%s\n", text);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* estimate | suspend [--free SIZE] PID */
static int gpu_rungs(int argc, char **argv)
{
    uint64_t bytes = 0;
    char line[128];

    if (argc == 4 && strcmp(argv[1], "--free") == 0) {
        if (gpu_size(argv[2], &bytes) < 0)
            return gpu_misuse("'%s' is no size; 20G and 512M are", argv[2]);
    } else if (argc != 2) {
        return gpu_misuse("%s: expected [--free SIZE] PID", argv[0]);
    }
    if (!gpu_pid_valid(argv[argc - 1]))
        return gpu_misuse("%s: '%s' is no process id", argv[0], argv[argc - 1]);
    (void)snprintf(line, sizeof(line), "%s %s free=%llu", argv[0], argv[argc - 1], (unsigned long long)bytes);
    return *argv[0] == 's' ? suspend_send(line, argv[argc - 1]) : gpu_ask(line, GPU_ORDER_S);
}

/* baseline [--steps N] PID, detach [--seconds N] PID */
static int gpu_number(int argc, char **argv)
{
    bool steps = strcmp(argv[0], "baseline") == 0;
    const char *option = steps ? "--steps" : "--seconds";
    char line[128], *end = NULL;
    unsigned long n = steps ? 20 : 30, most = steps ? PAGE_STEPS : 600;

    if (argc == 4 && strcmp(argv[1], option) == 0)
        n = strtoul(argv[2], &end, 10);
    else if (argc != 2)
        return gpu_misuse("%s: expected [%s N] PID", argv[0], option);
    if ((end && (end == argv[2] || *end)) || n < 1 || n > most)
        return gpu_misuse("%s: %s is 1 to %lu, not '%s'", argv[0], option, most, argv[2]);
    if (!gpu_pid_valid(argv[argc - 1]))
        return gpu_misuse("%s: '%s' is no process id", argv[0], argv[argc - 1]);
    (void)snprintf(line, sizeof(line), "%s %s %lu", argv[0], argv[argc - 1], n);
    return gpu_ask(line, GPU_ORDER_S);
}

/* stats PID: what PyTorch's allocator says of itself. */
static int gpu_stats(int argc, char **argv)
{
    char line[64];

    if (argc != 2 || !gpu_pid_valid(argv[1]))
        return gpu_misuse("%s: expected one process id", argv[0]);
    (void)snprintf(line, sizeof(line), "stats %s", argv[1]);
    return gpu_ask(line, GPU_ORDER_S);
}

/* 0.5 as permille; -EINVAL what is no plain number, or not in the range. A share of less than one permille would be
 * none, and that lifts what was set. */
static int fraction_parse(const char *text, unsigned int least, unsigned int *ret)
{
    double share;
    char *end;

    if (!*text || strspn(text, "0123456789.") != strlen(text))
        return -EINVAL;
    share = strtod(text, &end);
    if (*end || share > 1 || share * 1000 < least)
        return -EINVAL;
    *ret = (unsigned int)(share * 1000 + 0.5);
    return 0;
}

/* share=0.5 is permille on the wire; sizes are bytes. */
static int word_translate(const char *word, char *out, size_t size)
{
    const char *equals = strchr(word, '=');
    bool share = strncmp(word, "share=", 6) == 0;
    unsigned int permille;
    unsigned long number;
    uint64_t value;

    if (!equals)
        return gpu_misuse("set: '%s' is not key=value", word);
    if (share || strncmp(word, "pinned=", 7) == 0) {
        if (fraction_parse(equals + 1, share, &permille) < 0)
            return gpu_misuse("set: %.*s is a fraction from %s to 1, not '%s'", (int)(equals - word), word,
                              share ? "0.001" : "0", equals + 1);
        value = permille;
    } else if (strncmp(word, "gpu=", 4) == 0) {
        if (number_parse(equals + 1, PAGE_GPUS - 1, &number) < 0)
            return gpu_misuse("set: gpu is the number of one of its GPUs, 0 to %d, not '%s'", PAGE_GPUS - 1,
                              equals + 1);
        value = number;
    } else if (strncmp(word, "memory=", 7) != 0 && strncmp(word, "prepare=", 8) != 0) {
        return gpu_misuse("set: unknown key in '%s'; memory, gpu, share, prepare and pinned are known", word);
    } else if (gpu_size(equals + 1, &value) < 0) {
        return gpu_misuse("'%s' is no size; 20G and 512M are", equals + 1);
    }
    if ((size_t)snprintf(out, size, " %.*s=%llu", (int)(equals - word), word, (unsigned long long)value) >= size)
        return gpu_misuse("set: '%s' makes the order longer than %d characters; set fewer at once", word,
                          LINE_MOST - 1);
    return 0;
}

static int gpu_set(int argc, char **argv)
{
    char line[LINE_MOST];
    size_t n;

    if (argc < 3 || !gpu_pid_valid(argv[1]))
        return gpu_misuse("%s", "set: expected PID key=value...");
    n = (size_t)snprintf(line, sizeof(line), "set %s", argv[1]);
    for (int i = 2; i < argc; i++) {
        int r = word_translate(argv[i], line + n, sizeof(line) - n);

        if (r)
            return r;
        n += strlen(line + n);
    }
    return gpu_ask(line, GPU_ORDER_S);
}

static int gpu_check(int argc, char **argv)
{
    (void)argv;
    if (argc != 1)
        return gpu_misuse("%s", "check: takes no arguments");
    return check_print(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

static int gpu_agent(int argc, char **argv)
{
    char program[PATH_MAX], run_dir[TOOL_PATH_MAX], socket_path[TOOL_PATH_MAX];
    struct error err = { 0 };
    unsigned long idle = 0;

    if (argc == 2 && strcmp(argv[1], "--idle-exit") == 0)
        return gpu_misuse("%s", "agent: --idle-exit needs a value");
    if (argc == 3 && strcmp(argv[1], "--idle-exit") == 0) {
        if (gpu_count(argv[2], UINT_MAX, &idle) < 0)
            return gpu_misuse("agent: --idle-exit takes a number of seconds from 1 on, not '%s'", argv[2]);
    } else if (argc != 1)
        return gpu_misuse("agent: unknown argument '%s'", argv[1]);
    gpu_program(program);
    if (tool_paths(run_dir, socket_path, &err) < 0 ||
        node_run(socket_path, run_dir, program, (unsigned int)idle, &err) < 0)
        return gpu_fail(&err);
    return EXIT_OK;
}

static int gpu_guard(int argc, char **argv)
{
    const char *claim = getenv("MUSTER_GPU_CLAIM_SECONDS");
    struct error err = { 0 };

    if (argc != 5 || strcmp(argv[1], "--run-dir") != 0 || !gpu_pid_valid(argv[3]))
        return gpu_misuse("%s", "guard: expected --run-dir DIR PID START; the agent starts it");
    if (guard_run(argv[2], (pid_t)strtol(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
                  claim ? (unsigned int)strtoul(claim, NULL, 10) : GUARD_CLAIM_S, &err) < 0)
        return gpu_fail(&err);
    return EXIT_OK;
}

int cmd_gpu(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*fn)(int argc, char **argv);
    } verbs[] = {
        { "run", gpu_run },         { "ls", gpu_ls },         { "top", gpu_top },           { "pause", gpu_order },
        { "resume", gpu_order },    { "evict", gpu_order },   { "release", gpu_order },     { "restore", gpu_order },
        { "set", gpu_set },         { "signal", gpu_signal }, { "checkpoint", gpu_signal }, { "check", gpu_check },
        { "agent", gpu_agent },     { "guard", gpu_guard },   { "estimate", gpu_rungs },    { "suspend", gpu_rungs },
        { "baseline", gpu_number }, { "detach", gpu_number }, { "stats", gpu_stats }
    };

    if (argc < 2)
        return gpu_misuse("%s", "a verb is missing");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        (void)fputs(usage_text, stdout);
        return EXIT_OK;
    }
    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        (void)fputs(usage_text, stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].fn(argc - 1, argv + 1);
    return gpu_misuse("unknown verb '%s'", argv[1]);
}
