#include "coordinator/store/vacuum.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/reserve.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"

#define INCREMENTAL 2
#define STEP_PAGES 128 /* some milliseconds */
/* Free pages that stay for the next rows, because each page that moves is written again. */
#define KEPT_PAGES 256
#define KEPT_SHARE 8

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

int vacuum_prepare(struct sqlite3 *db, struct err *err)
{
    int64_t pages = 0;
    int rc = sql_integer(db, "PRAGMA page_count", &pages, err);
    return rc || pages > 0 ? rc : sql_exec(db, "PRAGMA auto_vacuum = INCREMENTAL", err);
}

int vacuum_convert(struct sqlite3 *db, const char *directory, struct err *err)
{
    int64_t mode = INCREMENTAL, pages = 0, page_bytes = 0;
    uint64_t free_bytes = 0;
    int rc = sql_integer(db, "PRAGMA auto_vacuum", &mode, err);
    if (rc || mode == INCREMENTAL) {
        return rc;
    }
    rc = sql_integer(db, "PRAGMA page_count", &pages, err);
    rc = rc ? rc : sql_integer(db, "PRAGMA page_size", &page_bytes, err);
    rc = rc ? rc : file_free_bytes(directory, &free_bytes, err);
    /* A copy in the log, and the file that grows to it. */
    if (rc || free_bytes < 3 * (uint64_t)(pages * page_bytes) + 4 * RESERVE_BYTES) {
        return rc;
    }
    struct err inner = {0};
    if (sql_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", &inner)) {
        log_info("state_not_rewritten", "error=%s", log_quote(inner.text).text);
    } else {
        log_info("state_rewritten", "bytes=%" PRId64, pages * page_bytes);
    }
    return 0;
}

int state_vacuum(struct state_store *store, bool *left, struct err *err)
{
    int64_t unused = 0, pages = 0;
    ASSERT(!store->in_transaction);
    int rc = sql_integer(store->db, "PRAGMA freelist_count", &unused, err);
    rc = rc ? rc : sql_integer(store->db, "PRAGMA page_count", &pages, err);
    const int64_t kept = pages / KEPT_SHARE > KEPT_PAGES ? pages / KEPT_SHARE : KEPT_PAGES;
    *left = rc == 0 && unused > kept;
    return *left ? sql_exec(store->db, "PRAGMA incremental_vacuum(" TEXT(STEP_PAGES) ")", err) : rc;
}
