#include "base/archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

#define BLOCK_BYTES 512
#define ENTRIES_MAX 2000000
#define DEPTH_MAX 16
#define NAME_FIELD 100
#define PREFIX_FIELD 155
#define FILE_BYTES_MAX ((uint64_t)1 << 33) /* eleven octal digits */

struct entry {
    char *name; /* below the directory */
    uint64_t size;
    size_t place; /* among those that are put first; SIZE_MAX: none */
};

struct archive {
    char *directory;
    struct entry *entry;
    size_t count, capacity;
    /* Where reading is: in the header, the data or the padding of entry[index]. */
    size_t index;
    uint64_t offset; /* in its header, data and padding together */
    int fd;          /* of that file; -1: none */
    uint64_t rest;   /* of the two empty blocks at the end */
    struct err err;
};

/* ---- the list of files ---- */

static int no_memory(struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for the names of files");
}

static int fail(const char *what, const char *path, struct err *err)
{
    return err_set(err, err_from_errno(errno), "%s '%s': %s", what, path, strerror(errno));
}

/* Where a name is split into prefix and name of a header: the place of a slash; 0: it fits whole;
 * SIZE_MAX: it does not fit. */
static size_t split_of(const char *name)
{
    size_t size = strlen(name);
    if (size <= NAME_FIELD) {
        return 0;
    }
    for (size_t at = size - NAME_FIELD - 1; at <= PREFIX_FIELD && at < size; at++) {
        if (name[at] == '/' && at > 0) {
            return at;
        }
    }
    return SIZE_MAX;
}

static int add_entry(struct archive *archive, const char *name, uint64_t size, struct err *err)
{
    if (split_of(name) == SIZE_MAX || size >= FILE_BYTES_MAX || archive->count == ENTRIES_MAX) {
        return err_set(err, ERR_INVALID,
                       "'%s': too long a name, too large a file, or too many files; make the "
                       "archive with tar",
                       name);
    }
    if (archive->count == archive->capacity) {
        size_t capacity = archive->capacity ? 2 * archive->capacity : 256;
        struct entry *longer = realloc(archive->entry, capacity * sizeof(*longer));
        if (!longer) {
            return no_memory(err);
        }
        archive->entry = longer;
        archive->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy) {
        return no_memory(err);
    }
    archive->entry[archive->count++] =
        (struct entry){.name = copy, .size = size, .place = SIZE_MAX};
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum archive_part part_of(const char *name)
{
    return begins(name, "train")                                                 ? ARCHIVE_TRAIN
           : begins(name, "t10k") || begins(name, "test") || begins(name, "val") ? ARCHIVE_TEST
                                                                                 : ARCHIVE_ALL;
}

static void close_directory(DIR **directory)
{
    if (*directory) {
        (void)closedir(*directory);
    }
}

static int add_directory(struct archive *archive, const char *below, int depth, struct err *err);

/* Add the file or directory `name` (in `below`). */
static int add_name(struct archive *archive, const char *below, const char *name, int depth,
                    struct err *err)
{
    char inner[ARCHIVE_NAME_BYTES], path[4096];
    struct stat about;
    if (snprintf(inner, sizeof(inner), "%s%s%s", below, below[0] != '\0' ? "/" : "", name) >=
            (int)sizeof(inner) ||
        snprintf(path, sizeof(path), "%s/%s", archive->directory, inner) >= (int)sizeof(path)) {
        return err_set(err, ERR_INVALID, "'%s': too long a name; make the archive with tar", name);
    }
    if (stat(path, &about)) {
        return fail("read", path, err);
    }
    if (S_ISDIR(about.st_mode)) {
        return depth == DEPTH_MAX
                   ? err_set(err, ERR_INVALID, "'%s': more than %d levels deep", path, DEPTH_MAX)
                   : add_directory(archive, inner, depth + 1, err);
    }
    return S_ISREG(about.st_mode) ? add_entry(archive, inner, (uint64_t)about.st_size, err) : 0;
}

/* Recursion is bounded by DEPTH_MAX. */
static int add_directory(struct archive *archive, const char *below, int depth, struct err *err)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", archive->directory, below);
    AUTO(close_directory) DIR *directory = opendir(path);
    if (!directory) {
        return fail("open", path, err);
    }
    int rc = 0;
    for (const struct dirent *item; !rc && (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] != '.') {
            rc = add_name(archive, below, item->d_name, depth, err);
        }
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Keep the entries of one part, if there are both. */
static void choose(struct archive *archive, enum archive_part part)
{
    bool has[3] = {false};
    for (size_t i = 0; i < archive->count; i++) {
        has[part_of(archive->entry[i].name)] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < archive->count; i++) {
        struct entry entry = archive->entry[i];
        if (!has[ARCHIVE_TRAIN] || !has[ARCHIVE_TEST] || part == ARCHIVE_ALL ||
            part_of(entry.name) == part) {
            archive->entry[kept++] = entry;
        } else {
            free(entry.name);
        }
    }
    archive->count = kept;
}

int archive_open(const char *directory, enum archive_part part, struct archive **out,
                 struct err *err)
{
    struct archive *archive = calloc(1, sizeof(*archive));
    if (!archive) {
        return no_memory(err);
    }
    archive->fd = -1;
    archive->directory = strdup(directory);
    int rc = archive->directory ? add_directory(archive, "", 0, err) : no_memory(err);
    if (!rc) {
        choose(archive, part);
        if (archive->count == 0) {
            rc = err_set(err, ERR_INVALID, "'%s' has no files", directory);
        }
    }
    if (rc) {
        archive_free(&archive);
        return rc;
    }
    qsort(archive->entry, archive->count, sizeof(*archive->entry), compare);
    archive_rewind(archive);
    *out = archive;
    return 0;
}

void archive_free(struct archive **archive)
{
    struct archive *dying = *archive;
    if (!dying) {
        return;
    }
    for (size_t i = 0; i < dying->count; i++) {
        free(dying->entry[i].name);
    }
    file_close(&dying->fd);
    free(dying->entry);
    free(dying->directory);
    free(dying);
    *archive = NULL;
}

/* ---- another order ---- */

static int compare_places(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    return one->place != other->place ? (one->place > other->place) - (one->place < other->place)
                                      : compare(a, b);
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct entry *)entry)->name);
}

