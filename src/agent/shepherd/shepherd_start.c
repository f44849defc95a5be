/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_start.c - from the plan of a task to processes that wait at their gate. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"

enum { PIDS_LIMIT = 65536, MINORS_MAX = 128, START_SECONDS = 30, SPARES = 16 };

int shepherd_fail(struct shepherd *s, int code, const char *blame, const char *format, ...)
{
    va_list args;

    if (s->blame[0])
        return code;
    (void)snprintf(s->blame, sizeof(s->blame), "%s", blame);
    va_start(args, format);
    (void)vsnprintf(s->words, sizeof(s->words), format, args);
    va_end(args);
    return code;
}

int shepherd_group(struct shepherd *s)
{
    struct cgroup_limits limits = {
        .memory = (uint64_t)util_i64(s->plan, "memory", 0),
        .cpus = (uint32_t)util_i64(s->plan, "cpus", 0),
        .cpuset = util_text(s->plan, "cpuset"),
        .mems = util_text(s->plan, "mems"),
        .pids = PIDS_LIMIT,
        .fence_gpus = util_flag(s->plan, "fence_gpus"),
        .gpu_major = (int)util_i64(s->plan, "gpu_major", MAJOR_NVIDIA),
    };
    const json_t *minors = json_object_get(s->plan, "gpu_minors"), *minor;
    int list[MINORS_MAX];
    struct error err = { 0 };
    size_t i;
    int r;

    if (!s->cgroup[0])
        return 0;
    json_array_foreach(minors, i, minor) if (i < MINORS_MAX)
    {
        list[i] = (int)json_integer_value(minor);
        limits.gpu_count++;
    }
    limits.gpu_minors = list;
    r = cgroup_make(s->cgroup, (unsigned int)util_i64(s->plan, "fences", 0), &limits, &err);
    return r < 0 ? shepherd_fail(s, r, "system", "%s", err.text) : 0;
}

/* A file of the job's own directory, made by us, given to the user. */
static int job_file(struct shepherd *s, int dir, const char *name, const char *text, mode_t mode)
{
    int fd, r;

    if (!text)
        return 0;
    fd = beneath_open(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return shepherd_fail(s, fd, "system", "%s: %s", name, strerror(-fd));
    r = util_write_all(fd, text, strlen(text));
    if (r == 0 &&
        (fchmod(fd, mode) < 0 || (util_flag(s->plan, "owned") && fchown(fd, (uid_t)util_i64(s->plan, "uid", 0),
                                                                        (gid_t)util_i64(s->plan, "gid", 0)) < 0)))
        r = -errno;
    close(fd);
    return r < 0 ? shepherd_fail(s, r, "system", "%s: %s", name, strerror(-r)) : 0;
}

/* MUSTER_SOCKET: where the job tells of its checkpoints. The name may be long, so it is bound below a descriptor. */
static int ear_open(struct shepherd *s, int dir)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return shepherd_fail(s, -errno, "system", "socket: %s", strerror(errno));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/socket", dir);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0 ||
        (util_flag(s->plan, "owned") && fchownat(dir, "socket", (uid_t)util_i64(s->plan, "uid", 0),
                                                 (gid_t)util_i64(s->plan, "gid", 0), AT_SYMLINK_NOFOLLOW) < 0)) {
        int r = shepherd_fail(s, -errno, "system", "socket of the job: %s", strerror(errno));

        close(fd);
        return r;
    }
    s->ear = fd;
    return 0;
}

/* .spare-UID-N beside the temporary folders: one that a task of the same user has left empty. To make and remove one
 * for each task costs a disk more than the task. Whoever still has it open can have put something there since, so it is
 * emptied when it is taken as well. */
static void spare_name(const struct shepherd *s, char *out, size_t size)
{
    (void)snprintf(out, size, ".spare-%lld-%d", (long long)util_i64(s->plan, "uid", 0), (int)(s->id.job % SPARES));
}

