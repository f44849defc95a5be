/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - what the agent says of a machine with a GPU, and whether its fences hold there. agent.sh builds and runs
 * it.
 *
 * Needs root, a driver, unified control groups and a python3 with torch. One line a check; exits 1 when one fails.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/task/cgroup.h"
#include "gpu/gpu.h"

static int failed;

static void check(bool good, const char *what)
{
    (void)printf("%s - %s\n", good ? "ok" : "not ok", what);
    (void)fflush(stdout);
    failed |= !good;
}

/* The status of a shell command inside the group. */
static int inside(const char *group, const char *command)
{
    pid_t child = cgroup_fork(group);
    int status = -1;

    if (child == -ENOSYS) {
        child = fork();
        if (child == 0 && cgroup_enter(group) < 0)
            _exit(9);
    }
    if (child == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(9);
    }
    (void)waitpid(child, &status, 0);
    return status;
}

static void inventory(void)
{
    struct gpus *gpus = NULL;
    struct gpu_sample sample = { 0 };
    struct gpu_health health;
    struct error err = { 0 };

    check(gpus_open_nvml(&gpus, &err) == 0 && gpus->count > 0, "NVML finds GPUs");
    for (uint32_t i = 0; gpus && i < gpus->count; i++) {
        const struct gpu_info *info = &gpus->info[i];
        bool good = gpus->ops->sample(gpus, i, &sample) == 0;

        gpus->ops->health(gpus, i, &health);
        (void)printf("# %u %s %s bus %s minor %d link %u %u MiB; %u MiB used, %u W, %u C, %u processes, %s\n", i,
                     gpus->sku, info->uuid, info->bus, info->minor, info->link, info->memory_mib, sample.memory_mib,
                     sample.power_w, sample.temp, sample.pid_count, health.ok ? "healthy" : health.reason);
        check(good && info->minor >= 0 && info->memory_mib > 0, "it says how it is doing");
    }
    gpus_close(gpus);
}

static void limits(const struct cgroup_tree *tree)
{
    const struct cgroup_limits wanted = { .memory = 256 << 20, .cpus = 1, .pids = 100 };
    char group[CGROUP_PATH_MAX + 16];
    int64_t before, used;

    (void)snprintf(group, sizeof(group), "%s/limits", tree->path);
    check(cgroup_make(group, tree->fences, &wanted, NULL) == 0, "a group with limits");
    (void)inside(group, "python3 -c 'x = bytearray(600 << 20)'");
    check(cgroup_number(group, "memory.events", "oom_kill") > 0, "600 MiB do not fit into 256");
    before = cgroup_number(group, "cpu.stat", "usage_usec");
    (void)inside(group, "for i in 1 2 3; do timeout 2 sh -c 'while :; do :; done' & done; wait");
    used = cgroup_number(group, "cpu.stat", "usage_usec") - before;
    (void)printf("# three busy loops, 2 s, one CPU: %.2f s of CPU\n", (double)used / 1e6);
    check(used < 2500000, "three busy loops have one CPU");
    (void)cgroup_remove(group);
}

static void devices(const struct cgroup_tree *tree)
{
    static const char seen[] = "python3 -c 'import sys, torch; sys.exit(torch.cuda.device_count())'";
    const int first[] = { 0 }, other[] = { 99 };
    struct cgroup_limits wanted = { .fence_gpus = true, .gpu_minors = first, .gpu_count = 1 };
    char group[CGROUP_PATH_MAX + 16];

    (void)snprintf(group, sizeof(group), "%s/mine", tree->path);
    check(cgroup_make(group, tree->fences, &wanted, NULL) == 0 && WEXITSTATUS(inside(group, seen)) == 1,
          "a task sees its GPU");
    (void)cgroup_remove(group);
    wanted.gpu_minors = other;
    (void)snprintf(group, sizeof(group), "%s/others", tree->path);
    check(cgroup_make(group, tree->fences, &wanted, NULL) == 0 && WEXITSTATUS(inside(group, seen)) == 0,
          "and none of another's");
    (void)cgroup_remove(group);
}

int main(void)
{
    struct cgroup_tree tree;

    inventory();
    cgroup_find(NULL, "test", &tree);
    (void)printf("# groups at %s, fences %x %s\n", tree.path, tree.fences, tree.why);
    if (!(tree.fences & FENCE_MEMORY) || !(tree.fences & FENCE_DEVICES)) {
        (void)printf("SKIP limits: %s\n", tree.why);
    } else {
        limits(&tree);
        devices(&tree);
    }
    (void)rmdir(tree.path);
    return failed;
}
