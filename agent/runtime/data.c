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

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "libtrain/formats/safetensors.h"
#include "net/hash.h"

#define HASH_DIGITS 64 /* per piece in the map */
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
        rc =
            err_set(err, ERR_LIMIT, "map: %" PRIu64 " bytes are more than this process can address",
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

void data_hash(const struct data *data, char out[HASH_TEXT_SIZE])
{
    sha256_text(data->bytes, data->size, out);
}

int data_shorten(struct data *data, uint64_t count, struct err *err)
{
    struct dataset_info *info = &data->info;
    ASSERT(count > 0);
    if (count > info->count) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " samples, expected at least %" PRIu64,
                       info->count, count);
    }
    info->inputs_bytes = info->inputs_bytes / info->count * count;
    info->labels_bytes = info->labels_bytes / info->count * count;
    info->count = count;
    return 0;
}

const unsigned char *data_inputs(const struct data *data)
{
    return data->bytes + data->info.inputs_offset;
}

const unsigned char *data_labels(const struct data *data)
{
    return data->bytes + data->info.labels_offset;
}

/* ---- the files of the cache ---- */

struct cache {
    const struct data_request *request;
    int file, map;
    size_t disk_call;    /* place in the disk watch; unused during a fetch */
    uint64_t total;      /* bytes of the data set */
    uint64_t file_bytes; /* as found */
    unsigned char *piece;
    uint64_t last;  /* the last checked piece */
    size_t fetched; /* pieces fetched by this call */
    size_t kept;    /* pieces found intact */
    size_t damaged; /* pieces found damaged */
    bool mismatch;  /* the hash of the whole file is wrong */
};

static bool is_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* Return whether the open may succeed after such an error once the file is removed. */
static bool is_in_the_way(int errno_value)
{
    return errno_value == EISDIR || errno_value == ELOOP || errno_value == ENXIO ||
           errno_value == EACCES || errno_value == EPERM;
}

static int remove_any(const char *path)
{
    return unlink(path) == 0 || rmdir(path) == 0 ? 0 : -1;
}

/* DIRECTORY/SHA256.data or .map. A link, pipe or directory of that name, or a file that cannot be
 * written, is replaced. Errors do not show the path, which may be longer than an error text. */
static int open_one(const struct data_request *request, const char *suffix, int *fd,
                    struct err *err)
{
    char path[PATH_MAX];
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int length =
        snprintf(path, sizeof(path), "%s/%s%s", request->directory, request->sha256, suffix);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(err, ERR_LIMIT, "the path of the cache is too long");
    }
    *fd = open(path, flags, 0600);
    const bool odd = *fd >= 0 && !is_file(*fd);
    if (odd || (*fd < 0 && is_in_the_way(errno))) {
        file_close(fd);
        if (remove_any(path) != 0) {
            return err_set(err, err_from_errno(errno),
                           "its %s in the cache is not a file; remove it: %s", suffix,
                           strerror(errno));
        }
        log_warn("cache_file_replaced", "dataset=%.12s file=%s", request->sha256, suffix);
        *fd = open(path, flags, 0600);
    }
    return *fd >= 0 ? 0
                    : err_set(err, err_from_errno(errno), "open its %s in the cache: %s", suffix,
                              strerror(errno));
}

/* Remove the data sets that are not in use. Returns whether any was removed. */
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

/* ---- pieces ---- */

static size_t piece_size(uint64_t total, uint64_t index)
{
    const uint64_t left = total - index * DATA_PIECE_BYTES;
    return left < DATA_PIECE_BYTES ? (size_t)left : DATA_PIECE_BYTES;
}

/* The map's entry of a piece. It names the data set and the place too: a file under the wrong name
 * is damage. */
static int hash_piece(const struct cache *cache, uint64_t index, size_t size,
                      char out[HASH_TEXT_SIZE], struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    char place[HASH_TEXT_SIZE + 32];
    int rc = sha256_new(&hash, err);
    if (rc == 0) {
        const int length =
            snprintf(place, sizeof(place), "%s %" PRIu64 " ", cache->request->sha256, index);
        sha256_update(hash, place, (size_t)length);
        sha256_update(hash, cache->piece, size);
        sha256_finish_text(hash, out);
    }
    return rc;
}

static int write_piece(const struct cache *cache, uint64_t index, size_t size, struct err *err)
{
    char hash[HASH_TEXT_SIZE];
    int rc = hash_piece(cache, index, size, hash, err);
    if (rc != 0) {
        return rc;
    }
    rc = file_write_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, err);
    if (rc == ERR_FULL && make_space(cache->request)) {
        rc = file_write_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, err);
    }
    if (rc != 0) {
        return err_wrap(err, "cache");
    }
    rc = file_write_at(cache->map, hash, HASH_DIGITS, index * HASH_DIGITS, err);
    return rc == 0 ? 0 : err_wrap(err, "map of the cache");
}

