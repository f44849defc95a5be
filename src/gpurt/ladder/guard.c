/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - lock, checkpoint, wait, restore, unlock.
 *
 * The driver is opened at run time. Only the lock has a time limit; once the checkpoint runs, nothing interrupts it. A
 * process number that was given to another process meanwhile is told apart by its start time.
 */
#include "gpurt/ladder/guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shim/channel.h"
#include "shim/cuda_abi.h"

#define LOCK_MS 10000u
#define UNLOCK_TRIES 3
#define UNLOCK_AGAIN_US 50000u
#define CLIENTS 8
#define PAIRS 16u
/* What the driver says of a process. */
#define PROCESS_RUNNING 0
#define PROCESS_LOCKED 1
#define PROCESS_CHECKPOINTED 2
#define PROCESS_FAILED 3
#define ILLEGAL_STATE 401 /* a call that is not for the state the process is in */

static const char *const state_name[GUARD_STATE_COUNT] = { "new",       "locking",   "checkpointing", "checkpointed",
                                                           "restoring", "unlocking", "failed" };

struct driver {
    CUresult (*init)(unsigned int);
    CUresult (*lock)(int, struct cuda_ckpt_lock *);
    CUresult (*checkpoint)(int, void *);
    CUresult (*restore)(int, struct cuda_ckpt_restore *);
    CUresult (*unlock)(int, void *);
    CUresult (*state)(int, int *); /* may be missing */
};

void guard_path(const char *run_dir, pid_t pid, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/guard-%d.sock", run_dir, (int)pid);
}

static void journal_path(const char *run_dir, pid_t pid, const char *suffix, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/guard-%d.journal%s", run_dir, (int)pid, suffix);
}

int guard_journal_write(const char *run_dir, const struct guard_journal *journal, struct error *err)
{
    char path[256], temp[256], text[GUARD_GPUS_MAX + 128];
    int fd, n, r;

    journal_path(run_dir, journal->pid, "", path, sizeof(path));
    journal_path(run_dir, journal->pid, ".new", temp, sizeof(temp));
    n = snprintf(text, sizeof(text), "%d %llu %s %llu %s\n", (int)journal->pid,
                 (unsigned long long)journal->start_ticks, state_name[journal->state],
                 (unsigned long long)journal->bytes, *journal->gpus ? journal->gpus : "-");
    fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", temp, strerror(errno));
    /* Not to the disk: what it tells of ends with the machine, and the wait would be the released job's. */
    r = write(fd, text, (size_t)n) == n ? 0 : -EIO;
    close(fd);
    if (r == 0 && rename(temp, path) < 0)
        r = -errno;
    return r < 0 ? error_set(err, r, "%s: %s", path, strerror(-r)) : 0;
}

int guard_journal_read(const char *run_dir, pid_t pid, struct guard_journal *ret, struct error *err)
{
    char path[256], state[32] = "", gpus[GUARD_GPUS_MAX] = "";
    unsigned long long start = 0, bytes = 0;
    int number = 0, fields;
    FILE *f;

    journal_path(run_dir, pid, "", path, sizeof(path));
    f = fopen(path, "re");
    if (!f)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    fields = fscanf(f, "%d %llu %31s %llu %543s", &number, &start, state, &bytes, gpus);
    (void)fclose(f);
    for (int s = 0; s < GUARD_STATE_COUNT && fields >= 3; s++)
        if (strcmp(state, state_name[s]) == 0) {
            *ret = (struct guard_journal){ (pid_t)number, start, (enum guard_state)s, bytes, "" };
            (void)snprintf(ret->gpus, sizeof(ret->gpus), "%s", strcmp(gpus, "-") == 0 ? "" : gpus);
            return 0;
        }
    return error_set(err, -EPROTO, "%s:1: expected PID START STATE BYTES GPUS", path);
}

void guard_journal_remove(const char *run_dir, pid_t pid)
{
    char path[256];

    journal_path(run_dir, pid, "", path, sizeof(path));
    (void)unlink(path);
}

static int driver_open(struct driver *ret, struct error *err)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult r;

    if (!h)
        return error_set(err, -ENOENT, "no CUDA driver: %s", dlerror());
    *(void **)&ret->init = dlsym(h, "cuInit");
    *(void **)&ret->lock = dlsym(h, "cuCheckpointProcessLock");
    *(void **)&ret->checkpoint = dlsym(h, "cuCheckpointProcessCheckpoint");
    *(void **)&ret->restore = dlsym(h, "cuCheckpointProcessRestore");
    *(void **)&ret->unlock = dlsym(h, "cuCheckpointProcessUnlock");
    *(void **)&ret->state = dlsym(h, "cuCheckpointProcessGetState");
    if (!ret->init || !ret->lock || !ret->checkpoint || !ret->restore || !ret->unlock)
        return error_set(err, -ENOSYS, "this driver cannot checkpoint processes; 570 or newer can");
    r = ret->init(0);
    return r ? error_set(err, -EIO, "cuInit: error %d", r) : 0;
}

