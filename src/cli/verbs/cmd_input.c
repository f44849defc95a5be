/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_input.c - muster input: standard input of here becomes that of the tasks of a job.
 *
 * `muster run` starts it beside itself. It waits until the job runs, and goes on from one attempt to the next: the
 * first KEPT_MAX bytes are kept to be given again, a longer input ends with the attempt that was reading it, and that
 * is told. All tasks get the same bytes, and the slowest sets the pace: no more is read here than was taken there. A
 * terminal is read in the foreground only.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/follow.h"
#include "cli/client/session.h"
#include "cli/fmt.h"
#include "cli/verbs/live.h"

enum { KEPT_MAX = 1 << 20, PIECE = 65536, TASKS_MAX = 4096, LOOK_MS = 500 };

struct feed {
    const struct command_args *args;
    int64_t id;
    int rank; /* of one task; -1 = all */
    struct feed_task {
        struct client *client;
        struct session session;
        bool live;
    } * tasks;
    struct pollfd *waits;
    size_t count, live;
    struct buf kept;
    bool longer; /* than what is kept */
    bool over, cut;
};

static void task_leave(struct feed *feed, struct feed_task *task)
{
    if (task->live)
        feed->live--;
    task->live = false;
    session_close(&task->session);
    client_free(task->client);
    task->client = NULL;
}

static void feed_close(struct feed *feed)
{
    for (size_t i = 0; i < feed->count; i++)
        task_leave(feed, &feed->tasks[i]);
    mem_free(feed->tasks);
    mem_free(feed->waits);
    feed->tasks = NULL;
    feed->waits = NULL;
    feed->count = 0;
}

static int task_join(struct feed *feed, struct feed_task *task, int rank, struct problem *problem)
{
    char path[96];
    int r = client_new(feed->args, &task->client, problem);

    (void)snprintf(path, sizeof(path), "/jobs/%lld/input?task=%d", (long long)feed->id, rank);
    task->session.silent = feed->rank < 0; /* not every task need be one that reads */
    if (r == 0)
        r = session_open(&task->session, task->client, path, problem);
    task->live = r == 0;
    feed->live += task->live;
    return r;
}

/* The problem is that of the last one that could not be reached; none where at least one was. */
static int feed_open(struct feed *feed, json_t *job, struct problem *problem)
{
    size_t nodes = json_array_size(json_object_get(job, "placement"));
    int r = 0;

    feed->count = feed->rank >= 0 || nodes == 0 ? 1 : nodes < TASKS_MAX ? nodes : TASKS_MAX;
    feed->tasks = mem_zalloc(feed->count, sizeof(*feed->tasks));
    feed->waits = mem_zalloc(feed->count + 1, sizeof(*feed->waits));
    if (!feed->tasks || !feed->waits) {
        feed->count = 0;
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    }
    for (size_t i = 0; i < feed->count; i++) {
        int failed = task_join(feed, &feed->tasks[i], feed->rank >= 0 ? feed->rank : (int)i, problem);

        r = failed ? failed : r;
    }
    return feed->live ? 0 : r;
}

static void feed_send(struct feed *feed, uint8_t kind, const char *data, size_t size)
{
    for (size_t i = 0; i < feed->count; i++)
        if (feed->tasks[i].live)
            session_send(&feed->tasks[i].session, kind, data, size);
}

static void feed_read(struct feed *feed)
{
    char data[PIECE];
    ssize_t got = read(STDIN_FILENO, data, sizeof(data));

    if (got > 0) {
        feed_send(feed, SAY_INPUT, data, (size_t)got);
        feed->longer = feed->longer || feed->kept.size + (size_t)got > KEPT_MAX;
        if (!feed->longer)
            buf_put(&feed->kept, data, (size_t)got);
        return;
    }
    if (got < 0 && (errno == EINTR || errno == EAGAIN || (errno == EIO && isatty(STDIN_FILENO))))
        return;
    feed->over = true;
    feed_send(feed, SAY_INPUT_OVER, NULL, 0);
}

