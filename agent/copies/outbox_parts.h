/* replicate_parts.h: what replicate.c (the thread and those that tell it) and replicate_sets.c
 * (memory) share. For these two only. */
#ifndef AGENT_COPIES_OUTBOX_PARTS_H
#define AGENT_COPIES_OUTBOX_PARTS_H

#include <pthread.h>

#include "agent/copies/outbox.h"

#define SETS_MAX REPLICATION_SETS_MAX

enum set_state { SET_NONE, SET_READY, SET_FILLING, SET_FILLED };

/* Blocks for one copy of the stage's units. */
struct set {
    enum set_state state;
    int64_t version;
    void **block; /* [units] */
};

struct replicate {
    struct replicate_config config;
    struct stage *stage;
    const struct stage_config *at; /* the stage's */
    size_t units;
    int64_t set_bytes;
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* for a stop, and for the end of a write */
    struct replication *core;
    struct set set[SETS_MAX];
    bool cancelled;
    bool no_memory; /* for another set, until something was dropped */
    int64_t wanted; /* the version of a stop that is waited for, 0: none */
    int64_t held;   /* the newest version of which every unit is held */
    int64_t failed; /* the newest version that could not be kept */
    struct err why;
    int64_t collecting; /* 0: nothing */
    uint64_t skipped;
    bool writing; /* a file */
    int write_rc;
    struct err write_why;
};

/* ---- replicate_sets.c ---- */

/* Bytes of the stage's unit number `index`. */
size_t replicate_unit_bytes(const struct replicate *replicate, size_t index);
/* The oldest in that state, or NULL. Under the lock. */
struct set *replicate_find_set(struct replicate *replicate, enum set_state state);
/* Take the memory, and touch it: the compute thread is to find its pages there. ERR_MEMORY. */
NODISCARD int replicate_fill_blocks(const struct replicate *replicate, const struct set *set,
                                    struct err *err);
void replicate_free_blocks(const struct replicate *replicate, const struct set *set);
/* Have a set ready, if there is none and there may be one. Under the lock, which it lets go of
 * meanwhile. Returns whether there is a new one. */
bool replicate_make_ready(struct replicate *replicate);
/* Replicas of rounds that were abandoned go when there is no room for another set of the stage
 * before. Under the lock.
 */
void replicate_release_replicas(struct replicate *replicate);

#endif
