#include "coordinator/store/backup.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/archive.h"
#include "coordinator/store/backup_parts.h"
#include "coordinator/store/migrate.h"
#include "coordinator/store/path.h"
#include "coordinator/store/snapshot.h"

#define FILE_BYTES_MAX (1u << 20) /* of a certificate or a key */
#define PIECE_BYTES 65536
/* The space that a backup needs beside its contents: a share of them, and a minimum. */
#define OVERHEAD_SHARE 64
#define OVERHEAD_BYTES (1u << 20)

static void count_content(struct backup_report *report, uint64_t size)
{
    report->bytes += size;
}

/* ---- making ---- */

static uint64_t needed_bytes(const struct snapshot *snapshot)
{
    size_t count = 0;
    const struct snapshot_blob *blob = snapshot_blobs(snapshot, &count);
    uint64_t bytes = 2 * snapshot_state_bytes(snapshot); /* its copy, and its content */
    for (size_t i = 0; i < count; i++) {
        bytes += blob[i].size;
    }
    return bytes + bytes / OVERHEAD_SHARE + OVERHEAD_BYTES;
}

int backup_check_room(const char *directory, uint64_t needed, uint64_t min_free_bytes,
                      struct err *err)
{
    uint64_t free_bytes = 0;
    int rc = file_free_bytes(directory, &free_bytes, err);
    if (rc == 0 && (free_bytes < min_free_bytes || free_bytes - min_free_bytes < needed)) {
        return err_set(err, ERR_FULL,
                       "'%s' has %" PRIu64 " bytes free; %" PRIu64 " are needed and %" PRIu64
                       " must stay free (--min-free)",
                       directory, free_bytes, needed, min_free_bytes);
    }
    return rc;
}

static int check_room(const struct snapshot *snapshot, const char *path, uint64_t min_free_bytes,
                      struct err *err)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path + 1) : 1,
                   slash ? path : ".");
    return backup_check_room(directory, needed_bytes(snapshot), min_free_bytes, err);
}

static int add_file(struct archive_draft *draft, enum archive_kind kind, const char *name,
                    const char *path, unsigned mode, struct backup_report *report, struct err *err)
{
    char piece[PIECE_BYTES];
    FILE *file = fopen(path, "rbe");
    if (!file) {
        const int reason = errno;
        return err_set(err, err_from_errno(reason), "open '%s': %s", path, strerror(reason));
    }
    int rc = archive_begin(draft, kind, name, mode, err);
    size_t size = 1;
    while (rc == 0 && (size = fread(piece, 1, sizeof(piece), file)) > 0) {
        rc = archive_append(draft, piece, size, err);
        count_content(report, size);
    }
    if (rc == 0 && ferror(file)) {
        rc = err_set(err, ERR_IO, "read '%s'", path);
    }
    (void)fclose(file);
    return rc ? rc : archive_end(draft, err);
}

static int add_state(struct archive_draft *draft, struct snapshot *snapshot, const char *path,
                     struct backup_report *report, struct err *err)
{
    char copy[PATH_MAX];
    const int length = snprintf(copy, sizeof(copy), "%s.partial-state", path);
    if (length < 0 || (size_t)length >= sizeof(copy)) {
        return err_set(err, ERR_INVALID, "path '%s' is too long", path);
    }
    int rc = snapshot_copy_state(snapshot, copy, err);
    if (rc == 0) {
        rc = add_file(draft, ARCHIVE_STATE, "state.db", copy, 0600, report, err);
        (void)unlink(copy);
    }
    return rc;
}

/* The certificates and keys, if init was run. */
static int add_certificates(struct archive_draft *draft, const char *directory,
                            struct backup_report *report, struct err *err)
{
    char tls[PATH_MAX], path[PATH_MAX], name[ARCHIVE_NAME_SIZE];
    int rc = path_join(tls, directory, "tls", err);
    DIR *files = rc ? NULL : opendir(tls);
    if (!files) {
        return rc || errno == ENOENT
                   ? rc
                   : err_set(err, err_from_errno(errno), "open '%s': %s", tls, strerror(errno));
    }
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(files))) {
        struct stat status;
        rc = path_join(path, tls, entry->d_name, err);
        if (rc == 0 && entry->d_name[0] != '.' && stat(path, &status) == 0 &&
            S_ISREG(status.st_mode) && status.st_size <= FILE_BYTES_MAX) {
            (void)snprintf(name, sizeof(name), "tls/%.100s", entry->d_name);
            rc = add_file(draft, ARCHIVE_FILE, name, path, status.st_mode & 0777, report, err);
        }
    }
    (void)closedir(files);
    return rc;
}

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return archive_append(arg, data, size, err);
}

/* Add a blob; draft NULL: only read it. A missing or damaged blob is left out, because the rest is
 * worth keeping. */
