/* SPDX-License-Identifier: Apache-2.0 */
/* The machine stops, or the disk refuses, at any call: what was acknowledged is there afterwards.
 *
 * A child lives with a store; each of its calls that change a file is written down, in memory that it shares, before it
 * is made. At one of them it ends. From what was written down the disk is made as it may be then: what was synced, and
 * of the rest each sector by chance. MUSTER_CRASHES=1000 tries more, MUSTER_SEED others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

enum { TRACE_BYTES = 64 << 20, NAME_BYTES = 24, SECTOR = 512, FILES_MAX = 8, SEQS = 400, CONTENT = 1 << 20 };

enum call { CALL_WRITE, CALL_CUT, CALL_SYNC, CALL_UNLINK };

struct call_head {
    enum call call;
    char name[NAME_BYTES];
    uint64_t at, size; /* bytes follow; none where they are zeros */
    uint32_t bytes;
};

/* What child and parent share. */
static struct shared {
    size_t used;
    unsigned calls, stop_at;     /* the child ends at that call; 0: never */
    unsigned fail_at, fail_many; /* so many calls from there fail */
    int fail_with;
    uint64_t acked;
    uint32_t attempt[SEQS]; /* by batch: which of those tried under its number was taken */
    int64_t acked_job;
    char trace[];
} * shared;

static bool tracing;
static uint64_t state_of_chance;

static uint64_t draw(uint64_t below)
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return state_of_chance % below;
}

static bool name_of(int fd, char *name)
{
    char link[64], path[512], *slash;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (!slash || !strstr(path, "/muster-power-"))
        return false;
    (void)snprintf(name, NAME_BYTES, "%.23s", slash + 1);
    return true;
}

