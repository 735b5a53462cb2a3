/* mix.h: mixes between groups of a gossip job: the coordinator's order to a group, and the group's
 * record of the result. docs/adr/0144. */
#ifndef SCHEMA_MIX_H
#define SCHEMA_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

/* Identifies a match. Both the lives of the coordinator and the counters within a life only rise,
 * so ids are unique and a later match has a larger id. Counter 0: none. */
struct mix_xid {
    int64_t life, counter;
};

/* The latest life that a group's report may name. Lives are times in milliseconds (docs/adr/0153),
 * and ids of records sort by them up to this bound, in the year 2527. */
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
    MIX_AVERAGE, /* every group provides a copy, and one group computes their average */
    MIX_ADOPT,   /* a group moves to the average, or fetches it to evaluate it */
    MIX_START,   /* only as a record: an incarnation of a group begins */
    MIX_STORED, /* only as a record: `own` is the group that computed and uploaded the average which
                   became a checkpoint */
};
extern const char *const mix_kind_names[];

/* The number of an incarnation consists of the attempt (the number of jobs that the group has had)
 * and the generation of the job. */
#define MIX_ATTEMPT_SHIFT 20

/* An incarnation of a group and, except in a match, its copy: the state after step `version` and
 * after `mixes` mixes of this incarnation. Several mixes may follow the same step. */
struct mix_member {
    int64_t group, generation;
    int64_t version, mixes;
    double weight; /* of a peer of an average: its share; 0: all shares are equal */
};

/* The coordinator's order to a group. */
struct mix_match {
    struct mix_xid xid;
    int kind; /* enum mix_kind */
    struct mix_member own;
    bool averages; /* AVERAGE: this group computes it */
    /* PAIR: the other group. AVERAGE: all its groups in order, for the group that computes it.
     * ADOPT: the group that has the average. */
    struct mix_member peer[GROUPS_MAX];
    size_t peer_count;
    /* The group moves by these shares of the difference. AVERAGE: 1, or 0 if groups do not adopt
     * it. ADOPT: 0 if the group only evaluates the average; no record names that. */
    double alpha, statistics_alpha;
    int64_t rate_step;   /* afterwards the learning rate is that of the job's step rate_step */
    int64_t deadline_ms; /* by the reader's clock */
};

/* Return whether the match changes the group's state. For an average that is not adopted, the group
 * only provides its copy, or fetches the average for an evaluation. */
static inline bool mix_match_moves(const struct mix_match *match)
{
    return match->kind == MIX_PAIR || match->alpha > 0;
}

/* The record of a group's move. Job and records determine every bit of the result. START: `own`
 * begins with the state of the average `xid` that its only peer computed. With counter 0 it begins
 * with the state of its only peer, an earlier incarnation of the same group that has stopped.
 * Without a peer it begins with the job's version 0. */
struct mix_record {
    struct mix_xid xid;
    int kind;
    struct mix_member own;
    struct mix_member peer[GROUPS_MAX];
    size_t peer_count;
    double alpha, statistics_alpha;
    int64_t applied_step, applied_mixes; /* the steps and mixes of this incarnation before it */
    int64_t rate_step;
    /* START of a group on its device's own data: samples and hash of the data, and the steps of the
     * job for the learning rates. 0 in logs of earlier builds. */
    int64_t samples, steps;
    char sha256[SHA256_SIZE];
};
extern const struct record mix_xid_record, mix_member_record, mix_record_record;

/* Return whether only the coordinator writes records of this kind. Groups never write one and get
 * no order for it. */
static inline bool mix_kind_is_central(int kind)
{
    return kind == MIX_START || kind == MIX_STORED;
}

/* Return whether the incarnation begins with the whole state of an earlier one. */
static inline bool mix_record_forks(const struct mix_record *record)
{
    return record->kind == MIX_START && record->peer_count > 0 && record->xid.counter == 0;
}

/* Return whether both records are of the same move of the same incarnation. */
static inline bool mix_record_is(const struct mix_record *a, const struct mix_record *b)
{
    return mix_xid_is(a->xid, b->xid) && a->kind == b->kind && a->own.group == b->own.group &&
           a->own.generation == b->own.generation;
}

#endif
