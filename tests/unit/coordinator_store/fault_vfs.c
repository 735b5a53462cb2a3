#include "tests/unit/coordinator_store/fault_vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

struct fault_file {
    sqlite3_file base;
    bool is_main;
    sqlite3_file *real; /* follows this struct in memory */
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs fault_vfs;
static _Atomic int plan_kind;
static _Atomic int64_t plan_n, calls, limit_bytes;

/* SQLITE_OK, or how this call fails. */
static int next_call(int error)
{
    int64_t call = atomic_fetch_add(&calls, 1) + 1;
    switch ((enum fault_kind)atomic_load(&plan_kind)) {
    case FAULT_NONE: return SQLITE_OK;
    case FAULT_ERROR: return call == atomic_load(&plan_n) ? error : SQLITE_OK;
    case FAULT_FULL: return call == atomic_load(&plan_n) ? SQLITE_FULL : SQLITE_OK;
    case FAULT_CRASH: return call >= atomic_load(&plan_n) ? error : SQLITE_OK;
    }
    return SQLITE_OK;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct fault_file *)file)->real;
}

static int file_close_(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read_(sqlite3_file *file, void *out, int size, sqlite3_int64 offset)
{
    return real_of(file)->pMethods->xRead(real_of(file), out, size, offset);
}

static int file_write_(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
    int64_t limit = atomic_load(&limit_bytes);
    if (limit > 0 && ((struct fault_file *)file)->is_main && offset + size > limit) {
        return SQLITE_FULL;
    }
    int rc = next_call(SQLITE_IOERR_WRITE);
    return rc == SQLITE_OK ? real_of(file)->pMethods->xWrite(real_of(file), data, size, offset)
                           : rc;
}

static int file_truncate_(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = next_call(SQLITE_IOERR_TRUNCATE);
    return rc == SQLITE_OK ? real_of(file)->pMethods->xTruncate(real_of(file), size) : rc;
}

/* The process crashes, not the machine: nothing has to reach the real disk, which would take
 * minutes. tests/e2e/powercut is about that. */
static int file_sync_(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return next_call(SQLITE_IOERR_FSYNC);
}

static int file_size_(sqlite3_file *file, sqlite3_int64 *out)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), out);
}

static int file_lock_(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock_(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_lock_(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int file_control_(sqlite3_file *file, int operation, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, arg);
}

static int file_sector_(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_traits_(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

/* The index of WAL, in shared memory beside the file: it is made anew after a crash. */
static int file_shm_map_(sqlite3_file *file, int page, int bytes, int extend, void volatile **out)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, out);
}

static int file_shm_lock_(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier_(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap_(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

/* Version 2: no memory maps; the stores use none. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close_,
    .xRead = file_read_,
    .xWrite = file_write_,
    .xTruncate = file_truncate_,
    .xSync = file_sync_,
    .xFileSize = file_size_,
    .xLock = file_lock_,
    .xUnlock = file_unlock_,
    .xCheckReservedLock = file_check_lock_,
    .xFileControl = file_control_,
    .xSectorSize = file_sector_,
    .xDeviceCharacteristics = file_traits_,
    .xShmMap = file_shm_map_,
    .xShmLock = file_shm_lock_,
    .xShmBarrier = file_shm_barrier_,
    .xShmUnmap = file_shm_unmap_,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags)
{
    (void)vfs;
    struct fault_file *fault = (struct fault_file *)file;
    memset(fault, 0, sizeof(*fault));
    fault->real = (sqlite3_file *)(fault + 1);
    fault->is_main = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    int rc = real_vfs->xOpen(real_vfs, name, fault->real, flags, out_flags);
    if (fault->real->pMethods) {
        fault->base.pMethods = &methods;
    }
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
    (void)vfs;
    int rc = next_call(SQLITE_IOERR_DELETE);
    return rc == SQLITE_OK ? real_vfs->xDelete(real_vfs, name, sync_directory) : rc;
}

void fault_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    ASSERT(real_vfs);
    /* Functions that are not wrapped find their state in the copied fields. */
    fault_vfs = *real_vfs;
    fault_vfs.zName = "fault";
    fault_vfs.pNext = NULL;
    fault_vfs.szOsFile = (int)sizeof(struct fault_file) + real_vfs->szOsFile;
    fault_vfs.xOpen = vfs_open;
    fault_vfs.xDelete = vfs_delete;
    ASSERT(sqlite3_vfs_register(&fault_vfs, 1) == SQLITE_OK);
}

void fault_vfs_plan(enum fault_kind kind, int64_t n)
{
    atomic_store(&calls, 0);
    atomic_store(&plan_n, n);
    atomic_store(&plan_kind, (int)kind);
}

int64_t fault_vfs_calls(void)
{
    return atomic_load(&calls);
}

void fault_vfs_limit(int64_t bytes)
{
    atomic_store(&limit_bytes, bytes);
}
