#include "libtrain/formats/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "libtrain/formats/scanner.h"

#define BLOCK_BYTES 512
#define EXTENDED_BYTES_MAX 16384
#define EXTENDED_RECORDS_MAX 256

/* A header block. Every field is text, and some end without a NUL. */
struct tar_block {
    char name[100];
    char mode[8], uid[8], gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char owner[32], group[32], major[8], minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct tar_block) == BLOCK_BYTES, "a tar header is one block");

bool tar_recognise(const uint8_t *bytes, size_t size)
{
    return size >= BLOCK_BYTES &&
           memcmp(bytes + offsetof(struct tar_block, magic), "ustar", 5) == 0;
}

const char *tar_other(const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *mark;
        size_t size;
        const char *name;
    } others[] = {{"PK\3\4", 4, "a zip (as .npz is)"},
                  {"7z\xbc\xaf\x27\x1c", 6, "a 7z"},
                  {"BZh", 3, "a bzip2 file"},
                  {"\xfd"
                   "7zXZ",
                   6, "an xz file"},
                  {"\x28\xb5\x2f\xfd", 4, "a zstd file"},
                  {"Rar!\x1a\x07", 6, "a rar"}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (size >= others[i].size && memcmp(bytes, others[i].mark, others[i].size) == 0) {
            return others[i].name;
        }
    }
    return NULL;
}

void tar_open(struct tar *tar, struct stream *from, size_t entries_max)
{
    *tar = (struct tar){.from = from, .entries_max = entries_max};
}

/* An octal number between optional spaces, ended by a space or NUL. */
static bool read_octal(const char *field, size_t size, uint64_t *out)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < size && field[i] == ' ') {
        i++;
    }
    size_t first = i;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) {
        value = value * 8 + (uint64_t)(field[i] - '0');
    }
    *out = value;
    return i > first && (i == size || field[i] == ' ' || field[i] == '\0');
}

/* Check the sum of all bytes. The bytes of the checksum itself count as spaces. */
static bool checksum_holds(const struct tar_block *block)
{
    const uint8_t *bytes = (const void *)block;
    uint64_t stated;
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        bool own =
            i >= offsetof(struct tar_block, checksum) && i < offsetof(struct tar_block, type);
        sum += own ? ' ' : bytes[i];
    }
    return read_octal(block->checksum, sizeof(block->checksum), &stated) && stated == sum;
}

static bool is_zero(const struct tar_block *block)
{
    static const struct tar_block zero;
    return memcmp(block, &zero, sizeof(zero)) == 0;
}

static void join_name(const struct tar_block *block, char out[TAR_NAME_MAX])
{
    int prefix = (int)strnlen(block->prefix, sizeof(block->prefix));
    int name = (int)strnlen(block->name, sizeof(block->name));
    /* GNU's own format ends the magic with a space and stores times in place of the prefix. */
    bool posix = block->magic[5] == '\0' && prefix > 0;
    (void)snprintf(out, TAR_NAME_MAX, "%.*s%s%.*s", posix ? prefix : 0, block->prefix,
                   posix ? "/" : "", name, block->name);
}

/* Whether a name stays within the archive: it is not absolute and has no "..". */
static bool safe_name(const char *name)
{
    if (name[0] == '\0' || name[0] == '/') {
        return false;
    }
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return false;
        }
    }
    return true;
}

static int corrupt_extended(const struct tar *tar, struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: entry %zu has a corrupt extended header", tar->from->name,
                   tar->entries);
}

/* Keep the name of the next entry. It replaces the name in the header of the entry. */
static int keep_name(struct tar *tar, const char *name, size_t size, struct err *err)
{
    if (size >= sizeof(tar->long_name)) {
        return err_set(err, ERR_LIMIT, "%s: entry %zu has a name of %zu bytes; at most %zu",
                       tar->from->name, tar->entries, size, sizeof(tar->long_name) - 1);
    }
    if (memchr(name, '\0', size)) {
        return corrupt_extended(tar, err);
    }
    memcpy(tar->long_name, name, size);
    tar->long_name[size] = '\0';
    return 0;
}

static bool starts_with(const char *text, size_t size, const char *start)
{
    return size >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

/* Read one "key=value" of an extended header. Targets of links are ignored, because links are not
 * read. */
static int read_record(struct tar *tar, char type, const char *text, size_t size, struct err *err)
{
    static const char path[] = "path=";
    static const char *const refused[] = {"size=", "GNU.sparse."};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (starts_with(text, size, refused[i])) {
            return err_set(err, ERR_UNSUPPORTED,
                           "%s: entry %zu has an extended header with '%.*s'; make the archive "
                           "with --format=ustar",
                           tar->from->name, tar->entries, (int)strlen(refused[i]) - 1, refused[i]);
        }
    }
    if (!starts_with(text, size, path)) {
        return 0;
    }
    if (type == 'g') {
        return err_set(err, ERR_UNSUPPORTED, "%s: entry %zu states a name for all entries",
                       tar->from->name, tar->entries);
    }
    return keep_name(tar, text + strlen(path), size - strlen(path), err);
}

