#include "agent/runtime/offers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtime/hashed_draft.h"
#include "agent/runtime/local_data.h"
#include "base/archive.h"
#include "base/file.h"
#include "base/log.h"
#include "libtrain/formats/class_names.h"
#include "net/hash.h"
#include "schema/wire.h"

#define PIECE_BYTES (1u << 20)
#define NOTE_BYTES_MAX (1u << 20)
#define FORM "1" /* of the stamp: another one makes all files anew */

/* What is kept beside a converted file. */
struct note {
    char stamp[SHA256_SIZE];
    struct offer offer;
};
static const struct field note_fields[] = {
    MEMBER_FORM(struct note, stamp, "stamp", FIELD_REQUIRED, &sha256_form),
    MEMBER_RECORD(struct note, offer, "offer", FIELD_REQUIRED, &offer_record),
};
static const struct record note_record = RECORD(struct note, "note", note_fields);

struct offers {
    struct offers_config config; /* its directory is the next */
    char directory[PATH_MAX];
    struct offer offer[OFFERS_MAX];
    size_t count;
};

/* ---- the options ---- */

/* The length of the name of "NAME=PATHS"; 0: it is none. */
static size_t name_length(const char *item)
{
    char name[NAME_SIZE];
    const char *equals = strchr(item, '=');
    const size_t length = equals ? (size_t)(equals - item) : 0;
    if (length == 0 || length >= NAME_SIZE || equals[1] == '\0') {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, item);
    return name_valid(name) ? length : 0;
}

int offers_check(const struct conf_list *data, const char *reading, struct err *err)
{
    struct reading parsed = reading_default;
    if (data->count > OFFERS_MAX) {
        return err_set(err, ERR_LIMIT, "--data: at most %d", OFFERS_MAX);
    }
    for (size_t i = 0; i < data->count; i++) {
        const size_t length = name_length(data->item[i]);
        if (length == 0) {
            return err_set(err, ERR_INVALID, "--data '%s': expected NAME=PATH, the name of %s",
                           data->item[i], name_form.expected);
        }
        for (size_t k = 0; k < i; k++) {
            if (strncmp(data->item[i], data->item[k], length + 1) == 0) {
                return err_set(err, ERR_INVALID, "--data: '%.*s' is given twice", (int)length,
                               data->item[i]);
            }
        }
    }
    const int rc = reading[0] != '\0' ? reading_parse(reading, &parsed, err) : 0;
    return rc ? err_wrap(err, "--data-as") : 0;
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

static int stamp_directory(struct sha256 *hash, const char *path, struct err *err)
{
    AUTO(archive_free) struct archive *archive = NULL;
    const char *entry;
    int rc = archive_open(path, ARCHIVE_ALL, &archive, err);
    for (size_t i = 0; rc == 0 && (entry = archive_entry(archive, i)); i++) {
        char file[PATH_MAX];
        rc = snprintf(file, sizeof(file), "%s/%s", path, entry) < (int)sizeof(file)
                 ? stamp_file(hash, file, err)
                 : err_set(err, ERR_LIMIT, "'%s/%s' is too long", path, entry);
    }
    return rc;
}

static int stamp_path(struct sha256 *hash, const char *path, struct err *err)
{
    struct stat status;
    const bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    return directory ? stamp_directory(hash, path, err) : stamp_file(hash, path, err);
}

/* Of the files in `paths` ("PATH[,PATH]"), and how they are read. */
static int make_stamp(const char *paths, const char *reading, char out[SHA256_SIZE],
                      struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    char text[PATH_MAX];
    int rc = sha256_new(&hash, err);
    if (rc == 0 && snprintf(text, sizeof(text), "%s", paths) >= (int)sizeof(text)) {
        rc = err_set(err, ERR_LIMIT, "the paths are too long");
    }
    if (rc != 0) {
        return rc;
    }
    sha256_update(hash, FORM "\n", sizeof(FORM));
    sha256_update(hash, reading, strlen(reading) + 1);
    char *rest = text;
    for (char *path = strsep(&rest, ","); rc == 0 && path; path = strsep(&rest, ",")) {
        rc = stamp_path(hash, path, err);
    }
    sha256_finish_text(hash, out);
    return rc;
}

/* ---- the files ---- */

static int file_name(const struct offers *offers, const char *name, const char *suffix,
                     char out[PATH_MAX], struct err *err)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s%s", offers->config.directory, name, suffix);
    return length > 0 && length < PATH_MAX ? 0 : err_set(err, ERR_LIMIT, "--state-dir is too long");
}