struct guard {
    const char *run_dir;
    struct guard_journal journal;
    struct driver driver;
    int hold, listener, client[CLIENTS];
    double claimed;   /* by a clock that nobody sets */
    char status[192]; /* what a new connection is told */
    char pairs[1100]; /* which GPU shall stand for which */
    bool unsure; /* the driver does not say whether it was checkpointed or restored: a restore that fails may be one
                    that was not needed */
};

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void status_send(struct guard *guard)
{
    for (int i = 0; i < CLIENTS; i++)
        if (guard->client[i] >= 0)
            (void)send(guard->client[i], guard->status, strlen(guard->status), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void journal_step(struct guard *guard, enum guard_state state)
{
    guard->journal.state = state;
    (void)guard_journal_write(guard->run_dir, &guard->journal, NULL);
}

/* A call gave an error. What the driver says of the process after that decides: one that it calls failed is not brought
 * back by anything, and nothing more is tried with it. */
static int call_failed(struct guard *guard, const char *call, CUresult r)
{
    int state = -1;
    bool gone = guard->driver.state && guard->driver.state((int)guard->journal.pid, &state) == CUDA_SUCCESS &&
                state == PROCESS_FAILED;

    (void)snprintf(guard->status, sizeof(guard->status), "failed: the driver's %s gave error %d%s", call, r,
                   gone ? "; " GUARD_GIVEN_UP : "");
    if (gone)
        journal_step(guard, GUARD_FAILED);
    return -EIO;
}

/* Restored, or never checkpointed: what is missing is the unlock. One that failed is tried again: until then the
 * process waits inside the driver, and the journal says that it is not back. */
static CUresult process_unlock(struct guard *guard)
{
    CUresult r = CUDA_SUCCESS;

    journal_step(guard, GUARD_UNLOCKING);
    for (int i = 0; i < UNLOCK_TRIES; i++) {
        if (i > 0)
            (void)usleep(UNLOCK_AGAIN_US);
        r = guard->driver.unlock((int)guard->journal.pid, NULL);
        if (r == CUDA_SUCCESS)
            break;
    }
    if (r == CUDA_SUCCESS)
        guard->journal.state = GUARD_NEW;
    return r;
}

static int process_checkpoint(struct guard *guard)
{
    struct cuda_ckpt_lock lock = { .timeout_ms = LOCK_MS };
    double start = seconds_now();
    CUresult r;

    if (channel_start_ticks(guard->journal.pid) != guard->journal.start_ticks) {
        (void)snprintf(guard->status, sizeof(guard->status), "failed: the process is gone");
        return -ESRCH;
    }
    journal_step(guard, GUARD_LOCKING);
    r = guard->driver.lock((int)guard->journal.pid, &lock);
    if (r)
        return call_failed(guard, "lock", r);
    journal_step(guard, GUARD_CHECKPOINTING);
    r = guard->driver.checkpoint((int)guard->journal.pid, NULL);
    if (r) {
        (void)call_failed(guard, "checkpoint", r);
        if (guard->journal.state != GUARD_FAILED)
            (void)process_unlock(guard);
        return -EIO;
    }
    journal_step(guard, GUARD_CHECKPOINTED);
    (void)snprintf(guard->status, sizeof(guard->status), "released %.3f", seconds_now() - start);
    return 0;
}

static bool hex_read(const char *text, struct cuda_uuid *ret)
{
    for (int i = 0; i < 16; i++) {
        unsigned int value;

        if (sscanf(text + (size_t)2 * (size_t)i, "%2x", &value) != 1)
            return false;
        ret->bytes[i] = (char)value;
    }
    return true;
}

/* "FROM TO FROM TO ...", 32 hexadecimal digits each. */
static unsigned int pairs_read(const char *text, struct cuda_ckpt_pair *pairs)
{
    unsigned int n = 0;

    while (n < PAIRS && strlen(text) >= 66 && text[0] == ' ' && hex_read(text + 1, &pairs[n].from) &&
           hex_read(text + 34, &pairs[n].to)) {
        n++;
        text += 66;
    }
    return n;
}

static int process_restore(struct guard *guard)
{
    struct cuda_ckpt_pair pairs[PAIRS];
    struct cuda_ckpt_restore args = { .pairs = pairs, .pair_count = pairs_read(guard->pairs, pairs) };
    double start = seconds_now();
    CUresult r = CUDA_SUCCESS;

    if (guard->journal.state == GUARD_CHECKPOINTED) {
        journal_step(guard, GUARD_RESTORING);
        r = guard->driver.restore((int)guard->journal.pid, args.pair_count ? &args : NULL);
        if (r)
            journal_step(guard, GUARD_CHECKPOINTED);
        r = guard->unsure ? CUDA_SUCCESS : r;
    }
    if (r)
        (void)call_failed(guard, "restore", r);
    if (r && args.pair_count && guard->journal.state != GUARD_FAILED) {
        (void)snprintf(guard->status, sizeof(guard->status),
                       "failed: the driver does not restore it on that GPU (error %d); restore without --gpu", r);
        guard->pairs[0] = '\0';
    }
    if (r)
        return -EIO;
    r = process_unlock(guard);
    if (r && guard->unsure)
        journal_step(guard, GUARD_CHECKPOINTED);
    if (r)
        return call_failed(guard, "unlock", r);
    (void)snprintf(guard->status, sizeof(guard->status), "restored %.3f", seconds_now() - start);
    return 0;
}

/* Checkpointed, or restored and still locked: the process does not run. */
static bool guard_away(const struct guard *guard)
{
    return guard->journal.state == GUARD_CHECKPOINTED || guard->journal.state == GUARD_UNLOCKING;
}

/* What whoever comes next is told. */
static void guard_tell_away(struct guard *guard)
{
    (void)snprintf(guard->status, sizeof(guard->status), "released 0");
}

/* What the journal of an earlier guardian says, where the driver does not: a step under way may have come to its end.
 */
static int journal_guess(struct guard *guard, enum guard_state before)
{
    guard->unsure = before == GUARD_CHECKPOINTING || before == GUARD_RESTORING;
    if (before == GUARD_CHECKPOINTED || guard->unsure)
        return PROCESS_CHECKPOINTED;
    return before == GUARD_NEW ? PROCESS_RUNNING : PROCESS_LOCKED;
}

/* Where did an earlier guardian, killed, leave the process? The driver knows; without its word the journal does. A
 * process that is only locked is let go: whoever wants it released asks again. One that somebody else has locked or
 * checkpointed, without a journal, is not ours. */
static void guard_adopt(struct guard *guard)
{
    struct guard_journal before;
    int state = -1;
    bool asked = guard->driver.state && guard->driver.state((int)guard->journal.pid, &state) == CUDA_SUCCESS;
    bool ours = guard_journal_read(guard->run_dir, guard->journal.pid, &before, NULL) == 0 &&
                before.start_ticks == guard->journal.start_ticks;

    if (ours)
        guard->journal = before;
    guard->journal.state = GUARD_NEW;
    if (asked && state == PROCESS_FAILED) {
        (void)snprintf(guard->status, sizeof(guard->status), "failed: " GUARD_GIVEN_UP);
        guard->journal.state = GUARD_FAILED;
        return;
    }
    if (ours && !asked)
        state = journal_guess(guard, before.state);
    if (ours && state == PROCESS_LOCKED && process_unlock(guard) == ILLEGAL_STATE && !asked)
        guard->journal.state = GUARD_NEW; /* it was not locked: not yet, or no more */
    if (ours && state == PROCESS_CHECKPOINTED)
        guard->journal.state = GUARD_CHECKPOINTED;
    if (guard_away(guard))
        guard_tell_away(guard);
    else if (state == PROCESS_RUNNING || ours)
        (void)snprintf(guard->status, sizeof(guard->status), "running");
}

/* One guardian a process, whoever started it: a second one would unlock what the first is just taking away. Each holds
 * a byte of a common file, from before it opens the driver, which may take longer than a node side waits; the kernel
 * lets go of it however a guardian ends. -EBUSY: there is one. */
static int hold_take(const char *run_dir, pid_t pid, struct error *err)
{
    struct flock byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1 };
    char path[256];
    int fd, r;

    (void)snprintf(path, sizeof(path), "%s/guard.lock", run_dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0)
        return fd;
    r = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
    close(fd);
    return error_set(err, r, "%s: %s", path, strerror(-r));
}

static int listen_open(const char *run_dir, pid_t pid, struct error *err)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    guard_path(run_dir, pid, addr.sun_path, sizeof(addr.sun_path));
    (void)unlink(addr.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, CLIENTS) < 0) {
        int r = -errno;

        if (fd >= 0)
            close(fd);
        return error_set(err, r, "%s: %s", addr.sun_path, strerror(-r));
    }
    return fd;
}