static int add_blob(struct archive_draft *draft, struct snapshot *snapshot,
                    const struct snapshot_blob *blob, struct backup_report *report, struct err *err)
{
    struct err inner = {0};
    int rc = draft ? archive_begin(draft, ARCHIVE_BLOB, blob->sha256, 0, err) : 0;
    if (rc) {
        return rc;
    }
    rc = snapshot_read(snapshot, blob, draft ? append : NULL, draft, &inner);
    if (rc == ERR_FORMAT) {
        log_error("backup_blob_damaged", "sha256=%s error=%s", blob->sha256,
                  log_quote(inner.text).text);
        report->damaged++;
        return 0;
    }
    if (rc) {
        return err_set(err, rc, "%s", inner.text);
    }
    report->blobs++;
    count_content(report, blob->size);
    return draft ? archive_end(draft, err) : 0;
}

static int add_blobs(struct archive_draft *draft, struct snapshot *snapshot,
                     struct backup_report *report, struct err *err)
{
    size_t count = 0;
    const struct snapshot_blob *blob = snapshot_blobs(snapshot, &count);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = add_blob(draft, snapshot, &blob[i], report, err);
    }
    return rc;
}

static int fill(struct archive_draft *draft, struct snapshot *snapshot, const char *directory,
                const char *path, struct backup_report *report, struct err *err)
{
    int rc = add_state(draft, snapshot, path, report, err);
    snapshot_end_rows(snapshot);
    rc = rc ? rc : add_certificates(draft, directory, report, err);
    rc = rc ? rc : add_blobs(draft, snapshot, report, err);
    if (rc) {
        return rc;
    }
    struct archive_facts facts = {.made_ms = clock_wall_ms(),
                                  .schema = report->schema,
                                  .incomplete = (int64_t)report->damaged};
    (void)snprintf(facts.version, sizeof(facts.version), "%s", PACELINE_VERSION);
    return archive_keep(draft, &facts, err);
}

int backup_make(const char *directory, const char *path, uint64_t min_free_bytes,
                struct backup_report *out, struct err *err)
{
    AUTO(snapshot_close) struct snapshot *snapshot = NULL;
    AUTO(archive_close) struct archive_draft *draft = NULL;
    struct backup_report report = {0};
    int rc = snapshot_open(directory, &snapshot, err);
    rc = rc ? rc : check_room(snapshot, path, min_free_bytes, err);
    rc = rc ? rc : snapshot_check_state(snapshot, err);
    rc = rc ? rc : archive_create(path, &draft, err);
    if (rc == 0) {
        report.schema = snapshot_schema(snapshot);
        rc = fill(draft, snapshot, directory, path, &report, err);
    }
    if (rc == 0) {
        *out = report;
    }
    return rc;
}

/* ---- checking ---- */

int backup_check_directory(const char *directory, struct backup_report *out, struct err *err)
{
    AUTO(snapshot_close) struct snapshot *snapshot = NULL;
    struct backup_report report = {0};
    int rc = snapshot_open(directory, &snapshot, err);
    rc = rc ? rc : snapshot_check_state(snapshot, err);
    if (rc) {
        return rc;
    }
    report.schema = snapshot_schema(snapshot);
    report.bytes = snapshot_state_bytes(snapshot);
    snapshot_end_rows(snapshot);
    rc = add_blobs(NULL, snapshot, &report, err);
    if (rc == 0) {
        *out = report;
    }
    return rc;
}

int backup_check_contents(const struct archive *archive, const struct archive_facts *facts,
                          struct backup_report *out, struct err *err)
{
    size_t count = 0;
    const struct archive_content *content = archive_contents(archive, &count);
    *out = (struct backup_report){
        .schema = facts->schema, .made_ms = facts->made_ms, .damaged = (uint64_t)facts->incomplete};
    (void)snprintf(out->version, sizeof(out->version), "%s", facts->version);
    if (facts->schema > migrate_newest(state_migrations)) {
        return err_set(err, ERR_UNSUPPORTED,
                       "made by version %s (schema %" PRId64
                       "), which is newer than this one: restore with that version",
                       facts->version, facts->schema);
    }
    if (count == 0 || content[0].kind != ARCHIVE_STATE) {
        return err_set(err, ERR_FORMAT, "the backup has no state.db");
    }
    for (size_t i = 0; i < count; i++) {
        if (content[i].kind == ARCHIVE_BLOB && strcmp(content[i].name, content[i].sha256) != 0) {
            return err_set(err, ERR_FORMAT, "blob '%s' has sha256 %s", content[i].name,
                           content[i].sha256);
        }
        out->blobs += content[i].kind == ARCHIVE_BLOB;
        count_content(out, content[i].size);
    }
    return 0;
}

int backup_check_file(const char *path, struct backup_report *out, struct err *err)
{
    AUTO(archive_free) struct archive *archive = NULL;
    struct archive_facts facts;
    struct backup_report report = {0};
    size_t count = 0;
    int rc = archive_open(path, &archive, &facts, err);
    if (rc) {
        return rc;
    }
    const struct archive_content *content = archive_contents(archive, &count);
    rc = backup_check_contents(archive, &facts, &report, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = archive_read(archive, &content[i], NULL, NULL, err);
    }
    if (rc) {
        return err_wrap(err, "'%s'", path);
    }
    *out = report;
    return 0;
}
