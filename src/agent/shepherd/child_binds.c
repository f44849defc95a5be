/* SPDX-License-Identifier: Apache-2.0 */
/* child_binds.c - folders of the node for a container, taken as its user and held fast.
 *
 * A runtime that runs as root opens what it is told by name, with root's rights, some time after we have looked:
 * whoever owns a folder on the way can put a link there meanwhile. So each is opened here, once, with the rights of the
 * user; what was opened is bound to a place that only root can change, in a mount namespace that ends with the process;
 * and that place is what the runtime is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/util.h"
#include "io/beneath.h"

static const char *bind_text(const json_t *bind, size_t which)
{
    const char *text = json_string_value(json_array_get(bind, which));

    return text ? text : "";
}

/* A folder for a folder, a file for anything else. */
static int point_make(int fd, int places, const char *name)
{
    struct stat st;
    int point;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return beneath_open(places, name, O_WRONLY | O_CREAT, 0600);
    point = beneath_dir_make(places, name, 0700);
    return point;
}

/* A device can be asked for, as /dev/infiniband is: its nodes stay devices. */
static int bind_make(const json_t *plan, const json_t *bind, int places)
{
    int fd = user_open(plan, bind_text(bind, 0), O_PATH, 0), point, r;

    if (fd < 0)
        return fd;
    point = point_make(fd, places, bind_text(bind, 1));
    r = point < 0 ? point : beneath_bind(fd, point, BENEATH_NOSUID | BENEATH_RECURSIVE);
    if (point >= 0)
        close(point);
    close(fd);
    return r;
}

/* In the namespace that was made: a mount is put only where that namespace has it. */
static int places_open(const json_t *plan, int dir)
{
    const char *path = util_text(plan, "binds_at");
    int fd = beneath_dir_make(dir, "binds", 0700);

    if (fd < 0)
        return fd;
    close(fd);
    return path ? beneath_open_absolute(path, O_RDONLY | O_DIRECTORY) : -EINVAL;
}

int child_binds(const json_t *plan, int dir, const char **ret_which)
{
    const json_t *binds = json_object_get(plan, "binds"), *bind;
    int places, r;
    size_t i;

    *ret_which = "";
    if (json_array_size(binds) == 0)
        return 0;
    r = child_mounts_begin();
    if (r < 0)
        return r;
    places = places_open(plan, dir);
    r = places < 0 ? places : 0;
    json_array_foreach(binds, i, bind)
    {
        if (r < 0)
            break;
        *ret_which = bind_text(bind, 0);
        r = bind_make(plan, bind, places);
    }
    if (places >= 0)
        close(places);
    return r;
}
