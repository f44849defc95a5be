/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* wal_file.h - SQLite's write-ahead log, written in one piece a commit.
 *
 * SQLite writes a log frame by frame, each in two calls, and syncs at the end of a commit. A file of this kind keeps
 * the frames until that sync, and may leave the sync itself for later.
 */
#include <sqlite3.h>
#include <stdbool.h>

/* The name to open a database with; made known to SQLite by the first call. NULL: SQLite refused. */
const char *wal_file_vfs(void);

/* The log of a database that is open and has one; NULL where there is none of our kind. */
struct wal_file *wal_file_of(sqlite3 *db);

/* Whether commits from now on only write. What was written survives this process, but not a loss of power. A new round
 * of the log begins with a sync in any case: what is left of the last one must not be taken for its beginning. */
void wal_file_lazy(struct wal_file *file, bool lazy);

/* Everything committed so far is on the disk then; 0 or -errno. Touches nothing of SQLite's: any thread may call it. */
int wal_file_sync(struct wal_file *file);
