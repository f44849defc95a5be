/* SPDX-License-Identifier: Apache-2.0 */
/* job_step.c - muster run inside of a job: the command on each of its nodes, within the job's limits; and muster
 * forward, which brings a port of a job to this machine.
 *
 * Both are many times `muster exec`: the program calls itself, one process a task or a connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/input.h"
#include "cli/fmt.h"
#include "cli/verbs/live.h"
#include "wire/agent/progress.h"
#include "wire/text/decimal.h"
#include "wire/text/hostlist.h"

enum { STEP_TASKS_MAX = 4096, STEP_ARGS_MAX = 1024, FORWARDS_MAX = 64 };

static pid_t *children;
static size_t child_count;

static void on_end(int number)
{
    for (size_t i = 0; i < child_count; i++)
        if (children[i] > 0)
            (void)kill(children[i], number);
}

/* The ranks of the job's nodes that the step runs on, in order; NULL: the first ones. */
static int64_t *step_nodes, step_count;

/* Where one task of a step is. */
struct step_task {
    int64_t job, nodes, tasks, rank, node, local, local_count;
};

/* Its standard input is `in`. Does not come back. */
static void task_exec(const struct step_task *task, char *const *words, int count, int in)
{
    static char texts[16][64];
    char *argv[STEP_ARGS_MAX + 32], place[64];
    int n = 0, t = 0;

    (void)snprintf(place, sizeof(place), "%lld.%lld", (long long)task->job,
                   (long long)(step_nodes ? step_nodes[task->node] : task->node));
    argv[n++] = (char *)(uintptr_t) "muster";
    argv[n++] = (char *)(uintptr_t) "exec";
    argv[n++] = (char *)(uintptr_t) "-T";
    argv[n++] = place;
    argv[n++] = (char *)(uintptr_t) "--";
    argv[n++] = (char *)(uintptr_t) "env";
    (void)snprintf(texts[t], sizeof(texts[0]), "SLURM_PROCID=%lld", (long long)task->rank);
    argv[n++] = texts[t++];
    (void)snprintf(texts[t], sizeof(texts[0]), "SLURM_LOCALID=%lld", (long long)task->local);
    argv[n++] = texts[t++];
    (void)snprintf(texts[t], sizeof(texts[0]), "SLURM_NODEID=%lld", (long long)task->node);
    argv[n++] = texts[t++];
    (void)snprintf(texts[t], sizeof(texts[0]), "SLURM_NTASKS=%lld", (long long)task->tasks);
    argv[n++] = texts[t++];
    if (task->local_count > 1) { /* one task a node leaves these to torchrun */
        (void)snprintf(texts[t], sizeof(texts[0]), "RANK=%lld", (long long)task->rank);
        argv[n++] = texts[t++];
        (void)snprintf(texts[t], sizeof(texts[0]), "LOCAL_RANK=%lld", (long long)task->local);
        argv[n++] = texts[t++];
        (void)snprintf(texts[t], sizeof(texts[0]), "WORLD_SIZE=%lld", (long long)task->tasks);
        argv[n++] = texts[t++];
        (void)snprintf(texts[t], sizeof(texts[0]), "LOCAL_WORLD_SIZE=%lld", (long long)task->local_count);
        argv[n++] = texts[t++];
    }
    for (int i = 0; i < count && i < STEP_ARGS_MAX; i++)
        argv[n++] = words[i];
    argv[n] = NULL;
    if (in >= 0 && in != STDIN_FILENO)
        (void)dup2(in, STDIN_FILENO);
    (void)execv("/proc/self/exe", argv);
    _exit(126);
}

/* Waits for all; the first that fails ends the others. The highest code. */
static int tasks_wait(void)
{
    int worst = 0, status;
    size_t left = child_count;

    while (left > 0) {
        pid_t pid = wait(&status);
        size_t i = 0;
        int code;

        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        while (i < child_count && children[i] != pid)
            i++;
        if (i == child_count)
            continue; /* what carried their input */
        children[i] = 0;
        left--;
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (worst && code >= 128)
            continue; /* ended because another had failed */
        if (code && !worst)
            on_end(SIGTERM);
        worst = code > worst ? code : worst;
    }
    return worst;
}

