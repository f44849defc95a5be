/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_in.c - standard input of processes, where somebody sends it.
 *
 * A named pipe a process, in the directory of the task: an agent that is told to carry input opens it, and sees when
 * nobody reads any more. The shepherd holds it open for writing until the agent says that there is no more, so that the
 * process does not take a pause for the end. When the agent that was carrying goes, so does the input: what was under
 * way is lost, and a process that read on behind a gap would be worse off than one that meets an end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "io/beneath.h"

int shepherd_in_open(struct shepherd *s, struct proc *proc, uint32_t number, int *ret_read)
{
    char name[32];
    int fd;

    (void)snprintf(name, sizeof(name), "in.%u", number);
    (void)beneath_unlink(s->dir, name);
    if (mkfifoat(s->dir, name, 0600) < 0)
        return -errno;
    fd = beneath_open(s->dir, name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    /* The user's own: /dev/stdin is opened anew by those who name it. */
    if (util_flag(s->plan, "owned") &&
        fchown(fd, (uid_t)util_i64(s->plan, "uid", 0), (gid_t)util_i64(s->plan, "gid", 0)) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    proc->in = beneath_open(s->dir, name, O_WRONLY | O_NONBLOCK, 0);
    if (proc->in < 0 || fcntl(fd, F_SETFL, 0) < 0) {
        int r = proc->in < 0 ? proc->in : -errno;

        close(fd);
        return r;
    }
    *ret_read = fd;
    return 0;
}

void shepherd_in_over(struct shepherd *s)
{
    s->input = false;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        if (s->procs[i].in >= 0)
            close(s->procs[i].in);
        s->procs[i].in = -1;
    }
}