static int go_on(void *arg, struct err *err)
{
    const struct offers *offers = arg;
    struct pollfd fd = {.fd = offers->config.cancel_fd, .events = POLLIN};
    return fd.fd >= 0 && poll(&fd, 1, 0) == 1 ? err_set(err, ERR_CANCELLED, "the agent ends") : 0;
}

static int hash_file(struct offers *offers, const char *path, char out[SHA256_SIZE],
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
                     : go_on(offers, err);
    }
    if (rc == 0) {
        sha256_finish_text(hash, out);
    }
    free(piece);
    return rc;
}

/* The file of an earlier start, if its sources have not changed and it is whole. */
static bool take_kept(struct offers *offers, const char *name, const char *stamp, struct offer *out)
{
    char path[PATH_MAX], sha256[SHA256_SIZE];
    struct note note = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, NOTE_BYTES_MAX);
    if (file_name(offers, name, ".note", path, &err) || file_read(path, &text, &err) ||
        wire_read(&note_record, text.data, text.size, &note, &faults, &err) ||
        strcmp(note.stamp, stamp) != 0 || strcmp(note.offer.name, name) != 0 ||
        file_name(offers, name, ".data", path, &err) || hash_file(offers, path, sha256, &err) ||
        strcmp(sha256, note.offer.sha256) != 0) {
        return false;
    }
    *out = note.offer;
    return true;
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

static int convert_into(struct offers *offers, const char *paths, struct hashed_draft *draft,
                        struct offer *out, struct err *err)
{
    struct reading reading = reading_default;
    struct dataset_counts *counts = calloc(1, sizeof(*counts));
    struct dataset_names names = {.classes_only = true};
    struct dataset_info info;
    int rc = counts ? 0 : err_set(err, ERR_MEMORY, "class counts");
    if (rc == 0 && offers->config.reading[0] != '\0') {
        rc = reading_parse(offers->config.reading, &reading, err);
    }
    const struct local_form form = {
        .reading = &reading, .names = &names, .counts = counts, .go_on = go_on, .arg = offers};
    rc = rc ? rc : local_data_convert(&paths, 1, &form, hashed_draft_append, draft, &info, err);
    rc = rc ? rc : describe(&info, counts, &names.class, out, err);
    dataset_names_done(&names);
    free(counts);
    return rc;
}

static int convert(struct offers *offers, const char *paths, struct offer *out, struct err *err)
{
    char path[PATH_MAX];
    struct hashed_draft draft = HASHED_DRAFT_NONE;
    int rc = file_name(offers, out->name, ".data", path, err);
    rc = rc ? rc : hashed_draft_open(&draft, path, 0600, err);
    rc = rc ? rc : convert_into(offers, paths, &draft, out, err);
    rc = rc ? rc : hashed_draft_keep(&draft, out->sha256, err);
    hashed_draft_drop(&draft);
    return rc;
}

static int keep_note(const struct offers *offers, const struct note *note, struct err *err)
{
    char path[PATH_MAX];
    BUF_AUTO struct buf text;
    buf_init(&text, NOTE_BYTES_MAX);
    int rc = file_name(offers, note->offer.name, ".note", path, err);
    rc = rc ? rc : wire_write(&note_record, note, &text, err);
    return rc ? rc : file_write_atomic(path, text.data, text.size, 0600, err);
}