struct node_pick {
    json_t *placement;
    int64_t count, most;
};

static int node_pick(void *arg, const char *name)
{
    struct node_pick *pick = arg;

    for (size_t i = 0; i < json_array_size(pick->placement); i++)
        if (strcmp(fmt_text(json_array_get(pick->placement, i), "node"), name) == 0 && pick->count < pick->most) {
            step_nodes[pick->count++] = (int64_t)i;
            return 0;
        }
    return -ENOENT;
}

/* -w gpu[01-02]: these nodes of the job alone. */
static int nodes_choose(struct command_args *args, int64_t job, int64_t *ret_count)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    const char *list = args_value(args, "nodelist");
    struct problem problem;
    struct node_pick pick;
    char path[64];

    if (!list)
        return 0;
    if (!*list)
        return args_wrong(args, "-w: expected names of nodes, such as gpu01 or gpu[01-02], got an empty list");
    (void)snprintf(path, sizeof(path), "/jobs/%lld?fields=placement", (long long)job);
    if (client_new(args, &client, &problem) || client_call(client, "GET", path, NULL, &answer, &problem))
        return problem_print(&problem);
    pick = (struct node_pick){ json_object_get(answer.json, "placement"), 0, live_env("MUSTER_NNODES", 1) };
    step_nodes = mem_zalloc((size_t)pick.most, sizeof(*step_nodes));
    if (!step_nodes)
        return CODE_FAILED;
    if (hostlist_each(list, node_pick, &pick, NULL) < 0 || pick.count == 0)
        return args_wrong(args, "-w: '%.60s' are not nodes of job %lld", list, (long long)job);
    *ret_count = step_count = pick.count;
    return 0;
}

/* Tasks on each node, from -n, -N and --ntasks-per-node, else as many as the script of a Slurm user asked for; a usage
 * error is told. */
static int shape_read(struct command_args *args, struct step_task *ret)
{
    const char *tasks = args_value(args, "ntasks"), *nodes = args_value(args, "nodes");
    const char *each = args_value(args, "ntasks-per-node");
    int r;

    *ret = (struct step_task){ .job = live_env("MUSTER_JOB_ID", 0), .nodes = live_env("MUSTER_NNODES", 1) };
    r = nodes_choose(args, ret->job, &ret->nodes);
    if (r)
        return r;
    if (nodes && (decimal_parse_i64(nodes, strlen(nodes), &ret->nodes) < 0 || ret->nodes < 1 ||
                  ret->nodes > live_env("MUSTER_NNODES", 1)))
        return args_wrong(args, "-N: this job has %lld nodes", (long long)live_env("MUSTER_NNODES", 1));
    if (nodes && step_nodes && ret->nodes > step_count)
        return args_wrong(args, "-N: -w names fewer nodes");
    ret->tasks = ret->nodes;
    if (each && decimal_parse_i64(each, strlen(each), &ret->local_count) == 0)
        ret->tasks = ret->nodes * ret->local_count;
    else if (!nodes || live_env("SLURM_NTASKS_PER_NODE", 0) > 0)
        ret->tasks = live_env("SLURM_NTASKS_PER_NODE", 0) > 0 ? ret->nodes * live_env("SLURM_NTASKS_PER_NODE", 0)
                                                              : live_env("SLURM_NTASKS", ret->nodes);
    if (tasks && decimal_parse_i64(tasks, strlen(tasks), &ret->tasks) < 0)
        return args_wrong(args, "-n: expected a number, got '%.20s'", tasks);
    if (ret->tasks < 1 || ret->tasks > STEP_TASKS_MAX)
        return args_wrong(args, "-n: from 1 to %d tasks", STEP_TASKS_MAX);
    if (ret->tasks < ret->nodes)
        ret->nodes = ret->tasks;
    return 0;
}

