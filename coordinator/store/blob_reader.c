/* Readers have separate connections, so that they do not wait for the writer's transaction, only
 * for its commit. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/sql.h"
#include "net/hash.h"

#define LIST_ROWS 256

enum reader_statement { READER_FIND, READER_EXISTS, READER_LIST, READER_STATEMENTS };

static const char *const statement_texts[READER_STATEMENTS] = {
    [READER_FIND] = "SELECT id, size FROM blobs WHERE sha256 = ?1",
    [READER_EXISTS] = "SELECT 1 FROM blobs WHERE id = ?1 AND sha256 IS NOT NULL",
    [READER_LIST] = "SELECT sha256, size FROM blobs WHERE sha256 > ?1 ORDER BY sha256 LIMIT ?2",
};

struct blob_connection {
    sqlite3 *db;
    sqlite3_stmt *statement[READER_STATEMENTS];
    size_t index; /* in the pool */
};

struct blob_reader {
    struct blob_store *store;
    int64_t id;
    uint64_t size;
    char sha256[BLOB_SHA256_SIZE];
    struct sha256 *hash; /* of the first `hashed` bytes; NULL once it was compared */
    uint64_t hashed;
};

static void close_connection(struct blob_connection **place)
{
    struct blob_connection *connection = *place;
    if (!connection) {
        return;
    }
    for (int i = 0; i < READER_STATEMENTS; i++) {
        sql_finalize(&connection->statement[i]);
    }
    if (connection->db) {
        sql_close(&connection->db);
    }
    free(connection);
    *place = NULL;
}

static int open_connection(const char *path, size_t index, struct blob_connection **out,
                           struct err *err)
{
    struct blob_connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        return err_set(err, ERR_MEMORY, "blob reader: out of memory");
    }
    connection->index = index;
    int rc = sql_open(path, &connection->db, err);
    rc = rc ? rc : sql_exec(connection->db, "PRAGMA cache_size = -1088", err);
    for (int i = 0; rc == 0 && i < READER_STATEMENTS; i++) {
        rc = sql_prepare(connection->db, statement_texts[i], &connection->statement[i], err);
    }
    if (rc) {
        close_connection(&connection);
        return rc;
    }
    *out = connection;
    return 0;
}

int blob_pool_init(struct blob_pool *pool, struct err *err)
{
    memset(pool, 0, sizeof(*pool));
    if (pthread_mutex_init(&pool->lock, NULL) || pthread_cond_init(&pool->returned, NULL)) {
        return err_set(err, ERR_MEMORY, "blob readers: no lock");
    }
    return 0;
}

void blob_pool_done(struct blob_pool *pool)
{
    ASSERT(pool->open_readers == 0);
    for (size_t i = 0; i < BLOB_READERS; i++) {
        ASSERT(!pool->lent[i]);
        close_connection(&pool->connection[i]);
    }
    (void)pthread_cond_destroy(&pool->returned);
    (void)pthread_mutex_destroy(&pool->lock);
}

/* Return the slot of a free connection, an open one if possible; BLOB_READERS: all are lent. */
static size_t free_slot(const struct blob_pool *pool)
{
    size_t best = BLOB_READERS;
    for (size_t i = BLOB_READERS; i-- > 0;) {
        if (!pool->lent[i] && (best == BLOB_READERS || pool->connection[i])) {
            best = i;
        }
    }
    return best;
}

static void unlend(struct blob_pool *pool, size_t slot)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->lent[slot] = false;
    (void)pthread_cond_signal(&pool->returned);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Lend a connection to this thread, and keep the writer from committing until its return. */
static int borrow(struct blob_store *store, struct blob_connection **out, struct err *err)
{
    struct blob_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    size_t slot;
    while ((slot = free_slot(pool)) == BLOB_READERS) {
        (void)pthread_cond_wait(&pool->returned, &pool->lock);
    }
    pool->lent[slot] = true;
    (void)pthread_mutex_unlock(&pool->lock);

    int locked = pthread_rwlock_rdlock(&store->commit_lock);
    ASSERT(locked == 0);
    if (!pool->connection[slot]) {
        int rc = open_connection(store->path, slot, &pool->connection[slot], err);
        if (rc) {
            (void)pthread_rwlock_unlock(&store->commit_lock);
            unlend(pool, slot);
            return rc;
        }
    }
    *out = pool->connection[slot];
    return 0;
}