static void client_new(struct guard *guard)
{
    int fd = accept4(guard->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (int i = 0; fd >= 0 && i < CLIENTS; i++)
        if (guard->client[i] < 0) {
            guard->client[i] = fd;
            (void)send(fd, guard->status, strlen(guard->status), MSG_NOSIGNAL | MSG_DONTWAIT);
            return;
        }
    if (fd >= 0)
        close(fd);
}

enum word { WORD_NONE, WORD_CHECKPOINT, WORD_RESTORE, WORD_UNCLAIMED };

/* One turn of waiting: what was said, or that nobody has said anything for too long. */
static enum word wait_turn(struct guard *guard, unsigned int claim_s)
{
    struct pollfd p[CLIENTS + 1] = { { .fd = guard->listener, .events = POLLIN } };
    enum word word = WORD_NONE;

    for (int i = 0; i < CLIENTS; i++)
        p[i + 1] = (struct pollfd){ .fd = guard->client[i], .events = POLLIN };
    if (poll(p, CLIENTS + 1, 500) > 0) {
        if (p[0].revents)
            client_new(guard);
        for (int i = 0; i < CLIENTS; i++) {
            char text[1100] = "";
            ssize_t n;

            if (!p[i + 1].revents)
                continue;
            n = recv(guard->client[i], text, sizeof(text) - 1, MSG_DONTWAIT);
            if (n <= 0) {
                close(guard->client[i]);
                guard->client[i] = -1;
                continue;
            }
            guard->claimed = seconds_now();
            if (strncmp(text, "restore", 7) == 0) {
                (void)snprintf(guard->pairs, sizeof(guard->pairs), "%s", text + 7);
                word = WORD_RESTORE;
            }
            if (strncmp(text, "checkpoint", 10) == 0) {
                unsigned long long bytes = 0;

                (void)sscanf(text + 10, " %llu %543s", &bytes, guard->journal.gpus);
                guard->journal.bytes = bytes;
                word = WORD_CHECKPOINT;
            }
        }
    }
    return word == WORD_NONE && seconds_now() - guard->claimed > (double)claim_s ? WORD_UNCLAIMED : word;
}

/* Before anybody hears that it is over: whoever does may start the next one, whose socket and journal have the same
 * names. */
static void guard_leave(struct guard *guard)
{
    char path[256];

    if (guard->listener < 0)
        return;
    guard_path(guard->run_dir, guard->journal.pid, path, sizeof(path));
    (void)unlink(path);
    if (guard->journal.state != GUARD_FAILED)
        guard_journal_remove(guard->run_dir, guard->journal.pid);
    close(guard->listener);
    guard->listener = -1;
    close(guard->hold);
}

/* Until the process is back, gone, or could not be released. */
static int guard_loop(struct guard *guard, unsigned int claim_s)
{
    int r = 0;

    while (r == 0 && channel_start_ticks(guard->journal.pid) == guard->journal.start_ticks) {
        enum word word = wait_turn(guard, claim_s);
        bool released = guard_away(guard);

        if (word == WORD_UNCLAIMED && !released)
            return 0; /* never told to begin */
        if (word == WORD_CHECKPOINT && !released) {
            r = process_checkpoint(guard);
            r = guard_away(guard) ? 0 : r; /* whatever went wrong: it is ours until it runs again */
            if (r < 0)
                guard_leave(guard);
            status_send(guard);
            if (guard->journal.state == GUARD_UNLOCKING)
                guard_tell_away(guard);
        } else if (word == WORD_RESTORE && !released) { /* the one before this one had done it */
            (void)snprintf(guard->status, sizeof(guard->status), "restored 0");
            guard_leave(guard);
            status_send(guard);
            return 0;
        } else if (released && (word == WORD_RESTORE || word == WORD_UNCLAIMED)) {
            bool over;

            r = process_restore(guard);
            over = r == 0 || guard->journal.state == GUARD_FAILED;
            if (over)
                guard_leave(guard);
            status_send(guard);
            if (over)
                return r;
            guard_tell_away(guard);
            guard->claimed = seconds_now(); /* perhaps no room yet: again when told, or after another claim's time */
            r = 0;
        }
    }
    return r;
}

int guard_run(const char *run_dir, pid_t pid, uint64_t start_ticks, unsigned int claim_s, struct error *err)
{
    struct guard guard = { .run_dir = run_dir,
                           .journal = { .pid = pid, .start_ticks = start_ticks },
                           .status = "starting" };
    int r;

    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < CLIENTS; i++)
        guard.client[i] = -1;
    guard.claimed = seconds_now();
    r = guard.hold = hold_take(run_dir, pid, err);
    if (r == -EBUSY)
        return 0; /* whoever started this one finds that one */
    if (r >= 0)
        r = driver_open(&guard.driver, err);
    if (r == 0)
        r = guard.listener = listen_open(run_dir, pid, err);
    if (r < 0)
        return r;
    guard_adopt(&guard);
    journal_step(&guard, guard.journal.state);
    r = guard.journal.state == GUARD_FAILED ? -EIO : guard_loop(&guard, claim_s);
    guard_leave(&guard);
    return r < 0 ? error_set(err, r, "%s", guard.status) : 0;
}
