#include "coordinator/store/blob_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "net/hash.h"

static void lock(struct blob_queue *queue)
{
    int rc = pthread_mutex_lock(&queue->lock);
    ASSERT(rc == 0);
}

static void unlock(struct blob_queue *queue)
{
    int rc = pthread_mutex_unlock(&queue->lock);
    ASSERT(rc == 0);
}

int blob_queue_init(struct blob_queue *queue, size_t limit_bytes, struct err *err)
{
    memset(queue, 0, sizeof(*queue));
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) ||
        pthread_mutex_init(&queue->lock, NULL) || pthread_cond_init(&queue->work, &attributes) ||
        pthread_cond_init(&queue->room, NULL) || pthread_cond_init(&queue->idle, NULL)) {
        return err_set(err, ERR_MEMORY, "blob queue: no lock");
    }
    (void)pthread_condattr_destroy(&attributes);
    queue->limit_bytes = limit_bytes;
    queue->next_id = 1;
    queue->tail = &queue->head;
    return 0;
}

void blob_queue_done(struct blob_queue *queue)
{
    ASSERT(!queue->head && !queue->first_upload);
    (void)pthread_cond_destroy(&queue->work);
    (void)pthread_cond_destroy(&queue->room);
    (void)pthread_cond_destroy(&queue->idle);
    (void)pthread_mutex_destroy(&queue->lock);
}

