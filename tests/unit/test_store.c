/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of store promises, asked of each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

static size_t syncs;
static enum { DISK_AS_IT_IS, DISK_CANNOT, DISK_REFUSES } disk; /* whether writes may go past the page cache */

/* In place of libc's, for the store and for SQLite. */
int fdatasync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags)
{
    ssize_t n;

    if (disk == DISK_REFUSES) {
        errno = EINVAL;
        return -1;
    }
    syncs += (flags & RWF_DSYNC) != 0;
    n = pwrite(fd, pieces[0].iov_base, pieces[0].iov_len, at); /* one piece is all there is */
    assert_int_equal(count, 1);
    if (n > 0 && (flags & RWF_DSYNC) && syscall(SYS_fdatasync, fd) < 0)
        return -1;
    return n;
}

int fstatfs(int fd, struct statfs *ret)
{
    int r = (int)syscall(SYS_fstatfs, fd, ret);

    ret->f_type = disk == DISK_CANNOT ? TMPFS_MAGIC : ret->f_type;
    return r;
}

struct ground {
    char directory[64];
    const char *where;
    struct store *store;
};

static void put(struct store *store, uint64_t seq, const char *text)
{
    struct error err = { 0 };
    struct store_write write = { .seq = seq, .batch = text, .batch_size = strlen(text) };

    assert_int_equal(store_commit(store, &write, &err), 0);
}

struct heard {
    char text[4096];
};

static int hear(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct heard *heard = arg;
    size_t at = strlen(heard->text);

    (void)err;
    (void)snprintf(heard->text + at, sizeof(heard->text) - at, "%llu=%.*s ", (unsigned long long)seq, (int)size, data);
    return 0;
}

static void expect_content(struct store *store, const char *text)
{
    struct heard heard = { "" };
    struct error err = { 0 };

    assert_int_equal(store_load(store, hear, hear, &heard, &err), 0);
    assert_string_equal(heard.text, text);
}

static void reopen(struct ground *g)
{
    struct error err = { 0 };

    if (strcmp(g->where, "mem:") == 0)
        return;
    store_close(g->store);
    assert_int_equal(store_open(g->where, &g->store, &err), 0);
}

static void open_again(struct ground *g)
{
    assert_int_equal(store_open(g->where, &g->store, NULL), 0);
}

static int skip_block(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    (void)arg, (void)seq, (void)data, (void)size, (void)err;
    return 0;
}

static int count_block(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    size_t *count = arg;

    *count += 1;
    return skip_block(arg, seq, data, size, err);
}

static void test_batches(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct store_write wrong = { .seq = 5, .batch = "x", .batch_size = 1 };

    expect_content(g->store, "");
    put(g->store, 1, "one");
    put(g->store, 2, "two");
    assert_int_equal(store_commit(g->store, &wrong, &err), -EINVAL);
    reopen(g);
    expect_content(g->store, "1=one 2=two ");
    put(g->store, 3, "three");
    expect_content(g->store, "1=one 2=two 3=three ");
}

static void test_snapshot(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct store_write write = {
        .seq = 3, .batch = "three", .batch_size = 5, .snapshot = "both", .snapshot_size = 4, .snapshot_seq = 2
    };

    put(g->store, 1, "one");
    put(g->store, 2, "two");
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    reopen(g);
    expect_content(g->store, "2=both 3=three ");
    write = (struct store_write){ .snapshot = "all", .snapshot_size = 3, .snapshot_seq = 3 };
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    reopen(g);
    expect_content(g->store, "3=all ");
    put(g->store, 4, "four");
    expect_content(g->store, "3=all 4=four ");
}

static int hear_job(void *arg, const struct store_job *job, struct error *err)
{
    struct heard *heard = arg;
    size_t at = strlen(heard->text);

    (void)err;
    (void)snprintf(heard->text + at, sizeof(heard->text) - at, "%lld:%s:%s ", (long long)job->id, job->user, job->json);
    return 0;
}

