#include "agent/runtime/data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "libtrain/formats/safetensors.h"
#include "net/hash.h"

#define HASH_DIGITS 64 /* of one piece in the map */
#define FILE_BYTES_MAX (UINT64_C(1) << 50)

struct data {
    struct dataset_info info;
    unsigned char *bytes; /* the whole file, mapped; holes are never read */
    size_t size;
};

/* ---- mapping ---- */

int data_open_file(int fd, struct data **out, struct err *err)
{
    struct data *data = calloc(1, sizeof(*data));
    if (!data) {
        return err_set(err, ERR_MEMORY, "mapping");
    }
    int rc = dataset_read_info(fd, &data->info, err);
    if (rc != 0) {
        free(data);
        return rc;
    }
    if (data->info.total_bytes > SIZE_MAX / 2) {
        rc = err_set(err, ERR_LIMIT, "map: %" PRIu64 " bytes are more than this process can address",
                     data->info.total_bytes);
        free(data);
        return rc;
    }
    data->size = (size_t)data->info.total_bytes;
    data->bytes = mmap(NULL, data->size, PROT_READ, MAP_SHARED, fd, 0);
    if (data->bytes == MAP_FAILED) {
        rc = err_set(err, err_from_errno(errno), "map: %s", strerror(errno));
        free(data);
        return rc;
    }
    *out = data;
    return 0;
}

void data_close(struct data **data)
{
    if (*data) {
        (void)munmap((*data)->bytes, (*data)->size);
        free(*data);
        *data = NULL;
    }
}

const struct dataset_info *data_info(const struct data *data)
{
    return &data->info;
}

const unsigned char *data_inputs(const struct data *data)
{
    return data->bytes + data->info.inputs_offset;
}

const unsigned char *data_labels(const struct data *data)
{
    return data->bytes + data->info.labels_offset;
}

/* ---- the cache ---- */

struct cache {
    const struct data_request *request;
    int file, map;
    uint64_t total; /* bytes of the data set */
    unsigned char *piece;
    bool fetched; /* something new came in */
};

/* DIRECTORY/SHA256.data or .map. Errors do not show the path, which may be longer than they are. */
static int open_one(const struct data_request *request, const char *suffix, int *fd, struct err *err)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/%s%s", request->directory, request->sha256, suffix);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(err, ERR_LIMIT, "the path of the cache is too long");
    }
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return *fd >= 0 ? 0 : err_set(err, err_from_errno(errno), "open its %s in the cache: %s", suffix, strerror(errno));
}

/* Remove the data sets that nobody uses now. Returns whether there was one. */
static bool make_space(const struct data_request *request)
{
    DIR *directory = opendir(request->directory);
    if (!directory) {
        return false;
    }
    bool removed = false;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        const size_t length = strlen(entry->d_name);
        const bool ours = length > HASH_DIGITS && entry->d_name[HASH_DIGITS] == '.';
        if (ours && strncmp(entry->d_name, request->sha256, HASH_DIGITS) != 0 &&
            strncmp(entry->d_name, request->in_use, HASH_DIGITS) != 0) {
            removed = unlinkat(dirfd(directory), entry->d_name, 0) == 0 || removed;
        }
    }
    (void)closedir(directory);
    return removed;
}

static int write_piece(const struct cache *cache, uint64_t index, size_t size, struct err *err)
{
    char hash[HASH_TEXT_SIZE];
    int rc = file_write_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, err);
    if (rc == ERR_FULL && make_space(cache->request)) {
        rc = file_write_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, err);
    }
    if (rc != 0) {
        return err_wrap(err, "cache");
    }
    sha256_text(cache->piece, size, hash);
    rc = file_write_at(cache->map, hash, HASH_DIGITS, index * HASH_DIGITS, err);
    return rc == 0 ? 0 : err_wrap(err, "map of the cache");
}

/* Whether the piece is there, as it was fetched. It is read into cache->piece. */
static bool piece_is_whole(const struct cache *cache, uint64_t index, size_t size)
{
    char noted[HASH_DIGITS + 1] = "";
    char hash[HASH_TEXT_SIZE];
    if (file_read_at(cache->map, noted, HASH_DIGITS, index * HASH_DIGITS, NULL) != 0 || noted[0] == '\0' ||
        file_read_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, NULL) != 0) {
        return false;
    }
    sha256_text(cache->piece, size, hash);
    return strcmp(hash, noted) == 0;
}

static int need_piece(struct cache *cache, uint64_t index, struct err *err)
{
    const struct data_request *request = cache->request;
    const uint64_t offset = index * DATA_PIECE_BYTES;
    const uint64_t left = cache->total - offset;
    const size_t size = left < DATA_PIECE_BYTES ? (size_t)left : DATA_PIECE_BYTES;
    if (piece_is_whole(cache, index, size)) {
        return 0;
    }
    int64_t got = request->fetch(request->arg, request->sha256, offset, cache->piece, size, err);
    if (got < 0) {
        return (int)got;
    }
    if ((uint64_t)got != size) {
        return err_set(err, ERR_FORMAT, "%" PRId64 " bytes at %" PRIu64 ", expected %zu", got, offset, size);
    }
    cache->fetched = true;
    return write_piece(cache, index, size, err);
}

static int need_range(struct cache *cache, uint64_t offset, uint64_t bytes, struct err *err)
{
    int rc = 0;
    for (uint64_t index = offset / DATA_PIECE_BYTES; rc == 0 && index * DATA_PIECE_BYTES < offset + bytes; index++) {
        rc = need_piece(cache, index, err);
    }
    return rc;
}

