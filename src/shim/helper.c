/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - the thread of ours in a job process; a second one waits for it where the driver may not return (waiter.c).
 *
 * It owns the socket, carries out the node side's commands, fills the host pools and looks for idleness where the
 * program never waits. All signals are blocked in it; it never takes the interpreter's lock. When the node side is gone
 * it asks again every 5 s, and brings an evicted job home by itself once the lease has ended.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel.h"
#include "shim/gate/admit.h"
#include "shim/shim.h"

#define HELLO_MS 50
#define RETRY_NS (5 * NSEC_SEC)
#define CROWD_NS (100 * NSEC_MSEC) /* too many at the door: again soon */
#define WELCOME_NS (2 * NSEC_SEC)
#define STACK_BYTES ((size_t)256 * 1024)
#ifndef MUSTER_VERSION /* built by a compiler and nothing else */
#define MUSTER_VERSION "unknown"
#endif
_Static_assert(sizeof(MUSTER_VERSION) <= MESSAGE_VERSION_MAX, "the version does not fit into a message");

/* The oldest versions there are: the library must load beside any C library since 2.17. */
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5");

static _Atomic int sock = -1;
static _Atomic uint32_t running, stopped;
static uint64_t command_done, arenas_asked;

static void copy_text(char *to, const char *from)
{
    size_t n = from ? strnlen(from, MESSAGE_NAME_MAX - 1) : 0;

    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

static void hello_fill(struct message_hello *hello)
{
    const char *exe;
    char path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int version = 0;

    memset(hello, 0, sizeof(*hello));
    hello->head = (struct message_head){ MSG_HELLO, sizeof(*hello) };
    hello->abi = PAGE_ABI;
    hello->role = shim.role;
    hello->mode = shim.mode;
    hello->pid = (uint32_t)getpid();
    hello->start_ticks = channel_start_ticks(getpid());
    hello->memory_bytes = shim.memory_bytes;
    hello->host_bytes = shim.host_bytes;
    hello->pool_bytes = shim.pool_bytes;
    hello->share = shim.share;
    hello->driver_version =
        HAVE(cuDriverGetVersion) && REAL(cuDriverGetVersion)(&version) == CUDA_SUCCESS && version > 0
            ? (uint32_t)version
            : 0;
    hello->capabilities = (HAVE(cuMemCreate) && HAVE(cuMemMap) && HAVE(cuMemSetAccess) ? CAPABLE_MOVE : 0u) |
                          (resolve_in("libcuda.so.1", "cuCheckpointProcessLock") ? CAPABLE_CHECKPOINT : 0u) |
                          (resolve_differs() ? 0u : CAPABLE_LOOKUP);
    path[n > 0 ? n : 0] = '\0';
    exe = strrchr(path, '/');
    copy_text(hello->exe, exe ? exe + 1 : path);
    copy_text(hello->job, getenv("MUSTER_JOB_ID"));
    memcpy(hello->version, MUSTER_VERSION, sizeof(MUSTER_VERSION));
}

static void socket_look(int fd);

/* Of hundreds that start at once most wait longer for their welcome than a first call may take: the connection stays,
 * and the welcome is taken when it comes. */
int helper_register(void)
{
    const char *path = getenv("MUSTER_GPU_SOCKET");
    struct message_hello hello;
    struct pollfd p = { .events = POLLIN };

    if (!path || shim.page_fd < 0)
        return -EINVAL;
    p.fd = channel_connect(path, SOCK_NONBLOCK);
    if (p.fd < 0)
        return p.fd;
    hello_fill(&hello);
    command_done = __atomic_load_n(&shim.page->control.command_seq, __ATOMIC_RELAXED);
    if (!channel_send(p.fd, &hello, sizeof(hello), shim.page_fd)) {
        close(p.fd);
        return -ECONNREFUSED;
    }
    atomic_store(&sock, p.fd);
    if (poll(&p, 1, HELLO_MS) == 1)
        socket_look(p.fd);
    return shim.registered ? 0 : atomic_load(&sock) >= 0 ? -EINPROGRESS : -ECONNREFUSED;
}

/* A node side is required, and has not answered yet. */
bool helper_welcome(void)
{
    uint64_t until = clock_ns() + WELCOME_NS;

    while (!shim.registered && atomic_load(&sock) >= 0 && atomic_load(&running) && clock_ns() < until)
        nap_ns(NSEC_MSEC);
    return shim.registered;
}

static void device_send(uint32_t type, int gpu, uint64_t bytes)
{
    struct message_device d = { .head = { type, sizeof(d) }, .gpu = (uint32_t)gpu, .bytes = bytes };
    int fd = atomic_load(&sock);

    if (fd < 0)
        return;
    memcpy(d.uuid, shim.page->memory[gpu].uuid, sizeof(d.uuid));
    (void)channel_send(fd, &d, sizeof(d), -1);
}

void helper_device(int gpu)
{
    device_send(MSG_DEVICE, gpu, shim.page->memory[gpu].total_bytes);
}

void helper_need(int gpu, uint64_t bytes)
{
    int saved = errno;

    device_send(MSG_NEED, gpu, bytes);
    errno = saved;
}

/* Until the gate has closed, at a boundary perhaps, and all that went before is complete. */
static int64_t quiet_wait(uint64_t deadline_ns)
{
    while (__atomic_load_n(&shim.page->control.gate, __ATOMIC_ACQUIRE) == GATE_CLOSING &&
           gate_rule().gate != GATE_CLOSED && clock_ns() < deadline_ns)
        nap_ns(200 * NSEC_USEC);
    if (!gate_quiet(deadline_ns))
        return -ETIMEDOUT;
    return device_wait(deadline_ns);
}

static void reply_write(uint64_t seq, int64_t r, uint64_t start)
{
    struct page_reply *reply = &shim.page->reply[seq % PAGE_RING];
    struct message_head done = { MSG_DONE, sizeof(done) };
    int fd = atomic_load(&sock);

    reply->result = r < 0 ? r : 0;
    reply->bytes = r > 0 ? (uint64_t)r : 0;
    reply->ns = clock_ns() - start;
    reply->trim_ns = move_times()->trim_ns;
    reply->wait_ns = move_times()->wait_ns;
    reply->copy_ns = move_times()->copy_ns;
    __atomic_store_n(&reply->seq, seq, __ATOMIC_RELEASE);
    if (fd >= 0)
        (void)channel_send(fd, &done, sizeof(done), -1);
}

/* What runs in the program's own thread when its step ends: a checkpoint of its own, a look at PyTorch's book. The
 * answer comes then. */
static struct at_end {
    uint64_t seq, start, deadline;
} saving, reading;

static void at_end_begin(struct at_end *what, const struct page_command *c, uint64_t start, uint64_t deadline)
{
    *what = (struct at_end){ c->seq, start, deadline };
}

static void at_end_look(struct at_end *what, int (*result)(void))
{
    int64_t r = what->seq ? result() : 0;

    if (!what->seq || (r == -EAGAIN && clock_ns() < what->deadline))
        return;
    reply_write(what->seq, r == -EAGAIN ? -ETIMEDOUT : r, what->start);
    what->seq = 0;
}

static int64_t trim_wait(uint64_t deadline_ns)
{
    if (!python_trim(false))
        return -ETIMEDOUT;
    while (!python_trimmed() && clock_ns() < deadline_ns)
        nap_ns(200 * NSEC_USEC);
    return python_trimmed() ? 0 : -ETIMEDOUT;
}

static void socket_leave(void)
{
    int fd = atomic_exchange(&sock, -1);

    if (fd >= 0)
        close(fd);
    shim.registered = false;
}

static void command_run(const struct page_command *c)
{
    uint64_t start = clock_ns(), deadline = c->deadline_ns > start ? c->deadline_ns : start + NSEC_SEC;
    int gpu = c->gpu < PAGE_GPUS ? (int)c->gpu : 0;
    int64_t r = -EINVAL;

    switch (c->op) {
    case OP_PING:
        r = 0;
        break;
    case OP_SPILL_TO:
        home_drop();
        r = spill_to(gpu, c->arg[0], deadline);
        break;
    case OP_PROMOTE:
        home_drop();
        r = spill_promote(gpu, c->arg[0], deadline);
        break;
    case OP_HOME:
        home_begin(c->seq, gpu, c->arg[0], deadline);
        return;
    case OP_TRIM:
        r = trim_wait(deadline);
        break;
    case OP_EVICT_ALL:
        r = evict_all((uint32_t)(c->arg[0] < PAGE_PERMILLE ? c->arg[0] : PAGE_PERMILLE), deadline);
        break;
    case OP_RELOAD_ALL:
        r = evict_reload(deadline);
        break;
    case OP_SET_SLICE:
        r = slice_set((uint32_t)(c->arg[0] < 1000000 ? c->arg[0] : 1000000));
        break;
    case OP_SYNC:
        r = quiet_wait(deadline);
        break;
    case OP_PREPARE:
        evict_want(c->arg[0]);
        r = 0;
        break;
    case OP_BASELINE:
        measure_begin(c->seq, c->arg[0], deadline);
        return;
    case OP_DUMP:
        r = dump_begin(c->arg[0]);
        if (r == 0) {
            socket_leave(); /* that is the answer: there is nothing left to write one to */
            return;
        }
        break;
    case OP_CHECKPOINT:
        r = python_save();
        if (r == 0) {
            at_end_begin(&saving, c, start, deadline);
            return;
        }
        break;
    case OP_STATS:
        r = python_stats();
        if (r == 0) {
            at_end_begin(&reading, c, start, deadline);
            return;
        }
        break;
    default:
        COUNT_ADD(unknown, 1);
        break;
    }
    reply_write(c->seq, r, start);
}

/* Orders that take their time. */
static void later_look(void)
{
    uint64_t seq, start;
    int64_t r;

    at_end_look(&saving, python_saved);
    at_end_look(&reading, python_stats_read);
    if (home_look(&seq, &r, &start))
        reply_write(seq, r, start);
    if (measure_look(&seq, &r, &start))
        reply_write(seq, r, start);
}

static void commands_look(void)
{
    uint64_t newest = __atomic_load_n(&shim.page->control.command_seq, __ATOMIC_ACQUIRE);

    if (newest - command_done > PAGE_RING)
        command_done = newest - PAGE_RING; /* overrun: the node side sees no reply and asks again */
    while (command_done < newest) {
        struct page_command c = shim.page->command[(command_done + 1) % PAGE_RING];

        command_done++;
        if (c.seq == command_done)
            command_run(&c);
    }
}

static void welcome_take(void)
{
    char *note = shim.page->health.error;

    if (strncmp(note, NOTE_ALONE, strlen(NOTE_ALONE)) == 0)
        note[0] = '\0'; /* no longer true */
    shim.registered = true;
}

/* The helper's, and before there is one the first caller's: never both at once, and no program's stack has room for it.
 */
static void socket_look(int fd)
{
    static union {
        struct message_head head;
        struct message_device device;
        char bytes[MESSAGE_MAX];
    } m;
    ssize_t n;
    int passed;

    while ((n = channel_receive(fd, &m, sizeof(m), &passed)) > 0) {
        if (m.head.type == MSG_WELCOME && (size_t)n >= sizeof(struct message_welcome))
            welcome_take();
        if (m.head.type == MSG_ARENA && (size_t)n >= sizeof(m.device))
            arena_take(&m.device, passed);
        if (m.head.type == MSG_BESIDE && (size_t)n >= sizeof(m.device))
            beside_take(&m.device, passed);
        if (passed >= 0)
            close(passed);
    }
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        socket_leave();
}

static void reconnect(void)
{
    static uint64_t tried;
    uint64_t now = clock_ns();
    int r;

    if (dump_away()) {
        tried = now - RETRY_NS; /* afterwards at once */
        return;
    }
    if (!getenv("MUSTER_GPU_SOCKET") || now - tried < RETRY_NS)
        return;
    tried = now;
    r = helper_register();
    if (r == -EAGAIN)
        tried = now - RETRY_NS + CROWD_NS;
    if (r < 0 && r != -EINPROGRESS)
        return;
    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i))
            helper_device(i);
}

