/* outbox_parts.h: shared by outbox.c (the thread and its callers) and outbox_sets.c (memory). For
 * these two only. */
#ifndef AGENT_COPIES_OUTBOX_PARTS_H
#define AGENT_COPIES_OUTBOX_PARTS_H

#include <pthread.h>

#include "agent/copies/outbox.h"

#define SETS_MAX OUTBOX_SETS_MAX

enum set_state { SET_NONE, SET_READY, SET_FILLING, SET_FILLED };

/* Blocks for one copy of the stage's units. */
struct set {
    enum set_state state;
    int64_t version;
    void **block; /* [units] */
};

struct outbox {
    struct outbox_config config;
    struct stage *stage;
    const struct stage_config *at; /* the stage's */
    size_t units;
    int64_t set_bytes;
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* for a stop, and for the end of a write */
    struct outbox_queue *queue;
    struct set set[SETS_MAX];
    bool cancelled;
    bool no_memory; /* for another set, until something was dropped */
    int64_t wanted; /* the version of a stop that a caller waits for, 0: none */
    int64_t held;   /* the newest version of which every unit is held */
    int64_t failed; /* the newest version that could not be kept */
    struct err why;
    int64_t collecting; /* 0: nothing */
    uint64_t skipped;
    bool writing; /* a file */
    int write_rc;
    struct err write_why;
};

/* ---- outbox_sets.c ---- */

/* Bytes of the stage's unit number `index`. */
size_t outbox_unit_bytes(const struct outbox *outbox, size_t index);
/* The oldest in that state, or NULL. Under the lock. */
struct set *outbox_find_set(struct outbox *outbox, enum set_state state);
/* Allocate the blocks and touch their pages, so that the compute thread faults none. ERR_MEMORY. */
NODISCARD int outbox_fill_blocks(const struct outbox *outbox, const struct set *set,
                                 struct err *err);
void outbox_free_blocks(const struct outbox *outbox, const struct set *set);
/* Prepare a set if none is ready and the bound allows one. Called with the lock, which it releases
 * meanwhile. Returns whether there is a new one. */
bool outbox_make_ready(struct outbox *outbox);
/* Drop replicas of abandoned rounds if another set of the previous stage does not fit. Called with
 * the lock. */
void outbox_release_replicas(struct outbox *outbox);

#endif
