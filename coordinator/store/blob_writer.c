/* The writer turns batches of the queue into transactions. Between them it deletes the rows of
 * deleted, failed and abandoned blobs, a few at a time, so that no upload waits long. */
#include <sqlite3.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/blob_writer.h"
#include "coordinator/store/sql.h"
#include "net/hash.h"

#define HELD_LOOK_MS 1000 /* while another process reads a snapshot */

/* Changes of the statistics, counted when their transaction is committed. */
struct tally {
    int64_t blobs, bytes;
    uint64_t written;
};

/* Commit, or roll back after an earlier failure; no reader uses the file meanwhile. */
int blob_writer_end(struct blob_writer *writer, int rc, struct err *err)
{
    int locked = pthread_rwlock_wrlock(&writer->store->commit_lock);
    ASSERT(locked == 0);
    if (rc == 0) {
        rc = sql_exec(writer->db, "COMMIT", err);
    }
    if (rc) {
        sql_rollback(writer->db);
        /* After a commit that failed half way, the next connection plays back its journal. Do it
         * here, before any reader. A disk fault shows at the next batch. */
        (void)sqlite3_exec(writer->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    (void)pthread_rwlock_unlock(&writer->store->commit_lock);
    return rc;
}

static int bind_failed(struct blob_writer *writer, struct err *err)
{
    return sql_fail(writer->db, "bind", err);
}

static int put_chunk(struct blob_writer *writer, const struct blob_item *item, struct tally *tally,
                     struct err *err)
{
    int64_t id = item->upload->id;
    sqlite3_stmt *row = writer->statement[WRITER_ADD_ROW];
    sqlite3_stmt *chunk = writer->statement[WRITER_ADD_CHUNK];
    if (sqlite3_bind_int64(row, 1, id) != SQLITE_OK) {
        return bind_failed(writer, err);
    }
    int rc = sql_run(writer->db, row, err);
    if (rc) {
        return rc;
    }
    if (sqlite3_bind_int64(chunk, 1, (id << BLOB_INDEX_BITS) + item->index) != SQLITE_OK ||
        sqlite3_bind_blob64(chunk, 2, item->data, item->size, SQLITE_STATIC) != SQLITE_OK) {
        return bind_failed(writer, err);
    }
    rc = sql_run(writer->db, chunk, err);
    tally->written += item->size;
    return rc;
}

static int find(struct blob_writer *writer, const char *sha256, bool *found, int64_t *size,
                struct err *err)
{
    sqlite3_stmt *statement = writer->statement[WRITER_FIND];
    *found = false;
    *size = 0;
    if (sqlite3_bind_text(statement, 1, sha256, -1, SQLITE_STATIC) != SQLITE_OK) {
        return bind_failed(writer, err);
    }
    int rc = sql_step(writer->db, statement, found, err);
    *size = rc == 0 && *found ? sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_reset(statement);
    return rc;
}

static int withdraw(struct blob_writer *writer, const char *sha256, struct tally *tally,
                    struct err *err)
{
    sqlite3_stmt *statement = writer->statement[WRITER_WITHDRAW];
    bool there = false;
    if (sqlite3_bind_text(statement, 1, sha256, -1, SQLITE_STATIC) != SQLITE_OK) {
        return bind_failed(writer, err);
    }
    int rc = sql_step(writer->db, statement, &there, err);
    if (rc == 0 && there) {
        tally->blobs--;
        tally->bytes -= sqlite3_column_int64(statement, 0);
        writer->has_garbage = true;
        /* The change is complete only when the statement is done. */
        rc = sql_run(writer->db, statement, err);
    }
    return rc;
}

/* Publish a blob whose rows are complete: from this transaction on it exists. If the same content
 * exists already, the rows of this copy are garbage. */
static int publish(struct blob_writer *writer, struct blob_upload *upload, struct tally *tally,
                   struct err *err)
{
    bool exists = false;
    int64_t size;
    upload->placed = false;
    int rc = find(writer, upload->sha256, &exists, &size, err);
    if (rc == 0 && exists && blob_is_damaged(writer->store, upload->sha256)) {
        exists = false;
        rc = withdraw(writer, upload->sha256, tally, err);
    }
    if (rc || exists) {
        writer->has_garbage = writer->has_garbage || exists;
        return rc;
    }
    sqlite3_stmt *statement = writer->statement[WRITER_PUBLISH];
    if (sqlite3_bind_int64(statement, 1, upload->id) != SQLITE_OK ||
        sqlite3_bind_text(statement, 2, upload->sha256, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 3, (int64_t)upload->size) != SQLITE_OK) {
        return bind_failed(writer, err);
    }
    tally->blobs++;
    tally->bytes += (int64_t)upload->size;
    upload->placed = true;
    return sql_run(writer->db, statement, err);
}

static bool is_publishable(const struct blob_upload *upload)
{
    return upload->finished && !upload->failure.code &&
           (!upload->expected[0] || strcmp(upload->expected, upload->sha256) == 0);
}

static int confirm(struct blob_writer *writer, struct blob_upload *question, struct err *err)
{
    int64_t size;
    int rc = find(writer, question->expected, &question->found, &size, err);
    question->found = question->found && !blob_is_damaged(writer->store, question->expected);
    question->size = (uint64_t)size;
    return rc;
}

static int end_upload(struct blob_writer *writer, struct blob_upload *upload, struct tally *tally,
                      struct err *err)
{
    if (upload->confirms) {
        return confirm(writer, upload, err);
    }
    return is_publishable(upload) ? publish(writer, upload, tally, err) : 0;
}

static int apply(struct blob_writer *writer, const struct blob_item *item, struct tally *tally,
                 struct err *err)
{
    switch (item->kind) {
    case BLOB_ITEM_CHUNK:
        return item->dropped || item->upload->failure.code ? 0
                                                           : put_chunk(writer, item, tally, err);
    case BLOB_ITEM_SEAL: return 0;
    case BLOB_ITEM_END: return end_upload(writer, item->upload, tally, err);
    case BLOB_ITEM_DELETE: return withdraw(writer, item->sha256, tally, err);
    }
    return 0;
}

static void count(struct blob_store *store, const struct tally *tally)
{
    atomic_fetch_add(&store->blobs, (uint64_t)tally->blobs);
    atomic_fetch_add(&store->bytes, (uint64_t)tally->bytes);
    atomic_fetch_add(&store->bytes_written, tally->written);
}

/* One transaction around `first` and the items after it, or around `first` alone. */
static int commit_items(struct blob_writer *writer, const struct blob_item *first, bool alone,
                        struct err *err)
{
    struct tally tally = {0};
    int rc = sql_exec(writer->db, "BEGIN IMMEDIATE", err);
    for (const struct blob_item *item = first; item && rc == 0; item = alone ? NULL : item->next) {
        rc = apply(writer, item, &tally, err);
    }
    rc = blob_writer_end(writer, rc, err);
    if (rc == 0) {
        count(writer->store, &tally);
    }
    return rc;
}

static void fail_upload(struct blob_writer *writer, struct blob_upload *upload,
                        const struct err *failure)
{
    blob_queue_fail(&writer->store->queue, upload, failure);
    /* At once: the other uploads of the batch may need the space. */
    struct err err = {0};
    if (blob_reclaim_one(writer, upload->id, &err)) {
        log_warn("blob_reclaim_failed", "error=%s", log_quote(err.text).text);
    }
    writer->has_garbage = true;
}

/* The batch as a whole did not fit or failed: repeat it item by item, in order, and reject only
 * items that fail themselves. */
static void commit_each(struct blob_writer *writer, struct blob_item *items)
{
    for (struct blob_item *item = items; item; item = item->next) {
        struct err err = {0};
        if (commit_items(writer, item, true, &err) == 0) {
            continue;
        }
        if (item->kind == BLOB_ITEM_DELETE) {
            log_warn("blob_delete_failed", "sha256=%s error=%s", item->sha256,
                     log_quote(err.text).text);
        } else {
            fail_upload(writer, item->upload, &err);
        }
    }
}

/* Reject new uploads below min_free_bytes and open uploads below half of it. Uploads that keep all
 * of it free fail when their bytes of this batch do not fit beside it. */
static void refuse_when_full(struct blob_writer *writer, struct blob_item *items)
{
    const struct blob_store *store = writer->store;
    struct err err = {0};
    uint64_t free_bytes = 0, taken_bytes = 0;
    if (file_free_bytes(store->directory, &free_bytes, &err)) {
        log_warn("free_space_unknown", "error=%s", log_quote(err.text).text);
        return;
    }
    free_bytes += atomic_load(&store->reusable_bytes);
    for (struct blob_item *item = items; item; item = item->next) {
        if (item->kind != BLOB_ITEM_CHUNK || item->dropped || item->upload->failure.code) {
            continue;
        }
        const uint64_t need_bytes = taken_bytes + item->size + BLOB_PAGE_BYTES;
        if (free_bytes < store->min_free_bytes / 2 ||
            (item->upload->keeps_free && free_bytes < store->min_free_bytes + need_bytes)) {
            int rc = err_set(&err, ERR_FULL, "'%s' has %llu bytes free; %llu must stay free",
                             store->directory, (unsigned long long)free_bytes,
                             (unsigned long long)store->min_free_bytes);
            ASSERT(rc == ERR_FULL);
            fail_upload(writer, item->upload, &err);
        } else {
            taken_bytes = need_bytes;
        }
    }
}

/* Hash each item once, even if its transaction is repeated. */
static void hash_items(const struct blob_item *items)
{
    for (const struct blob_item *item = items; item; item = item->next) {
        struct blob_upload *upload = item->upload;
        if (item->kind == BLOB_ITEM_CHUNK) {
            if (!item->dropped && !upload->failure.code) {
                sha256_update(upload->hash, item->data, item->size);
            }
        } else if (upload && !upload->sha256[0]) {
            sha256_finish_text(upload->hash, upload->sha256);
        }
    }
}

/* Report sealed uploads and the outcome of finished ones, after all of them are on the disk. */
static void report(struct blob_writer *writer, struct blob_item *items)
{
    for (struct blob_item *item = items; item; item = item->next) {
        struct blob_upload *upload = item->upload;
        if (item->kind == BLOB_ITEM_SEAL) {
            upload->sealed(upload->sealed_arg, upload->sha256);
        }
        if (item->kind == BLOB_ITEM_DELETE) {
            blob_mend(writer->store, item->sha256); /* a deleted blob is not damaged */
        }
        if (item->kind != BLOB_ITEM_END) {
            continue;
        }
        struct err err = upload->failure;
        int rc = err.code;
        if (upload->confirms && rc == 0 && !upload->found) {
            rc = err_set(&err, ERR_NOT_FOUND, "the center has no blob %s", upload->expected);
        } else if (upload->finished && rc == 0 && !is_publishable(upload)) {
            rc = err_set(&err, ERR_FORMAT, "sha256 of the content is %s, expected %s",
                         upload->sha256, upload->expected);
        }
        writer->has_garbage = writer->has_garbage || !upload->finished || (rc && !upload->confirms);
        if (rc == 0 && upload->placed) {
            blob_mend(writer->store, upload->sha256);
        }
        if (upload->finished) {
            upload->done(upload->done_arg, rc, upload->sha256, upload->size, &err);
        }
    }
}

static void write_batch(struct blob_writer *writer, struct blob_item *items)
{
    struct err err = {0};
    refuse_when_full(writer, items);
    hash_items(items);
    if (commit_items(writer, items, false, &err)) {
        log_warn("blob_batch_failed", "error=%s", log_quote(err.text).text);
        commit_each(writer, items);
    }
    blob_update_reusable(writer);
    report(writer, items);
    blob_queue_settle(&writer->store->queue, items);
}

void *blob_writer_run(void *arg)
{
    struct blob_writer *writer = arg;
    bool stopped = false;
    while (!stopped) {
        const int64_t wait_ms = !writer->has_garbage ? -1 : writer->is_held ? HELD_LOOK_MS : 0;
        struct blob_item *items = blob_queue_take(&writer->store->queue, wait_ms, &stopped);
        if (items) {
            write_batch(writer, items);
        }
        if (writer->has_garbage && !stopped) {
            writer->has_garbage = blob_reclaim_step(writer);
        }
        if (!writer->has_garbage) {
            /* The next batch does not need the cached pages of the last one. */
            (void)sqlite3_db_release_memory(writer->db);
        }
    }
    return NULL;
}
