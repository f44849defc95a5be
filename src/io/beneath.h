/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* beneath.h - work of root in folders that others can write.
 *
 * The rule: root never resolves a path inside a folder that another user can write. Such a folder is opened once, on a
 * way that only root can change; everything inside is reached from that descriptor, without following a link, without
 * leaving the folder, and what was opened is checked by its descriptor. tools/beneath refuses other calls that take
 * paths in the programs of a node.
 *
 * Functions return 0 or a descriptor, else -errno. A path is relative and has no "..".
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Opens what is at the path below `dir`; -ELOOP where a link is on the way or at its end. */
int beneath_open(int dir, const char *path, int flags, mode_t mode);
/* The same for an absolute path, from the root of the file system. */
int beneath_open_absolute(const char *path, int flags);

/* What a descriptor must be: -ENOTDIR or -EINVAL for another kind, -EPERM for another owner or forbidden bits. */
struct beneath_expected {
    mode_t kind; /* S_IFDIR, S_IFREG, ...; 0 = any */
    uid_t owner;
    mode_t without; /* bits of the mode that must not be set */
};
int beneath_check(int fd, const struct beneath_expected *expected);

/* Folders, and descriptors of them: one that must not be there (-EEXIST); one that may be, if it is ours. */
int beneath_dir_new(int dir, const char *name, mode_t mode);
int beneath_dir_ensure(int dir, const char *name, mode_t mode); /* without a descriptor: 0 */
int beneath_dir_make(int dir, const char *name, mode_t mode);
int beneath_dir_path_make(int dir, const char *path,
                          mode_t mode);                      /* each folder of the path; the last one's descriptor */
int beneath_give(int fd, uid_t uid, gid_t gid, mode_t mode); /* the owner last, so that nobody else sets the mode */

/* A whole file: written beside it with this mode, then renamed. With `sync` it is on the disk when this returns. */
struct beneath_content {
    const void *data;
    size_t size;
    mode_t mode;
    bool sync;
};
int beneath_file_put(int dir, const char *name, const struct beneath_content *content);

int beneath_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace);
int beneath_unlink(int dir, const char *name);
int beneath_link_make(int dir, const char *name, const char *target);

/* Removes a folder and all in it; empties one that stays. Both follow no link and stay on the file system. Below a
 * folder of a user they enter only what belongs to the same user, to root or to a subordinate user (subuid(5)): what
 * another user owns was moved there by somebody who could not remove it. It stays, and the call fails with -EPERM. */
int beneath_tree_remove(int dir, const char *name);
int beneath_tree_empty(int fd);                    /* the descriptor stays open; read from its start */
int beneath_dir_remove(int dir, const char *name); /* an empty one */

/* Binds what one descriptor refers to onto what another does. Needs Linux 5.12; -ENOSYS before. */
enum { BENEATH_NOSUID = 1, BENEATH_NODEV = 2, BENEATH_RECURSIVE = 4 };
int beneath_bind(int from, int onto, unsigned int flags);
int beneath_bind_over(int from_dir, const char *name, const char *path, unsigned int flags); /* onto a path of root's */
