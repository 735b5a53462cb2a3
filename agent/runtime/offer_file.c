#include "agent/runtime/offer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtime/data_prefix.h"
#include "agent/runtime/hashed_draft.h"
#include "agent/runtime/local_data.h"
#include "base/archive.h"
#include "base/file.h"
#include "libtrain/formats/class_names.h"
#include "net/hash.h"
#include "schema/wire.h"

#define PIECE_BYTES (1u << 20)
#define NOTE_BYTES_MAX (1u << 20)
#define FILES_BYTES_MAX (512u << 20)
#define FORM "1" /* version of the stamp: a change makes the agent convert all data sets again */

static const struct field note_fields[] = {
    MEMBER_FORM(struct offer_note, stamp, "stamp", FIELD_REQUIRED, &sha256_form),
    MEMBER_FORM(struct offer_note, settings, "settings", FIELD_SKIP_EMPTY, &sha256_form),
    MEMBER_RECORD(struct offer_note, offer, "offer", FIELD_REQUIRED, &offer_record),
};
static const struct record note_record = RECORD(struct offer_note, "note", note_fields);

int offer_file_path(const char *directory, const char *name, const char *suffix, char out[PATH_MAX],
                    struct err *err)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s%s", directory, name, suffix);
    return length > 0 && length < PATH_MAX ? 0 : err_set(err, ERR_LIMIT, "--state-dir is too long");
}

static int path_of(const struct offer_source *source, const char *suffix, char out[PATH_MAX],
                   struct err *err)
{
    return offer_file_path(source->directory, source->name, suffix, out, err);
}

/* ---- the stamp of the sources ---- */

static int stamp_file(struct sha256 *hash, const char *path, struct err *err)
{
    struct stat status;
    char line[PATH_MAX + 160];
    if (stat(path, &status) != 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    const int length = snprintf(line, sizeof(line), "%s\n%lld %lld.%09ld %lld.%09ld %llu\n", path,
                                (long long)status.st_size, (long long)status.st_mtim.tv_sec,
                                status.st_mtim.tv_nsec, (long long)status.st_ctim.tv_sec,
                                status.st_ctim.tv_nsec, (unsigned long long)status.st_ino);
    sha256_update(hash, line, (size_t)length);
    return 0;
}

static int stamp_directory(const struct offer_source *source, struct sha256 *hash, const char *path,
                           struct err *err)
{
    AUTO(archive_free) struct archive *archive = NULL;
    const char *entry;
    int rc = archive_open(path, ARCHIVE_ALL, &archive, err);
    for (size_t i = 0; rc == 0 && (entry = archive_entry(archive, i)); i++) {
        char file[PATH_MAX];
        rc = snprintf(file, sizeof(file), "%s/%s", path, entry) < (int)sizeof(file)
                 ? stamp_file(hash, file, err)
                 : err_set(err, ERR_LIMIT, "'%s/%s' is too long", path, entry);
        rc = rc ? rc : source->go_on(source->arg, err);
    }
    return rc;
}

static int stamp_path(const struct offer_source *source, struct sha256 *hash, const char *path,
                      struct err *err)
{
    struct stat status;
    const bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    return directory ? stamp_directory(source, hash, path, err) : stamp_file(hash, path, err);
}

int offer_file_stamp(const struct offer_source *source, char out[SHA256_SIZE], struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    char text[PATH_MAX];
    int rc = sha256_new(&hash, err);
    if (rc == 0 && snprintf(text, sizeof(text), "%s", source->paths) >= (int)sizeof(text)) {
        rc = err_set(err, ERR_LIMIT, "the paths are too long");
    }
    if (rc != 0) {
        return rc;
    }
    sha256_update(hash, FORM "\n", sizeof(FORM));
    sha256_update(hash, source->reading, strlen(source->reading) + 1);
    char *rest = text;
    for (char *path = strsep(&rest, ","); rc == 0 && path; path = strsep(&rest, ",")) {
        rc = stamp_path(source, hash, path, err);
    }
    sha256_finish_text(hash, out);
    return rc;
}

static int hash_settings(const struct offer_source *source, char out[SHA256_SIZE], struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    const int rc = sha256_new(&hash, err);
    if (rc == 0) {
        sha256_update(hash, FORM "\n", sizeof(FORM));
        sha256_update(hash, source->reading, strlen(source->reading) + 1);
        sha256_update(hash, source->paths, strlen(source->paths) + 1);
        sha256_finish_text(hash, out);
    }
    return rc;
}

/* ---- the note ---- */

bool offer_file_note(const struct offer_source *source, struct offer_note *out)
{
    char path[PATH_MAX], settings[SHA256_SIZE];
    struct offer_note note = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, NOTE_BYTES_MAX);
    if (path_of(source, ".note", path, &err) || file_read(path, &text, &err) ||
        wire_read(&note_record, text.data, text.size, &note, &faults, &err) ||
        hash_settings(source, settings, &err) || strcmp(note.offer.name, source->name) != 0 ||
        (note.settings[0] != '\0' && strcmp(note.settings, settings) != 0)) {
        return false;
    }
    *out = note;
    return true;
}

