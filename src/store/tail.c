/* SPDX-License-Identifier: Apache-2.0 */
/* tail.c - see tail.h. The file has one length always, all of it written, so that a sync has nothing else to write.
 *
 * Where it can, a write goes past the page cache and is durable when it returns: for a few hundred bytes the cache, and
 * a sync that looks for them there, cost a fifth more. What is lazy is not written then at all: the batches are in
 * memory that is a file's (`tail-map`) and outlives this process, and go with the next that is not. Elsewhere a batch
 * is written to the page cache and synced; a lazy one is left there.
 */
#include "store/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"

enum { TAIL_BYTES = 512 << 10, TAIL_PATH = 4096, BLOCK = 4096 };

struct record {
    uint64_t seq, size, sum; /* in this machine's order: the file never leaves it */
};

struct tail {
    int fd;
    bool direct; /* past the page cache, and `bytes` are `tail-map` */
    char *bytes; /* as in the file up to `written`; whole pages */
    size_t used;
    size_t written;       /* the file's */
    size_t kept;          /* on the disk */
    pthread_mutex_t lock; /* of the four above: a sync may come from any thread */
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

/* A file of the directory that is whole; its descriptor. */
static int file_open(const char *directory, const char *name, struct error *err)
{
    char path[TAIL_PATH];
    int fd, r;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
        return error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    r = file_fill(fd);
    if (r == 0)
        return fd;
    (void)close(fd);
    return error_set(err, r, "store: %s: %s", path, strerror(-r));
}

static char *pages_new(int fd)
{
    void *pages =
        mmap(NULL, TAIL_BYTES, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

static void pages_free(char *pages)
{
    if (pages)
        (void)munmap(pages, TAIL_BYTES);
}

/* Whether what is there is written over in its place. Elsewhere that takes new room, and memory that is a file's is no
 * place for what has none: who writes to it is killed. */
static bool in_place(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

static bool direct_set(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

static void pages_open(struct tail *tail, const char *directory)
{
    int fd = in_place(tail->fd) ? file_open(directory, "tail-map", NULL) : -1;

    if (fd >= 0) {
        tail->bytes = pages_new(fd);
        (void)close(fd);
        tail->direct = tail->bytes && direct_set(tail->fd, true);
    }
    if (!tail->bytes)
        tail->bytes = pages_new(-1);
}

int tail_open(const char *directory, struct tail **ret_tail, struct error *err)
{
    struct tail *tail = mem_zalloc(1, sizeof(*tail));
    int r = 0;

    if (!tail)
        return error_set(err, -ENOMEM, "store: no memory");
    (void)pthread_mutex_init(&tail->lock, NULL);
    tail->fd = file_open(directory, "tail", err);
    if (tail->fd < 0) {
        r = tail->fd;
    } else {
        pages_open(tail, directory);
        r = tail->bytes ? 0 : error_set(err, -ENOMEM, "store: no memory");
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
    pages_free(tail->bytes);
    (void)pthread_mutex_destroy(&tail->lock);
    mem_free(tail);
}

static int whole(ssize_t n, size_t size)
{
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

/* What the file lacks, up to `end`. */
static int file_put(struct tail *tail, size_t end)
{
    size_t from = tail->written < end ? tail->written : end;
    int r = whole(pwrite(tail->fd, tail->bytes + from, end - from, (off_t)from), end - from);

    if (r == 0)
        tail->written = end;
    return r;
}

/* The same and a sync in one, in whole blocks. */
static int direct_put(struct tail *tail, size_t end)
{
    size_t from = tail->kept / BLOCK * BLOCK;
    struct iovec piece = { tail->bytes + from, (end + BLOCK - 1) / BLOCK * BLOCK - from };
    int r = whole(pwritev2(tail->fd, &piece, 1, (off_t)from, RWF_DSYNC), piece.iov_len);

    if (r == 0)
        tail->written = tail->kept = end;
    return r;
}

/* All up to `end` is on the disk then. */
static int keep(struct tail *tail, size_t end)
{
    int r = tail->direct ? direct_put(tail, end) : -EINVAL;

    if (r == 0 || (tail->direct && r != -EINVAL && r != -EOPNOTSUPP && r != -ENOSYS))
        return r;
    if (tail->direct) /* it only said that it could */
        tail->direct = !direct_set(tail->fd, false);
    r = file_put(tail, end);
    if (r == 0 && fdatasync(tail->fd) < 0)
        r = -errno;
    if (r == 0)
        tail->kept = end;
    return r;
}

int tail_add(struct tail *tail, uint64_t seq, const char *data, size_t size, bool lazy)
{
    struct record record = { seq, size, 0 };
    char *at = tail->bytes + tail->used;
    int r = 0;

    if (size > TAIL_BYTES - sizeof(record) || tail->used > TAIL_BYTES - sizeof(record) - size)
        return -ENOSPC;
    record.sum = sum_of(seq, data, size);
    size += sizeof(record);
    (void)pthread_mutex_lock(&tail->lock);
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), data, size - sizeof(record));
    if (!lazy)
        r = keep(tail, tail->used + size);
    else if (!tail->direct)
        r = file_put(tail, tail->used + size);
    if (r == 0)
        tail->used += size;
    (void)pthread_mutex_unlock(&tail->lock);
    return r;
}

int tail_sync(struct tail *tail)
{
    int r;

    (void)pthread_mutex_lock(&tail->lock);
    r = tail->kept < tail->used ? keep(tail, tail->used) : 0;
    (void)pthread_mutex_unlock(&tail->lock);
    return r;
}

/* The record at `at`, if it is whole and the one that follows `seq`. */
static bool record_at(const char *bytes, size_t at, uint64_t seq, struct record *ret)
{
    if (at > TAIL_BYTES - sizeof(*ret))
        return false;
    memcpy(ret, bytes + at, sizeof(*ret));
    at += sizeof(*ret);
    return ret->seq == seq + 1 && ret->size <= TAIL_BYTES - at && ret->sum == sum_of(ret->seq, bytes + at, ret->size);
}

/* Each batch is in its place in the file or, lazy, in `bytes`. What is behind the last is no news, and never becomes
 * any: it goes, from the file as well if that is possible. */
static void records_find(struct tail *tail, const char *file, uint64_t seq)
{
    struct record record;
    size_t at = 0;

    for (;; at += sizeof(record) + record.size, seq = record.seq) {
        if (record_at(file, at, seq, &record))
            memcpy(tail->bytes + at, file + at, sizeof(record) + record.size);
        else if (!tail->direct || !record_at(tail->bytes, at, seq, &record))
            break;
    }
    memset(tail->bytes + at, 0, TAIL_BYTES - at);
    tail->used = at;
    tail->written = tail->kept = 0;
    if (keep(tail, TAIL_BYTES) == 0)
        tail->written = tail->kept = at;
}

int tail_load(struct tail *tail, uint64_t seq, struct error *err)
{
    char *file = pages_new(-1);
    int r = 0;

    if (!file)
        return error_set(err, -ENOMEM, "store: no memory");
    if (pread(tail->fd, file, TAIL_BYTES, 0) < 0) {
        r = error_set(err, -errno, "store: tail: %s", strerror(errno));
    } else {
        (void)pthread_mutex_lock(&tail->lock);
        records_find(tail, file, seq);
        (void)pthread_mutex_unlock(&tail->lock);
    }
    pages_free(file);
    return r;
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
    (void)pthread_mutex_lock(&tail->lock);
    tail->used = tail->written = tail->kept = 0; /* the next sync is the database's */
    (void)pthread_mutex_unlock(&tail->lock);
}
