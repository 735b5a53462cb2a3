/* replay_log.h: an index of the records of a gossip job's mixes (schema/mix.h), and the checks that
 * do not depend on which part is replayed. For replay_plan.c. Pure. */
#ifndef AGENT_OFFLINE_REPLAY_LOG_H
#define AGENT_OFFLINE_REPLAY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/mix.h"

/* An incarnation of a group: its moves in order. */
struct replay_incarnation {
    const struct mix_record *start;
    const struct mix_record *const *move; /* [moves] move[m]->applied_mixes is m */
    size_t moves;
};

struct replay_index {
    const struct mix_record **by_xid;       /* [count] by match, kind, group and generation */
    const struct mix_record **own;          /* starts and moves by incarnation, in order */
    const struct mix_record **average;      /* [averages] by match, group and generation */
    const struct mix_record **stored;       /* [stored_count] by match: the sender of its average */
    struct replay_incarnation *incarnation; /* [incarnations] by group and generation */
    size_t count, averages, incarnations, stored_count;
};

/* Build the index. Call replay_index_done(out), also on failure. The records are borrowed.
 * ERR_INVALID names a record that is malformed, duplicate, out of order, of a group that the job
 * does not have or of an incarnation without a start, or that contradicts another one;
 * ERR_MEMORY. */
NODISCARD int replay_index_new(const struct mix_record *record, size_t count, size_t groups,
                               struct replay_index *out, struct err *err);
void replay_index_done(struct replay_index *index);

/* Return the position of an incarnation in the index; `incarnations`: it has no start. */
size_t replay_index_find(const struct replay_index *index, const struct mix_member *member);
/* Return the position of the average of a match by this author, a group and generation; NULL: the
 * first average of any author; `averages`: there is none. */
size_t replay_index_average(const struct replay_index *index, struct mix_xid xid,
                            const struct mix_member *author);
/* Return the record that says which average of a match became a checkpoint; NULL: none did. */
const struct mix_record *replay_index_stored(const struct replay_index *index, struct mix_xid xid);
/* Return whether both are averages of the same copies with the same shares, in the same order. */
bool replay_averages_agree(const struct mix_record *a, const struct mix_record *b);

/* Check that the incarnation had the state of this copy. ERR_INVALID if it did not, or if its
 * records do not say how it reached that state. by: the record that names the copy. */
NODISCARD int replay_check_copy(const struct replay_incarnation *incarnation,
                                const struct mix_member *copy, const struct mix_record *by,
                                struct err *err);
/* Return the number of moves of an incarnation up to and including the one after the step
 * `version`. */
size_t replay_moves_until(const struct replay_incarnation *incarnation, int64_t version);

static inline bool replay_is_of(const struct mix_member *a, const struct mix_member *b)
{
    return a->group == b->group && a->generation == b->generation;
}

static inline bool replay_is_copy(const struct mix_member *a, const struct mix_member *b)
{
    return replay_is_of(a, b) && a->version == b->version && a->mixes == b->mixes;
}

#define REPLAY_NAME_MAX 128
struct replay_name {
    char text[REPLAY_NAME_MAX];
};
/* Return the name of a record for errors: "pair 1:42 of group 2, generation 1048577". */
struct replay_name replay_name(const struct mix_record *record);

#endif
