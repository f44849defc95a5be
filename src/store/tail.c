/* SPDX-License-Identifier: Apache-2.0 */
/* tail.c - see tail.h. The file has one length always, all of it written, so that a sync has nothing else to write. */
#include "store/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { TAIL_BYTES = 512 << 10, TAIL_PATH = 4096 };

struct record {
    uint64_t seq, size, sum; /* in this machine's order: the file never leaves it */
};

struct tail {
    int fd;
    atomic_bool behind; /* not all of it is on the disk */
    size_t used;
    char bytes[TAIL_BYTES]; /* as in the file, up to `used` */
};

static uint64_t mixed(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ sum >> 29;
}

/* Over the number and the content, eight bytes at a time: a piece of it, or of an older one, does not have it. */
static uint64_t sum_of(uint64_t seq, const char *data, size_t size)
{
    uint64_t sum = mixed(mixed(0, seq), size), word;

    for (; size >= sizeof(word); data += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        sum = mixed(sum, word);
    }
    word = 0;
    memcpy(&word, data, size);
    return mixed(sum, word);
}

/* All of the file, once. */
static int file_fill(int fd)
{
    static const char zeros[65536];
    off_t size = lseek(fd, 0, SEEK_END);

    if (size >= TAIL_BYTES)
        return 0;
    for (off_t at = 0; at < TAIL_BYTES; at += (off_t)sizeof(zeros)) {
        ssize_t n = pwrite(fd, zeros, sizeof(zeros), at);

        if (n != (ssize_t)sizeof(zeros))
            return n < 0 ? -errno : -ENOSPC;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int tail_open(const char *directory, struct tail **ret_tail, struct error *err)
{
    struct tail *tail = mem_zalloc(1, sizeof(*tail));
    char path[TAIL_PATH];
    int r = 0;

    if (!tail)
        return error_set(err, -ENOMEM, "store: no memory");
    tail->fd = -1;
    if ((size_t)snprintf(path, sizeof(path), "%s/tail", directory) >= sizeof(path))
        r = error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    else
        tail->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (r == 0 && tail->fd < 0)
        r = error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    if (r == 0) {
        r = file_fill(tail->fd);
        if (r < 0)
            (void)error_set(err, r, "store: %s: %s", path, strerror(-r));
    }
    if (r < 0)
        tail_close(tail);
    else
        *ret_tail = tail;
    return r;
}

void tail_close(struct tail *tail)
{
    if (!tail)
        return;
    if (tail->fd >= 0)
        (void)close(tail->fd);
    mem_free(tail);
}

int tail_add(struct tail *tail, uint64_t seq, const char *data, size_t size, bool lazy)
{
    struct record record = { seq, size, 0 };
    char *at = tail->bytes + tail->used;
    ssize_t n;

    if (size > TAIL_BYTES - sizeof(record) || tail->used > TAIL_BYTES - sizeof(record) - size)
        return -ENOSPC;
    record.sum = sum_of(seq, data, size);
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), data, size);
    size += sizeof(record);
    n = pwrite(tail->fd, at, size, (off_t)tail->used);
    if (n != (ssize_t)size)
        return n < 0 ? -errno : -EIO;
    atomic_store(&tail->behind, true);
    if (!lazy && tail_sync(tail) < 0)
        return -EIO;
    tail->used += size;
    return 0;
}

int tail_sync(struct tail *tail)
{
    int r = atomic_exchange(&tail->behind, false) && fdatasync(tail->fd) < 0 ? -errno : 0;

    if (r < 0)
        atomic_store(&tail->behind, true);
    return r;
}

/* The record at `at`, if it is whole and the one that follows `seq`. */
static bool record_at(const struct tail *tail, size_t at, uint64_t seq, struct record *ret)
{
    if (at > TAIL_BYTES - sizeof(*ret))
        return false;
    memcpy(ret, tail->bytes + at, sizeof(*ret));
    at += sizeof(*ret);
    return ret->seq == seq + 1 && ret->size <= TAIL_BYTES - at &&
           ret->sum == sum_of(ret->seq, tail->bytes + at, ret->size);
}

int tail_load(struct tail *tail, uint64_t seq, struct error *err)
{
    struct record record;
    ssize_t n = pread(tail->fd, tail->bytes, TAIL_BYTES, 0);

    if (n < 0)
        return error_set(err, -errno, "store: tail: %s", strerror(errno));
    memset(tail->bytes + n, 0, TAIL_BYTES - (size_t)n);
    tail->used = 0;
    while (record_at(tail, tail->used, seq, &record)) {
        tail->used += sizeof(record) + record.size;
        seq = record.seq;
    }
    return 0;
}

int tail_each(const struct tail *tail, store_batch_fn fn, void *arg, struct error *err)
{
    struct record record;
    int r = 0;

    for (size_t at = 0; r == 0 && at < tail->used; at += sizeof(record) + record.size) {
        memcpy(&record, tail->bytes + at, sizeof(record));
        r = fn(arg, record.seq, tail->bytes + at + sizeof(record), record.size, err);
    }
    return r;
}

void tail_clear(struct tail *tail)
{
    tail->used = 0;
    atomic_store(&tail->behind, false); /* the next sync is the database's */
}