static void give_back(struct blob_store *store, struct blob_connection *connection)
{
    (void)pthread_rwlock_unlock(&store->commit_lock);
    unlend(&store->pool, connection->index);
}

static int find(struct blob_store *store, const char *sha256, int64_t *id, uint64_t *size,
                struct err *err)
{
    struct blob_connection *connection = NULL;
    int rc = borrow(store, &connection, err);
    if (rc) {
        return rc;
    }
    sqlite3_stmt *statement = connection->statement[READER_FIND];
    bool there = false;
    rc = sqlite3_bind_text(statement, 1, sha256, -1, SQLITE_STATIC) == SQLITE_OK
             ? sql_step(connection->db, statement, &there, err)
             : sql_fail(connection->db, "bind", err);
    if (rc == 0 && there) {
        *id = sqlite3_column_int64(statement, 0);
        *size = (uint64_t)sqlite3_column_int64(statement, 1);
        (void)sqlite3_reset(statement);
    }
    give_back(store, connection);
    return rc || there ? rc : err_set(err, ERR_NOT_FOUND, "no blob '%.80s'", sha256);
}

int blob_reader_open(struct blob_store *store, const char *sha256, struct blob_reader **out,
                     uint64_t *size, struct err *err)
{
    struct blob_reader *reader = calloc(1, sizeof(*reader));
    if (!reader) {
        return err_set(err, ERR_MEMORY, "blob reader: out of memory");
    }
    int rc = find(store, sha256, &reader->id, &reader->size, err);
    rc = rc ? rc : sha256_new(&reader->hash, err);
    if (rc) {
        free(reader);
        return rc;
    }
    reader->store = store;
    memcpy(reader->sha256, sha256, BLOB_SHA256_SIZE - 1);
    (void)pthread_mutex_lock(&store->pool.lock);
    store->pool.open_readers++;
    (void)pthread_mutex_unlock(&store->pool.lock);
    *size = reader->size;
    *out = reader;
    return 0;
}

