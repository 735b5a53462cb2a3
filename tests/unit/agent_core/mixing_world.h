/* mixing_world.h: groups that train, mix, average, die and are replaced, over a network that loses,
 * repeats and delays, with a coordinator that stores their records. States are numbers. For tests
 * of the law of the mix log; one thread. */
#ifndef TESTS_UNIT_AGENT_CORE_MIXING_WORLD_H
#define TESTS_UNIT_AGENT_CORE_MIXING_WORLD_H

#include "agent/core/mixing.h"
#include "base/rng.h"

enum { MIXING_MOST = 5, MIXING_EVENTS = 1500, MIXING_MATCHES = 256, MIXING_LOG = 1024 };

/* ---- states ---- */

uint64_t mixing_first_state(int64_t group, int64_t generation);
uint64_t mixing_step(uint64_t state, int64_t version);
uint64_t mixing_move(uint64_t state, uint64_t own, uint64_t peer, double alpha);
/* Add the next state to an average, which begins with 0. */
uint64_t mixing_add(uint64_t average, uint64_t state);

/* ---- the world ---- */

struct mixing_buffers {
    uint64_t own, peer[GROUPS_MAX], average;
};

struct mixing_group {
    struct mixing mixing;
    int64_t version;
    uint64_t state;
    struct mixing_buffers buffer[MIXING_PLACES];
};

struct mixing_world {
    struct rng_stream random;
    uint64_t draws;
    size_t count;
    bool adopts;
    struct mixing_group group[MIXING_MOST];
    struct mix_match match[MIXING_MATCHES]; /* that were sent; any may come again, and late */
    size_t matches;
    int64_t counter;
    struct mix_record log[MIXING_LOG];
    size_t logged, applied;
    struct {
        struct mix_xid xid;
        struct mix_member own;
    } moved[MIXING_LOG]; /* [applied] */
    bool continues;      /* incarnations continue with an average or a state that is in the log */
    struct mixing_average {
        struct mix_xid xid;
        struct mix_member author;
        uint64_t state;
    } average[MIXING_LOG]; /* [averages] that were computed */
    size_t averages;
};

/* Let a world happen. continues: as the member; then the log has the starts, too. */
void mixing_world_run(struct mixing_world *world, uint64_t seed, bool continues);

#endif