/* One of that name may be left of an attempt that never was. */
static int tmp_open(const struct shepherd *s, const char *name)
{
    char spare[64];
    int fd, r;

    spare_name(s, spare, sizeof(spare));
    if (beneath_rename(s->tmps, spare, s->tmps, name, true) < 0) {
        fd = beneath_dir_new(s->tmps, name, 0700);
        if (fd != -EEXIST)
            return fd;
    }
    fd = beneath_open(s->tmps, name, O_RDONLY | O_DIRECTORY, 0);
    r = fd < 0 ? fd : beneath_tree_empty(fd);
    if (r < 0 && fd >= 0)
        close(fd);
    return r < 0 ? r : fd;
}

/* Its name in the folder of all of them; NULL: there is none. */
static const char *tmp_name(const struct shepherd *s)
{
    const char *path = util_text(s->plan, "tmp_real"), *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : NULL;
}

/* MUSTER_TMPDIR is a link to the folder; where that lies over the task's own /tmp, to /tmp: only root can go the other
 * way. In a container it is where it is outside. */
static int tmp_link(const struct shepherd *s, int job)
{
    bool over = util_flag(s->plan, "private_tmp") && !json_object_get(s->plan, "inside");

    return beneath_link_make(job, "tmp", over ? "/tmp" : util_text(s->plan, "tmp_real"));
}

/* The folder is the user's alone. */
static int tmp_make(struct shepherd *s, int job, uid_t uid, gid_t gid)
{
    const char *path = util_text(s->plan, "tmp_real"), *name = tmp_name(s);
    char folder[PATH_MAX];
    struct stat st;
    int r;

    if (!name)
        return -EINVAL;
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
    s->tmps = beneath_open_absolute(folder, O_RDONLY | O_DIRECTORY);
    if (s->tmps < 0)
        return s->tmps;
    s->tmp = tmp_open(s, name);
    if (s->tmp < 0)
        return s->tmp;
    if (fstat(s->tmp, &st) < 0)
        return -errno;
    r = st.st_uid == uid && st.st_gid == gid && (st.st_mode & ALLPERMS) == 0700 ? 0
                                                                                : beneath_give(s->tmp, uid, gid, 0700);
    return r < 0 ? r : tmp_link(s, job);
}

void shepherd_tmp_leave(struct shepherd *s)
{
    const char *name = tmp_name(s);
    char spare[64];

    if (!name || s->tmp < 0 || beneath_tree_empty(s->tmp) < 0)
        return; /* the agent tries again */
    spare_name(s, spare, sizeof(spare));
    if (beneath_rename(s->tmps, name, s->tmps, spare, false) < 0)
        (void)beneath_dir_remove(s->tmps, name);
}

static int job_files(struct shepherd *s, int dir)
{
    const char *role;
    json_t *text;
    int r = job_file(s, dir, "script", util_text(s->plan, "script"), 0700);

    json_object_foreach(json_object_get(s->plan, "roles"), role, text)
    {
        char name[128];

        (void)snprintf(name, sizeof(name), "script-%.100s", role);
        if (r == 0)
            r = job_file(s, dir, name, json_string_value(text), 0700);
    }
    if (r == 0)
        r = job_file(s, dir, "hosts", util_text(s->plan, "hosts"), 0600);
    if (r == 0)
        r = ear_open(s, dir);
    return r;
}

/* The user gets the folder when all is in it: until then no other process of theirs can change what is being made. */
static int job_dir(struct shepherd *s)
{
    bool owner = util_flag(s->plan, "owned"); /* also where a runtime becomes the user, not we */
    uid_t uid = owner ? (uid_t)util_i64(s->plan, "uid", 0) : geteuid();
    gid_t gid = owner ? (gid_t)util_i64(s->plan, "gid", 0) : getegid();
    int dir, r;

    (void)beneath_tree_remove(s->dir, "job");
    dir = beneath_dir_make(s->dir, "job", 0700);
    if (dir < 0)
        return shepherd_fail(s, dir, "system", "directory of the job: %s", strerror(-dir));
    r = tmp_make(s, dir, uid, gid);
    if (r < 0)
        (void)shepherd_fail(s, r, "system", "temporary directory of the job: %s", strerror(-r));
    if (r == 0)
        r = job_files(s, dir);
    if (r == 0 && owner && (r = fchown(dir, uid, gid) < 0 ? -errno : 0) < 0)
        (void)shepherd_fail(s, r, "system", "directory of the job: %s", strerror(-r));
    close(dir);
    return r;
}