/* What an attempt before has had. */
static void feed_again(struct feed *feed)
{
    if (feed->longer) {
        (void)fprintf(stderr, "muster: job %lld has started again without its input, which is too long to be kept\n",
                      (long long)feed->id);
        feed->over = true;
    }
    for (size_t at = 0; at < feed->kept.size && !feed->longer; at += PIECE)
        feed_send(feed, SAY_INPUT, feed->kept.data + at, feed->kept.size - at < PIECE ? feed->kept.size - at : PIECE);
    if (feed->over)
        feed_send(feed, SAY_INPUT_OVER, NULL, 0);
}

/* One in the background would be stopped by reading its terminal. */
static bool may_read(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);

    return group < 0 || group == getpgrp();
}

/* Waits for something to do; true: there is input to be read. */
static bool feed_wait(struct feed *feed)
{
    bool busy = false, early = false, reads;
    nfds_t n = 0;

    for (size_t i = 0; i < feed->count; i++) {
        const struct session *session = &feed->tasks[i].session;
        bool sends = feed->tasks[i].live && wslay_event_want_write(session->ws);

        if (!feed->tasks[i].live)
            continue;
        feed->waits[n++] =
            (struct pollfd){ .fd = session->fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0)), .revents = 0 };
        busy = busy || sends;
        early = early || session->early_taken < session->early.size;
    }
    reads = !busy && !feed->over && may_read();
    feed->waits[n] = (struct pollfd){ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN };
    return poll(feed->waits, n + 1, early ? 0 : LOOK_MS) > 0 && feed->waits[n].revents;
}

/* Until nobody takes any more. */
static void feed_run(struct feed *feed)
{
    while (feed->live) {
        if (feed_wait(feed))
            feed_read(feed);
        for (size_t i = 0; i < feed->count; i++) {
            struct feed_task *task = &feed->tasks[i];

            if (!task->live || (session_turn(&task->session) && !task->session.broken))
                continue;
            feed->cut = feed->cut || task->session.status < 0;
            task_leave(feed, task);
        }
    }
}

/* Gives it to the attempt that runs, or is to run next, and waits until that has ended. *over: the job is. */
static int feed_attempt(struct feed *feed, struct client *client, bool again, bool *over, struct problem *problem)
{
    json_t *job = NULL, *after = NULL;
    int r = job_wait(client, feed->id, JOB_STARTED, true, &job, problem);

    *over = r == 0 && job_over(job);
    if (r == 0 && !*over)
        r = feed_open(feed, job, problem);
    if (r == 0 && !*over) {
        if (again)
            feed_again(feed);
        feed_run(feed);
        if (feed->cut)
            (void)fprintf(stderr, "muster: the connection broke off; what job %lld reads ends here\n",
                          (long long)feed->id);
    }
    feed_close(feed);
    if (r == CODE_CONFLICT && job_get(client, feed->id, &after, problem) == 0 &&
        strcmp(fmt_text(after, "state"), "RUNNING") != 0)
        r = 0; /* it was too short to be met */
    json_decref(after);
    after = NULL;
    if (r == 0 && !*over) {
        r = job_wait_attempt(client, feed->id, fmt_i64(job, "attempt"), true, &after, problem);
        *over = r == 0 && job_over(after);
        json_decref(after);
    }
    json_decref(job);
    return r;
}

int cmd_input(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct feed feed = { .args = args, .kept = BUF_INIT(KEPT_MAX + 1) };
    struct job_ref_text ref;
    struct problem problem = { 0 };
    int r = live_client(args, &client);

    if (r)
        return r;
    if (client_job(client, args->words[0], &ref, &problem))
        return problem_print(&problem);
    feed.id = ref.id;
    feed.rank = ref.rank;
    (void)signal(SIGTTIN, SIG_IGN);
    for (bool over = false, again = false; r == 0 && !over; again = true)
        r = feed_attempt(&feed, client, again, &over, &problem);
    buf_done(&feed.kept);
    return r && problem.text[0] ? problem_print(&problem) : r;
}
