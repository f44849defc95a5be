/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory says after it was damaged: all that was acknowledged, or that it is not all there. Never less
 * without a word. MUSTER_FLIPS=10000 tries more bits; MUSTER_SEED others. */
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

enum { CONTENT = 1 << 20, BATCHES = 24, JOBS = 60, PIECE = 4096 };

static const char *const files[] = { "muster.db", "muster.db-wal", "log-tail", "log-map", "mark" };
enum { FILES = sizeof(files) / sizeof(files[0]) };

/* In place of libc's: what is tried here is not the loss of power. */
int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}

struct ground {
    char top[64], good[80], older[80], work[80];
    char *want, *have; /* what it tells */
    uint64_t random;
};

static uint64_t draw(struct ground *g, uint64_t below)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    return g->random % below;
}

static void batch_put(struct store *store, uint64_t seq, struct store_write *write)
{
    char text[900];
    struct error err = { 0 };

    memset(text, 'a' + (int)(seq % 26), sizeof(text));
    write->seq = seq;
    write->batch = text;
    write->batch_size = 100 + (seq * 137) % 800;
    assert_int_equal(store_commit(store, write, &err), 0);
}

static void jobs_put(struct store *store, int64_t from, int count)
{
    char json[700];

    memset(json, 'j', sizeof(json) - 1);
    json[sizeof(json) - 1] = '\0';
    for (int64_t id = from; id < from + count; id++) {
        struct store_job job = { .id = id, .end = id, .user = "u", .vc = "v", .state = "s", .name = "n", .json = json };

        json[id % 600] = 'k';
        assert_int_equal(store_commit(store, &(struct store_write){ .jobs = &job, .job_count = 1 }, NULL), 0);
    }
}

static void copy_state(const char *from, const char *to);

/* A life: a snapshot, batches in the database and in its write-ahead log, finished jobs, and batches in the tail. A
 * copy of what there is goes to `older` in the middle of it; in the end it is killed. */
static void life(const char *where, const char *older)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct store *store = NULL;
        char *state = calloc(9000, 1);

        assert_int_equal(store_open(where, &store, NULL), 0);
        memset(state, 's', 9000);
        for (uint64_t seq = 1; seq <= BATCHES; seq++) {
            struct store_write write = { 0 };

            if (seq == 8)
                write = (struct store_write){ .snapshot = state, .snapshot_size = 9000, .snapshot_seq = 7 };
            batch_put(store, seq, &write);
            if (seq == 4 || seq == 10 || seq == 14)
                jobs_put(store, (int64_t)seq * 100, JOBS / 3);
            if (seq == 5 || seq == 11)
                store_tidy(store);
            if (seq == 13)
                copy_state(where, older);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Only what is not zero is written: the write-ahead log is mostly room. */
static void copy_file(const char *from, const char *to)
{
    static const char zeros[PIECE];
    char piece[PIECE];
    int in = open(from, O_RDONLY), out;
    off_t at = 0;
    ssize_t n;

    (void)unlink(to);
    if (in < 0)
        return;
    out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(out >= 0);
    for (; (n = read(in, piece, sizeof(piece))) > 0; at += n)
        if (memcmp(piece, zeros, (size_t)n) != 0)
            assert_int_equal(pwrite(out, piece, (size_t)n, at), n);
    assert_int_equal(ftruncate(out, at), 0);
    (void)close(in);
    (void)close(out);
}

static void copy_state(const char *from, const char *to)
{
    char a[160], b[160];

    (void)mkdir(to, 0700);
    for (size_t i = 0; i < FILES; i++) {
        (void)snprintf(a, sizeof(a), "%s/%s", from, files[i]);
        (void)snprintf(b, sizeof(b), "%s/%s", to, files[i]);
        copy_file(a, b);
    }
}

static int hear(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    char *out = arg;
    size_t at = strlen(out);

    (void)err;
    (void)snprintf(out + at, CONTENT - at, "%llu=%.*s\n", (unsigned long long)seq, (int)size, data);
    return 0;
}

static int hear_job(void *arg, const struct store_job *job, struct error *err)
{
    char *out = arg;
    size_t at = strlen(out);

    (void)err;
    (void)snprintf(out + at, CONTENT - at, "%lld %lld %s %s\n", (long long)job->id, (long long)job->end, job->user,
                   job->json);
    return 0;
}

/* All that a store tells; negative: it says that it cannot. */
static int content(const char *where, char *out, struct error *err)
{
    struct store *store = NULL;
    int r = store_open(where, &store, err);

    *out = '\0';
    if (r < 0)
        return r;
    r = store_load(store, hear, hear, out, err);
    if (r == 0)
        r = store_history(store, &(struct store_query){ 0 }, hear_job, out, err);
    if (r == 0)
        r = store_history(store, &(struct store_query){ .user = "u" }, hear_job, out, err);
    store_close(store);
    return r;
}

static void path_of(const struct ground *g, const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", g->work, name);
}

/* A file's bytes up to the last that is not zero: what is behind is room. */
static off_t used_of(const char *path)
{
    char piece[PIECE];
    int fd = open(path, O_RDONLY);
    off_t used = 0, at = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (piece[i])
                used = at + i + 1;
        at += n;
    }
    if (fd >= 0)
        (void)close(fd);
    return used;
}

