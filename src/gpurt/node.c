/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - the socket: processes register, tools ask. The loop turns every 10 ms while anybody is there. */
#include "gpurt/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "gpurt/control/fraction.h"
#include "gpurt/door.h"
#include "gpurt/grant.h"
#include "shim/channel.h"

#define TURN_MS 10
#define STEP_MS 2 /* while an order is on its way */
#define IDLE_MS 500
#define NODE_BACKLOG 1024
#define NODE_FILES 4096 /* a process may have a guardian as well */
#define FREEZE_NS (10 * 1000000000ULL)
#define WATCHDOG_NS (300 * 1000000000ULL) /* half of what collective watchdogs wait before they end a job */
/* Taking registrations back costs 20 ms a GiB. Leaving any to the driver's checkpoint was no quicker on the whole: with
 * half of 40 GiB it took 0.4 s more to leave and 0.6 s more to come back. */
#define KEEP_PINNED 0

uint64_t node_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

struct client *node_find(struct node *node, pid_t pid)
{
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (node->client[i].fd >= 0 && node->client[i].pid == pid)
            return &node->client[i];
    return NULL;
}

/* ---- processes */

/* The page comes from the job: it must be sealed at its size, or touching it could end us. */
static struct page *page_adopt(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    struct page *page;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size != PAGE_SIZE_BYTES)
        return NULL;
    page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (page->magic != PAGE_MAGIC || page->abi != PAGE_ABI) {
        (void)munmap(page, PAGE_SIZE_BYTES);
        return NULL;
    }
    return page;
}

/* What the cluster has given it, where this node side serves one; else its own word. Outside of all jobs it is no
 * guaranteed one, which would write the pages that the others go by. -EPERM: it takes more memory than it was given. */
_Static_assert((int)GRANT_GUARANTEED == (int)ROLE_GUARANTEED && (int)GRANT_OPPORTUNISTIC == (int)ROLE_OPPORTUNISTIC &&
                   (int)GRANT_NONE == (int)ROLE_NONE,
               "roles have one number");

static int role_find(const struct node *node, const struct ucred *cred, const struct message_hello *hello,
                     struct grant *ret)
{
    struct grant grant;
    int r;

    *ret = (struct grant){ .role = hello->role, .share = hello->share };
    memcpy(ret->job, hello->job, sizeof(ret->job) - 1);
    if (!node->everyone || door_master(cred->uid))
        return 0;
    r = grant_find(node->run_dir, cred->pid, &grant);
    if (r == -ENODATA)
        return 0;
    if (r < 0) {
        ret->role = ret->role == ROLE_GUARANTEED ? ROLE_NONE : ret->role;
        return 0;
    }
    *ret = grant;
    return grant.role >= ROLE_COUNT || (grant.memory && (!hello->memory_bytes || hello->memory_bytes > grant.memory))
               ? -EPERM
               : 0;
}

static bool client_new(struct node *node, int fd, const struct message_hello *hello, int page_fd)
{
    struct message_welcome welcome = { { MSG_WELCOME, sizeof(welcome) }, PAGE_ABI, hello->role, node_now() };
    struct ucred cred = { 0 };
    socklen_t size = sizeof(cred);
    struct client *c = NULL;
    struct grant grant;

    for (int i = 0; i < NODE_CLIENTS && !c; i++)
        if (node->client[i].fd < 0)
            c = &node->client[i];
    if (!c || page_fd < 0 || hello->abi != PAGE_ABI || hello->role >= ROLE_COUNT ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 || !door_takes(node, cred.uid) ||
        role_find(node, &cred, hello, &grant) < 0)
        return false;
    welcome.role = grant.role;
    memset(c, 0, sizeof(*c));
    c->fd = -1;
    c->page = page_adopt(page_fd);
    if (!c->page)
        return false;
    c->pid = cred.pid;
    c->uid = cred.uid;
    c->start_ticks = channel_start_ticks(c->pid); /* the kernel's word: by it the process is stopped, or released */
    if (!c->start_ticks)
        c->start_ticks = hello->start_ticks;
    c->role = grant.role;
    c->mode = hello->mode;
    c->driver_version = hello->driver_version;
    c->capabilities = hello->capabilities;
    c->duty = grant.share < PAGE_PERMILLE ? grant.share : 0;
    c->guardian = c->util = -1;
    c->slice_gain = FRACTION_GAIN;
    c->keep_pinned = node->keep_pinned;
    c->joined = ++node->joined;
    memcpy(c->job, grant.job, sizeof(c->job) - 1);
    memcpy(c->exe, hello->exe, sizeof(c->exe) - 1);
    memcpy(c->version, hello->version, sizeof(c->version) - 1);
    for (int i = 0; i < PAGE_GPUS; i++) {
        c->arena[i] = -1;
        c->limited |= c->page->limit[i].cap_bytes != c->page->limit[i].view_total_bytes; /* by a node side before us */
    }
    c->page->control.lease_until_ns = node_now() + NODE_LEASE_NS;
    c->page->control.self_pid = (uint32_t)c->pid;
    c->fd = fd;
    ladder_adopt(node, c);
    (void)channel_send(fd, &welcome, sizeof(welcome), -1); /* a failure shows as a closed connection */
    return true;
}