/* Read a piece into cache->piece. Returns 1 when it is intact, 0 when it must be fetched. */
static int look_at_piece(struct cache *cache, uint64_t index, size_t size, struct err *err)
{
    char noted[HASH_DIGITS + 1] = "";
    char hash[HASH_TEXT_SIZE] = "";
    if (file_read_at(cache->map, noted, HASH_DIGITS, index * HASH_DIGITS, NULL) != 0 ||
        noted[0] == '\0') {
        return 0;
    }
    if (file_read_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, NULL) == 0) {
        int rc = hash_piece(cache, index, size, hash, err);
        if (rc != 0) {
            return rc;
        }
    }
    const bool whole = strcmp(hash, noted) == 0;
    cache->kept += whole;
    cache->damaged += !whole;
    return whole;
}

static void touch_disk(const struct cache *cache)
{
    disk_watch_again(cache->request->disk, cache->disk_call, clock_now_ms());
}

static void begin_disk(struct cache *cache)
{
    cache->disk_call =
        disk_watch_begin(cache->request->disk, "cached data set", DATA_PIECE_BYTES, clock_now_ms());
}

static void end_disk(const struct cache *cache)
{
    disk_watch_end(cache->request->disk, cache->disk_call);
}

static int64_t fetch(struct cache *cache, uint64_t offset, size_t size, struct err *err)
{
    const struct data_request *request = cache->request;
    end_disk(cache);
    const int64_t got =
        request->fetch(request->arg, request->sha256, offset, cache->piece, size, err);
    begin_disk(cache);
    return got;
}

static int fetch_piece(struct cache *cache, uint64_t index, size_t size, struct err *err)
{
    const uint64_t offset = index * DATA_PIECE_BYTES;
    const int64_t got = fetch(cache, offset, size, err);
    if (got < 0) {
        return (int)got;
    }
    if ((uint64_t)got != size) {
        return err_set(err, ERR_FORMAT, "%" PRId64 " bytes at %" PRIu64 ", expected %zu", got,
                       offset, size);
    }
    cache->fetched++;
    return write_piece(cache, index, size, err);
}

