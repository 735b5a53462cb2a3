/* pipeline.h: the strategy `pipeline`: every stage keeps units, computes all micro-batches of them,
 * and exchanges activations and gradients with the stages before and after it. */
#ifndef COORDINATOR_CORE_PLACEMENT_PIPELINE_H
#define COORDINATOR_CORE_PLACEMENT_PIPELINE_H

#include "coordinator/core/placement/strategy.h"

extern const struct strategy pipeline_strategy;

#endif