static void client_gone(struct node *node, struct client *c)
{
    ladder_gone(node, c);
    close(c->fd);
    if (c->guardian >= 0)
        close(c->guardian);
    hold_end(&c->hold, c->pid, c->start_ticks);
    (void)munmap(c->page, PAGE_SIZE_BYTES);
    memset(c, 0, sizeof(*c));
    c->fd = -1;
}

/* What the opportunistic jobs of a GPU tell the guaranteed one. */
static void beside_make(struct gpu_arena *g)
{
    struct beside *beside = MAP_FAILED;
    char path[64];
    int fd = memfd_create("muster-beside", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g->beside_fd = g->beside_readonly = -1;
    if (fd >= 0 && ftruncate(fd, ARENA_SIZE_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        beside = mmap(NULL, ARENA_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (beside == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return;
    }
    beside->magic = PAGE_MAGIC;
    (void)munmap(beside, ARENA_SIZE_BYTES);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    g->beside_fd = fd;
    g->beside_readonly = open(path, O_RDONLY | O_CLOEXEC);
}

static int arena_get(struct node *node, const uint8_t *uuid, uint64_t total)
{
    int at = -1;
    char path[64];
    struct gpu_arena *g;

    for (int i = 0; i < PAGE_GPUS; i++) {
        if (node->gpu[i].used && memcmp(node->gpu[i].uuid, uuid, 16) == 0)
            return i;
        if (!node->gpu[i].used && at < 0)
            at = i;
    }
    if (at < 0)
        return -1;
    g = &node->gpu[at];
    g->fd = memfd_create("muster-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (g->fd < 0 || ftruncate(g->fd, ARENA_SIZE_BYTES) < 0 || fcntl(g->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -1;
    g->arena = mmap(NULL, ARENA_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
    if (g->arena == MAP_FAILED)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", g->fd);
    g->fd_readonly = open(path, O_RDONLY | O_CLOEXEC);
    beside_make(g);
    g->arena->magic = PAGE_MAGIC;
    g->arena->abi = PAGE_ABI;
    g->arena->size = sizeof(struct arena);
    memcpy(g->uuid, uuid, 16);
    g->total_bytes = total;
    g->loop.slowdown = -1;
    g->used = true;
    return at;
}

/* The arena is the guaranteed job's to write, the other page its neighbours'. */
static void pages_send(const struct gpu_arena *g, const struct client *c, struct message_device *device)
{
    bool guaranteed = c->role == ROLE_GUARANTEED;
    int beside = guaranteed ? g->beside_readonly : g->beside_fd;

    device->head.type = MSG_ARENA;
    (void)channel_send(c->fd, device, sizeof(*device), guaranteed ? g->fd : g->fd_readonly);
    device->head.type = MSG_BESIDE;
    if (beside >= 0 && c->role != ROLE_NONE)
        (void)channel_send(c->fd, device, sizeof(*device), beside);
}

void node_client(struct node *node, struct client *c)
{
    union {
        struct message_head head;
        struct message_device device;
        char bytes[MESSAGE_MAX];
    } m;
    int passed, at;
    ssize_t n;

    while ((n = channel_receive(c->fd, &m, sizeof(m), &passed)) > 0) {
        if (passed >= 0)
            close(passed);
        if ((size_t)n < sizeof(m.device) || m.device.gpu >= PAGE_GPUS)
            continue; /* MSG_DONE, or a message of a later version */
        if (m.head.type == MSG_NEED)
            memory_need(node, c, m.device.gpu, m.device.bytes);
        if (m.head.type != MSG_DEVICE || (at = arena_get(node, m.device.uuid, m.device.bytes)) < 0)
            continue;
        c->arena[m.device.gpu] = at;
        pages_send(&node->gpu[at], c, &m.device);
    }
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        client_gone(node, c);
}

/* ---- connections that have not said what they are */

void node_pending(struct node *node, int slot)
{
    union {
        struct message_head head;
        struct message_hello hello;
        char bytes[MESSAGE_MAX];
    } m;
    static char answer[NODE_TEXT];
    struct error err = { 0 };
    int fd = node->pending[slot], passed, room = 2 * NODE_TEXT;
    ssize_t n = channel_receive(fd, &m, sizeof(m) - 1, &passed);
    bool kept = false;

    node->pending[slot] = -1;
    if (n >= (ssize_t)MESSAGE_HELLO_LEAST && m.head.type == MSG_HELLO) {
        if (n < (ssize_t)sizeof(m.hello)) /* of an older library: what it does not send is empty */
            memset(m.bytes + n, 0, sizeof(m.hello) - (size_t)n);
        kept = client_new(node, fd, &m.hello, passed);
    } else if (n > (ssize_t)sizeof(m.head) && m.head.type == MSG_CONTROL) {
        m.bytes[n] = '\0';
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        node->asking = node->pending_user[slot];
        if (door_asks(node, node->asking, m.bytes + sizeof(m.head), &err) < 0)
            (void)snprintf(answer, sizeof(answer), "error: %s", err.text);
        else
            kept = answer_line(node, fd, m.bytes + sizeof(m.head), answer);
        if (!kept)
            (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (passed >= 0)
        close(passed);
    if (!kept)
        close(fd);
}

static void accept_new(struct node *node)
{
    int fd;

    while ((fd = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        uid_t user = door_user(fd);
        int i;

        for (i = 0; i < NODE_PENDING && node->pending[i] >= 0; i++)
            ;
        if (i == NODE_PENDING || !door_waits(node, user)) {
            close(fd); /* too many strangers at once */
            continue;
        }
        node->pending[i] = fd;
        node->pending_user[i] = user;
    }
}

/* Guardians are polled so that their answers are not waited for; ladder.c reads them. */
static int wait_any(struct node *node, struct pollfd *p, int *ret_clients)
{
    struct pollfd *guardian = p + 1 + NODE_PENDING + NODE_CLIENTS;
    bool busy = false;

    *ret_clients = 0;
    p[0] = (struct pollfd){ .fd = node->listener, .events = POLLIN };
    for (int i = 0; i < NODE_PENDING; i++)
        p[1 + i] = (struct pollfd){ .fd = node->pending[i], .events = POLLIN };
    for (int i = 0; i < NODE_CLIENTS; i++) {
        const struct client *c = &node->client[i];

        p[1 + NODE_PENDING + i] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
        guardian[i] = (struct pollfd){ .fd = c->fd >= 0 ? c->guardian : -1, .events = POLLIN };
        *ret_clients += c->fd >= 0;
        busy |= c->fd >= 0 && c->step != STEP_NONE;
    }
    return poll(p, 1 + NODE_PENDING + 2 * NODE_CLIENTS, *ret_clients ? (busy ? STEP_MS : TURN_MS) : IDLE_MS);
}

static void turn(struct node *node)
{
    static struct pollfd p[1 + NODE_PENDING + 2 * NODE_CLIENTS];
    int clients, n = wait_any(node, p, &clients);

    for (int i = 0; n > 0 && i < NODE_CLIENTS; i++)
        if (p[1 + NODE_PENDING + i].revents && node->client[i].fd >= 0)
            node_client(node, &node->client[i]);
    for (int i = 0; n > 0 && i < NODE_PENDING; i++)
        if (p[1 + i].revents && node->pending[i] >= 0)
            node_pending(node, i);
    if (n > 0 && p[0].revents)
        accept_new(node);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    foreign_turn(node, node_now());
    clocks_turn(node, node_now());
    control_turn(node);
    ladder_orphans(node);
    if (clients)
        node->idle_since_ns = node_now();
    else if (node->idle_exit_ns && node_now() - node->idle_since_ns > node->idle_exit_ns)
        node->stop = true;
}

/* Of several that start at once, one: the lock is this process' as long as it lives, and no child's. */
static bool path_own(const char *path)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
    int fd;

    (void)snprintf(name, sizeof(name), "%s.lock", path);
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* stays open: closing it would give the lock back */
    return fd < 0 || fcntl(fd, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* Every process has a connection of its own, and hundreds may come at once. */
static void files_raise(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= NODE_FILES)
        return;
    files.rlim_cur = files.rlim_max < NODE_FILES ? files.rlim_max : NODE_FILES;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* a limit that stays is told by whoever is refused */
}

static int listen_open(const char *path, bool everyone, struct error *err)
{
    mode_t mode = everyone ? 0666 : 0600;
    struct sockaddr_un addr;
    int fd, r;

    if (channel_address(path, &addr) < 0)
        return error_set(err, -ENAMETOOLONG, "%s: a socket's path has at most %zu characters", path,
                         sizeof(addr.sun_path) - 1);
    if (!path_own(path))
        return error_set(err, -EADDRINUSE, "%s: a node side is running there already", path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
        close(fd);
        return error_set(err, -EADDRINUSE, "%s: a node side is running there already", path);
    }
    (void)unlink(path);
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, mode) < 0 || listen(fd, NODE_BACKLOG) < 0) {
        r = -errno;
        close(fd);
        return error_set(err, r, "%s: %s", path, strerror(-r));
    }
    return fd;
}

void node_empty(struct node *node)
{
    for (int i = 0; i < NODE_CLIENTS; i++)
        node->client[i].fd = -1;
    for (int i = 0; i < NODE_PENDING; i++)
        node->pending[i] = -1;
}

static bool env_off(const char *name)
{
    const char *text = getenv(name);

    return text && strcmp(text, "0") == 0;
}

/* Seconds as ns. */
static uint64_t env_seconds(const char *name, uint64_t other)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) * 1000000000ULL : other;
}

int node_run(const char *socket_path, const char *run_dir, const char *program, unsigned int idle_exit_s,
             struct error *err)
{
    struct node *node = mem_zalloc(1, sizeof(*node));
    const char *eps = getenv("MUSTER_GPU_EPS"), *aim = getenv("MUSTER_GPU_AIM");
    const char *pinned = getenv("MUSTER_GPU_PINNED"), *law = getenv("MUSTER_GPU_LAW");

    if (!node)
        return error_set(err, -ENOMEM, "out of memory");
    (void)signal(SIGPIPE, SIG_IGN);
    files_raise();
    node->everyone = door_everyone();
    node->listener = listen_open(socket_path, node->everyone, err);
    if (node->listener < 0) {
        int r = node->listener;

        mem_free(node);
        return r;
    }
    node->run_dir = run_dir;
    node->eps = eps ? (uint32_t)strtoul(eps, NULL, 10) : SHARE_EPS;
    node->eps = node->eps >= 5 && node->eps <= 100 ? node->eps : SHARE_EPS;
    node->aim = aim ? (uint32_t)strtoul(aim, NULL, 10) : edge_aim(node->eps);
    node->aim = node->aim <= 100 ? node->aim : edge_aim(node->eps);
    node->anchored = !env_off("MUSTER_GPU_BEFORE");
    node->keep_pinned = pinned ? (uint32_t)strtoul(pinned, NULL, 10) : KEEP_PINNED;
    node->keep_pinned = node->keep_pinned <= PAGE_PERMILLE ? node->keep_pinned : KEEP_PINNED;
    node->unruly = unruly_way(getenv("MUSTER_GPU_UNRULY"));
    node->freeze_ns = env_seconds("MUSTER_GPU_FREEZE", FREEZE_NS);
    node->watchdog_ns = env_seconds("MUSTER_GPU_WATCHDOG", WATCHDOG_NS);
    estimate_rates_init(&node->rates);
    node->program = program;
    node->idle_since_ns = node_now();
    node->idle_exit_ns = (uint64_t)idle_exit_s * 1000000000ULL;
    node->law = law && strcmp(law, "duty") == 0 ? PAIR_DUTY : PAIR_GAPS;
    node_empty(node);
    foreign_open(node);
    while (!node->stop)
        turn(node);
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (node->client[i].fd >= 0)
            client_gone(node, &node->client[i]);
    close(node->listener);
    (void)unlink(socket_path);
    foreign_close(node);
    mem_free(node);
    return 0;
}