/* Read records such as "27 mtime=1700000000.25\n". The size of a record counts its own digits. */
static int read_records(struct tar *tar, char type, const char *text, size_t size, struct err *err)
{
    struct scanner scanner = {.text = text, .size = size};
    for (size_t records = 0; scanner.at < size; records++) {
        size_t start = scanner.at;
        uint64_t length = 0;
        if (records == EXTENDED_RECORDS_MAX || scanner_integer(&scanner, &length, NULL) ||
            length > size - start || length < scanner.at - start + 2 || text[scanner.at] != ' ' ||
            text[start + length - 1] != '\n') {
            return corrupt_extended(tar, err);
        }
        size_t key = scanner.at + 1;
        int rc = read_record(tar, type, text + key, start + (size_t)length - 1 - key, err);
        if (rc) {
            return rc;
        }
        scanner.at = start + (size_t)length;
    }
    return 0;
}

static bool is_extended(char type)
{
    return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

/* A pax header holds records for the next entry ('x') or for all entries ('g'). A GNU header holds
 * the name of the next entry ('L') or the target of a link ('K'), ended by NUL. */
static int read_extended(struct tar *tar, char type, uint64_t size, struct err *err)
{
    char text[EXTENDED_BYTES_MAX];
    if (size > sizeof(text)) {
        return err_set(err, ERR_LIMIT,
                       "%s: entry %zu has an extended header of %" PRIu64 " bytes; at most %zu",
                       tar->from->name, tar->entries, size, sizeof(text));
    }
    int rc = stream_read_all(tar->from, text, (size_t)size, "an extended header ends", err);
    if (rc || type == 'K') {
        return rc;
    }
    return type == 'L' ? keep_name(tar, text, strnlen(text, (size_t)size), err)
                       : read_records(tar, type, text, (size_t)size, err);
}

/* Read the next header; *found is false at the end of the archive. */
static int read_block(struct tar *tar, struct tar_block *block, uint64_t *size, bool *found,
                      struct err *err)
{
    int rc = stream_skip(tar->from, tar->next - tar->from->position, "the archive ends", err);
    if (rc || (rc = stream_read_all(tar->from, block, sizeof(*block), "the archive ends", err))) {
        return rc;
    }
    *found = !is_zero(block);
    if (!*found) {
        return 0;
    }
    if (++tar->entries > tar->entries_max) {
        return err_set(err, ERR_LIMIT, "%s: has more than %zu entries", tar->from->name,
                       tar->entries_max);
    }
    if (memcmp(block->magic, "ustar", 5) != 0 || !checksum_holds(block) ||
        !read_octal(block->size, sizeof(block->size), size)) {
        return err_set(err, ERR_FORMAT, "%s: entry %zu has a corrupt tar header", tar->from->name,
                       tar->entries);
    }
    tar->next = tar->from->position + (*size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    return 0;
}

/* Take the name of an entry: from the extended headers before it, or else from its own header. */
static void take_name(struct tar *tar, const struct tar_block *block, char out[TAR_NAME_MAX])
{
    if (tar->long_name[0] == '\0') {
        join_name(block, out);
    } else {
        memcpy(out, tar->long_name, TAR_NAME_MAX);
        tar->long_name[0] = '\0';
    }
}

/* Read to the end: compressed data end with their checksum. */
static int end_archive(struct tar *tar, struct err *err)
{
    uint8_t rest[BLOCK_BYTES];
    size_t got = sizeof(rest);
    int rc = 0;
    while (rc == 0 && got == sizeof(rest)) {
        rc = stream_read(tar->from, rest, sizeof(rest), &got, err);
    }
    return rc ? rc : stream_finish(tar->from, err);
}

int tar_next(struct tar *tar, struct stream *entry, bool *found, struct err *err)
{
    for (;;) {
        struct tar_block block;
        char name[TAR_NAME_MAX], shown[TAR_NAME_MAX];
        uint64_t size = 0;
        int rc = read_block(tar, &block, &size, found, err);
        if (rc || !*found) {
            return rc ? rc : end_archive(tar, err);
        }
        if (is_extended(block.type)) {
            if ((rc = read_extended(tar, block.type, size, err))) {
                return rc;
            }
            continue;
        }
        take_name(tar, &block, name);
        memcpy(shown, name, sizeof(shown));
        utf8_repair_line(shown);
        if (!safe_name(name)) {
            return err_set(err, ERR_INVALID, "%s: entry '%s' leads out of the archive",
                           tar->from->name, shown);
        }
        if (block.type == '0' || block.type == '\0') {
            stream_open_entry(entry, tar->from, size, name);
            return 0;
        }
        if (block.type != '5') {
            return err_set(err, ERR_INVALID, "%s: entry '%s' is not a regular file",
                           tar->from->name, shown);
        }
    }
}
