/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - see file.h. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/gzip.h"

enum { CHUNK = 1 << 16, TEMP_TRIES = 100 };

const char *file_label(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static int fail(struct error *err, const char *label, int code)
{
    char words[128];

    return error_set(err, -code, "%s: %s", label, strerror_r(code, words, sizeof(words)));
}

/* Everything the descriptor gives. The size, where it is known, only saves growing. */
static int drain(int fd, const char *label, struct buf *out, struct error *err)
{
    char *chunk = mem_zalloc(CHUNK, 1);
    ssize_t n = 0;
    int r = 0;

    if (!chunk)
        return fail(err, label, ENOMEM);
    while (out->error == 0) {
        n = read(fd, chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_put(out, chunk, (size_t)n);
    }
    if (n < 0)
        r = fail(err, label, errno);
    else if (out->error == -E2BIG)
        r = error_set(err, -E2BIG, "%s: larger than %zu bytes", label, out->max);
    else if (out->error)
        r = fail(err, label, ENOMEM);
    mem_free(chunk);
    return r;
}

int file_read(const char *path, size_t bytes_max, struct bytes *ret_bytes, struct error *err)
{
    const char *label = file_label(path);
    size_t max = bytes_max ? bytes_max : FILE_BYTES_MAX;
    CLEANUP_BUF struct buf out = BUF_INIT(max);
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return fail(err, label, errno);
    r = drain(fd, label, &out, err);
    if (!is_stdin)
        (void)close(fd);
    if (r < 0)
        return r;
    if (gzip_is(out.data, out.size))
        r = gzip_inflate(out.data, out.size, max, ret_bytes, err);
    else
        r = buf_take(&out, ret_bytes, err);
    return r < 0 ? error_prefix(err, r, "%s", label) : 0;
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

static int write_in_place(const char *path, const void *data, size_t size, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return fail(err, path, errno);
    r = write_all(fd, data, size);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    return r < 0 ? fail(err, path, -r) : 0;
}

/* A new file beside `path`; its name goes to `temp`. Opened with the caller's umask, unlike mkstemp. */
static int temp_open(const char *path, char temp[PATH_MAX])
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        int fd;

        if (snprintf(temp, PATH_MAX, "%s.tmp-%ld-%d", path, (long)getpid(), i) >= PATH_MAX)
            return -ENAMETOOLONG;
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

static int write_renamed(const char *path, const void *data, size_t size, struct error *err)
{
    char temp[PATH_MAX];
    int fd = temp_open(path, temp);
    int r;

    if (fd < 0)
        return fail(err, path, -fd);
    r = write_all(fd, data, size);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temp, path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlink(temp);
    return r < 0 ? fail(err, path, -r) : 0;
}

int file_write_atomic(const char *path, const void *data, size_t size, struct error *err)
{
    char target[PATH_MAX]; /* behind symbolic links, so that a link stays a link */
    struct stat st;
    int r;

    if (strcmp(path, "-") == 0) {
        r = write_all(STDOUT_FILENO, data, size);
        return r < 0 ? fail(err, "standard output", -r) : 0;
    }
    if (stat(path, &st) < 0)
        return write_renamed(path, data, size, err);
    if (!S_ISREG(st.st_mode))
        return write_in_place(path, data, size, err);
    if (!realpath(path, target))
        return fail(err, path, errno);
    return write_renamed(target, data, size, err);
}