/* Everything, or words. Returns whether there were words. */
static bool expect_honest(struct ground *g, const char *what)
{
    struct error err = { 0 };
    int r = content(g->work, g->have, &err);

    if (r == 0 && strcmp(g->want, g->have) != 0)
        fail_msg("%s: other content, and not a word of it", what);
    if (r < 0 && (r != -EBADMSG || !err.text[0]))
        fail_msg("%s: %d %s", what, r, err.text);
    return r < 0;
}

static unsigned from_environment(const char *name, unsigned standard)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

static void test_flips(void **state)
{
    struct ground *g = *state;
    unsigned flips = from_environment("MUSTER_FLIPS", 400), told = 0;
    char path[160], what[200];

    for (unsigned i = 0; i < flips; i++) {
        const char *name = files[draw(g, FILES)];
        char byte;
        off_t at;
        int fd, bit;

        copy_state(g->good, g->work);
        path_of(g, name, path, sizeof(path));
        at = used_of(path);
        if (at == 0)
            continue;
        at = (off_t)draw(g, (uint64_t)at);
        bit = (int)draw(g, 8);
        fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (char)(byte ^ 1 << bit);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        (void)close(fd);
        (void)snprintf(what, sizeof(what), "bit %d of byte %lld of %s", bit, (long long)at, name);
        told += expect_honest(g, what);
    }
    print_message("# %u bits, %u of them told of\n", flips, told);
    assert_true(told > flips / 5); /* damage there was */
}

/* The same bit in both files of the tail. */
static void test_both_tails(void **state)
{
    struct ground *g = *state;
    char path[160];

    for (off_t at = 0; at < 1500; at += 7) {
        copy_state(g->good, g->work);
        for (size_t i = 2; i < 4; i++) {
            char byte = 0;
            int fd;

            path_of(g, files[i], path, sizeof(path));
            fd = open(path, O_RDWR);
            if (fd < 0)
                continue; /* there is no second one here */
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            (void)close(fd);
        }
        assert_true(expect_honest(g, "both"));
    }
}

static void test_cut(void **state)
{
    struct ground *g = *state;
    char path[160], what[200];

    for (size_t i = 0; i < FILES; i++)
        for (int n = 0; n < 12; n++) {
            off_t used;

            copy_state(g->good, g->work);
            path_of(g, files[i], path, sizeof(path));
            used = used_of(path);
            if (used == 0)
                continue;
            used = n == 0 ? 0 : (off_t)draw(g, (uint64_t)used);
            assert_int_equal(truncate(path, used), 0);
            (void)snprintf(what, sizeof(what), "%s cut to %lld", files[i], (long long)used);
            if (!expect_honest(g, what) && n == 0)
                assert_true(i >= 3); /* only these two can be missed */
        }
}

static void test_missing(void **state)
{
    struct ground *g = *state;
    char path[160];

    for (size_t i = 0; i < FILES; i++) {
        copy_state(g->good, g->work);
        path_of(g, files[i], path, sizeof(path));
        (void)unlink(path);
        assert_int_equal(expect_honest(g, files[i]), i < 3);
    }
}

