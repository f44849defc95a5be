/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_tell.c - what a shepherd says: to the agent, to the disk; and what the job says to it.
 *
 * Agent and shepherd exchange lines of JSON. Whoever connects is told the present state first, so an agent that was
 * away knows where it is. A job says `ckpt step=1200 path=/ckpt/1200` or `step=120 loss=0.731` on MUSTER_SOCKET.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { EXIT_SAVED = 85 };

static void status_split(int status, int *ret_exit, int *ret_signal)
{
    *ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    *ret_exit = *ret_signal ? 128 + *ret_signal : WEXITSTATUS(status);
}

/* The one that failed first and ended the others; else the highest exit code of all, or the signal of the first that
 * died of one. When they were told to leave, "saved, run me again" from one of them is what counts. */
static void ending(const struct shepherd *s, int *ret_exit, int *ret_signal)
{
    *ret_exit = 0;
    *ret_signal = 0;
    if (s->failed) {
        status_split(s->failed_status, ret_exit, ret_signal);
        return;
    }
    for (uint32_t i = 0; s->cause && i < s->proc_count; i++)
        if (s->procs[i].gone && WIFEXITED(s->procs[i].status) && WEXITSTATUS(s->procs[i].status) == EXIT_SAVED) {
            *ret_exit = EXIT_SAVED;
            return;
        }
    for (uint32_t i = 0; i < s->proc_count; i++) {
        int status = s->procs[i].status;

        if (!s->procs[i].gone)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) > *ret_exit)
            *ret_exit = WEXITSTATUS(status);
        if (WIFSIGNALED(status) && !*ret_signal)
            *ret_signal = WTERMSIG(status);
    }
    if (*ret_signal && *ret_exit < 128 + *ret_signal)
        *ret_exit = 128 + *ret_signal;
}

/* [role, index, exit, signal] */
static json_t *role_end(const struct shepherd *s, uint32_t i)
{
    const json_t *plan = json_array_get(json_object_get(s->plan, "procs"), i);
    int code, number;

    status_split(s->procs[i].status, &code, &number);
    return json_pack("[s,I,i,i]", util_text(plan, "role") ? util_text(plan, "role") : "",
                     (json_int_t)util_i64(plan, "index", 0), code, number);
}

void shepherd_ended(struct shepherd *s, uint32_t proc)
{
    if (!json_object_get(s->plan, "roles") || s->state != TASK_RUNNING)
        return;
    s->procs[proc].alone = true;
    if (s->gone_count < s->proc_count) /* the last ones are told with the end of all */
        shepherd_tell(s, json_pack("{s:[o]}", "ended", role_end(s, proc)));
}

/* Those of roles that ended by themselves; NULL: none. */
static json_t *roles_ended(const struct shepherd *s)
{
    json_t *list = json_object_get(s->plan, "roles") ? json_array() : NULL;

    for (uint32_t i = 0; list && i < s->proc_count; i++)
        if (s->procs[i].alone)
            (void)json_array_append_new(list, role_end(s, i));
    return list;
}

static void news_of_end(const struct shepherd *s, json_t *news)
{
    const char *cause = s->cause_word;
    bool oom = s->cgroup[0] && util_flag(s->plan, "oom_killed");
    int code, number;

    ending(s, &code, &number);
    if (!s->cause)
        cause = task_cause_name(oom ? TASK_CAUSE_OOM : number ? TASK_CAUSE_SIGNAL : TASK_CAUSE_EXIT);
    (void)json_object_set_new(news, "exit", json_integer(code));
    (void)json_object_set_new(news, "signal", json_integer(number));
    (void)json_object_set_new(news, "oom", json_boolean(oom));
    (void)json_object_set_new(news, "cause", json_string(cause));
    if (json_object_get(s->plan, "roles"))
        (void)json_object_set_new(news, "ended", roles_ended(s));
    if (s->words[0])
        (void)json_object_set_new(news, "words", json_string(s->words));
}

/* How it ended is known since it was kept, whatever was run in its place since. */
static json_t *news_of_kept(const struct shepherd *s)
{
    json_t *news = json_copy(s->kept);

    (void)json_object_set_new(news, "state", json_string(task_state_name(s->state)));
    (void)json_object_set_new(news, "at", json_integer(clock_real()));
    if (s->state != TASK_KEPT)
        return news;
    (void)json_object_set_new(news, "pid", json_integer(s->keeper.pid));
    (void)json_object_set_new(news, "shepherd", json_integer(getpid()));
    (void)json_object_set_new(news, "keep_ms", json_integer((s->kept_until - clock_boot()) / USEC_MSEC));
    return news;
}

