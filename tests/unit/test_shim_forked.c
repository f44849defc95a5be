/* SPDX-License-Identifier: Apache-2.0 */
/* A fork while another thread makes the very first call. That call looks for a daemon of MPS in a file, which is a pipe
 * here: nobody writes to it until the child has ended. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MSEC 1000000ULL
#define CALLS 20

static char dir[] = "/tmp/muster-fork-XXXXXX", path[64];
static CUresult first = -1;

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir) || setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1) != 0)
        return 1;
    (void)snprintf(path, sizeof(path), "%s/nvidia-cuda-mps-control.pid", dir);
    return mkfifo(path, 0600);
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir);
}

static void *call(void *arg)
{
    (void)arg;
    first = cuInit(0);
    return NULL;
}

/* Its calls go to the driver at once: what it was forked out of will never end here. */
static int child(void)
{
    uint64_t start = now_ns();
    CUcontext ctx = NULL;

    for (int i = 0; i < CALLS; i++)
        if (cuInit(0) != 0)
            return 1;
    if (cuDevicePrimaryCtxRetain(&ctx, 0) != 0 || cuCtxSetCurrent(ctx) != 0 || fake_calls("cuInit") < CALLS)
        return 2;
    if (stat_of("on") != 0)
        return 3;
    return now_ns() - start < 900 * MSEC ? 0 : 4;
}

static void test_forked(void **state)
{
    pthread_t thread;
    int status = -1, fd = -1;
    pid_t pid;

    (void)state;
    *(void **)&stat_of = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    assert_non_null(stat_of);
    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    /* To write can only be opened what is open to be read: then it is in there. */
    for (int i = 0; i < 10000 && (fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0; i++)
        (void)usleep(1000);
    assert_true(fd >= 0);
    pid = fork();
    if (pid == 0)
        _exit(child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(first, -1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first, 0);
    assert_int_equal(stat_of("on"), 1); /* the parent goes on as ever */
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forked) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
