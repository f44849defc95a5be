/* SPDX-License-Identifier: Apache-2.0 */
/* remains.c - see remains.h. */
#include "agent/shepherd/remains.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "agent/task/cgroup.h"
#include "agent/task/procs.h"
#include "agent/util.h"
#include "io/beneath.h"

enum { PIDS_MAX = 1024 };
static const char note_name[] = "shepherd", gone_name[] = "given-up";

int remains_note(int dir)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %" PRId64 "\n", (int)getpid(), procs_started(getpid()));
    int fd = beneath_open(dir, note_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int r = fd < 0 ? fd : util_write_all(fd, text, (size_t)n);

    if (fd >= 0)
        close(fd);
    if (r < 0)
        return r;
    fd = beneath_open(dir, gone_name, O_PATH, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? -ECANCELED : 0;
}

int remains_give_up(int dir)
{
    int fd = beneath_open(dir, gone_name, O_WRONLY | O_CREAT, 0600);

    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static enum remains pid_kill(pid_t pid, usec_t started)
{
    int fd = pidfd_open(pid, 0);
    usec_t found = fd >= 0 ? procs_started(pid) : 0;
    enum remains left = REMAINS_GONE;

    if (fd < 0)
        return errno == ESRCH ? REMAINS_GONE : REMAINS_RUNS;
    if (found == started) { /* not another one of its number: the descriptor is of this process */
        char state;

        (void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
        state = procs_state(pid);
        left = state == '\0' || state == 'Z' || state == 'X' ? REMAINS_GONE
               : state == 'D'                                ? REMAINS_HANGS
                                                             : REMAINS_RUNS;
    } else if (found == 0 && pidfd_send_signal(fd, 0, NULL, 0) == 0) {
        left = REMAINS_RUNS; /* it exists, and could not be examined */
    }
    close(fd);
    return left;
}

enum remains remains_shepherd(int dir)
{
    CLEANUP_BYTES struct bytes text = { 0 };
    char *end;
    long pid;

    if (util_file_get(dir, note_name, 64, &text, NULL) < 0 || !text.data)
        return REMAINS_GONE;
    pid = strtol(text.data, &end, 10);
    return pid > 1 && pid <= INT32_MAX ? pid_kill((pid_t)pid, strtoll(end, NULL, 10)) : REMAINS_GONE;
}

bool remains_kill(const char *cgroup, const char *mark)
{
    pid_t pids[PIDS_MAX];
    int busy = cgroup[0] ? cgroup_busy(cgroup) : -ENOENT, count;

    if (busy == 0) {
        (void)cgroup_remove(cgroup);
        return true;
    }
    if (busy > 0 && cgroup_kill(cgroup) == 0)
        return false;
    count = busy > 0 ? cgroup_pids(cgroup, pids, PIDS_MAX) : procs_marked(mark, pids, PIDS_MAX);
    for (int i = 0; i < count && i < PIDS_MAX; i++)
        (void)kill(pids[i], SIGKILL);
    return busy < 0 && count == 0;
}
