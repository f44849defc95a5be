/* SPDX-License-Identifier: Apache-2.0 */
/* tail_v1.c - the tail as the former version wrote it: batches one after the other in `tail`, those that were lazy
 * perhaps in `tail-map` alone. What does not follow is of an older round, or was cut off. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/tail.h"

enum { V1_BYTES = 512 << 10, V1_PATH = 4096 };

struct v1_record {
    uint64_t seq, size, sum;
};

static uint64_t mixed(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ sum >> 29;
}

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

/* The record at `at`, if it is whole and the one that follows `seq`. */
static bool record_at(const char *bytes, size_t at, uint64_t seq, struct v1_record *ret)
{
    if (at > V1_BYTES - sizeof(*ret))
        return false;
    memcpy(ret, bytes + at, sizeof(*ret));
    at += sizeof(*ret);
    return ret->seq == seq + 1 && ret->size <= V1_BYTES - at && ret->sum == sum_of(ret->seq, bytes + at, ret->size);
}

/* What there is of a file; the rest of `bytes` is zero. */
static int file_read(const char *directory, const char *name, char *bytes, struct error *err)
{
    char path[V1_PATH];
    size_t at = 0;
    ssize_t n = 0;
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
        return error_set(err, -ENAMETOOLONG, "store: %s: the name is too long", directory);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    while (at < V1_BYTES && (n = pread(fd, bytes + at, V1_BYTES - at, (off_t)at)) > 0)
        at += (size_t)n;
    if (n < 0)
        n = error_set(err, -errno, "store: %s: %s", path, strerror(errno));
    (void)close(fd);
    return n < 0 ? (int)n : 0;
}

int tail_v1_each(const char *directory, uint64_t seq, store_batch_fn fn, void *arg, struct error *err)
{
    char *file = mem_zalloc(V1_BYTES, 2), *map = file ? file + V1_BYTES : NULL;
    struct v1_record record;
    int r = file ? 0 : error_set(err, -ENOMEM, "store: no memory");

    if (r == 0)
        r = file_read(directory, "tail", file, err);
    if (r == 0)
        r = file_read(directory, "tail-map", map, err);
    for (size_t at = 0; r == 0; at += sizeof(record) + record.size, seq = record.seq) {
        const char *from = record_at(file, at, seq, &record) ? file : record_at(map, at, seq, &record) ? map : NULL;

        if (!from)
            break;
        r = fn(arg, record.seq, from + at + sizeof(record), record.size, err);
    }
    mem_free(file);
    return r;
}