/* One file of an older copy among newer ones. */
static void test_older(void **state)
{
    struct ground *g = *state;
    char from[160], to[160];

    for (size_t i = 0; i < FILES; i++) {
        copy_state(g->good, g->work);
        (void)snprintf(from, sizeof(from), "%s/%s", g->older, files[i]);
        path_of(g, files[i], to, sizeof(to));
        copy_file(from, to);
        (void)expect_honest(g, files[i]);
    }
    copy_state(g->good, g->work);
    for (size_t i = 0; i < 2; i++) { /* the database whole, with its write-ahead log */
        (void)snprintf(from, sizeof(from), "%s/%s", g->older, files[i]);
        path_of(g, files[i], to, sizeof(to));
        copy_file(from, to);
    }
    assert_true(expect_honest(g, "older database"));
}

/* Where nothing came after a commit of the database, only the mark knows of it. */
static void test_mark(void **state)
{
    struct ground *g = *state;
    char last[120], path[160], older[160];
    pid_t child;
    int status = 0;

    (void)snprintf(last, sizeof(last), "%s/last", g->top);
    copy_state(g->good, last);
    child = fork();
    if (child == 0) {
        struct store *store = NULL;

        assert_int_equal(store_open(last, &store, NULL), 0);
        jobs_put(store, 5000, 1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int n = 0; n < 3; n++) {
        struct error err = { 0 };

        copy_state(n == 2 ? g->good : last, g->work);
        path_of(g, "muster.db-wal", path, sizeof(path));
        if (n == 0)
            (void)unlink(path);
        else if (n == 1)
            assert_int_equal(truncate(path, 100), 0);
        for (size_t i = 2; n == 2 && i < 4; i++) { /* both files of the tail as they once were */
            (void)snprintf(older, sizeof(older), "%s/%s", g->older, files[i]);
            path_of(g, files[i], path, sizeof(path));
            copy_file(older, path);
        }
        assert_int_equal(content(g->work, g->have, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "missing"));
    }
}

/* A bit in an index changes no row, and hides one. */
static void test_index(void **state)
{
    static const char user[] = "somebody-with-a-name";
    struct ground *g = *state;
    struct store_job job = { .id = 1, .end = 1, .user = user, .vc = "v", .state = "s", .name = "n", .json = "{}" };
    struct store *store = NULL;
    char plain[120], path[160], *data = calloc(1, CONTENT), *at = data;
    int fd, found = 0;
    ssize_t size;

    (void)snprintf(plain, sizeof(plain), "%s/plain", g->top);
    assert_int_equal(store_open(plain, &store, NULL), 0);
    assert_int_equal(store_commit(store, &(struct store_write){ .jobs = &job, .job_count = 1 }, NULL), 0);
    store_close(store);
    (void)snprintf(path, sizeof(path), "%s/muster.db", plain);
    fd = open(path, O_RDWR);
    size = read(fd, data, CONTENT);
    assert_true(size > 0 && size < CONTENT);
    for (; (at = memmem(at, (size_t)(data + size - at), user, sizeof(user) - 1)); at++, found++) {
        struct error err = { 0 };
        char wrong = 'S';
        int r;

        assert_int_equal(pwrite(fd, &wrong, 1, at - data), 1);
        r = store_open(plain, &store, &err);
        g->have[0] = '\0';
        if (r == 0) {
            r = store_history(store, &(struct store_query){ .user = user }, hear_job, g->have, &err);
            store_close(store);
        }
        if (r == 0)
            assert_non_null(strstr(g->have, user));
        assert_int_equal(pwrite(fd, user, 1, at - data), 1);
    }
    assert_int_equal(found, 2); /* the row and the index */
    (void)close(fd);
    free(data);
}

/* What is refused is as it was. */
static void test_untouched(void **state)
{
    struct ground *g = *state;
    char path[160], copy[160], command[400];
    struct error err = { 0 };
    struct store *store;

    for (size_t i = 0; i < 2; i++) {
        copy_state(g->good, g->work);
        path_of(g, i ? "log-tail" : "muster.db-wal", path, sizeof(path));
        assert_int_equal(truncate(path, 5000), 0);
        (void)snprintf(copy, sizeof(copy), "%s/copy", g->top);
        copy_state(g->work, copy);
        assert_int_equal(store_open(g->work, &store, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "Nothing was changed"));
        (void)snprintf(command, sizeof(command),
                       "for f in muster.db muster.db-wal log-tail mark; do cmp %s/$f %s/$f || exit 1; done", g->work,
                       copy);
        assert_int_equal(system(command), 0);
    }
}

/* Every line of what there is now was there before. */
static bool part_of(const char *have, const char *want)
{
    for (const char *end; (end = strchr(have, '\n')); have = end + 1)
        if (!memmem(want, strlen(want), have, (size_t)(end + 1 - have)))
            return false;
    return true;
}

static void damage_any(struct ground *g)
{
    const char *name = files[draw(g, FILES)];
    char path[160], bytes[64];
    off_t used;
    int fd;

    path_of(g, name, path, sizeof(path));
    used = used_of(path);
    if (used == 0)
        return;
    switch (draw(g, 3)) {
    case 0:
        assert_int_equal(truncate(path, (off_t)draw(g, (uint64_t)used)), 0);
        break;
    case 1:
        (void)unlink(path);
        break;
    default:
        fd = open(path, O_RDWR);
        memset(bytes, (int)draw(g, 256), sizeof(bytes));
        assert_int_equal(pwrite(fd, bytes, sizeof(bytes), (off_t)draw(g, (uint64_t)used)), sizeof(bytes));
        (void)close(fd);
    }
}

/* What a repair makes can be opened, and has nothing that was not there; with a backup of all, it has all. */
static void test_repair(void **state)
{
    struct ground *g = *state;
    unsigned rounds = from_environment("MUSTER_FLIPS", 400) / 8, repaired = 0;
    char backup[160];
    struct error err = { 0 };
    struct store *store;

    copy_state(g->good, g->work);
    (void)snprintf(backup, sizeof(backup), "%s/backup", g->top);
    assert_int_equal(store_open(g->work, &store, &err), 0);
    assert_int_equal(store_backup(store, backup, &err), 0);
    store_close(store);
    for (unsigned i = 0; i < rounds; i++) {
        struct store_fsck how = { .repair = true, .backup = i % 2 ? backup : NULL };
        char command[160];
        int r;

        (void)snprintf(command, sizeof(command), "rm -rf %s", g->work);
        assert_int_equal(system(command), 0);
        copy_state(g->good, g->work);
        damage_any(g);
        if (store_open(g->work, &store, &err) == 0) {
            store_close(store);
            continue;
        }
        r = store_fsck(g->work, &how, &err);
        if (r < 0) {
            assert_null(how.backup); /* there is nothing to begin with */
            assert_int_equal(r, -EBADMSG);
            continue;
        }
        repaired++;
        if (content(g->work, g->have, &err) < 0)
            fail_msg("repaired, and then: %s", err.text);
        assert_true(part_of(g->have, g->want));
        if (how.backup)
            assert_string_equal(g->have, g->want);
    }
    print_message("# %u states, %u repaired\n", rounds, repaired);
    assert_true(repaired > rounds / 4);
}

static int setup(void **state)
{
    struct ground *g = calloc(1, sizeof(*g));

    (void)strcpy(g->top, "/tmp/muster-damage-XXXXXX");
    assert_non_null(mkdtemp(g->top));
    (void)snprintf(g->good, sizeof(g->good), "%s/good", g->top);
    (void)snprintf(g->older, sizeof(g->older), "%s/older", g->top);
    (void)snprintf(g->work, sizeof(g->work), "%s/work", g->top);
    g->random = from_environment("MUSTER_SEED", 1) * 0x9e3779b97f4a7c15ULL;
    g->want = calloc(2, CONTENT);
    g->have = g->want + CONTENT;
    life(g->good, g->older);
    copy_state(g->good, g->work);
    assert_int_equal(content(g->work, g->want, NULL), 0);
    assert_non_null(strstr(g->want, "24="));
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct ground *g = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", g->top);
    assert_int_equal(system(command), 0);
    free(g->want);
    free(g);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flips),   cmocka_unit_test(test_both_tails), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_older),      cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_mark),    cmocka_unit_test(test_index),      cmocka_unit_test(test_repair),
    };

    return cmocka_run_group_tests_name("store_damage", tests, setup, teardown);
}
