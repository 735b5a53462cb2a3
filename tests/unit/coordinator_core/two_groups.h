/* two_groups.h: two groups of one job of gossip, for tests of what they are told. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_TWO_GROUPS_H
#define TESTS_UNIT_COORDINATOR_CORE_TWO_GROUPS_H

#include "coordinator/core/gossip/gossip.h"

enum { SAMPLES = 3200, BATCH = 32 };

/* Both are present, and not heard yet. */
static inline void init_two(struct gossip *gossip)
{
    const struct gossip_rules options = {
        .seed = 1, .life = 4, .batch = BATCH, .level = true, .average_every = 1000};
    gossip_init(gossip, &options);
    for (size_t g = 0; g < 2; g++) {
        gossip_enter(gossip, g, 1, SAMPLES, 320, false, 0);
    }
}

#endif