/* Before anything of the job runs: what it could put in the way is not there yet. */
static int mounts_make(struct shepherd *s)
{
    int r = child_mounts_own(s->plan) ? child_mounts_make(s->plan, s->tmps, tmp_name(s)) : 0;

    return r < 0 ? shepherd_fail(s, r, "system", "private folders: %s", strerror(-r)) : 0;
}

static int pipe_open(int *ret_read, int *ret_write, bool nonblock)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    if (nonblock && fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        close(ends[0]);
        close(ends[1]);
        return -errno;
    }
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

/* /dev/stdout and /dev/stderr are opened anew by those who name them, as the job's user. */
static int output_open(const struct shepherd *s, int *ret_read, int *ret_write)
{
    int r = pipe_open(ret_read, ret_write, true);

    if (r == 0 && util_flag(s->plan, "owned") &&
        fchown(*ret_write, (uid_t)util_i64(s->plan, "uid", 0), (gid_t)util_i64(s->plan, "gid", 0)) < 0)
        r = -errno;
    return r;
}

/* PATH of the job decides where its program is. */
static void path_take(char *const *env)
{
    for (char *const *e = env; e && *e; e++)
        if (strncmp(*e, "PATH=", 5) == 0)
            (void)setenv("PATH", *e + 5, 1); /* NOLINT(concurrency-mt-unsafe): one thread */
}

/* gate < 0: it starts at once, in our memory where that can be. */
static pid_t proc_fork(struct shepherd *s, struct child_ends *ends)
{
    pid_t pid = -ENOSYS;

    ends->in_group = true;
    if (ends->gate < 0)
        pid = cgroup_spawn(s->cgroup, shepherd_child, ends);
    if (pid == -ENOSYS && s->cgroup[0])
        pid = cgroup_fork(s->cgroup);
    if (pid == -ENOSYS) {
        ends->in_group = false;
        pid = fork();
        pid = pid < 0 ? -errno : pid;
    }
    if (pid == 0)
        shepherd_child(ends);
    return pid;
}

int shepherd_fork(struct shepherd *s, struct proc *proc, const json_t *plan, int gate)
{
    bool apart = proc->err.log != UINT32_MAX || proc->err.file != UINT32_MAX;
    struct child_ends ends = { .gate = gate, .status = -1, .in = -1, .out = -1, .err = -1, .shepherd = s };
    int r = pipe_open(&proc->status_fd, &ends.status, true);

    if (r == 0 && util_flag(plan, "input"))
        r = shepherd_in_open(s, proc, (uint32_t)(proc - s->procs), &ends.in);
    if (r == 0)
        r = output_open(s, &proc->out.fd, &ends.out);
    if (r == 0 && apart)
        r = output_open(s, &proc->err.fd, &ends.err);
    if (r == 0) {
        ends.argv = child_strings(json_object_get(plan, "argv"), NULL);
        ends.env = child_strings(json_object_get(s->plan, "env"), json_object_get(plan, "env"));
        path_take(ends.env);
        proc->pid = proc_fork(s, &ends);
        r = proc->pid < 0 ? proc->pid : 0;
        child_strings_free(ends.argv);
        child_strings_free(ends.env);
    }
    if (ends.status >= 0)
        close(ends.status);
    if (ends.in >= 0)
        close(ends.in);
    if (ends.out >= 0)
        close(ends.out);
    if (ends.err >= 0)
        close(ends.err);
    return r < 0 ? shepherd_fail(s, r, "system", "fork: %s", strerror(-r)) : 0;
}

