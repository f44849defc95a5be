/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* wal_file.h - SQLite's write-ahead log, written in one piece a commit.
 *
 * SQLite writes a log frame by frame, each in two calls, and syncs at the end of a commit. A file of this kind keeps
 * the frames until that sync. The database itself is one of page_file.h.
 */

/* The name to open a database with; made known to SQLite by the first call. NULL: SQLite refused. */
const char *wal_file_vfs(void);
