/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* page_file.h - a database of SQLite whose pages carry their number and a checksum.
 *
 * They are in the last PAGE_SPARE bytes of a page, which SQLite leaves alone where it was told so when the database was
 * made. A page that does not have them right is an error of reading (SQLITE_IOERR_DATA) and never content.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum { PAGE_BYTES = 4096, PAGE_SPARE = 8 };

/* Room of a file of this kind before that of the file below it. */
int page_file_size(void);
int page_file_open(sqlite3_vfs *below, const char *name, sqlite3_file *file, int flags, int *ret_flags);

/* Whether a page is as it was written; one that never was (all zeros) is. `number` is 1 for the first. */
bool page_whole(const void *page, uint32_t number);
/* From now on pages are read as they are: whoever asks looks at each row. For what is being repaired. */
void page_file_trusting(bool trusting);
