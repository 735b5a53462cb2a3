/* snapshot_parts.h: shared by snapshot.c (the list), snapshot_blocks.c (memory) and snapshot_disk.c
 * (files and the thread that writes them). For these three only. */
#ifndef AGENT_COPIES_SNAPSHOT_PARTS_H
#define AGENT_COPIES_SNAPSHOT_PARTS_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "agent/copies/snapshot.h"

/* Snapshots that are being written need a place too, as do dropped ones that are still referenced
 * or whose file must still be removed. */
#define SNAPSHOT_PLACES (2 * HOLDINGS_MAX)
#define SNAPSHOT_SPARES_MAX 512

struct kept {
    struct snapshot snapshot; /* first: users hold a pointer to it */
    atomic_uint
        references; /* 0: an unused place, or in the disk's queue because its file must go */
    struct snapshot_store *store;
    void *block;       /* owned; NULL: on disk, or `base` has it */
    struct kept *base; /* a reference to the owner of the block */
    bool in_file;
    bool dropped; /* its file is removed with the last reference */
    struct snapshot_waiter waiter;
    struct kept *same; /* a reference until its file is linked */
    struct kept *next; /* unused places, or the disk's queue */
};

struct spare {
    void *block;
    size_t size;
};

struct snapshot_store {
    pthread_mutex_t lock;
    struct kept place[SNAPSHOT_PLACES];
    size_t places_used; /* ever */
    struct kept *unused;
    struct snapshot_list list; /* of struct kept */
    int watch_fd;              /* -1: none */
    struct disk_watch *disk;
    struct spare spare[SNAPSHOT_SPARES_MAX];
    size_t spare_count;
    bool retains;

    /* files */
    char directory[PATH_MAX / 2]; /* "": memory only */
    int lock_fd;
    pthread_t thread;
    bool started, stopping;
    bool full; /* the full disk was logged */
    pthread_cond_t work, idle;
    struct kept *first, *last; /* to be written, or to be removed */
    bool writing;
    int64_t bytes_written;
};

/* ---- snapshot.c ---- */

/* Return an unused place with one reference; NULL: none. Under the lock. */
struct kept *snapshot_place(struct snapshot_store *store, const struct holding *holding,
                            enum snapshot_origin origin);
/* Put a snapshot into the list, in place of one with the same key. Errors as of
 * snapshot_list_insert. Called with the lock; *old: pass it to snapshot_unref without the lock. */
int snapshot_insert(struct snapshot_store *store, struct kept *kept, struct kept **old,
                    struct err *err);
/* Put one reference back. NULL is ignored. Without the lock. */
void snapshot_unref(struct kept *kept);
/* Free the place of a snapshot without references. */
void snapshot_free_place(struct snapshot_store *store, struct kept *kept);
/* Return whether the file of that name belongs to a held snapshot. Under the lock. */
bool snapshot_has_file(const struct snapshot_store *store, const struct holding *holding);

/* ---- snapshot_disk.c ---- */

/* Read the existing files and start the thread. */
NODISCARD int snapshot_disk_open(struct snapshot_store *store, struct err *err);
void snapshot_disk_close(struct snapshot_store *store);
/* Queue a snapshot for writing. Under the lock. */
void snapshot_disk_add(struct snapshot_store *store, struct kept *kept);
/* Queue a snapshot without references: the thread removes its file and frees its place. */
void snapshot_disk_remove(struct snapshot_store *store, struct kept *kept);
NODISCARD int snapshot_disk_read(const struct kept *kept, uint64_t offset, void *out, size_t size,
                                 struct err *err);

#endif