/* Nobody is waited for: it starts. Meanwhile no order is heard, so there is an end to that: where its directory or its
 * program cannot be reached for so long, this process dies of the alarm, and the node has lost the task. */
int shepherd_fork_alone(struct shepherd *s, struct proc *proc, const json_t *plan)
{
    struct pollfd said = { .events = POLLIN };
    int r;

    (void)alarm(START_SECONDS);
    r = shepherd_fork(s, proc, plan, -1);
    if (r < 0) {
        (void)alarm(0);
        return r;
    }
    proc->at_gate = true;
    said.fd = proc->status_fd;
    while (poll(&said, 1, -1) < 0 && errno == EINTR)
        ;
    shepherd_status(s, proc);
    (void)alarm(0);
    return 0;
}

static int proc_alone(struct shepherd *s, const json_t *plan)
{
    usec_t at = clock_real();
    int r;

    if (shepherd_lease_over(s)) /* this process was stopped meanwhile: it may begin elsewhere by now */
        return shepherd_fail(s, -ESTALE, "system", "the lease of the node had run out");
    r = shepherd_fork_alone(s, &s->procs[0], plan);

    if (r < 0)
        return r;
    s->proc_count = 1;
    if (s->blame[0])
        return -EINVAL;
    s->started = at;
    shepherd_set_state(s, TASK_RUNNING);
    return 0;
}

static int procs_start(struct shepherd *s)
{
    const json_t *procs = json_object_get(s->plan, "procs"), *plan;
    size_t i, count = json_array_size(procs);
    int gate, r;

    if (count == 1 && util_flag(s->plan, "go") && !s->hold)
        return proc_alone(s, json_array_get(procs, 0));
    r = pipe_open(&gate, &s->gate, false);
    if (r < 0)
        return shepherd_fail(s, r, "system", "pipe: %s", strerror(-r));
    json_array_foreach(procs, i, plan)
    {
        r = shepherd_fork(s, &s->procs[i], plan, gate);
        if (r < 0)
            break;
        s->proc_count++;
    }
    close(gate);
    return s->proc_count == count ? 0 : r;
}

int shepherd_prepare(struct shepherd *s)
{
    size_t count = json_array_size(json_object_get(s->plan, "procs"));
    int r;

    if (count > PROCS_MAX)
        return shepherd_fail(s, -E2BIG, "user", "%zu tasks on one node, the limit is %d", count, PROCS_MAX);
    s->procs = mem_zalloc(count ? count : 1, sizeof(*s->procs));
    if (!s->procs)
        return shepherd_fail(s, -ENOMEM, "system", "no memory");
    for (size_t i = 0; i < count; i++) {
        s->procs[i].in = s->procs[i].status_fd = s->procs[i].out.fd = s->procs[i].err.fd = -1;
        s->procs[i].err.log = s->procs[i].err.file = UINT32_MAX;
    }
    r = child_mounts_own(s->plan) ? child_mounts_begin() : 0;
    if (r < 0)
        return shepherd_fail(s, r, "system", "private folders: %s", strerror(-r));
    r = shepherd_group(s);
    if (r == 0)
        r = job_dir(s);
    if (r == 0)
        r = shepherd_open_sinks(s);
    if (r == 0)
        r = mounts_make(s);
    if (r == 0)
        r = procs_start(s);
    return r;
}

void shepherd_open_gate(struct shepherd *s)
{
    if (s->started || shepherd_lease_over(s))
        return; /* in the second case the loop ends it */
    s->started = clock_real();
    for (uint32_t i = 0; i < s->proc_count; i++)
        (void)util_write_all(s->gate, "g", 1);
    if (s->gate >= 0)
        close(s->gate);
    s->gate = -1;
    shepherd_set_state(s, TASK_RUNNING);
}
