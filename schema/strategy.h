/* strategy.h: how the devices of a job train together. */
#ifndef SCHEMA_STRATEGY_H
#define SCHEMA_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/model/reduce.h"

enum job_strategy {
    STRATEGY_PIPELINE,
    STRATEGY_SUBMODEL,
    STRATEGY_PARAMETER_SERVER,
    STRATEGY_GOSSIP,
    STRATEGY_COUNT
};
/* Every strategy has a row in the table, which is an array by enum job_strategy. */
#define STRATEGY_TABLE_CHECK(table)                                                                \
    _Static_assert(sizeof(table) / sizeof((table)[0]) == STRATEGY_COUNT,                           \
                   "the last strategy has no row in '" #table "'")
extern const char *const job_strategy_names[];
/* Return whether a job consists of parts that are jobs of their own. */
bool strategy_has_parts(int strategy);
/* Return whether these parts train slices of the model, which is divided before they begin. */
bool strategy_has_slices(int strategy);
/* Return the order in which a job adds the gradients of a step's micro-batches. It does not depend
 * on the number of devices. strategy: enum job_strategy. */
enum reduction strategy_reduction(int strategy);
/* Return the first version of the protocol whose agents can train the strategy. Parts are
 * pipelines, with fields that have versions of their own. */
int64_t strategy_since(int strategy);

#endif
