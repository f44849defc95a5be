/* SPDX-License-Identifier: Apache-2.0 */
#include "store/wal_file.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

#include "base/alloc.h"
#include "store/page_file.h"

/* SQLite's own files take less than 128 KiB in one call. */
enum { PIECE_BYTES_MAX = 65536 };

struct wal_file {
    sqlite3_file base;
    char *piece; /* not written yet: what belongs at `at` */
    size_t size, capacity;
    sqlite3_int64 at;
    sqlite3_int64 real[]; /* SQLite's own file, aligned as SQLite aligns */
};

static struct {
    sqlite3_vfs vfs, *real;
} wal;

static struct wal_file *file_of(sqlite3_file *file)
{
    return (struct wal_file *)(void *)file;
}

static sqlite3_file *real_of(struct wal_file *file)
{
    return (sqlite3_file *)(void *)file->real;
}

static int piece_write(struct wal_file *file)
{
    sqlite3_file *real = real_of(file);
    size_t size = file->size;

    file->size = 0;
    return size ? real->pMethods->xWrite(real, file->piece, (int)size, file->at) : SQLITE_OK;
}

static int wal_close(sqlite3_file *base)
{
    struct wal_file *file = file_of(base);
    sqlite3_file *real = real_of(file);
    int r = piece_write(file), closed = real->pMethods->xClose(real);

    mem_free(file->piece);
    return r == SQLITE_OK ? closed : r;
}

static int wal_read(sqlite3_file *base, void *to, int size, sqlite3_int64 at)
{
    struct wal_file *file = file_of(base);
    sqlite3_file *real = real_of(file);
    int r = piece_write(file);

    return r == SQLITE_OK ? real->pMethods->xRead(real, to, size, at) : r;
}

static int wal_write(sqlite3_file *base, const void *from, int size, sqlite3_int64 at)
{
    struct wal_file *file = file_of(base);
    void *block = file->piece;
    int r = SQLITE_OK;

    if (file->size && (at != file->at + (sqlite3_int64)file->size || file->size + (size_t)size > PIECE_BYTES_MAX))
        r = piece_write(file);
    if (r != SQLITE_OK)
        return r;
    r = mem_grow(&block, &file->capacity, file->size + (size_t)size, (size_t)2 * PIECE_BYTES_MAX, 1);
    file->piece = block;
    if (r < 0) {
        sqlite3_file *real = real_of(file);

        r = piece_write(file);
        return r == SQLITE_OK ? real->pMethods->xWrite(real, from, size, at) : r;
    }
    if (file->size == 0)
        file->at = at;
    memcpy(file->piece + file->size, from, (size_t)size);
    file->size += (size_t)size;
    return SQLITE_OK;
}

static int wal_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct wal_file *file = file_of(base);
    sqlite3_file *real = real_of(file);
    int r = piece_write(file);

    return r == SQLITE_OK ? real->pMethods->xTruncate(real, size) : r;
}

static int wal_sync(sqlite3_file *base, int flags)
{
    struct wal_file *file = file_of(base);
    sqlite3_file *real = real_of(file);
    int r = piece_write(file);

    return r == SQLITE_OK ? real->pMethods->xSync(real, flags) : r;
}

static int wal_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
    struct wal_file *file = file_of(base);
    sqlite3_file *real = real_of(file);
    int r = piece_write(file);

    return r == SQLITE_OK ? real->pMethods->xFileSize(real, ret_size) : r;
}

static int wal_lock(sqlite3_file *base, int lock)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xLock(real, lock);
}

static int wal_unlock(sqlite3_file *base, int lock)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xUnlock(real, lock);
}

static int wal_reserved(sqlite3_file *base, int *ret_reserved)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xCheckReservedLock(real, ret_reserved);
}

static int wal_control(sqlite3_file *base, int what, void *arg)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xFileControl(real, what, arg);
}

static int wal_sector(sqlite3_file *base)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xSectorSize(real);
}

static int wal_device(sqlite3_file *base)
{
    sqlite3_file *real = real_of(file_of(base));

    return real->pMethods->xDeviceCharacteristics(real);
}

static const sqlite3_io_methods wal_methods = {
    .iVersion = 1,
    .xClose = wal_close,
    .xRead = wal_read,
    .xWrite = wal_write,
    .xTruncate = wal_truncate,
    .xSync = wal_sync,
    .xFileSize = wal_size,
    .xLock = wal_lock,
    .xUnlock = wal_unlock,
    .xCheckReservedLock = wal_reserved,
    .xFileControl = wal_control,
    .xSectorSize = wal_sector,
    .xDeviceCharacteristics = wal_device,
};

static int wal_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *ret_flags)
{
    struct wal_file *file = file_of(base);
    int r;

    (void)vfs;
    if (flags & SQLITE_OPEN_MAIN_DB)
        return page_file_open(wal.real, name, base, flags, ret_flags);
    if (!(flags & SQLITE_OPEN_WAL))
        return wal.real->xOpen(wal.real, name, base, flags, ret_flags);
    *file = (struct wal_file){ 0 };
    r = wal.real->xOpen(wal.real, name, real_of(file), flags, ret_flags);
    if (r != SQLITE_OK)
        return r;
    file->base.pMethods = &wal_methods;
    return SQLITE_OK;
}

static void wal_register(void)
{
    wal.real = sqlite3_vfs_find(NULL);
    if (!wal.real)
        return;
    wal.vfs = *wal.real;
    wal.vfs.pNext = NULL;
    wal.vfs.zName = "muster-state";
    wal.vfs.szOsFile +=
        (int)sizeof(struct wal_file) > page_file_size() ? (int)sizeof(struct wal_file) : page_file_size();
    wal.vfs.xOpen = wal_open;
    if (sqlite3_vfs_register(&wal.vfs, 0) != SQLITE_OK)
        wal.real = NULL;
}

const char *wal_file_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, wal_register);
    return wal.real ? wal.vfs.zName : NULL;
}
