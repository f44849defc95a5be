/* SPDX-License-Identifier: Apache-2.0 */
#include "store/page_file.h"

#include <stdatomic.h>
#include <string.h>

#include "store/digest.h"

struct page_file {
    sqlite3_file base;
    sqlite3_int64 real[]; /* SQLite's own file */
};

static atomic_bool trusting_now;

void page_file_trusting(bool trusting)
{
    atomic_store(&trusting_now, trusting);
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)((struct page_file *)(void *)file)->real;
}

struct spare {
    uint32_t number, sum;
};

static struct spare spare_of(const void *page, uint32_t number)
{
    return (struct spare){ number, block_sum(number, page, PAGE_BYTES - PAGE_SPARE) };
}

bool page_whole(const void *page, uint32_t number)
{
    const char *bytes = page;
    struct spare want = spare_of(page, number);

    if (memcmp(bytes + PAGE_BYTES - PAGE_SPARE, &want, sizeof(want)) == 0)
        return true;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, PAGE_BYTES - 1) == 0;
}

static bool is_page(int size, sqlite3_int64 at)
{
    return size == PAGE_BYTES && at % PAGE_BYTES == 0;
}

static int page_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int page_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    int r = real_of(file)->pMethods->xRead(real_of(file), to, size, at);

    if (r == SQLITE_OK && is_page(size, at) && !page_whole(to, (uint32_t)(at / PAGE_BYTES) + 1) &&
        !atomic_load(&trusting_now))
        return SQLITE_IOERR_DATA;
    return r;
}

static int page_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    char page[PAGE_BYTES];
    struct spare spare;

    if (!is_page(size, at))
        return real_of(file)->pMethods->xWrite(real_of(file), from, size, at);
    spare = spare_of(from, (uint32_t)(at / PAGE_BYTES) + 1);
    memcpy(page, from, PAGE_BYTES - PAGE_SPARE);
    memcpy(page + PAGE_BYTES - PAGE_SPARE, &spare, sizeof(spare));
    return real_of(file)->pMethods->xWrite(real_of(file), page, size, at);
}

static int page_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int page_sync(sqlite3_file *file, int flags)
{
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int page_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret_size);
}

static int page_lock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int page_unlock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int page_reserved(sqlite3_file *file, int *ret_reserved)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_reserved);
}

static int page_control(sqlite3_file *file, int what, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, arg);
}

static int page_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int page_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int page_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret);
}

static int page_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void page_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int page_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

/* Of the second version: without files mapped to memory, whose pages nobody would look at. */
static const sqlite3_io_methods page_methods = {
    .iVersion = 2,
    .xClose = page_close,
    .xRead = page_read,
    .xWrite = page_write,
    .xTruncate = page_truncate,
    .xSync = page_sync,
    .xFileSize = page_size,
    .xLock = page_lock,
    .xUnlock = page_unlock,
    .xCheckReservedLock = page_reserved,
    .xFileControl = page_control,
    .xSectorSize = page_sector,
    .xDeviceCharacteristics = page_device,
    .xShmMap = page_shm_map,
    .xShmLock = page_shm_lock,
    .xShmBarrier = page_shm_barrier,
    .xShmUnmap = page_shm_unmap,
};

int page_file_size(void)
{
    return (int)sizeof(struct page_file);
}

int page_file_open(sqlite3_vfs *below, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    int r;

    *(struct page_file *)(void *)file = (struct page_file){ 0 };
    r = below->xOpen(below, name, real_of(file), flags, ret_flags);
    if (r == SQLITE_OK)
        file->pMethods = &page_methods;
    return r;
}
