#include "coordinator/store/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/sql.h"
#include "net/hash.h"

#define ARCHIVE_APPLICATION_ID 0x504c626b /* "PLbk" */
#define ARCHIVE_FORM 1                    /* PRAGMA user_version */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* One transaction without a journal, because a draft that is not kept is removed. The application
 * id is set last: a file without it is incomplete. */
static const char draft_pragmas[] =
    "PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;"
    "PRAGMA cache_size = -8192; BEGIN EXCLUSIVE;"
    "CREATE TABLE facts (made_ms INTEGER NOT NULL, schema INTEGER NOT NULL,"
    " incomplete INTEGER NOT NULL, version TEXT NOT NULL) STRICT;"
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL,"
    " sha256 TEXT NOT NULL, size INTEGER NOT NULL, mode INTEGER NOT NULL,"
    " UNIQUE (kind, name)) STRICT;"
    "CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;";

struct archive_draft {
    sqlite3 *db;
    char path[PATH_MAX], partial[PATH_MAX];
    sqlite3_stmt *add_chunk, *add_content;
    struct sha256 *hash;
    struct archive_content content; /* being written */
    char *piece;                    /* [BLOB_CHUNK_BYTES] the last, unfinished chunk */
    size_t piece_size;
    bool is_open; /* the content has chunks and was not ended */
};

struct archive {
    sqlite3 *db;
    sqlite3_stmt *chunk;
    struct archive_content *content;
    size_t count, capacity;
};

/* ---- writing ---- */

/* A wrongly completed name on a command line must not overwrite a file. */
static int check_target(const char *path, struct err *err)
{
    struct archive *archive = NULL;
    struct archive_facts facts;
    if (access(path, F_OK)) {
        return 0;
    }
    const int rc = archive_open(path, &archive, &facts, err);
    archive_free(&archive);
    return rc == 0 ? 0
                   : err_set(err, ERR_EXISTS,
                             "'%s' exists and is not a backup; choose another name", path);
}

int archive_create(const char *path, struct archive_draft **out, struct err *err)
{
    int rc = check_target(path, err);
    if (rc) {
        return rc;
    }
    struct archive_draft *draft = calloc(1, sizeof(*draft));
    if (!draft) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    draft->piece = malloc(BLOB_CHUNK_BYTES);
    const int length = snprintf(draft->partial, PATH_MAX, "%s.partial", path);
    (void)snprintf(draft->path, PATH_MAX, "%s", path);
    if (length < 0 || length >= PATH_MAX) {
        rc = err_set(err, ERR_INVALID, "path '%s' is too long", path);
    } else if (!draft->piece) {
        rc = err_set(err, ERR_MEMORY, "out of memory");
    } else if (unlink(draft->partial) && errno != ENOENT) {
        rc = err_set(err, ERR_IO, "remove '%s': %s", draft->partial, strerror(errno));
    }
    rc = rc ? rc : sql_open(draft->partial, &draft->db, err);
    rc = rc ? rc : sql_exec(draft->db, draft_pragmas, err);
    rc = rc ? rc
            : sql_prepare(draft->db, "INSERT INTO chunks (id, data) VALUES (?1, ?2)",
                          &draft->add_chunk, err);
    rc = rc ? rc
            : sql_prepare(draft->db,
                          "INSERT INTO contents (id, kind, name, sha256, size, mode) "
                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                          &draft->add_content, err);
    rc = rc ? rc : sha256_new(&draft->hash, err);
    if (rc) {
        archive_close(&draft);
        return err_wrap(err, "write '%s'", path);
    }
    *out = draft;
    return 0;
}

static int drop_open_content(struct archive_draft *draft, struct err *err)
{
    char text[160];
    char unused[HASH_TEXT_SIZE];
    draft->is_open = false;
    draft->piece_size = 0;
    sha256_finish_text(draft->hash, unused);
    (void)snprintf(text, sizeof(text),
                   "DELETE FROM chunks WHERE id >= %lld << " TEXT(BLOB_INDEX_BITS),
                   (long long)draft->content.id);
    return sql_exec(draft->db, text, err);
}

