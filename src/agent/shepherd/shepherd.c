/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd.c - the loop of a task's shepherd. See shepherd.h. */
#include "agent/shepherd/shepherd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/remains.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"

enum { POLL_MAX = 8 + SPEAKERS_MAX + 2 * PROCS_MAX, WAIT_MS_MAX = 60000, LEASE_WAIT_MS = 1000 };

/* Without it nothing would end the task when agent and controller are gone: then it is not begun. */
static void lease_map(struct shepherd *s)
{
    const char *path = util_text(s->plan, "lease");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map;

    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        s->lease = map;
}

bool shepherd_lease_over(const struct shepherd *s)
{
    return s->lease && *s->lease > 0 && clock_boot() >= *s->lease;
}

static int shepherd_setup(struct shepherd *s, int dir, int listener)
{
    sigset_t set;
    int r;

    *s = (struct shepherd){ .dir = dir,
                            .logs = -1,
                            .tmps = -1,
                            .tmp = -1,
                            .listener = listener,
                            .peer = -1,
                            .gate = -1,
                            .ear = -1,
                            .signals = -1 };
    s->heard.max = 65536;
    for (size_t i = 0; i < SPEAKERS_MAX; i++)
        s->speakers[i].fd = -1;
    r = remains_note(dir);
    s->plan = r < 0 ? NULL : util_json_get(dir, "plan.json");
    if (!s->plan)
        return r < 0 ? r : -EBADMSG;
    s->logs = beneath_open_absolute(util_text(s->plan, "logs") ? util_text(s->plan, "logs") : "", O_PATH | O_DIRECTORY);
    s->id = (struct task_id){ util_i64(s->plan, "job", 0), (uint32_t)util_i64(s->plan, "attempt", 0),
                              (uint32_t)util_i64(s->plan, "rank", 0) };
    s->hold = util_flag(s->plan, "hold");
    s->end = util_boot_of(util_i64(s->plan, "end", 0));
    (void)snprintf(s->cgroup, sizeof(s->cgroup), "%s",
                   util_text(s->plan, "cgroup") ? util_text(s->plan, "cgroup") : "");
    r = output_writer_start(s);
    if (r < 0)
        return r;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "muster-task", 0, 0, 0);
    child_keyring_own();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    lease_map(s);
    return s->signals < 0 ? -errno : 0;
}

/* Children are reaped: those of the plan are remembered, strays (this process is their reaper) are only let go. */
static void reap(struct shepherd *s)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(s->signals, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->mover)
            shepherd_moved(s, status);
        if (pid == s->saver)
            shepherd_saved(s);
        s->keeper.gone |= s->keeper.pid == pid;
        for (uint32_t i = 0; i < s->proc_count; i++)
            if (s->procs[i].pid == pid && !s->procs[i].gone) {
                s->procs[i].gone = true;
                s->procs[i].status = status;
                s->gone_count++;
                shepherd_ended(s, i);
            }
    }
}

static bool proc_failed(const struct proc *proc)
{
    return proc->gone && (!WIFEXITED(proc->status) || WEXITSTATUS(proc->status) != 0);
}

/* Is it over? One that failed takes its neighbours with it, unless the job said otherwise. While a grace runs the task
 * lasts as long as any process of it: the shell may have died of the signal its program is busy answering. */
static void progress(struct shepherd *s)
{
    pid_t pid;

    if (s->over || s->hold || s->state == TASK_KEPT)
        return;
    if (s->gone_count == s->proc_count) {
        if (s->state != TASK_STOPPING || shepherd_pids(s, &pid, 1) == 0)
            s->over = true;
        return;
    }
    if (s->state != TASK_RUNNING || util_flag(s->plan, "no_kill") || json_object_get(s->plan, "roles"))
        return; /* what the end of a task of a role means, the controller knows: it sees all of them */
    for (uint32_t i = 0; i < s->proc_count; i++)
        if (proc_failed(&s->procs[i]) && !s->kill_at) {
            s->failed = true;
            s->failed_status = s->procs[i].status;
            shepherd_signal(s, SIGTERM);
            s->kill_at = clock_boot() + 2 * USEC_SEC;
        }
}

static usec_t earlier(usec_t a, usec_t b)
{
    return a < b ? a : b;
}

