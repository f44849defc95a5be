/* SPDX-License-Identifier: Apache-2.0 */
/* speak.c - a program for tests of the edges: `speak` prints a line by puts; `speak alloc` and `speak launch` say what
 * the driver answered; `speak on` whether the library is active; `speak together` what a thread finds that comes while
 * another makes the first call; `speak fork` and `speak exec` what a child, and a program that is started instead, have
 * of the library: descriptors, whether it is active, whether it is registered. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

static void nothing(const uint64_t *args)
{
    (void)args;
}

static void *first(void *arg)
{
    (void)arg;
    (void)cuInit(0);
    return NULL;
}

static int together(void)
{
    uint64_t (*stat)(const char *) = NULL;
    pthread_t thread;
    CUcontext ctx;

    if (pthread_create(&thread, NULL, first, NULL))
        return 1;
    (void)usleep(10000);
    if (cuDevicePrimaryCtxRetain(&ctx, 0))
        return 1;
    *(void **)&stat = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    (void)printf("%llu\n", stat ? (unsigned long long)stat("on") : 99ull);
    return pthread_join(thread, NULL);
}

/* Pages and sockets that are open here. */
static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int n = 0;

    while (dir && (entry = readdir(dir))) {
        char path[300], to[300] = "";

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, to, sizeof(to) - 1) > 0)
            n += strstr(to, "muster-") != NULL || strncmp(to, "socket:", 7) == 0;
    }
    if (dir)
        (void)closedir(dir);
    return n;
}

static int tell(uint64_t (*stat)(const char *), int before)
{
    (void)printf("%d %llu %llu\n", before, (unsigned long long)stat("on"), (unsigned long long)stat("registered"));
    return fflush(stdout);
}

/* A welcome may come later than the first call returns. */
static void settle(uint64_t (*stat)(const char *))
{
    for (int i = 0; i < 1000 && !stat("registered"); i++)
        (void)usleep(10000);
}

static int child(uint64_t (*stat)(const char *))
{
    pid_t pid = fork();
    int status = 1;

    if (pid == 0)
        _exit(tell(stat, descriptors()));
    return pid < 0 || waitpid(pid, &status, 0) != pid || status || tell(stat, descriptors() >= 2);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t (*stat)(const char *) = NULL;
    size_t free_bytes = 0, total = 0;
    CUdeviceptr p;
    CUcontext ctx;
    int before = descriptors();

    if (!*what)
        return puts("hello") < 0;
    if (strcmp(what, "together") == 0)
        return together();
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        return 1;
    *(void **)&stat = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    if (!stat && strcmp(what, "launch") != 0) /* that goes without the library */
        return 1;
    if (strcmp(what, "fork") == 0 || strcmp(what, "exec") == 0 || strcmp(what, "started") == 0)
        settle(stat);
    if (strcmp(what, "fork") == 0)
        return child(stat);
    if (strcmp(what, "exec") == 0)
        return execl("/proc/self/exe", argv[0], "started", (char *)NULL);
    if (strcmp(what, "started") == 0)
        return tell(stat, before);
    if (strcmp(what, "on") == 0)
        (void)printf("%llu\n", (unsigned long long)stat("on"));
    else if (strcmp(what, "registered") == 0)
        (void)printf("%llu\n", (unsigned long long)stat("registered"));
    else if (strcmp(what, "alloc") == 0)
        (void)printf("%d\n", cuMemAlloc_v2(&p, 48 << 20));
    else if (strcmp(what, "launch") == 0)
        (void)printf("%d\n",
                     cuLaunchKernel(fake_kernel_register("n", nothing, 0, 0), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    else if (strcmp(what, "lookup") ==
             0) { /* a launch by the driver's look-up: seen by the tool, counted by the library */
        CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                           unsigned int, unsigned int, CUstream, void **, void **) = NULL;

        if (cuGetProcAddress_v2("cuLaunchKernel", (void **)&launch, 12000, 0, NULL) || !launch)
            return 1;
        (void)launch(fake_kernel_register("n", nothing, 0, 0), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        (void)printf("%llu %llu\n", (unsigned long long)fake_calls("tool"), (unsigned long long)stat("launches"));
    } else if (cuMemGetInfo_v2(&free_bytes, &total) == 0)
        (void)printf("%zu\n", total >> 20);
    return 0;
}
