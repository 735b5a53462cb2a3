/* The feeding side of an upload: splits the bytes into chunks and queues them; the writer hashes
 * them. It never waits for the disk, except for one query of the free space at the start of an
 * upload. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "coordinator/store/blob_store.h"
#include "net/hash.h"

static int check_expected(const char *sha256, struct err *err)
{
    if (strlen(sha256) != BLOB_SHA256_SIZE - 1 ||
        strspn(sha256, "0123456789abcdef") != BLOB_SHA256_SIZE - 1) {
        return err_set(err, ERR_INVALID, "'%.80s' is not a sha256 in lower-case hexadecimal",
                       sha256);
    }
    return 0;
}

static int look_at_space(const struct blob_store *store, uint64_t announced_bytes,
                         uint64_t *free_bytes, bool *low, struct err *err)
{
    int rc = file_free_bytes(store->directory, free_bytes, err);
    if (rc == 0) {
        const uint64_t usable = *free_bytes + atomic_load(&store->reusable_bytes);
        *low = usable < store->min_free_bytes || usable - store->min_free_bytes < announced_bytes;
    }
    return rc;
}

int blob_disk_low(const struct blob_store *store, bool *out, struct err *err)
{
    uint64_t free_bytes = 0;
    return look_at_space(store, 0, &free_bytes, out, err);
}

static int check_space(const struct blob_store *store, uint64_t announced_bytes, struct err *err)
{
    uint64_t free_bytes = 0;
    bool low = false;
    int rc = look_at_space(store, announced_bytes, &free_bytes, &low, err);
    if (rc == 0 && low) {
        char announced[64] = "";
        if (announced_bytes > 0) {
            (void)snprintf(announced, sizeof(announced), " beside the %llu of the upload",
                           (unsigned long long)announced_bytes);
        }
        return err_set(err, ERR_FULL, "'%s' has %llu bytes free; %llu must stay free%s",
                       store->directory, (unsigned long long)free_bytes,
                       (unsigned long long)store->min_free_bytes, announced);
    }
    return rc;
}

int blob_upload_open(struct blob_store *store, const char *expected_sha256, uint64_t size_limit,
                     struct blob_upload **out, struct err *err)
{
    int rc = expected_sha256 ? check_expected(expected_sha256, err) : 0;
    rc = rc ? rc : check_space(store, 0, err);
    if (rc) {
        return rc;
    }
    struct blob_upload *upload = calloc(1, sizeof(*upload));
    if (!upload) {
        return err_set(err, ERR_MEMORY, "blob: no memory for an upload");
    }
    upload->store = store;
    upload->size_limit = size_limit < BLOB_SIZE_MAX ? size_limit : BLOB_SIZE_MAX;
    upload->seal = (struct blob_item){.kind = BLOB_ITEM_SEAL, .upload = upload};
    upload->end = (struct blob_item){.kind = BLOB_ITEM_END, .upload = upload};
    if (expected_sha256) {
        memcpy(upload->expected, expected_sha256, BLOB_SHA256_SIZE);
    }
    rc = sha256_new(&upload->hash, err);
    rc = rc ? rc : blob_queue_admit(&store->queue, upload, err);
    if (rc) {
        sha256_free(&upload->hash);
        free(upload);
        return rc;
    }
    *out = upload;
    return 0;
}

int blob_upload_keep_free(struct blob_upload *upload, uint64_t announced_bytes, struct err *err)
{
    ASSERT(upload->size == 0);
    upload->keeps_free = true;
    return check_space(upload->store, announced_bytes, err);
}

void blob_upload_on_room(struct blob_upload *upload, void (*fn)(void *arg), void *arg)
{
    ASSERT(upload->size == 0);
    upload->on_room_arg = arg;
    upload->on_room = fn;
}

static int64_t feed(struct blob_upload *upload, const char *data, size_t size, bool wait,
                    struct err *err)
{
    ASSERT(!upload->fed);
    if (size > upload->size_limit - upload->size) {
        return err_set(err, ERR_LIMIT, "blob: more than %llu bytes",
                       (unsigned long long)upload->size_limit);
    }
    size_t taken = 0;
    while (taken < size) {
        if (upload->partial && upload->partial->size == BLOB_CHUNK_BYTES) {
            int pushed = blob_queue_push(&upload->store->queue, upload, wait, err);
            if (pushed < 0) {
                return pushed;
            }
            if (pushed == 0) {
                break;
            }
        }
        int rc = upload->partial ? 0 : blob_chunk_new(upload, &upload->partial, err);
        if (rc) {
            return rc;
        }
        struct blob_item *chunk = upload->partial;
        size_t room = BLOB_CHUNK_BYTES - chunk->size;
        size_t count = size - taken < room ? size - taken : room;
        memcpy(chunk->data + chunk->size, data + taken, count);
        chunk->size += count;
        upload->size += count;
        taken += count;
    }
    return (int64_t)taken;
}

int64_t blob_upload_write(struct blob_upload *upload, const void *data, size_t size,
                          struct err *err)
{
    return feed(upload, data, size, false, err);
}

int blob_upload_write_all(struct blob_upload *upload, const void *data, size_t size,
                          struct err *err)
{
    int64_t taken = feed(upload, data, size, true, err);
    return taken < 0 ? (int)taken : 0;
}

void blob_upload_seal(struct blob_upload *upload, blob_sealed_fn sealed, void *arg)
{
    ASSERT(sealed && !upload->fed);
    upload->sealed = sealed;
    upload->sealed_arg = arg;
    blob_queue_seal(&upload->store->queue, upload);
}

void blob_upload_finish(struct blob_upload *upload, blob_done_fn done, void *arg)
{
    ASSERT(done);
    upload->done = done;
    upload->done_arg = arg;
    blob_queue_end(&upload->store->queue, upload, true);
}

void blob_upload_abort(struct blob_upload *upload)
{
    blob_queue_end(&upload->store->queue, upload, false);
}

int blob_confirm(struct blob_store *store, const char *sha256, blob_done_fn done, void *arg,
                 struct err *err)
{
    int rc = check_expected(sha256, err);
    if (rc) {
        return rc;
    }
    struct blob_upload *question = calloc(1, sizeof(*question));
    if (!question) {
        return err_set(err, ERR_MEMORY, "blob: no memory for a question");
    }
    question->store = store;
    question->confirms = true;
    question->done = done;
    question->done_arg = arg;
    question->end = (struct blob_item){.kind = BLOB_ITEM_END, .upload = question};
    memcpy(question->expected, sha256, BLOB_SHA256_SIZE);
    memcpy(question->sha256, sha256, BLOB_SHA256_SIZE);
    rc = blob_queue_admit(&store->queue, question, err);
    if (rc) {
        free(question);
        return rc;
    }
    blob_queue_end(&store->queue, question, true);
    return 0;
}