/* Evicted, and nobody keeps us so any more: come home. */
static void orphan_look(void)
{
    if (shim.page->health.state == STATE_EVICTED && !dump_lasts() && gate_rule().gate != GATE_CLOSED)
        (void)evict_reload(clock_ns() + 10 * NSEC_SEC);
}

static bool background(void)
{
    bool more = false;

    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i))
            more |= stock_fill(i);
    more |= evict_prepare();
    return more;
}

static void turn(void)
{
    static uint64_t slow;
    struct pollfd p = { .fd = atomic_load(&sock), .events = POLLIN };
    uint64_t now = clock_ns();
    bool busy = false;

    if (rg_wants_poll() || warm_wanted()) {
        if (rg_wants_poll()) {
            rg_poll();
            nap_ns(50 * NSEC_USEC);
        } else {
            warm_turn();
        }
        if (now - slow < 5 * NSEC_MSEC)
            return;
    } else {
        busy = shim.page->health.state == STATE_RUNNING && !capture_forbids() && background();
    }
    slow = now;
    shim.page->health.beat_ns = now;
    shim.page->health.slice_groups = slice_groups();
    shim.page->health.substitutions = resolve_substitutions();
    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i)) {
            mem_context_learn(i);
            mem_graph_look(i);
            mem_hole_tell(i);
        }
    if (p.fd >= 0) {
        if (poll(&p, 1, busy || rg_wants_poll() || warm_wanted() ? 0 : warm_paired() ? 1 : 5) > 0)
            socket_look(p.fd);
    } else {
        nap_ns(5 * NSEC_MSEC);
        reconnect();
    }
    host_look(now);
    commands_look();
    later_look();
    orphan_look();
    step_poll();
    if (now - arenas_asked > NSEC_SEC) {
        arenas_asked = now;
        inside_tidy();
        capture_tidy();
        python_try();
    }
}

