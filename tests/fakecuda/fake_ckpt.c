/* SPDX-License-Identifier: Apache-2.0 */
/* fake_ckpt.c - the driver's checkpoint of another process. State and requests go through a file a process, of which
 * FAKE_CUDA_DIR says where. As with the real driver a thread of the target itself takes its memory away and brings it
 * back: one that is frozen or stopped does neither.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

#define PAGE_BYTES 4096
#define PAIRS 16
#define LOCK_MS 10000u
#define ANSWER_MS 60000u
#define NOT_READY 600
#define ILLEGAL_STATE 401
#define UNKNOWN 999

enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };
enum { SAVE, BRING };

struct checkpoint {
    _Atomic uint32_t state;
    _Atomic uint32_t inside; /* threads in a call that may touch memory */
    _Atomic uint32_t asked, answered;
    uint32_t what, pair_count;
    CUresult result;
    int from[PAIRS], to[PAIRS];
};

static struct checkpoint *mine;

static void nap(void)
{
    (void)usleep(200);
}

static struct checkpoint *page_open(int pid, bool create)
{
    const char *dir = getenv("FAKE_CUDA_DIR");
    char path[256];
    void *p;
    int fd;

    if (!dir)
        return NULL;
    (void)snprintf(path, sizeof(path), "%s/%d.ckpt", dir, pid);
    fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    if (fd < 0)
        return NULL;
    if (create && ftruncate(fd, PAGE_BYTES) < 0) {
        close(fd);
        return NULL;
    }
    p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static void page_close(struct checkpoint *page)
{
    if (page)
        munmap(page, PAGE_BYTES);
}

/* ---- the target's side */

/* Carries out what is asked for, one by one. */
static void *serve(void *arg)
{
    struct checkpoint *page = arg;

    for (;;) {
        uint32_t asked = page->asked;

        if (asked == page->answered) {
            (void)syscall(SYS_futex, &page->asked, FUTEX_WAIT, asked, NULL, NULL, 0);
            continue;
        }
        fake_wait_all();
        page->result =
            page->what == SAVE ? fake_memory_save() : fake_memory_bring(page->from, page->to, page->pair_count);
        if (page->result == CUDA_SUCCESS)
            page->state = page->what == SAVE ? CHECKPOINTED : LOCKED;
        page->answered = asked;
    }
    return NULL;
}

static void child_forget(void)
{
    mine = NULL; /* the page is its parent's */
}

static void mine_make(void)
{
    struct checkpoint *page = page_open((int)getpid(), true);
    sigset_t all, before;
    pthread_t thread;

    if (!page)
        return;
    (void)pthread_atfork(NULL, NULL, child_forget);
    sigfillset(&all); /* the program's signals are its own threads' */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, serve, page) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    __atomic_store_n(&mine, page, __ATOMIC_RELEASE);
}

bool fake_checkpoint_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct checkpoint *page;

    pthread_once(&once, mine_make);
    page = __atomic_load_n(&mine, __ATOMIC_ACQUIRE);
    if (!page)
        return false;
    for (;;) {
        page->inside++;
        if (page->state == RUNNING || page->state == FAILED)
            return true;
        page->inside--;
        nap();
    }
}

void fake_checkpoint_leave(void)
{
    struct checkpoint *page = __atomic_load_n(&mine, __ATOMIC_ACQUIRE);

    if (page)
        page->inside--;
}

bool fake_checkpoint_failed(void)
{
    struct checkpoint *page = __atomic_load_n(&mine, __ATOMIC_ACQUIRE);

    return page && page->state == FAILED;
}

/* ---- whoever checkpoints another */

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What somebody asked for who was killed meanwhile is finished first. */
static bool page_settled(const struct checkpoint *page, int pid)
{
    for (uint64_t end = now_ms() + ANSWER_MS; page->asked != page->answered; nap())
        if (now_ms() > end || (kill(pid, 0) < 0 && errno == ESRCH))
            return false;
    return true;
}

static CUresult target_does(struct checkpoint *page, int pid, uint32_t what)
{
    page->what = what;
    page->asked++;
    (void)syscall(SYS_futex, &page->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    return page_settled(page, pid) ? page->result : UNKNOWN;
}

/* FAKE_CUDA_CKPT_FAIL=N: of all calls of all processes every Nth fails, and changes nothing. */
static bool checkpoint_fails(void)
{
    const char *dir = getenv("FAKE_CUDA_DIR"), *text = getenv("FAKE_CUDA_CKPT_FAIL");
    uint64_t every = text ? strtoull(text, NULL, 10) : 0;
    char path[256], one = 1;
    off_t size = 0;
    int fd;

    if (!dir || every == 0)
        return false;
    (void)snprintf(path, sizeof(path), "%s/ckpt.calls", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, &one, 1) == 1)
        size = lseek(fd, 0, SEEK_CUR); /* where its own byte went: no two calls have the same number */
    if (fd >= 0)
        (void)close(fd);
    return size > 0 && (uint64_t)size % every == 0;
}

/* FAKE_CUDA_CKPT_RUIN=cuCheckpointProcess...: such a call fails in the middle, and the process is given up. */
static bool checkpoint_ruins(const char *name, int pid)
{
    const char *text = getenv("FAKE_CUDA_CKPT_RUIN");
    struct checkpoint *page = text && strcmp(text, name) == 0 ? page_open(pid, false) : NULL;

    if (page)
        page->state = FAILED;
    page_close(page);
    return page != NULL;
}

