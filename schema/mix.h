/* mix.h: how groups of a gossip job come together: what the coordinator tells a group to do, and
 * the record of what it did. docs/adr/0144. */
#ifndef SCHEMA_MIX_H
#define SCHEMA_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

/* Names a match. Lives of the coordinator only rise, and so do the counters of a life: none is used
 * twice, and of two the later one is larger. Counter 0: none. */
struct mix_xid {
    int64_t life, counter;
};

/* A group is not believed that it knows a match of a later life: lives are times in milliseconds
 * (docs/adr/0153), and up to here, in the year 2527, ids of records sort by them. */
#define MIX_LIFE_CLAIMED_MAX ((INT64_C(1) << 44) - 1)

static inline bool mix_xid_is(struct mix_xid a, struct mix_xid b)
{
    return a.life == b.life && a.counter == b.counter;
}

static inline bool mix_xid_after(struct mix_xid a, struct mix_xid b)
{
    return a.life > b.life || (a.life == b.life && a.counter > b.counter);
}

enum mix_kind {
    MIX_PAIR,    /* two groups move towards each other */
    MIX_AVERAGE, /* every group gives a copy, and one computes their average */
    MIX_ADOPT,   /* a group moves to the average, or fetches it to evaluate it */
    MIX_START,   /* only as a record: an incarnation of a group begins */
    MIX_STORED,  /* only as a record: of those that computed the average, `own` is the one that sent
                    it: this one became a checkpoint */
};
extern const char *const mix_kind_names[];

/* An incarnation of a group is numbered by the attempt, the number of jobs that the group has had,
 * and by the generation of the job. */
#define MIX_ATTEMPT_SHIFT 20

/* An incarnation of a group and, but in a match, its copy: the state after the step `version` and
 * after so many mixes of this incarnation, some of which may have followed the same step. */
struct mix_member {
    int64_t group, generation;
    int64_t version, mixes;
    double weight; /* of a peer of an average: its share; 0: all are equal */
};

/* What a group does. */
struct mix_match {
    struct mix_xid xid;
    int kind; /* enum mix_kind */
    struct mix_member own;
    bool averages; /* AVERAGE: this group computes it */
    /* PAIR: the other group. AVERAGE: all groups of it, in order, for the one that computes it.
     * ADOPT: the one that has it. */
    struct mix_member peer[GROUPS_MAX];
    size_t peer_count;
    /* Shares of the difference that it moves by; of an average: 1, or 0 if it is not adopted. Of
     * ADOPT 0: it is fetched for an evaluation, which no record names. */
    double alpha, statistics_alpha;
    int64_t rate_step;   /* the learning rate from then on is the job's in this step */
    int64_t deadline_ms; /* by the reader's clock */
};

/* Whether the group moves by the match. To an average that is not adopted it gives its copy, or
 * fetches it for an evaluation. */
static inline bool mix_match_moves(const struct mix_match *match)
{
    return match->kind == MIX_PAIR || match->alpha > 0;
}

/* What a group did. Job and records determine every bit of the result. START: `own` begins with the
 * state of the average `xid` that the only peer has computed; with counter 0 with that of the only
 * peer, an earlier incarnation of the same group that has stopped; without a peer with the job's
 * version 0. */
struct mix_record {
    struct mix_xid xid;
    int kind;
    struct mix_member own;
    struct mix_member peer[GROUPS_MAX];
    size_t peer_count;
    double alpha, statistics_alpha;
    int64_t applied_step, applied_mixes; /* the steps and mixes of this incarnation before it */
    int64_t rate_step;
    /* START of a group on its device's own data: which they are, and the steps of the job, by which
     * learning rates go. 0 in logs of earlier builds. */
    int64_t samples, steps;
    char sha256[SHA256_SIZE];
};
extern const struct record mix_xid_record, mix_member_record, mix_record_record;

/* Whether only the coordinator writes such records: groups neither make nor get an order for it. */
static inline bool mix_kind_is_central(int kind)
{
    return kind == MIX_START || kind == MIX_STORED;
}

/* Whether an incarnation begins with all of the state of an earlier one. */
static inline bool mix_record_forks(const struct mix_record *record)
{
    return record->kind == MIX_START && record->peer_count > 0 && record->xid.counter == 0;
}

/* Whether both are about the same move of the same incarnation. */
static inline bool mix_record_is(const struct mix_record *a, const struct mix_record *b)
{
    return mix_xid_is(a->xid, b->xid) && a->kind == b->kind && a->own.group == b->own.group &&
           a->own.generation == b->own.generation;
}

#endif