int archive_begin(struct archive_draft *draft, enum archive_kind kind, const char *name,
                  unsigned mode, struct err *err)
{
    const int64_t id = draft->content.id + (draft->is_open ? 0 : 1);
    int rc = draft->is_open ? drop_open_content(draft, err) : 0;
    draft->content = (struct archive_content){.kind = kind, .mode = mode, .id = id};
    if (strlen(name) >= ARCHIVE_NAME_SIZE) {
        return err_set(err, ERR_LIMIT, "the name '%.200s' is too long", name);
    }
    memcpy(draft->content.name, name, strlen(name) + 1);
    draft->is_open = true;
    return rc;
}

static int put_chunk(struct archive_draft *draft, struct err *err)
{
    const uint64_t index = draft->content.size / BLOB_CHUNK_BYTES;
    sqlite3_stmt *statement = draft->add_chunk;
    if (sqlite3_bind_int64(statement, 1, (draft->content.id << BLOB_INDEX_BITS) + (int64_t)index) !=
            SQLITE_OK ||
        sqlite3_bind_blob64(statement, 2, draft->piece, draft->piece_size, SQLITE_STATIC) !=
            SQLITE_OK) {
        return sql_fail(draft->db, "bind", err);
    }
    sha256_update(draft->hash, draft->piece, draft->piece_size);
    draft->content.size += draft->piece_size;
    draft->piece_size = 0;
    return sql_run(draft->db, statement, err) ? err_wrap(err, "write '%s'", draft->partial) : 0;
}

int archive_append(struct archive_draft *draft, const void *data, size_t size, struct err *err)
{
    const char *from = data;
    int rc = 0;
    while (rc == 0 && size > 0) {
        const size_t room = BLOB_CHUNK_BYTES - draft->piece_size;
        const size_t count = size < room ? size : room;
        memcpy(draft->piece + draft->piece_size, from, count);
        draft->piece_size += count;
        from += count;
        size -= count;
        if (draft->piece_size == BLOB_CHUNK_BYTES) {
            rc = put_chunk(draft, err);
        }
    }
    return rc;
}

int archive_end(struct archive_draft *draft, struct err *err)
{
    struct archive_content *content = &draft->content;
    sqlite3_stmt *statement = draft->add_content;
    int rc = draft->piece_size > 0 ? put_chunk(draft, err) : 0;
    if (rc) {
        return rc;
    }
    sha256_finish_text(draft->hash, content->sha256);
    if (sqlite3_bind_int64(statement, 1, content->id) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 2, content->kind) != SQLITE_OK ||
        sqlite3_bind_text(statement, 3, content->name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_text(statement, 4, content->sha256, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 5, (int64_t)content->size) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 6, content->mode) != SQLITE_OK) {
        return sql_fail(draft->db, "bind", err);
    }
    draft->is_open = false;
    return sql_run(draft->db, statement, err) ? err_wrap(err, "write '%s'", draft->partial) : 0;
}

static void end_statements(struct archive_draft *draft)
{
    sql_finalize(&draft->add_chunk);
    sql_finalize(&draft->add_content);
}

static int finish(struct archive_draft *draft, const struct archive_facts *facts, struct err *err)
{
    char text[320];
    int rc = draft->is_open ? drop_open_content(draft, err) : 0;
    (void)snprintf(text, sizeof(text),
                   "INSERT INTO facts (made_ms, schema, incomplete, version) VALUES "
                   "(%lld, %lld, %lld, '%s'); PRAGMA user_version = %d;"
                   "PRAGMA application_id = %d; COMMIT",
                   (long long)facts->made_ms, (long long)facts->schema,
                   (long long)facts->incomplete, facts->version, ARCHIVE_FORM,
                   ARCHIVE_APPLICATION_ID);
    rc = rc ? rc : sql_exec(draft->db, text, err);
    end_statements(draft);
    sql_close(&draft->db);
    return rc;
}