json_t *shepherd_news(const struct shepherd *s)
{
    json_t *news = s->kept ? NULL : json_object();

    if (s->kept)
        return news_of_kept(s);
    (void)json_object_set_new(news, "state", json_string(task_state_name(s->state)));
    (void)json_object_set_new(news, "at", json_integer(clock_real()));
    (void)json_object_set_new(news, "started", json_integer(s->started));
    if (s->proc_count)
        (void)json_object_set_new(news, "pid", json_integer(s->procs[0].pid));
    if (child_mounts_own(s->plan) && s->state != TASK_EXITED && s->state != TASK_REFUSED)
        (void)json_object_set_new(news, "shepherd", json_integer(getpid()));
    if (s->state == TASK_EXITED)
        news_of_end(s, news);
    if (s->state == TASK_REFUSED) {
        (void)json_object_set_new(news, "cause", json_string(s->words));
        (void)json_object_set_new(news, "blame", json_string(s->blame));
    }
    if (s->state == TASK_STOPPING)
        (void)json_object_set_new(news, "cause", json_string(s->cause_word));
    return news;
}

static void peer_leave(struct shepherd *s)
{
    if (s->peer >= 0)
        close(s->peer);
    s->peer = -1;
    buf_clear(&s->heard);
    if (s->input)
        shepherd_in_over(s);
}

void shepherd_tell(struct shepherd *s, json_t *news)
{
    CLEANUP_BUF struct buf text = BUF_INIT((size_t)1 << 20);

    if (s->peer >= 0 && news) {
        json_put(&text, news);
        buf_char(&text, '\n');
    }
    json_decref(news);
    if (!text.size || text.error)
        return;
    /* In one piece: the agent wakes for each. */
    if (send(s->peer, text.data, text.size, MSG_NOSIGNAL) < 0)
        peer_leave(s);
}

void shepherd_set_state(struct shepherd *s, enum task_state state)
{
    s->state = state;
    if (state != TASK_PREPARING)
        shepherd_tell(s, shepherd_news(s));
}

void shepherd_listen(struct shepherd *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    /* The newest agent is the one that lives. */
    peer_leave(s);
    s->peer = fd;
    if (s->state != TASK_PREPARING && s->state != TASK_EXITED && s->state != TASK_REFUSED)
        shepherd_tell(s, shepherd_news(s));
    s->ckpt_fresh = s->ckpt != NULL;
    s->ckpt_told = 0;
    shepherd_progress_repeat(s);
    if (json_object_get(s->plan, "roles") && s->gone_count)
        shepherd_tell(s, json_pack("{so}", "ended", roles_ended(s)));
}

/* What an agent tells the shepherd to do. */
enum told {
    TOLD_NOTHING,
    TOLD_GO,
    TOLD_STOP,
    TOLD_KILL,
    TOLD_SUSPEND,
    TOLD_RESUME,
    TOLD_LIMIT,
    TOLD_SIGNAL,
    TOLD_INPUT,
    TOLD_EOF,
    TOLD_END
};

static enum told told_find(const char *word)
{
    static const char *const words[] = { "",      "go",     "stop",  "kill", "suspend", "resume",
                                         "limit", "signal", "input", "eof",  "end" };

    for (size_t i = 1; word && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], word) == 0)
            return (enum told)i;
    return TOLD_NOTHING;
}

static void order_take(struct shepherd *s, const json_t *order)
{
    const char *cause = util_text(order, "cause");

    switch (told_find(util_text(order, "do"))) {
    case TOLD_GO:
        if (s->state == TASK_READY)
            shepherd_open_gate(s);
        else if (s->state == TASK_PREPARING)
            (void)json_object_set_new(s->plan, "go", json_true());
        break;
    case TOLD_STOP:
        shepherd_stop(s, order);
        break;
    case TOLD_KILL:
        shepherd_kill(s, cause ? cause : task_cause_name(TASK_CAUSE_CANCEL));
        break;
    case TOLD_SUSPEND:
        shepherd_suspend(s, true);
        break;
    case TOLD_RESUME:
        shepherd_suspend(s, false);
        break;
    case TOLD_LIMIT:
        shepherd_limit(s, util_i64(order, "memory_mib", 0), util_i64(order, "percent", 100));
        break;
    case TOLD_SIGNAL:
        shepherd_signal(s, (int)util_i64(order, "signal", 0));
        break;
    case TOLD_INPUT:
        s->input = true;
        break;
    case TOLD_EOF:
        shepherd_in_over(s);
        break;
    case TOLD_END:
        s->end = util_boot_of(util_i64(order, "end", 0));
        s->warned = false;
        break;
    case TOLD_NOTHING: /* by an agent of another version */
        break;
    }
}