static int open_one(struct offers *offers, const char *item, struct offer *out, struct err *err)
{
    struct note note = {0};
    const size_t length = name_length(item);
    const char *paths = item + length + 1;
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, item);
    int rc = make_stamp(paths, offers->config.reading, note.stamp, err);
    if (rc != 0) {
        return rc;
    }
    if (take_kept(offers, name, note.stamp, out)) {
        return 0;
    }
    memcpy(note.offer.name, name, sizeof(name));
    rc = convert(offers, paths, &note.offer, err);
    rc = rc ? rc : keep_note(offers, &note, err);
    if (rc == 0) {
        *out = note.offer;
    }
    return rc;
}

/* ---- life ---- */

static bool is_offered(const struct offers *offers, const char *file)
{
    for (size_t i = 0; i < offers->count; i++) {
        const size_t length = strlen(offers->offer[i].name);
        if (strncmp(file, offers->offer[i].name, length) == 0 &&
            (strcmp(file + length, ".data") == 0 || strcmp(file + length, ".note") == 0)) {
            return true;
        }
    }
    return false;
}

/* A device keeps no copy of samples that it does not offer any more. */
static void remove_others(const struct offers *offers)
{
    DIR *directory = opendir(offers->config.directory);
    if (!directory) {
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (entry->d_name[0] != '.' && !is_offered(offers, entry->d_name) &&
            unlinkat(dirfd(directory), entry->d_name, 0) != 0) {
            log_warn("data_not_removed", "file=%s error=%s", log_quote(entry->d_name).text,
                     log_quote(strerror(errno)).text);
        }
    }
    (void)closedir(directory);
}

int offers_open(const struct offers_config *config, struct offers **out, struct err *err)
{
    struct offers *offers AUTO(offers_free) = calloc(1, sizeof(*offers));
    if (!offers) {
        return err_set(err, ERR_MEMORY, "offered data sets");
    }
    offers->config = *config;
    offers->config.directory = offers->directory;
    if (snprintf(offers->directory, PATH_MAX, "%s", config->directory) >= PATH_MAX) {
        return err_set(err, ERR_LIMIT, "--state-dir is too long");
    }
    int rc = config->data->count > 0 ? file_make_directory(config->directory, 0700, err) : 0;
    for (size_t i = 0; rc == 0 && i < config->data->count; i++) {
        const char *item = config->data->item[i];
        struct offer *offer = &offers->offer[offers->count];
        struct err why = {0};
        rc = open_one(offers, item, offer, &why);
        if (rc == ERR_CANCELLED) {
            *err = why;
            return rc;
        }
        if (rc != 0) {
            rc = 0;
            memset(offer, 0, sizeof(*offer));
            log_error("data_not_offered", "data=%.*s error=%s", (int)name_length(item), item,
                      log_quote(why.text).text);
            continue;
        }
        offers->count++;
        log_info("data_offered", "data=%s samples=%" PRId64 " classes=%" PRId64 " sha256=%.12s",
                 offer->name, offer->samples, offer->classes, offer->sha256);
    }
    if (rc == 0) {
        remove_others(offers);
        *out = offers;
        offers = NULL;
    }
    return rc;
}

void offers_free(struct offers **offers)
{
    free(*offers);
    *offers = NULL;
}

const struct offer *offers_list(const struct offers *offers, size_t *count)
{
    *count = offers ? offers->count : 0;
    return offers ? offers->offer : NULL;
}

int offers_data(const struct offers *offers, const char *name, const char *sha256,
                struct data **out, struct err *err)
{
    char path[PATH_MAX];
    size_t count;
    const struct offer *list = offers_list(offers, &count), *offer = offer_find(list, count, name);
    if (!offer || strcmp(offer->sha256, sha256) != 0) {
        return err_set(err, ERR_NOT_FOUND, "this device does not offer the data set '%s' of %.12s",
                       name, sha256);
    }
    int rc = file_name(offers, name, ".data", path, err);
    FD_AUTO int fd = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (rc == 0 && fd < 0) {
        rc = err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    rc = rc ? rc : data_open_file(fd, out, err);
    return rc == 0 ? 0 : err_wrap(err, "data set '%s'", name);
}
