/* SPDX-License-Identifier: Apache-2.0 */
#include "store/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/page_file.h"

static int head_read(struct db *db, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int r = -EBADMSG;

    if (sqlite3_prepare_v2(db->sql, "SELECT generation, seq, chain, jobs, jobs_sum, in_use FROM head WHERE one = 1", -1,
                           &st, NULL) != SQLITE_OK)
        return db_fail(db, err, "muster.db");
    if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_bytes(st, 2) == DIGEST_BYTES) {
        struct db_head *head = &db->head;

        *head = (struct db_head){ .jobs = sqlite3_column_int64(st, 3),
                                  .jobs_sum = (uint64_t)sqlite3_column_int64(st, 4),
                                  .in_use = sqlite3_column_int(st, 5) != 0 };
        head->end.generation = (uint64_t)sqlite3_column_int64(st, 0);
        head->end.seq = (uint64_t)sqlite3_column_int64(st, 1);
        memcpy(head->end.chain.bytes, sqlite3_column_blob(st, 2), DIGEST_BYTES);
        r = 0;
    } else if (sqlite3_errcode(db->sql) != SQLITE_ROW && sqlite3_errcode(db->sql) != SQLITE_DONE) {
        r = db_fail(db, err, "muster.db");
    } else {
        (void)error_set(err, r, "muster.db: its head is missing");
    }
    sqlite3_finalize(st);
    return r;
}

static void column_digest(sqlite3_stmt *st, int column, struct digest *ret)
{
    *ret = (struct digest){ 0 };
    if (sqlite3_column_bytes(st, column) == DIGEST_BYTES)
        memcpy(ret->bytes, sqlite3_column_blob(st, column), DIGEST_BYTES);
}

/* Where the log begins: behind the snapshot, or where this store did. */
static int snapshot_check(struct db *db, struct log_place *at, struct error *err)
{
    sqlite3_stmt *st = NULL;
    struct digest sum, want;
    int r = 0, step;

    if (sqlite3_prepare_v2(db->sql, "SELECT seq, chain, sum, data FROM snapshot", -1, &st, NULL) != SQLITE_OK)
        return db_fail(db, err, "muster.db: snapshot");
    step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        const void *data = sqlite3_column_blob(st, 3);

        at->seq = (uint64_t)sqlite3_column_int64(st, 0);
        column_digest(st, 1, &at->chain);
        column_digest(st, 2, &want);
        if (digest_snapshot(db->digester, &at->chain, at->seq, data ? data : "", (size_t)sqlite3_column_bytes(st, 3),
                            &sum) < 0)
            r = error_set(err, -ENOMEM, "store: no memory");
        else if (!digest_same(&sum, &want))
            r = error_set(err, -EBADMSG, "muster.db: the snapshot of batch %llu is damaged",
                          (unsigned long long)at->seq);
    } else if (step != SQLITE_DONE) {
        r = db_fail(db, err, "muster.db: snapshot");
    }
    sqlite3_finalize(st);
    return r;
}

/* A batch against the one before it. */
static int batch_check(struct db *db, sqlite3_stmt *st, struct log_place *at, struct error *err)
{
    uint64_t seq = (uint64_t)sqlite3_column_int64(st, 0);
    const void *data = sqlite3_column_blob(st, 2);
    struct digest chain, want;

    column_digest(st, 1, &want);
    if (seq != at->seq + 1)
        return error_set(err, -EBADMSG, "muster.db: batches %llu to %llu are missing", (unsigned long long)at->seq + 1,
                         (unsigned long long)seq - 1);
    if (digest_next(db->digester, &at->chain, seq, data ? data : "", (size_t)sqlite3_column_bytes(st, 2), &chain) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    if (!digest_same(&chain, &want))
        return error_set(err, -EBADMSG, "muster.db: batch %llu is damaged", (unsigned long long)seq);
    at->seq = seq;
    at->chain = want;
    return 0;
}

int check_log(struct db *db, struct error *err)
{
    struct log_place at = { 0 };
    sqlite3_stmt *st = NULL;
    int r = head_read(db, err), step = SQLITE_DONE;

    if (r == 0)
        r = snapshot_check(db, &at, err);
    if (r < 0)
        return r;
    if (sqlite3_prepare_v2(db->sql, "SELECT seq, chain, data FROM log ORDER BY seq", -1, &st, NULL) != SQLITE_OK)
        return db_fail(db, err, "muster.db: log");
    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW)
        r = batch_check(db, st, &at, err);
    if (r == 0 && step != SQLITE_DONE)
        r = db_fail(db, err, "muster.db: log");
    sqlite3_finalize(st);
    if (r < 0)
        return r;
    if (at.seq != db->head.end.seq)
        return error_set(err, -EBADMSG, "muster.db: batches %llu to %llu are missing", (unsigned long long)at.seq + 1,
                         (unsigned long long)db->head.end.seq);
    if (!digest_same(&at.chain, &db->head.end.chain))
        return error_set(err, -EBADMSG, "muster.db: its head does not fit its batches");
    return 0;
}

