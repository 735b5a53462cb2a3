/* replay_plan.h: turns the log of a gossip job's mixes (schema/mix.h) into a list of actions that
 * repeat the job: trainings, copies, moves and averages, each after the actions on which it
 * depends. It does not train. For replay.c. Pure.
 *
 * It repeats only the actions on which the last average depends. Incarnations of groups advance as
 * in a data flow, the one with the oldest match first, so that few copies are kept at a time. A
 * copy that several records name is made once and kept until the last of them has used it. */
#ifndef AGENT_OFFLINE_REPLAY_PLAN_H
#define AGENT_OFFLINE_REPLAY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/mix.h"

/* There are places for whole states of groups, with their optimizer state, and places for copies,
 * which have only parameters and running statistics. An action names places by their index. */
enum replay_work {
    REPLAY_START,   /* `state`: version 0 of the job, or of the average `peer`; a new optimizer */
    REPLAY_FORK,    /* `state`: all of the state `own` */
    REPLAY_TRAIN,   /* `state`: the steps (first, last] of `group`, at the rate of rate_step */
    REPLAY_COPY,    /* the copy `own` of `state` */
    REPLAY_MIX,     /* `state` moves by `record` from its copy `own` towards the copy `peer` */
    REPLAY_AVERAGE, /* the copy `own`: the average of the copies source[first], ... in order */
    REPLAY_WRITE,   /* the average `own` of `record` is wanted; at the end that of the job */
};

#define REPLAY_NONE SIZE_MAX

struct replay_action {
    enum replay_work work;
    size_t state, own, peer; /* places; REPLAY_NONE: none */
    int64_t group;           /* of the state */
    int64_t first, last;
    int64_t rate_step;
    const struct mix_record *record; /* the record of the action; borrowed from the log */
};

struct replay_plan {
    struct replay_action *action;
    size_t count;
    size_t *source;                /* copies of averages */
    size_t states, copies;         /* numbers of places: the most in use at a time */
    size_t groups;                 /* of the largest average */
    int64_t steps;                 /* to train */
    const struct mix_record *last; /* the last average */
};

struct replay_log {
    const struct mix_record *record; /* [count] in any order */
    size_t count;
    size_t groups;     /* of the job */
    bool all_averages; /* repeat all averages of the log, not only the last one */
};

/* Make the plan. The log is borrowed for the life of the plan. ERR_INVALID for a log that has no
 * average, that contradicts itself, or that lacks a record on which the average depends; the error
 * names the record. ERR_MEMORY. O(records * (log records + incarnations)). */
NODISCARD int replay_plan_new(const struct replay_log *log, struct replay_plan **out,
                              struct err *err);
void replay_plan_free(struct replay_plan **plan);

#endif
