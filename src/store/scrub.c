/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.c - what lies on the disk, read again in small steps while all goes on: the write-ahead log and the tail, every
 * page of the database as the disk has it, then every finished job as the database has it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/page_file.h"
#include "store/store_sqlite.h"

enum { SCRUB_PAGES = 256, SCRUB_JOBS = 500 };

static int scrub_wal(struct store_sqlite *s, struct error *err)
{
    char path[DB_PATH + 16];
    struct wal_look look;

    (void)snprintf(path, sizeof(path), "%s/muster.db-wal", s->directory);
    check_wal(path, &look);
    if (!look.there)
        return error_set(err, -EBADMSG, "%s is gone", path);
    if (s->wal_pages > 0 && look.frames < (uint32_t)s->wal_pages)
        return error_set(err, -EBADMSG, "%s: damaged behind page %u of %d", path, look.frames, s->wal_pages);
    return 0;
}

static int scrub_pages(struct store_sqlite *s, struct error *err)
{
    char path[DB_PATH + 16], page[PAGE_BYTES];
    struct scrub *scrub = &s->scrub;
    int fd, r = 1;

    (void)snprintf(path, sizeof(path), "%s/muster.db", s->directory);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -EBADMSG, "%s: %s", path, strerror(errno));
    for (int i = 0; r == 1 && i < SCRUB_PAGES; i++, scrub->next++) {
        ssize_t n = pread(fd, page, sizeof(page), scrub->next * PAGE_BYTES);

        if (n != PAGE_BYTES) {
            *scrub = (struct scrub){ .part = SCRUB_HISTORY, .next = INT64_MIN };
            r = n < 0 ? error_set(err, -EIO, "%s: %s", path, strerror(errno)) : 1;
            break;
        }
        if (!page_whole(page, (uint32_t)scrub->next + 1))
            r = error_set(err, -EBADMSG, "%s: page %lld is damaged", path, (long long)scrub->next + 1);
    }
    (void)close(fd);
    return r;
}

static int scrub_history(struct store_sqlite *s, struct error *err)
{
    struct scrub *scrub = &s->scrub;
    sqlite3_stmt *st = NULL;
    int r = 0, step = SQLITE_DONE, count = 0;

    if (sqlite3_prepare_v2(s->db.sql, "SELECT " DB_JOB_COLUMNS " FROM history WHERE id >= ?1 ORDER BY id LIMIT ?2", -1,
                           &st, NULL) != SQLITE_OK)
        return db_fail(&s->db, err, "history");
    sqlite3_bind_int64(st, 1, scrub->next);
    sqlite3_bind_int(st, 2, SCRUB_JOBS);
    for (; r == 0 && (step = sqlite3_step(st)) == SQLITE_ROW; count++) {
        struct store_job job;

        r = db_row_job(&s->db, st, &job, err);
        scrub->next = job.id + 1;
        scrub->sum += (uint64_t)sqlite3_column_int64(st, 9);
        scrub->jobs++;
    }
    if (r == 0 && step != SQLITE_DONE)
        r = db_fail(&s->db, err, "history");
    sqlite3_finalize(st);
    if (r < 0 || count == SCRUB_JOBS)
        return r < 0 ? r : 1;
    if (scrub->jobs != s->head.jobs || scrub->sum != s->head.jobs_sum)
        r = error_set(err, -EBADMSG, "muster.db: has the records of %lld finished jobs and should have %lld",
                      (long long)scrub->jobs, (long long)s->head.jobs);
    return r;
}

int store_sqlite_scrub(struct store *store, struct error *err)
{
    struct store_sqlite *s = (struct store_sqlite *)store;
    int r;

    switch (s->scrub.part) {
    case SCRUB_FILE:
        r = scrub_pages(s, err);
        break;
    case SCRUB_HISTORY:
        r = scrub_history(s, err);
        break;
    case SCRUB_BEGIN:
    default:
        r = scrub_wal(s, err);
        if (r == 0)
            r = tail_scrub(s->tail, err);
        s->scrub = (struct scrub){ .part = SCRUB_FILE };
        r = r < 0 ? r : 1;
    }
    if (r <= 0)
        s->scrub = (struct scrub){ 0 };
    return r;
}
