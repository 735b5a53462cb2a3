/* gossip_life.h: names of the coordinator's lives where the time of day is none (docs/adr/0153).
 * Pure. */
#ifndef COORDINATOR_CORE_GOSSIP_LIFE_H
#define COORDINATOR_CORE_GOSSIP_LIFE_H

#include <stdint.h>

#define LIVES_SKIPPED_MAX (1 << 20) /* milliseconds: 17 minutes of the time of day */

/* Return a life after the last one that is known. A restored backup may have lost later ones, and
 * nobody need know them: each core draws its own, by the seed of its start. */
int64_t gossip_life_after(uint64_t core_seed, int64_t last);

#endif