static int publish(const struct archive_draft *draft, struct err *err)
{
    FD_AUTO int fd = open(draft->partial, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        const int reason = errno;
        return err_set(err, err_from_errno(reason), "sync '%s': %s", draft->partial,
                       strerror(reason));
    }
    if (rename(draft->partial, draft->path)) {
        return err_set(err, ERR_IO, "rename to '%s': %s", draft->path, strerror(errno));
    }
    return file_sync_directory_of(draft->path, err);
}

int archive_keep(struct archive_draft *draft, const struct archive_facts *facts, struct err *err)
{
    const int rc = finish(draft, facts, err);
    return rc ? err_wrap(err, "write '%s'", draft->partial) : publish(draft, err);
}

void archive_close(struct archive_draft **place)
{
    struct archive_draft *draft = *place;
    if (!draft) {
        return;
    }
    end_statements(draft);
    if (draft->db) {
        sql_close(&draft->db);
    }
    (void)unlink(draft->partial); /* after archive_keep it does not exist */
    sha256_free(&draft->hash);
    free(draft->piece);
    free(draft);
    *place = NULL;
}

/* ---- reading ---- */

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static int add_content(struct archive *archive, sqlite3_stmt *row, struct err *err)
{
    if (archive->count == archive->capacity) {
        const size_t capacity = archive->capacity ? 2 * archive->capacity : 64;
        struct archive_content *larger = realloc(archive->content, capacity * sizeof(*larger));
        if (!larger) {
            return err_set(err, ERR_MEMORY, "out of memory");
        }
        archive->content = larger;
        archive->capacity = capacity;
    }
    const int64_t id = sqlite3_column_int64(row, 0), kind = sqlite3_column_int64(row, 1);
    const int64_t size = sqlite3_column_int64(row, 4);
    const char *name = text_of(row, 2), *sha256 = text_of(row, 3);
    if (kind < ARCHIVE_STATE || kind > ARCHIVE_BLOB || id <= 0 || id > INT64_MAX >> 21 ||
        size < 0 || (uint64_t)size > BLOB_SIZE_MAX || strlen(name) >= ARCHIVE_NAME_SIZE ||
        strlen(sha256) != BLOB_SHA256_SIZE - 1) {
        return err_set(err, ERR_FORMAT, "content %lld is damaged", (long long)id);
    }
    struct archive_content *content = &archive->content[archive->count++];
    *content = (struct archive_content){.kind = (enum archive_kind)kind,
                                        .size = (uint64_t)size,
                                        .mode = (unsigned)sqlite3_column_int64(row, 5),
                                        .id = id};
    memcpy(content->name, name, strlen(name) + 1);
    memcpy(content->sha256, sha256, BLOB_SHA256_SIZE);
    return 0;
}

static int read_contents(struct archive *archive, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    bool there = true;
    int rc = sql_prepare(
        archive->db, "SELECT id, kind, name, sha256, size, mode FROM contents ORDER BY kind, id",
        &statement, err);
    while (rc == 0 && there) {
        rc = sql_step(archive->db, statement, &there, err);
        rc = rc == 0 && there ? add_content(archive, statement, err) : rc;
    }
    sql_finalize(&statement);
    return rc;
}

static int read_facts(struct archive *archive, struct archive_facts *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    bool there = false;
    int rc = sql_prepare(archive->db, "SELECT made_ms, schema, incomplete, version FROM facts",
                         &statement, err);
    rc = rc ? rc : sql_step(archive->db, statement, &there, err);
    if (rc == 0 && !there) {
        rc = err_set(err, ERR_FORMAT, "no facts");
    }
    if (rc == 0) {
        out->made_ms = sqlite3_column_int64(statement, 0);
        out->schema = sqlite3_column_int64(statement, 1);
        out->incomplete = sqlite3_column_int64(statement, 2);
        (void)snprintf(out->version, sizeof(out->version), "%.31s", text_of(statement, 3));
    }
    sql_finalize(&statement);
    return rc;
}

