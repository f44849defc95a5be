/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { PLACES = 2, PLACE_BYTES = 512, MARK_PATH = 4096 };

struct place {
    uint32_t sum, zero;
    uint64_t count; /* which of both is newer */
    struct mark mark;
};

struct mark_file {
    int fd;
    uint64_t count;
};

static uint32_t place_sum(const struct place *place)
{
    return block_sum(1, &place->count, sizeof(*place) - offsetof(struct place, count));
}

static enum mark_state places_read(int fd, struct place *ret)
{
    enum mark_state state = MARK_DAMAGED;

    *ret = (struct place){ 0 };
    for (int i = 0; i < PLACES; i++) {
        struct place place;

        if (pread(fd, &place, sizeof(place), (off_t)i * PLACE_BYTES) == (ssize_t)sizeof(place) &&
            place.sum == place_sum(&place) && place.count > ret->count) {
            *ret = place;
            state = MARK_READ;
        }
    }
    return state;
}

static int file_open(const char *directory, int flags)
{
    char path[MARK_PATH];
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/mark", directory) >= sizeof(path))
        return -ENAMETOOLONG;
    fd = open(path, flags | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

enum mark_state mark_read(const char *directory, struct mark *ret_mark)
{
    int fd = file_open(directory, O_RDONLY);
    enum mark_state state = MARK_NONE;
    struct place place;

    if (fd < 0)
        return fd == -ENOENT ? MARK_NONE : MARK_DAMAGED;
    state = places_read(fd, &place);
    *ret_mark = place.mark;
    (void)close(fd);
    return state;
}

int mark_open(const char *directory, struct mark_file **ret_file, struct error *err)
{
    struct mark_file *file = mem_zalloc(1, sizeof(*file));
    struct place place;

    if (!file)
        return error_set(err, -ENOMEM, "store: no memory");
    file->fd = file_open(directory, O_RDWR | O_CREAT);
    if (file->fd < 0) {
        int r = file->fd;

        mem_free(file);
        return error_set(err, r, "store: %s/mark: %s", directory, strerror(-r));
    }
    (void)places_read(file->fd, &place);
    file->count = place.count;
    *ret_file = file;
    return 0;
}

void mark_close(struct mark_file *file)
{
    if (!file)
        return;
    (void)close(file->fd);
    mem_free(file);
}

void mark_set(struct mark_file *file, const struct mark *mark)
{
    struct place place = { .count = ++file->count, .mark = *mark };

    place.sum = place_sum(&place);
    if (pwrite(file->fd, &place, sizeof(place), (off_t)(file->count % PLACES) * PLACE_BYTES) != (ssize_t)sizeof(place))
        file->count--; /* the other place is whole */
}

void mark_sync(struct mark_file *file)
{
    (void)fdatasync(file->fd);
}