/* A job's first command may be quicker than the word that the job runs. */
static int running_wait(struct command_args *args, int64_t job)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    char path[64];
    int r = live_client(args, &client);

    (void)snprintf(path, sizeof(path), "/jobs/%lld?fields=state", (long long)job);
    for (int tries = 0; r == 0 && tries < 600; tries++) {
        CLEANUP_ANSWER struct answer answer = { 0 };

        if (client_call(client, "GET", path, NULL, &answer, &problem))
            return problem_print(&problem);
        if (strcmp(fmt_text(answer.json, "state"), "STARTING") != 0)
            return 0;
        (void)poll(NULL, 0, 50);
    }
    return r;
}

/* What the task reads: ours, where it is the only one that does; its end of the pipes that carry it to all; nothing. */
static int task_input(const char *mode, struct input_spread *spread, const struct step_task *task)
{
    int64_t number;

    if (strcmp(mode, "all") == 0)
        return task->tasks == 1 ? STDIN_FILENO : input_spread_end(spread);
    if (*mode && decimal_parse_i64(mode, strlen(mode), &number) == 0 && number == task->rank)
        return STDIN_FILENO;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void tasks_start(const struct command_args *args, const struct step_task *shape, struct input_spread *spread)
{
    int64_t rank = 0;

    for (int64_t node = 0; node < shape->nodes; node++) {
        int64_t here = shape->tasks / shape->nodes + (node < shape->tasks % shape->nodes);

        for (int64_t local = 0; local < here; local++, rank++) {
            struct step_task task = { shape->job, shape->nodes, shape->tasks, rank, node, local, here };
            int in = task_input(input_mode(args), spread, &task);
            pid_t pid = fork();

            if (pid == 0)
                task_exec(&task, args->words, args->word_count, in);
            if (pid > 0)
                children[child_count++] = pid;
            if (in > STDIN_FILENO)
                (void)close(in);
        }
    }
}

int run_step(struct command_args *args)
{
    struct input_spread spread = { 0 };
    struct step_task shape;
    int64_t number;
    pid_t input;
    int r = shape_read(args, &shape);

    if (r)
        return r;
    if (*input_mode(args) && strcmp(input_mode(args), "all") != 0 &&
        (decimal_parse_i64(input_mode(args), strlen(input_mode(args)), &number) < 0 || number < 0 ||
         number >= shape.tasks))
        return args_wrong(args, "--input: expected all, none or a task from 0 to %lld, got '%.20s'",
                          (long long)shape.tasks - 1, input_mode(args));
    r = running_wait(args, shape.job);
    if (r)
        return r;
    if (args->word_count > STEP_ARGS_MAX)
        return args_wrong(args, "a command has at most %d words", STEP_ARGS_MAX);
    children = mem_zalloc((size_t)shape.tasks, sizeof(*children));
    if (!children)
        return CODE_FAILED;
    (void)signal(SIGTERM, on_end);
    (void)signal(SIGINT, on_end);
    tasks_start(args, &shape, &spread);
    input = input_spread_start(&spread);
    r = tasks_wait();
    input_stop(input);
    mem_free(children);
    return r;
}

/* One line on the socket of the job: docs/agent.md. */
static int socket_say(const struct command_args *args, const char *line, int length)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const char *where = getenv("MUSTER_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct problem problem;
    int fd;

    if (!where || strlen(where) >= sizeof(address.sun_path))
        return args_wrong(args, "this is for jobs: MUSTER_SOCKET is not set here");
    memcpy(address.sun_path, where, strlen(where) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        write(fd, line, (size_t)length) != length) {
        (void)problem_set(&problem, CODE_FAILED, "", "%s: %s", where, strerror(errno));
        return problem_print(&problem);
    }
    (void)close(fd);
    return CODE_DONE;
}

int cmd_progress(struct command_args *args)
{
    struct progress_line said = { 0 };
    CLEANUP_BUF struct buf line = BUF_INIT(500);

    for (int i = 0; i < args->word_count; i++) {
        const char *word = args->words[i], *equals = strchr(word, '=');
        int known = equals ? progress_find(word, (size_t)(equals - word)) : -ENOENT;

        if (known < 0)
            return args_wrong(args, "expected step=N, samples=N, total=N, epoch=X, loss=X or rank=N, got '%.40s'",
                              word);
        if (progress_set(&said, (enum progress_word)known, equals + 1, strlen(equals + 1)) < 0)
            return args_wrong(args, "%s: expected a number, got '%.40s'", progress_name((enum progress_word)known),
                              equals + 1);
        buf_printf(&line, "%s%s", i ? " " : "", word);
    }
    buf_char(&line, '\n');
    if (line.error)
        return args_wrong(args, "more than can be said in a line");
    return socket_say(args, line.data, (int)line.size);
}

int cmd_ckpt_done(struct command_args *args)
{
    const char *step = args_value(args, "step"), *path = args_value(args, "path");
    char line[1200];
    int64_t number;
    int length;

    if (step && decimal_parse_i64(step, strlen(step), &number) < 0)
        return args_wrong(args, "--step: expected a number, got '%.40s'", step);
    if (path && (strlen(path) > 1000 || strpbrk(path, " \t\n")))
        return args_wrong(args, "--path: at most 1000 letters, without blanks");
    length = snprintf(line, sizeof(line), "ckpt%s%s%s%s\n", step ? " step=" : "", step ? step : "",
                      path ? " path=" : "", path ? path : "");
    return socket_say(args, line, length);
}

/* A connection was made here: one is made there, and what is said on one is said on the other. Does not come back. */
static _Noreturn void connection_carry(const struct command_args *args, const char *path, int fd)
{
    CLEANUP(client_free) struct client *client = NULL;

    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || live_client(args, &client))
        _exit(CODE_FAILED);
    _exit(tunnel_run(client, path));
}

