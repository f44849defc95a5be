/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c - the end of the lease, kept by a process that does nothing else.
 *
 * Agent and shepherds keep it too. But an agent may be stopped or dead, and a shepherd writes to file systems that may
 * hang. This one opens nothing of a user, looks at the lease once a second, and kills by group whatever still runs a
 * moment after its end, shepherds first: one that is only stopped would start what it was about to. It ends when there
 * is nothing to look after; an agent with tasks and a lease starts it again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/shepherd/forker.h"
#include "agent/shepherd/remains.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "io/beneath.h"

#define HEAD_START (500 * USEC_MSEC) /* of shepherds, which say how it ended */

static const volatile int64_t *lease_map_of(int state)
{
    int fd = beneath_open(state, "lease", O_RDONLY, 0);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static bool only_one(int state)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = beneath_open(state, "watchdog", O_RDWR | O_CREAT, 0600);

    return fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0; /* open until it ends */
}

/* False: something of it is left. */
static bool task_end(int dir)
{
    json_t *plan = util_json_get(dir, "plan.json");
    const char *key = util_env_value(json_object_get(plan, "env"), "MUSTER_TASK_KEY"),
               *cgroup = util_text(plan, "cgroup");
    char mark[300];
    bool gone;

    (void)remains_give_up(dir);
    gone = remains_shepherd(dir) == REMAINS_GONE;
    (void)snprintf(mark, sizeof(mark), "MUSTER_TASK_KEY=%s", key ? key : "");
    if (key || (cgroup && *cgroup))
        gone &= remains_kill(cgroup ? cgroup : "", mark);
    json_decref(plan);
    return gone;
}

static bool folder_has(int dir, const char *name)
{
    int fd = beneath_open(dir, name, O_PATH, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* How many tasks have begun and are not over; with `end` they are killed first. < 0: the folder could not be read. */
static int tasks_each(int tasks, bool end)
{
    int copy = beneath_open(tasks, ".", O_RDONLY | O_DIRECTORY, 0), count = 0;
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;

    if (!list) {
        if (copy >= 0)
            close(copy);
        return -EIO;
    }
    while ((entry = readdir(list))) {
        bool live;
        int dir;

        if (entry->d_name[0] == '.')
            continue;
        dir = beneath_open(tasks, entry->d_name, O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0) {
            count += dir != -ENOENT && dir != -ENOTDIR && dir != -ELOOP; /* perhaps a live task: look again */
            continue;
        }
        live = folder_has(dir, "plan.json") && !folder_has(dir, "exit.json");
        count += live && (!end || !task_end(dir)); /* that it ended the next agent says */
        close(dir);
    }
    (void)closedir(list);
    return count;
}

int watchdog_run(int state, int tasks)
{
    const volatile int64_t *lease = only_one(state) ? lease_map_of(state) : NULL;

    if (!lease)
        return 0; /* another watchdog has the lock; the name is for the one that works */
    (void)prctl(PR_SET_NAME, "muster-watchdog", 0, 0, 0);
    (void)signal(SIGHUP, SIG_IGN);
    for (;;) {
        usec_t until = *lease > 0 ? *lease + HEAD_START : INT64_MAX, now = clock_boot(), nap = USEC_SEC;
        struct timespec span;

        if (tasks_each(tasks, now >= until) == 0)
            break;
        nap = until > now && until - now < nap ? until - now : now >= until ? USEC_SEC / 20 : nap;
        span = (struct timespec){ nap / USEC_SEC, nap % USEC_SEC * 1000 };
        (void)nanosleep(&span, NULL);
    }
    return 0;
}
