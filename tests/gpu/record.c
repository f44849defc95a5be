/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - writes down the driver calls of a program: names, arguments, results. Preloaded alone, made of the same
 * table and the same routes as the runtime (resolve.c, dlsym.S), and of nothing else of it. RECORD_FILE is where to,
 * RECORD_CALLS how many at most. tests/gpu/condense.py makes a small trace of it, which tests/fakecuda/replay.c plays.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/shim.h"

#define LINE 512

static struct page no_page;
struct shim shim = { .on = SHIM_NOT_STARTED, .page = &no_page, .page_fd = -1 };
TLS struct shim_thread shim_thread;
static int file = -1;
static _Atomic long left;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *nvml_pick(const char *name)
{
    (void)name;
    return NULL;
}

void enter_start(void)
{
    const char *path = getenv("RECORD_FILE"), *calls = getenv("RECORD_CALLS");

    pthread_mutex_lock(&lock);
    (void)resolve_driver(true);
    if (file < 0 && path) {
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        left = calls ? atol(calls) : 200000;
    }
    atomic_store(&shim.on, 1);
    pthread_mutex_unlock(&lock);
}

struct line {
    char text[LINE];
    size_t n;
};

static void put(struct line *line, const void *at, size_t size)
{
    uint64_t value = 0;

    memcpy(&value, at, size < sizeof(value) ? size : sizeof(value));
    if (line->n < LINE - 40)
        line->n += (size_t)snprintf(line->text + line->n, LINE - line->n, " %llx", (unsigned long long)value);
}

/* Where the call gives something, it is behind its first argument. A graph launch configuration lies behind it too. */
static void finish(struct line *line, const char *name, CUresult r, const void *first)
{
    uint64_t out = 0;

    if (first && r == CUDA_SUCCESS &&
        (strstr(name, "Alloc") || strstr(name, "Create") || strstr(name, "Reserve") || strstr(name, "Instantiate") ||
         strstr(name, "Retain")))
        memcpy(&out, *(void *const *)first, sizeof(out));
    line->n += (size_t)snprintf(line->text + line->n, LINE - line->n, " = %d %llx", r, (unsigned long long)out);
    if (first && strstr(name, "LaunchKernelEx")) {
        const struct cuda_launch_config *c = *(const struct cuda_launch_config *const *)first;

        line->n += (size_t)snprintf(line->text + line->n, LINE - line->n, " %x %x %x %llx", c->grid_x, c->grid_y,
                                    c->grid_z, (unsigned long long)(uintptr_t)c->stream);
    }
    if (line->n < LINE - 1)
        line->text[line->n++] = '\n';
    if (file >= 0 && left-- > 0)
        (void)!write(file, line->text, line->n);
}

#define COUNT_(a, b, c, d, e, f, g, h, i, j, k, n, ...) n
#define COUNT(...) COUNT_(__VA_OPT__(__VA_ARGS__, ) 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define P(x) put(&line, &(x), sizeof(x));
#define EACH0()
#define EACH1(a) P(a)
#define EACH2(a, ...) P(a) EACH1(__VA_ARGS__)
#define EACH3(a, ...) P(a) EACH2(__VA_ARGS__)
#define EACH4(a, ...) P(a) EACH3(__VA_ARGS__)
#define EACH5(a, ...) P(a) EACH4(__VA_ARGS__)
#define EACH6(a, ...) P(a) EACH5(__VA_ARGS__)
#define EACH7(a, ...) P(a) EACH6(__VA_ARGS__)
#define EACH8(a, ...) P(a) EACH7(__VA_ARGS__)
#define EACH9(a, ...) P(a) EACH8(__VA_ARGS__)
#define EACH10(a, ...) P(a) EACH9(__VA_ARGS__)
#define EACH11(a, ...) P(a) EACH10(__VA_ARGS__)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define PUT_ALL(...) JOIN(EACH, COUNT(__VA_ARGS__))(__VA_ARGS__)
#define FIRST_(a, ...) &(a)
#define FIRST(...) FIRST_(__VA_OPT__(__VA_ARGS__, ) nothing, nothing)

#define RECORDED(name, params, args)                                                                                   \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct line line = { .text = #name, .n = sizeof(#name) - 1 };                                                  \
        void *nothing = NULL;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        (void)shim_ready();                                                                                            \
        (void)nothing;                                                                                                 \
        if (!HAVE(name))                                                                                               \
            return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                                               \
        PUT_ALL args r = REAL(name) args;                                                                              \
        finish(&line, #name, r, FIRST args);                                                                           \
        return r;                                                                                                      \
    }
/* The look-ups are resolve.c's. */
#define RECORD_ENTRY(name, params, args)
#define RECORD_CONTEXT RECORDED
#define RECORD_MEMORY RECORDED
#define RECORD_POOL RECORDED
#define RECORD_VMM RECORDED
#define RECORD_ARRAY RECORDED
#define RECORD_SHARE RECORDED
#define RECORD_HOST RECORDED
#define RECORD_QUERY RECORDED
#define RECORD_LAUNCH RECORDED
#define RECORD_GRAPH RECORDED
#define RECORD_CAPTURE RECORDED
#define RECORD_COPY RECORDED
#define RECORD_WAIT RECORDED
#define RECORD_EVENT RECORDED
#define HOOK_SPECIAL(name, group, act, params, args) RECORD_##group(name, params, args)
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) RECORD_##group(name, params, args)
#include "shim/hooks.def"

CUresult cuInit(unsigned int flags)
{
    (void)shim_ready();
    return HAVE(cuInit) ? REAL(cuInit)(flags) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}