static bool all_zero(const char *data, size_t size)
{
    return size > 0 && data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

/* Writes a call down; the child may end here. true: the call fails. */
static bool note(enum call call, const char *name, uint64_t at, const void *data, size_t size)
{
    struct call_head head = { .call = call, .at = at, .size = size };

    if (!tracing)
        return false;
    if (++shared->calls == shared->stop_at)
        _exit(0);
    if (shared->fail_at && shared->calls >= shared->fail_at && shared->calls < shared->fail_at + shared->fail_many) {
        errno = shared->fail_with;
        return true;
    }
    memcpy(head.name, name, NAME_BYTES);
    head.bytes = data && !all_zero(data, size) ? (uint32_t)size : 0;
    if (shared->used + sizeof(head) + head.bytes > TRACE_BYTES)
        _exit(3);
    memcpy(shared->trace + shared->used, &head, sizeof(head));
    if (head.bytes)
        memcpy(shared->trace + shared->used + sizeof(head), data, size);
    shared->used += sizeof(head) + head.bytes;
    return false;
}

/* In place of libc's, for the store and for SQLite. */
static ssize_t write_noted(int fd, const void *data, size_t size, off_t at)
{
    char name[NAME_BYTES] = "";

    if (tracing && name_of(fd, name) && note(CALL_WRITE, name, (uint64_t)at, data, size))
        return -1;
    return syscall(SYS_pwrite64, fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return write_noted(fd, data, size, at);
}

/* libc has it under two names, of which our headers take one. */
ssize_t pwrite_plain(int fd, const void *data, size_t size, off_t at) __asm__("pwrite");
ssize_t pwrite_plain(int fd, const void *data, size_t size, off_t at)
{
    return write_noted(fd, data, size, at);
}

static int sync_noted(int fd)
{
    char name[NAME_BYTES] = "";

    if (tracing && name_of(fd, name) && note(CALL_SYNC, name, 0, NULL, 0))
        return -1;
    return 0; /* what is on the real disk is nobody's concern here */
}

int fsync(int fd)
{
    return sync_noted(fd);
}

int fdatasync(int fd)
{
    return sync_noted(fd);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags)
{
    ssize_t n = write_noted(fd, pieces[0].iov_base, pieces[0].iov_len, at);

    assert_int_equal(count, 1);
    if (n > 0 && (flags & RWF_DSYNC) && sync_noted(fd) < 0)
        return -1;
    return n;
}

static int cut_noted(int fd, off_t size)
{
    char name[NAME_BYTES] = "";

    if (tracing && name_of(fd, name) && note(CALL_CUT, name, (uint64_t)size, NULL, 0))
        return -1;
    return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return cut_noted(fd, size);
}

int ftruncate_plain(int fd, off_t size) __asm__("ftruncate");
int ftruncate_plain(int fd, off_t size)
{
    return cut_noted(fd, size);
}

int unlink(const char *path)
{
    char name[NAME_BYTES] = "";
    const char *slash = strrchr(path, '/');

    if (tracing && slash) {
        (void)snprintf(name, sizeof(name), "%.23s", slash + 1);
        if (note(CALL_UNLINK, name, 0, NULL, 0))
            return -1;
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* The life of a child. */

static size_t text_of(char *text, uint64_t seq, uint32_t attempt)
{
    size_t size = 60 + (seq * 379 + attempt * 31) % 1500;

    memset(text, 'a' + (int)((seq + attempt) % 26), size);
    (void)snprintf(text, 40, "batch %llu, try %u ", (unsigned long long)seq, attempt);
    return size;
}

static int one_commit(struct store *store, uint64_t seq, uint32_t attempt)
{
    char text[2048], state[6000], json[400];
    struct store_job job = {
        .id = (int64_t)seq, .end = 1, .user = "u", .vc = "v", .state = "s", .name = "n", .json = json
    };
    struct store_write write = { .seq = seq, .batch = text, .batch_size = text_of(text, seq, attempt) };
    int r;

    memset(json, 'j', sizeof(json) - 1);
    json[sizeof(json) - 1] = '\0';
    memset(state, 's', sizeof(state));
    write.lazy = seq % 5 == 2;
    if (seq % 7 == 0) {
        write.jobs = &job;
        write.job_count = 1;
        write.lazy = false;
    }
    if (seq % 31 == 0) {
        write.snapshot = state;
        write.snapshot_size = sizeof(state);
        write.snapshot_seq = seq - 1;
        write.lazy = false;
    }
    r = store_commit(store, &write, NULL);
    if (r < 0)
        return r;
    shared->attempt[seq] = attempt;
    if (!write.lazy) {
        shared->acked = seq;
        shared->acked_job = write.job_count ? job.id : shared->acked_job;
    } else if (seq % 10 == 2 && store_sync(store, NULL) == 0) {
        shared->acked = seq;
    }
    return 0;
}

static void live(const char *where, uint64_t from, uint64_t to)
{
    struct store *store = NULL;
    uint32_t attempt = 0;
    int r;

    tracing = true;
    if (store_open(where, &store, NULL) < 0)
        _exit(0); /* it could not: the disk refuses */
    for (uint64_t seq = from; seq < to; seq++) {
        r = one_commit(store, seq, ++attempt);
        if (r == -ENOSPC && attempt < SEQS) {
            seq--; /* the same number, with what comes then */
            continue;
        }
        if (r < 0)
            _exit(0); /* as the controller does */
        if (store_due(store))
            store_tidy(store);
    }
    store_close(store);
    _exit(0);
}

static void child_run(const char *where, uint64_t from, uint64_t to)
{
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0)
        live(where, from, to);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The disk afterwards. */

struct file {
    char name[NAME_BYTES];
    char *data;
    size_t size;
    bool there;
};

struct disk {
    struct file files[FILES_MAX];
    size_t count;
};

enum { FILE_BYTES = 8 << 20 };

static struct file *file_of(struct disk *disk, const char *name)
{
    for (size_t i = 0; i < disk->count; i++)
        if (strcmp(disk->files[i].name, name) == 0)
            return &disk->files[i];
    assert_true(disk->count < FILES_MAX);
    disk->files[disk->count] = (struct file){ .data = calloc(1, FILE_BYTES) };
    memcpy(disk->files[disk->count].name, name, NAME_BYTES);
    return &disk->files[disk->count++];
}

static void disk_read(struct disk *disk, const char *where)
{
    static const char names[][NAME_BYTES] = { "muster.db", "muster.db-wal", "log-tail", "log-map", "mark" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct file *file = file_of(disk, names[i]);
        char path[128];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", where, names[i]);
        fd = open(path, O_RDONLY);
        file->there = fd >= 0;
        file->size = fd >= 0 ? (size_t)read(fd, file->data, FILE_BYTES) : 0;
        if (fd >= 0)
            (void)close(fd);
    }
}

static void disk_write(const struct disk *disk, const char *where)
{
    char path[128];

    (void)mkdir(where, 0700);
    for (size_t i = 0; i < disk->count; i++) {
        const struct file *file = &disk->files[i];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%s", where, file->name);
        (void)unlink(path);
        if (!file->there)
            continue;
        fd = open(path, O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0);
        for (size_t at = 0; at < file->size; at += 4096) {
            size_t piece = file->size - at < 4096 ? file->size - at : 4096;

            if (!all_zero(file->data + at, piece))
                assert_int_equal(syscall(SYS_pwrite64, fd, file->data + at, piece, at), piece);
        }
        assert_int_equal(syscall(SYS_ftruncate, fd, file->size), 0);
        (void)close(fd);
    }
}

static void disk_free(struct disk *disk)
{
    for (size_t i = 0; i < disk->count; i++)
        free(disk->files[i].data);
    *disk = (struct disk){ 0 };
}

/* One call reaches the disk; a write sector by sector, each kept with so many chances of four. */
static void apply(struct disk *disk, const struct call_head *head, const char *data, unsigned chances)
{
    struct file *file = file_of(disk, head->name);

    if (head->call == CALL_UNLINK) {
        file->there = chances >= 4 ? false : file->there;
        return;
    }
    if (head->call == CALL_CUT) {
        if (draw(4) < chances)
            file->size = head->at;
        return;
    }
    file->there = true;
    for (uint64_t at = 0; at < head->size;) {
        uint64_t place = head->at + at, piece = SECTOR - place % SECTOR;

        piece = piece < head->size - at ? piece : head->size - at;
        assert_true(place + piece <= FILE_BYTES);
        if (draw(4) < chances) {
            if (head->bytes)
                memcpy(file->data + place, data + at, piece);
            else
                memset(file->data + place, 0, piece);
            file->size = place + piece > file->size ? place + piece : file->size;
        }
        at += piece;
    }
}

/* Whether a later call of the same file syncs it, or (a name) the folder. */
static bool synced_later(size_t from, const struct call_head *what)
{
    for (size_t at = from; at < shared->used;) {
        struct call_head head;

        memcpy(&head, shared->trace + at, sizeof(head));
        if (head.call == CALL_SYNC && (strcmp(head.name, what->name) == 0 || what->call == CALL_UNLINK))
            return true;
        at += sizeof(head) + head.bytes;
    }
    return false;
}

static void trace_apply(struct disk *disk, unsigned chances)
{
    for (size_t at = 0; at < shared->used;) {
        struct call_head head;

        memcpy(&head, shared->trace + at, sizeof(head));
        at += sizeof(head);
        if (head.call != CALL_SYNC)
            apply(disk, &head, shared->trace + at, synced_later(at + head.bytes, &head) ? 4 : chances);
        at += head.bytes;
    }
}

/* Memory that is a file's goes to the disk when the kernel likes. */
static void map_apply(struct disk *disk, const char *where)
{
    struct disk now = { 0 };
    struct file *file = file_of(disk, "log-map"), *other;

    disk_read(&now, where);
    other = file_of(&now, "log-map");
    for (size_t at = 0; at < other->size; at += SECTOR)
        if (draw(2))
            memcpy(file->data + at, other->data + at, SECTOR);
    disk_free(&now);
}

static int hear(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    uint64_t *last = arg;
    char text[2048];

    (void)err;
    if (seq >= SEQS || *last + 1 != seq) {
        fail_msg("batch %llu after %llu", (unsigned long long)seq, (unsigned long long)*last);
        return -EBADMSG;
    }
    if (seq <= shared->acked) {
        assert_int_equal(size, text_of(text, seq, shared->attempt[seq]));
        assert_memory_equal(text, data, size);
    }
    *last = seq;
    return 0;
}

static int hear_snapshot(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    (void)data;
    (void)err;
    assert_int_equal(size, 6000);
    *(uint64_t *)arg = seq;
    return 0;
}

static int hear_job(void *arg, const struct store_job *job, struct error *err)
{
    (void)err;
    *(int64_t *)arg = job->id;
    return 0;
}

/* All that was acknowledged is there, and it goes on. Returns the last batch. */
static uint64_t expect_all(const char *where, const char *what)
{
    struct store *store = NULL;
    struct error err = { 0 };
    uint64_t last = 0;
    int64_t job = 0;

    if (store_open(where, &store, &err) < 0)
        fail_msg("%s: %s", what, err.text);
    assert_int_equal(store_load(store, hear_snapshot, hear, &last, &err), 0);
    if (last < shared->acked)
        fail_msg("%s: the log ends at %llu, %llu was acknowledged", what, (unsigned long long)last,
                 (unsigned long long)shared->acked);
    if (shared->acked_job) {
        assert_int_equal(store_history_get(store, shared->acked_job, hear_job, &job, &err), 0);
        assert_int_equal(job, shared->acked_job);
    }
    assert_int_equal(
        store_commit(store, &(struct store_write){ .seq = last + 1, .batch = "on", .batch_size = 2 }, &err), 0);
    store_close(store);
    return last;
}

struct ground {
    char top[64], base[96], work[96], after[96];
    uint64_t begun; /* batches of `base` */
};

static unsigned from_environment(const char *name, unsigned standard)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

static void shared_reset(const struct ground *g)
{
    for (size_t seq = g->begun + 1; seq < SEQS; seq++)
        shared->attempt[seq] = 0;
    shared->used = shared->calls = shared->stop_at = shared->fail_at = shared->fail_many = 0;
    shared->acked = g->begun;
    shared->acked_job = 0;
}

static void base_copy(const struct ground *g, struct disk *disk)
{
    disk_read(disk, g->base);
    disk_write(disk, g->work);
}

/* How many calls a whole life has. */
static unsigned calls_of(const struct ground *g)
{
    struct disk disk = { 0 };

    base_copy(g, &disk);
    shared_reset(g);
    child_run(g->work, g->begun + 1, g->begun + 80);
    disk_free(&disk);
    return shared->calls;
}

static void test_power(void **state)
{
    struct ground *g = *state;
    unsigned crashes = from_environment("MUSTER_CRASHES", 50), calls = calls_of(g), kept = 0;

    for (unsigned i = 0; i < crashes; i++) {
        unsigned stop = 1 + (unsigned)draw(calls), chances = (unsigned)draw(5);
        struct disk disk = { 0 };
        char what[64];

        base_copy(g, &disk);
        shared_reset(g);
        shared->stop_at = stop;
        child_run(g->work, g->begun + 1, g->begun + 80);
        trace_apply(&disk, chances);
        map_apply(&disk, g->work);
        disk_write(&disk, g->after);
        disk_free(&disk);
        (void)snprintf(what, sizeof(what), "crash %u at call %u of %u, %u of 4", i, stop, calls, chances);
        kept += expect_all(g->after, what) > g->begun;
    }
    print_message("# %u crashes in %u calls, %u with something new\n", crashes, calls, kept);
    assert_true(kept > crashes / 4);
}

/* The disk refuses some calls, or all from one on; afterwards it works again. */
static void test_refusals(void **state)
{
    static const int codes[] = { EIO, ENOSPC };
    struct ground *g = *state;
    unsigned tries = from_environment("MUSTER_CRASHES", 50), calls = calls_of(g), far = 0;

    for (unsigned i = 0; i < tries; i++) {
        struct disk disk = { 0 };
        char what[64];

        base_copy(g, &disk);
        shared_reset(g);
        shared->fail_at = 1 + (unsigned)draw(calls);
        shared->fail_many = draw(3) == 0 ? 1u << 30 : 1 + (unsigned)draw(6);
        shared->fail_with = codes[draw(2)];
        child_run(g->work, g->begun + 1, g->begun + 80);
        disk_free(&disk);
        (void)snprintf(what, sizeof(what), "refusal %u at call %u, %u times %d", i, shared->fail_at, shared->fail_many,
                       shared->fail_with);
        far += expect_all(g->work, what) >= g->begun + 79;
    }
    print_message("# %u lives, %u of them came to their end\n", tries, far);
    assert_true(far > 0 && far < tries);
}

static int setup(void **state)
{
    struct ground *g = calloc(1, sizeof(*g));
    void *block = mmap(NULL, sizeof(*shared) + TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(block != MAP_FAILED);
    shared = block;
    state_of_chance = from_environment("MUSTER_SEED", 1) * 0x9e3779b97f4a7c15ULL;
    (void)strcpy(g->top, "/tmp/muster-power-XXXXXX");
    assert_non_null(mkdtemp(g->top));
    (void)snprintf(g->base, sizeof(g->base), "%s/base", g->top);
    (void)snprintf(g->work, sizeof(g->work), "%s/work", g->top);
    (void)snprintf(g->after, sizeof(g->after), "%s/after", g->top);
    child_run(g->base, 1, 40); /* which ends in order */
    g->begun = 39;
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct ground *g = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", g->top);
    assert_int_equal(system(command), 0);
    (void)munmap(shared, sizeof(*shared) + TRACE_BYTES);
    free(g);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_power), cmocka_unit_test(test_refusals) };

    return cmocka_run_group_tests_name("store_power", tests, setup, teardown);
}
