/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c - a state of the former version becomes one of this.
 *
 * A new database is filled from the old one and its tail, and takes its name in one step; until then nothing of the old
 * one has changed, and afterwards it lies beside it as `muster.db.v1`, for the version that wrote it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/page_file.h"
#include "store/store_sqlite.h"

enum { VERSION_BEFORE = 1, SPARE_AT = 20 };

struct upgrade {
    const char *directory;
    char path[DB_PATH];
    sqlite3 *old;
    struct db made;
};

/* Whether there is a database, and its pages have no sums. */
static bool of_former_version(const char *path)
{
    char head[SPARE_AT + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool former = fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                  memcmp(head, "SQLite format 3", 16) == 0 && head[SPARE_AT] != PAGE_SPARE;

    if (fd >= 0)
        (void)close(fd);
    return former;
}

static int old_fail(const struct upgrade *u, struct error *err)
{
    return error_set(err, -EBADMSG, "store: %s: %s", u->path, sqlite3_errmsg(u->old));
}

static int old_open(struct upgrade *u, struct error *err)
{
    static const char *const later[] = { "log-tail", "mark" };
    char name[DB_PATH + 16];
    int64_t version;

    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", u->directory, later[i]);
        if (access(name, F_OK) == 0)
            return error_set(err, -EBADMSG, "muster.db is damaged, or of another version than the %s beside it",
                             later[i]);
    }
    if (sqlite3_open_v2(u->path, &u->old, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return old_fail(u, err);
    (void)sqlite3_db_config(u->old, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (sqlite3_exec(u->old, "PRAGMA locking_mode=EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK)
        return old_fail(u, err);
    version = db_number(u->old, "PRAGMA user_version");
    if (version == VERSION_BEFORE)
        return 0;
    return version < 0 ? old_fail(u, err)
                       : error_set(err, -EPROTONOSUPPORT,
                                   "store: %s was written by another version (schema %lld; this is %d, and reads %d)",
                                   u->path, (long long)version, STORE_SCHEMA_VERSION, VERSION_BEFORE);
}

static int batch_take(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct upgrade *u = arg;
    struct log_place *end = &u->made.head.end;
    struct digest chain;

    if (seq != end->seq + 1)
        return error_set(err, -EBADMSG, "%s: batches %llu to %llu are missing", u->path,
                         (unsigned long long)end->seq + 1, (unsigned long long)seq - 1);
    if (digest_next(u->made.digester, &end->chain, seq, data, size, &chain) < 0)
        return error_set(err, -ENOMEM, "store: no memory");
    return db_put_batch(&u->made, seq, &chain, data, size, err);
}

static int snapshot_take(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct upgrade *u = arg;
    int r = digest_begin(&u->made.head.end.chain);

    u->made.head.end.seq = seq;
    return r < 0 ? error_set(err, r, "store: no random numbers") : db_put_snapshot(&u->made, seq, data, size, err);
}

static int each_old(struct upgrade *u, const char *sql, store_batch_fn fn, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int r = 0, step = SQLITE_DONE;

    if (sqlite3_prepare_v2(u->old, sql, -1, &st, NULL) != SQLITE_OK)
        return old_fail(u, err);
    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *data = sqlite3_column_blob(st, 1);

        r = fn(u, (uint64_t)sqlite3_column_int64(st, 0), data ? data : "", (size_t)sqlite3_column_bytes(st, 1), err);
    }
    if (r == 0 && step != SQLITE_DONE)
        r = old_fail(u, err);
    sqlite3_finalize(st);
    return r;
}

static const char *column_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? text : "";
}

static int jobs_take(struct upgrade *u, struct error *err)
{
    sqlite3_stmt *st = NULL;
    struct db_change change;
    int r = 0, step = SQLITE_DONE;

    if (sqlite3_prepare_v2(u->old, "SELECT id, submit, ended, user, vc, state, name, gpu_seconds, json FROM history",
                           -1, &st, NULL) != SQLITE_OK)
        return old_fail(u, err);
    while (r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_job job = { .id = sqlite3_column_int64(st, 0),
                                 .submit = sqlite3_column_int64(st, 1),
                                 .end = sqlite3_column_int64(st, 2),
                                 .user = column_text(st, 3),
                                 .vc = column_text(st, 4),
                                 .state = column_text(st, 5),
                                 .name = column_text(st, 6),
                                 .gpu_seconds = sqlite3_column_int64(st, 7),
                                 .json = column_text(st, 8) };

        r = db_put_job(&u->made, &job, &change, err);
    }
    if (r == 0 && step != SQLITE_DONE)
        r = old_fail(u, err);
    sqlite3_finalize(st);
    return r;
}

static int content_take(struct upgrade *u, struct error *err)
{
    int r = db_begin(&u->made, err);

    if (r == 0)
        r = each_old(u, "SELECT seq, data FROM snapshot", snapshot_take, err);
    if (r == 0)
        r = each_old(u, "SELECT seq, data FROM log WHERE seq > coalesce((SELECT seq FROM snapshot), 0) ORDER BY seq",
                     batch_take, err);
    if (r == 0)
        r = tail_v1_each(u->directory, u->made.head.end.seq, batch_take, u, err);
    if (r == 0)
        r = jobs_take(u, err);
    return r == 0 ? db_commit(&u->made, err) : r;
}

/* What is in its write-ahead log goes into it, so that one file is all of it. */
static int old_finish(struct upgrade *u, struct error *err)
{
    int r = 0;

    if (sqlite3_exec(u->old, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL) != SQLITE_OK)
        r = old_fail(u, err);
    (void)sqlite3_close(u->old);
    u->old = NULL;
    return r;
}

static void file_rename(const struct upgrade *u, const char *from, const char *to)
{
    char a[DB_PATH + 16], b[DB_PATH + 16];

    (void)snprintf(a, sizeof(a), "%s/%s", u->directory, from);
    (void)snprintf(b, sizeof(b), "%s/%s", u->directory, to);
    (void)rename(a, b);
}

static int names_change(struct upgrade *u, const char *made, struct error *err)
{
    char kept[DB_PATH + 16];
    int r;

    (void)snprintf(kept, sizeof(kept), "%s.v1", u->path);
    if ((link(u->path, kept) < 0 && errno != EEXIST) || rename(made, u->path) < 0)
        return error_set(err, -errno, "store: %s: %s", u->path, strerror(errno));
    r = store_directory_sync(u->directory, err);
    file_rename(u, "tail", "tail.v1");
    file_rename(u, "tail-map", "tail-map.v1");
    return r;
}

int store_upgrade(const char *directory, struct error *err)
{
    struct upgrade u = { .directory = directory };
    struct digester *digester = NULL;
    char made[DB_PATH + 16];
    int r;

    (void)snprintf(u.path, sizeof(u.path), "%s/muster.db", directory);
    if (!of_former_version(u.path))
        return 0;
    (void)snprintf(made, sizeof(made), "%s.new", u.path);
    r = old_open(&u, err);
    if (r == 0 && digester_new(&digester) < 0)
        r = error_set(err, -ENOMEM, "store: no memory");
    if (r == 0)
        r = db_make(made, &u.made, digester, err);
    if (r == 0)
        r = content_take(&u, err);
    db_close(&u.made);
    if (r == 0)
        r = old_finish(&u, err);
    (void)sqlite3_close(u.old);
    digester_free(digester);
    if (r == 0)
        r = names_change(&u, made, err);
    return r;
}