static int write_note(const struct offer_source *source, const struct offer_note *note,
                      struct err *err)
{
    char path[PATH_MAX];
    BUF_AUTO struct buf text;
    buf_init(&text, NOTE_BYTES_MAX);
    int rc = path_of(source, ".note", path, err);
    rc = rc ? rc : wire_write(&note_record, note, &text, err);
    return rc ? rc : file_write_atomic(path, text.data, text.size, 0600, err);
}

static int hash_file(const struct offer_source *source, const char *path, char out[SHA256_SIZE],
                     struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *piece = malloc(PIECE_BYTES);
    ssize_t got = 1;
    int rc = fd >= 0 && piece ? sha256_new(&hash, err)
                              : err_set(err, ERR_IO, "open '%s': %s", path, strerror(errno));
    while (rc == 0 && got > 0) {
        got = read(fd, piece, PIECE_BYTES);
        if (got > 0) {
            sha256_update(hash, piece, (size_t)got);
        }
        rc = got < 0 ? err_set(err, err_from_errno(errno), "read '%s': %s", path, strerror(errno))
                     : source->go_on(source->arg, err);
    }
    if (rc == 0) {
        sha256_finish_text(hash, out);
    }
    free(piece);
    return rc;
}

static bool is_noted(const struct offer_source *source, const char *suffix,
                     const struct offer_note *note)
{
    char path[PATH_MAX], sha256[SHA256_SIZE];
    struct err err = {0};
    return path_of(source, suffix, path, &err) == 0 && hash_file(source, path, sha256, &err) == 0 &&
           strcmp(sha256, note->offer.sha256) == 0;
}

bool offer_file_recover(const struct offer_source *source, const struct offer_note *note)
{
    struct err err = {0};
    return is_noted(source, ".data", note) ||
           (is_noted(source, ".new", note) && offer_file_publish(source, &err) == 0);
}

/* ---- conversion ---- */

static int describe(const struct dataset_info *info, const struct dataset_counts *counts,
                    const struct name_list *classes, struct offer *out, struct err *err)
{
    out->samples = (int64_t)info->count;
    out->height = info->h;
    out->width = info->w;
    out->channels = info->c;
    (void)snprintf(out->dtype, sizeof(out->dtype), "%s", dtype_name(info->dtype));
    out->classes = info->classes;
    out->positions = info->positions > 1 ? info->positions : 0;
    memcpy(out->reading, info->reading, sizeof(out->reading));
    for (size_t c = 0; counts->classes <= OFFER_CLASSES_MAX && c < counts->classes; c++) {
        out->class_count[out->class_count_count++] = counts->samples[c];
    }
    if (classes->count == 0) {
        return 0;
    }
    BUF_AUTO struct buf text;
    buf_init(&text, CLASS_NAMES_TEXT_MAX);
    const int rc = class_names_write(classes, &text, err);
    if (rc == 0) {
        sha256_text(text.data, text.size, out->class_names_sha256);
    }
    return rc;
}

static int convert_into(const struct offer_source *source, const struct buf *first,
                        struct buf *files, struct hashed_draft *draft, struct offer *out,
                        struct err *err)
{
    struct reading reading = reading_default;
    struct dataset_counts *counts = calloc(1, sizeof(*counts));
    struct dataset_names names = {.classes_only = true};
    struct dataset_info info;
    int rc = counts ? 0 : err_set(err, ERR_MEMORY, "class counts");
    if (rc == 0 && source->reading[0] != '\0') {
        rc = reading_parse(source->reading, &reading, err);
    }
    const struct local_form form = {.reading = &reading,
                                    .names = &names,
                                    .counts = counts,
                                    .go_on = source->go_on,
                                    .arg = source->arg,
                                    .directory = source->directory,
                                    .first = first,
                                    .files = files};
    rc = rc ? rc
            : local_data_convert(&source->paths, 1, &form, hashed_draft_append, draft, &info, err);
    rc = rc ? rc : describe(&info, counts, &names.class, out, err);
    dataset_names_done(&names);
    free(counts);
    return rc;
}

/* first: as of struct local_form. files: out, of directories. */
static int convert(const struct offer_source *source, const struct buf *first, struct buf *files,
                   struct offer *out, struct err *err)
{
    char path[PATH_MAX];
    struct hashed_draft draft = HASHED_DRAFT_NONE;
    *out = (struct offer){0};
    (void)snprintf(out->name, sizeof(out->name), "%s", source->name);
    buf_clear(files);
    int rc = path_of(source, ".new", path, err);
    rc = rc ? rc : hashed_draft_open(&draft, path, 0600, err);
    rc = rc ? rc : convert_into(source, first, files, &draft, out, err);
    rc = rc ? rc : hashed_draft_keep(&draft, out->sha256, err);
    hashed_draft_drop(&draft);
    return rc;
}

