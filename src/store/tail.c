/* SPDX-License-Identifier: Apache-2.0 */
/* tail.c - see tail.h. The file has one length always, all of it written, so that a sync has nothing else to write.
 *
 * Where it can, a write goes past the page cache and is durable when it returns: for a few hundred bytes the cache, and
 * a sync that looks for them there, cost a fifth more. What is lazy is not written then at all: the batches are in
 * memory that is a file's (`log-map`) and outlives this process, and go with the next that is not. Elsewhere a batch
 * is written to the page cache and synced; a lazy one is left there.
 *
 * The stream of batches is cut into sectors. That of a generation ends with the first sector that is not full, or
 * before the first that is of another generation; the batch that reaches beyond the end was never acknowledged. A
 * sector of `log-tail` that is not whole is damage; one of `log-map` is worth nothing, for it was never promised.
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
#include "store/store_ops.h"

enum { TAIL_BYTES = 512 << 10, TAIL_PATH = 4096, BLOCK = 4096, SECTOR = 512, SECTORS = TAIL_BYTES / SECTOR };

struct sector {
    uint32_t sum; /* of all that follows, at this place */
    uint32_t used;
    uint64_t generation;
    char data[SECTOR - 16];
};

enum { ROOM = sizeof(((struct sector *)NULL)->data), STREAM_BYTES = SECTORS * ROOM };

struct record {
    uint64_t seq, size; /* in this machine's order: the file never leaves it */
    struct digest chain;
};

struct tail {
    int fd;
    char path[TAIL_PATH];
    bool direct;            /* past the page cache, and `sectors` are `log-map` */
    bool mapped;            /* `sectors` are `log-map` */
    bool broken;            /* a write failed, or there is something behind the end: until the next generation */
    struct sector *sectors; /* as in the file up to `written`; whole pages */
    uint64_t generation;
    size_t used;
    size_t written;       /* the file's */
    size_t kept;          /* on the disk */
    pthread_mutex_t lock; /* of the four above: a sync may come from any thread */
    char *stream;         /* read at the start: what `used` bytes of the sectors say; NULL: read them */
    char worn[160];
};