/* What is due now is done; returns how long nothing will be, in ms. */
static int timers(struct shepherd *s)
{
    usec_t boot = clock_boot(), next = WAIT_MS_MAX * USEC_MSEC;
    usec_t before = util_i64(s->plan, "early_ms", 0) * USEC_MSEC;

    if (s->state == TASK_KEPT) {
        shepherd_keep_look(s);
        if (s->over)
            return 0;
        next = earlier(next, s->kept_until - boot);
    }
    if (s->lease && *s->lease > 0) {
        if (boot >= *s->lease) {
            shepherd_kill(s, task_cause_name(TASK_CAUSE_FENCE));
            return 0;
        }
        next = earlier(next, *s->lease - boot);
    }
    if (s->kill_at && boot >= s->kill_at) {
        shepherd_kill(s, s->cause ? s->cause_word : task_cause_name(TASK_CAUSE_EXIT));
        return 0;
    }
    if (s->kill_at)
        next = earlier(next, s->kill_at - boot);
    if (s->nudge_at && boot >= s->nudge_at)
        shepherd_nudge(s);
    if (s->nudge_at)
        next = earlier(next, s->nudge_at - clock_boot());
    if (s->end && s->state == TASK_RUNNING && before && !s->warned && boot < s->end) {
        if (boot >= s->end - before) {
            s->warned = true;
            shepherd_signal(s, (int)util_i64(s->plan, "early_signal", SIGUSR1));
        } else {
            next = earlier(next, s->end - before - boot);
        }
    }
    if (s->end && (s->state == TASK_RUNNING || s->state == TASK_SUSPENDED || s->state == TASK_KEPT)) {
        if (boot >= s->end) {
            json_t *order =
                json_pack("{ss,sI}", "kind", "timeout", "grace_ms", (json_int_t)util_i64(s->plan, "grace_ms", 30000));

            shepherd_stop(s, order);
            json_decref(order);
            return 0;
        }
        next = earlier(next, s->end - boot);
    }
    next = earlier(next, shepherd_progress_due(s, boot) - boot);
    next = earlier(next, shepherd_ckpt_due(s, boot) - boot);
    return (int)(next / USEC_MSEC) + 1;
}

void shepherd_status(struct shepherd *s, struct proc *proc)
{
    char text[CAUSE_MAX];
    ssize_t n = read(proc->status_fd, text, sizeof(text) - 1);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == 1 && text[0] == 'R') {
        proc->at_gate = true;
        return;
    }
    if (n > 1) {
        text[n] = '\0';
        if (text[0] == 'X')
            (void)snprintf(s->words, sizeof(s->words), "%s", text + 1);
        else
            (void)shepherd_fail(s, -EINVAL, text[0] == 'U' ? "user" : "system", "%s", text + 1);
        return;
    }
    close(proc->status_fd);
    proc->status_fd = -1;
}

static void gates(struct shepherd *s)
{
    bool all = true;

    if (s->state != TASK_PREPARING)
        return;
    for (uint32_t i = 0; i < s->proc_count; i++)
        all = all && s->procs[i].at_gate;
    if (s->blame[0]) {
        s->over = true;
        return;
    }
    if (!all)
        return;
    if (util_flag(s->plan, "go"))
        shepherd_open_gate(s);
    else
        shepherd_set_state(s, TASK_READY);
}

struct watch {
    enum { W_LISTENER, W_PEER, W_SIGNALS, W_EAR, W_SPEAKER, W_STATUS, W_OUT, W_ERR, W_WRITER } kind;
    uint32_t index;
};

static void watch_add(struct pollfd *fds, struct watch *what, nfds_t *n, int fd, struct watch watch)
{
    if (fd < 0)
        return;
    fds[*n] = (struct pollfd){ .fd = fd, .events = POLLIN };
    what[(*n)++] = watch;
}