/* ---- what was appended to ---- */

/* Check whether the new data begins with the data offered before. If only one of the two has counts
 * per class, different samples would be held out, so the new data does not extend the old. */
static int check_extends(const struct offer_source *source, const struct offer *before,
                         const struct offer *made, bool *out, struct err *err)
{
    char path[PATH_MAX], sha256[SHA256_SIZE] = "";
    *out = false;
    if (made->samples <= before->samples ||
        (made->class_count_count > 0) != (before->class_count_count > 0)) {
        return 0;
    }
    struct data *data AUTO(data_close) = NULL;
    int rc = path_of(source, ".new", path, err);
    FD_AUTO int fd = rc ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (rc == 0 && fd < 0) {
        rc = err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    rc = rc ? rc : data_open_file(fd, &data, err);
    rc = rc ? rc
            : data_hash_prefix(data, (uint64_t)before->samples, source->go_on, source->arg, sha256,
                               err);
    *out = rc == 0 && strcmp(sha256, before->sha256) == 0;
    return rc;
}

static void add_parts(const struct offer *before, struct offer *out)
{
    const size_t dropped = before->part_count == OFFER_PARTS_MAX; /* the shortest */
    out->part_count = before->part_count - dropped;
    memcpy(out->part, before->part + dropped, out->part_count * sizeof(out->part[0]));
    struct offer_part *last = &out->part[out->part_count++];
    memcpy(last->sha256, before->sha256, sizeof(last->sha256));
    last->samples = before->samples;
}

/* Make `out` the successor of `before` if its data extends the earlier data. */
static int follow(const struct offer_source *source, const struct offer *before, struct offer *out,
                  bool *follows, struct err *err)
{
    *follows = strcmp(before->sha256, out->sha256) == 0;
    if (*follows) { /* a file was only touched, or a crash came before the last publication */
        memcpy(out->part, before->part, sizeof(out->part));
        out->part_count = before->part_count;
        return 0;
    }
    const int rc = check_extends(source, before, out, follows, err);
    if (*follows) {
        add_parts(before, out);
    }
    return rc;
}

/* Read the order of the files of a directory. Empty: ordered by name. */
static int read_files(const struct offer_source *source, struct buf *out, struct err *err)
{
    char path[PATH_MAX];
    int rc = path_of(source, ".files", path, err);
    rc = rc ? rc : file_read(path, out, err);
    if (rc == ERR_NOT_FOUND) {
        *err = (struct err){0};
        return 0;
    }
    return rc;
}

static bool begins_with(const struct buf *files, const struct buf *first)
{
    return first->size > 0 && files->size >= first->size &&
           memcmp(files->data, first->data, first->size) == 0;
}

static int make(const struct offer_source *source, const struct offer *before, struct buf *files,
                struct offer *out, struct err *err)
{
    bool follows = false;
    BUF_AUTO struct buf first;
    buf_init(&first, FILES_BYTES_MAX);
    int rc = before ? read_files(source, &first, err) : 0;
    rc = rc ? rc : convert(source, &first, files, out, err);
    if (rc != 0 || !before) {
        return rc;
    }
    rc = follow(source, before, out, &follows, err);
    if (rc == 0 && !follows && begins_with(files, &first)) {
        /* A file has changed, so the new data must not depend on the earlier order. */
        rc = convert(source, NULL, files, out, err);
    }
    return rc;
}

int offer_file_make(const struct offer_source *source, const char stamp[SHA256_SIZE],
                    const struct offer_note *before, struct offer_note *out, struct err *err)
{
    char path[PATH_MAX];
    BUF_AUTO struct buf files;
    buf_init(&files, FILES_BYTES_MAX);
    memcpy(out->stamp, stamp, sizeof(out->stamp));
    int rc = hash_settings(source, out->settings, err);
    rc = rc ? rc : make(source, before ? &before->offer : NULL, &files, &out->offer, err);
    rc = rc ? rc : path_of(source, ".files", path, err);
    rc = rc ? rc : file_write_atomic(path, files.data, files.size, 0600, err);
    rc = rc ? rc : write_note(source, out, err);
    if (rc != 0 && path_of(source, ".new", path, NULL) == 0) {
        (void)unlink(path); /* it may fill the disk */
    }
    return rc;
}

int offer_file_publish(const struct offer_source *source, struct err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    int rc = path_of(source, ".new", from, err);
    rc = rc ? rc : path_of(source, ".data", to, err);
    if (rc == 0 && rename(from, to) != 0) {
        rc = err_set(err, err_from_errno(errno), "rename '%s': %s", from, strerror(errno));
    }
    return rc;
}
