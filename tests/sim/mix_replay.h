/* mix_replay.h: the states that a log of mixes determines (schema/mix.h, docs/adr/0144), computed
 * from the log and the job alone. Pure; nothing is kept between two logs. */
#ifndef TESTS_SIM_MIX_REPLAY_H
#define TESTS_SIM_MIX_REPLAY_H

#include "tests/sim/mix_digest.h"

#define REPLAY_RECORDS_MAX 8192
#define REPLAY_STATES_MAX 8192
#define REPLAY_ATTEMPTS_MAX 64

struct mix_replay {
    struct reference_job job; /* of any group: units, batches, where it begins */
    int64_t samples_seed[GROUPS_MAX]
                        [REPLAY_ATTEMPTS_MAX]; /* of each job of a group, from the first */
    struct digest_stage stage;                 /* for one step at a time: it is large */
    const struct mix_record *record[REPLAY_RECORDS_MAX]; /* borrowed */
    size_t record_count;
    struct {
        struct mix_member at;
        int64_t rate_step;
        struct mix_state state;
    } known[REPLAY_STATES_MAX];
    size_t known_count;
    char failure[200]; /* "": none; else why a state cannot be computed */
};

void mix_replay_add(struct mix_replay *replay, const struct mix_record *record);
/* The state of a group after that version and so many mixes. NULL: see failure. */
const struct mix_state *mix_replay_state(struct mix_replay *replay, const struct mix_member *at);
/* An average that its author has computed. false: see failure. */
bool mix_replay_average(struct mix_replay *replay, const struct mix_record *record,
                        struct mix_state *out);

#endif