void shepherd_heard(struct shepherd *s)
{
    char part[4096], *line, *end;
    ssize_t n = recv(s->peer, part, sizeof(part), 0);
    size_t used = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        buf_put(&s->heard, part, (size_t)n);
    if (n <= 0 || s->heard.error) {
        peer_leave(s);
        return;
    }
    while ((end = memchr(s->heard.data + used, '\n', s->heard.size - used))) {
        json_t *order = NULL;

        line = s->heard.data + used;
        used = (size_t)(end - s->heard.data) + 1;
        if (json_read("agent", line, (size_t)(end - line), &order, NULL) == 0)
            order_take(s, order);
        json_decref(order);
    }
    memmove(s->heard.data, s->heard.data + used, s->heard.size - used);
    s->heard.size -= used;
}

/* "ckpt step=1200 path=/ckpt/1200": words may be missing, others are not ours to know. */
static void line_take(struct shepherd *s, char *line)
{
    json_t *ckpt;
    char *word;

    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "ckpt", 4) != 0) {
        shepherd_progress_line(s, line);
        return;
    }
    word = strsep(&line, " ");
    if (strcmp(word, "ckpt") != 0)
        return;
    ckpt = json_object();
    while ((word = strsep(&line, " "))) {
        if (strncmp(word, "step=", 5) == 0)
            (void)json_object_set_new(ckpt, "step", json_integer(strtoll(word + 5, NULL, 10)));
        else if (strncmp(word, "path=", 5) == 0)
            (void)json_object_set_new(ckpt, "path", json_string(word + 5));
    }
    (void)json_object_set_new(ckpt, "at", json_integer(clock_real()));
    json_decref(s->ckpt);
    s->ckpt = ckpt;
    s->ckpt_fresh = true;
}

/* Each is a line of the controller's log: one a second, the last. */
usec_t shepherd_ckpt_due(struct shepherd *s, usec_t now)
{
    if (!s->ckpt_fresh || s->peer < 0)
        return USEC_NEVER;
    if (s->ckpt_told && now < s->ckpt_told + USEC_SEC)
        return s->ckpt_told + USEC_SEC;
    s->ckpt_told = now;
    s->ckpt_fresh = false;
    shepherd_tell(s, json_pack("{sO}", "ckpt", s->ckpt));
    return USEC_NEVER;
}

static void speaker_accept(struct shepherd *s)
{
    int fd = accept4(s->ear, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    for (uint32_t i = 0; i < SPEAKERS_MAX; i++)
        if (s->speakers[i].fd < 0) {
            s->speakers[i].fd = fd;
            s->speakers[i].size = 0;
            return;
        }
    close(fd);
}

void shepherd_spoken(struct shepherd *s, uint32_t speaker)
{
    char *line, *end;
    ssize_t n;

    if (speaker == UINT32_MAX) {
        speaker_accept(s);
        return;
    }
    line = s->speakers[speaker].line;
    n = recv(s->speakers[speaker].fd, line + s->speakers[speaker].size, SPEAK_LINE_MAX - 1 - s->speakers[speaker].size,
             0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        s->speakers[speaker].size += (size_t)n;
    line[s->speakers[speaker].size] = '\0';
    while ((end = strchr(line, '\n'))) {
        char one[SPEAK_LINE_MAX];

        (void)snprintf(one, sizeof(one), "%.*s", (int)(end - line), line);
        line_take(s, one);
        s->speakers[speaker].size -= (size_t)(end + 1 - line);
        memmove(line, end + 1, s->speakers[speaker].size + 1);
    }
    if (n > 0 && s->speakers[speaker].size < SPEAK_LINE_MAX - 1)
        return;
    if (n <= 0 && s->speakers[speaker].size > 0)
        line_take(s, line); /* a last line without its end */
    close(s->speakers[speaker].fd);
    s->speakers[speaker].fd = -1;
}

int shepherd_record(struct shepherd *s)
{
    json_t *news;
    int r;

    s->state = s->blame[0] && !s->started ? TASK_REFUSED : TASK_EXITED;
    news = shepherd_news(s);
    r = util_json_write(s->dir, "exit.json", news, util_flag(s->plan, "durable"));
    json_decref(news);
    return r;
}