static void *helper_main(void *arg)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)arg;
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* 50 us naps are to be 50 us */
    shim_thread.depth = 1;                                 /* whatever the helper calls is the driver's own */
    shim_thread.depth_at = UINTPTR_MAX;
    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i)) {
            (void)REAL(cuCtxSetCurrent)(enter_context_of(i));
            break;
        }
    if (HAVE(cuThreadExchangeStreamCaptureMode)) /* no capture of the program's ends for what is called here */
        (void)REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    while (!atomic_load(&shim.stopping))
        turn();
    atomic_store(&stopped, 1);
    futex_wake(&stopped);
    return NULL;
}

/* Before the driver's own end: the thread must not be inside it by then. */
static void helper_exit(void)
{
    if (!atomic_load(&running))
        return;
    atomic_store(&shim.stopping, 1);
    for (int i = 0; i < 20 && !atomic_load(&stopped); i++)
        futex_wait(&stopped, 0, 50 * NSEC_MSEC);
    for (int i = 0; i < 20 && waiter_inside(); i++)
        nap_ns(50 * NSEC_MSEC);
    atomic_store(&shim.on, SHIM_LEAVING);
}

bool helper_thread(void *(*run)(void *))
{
    const uint64_t all = UINT64_MAX;
    uint64_t old;
    pthread_attr_t attr;
    pthread_t thread;
    bool made;

    signals_set(&all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    made = pthread_create(&thread, &attr, run, NULL) == 0;
    pthread_attr_destroy(&attr);
    signals_set(&old, NULL);
    return made;
}

void helper_start(void)
{
    uint32_t no = 0;

    if (!HAVE(cuCtxSetCurrent) || !atomic_compare_exchange_strong(&running, &no, 1))
        return;
    if (!helper_thread(helper_main)) {
        atomic_store(&running, 0);
        shim_note("the helper thread could not be started");
    } else {
        (void)atexit(helper_exit);
    }
}

void helper_forked(void)
{
    int fd = atomic_exchange(&sock, -1);

    if (fd >= 0)
        close(fd);
    atomic_store(&running, 0);
    waiter_forked();
}
