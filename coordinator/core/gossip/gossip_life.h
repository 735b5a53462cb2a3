/* gossip_life.h: numbers of the coordinator's lives when the time of day cannot serve as one
 * (docs/adr/0153). Pure. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_LIFE_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_LIFE_H

#include <stdint.h>

#define LIVES_SKIPPED_MAX (1 << 20) /* milliseconds: 17 minutes of the time of day */

/* Return a life after the last known one. A restored backup may have lost later lives. They need
 * not be known, because each core draws its own life from the seed of its start. */
int64_t gossip_life_after(uint64_t core_seed, int64_t last);

#endif