/* After the last reader the cached pages of the connections are no longer useful. */
void blob_reader_close(struct blob_reader **place)
{
    struct blob_reader *reader = *place;
    if (!reader) {
        return;
    }
    struct blob_pool *pool = &reader->store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    pool->open_readers--;
    for (size_t i = 0; pool->open_readers == 0 && i < BLOB_READERS; i++) {
        /* A lent slot belongs to its borrower, which may be opening the connection. */
        if (!pool->lent[i] && pool->connection[i]) {
            (void)sqlite3_db_release_memory(pool->connection[i]->db);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    sha256_free(&reader->hash);
    free(reader);
    *place = NULL;
}

/* ---- damage ---- */

static size_t damaged_index(const struct blob_pool *pool, const char *sha256)
{
    size_t index = 0;
    while (index < pool->damaged_count && strcmp(pool->damaged[index].sha256, sha256) != 0) {
        index++;
    }
    return index;
}

bool blob_is_damaged(struct blob_store *store, const char *sha256)
{
    struct blob_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    bool damaged = damaged_index(pool, sha256) < pool->damaged_count;
    (void)pthread_mutex_unlock(&pool->lock);
    return damaged;
}

bool blob_tell_damage(struct blob_store *store, const char *sha256)
{
    struct blob_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    const size_t index = damaged_index(pool, sha256);
    const bool news = index < pool->damaged_count && !pool->damaged[index].reported;
    if (news) {
        pool->damaged[index].reported = true;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return news;
}

bool blob_untold_damage(struct blob_store *store, char out[BLOB_SHA256_SIZE])
{
    struct blob_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    size_t index = 0;
    while (index < pool->damaged_count && pool->damaged[index].reported) {
        index++;
    }
    const bool there = index < pool->damaged_count;
    if (there) {
        memcpy(out, pool->damaged[index].sha256, BLOB_SHA256_SIZE);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return there;
}

/* Whether the reader's copy is still the blob of its hash. */
static int is_published(struct blob_connection *connection, const struct blob_reader *reader,
                        bool *out, struct err *err)
{
    sqlite3_stmt *statement = connection->statement[READER_EXISTS];
    int rc = sqlite3_bind_int64(statement, 1, reader->id) == SQLITE_OK
                 ? sql_step(connection->db, statement, out, err)
                 : sql_fail(connection->db, "bind", err);
    (void)sqlite3_reset(statement);
    return rc;
}

static void add_damage(struct blob_pool *pool, const char *sha256)
{
    (void)pthread_mutex_lock(&pool->lock);
    if (damaged_index(pool, sha256) == pool->damaged_count &&
        pool->damaged_count < BLOB_DAMAGED_MAX) {
        pool->damaged[pool->damaged_count].reported = false;
        memcpy(pool->damaged[pool->damaged_count++].sha256, sha256, BLOB_SHA256_SIZE);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Mark the blob as damaged, unless its copy was replaced or deleted while it was read. The borrowed
 * connection keeps the writer from replacing it between the check and the mark. */
static void note_damage(const struct blob_reader *reader)
{
    struct blob_store *store = reader->store;
    struct blob_connection *connection = NULL;
    struct err err = {0};
    bool published = false;
    if (borrow(store, &connection, &err)) {
        return; /* the next reader finds the damage again */
    }
    if (is_published(connection, reader, &published, &err) == 0 && published) {
        add_damage(&store->pool, reader->sha256);
    }
    give_back(store, connection);
}

void blob_mend(struct blob_store *store, const char *sha256)
{
    struct blob_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    const size_t index = damaged_index(pool, sha256);
    if (index < pool->damaged_count) {
        pool->damaged[index] = pool->damaged[--pool->damaged_count];
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Content read in order from the beginning is verified at its end. */
static int follow(struct blob_reader *reader, uint64_t offset, const void *data, size_t size,
                  struct err *err)
{
    if (!reader->hash || offset != reader->hashed) {
        return 0;
    }
    sha256_update(reader->hash, data, size);
    reader->hashed += size;
    if (reader->hashed < reader->size) {
        return 0;
    }
    char found[BLOB_SHA256_SIZE];
    sha256_finish_text(reader->hash, found);
    sha256_free(&reader->hash);
    if (strcmp(found, reader->sha256) == 0) {
        return 0;
    }
    note_damage(reader);
    return err_set(err, ERR_FORMAT, "blob '%s' is damaged: its content has sha256 %s",
                   reader->sha256, found);
}

/* Find out whether a row is missing because the blob was deleted or because the file is damaged. */
static int missing(struct blob_connection *connection, const struct blob_reader *reader,
                   uint64_t index, struct err *err)
{
    bool exists = false;
    int rc = is_published(connection, reader, &exists, err);
    if (rc) {
        return rc;
    }
    return exists ? err_set(err, ERR_FORMAT, "blob '%s': chunk %llu is missing or has another size",
                            reader->sha256, (unsigned long long)index)
                  : err_set(err, ERR_NOT_FOUND, "blob '%s' was deleted", reader->sha256);
}

static int read_chunk(struct blob_connection *connection, const struct blob_reader *reader,
                      uint64_t offset, void *out, size_t size, struct err *err)
{
    uint64_t index = offset / BLOB_CHUNK_BYTES;
    uint64_t start = index * BLOB_CHUNK_BYTES;
    uint64_t expected =
        reader->size - start < BLOB_CHUNK_BYTES ? reader->size - start : BLOB_CHUNK_BYTES;
    sqlite3_blob *blob = NULL;
    int rc = sqlite3_blob_open(connection->db, "main", "chunks", "data",
                               (reader->id << BLOB_INDEX_BITS) + (int64_t)index, 0, &blob);
    if (rc == SQLITE_ERROR) {
        /* SQLite's word for "no such row". */
        (void)sqlite3_blob_close(blob);
        return missing(connection, reader, index, err);
    }
    bool is_whole = rc == SQLITE_OK && (uint64_t)sqlite3_blob_bytes(blob) == expected;
    if (is_whole) {
        rc = sqlite3_blob_read(blob, out, (int)size, (int)(offset - start));
    }
    int result = rc == SQLITE_OK ? 0 : sql_fail(connection->db, "read chunk", err);
    (void)sqlite3_blob_close(blob);
    return result == 0 && !is_whole ? missing(connection, reader, index, err) : result;
}

int blob_read(struct blob_reader *reader, uint64_t offset, void *out, size_t size, size_t *out_size,
              struct err *err)
{
    size_t total = 0;
    while (total < size && offset + total < reader->size) {
        uint64_t at = offset + total;
        uint64_t left_in_chunk = BLOB_CHUNK_BYTES - at % BLOB_CHUNK_BYTES;
        uint64_t left = reader->size - at < left_in_chunk ? reader->size - at : left_in_chunk;
        size_t count = size - total < left ? size - total : (size_t)left;
        struct blob_connection *connection = NULL;
        int rc = borrow(reader->store, &connection, err);
        if (rc == 0) {
            rc = read_chunk(connection, reader, at, (char *)out + total, count, err);
            give_back(reader->store, connection);
        }
        if (rc == ERR_FORMAT) {
            note_damage(reader);
        }
        rc = rc ? rc : follow(reader, at, (const char *)out + total, count, err);
        if (rc) {
            return rc;
        }
        total += count;
    }
    *out_size = total;
    return 0;
}

int blob_check(struct blob_store *store, const char *sha256, bool (*go_on)(void *arg), void *arg,
               struct err *err)
{
    struct blob_reader *reader = NULL;
    uint64_t size = 0;
    size_t got = 1;
    char *piece = malloc(BLOB_CHUNK_BYTES);
    int rc = piece ? blob_reader_open(store, sha256, &reader, &size, err)
                   : err_set(err, ERR_MEMORY, "blob: out of memory");
    for (uint64_t at = 0; rc == 0 && got > 0; at += got) {
        rc = go_on(arg) ? blob_read(reader, at, piece, BLOB_CHUNK_BYTES, &got, err)
                        : err_set(err, ERR_CANCELLED, "the coordinator is stopping");
    }
    blob_reader_close(&reader);
    free(piece);
    return rc;
}

struct listed {
    char sha256[BLOB_SHA256_SIZE];
    uint64_t size;
};

/* Copy the blobs after `after`, at most LIST_ROWS. */
static int list_some(struct blob_store *store, const char *after, struct listed *out, size_t *count,
                     struct err *err)
{
    struct blob_connection *connection = NULL;
    int rc = borrow(store, &connection, err);
    if (rc) {
        return rc;
    }
    sqlite3_stmt *statement = connection->statement[READER_LIST];
    if (sqlite3_bind_text(statement, 1, after, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int(statement, 2, LIST_ROWS) != SQLITE_OK) {
        rc = sql_fail(connection->db, "bind", err);
    }
    *count = 0;
    for (bool there = true; rc == 0 && there;) {
        rc = sql_step(connection->db, statement, &there, err);
        if (rc == 0 && there) {
            struct listed *row = &out[(*count)++];
            const unsigned char *text = sqlite3_column_text(statement, 0);
            size_t size = text ? (size_t)sqlite3_column_bytes(statement, 0) : 0;
            size = size < BLOB_SHA256_SIZE ? size : BLOB_SHA256_SIZE - 1;
            memcpy(row->sha256, text ? (const void *)text : "", size);
            row->sha256[size] = '\0';
            row->size = (uint64_t)sqlite3_column_int64(statement, 1);
        }
    }
    give_back(store, connection);
    return rc;
}

int blob_sweep(struct blob_store *store, bool (*keep)(void *arg, const char *sha256, uint64_t size),
               void *arg, struct err *err)
{
    struct listed *row = calloc(LIST_ROWS, sizeof(*row));
    if (!row) {
        return err_set(err, ERR_MEMORY, "blob sweep: out of memory");
    }
    char after[BLOB_SHA256_SIZE] = "";
    size_t count = LIST_ROWS;
    int rc = 0;
    while (rc == 0 && count == LIST_ROWS) {
        rc = list_some(store, after, row, &count, err);
        for (size_t i = 0; rc == 0 && i < count; i++) {
            if (!keep(arg, row[i].sha256, row[i].size)) {
                blob_delete(store, row[i].sha256);
            }
        }
        if (rc == 0 && count > 0) {
            memcpy(after, row[count - 1].sha256, sizeof(after));
        }
    }
    free(row);
    return rc;
}