static void expect_history(struct store *store, const struct store_query *query, const char *text)
{
    struct heard heard = { "" };
    struct error err = { 0 };

    assert_int_equal(store_history(store, query, hear_job, &heard, &err), 0);
    assert_string_equal(heard.text, text);
}

static void test_history(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct heard heard = { "" };
    struct store_job jobs[3];

    for (int i = 0; i < 3; i++)
        jobs[i] = (struct store_job){ .id = 10 + i,
                                      .end = 100 * (i + 1),
                                      .user = i == 1 ? "bob" : "eve",
                                      .vc = "a",
                                      .state = "COMPLETED",
                                      .name = "n",
                                      .json = "{}" };
    assert_int_equal(store_commit(g->store, &(struct store_write){ .jobs = jobs, .job_count = 3 }, &err), 0);
    reopen(g);
    expect_history(g->store, &(struct store_query){ 0 }, "12:eve:{} 11:bob:{} 10:eve:{} ");
    expect_history(g->store, &(struct store_query){ .user = "eve" }, "12:eve:{} 10:eve:{} ");
    expect_history(g->store, &(struct store_query){ .limit = 1, .before_id = 12 }, "11:bob:{} ");
    expect_history(g->store, &(struct store_query){ .since = 150, .until = 300 }, "11:bob:{} ");
    expect_history(g->store, &(struct store_query){ .state = "FAILED" }, "");
    expect_history(g->store, &(struct store_query){ .state = "FAILED,COMPLETED", .user = "bob" }, "11:bob:{} ");
    expect_history(g->store, &(struct store_query){ .state = "FAILED,COMPLETE,TED" }, "");
    expect_history(g->store, &(struct store_query){ .find = "N", .user = "bob" }, "11:bob:{} ");
    expect_history(g->store, &(struct store_query){ .find = "nn" }, "");
    jobs[0].json = "[1]";
    assert_int_equal(store_commit(g->store, &(struct store_write){ .jobs = jobs, .job_count = 1 }, &err), 0);
    assert_int_equal(store_history_get(g->store, 10, hear_job, &heard, &err), 0);
    assert_string_equal(heard.text, "10:eve:[1] ");
    assert_int_equal(store_history_get(g->store, 99, hear_job, &heard, &err), -ENOENT);
}

static void test_backup(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct store *other = NULL;
    char file[128], directory[128], database[160];

    (void)snprintf(file, sizeof(file), "%s.copy", g->directory);
    (void)snprintf(directory, sizeof(directory), "%s.again", g->directory);
    (void)snprintf(database, sizeof(database), "%s/muster.db", directory);
    put(g->store, 1, "one");
    if (strcmp(g->where, "mem:") == 0) {
        assert_int_equal(store_backup(g->store, file, &err), -ENOTSUP);
        return;
    }
    assert_int_equal(store_backup(g->store, file, &err), 0);
    put(g->store, 2, "two");
    assert_int_equal(store_restore(file, directory, &err), 0);
    assert_int_equal(store_restore(file, directory, &err), -EEXIST);
    assert_int_equal(store_open(directory, &other, &err), 0);
    expect_content(other, "1=one ");
    store_close(other);
    assert_int_equal(store_restore("/nonexistent/file", "/nonexistent/dir", &err), -ENOENT);
}

/* Files only: what one in memory cannot show. */
/* Longer than what the log's file takes at once. */
static void test_long(void **state)
{
    struct ground *g = *state;
    size_t size = (size_t)700 * 1000;
    char *text = malloc(size + 1);
    struct store_write write = { .seq = 1, .batch = text, .batch_size = size };
    struct error err = { 0 };

    memset(text, 'x', size);
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    put(g->store, 2, "two");
    reopen(g);
    write = (struct store_write){ .snapshot = "state", .snapshot_size = 5, .snapshot_seq = 1 };
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    expect_content(g->store, "1=state 2=two ");
    free(text);
}