static int check_form(struct archive *archive, struct err *err)
{
    int64_t id = 0, form = 0;
    int rc = sql_integer(archive->db, "PRAGMA application_id", &id, err);
    rc = rc ? rc : sql_integer(archive->db, "PRAGMA user_version", &form, err);
    if (rc == 0 && id != ARCHIVE_APPLICATION_ID) {
        return err_set(err, ERR_FORMAT, "not a backup of a coordinator");
    }
    if (rc == 0 && form != ARCHIVE_FORM) {
        return err_set(err, ERR_UNSUPPORTED,
                       "a backup of form %lld; this version supports form %d: use the version that "
                       "made it",
                       (long long)form, ARCHIVE_FORM);
    }
    return rc;
}

static int open_parts(struct archive *archive, const char *path, struct archive_facts *facts,
                      struct err *err)
{
    int rc = sql_open_read(path, &archive->db, err);
    rc = rc ? rc : check_form(archive, err);
    rc = rc ? rc : read_facts(archive, facts, err);
    rc = rc ? rc : read_contents(archive, err);
    return rc ? rc
              : sql_prepare(archive->db, "SELECT data FROM chunks WHERE id = ?1", &archive->chunk,
                            err);
}

int archive_open(const char *path, struct archive **out, struct archive_facts *facts,
                 struct err *err)
{
    if (access(path, R_OK)) {
        const int reason = errno;
        return err_set(err, err_from_errno(reason), "open '%s': %s", path, strerror(reason));
    }
    struct archive *archive = calloc(1, sizeof(*archive));
    if (!archive) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    struct err inner = {0};
    int rc = open_parts(archive, path, facts, &inner);
    if (rc) {
        archive_free(&archive);
        return err_set(err, rc, "'%s': %s", path, inner.text);
    }
    *out = archive;
    return 0;
}

void archive_free(struct archive **place)
{
    struct archive *archive = *place;
    if (!archive) {
        return;
    }
    sql_finalize(&archive->chunk);
    if (archive->db) {
        sql_close(&archive->db);
    }
    free(archive->content);
    free(archive);
    *place = NULL;
}

const struct archive_content *archive_contents(const struct archive *archive, size_t *count)
{
    *count = archive->count;
    return archive->content;
}

static int read_chunk(struct archive *archive, const struct archive_content *content, uint64_t at,
                      struct sha256 *hash, archive_take_fn take, void *arg, struct err *err)
{
    const uint64_t left = content->size - at;
    const size_t size = left < BLOB_CHUNK_BYTES ? (size_t)left : BLOB_CHUNK_BYTES;
    const int64_t id = (content->id << BLOB_INDEX_BITS) + (int64_t)(at / BLOB_CHUNK_BYTES);
    sqlite3_stmt *chunk = archive->chunk;
    bool there = false;
    int rc = sqlite3_bind_int64(chunk, 1, id) == SQLITE_OK
                 ? sql_step(archive->db, chunk, &there, err)
                 : sql_fail(archive->db, "bind", err);
    if (rc == 0 && (!there || (size_t)sqlite3_column_bytes(chunk, 0) != size)) {
        rc = err_set(err, ERR_FORMAT, "chunk %llu is missing or has another size",
                     (unsigned long long)(at / BLOB_CHUNK_BYTES));
    }
    if (rc == 0) {
        const void *data = sqlite3_column_blob(chunk, 0);
        sha256_update(hash, data, size);
        rc = take ? take(arg, data, size, err) : 0;
    }
    (void)sqlite3_reset(chunk);
    return rc;
}

int archive_read(struct archive *archive, const struct archive_content *content,
                 archive_take_fn take, void *arg, struct err *err)
{
    AUTO(sha256_free) struct sha256 *hash = NULL;
    char found[HASH_TEXT_SIZE];
    int rc = sha256_new(&hash, err);
    for (uint64_t at = 0; rc == 0 && at < content->size; at += BLOB_CHUNK_BYTES) {
        rc = read_chunk(archive, content, at, hash, take, arg, err);
    }
    if (rc == 0) {
        sha256_finish_text(hash, found);
        if (strcmp(found, content->sha256) != 0) {
            rc = err_set(err, ERR_FORMAT, "its content has sha256 %s, expected %s", found,
                         content->sha256);
        }
    }
    return rc ? err_wrap(err, "content '%s'", content->name) : 0;
}