static int need_range(struct cache *cache, uint64_t offset, uint64_t bytes, struct err *err)
{
    for (uint64_t index = offset / DATA_PIECE_BYTES; index * DATA_PIECE_BYTES < offset + bytes;
         index++) {
        if (index == 0 || index == cache->last) {
            continue; /* find_size has fetched the first one, and two tensors may share a piece */
        }
        cache->last = index;
        touch_disk(cache);
        const size_t size = piece_size(cache->total, index);
        int rc = look_at_piece(cache, index, size, err);
        rc = rc == 0 ? fetch_piece(cache, index, size, err) : rc;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- the whole ---- */

/* The size of the data set, which the header in the first `size` bytes of cache->piece states. */
static int read_total(const struct cache *cache, size_t size, uint64_t *out, struct err *err)
{
    struct safetensors_tensor tensor[4];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 4};
    uint64_t header_bytes = 0;
    if (size < 8) {
        return err_set(err, ERR_FORMAT, "only %zu bytes", size);
    }
    int rc = safetensors_header_bytes(cache->piece, &header_bytes, err);
    if (rc == 0 && header_bytes > size) {
        rc = err_set(err, ERR_FORMAT, "its header of %" PRIu64 " bytes is too long", header_bytes);
    }
    rc = rc ? rc : safetensors_parse(cache->piece, (size_t)header_bytes, &header, err);
    if (rc == 0 && header.data_bytes > FILE_BYTES_MAX) {
        rc = err_set(err, ERR_LIMIT, "%" PRIu64 " bytes", header.data_bytes);
    }
    if (rc == 0) {
        *out = header.data_offset + header.data_bytes;
    }
    return rc;
}

/* Read the size that the cached first piece states. Returns 1 when that piece is intact, 0 when it
 * must be fetched. */
static int find_cached_size(struct cache *cache, uint64_t *total, struct err *err)
{
    const size_t there =
        cache->file_bytes < DATA_PIECE_BYTES ? (size_t)cache->file_bytes : DATA_PIECE_BYTES;
    if (there == 0) {
        return 0;
    }
    if (file_read_at(cache->file, cache->piece, there, 0, NULL) != 0 ||
        read_total(cache, there, total, NULL) != 0) {
        cache->damaged++;
        return 0;
    }
    return look_at_piece(cache, 0, piece_size(*total, 0), err);
}

/* Get the first piece, with the header, and give the file the size that it states. */
static int find_size(struct cache *cache, struct err *err)
{
    struct stat status;
    uint64_t total = 0;
    if (fstat(cache->file, &status) != 0) {
        return err_set(err, err_from_errno(errno), "stat: %s", strerror(errno));
    }
    cache->file_bytes = (uint64_t)status.st_size;
    const int whole = find_cached_size(cache, &total, err);
    if (whole < 0) {
        return whole;
    }
    if (!whole) {
        const int64_t got = fetch(cache, 0, DATA_PIECE_BYTES, err);
        int rc = got < 0 ? (int)got : read_total(cache, (size_t)got, &total, err);
        if (rc == 0 && (uint64_t)got != piece_size(total, 0)) {
            rc = err_set(err, ERR_FORMAT, "%" PRId64 " bytes, expected %zu", got,
                         piece_size(total, 0));
        }
        if (rc != 0) {
            return rc;
        }
        cache->fetched++;
    }
    cache->total = total;
    if (cache->file_bytes != total && ftruncate(cache->file, (off_t)total) != 0) {
        return err_set(err, err_from_errno(errno), "resize: %s", strerror(errno));
    }
    return whole ? 0 : write_piece(cache, 0, piece_size(total, 0), err);
}

/* Check the hash of the whole file. ERR_FORMAT: the file is not the data set; its map is then
 * empty. */
static int check_whole(struct cache *cache, struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    char text[HASH_TEXT_SIZE];
    int rc = sha256_new(&hash, err);
    for (uint64_t index = 0; rc == 0 && index * DATA_PIECE_BYTES < cache->total; index++) {
        const size_t size = piece_size(cache->total, index);
        touch_disk(cache);
        rc = file_read_at(cache->file, cache->piece, size, index * DATA_PIECE_BYTES, err);
        if (rc == 0) {
            sha256_update(hash, cache->piece, size);
        }
    }
    if (rc != 0) {
        return rc;
    }
    sha256_finish_text(hash, text);
    if (strcmp(text, cache->request->sha256) != 0) {
        if (ftruncate(cache->map, 0) != 0) {
            return err_set(err, err_from_errno(errno), "empty its map: %s", strerror(errno));
        }
        cache->mismatch = true;
        return err_set(err, ERR_FORMAT, "the fetched content has the hash %.12s", text);
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
    if (rc == 0 && request->inputs && request->labels && cache->fetched > 0) {
        rc = check_whole(cache, err);
    }
    if (rc != 0) {
        return rc;
    }
    *out = data;
    data = NULL;
    return 0;
}

static void say_damage(const struct cache *cache)
{
    if (cache->damaged > 0 ||
        (cache->file_bytes > 0 && cache->total > 0 && cache->file_bytes != cache->total)) {
        log_warn("cache_damaged",
                 "dataset=%.12s bytes=%" PRIu64 " expected=%" PRIu64 " pieces=%zu action=%s",
                 cache->request->sha256, cache->file_bytes, cache->total, cache->damaged,
                 "fetch_again");
    }
}

static int open_cache(struct cache *cache, struct data **out, struct err *err)
{
    const struct data_request *request = cache->request;
    int rc = file_make_directory(request->directory, 0700, err);
    rc = rc ? rc : open_one(request, ".data", &cache->file, err);
    rc = rc ? rc : open_one(request, ".map", &cache->map, err);
    if (rc != 0) {
        return rc;
    }
    rc = fill_cache(cache, out, err);
    say_damage(cache);
    if (cache->mismatch &&
        cache->kept > 0) { /* pieces of an earlier fetch may be the cause; the map is empty now */
        log_warn("cache_damaged", "dataset=%.12s error=%s action=%s", request->sha256,
                 log_quote(err->text).text, "fetch_all_again");
        cache->last = 0;
        rc = fill_cache(cache, out, err);
    }
    return rc;
}

int data_open(const struct data_request *request, struct data **out, struct err *err)
{
    if (strlen(request->sha256) != HASH_DIGITS) {
        return err_set(err, ERR_INVALID, "'%.80s' is not a sha256", request->sha256);
    }
    struct cache cache = {
        .request = request, .file = -1, .map = -1, .piece = malloc(DATA_PIECE_BYTES)};
    if (!cache.piece) {
        return err_set(err, ERR_MEMORY, "a piece of %u bytes", DATA_PIECE_BYTES);
    }
    begin_disk(&cache);
    int rc = open_cache(&cache, out, err);
    file_close(&cache.file);
    file_close(&cache.map);
    end_disk(&cache);
    free(cache.piece);
    return rc == 0 ? 0 : err_wrap(err, "data set %.12s", request->sha256);
}