/* One that may be lazy costs no sync, and is there for the next process all the same. */
static void test_lazy(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct store_write write = { .seq = 2, .batch = "two", .batch_size = 3, .lazy = true };
    size_t before;

    put(g->store, 1, "one");
    before = syncs;
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    assert_int_equal(syncs, before);
    assert_int_equal(store_sync(g->store, &err), 0);
    if (strcmp(g->where, "mem:") == 0)
        return;
    assert_int_equal(syncs, before + 1);
    assert_int_equal(store_sync(g->store, &err), 0);
    assert_int_equal(syncs, before + 1); /* nothing is behind */
    put(g->store, 3, "three");
    assert_int_equal(syncs, before + 2);
    /* One with finished jobs goes into the database, which syncs in any case. */
    write.seq = 4;
    write.jobs = &(struct store_job){ .id = 7, .user = "u", .vc = "v", .state = "s", .name = "n", .json = "{}" };
    write.job_count = 1;
    assert_int_equal(store_commit(g->store, &write, &err), 0);
    assert_true(syncs > before + 2); /* two where it begins a round of its log */
    before = syncs;
    assert_int_equal(store_sync(g->store, &err), 0);
    assert_int_equal(syncs, before);
    reopen(g);
    expect_content(g->store, "1=one 2=two 3=three 4=two ");
}

