/* replay_needs.h: finds the records and copies of the log (replay_log.h) on which the wanted
 * averages depend. For replay_plan.c. Pure. */
#ifndef AGENT_OFFLINE_REPLAY_NEEDS_H
#define AGENT_OFFLINE_REPLAY_NEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/offline/replay_log.h"
#include "base/err.h"

/* A record needs the state of an incarnation after that number of mixes and that step. */
struct replay_want {
    size_t incarnation;
    int64_t mixes, version;
    const struct mix_record *by; /* START: it begins with the whole state */
};

/* The needed part of an incarnation; none without wants. */
struct replay_life {
    size_t moves;      /* the number of needed moves, from the first */
    size_t first, end; /* its wants */
};

struct replay_needs {
    struct replay_want *want; /* [wants] by incarnation, mixes, version and match */
    size_t wants;
    struct replay_life *life;      /* [incarnations] */
    size_t *uses;                  /* [averages] by moves and starts, and as a wanted average */
    const struct mix_record *last; /* the last average */
};

/* Find the needs. all: all averages are wanted, not only the last one. Call replay_needs_done(out),
 * also on failure. ERR_INVALID for a log without an average, and if a record is missing or
 * contradicts another one; ERR_MEMORY. */
NODISCARD int replay_needs_find(const struct replay_index *index, bool all,
                                struct replay_needs *out, struct err *err);
void replay_needs_done(struct replay_needs *needs);

/* Return the first want of a needed copy. */
size_t replay_needs_want(const struct replay_needs *needs, const struct replay_index *index,
                         const struct mix_member *copy);
/* Return the index of the average that a record is about, or to which a start or an adoption
 * moves. */
size_t replay_needs_average(const struct replay_index *index, const struct mix_record *record);
bool replay_wants_agree(const struct replay_want *a, const struct replay_want *b);

#endif