static int listener_open(const struct command_args *args, int64_t port, int *ret_fd)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0) {
        struct problem problem;
        int why = errno;

        if (fd >= 0)
            (void)close(fd);
        (void)args;
        (void)problem_set(&problem, CODE_FAILED, "", "127.0.0.1:%lld: %s", (long long)port, strerror(why));
        return problem_print(&problem);
    }
    *ret_fd = fd;
    return 0;
}

int cmd_forward(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    struct job_ref_text ref;
    struct problem problem;
    char path[96], *colon = strchr(args->words[1], ':');
    int64_t port, local;
    int fd = -1, r;

    if (decimal_parse_i64(args->words[1], colon ? (size_t)(colon - args->words[1]) : strlen(args->words[1]), &port) <
            0 ||
        port < 1 || port > 65535)
        return args_wrong(args, "'%.20s': expected PORT[:LOCAL], such as 8888 or 8888:9999", args->words[1]);
    local = port;
    if (colon && (decimal_parse_i64(colon + 1, strlen(colon + 1), &local) < 0 || local < 0 || local > 65535))
        return args_wrong(args, "'%.20s': expected PORT[:LOCAL], such as 8888 or 8888:9999", args->words[1]);
    r = live_client(args, &client);
    if (r == 0 && client_job(client, args->words[0], &ref, &problem))
        r = problem_print(&problem);
    if (r == 0)
        r = listener_open(args, local, &fd);
    if (r)
        return r;
    (void)snprintf(path, sizeof(path), "/jobs/%lld/forward/%lld?task=%d", (long long)ref.id, (long long)port,
                   ref.rank < 0 ? 0 : ref.rank);
    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    (void)printf("http://127.0.0.1:%d is port %lld of job %s; Ctrl-C ends it\n", ntohs(address.sin_port),
                 (long long)port, args->words[0]);
    (void)fflush(stdout);
    (void)signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
    for (;;) {
        int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        pid_t pid = conn >= 0 ? fork() : -1;

        if (pid == 0)
            connection_carry(args, path, conn);
        if (conn >= 0)
            (void)close(conn);
        else if (errno != EINTR && errno != ECONNABORTED)
            return CODE_FAILED;
    }
}