/* On separate pages: unwritten pages cost nothing, and a freed chunk returns to the system. */
int blob_chunk_new(struct blob_upload *upload, struct blob_item **out, struct err *err)
{
    struct blob_item *item = calloc(1, sizeof(*item));
    void *data = item ? mmap(NULL, BLOB_CHUNK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : NULL;
    if (!item || data == MAP_FAILED) {
        free(item);
        return err_set(err, ERR_MEMORY, "blob: no memory for a chunk");
    }
    item->kind = BLOB_ITEM_CHUNK;
    item->upload = upload;
    item->data = data;
    item->index = upload->chunks;
    *out = item;
    return 0;
}

void blob_item_free(struct blob_item *item)
{
    if (item && item->data) {
        (void)munmap(item->data, BLOB_CHUNK_BYTES);
    }
    free(item);
}

static void free_upload(struct blob_upload *upload)
{
    blob_item_free(upload->partial);
    sha256_free(&upload->hash);
    free(upload);
}

/* ---- under the lock ---- */

static void append(struct blob_queue *queue, struct blob_item *item)
{
    if (!queue->head) {
        queue->first_ms = clock_now_ms();
    }
    item->next = NULL;
    *queue->tail = item;
    queue->tail = &item->next;
    queue->is_idle = false;
    (void)pthread_cond_signal(&queue->work);
}

static void append_partial(struct blob_queue *queue, struct blob_upload *upload)
{
    struct blob_item *item = upload->partial;
    upload->partial = NULL;
    upload->chunks++;
    upload->queued_bytes += item->size;
    queue->queued_bytes += item->size;
    queue->waiting_bytes += item->size;
    append(queue, item);
}

static void link_last(struct blob_queue *queue, struct blob_upload *upload)
{
    upload->next = NULL;
    upload->previous = queue->last_upload;
    *(queue->last_upload ? &queue->last_upload->next : &queue->first_upload) = upload;
    queue->last_upload = upload;
}

static void unlink_upload(struct blob_queue *queue, struct blob_upload *upload)
{
    *(upload->previous ? &upload->previous->next : &queue->first_upload) = upload->next;
    *(upload->next ? &upload->next->previous : &queue->last_upload) = upload->previous;
}

static void set_fed(struct blob_queue *queue, struct blob_upload *upload)
{
    if (!upload->fed) {
        upload->fed = true;
        queue->open_uploads--;
    }
}

/* No upload fills more than half of the queue: a fast one leaves room for the others. */
static bool has_room(const struct blob_queue *queue, const struct blob_upload *upload)
{
    size_t share =
        queue->limit_bytes / 2 > BLOB_CHUNK_BYTES ? queue->limit_bytes / 2 : BLOB_CHUNK_BYTES;
    return queue->queued_bytes + BLOB_CHUNK_BYTES <= queue->limit_bytes &&
           upload->queued_bytes + BLOB_CHUNK_BYTES <= share;
}

/* ---- feeding threads ---- */

int blob_queue_admit(struct blob_queue *queue, struct blob_upload *upload, struct err *err)
{
    lock(queue);
    bool fits = queue->uploads < BLOB_UPLOADS_MAX;
    if (fits) {
        upload->id = queue->next_id++;
        queue->uploads++;
        queue->open_uploads++;
        link_last(queue, upload);
    }
    unlock(queue);
    return fits ? 0 : err_set(err, ERR_LIMIT, "%d uploads are open already", BLOB_UPLOADS_MAX);
}

int blob_queue_push(struct blob_queue *queue, struct blob_upload *upload, bool wait,
                    struct err *err)
{
    lock(queue);
    if (!has_room(queue, upload)) {
        queue->room_wanted = true;
        (void)pthread_cond_signal(&queue->work);
    }
    while (wait && !upload->failure.code && !has_room(queue, upload)) {
        (void)pthread_cond_wait(&queue->room, &queue->lock);
    }
    int rc = 0;
    if (upload->failure.code) {
        rc = err_set(err, upload->failure.code, "%s", upload->failure.text);
    } else if (has_room(queue, upload)) {
        append_partial(queue, upload);
        rc = 1;
    }
    upload->waiting = rc == 0;
    unlock(queue);
    return rc;
}

/* Under the lock; waits, without it, for a running call of on_room. */
static void stop_feeding(struct blob_queue *queue, struct blob_upload *upload, bool complete)
{
    upload->waiting = false;
    while (upload->calling && !pthread_equal(pthread_self(), queue->writer)) {
        (void)pthread_cond_wait(&queue->room, &queue->lock);
    }
    set_fed(queue, upload);
    /* The last chunk needs no room, because the upload already had its memory. */
    if (complete && upload->partial && !upload->failure.code) {
        append_partial(queue, upload);
    }
}

void blob_queue_seal(struct blob_queue *queue, struct blob_upload *upload)
{
    lock(queue);
    stop_feeding(queue, upload, true);
    append(queue, &upload->seal);
    unlock(queue);
}

void blob_queue_end(struct blob_queue *queue, struct blob_upload *upload, bool finished)
{
    lock(queue);
    stop_feeding(queue, upload, finished);
    upload->ended = true;
    upload->finished = finished;
    append(queue, &upload->end);
    unlock(queue);
}

bool blob_queue_delete(struct blob_queue *queue, const char *sha256)
{
    struct blob_item *item = calloc(1, sizeof(*item));
    if (!item || strlen(sha256) >= sizeof(item->sha256)) {
        free(item);
        return false;
    }
    item->kind = BLOB_ITEM_DELETE;
    memcpy(item->sha256, sha256, strlen(sha256) + 1);
    lock(queue);
    bool fits = queue->deletes < BLOB_DELETES_MAX;
    if (fits) {
        queue->deletes++;
        append(queue, item);
    }
    unlock(queue);
    if (!fits) {
        free(item);
    }
    return fits;
}

void blob_queue_drain(struct blob_queue *queue)
{
    lock(queue);
    while (!queue->is_idle) {
        (void)pthread_cond_wait(&queue->idle, &queue->lock);
    }
    unlock(queue);
}

void blob_queue_stop(struct blob_queue *queue)
{
    lock(queue);
    for (struct blob_upload *upload = queue->first_upload; upload; upload = upload->next) {
        if (!upload->ended) {
            upload->ended = true;
            upload->waiting = false;
            set_fed(queue, upload);
            append(queue, &upload->end);
        }
    }
    queue->stopping = true;
    (void)pthread_cond_signal(&queue->work);
    unlock(queue);
}

/* ---- the writer ---- */

/* Whether no more work will arrive or the batch is large enough, so that the writer need not wait
 * for the rest of the 100 ms. */
static bool batch_is_ready(const struct blob_queue *queue)
{
    return queue->stopping || queue->room_wanted || queue->open_uploads == 0 ||
           queue->waiting_bytes >= BLOB_BATCH_BYTES ||
           clock_now_ms() - queue->first_ms >= BLOB_BATCH_WAIT_MS;
}

static struct timespec time_after(int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

static void wait_for_batch(struct blob_queue *queue)
{
    const struct timespec until = time_after(BLOB_BATCH_WAIT_MS);
    int rc = 0;
    while (rc != ETIMEDOUT && !batch_is_ready(queue)) {
        rc = pthread_cond_timedwait(&queue->work, &queue->lock, &until);
    }
}

static struct blob_item *detach(struct blob_queue *queue)
{
    struct blob_item *first = queue->head, *last = NULL;
    size_t bytes = 0, count = 0;
    for (struct blob_item *item = first; item; item = item->next) {
        if (last && (bytes + item->size > BLOB_BATCH_BYTES || count == BLOB_BATCH_ITEMS)) {
            break;
        }
        item->dropped = item->upload && ((item->upload->ended && !item->upload->finished) ||
                                         item->upload->failure.code);
        bytes += item->size;
        count++;
        last = item;
    }
    if (last) {
        queue->head = last->next;
        last->next = NULL;
        queue->waiting_bytes -= bytes;
    }
    if (!queue->head) {
        queue->tail = &queue->head;
    }
    return first;
}

struct blob_item *blob_queue_take(struct blob_queue *queue, int64_t wait_ms, bool *stopped)
{
    const struct timespec until = time_after(wait_ms > 0 ? wait_ms : 0);
    int rc = wait_ms == 0 ? ETIMEDOUT : 0;
    lock(queue);
    while (!queue->head && !queue->stopping && rc != ETIMEDOUT) {
        queue->is_idle = true;
        (void)pthread_cond_broadcast(&queue->idle);
        rc = wait_ms < 0 ? pthread_cond_wait(&queue->work, &queue->lock)
                         : pthread_cond_timedwait(&queue->work, &queue->lock, &until);
    }
    queue->is_idle = queue->is_idle && rc != ETIMEDOUT; /* the caller has other work now */
    if (queue->head) {
        wait_for_batch(queue);
    }
    struct blob_item *items = detach(queue);
    queue->room_wanted = false;
    *stopped = !items && queue->stopping;
    unlock(queue);
    return items;
}

void blob_queue_fail(struct blob_queue *queue, struct blob_upload *upload,
                     const struct err *failure)
{
    lock(queue);
    if (!upload->failure.code) {
        upload->failure = *failure;
    }
    unlock(queue);
}

bool blob_queue_owns(struct blob_queue *queue, int64_t id)
{
    lock(queue);
    bool owned = false;
    for (const struct blob_upload *upload = queue->first_upload; upload && !owned;
         upload = upload->next) {
        owned = upload->id == id && !upload->failure.code && (!upload->ended || upload->finished);
    }
    unlock(queue);
    return owned;
}

/* Wake paused uploads, the longest waiting first, without the lock. */
static void call_waiting(struct blob_queue *queue)
{
    struct blob_upload *upload = queue->first_upload;
    while (upload) {
        if (!upload->waiting || !upload->on_room ||
            !(upload->failure.code || has_room(queue, upload))) {
            upload = upload->next;
            continue;
        }
        upload->waiting = false;
        upload->calling = true;
        unlink_upload(queue, upload);
        link_last(queue, upload);
        unlock(queue);
        upload->on_room(upload->on_room_arg);
        lock(queue);
        upload->calling = false;
        (void)pthread_cond_broadcast(&queue->room);
        upload = queue->first_upload;
    }
}

void blob_queue_settle(struct blob_queue *queue, struct blob_item *items)
{
    struct blob_upload *ended = NULL;
    struct blob_item *next;
    lock(queue);
    for (struct blob_item *item = items; item; item = next) {
        next = item->next;
        switch (item->kind) {
        case BLOB_ITEM_CHUNK:
            item->upload->queued_bytes -= item->size;
            queue->queued_bytes -= item->size;
            blob_item_free(item);
            break;
        case BLOB_ITEM_SEAL: break; /* a part of its upload */
        case BLOB_ITEM_END:
            unlink_upload(queue, item->upload);
            queue->uploads--;
            item->upload->next = ended;
            ended = item->upload;
            break;
        case BLOB_ITEM_DELETE:
            queue->deletes--;
            blob_item_free(item);
            break;
        }
    }
    (void)pthread_cond_broadcast(&queue->room);
    call_waiting(queue);
    unlock(queue);
    while (ended) {
        struct blob_upload *upload = ended;
        ended = upload->next;
        free_upload(upload);
    }
}