/* Commits lazily in a process that ends without a word; `after`: and one more that is not lazy. */
static void lazy_child(const char *where, uint64_t seq, size_t count, size_t size, const char *after)
{
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        struct store *store = NULL;
        char *text = malloc(size + 1);
        bool well =
            text && store_open(where, &store, NULL) == 0 && store_load(store, skip_block, skip_block, NULL, NULL) == 0;

        for (size_t i = 0; well && i < count; i++) {
            memset(text, 'a' + (int)(i % 26), size);
            well = store_commit(
                       store, &(struct store_write){ .seq = seq + i, .batch = text, .batch_size = size, .lazy = true },
                       NULL) == 0;
        }
        if (well && after)
            well = store_commit(
                       store, &(struct store_write){ .seq = seq + count, .batch = after, .batch_size = strlen(after) },
                       NULL) == 0;
        _exit(well ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void tail_change(const struct ground *g, const char *name, off_t at, const char *bytes, size_t size)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", g->where, name);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 || (errno == ENOENT && strcmp(name, "log-map") == 0)); /* where it cannot be there is none */
    assert_true(fd < 0 || pwrite(fd, bytes, size, at) == (ssize_t)size);
    if (fd >= 0)
        (void)close(fd);
}

/* Batches that wait beside the database are there for the next process, and only those that follow what it has. */
static void test_tail(void **state)
{
    static const char zeros[512];
    struct ground *g = *state;
    struct error err = { 0 };
    size_t count = 0;

    if (strcmp(g->where, "mem:") == 0)
        skip();
    put(g->store, 1, "one");
    store_close(g->store);
    lazy_child(g->where, 2, 3, 2, NULL);
    open_again(g);
    expect_content(g->store, "1=one 2=aa 3=bb 4=cc ");
    put(g->store, 5, "five"); /* takes them along */
    reopen(g);
    expect_content(g->store, "1=one 2=aa 3=bb 4=cc 5=five ");
    store_close(g->store);
    /* A shorter round over a longer one: what is left of that one is no news. */
    lazy_child(g->where, 6, 1, 2, NULL);
    open_again(g);
    expect_content(g->store, "1=one 2=aa 3=bb 4=cc 5=five 6=aa ");
    store_close(g->store);
    /* One whose second sector was not written any more: nobody was told of it. */
    lazy_child(g->where, 7, 2, 400, NULL);
    tail_change(g, "log-tail", 512, zeros, sizeof(zeros));
    tail_change(g, "log-map", 512, zeros, sizeof(zeros));
    open_again(g);
    assert_int_equal(store_load(g->store, skip_block, count_block, &count, NULL), 0);
    assert_int_equal(count, 7);
    /* It does not come back behind another of its length; and what is damaged is not what was not written. */
    store_close(g->store);
    lazy_child(g->where, 8, 1, 2, "end");
    tail_change(g, "log-tail", 70, "x", 1);
    tail_change(g, "log-map", 70, "x", 1);
    assert_int_equal(store_open(g->where, &g->store, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "log-tail: damaged at byte 0"));
    assert_non_null(strstr(err.text, "musterd fsck"));
    assert_int_equal(store_open("mem:", &g->store, &err), 0); /* for the teardown */
}

static void test_tail_plain(void **state)
{
    disk = DISK_CANNOT;
    test_tail(state);
}

static void test_tail_refused(void **state)
{
    disk = DISK_REFUSES;
    test_tail(state);
}

/* Where the machine stops, what was synced is there, with all before it; what `log-map` had may be lost. */
static void test_tail_power(void **state)
{
    struct ground *g = *state;
    char path[300];

    if (strcmp(g->where, "mem:") == 0)
        skip();
    store_close(g->store);
    lazy_child(g->where, 1, 2, 2, "end");
    (void)snprintf(path, sizeof(path), "%s/log-map", g->where);
    assert_true(truncate(path, 0) == 0 || errno == ENOENT); /* where it cannot be there is none */
    open_again(g);
    expect_content(g->store, "1=aa 2=bb 3=end ");
}

/* More than fits beside the database goes into it. */
static void test_tail_long(void **state)
{
    struct ground *g = *state;
    size_t count = 0;

    if (strcmp(g->where, "mem:") == 0)
        skip();
    store_close(g->store);
    lazy_child(g->where, 1, 40, 50000, NULL);
    lazy_child(g->where, 41, 2, 700000, "end");
    open_again(g);
    assert_int_equal(store_load(g->store, skip_block, count_block, &count, NULL), 0);
    assert_int_equal(count, 43);
}

static void test_exclusive(void **state)
{
    struct ground *g = *state;
    struct error err = { 0 };
    struct store *second = NULL;

    if (strcmp(g->where, "mem:") == 0)
        skip();
    assert_int_equal(store_open(g->where, &second, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another controller"));
}

static int open_store(struct ground *g, const char *where)
{
    struct error err = { 0 };

    g->where = where;
    return store_open(where, &g->store, &err);
}

static int setup_mem(void **state)
{
    struct ground *g = calloc(1, sizeof(*g));

    *state = g;
    return open_store(g, "mem:");
}

static int setup_sqlite(void **state)
{
    struct ground *g = calloc(1, sizeof(*g));

    *state = g;
    (void)strcpy(g->directory, "/tmp/muster-store-XXXXXX");
    return mkdtemp(g->directory) ? open_store(g, g->directory) : -1;
}

static int teardown(void **state)
{
    struct ground *g = *state;
    char command[256];

    disk = DISK_AS_IT_IS;
    store_close(g->store);
    if (g->directory[0]) {
        (void)snprintf(command, sizeof(command), "rm -rf %s %s.copy %s.again", g->directory, g->directory,
                       g->directory);
        assert_int_equal(system(command), 0);
    }
    free(g);
    return 0;
}

#define BOTH(test)                                                                                                     \
    { #test " (memory)", test, setup_mem, teardown, NULL },                                                            \
    {                                                                                                                  \
#test " (sqlite)", test, setup_sqlite, teardown, NULL                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_batches),   BOTH(test_snapshot),   BOTH(test_history),      BOTH(test_backup),
        BOTH(test_exclusive), BOTH(test_lazy),       BOTH(test_tail),         BOTH(test_tail_long),
        BOTH(test_long),      BOTH(test_tail_plain), BOTH(test_tail_refused), BOTH(test_tail_power),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
