/* blob_queue.h: the queue from the threads that feed uploads to the writer, in order, with one lock
 * that is never held during disk access. It bounds the memory of queued chunks, counts open uploads
 * and resumes paused ones when there is room. Private to coordinator/store; knows no SQL. */
#ifndef COORDINATOR_STORE_BLOB_QUEUE_H
#define COORDINATOR_STORE_BLOB_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/store/blobs.h"

/* The most uploads that are open or not yet written. Each may hold one unfinished chunk outside the
 * queue. */
#define BLOB_UPLOADS_MAX 256
#define BLOB_BATCH_BYTES (8u << 20)
#define BLOB_BATCH_ITEMS 1024
#define BLOB_BATCH_WAIT_MS 100
#define BLOB_DELETES_MAX 65536

enum blob_item_kind { BLOB_ITEM_CHUNK, BLOB_ITEM_SEAL, BLOB_ITEM_END, BLOB_ITEM_DELETE };

struct blob_item {
    struct blob_item *next;
    enum blob_item_kind kind;
    bool dropped; /* CHUNK: its upload was aborted or failed; set when the writer takes the item */
    struct blob_upload *upload; /* CHUNK, SEAL, END */
    char *data;                 /* CHUNK: [BLOB_CHUNK_BYTES], on separate pages */
    size_t size;
    uint32_t index;
    char sha256[BLOB_SHA256_SIZE]; /* DELETE */
};

struct blob_upload {
    struct blob_store *store;
    int64_t id; /* of its row */

    /* Owned by the feeding thread until the end is queued, then by the writer: */
    struct blob_item *partial; /* the chunk being filled */
    uint32_t chunks;           /* handed over */
    uint64_t size, size_limit;
    char expected[BLOB_SHA256_SIZE]; /* or "" */
    blob_sealed_fn sealed;
    void *sealed_arg;
    blob_done_fn done;
    void *done_arg;
    struct blob_item seal, end;

    /* Owned by the writer: */
    struct sha256 *hash;           /* of the chunks taken so far */
    char sha256[BLOB_SHA256_SIZE]; /* "" until all chunks are taken */

    /* Under the queue's lock; only the writer writes failure: */
    struct blob_upload *previous, *next;
    struct err failure;
    size_t queued_bytes;
    void (*on_room)(void *arg);
    void *on_room_arg;
    bool waiting;  /* its last push found no room */
    bool calling;  /* on_room is running */
    bool fed;      /* no more bytes follow */
    bool ended;    /* finished or aborted */
    bool finished; /* not aborted */

    bool keeps_free; /* must not use min_free_bytes; set before the first write */
    bool confirms;   /* a query, not an upload: whether the blob `expected` exists; set before it is
                        queued */
    bool found;      /* the writer's answer to the query */
    bool placed;     /* set by the writer: this copy became the blob; no undamaged one existed */
};

struct blob_queue {
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the writer: work has arrived */
    pthread_cond_t room; /* for feeders: the writer took an item, or a callback has returned */
    pthread_cond_t idle; /* for blob_drain */
    size_t limit_bytes;
    struct blob_item *head, **tail;
    size_t queued_bytes;  /* until written */
    size_t waiting_bytes; /* not yet taken by the writer */
    size_t deletes;
    int64_t first_ms; /* when the queue stopped being empty */
    struct blob_upload *first_upload, *last_upload;
    size_t uploads, open_uploads;
    int64_t next_id;  /* this and `writer`: set before the first upload and when the writer runs */
    pthread_t writer; /* see next_id */
    bool is_idle, stopping;
    bool room_wanted; /* a feeder waits for the writer to take an item */
};

NODISCARD int blob_queue_init(struct blob_queue *queue, size_t limit_bytes, struct err *err);
void blob_queue_done(struct blob_queue *queue);

/* ---- feeding threads ---- */
/* Give the upload its id and count it. ERR_LIMIT: too many uploads. */
NODISCARD int blob_queue_admit(struct blob_queue *queue, struct blob_upload *upload,
                               struct err *err);
/* Queue upload->partial. Returns 1: queued; 0: no room now (never with `wait`); negative: the
 * upload has failed. */
int blob_queue_push(struct blob_queue *queue, struct blob_upload *upload, bool wait,
                    struct err *err);
/* Queue the partial chunk and the seal. Returns when on_room cannot run any more. */
void blob_queue_seal(struct blob_queue *queue, struct blob_upload *upload);
/* Queue the partial chunk and the end. Returns when on_room cannot run any more; from then on the
 * writer owns the upload. */
void blob_queue_end(struct blob_queue *queue, struct blob_upload *upload, bool finished);
/* Queue a deletion. false: out of memory, or too many deletions wait. */
bool blob_queue_delete(struct blob_queue *queue, const char *sha256);
/* Wait until the writer has no work left. */
void blob_queue_drain(struct blob_queue *queue);
/* Drop the uploads that are still open and let the writer end when the queue is empty. */
void blob_queue_stop(struct blob_queue *queue);

/* ---- the writer ---- */
/* Take the next batch, as a list in order. NULL: no work arrived for wait_ms (-1: no limit).
 * *stopped: no more work will arrive. */
struct blob_item *blob_queue_take(struct blob_queue *queue, int64_t wait_ms, bool *stopped);
/* Make later calls of the upload's feeder fail with this error. */
void blob_queue_fail(struct blob_queue *queue, struct blob_upload *upload,
                     const struct err *failure);
/* Return whether rows of this id belong to an upload in progress. */
bool blob_queue_owns(struct blob_queue *queue, int64_t id);
/* After a batch: free it and the uploads that ended in it, wake uploads that wait for room. */
void blob_queue_settle(struct blob_queue *queue, struct blob_item *items);

NODISCARD int blob_chunk_new(struct blob_upload *upload, struct blob_item **out, struct err *err);
void blob_item_free(struct blob_item *item);

#endif