static nfds_t watch_all(const struct shepherd *s, struct pollfd *fds, struct watch *what)
{
    nfds_t n = 0;

    watch_add(fds, what, &n, s->listener, (struct watch){ W_LISTENER, 0 });
    watch_add(fds, what, &n, s->peer, (struct watch){ W_PEER, 0 });
    watch_add(fds, what, &n, s->signals, (struct watch){ W_SIGNALS, 0 });
    watch_add(fds, what, &n, s->ear, (struct watch){ W_EAR, 0 });
    for (uint32_t i = 0; i < SPEAKERS_MAX; i++)
        watch_add(fds, what, &n, s->speakers[i].fd, (struct watch){ W_SPEAKER, i });
    for (uint32_t i = 0; i < s->proc_count; i++) {
        watch_add(fds, what, &n, s->procs[i].status_fd, (struct watch){ W_STATUS, i });
        if (s->unwritten.size == 0 || s->procs[i].out.file == UINT32_MAX)
            watch_add(fds, what, &n, s->procs[i].out.fd, (struct watch){ W_OUT, i });
        if (s->unwritten.size == 0 || s->procs[i].err.file == UINT32_MAX)
            watch_add(fds, what, &n, s->procs[i].err.fd, (struct watch){ W_ERR, i });
    }
    if (s->unwritten.size > 0 && s->writer >= 0) {
        watch_add(fds, what, &n, s->writer, (struct watch){ W_WRITER, 0 });
        fds[n - 1].events = POLLOUT;
    }
    return n;
}

static void serve(struct shepherd *s, const struct watch *what)
{
    switch (what->kind) {
    case W_LISTENER:
        shepherd_listen(s);
        break;
    case W_PEER:
        shepherd_heard(s);
        break;
    case W_SIGNALS:
        reap(s);
        break;
    case W_EAR:
    case W_SPEAKER:
        shepherd_spoken(s, what->kind == W_EAR ? UINT32_MAX : what->index);
        break;
    case W_STATUS:
        shepherd_status(s, &s->procs[what->index]);
        break;
    case W_OUT:
        (void)shepherd_copy(s, &s->procs[what->index].out);
        break;
    case W_ERR:
        (void)shepherd_copy(s, &s->procs[what->index].err);
        break;
    case W_WRITER:
        output_writer_flush(s);
        break;
    }
}

static void loop(struct shepherd *s)
{
    static struct pollfd fds[POLL_MAX + PROCS_MAX];
    static struct watch what[POLL_MAX + PROCS_MAX];

    while (!s->over) {
        int wait = timers(s), got;
        nfds_t n;

        if (s->over)
            break;
        n = watch_all(s, fds, what);
        got = poll(fds, n, wait);
        if (got < 0 && errno != EINTR)
            break;
        for (nfds_t i = 0; got > 0 && i < n; i++)
            if (fds[i].revents)
                serve(s, &what[i]);
        gates(s);
        progress(s);
    }
}

/* One look at all pipes; false: there is nothing more, or no room for it. */
static bool copy_all(struct shepherd *s)
{
    bool more = false;

    for (uint32_t i = 0; i < s->proc_count; i++) {
        more |= s->procs[i].out.fd >= 0 && shepherd_copy(s, &s->procs[i].out);
        more |= s->procs[i].err.fd >= 0 && shepherd_copy(s, &s->procs[i].err);
    }
    return more;
}

void shepherd_drain(struct shepherd *s)
{
    while (copy_all(s) || (s->unwritten.size > 0 && output_writer_drain(s)))
        ;
    shepherd_close_sinks(s);
}

int shepherd_run(int dir, int listener)
{
    struct shepherd s;
    int r = shepherd_setup(&s, dir, listener);

    if (r < 0)
        return 1;
    shepherd_set_state(&s, TASK_PREPARING);
    if (!s.lease && util_text(s.plan, "lease"))
        (void)shepherd_fail(&s, -ENOENT, "system", "no lease at %s", util_text(s.plan, "lease"));
    else if (shepherd_prepare(&s) == 0)
        do
            loop(&s);
        while (shepherd_keep(&s));
    shepherd_sweep(&s);
    shepherd_drain(&s);
    r = shepherd_record(&s);
    if (s.peer < 0)
        shepherd_listen(&s);
    s.ckpt_told = 0; /* the last words of the job, before its end */
    (void)shepherd_ckpt_due(&s, clock_boot());
    (void)shepherd_progress_due(&s, USEC_NEVER / 2);
    shepherd_tell(&s, shepherd_news(&s));
    shepherd_progress_close(&s);
    /* Nothing of it runs any more, and whoever waits for its GPUs need not wait for this. */
    (void)beneath_tree_remove(s.dir, "job");
    shepherd_tmp_leave(&s);
    if (s.cgroup[0])
        (void)cgroup_remove(s.cgroup);
    return r < 0;
}