int check_history(struct db *db, struct error *err)
{
    sqlite3_stmt *st = NULL;
    uint64_t sum = 0;
    int64_t jobs = 0;
    int r = 0, step = SQLITE_DONE;

    if (sqlite3_prepare_v2(db->sql, "SELECT " DB_JOB_COLUMNS " FROM history", -1, &st, NULL) != SQLITE_OK)
        return db_fail(db, err, "muster.db: history");
    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_job job;

        r = db_row_job(db, st, &job, err);
        sum += (uint64_t)sqlite3_column_int64(st, 9);
        jobs++;
    }
    if (r == 0 && step != SQLITE_DONE)
        r = db_fail(db, err, "muster.db: history");
    sqlite3_finalize(st);
    if (r == 0 && (jobs != db->head.jobs || sum != db->head.jobs_sum))
        return error_set(err, -EBADMSG, "muster.db: has the records of %lld finished jobs and should have %lld%s",
                         (long long)jobs, (long long)db->head.jobs,
                         jobs == db->head.jobs ? "; some are older than they should be" : "");
    return r;
}

int check_mark(enum mark_state state, const struct mark *mark, const struct log_place *end, struct error *err)
{
    if (state != MARK_READ)
        return 0;
    if (mark->seq > end->seq)
        return error_set(err, -EBADMSG,
                         "batches %llu to %llu were acknowledged and are missing: the log ends at batch %llu",
                         (unsigned long long)end->seq + 1, (unsigned long long)mark->seq, (unsigned long long)end->seq);
    if (mark->generation > end->generation)
        return error_set(err, -EBADMSG, "muster.db ends at its commit %llu, and was at %llu: finished jobs are missing",
                         (unsigned long long)end->generation, (unsigned long long)mark->generation);
    if (mark->seq == end->seq && !digest_same(&mark->chain, &end->chain))
        return error_set(err, -EBADMSG, "the mark and the log are not of one store, though both end at batch %llu",
                         (unsigned long long)end->seq);
    return 0;
}

/* SQLite's write-ahead log, as its documentation of the format has it. */

enum { WAL_HEAD = 32, FRAME_HEAD = 24 };

struct wal_sum {
    uint32_t a, b;
    bool big;
};

static uint32_t word_at(const unsigned char *at, bool big)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value |= (uint32_t)at[i] << 8 * (big ? 3 - i : i);
    return value;
}

static void sum_add(struct wal_sum *sum, const unsigned char *data, size_t size)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        sum->a += word_at(data + i, sum->big) + sum->b;
        sum->b += word_at(data + i + 4, sum->big) + sum->a;
    }
}

static bool frame_whole(const unsigned char *frame, const unsigned char *head, struct wal_sum *sum)
{
    sum_add(sum, frame, 8);
    sum_add(sum, frame + FRAME_HEAD, PAGE_BYTES);
    return memcmp(frame + 8, head + 16, 8) == 0 && word_at(frame, true) != 0 && sum->a == word_at(frame + 16, true) &&
           sum->b == word_at(frame + 20, true);
}

void check_wal(const char *path, struct wal_look *ret)
{
    unsigned char head[WAL_HEAD], frame[FRAME_HEAD + PAGE_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct wal_sum sum = { 0 };
    int64_t at = WAL_HEAD;

    *ret = (struct wal_look){ .there = fd >= 0, .damaged_at = -1 };
    if (fd < 0)
        return;
    ret->size = lseek(fd, 0, SEEK_END);
    if (pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head)) {
        sum.big = head[3] & 1;
        sum_add(&sum, head, 24);
        if (sum.a != word_at(head + 24, true) || sum.b != word_at(head + 28, true))
            ret->damaged_at = 0;
    }
    while (ret->damaged_at < 0 && pread(fd, frame, sizeof(frame), at) == (ssize_t)sizeof(frame)) {
        if (!frame_whole(frame, head, &sum)) {
            /* An older round may lie behind the end. One of this round does not. */
            if (memcmp(frame + 8, head + 16, 8) == 0)
                ret->damaged_at = at;
            break;
        }
        at += (int64_t)sizeof(frame);
        if (word_at(frame + 4, true))
            ret->frames = (uint32_t)((at - WAL_HEAD) / (int64_t)sizeof(frame));
    }
    (void)close(fd);
}