/* Find an entry among the sorted ones; NULL: no entry has this name, or it already has a place. */
static struct entry *find_unplaced(const struct archive *archive, const char *name)
{
    struct entry *entry =
        bsearch(name, archive->entry, archive->count, sizeof(*archive->entry), compare_name);
    return entry && entry->place == SIZE_MAX ? entry : NULL;
}

bool archive_put_first(struct archive *archive, const char *first, size_t size)
{
    bool all = size == 0 || first[size - 1] == '\0';
    size_t count = 0;
    for (size_t at = 0; all && at < size; at += strlen(first + at) + 1) {
        struct entry *entry = find_unplaced(archive, first + at);
        all = entry != NULL;
        if (entry) {
            entry->place = count++;
        }
    }
    for (size_t i = 0; !all && i < archive->count; i++) {
        archive->entry[i].place = SIZE_MAX;
    }
    qsort(archive->entry, archive->count, sizeof(*archive->entry), compare_places);
    return all;
}

/* ---- its bytes ---- */

static uint64_t padded(uint64_t size)
{
    return (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

uint64_t archive_size(const struct archive *archive)
{
    uint64_t size = (uint64_t)2 * BLOCK_BYTES;
    for (size_t i = 0; i < archive->count; i++) {
        size += BLOCK_BYTES + padded(archive->entry[i].size);
    }
    return size;
}

void archive_rewind(struct archive *archive)
{
    file_close(&archive->fd);
    archive->index = 0;
    archive->offset = 0;
    archive->rest = (uint64_t)2 * BLOCK_BYTES;
}

/* The header of POSIX.1-1988 ustar. */
static void write_header(const struct entry *entry, char out[BLOCK_BYTES])
{
    size_t split = split_of(entry->name);
    const char *name = split > 0 ? entry->name + split + 1 : entry->name;
    unsigned sum = 0;
    memset(out, 0, BLOCK_BYTES);
    memcpy(out, name, strlen(name));
    memcpy(out + 345, entry->name, split);
    memcpy(out + 100,
           "0000644\0"
           "0000000\0"
           "0000000",
           24);
    (void)snprintf(out + 124, 12, "%011" PRIo64, entry->size);
    memcpy(out + 136, "00000000000", 12);
    memset(out + 148, ' ', 8);
    out[156] = '0';
    memcpy(out + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        sum += (unsigned char)out[i];
    }
    (void)snprintf(out + 148, 8, "%06o", sum);
}

static ssize_t give_up(struct archive *archive, int rc)
{
    archive->err.code = rc;
    return -1;
}

static ssize_t read_data(struct archive *archive, const struct entry *entry, void *out, size_t size)
{
    uint64_t at = archive->offset - BLOCK_BYTES;
    size_t count = entry->size - at < size ? (size_t)(entry->size - at) : size;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", archive->directory, entry->name);
    if (archive->fd < 0) {
        archive->fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    int rc = archive->fd < 0 ? fail("open", path, &archive->err)
                             : file_read_at(archive->fd, out, count, at, &archive->err);
    return rc ? give_up(archive, rc) : (ssize_t)count;
}

/* Bytes of the present entry: of its header, its data or its padding. */
static ssize_t read_entry(struct archive *archive, void *out, size_t size)
{
    const struct entry *entry = &archive->entry[archive->index];
    if (archive->offset < BLOCK_BYTES) {
        char header[BLOCK_BYTES];
        size_t left = BLOCK_BYTES - (size_t)archive->offset;
        size_t count = left < size ? left : size;
        write_header(entry, header);
        memcpy(out, header + archive->offset, count);
        return (ssize_t)count;
    }
    if (archive->offset - BLOCK_BYTES < entry->size) {
        return read_data(archive, entry, out, size);
    }
    uint64_t left = BLOCK_BYTES + padded(entry->size) - archive->offset;
    size_t count = left < size ? (size_t)left : size;
    memset(out, 0, count);
    return (ssize_t)count;
}

ssize_t archive_read(void *arg, void *out, size_t size)
{
    struct archive *archive = arg;
    if (archive->index == archive->count) {
        size_t count = archive->rest < size ? (size_t)archive->rest : size;
        memset(out, 0, count);
        archive->rest -= count;
        return (ssize_t)count;
    }
    ssize_t count = read_entry(archive, out, size);
    if (count < 0) {
        return count;
    }
    archive->offset += (uint64_t)count;
    if (archive->offset == BLOCK_BYTES + padded(archive->entry[archive->index].size)) {
        file_close(&archive->fd);
        archive->index++;
        archive->offset = 0;
    }
    return count;
}

const struct err *archive_error(const struct archive *archive)
{
    return &archive->err;
}

const char *archive_entry(const struct archive *archive, size_t index)
{
    return index < archive->count ? archive->entry[index].name : NULL;
}
