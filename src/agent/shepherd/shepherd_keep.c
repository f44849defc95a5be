/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_keep.c - a task that failed keeps its place for a while (--keep-on-fail), so that somebody can look into it.
 *
 * What it ran is gone, as always; how it ended is written down. A process that sleeps takes its place: in its group,
 * with its mounts or in its container, as its user. Whoever goes in later (`muster exec`) finds what the task had:
 * GPUs, limits, private directory. It ends when its time is over, with the task's time limit, by any order to leave, or
 * when the sleeping process is gone; the task is then reported as it ended.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shepherd/shepherd.h"
#include "agent/util.h"

enum { EXIT_SAVED = 85, START_SECONDS = 30 };

/* For how long; 0 = not at all. One that was told to leave is kept only where its gang is: told with the order. */
static usec_t keep_span(const struct shepherd *s, const json_t *end)
{
    int64_t code = util_i64(end, "exit", 0);

    if (!s->started || s->kept || !json_object_get(s->plan, "keeper"))
        return 0;
    if (s->cause == TASK_CAUSE_PEER)
        return s->peer_keep;
    if (s->cause || code == 0 || code == EXIT_SAVED)
        return 0;
    return util_i64(s->plan, "keep_ms", 0) * USEC_MSEC;
}

/* It says something when it sleeps: in a container that may take a while. */
static bool keeper_sleeps(const struct proc *keeper)
{
    struct pollfd said = { .fd = keeper->out.fd, .events = POLLIN };
    char byte;
    int got;

    do
        got = poll(&said, 1, START_SECONDS * 1000);
    while (got < 0 && errno == EINTR);
    return got > 0 && read(keeper->out.fd, &byte, 1) == 1;
}

static bool keeper_start(struct shepherd *s)
{
    struct proc *keeper = &s->keeper;
    char words[CAUSE_MAX];
    bool sleeps;
    int r;

    memcpy(words, s->words, sizeof(words));
    s->words[0] = '\0';
    *keeper = (struct proc){ .in = -1, .status_fd = -1, .out = { .fd = -1 }, .err = { .fd = -1 } };
    keeper->err.log = keeper->err.file = UINT32_MAX;
    /* In a new group: some kernels (6.1.129 and later of that line) kill whatever is cloned into one that was ever
     * killed. */
    r = shepherd_group(s);
    if (r == 0)
        r = shepherd_fork_alone(s, keeper, json_object_get(s->plan, "keeper"));
    sleeps = r == 0 && !s->words[0] && keeper_sleeps(keeper);
    if (keeper->status_fd >= 0)
        close(keeper->status_fd);
    if (keeper->out.fd >= 0)
        close(keeper->out.fd); /* it has nothing to say */
    if (!sleeps)
        (void)json_object_set_new(
            s->kept, "words",
            json_sprintf("could not be kept: %s", s->words[0] ? s->words : "nothing sleeps in its place"));
    memcpy(s->words, words, sizeof(words));
    return sleeps;
}

bool shepherd_keep(struct shepherd *s)
{
    json_t *end = NULL;
    usec_t span;
    bool kept;

    if (s->kept || !s->started || !json_object_get(s->plan, "keeper"))
        return false;
    shepherd_sweep(s);
    shepherd_drain(s);
    s->state = TASK_EXITED;
    end = shepherd_news(s);
    span = keep_span(s, end);
    if (span <= 0) {
        json_decref(end);
        return false;
    }
    s->kept = end;
    s->kept_until = clock_boot() + span;
    s->kill_at = s->nudge_at = 0;
    (void)util_json_write(s->dir, "kept.json", s->kept, util_flag(s->plan, "durable"));
    kept = keeper_start(s);
    if (kept) {
        s->over = false;
        shepherd_set_state(s, TASK_KEPT);
    }
    return kept;
}

void shepherd_keep_look(struct shepherd *s)
{
    if (clock_boot() >= s->kept_until || s->keeper.gone || (s->end && clock_boot() >= s->end))
        s->over = true;
}
