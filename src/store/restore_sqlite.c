/* SPDX-License-Identifier: Apache-2.0 */
/* restore_sqlite.c - a store of a backup, which may have come from anywhere.
 *
 * Whoever writes a backup decides who is an administrator, so it is trusted only as far as its owner is. The file is
 * copied first and judged then: what was looked at is what will be used. Until the last rename nothing has its name,
 * and when anything is wrong nothing is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "store/check.h"
#include "store/page_file.h"
#include "store/store_ops.h"
#include "store/wal_file.h"

#define NAME "muster.db"
#define PART NAME ".part"
enum { HEADER_BYTES = 100, SPARE_AT = 20, COPY_BYTES = 1 << 18, SCHEMA_BYTES = 8192 };

struct restore {
    const char *from;
    int file, dir, part;
    bool made; /* the directory */
    int64_t size;
    bool sums; /* its pages have them: it is not of the former version */
    uid_t uid; /* of who will use it */
    gid_t gid;
};

static int64_t number_read(const unsigned char *at, int bytes)
{
    int64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* A file of somebody we trust, whole. */
static int source_open(struct restore *r, struct error *err)
{
    unsigned char head[HEADER_BYTES] = { 0 };
    int64_t page, said;
    struct stat st;

    /* Without waiting: a FIFO must not hold us up before we have seen that it is one. */
    r->file = open(r->from, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (r->file < 0 || fstat(r->file, &st) < 0)
        return error_set(err, -errno, "store: %s: %s", r->from, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "store: %s is no file", r->from);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, -EPERM,
                         "store: %s belongs to user %u: who made it decides who is an administrator; chown it "
                         "once you trust it",
                         r->from, (unsigned int)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, -EPERM, "store: %s can be written by others (mode %03o); chmod go-w it once you trust it",
                         r->from, (unsigned int)st.st_mode & 0777);
    r->size = st.st_size;
    if (pread(r->file, head, sizeof(head), 0) != (ssize_t)sizeof(head) || memcmp(head, "SQLite format 3", 16) != 0)
        return error_set(err, -EBADMSG, "store: %s is no backup", r->from);
    r->sums = head[SPARE_AT] == PAGE_SPARE;
    page = number_read(head + 16, 2);
    said = number_read(head + 28, 4) * (page == 1 ? 65536 : page);
    if (said != r->size)
        return error_set(err, -EBADMSG, "store: %s is not whole: it has %lld bytes, and says %lld", r->from,
                         (long long)r->size, (long long)said);
    return 0;
}

static int target_open(struct restore *r, const char *directory, struct error *err)
{
    static const char *const names[] = { NAME,      NAME "-wal", NAME "-shm", NAME "-journal", "log-tail",
                                         "log-map", "mark",      "tail",      "tail-map" };
    struct statvfs room;
    struct stat st;

    r->made = mkdir(directory, 0700) == 0;
    if (!r->made && errno != EEXIST)
        return error_set(err, -errno, "store: %s: %s", directory, strerror(errno));
    r->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->dir < 0 || fstat(r->dir, &st) < 0 || fstatvfs(r->dir, &room) < 0)
        return error_set(err, -errno, "store: %s: %s", directory, strerror(errno));
    r->uid = st.st_uid;
    r->gid = st.st_gid;
    /* A link to nowhere is there too. What a former store left would be taken for a part of this one. */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fstatat(r->dir, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            return error_set(err, -EEXIST, "store: %s/%s is there already; restore into an empty directory", directory,
                             names[i]);
    if ((uint64_t)r->size / room.f_frsize >= room.f_bavail)
        return error_set(err, -ENOSPC, "store: %s has no room for the %lld bytes of %s", directory, (long long)r->size,
                         r->from);
    return 0;
}

/* Not one byte more than was there at the beginning. */
static int copy_make(struct restore *r, struct error *err)
{
    char *piece = mem_zalloc(COPY_BYTES, 1);
    int64_t at = 0;

    (void)unlinkat(r->dir, PART, 0);
    r->part = openat(r->dir, PART, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    errno = piece ? errno : ENOMEM;
    while (piece && r->part >= 0 && at < r->size) {
        int64_t left = r->size - at;
        ssize_t n = pread(r->file, piece, (size_t)(left < COPY_BYTES ? left : COPY_BYTES), at);

        if (n == 0)
            errno = EIO; /* it was cut while we read */
        if (n <= 0 || pwrite(r->part, piece, (size_t)n, at) != n)
            break;
        at += n;
    }
    mem_free(piece);
    if (r->part < 0 || at < r->size)
        return error_set(err, -errno, "store: a copy of %s: %s", r->from, strerror(errno));
    return 0;
}

static int not_ours(const struct restore *r, sqlite3 *db, struct error *err, const char *what)
{
    if (sqlite3_extended_errcode(db) == SQLITE_IOERR_DATA)
        what = "a page of it is damaged";
    return error_set(err, -EBADMSG, "store: %s: %s", r->from, what ? what : sqlite3_errmsg(db));
}

/* One value of the first row, as text; "" without one. */
static void value_get(sqlite3 *db, const char *sql, char *out, size_t size)
{
    sqlite3_stmt *st = NULL;
    const char *text = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(st, 0);
    (void)snprintf(out, size, "%s", text ? text : "");
    sqlite3_finalize(st);
}

/* All that a database is made of: a trigger or a view in it would be somebody's program. */
static void schema_get(sqlite3 *db, char *out, size_t size)
{
    value_get(db,
              "SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, ''), ';') FROM "
              "(SELECT * FROM sqlite_master ORDER BY name)",
              out, size);
}

static int schema_check(const struct restore *r, sqlite3 *db, struct error *err)
{
    char *want = mem_zalloc(SCHEMA_BYTES, 2), *have = want ? want + SCHEMA_BYTES : NULL;
    sqlite3 *fresh = NULL;
    int result = 0;

    if (!want || sqlite3_open(":memory:", &fresh) != SQLITE_OK ||
        sqlite3_exec(fresh, r->sums ? db_schema : db_schema_v1, NULL, NULL, NULL) != SQLITE_OK) {
        result = error_set(err, -ENOMEM, "store: no memory");
    } else {
        schema_get(fresh, want, SCHEMA_BYTES);
        schema_get(db, have, SCHEMA_BYTES);
        if (strcmp(want, have) != 0)
            result = not_ours(r, db, err, "has other tables, views or triggers than a backup of this version");
    }
    (void)sqlite3_close(fresh);
    mem_free(want);
    return result;
}

/* Its digests and sums; one of the former version has none. */
static int sums_check(const struct restore *r, sqlite3 *sql, struct error *err)
{
    struct digester *digester = NULL;
    struct db db = { .sql = sql };
    int result = r->sums && digester_new(&digester) < 0 ? error_set(err, -ENOMEM, "store: no memory") : 0;

    db.digester = digester;
    if (r->sums && result == 0)
        result = check_log(&db, err);
    if (r->sums && result == 0)
        result = check_history(&db, err);
    if (result == -EBADMSG)
        (void)error_prefix(err, result, "store: %s is damaged", r->from);
    digester_free(digester);
    return result;
}

static int content_check(const struct restore *r, sqlite3 *db, struct error *err)
{
    const struct {
        const char *sql, *want, *what;
    } checks[] = {
        { "PRAGMA user_version", r->sums ? "2" : "1", "is no backup of this version, nor of the one before" },
        { "PRAGMA integrity_check(1)", "ok", "is damaged" },
        { "SELECT count(*) FROM snapshot WHERE one != 1 OR typeof(seq) != 'integer' OR seq < 0 OR typeof(data) != "
          "'blob'",
          "0", "has a snapshot that is none" },
        { "SELECT count(*) FROM log WHERE seq < 1 OR typeof(data) != 'blob'", "0", "has entries that are none" },
    };
    char text[256];
    int result = 0;

    _Static_assert(STORE_SCHEMA_VERSION == 2, "and above");
    for (size_t i = 0; result == 0 && i < sizeof(checks) / sizeof(checks[0]); i++) {
        value_get(db, checks[i].sql, text, sizeof(text));
        if (strcmp(text, checks[i].want) != 0)
            result = not_ours(r, db, err, checks[i].what);
        if (result == 0 && i == 0)
            result = schema_check(r, db, err);
    }
    return result == 0 ? sums_check(r, db, err) : result;
}

static int copy_check(const struct restore *r, struct error *err)
{
    sqlite3 *db = NULL;
    char path[96];
    int result;

    /* As it lies there: without the journals that somebody might have put beside it. */
    (void)snprintf(path, sizeof(path), "file:/proc/self/fd/%d/" PART "?immutable=1", r->dir);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, r->sums ? wal_file_vfs() : NULL) !=
        SQLITE_OK) {
        result = not_ours(r, db, err, NULL);
    } else {
        (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        result = content_check(r, db, err);
    }
    (void)sqlite3_close(db);
    return result;
}

/* Its name, and whose it is: musterd rarely runs as the one who restores. */
static int copy_name(const struct restore *r, struct error *err)
{
    if ((geteuid() == 0 && fchown(r->part, r->uid, r->gid) < 0) || fsync(r->part) < 0 ||
        renameat2(r->dir, PART, r->dir, NAME, RENAME_NOREPLACE) < 0 || fsync(r->dir) < 0)
        return error_set(err, -errno, "store: " NAME ": %s", strerror(errno));
    return 0;
}

int store_file_check(const char *path, struct error *err)
{
    struct restore r = { .from = path, .sums = true };
    sqlite3 *db = NULL;
    int result;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, wal_file_vfs()) != SQLITE_OK)
        result = not_ours(&r, db, err, NULL);
    else
        result = content_check(&r, db, err);
    (void)sqlite3_close(db);
    return result;
}

int store_sqlite_restore(const char *from, const char *directory, struct error *err)
{
    struct restore r = { .from = from, .file = -1, .dir = -1, .part = -1 };
    int result = source_open(&r, err);

    if (result == 0)
        result = target_open(&r, directory, err);
    if (result == 0)
        result = copy_make(&r, err);
    if (result == 0)
        result = copy_check(&r, err);
    if (result == 0)
        result = copy_name(&r, err);
    if (result < 0 && r.part >= 0)
        (void)unlinkat(r.dir, PART, 0);
    if (result < 0 && r.made)
        (void)rmdir(directory);
    for (size_t i = 0; i < 3; i++) {
        int fd = i == 0 ? r.file : i == 1 ? r.dir : r.part;

        if (fd >= 0)
            (void)close(fd);
    }
    return result;
}