/* FAKE_CUDA_CKPT_KILL: a file that says "cuCheckpointProcess... before", or after, and perhaps a process number:
 * whoever makes that call is killed then, and that process first. Once: the file goes. A file named after that number
 * is kept as it was at that moment, under its name and ".then". */
static void checkpoint_kills(const char *name, const char *when)
{
    const char *path = getenv("FAKE_CUDA_CKPT_KILL");
    char call[64] = "", then[16] = "", file[256] = "", kept[272];
    FILE *f = path ? fopen(path, "re") : NULL;
    int other = 0;
    bool here = f && fscanf(f, "%63s %15s %d %255s", call, then, &other, file) >= 2 && strcmp(call, name) == 0 &&
                strcmp(then, when) == 0;

    if (f)
        (void)fclose(f);
    if (!here)
        return;
    (void)unlink(path);
    (void)snprintf(kept, sizeof(kept), "%s.then", file);
    if (*file)
        (void)!link(file, kept); /* it is replaced, not written */
    if (other > 1)
        (void)kill(other, SIGKILL);
    (void)kill(getpid(), SIGKILL);
}

#define CKPT_ENTER(name)                                                                                               \
    FAKE_ENTER(name);                                                                                                  \
    checkpoint_kills(#name, "before");                                                                                 \
    if (checkpoint_fails() || checkpoint_ruins(#name, pid))                                                            \
    return UNKNOWN

static CUresult process_lock(struct checkpoint *page, unsigned int ms)
{
    uint32_t running = RUNNING;

    if (!atomic_compare_exchange_strong(&page->state, &running, LOCKED))
        return ILLEGAL_STATE;
    for (uint64_t end = now_ms() + (ms ? ms : LOCK_MS); page->inside > 0; nap())
        if (now_ms() > end) {
            page->state = RUNNING;
            return NOT_READY;
        }
    return CUDA_SUCCESS;
}

static CUresult process_unlock(struct checkpoint *page)
{
    uint32_t locked = LOCKED;

    return atomic_compare_exchange_strong(&page->state, &locked, RUNNING) ? CUDA_SUCCESS : ILLEGAL_STATE;
}

FAKE_API CUresult cuCheckpointProcessLock(int pid, struct cuda_ckpt_lock *args)
{
    struct checkpoint *page;
    CUresult r = ILLEGAL_STATE;

    CKPT_ENTER(cuCheckpointProcessLock);
    page = page_open(pid, false);
    if (page && page_settled(page, pid))
        r = process_lock(page, args ? args->timeout_ms : 0);
    page_close(page);
    checkpoint_kills("cuCheckpointProcessLock", "after");
    return r;
}

FAKE_API CUresult cuCheckpointProcessCheckpoint(int pid, void *args)
{
    const char *ms = getenv("FAKE_CUDA_CKPT_MS");
    struct checkpoint *page;
    CUresult r = ILLEGAL_STATE;

    (void)args;
    CKPT_ENTER(cuCheckpointProcessCheckpoint);
    if (ms)
        usleep((useconds_t)atoi(ms) * 1000);
    page = page_open(pid, false);
    if (page && page_settled(page, pid) && page->state == LOCKED)
        r = target_does(page, pid, SAVE);
    page_close(page);
    checkpoint_kills("cuCheckpointProcessCheckpoint", "after");
    return r;
}

/* A card by its UUID, sixteen times 0x40, 0x41, ...; -1 = none of this machine. */
static int card_named(const struct cuda_uuid *uuid)
{
    struct cuda_uuid one;

    for (int card = 0; card < fake_device_count(); card++) {
        memset(&one, 0x40 + card, sizeof(one));
        if (memcmp(&one, uuid, sizeof(one)) == 0)
            return card;
    }
    return -1;
}

FAKE_API CUresult cuCheckpointProcessRestore(int pid, struct cuda_ckpt_restore *args)
{
    struct checkpoint *page;
    CUresult r = ILLEGAL_STATE;

    CKPT_ENTER(cuCheckpointProcessRestore);
    page = page_open(pid, false);
    if (page && page_settled(page, pid) && page->state == CHECKPOINTED) {
        page->pair_count = args && args->pair_count < PAIRS ? args->pair_count : 0;
        for (uint32_t i = 0; i < page->pair_count; i++) {
            page->from[i] = card_named(&args->pairs[i].from);
            page->to[i] = card_named(&args->pairs[i].to);
        }
        r = target_does(page, pid, BRING);
    }
    page_close(page);
    checkpoint_kills("cuCheckpointProcessRestore", "after");
    return r;
}

FAKE_API CUresult cuCheckpointProcessUnlock(int pid, void *args)
{
    struct checkpoint *page;
    CUresult r = ILLEGAL_STATE;

    (void)args;
    CKPT_ENTER(cuCheckpointProcessUnlock);
    page = page_open(pid, false);
    if (page && page_settled(page, pid))
        r = process_unlock(page);
    page_close(page);
    checkpoint_kills("cuCheckpointProcessUnlock", "after");
    return r;
}

FAKE_API CUresult cuCheckpointProcessGetState(int pid, int *state)
{
    struct checkpoint *page;

    FAKE_ENTER(cuCheckpointProcessGetState);
    page = page_open(pid, false);
    if (!page)
        return 1;
    *state = page_settled(page, pid) ? (int)page->state : RUNNING;
    page_close(page);
    return 0;
}