/* All of the file, once. */
static int file_fill(int fd)
{
    static const char zeros[65536];
    off_t size = lseek(fd, 0, SEEK_END);

    if (size >= TAIL_BYTES)
        return 0;
    while (size < TAIL_BYTES) {
        size_t piece = (size_t)(TAIL_BYTES - size) < sizeof(zeros) ? (size_t)(TAIL_BYTES - size) : sizeof(zeros);
        ssize_t n = pwrite(fd, zeros, piece, size);

        if (n != (ssize_t)piece)
            return n < 0 ? -errno : -ENOSPC;
        size += n;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

/* A file of the directory that is whole; its descriptor. */
static int file_open(const char *path, bool make, struct error *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600), r;

    if (fd < 0 && errno == ENOENT)
        return error_set(err, -EBADMSG, "%s is missing: the batches that were only there are lost", path);
    if (fd < 0)
        return error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    if (make)
        store_own(path, fd);
    if (!make && lseek(fd, 0, SEEK_END) < TAIL_BYTES)
        r = error_set(err, -EBADMSG, "%s was cut to %lld of %d bytes: the batches behind are lost", path,
                      (long long)lseek(fd, 0, SEEK_END), TAIL_BYTES);
    else
        r = file_fill(fd) < 0 ? error_set(err, -errno, "store: %s: %s", path, strerror(errno)) : 0;
    if (r == 0)
        return fd;
    (void)close(fd);
    return r;
}

static struct sector *pages_new(int fd)
{
    void *pages =
        mmap(NULL, TAIL_BYTES, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

static void pages_free(struct sector *pages)
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
    char path[TAIL_PATH + 16];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/log-map", directory);
    fd = in_place(tail->fd) ? file_open(path, true, NULL) : -1;
    if (fd >= 0) {
        tail->sectors = pages_new(fd);
        (void)close(fd);
        tail->mapped = tail->sectors != NULL;
        tail->direct = tail->mapped && direct_set(tail->fd, true);
    }
    if (!tail->sectors)
        tail->sectors = pages_new(-1);
}

/* A name in it that is lost takes the file with it. */
static int directory_sync(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;

    if (fd >= 0)
        (void)close(fd);
    return r;
}

int tail_open(const char *directory, bool make, struct tail **ret_tail, struct error *err)
{
    struct tail *tail = mem_zalloc(1, sizeof(*tail));
    int r = 0;

    if (!tail)
        return error_set(err, -ENOMEM, "store: no memory");
    (void)pthread_mutex_init(&tail->lock, NULL);
    tail->fd = -1;
    if ((size_t)snprintf(tail->path, sizeof(tail->path), "%s/log-tail", directory) >= sizeof(tail->path))
        r = error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    if (r == 0)
        r = tail->fd = file_open(tail->path, make, err);
    if (r >= 0) {
        pages_open(tail, directory);
        r = tail->sectors ? directory_sync(directory) : -ENOMEM;
        if (r < 0)
            (void)error_set(err, r, "store: %s: %s", directory, strerror(-r));
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
    pages_free(tail->sectors);
    mem_free(tail->stream);
    (void)pthread_mutex_destroy(&tail->lock);
    mem_free(tail);
}

const char *tail_worn(const struct tail *tail)
{
    return tail->worn[0] ? tail->worn : NULL;
}

/* Sectors. */

static uint32_t sector_sum(const struct sector *sector, size_t place)
{
    return block_sum((uint32_t)place, &sector->used, SECTOR - sizeof(sector->sum));
}

enum sector_state { SECTOR_NEVER, SECTOR_WHOLE, SECTOR_DAMAGED };

static enum sector_state sector_look(const struct sector *sector, size_t place)
{
    const char *bytes = (const char *)sector;

    if (sector->used <= ROOM && sector->used && sector->sum == sector_sum(sector, place))
        return SECTOR_WHOLE;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, SECTOR - 1) == 0 ? SECTOR_NEVER : SECTOR_DAMAGED;
}

/* `size` bytes at `at` of the stream into their sectors. */
static void stream_put(struct tail *tail, size_t at, const void *data, size_t size)
{
    const char *from = data;

    while (size > 0) {
        struct sector *sector = &tail->sectors[at / ROOM];
        size_t inside = at % ROOM, piece = size < ROOM - inside ? size : ROOM - inside;

        if (inside == 0)
            memset(sector, 0, SECTOR);
        memcpy(sector->data + inside, from, piece);
        sector->used = (uint32_t)(inside + piece);
        at += piece;
        from += piece;
        size -= piece;
    }
}

static void sectors_seal(struct tail *tail, size_t from, size_t end)
{
    for (size_t i = from / ROOM; i * ROOM < end; i++) {
        tail->sectors[i].generation = tail->generation;
        tail->sectors[i].sum = sector_sum(&tail->sectors[i], i);
    }
}

/* The stream as it was before `at` + something was put there. */
static void stream_cut(struct tail *tail, size_t at, size_t end)
{
    for (size_t i = at / ROOM; i * ROOM < end; i++) {
        struct sector *sector = &tail->sectors[i];
        size_t used = i * ROOM < at ? at - i * ROOM : 0;

        memset(sector->data + used, 0, ROOM - used);
        sector->used = (uint32_t)used;
        if (used == 0)
            memset(sector, 0, SECTOR);
        else
            sector->sum = sector_sum(sector, i);
    }
}

/* Writing. */

static int whole(ssize_t n, size_t size)
{
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

/* The sectors that hold the stream from `from` to `end`, in whole units. */
static int sectors_write(struct tail *tail, size_t from, size_t end, size_t unit, int flags)
{
    size_t first = from / ROOM * SECTOR / unit * unit;
    size_t last = ((end + ROOM - 1) / ROOM * SECTOR + unit - 1) / unit * unit;
    struct iovec piece = { (char *)tail->sectors + first, last - first };

    if (last == first)
        return 0;
    if (flags)
        return whole(pwritev2(tail->fd, &piece, 1, (off_t)first, flags), piece.iov_len);
    return whole(pwrite(tail->fd, piece.iov_base, piece.iov_len, (off_t)first), piece.iov_len);
}

/* What the file lacks, up to `end`. */
static int file_put(struct tail *tail, size_t end)
{
    int r = sectors_write(tail, tail->written < end ? tail->written : end, end, SECTOR, 0);

    if (r == 0)
        tail->written = end;
    return r;
}

/* The same and a sync in one, in whole blocks. */
static int direct_put(struct tail *tail, size_t end)
{
    int r = sectors_write(tail, tail->kept, end, BLOCK, RWF_DSYNC);

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

/* The write failed, wholly or not: nobody shall find there what was refused. */
static void take_back(struct tail *tail, size_t end)
{
    tail->broken = true;
    stream_cut(tail, tail->used, end);
    tail->written = tail->written < tail->used ? tail->written : tail->used;
    (void)sectors_write(tail, tail->used, end, tail->direct ? BLOCK : SECTOR, tail->direct ? RWF_DSYNC : 0);
}

int tail_add(struct tail *tail, uint64_t seq, const struct digest *chain, const struct store_write *write)
{
    struct record record = { seq, write->batch_size, *chain };
    size_t size = write->batch_size, end;
    int r = 0;

    if (tail->broken || size > STREAM_BYTES - sizeof(record) || tail->used > STREAM_BYTES - sizeof(record) - size)
        return -ENOSPC;
    end = tail->used + sizeof(record) + size;
    (void)pthread_mutex_lock(&tail->lock);
    stream_put(tail, tail->used, &record, sizeof(record));
    stream_put(tail, tail->used + sizeof(record), write->batch, size);
    sectors_seal(tail, tail->used, end);
    if (!write->lazy)
        r = keep(tail, end);
    else if (!tail->direct)
        r = file_put(tail, end);
    if (r == 0)
        tail->used = end;
    else
        take_back(tail, end);
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

void tail_clear(struct tail *tail, uint64_t generation)
{
    (void)pthread_mutex_lock(&tail->lock);
    tail->used = tail->written = tail->kept = 0; /* the next sync is the database's */
    tail->generation = generation;
    tail->broken = false;
    mem_free(take(tail->stream));
    (void)pthread_mutex_unlock(&tail->lock);
}

/* Reading. */

/* What both files have of one place; `m` may be NULL. NULL: damaged, and nothing stands in for it. */
static const struct sector *sector_pick(const struct sector *f, const struct sector *m, size_t place,
                                        uint64_t generation)
{
    enum sector_state in_file = sector_look(f, place);
    bool map = m && sector_look(m, place) == SECTOR_WHOLE;

    if (in_file == SECTOR_DAMAGED)
        return map && m->generation >= generation ? m : NULL;
    if (!map)
        return f;
    if (in_file == SECTOR_NEVER || m->generation > f->generation)
        return m;
    return m->generation == f->generation && m->used > f->used ? m : f;
}

static struct sector *file_read(struct tail *tail, struct error *err)
{
    struct sector *file = pages_new(-1);
    ssize_t n = file ? pread(tail->fd, file, TAIL_BYTES, 0) : -1;

    if (n == TAIL_BYTES)
        return file;
    (void)error_set(err, n < 0 ? -errno : -EBADMSG, "%s: %s", tail->path, n < 0 ? strerror(errno) : "cut short");
    pages_free(file);
    return NULL;
}

/* The stream of a generation into `out`; returns its size. */
static int64_t stream_read(struct tail *tail, const struct sector *file, uint64_t generation, char *out,
                           struct error *err)
{
    int64_t used = 0;
    bool over = false;

    for (size_t i = 0; i < SECTORS; i++) {
        const struct sector *from = sector_pick(&file[i], tail->mapped ? &tail->sectors[i] : NULL, i, generation);

        if (sector_look(&file[i], i) == SECTOR_DAMAGED)
            (void)snprintf(tail->worn, sizeof(tail->worn), "log-tail: damaged at byte %zu, where nothing is lost",
                           i * SECTOR);
        if (from && from->generation > generation)
            return error_set(err, -EBADMSG,
                             "%s goes on from commit %llu of the database, which ends at %llu: commits are lost",
                             tail->path, (unsigned long long)from->generation, (unsigned long long)generation);
        if (over)
            continue;
        if (!from)
            return error_set(err, -EBADMSG, "%s: damaged at byte %zu", tail->path, i * SECTOR);
        over = from->generation != generation || from->used == 0;
        if (over)
            continue;
        memcpy(out + used, from->data, from->used);
        used += from->used;
        over = from->used < ROOM;
    }
    return used;
}

/* One batch of the stream: 1, or 0 where the stream ends, perhaps within it. */
static int stream_next(const char *stream, size_t size, size_t at, struct record *ret)
{
    if (size - at < sizeof(*ret))
        return 0;
    memcpy(ret, stream + at, sizeof(*ret));
    return ret->size <= size - at - sizeof(*ret);
}

static int stream_prove(struct tail *tail, size_t size, struct digester *digester, struct log_place *at,
                        struct error *err)
{
    struct record record;
    struct digest chain;
    size_t done = 0;

    while (stream_next(tail->stream, size, done, &record)) {
        if (record.seq != at->seq + 1)
            return error_set(err, -EBADMSG, "%s: batch %llu comes where %llu should", tail->path,
                             (unsigned long long)record.seq, (unsigned long long)at->seq + 1);
        if (digest_next(digester, &at->chain, record.seq, tail->stream + done + sizeof(record), record.size, &chain) <
            0)
            return error_set(err, -ENOMEM, "store: no memory");
        if (!digest_same(&chain, &record.chain))
            return error_set(err, -EBADMSG, "%s: batch %llu is damaged, or does not belong to this log", tail->path,
                             (unsigned long long)record.seq);
        *at = (struct log_place){ at->generation, record.seq, chain };
        done += sizeof(record) + record.size;
    }
    tail->used = tail->written = tail->kept = done;
    return 0;
}

int tail_load(struct tail *tail, const struct log_place *from, struct digester *digester, struct log_place *ret_end,
              struct error *err)
{
    struct sector *file = file_read(tail, err);
    int64_t size;

    if (!file)
        return -EBADMSG;
    *ret_end = *from;
    tail->broken = true; /* nothing more before the next generation */
    tail->generation = from->generation;
    mem_free(tail->stream);
    tail->stream = mem_zalloc(STREAM_BYTES, 1);
    size = tail->stream ? stream_read(tail, file, from->generation, tail->stream, err)
                        : error_set(err, -ENOMEM, "store: no memory");
    pages_free(file);
    return size < 0 ? (int)size : stream_prove(tail, (size_t)size, digester, ret_end, err);
}

static int stream_each(const char *stream, size_t size, tail_fn fn, void *arg, struct error *err)
{
    struct record record;
    int r = 0;

    for (size_t at = 0; r == 0 && stream_next(stream, size, at, &record); at += sizeof(record) + record.size)
        r = fn(arg, record.seq, &record.chain, stream + at + sizeof(record), record.size, err);
    return r;
}

int tail_each(const struct tail *tail, tail_fn fn, void *arg, struct error *err)
{
    char *stream;
    int r;

    if (tail->stream || tail->used == 0)
        return stream_each(tail->stream, tail->used, fn, arg, err);
    stream = mem_zalloc(tail->used + ROOM, 1);
    if (!stream)
        return error_set(err, -ENOMEM, "store: no memory");
    for (size_t i = 0; i * ROOM < tail->used; i++)
        memcpy(stream + i * ROOM, tail->sectors[i].data, ROOM);
    r = stream_each(stream, tail->used, fn, arg, err);
    mem_free(stream);
    return r;
}

int tail_scrub(struct tail *tail, struct error *err)
{
    struct sector *file;
    int r = 0;

    (void)pthread_mutex_lock(&tail->lock);
    file = file_read(tail, err);
    for (size_t i = 0; file && r == 0 && i < SECTORS; i++) {
        bool mine = !tail->stream && i * ROOM < tail->written;
        bool good = mine ? memcmp(&file[i], &tail->sectors[i], SECTOR) == 0 || (i + 1) * ROOM > tail->written
                         : sector_look(&file[i], i) != SECTOR_DAMAGED;

        if (!good || (mine && sector_look(&file[i], i) != SECTOR_WHOLE))
            r = error_set(err, -EBADMSG, "%s: damaged at byte %zu", tail->path, i * SECTOR);
    }
    (void)pthread_mutex_unlock(&tail->lock);
    if (!file)
        return -EIO;
    pages_free(file);
    return r;
}

/* The stream of the newest generation of a file, with zeros where it is damaged. */
static size_t stream_guess(const struct sector *sectors, char *stream)
{
    uint64_t newest = 0;
    size_t size = 0;

    for (size_t i = 0; i < SECTORS; i++)
        if (sector_look(&sectors[i], i) == SECTOR_WHOLE && sectors[i].generation > newest)
            newest = sectors[i].generation;
    for (size_t i = 0; i < SECTORS; i++) {
        bool whole_one = sector_look(&sectors[i], i) == SECTOR_WHOLE;

        if (whole_one && sectors[i].generation != newest)
            break;
        if (!whole_one && sector_look(&sectors[i], i) == SECTOR_NEVER)
            break;
        memset(stream + size, 0, ROOM);
        if (whole_one)
            memcpy(stream + size, sectors[i].data, sectors[i].used);
        size += whole_one ? sectors[i].used : ROOM;
        if (whole_one && sectors[i].used < ROOM)
            break;
    }
    return size;
}

/* Behind a hole a batch is known by the one that follows it, or by the end. */
static bool looks_like_batch(const char *stream, size_t size, size_t at)
{
    struct record record, next;
    size_t end;

    if (!stream_next(stream, size, at, &record) || record.seq == 0)
        return false;
    end = at + sizeof(record) + record.size;
    if (size - end < sizeof(next))
        return end == size;
    memcpy(&next, stream + end, sizeof(next));
    return next.seq == record.seq + 1;
}

static int file_salvage(const struct sector *sectors, char *stream, tail_fn fn, void *arg, struct error *err)
{
    size_t size = stream_guess(sectors, stream), at = 0;
    struct record record;
    int r = 0;

    while (r == 0 && at < size) {
        if (!looks_like_batch(stream, size, at)) {
            at++;
            continue;
        }
        memcpy(&record, stream + at, sizeof(record));
        at += sizeof(record);
        r = fn(arg, record.seq, &record.chain, stream + at, record.size, err);
        at += record.size;
    }
    return r;
}

int tail_salvage(struct tail *tail, tail_fn fn, void *arg, struct error *err)
{
    struct sector *file = file_read(tail, err);
    char *stream = mem_zalloc(STREAM_BYTES, 1);
    int r = file && stream ? file_salvage(file, stream, fn, arg, err) : -EIO;

    if (r == 0 && tail->mapped)
        r = file_salvage(tail->sectors, stream, fn, arg, err);
    mem_free(stream);
    pages_free(file);
    return r;
}