/* How large the file is says its header, which lies in the first piece. */
static int find_size(struct cache *cache, struct err *err)
{
    const struct data_request *request = cache->request;
    struct stat status;
    if (fstat(cache->file, &status) != 0) {
        return err_set(err, err_from_errno(errno), "stat: %s", strerror(errno));
    }
    if (status.st_size > 0) {
        cache->total = (uint64_t)status.st_size;
        const uint64_t first = cache->total < DATA_PIECE_BYTES ? cache->total : DATA_PIECE_BYTES;
        if (piece_is_whole(cache, 0, (size_t)first)) {
            return 0;
        }
    }
    int64_t got = request->fetch(request->arg, request->sha256, 0, cache->piece, DATA_PIECE_BYTES, err);
    if (got < 0) {
        return (int)got;
    }
    struct safetensors_tensor tensor[4];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 4};
    uint64_t header_bytes = 0;
    if (got < 8) {
        return err_set(err, ERR_FORMAT, "only %" PRId64 " bytes", got);
    }
    int rc = safetensors_header_bytes(cache->piece, &header_bytes, err);
    if (rc == 0 && header_bytes > (uint64_t)got) {
        rc = err_set(err, ERR_FORMAT, "its header of %" PRIu64 " bytes is too long", header_bytes);
    }
    rc = rc ? rc : safetensors_parse(cache->piece, (size_t)header_bytes, &header, err);
    if (rc == 0 && header.data_bytes > FILE_BYTES_MAX) {
        rc = err_set(err, ERR_LIMIT, "%" PRIu64 " bytes", header.data_bytes);
    }
    if (rc != 0) {
        return rc;
    }
    cache->total = header.data_offset + header.data_bytes;
    const uint64_t first = cache->total < DATA_PIECE_BYTES ? cache->total : DATA_PIECE_BYTES;
    if ((uint64_t)got != first) {
        return err_set(err, ERR_FORMAT, "%" PRId64 " bytes, expected %" PRIu64, got, first);
    }
    cache->fetched = true;
    /* Whatever the map said was about another file. */
    if (ftruncate(cache->map, 0) != 0 || ftruncate(cache->file, 0) != 0 ||
        ftruncate(cache->file, (off_t)cache->total) != 0) {
        return err_set(err, err_from_errno(errno), "resize: %s", strerror(errno));
    }
    return write_piece(cache, 0, (size_t)first, err);
}

static int check_whole(const struct cache *cache, struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    char text[HASH_TEXT_SIZE];
    int rc = sha256_new(&hash, err);
    for (uint64_t offset = 0; rc == 0 && offset < cache->total; offset += DATA_PIECE_BYTES) {
        const uint64_t left = cache->total - offset;
        const size_t size = left < DATA_PIECE_BYTES ? (size_t)left : DATA_PIECE_BYTES;
        rc = file_read_at(cache->file, cache->piece, size, offset, err);
        if (rc == 0) {
            sha256_update(hash, cache->piece, size);
        }
    }
    if (rc != 0) {
        return rc;
    }
    sha256_finish_text(hash, text);
    if (strcmp(text, cache->request->sha256) != 0) {
        const bool forgotten = ftruncate(cache->map, 0) == 0;
        return err_set(err, ERR_FORMAT, "what was fetched has the hash %.12s%s", text,
                       forgotten ? "" : ", and the cache cannot be emptied");
    }
    return 0;
}

static int fill_cache(struct cache *cache, struct data **out, struct err *err)
{
    const struct data_request *request = cache->request;
    int rc = find_size(cache, err);
    struct data *data AUTO(data_close) = NULL;
    rc = rc ? rc : data_open_file(cache->file, &data, err);
    if (rc != 0) {
        return rc;
    }
    if (request->inputs) {
        rc = need_range(cache, data->info.inputs_offset, data->info.inputs_bytes, err);
    }
    if (rc == 0 && request->labels) {
        rc = need_range(cache, data->info.labels_offset, data->info.labels_bytes, err);
    }
    if (rc == 0 && request->inputs && request->labels && cache->fetched) {
        rc = check_whole(cache, err);
    }
    if (rc != 0) {
        return rc;
    }
    *out = data;
    data = NULL;
    return 0;
}

static int open_cache(const struct data_request *request, struct data **out, struct err *err)
{
    FD_AUTO int file = -1;
    FD_AUTO int map = -1;
    int rc = file_make_directory(request->directory, 0700, err);
    rc = rc ? rc : open_one(request, ".data", &file, err);
    rc = rc ? rc : open_one(request, ".map", &map, err);
    if (rc != 0) {
        return rc;
    }
    struct cache cache = {.request = request, .file = file, .map = map, .piece = malloc(DATA_PIECE_BYTES)};
    if (!cache.piece) {
        return err_set(err, ERR_MEMORY, "a piece of %u bytes", DATA_PIECE_BYTES);
    }
    rc = fill_cache(&cache, out, err);
    free(cache.piece);
    return rc;
}

int data_open(const struct data_request *request, struct data **out, struct err *err)
{
    if (strlen(request->sha256) != HASH_DIGITS) {
        return err_set(err, ERR_INVALID, "'%.80s' is no sha256", request->sha256);
    }
    int rc = open_cache(request, out, err);
    return rc == 0 ? 0 : err_wrap(err, "data set %.12s", request->sha256);
}
